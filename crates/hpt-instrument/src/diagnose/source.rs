//! The comparison of one source with a reference: offset, rate, steps and stops, from bracketed readings. It reports
//! only deviations that the brackets, the granules and permitted changes of the source cannot explain.

use std::fmt;

use hpt_core::source::Pair;

use super::expectation::{Expectation, Limits, Nature, ns_of};
use crate::measure::Burst;

/// The largest change in the rate of a constant-rate source that does not count as a step, in parts per million. The
/// rate of a quartz crystal changes with temperature.
const WANDER_PPM: f64 = 20.0;
/// The minimum length of a stretch from which a rate is determined, in nanoseconds.
const LEARNING_NS: i64 = 100_000_000;

/// A fault of a source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The source stepped.
    Stepped {
        /// The smallest possible step (nearest to zero), in nanoseconds; negative if the source went backward.
        least_ns: f64,
        /// The largest possible step.
        most_ns: f64,
    },
    /// A reading of the source was lower than the previous reading.
    WentBack {
        /// The number of times that this happened.
        times: u64,
        /// The largest step back, in nanoseconds.
        largest_ns: f64,
    },
    /// The source stopped.
    StoodStill {
        /// The minimum time for which the source stopped, in nanoseconds.
        at_least_ns: f64,
    },
    /// The rate of the source differs too much from the nominal rate.
    RateOff {
        /// The smallest possible difference, in parts per million.
        least_ppm: f64,
        /// The largest possible difference.
        most_ppm: f64,
        /// The accepted difference.
        accepted_ppm: f64,
    },
    /// The rate of the source has changed too much since the start.
    RateChanged {
        /// The smallest possible change, in parts per million.
        least_ppm: f64,
        /// The largest possible change.
        most_ppm: f64,
        /// The accepted change.
        accepted_ppm: f64,
    },
    /// The counters of two cores are offset from each other.
    CoresApart {
        /// The first CPU.
        first_cpu: usize,
        /// The second CPU.
        second_cpu: usize,
        /// The lower limit of the second CPU's lead over the first, in nanoseconds.
        least_ns: f64,
        /// The upper limit of that lead, in nanoseconds.
        most_ns: f64,
    },
    /// All sources stepped by the same amount. The cause is the reference, or the counter that all of them use.
    AllStepped {
        /// The smallest possible step, in nanoseconds.
        least_ns: f64,
        /// The largest possible step.
        most_ns: f64,
    },
    /// All sources have the same frequency error. The cause is the reference, or the counter that all of them use.
    AllRatesOff {
        /// The smallest possible difference, in parts per million.
        least_ppm: f64,
        /// The largest possible difference.
        most_ppm: f64,
    },
    /// The rate of the reference has changed too much since the start: several counters that do not depend on each other
    /// agree on the change.
    ReferenceChanged {
        /// The smallest possible change, in parts per million.
        least_ppm: f64,
        /// The largest possible change.
        most_ppm: f64,
        /// The number of counters that agree.
        witnesses: usize,
    },
}

