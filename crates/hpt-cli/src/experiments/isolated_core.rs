//! The latency with which a thread on a dedicated core detects the end of a delay.

use std::time::Duration;

use hpt_core::{
    measure::{Latencies, Waiting, Wakes},
    realtime::Behavior,
};

use super::{
    definition::{Experiment, Part, Preflight, Published, Run, Ways},
    figure::{Measured, Tally},
};
use crate::{
    context::{Context, continue_if},
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
    differs: "hpt measures one delay per millisecond, under SCHED_FIFO 99 if permitted, on a core that is isolated only if the system was booted with isolcpus; the conditions of the \
              post require --no-throttling and, for a constant frequency, --no-turbo on a PC or --governor performance on a Pi, which has no turbo switch; otherwise, the \
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
fn preflight(context: &Context, ways: &Ways) -> Result<Preflight, Failure> {
    hpt_core::clock::prime();
    let (mut preflight, warnings) = held(context, ways, |settings| Preflight {
        conditions: conditions(context, ways, settings),
        notes: settings.notes().into_iter().map(|note| format!("{}: {note}", EXPERIMENT.name)).collect(),
        ..Preflight::default()
    })?;
    preflight.warnings = warnings;
    Ok(preflight)
}

fn measure(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
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
    ways: &Ways,
    doing: impl FnOnce(&EffectiveSettings) -> T,
) -> Result<(T, Vec<String>), Failure> {
    let (machine, thread) = RealtimeOptions::of_a_core_of_its_own(&ways.alone, ways.journal.as_deref());
    let around = machine.hold_around(context, &[ways.cpu], Behavior::Spins, BY)?;
    let held = thread.hold_thread(context, ways.cpu, Behavior::Spins, BY)?;
    let done = doing(&EffectiveSettings::of_several(&around.settings(), [held.settings()]));
    Ok((done, [held.end(), around.end()].concat()))
}

/// Returns the conditions of the run.
fn conditions(context: &Context, ways: &Ways, settings: &EffectiveSettings) -> Vec<String> {
    let isolated = context.host.read(ISOLATED).unwrap_or_default();
    let isolated = String::from_utf8_lossy(&isolated).trim().to_owned();
    let isolated = if isolated.is_empty() { "no CPU is isolated".to_owned() } else { format!("isolated: {isolated}") };
    let by = format!("hpt's clock, using {}. {}", hpt_core::clock::source().id, settings.words(ways.cpu));
    [vec![by, isolated], settings.notes()].concat()
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn count(run: &Run<'_>, how: &str) -> Vec<Measured> {
    let missed_before = run.before.iter().find(|figure| figure.what == MISSED).and_then(|figure| figure.value);
    let so_far = |latencies: &Latencies| figures(run, latencies, missed_before.unwrap_or(0.0), how);
    let (mut latencies, mut done, mut kept) = (Latencies::new(), 0_u64, std::time::Instant::now());
    while done < run.count && run.goes_on() {
        let end = run.count.min(done + STRETCH);
        let wakes = Wakes::new(PERIOD).with_waiting(Waiting::Polling).with_check(|| run.context.check());
        // A thread that polls makes no system call that can be refused.
        let _ = wakes.run(|mut wake| {
            // As in the post, a missed delay has no latency of its own.
            wake.period_ns = 0;
            latencies.record(wake);
            done += 1;
            continue_if(done < end && run.goes_on())
        });
        // The bar is drawn and the counts are saved between stretches, where this does not delay a sample.
        (run.progress)(done as f64 / run.count as f64);
        if done < run.count && (kept.elapsed() >= KEEP_EVERY || !run.goes_on()) {
            (run.keep)(done, so_far(&latencies));
            kept = std::time::Instant::now();
        }
    }
    so_far(&latencies)
}

#[expect(clippy::cast_precision_loss, reason = "shares")]
fn figures(run: &Run<'_>, latencies: &Latencies, missed_before: f64, how: &str) -> Vec<Measured> {
    let mut late = Tally::default();
    late.go_on(run.before, WORST, 1e3);
    late.add_ticks(latencies.histogram(), 1.0);
    let Some(all) = late.figure(WORST, 1e3, "µs", how) else { return Vec::new() };
    // Latencies are counted in whole microseconds, as in the post.
    let whole = |us: usize| {
        let is_so = |late_us: f64| (us as f64..us as f64 + 1.0).contains(&late_us);
        all.distribution.iter().filter(|(late_us, _)| is_so(*late_us)).map(|(_, samples)| samples).sum::<u64>()
    };
    let counts = COUNTS.iter().enumerate();
    let counts = counts.map(|(us, what)| Measured::figure(what, whole(us) as f64, "delays", all.samples, how));
    let counts: Vec<_> = counts.collect();
    let under: u64 = all.distribution.iter().filter(|(late_us, _)| *late_us < 3.0).map(|(_, samples)| samples).sum();
    let missed = missed_before + latencies.missed() as f64;
    // A delay that ended while the thread was not running also counts as late.
    let under = under as f64 / (all.samples as f64 + missed) * 100.0;
    let under = Measured::figure(UNDER, under, "%", all.samples, how);
    let missed = Measured::figure(MISSED, missed, "delays", all.samples, how);
    [vec![under, Measured { value: all.max, ..all }], counts, vec![missed]].concat()
}
