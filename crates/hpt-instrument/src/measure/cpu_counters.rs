//! The increases of the kernel's counters for a CPU and a thread between two reads: interrupts, softirqs, context
//! switches, wait time, steal time and firmware interrupts. Files stay open and memory stays allocated, so that reading
//! the counters disturbs the measurement as little as possible. This module draws no conclusions; `diagnose` does.

pub use hpt_document::stall::CounterKind;
use std::{fs::File, os::unix::fs::FileExt};

use hpt_sys::{
    OsError,
    host::{Host, count_lines, stolen_hundredths, waited_ns},
    process::{Switches, current_cpu, thread_switches},
    units::saturating_nanos,
};

use super::{open_file::read, throttling::Throttling};

pub(super) const INTERRUPTS: &str = "/proc/interrupts";
const SOFT_INTERRUPTS: &str = "/proc/softirqs";
pub(super) const STATISTICS: &str = "/proc/stat";
pub(super) const WAITS: &str = "/proc/thread-self/schedstat";
/// The maximum number of counters. It limits memory use on a machine that keeps adding lines.
const MOST_COUNTERS: usize = 16_384;
/// A hundredth of a second, in nanoseconds.
pub(super) const HUNDREDTH_NS: u64 = 10_000_000;
/// The address of the register MSR_SMI_COUNT, which is read through the processor's msr device. Intel processors have
/// had this register since Nehalem; processors from other vendors have no such register. Source: Intel SDM vol. 4,
/// table 2-2 and following, 34H.
const SMI_COUNT: u64 = 0x34;

/// A counter that the kernel maintains for each CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counter {
    /// The kind of event that this counter counts.
    pub kind: CounterKind,
    /// The kernel's name for the counter.
    pub name: String,
    /// The rest of the kernel's line, which can be empty.
    pub label: String,
}

impl Counter {
    /// Creates a counter of this kind, with this name and label.
    #[must_use]
    pub fn new(kind: CounterKind, name: impl Into<String>, label: impl Into<String>) -> Self {
        Self { kind, name: name.into(), label: label.into() }
    }
}

/// The increase of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterDelta {
    /// The index of the counter in [`CpuCounters::counters`].
    pub counter: usize,
    /// The amount by which the counter increased.
    pub increase: u64,
}

impl CounterDelta {
    /// Creates a value for an increase of the counter with this index.
    #[must_use]
    pub const fn new(counter: usize, increase: u64) -> Self {
        Self { counter, increase }
    }
}

/// A file that could not be opened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct UnreadableFile {
    /// The path of the file.
    pub path: &'static str,
    /// The error that the kernel returned.
    pub cause: OsError,
}

impl UnreadableFile {
    /// Creates a value for the file with this path, which could not be opened because of this error.
    pub fn new(path: &'static str, cause: impl Into<OsError>) -> Self {
        Self { path, cause: cause.into() }
    }
}

/// The increases between two reads. Values that could not be read are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CounterDeltas {
    /// The time since the previous read, in nanoseconds.
    pub window_ns: u64,
    /// Voluntary context switches: the thread waited for something, or was stopped.
    pub voluntary: Option<u64>,
    /// Involuntary context switches.
    pub involuntary: Option<u64>,
    /// Major page faults: pages read from a disk.
    pub major_faults: Option<u64>,
    /// The time for which the thread was runnable but not running, in nanoseconds.
    pub waited_ns: Option<u64>,
    /// Whether the thread was on a different CPU at the previous read.
    pub migrated: bool,
    /// The steal time that the hypervisor reports, in nanoseconds, as a multiple of 10 ms.
    pub stolen_ns: Option<u64>,
    /// The time for which the CPU quota of the thread's control group paused the threads of the group, in nanoseconds.
    pub throttled_ns: Option<u64>,
    /// The number of firmware interrupts (SMI) on this core.
    pub firmware: Option<u64>,
    /// The counters that increased; `None` if neither /proc/interrupts nor /proc/softirqs could be read.
    pub counts: Option<Vec<CounterDelta>>,
}

