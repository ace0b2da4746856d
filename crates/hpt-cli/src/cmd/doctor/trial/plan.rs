//! The experiment: rounds with and without each fix, the verdict on each, and then the fixes that help on top of each
//! other, the best one first. Changes and measures nothing itself; the caller provides both.

use std::time::Duration;

use hpt_document::doctor_try::TryVerdict;

use super::statistics::{TrialResult, compare};

use crate::statistics::few::{median, spread};

/// The machine on which the experiment runs.
pub(super) trait Machine {
    /// Applies the fix with this number, or returns why that is not possible.
    fn turn_on(&mut self, fix: usize) -> Result<(), String>;
    /// Undoes the fix with this number, or returns why it may still be in effect.
    fn turn_off(&mut self, fix: usize) -> Result<(), String>;
    /// Measures the figure once, in nanoseconds.
    fn measure(&mut self) -> Result<f64, Ended>;
    /// Returns the number of measurements for which there is time.
    fn room(&self) -> usize;
}

/// The number of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Fewer rounds show nothing.
    pub(super) least: usize,
    pub(super) most: usize,
    /// The number of measurements that are left for the comparison of helpful fixes on top of each other.
    pub(super) reserve: usize,
}

/// Why an experiment ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Interrupted,
    OutOfTime,
    /// A measurement did not end, and was ended after this time.
    Hung(Duration),
    Failed(String),
}

impl Ended {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Interrupted => "the run was interrupted".to_owned(),
            Self::OutOfTime => "the time was up".to_owned(),
            Self::Hung(time) => {
                format!("a measurement did not end within {:.1} s, and was ended", time.as_secs_f64())
            }
            Self::Failed(why) => why.clone(),
        }
    }
}

/// The number of rounds after which a missing difference is a result.
const ENOUGH: usize = 5;

/// The result for one fix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trial {
    pub(super) off: Vec<f64>,
    pub(super) on: Vec<f64>,
    /// The better fixes that were on during these rounds.
    pub(super) on_top_of: Vec<usize>,
    pub(super) compared: TrialResult,
    pub(super) is_kept: bool,
    pub(super) reason: Option<String>,
}

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outcome {
    /// The rounds without any fix.
    pub(super) baseline: Vec<f64>,
    /// One result for each fix.
    pub(super) trials: Vec<Trial>,
    /// The fixes that are worth keeping, the best one first. They are in effect.
    pub(super) kept: Vec<usize>,
    /// The rounds with all of these fixes.
    pub(super) result: Vec<f64>,
    pub(super) ended: Option<Ended>,
    /// The number of rounds in which each fix was measured alone.
    pub(super) rounds: usize,
}

/// The number of measurements without a fix and with each of `fixes` fixes, in `rounds` rounds.
pub(super) const fn measurements(fixes: usize, rounds: usize) -> usize {
    2 * fixes * rounds + 1
}

/// Makes the experiment with `fixes` fixes, in as many rounds as there is time for. At its end, exactly the fixes in [`Outcome::kept`] are in effect.
pub(super) fn experiment(machine: &mut impl Machine, fixes: usize, bounds: Bounds) -> Outcome {
    let nothing = TrialResult { verdict: TryVerdict::Unknown, effect: 0.0, p_value: None };
    let untried = Trial {
        off: Vec::new(),
        on: Vec::new(),
        on_top_of: Vec::new(),
        compared: nothing,
        is_kept: false,
        reason: None,
    };
    let mut outcome = Outcome {
        baseline: Vec::new(),
        trials: vec![untried; fixes],
        kept: Vec::new(),
        result: Vec::new(),
        ended: None,
        rounds: 0,
    };
    let least = bounds.least.min(ENOUGH);
    outcome.ended = alone(machine, &mut outcome, bounds).err();
    judge(&mut outcome, least);
    // If there is nothing to compare on top of each other, the time left for that yields further rounds. This is the
    // second time that the fixes are judged.
    if outcome.ended.is_none() && best_first(&outcome.trials).len() < 2 {
        outcome.ended = alone(machine, &mut outcome, Bounds { least: 0, reserve: 0, ..bounds }).err();
        judge(&mut outcome, least);
        if outcome.ended == Some(Ended::OutOfTime) {
            outcome.ended = None;
        }
    }
    // The best fix needs no further measurement.
    if matches!(outcome.ended, None | Some(Ended::OutOfTime)) {
        let ended = on_top(machine, &mut outcome, bounds).err();
        outcome.ended = outcome.ended.or(ended);
    }
    if let Some(ended) = &outcome.ended {
        for trial in &mut outcome.trials {
            let is_open = trial.compared.verdict == TryVerdict::Unknown
                || (trial.compared.verdict == TryVerdict::Helpful && !trial.is_kept);
            if is_open && trial.reason.is_none() {
                trial.reason = Some(ended.words());
            }
        }
    }
    outcome
}

