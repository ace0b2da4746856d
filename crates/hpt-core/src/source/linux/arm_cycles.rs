//! The cycle counter of an ARM core (PMCCNTR, or CCNT on the ARM1176), read without a perf event if programs have
//! access to it. The instruction itself is in `hpt_sys::arch`.

use std::io;

use hpt_sys::{
    arch::{CyclesRefused, CyclesToken},
    host::{Architecture, Host},
    process,
    units::{Frequency, Width},
};

use super::{
    cycle_rate::{counted, line, plausible},
    on_its_cpu::OnItsCpu,
    one_kind::{Kind, OneKind},
    tested,
};
use crate::source::{
    Backend, KernelVerdict, Opened, ProbeReport, Quantity, RateKind, ReadPath, Scope, SourceError, SourceId,
    SourceInfo, TimeSource,
};

const ID: SourceId = SourceId::new("arm-cycles");

/// PMCR.D: the counter counts only every 64th cycle. Arm ARM for ARMv7-A (DDI 0406C.d), B4.1, PMCR; ARM1176JZF-S TRM
/// (DDI 0301H), 3.2.51.
const CONTROL_D: u32 = 1 << 3;

/// The cycles of one core: PMCCNTR_EL0 on aarch64, PMCCNTR on ARMv7, CCNT on the ARM1176.
///
/// Core cycles are not time: their rate follows the core's frequency, and the counter stops while the core is idle.
/// While the source exists, its thread is pinned to the CPU on which the source was opened, because each core has its
/// own counter and its own access permission. CPU hotplug and cpuset changes can move the thread without notice; see
/// docs/safety.md in hpt's repository.
///
/// Access can be revoked. When any program's perf event ends on this CPU, the kernel may close the counter, and the
/// next read then raises SIGILL. On 32-bit ARM, and on aarch64 before Linux 5.17, the counter stops instead. Access is therefore checked each time the
/// source is opened. While the source is open, this process cannot open [`PerfCycles`](super::PerfCycles).
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) is a plain read, which the processor may execute early.
/// [`ticks_start`](TimeSource::ticks_start) executes an ISB before the read; [`ticks_end`](TimeSource::ticks_end)
/// executes an ISB before and after the read. On ARMv6, both flush the prefetch buffer instead.
///
/// # References
///
/// Arm ARM (DDI 0487), D13, The Performance Monitors Extension. ARM1176JZF-S TRM (DDI 0301H), 3.2.52.
#[derive(Debug)]
pub struct ArmCycles {
    token: CyclesToken,
    mask: u64,
    stays: OnItsCpu,
    _without_events: OneKind,
    info: SourceInfo,
}

impl ArmCycles {
    /// Pins the thread to its current CPU, checks whether the counter of this CPU is open, and verifies that the
    /// counter advances at the rate of a core. A check that could raise a signal runs in a forked child process. The
    /// call takes a few milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the machine has another architecture, if the counter is closed, has stopped or counts
    /// something else, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{ArmCycles, CycleStopwatch, Host};
    ///
    /// match ArmCycles::open(&Host::live()) {
    ///     Ok(cycles) => {
    ///         let stopwatch = CycleStopwatch::new(cycles);
    ///         let (sum, lap) = stopwatch.time(|| (0..1000_u64).map(black_box).sum::<u64>());
    ///         println!("{sum}: {} cycles", lap?.cycles());
    ///     }
    ///     Err(reason) => println!("no cycles: {reason}; {}", reason.remedy().unwrap_or_default()),
    /// }
    /// # Ok::<(), hpt_core::stopwatch::LapError>(())
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        Self::open_and_watch(host).map(|(cycles, _)| cycles)
    }

    fn open_and_watch(host: &Host) -> Result<(Self, Frequency), SourceError> {
        let have = host.facts().architecture;
        if !is_arm(have) {
            return Err(SourceError::OtherArchitecture { have });
        }
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let without_events = OneKind::begin(Kind::BareCounter).ok_or_else(|| SourceError::InUse {
            evidence: "perf-cycles is open in this process".to_owned(),
            cause: None,
        })?;
        // Pin the thread first, because the result for one CPU does not apply to another. A forked child process
        // inherits the affinity.
        let stays =
            OnItsCpu::here().map_err(|error| SourceError::refused("cannot pin the thread to its CPU", error))?;
        let by_module = host.opened_cycles().is_some();
        let token = CyclesToken::detect(process::platform().as_deref(), by_module)
            .map_err(|why| refusal(why, host, stays.cpu()))?;
        if token.bits() == 32 && token.control_register().is_some_and(|control| control & CONTROL_D != 0) {
            return Err(SourceError::Closed {
                evidence: "the counter counts only every 64th cycle (PMCR.D)".to_owned(),
                remedy: what_opens_it(host),
            });
        }
        let info = info(Width::new(token.bits()).expect("32 or 64 bits"));
        let cycles = tested(Self { token, mask: info.width.mask(), stays, _without_events: without_events, info })?;
        let rate = counted(&cycles)?;
        plausible(rate).map_err(SourceError::SelfTest)?;
        Ok((cycles, rate))
    }

    /// Returns the CPU whose cycles are counted. The thread is pinned to this CPU.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{ArmCycles, Host};
    ///
    /// match ArmCycles::open(&Host::live()) {
    ///     Ok(cycles) => println!("counts the cycles of CPU {}", cycles.cpu()),
    ///     Err(reason) => println!("no cycles: {reason}"),
    /// }
    /// ```
    #[must_use]
    pub const fn cpu(&self) -> usize {
        self.stays.cpu()
    }
}

