//! The latency with which a thread on a dedicated core detects the end of a delay.

use std::{ops::ControlFlow, time::Duration};

use hpt_core::{Frequency, TimeSource};
use hpt_instrument::measure::{Latencies, PollLoop, Waiting, Wakes};
use hpt_realtime::Behavior;

use super::{
    definition::{Experiment, ExperimentRun, Part, Preflight, Published, RunOptions},
    figure::{Measured, Tally},
    instruments::Chosen,
};
use crate::{
    context::Context,
    exit::Failure,
    sampling::{realtime_options::RealtimeOptions, realtime_settings::EffectiveSettings},
};

/// The time from the end of one delay to the end of the next.
const PERIOD: Duration = Duration::from_millis(1);
/// The number of delays between two updates of the progress bar.
const STRETCH: u64 = 1_000;
/// The time between two saves of the counts.
const KEEP_EVERY: Duration = Duration::from_secs(60);
const UNDER: &str = "under 3 µs (lower bound)";
const WORST: &str = "worst";
/// The names of the counts in the post. Each is the number of delays with this latency in whole microseconds.
const COUNTS: [&str; 4] = ["latency 0 µs", "latency 1 µs", "latency 2 µs", "latency 3 µs"];
const MISSED: &str = "missed while the thread was not running";
/// The path of the kernel's list of isolated CPUs.
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const BY: &str = "hpt experiment";

const fn counted(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "delays" }
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "isolated-core",
    brief: "busy-polling latency on a dedicated core",
    title: "latency with which a busy-polling thread on a dedicated core detects the end of a delay, measured for 18 hours",
    published_in: "post (2018)",
    hardware: "Raspberry Pi 3B+, Raspbian 2018-06-27, isolcpus=3, no turbo, SCHED_FIFO, no throttling",
    differs: "on a Raspberry Pi, the System Timer times the delays in whole microseconds, as published; elsewhere, hpt's clock times them in nanoseconds, and hpt counts whole microseconds; hpt measures one delay per millisecond, under SCHED_FIFO 99 if permitted, on a core that is isolated only if the system was booted with isolcpus; the conditions of the \
              post require --no-throttling and, for a constant frequency, --no-turbo on a PC or --governor performance on a Pi, whose kernel has no switch for turbo; otherwise, the \
              RT throttling of the system (by default 50 ms of each second) and its frequency settings apply; delays that ended while the thread was not running \
              count as late in the percentage, but are not included in other figures; the post's line of counts has more delays than this run, and only its first four counts are shown",
    main: UNDER,
    published: &[
        Published { what: UNDER, value: 99.0, unit: "%" },
        Published { what: WORST, value: 41.0, unit: "µs" },
        counted(COUNTS[0], 0.0),
        counted(COUNTS[1], 76_961_522.0),
        counted(COUNTS[2], 31_486_427.0),
        counted(COUNTS[3], 9_058.0),
    ],
    way: Some(preflight),
    parts: &[Part { name: "delays", count: 64_800_000, short: 1_000, each: PERIOD, continues: true, measure }],
};

/// Applies the settings briefly to determine the conditions of a run, so that a refused setting is reported
/// before the 18 hours begin.
fn preflight(context: &Context, ways: &RunOptions) -> Result<Preflight, Failure> {
    hpt_core::clock::prime();
    let (mut preflight, warnings) = held(context, ways, |settings| Preflight {
        conditions: conditions(context, ways, settings),
        notes: settings.notes().into_iter().map(|note| format!("{}: {note}", EXPERIMENT.name)).collect(),
        ..Preflight::default()
    })?;
    preflight.warnings = warnings;
    Ok(preflight)
}

fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    hpt_core::clock::prime();
    let how = |settings: &EffectiveSettings| conditions(run.context, run.ways, settings).join("; ");
    let (figures, warnings) = held(run.context, run.ways, |settings| count(run, &how(settings)))?;
    run.warnings.borrow_mut().extend(warnings);
    Ok(figures)
}

/// Runs a function with the settings of the thread and the system applied. Also returns warnings about
/// settings that could not be restored.
fn held<T>(
    context: &Context,
    ways: &RunOptions,
    doing: impl FnOnce(&EffectiveSettings) -> T,
) -> Result<(T, Vec<String>), Failure> {
    let (machine, thread) = RealtimeOptions::of_a_core_of_its_own(&ways.alone, ways.journal.as_deref());
    let around = machine.hold_around(context, &[ways.cpu], Behavior::Spins, BY)?;
    let held = thread.hold_thread(context, ways.cpu, Behavior::Spins, BY)?;
    let done = doing(&EffectiveSettings::of_several(&around.settings(), [held.settings()]));
    Ok((done, [held.end(), around.end()].concat()))
}

fn conditions(context: &Context, ways: &RunOptions, settings: &EffectiveSettings) -> Vec<String> {
    let isolated = context.host.read(ISOLATED).unwrap_or_default();
    let isolated = String::from_utf8_lossy(&isolated).trim().to_owned();
    let isolated = if isolated.is_empty() { "no CPU is isolated".to_owned() } else { format!("isolated: {isolated}") };
    let by = system_timer(context)
        .map_or_else(|| format!("hpt's clock, using {}", hpt_core::clock::source().id), |timer| timer.how);
    [vec![format!("{by}. {}", settings.words(ways.cpu)), isolated], settings.notes()].concat()
}