impl Fault {
    /// Returns the name of the fault in JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Stepped { .. } => "stepped",
            Self::WentBack { .. } => "backward",
            Self::StoodStill { .. } => "stopped",
            Self::RateOff { .. } => "frequency-error",
            Self::RateChanged { .. } => "frequency-change",
            Self::CoresApart { .. } => "core-offset",
            Self::AllStepped { .. } => "all-stepped",
            Self::AllRatesOff { .. } => "all-frequency-errors",
            Self::ReferenceChanged { .. } => "reference-frequency-change",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stepped { least_ns, most_ns } => write!(f, "stepped by {least_ns:.0} to {most_ns:.0} ns"),
            Self::WentBack { times: 1, largest_ns } => write!(f, "went backward once, by {largest_ns:.0} ns"),
            Self::WentBack { times, largest_ns } => {
                write!(f, "went backward {times} times, by up to {largest_ns:.0} ns")
            }
            Self::StoodStill { at_least_ns } => write!(f, "stopped for {:.3} ms or more", at_least_ns / 1e6),
            Self::RateOff { least_ppm, most_ppm, accepted_ppm } => {
                write!(
                    f,
                    "has a frequency error of {least_ppm:.3} to {most_ppm:.3} ppm; the limit is {accepted_ppm} ppm"
                )
            }
            Self::RateChanged { least_ppm, most_ppm, accepted_ppm } => {
                write!(
                    f,
                    "changed its frequency by {least_ppm:.3} to {most_ppm:.3} ppm; the limit is {accepted_ppm} ppm"
                )
            }
            Self::CoresApart { first_cpu, second_cpu, least_ns, most_ns } => {
                write!(f, "on CPU {second_cpu} is {least_ns:.0} to {most_ns:.0} ns ahead of CPU {first_cpu}")
            }
            Self::AllStepped { least_ns, most_ns } => {
                write!(
                    f,
                    "all sources stepped by {least_ns:.0} to {most_ns:.0} ns: the cause is the reference or the counter that all of them use"
                )
            }
            Self::ReferenceChanged { least_ppm, most_ppm, witnesses } => write!(
                f,
                "the reference changed its frequency by {least_ppm:.3} to {most_ppm:.3} ppm: {witnesses} counters agree on it"
            ),
            Self::AllRatesOff { least_ppm, most_ppm } => write!(
                f,
                "all sources have a frequency error of {least_ppm:.3} to {most_ppm:.3} ppm: the cause is the reference or the counter that all of them use"
            ),
        }
    }
}

/// An event of a source that is not a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SourceEvent {
    /// The source was set. The two limits of the step are in nanoseconds.
    WasSet {
        /// The smallest possible step (nearest to zero).
        least_ns: f64,
        /// The largest possible step.
        most_ns: f64,
    },
    /// The source stepped by less than the accepted limit. The two limits of the step are in nanoseconds.
    SmallStep {
        /// The smallest possible step (nearest to zero).
        least_ns: f64,
        /// The largest possible step.
        most_ns: f64,
    },
    /// The source may have wrapped unnoticed, so the comparison was restarted.
    Lost,
}

/// A range, in nanoseconds or parts per million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Range {
    pub(super) fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    pub(super) fn and(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    /// Returns the distance of the range from zero; zero if the range contains zero.
    pub(super) fn certain(self) -> f64 {
        if self.low > 0.0 { self.low } else { (-self.high).max(0.0) }
    }

    /// Returns both ends of the range. The end nearer to zero comes first.
    pub(super) fn ends(self) -> (f64, f64) {
        if self.high < 0.0 { (self.high, self.low) } else { (self.low, self.high) }
    }

    fn less(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

/// A reading of a source: the limits of the time on the reference, and the limits of the source's lead over the
/// reference at the nominal rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    before_ns: i64,
    after_ns: i64,
    low_ns: i64,
    high_ns: i64,
}

impl Point {
    #[expect(clippy::cast_precision_loss, reason = "the differences are small")]
    fn phase_since(&self, earlier: &Self) -> Range {
        let low = self.low_ns.saturating_sub(earlier.high_ns) as f64;
        Range { low, high: self.high_ns.saturating_sub(earlier.low_ns) as f64 }
    }

    /// Returns the rate since an earlier point, relative to the nominal rate, in parts per million.
    #[expect(clippy::cast_precision_loss, reason = "the differences are small")]
    fn rate_since(&self, earlier: &Self, reference_granule_ns: i64) -> Option<Range> {
        let shortest = self.shortest_since(earlier, reference_granule_ns);
        if shortest <= 0 {
            return None;
        }
        let longest = self.longest_since(earlier, reference_granule_ns) as f64;
        let Range { low, high } = self.phase_since(earlier);
        let low = low / if low < 0.0 { shortest as f64 } else { longest };
        let high = high / if high > 0.0 { shortest as f64 } else { longest };
        Some(Range { low: low * 1e6, high: high * 1e6 })
    }

    fn shortest_since(&self, earlier: &Self, reference_granule_ns: i64) -> i64 {
        self.before_ns.saturating_sub(earlier.after_ns).saturating_sub(reference_granule_ns)
    }

    fn longest_since(&self, earlier: &Self, reference_granule_ns: i64) -> i64 {
        self.after_ns.saturating_sub(earlier.before_ns).saturating_add(reference_granule_ns).max(0)
    }
}

/// The lead that a source has gained over the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SourceOffset {
    /// The lead, in nanoseconds at the nominal rate; negative if the source fell behind.
    pub offset_ns: f64,
    /// The largest error of `offset_ns` in either direction, in nanoseconds.
    pub bound_ns: f64,
}

