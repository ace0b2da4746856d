//! The cycles of one thread, counted by a perf event of this thread. They are read from a register if the kernel allows
//! it, otherwise with a system call. The event itself is opened in `hpt_sys::perf`.

mod page;

use std::{io, marker::PhantomData};

use hpt_sys::{
    host::{Architecture, Host, PerfEvents},
    perf::{Page, PerfEvent, Wanted},
    process,
    settings::PARANOID,
};

use super::{
    cycle_rate::{busy_rate, counted, line, read_cost_ns},
    one_kind::{Kind, OneKind},
    tested,
};
use crate::source::{
    Backend, KernelVerdict, MissingRight, Opened, ProbeReport, Quantity, RateKind, ReadPath, Scope, SourceError,
    SourceId, SourceInfo, TimeSource,
};

const ID: SourceId = SourceId::new("perf-cycles");

/// The highest values of `kernel.perf_event_paranoid` at which a process may count its own cycles in user mode, and at
/// which it may include the cycles in the kernel. Linux, Documentation/admin-guide/sysctl/kernel.rst; the Debian kernel
/// refuses all events at 3 and above, and the Ubuntu kernel does so at 4 and above.
const HIGHEST_FOR_USER_MODE: i32 = 2;
const HIGHEST_FOR_KERNEL: i32 = 1;

/// The cycles that a thread spends in user mode, counted by a perf event of this thread.
///
/// Core cycles are not time: their rate follows the core's frequency, and they are counted only while the thread runs.
/// The event follows the thread from CPU to CPU. The source is bound to the thread that opened it: another thread has
/// no such event, and its read would raise SIGILL.
///
/// If the kernel lets programs read the counter of their own event (aarch64 with `kernel.perf_user_access` = 1, x86
/// with `rdpmc`), a read takes a few loads and one instruction. Otherwise, and while no counter is assigned to the
/// event, a read is a system call. A forked child reads its parent's event with a system call.
///
/// If a thread opens two of these sources, only one of them is read from a register, because programs have 64-bit
/// access to only one counter. 32-bit ARM has a single cycle counter, so the second open fails.
///
/// The source cannot be opened if the kernel module hpt_cycles has opened the counter to programs, or if this process
/// has [`ArmCycles`](super::ArmCycles) open. In both cases, an event would revoke access from the readers that depend
/// on it.
///
/// While the source is open, root can revoke access with the same settings. The next read then raises SIGILL, or
/// SIGSEGV on x86. If the event has lost its counter, a read returns 0.
///
/// # Ordering
///
/// If the source is read from a register, the processor may execute the read in [`ticks`](TimeSource::ticks) early.
/// [`ticks_start`](TimeSource::ticks_start) executes an ISB (LFENCE on x86) before the read.
/// [`ticks_end`](TimeSource::ticks_end) executes one before and one after the read. A system call is inherently
/// ordered.
///
/// # References
///
/// `perf_event_open(2)`; Linux, Documentation/arch/arm64/perf.rst, "Perf Userspace PMU Hardware Counter Access".
#[derive(Debug)]
pub struct PerfCycles {
    event: PerfEvent,
    page: Option<Page>,
    counts_kernel: bool,
    _without_bare_counter: OneKind,
    info: SourceInfo,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl PerfCycles {
    /// Opens an event for the calling thread, and verifies that it counts. The call takes a few milliseconds. Reads use
    /// a register if the kernel allows it at this time, otherwise a system call.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if there is no cycle counter, if the permission is missing, if all counters are in use,
    /// or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{CycleStopwatch, Host, PerfCycles};
    ///
    /// match PerfCycles::open(&Host::live()) {
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
        Self::opened(host, true)?.examined()
    }

    /// Opens an event that is always read with a system call, even if the kernel allows reading from a register.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] in the same cases as [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PerfCycles, TimeSource, source::ReadPath};
    ///
    /// match PerfCycles::open_by_system_call(&Host::live()) {
    ///     Ok(cycles) => assert_eq!(cycles.info().read_path, ReadPath::SystemCall),
    ///     Err(reason) => println!("no cycles: {reason}"),
    /// }
    /// ```
    pub fn open_by_system_call(host: &Host) -> Result<Self, SourceError> {
        Self::opened(host, false)?.examined()
    }

