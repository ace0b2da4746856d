//! A loop that waits for several events in turn: the end of a delay, a GPIO edge and a time of day. Shows whether the
//! worst latencies of its parts add up.

use hpt_instrument::{
    gpio::PinLevel,
    measure::{EVENT_LOOP_PERIOD, EventRound, LoopEdge, event_loop},
};
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
    parts: &[Part { name: "rounds", count: 600_000, short: 1_000, each: EVENT_LOOP_PERIOD, continues: false, measure }],
};

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
    fn add(&mut self, round: Option<EventRound>, skipped: u64) {
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
    let toggle = || edges.as_ref().is_ok_and(|edges| edges.pulse.toggle());
    let edge = edges.as_ref().ok().map(|edges| LoopEdge { toggle: &toggle, level: &edges.level });
    let (mut all, mut done) = (LoopRounds::default(), 0);
    event_loop(wall.opened.as_dyn(), edge, &mut |round, skipped| {
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
    use hpt_document::experiment::FigureState;

    use super::{LoopRounds, Measured, PARTS, SUM_OF_WORST, TWO_LATE, WORST_SUM};

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
