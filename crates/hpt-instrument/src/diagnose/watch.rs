//! The comparison of several sources with one reference: which source is faulty, and what its fault is. This module
//! takes readings and the state of the kernel as parameters, and reads neither sources nor files.

use hpt_core::source::SourceId;

use super::{
    Expectation, Fault, Interval, Limits, are_one_reading,
    source::{Look, Range, Shared, Watched},
};
use crate::measure::Burst;

/// The fewest counters that prove a fault of the reference. Of two, one may be wrong.
const FEWEST_WITNESSES: usize = 3;

/// A round of readings, with one burst for each source.
#[derive(Clone, Copy, Debug)]
pub struct Round<'a> {
    /// A burst for each source, in the order of the watched sources.
    pub bursts: &'a [Burst],
    /// Whether an event between the previous round and the end of this round makes readings incomparable: a suspend, a
    /// move to another host, or a change of the kernel's clocksource. If so, this round is ignored, and the comparison
    /// restarts with the next round.
    pub interrupted: bool,
}

/// Watched sources.
#[derive(Clone, Debug)]
pub struct Watch {
    sources: Vec<Watched>,
    /// The counter of each source that is a witness.
    witnesses: Vec<Option<SourceId>>,
    limits: Limits,
    /// A step that all sources made, unless the next round shows another one.
    pending: Option<Range>,
    all: Vec<Fault>,
    summary: WatchSummary,
}

/// The results of an interval.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EndedInterval {
    /// The readings and the faults of each source, in the order of the watched sources.
    pub sources: Vec<Interval>,
    /// The faults that all sources share or that the reference has.
    pub shared_faults: Vec<Fault>,
}

/// The results so far.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct WatchSummary {
    /// The number of rounds of readings.
    pub rounds: u64,
    /// The number of intervals.
    pub intervals: u64,
    /// The number of times that the comparison had to restart.
    pub interruptions: u64,
    /// The number of faults of each source.
    pub faults: Vec<u64>,
    /// The number of faults that all sources share or that the reference has.
    pub shared_faults: u64,
}

impl Watch {
    /// Creates a watch with these expectations and limits.
    #[must_use]
    pub fn new(expectations: &[Expectation], limits: Limits) -> Self {
        let sources: Vec<Watched> = expectations.iter().map(|&expectation| Watched::new(expectation, limits)).collect();
        let witnesses = vec![None; sources.len()];
        let summary = WatchSummary { faults: vec![0; expectations.len()], ..WatchSummary::default() };
        Self { sources, witnesses, limits, pending: None, all: Vec::new(), summary }
    }

    /// Sets the difference between the kernel's tick and its default length, in parts per million, from the next round
    /// on. At the end of an interval, the largest difference during the interval counts.
    pub fn set_tick_off_by(&mut self, tick_ppm: f64) {
        for source in &mut self.sources {
            source.set_tick_off_by(tick_ppm);
        }
    }

    /// Changes the expectations from the next round on, for a reference that now uses another counter.
    ///
    /// # Panics
    ///
    /// Panics if the number of expectations differs from the number of sources.
    pub fn expect(&mut self, expectations: &[Expectation]) {
        assert_eq!(expectations.len(), self.sources.len(), "there must be one expectation for each source");
        for (source, &expectation) in self.sources.iter_mut().zip(expectations) {
            source.expect(expectation);
        }
    }

    /// Sets the witnesses from the next interval on: for each source, the counter that it reads if its rate is constant
    /// and the reference does not use this counter ([`Expected::witness`](super::Expected::witness)). If three or more
    /// counters agree that their rates changed against the reference, the reference has changed, and not the sources.
    pub fn set_witnesses(&mut self, counters: Vec<Option<SourceId>>) {
        self.witnesses = counters;
    }

