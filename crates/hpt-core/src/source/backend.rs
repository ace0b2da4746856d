//! The [`Backend`] trait and its result types: reports, opened sources, and reasons for unavailability.

use std::fmt;

#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
use hpt_sys::host::ClockSources;
use hpt_sys::{
    OsError,
    host::{Architecture, Host},
};

use super::{SelfTestError, SourceId, SourceInfo, TimeSource};

/// A family of sources, with methods to find and open them.
pub(crate) trait Backend: fmt::Debug + Sync {
    /// Returns the names of the backend's sources that are listed on every machine.
    fn ids(&self) -> Vec<SourceId>;

    /// Returns the names of the backend's sources on this host. If the host has several devices of a kind, each device
    /// has its own name.
    fn ids_on(&self, _host: &Host) -> Vec<SourceId> {
        self.ids()
    }

    /// Returns whether the backend can say why this source is not available, even if it is not listed on the host.
    fn knows(&self, id: &SourceId) -> bool {
        self.ids().contains(id)
    }

    /// Returns a report on each of the backend's sources.
    fn probe(&self, host: &Host) -> Vec<ProbeReport>;

    /// Returns a report on each of the backend's sources, for a caller that needs a clock. The backend need not open a
    /// source that can never be a clock.
    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        self.probe(host)
    }

    /// Opens the source named `id`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the source is not available on this machine.
    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError>;
}

/// An open source. It is not `Send`, because some sources belong to the thread that opened them, such as a cycle
/// counter. To use a source in another thread, take it out of [`Shared`](Self::Shared).
///
/// # Examples
///
/// ```
/// use std::thread;
/// use hpt_core::{Host, TimeSource, source::{self, Opened}};
///
/// if let Opened::Shared(source) = source::open(&Host::live(), "monotonic")? {
///     let ticks = thread::spawn(move || source.ticks()).join().expect("reading never fails");
///     assert!(ticks > 0);
/// }
/// # Ok::<(), hpt_core::SourceError>(())
/// ```
#[derive(Debug)]
pub enum Opened {
    /// A source that any thread may read.
    Shared(Box<dyn TimeSource + Send + Sync>),
    /// A source that is bound to the thread that opened it.
    ThreadBound(Box<dyn TimeSource>),
}

impl Opened {
    /// Returns the source, whether or not it is bound to a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, TimeSource, source};
    ///
    /// let opened = source::open(&Host::live(), "monotonic")?;
    /// let source: &dyn TimeSource = opened.as_dyn();
    /// let readings: Vec<u64> = (0..100).map(|_| source.ticks()).collect();
    /// assert!(readings.is_sorted());
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn as_dyn(&self) -> &dyn TimeSource {
        match self {
            Self::Shared(source) => source.as_ref(),
            Self::ThreadBound(source) => source.as_ref(),
        }
    }
}

/// Reads the open source. Calling [`as_dyn`](Opened::as_dyn) once before a loop saves one branch per reading.
impl TimeSource for Opened {
    #[inline]
    fn ticks(&self) -> u64 {
        self.as_dyn().ticks()
    }

    #[inline]
    fn ticks_start(&self) -> u64 {
        self.as_dyn().ticks_start()
    }

    #[inline]
    fn ticks_end(&self) -> u64 {
        self.as_dyn().ticks_end()
    }

    fn info(&self) -> &SourceInfo {
        self.as_dyn().info()
    }
}

/// Whether the kernel trusts a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelVerdict {
    /// The kernel trusts the source. The string is the evidence.
    Trusted(String),
    /// The kernel does not trust the source. The string is the evidence.
    Distrusted(String),
    /// It is unknown whether the kernel trusts the source. The string is the reason.
    Unknown(String),
}

impl KernelVerdict {
    /// Returns the verdict on `name` that follows from the kernel's list of clocksources. A source that the kernel
    /// dropped is missing from this list.
    #[cfg(all(target_os = "linux", target_has_atomic = "64"))]
    pub(super) fn of_clock_source(sources: &ClockSources, name: &str) -> Self {
        let current = sources.current.as_deref().unwrap_or("unknown");
        match sources.offers(name) {
            None => Self::Unknown("the kernel's list of clocksources cannot be read (is /sys mounted?)".to_owned()),
            Some(true) if current == name => {
                Self::Trusted("this counter is the kernel's current clocksource".to_owned())
            }
            Some(true) => Self::Trusted(format!("the kernel offers this clocksource (but uses {current})")),
            Some(false) => Self::Distrusted(format!("the kernel does not offer this clocksource (it uses {current})")),
        }
    }

