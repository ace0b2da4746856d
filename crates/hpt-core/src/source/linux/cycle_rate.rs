//! The current cycle rate of a core, compared with its stated frequency. The cycle counter is not used as a clock,
//! because its rate changes constantly.

use std::time::Duration;

use hpt_sys::{host::Host, units::Frequency};

use crate::source::{PosixClock, PosixId, SelfTestError, SourceError, TimeSource, info::FASTEST_CORE, self_test};

/// The lowest plausible core frequency; no core that runs Linux is slower. A counter that counts only every 64th cycle
/// stays below this rate on a core of at most 3 GHz. Arm ARM (DDI 0487), D24.5, PMCR_EL0.D.
const SLOWEST_CORE: Frequency = Frequency::from_hertz(50_000_000).expect("not zero");

/// The time for which the core is kept busy per measurement, in nanoseconds, and the number of measurements. The
/// highest rate is used, because an interruption lowers the measured rate.
const BUSY_NS: u64 = 200_000;
const LOOKS: u32 = 5;
/// The initial estimate of the number of work steps in that time.
const FIRST_STEPS: u32 = 10_000;

/// Returns the rate at which the source counts while its core is busy.
///
/// # Errors
///
/// Returns [`SelfTestError::StandsStill`] if the source does not count, and [`SelfTestError::NoCoresRate`] if it
/// counts faster than any core.
pub(super) fn counted<S: TimeSource + ?Sized>(source: &S) -> Result<Frequency, SourceError> {
    let still = SelfTestError::StandsStill {
        at_ticks: source.ticks(),
        watched: Duration::from_nanos(BUSY_NS).saturating_mul(LOOKS),
    };
    match busy_rate(source) {
        None => Err(SourceError::SelfTest(still)),
        Some(rate) if rate > FASTEST_CORE => Err(SourceError::SelfTest(SelfTestError::NoCoresRate { rate })),
        Some(rate) => Ok(rate),
    }
}

/// Returns the current rate of a cycle counter while its core executes user-mode code without pause. This rate is the
/// frequency of the busy core. Returns `None` if the source did not advance, or if `CLOCK_MONOTONIC_RAW` cannot be
/// read. The call takes a few milliseconds.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, PerfCycles, source};
///
/// match PerfCycles::open(&Host::live()) {
///     Ok(cycles) => match source::busy_rate(&cycles) {
///         Some(rate) => println!("the core runs at {rate:.0}"),
///         None => println!("the counter does not advance"),
///     },
///     Err(reason) => println!("no cycles: {reason}"),
/// }
/// ```
pub fn busy_rate<S: TimeSource + ?Sized>(source: &S) -> Option<Frequency> {
    let clock = PosixClock::open(&Host::live(), PosixId::REFERENCE).ok()?;
    let mut steps = FIRST_STEPS;
    let mut looks = Vec::new();
    while looks.len() < LOOKS as usize {
        let (ns, cycles) = look(source, &clock, steps);
        if ns < BUSY_NS && steps < u32::MAX / 2 {
            steps *= 2;
        } else {
            looks.push(Frequency::from_ratio(cycles, ns));
        }
    }
    looks.into_iter().flatten().max()
}

/// Returns the number of nanoseconds and the number of cycles that `steps` steps of work take.
fn look<S: TimeSource + ?Sized>(source: &S, clock: &PosixClock, steps: u32) -> (u64, u64) {
    let (begun_ns, begun) = (clock.ticks_end(), source.ticks_end());
    let mut work = 1_u32;
    for step in 0..steps {
        work = std::hint::black_box(work.wrapping_mul(step | 1));
    }
    let (ended, ended_ns) = (source.ticks_end(), clock.ticks_end());
    std::hint::black_box(work);
    (ended_ns.wrapping_sub(begun_ns), source.info().width.difference(begun, ended))
}

/// Returns the time per read, in nanoseconds.
pub(super) fn read_cost_ns<S: TimeSource + ?Sized>(source: &S) -> Option<f64> {
    let clock = PosixClock::open(&Host::live(), PosixId::REFERENCE).ok()?;
    self_test(source, &clock).ok().map(|test| test.read_cost_ns)
}

