//! Follows a clock with a counter, and serves the readings that the active segment cannot serve. Does not choose the
//! counter, and does not depend on the kind of counter or clock.

#[cfg(not(loom))]
use std::sync::atomic::Ordering;

#[cfg(loom)]
use loom::sync::atomic::Ordering;

use super::{
    follower::Follower,
    published::{NO_OWNER, Ownership, Published, State},
    segment::{OLDEST_NS, Point, SHORTEST_NS, Segment},
};

/// The maximum number of brackets taken for one point. A narrow bracket ends the search. The loom model accepts any
/// bracket, so that wide brackets are covered too.
const BRACKETS: u32 = if cfg!(loom) { 1 } else { 5 };
/// The maximum width of a usable bracket.
const WIDEST_NS: u64 = 20_000;

/// Wide brackets cast doubt on the counter, because a kernel that has dropped it reads another counter with a system
/// call. A bracket is wide if it has at least `WIDE` times the usual width and exceeds it by at least `WIDE_BY_NS`. The
/// counter is in doubt after `MOST_WIDE` consecutive wide brackets, or if two or more consecutive wide brackets span at
/// least `WIDE_FOR_NS`.
const WIDE: u64 = 4;
const WIDE_BY_NS: u64 = 200;
const MOST_WIDE: u64 = 8;
const WIDE_FOR_NS: u64 = 500_000_000;
/// `MOST_JUMPS` jumps within `JUMPS_WITHIN_NS` also cast doubt on the counter. If the counters of the cores
/// differ by an offset, the counter jumps whenever the owner moves to another core.
const MOST_JUMPS: u64 = 4;
const JUMPS_WITHIN_NS: u64 = 100_000_000;
/// The pause between a check that confirms the counter and the next check.
const TRUSTED_FOR_NS: u64 = 1_000_000_000;
/// The number of turns that a reader waits for the segment of an active owner, a few hundred nanoseconds in total.
/// Without this wait, each slow answer would make the owner start again. The loom model needs no wait, because it tries
/// every order of threads.
const TURNS: u32 = if cfg!(loom) { 0 } else { 16 };

/// Whether slow clocks, clocks that go back, and counters in doubt are handled. They do not occur in the loom model,
/// where each additional word that is read multiplies the number of orders to try.
const WATCHES: bool = !cfg!(loom);

/// Reasons to doubt a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The clock takes longer to read than before.
    SlowClock,
    /// The counter jumps repeatedly relative to the clock.
    Jumps,
}

/// If more than this number of consecutive points are rejected, the clock is considered slow to read. It is then
/// bracketed only occasionally, after a pause that doubles each time. The loom model never rejects that many points.
const PATIENT_REFUSALS: u64 = 3;
const SHORTEST_PAUSE_NS: u64 = 1_000_000;
const LONGEST_PAUSE_NS: u64 = 1_024 * SHORTEST_PAUSE_NS;

/// If a segment or a reading is ahead of the clock by more than this, the clock went back. No bound is large enough to
/// explain such a lead.
const WENT_BACK_NS: u64 = 100_000_000;

/// A counter, and the clock that the counter follows.
pub(crate) trait Instruments: Copy {
    /// Reads the counter in program order, after all preceding instructions have completed.
    fn ticks(self) -> u64;
    /// Reads the clock in program order, in nanoseconds.
    fn clock_ns(self) -> u64;
    /// Returns a number that changes after each reported disruption of the counter; `None` during a disruption.
    fn disruption_marker(self) -> Option<u64>;
    /// Returns whether this counter is still in use.
    fn are_in_use(self) -> bool;
    /// Returns whether the kernel still trusts a counter that is in doubt; true if the kernel cannot be queried.
    fn is_trusted(self, _: Doubt) -> bool {
        true
    }
    /// Stops using this counter. Called by the owner after it has activated an ownerless segment.
    fn leave(self, _: &Ownership<'_>) {}
    /// Spins for a short time.
    fn pause(self) {
        std::hint::spin_loop();
    }
}

/// A counter and its clock, the number that identifies them, and the words through which they provide the time.
#[derive(Clone, Copy)]
pub(crate) struct Following<'a, I> {
    pub(crate) instruments: I,
    /// The number with which segments of this counter are marked.
    pub(crate) number: usize,
    pub(crate) published: Published<'a>,
    /// The name of this owner. If `others_are_dead` is true, an owner with another name was left behind by a fork.
    pub(crate) name: u64,
    pub(crate) others_are_dead: bool,
}

