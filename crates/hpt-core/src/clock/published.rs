//! The active segment, and the readings served without one, as words shared between threads. No thread waits, and no
//! reading is below an earlier one. Reads no counter and no clock, and decides on no segment.
//!
//! There is space for two segments. The *state* shows which one is active, whether it is closed, and holds counts. A
//! new segment is written into the other slot and then activated by one exchange of the state. A reader is disturbed
//! only if that happens twice during its reading, and the state shows it.
//!
//! A reader that the segment cannot serve may read the kernel's clock instead. It records such a *slow* answer, then
//! closes the segment: whatever the counter does from then on, no thread reads from a line that has ended. If another
//! segment was activated in between, the answer is discarded. If not, the thread that activates the next segment has
//! seen the answer, and the segment starts no lower.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::segment::Segment;

/// The owner of a segment: none, the processor's own counter, or a source with a higher number.
pub(crate) const NO_OWNER: usize = 0;
pub(crate) const NATIVE: usize = 2;

/// Six empty bits. Then two bits that select which of four slots to read, so that the lowest byte is the offset of the
/// slot in bytes: whether the segment is closed, and the last bit of its generation. Then the rest of the generation,
/// and a count of all changes, so that no state repeats (within a day of slow answers only).
const STATE: usize = 32;
const CLOSED: u64 = 1 << 6;
const GENERATION: u64 = 1 << 7;
const GENERATIONS: u64 = (1 << 23) - GENERATION;
const CHANGE: u64 = 1 << 23;
/// The slots of a closed segment stay empty, so a fast reader gets no reading there without an extra check. Each is one
/// cache line, of which six words are used: those of the segment, whose length is stored twice, and its owner. The
/// first length is zero unless the owner is the processor's own counter, so that a reader of that counter alone finds
/// its reading outside of the segment without another check. Then the last slow answer, which is the largest, in a
/// cache line that fast readers do not touch.
const SLOWEST: usize = 40;
/// The thread that makes the next segment; 0 if there is none.
const OWNER: usize = 41;
/// The process that changes the counter; 0 if there is none.
#[cfg(not(loom))]
const CHANGER: usize = 63;
/// Rarely written words are behind the state: fast readers read its cache line.
const FIRST_RARE: usize = 33;
/// Words used only by the owner start here.
const FIRST_OF_OWNER: usize = 42;

/// The words, initially zero: a segment without ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published<'a> {
    words: &'a [AtomicU64; 64],
}

/// The state under which a segment was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// Returns the start of the slot to read, an empty one if the segment is closed.
    #[inline(always)]
    const fn room(self) -> usize {
        (self.0 & (CLOSED | GENERATION)) as usize / size_of::<AtomicU64>()
    }

    /// Returns the state of the segment itself, closed or not.
    const fn line(self) -> Self {
        Self(self.0 & !CLOSED)
    }

    /// Returns the state of the next active segment, open.
    const fn next(self) -> Self {
        let generation = (self.0 & GENERATIONS).wrapping_add(GENERATION) & GENERATIONS;
        Self((self.0 & !(GENERATIONS | CLOSED) | generation).wrapping_add(CHANGE))
    }

    /// Returns the closed state, with one more slow answer.
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
    /// Returns the nanoseconds at `ticks` if the segment covers them or has just started, and is not closed.
    pub(crate) const fn at(&self, ticks: u64) -> Option<u64> {
        if self.state.is_closed() { None } else { self.line.at_or_just_before(ticks) }
    }
}

impl<'a> Published<'a> {
    #[inline(always)]
    pub(crate) const fn new(words: &'a [AtomicU64; 64]) -> Self {
        Self { words }
    }

    /// Returns the active segment for a reader of the processor's own counter: without ticks if it belongs to another
    /// counter or is closed. `None` if it changed during the read.
    #[inline(always)]
    pub(crate) fn native_segment(self) -> Option<Segment> {
        let state = State(self.words[STATE].load(Ordering::Acquire));
        let segment = self.segment::<3>(state.room());
        self.still(state).then_some(segment)
    }

