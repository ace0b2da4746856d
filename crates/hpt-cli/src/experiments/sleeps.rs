//! The overshoot of three ways to sleep, and their CPU time.

use std::{io, time::Duration};

use hpt_core::{
    Sleeper,
    measure::{SleepMethod, sleep_overshoot},
};

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::Measured,
};
use crate::{exit::Failure, output::exact_time};

const fn late(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "µs" }
}

const fn cpu(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "%" }
}

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sleeps",
    brief: "overshoot and CPU time of three ways to sleep",
    title: "mean overshoot and CPU time of three ways to sleep, for sleeps of 1 ms and longer, and for shorter sleeps",
    published_in: "HighPerTimer (2012 to 2016), Table 2",
    hardware: "i7-2600, 10,000 steps (the system's sleep on ARM: 100 to 400 µs late)",
    differs: "the publication measured the C++ library HighPerTimer, but hpt measures its own Sleeper; the publication used sleeps of many durations, but hpt uses 1 ms and 100 µs; the CPU time is that of the longer sleeps",
    main: "library, 1 ms and longer",
    published: &[
        late("system, 1 ms and longer", 61.985),
        late("system, below 1 ms", 50.879),
        cpu("system, CPU", 0.016),
        late("busy, 1 ms and longer", 0.160),
        late("busy, below 1 ms", 0.070),
        cpu("busy, CPU", 99.681),
        late("library, 1 ms and longer", 0.258),
        late("library, below 1 ms", 0.095),
        cpu("library, CPU", 1.892),
    ],
    way: None,
    parts: &[
        Part {
            name: "1 ms",
            count: 10_000,
            short: 100,
            each: Duration::from_millis(4),
            continues: false,
            measure: long,
        },
        Part {
            name: "100 µs",
            count: 10_000,
            short: 100,
            each: Duration::from_micros(500),
            continues: false,
            measure: short,
        },
    ],
};

fn long(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, Duration::from_millis(1), "1 ms and longer", true)
}

fn short(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, Duration::from_micros(100), "below 1 ms", false)
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &Run<'_>, length: Duration, which: &str, with_cpu: bool) -> Result<Vec<Measured>, Failure> {
    hpt_core::clock::prime();
    let names = [("std", "system"), ("busy", "busy"), ("hpt", "library")];
    let mut sleeper = Sleeper::new();
    let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
    methods.retain(|method| names.iter().any(|(name, _)| *name == method.name()));
    let overshoots = sleep_overshoot(length, run.count, &mut methods, |so_far| {
        (run.progress)(so_far.made() as f64 / run.count as f64 / 3.0);
        run.context.check()
    });
    if let Some(refused) = overshoots.iter().find_map(|overshoot| overshoot.refused.clone()) {
        return Err(Failure::SleepRefused(io::Error::other(refused)));
    }
    let mut found = Vec::new();
    for overshoot in &overshoots {
        let Some((_, name)) = names.iter().find(|(name, _)| *name == overshoot.method) else { continue };
        let Some(spread) = &overshoot.overshoot else { continue };
        let how = format!(
            "method {} of hpt sleep, {}, timed with {}",
            overshoot.method,
            exact_time(length),
            hpt_core::clock::source().id
        );
        found.push(Measured::mean_of(&format!("{name}, {which}"), spread, 1e-3, "µs", how.clone()));
        let share = overshoot.cpu_share.filter(|_| with_cpu);
        found.extend(
            share.map(|share| Measured::figure(&format!("{name}, CPU"), share * 100.0, "%", spread.samples, how)),
        );
    }
    Ok(found)
}
