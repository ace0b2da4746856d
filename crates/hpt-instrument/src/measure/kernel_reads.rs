//! Readings that the kernel makes: the kernel module hpt_cycles (kmod/ in hpt's repository) reads the kernel's clock, or
//! the cycle counter, 1000 times in a row. This module does not wait by itself and does not convert cycles.

use std::{fs::File, io, os::unix::fs::FileExt};

use hpt_core::stats::Histogram;
use hpt_sys::{OsError, host::Host};

/// The directory of the module's files.
const FOLDER: &str = "/sys/kernel/debug/hpt_cycles";
/// The content of a file takes at most this many bytes: 999 lines of at most 21 bytes.
const LONGEST: usize = 32 << 10;

/// A counter that the kernel reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelCounter {
    /// The kernel's clock, with `ktime_get_real_ts64`, the successor of `getnstimeofday`. A tick is a nanosecond.
    Clock,
    /// The cycle counter of the CPU that runs the calling thread, with a bare instruction. A tick is a cycle.
    Cycles,
}

impl KernelCounter {
    fn path(self) -> String {
        let name = match self {
            Self::Clock => "clock_ns",
            Self::Cycles => "cycles",
        };
        format!("{FOLDER}/{name}")
    }
}

/// The reason why the kernel's readings are not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelReadsError {
    /// The kernel module is not loaded.
    #[error(
        "the kernel module hpt_cycles, which makes readings in the kernel, is not loaded; load it (kmod/ in hpt's repository; there is none for processors other than ARM)"
    )]
    NotLoaded,
    /// The kernel module is loaded, but its file does not exist.
    #[error(
        "hpt_cycles is loaded, but {path} does not exist; mount debugfs (mount -t debugfs none /sys/kernel/debug), or load the version of hpt_cycles that belongs to this version of hpt"
    )]
    NoFile {
        /// The file.
        path: String,
    },
    /// The file can be read by root only.
    #[error("only root can read {path}; run as root")]
    Denied {
        /// The file.
        path: String,
    },
    /// The cycle counter of the CPU is not open, so it may have stopped.
    #[error(
        "hpt_cycles does not read the cycle counter of this CPU, because it is not open (state: {state}); /sys/module/hpt_cycles/parameters/why states the reason"
    )]
    NotOpen {
        /// The states of the CPUs' counters, as the module reports them.
        state: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: String,
        /// The kernel's error.
        #[source]
        cause: OsError,
    },
    /// The content of the file is not a list of at least one difference.
    #[error(
        "{path} does not contain differences of readings, one per line; load the version of hpt_cycles that belongs to this version of hpt"
    )]
    Malformed {
        /// The file.
        path: String,
    },
}

/// The kernel's readings of one counter, in the order in which the kernel made them.
///
/// # References
///
/// kmod/README.md in hpt's repository, "Readings in the kernel".
#[derive(Debug)]
pub struct KernelReads {
    counter: KernelCounter,
    file: File,
    host: Host,
    /// Allocated once, so that no read waits for memory.
    buffer: Vec<u8>,
}

impl KernelReads {
    /// Opens the module's file.
    ///
    /// # Errors
    ///
    /// Returns [`KernelReadsError`] if the module is not loaded, or if its file cannot be opened.
    pub fn open(host: &Host, counter: KernelCounter) -> Result<Self, KernelReadsError> {
        let path = counter.path();
        let is_loaded = host.opened_cycles().is_some();
        let file = host.open_to_read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied if !is_loaded => KernelReadsError::NotLoaded,
            io::ErrorKind::NotFound => KernelReadsError::NoFile { path: path.clone() },
            io::ErrorKind::PermissionDenied => KernelReadsError::Denied { path: path.clone() },
            _ => KernelReadsError::Unreadable { path: path.clone(), cause: cause.into() },
        })?;
        Ok(Self { counter, file, host: host.clone(), buffer: vec![0; LONGEST] })
    }

    /// Makes the kernel read 1000 times in a row, and returns the difference of the first two readings, in ticks: the
    /// pair that follows the pause of the program before this call. Returns `None` if the clock was set back between
    /// the two.
    ///
    /// # Errors
    ///
    /// Returns [`KernelReadsError`] if the kernel does not read the counter, for example because perf uses it.
    pub fn pair(&mut self) -> Result<Option<u64>, KernelReadsError> {
        Ok(self.differences()?.first().copied().and_then(|difference| u64::try_from(difference).ok()))
    }

    /// Makes the kernel read 1000 times in a row, and returns the differences of consecutive readings, in ticks.
    /// Differences across a step of the clock backward are left out.
    ///
    /// # Errors
    ///
    /// As [`pair`](Self::pair).
    pub fn chain(&mut self) -> Result<Histogram, KernelReadsError> {
        let mut chain = Histogram::new();
        let differences = self.differences()?;
        differences.into_iter().filter_map(|it| u64::try_from(it).ok()).for_each(|it| chain.record(it));
        Ok(chain)
    }

    fn differences(&mut self) -> Result<Vec<i64>, KernelReadsError> {
        let path = self.counter.path();
        let mut length = 0;
        // Reading from the start of the file makes the kernel measure.
        while length < self.buffer.len() {
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                    let state = self.host.opened_cycles().unwrap_or_else(|| "unknown".to_owned());
                    return Err(KernelReadsError::NotOpen { state });
                }
                Err(cause) => return Err(KernelReadsError::Unreadable { path, cause: cause.into() }),
            }
        }
        parse(&self.buffer[..length]).ok_or(KernelReadsError::Malformed { path })
    }
}