    /// Returns the evidence, or the reason why the verdict is unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// for report in source::outline(&Host::live()) {
    ///     println!("{}: {}, because {}", report.id, report.kernel.name(), report.kernel.evidence());
    /// }
    /// ```
    #[must_use]
    pub fn evidence(&self) -> &str {
        match self {
            Self::Trusted(evidence) | Self::Distrusted(evidence) | Self::Unknown(evidence) => evidence,
        }
    }

    /// Returns the name used in tables and in JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::KernelVerdict;
    ///
    /// assert_eq!(KernelVerdict::Trusted("the kernel uses it".to_owned()).name(), "trusted");
    /// ```
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trusted(_) => "trusted",
            Self::Distrusted(_) => "distrusted",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A backend's report about one source on one host.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeReport {
    /// The source's name.
    pub id: SourceId,
    /// A short description of the source.
    pub description: &'static str,
    /// The properties of the source on this host, or the reason why it is not available.
    pub availability: Result<SourceInfo, SourceError>,
    /// Whether the kernel trusts the source.
    pub kernel: KernelVerdict,
    /// The evidence that was examined, with the results. Each string is one item.
    pub evidence: Vec<String>,
}

/// The reason why a source cannot be used. [`remedy`](Self::remedy) returns the fix, if there is one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SourceError {
    /// The counter belongs to another architecture.
    OtherArchitecture {
        /// The architecture of the machine.
        have: Architecture,
    },
    /// The processor does not have the counter.
    NoCounter {
        /// The evidence.
        evidence: &'static str,
    },
    /// The machine has no such device.
    NoDevice {
        /// The evidence.
        evidence: String,
    },
    /// The source exists, but this process has no permission to read it.
    NoRight {
        /// The file, the I/O port or the setting to which the permission applies.
        path: String,
        /// The missing permission.
        right: MissingRight,
    },
    /// The machine has no hardware counter for core cycles that the kernel can use.
    NoPmu {
        /// The evidence.
        evidence: String,
        /// The architecture of the machine.
        have: Architecture,
    },
    /// The counter exists, but is not open to programs.
    Closed {
        /// The evidence.
        evidence: String,
        /// The fix for the current state of this machine.
        remedy: String,
    },
    /// The core's counters are in use, by other users or by another source of this process.
    InUse {
        /// The evidence.
        evidence: String,
        /// The error that the kernel returned, if it refused the counters.
        cause: Option<OsError>,
    },
    /// Because of its build or boot options, the kernel does not offer the source to programs.
    NotOffered {
        /// The evidence.
        evidence: String,
        /// The fix, if there is one.
        remedy: Option<&'static str>,
    },
    /// The device is in use, and does not allow another user at the same time.
    Taken {
        /// The device file.
        path: String,
        /// The evidence.
        evidence: String,
    },
    /// The description of the counter, or the counter itself, is invalid.
    Malformed {
        /// The file.
        path: String,
        /// The problem.
        evidence: String,
    },
    /// A read of the counter requires a write, which would disturb other users.
    NeedsWrite {
        /// The write that a read would require.
        evidence: &'static str,
    },
    /// `prctl(PR_SET_TSC)` has forbidden this thread to read the counter: a read raises SIGSEGV.
    ForbiddenByPrctl,
    /// A forked child executed the instruction and was killed by a signal.
    IllegalInstruction,
    /// The kernel or a sandbox returned an error when the source was opened or first read.
    Refused {
        /// The file or the system call that returned the error, or the reason why the source was not tried.
        what: String,
        /// The error that the system returned; `None` if the source was not tried.
        cause: Option<OsError>,
    },
    /// This build cannot read the source, because a feature of this crate is not enabled.
    NotBuilt {
        /// The feature.
        feature: &'static str,
    },
    /// The host is a system snapshot, whose sources cannot be opened.
    Captured,
    /// The source was opened, but did not behave like a counter.
    SelfTest(SelfTestError),
    /// No source has this name.
    Unknown {
        /// The requested name.
        name: String,
        /// Similar names, the most similar first.
        nearest: Vec<SourceId>,
    },
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OtherArchitecture { have } => write!(f, "this counter does not exist on {}", have.name()),
            Self::NoCounter { evidence } => write!(f, "the processor does not have this counter: {evidence}"),
            Self::NoDevice { evidence } => write!(f, "the system does not have this device: {evidence}"),
            Self::NoRight { path, right } => write!(f, "{path}: {right}"),
            Self::NoPmu { evidence, .. } => write!(f, "no hardware counter for core cycles: {evidence}"),
            Self::Closed { evidence, .. } => write!(f, "the counter is closed to user programs: {evidence}"),
            Self::InUse { evidence, .. } => write!(f, "the core's counters are in use: {evidence}"),
            Self::NotOffered { evidence, .. } => {
                write!(f, "the kernel does not offer this source to programs: {evidence}")
            }
            Self::Taken { path, evidence } => write!(f, "{path} is busy: {evidence}"),
            Self::Malformed { path, evidence } => write!(f, "{path} has invalid contents: {evidence}"),
            Self::NeedsWrite { evidence } => write!(f, "the counter cannot be read without a write: {evidence}"),
            Self::ForbiddenByPrctl => {
                f.write_str("prctl forbids this thread to read the counter: PR_GET_TSC returns PR_TSC_SIGSEGV")
            }
            Self::IllegalInstruction => {
                f.write_str("the instruction is not permitted: a child process that tried it was killed by a signal")
            }
            Self::Refused { what, .. } => write!(f, "the source cannot be read: {what}"),
            Self::NotBuilt { feature } => {
                write!(f, "this program was built without the feature `{feature}` of hpt-core")
            }
            Self::Captured => f.write_str("this is a system snapshot: its counters cannot be read here"),
            Self::SelfTest(failure) => write!(f, "the source failed the self-test: {failure}"),
            Self::Unknown { name, .. } => write!(f, "unknown source {name:?}"),
        }
    }
}

