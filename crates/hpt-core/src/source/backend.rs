//! What a backend answers: reports, opened sources, and reasons why not.
//! Knows no particular source.

use std::fmt;

use super::{SelfTestFailure, SourceId, SourceInfo, TimeSource};
use crate::{
    host::{Architecture, ClockSources, Host},
    sys::arch::CounterRefused,
};

mod sealed {
    pub trait Sealed {}
}
pub(super) use sealed::Sealed;

/// A family of sources: how to find them and how to open them. Sealed; bring your own source through [`TimeSource`].
pub trait Backend: Sealed + fmt::Debug + Sync {
    /// The names of its sources that are listed on every machine.
    fn ids(&self) -> Vec<SourceId>;

    /// The names on this host: of several devices of a kind each has its own.
    fn ids_on(&self, _host: &Host) -> Vec<SourceId> {
        self.ids()
    }

    /// One report for each of its sources.
    fn probe(&self, host: &Host) -> Vec<ProbeReport>;

    /// The same for whoever looks for a clock: what cannot be one for what it is need not be opened for that.
    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        self.probe(host)
    }

    /// Opens one of its sources.
    ///
    /// # Errors
    ///
    /// The reason why this machine cannot offer it.
    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, Unavailable>;
}

/// An open source.
#[derive(Debug)]
pub enum Opened {
    /// Any thread may read it.
    Shared(Box<dyn TimeSource + Send + Sync>),
    /// Only the thread that opened it may read it.
    ThreadBound(Box<dyn TimeSource>),
}

impl Opened {
    /// The source, whichever way it is held.
    #[must_use]
    pub fn as_dyn(&self) -> &dyn TimeSource {
        match self {
            Self::Shared(source) => source.as_ref(),
            Self::ThreadBound(source) => source.as_ref(),
        }
    }
}

/// Whether the kernel vouches for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelVerdict {
    /// It does; the text says how that shows.
    Trusted(String),
    /// It does not; the text says how that shows.
    Distrusted(String),
    /// It cannot be told; the text says why.
    Unknown(String),
}

impl KernelVerdict {
    /// The verdict that the kernel's list of clock sources gives on the one called `name`: a source that it dropped is missing from it.
    pub(super) fn of_clock_source(sources: &ClockSources, name: &str) -> Self {
        let current = sources.current.as_deref().unwrap_or("unknown");
        match sources.offers(name) {
            None => Self::Unknown("the kernel's list of clock sources cannot be read (is /sys mounted?)".to_owned()),
            Some(true) if current == name => Self::Trusted("it is the kernel's own clock source".to_owned()),
            Some(true) => Self::Trusted(format!("the kernel offers it as a clock source (and uses {current})")),
            Some(false) => {
                Self::Distrusted(format!("the kernel does not offer it as a clock source (and uses {current})"))
            }
        }
    }

    /// How the verdict shows, or why there is none.
    #[must_use]
    pub fn evidence(&self) -> &str {
        match self {
            Self::Trusted(evidence) | Self::Distrusted(evidence) | Self::Unknown(evidence) => evidence,
        }
    }

    /// Its name in tables and in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Trusted(_) => "trusted",
            Self::Distrusted(_) => "distrusted",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// What a backend says of one source on one host.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeReport {
    /// The source's name.
    pub id: SourceId,
    /// What it is, in one sentence.
    pub description: &'static str,
    /// What it is like here, or why it is not to be had.
    pub availability: Result<SourceInfo, Unavailable>,
    /// Whether the kernel vouches for it.
    pub kernel: KernelVerdict,
    /// What was looked at and what it said, one finding a line.
    pub evidence: Vec<String>,
}

