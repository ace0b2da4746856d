//! The active segment, and the latest reading served without a segment, in words shared between threads. No thread
//! waits, and no reading is below an earlier one. Reads neither a counter nor a clock, and does not compute segments.
//!
//! There are slots for two segments. The *state* shows which segment is active and whether it is closed, and counts all
//! changes. A new segment is written into the other slot and then activated by one exchange of the state. A reader is
//! disturbed only if this happens twice during its reading, which it detects from the state.
//!
//! A reader that the segment cannot serve can read the kernel's clock instead. It records this *slow answer* and then
//! closes the segment, so that no thread reads from a segment that has ended, whatever the counter does afterwards. If
//! another segment was activated in the meantime, the answer is discarded. Otherwise, the thread that activates the
//! next segment sees the answer, and the new segment does not start below it.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::{
    clock_words::{ClockWords, OfOwner, Rare, Slot},
    segment::Segment,
};

/// The owner of a segment: none, the processor's own counter, or a source with a higher number.
pub(crate) const NO_OWNER: usize = 0;
pub(crate) const NATIVE: usize = 2;

/// The lowest six bits of the state are zero. The next bit shows whether the segment is closed, and the bit after that
/// is the last bit of the generation of the segment. These two bits select one of four slots, and the lowest byte is
/// the offset of that slot in bytes.
/// The remaining bits are the rest of the generation and a count of all changes, which prevents a state from repeating
/// within a day even if all readings are slow answers.
///
/// The slots of a closed segment stay empty, so a fast reader finds no reading there and needs no extra check. The
/// length that it reads is zero unless the owner is the processor's own counter, so it needs no check for the owner.
const CLOSED: u64 = 1 << 6;
const GENERATION: u64 = 1 << 7;
const GENERATIONS: u64 = (1 << 23) - GENERATION;
const CHANGE: u64 = 1 << 23;

/// The shared words. They are initially zero, which means a segment without ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published<'a> {
    words: &'a ClockWords,
}

/// The state when a segment was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// Returns the slot to read. It is empty if the segment is closed.
    #[inline(always)]
    const fn slot(self, words: &ClockWords) -> &Slot {
        &words.slots[((self.0 & (CLOSED | GENERATION)) / CLOSED) as usize]
    }

    /// Returns the state with the segment open, which selects the slot of the segment itself.
    const fn line(self) -> Self {
        Self(self.0 & !CLOSED)
    }

    /// Returns the state in which the next segment is active and open.
    const fn next(self) -> Self {
        let generation = (self.0 & GENERATIONS).wrapping_add(GENERATION) & GENERATIONS;
        Self((self.0 & !(GENERATIONS | CLOSED) | generation).wrapping_add(CHANGE))
    }

    /// Returns the state after one more slow answer, in which the segment is closed.
    const fn answered(self) -> Self {
        Self((self.0 | CLOSED).wrapping_add(CHANGE))
    }

    const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    const fn same_segment(self, other: Self) -> bool {
        self.0 & GENERATIONS == other.0 & GENERATIONS
    }
}

/// The active segment, and its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InForce {
    pub(crate) state: State,
    pub(crate) line: Segment,
    pub(crate) whose: usize,
}

impl InForce {
    /// Returns the nanoseconds at `ticks` if the segment is not closed, and covers `ticks` or starts shortly
    /// afterwards.
    pub(crate) const fn at(&self, ticks: u64) -> Option<u64> {
        if self.state.is_closed() { None } else { self.line.at_or_just_before(ticks) }
    }
}

impl<'a> Published<'a> {
    #[inline(always)]
    pub(crate) const fn new(words: &'a ClockWords) -> Self {
        Self { words }
    }

    /// Returns the active segment for a reader of the processor's own counter; `None` if the segment changed during the
    /// read. A segment that is closed or belongs to another counter has no ticks.
    #[inline(always)]
    pub(crate) fn native_segment(self) -> Option<Segment> {
        let state = State(self.words.state.load(Ordering::Acquire));
        let slot = state.slot(self.words);
        let segment = segment(slot, &slot.native_ticks);
        self.still(state).then_some(segment)
    }