impl<I: Instruments> Following<'_, I> {
    /// Returns the current time; `None` if another counter has come into use.
    pub(crate) fn now_ns(self) -> Option<u64> {
        loop {
            let in_force = self.published.in_force();
            if in_force.whose == self.number {
                if let Some(ns) = in_force.at(self.instruments.ticks()) {
                    // A segment that was closed in the meantime no longer serves readings, even if the counter was set
                    // back into it.
                    if self.published.is_still(in_force.state) {
                        return Some(ns);
                    }
                    continue;
                }
            } else if in_force.whose != NO_OWNER {
                return None;
            }
            let mut shown_ns = self.shown_ns(in_force.line.end_ns());
            let mut clock_ns = None;
            if self.is_pausing() {
                let paused_ns = self.instruments.clock_ns();
                // If more time is left than the longest pause, the clock has gone back since the pause began.
                let left_ns = self.published.rare().try_again_ns.load(Ordering::Relaxed).checked_sub(paused_ns);
                clock_ns = left_ns.is_some_and(|left_ns| left_ns <= LONGEST_PAUSE_NS).then_some(paused_ns);
            }
            let clock_ns = if let Some(paused_ns) = clock_ns {
                if !self.instruments.are_in_use() {
                    return None;
                }
                paused_ns
            } else {
                if let Some(ownership) = self.become_owner() {
                    if !self.instruments.are_in_use() {
                        return None;
                    }
                    if self.next_segment(&ownership) {
                        continue;
                    }
                } else if self.meets_the_next_segment(in_force.state) {
                    continue;
                }
                shown_ns = self.shown_ns(in_force.line.end_ns());
                self.instruments.clock_ns()
            };
            // The clock was read after `shown_ns` was returned, so a value that is much lower means that the clock went
            // back. If another thread is the owner, that thread or a later reading restarts.
            if went_back(shown_ns, clock_ns) {
                if let Some(ownership) = self.become_owner() {
                    self.restart(&ownership);
                    continue;
                }
            }
            let ns = clock_ns.max(in_force.line.end_ns());
            if self.published.answer_slowly(in_force.state, ns) {
                return Some(ns);
            }
        }
    }

    /// Acquires the right to make the next segment, unless another thread has it.
    pub(crate) fn become_owner<'a>(self) -> Option<Ownership<'a>>
    where
        Self: 'a,
    {
        self.published.own(self.name, self.others_are_dead)
    }

    /// Returns the latest time that readings may have returned if the last segment ends at `end_ns`.
    fn shown_ns(self, end_ns: u64) -> u64 {
        if WATCHES { self.published.slowest_ns().max(end_ns) } else { 0 }
    }

    /// Waits a few turns for the owner. Returns whether the owner's segment was activated.
    fn meets_the_next_segment(self, state: State) -> bool {
        (0..TURNS).any(|_| {
            self.instruments.pause();
            !self.published.is_same_segment(state)
        })
    }

    /// Returns the reason to doubt the counter at `now_ns`; `None` if there is none. Called by the owner.
    fn doubt(self, now_ns: u64) -> Option<Doubt> {
        let rare = self.published.rare();
        let rests_ns = self.published.of_owner().ask_after_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
        if (1..=TRUSTED_FOR_NS).contains(&rests_ns) {
            return None;
        }
        let wide = rare.wide_in_a_row.load(Ordering::Relaxed);
        let is_wide_for_long =
            wide >= 2 && now_ns.saturating_sub(rare.wide_since_ns.load(Ordering::Relaxed)) >= WIDE_FOR_NS;
        if wide >= MOST_WIDE || is_wide_for_long {
            Some(Doubt::SlowClock)
        } else if rare.jumps_in_a_row.load(Ordering::Relaxed) >= MOST_JUMPS {
            Some(Doubt::Jumps)
        } else {
            None
        }
    }

    /// Checks the counter if it is in doubt, and abandons it if the kernel no longer trusts it. Returns whether the
    /// counter was abandoned. Called by the owner.
    fn leaves(self, now_ns: u64, ownership: &Ownership<'_>) -> bool {
        if !WATCHES {
            return false;
        }
        let Some(doubt) = self.doubt(now_ns) else { return false };
        if !self.instruments.is_trusted(doubt) {
            self.leave(ownership);
            return true;
        }
        // From now on, the current bracket width is considered usual.
        self.published.of_owner().narrowest_ns.store(0, Ordering::Relaxed);
        self.published.rare().wide_in_a_row.store(0, Ordering::Relaxed);
        self.published.rare().jumps_in_a_row.store(0, Ordering::Relaxed);
        self.published.of_owner().ask_after_ns.store(now_ns.saturating_add(TRUSTED_FOR_NS), Ordering::Relaxed);
        false
    }

    /// Switches to the kernel's clock. Later readings are not below earlier ones. Called by the owner.
    pub(crate) fn leave(self, ownership: &Ownership<'_>) {
        begin_anew(self.published, ownership);
        self.instruments.leave(ownership);
    }

    /// Records whether a bracket is much wider than usual. Called by the owner.
    fn note_width(self, width_ns: u64, usual_ns: u64, now_ns: u64) {
        if !WATCHES {
            return;
        }
        let wide = &self.published.rare().wide_in_a_row;
        let before = wide.load(Ordering::Relaxed);
        if usual_ns == 0 || width_ns < WIDE * usual_ns || width_ns < usual_ns + WIDE_BY_NS {
            if before != 0 {
                wide.store(0, Ordering::Relaxed);
            }
            return;
        }
        if before == 0 {
            self.published.rare().wide_since_ns.store(now_ns, Ordering::Relaxed);
        }
        wide.store(before + 1, Ordering::Relaxed);
    }

    /// Records a jump. Called by the owner.
    fn note_jump(self, now_ns: u64) {
        if !WATCHES {
            return;
        }
        let jumps = &self.published.rare().jumps_in_a_row;
        let since = &self.published.rare().jumps_since_ns;
        let before = jumps.load(Ordering::Relaxed);
        if before == 0 || now_ns.saturating_sub(since.load(Ordering::Relaxed)) > JUMPS_WITHIN_NS {
            since.store(now_ns, Ordering::Relaxed);
            jumps.store(1, Ordering::Relaxed);
        } else {
            jumps.store(before + 1, Ordering::Relaxed);
        }
    }

    /// Returns whether bracketing is paused because the clock is slow to read.
    fn is_pausing(self) -> bool {
        WATCHES && self.published.rare().refused_in_a_row.load(Ordering::Relaxed) > PATIENT_REFUSALS
    }

    /// Records a rejected point. Called by the owner.
    fn refuse(self, now_ns: u64) {
        self.published.of_owner().refused.fetch_add(1, Ordering::Relaxed);
        if !WATCHES {
            return;
        }
        let refused = self.published.rare().refused_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(doublings) = refused.checked_sub(PATIENT_REFUSALS + 1) {
            let pause_ns = (SHORTEST_PAUSE_NS << doublings.min(10)).min(LONGEST_PAUSE_NS);
            let again_ns = now_ns.saturating_add(pause_ns);
            self.published.rare().try_again_ns.store(again_ns, Ordering::Relaxed);
        }
    }

    /// Takes one more point, and activates a segment if the rate is then known. Called by the owner.
    fn next_segment(self, ownership: &Ownership<'_>) -> bool {
        // The segment is read again, because another owner may have activated one since this thread failed to get a
        // reading.
        let last = self.published.in_force();
        if last.whose == self.number && last.at(self.instruments.ticks()).is_some() {
            return true;
        }
        let Some(marker) = self.instruments.disruption_marker() else { return false };
        let mut follower = self.remembered();
        let before = self.published.of_owner().marker.swap(marker, Ordering::Relaxed);
        // Zero is not a marker. It means that no marker has been stored yet.
        if before != marker && before != 0 && follower.last().is_some() {
            follower.disrupted();
            self.remember(follower);
            self.published.of_owner().disruptions.fetch_add(1, Ordering::Relaxed);
        }
        let first = if follower.rate().is_none() { follower.last() } else { None };
        if first.is_some_and(|first| self.instruments.clock_ns().wrapping_sub(first.ns) < SHORTEST_NS) {
            return false;
        }
        let Some(point) = self.point() else {
            let now_ns = if WATCHES { self.instruments.clock_ns() } else { 0 };
            self.refuse(now_ns);
            self.leaves(now_ns, ownership);
            return false;
        };
        if WATCHES {
            self.published.rare().refused_in_a_row.store(0, Ordering::Relaxed);
        }
        let jumps = follower.jumps;
        let rate = follower.take(point);
        self.remember(follower);
        if follower.jumps != jumps {
            self.note_jump(point.ns);
        }
        if self.leaves(point.ns, ownership) {
            return false;
        }
        let Some(rate) = rate else { return false };
        let mut lead_ns = 0;
        let done = self.published.put_in_force(self.number, |slowest_ns| {
            let now_ticks = self.instruments.ticks();
            let segment = Segment::following(point.seen_after(slowest_ns, rate), rate, last.line.end_ns());
            // A point is not a valid start of a segment if the counter was replaced in the meantime, if the point
            // became too old while this thread was stopped, or if a slow answer contradicts the point.
            let is_whole = self.instruments.disruption_marker() == Some(marker);
            let is_young = now_ticks.wrapping_sub(point.ticks) <= rate.ticks_in(OLDEST_NS);
            let is_sound = segment.at(now_ticks).is_some_and(|ns| ns >= slowest_ns);
            lead_ns = segment.base_ns.saturating_sub(point.ns);
            (is_whole && is_young && is_sound).then_some(segment)
        });
        if done {
            self.published.of_owner().lead_ns.store(lead_ns, Ordering::Relaxed);
        }
        done
    }

    /// Returns the narrowest of a few brackets, or the first that is as narrow as usual.
    fn point(self) -> Option<Point> {
        let usual = &self.published.of_owner().narrowest_ns;
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
        if let Some(best) = best {
            self.note_width(best.width_ns, usual_ns, best.ns);
        }
        let best = best.filter(|best| best.width_ns <= WIDEST_NS)?;
        // The usual width grows slowly, so that one exceptionally narrow bracket does not make all later brackets look
        // wide.
        let most_ns = if usual_ns == 0 { u64::MAX } else { usual_ns + usual_ns / 64 + 1 };
        usual.store(best.width_ns.clamp(1, most_ns), Ordering::Relaxed);
        Some(best)
    }

    /// Restarts from the clock after the clock has gone back. The counts are kept. Called by the owner.
    fn restart(self, ownership: &Ownership<'_>) {
        restart(self.published, ownership);
        let mut follower = self.remembered();
        follower.disrupted();
        self.remember(follower);
        self.published.of_owner().lead_ns.store(0, Ordering::Relaxed);
    }

    /// Returns what has been learned so far.
    pub(crate) fn remembered(self) -> Follower {
        Follower::load(&self.published.of_owner().follower)
    }

    /// Returns the number of points rejected because of their width.
    pub(crate) fn refused(self) -> u64 {
        self.published.of_owner().refused.load(Ordering::Relaxed)
    }

    /// Returns the number of reported disruptions of the counter.
    pub(crate) fn disruptions(self) -> u64 {
        self.published.of_owner().disruptions.load(Ordering::Relaxed)
    }

    /// Returns the lead of the active segment over its point. There is a lead if a reading above the point was returned
    /// before, or if an earlier segment was ahead.
    pub(crate) fn lead_ns(self) -> u64 {
        self.published.of_owner().lead_ns.load(Ordering::Relaxed)
    }

    fn remember(self, follower: Follower) {
        follower.store(&self.published.of_owner().follower);
    }
}