    fn examined(self) -> Result<Self, SourceError> {
        let cycles = tested(self)?;
        counted(&cycles).map(|_| cycles)
    }

    fn opened(host: &Host, by_register: bool) -> Result<Self, SourceError> {
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let in_use = |evidence: &str| SourceError::InUse { evidence: evidence.to_owned(), cause: None };
        if let Some(state) = host.opened_cycles() {
            // An event would revoke access from the programs that read the counter, and their next read would kill
            // them.
            return Err(in_use(&format!("hpt_cycles has opened the counter to programs ({state})")));
        }
        let without_bare_counter =
            OneKind::begin(Kind::PerfEvent).ok_or_else(|| in_use("arm-cycles is open in this process"))?;
        let (event, page, counts_kernel) = open_event(host.facts().architecture, by_register)?;
        let info = info(if page.is_some() { ReadPath::Register } else { ReadPath::SystemCall });
        Ok(Self {
            event,
            page,
            counts_kernel,
            _without_bare_counter: without_bare_counter,
            info,
            bound_to_its_thread: PhantomData,
        })
    }

    /// Returns whether cycles spent in the kernel are counted too. This is the case if the processor's counters cannot
    /// count user mode separately.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PerfCycles};
    ///
    /// match PerfCycles::open(&Host::live()) {
    ///     Ok(cycles) if cycles.counts_kernel() => println!("cycles in user mode and in the kernel"),
    ///     Ok(_) => println!("cycles in user mode"),
    ///     Err(reason) => println!("no cycles: {reason}"),
    /// }
    /// ```
    #[must_use]
    pub const fn counts_kernel(&self) -> bool {
        self.counts_kernel
    }

    #[inline(always)]
    fn by_register(&self) -> Option<&Page> {
        self.page.as_ref().filter(|page| page.is_of_this_process())
    }

    #[inline]
    fn by_call(&self) -> u64 {
        self.event.count().unwrap_or(0)
    }
}