impl CounterDeltas {
    /// Adds the increases from the previous window.
    pub fn add(&mut self, before: &Self) {
        let sum =
            |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one + other).or(one).or(other);
        self.window_ns += before.window_ns;
        self.voluntary = sum(self.voluntary, before.voluntary);
        self.involuntary = sum(self.involuntary, before.involuntary);
        self.major_faults = sum(self.major_faults, before.major_faults);
        self.waited_ns = sum(self.waited_ns, before.waited_ns);
        self.migrated |= before.migrated;
        self.stolen_ns = sum(self.stolen_ns, before.stolen_ns);
        self.throttled_ns = sum(self.throttled_ns, before.throttled_ns);
        self.firmware = sum(self.firmware, before.firmware);
        for &delta in before.counts.iter().flatten() {
            let counts = self.counts.get_or_insert_default();
            match counts.iter_mut().find(|other| other.counter == delta.counter) {
                Some(sum) => sum.increase += delta.increase,
                None => counts.push(delta),
            }
        }
    }
}

/// The counters of one CPU, or their sums over all CPUs, and the counters of the thread that opened this value. Read
/// the counters on that thread.
#[derive(Debug)]
pub struct CpuCounters {
    cpu: Option<usize>,
    tables: [Table; 2],
    statistics: Option<File>,
    waits: Option<File>,
    firmware: Option<File>,
    throttling: Throttling,
    buffer: Vec<u8>,
    counters: Vec<Counter>,
    before: Standing,
    unreadable: Vec<UnreadableFile>,
}

/// A file in which each line contains the counts of one counter for all CPUs.
#[derive(Debug)]
struct Table {
    kind: CounterKind,
    file: Option<File>,
    /// The index of the counter on each line.
    places: Vec<usize>,
}

/// The previous values.
#[derive(Debug, Default)]
struct Standing {
    at_ns: u64,
    switches: Option<Switches>,
    waited_ns: Option<u64>,
    on_cpu: Option<usize>,
    stolen: Option<u64>,
    firmware: Option<u64>,
    /// The counts, one per counter.
    counts: Vec<Option<u64>>,
}

impl CpuCounters {
    /// Opens the counters that `host` provides for the calling thread and for `cpu`, on which the thread runs. If the
    /// thread is not pinned, `cpu` is `None`, and the counts of all CPUs are added up.
    #[must_use]
    pub fn open(host: &Host, cpu: Option<usize>) -> Self {
        let mut unreadable = Vec::new();
        let mut opened = |path: &'static str| match host.open_to_read(path) {
            Ok(file) => Some(file),
            Err(cause) => {
                unreadable.push(UnreadableFile::new(path, OsError::from(cause)));
                None
            }
        };
        let tables = [
            Table { kind: CounterKind::Interrupt, file: opened(INTERRUPTS), places: Vec::new() },
            Table { kind: CounterKind::SoftInterrupt, file: opened(SOFT_INTERRUPTS), places: Vec::new() },
        ];
        let (statistics, waits) = (opened(STATISTICS), opened(WAITS));
        // Most machines have no such device, or allow only root to read it, so its absence is not reported.
        let firmware = cpu.and_then(|cpu| host.open_to_read(&format!("/dev/cpu/{cpu}/msr")).ok());
        let mut buffer = vec![0; 16 << 10];
        let mut counters = Self {
            cpu,
            tables,
            statistics,
            waits,
            firmware: firmware.filter(|file| smi_count(file).is_some()),
            throttling: Throttling::open(host, &mut buffer),
            buffer,
            counters: Vec::new(),
            before: Standing::default(),
            unreadable,
        };
        counters.read_deltas(0);
        counters
    }

    /// Returns the counters in the order of their indices. New counters are appended.
    #[must_use]
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Returns the files that could not be opened, each with the reason.
    #[must_use]
    pub fn unreadable(&self) -> &[UnreadableFile] {
        &self.unreadable
    }

    /// Returns whether the count of firmware interrupts on this core can be read.
    #[must_use]
    pub const fn counts_firmware(&self) -> bool {
        self.firmware.is_some()
    }

    /// Returns the increases since the last call. `now_ns` is the current time, in nanoseconds.
    pub fn read_deltas(&mut self, now_ns: u64) -> CounterDeltas {
        // The thread's own counters are read first, because reading the other counters can take a while.
        let switches = thread_switches().ok();
        let on_cpu = current_cpu();
        let waited = self.waits.as_mut().and_then(|file| read(file, &mut self.buffer)).and_then(waited_ns);
        let throttled = self.throttling.since(&mut self.buffer);
        let firmware = self.firmware.as_ref().and_then(smi_count);
        let cpu = self.cpu;
        let stolen = self.statistics.as_mut().and_then(|file| read(file, &mut self.buffer));
        let stolen = stolen.and_then(|text| stolen_hundredths(text, cpu));
        let mut counts: Option<Vec<CounterDelta>> = None;
        for table in &mut self.tables {
            let Some(text) = table.file.as_mut().and_then(|file| read(file, &mut self.buffer)) else { continue };
            let deltas = counts.get_or_insert_default();
            for (line, found) in count_lines(text, cpu).enumerate() {
                let Some(place) = table.place(line, found.name, found.label, &mut self.counters) else { break };
                if self.before.counts.len() <= place {
                    self.before.counts.resize(place + 1, None);
                }
                let before = self.before.counts[place].replace(found.count);
                let increase = before.map_or(0, |before| forwards(before, found.count));
                if increase > 0 {
                    deltas.push(CounterDelta::new(place, increase));
                }
            }
        }
        let before = &self.before;
        let by = |now: Option<u64>, before: Option<u64>| Some(forwards(before?, now?));
        let own = |count: fn(&Switches) -> u64| by(switches.as_ref().map(count), before.switches.as_ref().map(count));
        let found = CounterDeltas {
            window_ns: now_ns.saturating_sub(before.at_ns),
            voluntary: own(|switches| switches.voluntary),
            involuntary: own(|switches| switches.involuntary),
            major_faults: own(|switches| switches.major_faults),
            waited_ns: by(waited, before.waited_ns),
            migrated: on_cpu.zip(before.on_cpu).is_some_and(|(now, before)| now != before),
            stolen_ns: by(stolen, before.stolen).map(|hundredths| hundredths * HUNDREDTH_NS),
            throttled_ns: throttled.map(|throttled| saturating_nanos(throttled.time)),
            firmware: by(firmware, before.firmware),
            counts,
        };
        self.before = Standing {
            at_ns: now_ns,
            switches,
            waited_ns: waited,
            on_cpu,
            stolen,
            firmware,
            counts: std::mem::take(&mut self.before.counts),
        };
        found
    }
}

