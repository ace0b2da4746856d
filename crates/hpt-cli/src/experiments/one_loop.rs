//! A loop that waits for several events in turn: the end of a delay, a GPIO edge and a time of day. Shows whether the
//! worst latencies of its parts add up.

use std::{ops::ControlFlow, time::Duration};

use hpt_core::{Instant, TimeSource};
use hpt_instrument::gpio::PinLevel;
use hpt_realtime::Behavior;

use super::{
    definition::{Experiment, ExperimentRun, Part, Preflight, Published},
    figure::{Measured, Tally},
    instruments::Chosen,
};
use crate::{
    context::{Context, continue_if},
    exit::{Failure, causes},
    sampling::{
        gpio_pulse::{Pulse, drive_words},
        realtime_options::{Alone, RealtimeOptions},
    },
};

/// The time from the start of one round to the start of the next, in nanoseconds.
const PERIOD_NS: u64 = 1_000_000;
/// The time from the start of a round to its time of day.
const TIME_OF_DAY_AFTER_NS: u64 = 500_000;
/// A part of a round that takes longer was disturbed from outside: no edge arrives, or the wall clock was set.
const LONGEST_NS: u64 = 100_000_000;
/// A latency from here on is late: the post states the share of latencies below it.
const LATE_NS: u64 = 3_000;
/// The number of rounds between two updates of the progress bar.
const STRETCH: u64 = 1_000;
const BY: &str = "hpt experiment";

const PARTS: [&str; 3] = ["delay, worst", "GPIO edge, worst", "time of day, worst"];
const SUM_OF_WORST: &str = "sum of the worst";
const WORST_SUM: &str = "worst sum of a round";
const LATE_ROUNDS: &str = "rounds with a late part";
const TWO_LATE: &str = "rounds with two late parts";

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "one-loop",
    brief: "delay, GPIO edge, time of day in one loop",
    title: "latencies of a loop that polls in turn for the end of a delay, for an edge on a GPIO line, and for a time of day, and how often two of them are late in one round",
    published_in: "post (2018)",
    hardware: "Raspberry Pi 3B+, Raspbian 2018-06-27, isolcpus=3, no turbo, SCHED_FIFO, no throttling",
    differs: "the post states in words that it essentially never happens that more than one routine is late, here 0 rounds; hpt polls for the events one after the other, once per millisecond, under SCHED_FIFO 99 if permitted; a part is late from 3 µs on; the edge is that of the line of --pulse, whose level is read back through a register of a Raspberry Pi 1 to 4, without a wire and an interrupt; the throttling, the frequency and the isolated CPUs are those of the system",
    main: TWO_LATE,
    published: &[Published { what: TWO_LATE, value: 0.0, unit: "rounds" }],
    way: Some(|context, ways| {
        let edge = LoopEdges::open(context, ways.pulse.as_ref());
        Ok(Preflight { conditions: vec![edge.map_or_else(|row| row.how, |edges| edges.how())], ..Preflight::default() })
    }),
    parts: &[Part {
        name: "rounds",
        count: 600_000,
        short: 1_000,
        each: Duration::from_nanos(PERIOD_NS),
        continues: false,
        measure,
    }],
};