    /// Adds a round of readings.
    ///
    /// # Panics
    ///
    /// Panics if the number of bursts differs from the number of sources.
    pub fn take(&mut self, round: Round<'_>) {
        assert_eq!(round.bursts.len(), self.sources.len(), "there must be one burst for each source");
        self.summary.rounds += 1;
        if round.interrupted {
            self.summary.interruptions += 1;
            let pending = self.pending.take();
            self.conclude_step(pending);
            for source in &mut self.sources {
                source.restart();
            }
            // A reading in this round may predate the interruption, or its bracket may be as wide as the interruption.
            return;
        }
        let looks: Vec<Option<Look>> =
            self.sources.iter_mut().zip(round.bursts).map(|(source, burst)| source.look(burst)).collect();
        let pending = self.pending.take();
        let shared = match (pending, shared(&looks)) {
            // Two consecutive steps in the same direction are a change in rate, which is judged at the end of the interval.
            (Some(earlier), Some(now)) if (earlier.low > 0.0) == (now.low > 0.0) => Shared::Rate,
            (_, now) => {
                self.conclude_step(pending);
                self.pending = now;
                if now.is_some() { Shared::Step } else { Shared::Nothing }
            }
        };
        for (source, look) in self.sources.iter_mut().zip(&looks) {
            if let Some(look) = look {
                source.commit(look, shared);
            }
        }
    }

    fn conclude_step(&mut self, pending: Option<Range>) {
        if let Some(range) = pending.filter(|range| range.certain() > self.limits.step.as_secs_f64() * 1e9) {
            let (least_ns, most_ns) = range.ends();
            self.all.push(Fault::AllStepped { least_ns, most_ns });
        }
    }

    /// Ends an interval, and returns its results.
    pub fn end_interval(&mut self) -> EndedInterval {
        let (mut sources, changes): (Vec<Interval>, Vec<Option<Range>>) =
            self.sources.iter_mut().map(Watched::end_interval).unzip();
        let pending = self.pending.take();
        self.conclude_step(pending);
        let mut shared_faults = std::mem::take(&mut self.all);
        let shared = self.change_of_the_reference(&changes).or_else(|| {
            let (least_ppm, most_ppm) = alike(&sources)?.ends();
            Some(Fault::AllRatesOff { least_ppm, most_ppm })
        });
        if let Some(fault) = shared {
            for interval in &mut sources {
                interval.faults.retain(|fault| !matches!(fault, Fault::RateOff { .. } | Fault::RateChanged { .. }));
            }
            shared_faults.push(fault);
        }
        self.summary.intervals += 1;
        for (sum, interval) in self.summary.faults.iter_mut().zip(&sources) {
            *sum += interval.faults.len() as u64;
        }
        self.summary.shared_faults += shared_faults.len() as u64;
        EndedInterval { sources, shared_faults }
    }

    /// Returns the change in the rate of the reference on which at least three counters agree, if it exceeds the limit.
    fn change_of_the_reference(&self, changes: &[Option<Range>]) -> Option<Fault> {
        let mut seen: Vec<(&SourceId, Range)> = Vec::new();
        let mut accepted_ppm = self.limits.rate_ppm;
        for ((counter, change), source) in self.witnesses.iter().zip(changes).zip(&self.sources) {
            let (Some(counter), Some(change)) = (counter, change) else { continue };
            accepted_ppm = accepted_ppm.max(self.limits.rate_ppm + source.bent_ppm());
            if !seen.iter().any(|(other, _)| are_one_reading(other.as_str(), counter.as_str())) {
                seen.push((counter, *change));
            }
        }
        let both = seen.iter().try_fold(seen.first()?.1, |range, (_, other)| range.and(*other))?;
        let is_proven = seen.len() >= FEWEST_WITNESSES && both.certain() > accepted_ppm;
        let (least_ppm, most_ppm) = Range { low: -both.high, high: -both.low }.ends();
        is_proven.then_some(Fault::ReferenceChanged { least_ppm, most_ppm, witnesses: seen.len() })
    }

    /// Returns the results of all completed intervals.
    #[must_use]
    pub const fn summary(&self) -> &WatchSummary {
        &self.summary
    }
}

/// Returns the step that all sources made, if at least two sources certainly stepped and all other sources may have
/// stepped by the same amount.
fn shared(looks: &[Option<Look>]) -> Option<Range> {
    let deviations: Vec<Range> = looks.iter().flatten().filter_map(|look| look.deviation).collect();
    let certain = deviations.iter().filter(|deviation| deviation.excludes_zero()).count();
    if certain < 2 {
        return None;
    }
    let first = *deviations.first()?;
    let both = deviations.iter().try_fold(first, |range, &other| range.and(other))?;
    both.excludes_zero().then_some(both)
}

