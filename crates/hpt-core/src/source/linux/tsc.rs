//! The timestamp counter of x86-64 processors. The instruction itself is in `hpt_sys::arch`.

use std::io;

use hpt_sys::{
    arch::TscToken,
    host::{CounterPermission, Cpu, Host, TscStatement},
    process,
};

use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource,
};

const ID: SourceId = SourceId::new("tsc");

/// The x86-64 timestamp counter, read with RDTSC.
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) is a plain RDTSC, which the processor may execute early or late. If readings are passed
/// between two CPUs, they can appear to go back by a few hundred nanoseconds. [`ticks_start`](TimeSource::ticks_start)
/// executes LFENCE;RDTSC, and [`ticks_end`](TimeSource::ticks_end) executes LFENCE;RDTSC;LFENCE.
///
/// # References
///
/// Intel SDM vol. 3B, Time-Stamp Counter; vol. 2B, RDTSC. AMD APM vol. 2, Time-Stamp Counter.
#[derive(Clone, Debug)]
pub struct Tsc {
    token: TscToken,
    info: SourceInfo,
}

impl Tsc {
    /// Opens the counter for the calling thread and the threads that it starts.
    ///
    /// The permission to read the counter belongs to the thread: if a thread calls `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)`
    /// afterwards, its next read raises SIGSEGV. No other process can revoke the permission.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the processor has no TSC, if prctl forbids reading it, or if `host` is a system
    /// snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, TimeSource, Tsc};
    ///
    /// match Tsc::open(&Host::live()) {
    ///     Ok(tsc) => assert!(tsc.ticks_start() <= tsc.ticks_end()),
    ///     Err(reason) => println!("no TSC here: {reason}"),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let info = describe(host)?;
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let permitted = CounterPermission::of_this_thread() != CounterPermission::Forbidden;
        match TscToken::detect(permitted) {
            Some(token) => Ok(Self { token, info }),
            None => Err(NO_FEATURE_BIT),
        }
    }
}