/// The latencies of one round, in nanoseconds: of the delay, of the edge if there is a line, and of the time of day.
type Round = [Option<u64>; 3];

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
fn rounds(events: &mut impl Events, mut on_round: impl FnMut(Option<Round>, u64) -> ControlFlow<()>) {
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
fn one_round(events: &mut impl Events, start_ns: u64) -> Option<Round> {
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
fn time_of_day_at(events: &impl Events, at_ns: u64) -> u64 {
    const ATTEMPTS: usize = 10;
    let pairs = (0..ATTEMPTS).map(|_| {
        let (before_ns, time_of_day_ns, after_ns) = (events.now_ns(), events.time_of_day_ns(), events.now_ns());
        (after_ns - before_ns, time_of_day_ns + at_ns.saturating_sub(after_ns))
    });
    pairs.min().expect("there are attempts").1
}

/// Polls until the event has occurred. Returns `None` if it has not occurred for a long time.
fn poll<E: Events>(events: &E, event: impl Fn(&E) -> Option<u64>) -> Option<u64> {
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

/// A line that is driven, and the register of its level.
struct LoopEdges<'a> {
    pulse: &'a Pulse,
    level: PinLevel,
}

impl<'a> LoopEdges<'a> {
    /// Returns the line of --pulse, or the row that states why there is no edge.
    fn open(context: &Context, pulse: Option<&'a Pulse>) -> Result<Self, Box<Measured>> {
        let missing = |why: String| Box::new(Measured::unavailable(PARTS[1], "µs", why));
        match pulse {
            Some(pulse) => {
                pulse.level(&context.host).map(|level| Self { pulse, level }).map_err(|error| missing(causes(&error)))
            }
            None => Err(match hpt_instrument::gpio::chips() {
                Ok(_) => {
                    missing("no line was named: --pulse LINE drives an unused line of a Raspberry Pi 1 to 4".to_owned())
                }
                Err(none) => Box::new(Measured::not_applicable(PARTS[1], "µs", causes(&none))),
            }),
        }
    }

    fn how(&self) -> String {
        let (line, drive) = self.pulse.about();
        format!("{line}, driven {}, its level read back from a register", drive_words(drive))
    }
}

/// The events on this machine.
struct LiveLoop<'a> {
    wall: &'a dyn TimeSource,
    edges: Option<&'a LoopEdges<'a>>,
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
        self.edges.map(|edges| self.driven = edges.pulse.toggle()).is_some()
    }

    #[inline]
    fn has_edge(&self) -> bool {
        self.edges.is_none_or(|edges| edges.level.is_high() == self.driven)
    }
}

/// The latencies of all rounds.
#[derive(Default)]
struct LoopRounds {
    parts: [Tally; 3],
    /// The number of late ones among the latencies of each part.
    late: [u64; 3],
    sum: Tally,
    made: u64,
    skipped: u64,
    disturbed: u64,
    /// The number of rounds with at least one late part, and with at least two.
    late_rounds: [u64; 2],
}

impl LoopRounds {
    #[expect(clippy::cast_precision_loss, reason = "latencies are below 2^53 ns")]
    fn add(&mut self, round: Option<Round>, skipped: u64) {
        self.skipped += skipped;
        let Some(round) = round else {
            self.disturbed += 1;
            return;
        };
        let mut late = 0;
        for ((part, all), latency_ns) in self.parts.iter_mut().zip(&mut self.late).zip(round) {
            if let Some(ns) = latency_ns {
                part.add([(ns as f64, 1)].into_iter(), 1.0);
                late += u64::from(ns >= LATE_NS);
                *all += u64::from(ns >= LATE_NS);
            }
        }
        self.sum.add([(round.into_iter().flatten().sum::<u64>() as f64, 1)].into_iter(), 1.0);
        self.made += 1;
        for (at_least, rounds) in [1, 2].into_iter().zip(&mut self.late_rounds) {
            *rounds += u64::from(late >= at_least);
        }
    }

