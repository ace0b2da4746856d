//! The instruments of experiments: sources by role, their rates, and the instruments of `hpt bench`.

use std::time::Duration;

use hpt_core::{Frequency, Opened, TimeSource};
use hpt_document::read_cost::RepeatedReads;
use hpt_instrument::measure::{Instruments, NotRunWatch, PollLoop, ReadCost, read_cost};
use hpt_sys::host::SOC_COUNTERS;

use super::{
    definition::{ExperimentRun, Preflight},
    figure::{Measured, Tally},
};
use crate::{
    context::Context,
    cycle_counters::counts_cycles,
    exit::Failure,
    output::one_or_many,
    read_cost::repeated_reads,
    source_rate::frequency_of,
    stopwatch::{Stopwatch, stopwatch},
};

/// The read overhead of a source: the back-to-back reads, the distribution of single reads, and the instrument that
/// timed the single reads.
pub(super) struct Timed {
    repeated: RepeatedReads,
    cost: ReadCost,
    stopwatch: String,
}

/// The instruments for timing many reads and single reads, as `hpt bench` does.
pub(super) struct Bench {
    pub(super) wall: Opened,
    pub(super) stopwatch: Stopwatch,
}

impl Bench {
    pub(super) fn of(run: &ExperimentRun<'_>) -> Result<Self, Failure> {
        let wall = run.context.open("monotonic-raw")?;
        let stopwatch = stopwatch(run.context, wall.as_dyn())?;
        Ok(Self { wall, stopwatch })
    }

    /// Reads the source the requested number of times. `(place, of)` contains the index of the
    /// source and the number of sources in the part.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(super) fn cost(&self, run: &ExperimentRun<'_>, source: &dyn TimeSource, (place, of): (usize, usize)) -> Timed {
        let instruments = Instruments {
            wall: self.wall.as_dyn(),
            stopwatch: self.stopwatch.source.as_dyn(),
            stopwatch_frequency: self.stopwatch.rate.frequency,
            cycles: None,
        };
        let mut watch = NotRunWatch::of_spinning_thread(&run.context.host, run.ways.cpu);
        let cost = read_cost(source, instruments, run.count, &mut |done| {
            (run.progress)((place as f64 + done as f64 / run.count as f64) / of as f64);
            run.context.check()
        });
        let repeated = repeated_reads(&cost, &watch.read());
        Timed { repeated, cost, stopwatch: self.stopwatch.source.as_dyn().info().id.to_string() }
    }
}

/// Returns the time of `reads` reads in seconds, and how it was determined: the measured total of these reads, or the
/// median of the batches, multiplied. A total of fewer reads is never multiplied, because it may contain a time in which
/// the thread did not run. Returns `None` if there were no reads.
#[expect(clippy::cast_precision_loss, reason = "counts of reads are below 2^53")]
pub(super) fn time_of(reads: u64, repeated: &RepeatedReads) -> Option<(f64, String)> {
    if repeated.reads == reads && reads > 1 {
        return Some((repeated.total_s, String::new()));
    }
    let seconds = repeated.per_read_ns? * reads as f64 / 1e9;
    let batches = repeated.batches;
    let median = if batches > 0 {
        format!("median of {batches} {}", one_or_many(batches, "batch", "batches"))
    } else {
        "mean".to_owned()
    };
    let made = repeated.reads;
    Some((seconds, format!("; {median} of {made} {}", one_or_many(made, "read", "reads"))))
}

impl Timed {
    /// Returns the mean duration of a read in all batches, including the time of interrupts.
    pub(super) fn mean(&self, what: &str, (unit, unit_ns): (&str, f64), how: &str) -> Option<Measured> {
        let how =
            format!("{how}; mean of {} {}", self.repeated.reads, one_or_many(self.repeated.reads, "read", "reads"));
        let mean = Measured::figure(what, self.repeated.mean_read_ns? / unit_ns, unit, self.cost.calls, how);
        Some(Measured { not_run_share: self.repeated.not_run_share, ..mean })
    }

