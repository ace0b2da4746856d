//! A loop that polls for several events in turn, once per millisecond: the end of a delay, an edge on a GPIO line, and a
//! time of day.

use std::{fmt, ops::ControlFlow, time::Duration};

use hpt_core::{Instant, TimeSource};

use crate::gpio::PinLevel;

/// The time from the start of one round to the start of the next, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000;
/// The time from the start of a round to its time of day.
const TIME_OF_DAY_AFTER_NS: u64 = 500_000;
/// A part of a round that takes longer was disturbed from outside: no edge arrives, or the wall clock was set.
const LONGEST_NS: u64 = 100_000_000;

/// The time from the start of one round of [`event_loop`] to the start of the next.
pub const EVENT_LOOP_PERIOD: Duration = Duration::from_nanos(PERIOD_NS);

/// The latencies of a round, in nanoseconds: of the delay, of the edge if there is a line, and of the time of day.
pub type EventRound = [Option<u64>; 3];

/// A line that is driven, and the register of its level.
#[derive(Clone, Copy)]
pub struct LoopEdge<'a> {
    /// Toggles the line, and returns its new level.
    pub toggle: &'a dyn Fn() -> bool,
    /// The level of the line.
    pub level: &'a PinLevel,
}

impl fmt::Debug for LoopEdge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopEdge").field("level", &self.level).finish_non_exhaustive()
    }
}

/// Runs rounds until `on_round` returns [`ControlFlow::Break`]. Passes it each round, with the number of rounds that were
/// skipped before it because the previous one took too long; `None` is a round that was disturbed from outside: no edge
/// arrived, or the wall clock, which `wall` reads, was set.
pub fn event_loop(
    wall: &dyn TimeSource,
    edge: Option<LoopEdge<'_>>,
    on_round: &mut dyn FnMut(Option<EventRound>, u64) -> ControlFlow<()>,
) {
    rounds(&mut LiveLoop { wall, edge, driven: false }, on_round);
}

/// The events of a round, which tests replace.
trait Events {
    /// Returns the time of a clock that is never set, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Returns the time of day, in nanoseconds.
    fn time_of_day_ns(&self) -> u64;

    /// Causes an edge, and returns whether there is a line.
    fn cause_edge(&mut self) -> bool;

    /// Returns whether the edge has arrived.
    fn has_edge(&self) -> bool;
}

/// Runs rounds until `on_round` returns `Break`. Passes it each round, with the number of rounds that were skipped before
/// it because the previous one took too long; `None` is a round that was disturbed from outside.
fn rounds(events: &mut dyn Events, on_round: &mut dyn FnMut(Option<EventRound>, u64) -> ControlFlow<()>) {
    let (mut start_ns, mut skipped) = (events.now_ns() + PERIOD_NS, 0);
    loop {
        let round = one_round(events, start_ns);
        if on_round(round, skipped).is_break() {
            return;
        }
        skipped = events.now_ns().saturating_sub(start_ns) / PERIOD_NS;
        start_ns += (skipped + 1) * PERIOD_NS;
    }
}

/// Returns the latencies of a round that starts at `start_ns`; `None` if no edge arrived or the wall clock was set.
fn one_round(events: &mut dyn Events, start_ns: u64) -> Option<EventRound> {
    // The time of day is known before the delay ends, as in a program that is given one.
    let end_ns = start_ns + TIME_OF_DAY_AFTER_NS;
    let wanted_ns = time_of_day_at(events, end_ns);
    let delay_ns = poll(events, |events| events.now_ns().checked_sub(start_ns))?;
    let caused_ns = events.now_ns();
    let edge_ns = if events.cause_edge() {
        Some(poll(events, |events| events.has_edge().then(|| events.now_ns() - caused_ns))?)
    } else {
        None
    };
    let late_ns = poll(events, |events| events.time_of_day_ns().checked_sub(wanted_ns))?;
    // Both clocks show the same latency unless the wall clock was set.
    let is_set = late_ns.abs_diff(events.now_ns().saturating_sub(end_ns)) > LONGEST_NS;
    (!is_set).then_some([Some(delay_ns), edge_ns, Some(late_ns)])
}

/// Returns the time of day at a later point in time. It may be early by the time of two readings, so that no latency is
/// below zero.
fn time_of_day_at(events: &dyn Events, at_ns: u64) -> u64 {
    const ATTEMPTS: usize = 10;
    let pairs = (0..ATTEMPTS).map(|_| {
        let (before_ns, time_of_day_ns, after_ns) = (events.now_ns(), events.time_of_day_ns(), events.now_ns());
        (after_ns - before_ns, time_of_day_ns + at_ns.saturating_sub(after_ns))
    });
    pairs.min().expect("there are attempts").1
}

/// Polls until the event has occurred. Returns `None` if it has not occurred for a long time.
fn poll(events: &dyn Events, event: impl Fn(&dyn Events) -> Option<u64>) -> Option<u64> {
    let begun_ns = events.now_ns();
    loop {
        if let Some(latency_ns) = event(events) {
            return Some(latency_ns);
        }
        if events.now_ns() - begun_ns > LONGEST_NS {
            return None;
        }
        std::hint::spin_loop();
    }
}