    /// Returns the number of rounds with two late parts or more that is to be expected if the parts are late
    /// independently of each other.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    fn expected_with_two(&self) -> f64 {
        let [one, two, three] = self.late.map(|late| late as f64 / self.made.max(1) as f64);
        (one * two + one * three + two * three - 2.0 * one * two * three) * self.made as f64
    }

    /// Returns all figures, with the row that states why there is no edge.
    #[expect(clippy::cast_precision_loss, reason = "counts are below 2^53")]
    fn figures(&self, no_edge: Option<&Measured>, how: &str) -> Vec<Measured> {
        let how = format!("{how}; {} rounds skipped, {} disturbed", self.skipped, self.disturbed);
        let worst = |tally: &Tally, what: &str| {
            let all = tally.figure(what, 1e3, "µs", how.as_str())?;
            Some(Measured { value: all.max, ..all })
        };
        let parts = self.parts.iter().zip(PARTS).filter_map(|(tally, what)| worst(tally, what));
        let mut found: Vec<_> = parts.collect();
        found.extend(no_edge.cloned());
        if self.made == 0 {
            return found;
        }
        let sum: f64 = found.iter().filter_map(|part| part.value).sum();
        found.push(Measured::figure(SUM_OF_WORST, sum, "µs", self.made, how.as_str()));
        found.extend(worst(&self.sum, WORST_SUM));
        let count = |what, rounds, how: String| Measured::figure(what, rounds as f64, "rounds", self.made, how);
        let [late, two] = self.late_rounds;
        found.push(count(LATE_ROUNDS, late, format!("{how}; a part is late from 3 µs on")));
        let expected = self.expected_with_two();
        found.push(count(
            TWO_LATE,
            two,
            format!("{how}; {expected:.1} expected if the parts are late independently of each other"),
        ));
        found
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    hpt_core::clock::prime();
    let wall = run.context.open("realtime").map(Chosen::of)?;
    let edges = LoopEdges::open(run.context, run.ways.pulse.as_ref());
    let (_, thread) = RealtimeOptions::of_a_core_of_its_own(&Alone::default(), None);
    let held = thread.hold_thread(run.context, run.ways.cpu, Behavior::Spins, BY)?;
    let settings = held.settings().words(run.ways.cpu);
    let how = format!("hpt's clock, using {}; {}; {settings}", hpt_core::clock::source().id, wall.how);
    let (how, no_edge) = match &edges {
        Ok(edges) => (format!("{how}; {}", edges.how()), None),
        Err(row) => (how, Some(&**row)),
    };
    let mut events = LiveLoop { wall: wall.opened.as_dyn(), edges: edges.as_ref().ok(), driven: false };
    let (mut all, mut done) = (LoopRounds::default(), 0);
    rounds(&mut events, |round, skipped| {
        all.add(round, skipped);
        done += 1;
        if done % STRETCH == 0 {
            (run.progress)(done as f64 / run.count as f64);
        }
        continue_if(done < run.count && run.goes_on())
    });
    run.warnings.borrow_mut().extend(held.end());
    Ok(all.figures(no_edge, &how))
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::ControlFlow};

    use hpt_document::experiment::FigureState;

    use super::{
        Events, LONGEST_NS, LoopRounds, Measured, PARTS, PERIOD_NS, Round, SUM_OF_WORST, TIME_OF_DAY_AFTER_NS,
        TWO_LATE, WORST_SUM, one_round, rounds,
    };

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

    fn made(world: &mut World, count: u64) -> (Vec<Option<Round>>, u64) {
        let (mut all, mut skipped) = (Vec::new(), 0);
        rounds(world, |round, before| {
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

    #[test]
    fn the_worst_sum_is_that_of_a_round_and_not_of_the_parts() {
        let mut all = LoopRounds::default();
        let quiet = 1_000_u64;
        for (round, skipped) in [
            (Some([Some(41_000), Some(quiet), Some(quiet)]), 0),
            (Some([Some(quiet), Some(9_000), Some(3_000)]), 2),
            (Some([Some(quiet), Some(quiet), Some(20_000)]), 0),
            (None, 0),
        ] {
            all.add(round, skipped);
        }
        let found = all.figures(None, "here");
        let value = |what: &str| found.iter().find(|figure| figure.what == what).and_then(|figure| figure.value);
        assert_eq!(PARTS.map(value), [41.0, 9.0, 20.0].map(Some));
        assert_eq!((value(SUM_OF_WORST), value(WORST_SUM)), (Some(70.0), Some(43.0)));
        assert_eq!((value(super::LATE_ROUNDS), value(TWO_LATE)), (Some(3.0), Some(1.0)));
        // One of three, one of three, and two of three: (1/9 + 2/9 + 2/9 - 4/27) of three rounds.
        assert!((all.expected_with_two() - 11.0 / 9.0).abs() < 1e-9, "{}", all.expected_with_two());
        assert!(found.iter().all(|figure| figure.how.contains("2 rounds skipped, 1 disturbed")), "{found:?}");
        let no_edge = Measured::not_applicable(PARTS[1], "µs", "no chip");
        let mut without = LoopRounds::default();
        without.add(Some([Some(1_000), None, Some(2_000)]), 0);
        let found = without.figures(Some(&no_edge), "here");
        let edge = found.iter().find(|figure| figure.what == PARTS[1]).expect("a row");
        assert_eq!((edge.standing, edge.how.as_str()), (FigureState::NotApplicable, "no chip"));
        let sum = found.iter().find(|figure| figure.what == SUM_OF_WORST).and_then(|figure| figure.value);
        assert_eq!(sum, Some(3.0));
        assert!(LoopRounds::default().figures(None, "here").is_empty());
    }
}