impl TimeSource for PerfCycles {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.by_register().and_then(page::count).unwrap_or_else(|| self.by_call())
    }

    #[inline(always)]
    fn ticks_start(&self) -> u64 {
        if let Some(page) = self.by_register() {
            page.wait();
        }
        self.ticks()
    }

    #[inline(always)]
    fn ticks_end(&self) -> u64 {
        let ticks = self.ticks_start();
        if let Some(page) = self.by_register() {
            page.wait();
        }
        ticks
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

fn info(read_path: ReadPath) -> SourceInfo {
    SourceInfo::new(ID)
        .with_quantity(Quantity::Cycles)
        .with_rate(RateKind::Variable)
        .with_read_path(read_path)
        .with_scope(Scope::Thread)
        .with_counts_in_suspend(false)
        .with_revocable(true)
}

/// Opens the event. Also returns the event's page if the event is read from a register, and whether the event counts
/// cycles in the kernel.
///
/// Tries several forms of the event. For example, kernels before 5.17 do not support user-space reads, and another
/// event of this thread may have the only counter that supports them. The counters of some processors (ARM1176,
/// Cortex-A8 and A9) cannot exclude the kernel.
fn open_event(have: Architecture, by_register: bool) -> Result<(PerfEvent, Option<Page>, bool), SourceError> {
    let user_mode = |by_register| PerfEvent::open(Wanted { user_only: true, by_register });
    let answer = match user_mode(by_register) {
        Ok(event) if by_register => {
            // The page is read before the first read(2). Otherwise, the arm64 driver (observed with Linux 6.1) keeps a
            // previous 32-bit count, and the page of a 32-bit program is off by 2^32 until the next thread switch.
            let page = event.map().ok().filter(|page| page::count(page).is_some());
            if page.is_some() || event.count().is_some() {
                return Ok((event, page, false));
            }
            user_mode(false)
        }
        Err(error) if by_register && is_not_so(&error) => user_mode(false),
        answer => answer,
    };
    let (event, counts_kernel) = match answer {
        Ok(event) => (event, false),
        Err(error) if is_not_so(&error) => {
            let both = PerfEvent::open(Wanted { user_only: false, by_register: false });
            (both.map_err(|error| refusal(error, have, false))?, true)
        }
        Err(error) => return Err(refusal(error, have, true)),
    };
    if event.count().is_none() {
        return Err(SourceError::InUse {
            evidence: "the kernel assigned no counter to a pinned event".to_owned(),
            cause: None,
        });
    }
    // On x86 any event can be read from a register.
    let page = event.map().ok().filter(|page| by_register && page::count(page).is_some());
    Ok((event, page, counts_kernel))
}

/// Returns whether the error means that the kernel supports the event, but not in the requested form.
fn is_not_so(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// Translates the kernel's error into its cause and fix. See perf_event_open(2), ERRORS.
fn refusal(error: io::Error, have: Architecture, user_only: bool) -> SourceError {
    let no_pmu = |name: &str, meaning: &str| SourceError::NoPmu {
        evidence: format!("perf_event_open returns {name}: {meaning}"),
        have,
    };
    match error.raw_os_error() {
        Some(libc::ENOENT) => no_pmu("ENOENT", "the kernel has no driver for this processor's counters"),
        Some(libc::ENODEV | libc::ENXIO) => no_pmu("ENODEV", "the processor has no working counters"),
        Some(libc::EOPNOTSUPP) => no_pmu("EOPNOTSUPP", "the available counters cannot count cycles in this mode"),
        Some(libc::ENOSYS) => no_pmu("ENOSYS", "this kernel or emulator does not support perf events"),
        Some(libc::EACCES) => SourceError::NoRight {
            path: PARANOID.path.to_owned(),
            right: MissingRight::PerfEvents {
                highest: if user_only { HIGHEST_FOR_USER_MODE } else { HIGHEST_FOR_KERNEL },
            },
        },
        Some(libc::EBUSY | libc::ENOSPC) => {
            SourceError::InUse { evidence: "perf_event_open failed".to_owned(), cause: Some(error.into()) }
        }
        _ => SourceError::refused("perf_event_open", error),
    }
}

/// Returns the properties that the event has for an unprivileged process, according to the files of a system snapshot.
fn describe(architecture: Architecture, told: &PerfEvents) -> Result<SourceInfo, SourceError> {
    match (&told.core_pmus, told.paranoid) {
        (Some(pmus), _) if pmus.is_empty() => {
            let evidence = "/sys/bus/event_source/devices lists no core counters".to_owned();
            Err(SourceError::NoPmu { evidence, have: architecture })
        }
        // Either the snapshot does not include these files, or the kernel does not support perf events. The snapshot
        // does not show which of the two is the case.
        (_, None) | (None, _) => Err(SourceError::Captured),
        (_, Some(paranoid)) if paranoid > HIGHEST_FOR_USER_MODE => Err(SourceError::NoRight {
            path: PARANOID.path.to_owned(),
            right: MissingRight::PerfEvents { highest: HIGHEST_FOR_USER_MODE },
        }),
        (Some(_), Some(_)) => {
            let by_register = match architecture {
                Architecture::X86_64 => !told.rdpmc.is_empty() && told.rdpmc.values().all(|&rdpmc| rdpmc > 0),
                Architecture::Aarch64 | Architecture::Arm => told.user_access == Some(true),
                Architecture::X86 | Architecture::Riscv64 | Architecture::Other => false,
            };
            Ok(info(if by_register { ReadPath::Register } else { ReadPath::SystemCall }))
        }
    }
}

/// Returns the perf settings and the list of core counters, one item per line.
fn told_lines(architecture: Architecture, told: &PerfEvents) -> Vec<String> {
    let value = |value: Option<String>| value.unwrap_or_else(|| "not available".to_owned());
    let mut lines = vec![format!(
        "kernel.perf_event_paranoid: {}{}",
        value(told.paranoid.map(|paranoid| paranoid.to_string())),
        match told.paranoid {
            Some(paranoid) if paranoid > HIGHEST_FOR_USER_MODE => ", refuses processes without CAP_PERFMON",
            Some(_) => ", allows a process to count its own cycles in user mode",
            None => "",
        }
    )];
    lines.push(match architecture {
        Architecture::X86_64 | Architecture::X86 => {
            let each = told
                .rdpmc
                .iter()
                .map(|(pmu, rdpmc)| if pmu == "cpu" { rdpmc.to_string() } else { format!("{rdpmc} ({pmu})") });
            let each: Vec<String> = each.collect();
            format!("rdpmc of the core's counters: {}", value((!each.is_empty()).then(|| each.join(", "))))
        }
        Architecture::Aarch64 | Architecture::Arm | Architecture::Riscv64 | Architecture::Other => {
            let allows =
                |user_access| if user_access { "1, reads from a register" } else { "0, reads with a system call" };
            format!("kernel.perf_user_access: {}", value(told.user_access.map(|access| allows(access).to_owned())))
        }
    });
    let with_cpus =
        |pmu: &String| told.cpus.get(pmu).map_or_else(|| pmu.clone(), |cpus| format!("{pmu} (CPUs {cpus})"));
    lines.push(format!(
        "core counters: {}",
        match told.core_pmus.as_deref() {
            None => "unknown".to_owned(),
            Some([]) => "none".to_owned(),
            Some(pmus) => pmus.iter().map(with_cpus).collect::<Vec<_>>().join(", "),
        }
    ));
    lines.extend(coverage(told));
    lines
}

/// Returns which CPUs count the cycles, if not all do: an event for which no counters were chosen counts on one kind of
/// core. On a CPU of another kind, the count stands still.
fn coverage(told: &PerfEvents) -> Option<String> {
    let pmus = told.core_pmus.as_deref()?;
    let of_one_kind = |pmu: &String| {
        let cpus = told.cpus.get(pmu)?;
        Some(format!("counted: only on CPUs {cpus} ({pmu}); on other CPUs, the count stands still"))
    };
    match (pmus, &told.usual) {
        ([] | [_], _) => None,
        (_, Some(usual)) => of_one_kind(usual),
        (_, None) => Some(
            "counted: only on the CPUs of one of these kinds of core, and the kernel does not state which; on other CPUs, the count stands still".to_owned(),
        ),
    }
}

/// Returns the modes that an open event counts, its read overhead, and its rate, one item per line.
fn opened_lines(host: &Host, cycles: &PerfCycles) -> Vec<String> {
    let modes = if cycles.counts_kernel {
        "counted: user mode and kernel mode, which these counters cannot separate"
    } else {
        "counted: user mode only"
    };
    let ns = |cost: Option<f64>| cost.map_or_else(|| "not measured".to_owned(), |ns| format!("{ns:.1} ns"));
    let costs = if cycles.page.is_some() {
        let by_call = PerfCycles::open_by_system_call(host).ok().and_then(|cycles| read_cost_ns(&cycles));
        format!("read overhead: {} from a register, {} with a system call", ns(read_cost_ns(cycles)), ns(by_call))
    } else {
        format!(
            "read overhead: {} with a system call; reading from a register is not possible",
            ns(read_cost_ns(cycles))
        )
    };
    vec![modes.to_owned(), costs, line(host, busy_rate(cycles), process::current_cpu())]
}

#[derive(Debug)]
pub(super) struct PerfCyclesBackend;

impl Backend for PerfCyclesBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let (architecture, told) = (host.facts().architecture, host.perf_events());
        let mut evidence = told_lines(architecture, &told);
        let availability = if host.is_live() {
            PerfCycles::open(host).map(|cycles| {
                evidence.extend(opened_lines(host, &cycles));
                cycles.info
            })
        } else {
            describe(architecture, &told)
        };
        vec![report(availability, evidence)]
    }

    fn outline(&self, _host: &Host) -> Vec<ProbeReport> {
        vec![report(Ok(info(ReadPath::SystemCall)), Vec::new())]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        PerfCycles::open(host).map(|cycles| Opened::ThreadBound(Box::new(cycles)))
    }
}

