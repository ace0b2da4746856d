//! How long a round is, and how many rounds there are, so that a run ends in time. Measures nothing.

use std::time::Duration;

use super::plan::measurements;

/// The least and the largest number of rounds. With five rounds, the strongest possible evidence suffices for any
/// number of fixes; more than nine hardly add to it.
const LEAST_ROUNDS: usize = 5;
const MOST_ROUNDS: usize = 9;
/// The number of helpful fixes that are compared on top of the best one, for which time is reserved if there is enough.
const ON_TOP: usize = 2;
/// A round of this length is long enough to add rounds rather than time.
const USUAL: Duration = Duration::from_secs(1);
/// The longest round that hpt chooses.
const LONGEST: Duration = Duration::from_secs(3);
/// The share of the time that is used, because rounds differ in length.
const USED: f64 = 0.95;
/// The factor by which a round is longer than the figure takes.
const RESERVE: f64 = 1.2;

/// The first measurement, from which the plan follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct First {
    /// The duration that was requested; `None` if the line of the measurement determines it.
    pub(super) requested: Option<Duration>,
    pub(super) elapsed: Duration,
    pub(super) samples: u64,
    /// The number of samples that the figure takes.
    pub(super) least_samples: u64,
    /// The number of phases: idle and loaded.
    pub(super) phases: u32,
}

/// The plan for a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timing {
    pub(super) rounds: usize,
    /// The duration to request; `None` if the line of the measurement determines it.
    pub(super) requested: Option<Duration>,
    /// The expected duration of one measurement.
    pub(super) expected: Duration,
    /// The number of measurements for which there is time.
    pub(super) measurements: usize,
}

/// Returns the plan for a number of fixes, or the time that the run needs at least.
pub(super) fn plan(first: First, fixes: usize, left: Duration) -> Result<Timing, Duration> {
    with_reserve(first, fixes, left, ON_TOP).or_else(|_| with_reserve(first, fixes, left, 0))
}

/// Returns the plan if `reserve` helpful fixes are compared on top of the best one.
fn with_reserve(first: First, fixes: usize, left: Duration, reserve: usize) -> Result<Timing, Duration> {
    let used = left.mul_f64(USED);
    let count = |rounds: usize| {
        let on_top = reserve.min(fixes.saturating_sub(1)) * (2 * rounds + 1);
        measurements(fixes, rounds) + on_top
    };
    let number = |rounds: usize| u32::try_from(count(rounds)).unwrap_or(u32::MAX);
    let needs = |each: Duration| (each * number(LEAST_ROUNDS)).div_f64(USED);
    let Some(requested) = first.requested else {
        let fitting = (LEAST_ROUNDS..=MOST_ROUNDS).rev().find(|&rounds| first.elapsed * number(rounds) <= used);
        let timing = |rounds| Timing { rounds, requested: None, expected: first.elapsed, measurements: count(rounds) };
        return fitting.map(timing).ok_or_else(|| needs(first.elapsed));
    };
    let overhead = first.elapsed.saturating_sub(requested * first.phases);
    #[expect(clippy::cast_precision_loss, reason = "for a duration")]
    let least = match first.samples {
        0 => requested,
        samples => requested.mul_f64(RESERVE * first.least_samples as f64 / samples as f64),
    };
    let least = least.max(Duration::from_millis(100));
    let each = |rounds: usize| (used / number(rounds)).saturating_sub(overhead) / first.phases;
    let is_enough = |rounds: &usize| each(*rounds) >= least.max(USUAL);
    let rounds = (LEAST_ROUNDS..=MOST_ROUNDS).rev().find(is_enough).unwrap_or(LEAST_ROUNDS);
    if each(rounds) < least {
        return Err(needs(overhead + least * first.phases));
    }
    // Whole milliseconds are short to read.
    let chosen = each(rounds).min(LONGEST.max(least));
    let chosen = Duration::from_millis(u64::try_from(chosen.as_millis()).unwrap_or(u64::MAX));
    let expected = overhead + chosen * first.phases;
    Ok(Timing { rounds, requested: Some(chosen), expected, measurements: count(rounds) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{First, Timing, plan};

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn first(requested: Option<Duration>, elapsed_ms: u64) -> First {
        let elapsed = Duration::from_millis(elapsed_ms);
        First { requested, elapsed, samples: 2_000, least_samples: 1_000, phases: 1 }
    }

    #[test]
    fn a_run_with_much_time_has_more_rounds_and_ends_in_time() {
        for (fixes, left, phases) in [(1, 60, 1), (8, 180, 1), (8, 600, 2), (14, 3_600, 1)] {
            let first = First { phases, ..first(Some(seconds(1)), 1_100 * u64::from(phases)) };
            let Timing { rounds, requested, expected, measurements: all } =
                plan(first, fixes, seconds(left)).expect("enough time");
            assert!(expected * u32::try_from(all).expect("few") <= seconds(left), "{fixes} in {left} s");
            assert!((5..=9).contains(&rounds) && requested.is_some_and(|each| each >= Duration::from_millis(550)));
        }
    }

    #[test]
    fn too_little_time_is_refused_with_the_time_that_suffices() {
        let needs = plan(first(Some(seconds(1)), 1_100), 8, seconds(20)).expect_err("too little time");
        assert!(needs > seconds(20) && needs < seconds(120), "{needs:?}");
        assert!(plan(first(Some(seconds(1)), 1_100), 8, needs + seconds(1)).is_ok());
        let needs = plan(first(None, 10_000), 3, seconds(180)).expect_err("too little time");
        assert_eq!(plan(first(None, 10_000), 3, needs + seconds(1)).map(|timing| timing.rounds), Ok(5));
    }

    #[test]
    fn a_figure_that_takes_many_samples_makes_rounds_longer() {
        let many = First { least_samples: 10_000, ..first(Some(seconds(1)), 1_100) };
        let timing = plan(many, 1, seconds(120)).expect("enough time");
        assert!(timing.requested.is_some_and(|each| each >= Duration::from_millis(5_500)), "{timing:?}");
        let none = First { samples: 0, ..first(Some(seconds(1)), 1_100) };
        assert!(plan(none, 1, seconds(120)).is_ok());
    }
}
