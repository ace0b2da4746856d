//! The segment in force, and the answers given without one, as words that threads share: nobody waits, and no answer is below an earlier one.
//! Reads no counter and no clock; decides no segment.
//!
//! Two segments have room. The *state* says which is in force and counts every change; a new segment is written into the other room and then put
//! in force by one exchange of the state, so a reader is disturbed only if that happens twice during its reading, which the state shows.
//!
//! Who gets no answer from the segment may answer by the kernel's clock. Such a *slow* answer is noted, then the state is counted on. If the segment
//! changed in between, the answer is thrown away; if not, whoever puts the next segment in force has seen it, and the segment begins no lower.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::segment::Segment;

/// Whose segment it is: nobody's, the processor's own counter's, or that of a source with a number beyond.
pub(crate) const NOBODY: usize = 0;
pub(crate) const NATIVE: usize = 2;

/// The first 16 bits are a generation, whose last bit says which room is in force; the others count all changes, so that no state comes back (in a
/// year of nothing but slow answers).
const STATE: usize = 0;
const GENERATION: u64 = 1 << 48;
/// Each room has six words: the segment's, of which the length stands twice, and whose segment it is. The first length is zero where that is not the
/// processor's own counter, so that who reads that one and no other finds the reading outside of the segment, without a question more.
const ROOMS: [usize; 2] = [1, 7];
/// The last slow answer, which is the largest. In a line of memory that fast readers do not touch.
const SLOWEST: usize = 16;
/// Who is making the next segment: 0 while nobody is.
const OWNER: usize = 17;
/// What is for the owner alone begins here.
pub(crate) const FIRST_OF_OWNER: usize = 18;

/// The words, zero in the beginning: a segment without ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published<'a> {
    words: &'a [AtomicU64; 64],
}

/// The state that a segment was read under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u64);

impl State {
    const fn room(self) -> usize {
        ROOMS[((self.0 / GENERATION) & 1) as usize]
    }

    const fn other_room(self) -> usize {
        ROOMS[((self.0 / GENERATION + 1) & 1) as usize]
    }

    const fn same_segment(self, other: Self) -> bool {
        self.0 / GENERATION == other.0 / GENERATION
    }
}

impl<'a> Published<'a> {
    #[inline(always)]
    pub(crate) const fn new(words: &'a [AtomicU64; 64]) -> Self {
        Self { words }
    }

    /// The segment in force for who reads the processor's own counter: without ticks if it is another's; `None` when it was changed during the reading.
    #[inline(always)]
    pub(crate) fn native_segment(self) -> Option<Segment> {
        self.read::<3>().map(|(_, segment, _)| segment)
    }

    /// The segment in force and whose it is, however often it takes to read it.
    pub(crate) fn segment(self) -> (State, Segment, usize) {
        loop {
            if let Some((state, segment, room)) = self.read::<4>() {
                let whose = self.words[room + 5].load(Ordering::Relaxed);
                fence(Ordering::Acquire);
                if self.words[STATE].load(Ordering::Relaxed) == state.0 {
                    return (state, segment, usize::try_from(whose).unwrap_or(NOBODY));
                }
            }
            #[cfg(loom)]
            loom::thread::yield_now();
        }
    }

    #[inline(always)]
    fn read<const LENGTH: usize>(self) -> Option<(State, Segment, usize)> {
        let state = State(self.words[STATE].load(Ordering::Acquire));
        let room = state.room();
        let word = |index: usize| self.words[room + index].load(Ordering::Relaxed);
        let segment = Segment { base_ticks: word(0), base_ns: word(1), slope: word(2), ticks: word(LENGTH) };
        // Pairs with the fence in `put_in_force`: who saw a word of a later segment sees the later state.
        fence(Ordering::Acquire);
        (self.words[STATE].load(Ordering::Relaxed) == state.0).then_some((state, segment, room))
    }

    /// Whether nothing changed since `state`.
    pub(crate) fn is_still(self, state: State) -> bool {
        self.words[STATE].load(Ordering::Acquire) == state.0
    }

    /// Gives the slow answer `ns`, which must not be below the end of the segment of `state`; false when another segment came into force meanwhile,
    /// and the answer must not be given.
    pub(crate) fn answer_slowly(self, state: State, ns: u64) -> bool {
        self.words[SLOWEST].fetch_max(ns, Ordering::Relaxed);
        // Release: whoever reads this state or a later one sees the answer. AcqRel, because it continues what earlier ones released.
        let before = State(self.words[STATE].fetch_add(1, Ordering::AcqRel));
        before.same_segment(state)
    }

    /// Puts a segment of `whose` in force; only for the owner. `make` is given the largest slow answer so far, which the segment must not begin below; it is called
    /// again when another slow answer was given meanwhile, and may give up.
    pub(crate) fn put_in_force(self, whose: usize, mut make: impl FnMut(u64) -> Option<Segment>) -> bool {
        loop {
            let state = State(self.words[STATE].load(Ordering::Acquire));
            let Some(segment) = make(self.words[SLOWEST].load(Ordering::Relaxed)) else { return false };
            // Pairs with the fence in `segment`.
            fence(Ordering::Release);
            let room = state.other_room();
            let native_ticks = if whose == NATIVE { segment.ticks } else { 0 };
            let whose = whose as u64;
            let words = [segment.base_ticks, segment.base_ns, segment.slope, native_ticks, segment.ticks, whose];
            for (index, word) in words.into_iter().enumerate() {
                self.words[room + index].store(word, Ordering::Relaxed);
            }
            let next = state.0.wrapping_add(GENERATION + 1);
            if self.words[STATE].compare_exchange(state.0, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Becomes the owner, unless there is one.
    pub(crate) fn own(self, name: u64) -> bool {
        self.words[OWNER].compare_exchange(0, name, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes over from an owner who is not `name` and, by what the caller knows, not alive.
    pub(crate) fn inherit(self, name: u64) -> bool {
        let owner = self.words[OWNER].load(Ordering::Relaxed);
        owner != name && self.words[OWNER].compare_exchange(owner, name, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Is no longer the owner.
    pub(crate) fn disown(self) {
        self.words[OWNER].store(0, Ordering::Release);
    }

    /// A word of the owner's.
    pub(crate) fn of_owner(self, index: usize) -> &'a AtomicU64 {
        &self.words[FIRST_OF_OWNER + index]
    }
}
