//! The segment in force, and the answers given without one, as words that threads share: nobody waits, and no answer is below an earlier one.
//! Reads no counter and no clock; decides no segment.
//!
//! Two segments have room. The *state* says which is in force, whether it is closed, and counts; a new segment is written into the other room and
//! then put in force by one exchange of the state, so a reader is disturbed only if that happens twice during its reading, which the state shows.
//!
//! Who gets no answer from the segment may answer by the kernel's clock. Such a *slow* answer is noted, then it closes the segment: whatever the
//! counter does from then on, nobody reads a line that has ended. If another segment came into force in between, the answer is thrown away; if not,
//! whoever puts the next segment in force has seen it, and the segment begins no lower.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::segment::Segment;

/// Whose segment it is: nobody's, the processor's own counter's, or that of a source with a number beyond.
pub(crate) const NOBODY: usize = 0;
pub(crate) const NATIVE: usize = 2;

/// Six empty bits; then two that say which of four rooms is to be read, so that the lowest byte is the room's place in bytes: whether the segment is closed, and
/// the last bit of its generation. Then the rest of the generation, and a count of all changes, so that no state comes back (in a day of nothing but
/// slow answers).
const STATE: usize = 32;
const CLOSED: u64 = 1 << 6;
const GENERATION: u64 = 1 << 7;
const GENERATIONS: u64 = (1 << 23) - GENERATION;
const CHANGE: u64 = 1 << 23;
/// The rooms of a closed segment are empty for ever, so that a fast reader gets no answer there without asking. Each is a line of memory, of which six words
/// are used: the segment's, of which the length stands twice, and whose segment it is. The first length is zero where that is not the processor's own
/// counter, so that who reads that one and no other finds the reading outside of the segment, without a question more.
/// The last slow answer, which is the largest. In a line of memory that fast readers do not touch.
const SLOWEST: usize = 40;
/// Who is making the next segment: 0 while nobody is.
const OWNER: usize = 41;
/// Which process is changing the instruments: 0 while none is.
#[cfg(not(loom))]
const CHANGER: usize = 63;
/// What is written rarely lies behind the state: fast readers read that line of memory.
const FIRST_RARE: usize = 33;
/// What is for the owner alone begins here.
const FIRST_OF_OWNER: usize = 42;

/// The words, zero in the beginning: a segment without ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published<'a> {
    words: &'a [AtomicU64; 64],
}

/// The state that a segment was read under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    /// Where the room to be read begins: an empty one where the segment is closed.
    #[inline(always)]
    const fn room(self) -> usize {
        (self.0 & (CLOSED | GENERATION)) as usize / size_of::<AtomicU64>()
    }

    /// The state of the segment itself, closed or not.
    const fn line(self) -> Self {
        Self(self.0 & !CLOSED)
    }

    /// The next segment in force, open.
    const fn next(self) -> Self {
        let generation = (self.0 & GENERATIONS).wrapping_add(GENERATION) & GENERATIONS;
        Self((self.0 & !(GENERATIONS | CLOSED) | generation).wrapping_add(CHANGE))
    }

    /// Closed, with one more slow answer.
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

/// The segment in force, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InForce {
    pub(crate) state: State,
    pub(crate) line: Segment,
    pub(crate) whose: usize,
}

impl InForce {
    /// The nanoseconds at `ticks`, where the segment has them, or has just begun, and is not closed.
    pub(crate) const fn at(&self, ticks: u64) -> Option<u64> {
        if self.state.is_closed() { None } else { self.line.at_or_just_before(ticks) }
    }
}

impl<'a> Published<'a> {
    #[inline(always)]
    pub(crate) const fn new(words: &'a [AtomicU64; 64]) -> Self {
        Self { words }
    }

    /// The segment in force for who reads the processor's own counter: without ticks if it is another's or closed; `None` when it was changed during
    /// the reading.
    #[inline(always)]
    pub(crate) fn native_segment(self) -> Option<Segment> {
        let state = State(self.words[STATE].load(Ordering::Acquire));
        let segment = self.segment::<3>(state.room());
        self.still(state).then_some(segment)
    }

