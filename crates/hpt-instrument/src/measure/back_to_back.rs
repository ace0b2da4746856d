//! The difference between back-to-back reads after a pause: the time that a program measures if it does no work between
//! the reads. Reads in a loop are fast, but a program that reads a source once per second encounters cold caches and a
//! core at a low frequency. This module does not wait by itself and does not convert ticks.

use std::{ops::ControlFlow, time::Duration};

use hpt_core::{source::TimeSource, stats::Histogram};

use super::order::Orders;

/// How the two reads of a pair are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairReads {
    /// As reads around a timed piece of work ([`TimeSource::ticks_start`], [`TimeSource::ticks_end`]).
    Ordered,
    /// Not ordered: the bare read ([`TimeSource::ticks`]).
    Bare,
}

/// A step of [`back_to_back_reads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PairStep {
    /// The next pair is due after this pause, which the callback makes.
    Pause(Duration),
    /// A pair was read.
    Read {
        /// The place of the source in the list of sources.
        source: usize,
        /// The second reading minus the first, in ticks; `None` if the readings went backward.
        ticks: Option<u64>,
    },
}

/// The back-to-back reads of one source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BackToBackReads {
    /// The second reading minus the first, in ticks.
    pub differences: Histogram,
}

/// Reads each of `sources` twice back to back, and repeats this `count` times. Before each pair, calls `step` with the
/// pause of this repetition, which is the next duration from `waits`, used in turn; without `waits`, there is no such
/// call. Each pair therefore follows a pause of its own, and no pair finds caches that another pair has warmed. The
/// order of the sources changes in every repetition. After each pair, calls `step` with its difference. If `step`
/// returns [`ControlFlow::Break`], returns the results so far.
pub fn back_to_back_reads(
    sources: &[(&dyn TimeSource, PairReads)],
    waits: &[Duration],
    count: u64,
    step: &mut dyn FnMut(PairStep) -> ControlFlow<()>,
) -> Vec<BackToBackReads> {
    let mut pairs = vec![BackToBackReads { differences: Histogram::new() }; sources.len()];
    let mut waits = waits.iter().cycle();
    let mut orders = Orders::of(sources.len());
    for _ in 0..count {
        let pause = waits.next();
        for &place in orders.shuffled() {
            if pause.is_some_and(|&pause| step(PairStep::Pause(pause)).is_break()) {
                return pairs;
            }
            let (source, reads) = sources[place];
            let (start, end) = match reads {
                PairReads::Ordered => (source.ticks_start(), source.ticks_end()),
                PairReads::Bare => (source.ticks(), source.ticks()),
            };
            let ticks = record(&mut pairs[place].differences, source, (start, end));
            if step(PairStep::Read { source: place, ticks }).is_break() {
                return pairs;
            }
        }
    }
    pairs
}

/// Reads a source `count` times in a row with [`TimeSource::ticks`], and returns the differences of consecutive readings
/// in ticks. There is one difference fewer than readings. Nothing is computed between two reads.
pub fn chained_reads(source: &dyn TimeSource, count: usize) -> Histogram {
    // The memory is written once, so that no read waits for a page fault.
    let mut readings = vec![u64::MAX; count];
    for reading in &mut readings {
        *reading = source.ticks();
    }
    let mut differences = Histogram::new();
    for pair in readings.windows(2) {
        record(&mut differences, source, (pair[0], pair[1]));
    }
    differences
}

/// Records a difference, and returns it. If access to a counter is revoked between the two reads, its readings go
/// backward. Such a pair is discarded.
fn record(differences: &mut Histogram, source: &dyn TimeSource, (start, end): (u64, u64)) -> Option<u64> {
    let width = source.info().width;
    if width.signed_difference(start, end) < 0 {
        return None;
    }
    let ticks = width.difference(start, end);
    differences.record(ticks);
    Some(ticks)
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow::{Break, Continue},
        time::Duration,
    };

    use super::{PairReads, PairStep, back_to_back_reads, chained_reads};
    use hpt_core::{
        source::{SourceId, SourceInfo, TimeSource},
        testing::ManualSource,
    };
    use hpt_sys::units::Width;

    #[test]
    fn the_difference_of_a_pair_is_the_step_of_the_source_even_across_a_wrap() {
        let wide = ManualSource::new("wide").with_step(7);
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let narrow = ManualSource::with_info(info).with_step(900_000_000);
        let sources: [(&dyn TimeSource, PairReads); 2] = [(&wide, PairReads::Bare), (&narrow, PairReads::Ordered)];
        let mut steps = Vec::new();
        let pairs = back_to_back_reads(&sources, &[], 100, &mut |step| {
            steps.push(step);
            Continue(())
        });
        let count = |source, ticks| {
            let read = PairStep::Read { source, ticks: Some(ticks) };
            steps.iter().filter(|&&step| step == read).count()
        };
        assert_eq!((count(0, 7), count(1, 900_000_000), steps.len()), (100, 100, 200));
        let found = pairs.iter().map(|pairs| pairs.differences.spread(1.0).expect("a hundred"));
        let found: Vec<_> = found.map(|spread| (spread.samples, spread.min_ns, spread.max_ns)).collect();
        assert_eq!(found, [(100, 7.0, 7.0), (100, 9e8, 9e8)]);
        let chain = chained_reads(&narrow, 100).spread(1.0).expect("differences");
        assert_eq!((chain.samples, chain.min_ns, chain.max_ns), (99, 9e8, 9e8));
        assert_eq!((chained_reads(&wide, 1).samples(), chained_reads(&wide, 0).samples()), (0, 0));
    }

    #[test]
    fn each_pair_follows_a_pause_of_its_own_until_the_callback_breaks() {
        let one = ManualSource::new("one").with_step(1);
        let other = ManualSource::new("other").with_step(1);
        let sources: [(&dyn TimeSource, PairReads); 2] = [(&one, PairReads::Bare), (&other, PairReads::Bare)];
        let waits = [Duration::from_secs(1), Duration::from_secs(5)];
        let mut waited = Vec::new();
        let pairs = back_to_back_reads(&sources, &waits, 1_000, &mut |step| {
            let PairStep::Pause(wait) = step else { return Continue(()) };
            waited.push(wait.as_secs());
            if waited.len() < 6 { Continue(()) } else { Break(()) }
        });
        let samples: u64 = pairs.iter().map(|pairs| pairs.differences.samples()).sum();
        assert_eq!((waited, samples), (vec![1, 1, 5, 5, 1, 1], 5));
        assert_eq!(back_to_back_reads(&[], &waits, 3, &mut |_| Continue(())), []);
    }
}