/// The events on this machine.
struct LiveLoop<'a> {
    wall: &'a dyn TimeSource,
    edge: Option<LoopEdge<'a>>,
    /// The level to which the line was driven.
    driven: bool,
}

impl Events for LiveLoop<'_> {
    #[inline]
    fn now_ns(&self) -> u64 {
        Instant::now().nanos_since(Instant::EPOCH)
    }

    #[inline]
    fn time_of_day_ns(&self) -> u64 {
        self.wall.ticks()
    }

    #[inline]
    fn cause_edge(&mut self) -> bool {
        self.edge.map(|edge| self.driven = (edge.toggle)()).is_some()
    }

    #[inline]
    fn has_edge(&self) -> bool {
        self.edge.is_none_or(|edge| edge.level.is_high() == self.driven)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::ControlFlow};

    use super::{EventRound, Events, LONGEST_NS, PERIOD_NS, TIME_OF_DAY_AFTER_NS, one_round, rounds};

    /// Clocks that advance by 10 ns with each reading, and by a stall when they reach its time.
    struct World {
        now_ns: Cell<u64>,
        wall_ahead_ns: Cell<u64>,
        stalls: Vec<(u64, u64)>,
        /// The time from the cause of an edge to the edge; `None` without a line.
        edge_after_ns: Option<u64>,
        caused_ns: u64,
    }

    impl World {
        fn new(stalls: &[(u64, u64)], edge_after_ns: Option<u64>) -> Self {
            let (now_ns, wall_ahead_ns) = (Cell::new(0), Cell::new(5_000_000_000));
            Self { now_ns, wall_ahead_ns, stalls: stalls.to_vec(), edge_after_ns, caused_ns: 0 }
        }

        fn advance(&self) -> u64 {
            let before = self.now_ns.get();
            let stall: u64 =
                self.stalls.iter().filter(|(at, _)| (before + 1..=before + 10).contains(at)).map(|(_, ns)| ns).sum();
            self.now_ns.set(before + 10 + stall);
            self.now_ns.get()
        }
    }

    impl Events for World {
        fn now_ns(&self) -> u64 {
            self.advance()
        }
        fn time_of_day_ns(&self) -> u64 {
            self.advance() + self.wall_ahead_ns.get()
        }
        fn cause_edge(&mut self) -> bool {
            self.caused_ns = self.now_ns.get();
            self.edge_after_ns.is_some()
        }
        fn has_edge(&self) -> bool {
            self.edge_after_ns.is_some_and(|ns| self.now_ns.get() >= self.caused_ns + ns)
        }
    }

    fn made(world: &mut World, count: u64) -> (Vec<Option<EventRound>>, u64) {
        let (mut all, mut skipped) = (Vec::new(), 0);
        rounds(world, &mut |round, before| {
            all.push(round);
            skipped += before;
            if all.len() as u64 == count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (all, skipped)
    }

    #[test]
    fn each_part_has_a_latency_of_its_own() {
        // The first round starts at 1 ms. A stall at the end of the second round's delay makes only that one late.
        let mut world = World::new(&[(2 * PERIOD_NS, 40_000)], Some(700));
        let (all, skipped) = made(&mut world, 3);
        let late = |round: usize, part: usize| all[round].expect("it is not disturbed")[part].expect("a part");
        assert!(late(0, 0) < 100 && late(1, 0) >= 40_000 && late(2, 0) < 100, "{all:?}");
        assert!((0..3).all(|round| (700..800).contains(&late(round, 1)) && late(round, 2) < 100), "{all:?}");
        assert_eq!(skipped, 0);
        let (all, _) = made(&mut World::new(&[], None), 2);
        assert!(all.iter().all(|round| round.expect("it is not disturbed")[1].is_none()), "{all:?}");
    }

    #[test]
    fn a_round_that_takes_too_long_skips_the_next_ones() {
        let at = PERIOD_NS + TIME_OF_DAY_AFTER_NS;
        let (all, skipped) = made(&mut World::new(&[(at, 3 * PERIOD_NS)], None), 2);
        let late = all[0].expect("a stall is measured")[2].expect("a part");
        assert!(late >= 3 * PERIOD_NS && skipped == 3, "{late} {skipped}");
        assert!(all[1].expect("it is not disturbed")[0].is_some_and(|ns| ns < 100), "{all:?}");
    }

    #[test]
    fn a_wall_clock_that_is_set_and_an_edge_that_does_not_arrive_disturb_a_round() {
        /// A world whose wall clock is set when the edge is caused.
        struct Set(World, u64);
        impl Events for Set {
            fn now_ns(&self) -> u64 {
                self.0.now_ns()
            }
            fn time_of_day_ns(&self) -> u64 {
                self.0.time_of_day_ns()
            }
            fn cause_edge(&mut self) -> bool {
                self.0.wall_ahead_ns.set(self.1);
                false
            }
            fn has_edge(&self) -> bool {
                false
            }
        }
        for ahead_ns in [5_000_000_000 - 4 * LONGEST_NS, 5_000_000_000 + 4 * LONGEST_NS] {
            assert_eq!(one_round(&mut Set(World::new(&[], None), ahead_ns), PERIOD_NS), None, "{ahead_ns}");
        }
        assert_eq!(one_round(&mut World::new(&[], Some(u64::MAX / 2)), PERIOD_NS), None);
    }
}
