//! The interval between two back-to-back reads, without pauses and after pauses.

use std::time::{Duration, Instant};

use hpt_core::{Sleeper, TimeSource, measure::back_to_back_reads, sleep::Strategy};

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::{Measured, Tally},
    instruments::{Chosen, cycles, cycles_remark, preflight_of},
};
use crate::{context::continue_if, exit::Failure, signals::Signals};

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

/// The initial number of pairs that are read between two checks for Ctrl-C.
const FIRST_STRETCH: u64 = 1_000;
/// The maximum number of pairs that are read between two checks for Ctrl-C.
const LONGEST_STRETCH: u64 = 100_000;
/// The intended time between two checks for Ctrl-C. A pair takes from 20 ns to 100 µs, depending on the source, on the
/// build, and on whether the system is emulated.
const CHECK_EVERY: Duration = Duration::from_millis(50);
const IN_A_ROW: [&str; 2] = ["back to back, system clock", "back to back, cycle counter"];
const EACH_SECOND: [&str; 2] = ["every second, system clock", "every second, cycle counter"];
const IN_TURN: [&str; 2] =
    ["alternating 1 s and 5 s pauses, system clock", "alternating 1 s and 5 s pauses, cycle counter"];
/// The time between two saves of the counts.
const KEEP_EVERY: Duration = Duration::from_secs(20);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pairs",
    brief: "interval between two back-to-back reads",
    title: "mean interval between two back-to-back reads: without pauses, every second, and with alternating 1 s and 5 s pauses",
    published_in: "paper (2020), Table 1 and Figures 3 to 5",
    hardware: "BeagleBone Black, AM3358 (Cortex-A8, 1 GHz), Linux 4.9.59-rt; getnstimeofday compared with the cycle counter",
    differs: "the paper measured in the kernel, but hpt measures in a program; if programs cannot read a cycle counter, hpt uses the best counter of this machine instead",
    main: IN_A_ROW[0],
    published: &[
        published(IN_A_ROW[0], 288.0),
        published(IN_A_ROW[1], 6.0),
        published(EACH_SECOND[0], 485.0),
        published(EACH_SECOND[1], 26.0),
        published(IN_TURN[0], 666.0),
        published(IN_TURN[1], 40.0),
    ],
    way: Some(|context, _| preflight_of(context, cycles)),
    parts: &[
        Part {
            name: "back to back",
            count: 1_000,
            short: 1_000,
            each: Duration::from_micros(1),
            continues: false,
            measure: in_a_row,
        },
        Part {
            name: "every second",
            count: 1_000,
            short: 3,
            each: Duration::from_secs(1),
            continues: true,
            measure: each_second,
        },
        Part {
            name: "alternating 1 s and 5 s pauses",
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
        Err(why) => found.push(Measured::unavailable(what[1], "ns", why)),
    }
    let sources: Vec<&dyn TimeSource> = chosen.iter().map(|(chosen, _)| chosen.opened.as_dyn()).collect();
    let rates: Vec<_> = sources.iter().map(|&source| run.rate(source)).collect();
    let mut tallies: Vec<Tally> = chosen.iter().map(|_| Tally::default()).collect();
    tallies.iter_mut().zip(&chosen).for_each(|(tally, (_, what))| tally.go_on(run.before, what, 1.0));
    let mut sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
    let _listening = Signals::interrupts(sleeper.waker())?;

    // A stretch consists of whole cycles of pauses, so that the next stretch begins with the first pause.
    let turn: Duration = waits.iter().sum();
    let turns = KEEP_EVERY.as_nanos().checked_div(turn.as_nanos()).unwrap_or(0);
    let stretch = u64::try_from(turns).unwrap_or(1).max(1) * waits.len() as u64;
    let mut stretch = if waits.is_empty() { FIRST_STRETCH } else { stretch };
    let (mut done, mut kept) = (0, Instant::now());
    while done < run.count && run.goes_on() {
        let before = done;
        let (asked, began) = (stretch.min(run.count - done), Instant::now());
        let pairs = back_to_back_reads(&sources, waits, asked, |wait| {
            (run.progress)(done as f64 / run.count as f64);
            done += 1;
            continue_if(run.goes_on() && sleeper.sleep(wait).is_in_time() && run.goes_on())
        });
        if waits.is_empty() {
            (run.progress)(done as f64 / run.count as f64);
            done += asked;
            stretch = next_stretch(stretch, began.elapsed());
        }
        for ((tally, pairs), rate) in tallies.iter_mut().zip(&pairs).zip(&rates) {
            if let Ok(rate) = rate {
                tally.add_ticks(&pairs.differences, rate.tick_ns_f64());
            }
        }
        // No pair is read if its pause was interrupted.
        done = if run.goes_on() { done } else { before + pairs.first().map_or(0, |pairs| pairs.differences.samples()) };
        if done < run.count && (kept.elapsed() >= KEEP_EVERY || !run.goes_on()) {
            kept = Instant::now();
            (run.keep)(done, figures(&tallies, &chosen, &rates));
        }
    }
    found.extend(figures(&tallies, &chosen, &rates));
    Ok(found)
}

/// Returns the number of pairs to read before the next check for Ctrl-C, based on the time that the previous ones took.
fn next_stretch(stretch: u64, took: Duration) -> u64 {
    let next = match took {
        _ if took > CHECK_EVERY => stretch / 2,
        _ if took < CHECK_EVERY / 4 => stretch * 2,
        _ => stretch,
    };
    next.clamp(1, LONGEST_STRETCH)
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
        Err(why) => Some(Measured::unavailable(what, "ns", why.as_str())),
    });
    figures.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CHECK_EVERY, FIRST_STRETCH, LONGEST_STRETCH, next_stretch};

    #[test]
    fn ctrl_c_is_checked_often_however_long_a_pair_takes() {
        for pair_ns in [20, 1_000, 100_000, 10_000_000] {
            let took = |stretch: u64| Duration::from_nanos(pair_ns * stretch);
            let mut stretch = FIRST_STRETCH;
            for _ in 0..20 {
                stretch = next_stretch(stretch, took(stretch));
            }
            let is_longest = stretch == LONGEST_STRETCH && took(stretch) < CHECK_EVERY;
            assert!(
                took(stretch) <= CHECK_EVERY && (is_longest || took(stretch) >= CHECK_EVERY / 5),
                "{pair_ns} ns: {stretch}"
            );
        }
        assert_eq!(next_stretch(1, Duration::from_secs(1)), 1);
    }
}
