//! A million reads of each clock, and of a counter register.

use std::time::Duration;

use super::{
    definition::{Experiment, ExperimentRun, Part, Published},
    figure::Measured,
    instruments::{Bench, preflight_of, register},
};
use crate::exit::Failure;

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "s" }
}

/// The row of a System Timer that is read with all its bits, which takes three loads.
const ALL_BITS: &str = "register, 64 bits";

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "calls",
    brief: "a million reads of each clock",
    title: "a million reads of each clock, and of the counter register itself",
    published_in: "article (2015)",
    hardware: "Raspberry Pi 1 (revision 000f), Linux 3.12, C without optimization",
    differs: "in hpt, the code is optimized, and the register is the counter register of this system; if hpt makes fewer calls, it multiplies the median of their batches",
    main: "monotonic",
    published: &[
        published("realtime", 0.806_555),
        published("monotonic", 0.793_926),
        published("process-cpu", 1.821_785),
        published("thread-cpu", 1.604_903),
        published("gettimeofday", 0.782_640),
        published("register", 0.109_953),
    ],
    way: Some(|context, _| preflight_of(context, register)),
    parts: &[Part {
        name: "calls",
        count: 1_000_000,
        short: 20_000,
        each: Duration::from_micros(3),
        continues: false,
        measure,
    }],
};

fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let bench = Bench::of(run)?;
    let mut found = Vec::new();
    let whats = EXPERIMENT.published.iter().map(|figure| figure.what).chain([ALL_BITS]);
    for (place, what) in whats.enumerate() {
        if !run.goes_on() {
            break;
        }
        let opened = match what {
            "register" => register(run.context).map_err(|why| Box::new(Measured::unavailable(what, "s", why))),
            // Only a Raspberry Pi has it, and the publication does not, so it is no row elsewhere.
            ALL_BITS => match run.open("bcm-systimer", what, "s") {
                Ok(chosen) => Ok(chosen),
                Err(_) => continue,
            },
            _ => run.open(what, what, "s"),
        };
        match opened {
            Err(unavailable) => found.push(*unavailable),
            Ok(chosen) => {
                let timed = bench.cost(run, chosen.opened.as_dyn(), (place, EXPERIMENT.published.len() + 1));
                found.extend(timed.figures(what, 1_000_000, ("s", 1e9), &chosen.how));
            }
        }
    }
    Ok(found)
}
