//! The machine: its files in /proc, /sys and the device tree, and the facts that no file contains. For a host from a
//! system snapshot, it neither opens files nor executes CPUID.
#![cfg_attr(not(feature = "tuning"), allow(dead_code, reason = "only what takes a capture lists all files"))]

mod boot_parameters;
mod cores;
mod cpu;
mod cpu_counts;
mod cpu_list;
mod device_denial;
#[cfg(any(feature = "devices", feature = "tuning"))]
mod devices;
mod emulation;
mod hypervisor;
mod kernel;
mod kernel_log;
mod perf;
mod soc;
mod told;
#[cfg(feature = "tuning")]
mod tuning;

use std::{
    collections::BTreeMap,
    fmt,
    fs::{File, Metadata},
    io::{self, Read},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    panic::{RefUnwindSafe, UnwindSafe},
    path::{Path, PathBuf},
    sync::Arc,
};

#[cfg(any(feature = "devices", feature = "tuning"))]
pub use self::devices::*;
#[cfg(feature = "tuning")]
pub use self::tuning::*;
pub use self::{
    boot_parameters::{BootParameter, KnownParameter},
    cpu::{Cpu, CpuidLeaf, TscFrequency, TscStatement},
    cpu_counts::{CountLine, Stolen, count_lines, ran_and_waited_ns, stolen_hundredths, waited_ns},
    cpu_list::CpuList,
    kernel::{BootId, ClockSources, KernelRelease},
    kernel_log::{KernelLog, LogError, LogLine, NewLogLines},
    perf::PerfEvents,
    soc::ArchTimer,
};
pub use self::{
    cores::{Core, Cores, IDLE_DRIVER, IdleState},
    device_denial::DeviceDenial,
    told::Known,
};
use super::found::find;
pub use crate::architecture::Architecture;
use crate::{
    arch,
    clock::ClockId,
    process,
    units::{Frequency, FrequencyEstimate},
};

/// The largest file that this crate reads. With 512 CPUs and 4000 interrupts, /proc/interrupts is 23 MB in size. A
/// larger file is rejected because its first part would be mistaken for the whole file.
const LARGEST_FILE: u64 = 64 << 20;

/// The files with the kernel command line and the kernel log.
const COMMAND_LINE: &str = "/proc/cmdline";
const KERNEL_LOG: &str = "/dev/kmsg";

/// The frequency of the counter of a RISC-V processor. Linux, Documentation/devicetree/bindings/riscv/cpus.yaml.
const TIMEBASE_FREQUENCY: &str = "/proc/device-tree/cpus/timebase-frequency";

/// The examined machine: the live machine, or a captured one.
#[derive(Clone, Debug)]
pub struct Host {
    root: Root,
    facts: Facts,
    live: bool,
}

/// The location of a machine's files.
#[derive(Clone, Debug)]
enum Root {
    /// In this directory, which is `/`, or another directory in tests that create their own files. Links are followed,
    /// because many of the kernel's files are links.
    Folder(PathBuf),
    /// In memory.
    Recorded(Arc<dyn RecordedFiles>),
}

/// The files of a machine that is examined elsewhere. Each path is an absolute path on that machine.
trait RecordedFiles: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Returns the content of a file, or the error that a read on that machine would have returned.
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    /// Returns whether a file or directory exists at this path.
    fn is_there(&self, path: &str) -> bool;
    /// Returns the names of the entries of a directory, in no particular order.
    fn names(&self, folder: &str) -> Vec<String>;
}

/// A thread's permission to read the counter, as `prctl(PR_GET_TSC)` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum CounterPermission {
    /// `PR_TSC_ENABLE`: reading is allowed.
    Enabled,
    /// `PR_TSC_SIGSEGV`: reading raises SIGSEGV, even in the vDSO.
    Forbidden,
    /// The call failed, so the permission is unknown. For example, the kernel does not support the call on this
    /// machine.
    Unknown,
}

impl CounterPermission {
    /// Queries the current permission of the calling thread.
    #[must_use]
    pub fn of_this_thread() -> Self {
        match process::tsc_permission() {
            process::TscPermission::Enabled => Self::Enabled,
            process::TscPermission::Forbidden => Self::Forbidden,
            process::TscPermission::Unknown => Self::Unknown,
        }
    }
}