    /// The segment in force and whose it is, however often it takes to read it.
    pub(crate) fn in_force(self) -> InForce {
        loop {
            let state = State(self.words[STATE].load(Ordering::Acquire));
            let room = state.line().room();
            let line = self.segment::<4>(room);
            let whose = usize::try_from(self.words[room + 5].load(Ordering::Relaxed)).unwrap_or(NOBODY);
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

    /// Whether nothing changed since `state`, for who read a room meanwhile.
    #[inline(always)]
    fn still(self, state: State) -> bool {
        // Pairs with the fence in `put_in_force`: who saw a word of a later segment sees the later state.
        fence(Ordering::Acquire);
        self.words[STATE].load(Ordering::Relaxed) == state.0
    }

    /// Whether nothing changed since `state`.
    pub(crate) fn is_still(self, state: State) -> bool {
        self.words[STATE].load(Ordering::Acquire) == state.0
    }

    /// Gives the slow answer `ns`, which must not be below the end of the segment of `state`, and closes that segment; false when another came into force
    /// meanwhile. That one need not be closed for this answer, which is thrown away.
    pub(crate) fn answer_slowly(self, state: State, ns: u64) -> bool {
        self.words[SLOWEST].fetch_max(ns, Ordering::Relaxed);
        let mut seen = State(self.words[STATE].load(Ordering::Relaxed));
        while seen.same_segment(state) {
            // Release: whoever reads this state or a later one sees the answer. Acquire, because it continues what earlier ones released.
            let answered = seen.answered().0;
            match self.words[STATE].compare_exchange(seen.0, answered, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(state) => seen = State(state),
            }
        }
        false
    }

    /// Puts a segment of `whose` in force; only for the owner. `make` is given the largest slow answer so far, which the segment must not begin below; it is called
    /// again when another slow answer was given meanwhile, and may give up.
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

    /// Becomes the owner, unless there is one; or takes over from one of another name, where those are known to be dead.
    pub(crate) fn own(self, name: u64, others_are_dead: bool) -> Option<Ownership<'a>> {
        let owner = self.words[OWNER].load(Ordering::Relaxed);
        let is_free = owner == 0 || (others_are_dead && owner != name);
        let exchange = || self.words[OWNER].compare_exchange(owner, name, Ordering::Acquire, Ordering::Relaxed);
        // Lazily: an ownership that is dropped ends, whoever has it.
        (is_free && exchange().is_ok()).then(|| Ownership { words: self.words })
    }

    /// The word of who changes the instruments.
    #[cfg(not(loom))]
    pub(crate) fn changer(self) -> &'a AtomicU64 {
        &self.words[CHANGER]
    }

    /// Whether the segment of `state` is still the last one, closed or not.
    pub(crate) fn is_same_segment(self, state: State) -> bool {
        State(self.words[STATE].load(Ordering::Relaxed)).same_segment(state)
    }

    /// How many segments came into force, a few ten thousand at most.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn segments(self) -> u64 {
        (self.words[STATE].load(Ordering::Relaxed) & GENERATIONS) / GENERATION
    }

    /// The largest slow answer so far.
    pub(crate) fn slowest_ns(self) -> u64 {
        self.words[SLOWEST].load(Ordering::Relaxed)
    }

    /// As the owner: forgets the largest slow answer, behind a segment of nobody that begins at zero. An answer that a thread began before that segment may come back; the
    /// caller looks again.
    pub(crate) fn forget_answers(self, _: &Ownership<'_>) {
        self.words[SLOWEST].store(0, Ordering::Relaxed);
    }

    /// A word that the owner writes rarely; there are seven.
    pub(crate) fn rare(self, index: usize) -> &'a AtomicU64 {
        debug_assert!(index < SLOWEST - FIRST_RARE, "the next line of memory");
        &self.words[FIRST_RARE + index]
    }

    /// A word of the owner's.
    pub(crate) fn of_owner(self, index: usize) -> &'a AtomicU64 {
        &self.words[FIRST_OF_OWNER + index]
    }
}

/// The right to put segments in force. It ends with this value, also when a counter of the program's own panics.
#[derive(Debug)]
pub(crate) struct Ownership<'a> {
    words: &'a [AtomicU64; 64],
}

impl Drop for Ownership<'_> {
    fn drop(&mut self) {
        self.words[OWNER].store(0, Ordering::Release);
    }
}