/// Compares the rounds with each fix with those without any fix. The fixes may be judged twice, so the level of the test
/// is halved.
fn judge(outcome: &mut Outcome, least: usize) {
    let comparisons = 2 * outcome.trials.len();
    for trial in &mut outcome.trials {
        if trial.compared.verdict != TryVerdict::NotPossible {
            trial.off.clone_from(&outcome.baseline);
            trial.compared = compare(&trial.off, &trial.on, (comparisons, least));
        }
    }
}

/// Measures each fix alone, in alternating rounds, until the time for that is up. Every second round has the reverse
/// order.
fn alone(machine: &mut impl Machine, outcome: &mut Outcome, bounds: Bounds) -> Result<(), Ended> {
    if outcome.baseline.is_empty() {
        outcome.baseline.push(machine.measure()?);
    }
    let fixes = outcome.trials.len();
    loop {
        let round = outcome.rounds;
        if round >= bounds.least && (round >= bounds.most || machine.room() < 2 * fixes + bounds.reserve) {
            return Ok(());
        }
        outcome.rounds += 1;
        if outcome.trials.iter().all(|trial| trial.compared.verdict == TryVerdict::NotPossible) {
            return Ok(());
        }
        for place in 0..fixes {
            let fix = if round % 2 == 0 { place } else { fixes - 1 - place };
            let trial = &mut outcome.trials[fix];
            if trial.compared.verdict == TryVerdict::NotPossible {
                continue;
            }
            let (value, is_lost) = with(machine, fix, trial);
            trial.on.extend(value?);
            if !is_lost {
                outcome.baseline.push(machine.measure()?);
            }
        }
    }
}

/// Measures once with a fix, and undoes the fix in any case. Returns the value, if there is one, and whether the fix
/// was found to be not possible.
fn with(machine: &mut impl Machine, fix: usize, trial: &mut Trial) -> (Result<Option<f64>, Ended>, bool) {
    let mut lost = |why: String| {
        trial.compared.verdict = TryVerdict::NotPossible;
        trial.reason = Some(why);
    };
    if let Err(why) = machine.turn_on(fix) {
        lost(why);
        return (Ok(None), true);
    }
    let measured = machine.measure();
    match machine.turn_off(fix) {
        Ok(()) => (measured.map(Some), false),
        // The setting may have had another value during the measurement.
        Err(why) => {
            lost(why);
            (measured.map(|_| None), true)
        }
    }
}

/// Turns on the best fix, and compares each other helpful fix on top of those that are on.
fn on_top(machine: &mut impl Machine, outcome: &mut Outcome, bounds: Bounds) -> Result<(), Ended> {
    let order = best_first(&outcome.trials);
    let others = order.len().saturating_sub(1);
    for (place, fix) in order.into_iter().enumerate() {
        let mut keep = outcome.kept.is_empty();
        let mut on = outcome.trials[fix].on.clone();
        if !keep {
            let trial = &mut outcome.trials[fix];
            let mut off = vec![machine.measure()?];
            on.clear();
            // The fixes after this one need their time as well.
            let reserve = (others - place) * (2 * bounds.least + 1);
            for round in 0..bounds.most {
                if round >= bounds.least && machine.room() < 2 + reserve {
                    break;
                }
                let (value, is_lost) = with(machine, fix, trial);
                if is_lost {
                    break;
                }
                on.extend(value?);
                off.push(machine.measure()?);
            }
            if trial.compared.verdict == TryVerdict::NotPossible {
                continue;
            }
            trial.compared = compare(&off, &on, (others, bounds.least.min(ENOUGH)));
            trial.on_top_of.clone_from(&outcome.kept);
            (trial.off, trial.on) = (off, on.clone());
            keep = trial.compared.verdict == TryVerdict::Helpful;
        }
        if keep {
            let trial = &mut outcome.trials[fix];
            if let Err(why) = machine.turn_on(fix) {
                (trial.compared.verdict, trial.reason) = (TryVerdict::NotPossible, Some(why));
                continue;
            }
            trial.is_kept = true;
            outcome.kept.push(fix);
            outcome.result = on;
        }
    }
    Ok(())
}