    /// Returns the duration of `reads` reads, and the distribution of single reads.
    pub(super) fn figures(&self, what: &str, reads: u64, (unit, unit_ns): (&str, f64), how: &str) -> Vec<Measured> {
        let Self { repeated, cost, stopwatch } = self;
        let fewer = if cost.cut_short {
            "; fewer reads, because one read takes 10 µs or more, including the stopwatch"
        } else {
            ""
        };
        let many = time_of(reads, repeated).map(|(seconds, by)| {
            Measured::figure(what, seconds * 1e9 / unit_ns, unit, cost.calls, format!("{how}{by}{fewer}"))
        });
        let own = cost.empty.map_or(0.0, |empty| empty.p50_ns);
        let single = cost.singles.map(|spread| {
            let how = format!("{how}; p50, timed with {stopwatch}, including its read overhead of {own:.0} ns (p50)");
            // A few preempted reads would decide the mean.
            let read = Measured::mean_of(&format!("{what}: single read"), &spread, 1.0, "ns", how);
            Measured { value: read.p50, ..read }
        });
        let found = many.into_iter().chain(single);
        found.map(|figure| Measured { not_run_share: repeated.not_run_share, ..figure }).collect()
    }
}

/// A source, and its description.
pub(super) struct Chosen {
    pub(super) opened: Opened,
    pub(super) how: String,
}

impl Chosen {
    /// Adds a description to a source that does not replace another source.
    pub(super) fn of(opened: Opened) -> Self {
        let info = opened.as_dyn().info();
        let how = format!("{} ({})", info.id, info.read_path.name());
        Self { opened, how }
    }
}

/// Returns the first of these sources that can be read on this system. If an earlier source cannot be read, the
/// description contains the reason. Fails with all reasons if no source can be read.
pub(super) fn best(context: &Context, names: &[&str], first_is: &str) -> Result<Chosen, String> {
    let mut refused = Vec::new();
    for name in names {
        match context.open(name) {
            Ok(opened) => {
                let mut chosen = Chosen::of(opened);
                if let Some(why) = refused.first() {
                    chosen.how.push_str(&format!(", instead of {first_is}: {why}"));
                }
                return Ok(chosen);
            }
            Err(failure) => refused.push(in_one_line(&failure)),
        }
    }
    Err(format!("this system has no counter that programs can read: {}", refused.join("; ")))
}

/// Returns a counter register that is read without the kernel with a single load: the lower half of the System Timer of
/// a Raspberry Pi if available, otherwise the cheapest counter on this machine.
pub(super) fn register(context: &Context) -> Result<Chosen, String> {
    best(context, &["bcm-systimer-low", "arm-counter", "tsc"], "the System Timer")
        .or_else(|why| soc_counter(context).ok_or(why))
}

/// Returns the first counter of an ARM system on a chip without a generic timer that can be read.
pub(super) fn soc_counter(context: &Context) -> Option<Chosen> {
    SOC_COUNTERS.iter().find_map(|kind| context.open(kind.id).ok()).map(Chosen::of)
}

/// Returns the cycle counter, or the best replacement.
pub(super) fn cycles(context: &Context) -> Result<Chosen, String> {
    best(context, &["arm-cycles", "tsc", "arm-counter", "bcm-systimer"], "the cycle counter")
}

/// Returns the conditions of a comparison of the system clock with another source.
pub(super) fn preflight_of(
    context: &Context,
    compared: fn(&Context) -> Result<Chosen, String>,
) -> Result<Preflight, Failure> {
    let system = context.open("monotonic").map(Chosen::of)?;
    let compared = compared(context).map_or_else(|why| why, |chosen| chosen.how);
    Ok(Preflight { conditions: vec![system.how, compared], ..Preflight::default() })
}

impl ExperimentRun<'_> {
    pub(super) fn goes_on(&self) -> bool {
        !self.context.interrupted()
    }

    /// Opens a source on this machine. If the source is not available, fails with a row that contains
    /// the reason.
    pub(super) fn open(&self, name: &str, what: &str, unit: &str) -> Result<Chosen, Box<Measured>> {
        let unavailable = |failure: Failure| Measured::unavailable(what, unit, in_one_line(&failure));
        self.context.open(name).map(Chosen::of).map_err(|failure| Box::new(unavailable(failure)))
    }

    /// Returns the tick rate, or the reason why it is unknown.
    pub(super) fn rate(&self, source: &dyn TimeSource) -> Result<Frequency, String> {
        let reference = self.context.open("monotonic-raw").map_err(|failure| in_one_line(&failure))?;
        frequency_of(source, reference.as_dyn())
            .ok_or_else(|| format!("the tick rate of {} could not be measured", source.info().id))
    }
}

/// Returns the error, its cause and its fix, on one line.
pub(crate) fn in_one_line(failure: &Failure) -> String {
    failure.text()
}