/// The limits of a frequency error, relative to the nominal rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrequencyErrorLimits {
    /// The lower limit, in parts per million.
    pub lower_ppm: f64,
    /// The upper limit, in parts per million.
    pub upper_ppm: f64,
}

/// The readings of a source in an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// The number of bursts.
    pub bursts: u64,
    /// The narrowest bracket, in nanoseconds; `None` if there was no burst.
    pub bracket_ns: Option<u64>,
    /// The lead that the source has gained over the reference since the comparison started; `None` if there is nothing
    /// to compare yet.
    pub offset: Option<SourceOffset>,
    /// The limits of the source's frequency error in this interval. They are valid if the rate was constant. `None` if
    /// the interval is too short, or if the source stopped.
    pub frequency_error: Option<FrequencyErrorLimits>,
    /// The number of steps that exceed the limit.
    pub steps: u64,
    /// The number of readings that were lower than the previous reading.
    pub backwards: u64,
    /// The number of times that the source was set.
    pub set: u64,
    /// The faults of the source.
    pub faults: Vec<Fault>,
    /// Other events of the source.
    pub events: Vec<SourceEvent>,
}

impl Interval {
    const fn empty() -> Self {
        Self {
            bursts: 0,
            bracket_ns: None,
            offset: None,
            frequency_error: None,
            steps: 0,
            backwards: 0,
            set: 0,
            faults: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// A stretch of readings without an interruption.
#[derive(Clone, Debug)]
struct Stretch {
    zero: Point,
    last: Point,
    last_raw: u64,
    ticks: i64,
    origin_ns: u64,
    /// The reading from which the rate is determined.
    anchor: Point,
    learned: Option<Range>,
    /// A deviation that is a step unless the next reading deviates too.
    pending: Option<Range>,
    /// The last reading at which the source had advanced.
    moved: Point,
    /// Whether the stop of the source has already been reported.
    stands: bool,
    /// The reading at which the rate measurement of the interval starts.
    from: Point,
    baseline: Option<Range>,
}

/// An evaluated reading, before a cause is assigned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    point: Point,
    raw: u64,
    step_ticks: i64,
    /// The deviation that the rate does not explain; `None` if no rate is known yet.
    pub(super) deviation: Option<Range>,
    stood_ns: Option<i64>,
}

/// A deviation that all sources have in the same round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Nothing,
    Step,
    /// A step that follows another one in the same direction.
    Rate,
}

#[derive(Clone, Debug)]
pub(super) struct Watched {
    expectation: Expectation,
    limits: Limits,
    stretch: Option<Stretch>,
    interval: Interval,
    back_ns: f64,
    /// The largest change in rate through slewing that was possible in this interval, in parts per million.
    most_bent_ppm: f64,
}

impl Watched {
    pub(super) fn new(expectation: Expectation, limits: Limits) -> Self {
        let most_bent_ppm = expectation.bent_ppm;
        Self { expectation, limits, stretch: None, interval: Interval::empty(), back_ns: 0.0, most_bent_ppm }
    }