/// Parses one number per line. Returns `None` if there is no line, or if a line is not a number or not complete.
fn parse(content: &[u8]) -> Option<Vec<i64>> {
    let lines = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
    lines.split('\n').map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    use proptest::prelude::{any, proptest};

    use super::{KernelCounter, KernelReads, KernelReadsError, parse};
    use hpt_sys::host::{Facts, Host};

    const CLOCK: &str = "sys/kernel/debug/hpt_cycles/clock_ns";
    const STATE: &str = "sys/module/hpt_cycles/parameters/state";

    fn write(folder: &Path, path: &str, content: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("the path has a parent")).expect("a new directory");
        fs::write(path, content).expect("a writable file");
    }

    fn refused(host: &Host) -> KernelReadsError {
        KernelReads::open(host, KernelCounter::Clock).expect_err("it cannot be opened")
    }

    #[test]
    fn the_first_difference_is_the_pair_and_all_are_the_chain() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        write(folder.path(), CLOCK, "485\n288\n-7000\n290\n");
        let mut clock = KernelReads::open(&host, KernelCounter::Clock).expect("it can be read");
        assert_eq!((clock.pair(), clock.pair()), (Ok(Some(485)), Ok(Some(485))));
        let chain = clock.chain().expect("differences").spread(1.0).expect("three");
        assert_eq!((chain.samples, chain.min_ns, chain.max_ns), (3, 288.0, 485.0));
        // A clock that was set back between the two readings of the pair.
        write(folder.path(), CLOCK, "-1\n288\n");
        assert_eq!(clock.pair(), Ok(None));
        for damaged in ["", "\n", "485", "485\n288", "485\n\n", "four\n", "485 \n", "99999999999999999999\n"] {
            write(folder.path(), CLOCK, damaged);
            assert!(matches!(clock.pair(), Err(KernelReadsError::Malformed { .. })), "{damaged:?}");
        }
    }

    #[test]
    fn a_missing_module_file_or_permission_is_named_with_its_fix() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        assert_eq!(refused(&host), KernelReadsError::NotLoaded);
        write(folder.path(), STATE, "open 0-3\n");
        let missing = refused(&host);
        assert!(missing.to_string().contains("mount -t debugfs none /sys/kernel/debug"), "{missing}");
        write(folder.path(), CLOCK, "485\n");
        let file = folder.path().join(CLOCK);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("our file");
        match fs::read(&file) {
            Ok(_) => assert!(KernelReads::open(&host, KernelCounter::Clock).is_ok(), "root may read every file"),
            Err(_) => assert!(matches!(refused(&host), KernelReadsError::Denied { .. })),
        }
        // Opening a directory succeeds, but reading it does not.
        fs::create_dir_all(folder.path().join("sys/kernel/debug/hpt_cycles/cycles")).expect("a new directory");
        let mut cycles = KernelReads::open(&host, KernelCounter::Cycles).expect("it can be opened");
        assert!(matches!(cycles.pair(), Err(KernelReadsError::Unreadable { .. })));
    }

    proptest! {
        #[test]
        fn every_list_of_numbers_is_parsed_and_no_content_panics(numbers: Vec<i64>, content: Vec<u8>, cut in any::<u8>()) {
            let text: String = numbers.iter().map(|number| format!("{number}\n")).collect();
            let expected = (!numbers.is_empty()).then_some(numbers);
            assert_eq!(parse(text.as_bytes()), expected);
            let _ = (parse(&content), parse(&text.as_bytes()[..text.len().min(cut.into())]));
        }
    }
}