/// A loop that polls a source, and acts after each period.
pub(super) struct Beat<'a> {
    pub(super) period: Duration,
    pub(super) act: &'a dyn Fn(),
}

/// Measures the periods of a loop, in stretches. Draws the progress bar only between stretches. `(place, of)`
/// contains the index of the loop and the number of loops in the part.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
pub(super) fn beats_of(
    run: &ExperimentRun<'_>,
    chosen: &Chosen,
    Beat { period, act }: Beat<'_>,
    (place, of): (usize, usize),
) -> Result<(Tally, String), String> {
    const STRETCH: Duration = Duration::from_millis(500);
    let source = chosen.opened.as_dyn();
    let rate = run.rate(source)?;
    let stretch = u64::try_from(STRETCH.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX).max(1);
    let (mut excess, mut done) = (Tally::default(), 0);
    while done < run.count && run.goes_on() {
        let poll_loop = PollLoop::new(source, rate, period).with_count(stretch.min(run.count - done));
        let jitter = poll_loop.run(&mut |_| {
            act();
            run.context.check()
        });
        excess.add_ticks(&jitter.excess, rate.tick_ns_f64());
        done += stretch.min(run.count - done);
        (run.progress)((place as f64 + done as f64 / run.count as f64) / of as f64);
    }
    Ok((excess, format!("{}{}", chosen.how, cycles_remark(source))))
}

/// Returns a remark for cycle counters, whose cycles are converted at the rate of a busy core.
pub(super) fn cycles_remark(source: &dyn TimeSource) -> &'static str {
    if counts_cycles(source) { "; cycles converted at the rate of a busy core" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow,
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use hpt_core::{Frequency, SourceInfo, TimeSource, testing::ManualSource};
    use hpt_document::not_run::NotRun;
    use hpt_instrument::measure::{Instruments, read_cost};

    use super::{Timed, time_of};
    use crate::read_cost::repeated_reads;

    /// A source. During one of its readings, the thread loses its CPU for ten seconds.
    #[derive(Debug)]
    struct Stopped<'a>(&'a ManualSource, AtomicU32);

    impl TimeSource for Stopped<'_> {
        fn ticks(&self) -> u64 {
            if self.1.fetch_add(1, Ordering::Relaxed) == 30_000 {
                self.0.advance(10_000_000_000);
            }
            self.0.ticks()
        }

        fn info(&self) -> &SourceInfo {
            self.0.info()
        }
    }

    fn timed(reads: u64) -> Timed {
        let clock = ManualSource::new("clock").with_step(40);
        let (wall, stopwatch) = (&clock, &clock);
        let instruments = Instruments { wall, stopwatch, stopwatch_frequency: Frequency::GIGAHERTZ, cycles: None };
        let cost =
            read_cost(&Stopped(&clock, AtomicU32::new(0)), instruments, reads, &mut |_| ControlFlow::Continue(()));
        let not_run = NotRun { share: Some(0.9091), wall_s: 11.0, ..NotRun::default() };
        Timed { repeated: repeated_reads(&cost, &not_run), cost, stopwatch: "clock".to_owned() }
    }

    #[test]
    fn a_stall_is_never_multiplied() {
        let few = timed(20_000);
        assert!(few.cost.total > Duration::from_secs(10), "{:?}", few.cost);
        let figures = few.figures("monotonic", 1_000_000, ("s", 1e9), "a clock");
        let value = figures[0].value.expect("reads");
        assert!((0.040..0.041).contains(&value), "a million reads of 40 ns: {figures:?}");
        assert!(figures[0].how.ends_with("; median of 40 batches of 20000 reads"), "{figures:?}");
        assert_eq!((figures[0].samples, figures[0].not_run_share), (20_000, Some(0.9091)));
        let one = few.figures("monotonic", 1, ("µs", 1e3), "a clock")[0].value.expect("reads");
        assert!((0.040..0.041).contains(&one), "{one}");
    }

    #[test]
    fn a_total_of_all_reads_is_the_measured_total_with_its_stall() {
        let all = timed(100_000);
        let (seconds, how) = time_of(100_000, &all.repeated).expect("reads");
        assert!((10.004..10.005).contains(&seconds) && how.is_empty(), "{seconds} {how}");
        assert_eq!(all.figures("monotonic", 100_000, ("s", 1e9), "a clock")[0].not_run_share, Some(0.9091));
    }
}