    pub(super) fn set_tick_off_by(&mut self, tick_ppm: f64) {
        self.expectation = self.expectation.with_tick_off_by(tick_ppm);
        self.most_bent_ppm = self.most_bent_ppm.max(self.expectation.bent_ppm);
    }

    pub(super) fn expect(&mut self, expectation: Expectation) {
        self.expectation = expectation;
        self.most_bent_ppm = self.most_bent_ppm.max(expectation.bent_ppm);
    }

    /// Restarts the comparison after an interruption, such as a suspend or a move to another host. Later readings
    /// cannot be compared with readings before the interruption.
    pub(super) fn restart(&mut self) {
        self.stretch = None;
    }

    /// Counts and evaluates a burst, without accepting it. Returns `None` if there is no earlier reading for a
    /// comparison.
    pub(super) fn look(&mut self, burst: &Burst) -> Option<Look> {
        self.count(burst);
        let pair = burst.pair;
        let half_a_wrap_ns = self.expectation.half_a_wrap_ns();
        let Some(stretch) = &mut self.stretch else {
            self.stretch = Some(Stretch::beginning(&self.expectation, pair));
            return None;
        };
        let step_ticks = self.expectation.width.signed_difference(stretch.last_raw, pair.ticks);
        let ticks = stretch.ticks.saturating_add(step_ticks);
        let point = point(&self.expectation, pair, ticks, stretch.origin_ns);
        let passed_ns = u64::try_from(point.after_ns.saturating_sub(stretch.last.before_ns)).unwrap_or(0);
        if passed_ns >= half_a_wrap_ns {
            self.interval.events.push(SourceEvent::Lost);
            self.stretch = Some(Stretch::beginning(&self.expectation, pair));
            return None;
        }
        let granule_ns = i64::try_from(self.expectation.granules.reference_ns).unwrap_or(i64::MAX);
        let stood_ns = (step_ticks == 0).then(|| point.shortest_since(&stretch.moved, granule_ns));
        let stood_ns = stood_ns.filter(|&ns| ns > i64::try_from(self.expectation.patience_ns).unwrap_or(i64::MAX));
        let known = match self.expectation.nature {
            Nature::Steady => {
                stretch.learned.map(|rate| Range { low: rate.low - WANDER_PPM, high: rate.high + WANDER_PPM })
            }
            Nature::Bent | Nature::Set => {
                let off_ppm = self.expectation.bent_ppm + self.expectation.tolerance_ppm;
                Some(Range { low: -off_ppm, high: off_ppm })
            }
        };
        let deviation =
            known.map(|rate| point.phase_since(&stretch.last).less(explained(rate, &stretch.last, &point, granule_ns)));
        // No steps are reported for a source that stops or has stopped: the whole stop is one fault.
        let deviation = deviation.filter(|_| stood_ns.is_none() && !stretch.stands);
        Some(Look { point, raw: pair.ticks, step_ticks, deviation, stood_ns })
    }

    fn count(&mut self, burst: &Burst) {
        self.interval.bursts += 1;
        let width = burst.pair.width_ns();
        self.interval.bracket_ns = Some(self.interval.bracket_ns.map_or(width, |narrowest| narrowest.min(width)));
        if burst.backward_steps > 0 && !self.expectation.may_be_set {
            self.interval.backwards += u64::from(burst.backward_steps);
            #[expect(clippy::cast_precision_loss, reason = "for printing")]
            let back_ns = ns_of(burst.largest_backward_ticks, self.expectation.frequency) as f64;
            self.back_ns = self.back_ns.max(back_ns);
        }
    }