fn report(availability: Result<SourceInfo, SourceError>, evidence: Vec<String>) -> ProbeReport {
    ProbeReport {
        id: ID,
        description: "cycles of the reading thread, counted by its own perf event",
        availability,
        kernel: KernelVerdict::Trusted("this is the kernel's own count".to_owned()),
        evidence,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use hpt_sys::host::CpuList;

    use super::{
        Architecture, PerfEvents, Quantity, RateKind, ReadPath, Scope, SourceError, describe, info, refusal, told_lines,
    };

    fn answer(errno: i32, user_only: bool) -> SourceError {
        refusal(io::Error::from_raw_os_error(errno), Architecture::Aarch64, user_only)
    }

    #[test]
    fn every_refusal_is_explained_with_a_fix() {
        for errno in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::ENOSYS] {
            let reason = answer(errno, true);
            assert!(matches!(reason, SourceError::NoPmu { .. }) && reason.remedy().is_some(), "{reason}");
        }
        let no_driver = |have| refusal(io::Error::from_raw_os_error(libc::ENOENT), have, true).remedy().expect("a fix");
        assert!(!no_driver(Architecture::X86_64).contains("device tree"), "a PC has none");
        assert!(no_driver(Architecture::Arm).contains("pmu node"));
        let remedy = |user_only| answer(libc::EACCES, user_only).remedy().expect("a fix");
        assert!(remedy(true).contains("kernel.perf_event_paranoid=2"), "{}", remedy(true));
        assert!(remedy(false).contains("kernel.perf_event_paranoid=1"), "{}", remedy(false));
        assert!(matches!(answer(libc::EBUSY, true), SourceError::InUse { .. }));
        assert!(matches!(answer(libc::EPERM, true), SourceError::Refused { .. }));
    }

    fn machine(paranoid: i32) -> PerfEvents {
        PerfEvents {
            paranoid: Some(paranoid),
            core_pmus: Some(vec!["armv8_cortex_a53".to_owned()]),
            ..PerfEvents::default()
        }
    }

    #[test]
    fn a_captured_machine_is_examined_through_its_files() {
        let arm = |told: &PerfEvents| describe(Architecture::Aarch64, told).map(|info| info.read_path);
        assert_eq!(arm(&machine(2)), Ok(ReadPath::SystemCall));
        assert_eq!(arm(&PerfEvents { user_access: Some(true), ..machine(-1) }), Ok(ReadPath::Register));
        assert!(matches!(arm(&machine(3)), Err(SourceError::NoRight { .. })));
        let without = PerfEvents { core_pmus: Some(Vec::new()), ..machine(2) };
        assert!(matches!(arm(&without), Err(SourceError::NoPmu { .. })));
        assert_eq!(arm(&PerfEvents::default()), Err(SourceError::Captured));
        let pc = PerfEvents { rdpmc: [("cpu".to_owned(), 1)].into(), ..machine(2) };
        assert_eq!(describe(Architecture::X86_64, &pc).map(|info| info.read_path), Ok(ReadPath::Register));
    }

    #[test]
    fn the_contents_of_the_files_are_shown() {
        let lines =
            told_lines(Architecture::Aarch64, &PerfEvents { user_access: Some(false), ..machine(3) }).join("\n");
        for said in ["paranoid: 3, refuses", "perf_user_access: 0, reads with a system call", "armv8_cortex_a53"] {
            assert!(lines.contains(said), "{said} in {lines}");
        }
    }

    #[test]
    fn the_cpus_that_count_are_named_if_not_all_do() {
        let of = |each: &[(&str, &str)], usual: Option<&str>| {
            let cpus = each.iter().filter_map(|(pmu, cpus)| Some(((*pmu).to_owned(), CpuList::parse(cpus)?)));
            super::coverage(&PerfEvents {
                core_pmus: Some(each.iter().map(|(pmu, _)| (*pmu).to_owned()).collect()),
                cpus: cpus.collect(),
                usual: usual.map(str::to_owned),
                ..PerfEvents::default()
            })
        };
        let hybrid = of(&[("cpu_atom", "12-19"), ("cpu_core", "0-11")], Some("cpu_core"));
        assert_eq!(
            hybrid.as_deref(),
            Some("counted: only on CPUs 0-11 (cpu_core); on other CPUs, the count stands still")
        );
        let arm = of(&[("armv8_cortex_a53", "0-3"), ("armv8_cortex_a72", "4-5")], None).expect("two kinds");
        assert!(arm.contains("does not state which"), "{arm}");
        assert_eq!(of(&[("cpu", "")], Some("cpu")), None);
        assert_eq!(of(&[("armv8_cortex_a72", "0-3")], None), None);
        assert_eq!(super::coverage(&PerfEvents::default()), None);
    }

    #[test]
    fn cycles_of_a_thread_are_not_a_clock_and_access_can_be_revoked() {
        let info = info(ReadPath::Register);
        assert_eq!((info.quantity, info.rate), (Quantity::Cycles, RateKind::Variable));
        assert_eq!((info.revocable, info.scope, info.nominal), (true, Scope::Thread, None));
    }
}
