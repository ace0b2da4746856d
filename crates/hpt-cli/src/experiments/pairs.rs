//! The interval between two back-to-back reads, without pauses and after pauses.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use hpt_core::{Frequency, Sleeper, sleep::Strategy, stats::Histogram};
use hpt_instrument::measure::{PairReads, PairStep, back_to_back_reads, chained_reads};

use super::{
    definition::{Experiment, ExperimentRun, Part, Published, published_ratio},
    figure::{Measured, Tally, ratio},
    instruments::{Chosen, cycles, cycles_remark, preflight_of},
};
use crate::{
    context::continue_if,
    exit::{Failure, causes},
    kernel_reads::{InKernel, in_kernel},
    signals::Signals,
};

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

const IN_A_ROW: [&str; 2] = ["back to back, system clock", "back to back, cycle counter"];
const EACH_SECOND: [&str; 2] = ["every second, system clock", "every second, cycle counter"];
const IN_TURN: [&str; 2] =
    ["alternating 1 s and 5 s pauses, system clock", "alternating 1 s and 5 s pauses, cycle counter"];
const RATIOS: [&str; 3] = ["back to back, ratio", "every second, ratio", "alternating 1 s and 5 s pauses, ratio"];
const CHAIN: u64 = 1_000;
/// The time between two saves of the counts.
const KEEP_EVERY: Duration = Duration::from_secs(20);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pairs",
    brief: "interval between two back-to-back reads",
    title: "mean interval between two back-to-back reads: without pauses, every second, and with alternating 1 s and 5 s pauses",
    published_in: "paper (2020), Table 1 and Figures 3 to 5",
    hardware: "BeagleBone Black, AM3358 (Cortex-A8, 1 GHz), Linux 4.9.59-rt; getnstimeofday compared with the cycle counter",
    differs: "hpt measures in the kernel if the kernel module hpt_cycles is loaded and hpt runs as root, and the pairs in a program are then rows of their own; otherwise hpt measures in a program, which calls the read through a pointer; a pause is a sleep of the program, and a system call follows it; if programs cannot read a cycle counter, hpt uses the best counter of this machine instead; the ordered pairs, which measure a piece of work, are not in the paper",
    main: IN_A_ROW[0],
    published: &[
        published(IN_A_ROW[0], 288.0),
        published(IN_A_ROW[1], 6.0),
        published(EACH_SECOND[0], 485.0),
        published(EACH_SECOND[1], 26.0),
        published(IN_TURN[0], 666.0),
        published(IN_TURN[1], 40.0),
        published_ratio(RATIOS[0], 48.0),
        published_ratio(RATIOS[1], 18.7),
        published_ratio(RATIOS[2], 16.7),
    ],
    way: Some(|context, _| {
        let mut preflight = preflight_of(context, cycles)?;
        preflight.conditions.push(match in_kernel(context) {
            Ok(_) => "also in the kernel, with hpt_cycles".to_owned(),
            Err(why) => format!("in a program only: {}", causes(&why)),
        });
        Ok(preflight)
    }),
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

/// Reads each source 1000 times in a row, as in the paper: in the kernel if possible, and in the program. Ordered pairs
/// follow as rows of their own.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn in_a_row(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let mut kernel = Kernel::of(run, IN_A_ROW);
    // There is one difference fewer than readings.
    kernel.read(run, &[Duration::ZERO], run.count.saturating_sub(1).max(1), &mut kernel_only());
    let (chosen, missing) = sources(run, kernel.names())?;
    let mut found = kernel.figures();
    found.extend(missing);
    for (place, (chosen, what)) in chosen.iter().enumerate() {
        let source = chosen.opened.as_dyn();
        let rate = run.rate(source);
        let (mut chain, mut pairs, mut done) = (Histogram::new(), Histogram::new(), 0);
        while done < run.count && run.goes_on() {
            let reads = CHAIN.min(run.count - done);
            chain.add(&chained_reads(source, usize::try_from(reads).unwrap_or(0)));
            let ordered = [(source, PairReads::Ordered)];
            let ordered = back_to_back_reads(&ordered, &[], reads, &mut |_| ControlFlow::Continue(()));
            ordered.iter().for_each(|ordered| pairs.add(&ordered.differences));
            done += reads;
            (run.progress)((place as f64 + done as f64 / run.count as f64) / 2.0);
        }
        for (what, differences) in [(what.clone(), &chain), (format!("{what}: ordered pairs"), &pairs)] {
            let mut tally = Tally::default();
            tally.add_ticks(differences, rate.as_ref().map_or(1.0, |rate| rate.tick_ns_f64()));
            found.extend(figure_of(&what, &tally, (chosen, &rate)));
        }
    }
    found.extend(ratio(RATIOS[0], &found, IN_A_ROW));
    Ok(found)
}

