//! A time-critical loop: it polls the clock, and acts when a period has passed.

use std::time::Duration;

use super::{
    definition::{Experiment, ExperimentRun, Part, Published},
    figure::Measured,
    instruments::{Beat, Bench, Chosen, beats_of, in_one_line, preflight_of, register},
};
use crate::{
    exit::Failure,
    sampling::gpio_pulse::{Pulse, drive_words},
    source_granularity::granularity,
};

const PERIOD: Duration = Duration::from_micros(100);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "late-loop",
    brief: "latency of a loop that only reads the time",
    title: "latency of a loop that does nothing but read the time, first from the system clock, then from a counter register",
    published_in: "article (2015)",
    hardware: "Raspberry Pi 1, Linux 3.12; an output pin, sampled at 50 MHz from outside",
    differs: "in hpt, the loop measures its own latency with the source that it polls, once every 100 µs; --pulse toggles a pin at each period, for a sampler, but hpt's own figures end when the loop has its reading; the \
              published value of ± 900 ns was read off a screen; hpt's figure is the 99th percentile",
    main: "usual latency, system clock",
    published: &[
        Published { what: "usual latency, system clock", value: 900.0, unit: "ns" },
        Published { what: "occasional latency (lower bound), system clock", value: 10_000.0, unit: "ns" },
    ],
    way: Some(|context, ways| {
        let mut preflight = preflight_of(context, register)?;
        preflight.conditions.extend(ways.pulse.as_ref().map(toggled));
        Ok(preflight)
    }),
    parts: &[Part {
        name: "loop",
        count: 100_000,
        short: 2_000,
        each: Duration::from_micros(200),
        continues: false,
        measure,
    }],
};

fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let system = run.context.open("monotonic").map(Chosen::of)?;
    let mut found = Vec::new();
    for (place, (by, chosen)) in
        [("system clock", Ok(system)), ("register", register(run.context))].into_iter().enumerate()
    {
        let whats = [format!("usual latency, {by}"), format!("occasional latency (lower bound), {by}")];
        match chosen.and_then(|chosen| Ok((beat(run, &chosen, place, &whats)?, reaction(run, &chosen, place, by)?))) {
            Ok((figures, reaction)) => found.extend(figures.into_iter().chain(reaction)),
            Err(why) => found.extend(whats.iter().map(|what| Measured::unavailable(what, "ns", why.as_str()))),
        }
        if !run.goes_on() {
            break;
        }
    }
    Ok(found)
}

/// States which line is toggled, and how.
fn toggled(pulse: &Pulse) -> String {
    let (line, drive) = pulse.about();
    format!("{line} toggled at each period, {}", drive_words(drive))
}

fn beat(run: &ExperimentRun<'_>, chosen: &Chosen, place: usize, whats: &[String; 2]) -> Result<Vec<Measured>, String> {
    let pulse = run.ways.pulse.as_ref();
    let act = || {
        if let Some(pulse) = pulse {
            let _ = pulse.toggle();
        }
    };
    let beat = Beat { period: PERIOD, act: &act };
    let (late, mut how) = beats_of(run, chosen, beat, (place, 2))?;
    how.extend(pulse.map(|pulse| format!("; {}", toggled(pulse))));
    let usual = late.quantile_figure((&whats[0], 0.99), 1.0, "ns", how.as_str());
    let Some(all) = usual else { return Ok(Vec::new()) };
    let latest = Measured::figure(&whats[1], all.max.unwrap_or(0.0), "ns", all.samples, format!("{how}: the maximum"));
    Ok(vec![all, latest])
}

/// Returns the longest time from an event until a loop that is never interrupted has a reading that shows it. The event
/// may come just after a reading was taken: the rest of that read and the whole of the next one pass, and the clock may
/// still show the time of its last step.
fn reaction(run: &ExperimentRun<'_>, chosen: &Chosen, place: usize, by: &str) -> Result<Option<Measured>, String> {
    let bench = Bench::of(run).map_err(|failure| in_one_line(&failure))?;
    let (source, rate) = (chosen.opened.as_dyn(), run.rate(chosen.opened.as_dyn())?);
    let read = bench.cost(run, source, (place, 2)).mean("read", ("ns", 1.0), &chosen.how);
    let granularity = granularity(source, rate, bench.wall.as_dyn());
    let (Some(read), Some(granularity)) = (read.and_then(|read| read.value), granularity) else { return Ok(None) };
    let what = format!("longest reaction (2 reads + granularity), {by}");
    let how = format!("{}: 2 x {read:.1} ns + {:.1} ns", chosen.how, granularity.smallest_ns);
    Ok(Some(Measured::figure(&what, 2.0f64.mul_add(read, granularity.smallest_ns), "ns", granularity.steps, how)))
}
