//! The instruments of experiments: sources by role, their rates, and the instruments of `hpt bench`.

use std::time::Duration;

use hpt_core::{
    Frequency, Opened, TimeSource,
    measure::{Instruments, PollLoop, ReadCost, read_cost},
};

use super::{
    definition::{Preflight, Run},
    figure::{Measured, Tally},
};
use crate::{
    context::Context,
    cycle_counters::counts_cycles,
    exit::Failure,
    source_rate::frequency_of,
    stopwatch::{Stopwatch, stopwatch},
};

/// The instruments for timing many reads and single reads, as `hpt bench` does.
pub(super) struct Bench {
    pub(super) wall: Opened,
    pub(super) stopwatch: Stopwatch,
}

impl Bench {
    pub(super) fn of(run: &Run<'_>) -> Result<Self, Failure> {
        let wall = run.context.open("monotonic-raw")?;
        let stopwatch = stopwatch(run.context, wall.as_dyn())?;
        Ok(Self { wall, stopwatch })
    }

    /// Reads the source the requested number of times. `(place, of)` contains the index of the
    /// source and the number of sources in the part.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(super) fn cost(&self, run: &Run<'_>, source: &dyn TimeSource, (place, of): (usize, usize)) -> ReadCost {
        let instruments = Instruments {
            wall: self.wall.as_dyn(),
            stopwatch: self.stopwatch.source.as_dyn(),
            stopwatch_frequency: self.stopwatch.rate.frequency,
            cycles: None,
        };
        read_cost(source, instruments, run.count, |done| {
            (run.progress)((place as f64 + done as f64 / run.count as f64) / of as f64);
            run.context.check()
        })
    }

    /// Returns the duration of `reads` reads, and the distribution of single reads.
    pub(super) fn figures(
        &self,
        what: &str,
        cost: &ReadCost,
        reads: f64,
        (unit, unit_ns): (&str, f64),
        how: &str,
    ) -> Vec<Measured> {
        let fewer = if cost.cut_short {
            "; fewer reads, because one read takes 10 µs or more, including the stopwatch"
        } else {
            ""
        };
        let many = cost
            .per_call_ns()
            .map(|ns| Measured::figure(what, ns * reads / unit_ns, unit, cost.calls, format!("{how}{fewer}")));
        let own = cost.empty.map_or(0.0, |empty| empty.p50_ns);
        let by = self.stopwatch.source.as_dyn().info().id.to_string();
        let single = cost.singles.map(|spread| {
            let how = format!("{how}; timed with {by}, including its read overhead of {own:.0} ns (p50)");
            Measured::mean_of(&format!("{what}: single read"), &spread, 1.0, "ns", how)
        });
        many.into_iter().chain(single).collect()
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

/// Returns a counter register that is read without the kernel: the System Timer of a Raspberry Pi if available,
/// otherwise the cheapest counter on this machine.
pub(super) fn register(context: &Context) -> Result<Chosen, String> {
    best(context, &["bcm-systimer", "arm-counter", "tsc"], "the System Timer")
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

impl Run<'_> {
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

/// Measures the periods of a loop, in stretches. Draws the progress bar only between stretches. `(place, of)`
/// contains the index of the loop and the number of loops in the part.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
pub(super) fn beats_of(
    run: &Run<'_>,
    chosen: &Chosen,
    period: Duration,
    (place, of): (usize, usize),
) -> Result<(Tally, String), String> {
    const STRETCH: Duration = Duration::from_millis(500);
    let source = chosen.opened.as_dyn();
    let rate = run.rate(source)?;
    let stretch = u64::try_from(STRETCH.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX).max(1);
    let (mut excess, mut done) = (Tally::default(), 0);
    while done < run.count && run.goes_on() {
        let poll_loop = PollLoop::new(source, rate, period).with_count(stretch.min(run.count - done));
        let jitter = poll_loop.run(|_| run.context.check());
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