    /// Returns the active segment and its owner, however many attempts it takes.
    pub(crate) fn in_force(self) -> InForce {
        loop {
            let state = State(self.words[STATE].load(Ordering::Acquire));
            let room = state.line().room();
            let line = self.segment::<4>(room);
            let whose = usize::try_from(self.words[room + 5].load(Ordering::Relaxed)).unwrap_or(NO_OWNER);
            if self.still(state) {
                return InForce { state, line, whose };
            }
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    #[inline(always)]
    fn segment<const LENGTH: usize>(self, room: usize) -> Segment {
        let word = |index: usize| self.words[room + index].load(Ordering::Relaxed);
        Segment { base_ticks: word(0), base_ns: word(1), slope: word(2), ticks: word(LENGTH) }
    }

    /// Returns whether nothing has changed since `state`, for a thread that read a slot in the meantime.
    #[inline(always)]
    fn still(self, state: State) -> bool {
        // Pairs with the fence in `put_in_force`: a thread that saw a word of a later segment sees the later state.
        fence(Ordering::Acquire);
        self.words[STATE].load(Ordering::Relaxed) == state.0
    }

    /// Returns whether nothing has changed since `state`.
    pub(crate) fn is_still(self, state: State) -> bool {
        self.words[STATE].load(Ordering::Acquire) == state.0
    }

    /// Records the slow answer `ns`, which must not be below the end of the segment of `state`, and closes that
    /// segment. Returns false if another segment was activated in the meantime. That segment need not be closed for
    /// this answer, which is discarded.
    pub(crate) fn answer_slowly(self, state: State, ns: u64) -> bool {
        self.words[SLOWEST].fetch_max(ns, Ordering::Relaxed);
        let mut seen = State(self.words[STATE].load(Ordering::Relaxed));
        while seen.same_segment(state) {
            // Release: a thread that reads this state or a later one sees the answer. Acquire, because it continues
            // what earlier ones released.
            let answered = seen.answered().0;
            match self.words[STATE].compare_exchange(seen.0, answered, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(state) => seen = State(state),
            }
        }
        false
    }

    /// Activates a segment of `whose`; called by the owner only. `make` receives the largest slow answer so far, below
    /// which the segment must not start. It is called again if another slow answer was recorded in the meantime, and
    /// may give up.
    pub(crate) fn put_in_force(self, whose: usize, mut make: impl FnMut(u64) -> Option<Segment>) -> bool {
        loop {
            let state = State(self.words[STATE].load(Ordering::Acquire));
            let Some(segment) = make(self.words[SLOWEST].load(Ordering::Relaxed)) else { return false };
            // Pairs with the fence in `still`.
            fence(Ordering::Release);
            let next = state.next();
            let native_ticks = if whose == NATIVE { segment.ticks } else { 0 };
            let whose = whose as u64;
            let words = [segment.base_ticks, segment.base_ns, segment.slope, native_ticks, segment.ticks, whose];
            for (index, word) in words.into_iter().enumerate() {
                self.words[next.room() + index].store(word, Ordering::Relaxed);
            }
            if self.words[STATE].compare_exchange(state.0, next.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Becomes the owner if there is none, or takes over from an owner of another name if that one is known to be dead.
    pub(crate) fn own(self, name: u64, others_are_dead: bool) -> Option<Ownership<'a>> {
        let owner = self.words[OWNER].load(Ordering::Relaxed);
        let is_free = owner == 0 || (others_are_dead && owner != name);
        let exchange = || self.words[OWNER].compare_exchange(owner, name, Ordering::Acquire, Ordering::Relaxed);
        // Relaxed: an ownership that is dropped ends, whichever thread has it.
        (is_free && exchange().is_ok()).then(|| Ownership { words: self.words })
    }

    /// Returns the word of the thread that changes the counter.
    #[cfg(not(loom))]
    pub(crate) fn changer(self) -> &'a AtomicU64 {
        &self.words[CHANGER]
    }

    /// Returns whether the segment of `state` is still the last one, closed or not.
    pub(crate) fn is_same_segment(self, state: State) -> bool {
        State(self.words[STATE].load(Ordering::Relaxed)).same_segment(state)
    }

    /// Returns the number of activated segments, modulo a few tens of thousands.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn segments(self) -> u64 {
        (self.words[STATE].load(Ordering::Relaxed) & GENERATIONS) / GENERATION
    }

    /// Returns the largest slow answer so far.
    pub(crate) fn slowest_ns(self) -> u64 {
        self.words[SLOWEST].load(Ordering::Relaxed)
    }

    /// Discards the largest slow answer, after an ownerless segment that starts at zero. Called by the owner. An answer
    /// that a thread started before that segment may reappear; the caller checks again.
    pub(crate) fn forget_answers(self, _: &Ownership<'_>) {
        self.words[SLOWEST].store(0, Ordering::Relaxed);
    }

    /// Returns a word that the owner writes rarely; there are seven.
    pub(crate) fn rare(self, index: usize) -> &'a AtomicU64 {
        debug_assert!(index < SLOWEST - FIRST_RARE, "the next line of memory");
        &self.words[FIRST_RARE + index]
    }

    /// Returns a word of the owner.
    pub(crate) fn of_owner(self, index: usize) -> &'a AtomicU64 {
        &self.words[FIRST_OF_OWNER + index]
    }
}

/// The right to activate segments. It ends when this value is dropped, even if a custom counter of the program panics.
#[derive(Debug)]
pub(crate) struct Ownership<'a> {
    words: &'a [AtomicU64; 64],
}

impl Drop for Ownership<'_> {
    fn drop(&mut self) {
        self.words[OWNER].store(0, Ordering::Release);
    }
}