/// Why a source cannot be used: what was seen, and what helps.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The counter belongs to another kind of machine.
    #[error("{} machines have no such counter", have.name())]
    OtherArchitecture {
        /// The machine looked at.
        have: Architecture,
    },
    /// The processor does not list the instruction.
    #[error("the processor has no such counter: {evidence}")]
    NoCounter {
        /// What says so.
        evidence: &'static str,
    },
    /// The machine has no such device.
    #[error("the machine has no such device: {evidence}")]
    NoDevice {
        /// What says so.
        evidence: String,
    },
    /// The device is there, and this process has no right to read it.
    #[error("{path}: {right}")]
    NoRight {
        /// The file that leads to it.
        path: String,
        /// The right that is missing.
        right: MissingRight,
    },
    /// The kernel has nothing that counts the cycles of a core.
    #[error("nothing counts the cycles of a core here: {evidence}")]
    NoPmu {
        /// What says so.
        evidence: String,
        /// The kind of machine that was looked at.
        have: Architecture,
    },
    /// The counter is there, and is not opened to programs.
    #[error("the counter is not opened to programs: {evidence}")]
    Closed {
        /// What says so.
        evidence: String,
        /// The remedy for the present state of this machine.
        remedy: String,
    },
    /// Others use the counter.
    #[error("others use the core's counters: {evidence}")]
    InUse {
        /// What says so.
        evidence: String,
    },
    /// The kernel was built or started so that it does not give it to programs.
    #[error("it is not offered to programs: {evidence}")]
    NotOffered {
        /// What says so.
        evidence: String,
        /// What helps, where anything does.
        remedy: Option<&'static str>,
    },
    /// Somebody has it open, and it is for one at a time.
    #[error("{path} is taken: {evidence}")]
    Taken {
        /// The file that leads to it.
        path: String,
        /// What says so.
        evidence: String,
    },
    /// What should describe the counter, or be it, is something else.
    #[error("{path} does not show what it should: {evidence}")]
    Malformed {
        /// The file that was looked at.
        path: String,
        /// What is wrong with it.
        evidence: String,
    },
    /// It cannot be read without writing to it first, which would disturb whoever uses it.
    #[error("it cannot be read without a write: {evidence}")]
    NeedsWrite {
        /// Which write.
        evidence: &'static str,
    },
    /// `prctl(PR_SET_TSC)` made reading raise SIGSEGV in this thread.
    #[error("prctl forbids this thread to read it: PR_GET_TSC answers PR_TSC_SIGSEGV")]
    ForbiddenByPrctl,
    /// A forked child executed the instruction and died of it.
    #[error("the instruction is refused: a child that tried it was ended by a signal")]
    IllegalInstruction,
    /// The kernel, or a sandbox, answered a first read with an error.
    #[error("the kernel refuses to read it: {reason}")]
    Refused {
        /// The error, in the system's words.
        reason: String,
    },
    /// The host is a captured one: there is nothing to open.
    #[error("this is a captured machine: its counters cannot be read here")]
    Captured,
    /// It opened, and did not behave like a counter.
    #[error("the self-test refused it: {0}")]
    SelfTest(SelfTestFailure),
    /// No source has this name.
    #[error("there is no source called {name:?}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// Names that look like it, nearest first.
        nearest: Vec<SourceId>,
    },
}

/// What keeps a process from a device's registers, or from counting its own cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum MissingRight {
    /// The mode of the file: EACCES.
    #[error("the file's mode does not let this user open it")]
    FileMode,
    /// The capability CAP_SYS_RAWIO.
    #[error("this process does not have the capability CAP_SYS_RAWIO")]
    Capability,
    /// The kernel is locked down: EPERM, for root too.
    #[error("the kernel is locked down, which keeps it from root too")]
    Lockdown,
    /// The kernel keeps this page to itself: EPERM, for root too.
    #[error(
        "the kernel does not give this page away: a driver claimed it, it counts as memory (STRICT_DEVMEM), or the process is root in a container only"
    )]
    Page,
    /// The kernel answered EPERM to ioperm, and neither the missing capability nor a lockdown is seen.
    #[error("the kernel lets no program in here: it is locked down, or the process is root in a container only")]
    Ports,
    /// `kernel.perf_event_paranoid` is too high for a process without CAP_PERFMON.
    #[error("the kernel does not let a process without the capability CAP_PERFMON have perf events")]
    PerfEvents {
        /// The highest value that lets it.
        highest: i32,
    },
}