fn each_second(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    after_pauses(run, (EACH_SECOND, RATIOS[1]), &[Duration::from_secs(1)])
}

fn in_turn(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    after_pauses(run, (IN_TURN, RATIOS[2]), &[Duration::from_secs(1), Duration::from_secs(5)])
}

/// A source, and the name of its row.
type Named = (Chosen, String);

/// Returns the system clock and the cycle counter, and rows for the reason why there is no cycle counter.
fn sources(run: &ExperimentRun<'_>, [clock, counter]: [String; 2]) -> Result<(Vec<Named>, Vec<Measured>), Failure> {
    let mut chosen = vec![(run.context.open("monotonic").map(Chosen::of)?, clock)];
    let mut missing = Vec::new();
    match cycles(run.context) {
        Ok(cycles) => chosen.push((cycles, counter)),
        Err(why) => missing.push(Measured::unavailable(&counter, "ns", why)),
    }
    Ok((chosen, missing))
}

/// The readings that the kernel makes, with the names of their rows; none if the kernel makes no readings.
struct Kernel {
    what: [&'static str; 2],
    readers: Vec<(InKernel, Tally)>,
}

impl Kernel {
    fn of(run: &ExperimentRun<'_>, what: [&'static str; 2]) -> Self {
        let readers = in_kernel(run.context).unwrap_or_default().into_iter().zip(what).map(|(reader, what)| {
            let mut tally = Tally::default();
            tally.go_on(run.before, what, 1.0);
            (reader, tally)
        });
        Self { what, readers: readers.collect() }
    }

    /// Returns the names of the rows of the program. If the kernel makes readings, they have the published names.
    fn names(&self) -> [String; 2] {
        let ending = if self.readers.is_empty() { "" } else { ": in a program" };
        self.what.map(|what| format!("{what}{ending}"))
    }

    /// Reads pairs, one counter after the other, and returns the smallest number of pairs of a counter. If the kernel
    /// refuses to read, for example because perf uses the counter, a warning states the reason.
    fn read(&mut self, run: &ExperimentRun<'_>, waits: &[Duration], count: u64, sleeper: &mut Sleeper) -> u64 {
        let mut fewest = count;
        for (reader, tally) in &mut self.readers {
            let mut differences = Histogram::new();
            let read = reader.read((waits, count), &mut differences, |wait, _| {
                continue_if(run.goes_on() && sleeper.sleep(wait).is_in_time() && run.goes_on())
            });
            if let Err(why) = read {
                run.warnings.borrow_mut().push(causes(&why));
            }
            if let Some(rate) = reader.rate {
                tally.add_ticks(&differences, rate.tick_ns_f64());
            }
            fewest = fewest.min(differences.samples());
        }
        fewest
    }

    fn figures(&self) -> Vec<Measured> {
        let each = self.readers.iter().zip(self.what);
        let figure = |((reader, tally), what): (&(InKernel, Tally), &str)| match reader.rate {
            Some(_) => tally.figure(what, 1.0, "ns", reader.how),
            None => Some(Measured::unavailable(what, "ns", "the rate of arm-cycles could not be measured")),
        };
        each.filter_map(figure).collect()
    }
}

