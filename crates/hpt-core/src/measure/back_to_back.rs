//! The difference between back-to-back reads after a pause: the time that a program measures if it does no work between
//! the reads. Reads in a loop are fast, but a program that reads a source once per second encounters cold caches and a
//! core at a low frequency. This module does not wait by itself and does not convert ticks.

use std::{ops::ControlFlow, time::Duration};

use super::order::Orders;
use crate::{source::TimeSource, stats::Histogram};

/// The back-to-back reads of one source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackToBackReads {
    /// The second reading minus the first, in ticks. The reads are ordered in the same way as reads around a timed
    /// piece of work.
    pub differences: Histogram,
}

/// Reads each of `sources` twice back to back, and repeats this `count` times. Before each repetition, calls `wait`
/// with the next duration from `waits`, which are used in turn. The order of the sources changes in every repetition.
/// If `wait` returns [`ControlFlow::Break`], returns the results so far.
pub fn back_to_back_reads(
    sources: &[&dyn TimeSource],
    waits: &[Duration],
    count: u64,
    mut wait: impl FnMut(Duration) -> ControlFlow<()>,
) -> Vec<BackToBackReads> {
    let mut pairs = vec![BackToBackReads { differences: Histogram::new() }; sources.len()];
    let mut waits = waits.iter().cycle();
    let mut orders = Orders::of(sources.len());
    for _ in 0..count {
        if let Some(&duration) = waits.next()
            && wait(duration).is_break()
        {
            break;
        }
        for &place in orders.shuffled() {
            let source = sources[place];
            let start = source.ticks_start();
            let end = source.ticks_end();
            // If access to a counter is revoked between the two reads, its readings go backward. Such a pair is
            // discarded.
            if source.info().width.signed_difference(start, end) >= 0 {
                pairs[place].differences.record(source.info().width.difference(start, end));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow::{Break, Continue},
        time::Duration,
    };

    use super::back_to_back_reads;
    use crate::{
        source::{SourceId, SourceInfo, TimeSource},
        testing::ManualSource,
        units::Width,
    };

    #[test]
    fn the_difference_of_a_pair_is_the_step_of_the_source_even_across_a_wrap() {
        let wide = ManualSource::new("wide").stepping_by(7);
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let narrow = ManualSource::with_info(info).stepping_by(900_000_000);
        let sources: [&dyn TimeSource; 2] = [&wide, &narrow];
        let pairs = back_to_back_reads(&sources, &[], 100, |_| Continue(()));
        let found = pairs.iter().map(|pairs| pairs.differences.spread(1.0).expect("a hundred"));
        let found: Vec<_> = found.map(|spread| (spread.samples, spread.min_ns, spread.max_ns)).collect();
        assert_eq!(found, [(100, 7.0, 7.0), (100, 9e8, 9e8)]);
    }

    #[test]
    fn waits_alternate_until_the_callback_breaks() {
        let source = ManualSource::new("source").stepping_by(1);
        let waits = [Duration::from_secs(1), Duration::from_secs(5)];
        let mut waited = Vec::new();
        let pairs = back_to_back_reads(&[&source], &waits, 1_000, |wait| {
            waited.push(wait.as_secs());
            if waited.len() < 4 { Continue(()) } else { Break(()) }
        });
        assert_eq!((waited, pairs[0].differences.samples()), (vec![1, 5, 1, 5], 3));
        assert_eq!(back_to_back_reads(&[], &waits, 3, |_| Continue(())), []);
    }
}