    /// Accepts an evaluated burst. If all sources deviated by the same amount, this source is not the cause.
    pub(super) fn commit(&mut self, look: &Look, shared: Shared) {
        let granule_ns = i64::try_from(self.expectation.granules.reference_ns).unwrap_or(i64::MAX);
        let Some(stretch) = &mut self.stretch else { return };
        stretch.ticks = stretch.ticks.saturating_add(look.step_ticks);
        stretch.last_raw = look.raw;
        stretch.last = look.point;
        if let Some(stood_ns) = look.stood_ns {
            #[expect(clippy::cast_precision_loss, reason = "for printing")]
            let at_least_ns = stood_ns as f64;
            let earlier = self.interval.faults.iter().position(|fault| matches!(fault, Fault::StoodStill { .. }));
            match earlier {
                Some(at) => self.interval.faults[at] = Fault::StoodStill { at_least_ns },
                None => self.interval.faults.push(Fault::StoodStill { at_least_ns }),
            }
            stretch.stands = true;
            stretch.rebase(look.point);
            stretch.learned = None;
            return;
        }
        if look.step_ticks != 0 {
            stretch.moved = look.point;
            if stretch.stands {
                stretch.stands = false;
                stretch.rebase(look.point);
                return;
            }
        }
        let certain = look.deviation.filter(|deviation| deviation.excludes_zero());
        let pending = stretch.pending.take();
        match (pending, certain) {
            _ if shared != Shared::Nothing => {
                stretch.rebase(look.point);
                if shared == Shared::Rate {
                    stretch.learned = None;
                }
                self.conclude_step(pending);
            }
            (Some(earlier), Some(now))
                if (earlier.low > 0.0) == (now.low > 0.0) && self.expectation.nature == Nature::Steady =>
            {
                // Two consecutive deviations in the same direction are not a step but a change in rate, which is
                // reported at the end of the interval.
                stretch.rebase(look.point);
                stretch.learned = None;
            }
            (pending, Some(now)) => {
                stretch.pending = Some(now);
                stretch.rebase(look.point);
                self.conclude_step(pending);
            }
            (pending, None) => {
                if look.point.shortest_since(&stretch.anchor, granule_ns) >= LEARNING_NS {
                    stretch.learned = look.point.rate_since(&stretch.anchor, granule_ns).or(stretch.learned);
                }
                self.conclude_step(pending);
            }
        }
    }

    fn conclude_step(&mut self, pending: Option<Range>) {
        let Some(range) = pending else { return };
        let (least_ns, most_ns) = range.ends();
        if self.expectation.nature == Nature::Set {
            self.interval.set += 1;
            self.interval.events.push(SourceEvent::WasSet { least_ns, most_ns });
        } else if range.certain() > self.limits.step.as_secs_f64() * 1e9 {
            self.interval.steps += 1;
            self.interval.faults.push(Fault::Stepped { least_ns, most_ns });
        } else {
            self.interval.events.push(SourceEvent::SmallStep { least_ns, most_ns });
        }
    }

    /// Returns the largest change in rate through slewing by a daemon, in parts per million.
    pub(super) const fn bent_ppm(&self) -> f64 {
        self.expectation.bent_ppm
    }