impl std::error::Error for SourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::InUse { cause, .. } | Self::Refused { cause, .. } => Some(cause.as_ref()?),
            _ => None,
        }
    }
}

/// A missing permission to access the registers of a device or to count the process's own cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingRight {
    /// The mode of the file denies access (EACCES).
    FileMode,
    /// The process lacks the capability CAP_SYS_RAWIO.
    Capability,
    /// The kernel is locked down and returns EPERM, even to root.
    Lockdown,
    /// The kernel does not map this page and returns EPERM, even to root.
    Page,
    /// The file's mode or a missing capability denies access, and only root may have it: the page also contains
    /// registers whose reads may have effects.
    RootOnly,
    /// The kernel returned EPERM from ioperm, but neither a missing capability nor kernel lockdown is visible.
    Ports,
    /// `kernel.perf_event_paranoid` is too high for a process without CAP_PERFMON.
    PerfEvents {
        /// The highest value that allows the events.
        highest: i32,
    },
}

impl std::fmt::Display for MissingRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FileMode => f.write_str("this user does not have permission to open the file"),
            Self::Capability => f.write_str("this process lacks the capability CAP_SYS_RAWIO"),
            Self::Lockdown => f.write_str("kernel lockdown denies access, even to root"),
            Self::Page => f.write_str("the kernel does not map this page: a driver has claimed it, it counts as RAM (STRICT_DEVMEM), or the process is root only inside a container"),
            Self::RootOnly => f.write_str("only root may map this page, because it also contains registers whose reads may have effects"),
            Self::Ports => f.write_str("the kernel denies access to the port: the kernel is locked down, or the process is root only inside a container"),
            Self::PerfEvents { .. } => write!(f, "kernel.perf_event_paranoid denies perf events to processes without the capability CAP_PERFMON"),
        }
    }
}

impl MissingRight {
    /// Returns how to obtain this permission for `path`.
    fn remedy(self, path: &str) -> String {
        match self {
            Self::FileMode if path.starts_with("/dev/uio") => {
                format!("join the group that can read {path} (`ls -l {path}`), or run as root")
            }
            Self::FileMode | Self::Capability if path == "/dev/mem" => {
                "run as root (sudo), or let a group read this one page through a UIO device (see dist/ in hpt-core's repository)".to_owned()
            }
            Self::FileMode if path.starts_with("/dev/") => {
                let name = path.trim_start_matches("/dev/");
                format!("run as root (sudo), or let a group read it with a udev rule: KERNEL==\"{name}\", GROUP=\"…\", MODE=\"0440\"")
            }
            Self::FileMode | Self::RootOnly => "run as root (sudo)".to_owned(),
            Self::Capability => "run as root (sudo), or give the program CAP_SYS_RAWIO".to_owned(),
            Self::Ports => {
                "run outside the container; /sys/kernel/security/lockdown (securityfs) shows whether the kernel is locked down".to_owned()
            }
            Self::Lockdown => {
                "choose another source; Secure Boot or lockdown= on the kernel command line enables lockdown"
                    .to_owned()
            }
            Self::PerfEvents { highest } => {
                format!("set sysctl kernel.perf_event_paranoid={highest}, run as root, or give the program CAP_PERFMON")
            }
            Self::Page => "choose another source, or boot with iomem=relaxed if a driver has claimed the page".to_owned(),
        }
    }
}

