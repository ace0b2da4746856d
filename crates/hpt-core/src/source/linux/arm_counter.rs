//! The virtual counter of the ARM generic timer, CNTVCT, on 64-bit and 32-bit ARM. The instruction itself is in
//! `hpt_sys::arch`.

use hpt_sys::{
    arch::CounterToken,
    clock::{Clock, ClockId, Route},
    host::{Architecture, CounterPermission, Host},
    process::{self, is_armv6},
    units::{Frequency, Width},
};

use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo,
    StatedBy, TimeSource,
};

const ID: SourceId = SourceId::new("arm-counter");
/// Bit 19 of HWCAP2 on aarch64: FEAT_ECV, which includes the self-synchronized view of the counter. Linux,
/// arch/arm64/include/uapi/asm/hwcap.h.
const HWCAP2_ECV: u64 = 1 << 19;
/// The time within which the counter of a generic timer is guaranteed not to roll over, in seconds. Arm ARM (DDI 0487),
/// D12.1.1; Linux, drivers/clocksource/arm_arch_timer.c, `MIN_ROLLOVER_SECS`.
const SHORTEST_ROLLOVER_S: u64 = 40 * 365 * 24 * 3600;
/// The minimum width of a generic timer's counter, in bits. Arm ARM (DDI 0487), D12.1.1.
const FEWEST_BITS: u8 = 56;

/// The virtual counter of the ARM generic timer.
///
/// # Ordering
///
/// [`ticks`](TimeSource::ticks) is a plain read, which the processor may execute early.
/// [`ticks_start`](TimeSource::ticks_start) executes an ISB before the read, or uses the self-synchronized read if the
/// processor supports it (FEAT_ECV). [`ticks_end`](TimeSource::ticks_end) executes an ISB before and after the read.
///
/// # References
///
/// Arm ARM (DDI 0487), D12, The Generic Timer in AArch64 state.
#[derive(Clone, Debug)]
pub struct ArmCounter {
    token: CounterToken,
    mask: u64,
    info: SourceInfo,
}

impl ArmCounter {
    /// Opens the counter. On 32-bit ARM, this function forks a child process that tries the instruction, because only a
    /// trial shows whether the kernel allows it.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if the processor has no such counter, if prctl or the kernel forbids reading it, or if
    /// `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{ArmCounter, Host, TimeSource};
    ///
    /// match ArmCounter::open(&Host::live()) {
    ///     Ok(counter) => assert!(counter.ticks_start() <= counter.ticks_end()),
    ///     Err(reason) => println!("no ARM counter here: {reason}"),
    /// }
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        let mut info = describe(host)?;
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let self_synchronized = has_self_synchronized_reads(host.facts().hwcap2);
        let token = CounterToken::detect(true, self_synchronized).map_err(SourceError::of_counter)?;
        info.nominal = info.nominal.or_else(|| {
            let frequency = Frequency::from_hertz(token.frequency_register().into())?;
            Some(Nominal { frequency, stated_by: StatedBy::Cntfrq })
        });
        info.width = info.nominal.map_or(info.width, |nominal| width(nominal.frequency));
        Ok(Self { token, mask: info.width.mask(), info })
    }
}