/// Returns the frequency error that all sources share, if there are several sources and all of them have a frequency
/// error.
fn alike(intervals: &[Interval]) -> Option<Range> {
    let judged: Vec<&Interval> = intervals.iter().filter(|interval| interval.frequency_error.is_some()).collect();
    let is_off = |interval: &&&Interval| {
        interval.faults.iter().any(|fault| matches!(fault, Fault::RateOff { .. } | Fault::RateChanged { .. }))
    };
    if judged.len() < 2 || !judged.iter().all(|interval| is_off(&interval)) {
        return None;
    }
    let errors = judged.iter().filter_map(|interval| interval.frequency_error);
    let mut ranges = errors.map(|error| Range { low: error.lower_ppm, high: error.upper_ppm });
    let first = ranges.next()?;
    ranges.try_fold(first, Range::and).filter(|range| range.excludes_zero())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::{
        collection::vec,
        prelude::{Just, Strategy, prop_assert, prop_oneof, proptest},
    };

    use super::{EndedInterval, Round, Watch};
    use crate::{
        diagnose::{Expectation, Fault, FrequencyErrorLimits, Interval, Limits, SourceEvent, SourceOffset},
        measure::{Burst, BurstReader},
    };
    use hpt_core::{
        calibrate::Granules,
        source::{Nominal, Pair, RateKind, SourceId, SourceInfo, StatedBy, TimeSource},
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, Width};

    const GRANULES: Granules = Granules { source_ticks: 10, reference_ns: 10 };
    const ROUND_NS: u64 = 10_000_000;
    const ROUNDS_IN_AN_INTERVAL: u64 = 100;

    fn steady(hertz: u64) -> SourceInfo {
        let mut info = ManualSource::new("scripted").info().clone();
        let frequency = Frequency::from_hertz(hertz).expect("not zero");
        info.nominal = Some(Nominal { frequency, stated_by: StatedBy::Program });
        info
    }

    fn slewing() -> SourceInfo {
        steady(1_000_000_000).with_rate(RateKind::Slewed)
    }

    fn limits() -> Limits {
        Limits { rate_ppm: 50.0, step: Duration::from_micros(1), ..Limits::default() }
    }

    /// A source that keeps true time: its ticks as a function of nanoseconds.
    type Script<'a> = &'a dyn Fn(u64) -> u64;

    /// The bracket of a burst: the time before the reading and the time after it.
    type Widths<'a> = &'a dyn Fn(u64) -> (u64, u64);

    fn burst(script: Script<'_>, true_ns: u64, (early, late): (u64, u64)) -> Burst {
        let pair = Pair { before_ns: true_ns - early, ticks: script(true_ns), after_ns: true_ns + late };
        Burst { pair, backward_steps: 0, largest_backward_ticks: 0 }
    }

    fn expect(infos: &[SourceInfo]) -> Vec<Expectation> {
        let reference = steady(1_000_000_000);
        infos.iter().map(|info| Expectation::new(info, &reference, GRANULES).expect("its rate is stated")).collect()
    }

    /// Watches scripted sources for some intervals of a second, with a round every 10 ms.
    fn watch(
        infos: &[SourceInfo],
        scripts: &[Script<'_>],
        widths: Widths<'_>,
        intervals: u64,
    ) -> (Vec<Vec<Interval>>, Vec<Fault>) {
        let mut watch = Watch::new(&expect(infos), limits());
        let (mut ended, mut all) = (Vec::new(), Vec::new());
        let mut now = 1_000_000_000;
        for _ in 0..intervals {
            for _ in 0..ROUNDS_IN_AN_INTERVAL {
                let bursts: Vec<Burst> = (0_u64..)
                    .zip(scripts)
                    .map(|(place, script)| burst(script, now + place * 2_000, widths(now)))
                    .collect();
                watch.take(Round { bursts: &bursts, interrupted: false });
                now += ROUND_NS;
            }
            let interval = watch.end_interval();
            ended.push(interval.sources);
            all.extend(interval.shared_faults);
        }
        (ended, all)
    }

    const NARROW: Widths<'static> = &|_| (30, 30);

    /// One source compared with a good reference.
    fn alone(info: SourceInfo, script: Script<'_>, widths: Widths<'_>, intervals: u64) -> Vec<Interval> {
        let (ended, all) = watch(&[info], &[script], widths, intervals);
        assert!(all.is_empty(), "{all:?}");
        ended.into_iter().map(|mut interval| interval.remove(0)).collect()
    }

    fn faults(intervals: &[Interval]) -> Vec<Fault> {
        intervals.iter().flat_map(|interval| interval.faults.clone()).collect()
    }

    fn at_rate(hertz: f64) -> impl Fn(u64) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a script"
        )]
        move |ns| (ns as f64 * hertz / 1e9) as u64
    }

    #[test]
    fn a_healthy_counter_is_not_accused_and_its_rate_is_bounded() {
        let ended = alone(steady(2_600_000_000), &at_rate(2_600_000_000.0), NARROW, 5);
        assert_eq!(faults(&ended), []);
        let FrequencyErrorLimits { lower_ppm, upper_ppm } = ended[3].frequency_error.expect("an interval of a second");
        assert!(lower_ppm <= 0.0 && upper_ppm >= 0.0 && upper_ppm - lower_ppm < 1.0, "{lower_ppm} {upper_ppm}");
        let SourceOffset { offset_ns, bound_ns } = ended[3].offset.expect("it was read");
        assert!(offset_ns.abs() <= bound_ns && bound_ns < 200.0, "{offset_ns} {bound_ns}");
    }

    #[test]
    fn a_stepping_counter_is_detected_with_the_size_of_the_step() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 5_000 } else { 0 };
        let found = faults(&alone(steady(1_000_000_000), &jump, NARROW, 4));
        let [Fault::Stepped { least_ns, most_ns }] = found[..] else { panic!("{found:?}") };
        assert!(least_ns > 4_000.0 && least_ns <= 5_000.0 && most_ns >= 5_000.0, "{least_ns} {most_ns}");
        let back = |ns: u64| ns - if ns >= 2_500_000_000 { 5_000 } else { 0 };
        let found = faults(&alone(steady(1_000_000_000), &back, NARROW, 4));
        let [Fault::Stepped { least_ns, most_ns }] = found[..] else { panic!("{found:?}") };
        assert!((-5_000.0..-4_000.0).contains(&least_ns) && most_ns <= -5_000.0, "{least_ns} {most_ns}");
    }

    #[test]
    fn a_step_within_the_limit_is_reported_but_is_not_a_fault() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 900 } else { 0 };
        let ended = alone(steady(1_000_000_000), &jump, NARROW, 4);
        assert_eq!(faults(&ended), []);
        assert!(matches!(ended[1].events[..], [SourceEvent::SmallStep { .. }]), "{:?}", ended[1].events);
    }

    #[test]
    fn a_counter_that_runs_100_ppm_fast_is_detected() {
        let found = faults(&alone(steady(1_000_000_000), &at_rate(1_000_100_000.0), NARROW, 3));
        assert_eq!(found.len(), 3, "{found:?}");
        for fault in found {
            let Fault::RateOff { least_ppm, most_ppm, .. } = fault else { panic!("{fault:?}") };
            assert!((99.0..=100.0).contains(&least_ppm) && most_ppm >= 100.0, "{fault:?}");
        }
    }

    #[test]
    fn a_counter_100_ppm_off_the_clock_that_counts_with_it_is_detected_by_default() {
        let stated = |stated_by| {
            let mut info = steady(1_000_000_000);
            info.nominal = info.nominal.map(|nominal| Nominal { stated_by, ..nominal });
            info
        };
        let (tsc, raw) = (stated(StatedBy::BogoMips), stated(StatedBy::Definition));
        let expectation = Expectation::new(&tsc, &raw, GRANULES).expect("its rate is stated");
        let tight = expectation.counted_by_the_reference(3.0);
        for (first, then, faults) in [(tight, tight, 3), (expectation, expectation, 0), (tight, expectation, 1)] {
            let mut watch = Watch::new(&[first], Limits::default());
            let mut found = Vec::new();
            for round in 1..=3 * ROUNDS_IN_AN_INTERVAL {
                let bursts = [burst(&at_rate(1_000_100_000.0), round * ROUND_NS, (30, 30))];
                watch.take(Round { bursts: &bursts, interrupted: false });
                if round % ROUNDS_IN_AN_INTERVAL == 0 {
                    found.extend(watch.end_interval().sources.remove(0).faults);
                    watch.expect(&[then]);
                }
            }
            assert_eq!(found.len(), faults, "{found:?}");
            assert!(found.iter().all(|fault| matches!(fault, Fault::RateOff { .. })), "{found:?}");
        }
    }

    #[test]
    fn a_counter_that_changes_its_rate_is_detected_and_does_not_count_as_stepped() {
        let bent = |ns: u64| ns + ns.saturating_sub(3_000_000_000) / 5_000;
        let found = faults(&alone(steady(1_000_000_000), &bent, NARROW, 5));
        assert!(found.iter().any(|fault| matches!(fault, Fault::RateChanged { .. })), "{found:?}");
        assert!(!found.iter().any(|fault| matches!(fault, Fault::Stepped { .. })), "{found:?}");
    }

    #[test]
    fn a_stopped_counter_is_detected_once_per_interval_and_may_resume() {
        let stops = |ns: u64| ns.min(2_500_000_000) + ns.saturating_sub(4_500_000_000);
        let ended = alone(steady(1_000_000_000), &stops, NARROW, 6);
        let found: Vec<usize> = ended.iter().map(|interval| interval.faults.len()).collect();
        assert_eq!(found, [0, 1, 1, 1, 0, 0], "{ended:?}");
        assert!(matches!(ended[1].faults[0], Fault::StoodStill { at_least_ns } if at_least_ns > 400e6));
    }

    #[test]
    fn backward_readings_are_a_fault_of_a_counter_but_not_of_wall_time() {
        for (info, expected) in [(steady(1_000_000_000), 1), (slewing().with_rate(RateKind::SlewedAndStepped), 0)] {
            let mut watch = Watch::new(&expect(&[info]), limits());
            for round in 1..10 {
                let mut burst = burst(&|ns| ns, round * ROUND_NS, (30, 30));
                (burst.backward_steps, burst.largest_backward_ticks) = (u32::from(round == 5), 70);
                watch.take(Round { bursts: &[burst], interrupted: false });
            }
            let ended = watch.end_interval().sources;
            assert_eq!(ended[0].faults.len(), expected, "{ended:?}");
        }
    }

    #[test]
    fn a_clock_that_a_daemon_slews_by_500_ppm_is_not_accused() {
        // From 500 ppm fast to 500 ppm slow, from one reading to the next.
        let slewed = |ns: u64| {
            let turned = ns.min(3_000_000_000);
            ns + turned / 2_000 - ns.saturating_sub(turned) / 2_000
        };
        let ended = alone(slewing(), &slewed, NARROW, 5);
        assert_eq!(faults(&ended), []);
        assert_eq!(ended.iter().map(|interval| interval.events.len()).sum::<usize>(), 0);
    }

    #[test]
    fn a_clock_whose_tick_a_daemon_shortens_is_not_accused() {
        // By 2 % for one second, in the middle of an interval.
        let slewed = |ns: u64| ns + (ns.clamp(2_500_000_000, 3_500_000_000) - 2_500_000_000) / 50;
        for told in [true, false] {
            let mut watch = Watch::new(&expect(&[slewing()]), limits());
            let mut found = Vec::new();
            for round in 1..600_u64 {
                let now = round * ROUND_NS;
                if told {
                    let is_slewed = (2_500_000_000..=3_500_000_000 + ROUND_NS).contains(&now);
                    watch.set_tick_off_by(if is_slewed { 20_000.0 } else { 0.0 });
                }
                watch.take(Round { bursts: &[burst(&slewed, now, (30, 30))], interrupted: false });
                if round % ROUNDS_IN_AN_INTERVAL == 0 {
                    found.extend(watch.end_interval().sources.remove(0).faults);
                }
            }
            assert_eq!(found.is_empty(), told, "{found:?}");
        }
    }

    #[test]
    fn setting_a_clock_that_must_not_be_set_is_detected() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 2_000_000 } else { 0 };
        let found = faults(&alone(slewing(), &jump, NARROW, 3));
        assert!(found.iter().any(|fault| matches!(fault, Fault::Stepped { .. })), "{found:?}");
    }

    #[test]
    fn setting_wall_time_is_reported_but_is_not_a_fault() {
        let set = |ns: u64| ns + if ns >= 2_500_000_000 { 3_600_000_000_000 } else { 0 };
        let ended = alone(slewing().with_rate(RateKind::SlewedAndStepped), &set, NARROW, 3);
        assert_eq!(ended.iter().map(|interval| interval.set).sum::<u64>(), 1);
        let of_rate = |fault: &Fault| matches!(fault, Fault::RateOff { .. });
        assert!(!faults(&ended).iter().any(|fault| !of_rate(fault)), "{ended:?}");
        assert_eq!(faults(&ended), []);
    }

    #[test]
    fn a_reported_suspend_is_not_a_fault() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 6_000_000_000 } else { 0 };
        let mut watch = Watch::new(&expect(&[steady(1_000_000_000)]), limits());
        let mut found = Vec::new();
        for round in 1..500_u64 {
            let now = round * ROUND_NS;
            let bursts = [burst(&jump, now, (30, 30))];
            watch.take(Round { bursts: &bursts, interrupted: now == 2_500_000_000 });
            if round % ROUNDS_IN_AN_INTERVAL == 0 {
                found.extend(watch.end_interval().sources.remove(0).faults);
            }
        }
        assert_eq!(found, []);
        assert_eq!(watch.summary().interruptions, 1);
    }

    #[test]
    fn a_reference_that_steps_is_blamed_if_two_sources_show_it() {
        // Readings of the sources compared with a reference that stepped back by 20 µs.
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 20_000 } else { 0 };
        let other = |ns: u64| jump(ns) / 100;
        let (ended, all) = watch(&[steady(1_000_000_000), steady(10_000_000)], &[&jump, &other], NARROW, 4);
        assert!(matches!(all[..], [Fault::AllStepped { .. }]), "{all:?}");
        assert!(ended.iter().flatten().all(|interval| interval.faults.is_empty()), "{ended:?}");
    }

    #[test]
    fn a_reference_step_within_the_limit_is_not_a_fault() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 900 } else { 0 };
        let other = |ns: u64| jump(ns) / 100 * 100;
        let (ended, all) = watch(&[steady(1_000_000_000), steady(1_000_000_000)], &[&jump, &other], NARROW, 4);
        assert!(
            all.is_empty() && ended.iter().flatten().all(|interval| interval.faults.is_empty()),
            "{all:?} {ended:?}"
        );
    }

    #[test]
    fn a_reference_with_a_wrong_rate_is_blamed_if_two_sources_show_it() {
        let (fast, other) = (at_rate(1_000_200_000.0), at_rate(10_002_000.0));
        let (ended, all) = watch(&[steady(1_000_000_000), steady(10_000_000)], &[&fast, &other], NARROW, 3);
        assert!(all.len() == 3 && all.iter().all(|fault| matches!(fault, Fault::AllRatesOff { .. })), "{all:?}");
        assert!(ended.iter().flatten().all(|interval| interval.faults.is_empty()), "{ended:?}");
    }

    /// Watches three counters whose rates change after 3 s, and returns the faults of the sources and the shared ones.
    fn changed(rates: [f64; 3], witnesses: [Option<&'static str>; 3]) -> (Vec<Fault>, Vec<Fault>) {
        let infos = [steady(1_000_000_000), steady(1_000_000_000), steady(1_000_000_000)];
        let mut watch = Watch::new(&expect(&infos), Limits::default());
        watch.set_witnesses(witnesses.map(|id| id.map(SourceId::new)).to_vec());
        let (mut faults, mut shared) = (Vec::new(), Vec::new());
        for round in 1..=6 * ROUNDS_IN_AN_INTERVAL {
            let now = round * ROUND_NS;
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a script")]
            let bursts = rates.map(|ppm| {
                let late = now.saturating_sub(3_000_000_000);
                burst(&|ns| ns.strict_add_signed((late as f64 * ppm / 1e6) as i64), now, (30, 30))
            });
            watch.take(Round { bursts: &bursts, interrupted: false });
            if round % ROUNDS_IN_AN_INTERVAL == 0 {
                let ended = watch.end_interval();
                faults.extend(ended.sources.into_iter().flat_map(|interval| interval.faults));
                shared.extend(ended.shared_faults);
            }
        }
        (faults, shared)
    }

    #[test]
    fn three_counters_that_agree_prove_a_change_of_the_reference() {
        let three = [Some("tsc"), Some("hpet"), Some("ptp0")];
        let (faults, shared) = changed([-298.0; 3], three);
        assert_eq!(faults, []);
        for fault in &shared {
            let Fault::ReferenceChanged { least_ppm, most_ppm, witnesses: 3 } = fault else { panic!("{fault:?}") };
            assert!((297.0..=298.1).contains(least_ppm) && *most_ppm < 299.0, "{fault:?}");
        }
        assert_eq!(shared.len(), 3, "{shared:?}");
        assert_eq!(changed([-30.0; 3], three), (Vec::new(), Vec::new()), "within the limit");
    }

    #[test]
    fn counters_that_are_no_three_witnesses_prove_nothing_about_the_reference() {
        let is_proof = |rates, witnesses| {
            let (_, shared) = changed(rates, witnesses);
            shared.iter().any(|fault| matches!(fault, Fault::ReferenceChanged { .. }))
        };
        assert!(!is_proof([-298.0; 3], [Some("tsc"), Some("hpet"), None]), "only two are witnesses");
        assert!(!is_proof([-298.0; 3], [Some("tsc"), Some("hpet"), Some("hpet-low")]), "two are one counter");
        assert!(!is_proof([-298.0, -298.0, -200.0], [Some("tsc"), Some("hpet"), Some("ptp0")]), "one disagrees");
    }

    #[test]
    fn one_wrong_source_of_two_is_blamed_alone() {
        let jump = |ns: u64| ns + if ns >= 2_500_000_000 { 20_000 } else { 0 };
        let (ended, all) = watch(&[steady(1_000_000_000), steady(1_000_000_000)], &[&jump, &|ns| ns], NARROW, 4);
        assert!(all.is_empty(), "{all:?}");
        let blamed: Vec<usize> =
            (0..2).map(|which| ended.iter().map(|interval| interval[which].faults.len()).sum()).collect();
        assert_eq!(blamed, [1, 0], "{ended:?}");
    }

    #[test]
    fn a_narrow_counter_is_followed_across_its_wraps_and_lost_after_a_long_pause() {
        let mut info = steady(1_000_000);
        info.width = Width::BITS_32;
        let start = u64::from(u32::MAX) - 1_000;
        let narrow = |ns: u64| (ns / 1_000 + start) & Width::BITS_32.mask();
        let mut watch = Watch::new(&expect(std::slice::from_ref(&info)), limits());
        for round in 1..300_u64 {
            watch.take(Round { bursts: &[burst(&narrow, round * ROUND_NS, (30, 30))], interrupted: false });
        }
        let ended = watch.end_interval().sources;
        assert_eq!((ended[0].faults.len(), ended[0].events.len()), (0, 0), "{ended:?}");
        let an_hour_later = 300 * ROUND_NS + 3_600_000_000_000;
        watch.take(Round { bursts: &[burst(&narrow, an_hour_later, (30, 30))], interrupted: false });
        assert_eq!(watch.end_interval().sources[0].events, [SourceEvent::Lost]);
    }

    #[test]
    fn a_clock_that_advances_with_the_tick_does_not_count_as_stopped_between_ticks() {
        let mut info = steady(1_000_000_000);
        info.claimed_resolution_ns = Some(4_000_000);
        let reference = steady(1_000_000_000);
        let granules = Granules { source_ticks: 8_000_000, reference_ns: 10 };
        let expectation = Expectation::new(&info, &reference, granules).expect("stated");
        let mut watch = Watch::new(&[expectation], limits());
        let coarse = |ns: u64| ns / 4_000_000 * 4_000_000;
        for round in 1..500_u64 {
            watch.take(Round { bursts: &[burst(&coarse, round * 3_000_000, (30, 30))], interrupted: false });
        }
        assert_eq!(watch.end_interval().sources[0].faults, []);
    }

    #[test]
    fn readings_of_real_sources_pass() {
        // Each read advances both by 100 ns: they are one clock.
        let reference = ManualSource::new("reference").with_step(100);
        let source = ManualSource::new("source").with_step(200);
        let mut bursts = BurstReader::new(&reference);
        let expectation = Expectation::new(source.info(), reference.info(), GRANULES).expect("stated");
        let mut watch = Watch::new(&[expectation], limits());
        for _ in 0..50 {
            let taken = bursts.read(&source);
            watch.take(Round { bursts: &[taken], interrupted: false });
        }
        let EndedInterval { sources: ended, shared_faults: all } = watch.end_interval();
        assert_eq!((ended[0].bursts, ended[0].faults.len(), all.len()), (50, 0, 0), "{ended:?}");
    }

    /// Brackets under a host that takes the CPU away for up to 40 ms, before or after the reading.
    fn torn() -> impl Strategy<Value = (u64, u64)> {
        prop_oneof![
            8 => (20_u64..100, 20_u64..100),
            1 => (20_u64..40_000_000, 20_u64..100),
            1 => (20_u64..100, 20_u64..40_000_000),
        ]
    }

    proptest! {
        #[test]
        fn no_healthy_source_is_accused_for_any_brackets(
            hertz in prop_oneof![Just(1_000_000_u64), Just(3_579_545), 10_000_000..5_000_000_000_u64],
            rounds in vec((torn(), 1_000_u64..60_000_000), 60..160),
            off_ppm in -45_i64..45,
        ) {
            let mut watch = Watch::new(&expect(&[steady(hertz), slewing()]), limits());
            let mut now = 1_000_000_000_u64;
            #[expect(clippy::cast_precision_loss, reason = "a script")]
            let counter = at_rate(hertz as f64 * (1.0 + off_ppm as f64 / 1e6));
            // A reading lags by less than one granule.
            let lagging = |ns: u64| counter(ns) / 10 * 10;
            // A daemon changes the rate of the kernel's clock at every round.
            let (mut bent_ns, mut fast) = (0_i64, false);
            for (index, (widths, gap)) in rounds.iter().enumerate() {
                let early = widths.0.min(now - 1);
                now += early;
                let reference = |ns: u64| ns / 10 * 10;
                let bracket = |ticks| Pair { before_ns: reference(now - early), ticks, after_ns: reference(now + widths.1) };
                let clock = now.wrapping_add_signed(bent_ns);
                let bursts = [lagging(now), clock].map(|ticks| Burst { pair: bracket(ticks), backward_steps: 0, largest_backward_ticks: 0 });
                watch.take(Round { bursts: &bursts, interrupted: false });
                now += widths.1 + gap;
                fast = !fast;
                let turned = i64::try_from((early + widths.1 + gap) / 2_000).expect("below a second");
                bent_ns += if fast { turned } else { -turned };
                if index % 25 == 24 {
                    let EndedInterval { sources: ended, shared_faults: all } = watch.end_interval();
                    prop_assert!(all.is_empty(), "{all:?}");
                    for interval in ended {
                        prop_assert!(interval.faults.is_empty(), "{:?}", interval.faults);
                    }
                }
            }
        }

        #[test]
        fn any_readings_are_judged_without_a_panic(
            readings in vec((proptest::num::u64::ANY, proptest::num::u64::ANY, proptest::num::u64::ANY, 0_u32..3), 1..60),
            bits in 1_u8..=64,
        ) {
            let mut info = steady(1_000_000);
            info.width = Width::new(bits).expect("in range");
            let mut watch = Watch::new(&expect(&[info, slewing()]), limits());
            for (before_ns, ticks, after_ns, backwards) in readings {
                let burst = Burst { pair: Pair { before_ns, ticks, after_ns }, backward_steps: backwards, largest_backward_ticks: ticks };
                watch.take(Round { bursts: &[burst, burst], interrupted: backwards == 2 });
                let _ = watch.end_interval();
            }
        }
    }
}
