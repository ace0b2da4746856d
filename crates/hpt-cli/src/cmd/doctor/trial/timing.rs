//! How long a round is, and how many rounds there are, so that a run ends in time.

use std::{collections::VecDeque, time::Duration};

use super::plan::{Bounds, measurements};

/// The least number of rounds. With five rounds, the strongest possible evidence suffices for any number of fixes.
const LEAST_ROUNDS: usize = 5;
/// The largest number of rounds that is planned. With more time, rounds are longer.
const PLANNED_ROUNDS: usize = 12;
/// The largest number of rounds, if time is left. The exact test takes seconds for more.
const MOST_ROUNDS: usize = 16;
/// The largest number of rounds for up to [`FEW_FIXES`] fixes.
const MOST_ROUNDS_OF_FEW: usize = 20;
const FEW_FIXES: usize = 4;
/// The number of helpful fixes that are compared on top of the best one, for which time is reserved if there is enough.
const ON_TOP: usize = 2;
/// A round of this length is long enough to add rounds rather than time.
const USUAL: Duration = Duration::from_secs(1);
/// The share of the time that is used, because rounds differ in length.
const USED: f64 = 0.95;
/// The factor by which a round is longer than the figure takes.
const RESERVE: f64 = 1.2;

/// The shortest duration of a round.
const SHORTEST: Duration = Duration::from_millis(100);

/// Returns the time that the rounds take at least, whatever the machine is.
pub(super) fn least(fixes: usize) -> Duration {
    SHORTEST * u32::try_from(measurements(fixes, LEAST_ROUNDS)).unwrap_or(u32::MAX)
}

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
pub(super) struct TrialTiming {
    pub(super) bounds: Bounds,
    /// The duration to request; `None` if the line of the measurement determines it.
    pub(super) requested: Option<Duration>,
    /// The expected duration of one measurement.
    pub(super) expected: Duration,
    pub(super) measurements: usize,
}

/// The time that measurements take, with the changes between them. Follows the last measurements.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    expected: Duration,
    last: VecDeque<Duration>,
}

/// The number of measurements that determine the pace.
const LAST: usize = 8;

impl Pace {
    pub(super) fn new(expected: Duration) -> Self {
        Self { expected, last: VecDeque::new() }
    }

    /// Counts a measurement that took this long.
    pub(super) fn note(&mut self, took: Duration) {
        self.last.truncate(LAST - 1);
        self.last.push_front(took);
    }

    /// Returns the time that the next measurement is expected to take.
    pub(super) fn each(&self) -> Duration {
        let count = u32::try_from(self.last.len()).unwrap_or(u32::MAX);
        if count == 0 { self.expected } else { self.last.iter().sum::<Duration>() / count }
    }

    /// Forgets earlier measurements, because later ones are longer by this factor.
    pub(super) fn lengthen(&mut self, factor: u32) {
        *self = Self::new(self.each() * factor);
    }

    pub(super) fn fitting(&self, left: Duration) -> usize {
        let each = self.each().as_nanos().max(1);
        usize::try_from(left.as_nanos() / each).unwrap_or(usize::MAX)
    }
}

/// Returns the plan for a number of fixes, or the time that the run needs at least.
pub(super) fn plan(first: First, fixes: usize, left: Duration) -> Result<TrialTiming, Duration> {
    with_reserve(first, fixes, left, ON_TOP).or_else(|_| with_reserve(first, fixes, left, 0))
}

/// Returns the plan if `reserve` helpful fixes are compared on top of the best one.
fn with_reserve(first: First, fixes: usize, left: Duration, reserve: usize) -> Result<TrialTiming, Duration> {
    let used = left.mul_f64(USED);
    let reserved = |rounds: usize| reserve.min(fixes.saturating_sub(1)) * (2 * rounds + 1);
    let count = |rounds: usize| measurements(fixes, rounds) + reserved(rounds);
    let number = |rounds: usize| u32::try_from(count(rounds)).unwrap_or(u32::MAX);
    let needs = |each: Duration| (each * number(LEAST_ROUNDS)).div_f64(USED);
    let Some(requested) = first.requested else {
        if first.elapsed * number(LEAST_ROUNDS) > used {
            return Err(needs(first.elapsed));
        }
        let fitting = Pace::new(first.elapsed).fitting(used);
        return Ok(TrialTiming {
            bounds: bounds(fixes, reserved(LEAST_ROUNDS)),
            requested: None,
            expected: first.elapsed,
            measurements: fitting.clamp(count(LEAST_ROUNDS), count(bounds(fixes, 0).most)),
        });
    };
    let overhead = first.elapsed.saturating_sub(requested * first.phases);
    #[expect(clippy::cast_precision_loss, reason = "for a duration")]
    let least = match first.samples {
        0 => requested,
        samples => requested.mul_f64(RESERVE * first.least_samples as f64 / samples as f64),
    };
    let least = least.max(SHORTEST);
    let each = |rounds: usize| (used / number(rounds)).saturating_sub(overhead) / first.phases;
    let is_enough = |rounds: &usize| each(*rounds) >= least.max(USUAL);
    let rounds = (LEAST_ROUNDS..=PLANNED_ROUNDS).rev().find(is_enough).unwrap_or(LEAST_ROUNDS);
    if each(rounds) < least {
        return Err(needs(overhead + least * first.phases));
    }
    // Whole milliseconds are short to read.
    let chosen = each(rounds);
    let chosen = Duration::from_millis(u64::try_from(chosen.as_millis()).unwrap_or(u64::MAX));
    let expected = overhead + chosen * first.phases;
    let bounds = bounds(fixes, reserved(rounds));
    Ok(TrialTiming { bounds, requested: Some(chosen), expected, measurements: count(rounds) })
}