impl TimeSource for Tsc {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.token.read()
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        self.token.read_start()
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        self.token.read_end()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

const NO_FEATURE_BIT: SourceError = SourceError::NoCounter { evidence: "bit 4 of EDX in CPUID leaf 1 is clear" };
const EDX_TSC: u32 = 1 << 4;

/// Returns the properties of the TSC on this host, or the reason why it is not available. Uses only the files and facts
/// of the host.
fn describe(host: &Host) -> Result<SourceInfo, SourceError> {
    let facts = host.facts();
    if !facts.architecture.is_x86() {
        return Err(SourceError::OtherArchitecture { have: facts.architecture });
    }
    let permission = if host.is_live() { CounterPermission::of_this_thread() } else { facts.counter_permission };
    if permission == CounterPermission::Forbidden {
        return Err(SourceError::ForbiddenByPrctl);
    }
    let cpu = host.cpu();
    if cpu.leaf(1).is_some_and(|[_, _, _, edx]| edx & EDX_TSC == 0) {
        return Err(NO_FEATURE_BIT);
    }
    let mut info = SourceInfo::new(ID);
    // If the kernel refined the rate, it uses neither the rate that CPUID states nor the rounded `BogoMIPS`.
    let refined = host.refined_tsc_frequency().map(|frequency| Nominal { frequency, stated_by: StatedBy::Kernel });
    let stated = cpu.tsc_frequency().map(|stated| Nominal {
        frequency: stated.frequency,
        stated_by: match stated.stated_by {
            TscStatement::Crystal | TscStatement::BaseFrequency => StatedBy::Cpuid,
            TscStatement::Hypervisor => StatedBy::Hypervisor,
            TscStatement::BogoMips => StatedBy::BogoMips,
        },
    });
    info.nominal = refined.or(stated);
    info.read_path = ReadPath::Register;
    let is_constant = host.tsc_runs_at_one_rate().unwrap_or(false);
    info.rate = if is_constant { RateKind::Constant } else { RateKind::Variable };
    info.counts_in_suspend = cpu.has_flag("nonstop_tsc_s3").then_some(true);
    Ok(info)
}

/// Returns whether the kernel trusts the TSC. If the kernel finds the TSC to be unstable, the TSC *disappears* from the
/// list of clocksources.
fn kernel_verdict(host: &Host) -> KernelVerdict {
    let sources = host.clock_sources();
    match KernelVerdict::of_clock_source(&sources, "tsc") {
        KernelVerdict::Distrusted(_) if sources.current.as_deref() == Some("tsc-early") => {
            KernelVerdict::Unknown("the kernel is still calibrating the TSC (clocksource tsc-early)".to_owned())
        }
        KernelVerdict::Distrusted(evidence) => {
            KernelVerdict::Distrusted(format!("{evidence}; look for \"Marking TSC unstable\" in the kernel log"))
        }
        verdict @ (KernelVerdict::Trusted(_) | KernelVerdict::Unknown(_)) => verdict,
    }
}

fn evidence(host: &Host) -> Vec<String> {
    let cpu = host.cpu();
    let permission = if host.is_live() { CounterPermission::of_this_thread() } else { host.facts().counter_permission };
    let mut lines = Vec::new();
    if cpu.lists_flags() {
        let names = [
            "tsc",
            "constant_tsc",
            "nonstop_tsc",
            "nonstop_tsc_s3",
            "tsc_known_freq",
            "tsc_reliable",
            "tsc_adjust",
            "rdtscp",
            "hypervisor",
        ];
        let (present, missing): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|flag| cpu.has_flag(flag));
        lines.push(format!("CPU flags: {}; missing: {}", present.join(" "), missing.join(" ")));
    } else {
        lines.push("CPU flags: none in /proc/cpuinfo".to_owned());
    }
    lines.push(match cpu.invariant_tsc() {
        Some(true) => "CPUID 0x80000007: the TSC is invariant".to_owned(),
        Some(false) => "CPUID 0x80000007: the TSC is not invariant".to_owned(),
        None => "CPUID 0x80000007: not available".to_owned(),
    });
    lines.push(match cpu.leaf(0x15) {
        Some([0, ..] | [_, 0, ..]) => "CPUID 0x15: no crystal ratio".to_owned(),
        Some([denominator, numerator, crystal, _]) => format!("CPUID 0x15: {crystal} Hz × {numerator} / {denominator}"),
        None => "CPUID 0x15: not available".to_owned(),
    });
    lines.push(match cpu.leaf(0x16) {
        Some([mhz, ..]) if mhz & 0xffff != 0 => format!("CPUID 0x16: base frequency {} MHz", mhz & 0xffff),
        Some(_) => "CPUID 0x16: no base frequency".to_owned(),
        None => "CPUID 0x16: not available".to_owned(),
    });
    if let Some(signature) = cpu.hypervisor() {
        let hypervisor = Cpu::hypervisor_name(&signature);
        lines.push(match cpu.leaf(0x4000_0010) {
            Some([khz, ..]) if khz != 0 => format!("hypervisor {hypervisor}: CPUID 0x40000010 states {khz} kHz"),
            _ => format!("hypervisor {hypervisor}: CPUID states no TSC frequency"),
        });
    }
    lines.push(match permission {
        CounterPermission::Enabled => "PR_GET_TSC: PR_TSC_ENABLE".to_owned(),
        CounterPermission::Forbidden => "PR_GET_TSC: PR_TSC_SIGSEGV".to_owned(),
        CounterPermission::Unknown => "PR_GET_TSC: not supported by this kernel".to_owned(),
    });
    lines
}

/// Allows the calling thread, and the threads and programs that it starts, to read the counter again after
/// `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)`. Returns whether reading was forbidden before.
///
/// Until this function is called, every read of a clock through the vDSO in this thread raises SIGSEGV too, including
/// reads by the standard library.
///
/// # Errors
///
/// Returns the kernel's error if prctl fails.
///
/// # Examples
///
/// ```
/// use hpt_core::source;
///
/// match source::permit_counter() {
///     Ok(true) => println!("reading the counter was forbidden"),
///     Ok(false) => {}
///     Err(refused) => eprintln!("prctl: {refused}"),
/// }
/// ```
pub fn permit_counter() -> io::Result<bool> {
    let forbidden = process::tsc_permission() == process::TscPermission::Forbidden;
    if forbidden {
        process::permit_tsc()?;
    }
    Ok(forbidden)
}

#[derive(Debug)]
pub(super) struct TscBackend;

impl Backend for TscBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let availability = if host.is_live() { Tsc::open(host).map(|tsc| tsc.info) } else { describe(host) };
        let here = host.facts().architecture.is_x86();
        vec![ProbeReport {
            id: ID,
            description: "x86 timestamp counter, read with RDTSC",
            availability,
            kernel: if here {
                kernel_verdict(host)
            } else {
                KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned())
            },
            evidence: if here { evidence(host) } else { Vec::new() },
        }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        Tsc::open(host).map(|tsc| Opened::Shared(Box::new(tsc)))
    }
}
