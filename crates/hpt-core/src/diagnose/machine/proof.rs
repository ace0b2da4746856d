//! Whether the gaps that a busy thread observed prove that the kernel throttled it. Measures nothing: the gaps are its
//! input.

use std::{collections::BTreeMap, time::Duration};

use super::{Examined, MachineFacts, Verdict};
use crate::host::Told;

/// A time in which a real-time thread that never blocks did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// When it began, relative to the first reading.
    pub began: Duration,
    /// Its length.
    pub length: Duration,
    /// How long the kernel let the thread wait for its CPU in that time; `None` if it does not count that. Time taken
    /// by a host does not count as such a wait.
    pub waited: Option<Duration>,
}

/// What such a thread observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holes {
    /// The gaps in order, except for negligible ones.
    pub holes: Vec<Hole>,
    /// How long the thread polled.
    pub window: Duration,
}

/// The reserved time, and its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptBack {
    hole: Duration,
    period: Duration,
}

impl KeptBack {
    /// Whether some gaps could be explained by either of two causes: see `shows`.
    fn may_be_taken_for(self, other: Self) -> bool {
        let same_length = self.hole < other.hole * 3 && other.hole < self.hole * 3;
        same_length && self.period.abs_diff(other.period) <= (self.period + other.period) / 5
    }
}

/// The time that the kernel reserves for ordinary threads by default. Linux 6.12, kernel/sched/deadline.c,
/// fair_server_init.
const USUAL: KeptBack = KeptBack { hole: Duration::from_millis(50), period: Duration::from_secs(1) };

/// Two gaps in a row may have any cause; with three, two distances are equal.
const IN_A_ROW: usize = 3;

impl MachineFacts {
    fn kept_back(&self, rule: &str, cpu: usize) -> Option<KeptBack> {
        match (rule, &self.rt_runtime_us, &self.rt_period_us) {
            ("throttling", Told::Is(runtime), Told::Is(period)) => Some(KeptBack {
                hole: Duration::from_micros(u64::try_from(period.checked_sub(*runtime)?).ok()?),
                period: Duration::from_micros(u64::try_from(*period).ok()?),
            }),
            ("fair-server", ..) => {
                let told = |files: &BTreeMap<usize, Told<i64>>| {
                    let ns = files.get(&cpu).and_then(Told::is)?;
                    u64::try_from(*ns).ok().filter(|&ns| ns > 0).map(Duration::from_nanos)
                };
                Some(KeptBack {
                    hole: told(&self.fair_servers).unwrap_or(USUAL.hole),
                    period: told(&self.fair_server_periods).unwrap_or(USUAL.period),
                })
            }
            _ => None,
        }
    }
}

/// What a window shows of reserved time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// Repeated gaps of that length at that distance.
    Yes,
    /// None of it.
    No,
    /// The window is too short for that many periods.
    TooShort,
}

/// Whether gaps of that length recur with that period, and are waits and not taken by the host. A host takes time at
/// any moment and for any duration.
fn shows(holes: &Holes, kept_back: KeptBack, in_a_virtual_machine: bool) -> Shown {
    if holes.window < kept_back.period * 3 {
        return Shown::TooShort;
    }
    let near = |is: Duration, wanted: Duration, part: u32| is.abs_diff(wanted) <= wanted / part;
    let is_alike = |hole: &&Hole| {
        let waited = hole.waited.map_or(!in_a_virtual_machine, |waited| waited >= hole.length / 2);
        waited && hole.length > kept_back.hole / 2 && hole.length < kept_back.hole * 3 / 2
    };
    let mut row = 0;
    let mut last: Option<Duration> = None;
    for hole in holes.holes.iter().filter(is_alike) {
        row = if last.is_some_and(|last| near(hole.began.saturating_sub(last), kept_back.period, 5)) {
            row + 1
        } else {
            1
        };
        if row >= IN_A_ROW {
            return Shown::Yes;
        }
        last = Some(hole.began);
    }
    Shown::No
}