/// Facts about a machine that no file contains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Facts {
    /// The instruction set.
    pub architecture: Architecture,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -v`.
    pub kernel_version: String,
    /// Whether the thread that collected the facts may read the counter.
    pub counter_permission: CounterPermission,
    /// Whether the process has a vDSO.
    pub vdso: bool,
    /// Whether the vDSO reads the kernel's clocksource, as measured when the snapshot was taken; `None` if it was not
    /// measured, and for the live system.
    #[cfg_attr(feature = "serde", serde(default))]
    pub reads_by_vdso: Option<bool>,
    /// The resolution that `clock_getres` reports for each of the kernel's clocks, in nanoseconds. The key is the
    /// kernel's name for the clock.
    pub clock_resolutions_ns: BTreeMap<String, u64>,
    /// AT_HWCAP2 in the auxiliary vector: the second set of processor feature bits.
    #[cfg_attr(feature = "serde", serde(default))]
    pub hwcap2: u64,
    /// The CPUID leaves that concern time; empty without CPUID.
    pub cpuid: Vec<CpuidLeaf>,
    /// The emulator that translated the instructions of this program (`qemu-user`); `None` if a processor executed them
    /// directly.
    #[cfg_attr(feature = "serde", serde(default))]
    pub translator: Option<String>,
    /// The system that imitates the Linux kernel for this program, as far as it names itself; `None` if the kernel is
    /// Linux. Its release and version are then not evidence of what the kernel does.
    #[cfg_attr(feature = "serde", serde(default))]
    pub imitator: Option<String>,
    /// The state of the system when the snapshot was taken; `None` for the live system, which is examined on demand.
    #[cfg(feature = "tuning")]
    #[cfg_attr(feature = "serde", serde(default))]
    pub situation: Option<Situation>,
}

impl Facts {
    /// Returns the facts of the live machine, as the calling thread sees them.
    #[must_use]
    pub fn live() -> Self {
        let (kernel_release, kernel_version) = process::kernel_names();
        let banner = read_file_of_the_kernel(Path::new("/proc/version")).ok();
        let banner = banner.map(|banner| String::from_utf8_lossy(&banner).into_owned());
        Self {
            imitator: emulation::imitator(&kernel_release, &kernel_version, banner.as_deref()),
            architecture: Architecture::HERE,
            kernel_release,
            kernel_version,
            counter_permission: CounterPermission::of_this_thread(),
            vdso: process::has_vdso(),
            reads_by_vdso: None,
            clock_resolutions_ns: ClockId::ALL
                .into_iter()
                .filter_map(|clock| Some((clock.kernel_name().to_owned(), clock.resolution_ns().ok()?)))
                .collect(),
            hwcap2: process::hwcap2(),
            cpuid: cpu::leaves(arch::cpuid),
            translator: emulation::translator(),
            #[cfg(feature = "tuning")]
            situation: None,
        }
    }
}

/// Returns the content of a regular file of at most 64 MiB. Rejects pipes and devices, because a read from one might
/// block or continue forever.
///
/// # Errors
///
/// Returns an error if the file cannot be opened or read. The error kind is [`io::ErrorKind::InvalidInput`] if the file
/// is not a regular file, and [`io::ErrorKind::FileTooLarge`] if it is larger than 64 MiB.
pub fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    read_regular_file_and_about(path).map(|(content, _)| content)
}

/// The owner of a file, and its permissions.
#[derive(Clone, Copy, Debug)]
pub struct FileOwner {
    pub owner: u32,
    pub mode: u32,
}

/// Reads a regular file, and also returns its owner and mode.
pub fn read_regular_file_and_about(path: &Path) -> io::Result<(Vec<u8>, FileOwner)> {
    // The file is found and checked before it is opened to read, because opening a device may have side effects. For
    // example, opening a watchdog device starts the watchdog. O_PATH opens no device, and what was checked is what is
    // then read, even if another user exchanges the file in between. open(2).
    let found = find(path)?;
    refuse_what_is_not_regular(&found.metadata()?)?;
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = File::options().read(true).open(same).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(cause.kind(), "it cannot be read safely, because /proc is not mounted")
        }
        _ => cause,
    })?;
    let about = file.metadata()?;
    let content = content_of(file)?;
    Ok((content, FileOwner { owner: about.uid(), mode: about.mode() }))
}

/// Reads a regular file of the machine itself. Only the kernel and root can put another file in its place.
fn read_file_of_the_kernel(path: &Path) -> io::Result<Vec<u8>> {
    refuse_what_is_not_regular(&path.metadata()?)?;
    // O_NONBLOCK: opening a pipe must not wait for a writer. The flag has no effect on a regular file.
    content_of(File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?)
}

fn refuse_what_is_not_regular(about: &Metadata) -> io::Result<()> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    if about.is_file() { Ok(()) } else { Err(refused()) }
}

fn content_of(file: File) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST_FILE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
    }
    Ok(content)
}

impl Host {
    /// Creates a host for the live machine.
    #[must_use]
    pub fn live() -> Self {
        Self { root: Root::Folder(PathBuf::from("/")), facts: Facts::live(), live: true }
    }

    /// Creates a host from files in a directory, for tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn below(folder: impl Into<PathBuf>, facts: Facts) -> Self {
        Self { root: Root::Folder(folder.into()), facts, live: false }
    }

    /// Returns whether this is the live machine, on which sources can be opened.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.live
    }

    /// Returns the facts about the machine that no file contains.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the content of a file on the machine, at most 64 MiB; `path` is an absolute path on that machine. In a
    /// system snapshot, links are not followed.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened or read, or is not a regular file. For a system snapshot, returns
    /// the recorded error.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match &self.root {
            Root::Folder(folder) => read_file_of_the_kernel(&below(folder, path)),
            Root::Recorded(files) => files.read(path),
        }
    }

    /// Opens a file on the machine for repeated reads.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened. For a system snapshot, whose files never change, the error kind
    /// is [`io::ErrorKind::Unsupported`].
    #[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
    pub fn open_to_read(&self, path: &str) -> io::Result<File> {
        match &self.root {
            Root::Folder(folder) => File::open(below(folder, path)),
            Root::Recorded(_) => Err(nothing_moves()),
        }
    }

    /// Returns whether a file or a directory exists.
    fn is_there(&self, path: &str) -> bool {
        match &self.root {
            Root::Folder(folder) => below(folder, path).exists(),
            Root::Recorded(files) => files.is_there(path),
        }
    }

    /// Returns the content of a file as text, without trailing whitespace; `None` if it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let content = self.read(path).ok()?;
        let text = String::from_utf8_lossy(&content);
        Some(text.trim_end_matches(['\n', '\0', ' ']).to_owned())
    }

    /// Returns the content of a file as text, without trailing whitespace, or the reason why it is not available.
    pub fn told(&self, path: &str) -> Known<String> {
        let text =
            |content: Vec<u8>| Some(String::from_utf8_lossy(&content).trim_end_matches(['\n', '\0', ' ']).to_owned());
        Known::of(self.read(path)).parsed(text)
    }

    /// Returns whether the mode of a file on the machine lets no user write to it. A capture has no modes.
    pub fn is_read_only(&self, path: &str) -> bool {
        self.locate(path).and_then(|path| path.metadata().ok()).is_some_and(|about| about.permissions().readonly())
    }

    /// Returns the sorted names of the entries of a directory; empty if it does not exist.
    pub fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = match &self.root {
            Root::Folder(folder) => {
                let entries = std::fs::read_dir(below(folder, path)).into_iter().flatten().flatten();
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
            }
            Root::Recorded(files) => files.names(path),
        };
        names.sort();
        names
    }

    /// Returns the names of the devices in a device class.
    pub fn devices_of_class(&self, class: &str) -> Vec<String> {
        self.list(&format!("/sys/class/{class}"))
    }

    /// Returns the path of a file on the machine; `None` for a system snapshot, whose files are in memory.
    pub fn locate(&self, path: &str) -> Option<PathBuf> {
        match &self.root {
            Root::Folder(folder) => Some(below(folder, path)),
            Root::Recorded(_) => None,
        }
    }

    /// Returns the processor, as described by /proc/cpuinfo, the device tree and CPUID.
    #[must_use]
    pub fn cpu(&self) -> Cpu {
        let cpuinfo = self.text("/proc/cpuinfo").unwrap_or_default();
        let cpu = Cpu::parse(&cpuinfo, self.text("/proc/device-tree/model").as_deref(), &self.facts.cpuid);
        match self.online_cpus() {
            Some(online) => cpu.described_for(&cpuinfo, &online),
            None => cpu,
        }
    }

    /// Returns whether the machine has a device tree.
    #[must_use]
    pub fn has_device_tree(&self) -> bool {
        self.text("/proc/device-tree/model").is_some()
    }

    /// Returns the ARM generic timer, as described by a child node of the device tree's root; `None` if there is no
    /// such node.
    #[must_use]
    pub fn arch_timer(&self) -> Option<ArchTimer> {
        let node = self.arch_timer_path()?;
        let property = |name: &str| self.read(&format!("{node}/{name}")).ok();
        Some(ArchTimer {
            clock_frequency_hz: property(soc::CLOCK_FREQUENCY).as_deref().and_then(soc::cell),
            stops_in_suspend: property(soc::NO_TICK_IN_SUSPEND).is_some(),
            errata: soc::ERRATA.into_iter().filter(|erratum| property(erratum).is_some()).collect(),
        })
    }

    /// Returns the frequency of the counter of a RISC-V processor, in hertz; `None` if the device tree does not state it.
    #[must_use]
    pub fn timebase_frequency_hz(&self) -> Option<u64> {
        let property = self.read(TIMEBASE_FREQUENCY).ok()?;
        match property.as_slice().try_into().map(u64::from_be_bytes) {
            Ok(two_cells) => Some(two_cells),
            Err(_) => soc::cell(&property).map(u64::from),
        }
    }

    fn arch_timer_path(&self) -> Option<String> {
        const ROOT: &str = "/proc/device-tree";
        let mut nodes = self.list(ROOT).into_iter().map(|name| format!("{ROOT}/{name}"));
        nodes.find(|node| {
            self.read(&format!("{node}/compatible")).is_ok_and(|compatible| soc::is_arch_timer(&compatible))
        })
    }

    /// Returns the paths of all files of the timer's node that [`arch_timer`](Self::arch_timer) reads.
    fn arch_timer_files(&self) -> Vec<String> {
        let properties = ["compatible", soc::CLOCK_FREQUENCY, soc::NO_TICK_IN_SUSPEND].into_iter().chain(soc::ERRATA);
        self.arch_timer_path().map_or_else(Vec::new, |node| properties.map(|name| format!("{node}/{name}")).collect())
    }

    /// Returns the kernel's clocksources: the active clocksource and the available clocksources.
    #[must_use]
    pub fn clock_sources(&self) -> ClockSources {
        ClockSources::parse(
            self.text("/sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref(),
            self.text("/sys/devices/system/clocksource/clocksource0/available_clocksource").as_deref(),
        )
    }

    /// Returns the parameters on the kernel command line; `None` if /proc does not show them.
    #[must_use]
    pub fn boot_parameters(&self) -> Option<Vec<BootParameter>> {
        self.text(COMMAND_LINE).as_deref().map(BootParameter::all)
    }

    /// Returns the name of the emulator that runs the machine or the program, if one of these facts reveals it:
    ///
    /// - `hpt.emulated=NAME` is on the kernel command line.
    /// - An emulator translates the instructions of the program ([`Facts::translator`]).
    /// - The hypervisor is QEMU without KVM.
    /// - The ARM counter of a Raspberry Pi has a rate that QEMU uses, but no Raspberry Pi has.
    ///
    /// Other emulated boards are not detected if their device tree equals the tree of a real board, or of the board
    /// that QEMU also uses for KVM guests.
    #[must_use]
    pub fn emulator(&self) -> Option<String> {
        let is_tcg = || self.cpu().hypervisor().is_some_and(|name| name.starts_with("TCG"));
        let said = self.boot_parameters().as_deref().and_then(boot_parameters::emulator);
        let is_qemu = || is_tcg() || self.is_qemus_raspberry_pi();
        said.or_else(|| self.facts.translator.clone()).or_else(|| is_qemu().then(|| emulation::QEMU.to_owned()))
    }

    /// Reads the kernel log.
    ///
    /// # Errors
    ///
    /// Returns [`LogError`] if the log does not exist or cannot be read.
    pub fn kernel_log(&self) -> Result<KernelLog, LogError> {
        let records = self.log_records().map_err(LogError::of)?;
        Ok(KernelLog::parse(&records))
    }

    /// Returns the records from /dev/kmsg, or the records in a system snapshot.
    fn log_records(&self) -> io::Result<Vec<u8>> {
        match &self.root {
            Root::Folder(folder) => kernel_log::records(kernel_log::open(&below(folder, KERNEL_LOG))?),
            Root::Recorded(files) => files.read(KERNEL_LOG),
        }
    }

    /// Returns a reader of new lines of the kernel log.
    ///
    /// # Errors
    ///
    /// Returns [`LogError`] in the same cases as [`kernel_log`](Self::kernel_log), and for a system snapshot,
    /// whose log never grows.
    pub fn new_log_lines(&self) -> Result<NewLogLines, LogError> {
        let opened = match &self.root {
            Root::Folder(folder) => kernel_log::open(&below(folder, KERNEL_LOG)),
            Root::Recorded(_) => Err(nothing_moves()),
        };
        opened.and_then(NewLogLines::from_the_end_of).map_err(LogError::of)
    }

    /// Returns the TSC rate that the kernel measured against another timer; `None` if its log is not readable or does not
    /// report such a measurement.
    pub fn refined_tsc_frequency(&self) -> Option<Frequency> {
        self.kernel_log().ok()?.tsc_frequency(false)
    }

    /// Returns whether the TSC has a constant rate and does not stop: as [`Cpu::tsc_runs_at_one_rate`] states, or because its
    /// rate is constant, the kernel uses it, and no idle state is deeper than C1. Virtual machines do not show the idle
    /// states of their host.
    pub fn tsc_runs_at_one_rate(&self) -> Option<bool> {
        let cpu = self.cpu();
        let stated = cpu.tsc_runs_at_one_rate()?;
        let is_used = || self.clock_sources().current.as_deref() == Some("tsc");
        let never_stops =
            || cpu.has_flag("constant_tsc") && self.hypervisor().is_none() && is_used() && self.only_halts();
        Some(stated || never_stops())
    }

    /// Returns whether idle CPUs enter no state deeper than C1. `false` also if that is not known.
    fn only_halts(&self) -> bool {
        let cores = self.cores().each;
        let states = || cores.values().flat_map(|core| &core.idle);
        if states().next().is_none() {
            return self.text(IDLE_DRIVER).is_some_and(|driver| driver.trim() == "none");
        }
        cores.values().all(|core| !core.idle.is_empty())
            && states().all(|state| ["POLL", "C1"].contains(&state.name.trim()))
    }

    /// Returns the TSC rate that the kernel uses to convert readings to time, and the uncertainty of this rate. The
    /// source is the kernel log. If the kernel was given the rate and never refined it, `BogoMIPS` is another source.
    /// Returns `None` if neither is available.
    ///
    /// # References
    ///
    /// Linux, arch/x86/kernel/tsc.c: `tsc_refine_calibration_work`, `X86_FEATURE_TSC_KNOWN_FREQ`.
    #[must_use]
    pub fn kernels_tsc_frequency(&self) -> Option<FrequencyEstimate> {
        // The additional 1.0 ppm allows for the rounding of the kernel clock's multiplier.
        #[expect(clippy::cast_precision_loss, reason = "the result is only compared")]
        let estimate = |frequency: Frequency, cut_off_hz: f64| FrequencyEstimate {
            frequency,
            uncertainty_ppm: 1.0 + cut_off_hz / frequency.hertz() as f64 * 1e6,
        };
        let cpu = self.cpu();
        let was_told = cpu.has_flag("tsc_known_freq");
        let logged = self.kernel_log().ok().and_then(|log| log.tsc_frequency(was_told));
        let logged = logged.map(|frequency| estimate(frequency, 1e3));
        let by_bogomips = || cpu.bogomips_frequency().map(|frequency| estimate(frequency, 5e3));
        logged.or_else(|| was_told.then(by_bogomips).flatten())
    }

    /// Returns the ID of this boot; `None` if /proc does not show it.
    #[must_use]
    pub fn boot_id(&self) -> Option<BootId> {
        self.text("/proc/sys/kernel/random/boot_id").as_deref().and_then(BootId::parse)
    }
}

/// Returns the path of a machine's file in the directory that contains the machine's files.
fn below(folder: &Path, path: &str) -> PathBuf {
    folder.join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
}

fn nothing_moves() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the counts in a system snapshot do not change")
}
