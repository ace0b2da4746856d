//! The sleeps that are not yet included in the statistics. After a sleep, most memory is cold, so the statistics are
//! brought up to date once in several sleeps.

use crate::clock::Instant;

/// The statistics are brought up to date after this many sleeps, or if the oldest of them is older than this.
const TOGETHER: usize = 16;
const LONGEST_UNLEARNED_NS: u64 = 100_000_000;
/// Stands for the latency of a block that did not happen or was interrupted.
const NOT_BLOCKED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks {
    /// The length of the sleep when it was chosen how to wait.
    pub(super) length_ns: u64,
    /// The latencies of the first and the second block; [`NOT_BLOCKED`] if there was none, or if it was interrupted.
    late_ns: [u32; 2],
    pub(super) count: u8,
    pub(super) is_contended: bool,
}

impl Blocks {
    pub(super) const fn none(length_ns: u64) -> Self {
        Self { length_ns, late_ns: [NOT_BLOCKED; 2], count: 0, is_contended: false }
    }

    /// Adds the first or the second block, without its latency.
    #[inline(always)]
    pub(super) fn add(&mut self, is_second: bool) {
        self.count = 1 + u8::from(is_second);
    }

    /// Sets the latency of the first or the second block.
    #[inline(always)]
    pub(super) fn set_late(&mut self, is_second: bool, late_ns: u64) {
        self.late_ns[usize::from(is_second)] = u32::try_from(late_ns).unwrap_or(NOT_BLOCKED).min(NOT_BLOCKED - 1);
    }

    /// Returns the latencies of the blocks that were not interrupted, and whether each was the second one.
    pub(super) fn late_ns(&self) -> impl Iterator<Item = (bool, u64)> {
        [false, true].into_iter().zip(self.late_ns).filter(|&(_, ns)| ns != NOT_BLOCKED).map(|(is, ns)| (is, ns.into()))
    }
}

/// A finished sleep: its start, its end, its spinning time, the longest time between two readings of the clock while it
/// spun and, unless it was interrupted, its overshoot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slept {
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) spun_ns: u64,
    pub(super) longest_gap_ns: u64,
    pub(super) late_ns: Option<u64>,
    pub(super) blocks: Blocks,
}

impl Slept {
    pub(super) const NONE: Self = Self {
        start: Instant::EPOCH,
        now: Instant::EPOCH,
        spun_ns: 0,
        longest_gap_ns: 0,
        late_ns: None,
        blocks: Blocks::none(0),
    };

    /// Returns the longest time by which the thread was later than it would have been on a free CPU.
    #[inline(always)]
    pub(super) fn held_up_ns(&self) -> u64 {
        self.blocks.late_ns().fold(self.longest_gap_ns, |longest, (_, ns)| longest.max(ns))
    }
}

/// The sleeps since the statistics were brought up to date. The last one is stored on the return path of a sleep, where
/// nothing else is done with it.
#[derive(Debug)]
pub(super) struct Recent {
    has_last: bool,
    count: usize,
    oldest: Instant,
    slept: [Slept; TOGETHER],
}

impl Recent {
    pub(super) const NONE: Self =
        Self { has_last: false, count: 0, oldest: Instant::EPOCH, slept: [Slept::NONE; TOGETHER] };

    /// Stores a sleep, instead of the last one if that was not [settled](Self::settle).
    #[inline(always)]
    pub(super) fn put(&mut self, slept: Slept) {
        // `settle` never leaves as many sleeps as there are places.
        if let Some(place) = self.slept.get_mut(self.count) {
            *place = slept;
            self.has_last = true;
        }
    }

    /// Returns the last sleep, unless it is settled.
    #[inline(always)]
    pub(super) fn last(&self) -> Option<&Slept> {
        self.slept.get(self.count).filter(|_| self.has_last)
    }

    /// Removes the last sleep, unless it is settled.
    pub(super) const fn remove_last(&mut self) {
        self.has_last = false;
    }

    /// Keeps the last sleep for the statistics. Returns whether it is time to [take](Self::take) all of them.
    #[inline(always)]
    pub(super) fn settle(&mut self) -> bool {
        let Some(&Slept { now, .. }) = self.last() else { return false };
        if self.count == 0 {
            self.oldest = now;
        }
        self.has_last = false;
        self.count += 1;
        self.count == TOGETHER || now.nanos_since(self.oldest) > LONGEST_UNLEARNED_NS
    }

    /// Returns all sleeps, including the last one.
    pub(super) fn all(&self) -> &[Slept] {
        &self.slept[..self.count + usize::from(self.has_last)]
    }

    /// Returns all settled sleeps, and removes them.
    pub(super) fn take(&mut self) -> &[Slept] {
        self.has_last = false;
        &self.slept[..std::mem::take(&mut self.count)]
    }
}

#[cfg(test)]
mod tests {
    use super::{Recent, Slept, TOGETHER};
    use crate::clock::Instant;

    fn ending_at(ms: i64) -> Slept {
        Slept { now: Instant::from_nanos(ms * 1_000_000), ..Slept::NONE }
    }

    #[test]
    fn sleeps_are_kept_until_there_are_many_or_the_oldest_is_old() {
        let mut recent = Recent::NONE;
        for (first_ms, apart_ms, expected) in [(0, 1, TOGETHER), (500, 100, 3), (2_000, 200, 2)] {
            let mut number = 0;
            loop {
                recent.put(ending_at(first_ms + apart_ms * number));
                number += 1;
                assert_eq!(recent.all().len(), usize::try_from(number).expect("it is small"));
                if recent.settle() {
                    break;
                }
            }
            assert_eq!(recent.take().len(), expected);
            assert!(recent.all().is_empty() && recent.last().is_none());
        }
    }

    #[test]
    fn a_sleep_that_is_not_settled_is_replaced_or_removed() {
        let mut recent = Recent::NONE;
        recent.put(ending_at(1));
        recent.put(ending_at(2));
        assert_eq!(recent.last().map(|last| last.now.as_nanos()), Some(2_000_000));
        recent.remove_last();
        assert!(recent.all().is_empty() && !recent.settle());
    }

    #[test]
    fn the_longest_hold_up_is_that_of_a_block_or_of_a_gap() {
        let mut slept = Slept { longest_gap_ns: 7, ..Slept::NONE };
        assert_eq!(slept.held_up_ns(), 7);
        slept.blocks.set_late(true, u64::MAX);
        assert_eq!(slept.held_up_ns(), u64::from(u32::MAX) - 1);
        assert_eq!(slept.blocks.late_ns().count(), 1);
    }
}