impl TimeSource for ArmCycles {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.token.read() & self.mask
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        self.token.read_start() & self.mask
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        self.token.read_end() & self.mask
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// Installs a signal handler that explains a SIGILL: if a read of [`ArmCycles`] or [`PerfCycles`](super::PerfCycles)
/// raises it, the handler writes `words` to standard error before the process ends.
///
/// Call this function in programs that read a counter to which access can be [revoked](SourceInfo::revocable). This
/// crate never calls it. The handler writes `words` only if the instruction that raised the signal reads the cycle
/// counter. Any other SIGILL, for example a signal sent by another process, ends the process without this text. In
/// either case, the exit status shows that SIGILL ended the process. If the program already handles or ignores SIGILL,
/// this function changes nothing. `words` should end with a newline. If this function is called more than once, the
/// text of the first call is used.
///
/// This function does nothing on machines other than ARM.
///
/// # Errors
///
/// Returns the kernel's error if sigaction fails.
///
/// # Examples
///
/// ```
/// hpt_core::source::explain_refused_cycles("the cycle counter was closed: load hpt_cycles again\n")?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn explain_refused_cycles(words: &'static str) -> io::Result<()> {
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    return hpt_sys::illegal::explain_refused_cycles(words);
    #[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
    {
        let _ = words;
        Ok(())
    }
}

const fn is_arm(architecture: Architecture) -> bool {
    matches!(architecture, Architecture::Aarch64 | Architecture::Arm)
}

fn info(width: Width) -> SourceInfo {
    SourceInfo::new(ID)
        .with_quantity(Quantity::Cycles)
        .with_rate(RateKind::Variable)
        .with_width(width)
        .with_read_path(ReadPath::Register)
        .with_scope(Scope::Core)
        .with_counts_in_suspend(false)
        .with_revocable(true)
}

/// Returns the fix that applies to the current state of the kernel module and of perf.
fn what_opens_it(host: &Host) -> String {
    let user_access = host.perf_events().user_access;
    let module = match host.opened_cycles() {
        Some(state) if state.contains("taken") => {
            return format!(
                "hpt_cycles is loaded ({state}) but leaves the counter closed, because it was closed by KVM or \
                 kernel.perf_user_access, not by a perf event; keep KVM guests off the CPU, then write a number of seconds to \
                 /sys/module/hpt_cycles/parameters/check_seconds to reopen the counter"
            );
        }
        Some(state) if state.contains("closed") => {
            let ends = if user_access == Some(true) { " and sysctl kernel.perf_user_access=0 is set" } else { "" };
            return format!(
                "hpt_cycles is loaded ({state}) and reopens the counter within seconds after the last perf event on the CPU ends{ends}; \
                 /sys/module/hpt_cycles/parameters/check_seconds sets the interval between its checks"
            );
        }
        Some(_) => "unload the kernel module hpt_cycles, then load it again",
        None => "load the kernel module hpt_cycles (kmod/ in hpt-core's repository)",
    };
    // Only 64-bit kernels since Linux 5.17 have the setting `kernel.perf_user_access`.
    match user_access {
        Some(_) => format!(
            "{module}, or use perf-cycles, which reads the same register if sysctl kernel.perf_user_access=1 is set"
        ),
        None => format!("{module}, or use perf-cycles, which reads the counter with a system call"),
    }
}

fn refusal(why: CyclesRefused, host: &Host, cpu: usize) -> SourceError {
    let closed = |evidence| SourceError::Closed { evidence, remedy: what_opens_it(host) };
    match why {
        CyclesRefused::NoAccessRegister => {
            let evidence = format!("a child process that read PMUSERENR on CPU {cpu} was killed by a signal");
            SourceError::NoPmu { evidence, have: host.facts().architecture }
        }
        CyclesRefused::Closed(access) => {
            closed(format!("PMUSERENR of CPU {cpu} allows no access without a perf event (its value is {access:#x})"))
        }
        CyclesRefused::Killed => {
            closed(format!("a child process that read the counter on CPU {cpu} was killed by a signal"))
        }
        CyclesRefused::NotTried => SourceError::not_tried(),
    }
}