/// What gaps on a CPU prove about findings of RT throttling, which then become certain.
pub fn prove(examined: &mut [Examined], facts: &MachineFacts, cpu: usize, holes: &Holes) {
    let throttles = examined
        .iter()
        .any(|examined| examined.rule.id == "throttling" && matches!(examined.verdict, Verdict::Found(_)));
    let throttling = facts.kept_back("throttling", cpu).filter(|_| throttles);
    for examined in examined {
        let Verdict::Found(finding) = &mut examined.verdict else { continue };
        let Some(kept_back) = facts.kept_back(examined.rule.id, cpu) else { continue };
        let KeptBack { hole, period } = kept_back;
        match shows(holes, kept_back, facts.hypervisor.is_some()) {
            Shown::Yes => {
                let seen = format!(
                    "; measured: a thread that never waits stood still for about {hole:?} every {period:?}, and the kernel had it wait"
                );
                finding.seen.push_str(&seen);
                let is_either = examined.rule.id == "fair-server"
                    && throttling.is_some_and(|throttling| throttling.may_be_taken_for(kept_back));
                if is_either {
                    finding
                        .seen
                        .push_str("; throttling makes the same holes: which of the two made them cannot be told");
                } else {
                    finding.certain = true;
                }
            }
            Shown::No => finding.seen.push_str("; measured: nothing of it was seen now"),
            Shown::TooShort => finding.seen.push_str("; measured: too short to tell"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Hole, Holes, KeptBack, Shown, USUAL, shows};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// When each began, its length, and how much of it was a wait.
    fn holes(holes: &[(u64, u64, Option<u64>)], window_ms: u64) -> Holes {
        let hole = |&(began, length, waited): &(u64, u64, Option<u64>)| Hole {
            began: ms(began),
            length: ms(length),
            waited: waited.map(ms),
        };
        Holes { holes: holes.iter().map(hole).collect(), window: ms(window_ms) }
    }

    #[test]
    fn what_comes_back_once_in_every_period_is_the_kernels() {
        let regular = [(100, 50, Some(50)), (1_100, 52, Some(51)), (2_105, 50, Some(50))];
        assert_eq!(shows(&holes(&regular, 3_200), USUAL, true), Shown::Yes);
        let among_others =
            [(10, 7, Some(7)), (100, 50, Some(50)), (700, 300, Some(0)), (1_100, 52, Some(51)), (2_105, 50, Some(50))];
        assert_eq!(shows(&holes(&among_others, 3_200), USUAL, true), Shown::Yes);
        let as_set = KeptBack { hole: ms(20), period: ms(100) };
        let regular = [(5, 20, Some(20)), (105, 20, Some(20)), (206, 21, Some(20)), (900, 1, None)];
        assert_eq!(shows(&holes(&regular, 3_200), as_set, true), Shown::Yes);
    }

    #[test]
    fn holes_of_that_length_at_other_distances_are_not() {
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
            assert_eq!(shows(&holes(&made, 3_200), USUAL, false), Shown::No, "{began:?}");
        }
    }

    #[test]
    fn holes_of_another_length_are_not() {
        for length in [5, 20, 90, 300] {
            let made: Vec<_> = [0, 1_000, 2_000].iter().map(|&began| (began, length, Some(length))).collect();
            assert_eq!(shows(&holes(&made, 3_200), USUAL, false), Shown::No, "{length}");
        }
    }

    #[test]
    fn what_a_host_takes_is_not() {
        let stolen = |waited| holes(&[(0, 50, waited), (1_000, 50, waited), (2_000, 50, waited)], 3_200);
        assert_eq!(shows(&stolen(Some(1)), USUAL, true), Shown::No);
        assert_eq!(shows(&stolen(Some(1)), USUAL, false), Shown::No, "nor what firmware takes");
        // If waits are not counted, only a machine without a host can be sure.
        assert_eq!((shows(&stolen(None), USUAL, true), shows(&stolen(None), USUAL, false)), (Shown::No, Shown::Yes));
    }

    #[test]
    fn what_is_kept_of_another_period_or_for_much_longer_is_told_apart() {
        let kept_back = |hole, period| KeptBack { hole: ms(hole), period: ms(period) };
        for alike in [USUAL, kept_back(60, 1_000), kept_back(140, 1_200), kept_back(20, 800)] {
            assert!(USUAL.may_be_taken_for(alike) && alike.may_be_taken_for(USUAL), "{alike:?}");
        }
        for other in [kept_back(50, 100), kept_back(50, 2_000), kept_back(200, 1_000), kept_back(10, 1_000)] {
            assert!(!USUAL.may_be_taken_for(other) && !other.may_be_taken_for(USUAL), "{other:?}");
        }
    }

    #[test]
    fn a_window_of_less_than_three_periods_tells_nothing() {
        let regular = [(100, 50, Some(50)), (1_100, 52, Some(51))];
        assert_eq!(shows(&holes(&regular, 2_900), USUAL, false), Shown::TooShort);
    }
}