/// Returns the helpful fixes, the best one first. Of fixes that differ by less than the spread between rounds, the one
/// that is listed first is first, so that repeated runs have the same order.
fn best_first(trials: &[Trial]) -> Vec<usize> {
    let is_helpful = |fix: &usize| trials[*fix].compared.verdict == TryVerdict::Helpful;
    let mut left: Vec<usize> = (0..trials.len()).filter(is_helpful).collect();
    let mut order = Vec::new();
    let effect = |fix: usize| trials[fix].compared.effect;
    while let Some(&best) = left.iter().max_by(|one, other| effect(**one).total_cmp(&effect(**other))) {
        let tolerance = spread(&trials[best].on).unwrap_or(0.0);
        let place = left.iter().position(|&fix| effect(fix) + tolerance >= effect(best)).unwrap_or(0);
        order.push(left.remove(place));
    }
    order
}

impl Outcome {
    /// The median without any fix.
    pub(super) fn baseline_median(&self) -> Option<f64> {
        median(&self.baseline)
    }

    /// The median with all fixes that are worth keeping.
    pub(super) fn result_median(&self) -> Option<f64> {
        median(&self.result)
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::doctor_try::TryVerdict;

    use super::{
        super::statistics::TrialResult, Bounds, Ended, Machine, Outcome, Trial, best_first, experiment, measurements,
    };

    /// A machine of which each fix multiplies the figure. `redundant` fixes help only if no fix is on.
    struct Simulated {
        factors: Vec<f64>,
        redundant: Vec<usize>,
        refused: Vec<usize>,
        /// The fixes that another program changes while they are on, so that they cannot be undone.
        changed: Vec<usize>,
        on: Vec<bool>,
        /// The fixes in the order in which they were turned on.
        order: Vec<usize>,
        count: usize,
        ends_after: Option<(usize, Ended)>,
    }

    impl Simulated {
        fn new(factors: &[f64]) -> Self {
            Self {
                factors: factors.to_vec(),
                redundant: Vec::new(),
                refused: Vec::new(),
                changed: Vec::new(),
                on: vec![false; factors.len()],
                order: Vec::new(),
                count: 0,
                ends_after: None,
            }
        }

        fn run(&mut self, rounds: usize) -> Outcome {
            experiment(self, self.factors.len(), Bounds { least: rounds, most: rounds, reserve: 0 })
        }
    }

    impl Machine for Simulated {
        fn turn_on(&mut self, fix: usize) -> Result<(), String> {
            if self.refused.contains(&fix) {
                return Err("refused".to_owned());
            }
            assert!(!self.on[fix], "it is on already");
            self.on[fix] = true;
            self.order.push(fix);
            Ok(())
        }

        fn turn_off(&mut self, fix: usize) -> Result<(), String> {
            assert!(self.on[fix], "it is off already");
            self.on[fix] = false;
            if self.changed.contains(&fix) { Err("another program set it".to_owned()) } else { Ok(()) }
        }

        fn room(&self) -> usize {
            0
        }

        fn measure(&mut self) -> Result<f64, Ended> {
            self.count += 1;
            match &self.ends_after {
                Some((after, ended)) if self.count > *after => return Err(ended.clone()),
                _ => {}
            }
            // A drift that doubles the figure within 300 measurements, and a deterministic noise of 4 %.
            let noise = [0.98, 1.01, 1.02, 0.99, 1.0, 1.015, 0.985][self.count % 7];
            let drift = 1.0 + self.count as f64 / 3_000.0;
            let others = |fix: usize| self.on.iter().enumerate().any(|(other, on)| *on && other != fix);
            let on = (0..self.on.len()).filter(|&fix| self.on[fix]);
            let counted = on.filter(|&fix| !(self.redundant.contains(&fix) && others(fix)));
            Ok(counted.fold(41_000.0, |figure, fix| figure * self.factors[fix]) * noise * drift)
        }
    }

    /// A machine on which no fix has an effect: each measurement is the next recorded p99.
    struct Recorded {
        rounds: Vec<f64>,
        next: usize,
    }

    impl Machine for Recorded {
        fn turn_on(&mut self, _: usize) -> Result<(), String> {
            Ok(())
        }

        fn turn_off(&mut self, _: usize) -> Result<(), String> {
            Ok(())
        }

        fn room(&self) -> usize {
            0
        }

        fn measure(&mut self) -> Result<f64, Ended> {
            let value = self.rounds[self.next % self.rounds.len()];
            self.next += 1;
            Ok(value)
        }
    }

    #[test]
    fn a_fix_without_an_effect_is_rarely_called_helpful() {
        // The p99 of each of 240 runs on each of two CPUs, in their order.
        let text = include_str!("../../../../tests/it/recorded/wake-ups-of-240-runs.csv");
        let rows: Vec<Vec<f64>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(',').map(|number| number.parse().expect("a number")).collect())
            .collect();
        assert_eq!(rows.len(), 240);
        let mut found = 0;
        for run in 0..200 {
            let column = if run % 2 == 0 { 2 } else { 7 };
            let rounds = rows.iter().map(|row| row[column]).collect();
            let mut machine = Recorded { rounds, next: run * 31 };
            let (fixes, rounds) = (1 + run % 4, 5 + run % 11);
            let outcome = experiment(&mut machine, fixes, Bounds { least: 5, most: rounds, reserve: 0 });
            let is_wrong = |trial: &Trial| {
                [TryVerdict::Helpful, TryVerdict::Worse].contains(&trial.compared.verdict) || trial.is_kept
            };
            found += u32::from(outcome.trials.iter().any(is_wrong));
        }
        eprintln!("{found} of 200 trials without an effect state one");
        assert!(found <= 10, "{found} of 200");
    }