const fn bounds(fixes: usize, reserve: usize) -> Bounds {
    let most = if fixes <= FEW_FIXES { MOST_ROUNDS_OF_FEW } else { MOST_ROUNDS };
    Bounds { least: LEAST_ROUNDS, most, reserve }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_document::doctor_try::TryVerdict;

    use super::{
        super::plan::{Ended, Machine, experiment},
        First, Pace, TrialTiming, least, plan,
    };

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
            let TrialTiming { requested, expected, measurements: all, .. } =
                plan(first, fixes, seconds(left)).expect("enough time");
            assert!(expected * u32::try_from(all).expect("few") <= seconds(left), "{fixes} in {left} s");
            assert!(requested.is_some_and(|each| each >= Duration::from_millis(550)));
        }
    }

    #[test]
    fn too_little_time_is_refused_with_the_time_that_suffices() {
        let needs = plan(first(Some(seconds(1)), 1_100), 8, seconds(20)).expect_err("too little time");
        assert!(needs > seconds(20) && needs < seconds(120), "{needs:?}");
        assert!(plan(first(Some(seconds(1)), 1_100), 8, needs + seconds(1)).is_ok());
        // A time that is refused before the first measurement would be refused after it as well.
        assert!(least(8) > seconds(8));
        assert!(plan(First { samples: 1_000_000, ..first(Some(seconds(1)), 1_000) }, 8, least(8)).is_err());
        let needs = plan(first(None, 10_000), 3, seconds(180)).expect_err("too little time");
        assert!(plan(first(None, 10_000), 3, needs + seconds(1)).is_ok());
    }

    /// A machine whose measurements take the requested time, a start, and changes of settings, by a clock of its own.
    struct Clocked {
        now: Duration,
        end: Duration,
        pace: Pace,
        requested: Duration,
        overheads_ms: [u64; 4],
        factors: Vec<f64>,
        on: Vec<bool>,
        count: usize,
    }

    impl Machine for Clocked {
        fn turn_on(&mut self, fix: usize) -> Result<(), String> {
            self.on[fix] = true;
            Ok(())
        }

        fn turn_off(&mut self, fix: usize) -> Result<(), String> {
            self.on[fix] = false;
            Ok(())
        }

        fn measure(&mut self) -> Result<f64, Ended> {
            if self.now + self.pace.each() > self.end {
                return Err(Ended::OutOfTime);
            }
            self.count += 1;
            let took = self.requested + Duration::from_millis(self.overheads_ms[self.count % 4]);
            self.pace.note(took);
            self.now += took;
            let noise = [0.98, 1.01, 1.02, 0.99, 1.0, 1.015, 0.985][self.count % 7];
            let on = self.on.iter().zip(&self.factors).filter(|(on, _)| **on);
            Ok(on.fold(41_000.0, |figure, (_, factor)| figure * factor) * noise)
        }

        fn room(&self) -> usize {
            self.pace.fitting(self.end.saturating_sub(self.now))
        }
    }

    #[test]
    fn the_time_is_used_and_never_exceeded() {
        let factors =
            |count: usize, helpful: usize| (0..count).map(|fix| if fix < helpful { 0.5 } else { 1.0 }).collect();
        for (count, helpful, limit) in [(1, 0, 30), (2, 1, 40), (3, 2, 60), (4, 0, 60)] {
            for (is_chosen, overheads_ms) in
                [(true, [80, 90, 110, 100]), (true, [300, 20, 20, 250]), (false, [80, 90, 110, 100])]
            {
                let length = if is_chosen { seconds(1) } else { Duration::from_millis(200) };
                let first = first(is_chosen.then_some(length), u64::try_from(length.as_millis()).expect("short") + 90);
                let timing = plan(first, count, seconds(limit)).expect("enough time");
                let mut machine = Clocked {
                    now: Duration::ZERO,
                    end: seconds(limit),
                    pace: Pace::new(timing.expected),
                    requested: timing.requested.unwrap_or(length),
                    overheads_ms,
                    factors: factors(count, helpful),
                    on: vec![false; count],
                    count: 0,
                };
                let outcome = experiment(&mut machine, count, timing.bounds);
                let about = format!("{helpful} of {count} fixes help, {limit} s, {is_chosen}: {:?}", machine.now);
                // A single measurement may end after the limit by the variation of its overhead.
                assert!(machine.now <= seconds(limit) + Duration::from_millis(300), "{about}");
                let rounds = outcome.trials.iter().map(|trial| trial.on.len()).max().unwrap_or(0);
                assert!(machine.now >= seconds(limit).mul_f64(0.8) || rounds >= 16, "{about}, {rounds} rounds");
                let found = outcome.trials.iter().filter(|trial| trial.compared.verdict == TryVerdict::Helpful).count();
                assert_eq!((found, outcome.kept.len(), outcome.ended), (helpful, helpful, None), "{about}");
            }
        }
    }

    #[test]
    fn the_pace_is_that_of_the_last_measurements() {
        let mut pace = Pace::new(seconds(1));
        assert_eq!((pace.each(), pace.fitting(seconds(10))), (seconds(1), 10));
        [2; 3].iter().for_each(|&took| pace.note(seconds(took)));
        assert_eq!((pace.each(), pace.fitting(seconds(10))), (seconds(2), 5));
        [4; 8].iter().for_each(|&took| pace.note(seconds(took)));
        assert_eq!(pace.each(), seconds(4));
        pace.lengthen(2);
        assert_eq!(pace.each(), seconds(8));
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
