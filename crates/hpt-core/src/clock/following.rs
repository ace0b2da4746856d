//! Following a clock by a counter: what is done when the segment in force has no answer.
//! Chooses no counter, and knows neither the counter nor the clock.

#[cfg(loom)]
use loom::sync::atomic::Ordering;
#[cfg(not(loom))]
use std::sync::atomic::Ordering;

use super::{
    follower::Follower,
    published::{NOBODY, Published},
    segment::{OLDEST_NS, Point, SHORTEST_NS, Segment},
};

/// Brackets that are taken for one point, at most; a narrow one ends the search. The model takes what comes, so that it meets wide ones.
const BRACKETS: u32 = if cfg!(loom) { 1 } else { 5 };
/// A bracket wider than this tells nothing worth following.
const WIDEST_NS: u64 = 20_000;

/// Where the owner keeps things: the follower, then these.
const NARROWEST: usize = Follower::WORDS;
const REFUSED: usize = NARROWEST + 1;
const OWNERS_WORDS: usize = REFUSED + 1;

/// A counter, and the clock that it is to follow.
pub(crate) trait Instruments: Copy {
    /// The counter, read in order: not before what stands earlier has completed.
    fn ticks(self) -> u64;
    /// The clock, in nanoseconds, read in order.
    fn clock_ns(self) -> u64;
    /// Whether this counter is the one to be used.
    fn are_in_use(self) -> bool;
}

/// Instruments, their number, and the words that tell the time by them.
#[derive(Clone, Copy)]
pub(crate) struct Following<'a, I> {
    pub(crate) instruments: I,
    /// The number under which its segments are put in force.
    pub(crate) number: usize,
    pub(crate) published: Published<'a>,
    /// What the owner calls itself; and whether an owner of another name is one that a fork left behind.
    pub(crate) name: u64,
    pub(crate) others_are_dead: bool,
}

impl<I: Instruments> Following<'_, I> {
    /// The time now; `None` when other instruments came into use meanwhile.
    pub(crate) fn now_ns(self) -> Option<u64> {
        loop {
            let (state, segment, whose) = self.published.segment();
            if whose == self.number {
                if let Some(ns) = segment.at(self.instruments.ticks()) {
                    return Some(ns);
                }
            } else if whose != NOBODY {
                return None;
            }
            if self.become_owner() {
                let made = self.instruments.are_in_use().then(|| self.next_segment());
                self.published.disown();
                match made {
                    None => return None,
                    Some(true) => continue,
                    Some(false) => {}
                }
            }
            let ns = self.instruments.clock_ns().max(segment.end_ns());
            if self.published.answer_slowly(state, ns) {
                return Some(ns);
            }
        }
    }

    fn become_owner(self) -> bool {
        self.published.own(self.name) || (self.others_are_dead && self.published.inherit(self.name))
    }

    /// As the owner: learns from one more point, and puts a segment in force if that tells the rate.
    fn next_segment(self) -> bool {
        // Read again: another owner may have been at work since this thread found no answer.
        let (_, last, whose) = self.published.segment();
        if whose == self.number && last.at(self.instruments.ticks()).is_some() {
            return true;
        }
        let mut follower = self.remembered();
        if follower.rate().is_none()
            && let Some(first) = follower.last()
            && self.instruments.clock_ns().wrapping_sub(first.ns) < SHORTEST_NS
        {
            return false;
        }
        let Some(point) = self.point() else {
            self.published.of_owner(REFUSED).fetch_add(1, Ordering::Relaxed);
            return false;
        };
        let rate = follower.take(point);
        self.remember(follower);
        let Some(rate) = rate else { return false };
        self.published.put_in_force(self.number, |slowest_ns| {
            let now_ticks = self.instruments.ticks();
            let segment = Segment::following(point.seen_after(slowest_ns), rate, last.end_ns());
            // A point that has grown old while this thread was stopped is no beginning. Nor is one that is contradicted by a slow answer.
            let is_young = now_ticks.wrapping_sub(point.ticks) <= rate.ticks_in(OLDEST_NS);
            let is_sound = segment.at(now_ticks).is_some_and(|ns| ns >= slowest_ns);
            (is_young && is_sound).then_some(segment)
        })
    }

    /// The narrowest of a few brackets, or the first that is as narrow as they usually are.
    fn point(self) -> Option<Point> {
        let usual = self.published.of_owner(NARROWEST);
        let usual_ns = usual.load(Ordering::Relaxed);
        let mut best: Option<Point> = None;
        for _ in 0..BRACKETS {
            let before_ns = self.instruments.clock_ns();
            let ticks = self.instruments.ticks();
            let width_ns = self.instruments.clock_ns().checked_sub(before_ns)?;
            if best.is_none_or(|best| width_ns < best.width_ns) {
                best = Some(Point { ticks, ns: before_ns + width_ns / 2, width_ns });
            }
            if width_ns <= usual_ns + usual_ns / 4 {
                break;
            }
        }
        let best = best.filter(|best| best.width_ns <= WIDEST_NS)?;
        // What is usual grows slowly, so that one lucky bracket does not make all later ones look bad.
        let most_ns = if usual_ns == 0 { u64::MAX } else { usual_ns + usual_ns / 64 + 1 };
        usual.store(best.width_ns.clamp(1, most_ns), Ordering::Relaxed);
        Some(best)
    }

    /// What was learned so far.
    pub(crate) fn remembered(self) -> Follower {
        Follower::from_words(std::array::from_fn(|word| self.published.of_owner(word).load(Ordering::Relaxed)))
    }

    /// How many points were refused because of their width.
    pub(crate) fn refused(self) -> u64 {
        self.published.of_owner(REFUSED).load(Ordering::Relaxed)
    }

    fn remember(self, follower: Follower) {
        for (word, value) in follower.to_words().into_iter().enumerate() {
            self.published.of_owner(word).store(value, Ordering::Relaxed);
        }
    }
}

/// As the owner: ends the segment in force, which the caller has let run out, and forgets all that was learned.
pub(crate) fn begin_anew(published: Published<'_>) {
    let (_, last, _) = published.segment();
    // A segment of nobody, without ticks: everybody is answered by the clock, not below the end of the last one.
    published.put_in_force(NOBODY, |slowest_ns| {
        Some(Segment { base_ns: last.end_ns().max(slowest_ns), ..Segment::default() })
    });
    for word in 0..OWNERS_WORDS {
        published.of_owner(word).store(0, Ordering::Relaxed);
    }
}