    fn verdicts(outcome: &Outcome) -> Vec<TryVerdict> {
        outcome.trials.iter().map(|trial| trial.compared.verdict).collect()
    }

    #[test]
    fn what_helps_is_kept_and_everything_else_is_undone() {
        let mut machine = Simulated::new(&[1.0, 0.4, 1.0, 1.5]);
        let outcome = machine.run(5);
        assert_eq!(
            verdicts(&outcome),
            [TryVerdict::WithinSpread, TryVerdict::Helpful, TryVerdict::WithinSpread, TryVerdict::Worse]
        );
        assert_eq!(
            (outcome.kept.as_slice(), machine.on.as_slice()),
            ([1].as_slice(), [false, true, false, false].as_slice())
        );
        assert_eq!((outcome.baseline.len(), machine.count), (21, measurements(4, 5)));
        assert!(outcome.result_median() < outcome.baseline_median().map(|ns| ns / 2.0));
    }

    #[test]
    fn fixes_are_compared_on_top_of_better_ones() {
        let mut machine = Simulated::new(&[0.8, 0.3, 0.31, 0.6]);
        machine.redundant = vec![2];
        let outcome = machine.run(5);
        assert_eq!(outcome.kept, [1, 3, 0]);
        assert_eq!(machine.on, [true, true, false, true]);
        assert_eq!(outcome.trials[2].compared.verdict, TryVerdict::WithinSpread);
        assert_eq!(
            (outcome.trials[2].on_top_of.as_slice(), outcome.trials[0].on_top_of.as_slice()),
            ([1].as_slice(), [1, 3].as_slice())
        );
    }

    #[test]
    fn a_refused_fix_is_not_possible_and_the_others_are_tried() {
        let mut machine = Simulated::new(&[0.5, 0.4]);
        machine.refused = vec![0];
        let outcome = machine.run(5);
        assert_eq!(verdicts(&outcome), [TryVerdict::NotPossible, TryVerdict::Helpful]);
        assert_eq!((outcome.trials[0].reason.as_deref(), outcome.kept.as_slice()), (Some("refused"), [1].as_slice()));
    }

