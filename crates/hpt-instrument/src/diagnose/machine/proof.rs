//! Decides whether the gaps that a busy-polling thread observed prove that the kernel throttled it. This module
//! measures nothing; the gaps are its input.

use std::{collections::BTreeMap, time::Duration};

use hpt_sys::{
    host::Known,
    settings::{RT_PERIOD, RT_RUNTIME},
    units::Spaced,
};

use super::{Examined, MachineFacts, Verdict};

/// A stretch of time in which a real-time thread that never blocks did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The start of the gap, relative to the first reading.
    pub began: Duration,
    /// The length of the gap.
    pub length: Duration,
    /// The time that the thread waited for its CPU during the gap, according to the kernel; `None` if the kernel does
    /// not report waits. Steal time is not included.
    pub waited: Option<Duration>,
}

/// The gaps that a busy-polling thread observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gaps {
    /// The gaps, in chronological order. Negligible gaps are omitted.
    pub gaps: Vec<Gap>,
    /// The time for which the thread polled.
    pub window: Duration,
}

/// The time that the kernel reserves in each period, which a real-time thread observes as a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reserved {
    gap: Duration,
    period: Duration,
}

impl Reserved {
    /// Returns whether `self` and `other` could both explain the same gaps, given the tolerances of `shows`.
    fn may_be_taken_for(self, other: Self) -> bool {
        let same_length = self.gap < other.gap * 3 && other.gap < self.gap * 3;
        same_length && self.period.abs_diff(other.period) <= (self.period + other.period) / 5
    }
}

/// The time that the kernel reserves for ordinary threads by default. Linux 6.12, kernel/sched/deadline.c,
/// fair_server_init.
const USUAL: Reserved = Reserved { gap: Duration::from_millis(50), period: Duration::from_secs(1) };

/// The minimum number of gaps that proves a period. Two gaps may have any cause. Three gaps at equal distances
/// show a period.
const IN_A_ROW: usize = 3;

impl MachineFacts {
    fn reserved(&self, rule: &str, cpu: usize) -> Option<Reserved> {
        match (rule, self.number(&RT_RUNTIME), self.number(&RT_PERIOD)) {
            ("throttling", Known::Is(runtime), Known::Is(period)) => Some(Reserved {
                gap: Duration::from_micros(u64::try_from(period.checked_sub(runtime)?).ok()?),
                period: Duration::from_micros(u64::try_from(period).ok()?),
            }),
            ("fair-server", ..) => {
                let known = |files: &BTreeMap<usize, Known<i64>>| {
                    let ns = files.get(&cpu).and_then(Known::is)?;
                    u64::try_from(*ns).ok().filter(|&ns| ns > 0).map(Duration::from_nanos)
                };
                Some(Reserved {
                    gap: known(&self.fair_servers).unwrap_or(USUAL.gap),
                    period: known(&self.fair_server_periods).unwrap_or(USUAL.period),
                })
            }
            _ => None,
        }
    }
}

/// The result of checking whether a measurement shows that the kernel reserves time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Gaps of the expected length recur with the expected period.
    Yes,
    /// No such gaps recur.
    No,
    /// The measurement is too short to contain enough periods.
    TooShort,
}

/// Returns whether gaps with the length and the period of `reserved` recur. The gaps must be waits. Steal time is no
/// proof, because a host may take any amount of CPU time at any moment.
fn shows(gaps: &Gaps, reserved: Reserved, in_a_virtual_machine: bool) -> Shown {
    if gaps.window < reserved.period * 3 {
        return Shown::TooShort;
    }
    let near = |actual: Duration, wanted: Duration, part: u32| actual.abs_diff(wanted) <= wanted / part;
    let is_alike = |gap: &&Gap| {
        let waited = gap.waited.map_or(!in_a_virtual_machine, |waited| waited >= gap.length / 2);
        waited && gap.length > reserved.gap / 2 && gap.length < reserved.gap * 3 / 2
    };
    let mut row = 0;
    let mut last: Option<Duration> = None;
    for gap in gaps.gaps.iter().filter(is_alike) {
        row =
            if last.is_some_and(|last| near(gap.began.saturating_sub(last), reserved.period, 5)) { row + 1 } else { 1 };
        if row >= IN_A_ROW {
            return Shown::Yes;
        }
        last = Some(gap.began);
    }
    Shown::No
}