#[derive(Debug)]
pub(super) struct ArmCyclesBackend;

impl Backend for ArmCyclesBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let here = is_arm(host.facts().architecture);
        let opened = ArmCycles::open_and_watch(host);
        let mut evidence = Vec::new();
        if here {
            evidence.push(match &opened {
                Ok((cycles, rate)) => line(host, Some(*rate), Some(cycles.cpu())),
                Err(_) if host.is_live() => {
                    "access to the counter was checked only on the CPU on which this thread was running".to_owned()
                }
                Err(_) => "no file shows whether the counter is open; only a trial read can show it".to_owned(),
            });
            evidence.push(match host.opened_cycles() {
                Some(state) => format!("hpt_cycles reports: {state}"),
                None => "hpt_cycles: not loaded".to_owned(),
            });
            evidence.push(
                "this source counts the cycles of one core, not time, and its rate varies with the core's frequency; a perf event of another program can close or stop the counter"
                    .to_owned(),
            );
        }
        vec![report(host, opened.map(|(cycles, _)| cycles.info), evidence)]
    }

    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        let have = host.facts().architecture;
        let availability =
            if is_arm(have) { Ok(info(Width::BITS_32)) } else { Err(SourceError::OtherArchitecture { have }) };
        vec![report(host, availability, Vec::new())]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        ArmCycles::open(host).map(|cycles| Opened::ThreadBound(Box::new(cycles)))
    }
}

fn report(host: &Host, availability: Result<SourceInfo, SourceError>, evidence: Vec<String>) -> ProbeReport {
    let here = is_arm(host.facts().architecture);
    let kernel =
        if here { "core cycles are not a clocksource" } else { "this counter does not exist on this architecture" };
    ProbeReport {
        id: ID,
        description: "cycles of an ARM core, read from PMCCNTR or CCNT without a perf event",
        availability,
        kernel: KernelVerdict::Unknown(kernel.to_owned()),
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use super::{ArmCycles, CyclesRefused, info, refusal};
    use crate::source::{Quantity, RateKind, Scope, SourceError};
    use hpt_sys::{
        host::{Facts, Host},
        units::Width,
    };

    #[test]
    fn cycles_are_not_a_clock_and_access_can_be_revoked() {
        let info = info(Width::BITS_32);
        assert_eq!((info.quantity, info.rate), (Quantity::Cycles, RateKind::Variable));
        assert_eq!((info.revocable, info.scope, info.nominal), (true, Scope::Core, None));
    }

    #[test]
    fn a_refused_access_is_explained_with_a_fix() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("the path has a parent")).expect("a new directory");
            std::fs::write(path, text).expect("a writable file");
        };
        let closed = refusal(CyclesRefused::Closed(0xc), &host, 3);
        assert!(
            closed.to_string().contains("PMUSERENR of CPU 3 allows no access without a perf event (its value is 0xc)"),
            "{closed}"
        );
        let remedy = || refusal(CyclesRefused::Killed, &host, 0).remedy().expect("a fix");
        assert!(remedy().contains("load the kernel module") && !remedy().contains("perf_user_access"), "{}", remedy());
        write("proc/sys/kernel/perf_user_access", "0\n");
        assert!(remedy().contains("load the kernel module") && remedy().contains("perf_user_access=1"), "{}", remedy());
        write("proc/sys/kernel/perf_user_access", "1\n");
        write("sys/module/hpt_cycles/parameters/state", "closed 0-1\n");
        let loaded = remedy();
        assert!(
            ["is loaded (closed 0-1)", "perf_user_access=0", "check_seconds"].iter().all(|part| loaded.contains(part)),
            "{loaded}"
        );
        assert!(!loaded.contains("load the kernel module"), "{loaded}");
        write("sys/module/hpt_cycles/parameters/state", "open 0\ntaken 1\n");
        let taken = remedy();
        assert!(["KVM", "kernel.perf_user_access", "check_seconds"].iter().all(|part| taken.contains(part)), "{taken}");
        assert!(matches!(refusal(CyclesRefused::NoAccessRegister, &host, 0), SourceError::NoPmu { .. }));
        let not_tried = refusal(CyclesRefused::NotTried, &host, 0);
        assert!(not_tried.to_string().contains("could not start a child process"), "{not_tried}");
    }

    #[test]
    fn sources_of_a_captured_machine_are_not_opened() {
        assert!(ArmCycles::open(&Host::captured(Default::default(), Facts::live())).is_err());
    }
}