    #[test]
    fn every_second_round_has_the_reverse_order() {
        let mut machine = Simulated::new(&[1.0, 1.0, 1.0]);
        machine.run(3);
        assert_eq!(machine.order, [0, 1, 2, 2, 1, 0, 0, 1, 2]);
    }

    #[test]
    fn fixes_that_may_be_judged_twice_need_stronger_evidence() {
        let helps = |rounds: usize| {
            let outcome = Simulated::new(&[0.3, 1.0]).run(rounds);
            assert!(outcome.trials[0].compared.p_value.is_some_and(|p| p < 0.05 / 2.0));
            outcome.trials[0].compared.verdict == TryVerdict::Helpful
        };
        // The strongest possible evidence of 7 and 3 rounds is p = 2/120, and the level is 5 % divided by 4.
        assert!(!helps(3) && helps(4));
    }

    #[test]
    fn of_fixes_that_differ_by_less_than_the_spread_the_first_one_is_best() {
        let trial = |effect: f64, on: &[f64]| Trial {
            off: Vec::new(),
            on: on.to_vec(),
            on_top_of: Vec::new(),
            compared: TrialResult { verdict: TryVerdict::Helpful, effect, p_value: Some(0.001) },
            is_kept: false,
            reason: None,
        };
        let on = [10.0, 11.0, 12.0];
        assert_eq!(best_first(&[trial(30.0, &on), trial(30.5, &on)]), [0, 1]);
        assert_eq!(best_first(&[trial(30.0, &on), trial(33.0, &on)]), [1, 0]);
    }

    #[test]
    fn a_setting_that_changes_by_itself_has_no_verdict() {
        let mut machine = Simulated::new(&[0.5, 0.4]);
        machine.changed = vec![0];
        let outcome = machine.run(5);
        assert_eq!(verdicts(&outcome), [TryVerdict::NotPossible, TryVerdict::Helpful]);
        let [changed, other] = outcome.trials.as_slice() else { panic!("{outcome:?}") };
        // Its only value may have been measured with another setting.
        assert_eq!((changed.reason.as_deref(), changed.on.len()), (Some("another program set it"), 0));
        assert_eq!((outcome.kept.as_slice(), other.on.len()), ([1].as_slice(), 5));
    }

    #[test]
    fn the_best_fix_is_kept_even_if_the_time_is_up() {
        let mut machine = Simulated::new(&[1.0, 0.3, 0.5]);
        machine.ends_after = Some((measurements(3, 6), Ended::OutOfTime));
        let outcome = machine.run(9);
        assert_eq!((outcome.kept.as_slice(), machine.on.as_slice()), ([1].as_slice(), [false, true, false].as_slice()));
        assert_eq!(verdicts(&outcome), [TryVerdict::WithinSpread, TryVerdict::Helpful, TryVerdict::Helpful]);
        assert_eq!(outcome.trials[2].reason.as_deref(), Some("the time was up"));
    }

    #[test]
    fn an_early_end_undoes_everything_that_is_not_kept() {
        let all = measurements(3, 5);
        for after in 0..all + 30 {
            let mut machine = Simulated::new(&[0.9, 0.3, 0.5]);
            machine.ends_after = Some((after, Ended::Interrupted));
            let outcome = machine.run(5);
            let on: Vec<usize> = (0..3).filter(|&fix| machine.on[fix]).collect();
            let mut kept = outcome.kept.clone();
            kept.sort_unstable();
            assert_eq!(on, kept, "after {after}");
            let has_ended = outcome.ended == Some(Ended::Interrupted);
            assert!(has_ended || outcome.kept.len() >= 2, "after {after}: {outcome:?}");
            for trial in &outcome.trials {
                let is_open = trial.compared.verdict == TryVerdict::Unknown;
                assert!(!is_open || trial.reason.as_deref() == Some("the run was interrupted"), "after {after}");
                assert!(after >= all || !trial.is_kept, "after {after}");
            }
        }
    }
}