/// Marks the findings about real-time throttling and the fair server as certain if gaps on a CPU prove them.
pub fn prove(examined: &mut [Examined], facts: &MachineFacts, cpu: usize, gaps: &Gaps) {
    let throttles = examined
        .iter()
        .any(|examined| examined.rule.id == "throttling" && matches!(examined.verdict, Verdict::Problem(_)));
    let throttling = facts.reserved("throttling", cpu).filter(|_| throttles);
    for examined in examined {
        let Verdict::Problem(finding) = &mut examined.verdict else { continue };
        let Some(reserved) = facts.reserved(examined.rule.id, cpu) else { continue };
        let Reserved { gap, period } = reserved;
        match shows(gaps, reserved, facts.hypervisor.is_some()) {
            Shown::Yes => {
                let observed = format!(
                    "; measured: the kernel paused a busy-polling thread for about {} every {}",
                    Spaced(gap),
                    Spaced(period)
                );
                finding.observed.push_str(&observed);
                let is_either = examined.rule.id == "fair-server"
                    && throttling.is_some_and(|throttling| throttling.may_be_taken_for(reserved));
                if is_either {
                    finding
                        .observed
                        .push_str("; throttling causes the same pauses, so it is unknown whether the fair server or throttling caused these");
                } else {
                    finding.certain = true;
                }
            }
            Shown::No => finding.observed.push_str("; measured: no such pause occurred"),
            Shown::TooShort => finding.observed.push_str("; measured: the run was too short to decide"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Gap, Gaps, Reserved, Shown, USUAL, shows};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Creates gaps from the start of each gap, its length, and the time that the thread waited in it.
    fn gaps(gaps: &[(u64, u64, Option<u64>)], window_ms: u64) -> Gaps {
        let gap = |&(began, length, waited): &(u64, u64, Option<u64>)| Gap {
            began: ms(began),
            length: ms(length),
            waited: waited.map(ms),
        };
        Gaps { gaps: gaps.iter().map(gap).collect(), window: ms(window_ms) }
    }

    #[test]
    fn gaps_that_recur_in_every_period_are_attributed_to_the_kernel() {
        let regular = [(100, 50, Some(50)), (1_100, 52, Some(51)), (2_105, 50, Some(50))];
        assert_eq!(shows(&gaps(&regular, 3_200), USUAL, true), Shown::Yes);
        let among_others =
            [(10, 7, Some(7)), (100, 50, Some(50)), (700, 300, Some(0)), (1_100, 52, Some(51)), (2_105, 50, Some(50))];
        assert_eq!(shows(&gaps(&among_others, 3_200), USUAL, true), Shown::Yes);
        let as_set = Reserved { gap: ms(20), period: ms(100) };
        let regular = [(5, 20, Some(20)), (105, 20, Some(20)), (206, 21, Some(20)), (900, 1, None)];
        assert_eq!(shows(&gaps(&regular, 3_200), as_set, true), Shown::Yes);
    }

    #[test]
    fn gaps_of_that_length_at_other_intervals_are_not_attributed_to_the_kernel() {
        for began in [
            &[][..],
            &[0],
            &[0, 1_000],
            &[0, 300, 600],
            &[0, 1_000, 2_600],
            &[0, 1_500, 3_000],
            &[0, 100, 200, 300, 400],
        ] {
            let made: Vec<_> = began.iter().map(|&began| (began, 50, Some(50))).collect();
            assert_eq!(shows(&gaps(&made, 3_200), USUAL, false), Shown::No, "{began:?}");
        }
    }

    #[test]
    fn gaps_of_another_length_are_not_attributed_to_the_kernel() {
        for length in [5, 20, 90, 300] {
            let made: Vec<_> = [0, 1_000, 2_000].iter().map(|&began| (began, length, Some(length))).collect();
            assert_eq!(shows(&gaps(&made, 3_200), USUAL, false), Shown::No, "{length}");
        }
    }

    #[test]
    fn steal_time_is_not_attributed_to_the_kernel() {
        let stolen = |waited| gaps(&[(0, 50, waited), (1_000, 50, waited), (2_000, 50, waited)], 3_200);
        assert_eq!(shows(&stolen(Some(1)), USUAL, true), Shown::No);
        assert_eq!(shows(&stolen(Some(1)), USUAL, false), Shown::No, "time taken by firmware is not a wait either");
        // If the kernel does not count waits, gaps prove throttling only on a machine without a host.
        assert_eq!((shows(&stolen(None), USUAL, true), shows(&stolen(None), USUAL, false)), (Shown::No, Shown::Yes));
    }

    #[test]
    fn reserved_times_of_another_period_or_length_are_distinguished() {
        let reserved = |gap, period| Reserved { gap: ms(gap), period: ms(period) };
        for alike in [USUAL, reserved(60, 1_000), reserved(140, 1_200), reserved(20, 800)] {
            assert!(USUAL.may_be_taken_for(alike) && alike.may_be_taken_for(USUAL), "{alike:?}");
        }
        for other in [reserved(50, 100), reserved(50, 2_000), reserved(200, 1_000), reserved(10, 1_000)] {
            assert!(!USUAL.may_be_taken_for(other) && !other.may_be_taken_for(USUAL), "{other:?}");
        }
    }

    #[test]
    fn a_window_of_less_than_three_periods_proves_nothing() {
        let regular = [(100, 50, Some(50)), (1_100, 52, Some(51))];
        assert_eq!(shows(&gaps(&regular, 2_900), USUAL, false), Shown::TooShort);
    }
}