    /// Returns the active segment and its owner. Retries until the segment does not change during the read.
    pub(crate) fn in_force(self) -> InForce {
        loop {
            let state = State(self.words.state.load(Ordering::Acquire));
            let slot = state.line().slot(self.words);
            let line = segment(slot, &slot.ticks);
            let whose = usize::try_from(slot.whose.load(Ordering::Relaxed)).unwrap_or(NO_OWNER);
            if self.still(state) {
                return InForce { state, line, whose };
            }
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    /// Returns whether the state is still `state`, for a thread that has read a slot in the meantime.
    #[inline(always)]
    fn still(self, state: State) -> bool {
        // Pairs with the fence in `put_in_force`: a thread that saw a word of a later segment sees the later state.
        fence(Ordering::Acquire);
        self.words.state.load(Ordering::Relaxed) == state.0
    }

    /// Returns whether the state is still `state`.
    pub(crate) fn is_still(self, state: State) -> bool {
        self.words.state.load(Ordering::Acquire) == state.0
    }

    /// Records the slow answer `ns`, which must not be below the end of the segment selected by `state`, and closes
    /// that segment. Returns false if another segment was activated in the meantime. That segment stays open, and the
    /// answer must be discarded.
    pub(crate) fn answer_slowly(self, state: State, ns: u64) -> bool {
        self.words.slowest_ns.fetch_max(ns, Ordering::Relaxed);
        let mut seen = State(self.words.state.load(Ordering::Relaxed));
        while seen.same_segment(state) {
            // Release ensures that a thread that reads this state or a later one sees the answer. Acquire ensures that
            // this state also publishes what earlier states released.
            let answered = seen.answered().0;
            match self.words.state.compare_exchange(seen.0, answered, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(state) => seen = State(state),
            }
        }
        false
    }

    /// Activates a segment that belongs to `whose`. Called only by the owner. `make` receives the largest slow answer
    /// so far, below which the segment must not start. `make` is called again if another slow answer was recorded in
    /// the meantime, and can return `None` to give up.
    pub(crate) fn put_in_force(self, whose: usize, mut make: impl FnMut(u64) -> Option<Segment>) -> bool {
        loop {
            let state = State(self.words.state.load(Ordering::Acquire));
            let Some(segment) = make(self.words.slowest_ns.load(Ordering::Relaxed)) else { return false };
            // Pairs with the fence in `still`.
            fence(Ordering::Release);
            let next = state.next();
            let native_ticks = if whose == NATIVE { segment.ticks } else { 0 };
            let slot = next.slot(self.words);
            slot.base_ticks.store(segment.base_ticks, Ordering::Relaxed);
            slot.base_ns.store(segment.base_ns, Ordering::Relaxed);
            slot.slope.store(segment.slope, Ordering::Relaxed);
            slot.native_ticks.store(native_ticks, Ordering::Relaxed);
            slot.ticks.store(segment.ticks, Ordering::Relaxed);
            slot.whose.store(whose as u64, Ordering::Relaxed);
            if self.words.state.compare_exchange(state.0, next.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Becomes the owner if there is none, or takes over from an owner with another name if that owner is known to be
    /// dead.
    pub(crate) fn own(self, name: u64, others_are_dead: bool) -> Option<Ownership<'a>> {
        let owner = self.words.owner.load(Ordering::Relaxed);
        let is_free = owner == 0 || (others_are_dead && owner != name);
        let exchange = || self.words.owner.compare_exchange(owner, name, Ordering::Acquire, Ordering::Relaxed);
        // The value is created lazily, because dropping an `Ownership` ends the ownership of whichever thread has it.
        (is_free && exchange().is_ok()).then(|| Ownership { words: self.words })
    }

    /// Returns the word with the ID of the process that is changing the counter.
    #[cfg(not(loom))]
    pub(crate) fn changer(self) -> &'a AtomicU64 {
        &self.words.changer
    }

    /// Returns whether the segment selected by `state` is still the last one, closed or not.
    pub(crate) fn is_same_segment(self, state: State) -> bool {
        State(self.words.state.load(Ordering::Relaxed)).same_segment(state)
    }

    /// Returns the number of activated segments, modulo 2^16.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn segments(self) -> u64 {
        (self.words.state.load(Ordering::Relaxed) & GENERATIONS) / GENERATION
    }

    /// Returns the largest slow answer so far.
    pub(crate) fn slowest_ns(self) -> u64 {
        self.words.slowest_ns.load(Ordering::Relaxed)
    }

    /// Discards the largest slow answer, after an ownerless segment that starts at zero was activated. Called by the
    /// owner. A thread that began its answer before that segment may still record it, so the caller must check again.
    pub(crate) fn forget_answers(self, _: &Ownership<'_>) {
        self.words.slowest_ns.store(0, Ordering::Relaxed);
    }

    pub(crate) const fn rare(self) -> &'a Rare {
        &self.words.rare
    }

    pub(crate) const fn of_owner(self) -> &'a OfOwner {
        &self.words.of_owner
    }
}

#[inline(always)]
fn segment(slot: &Slot, ticks: &AtomicU64) -> Segment {
    let value = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Segment {
        base_ticks: value(&slot.base_ticks),
        base_ns: value(&slot.base_ns),
        slope: value(&slot.slope),
        ticks: value(ticks),
    }
}

/// The right to activate segments. It ends when this value is dropped, even if a custom counter of the program panics.
#[derive(Debug)]
pub(crate) struct Ownership<'a> {
    words: &'a ClockWords,
}

impl Drop for Ownership<'_> {
    fn drop(&mut self) {
        self.words.owner.store(0, Ordering::Release);
    }
}