/// Returns an error if no core can have this rate.
pub(super) fn plausible(rate: Frequency) -> Result<(), SelfTestError> {
    if (SLOWEST_CORE..=FASTEST_CORE).contains(&rate) { Ok(()) } else { Err(SelfTestError::NoCoresRate { rate }) }
}

/// Describes the counted rate and the frequency that the kernel reports for `cpu`.
pub(super) fn line(host: &Host, rate: Option<Frequency>, cpu: Option<usize>) -> String {
    let counted = rate.map_or_else(
        || "no cycles counted".to_owned(),
        |rate| format!("{:.3} cycles per ns while the core is busy", rate.hertz_f64() / 1e9),
    );
    let stated = match cpu.map(|cpu| (cpu, host.core_frequency(cpu))) {
        Some((cpu, Some(frequency))) => format!("CPU {cpu} runs at {frequency} (scaling_cur_freq)"),
        Some((cpu, None)) => format!("cpufreq does not report the frequency of CPU {cpu}"),
        None => "the kernel does not report which CPU this is".to_owned(),
    };
    format!("{counted}; {stated}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{counted, line, plausible};
    use crate::{
        source::{SelfTestError, SourceError, SourceId, SourceInfo},
        testing::ManualSource,
    };
    use hpt_sys::{
        host::{Facts, Host},
        units::{Frequency, Width},
    };

    fn hertz(hertz: u64) -> Frequency {
        Frequency::from_hertz(hertz).expect("not zero")
    }

    #[test]
    fn a_cycle_counter_is_distinguished_from_a_timer_and_a_divided_counter() {
        for rate in [100_000_000, 600_000_000, 1_000_000_000, 5_700_000_000] {
            assert_eq!(plausible(hertz(rate)), Ok(()), "{rate}");
        }
        // The System Timer, the generic timer of a Pi, every 64th cycle of a Pi 5, and an implausible value.
        for rate in [1_000_000, 19_200_000, 2_400_000_000 / 64, 40_000_000_000] {
            assert!(matches!(plausible(hertz(rate)), Err(SelfTestError::NoCoresRate { .. })), "{rate}");
        }
    }

    #[test]
    fn a_counter_without_plausible_counts_is_not_a_cycle_counter() {
        let still = counted(&ManualSource::new("still"));
        assert!(matches!(still, Err(SourceError::SelfTest(SelfTestError::StandsStill { .. }))), "{still:?}");
        // A counter that an emulator does not have, and a kernel that accounts for its overflows anyway.
        let jumps = counted(&ManualSource::new("jumps").with_step((1 << 31) - 1));
        assert!(matches!(jumps, Err(SourceError::SelfTest(SelfTestError::NoCoresRate { .. }))), "{jumps:?}");
    }

    #[test]
    fn the_rate_is_shown_with_the_frequency_of_the_governor() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        assert!(line(&host, None, None).starts_with("no cycles counted; the kernel does not report"));
        assert!(line(&host, Some(hertz(1_498_000_000)), Some(2)).starts_with("1.498 cycles per ns"));
        let folder = folder.path().join("sys/devices/system/cpu/cpu2/cpufreq");
        std::fs::create_dir_all(&folder).expect("it can be made");
        std::fs::write(folder.join("scaling_cur_freq"), "1500000\n").expect("writable");
        assert!(line(&host, None, Some(2)).ends_with("CPU 2 runs at 1500 MHz (scaling_cur_freq)"));
    }

    #[test]
    fn a_32_bit_difference_is_trusted_only_for_less_than_the_shortest_wrap_time() {
        let mut info = SourceInfo::new(SourceId::new("cycles"));
        assert_eq!(info.longest_difference(), None);
        info.width = Width::BITS_32;
        let longest = info.longest_difference().expect("32 bits");
        assert!(longest < Duration::from_millis(430) && longest > Duration::from_millis(429), "{longest:?}");
    }
}