impl Table {
    /// Returns the index of the counter on a line. The index is usually the same as at the previous read.
    fn place(&mut self, line: usize, name: &str, label: &str, counters: &mut Vec<Counter>) -> Option<usize> {
        let kind = self.kind;
        let is = |counter: &Counter| counter.kind == kind && counter.name == name;
        if let Some(&place) = self.places.get(line).filter(|&&place| is(&counters[place])) {
            return Some(place);
        }
        let known = counters.iter().position(is);
        let place = known.unwrap_or(counters.len());
        if known.is_none() {
            if counters.len() >= MOST_COUNTERS {
                return None;
            }
            counters.push(Counter::new(kind, name, label));
        }
        self.places.truncate(line);
        if self.places.len() == line {
            self.places.push(place);
        }
        Some(place)
    }
}

/// Returns the increase of a counter, even if a 32-bit counter has wrapped.
pub(super) const fn forwards(before: u64, now: u64) -> u64 {
    match now.checked_sub(before) {
        Some(by) => by,
        None if before <= u32::MAX as u64 => (now.wrapping_sub(before)) & u32::MAX as u64,
        None => 0,
    }
}

pub(super) fn smi_count(file: &File) -> Option<u64> {
    let mut count = [0; 8];
    file.read_exact_at(&mut count, SMI_COUNT).ok()?;
    Some(u64::from_le_bytes(count) & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{CounterDelta, CounterDeltas, CounterKind, CpuCounters, forwards};
    use hpt_sys::host::{Facts, Host};

    fn host(root: &Path) -> Host {
        Host::below(root, Facts::live())
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join("proc").join(name);
        fs::create_dir_all(path.parent().expect("a parent directory")).expect("a new directory");
        fs::write(path, text).expect("ours");
    }

    fn deltas_of(counts: &[(usize, u64)]) -> Vec<CounterDelta> {
        counts.iter().map(|&(counter, increase)| CounterDelta::new(counter, increase)).collect()
    }

    /// The increases by name.
    fn named(counters: &CpuCounters, deltas: &CounterDeltas) -> Vec<(String, u64)> {
        let counts = deltas.counts.iter().flatten();
        counts.map(|delta| (counters.counters()[delta.counter].name.clone(), delta.increase)).collect()
    }

    #[test]
    fn only_increases_on_this_cpu_since_the_last_read_are_reported() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let root = folder.path();
        write(root, "interrupts", "CPU0 CPU1\n 5: 1 2 chip  dev\nLOC: 10 20 Local timer\n");
        write(root, "softirqs", "CPU0 CPU1\nTIMER: 3 4\n");
        write(root, "stat", "cpu 0 0 0 0 0 0 0 9\ncpu1 0 0 0 0 0 0 0 4\n");
        write(root, "thread-self/schedstat", "1 100 1\n");
        let mut counters = CpuCounters::open(&host(root), Some(1));
        assert_eq!((counters.unreadable(), counters.counts_firmware()), (&[][..], false));
        let kinds: Vec<_> = counters.counters().iter().map(|counter| counter.kind).collect();
        assert_eq!(kinds, [CounterKind::Interrupt, CounterKind::Interrupt, CounterKind::SoftInterrupt]);
        let deltas = counters.read_deltas(5);
        assert_eq!(named(&counters, &deltas), []);
        // A line was inserted, one counter increased, one wrapped, and there was steal time.
        write(root, "interrupts", "CPU0 CPU1\n 4: 0 9 chip  other\n 5: 7 2 chip  dev\nLOC: 90 23 Local timer\n");
        write(root, "softirqs", "CPU0 CPU1\nTIMER: 3 6\n");
        write(root, "stat", "cpu 0 0 0 0 0 0 0 19\ncpu1 0 0 0 0 0 0 0 7\n");
        write(root, "thread-self/schedstat", "1 150 1\n");
        let deltas = counters.read_deltas(25);
        assert_eq!(named(&counters, &deltas), [("LOC".to_owned(), 3), ("TIMER".to_owned(), 2)]);
        assert_eq!((deltas.window_ns, deltas.waited_ns, deltas.stolen_ns), (20, Some(50), Some(30_000_000)));
        write(root, "interrupts", "CPU0 CPU1\n 4: 0 11 chip  other\n 5: 7 3 chip  dev\nLOC: 90 23 Local timer\n");
        let deltas = counters.read_deltas(30);
        assert_eq!(named(&counters, &deltas), [("4".to_owned(), 2), ("5".to_owned(), 1)]);
    }

    #[test]
    fn missing_counters_are_named_and_have_no_values() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut counters = CpuCounters::open(&host(folder.path()), Some(0));
        assert_eq!(counters.unreadable().len(), 4);
        let deltas = counters.read_deltas(1);
        assert_eq!((deltas.counts, deltas.waited_ns, deltas.stolen_ns, deltas.firmware), (None, None, None, None));
        // A file without the CPU's column has no counts for it.
        write(folder.path(), "interrupts", "CPU1\nLOC: 5 Local timer\n");
        write(folder.path(), "softirqs", "");
        let mut counters = CpuCounters::open(&host(folder.path()), Some(0));
        assert!(counters.counters().is_empty() && counters.read_deltas(1).counts == Some(Vec::new()));
    }

    #[test]
    fn windows_add_up() {
        let window = |waited_ns, counts: &[(usize, u64)]| CounterDeltas {
            window_ns: 5,
            waited_ns,
            voluntary: Some(1),
            counts: Some(deltas_of(counts)),
            ..CounterDeltas::default()
        };
        let mut both = window(None, &[(0, 1), (2, 5)]);
        both.add(&window(Some(7), &[(2, 1), (3, 4)]));
        assert_eq!((both.window_ns, both.waited_ns, both.voluntary), (10, Some(7), Some(2)));
        assert_eq!(both.counts, Some(deltas_of(&[(0, 1), (2, 6), (3, 4)])));
    }

    #[test]
    fn counters_of_32_bits_wrap() {
        assert_eq!((forwards(5, 9), forwards(u64::from(u32::MAX), 1), forwards(1 << 40, 3)), (4, 2, 0));
    }

    #[test]
    fn counters_of_this_machine_are_readable() {
        let mut counters = CpuCounters::open(&Host::live(), None);
        let deltas = counters.read_deltas(1_000);
        assert!(deltas.window_ns == 1_000 && deltas.voluntary.is_some());
        if counters.unreadable().is_empty() {
            assert!(!counters.counters().is_empty());
        } else {
            skipped!("{:?}", counters.unreadable());
        }
    }
}