impl TimeSource for ArmCounter {
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

/// Returns the width that a counter of this frequency is guaranteed to have: at least 56 bits, and enough bits not to
/// wrap within forty years.
fn width(frequency: Frequency) -> Width {
    let ticks = u128::from(SHORTEST_ROLLOVER_S) * u128::from(frequency.hertz());
    let bits = u128::BITS - (ticks - 1).leading_zeros();
    let bits = u8::try_from(bits).unwrap_or(64).clamp(FEWEST_BITS, 64);
    Width::new(bits).expect("56 to 64 bits")
}

/// Returns an error for an ARMv6 processor, which AT_PLATFORM identifies. The timer was introduced with ARMv7, so an
/// ARMv6 processor has no instruction to try. Arm ARM for ARMv7-A (DDI 0406C.d), chapter B8.
fn has_timer(platform: Option<&str>) -> Result<(), SourceError> {
    if is_armv6(platform) {
        return Err(SourceError::NoCounter {
            evidence: "this is an ARMv6 processor; the generic timer was introduced with ARMv7",
        });
    }
    Ok(())
}

fn permission(host: &Host) -> CounterPermission {
    if host.is_live() { CounterPermission::of_this_thread() } else { host.facts().counter_permission }
}

/// Returns whether this AT_HWCAP2 value of an aarch64 system reports self-synchronized reads.
#[cfg_attr(any(target_arch = "x86_64", target_arch = "x86"), allow(dead_code, reason = "used only on ARM"))]
pub(crate) const fn has_self_synchronized_reads(hwcap2: u64) -> bool {
    hwcap2 & HWCAP2_ECV != 0
}

const fn is_arm(architecture: Architecture) -> bool {
    matches!(architecture, Architecture::Aarch64 | Architecture::Arm)
}

/// Returns the properties of the counter on this host, or the reason why it is not available. Uses only the files and
/// facts of the host.
fn describe(host: &Host) -> Result<SourceInfo, SourceError> {
    let have = host.facts().architecture;
    if !is_arm(have) {
        return Err(SourceError::OtherArchitecture { have });
    }
    if permission(host) == CounterPermission::Forbidden {
        return Err(SourceError::ForbiddenByPrctl);
    }
    let node = host.arch_timer();
    // On a live system, a trial read shows whether the timer exists. Every 64-bit processor has the timer, but a 32-bit
    // processor may lack it.
    if !host.is_live() && have == Architecture::Arm && node.is_none() && host.has_device_tree() {
        return Err(SourceError::NoDevice { evidence: "the device tree has no ARM generic timer".to_owned() });
    }
    if host.is_live() {
        has_timer(process::platform().as_deref())?;
    }
    let mut info = SourceInfo::new(ID);
    // The device tree takes precedence, because it states a frequency only if the register CNTFRQ is known to be wrong
    // or empty.
    info.nominal = node
        .as_ref()
        .and_then(|node| node.clock_frequency_hz)
        .and_then(|hertz| Frequency::from_hertz(hertz.into()))
        .map(|frequency| Nominal { frequency, stated_by: StatedBy::DeviceTree });
    info.width = info.nominal.map_or(Width::new(FEWEST_BITS).expect("56 bits"), |nominal| width(nominal.frequency));
    info.read_path = ReadPath::Register;
    info.rate = RateKind::Constant;
    info.counts_in_suspend = node.map(|node| !node.stops_in_suspend);
    Ok(info)
}

fn evidence(host: &Host, opened: Option<&ArmCounter>) -> Vec<String> {
    let mut lines = vec![match permission(host) {
        CounterPermission::Enabled => "PR_GET_TSC: PR_TSC_ENABLE".to_owned(),
        CounterPermission::Forbidden => "PR_GET_TSC: PR_TSC_SIGSEGV".to_owned(),
        CounterPermission::Unknown => "PR_GET_TSC: not supported by this kernel".to_owned(),
    }];
    lines.push(match host.arch_timer() {
        None => "device tree: no ARM generic timer below the root (or no device tree)".to_owned(),
        Some(node) => {
            let frequency = node
                .clock_frequency_hz
                .map_or("no clock-frequency".to_owned(), |hertz| format!("clock-frequency {hertz} Hz"));
            let errata = if node.errata.is_empty() { "no erratum".to_owned() } else { node.errata.join(", ") };
            format!("device tree: {frequency}; {errata}")
        }
    });
    if let Some(counter) = opened {
        lines.push(cost_line(cost_beside_a_system_call(counter), &host.arch_timer().unwrap_or_default().errata));
        lines.push(match counter.token.frequency_register() {
            0 => "CNTFRQ: not written by the firmware".to_owned(),
            hertz => format!("CNTFRQ: {hertz} Hz"),
        });
    }
    let ecv = host.facts().architecture == Architecture::Aarch64 && has_self_synchronized_reads(host.facts().hwcap2);
    lines.push(
        if ecv {
            "HWCAP2: the processor supports self-synchronized reads (ECV)"
        } else {
            "HWCAP2: no self-synchronized reads; an ISB orders the reads"
        }
        .to_owned(),
    );
    lines
}

/// Returns the duration of a series of reads and the duration of the same number of system calls, in nanoseconds. Each
/// duration is the shortest of a few rounds. Returns `None` if the clock that times the rounds cannot be opened.
fn cost_beside_a_system_call(counter: &ArmCounter) -> Option<(u64, u64)> {
    const READS: u32 = 64;
    const ROUNDS: usize = 5;
    let clock = Clock::open(ClockId::Monotonic, Route::SystemCall).ok()?;
    let time = |work: &dyn Fn()| {
        let start = clock.nanos();
        work();
        clock.nanos().wrapping_sub(start)
    };
    let reads = || {
        counter.ticks_repeated(READS);
    };
    let calls = || {
        for _ in 0..READS {
            std::hint::black_box(clock.nanos());
        }
    };
    let quickest = |work: &dyn Fn()| (0..ROUNDS).map(|_| time(work)).min();
    quickest(&reads).zip(quickest(&calls))
}

/// Describes the cost of a read. A read that takes at least half as long as a system call enters the kernel: the kernel
/// traps and emulates the instruction because of an erratum. The reading is correct, but the read is slow.
fn cost_line(costs: Option<(u64, u64)>, errata: &[&str]) -> String {
    match costs {
        None => "read overhead: not measured".to_owned(),
        Some((reads_ns, calls_ns)) if reads_ns >= calls_ns / 2 => {
            let named = if errata.is_empty() {
                "an erratum that the device tree does not name".to_owned()
            } else {
                errata.join(", ")
            };
            format!("a read takes at least half as long as a system call: the kernel traps and emulates it ({named})")
        }
        Some(_) => "a read takes less than half as long as a system call: it is not trapped".to_owned(),
    }
}

#[derive(Debug)]
pub(super) struct ArmCounterBackend;

impl Backend for ArmCounterBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![ID]
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let opened = host.is_live().then(|| ArmCounter::open(host));
        let here = is_arm(host.facts().architecture);
        let evidence =
            if here { evidence(host, opened.as_ref().and_then(|opened| opened.as_ref().ok())) } else { Vec::new() };
        vec![ProbeReport {
            id: ID,
            description: "virtual counter of the ARM generic timer, CNTVCT",
            availability: opened.map_or_else(|| describe(host), |opened| opened.map(|counter| counter.info)),
            kernel: if here {
                KernelVerdict::of_clock_source(&host.clock_sources(), "arch_sys_counter")
            } else {
                KernelVerdict::Unknown("this counter does not exist on this architecture".to_owned())
            },
            evidence,
        }]
    }

    fn open(&self, host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        ArmCounter::open(host).map(|counter| Opened::Shared(Box::new(counter)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Frequency, cost_line, has_timer, width};

    #[test]
    fn an_armv6_processor_is_refused_because_it_has_no_counter() {
        let reason = has_timer(Some("v6l")).expect_err("ARMv6 has no generic timer");
        assert_eq!((reason.kind(), reason.remedy()), ("no-counter", None), "{reason}");
        for other in [Some("v7l"), Some("v8l"), Some("aarch64"), None] {
            assert_eq!(has_timer(other), Ok(()));
        }
    }

    #[test]
    fn a_trapped_read_is_detected_by_its_cost_and_names_the_erratum() {
        assert!(cost_line(Some((9_000, 10_000)), &["fsl,erratum-a008585"]).contains("fsl,erratum-a008585"));
        assert!(cost_line(Some((9_000, 10_000)), &[]).contains("traps and emulates"));
        assert!(cost_line(Some((3_000, 10_000)), &[]).contains("not trapped"));
        assert!(cost_line(None, &[]).contains("not measured"));
    }

    #[test]
    fn a_counter_has_56_bits_or_enough_for_40_years() {
        let bits = |hertz| width(Frequency::from_hertz(hertz).expect("not zero")).bits();
        // 19.2 and 54 MHz on a Raspberry Pi, 62.5 MHz under QEMU, 1 GHz since ARMv8.6.
        assert_eq!((bits(19_200_000), bits(54_000_000), bits(62_500_000), bits(1_000_000_000)), (56, 56, 57, 61));
    }
}