/// Returns whether a clock is so far behind a returned value that it counts as having gone back.
pub(crate) const fn went_back(shown_ns: u64, clock_ns: u64) -> bool {
    shown_ns.saturating_sub(clock_ns) > WENT_BACK_NS
}

/// Returns the number of times that the clock went back.
pub(crate) fn restarts(published: Published<'_>) -> u64 {
    published.rare().restarts.load(Ordering::Relaxed)
}

/// Ends the active segment, and restarts readings from the clock after the clock has gone back. Only in this
/// case do readings go back. Called by the owner.
pub(crate) fn restart(published: Published<'_>, ownership: &Ownership<'_>) {
    published.put_in_force(NO_OWNER, |_| Some(Segment::default()));
    published.forget_answers(ownership);
    published.rare().restarts.fetch_add(1, Ordering::Relaxed);
}

/// Ends the active segment, which the caller has let expire, and discards everything that was learned. Called by the
/// owner.
pub(crate) fn begin_anew(published: Published<'_>, _: &Ownership<'_>) {
    let last = published.in_force().line;
    // With an ownerless segment without ticks, the clock serves all readings, but never below the end of the last
    // segment.
    published.put_in_force(NO_OWNER, |slowest_ns| {
        Some(Segment { base_ns: last.end_ns().max(slowest_ns), ..Segment::default() })
    });
    let (rare, own) = (published.rare(), published.of_owner());
    Follower::default().store(&own.follower);
    for word in [
        &rare.refused_in_a_row,
        &rare.wide_in_a_row,
        &rare.jumps_in_a_row,
        &own.narrowest_ns,
        &own.refused,
        &own.marker,
        &own.disruptions,
        &own.lead_ns,
        &own.ask_after_ns,
    ] {
        word.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::{Just, Strategy, prop_assert, prop_oneof, proptest};

    use super::{Doubt, Following, Instruments, Ownership, restarts};
    use crate::clock::{
        linux::bound::{Known, slew_ppb},
        linux::clock_words::ClockWords,
        linux::published::{NATIVE, Published},
    };
    use hpt_sys::adjtime::Slew;

    /// A simulated machine with true time, a counter, and a clock that a daemon slews. Each read takes some simulated
    /// time.
    struct Machine {
        true_ns: Cell<f64>,
        clock_ns: Cell<f64>,
        ticks: Cell<f64>,
        hertz: Cell<f64>,
        bent_ppm: Cell<f64>,
        marker: Cell<u64>,
        /// The lead of this core's counter over the others, in ticks.
        core_is_ahead_by: Cell<f64>,
        /// The remaining offset that the kernel slews, its time constant, the rate at which it is slewed in this
        /// second, and the deviation of the tick length.
        offset_ns: Cell<f64>,
        time_constant: Cell<i32>,
        slewed_ppm: Cell<f64>,
        tick_ppm: Cell<f64>,
        /// The time that reading the clock takes, and the number of reads.
        clock_costs_ns: Cell<f64>,
        clock_reads: Cell<u64>,
        /// Whether the kernel still offers the counter, the number of queries, and whether the counter has been
        /// abandoned.
        is_offered: Cell<bool>,
        questions: Cell<u32>,
        is_left: Cell<bool>,
        words: ClockWords,
    }

    impl Machine {
        fn new() -> Self {
            Self {
                true_ns: Cell::new(0.0),
                clock_ns: Cell::new(7e12),
                ticks: Cell::new(3e15),
                hertz: Cell::new(2.25e9),
                bent_ppm: Cell::new(0.0),
                marker: Cell::new(1),
                core_is_ahead_by: Cell::new(0.0),
                offset_ns: Cell::new(0.0),
                time_constant: Cell::new(1),
                slewed_ppm: Cell::new(0.0),
                tick_ppm: Cell::new(0.0),
                clock_costs_ns: Cell::new(20.0),
                clock_reads: Cell::new(0),
                is_offered: Cell::new(true),
                questions: Cell::new(0),
                is_left: Cell::new(false),
                words: ClockWords::default(),
            }
        }

        fn wait(&self, ns: f64) {
            let mut left_ns = ns;
            loop {
                // At the start of each second, the kernel begins to slew the next part of the offset.
                let rate = 1.0 + (self.bent_ppm.get() + self.tick_ppm.get() + self.slewed_ppm.get()) / 1e6;
                let next_second_ns = ((self.clock_ns.get() / 1e9).floor() + 1.0) * 1e9;
                let until_ns = (next_second_ns - self.clock_ns.get()) / rate;
                let step_ns = left_ns.min(until_ns);
                self.true_ns.set(self.true_ns.get() + step_ns);
                self.ticks.set(self.ticks.get() + step_ns * self.hertz.get() / 1e9);
                if step_ns < until_ns {
                    self.clock_ns.set(self.clock_ns.get() + step_ns * rate);
                    return;
                }
                self.clock_ns.set(next_second_ns);
                let part_ns = self.offset_ns.get() / f64::from(1 << (2 + self.time_constant.get()));
                self.offset_ns.set(self.offset_ns.get() - part_ns);
                self.slewed_ppm.set(part_ns / 1e3);
                left_ns -= step_ns;
                // Seconds without slewing need not be simulated one by one.
                if self.offset_ns.get() == 0.0 && self.slewed_ppm.get() == 0.0 {
                    let rate = 1.0 + (self.bent_ppm.get() + self.tick_ppm.get()) / 1e6;
                    let whole_ns = (left_ns - 2e9).max(0.0);
                    self.true_ns.set(self.true_ns.get() + whole_ns);
                    self.ticks.set(self.ticks.get() + whole_ns * self.hertz.get() / 1e9);
                    self.clock_ns.set(self.clock_ns.get() + whole_ns * rate);
                    left_ns -= whole_ns;
                }
            }
        }

        /// Returns the current bound, computed as in `status`.
        #[expect(clippy::cast_possible_truncation, reason = "half a second, and a tenth of a tick")]
        fn bound_ns(&self) -> u64 {
            let following = self.following();
            let end_ns = following.published.in_force().line.end_ns();
            let (before_ns, answer_ns) = (self.whole(&self.clock_ns), self.now_ns());
            let after_ns = self.whole(&self.clock_ns);
            let follower = following.remembered();
            Known {
                rate_and_width_ns: follower.rate().zip(follower.last().map(|point| point.width_ns)),
                lead_ns: following.lead_ns(),
                ahead_ns: end_ns.saturating_sub(before_ns),
                outside_ns: before_ns.saturating_sub(answer_ns).max(answer_ns.saturating_sub(after_ns)),
                slew_ppb: slew_ppb(Slew {
                    offset_ns: self.offset_ns.get() as i64,
                    time_constant: self.time_constant.get().into(),
                    tick_us: 10_000 + (self.tick_ppm.get() / 100.0) as i64,
                    usual_tick_us: 10_000,
                }),
            }
            .bound_ns()
        }

        /// Reads the time every `every_ns` for `for_ns`. Returns the largest error of a reading, the largest excess of
        /// an error over the bounds before and after the reading, and the largest backward step.
        fn worst_over(&self, every_ns: f64, for_ns: f64) -> (u64, u64, u64) {
            let end_ns = self.true_ns.get() + for_ns;
            let (mut off, mut over, mut back, mut last) = (0, 0, 0, 0);
            while self.true_ns.get() < end_ns {
                self.wait(every_ns);
                let stated_before_ns = self.bound_ns();
                let (now_ns, off_ns) = self.look();
                let stated_ns = stated_before_ns.max(self.bound_ns());
                (off, over) = (off_ns.max(off), off_ns.saturating_sub(stated_ns).max(over));
                (back, last) = (back.max(u64::saturating_sub(last, now_ns)), now_ns);
            }
            (off, over, back)
        }

        fn following(&self) -> Following<'_, &Self> {
            let published = Published::new(&self.words);
            Following { instruments: self, number: NATIVE, published, name: 1, others_are_dead: false }
        }

        fn now_ns(&self) -> u64 {
            // If no counter is in use, the kernel's clock is read as in `system`.
            let kernel_ns = || self.clock_ns().max(self.following().published.in_force().line.end_ns());
            self.following().now_ns().unwrap_or_else(kernel_ns)
        }

        /// Returns the time, and its distance from the clock.
        fn look(&self) -> (u64, u64) {
            let before_ns = self.whole(&self.clock_ns);
            let ns = self.now_ns();
            let after_ns = self.whole(&self.clock_ns);
            (ns, before_ns.saturating_sub(ns).max(ns.saturating_sub(after_ns)))
        }

        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hours, in nanoseconds")]
        fn whole(&self, of: &Cell<f64>) -> u64 {
            of.get() as u64
        }
    }

    impl Instruments for &Machine {
        fn ticks(self) -> u64 {
            self.wait(5.0);
            let ticks = self.ticks.get() + self.core_is_ahead_by.get();
            self.wait(5.0);
            self.whole(&Cell::new(ticks))
        }

        fn clock_ns(self) -> u64 {
            self.clock_reads.set(self.clock_reads.get() + 1);
            self.wait(self.clock_costs_ns.get() / 2.0);
            let ns = self.whole(&self.clock_ns);
            self.wait(self.clock_costs_ns.get() / 2.0);
            ns
        }

        fn disruption_marker(self) -> Option<u64> {
            // The marker is zero during a disruption.
            Some(self.marker.get()).filter(|&marker| marker != 0)
        }

        fn are_in_use(self) -> bool {
            !self.is_left.get()
        }

        fn is_trusted(self, _: Doubt) -> bool {
            self.questions.set(self.questions.get() + 1);
            self.is_offered.get()
        }

        fn leave(self, _: &Ownership<'_>) {
            self.is_left.set(true);
        }
    }

    /// An event that can happen to a machine.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        Wait(f64),
        Bend(f64),
        /// The counter runs at another rate, as after a migration.
        OtherRate(f64),
        /// A suspend during which the clock stops and the counter keeps running.
        Suspend(f64),
        /// A suspend during which the clock stops, and after which the counter restarts at an earlier value.
        SuspendAndReset,
        /// The counter is set back by more than the longest segment. The length of a segment is a number of ticks, so a
        /// segment lasts four times as long on a counter that has slowed to a quarter of its rate. Changes in the
        /// counter within one segment cannot be detected.
        CounterBack(f64),
    }

    impl Event {
        fn happen(self, machine: &Machine) {
            match self {
                Self::Wait(ns) => machine.wait(ns),
                Self::Bend(ppm) => machine.bent_ppm.set(ppm),
                Self::OtherRate(hertz) => machine.hertz.set(hertz),
                Self::Suspend(ns) => machine.ticks.set(machine.ticks.get() + ns * machine.hertz.get() / 1e9),
                Self::SuspendAndReset => machine.ticks.set(machine.ticks.get() / 2.0),
                Self::CounterBack(ns) => {
                    machine.ticks.set((machine.ticks.get() - ns * machine.hertz.get() / 1e9).max(0.0));
                }
            }
        }
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            10 => (0.0..3e5_f64).prop_map(Event::Wait),
            3 => (0.0..2e6_f64).prop_map(Event::Wait),
            1 => Just(Event::Wait(1e10)),
            1 => (-500.0..500.0_f64).prop_map(Event::Bend),
            1 => (1e9..4e9_f64).prop_map(Event::OtherRate),
            1 => (0.0..1e13_f64).prop_map(Event::Suspend),
            1 => Just(Event::SuspendAndReset),
            2 => (4.1e6..9e6_f64).prop_map(Event::CounterBack),
            1 => (4.1e6..1e9_f64).prop_map(Event::CounterBack),
        ]
    }

    proptest! {
        #[test]
        fn no_reading_is_below_an_earlier_one_after_any_events(events in proptest::collection::vec(any_event(), 1..200)) {
            let machine = Machine::new();
            let mut last_ns = 0;
            for event in events {
                event.happen(&machine);
                for _ in 0..3 {
                    let now_ns = machine.now_ns();
                    prop_assert!(now_ns >= last_ns, "{last_ns}, then {now_ns} after {event:?}");
                    last_ns = now_ns;
                }
            }
        }

        /// The clock is slewed by any amount that a daemon can request, and read at any time. Readings stay within half
        /// a bracket plus the effect of a rate change within a segment.
        #[test]
        fn a_slewed_clock_is_followed(
            bends in proptest::collection::vec((-500.0..500.0_f64, 1..60_u32), 1..12),
            every_ns in 50.0..3e6_f64,
        ) {
            let machine = Machine::new();
            let (mut least_ppm, mut most_ppm) = (0.0_f64, 0.0_f64);
            for (ppm, looks) in bends {
                // One part per million is one nanosecond in the longest segment. Several rate changes can fall into one
                // segment.
                (least_ppm, most_ppm) = (least_ppm.min(ppm), most_ppm.max(ppm));
                machine.bent_ppm.set(ppm);
                for _ in 0..looks {
                    machine.wait(every_ns);
                    let (_, off_ns) = machine.look();
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a microsecond at most")]
                    let cost_ns = (most_ppm - least_ppm) as u64 + 100;
                    prop_assert!(off_ns <= cost_ns, "{off_ns} ns off between {least_ppm} and {most_ppm} ppm");
                }
            }
        }
    }

    /// The counter keeps its rate, but is set back into the segment that has just ended.
    #[test]
    fn a_closed_segment_is_not_read_again() {
        for back_ns in (100_000..4_000_000).step_by(50_000) {
            let machine = Machine::new();
            let mut last_ns = 0;
            for _ in 0..300 {
                machine.wait(10_000.0);
                last_ns = machine.now_ns();
            }
            // The segment has ended, and a reading was served by the clock while another thread was making the next
            // one.
            machine.wait(1.1e6);
            let ownership = machine.following().become_owner().expect("no other owner");
            last_ns = last_ns.max(machine.now_ns());
            drop(ownership);
            Event::CounterBack(f64::from(back_ns)).happen(&machine);
            for _ in 0..100 {
                let now_ns = machine.now_ns();
                assert!(now_ns >= last_ns, "{last_ns}, then {now_ns} after {back_ns} ns back");
                last_ns = now_ns;
                machine.wait(10_000.0);
            }
        }
    }

    proptest! {
        /// If the counters of the cores differ by offsets, readings differ by no more than these offsets, whichever
        /// core makes the segments.
        #[test]
        fn readings_on_different_cores_differ_at_most_by_the_core_offset(
            looks in proptest::collection::vec((0..4_usize, 20.0..2e5_f64), 100..400),
            ahead_ns in proptest::array::uniform4(-50.0..50.0_f64),
        ) {
            let machine = Machine::new();
            let apart_ns = ahead_ns.iter().fold(0.0_f64, |most, ns| most.max(ns.abs())) * 2.0;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a hundred nanoseconds")]
            let apart_ns = apart_ns as u64 + 2;
            let mut last_ns = 0;
            for (core, wait_ns) in looks {
                machine.wait(wait_ns);
                machine.core_is_ahead_by.set(ahead_ns[core] * machine.hertz.get() / 1e9);
                let (now_ns, off_ns) = machine.look();
                prop_assert!(now_ns + apart_ns >= last_ns, "{last_ns}, then {now_ns}: {apart_ns} ns apart at most");
                // The offset counts twice, because the two points that determine a rate may come from two cores, one
                // segment apart.
                prop_assert!(off_ns <= 2 * apart_ns + 60, "{off_ns} ns off, {apart_ns} ns apart");
                last_ns = now_ns;
            }
        }
    }

    #[test]
    fn a_core_that_is_behind_can_read_a_segment_that_has_just_started() {
        const BEHIND_NS: f64 = 800.0;
        let machine = Machine::new();
        let mut worst_ns = 0;
        for _ in 0..1_000 {
            machine.wait(150_000.0);
            // One core makes all segments, and the other core reads the time immediately afterwards.
            machine.core_is_ahead_by.set(0.0);
            machine.look();
            machine.core_is_ahead_by.set(-BEHIND_NS * machine.hertz.get() / 1e9);
            worst_ns = worst_ns.max(machine.look().1);
        }
        assert!(worst_ns <= 900, "{worst_ns} ns, on a core that is 800 ns behind");
    }

    #[test]
    fn a_constant_rate_clock_is_followed_within_nanoseconds() {
        for ppm in [0.0, 500.0, -500.0] {
            let machine = Machine::new();
            machine.bent_ppm.set(ppm);
            machine.now_ns();
            let mut worst_ns = 0;
            for _ in 0..200_000 {
                machine.wait(3_000.0);
                worst_ns = worst_ns.max(machine.look().1);
            }
            assert!(worst_ns <= 60, "{worst_ns} ns at {ppm} ppm, with the first segments");
            let worst_ns = (0..100_000)
                .map(|_| {
                    machine.wait(3_000.0);
                    machine.look().1
                })
                .max();
            assert!(worst_ns <= Some(2), "{worst_ns:?} ns at {ppm} ppm");
            assert_eq!(machine.following().remembered().jumps, 0);
        }
    }

    #[test]
    fn a_segment_that_ran_ahead_ends_without_a_backward_step() {
        let machine = Machine::new();
        let mut last_ns = 0;
        for round in 0..100_000 {
            // The clock alternates between two rates that differ by 1000 ppm, with a period of about 10 ms.
            machine.bent_ppm.set(if round % 20_000 < 10_000 { 500.0 } else { -500.0 });
            machine.wait(500.0);
            let now_ns = machine.now_ns();
            assert!(now_ns >= last_ns, "{last_ns}, then {now_ns}");
            last_ns = now_ns;
        }
        assert!(machine.following().remembered().rate_changes >= 8);
    }

    #[test]
    fn the_time_is_right_immediately_after_a_suspend() {
        for event in [Event::Suspend(3.6e12), Event::SuspendAndReset, Event::CounterBack(3e6), Event::Wait(1e13)] {
            let machine = Machine::new();
            for _ in 0..1_000 {
                machine.wait(10_000.0);
                machine.now_ns();
            }
            // The event happens after the active segment has ended, as in a suspended machine. The effect of an event
            // within a segment is limited to that segment.
            machine.wait(2e6);
            event.happen(&machine);
            for _ in 0..1_000 {
                machine.wait(10_000.0);
                let (_, off_ns) = machine.look();
                assert!(off_ns <= 100, "{off_ns} ns off after {event:?}");
            }
        }
    }
    #[test]
    fn after_a_migration_the_clock_restarts_without_a_wrong_point() {
        let machine = Machine::new();
        let learn = || {
            for _ in 0..1_000 {
                machine.wait(10_000.0);
                machine.now_ns();
            }
        };
        learn();
        // The new rate differs so little that the points alone would suggest a slewed clock.
        machine.hertz.set(machine.hertz.get() * 1.000_9);
        machine.marker.set(0);
        machine.wait(2e6);
        for _ in 0..100 {
            machine.wait(10_000.0);
            assert_eq!(machine.look().1, 0, "during the move, the clock serves readings");
        }
        assert!(machine.following().remembered().rate().is_some(), "no error has been detected yet");
        machine.marker.set(2);
        assert_eq!(machine.look().1, 0);
        assert_eq!(machine.following().remembered().rate(), None, "everything learned is discarded");
        assert_eq!(machine.following().disruptions(), 1);
        learn();
        assert!(machine.look().1 <= 2);
        assert_eq!(machine.following().disruptions(), 1);
    }

    /// Creates a machine whose rate has been learned.
    fn settled() -> Machine {
        let machine = Machine::new();
        for _ in 0..2_000 {
            machine.wait(10_000.0);
            machine.now_ns();
        }
        machine
    }

    #[test]
    fn after_a_jump_the_bound_covers_the_lead_of_the_last_segment() {
        let mut worst_ns = 0;
        for part in 1..20 {
            let machine = settled();
            machine.wait(2e6);
            machine.now_ns();
            // The machine stops in the middle of a segment, and the counter has another value when the machine
            // continues.
            machine.wait(f64::from(part) * 45_000.0);
            Event::SuspendAndReset.happen(&machine);
            let (_, off_ns) = machine.look();
            assert!(machine.following().remembered().rate().is_none());
            worst_ns = worst_ns.max(off_ns);
            let stated_ns = machine.bound_ns();
            assert!(off_ns <= stated_ns + 100, "{off_ns} ns off, stated {stated_ns}");
        }
        assert!(worst_ns > 100_000, "{worst_ns} ns: the last segment was ahead");
    }

    impl Machine {
        /// Reads the time every 100 µs until `before_ns` before the kernel's next second, so that the rate is well
        /// known.
        fn follow_until_a_second_is_near(&self, before_ns: f64) {
            let second_ns = ((self.clock_ns.get() + before_ns + 2e8) / 1e9).floor() * 1e9 + 1e9;
            self.wait(second_ns - 2e8 - self.clock_ns.get());
            while self.clock_ns.get() + 100_100.0 < second_ns - before_ns {
                self.wait(100_000.0);
                self.now_ns();
            }
        }
    }

    #[test]
    fn while_an_offset_is_slewed_every_reading_is_within_the_stated_bound() {
        for (offset_ms, most_ns) in
            [(10.0, 3_000), (100.0, 25_000), (300.0, 75_000), (-10.0, 3_000), (-100.0, 25_000), (-300.0, 75_000)]
        {
            for time_constant in 1..=6 {
                let mut off_ns = 0;
                for every_ns in [3_000.0, 70_000.0, 1.3e6] {
                    let machine = settled();
                    machine.time_constant.set(time_constant);
                    machine.offset_ns.set(offset_ms * 1e6);
                    for phase_ns in [0.0, 400_000.0, 1_900_000.0] {
                        machine.follow_until_a_second_is_near(2e6 + phase_ns);
                        let worst = machine.worst_over(every_ns, 6e6);
                        let what = format!(
                            "{offset_ms} ms at the time constant {time_constant}, every {every_ns} ns, {phase_ns} ns"
                        );
                        assert_eq!((worst.1, worst.2), (0, 0), "over the bound, and back: {what}, {} ns off", worst.0);
                        off_ns = off_ns.max(worst.0);
                    }
                }
                println!("{offset_ms} ms at the time constant {time_constant}: {off_ns} ns off");
                assert!(off_ns <= most_ns, "{off_ns} ns off at {offset_ms} ms, time constant {time_constant}");
            }
        }
    }

    #[test]
    fn while_the_frequency_or_tick_changes_every_reading_is_within_the_stated_bound() {
        for (what, frequency_ppm, tick_ppm) in
            [("frequency", 500.0, 0.0), ("frequency", -500.0, 0.0), ("tick", 0.0, 100_000.0), ("tick", 0.0, -100_000.0)]
        {
            let (mut off_ns, mut back_ns) = (0, 0);
            for every_ns in [3_000.0, 70_000.0, 1.3e6] {
                let machine = settled();
                for round in 0..6 {
                    machine.follow_until_a_second_is_near(2e6);
                    // The value goes to one limit, to the other limit, and back to zero.
                    let part = [1.0, -1.0, 0.0][round % 3];
                    machine.bent_ppm.set(part * frequency_ppm);
                    machine.tick_ppm.set(part * tick_ppm);
                    let worst = machine.worst_over(every_ns, 6e6);
                    assert_eq!(
                        worst.1, 0,
                        "over the bound: {what} {frequency_ppm} {tick_ppm}, round {round}: {} ns off",
                        worst.0
                    );
                    (off_ns, back_ns) = (off_ns.max(worst.0), back_ns.max(worst.2));
                }
            }
            println!("{what} {frequency_ppm} {tick_ppm}: {off_ns} ns off, {back_ns} ns back");
            assert_eq!(back_ns, 0, "one thread never sees time go back");
        }
    }

    /// This happens after setns(CLONE_NEWTIME) in a running program, or if CRIU restores a process without a time
    /// namespace.
    #[test]
    fn a_clock_that_goes_back_is_followed_at_once() {
        for back_ns in [600e9, 1e9, 150e6] {
            // The clock goes back within a segment, or long after its end.
            for pause_ns in [0.0, 400_000.0, 3e6] {
                let machine = settled();
                let before_ns = machine.now_ns();
                machine.wait(pause_ns);
                machine.clock_ns.set(machine.clock_ns.get() - back_ns);
                // The rest of the active segment, at most a millisecond, still returns the old time.
                machine.wait(1e6);
                let mut last_ns = 0;
                for _ in 0..1_000 {
                    let (now_ns, off_ns) = machine.look();
                    assert!(off_ns <= 1_000, "{off_ns} ns off, {back_ns} ns back");
                    assert!(now_ns < before_ns && now_ns >= last_ns, "{last_ns}, then {now_ns}");
                    last_ns = now_ns;
                    machine.wait(100_000.0);
                }
                assert_eq!(restarts(machine.following().published), 1);
                assert!(machine.following().remembered().rate().is_some(), "the rate is learned again");
            }
        }
    }

    #[test]
    fn a_reading_from_before_a_backward_step_does_not_hold_up_the_clock() {
        let machine = settled();
        let stale_ns = machine.now_ns();
        machine.clock_ns.set(machine.clock_ns.get() - 600e9);
        machine.wait(2e6);
        machine.now_ns();
        // A thread that was stopped before the clock went back records its reading only now.
        let published = machine.following().published;
        published.answer_slowly(published.in_force().state, stale_ns);
        machine.wait(2e6);
        for _ in 0..100 {
            let (_, off_ns) = machine.look();
            assert!(off_ns <= 1_000, "{off_ns} ns off");
            machine.wait(100_000.0);
        }
        assert_eq!(restarts(published), 2);
    }

    #[test]
    fn no_other_event_counts_as_a_backward_step() {
        for event in [
            Event::Suspend(3.6e12),
            Event::SuspendAndReset,
            Event::CounterBack(3e6),
            Event::Wait(1e13),
            Event::OtherRate(1e9),
        ] {
            let machine = settled();
            event.happen(&machine);
            for _ in 0..1_000 {
                machine.wait(10_000.0);
                machine.now_ns();
            }
            assert_eq!(restarts(machine.following().published), 0, "{event:?}");
        }
    }

    /// The kernel reads its clock from a slow device that a hypervisor emulates, but still offers the counter.
    #[test]
    fn a_slow_clock_is_read_about_once_per_reading() {
        const ANSWERS: u32 = 20_000;
        for (cost_ns, most_reads) in
            [(60.0, 1.0), (1_500.0, 1.0), (10_000.0, 1.0), (19_000.0, 1.2), (25_000.0, 1.2), (60_000.0, 1.2)]
        {
            let machine = Machine::new();
            machine.clock_costs_ns.set(cost_ns);
            let follow = |answers| {
                for _ in 0..answers {
                    machine.wait(100.0);
                    machine.now_ns();
                }
            };
            follow(2_000);
            let reads = machine.clock_reads.get();
            follow(ANSWERS);
            #[expect(clippy::cast_precision_loss, reason = "a million")]
            let reads = (machine.clock_reads.get() - reads) as f64 / f64::from(ANSWERS);
            println!("a clock read takes {cost_ns} ns: {reads:.2} of them per reading");
            assert!(reads <= most_reads, "{reads} clock reads per reading, of {cost_ns} ns each");
        }
    }

    #[test]
    fn a_clock_is_followed_again_once_it_is_fast_again() {
        let machine = settled();
        machine.clock_costs_ns.set(60_000.0);
        for _ in 0..20_000 {
            machine.wait(1_000.0);
            machine.now_ns();
        }
        assert!(machine.following().is_pausing());
        machine.clock_costs_ns.set(20.0);
        // The longest pause is about a second.
        for _ in 0..12_000 {
            machine.wait(100_000.0);
            machine.now_ns();
        }
        assert!(!machine.following().is_pausing());
        let reads = machine.clock_reads.get();
        machine.wait(100.0);
        machine.now_ns();
        machine.wait(100.0);
        machine.now_ns();
        assert!(machine.clock_reads.get() <= reads + 12, "a segment serves readings");
    }

    #[test]
    fn a_clock_that_goes_back_during_a_pause_is_followed() {
        let machine = settled();
        machine.clock_costs_ns.set(60_000.0);
        for _ in 0..20_000 {
            machine.wait(1_000.0);
            machine.now_ns();
        }
        machine.clock_ns.set(machine.clock_ns.get() - 600e9);
        machine.now_ns();
        assert!(machine.look().1 <= 60_000);
    }

    /// The kernel drops the counter because the counter of one core has an offset, and reads another device instead.
    /// The kernel's clock stays correct.
    #[test]
    fn a_counter_that_the_kernel_drops_is_abandoned_within_a_second() {
        for apart_ns in [800.0, 5_000.0, 50_000.0, 300_000.0, 2e6] {
            for (cost_ns, most_wait_ns) in [(1_500.0, 40_000.0), (25_000.0, 40_000.0), (1_500.0, 3e8)] {
                let machine = settled();
                machine.is_offered.set(false);
                machine.clock_costs_ns.set(cost_ns);
                let mut state = 12_345_u64;
                let look = |state: &mut u64| {
                    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let ahead_ns = if *state >> 63 == 1 { apart_ns } else { 0.0 };
                    machine.core_is_ahead_by.set(ahead_ns * machine.hertz.get() / 1e9);
                    machine.wait(
                        f64::from(u16::try_from(*state >> 48 & 0x7fff).expect("15 bits")) / 32_768.0 * most_wait_ns,
                    );
                    machine.look()
                };
                let start_ns = machine.true_ns.get();
                while !machine.is_left.get() && machine.true_ns.get() < start_ns + 1e9 {
                    look(&mut state);
                }
                assert!(machine.is_left.get(), "{apart_ns} ns apart, a reading takes {cost_ns} ns");
                machine.wait(2e6);
                let mut last_ns = 0;
                for _ in 0..10_000 {
                    let (now_ns, off_ns) = look(&mut state);
                    assert!(now_ns >= last_ns && off_ns == 0, "{off_ns} ns off, {last_ns} and then {now_ns}");
                    last_ns = now_ns;
                }
                assert_eq!(machine.bound_ns(), 0);
            }
        }
    }

    #[test]
    fn repeated_jumps_of_a_counter_trigger_a_check_of_the_clocksource() {
        let machine = settled();
        machine.is_offered.set(false);
        // The kernel now reads another counter, which is as fast as the old one.
        for round in 0..2_000 {
            machine.core_is_ahead_by.set(if round % 2 == 0 { 0.0 } else { 1e6 });
            for _ in 0..20 {
                machine.wait(10_000.0);
                machine.now_ns();
            }
        }
        assert!(machine.is_left.get());
    }

    #[test]
    fn a_slower_clock_triggers_one_check_and_then_counts_as_normal() {
        let machine = settled();
        machine.clock_costs_ns.set(1_500.0);
        for _ in 0..100_000 {
            machine.wait(10_000.0);
            machine.now_ns();
        }
        assert_eq!((machine.questions.get(), machine.is_left.get()), (1, false));
        assert!(machine.look().1 <= 1_500);
    }

    #[test]
    fn an_ordinary_machine_never_triggers_a_check() {
        let machine = settled();
        for event in [Event::Suspend(3.6e12), Event::SuspendAndReset, Event::Wait(1e10), Event::Bend(500.0)] {
            event.happen(&machine);
            for round in 0..20_000 {
                // One bracket in ten is wide.
                machine.clock_costs_ns.set(if round % 10 == 0 { 9_000.0 } else { 20.0 });
                machine.wait(110_000.0);
                machine.now_ns();
            }
        }
        assert_eq!(machine.questions.get(), 0);
    }

    /// A signal handler that leaves a reading with longjmp leaves an owner behind, and so does a thread that is
    /// canceled during a reading.
    #[test]
    fn after_a_reading_that_never_returned_readings_come_from_the_kernels_clock() {
        let machine = settled();
        machine.wait(2e6);
        std::mem::forget(machine.following().become_owner().expect("no other owner"));
        let mut last_ns = 0;
        for _ in 0..10_000 {
            machine.wait(10_000.0);
            let (now_ns, off_ns) = machine.look();
            assert!(off_ns == 0 && now_ns >= last_ns, "{off_ns} ns off; {last_ns}, then {now_ns}");
            last_ns = now_ns;
        }
        assert!(machine.following().become_owner().is_none(), "the source cannot be changed any more");
    }

    /// Two processes follow the same clock, each with its own segments, while its frequency correction changes from one
    /// extreme to the other.
    #[test]
    fn two_processes_differ_by_less_than_two_microseconds() {
        let machine = settled();
        let other = ClockWords::default();
        let in_the_other = || {
            let following = Following { published: Published::new(&other), ..machine.following() };
            following.now_ns().expect("no other instruments are used")
        };
        let (mut last_ns, mut back_ns) = (0, 0);
        for round in 0..400_000_u32 {
            machine.bent_ppm.set(if round / 20_000 % 2 == 0 { 500.0 } else { -500.0 });
            machine.wait(f64::from(round % 7) * 400.0);
            let now_ns = if round % 2 == 0 { machine.now_ns() } else { in_the_other() };
            back_ns = back_ns.max(u64::saturating_sub(last_ns, now_ns));
            last_ns = now_ns;
        }
        println!("up to {back_ns} ns back between processes");
        assert!((1..2_000).contains(&back_ns), "{back_ns} ns back");
    }

    /// A slow answer is passed on while another thread makes the next segment and the kernel's tick is a tenth longer
    /// than usual.
    #[test]
    fn with_a_changed_tick_a_reading_may_be_a_few_microseconds_below_an_earlier_one() {
        use super::super::segment::{OLDEST_NS, Point, Rate, Segment};
        let mut worst_ns = 0;
        for age_ns in (0..OLDEST_NS).step_by(500) {
            // The rate was learned before the tick changed: one tick of the counter is one nanosecond.
            let rate = Rate { slope: 1 << 32, uncertainty_ppb: 1_000 };
            let point = Point { ticks: 1_000_000, ns: 5_000_000, width_ns: 30 };
            let answer_ns = point.ns + 15 + age_ns * 11 / 10;
            let segment = Segment::following(point.seen_after(answer_ns, rate), rate, 0);
            let read_ns = segment.at(point.ticks + age_ns).expect("a point that is recent enough");
            worst_ns = worst_ns.max(u64::saturating_sub(answer_ns, read_ns));
        }
        println!("up to {worst_ns} ns below the preceding reading");
        assert!((1_500..=2_200).contains(&worst_ns), "{worst_ns} ns");
    }
}