impl SourceError {
    /// Returns the fix, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let reason = source::open(&Host::live(), "monotonik").expect_err("there is no such source");
    /// assert_eq!(reason.remedy().as_deref(), Some("did you mean monotonic?"));
    /// ```
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::OtherArchitecture { .. }
            | Self::NoCounter { .. }
            | Self::NoDevice { .. }
            | Self::NeedsWrite { .. } => None,
            Self::NotOffered { remedy, .. } => remedy.map(str::to_owned),
            Self::Taken { path, .. } => Some(format!("stop the program that uses the device (`fuser -v {path}` shows it)")),
            Self::Malformed { .. } => Some("choose another source, or update the firmware".to_owned()),
            Self::NoRight { path, right } => Some(right.remedy(path)),
            Self::NoPmu { have: Architecture::X86_64 | Architecture::X86, .. } => {
                Some("in a virtual machine, have the hypervisor pass a PMU through to the guest".to_owned())
            }
            Self::NoPmu { .. } => Some(
                "on a board, add a pmu node to the device tree; in a virtual machine, have the hypervisor pass a PMU through to the guest"
                    .to_owned(),
            ),
            Self::Closed { remedy, .. } => Some(remedy.clone()),
            Self::InUse { .. } => Some(
                "stop other users of the counters: perf, a profiler or, on x86, the NMI watchdog (sysctl kernel.nmi_watchdog=0); a perf event and arm-cycles cannot be used at the same time"
                    .to_owned(),
            ),
            Self::ForbiddenByPrctl => {
                Some("call prctl(PR_SET_TSC, PR_TSC_ENABLE) in this thread, or start the thread from a program that does not forbid reading the counter".to_owned())
            }
            Self::IllegalInstruction => {
                Some("open the source that `source::choose` selects; a missing counter, an emulator, and a kernel that closes the counter cannot be distinguished".to_owned())
            }
            Self::Refused { .. } => Some("check for a seccomp filter or a sandbox around this process".to_owned()),
            Self::NotBuilt { feature } => Some(format!("enable the feature `{feature}` of hpt-core in Cargo.toml")),
            Self::Captured => Some("open the source on the system itself (`Host::live`)".to_owned()),
            Self::SelfTest(failure) => failure.remedy().map(str::to_owned),
            Self::Unknown { nearest, .. } => Some(match nearest.as_slice() {
                [] => "`source::names_on` returns all names".to_owned(),
                names => format!("did you mean {}?", names.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")),
            }),
        }
    }

    /// Returns a word that identifies the kind of reason. The words are stable across versions.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, source};
    ///
    /// let reason = source::open(&Host::live(), "monotonik").expect_err("there is no such source");
    /// assert_eq!(reason.kind(), "unknown");
    /// ```
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OtherArchitecture { .. } => "other-architecture",
            Self::NoCounter { .. } => "no-counter",
            Self::NoDevice { .. } => "no-device",
            Self::NoRight { .. } => "no-permission",
            Self::NoPmu { .. } => "no-pmu",
            Self::Closed { .. } => "closed",
            Self::InUse { .. } => "in-use",
            Self::NotOffered { .. } => "not-offered",
            Self::Taken { .. } => "busy",
            Self::Malformed { .. } => "malformed",
            Self::NeedsWrite { .. } => "needs-write",
            Self::ForbiddenByPrctl => "forbidden-by-prctl",
            Self::IllegalInstruction => "illegal-instruction",
            Self::Refused { .. } => "refused",
            Self::NotBuilt { .. } => "not-built",
            Self::Captured => "captured",
            Self::SelfTest(_) => "self-test",
            Self::Unknown { .. } => "unknown",
        }
    }
}
