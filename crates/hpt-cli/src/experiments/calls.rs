//! A million reads of each clock, and of a counter register.

use std::time::Duration;

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::Measured,
    instruments::{Bench, preflight_of, register},
};
use crate::exit::Failure;

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "s" }
}

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

fn measure(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    let bench = Bench::of(run)?;
    let mut found = Vec::new();
    for (place, figure) in EXPERIMENT.published.iter().enumerate() {
        if !run.goes_on() {
            break;
        }
        let what = figure.what;
        let opened = if what == "register" {
            register(run.context).map_err(|why| Box::new(Measured::unavailable(what, "s", why)))
        } else {
            run.open(what, what, "s")
        };
        match opened {
            Err(unavailable) => found.push(*unavailable),
            Ok(chosen) => {
                let timed = bench.cost(run, chosen.opened.as_dyn(), (place, EXPERIMENT.published.len()));
                found.extend(timed.figures(what, 1_000_000, ("s", 1e9), &chosen.how));
            }
        }
    }
    Ok(found)
}
