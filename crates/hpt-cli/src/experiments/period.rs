//! The time by which the period of a cyclic task exceeds its nominal value.

use std::time::Duration;

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::Measured,
    instruments::{Chosen, beats_of, cycles, preflight_of},
};
use crate::exit::Failure;

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

const SHORT: [&str; 2] = ["100 µs, system clock", "100 µs, cycle counter"];
const SHORT_MEAN: [&str; 2] = ["100 µs, mean with system clock", "100 µs, mean with cycle counter"];
const LONG: [&str; 2] = ["1 ms, system clock", "1 ms, cycle counter"];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "period",
    brief: "period error of a cyclic task",
    title: "time by which the period of a cyclic task exceeds its nominal value, averaged over 1000 periods",
    published_in: "paper (2020), Table 2 and Figure 6",
    hardware: "BeagleBone Black, AM3358 (Cortex-A8, 1 GHz), Linux 4.9.59-rt; the master of an EtherCAT network",
    differs: "the paper measured in the kernel and in the master of a network, but hpt measures in a loop that does nothing but poll the time",
    main: SHORT[0],
    published: &[
        published(SHORT[0], 383.0),
        published(SHORT[1], 39.0),
        Published { what: SHORT_MEAN[0], value: 100.383, unit: "µs" },
        Published { what: SHORT_MEAN[1], value: 100.039, unit: "µs" },
        published(LONG[0], 72.0),
        published(LONG[1], 6.0),
    ],
    way: Some(|context, _| preflight_of(context, cycles)),
    parts: &[
        Part {
            name: "100 µs",
            count: 1_000,
            short: 200,
            each: Duration::from_micros(200),
            continues: false,
            measure: short,
        },
        Part { name: "1 ms", count: 1_000, short: 50, each: Duration::from_millis(2), continues: false, measure: long },
    ],
};

fn short(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    let mut found = measure(run, SHORT, Duration::from_micros(100))?;
    let of = |what: &str| found.iter().find(|error| error.what == what);
    let means = SHORT.iter().zip(SHORT_MEAN).filter_map(|(error, what)| Some(mean(of(error)?, what)));
    let means: Vec<_> = means.collect();
    found.extend(means);
    Ok(found)
}

fn long(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, LONG, Duration::from_millis(1))
}

fn measure(run: &Run<'_>, what: [&str; 2], period: Duration) -> Result<Vec<Measured>, Failure> {
    let system = run.context.open("monotonic").map(Chosen::of)?;
    let mut found = Vec::new();
    for (place, (chosen, what)) in [Ok(system), cycles(run.context)].into_iter().zip(what).enumerate() {
        match chosen.and_then(|chosen| error(run, &chosen, place, what, period)) {
            Ok(figure) => found.extend(figure),
            Err(why) => found.push(Measured::unavailable(what, "ns", why)),
        }
        if !run.goes_on() {
            break;
        }
    }
    Ok(found)
}

/// Returns the measured period in microseconds, computed from its excess over 100 µs.
fn mean(error: &Measured, what: &str) -> Measured {
    match error.value {
        Some(ns) => Measured::figure(what, 100.0 + ns / 1e3, "µs", error.samples, error.how.as_str()),
        None => Measured::unavailable(what, "µs", error.how.as_str()),
    }
}

fn error(
    run: &Run<'_>,
    chosen: &Chosen,
    place: usize,
    what: &str,
    period: Duration,
) -> Result<Option<Measured>, String> {
    let (longer, how) = beats_of(run, chosen, period, (place, 2))?;
    Ok(longer.figure(what, 1.0, "ns", how))
}