    /// Ends the interval. Returns its readings and faults, and the change in rate since the first interval.
    pub(super) fn end_interval(&mut self) -> (Interval, Option<Range>) {
        let granule_ns = i64::try_from(self.expectation.granules.reference_ns).unwrap_or(i64::MAX);
        let pending = self.stretch.as_mut().and_then(|stretch| stretch.pending.take());
        self.conclude_step(pending);
        let most_bent_ppm = std::mem::replace(&mut self.most_bent_ppm, self.expectation.bent_ppm);
        let mut interval = std::mem::replace(&mut self.interval, Interval::empty());
        if interval.backwards > 0 {
            let fault = Fault::WentBack { times: interval.backwards, largest_ns: self.back_ns };
            interval.faults.push(fault);
            self.back_ns = 0.0;
        }
        let Some(stretch) = &mut self.stretch else { return (interval, None) };
        let phase = stretch.last.phase_since(&stretch.zero);
        interval.offset = Some(SourceOffset {
            offset_ns: f64::midpoint(phase.low, phase.high),
            bound_ns: (phase.high - phase.low) / 2.0,
        });
        let rate = stretch.last.rate_since(&stretch.from, granule_ns);
        stretch.from = stretch.last;
        let Some(rate) = rate.filter(|_| !stretch.stands) else { return (interval, None) };
        interval.frequency_error = Some(FrequencyErrorLimits { lower_ppm: rate.low, upper_ppm: rate.high });
        let accepted_ppm = self.expectation.accepted_ppm(&self.limits) - self.expectation.bent_ppm + most_bent_ppm;
        if rate.certain() > accepted_ppm {
            let (least_ppm, most_ppm) = rate.ends();
            interval.faults.push(Fault::RateOff { least_ppm, most_ppm, accepted_ppm });
        }
        let change = rate.less(*stretch.baseline.get_or_insert(rate));
        if self.expectation.nature == Nature::Steady && change.certain() > self.limits.rate_ppm {
            let (least_ppm, most_ppm) = change.ends();
            interval.faults.push(Fault::RateChanged { least_ppm, most_ppm, accepted_ppm: self.limits.rate_ppm });
        }
        (interval, Some(change))
    }
}

impl Stretch {
    fn beginning(expectation: &Expectation, pair: Pair) -> Self {
        let zero = point(expectation, pair, 0, pair.before_ns);
        Self {
            zero,
            last: zero,
            last_raw: pair.ticks,
            ticks: 0,
            origin_ns: pair.before_ns,
            anchor: zero,
            learned: None,
            pending: None,
            moved: zero,
            stands: false,
            from: zero,
            baseline: None,
        }
    }

    /// Restarts the determination of the rate, and the rate measurement of the interval, at this reading.
    fn rebase(&mut self, point: Point) {
        (self.anchor, self.from) = (point, point);
    }
}

/// Returns the reading of a source after `ticks`. Its limits allow for the bracket and the granules.
fn point(expectation: &Expectation, pair: Pair, ticks: i64, origin_ns: u64) -> Point {
    let since = |ns: u64| hpt_sys::cast::signed(ns.wrapping_sub(origin_ns));
    let (before_ns, after_ns) = (since(pair.before_ns), since(pair.after_ns));
    let on_the_line = |ticks: i64| {
        let ns = i128::from(ticks) * 1_000_000_000_000_000;
        let ns = ns.div_euclid(i128::from(expectation.frequency.microhertz()));
        i64::try_from(ns).unwrap_or(if ticks < 0 { i64::MIN / 4 } else { i64::MAX / 4 })
    };
    let granule_ticks = i64::try_from(expectation.granules.source_ticks).unwrap_or(i64::MAX);
    let granule_ns = i64::try_from(expectation.granules.reference_ns).unwrap_or(i64::MAX);
    Point {
        before_ns,
        after_ns,
        low_ns: on_the_line(ticks).saturating_sub(after_ns).saturating_sub(granule_ns),
        // The additional nanosecond allows for rounding in `on_the_line`.
        high_ns: on_the_line(ticks.saturating_add(granule_ticks)).saturating_sub(before_ns).saturating_add(1),
    }
}

/// Returns the range of leads that a source with a rate within `rate` may gain between two readings.
#[expect(clippy::cast_precision_loss, reason = "the differences are small")]
fn explained(rate: Range, earlier: &Point, later: &Point, granule_ns: i64) -> Range {
    let shortest = later.shortest_since(earlier, granule_ns).max(0) as f64;
    let longest = later.longest_since(earlier, granule_ns) as f64;
    let low = rate.low * if rate.low < 0.0 { longest } else { shortest };
    let high = rate.high * if rate.high > 0.0 { longest } else { shortest };
    Range { low: low / 1e6, high: high / 1e6 }
}