/// Returns the 1 MHz counter of a Raspberry Pi, which the post used; `None` on other machines, and if this process may not
/// read it.
fn system_timer(context: &Context) -> Option<Chosen> {
    context.open("bcm-systimer-low").ok().map(Chosen::of)
}

/// Latencies of delays, and the number of delays that ended while the thread was not running.
#[derive(Default)]
struct Counted {
    late: Tally,
    missed: u64,
}

impl Counted {
    /// Adds `count` delays that the counter times. Each delay starts at the reading that ended the previous one, so that
    /// none is missed.
    fn by_counter(&mut self, counter: &dyn TimeSource, count: u64, check: impl Fn() -> ControlFlow<()>) -> u64 {
        let frequency = counter.info().nominal.map_or(Frequency::MEGAHERTZ, |nominal| nominal.frequency);
        let excess = PollLoop::new(counter, frequency, PERIOD).with_count(count).run(&mut |_| check()).excess;
        self.late.add_ticks(&excess, frequency.tick_ns_f64());
        excess.samples()
    }

    /// Adds `count` delays that hpt's clock times.
    fn by_clock(&mut self, count: u64, check: impl Fn() -> ControlFlow<()>) -> u64 {
        let mut latencies = Latencies::new();
        let wakes = Wakes::new(PERIOD).with_waiting(Waiting::Polling).with_count(count).with_check(&check);
        // A thread that polls makes no system call that can be refused.
        let _ = wakes.run(|mut wake| {
            // As in the post, a missed delay has no latency of its own.
            wake.period_ns = 0;
            latencies.record(wake);
            check()
        });
        self.late.add_ticks(latencies.histogram(), 1.0);
        self.missed += latencies.missed();
        latencies.histogram().samples()
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn count(run: &ExperimentRun<'_>, how: &str) -> Vec<Measured> {
    let timer = system_timer(run.context);
    let (mut counted, mut done, mut kept) = (Counted::default(), 0_u64, std::time::Instant::now());
    counted.late.go_on(run.before, WORST, 1e3);
    let missed_before = run.before.iter().find(|figure| figure.what == MISSED).and_then(|figure| figure.value);
    let so_far = |counted: &Counted| figures(counted, missed_before.unwrap_or(0.0), how);
    while done < run.count && run.goes_on() {
        let (asked, check) = (STRETCH.min(run.count - done), || run.context.check());
        done += match &timer {
            Some(timer) => counted.by_counter(timer.opened.as_dyn(), asked, check),
            None => counted.by_clock(asked, check),
        };
        // The bar is drawn and the counts are saved between stretches, where this does not delay a sample.
        (run.progress)(done as f64 / run.count as f64);
        if done < run.count && (kept.elapsed() >= KEEP_EVERY || !run.goes_on()) {
            (run.keep)(done, so_far(&counted));
            kept = std::time::Instant::now();
        }
    }
    so_far(&counted)
}

#[expect(clippy::cast_precision_loss, reason = "shares")]
fn figures(counted: &Counted, missed_before: f64, how: &str) -> Vec<Measured> {
    let Some(all) = counted.late.figure(WORST, 1e3, "µs", how) else { return Vec::new() };
    // Latencies are counted in whole microseconds, as in the post.
    let whole = |us: usize| {
        let is_so = |late_us: f64| (us as f64..us as f64 + 1.0).contains(&late_us);
        all.distribution.iter().filter(|(late_us, _)| is_so(*late_us)).map(|(_, samples)| samples).sum::<u64>()
    };
    let counts = COUNTS.iter().enumerate();
    let counts = counts.map(|(us, what)| Measured::figure(what, whole(us) as f64, "delays", all.samples, how));
    let counts: Vec<_> = counts.collect();
    let under: u64 = all.distribution.iter().filter(|(late_us, _)| *late_us < 3.0).map(|(_, samples)| samples).sum();
    let missed = missed_before + counted.missed as f64;
    // A delay that ended while the thread was not running also counts as late.
    let under = under as f64 / (all.samples as f64 + missed) * 100.0;
    let under = Measured::figure(UNDER, under, "%", all.samples, how);
    let missed = Measured::figure(MISSED, missed, "delays", all.samples, how);
    [vec![under, Measured { value: all.max, ..all }], counts, vec![missed]].concat()
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use hpt_core::{Frequency, SourceId, SourceInfo, Width, source::StatedBy, testing::ManualSource};

    use super::{COUNTS, Counted, figures};

    #[test]
    fn a_counter_of_one_megahertz_counts_whole_microseconds() {
        let info = SourceInfo::new(SourceId::new("microseconds")).with_width(Width::BITS_32);
        let info = info.with_nominal(Frequency::MEGAHERTZ, StatedBy::Definition);
        // Each reading is 7 µs after the one before it, so that a delay of 1000 µs ends 1 µs late.
        let counter = ManualSource::with_info(info).with_step(7);
        let mut counted = Counted::default();
        assert_eq!(counted.by_counter(&counter, 50, || ControlFlow::Continue(())), 50);
        let found = figures(&counted, 0.0, "a counter");
        let value = |what: &str| found.iter().find(|figure| figure.what == what).and_then(|figure| figure.value);
        assert_eq!(COUNTS.map(value), [0.0, 50.0, 0.0, 0.0].map(Some));
        assert_eq!((value("worst"), value(super::UNDER), value(super::MISSED)), (Some(1.0), Some(100.0), Some(0.0)));
    }
}