/// Reads pairs, each after a pause of its own, as the paper measured one source after the other.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn after_pauses(
    run: &ExperimentRun<'_>,
    (what, ratio_of): ([&'static str; 2], &str),
    waits: &[Duration],
) -> Result<Vec<Measured>, Failure> {
    let mut kernel = Kernel::of(run, what);
    let (chosen, mut found) = sources(run, kernel.names())?;
    let read: Vec<_> = chosen.iter().map(|(chosen, _)| (chosen.opened.as_dyn(), PairReads::Bare)).collect();
    let rates: Vec<_> = read.iter().map(|(source, _)| run.rate(*source)).collect();
    let mut tallies: Vec<Tally> = chosen.iter().map(|_| Tally::default()).collect();
    tallies.iter_mut().zip(&chosen).for_each(|(tally, (_, what))| tally.go_on(run.before, what, 1.0));
    let mut sleeper = kernel_only();
    let _listening = Signals::interrupts(sleeper.waker())?;

    // A stretch consists of whole cycles of pauses, so that the next stretch begins with the first pause.
    let counters = read.len() + kernel.readers.len();
    let turn = waits.iter().sum::<Duration>() * u32::try_from(counters).unwrap_or(1);
    let turns = KEEP_EVERY.as_nanos().checked_div(turn.as_nanos()).unwrap_or(0);
    let stretch = u64::try_from(turns).unwrap_or(1).max(1) * waits.len() as u64;
    let (mut done, mut made, mut kept) = (0, 0_u64, Instant::now());
    while done < run.count && run.goes_on() {
        let asked = stretch.min(run.count - done);
        let pairs = back_to_back_reads(&read, waits, asked, &mut |step| {
            let PairStep::Pause(wait) = step else { return ControlFlow::Continue(()) };
            (run.progress)(made as f64 / (run.count * counters as u64) as f64);
            made += 1;
            continue_if(run.goes_on() && sleeper.sleep(wait).is_in_time() && run.goes_on())
        });
        for ((tally, pairs), rate) in tallies.iter_mut().zip(&pairs).zip(&rates) {
            if let Ok(rate) = rate {
                tally.add_ticks(&pairs.differences, rate.tick_ns_f64());
            }
        }
        let in_kernel = kernel.read(run, waits, asked, &mut sleeper);
        made += asked * kernel.readers.len() as u64;
        // No pair is read if its pause was interrupted.
        let fewest = pairs.iter().map(|pairs| pairs.differences.samples()).chain([in_kernel]).min().unwrap_or(0);
        done += if run.goes_on() { asked } else { fewest };
        if done < run.count && (kept.elapsed() >= KEEP_EVERY || !run.goes_on()) {
            kept = Instant::now();
            (run.keep)(done, [kernel.figures(), figures(&tallies, &chosen, &rates)].concat());
        }
    }
    found.extend(kernel.figures());
    found.extend(figures(&tallies, &chosen, &rates));
    found.extend(ratio(ratio_of, &found, what));
    Ok(found)
}

fn kernel_only() -> Sleeper {
    Sleeper::new().with_strategy(Strategy::KernelOnly)
}

fn figures(tallies: &[Tally], chosen: &[Named], rates: &[Result<Frequency, String>]) -> Vec<Measured> {
    let each = tallies.iter().zip(chosen).zip(rates);
    each.filter_map(|((tally, (chosen, what)), rate)| figure_of(what, tally, (chosen, rate))).collect()
}

/// Returns the mean and the distribution, or the reason why the tick rate is unknown.
fn figure_of(what: &str, tally: &Tally, (chosen, rate): (&Chosen, &Result<Frequency, String>)) -> Option<Measured> {
    match rate {
        Ok(_) => {
            let how = format!("{}{}", chosen.how, cycles_remark(chosen.opened.as_dyn()));
            tally.figure(what, 1.0, "ns", how)
        }
        Err(why) => Some(Measured::unavailable(what, "ns", why.as_str())),
    }
}
