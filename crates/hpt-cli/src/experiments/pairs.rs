//! What two reads in a row differ by, one after the other and after pauses.

use std::time::{Duration, Instant};

use hpt_core::{Sleeper, TimeSource, measure::read_pairs, sleep::Strategy};

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::{Measured, Tally},
    instruments::{Chosen, cycles, cycles_remark, outlook_of},
};
use crate::{exit::Failure, signals::Signals};

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

/// Pairs in a row between two looks at Ctrl-C: some milliseconds.
const IN_A_ROW_AT_ONCE: u64 = 100_000;
const IN_A_ROW: [&str; 2] = ["in a row, system's clock", "in a row, cycle counter"];
const EACH_SECOND: [&str; 2] = ["each second, system's clock", "each second, cycle counter"];
const IN_TURN: [&str; 2] = ["1 s and 5 s in turn, system's clock", "1 s and 5 s in turn, cycle counter"];
/// What was made is kept so often.
const KEEP_EVERY: Duration = Duration::from_secs(20);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pairs",
    title: "what two reads in a row differ by, on the average: one after the other, each second, and 1 s and 5 s in turn",
    published_in: "paper (2020), Table 1 and Figures 3 to 5",
    hardware: "BeagleBone Black, AM3358 (Cortex-A8, 1 GHz), Linux 4.9.59-rt; getnstimeofday beside the cycle counter",
    differs: "there in the kernel, here in a program; where programs are not let at a cycle counter, the best counter of this machine stands in its place",
    published: &[
        published(IN_A_ROW[0], 288.0),
        published(IN_A_ROW[1], 6.0),
        published(EACH_SECOND[0], 485.0),
        published(EACH_SECOND[1], 26.0),
        published(IN_TURN[0], 666.0),
        published(IN_TURN[1], 40.0),
    ],
    way: Some(|context, _| outlook_of(context, cycles)),
    parts: &[
        Part {
            name: "in a row",
            count: 1_000,
            short: 1_000,
            each: Duration::from_micros(1),
            continues: false,
            measure: in_a_row,
        },
        Part {
            name: "each second",
            count: 1_000,
            short: 3,
            each: Duration::from_secs(1),
            continues: true,
            measure: each_second,
        },
        Part {
            name: "1 s and 5 s in turn",
            count: 1_000,
            short: 2,
            each: Duration::from_secs(3),
            continues: true,
            measure: in_turn,
        },
    ],
};

fn in_a_row(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, IN_A_ROW, &[])
}

fn each_second(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, EACH_SECOND, &[Duration::from_secs(1)])
}

fn in_turn(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, IN_TURN, &[Duration::from_secs(1), Duration::from_secs(5)])
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &Run<'_>, what: [&str; 2], waits: &[Duration]) -> Result<Vec<Measured>, Failure> {
    let mut chosen: Vec<(Chosen, &str)> = vec![(run.context.open("monotonic").map(Chosen::of)?, what[0])];
    let mut found = Vec::new();
    match cycles(run.context) {
        Ok(cycles) => chosen.push((cycles, what[1])),
        Err(why) => found.push(Measured::missing(what[1], "ns", why)),
    }
    let sources: Vec<&dyn TimeSource> = chosen.iter().map(|(chosen, _)| chosen.opened.as_dyn()).collect();
    let rates: Vec<_> = sources.iter().map(|&source| run.rate(source)).collect();
    let mut tallies: Vec<Tally> = chosen.iter().map(|_| Tally::default()).collect();
    tallies.iter_mut().zip(&chosen).for_each(|(tally, (_, what))| tally.go_on(run.before, what, 1.0));
    let mut sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
    let _listening = Signals::interrupts(sleeper.interrupter())?;

    // Whole turns, so that each stretch begins as the first did.
    let turn: Duration = waits.iter().sum();
    let turns = KEEP_EVERY.as_nanos().checked_div(turn.as_nanos()).unwrap_or(0);
    let stretch = u64::try_from(turns).unwrap_or(1).max(1) * waits.len() as u64;
    let stretch = if waits.is_empty() { IN_A_ROW_AT_ONCE } else { stretch };
    let (mut done, mut kept) = (0, Instant::now());
    while done < run.count && run.goes_on() {
        let before = done;
        let asked = stretch.min(run.count - done);
        let pairs = read_pairs(&sources, waits, asked, |wait| {
            (run.progress)(done as f64 / run.count as f64);
            done += 1;
            run.goes_on() && sleeper.sleep(wait).is_in_time() && run.goes_on()
        });
        if waits.is_empty() {
            (run.progress)(done as f64 / run.count as f64);
            done += asked;
        }
        for ((tally, pairs), rate) in tallies.iter_mut().zip(&pairs).zip(&rates) {
            if let Ok(rate) = rate {
                tally.add_ticks(&pairs.differences, rate.tick_ns_f64());
            }
        }
        // A pair whose pause was ended is not made.
        done = if run.goes_on() { done } else { before + pairs.first().map_or(0, |pairs| pairs.differences.samples()) };
        if done < run.count && (kept.elapsed() >= KEEP_EVERY || !run.goes_on()) {
            kept = Instant::now();
            (run.keep)(done, figures(&tallies, &chosen, &rates));
        }
    }
    found.extend(figures(&tallies, &chosen, &rates));
    Ok(found)
}

fn figures(
    tallies: &[Tally],
    chosen: &[(Chosen, &str)],
    rates: &[Result<hpt_core::Frequency, String>],
) -> Vec<Measured> {
    let each = tallies.iter().zip(chosen).zip(rates);
    let figures = each.filter_map(|((tally, (chosen, what)), rate)| match rate {
        Ok(_) => {
            let how = format!("{}{}", chosen.how, cycles_remark(chosen.opened.as_dyn()));
            tally.figure(what, 1.0, "ns", how)
        }
        Err(why) => Some(Measured::missing(what, "ns", why.as_str())),
    });
    figures.collect()
}