impl MissingRight {
    /// What helps where it is missing for `path`.
    fn remedy(self, path: &str) -> String {
        match self {
            Self::FileMode if path.starts_with("/dev/uio") => {
                format!("join the group that may read {path} (`ls -l {path}`), or run as root")
            }
            Self::FileMode | Self::Capability if path == "/dev/mem" => {
                "run as root (sudo), or give a group the right to read this one page by a UIO window (dist/ in hpt's repository)".to_owned()
            }
            Self::FileMode if path.starts_with("/dev/") => {
                let name = path.trim_start_matches("/dev/");
                format!("run as root (sudo), or let a group read it by a udev rule: KERNEL==\"{name}\", GROUP=\"…\", MODE=\"0440\"")
            }
            Self::FileMode => "run as root (sudo)".to_owned(),
            Self::Capability => "run as root (sudo), or give the program CAP_SYS_RAWIO".to_owned(),
            Self::Ports => {
                "run it outside of the container; /sys/kernel/security/lockdown says whether the kernel is locked down (securityfs)".to_owned()
            }
            Self::Lockdown => {
                "lockdown comes with Secure Boot or lockdown= on the kernel's command line; choose another source"
                    .to_owned()
            }
            Self::PerfEvents { highest } => {
                format!("sysctl kernel.perf_event_paranoid={highest}, or run as root, or give the program CAP_PERFMON")
            }
            Self::Page => "choose another source, or boot with iomem=relaxed if a driver claimed the page".to_owned(),
        }
    }
}

impl Unavailable {
    /// The read has to be tried in a child process, and none could be started.
    pub(super) fn not_tried() -> Self {
        Self::Refused {
            reason: "no child process could be started to try the read; a later attempt may succeed".to_owned(),
        }
    }

    /// Why the processor's own counter cannot be read.
    pub(crate) fn of_counter(refused: CounterRefused) -> Self {
        match refused {
            CounterRefused::NotReadable => Self::IllegalInstruction,
            CounterRefused::NotTried => Self::not_tried(),
        }
    }

    /// What helps, where anything does.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::OtherArchitecture { .. }
            | Self::NoCounter { .. }
            | Self::NoDevice { .. }
            | Self::NeedsWrite { .. } => None,
            Self::NotOffered { remedy, .. } => remedy.map(str::to_owned),
            Self::Taken { path, .. } => Some(format!("end the program that has it (`fuser -v {path}` names it)")),
            Self::Malformed { .. } => Some("choose another source; newer firmware may help".to_owned()),
            Self::NoRight { path, right } => Some(right.remedy(path)),
            Self::NoPmu { have: Architecture::X86_64, .. } => {
                Some("a virtual machine has such a counter where its hypervisor passes one through".to_owned())
            }
            Self::NoPmu { .. } => Some(
                "on a board the device tree must have a pmu node; a virtual machine has such a counter where its hypervisor passes one through"
                    .to_owned(),
            ),
            Self::Closed { remedy, .. } => Some(remedy.clone()),
            Self::InUse { .. } => Some(
                "end the others: perf, a profiler, on x86 the NMI watchdog (sysctl kernel.nmi_watchdog=0); a perf event and arm-cycles do not go together"
                    .to_owned(),
            ),
            Self::ForbiddenByPrctl => {
                Some("call prctl(PR_SET_TSC, PR_TSC_ENABLE) in this thread, or do not start it under a program that forbids it".to_owned())
            }
            Self::IllegalInstruction => {
                Some("use the source that `hpt probe` chooses; a processor without the counter, an emulator and a kernel that keeps it closed look the same".to_owned())
            }
            Self::Refused { .. } => Some("look for a seccomp filter or a sandbox around this process".to_owned()),
            Self::Captured => Some("run hpt on the machine itself".to_owned()),
            Self::SelfTest(failure) => failure.remedy().map(str::to_owned),
            Self::Unknown { nearest, .. } => Some(match nearest.as_slice() {
                [] => "`hpt probe` lists all names".to_owned(),
                names => format!("did you mean {}?", names.iter().map(SourceId::as_str).collect::<Vec<_>>().join(", ")),
            }),
        }
    }

    /// One word for the kind of reason, stable for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OtherArchitecture { .. } => "other-architecture",
            Self::NoCounter { .. } => "no-counter",
            Self::NoDevice { .. } => "no-device",
            Self::NoRight { .. } => "no-right",
            Self::NoPmu { .. } => "no-pmu",
            Self::Closed { .. } => "closed",
            Self::InUse { .. } => "in-use",
            Self::NotOffered { .. } => "not-offered",
            Self::Taken { .. } => "taken",
            Self::Malformed { .. } => "malformed",
            Self::NeedsWrite { .. } => "needs-write",
            Self::ForbiddenByPrctl => "forbidden-by-prctl",
            Self::IllegalInstruction => "illegal-instruction",
            Self::Refused { .. } => "refused",
            Self::Captured => "captured",
            Self::SelfTest(_) => "self-test",
            Self::Unknown { .. } => "unknown",
        }
    }
}
