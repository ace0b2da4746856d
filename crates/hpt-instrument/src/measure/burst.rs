//! Bursts of bracketed readings of a source. The reading with the narrowest bracket in a burst is the most precise.
//! This module does not judge the readings; `diagnose` does.

use hpt_core::{
    calibrate::Granules,
    source::{Pair, Reference, TimeSource},
};

const READINGS: u32 = 8;

/// The result of a burst of readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The reading with the narrowest bracket.
    pub pair: Pair,
    /// The number of readings that were lower than the previous reading.
    pub backward_steps: u32,
    /// The largest step back between two readings, in ticks.
    pub largest_backward_ticks: u64,
}

/// A reference clock that brackets each reading of a burst.
#[derive(Debug)]
pub struct BurstReader<'a> {
    reference: Reference<'a, dyn TimeSource + 'a>,
    source: &'a dyn TimeSource,
}

impl<'a> BurstReader<'a> {
    /// Creates a value that brackets readings with readings of `reference`. If the reference has no nominal frequency,
    /// its ticks are taken to be nanoseconds.
    #[must_use]
    pub fn new(reference: &'a dyn TimeSource) -> Self {
        Self { reference: Reference::new(reference), source: reference }
    }

    /// Returns the amounts by which readings of `source` and of the reference can lag behind the true count.
    #[must_use]
    pub fn granules(&self, source: &dyn TimeSource) -> Granules {
        Granules::of(source, self.source)
    }

    /// Returns the current time of the reference, in nanoseconds.
    pub fn now_ns(&mut self) -> u64 {
        self.reference.now_ns()
    }

    /// Takes a burst of readings of `source`.
    pub fn read(&mut self, source: &dyn TimeSource) -> Burst {
        let width = source.info().width;
        let first = self.reference.pair(source);
        let mut burst = Burst { pair: first, backward_steps: 0, largest_backward_ticks: 0 };
        let mut previous = first.ticks;
        for _ in 1..READINGS {
            let pair = self.reference.pair(source);
            let step = width.signed_difference(previous, pair.ticks);
            if step < 0 {
                burst.backward_steps += 1;
                burst.largest_backward_ticks = burst.largest_backward_ticks.max(step.unsigned_abs());
            }
            previous = pair.ticks;
            if pair.width_ns() < burst.pair.width_ns() {
                burst.pair = pair;
            }
        }
        burst
    }
}

#[cfg(test)]
mod tests {
    use super::BurstReader;
    use hpt_core::testing::ManualSource;

    #[test]
    fn a_burst_keeps_a_bracket_and_reports_no_false_backward_step() {
        let reference = ManualSource::new("reference").with_step(10);
        let source = ManualSource::new("source").with_step(30);
        let burst = BurstReader::new(&reference).read(&source);
        assert_eq!((burst.backward_steps, burst.pair.width_ns()), (0, 10));
    }

    #[test]
    fn one_burst_detects_a_source_that_runs_backwards() {
        let reference = ManualSource::new("reference").with_step(10);
        // Each reading is three ticks lower than the previous one.
        let source = ManualSource::new("source").with_step(0_u64.wrapping_sub(3));
        source.set(1_000);
        let burst = BurstReader::new(&reference).read(&source);
        assert_eq!((burst.backward_steps, burst.largest_backward_ticks), (7, 3));
    }
}
