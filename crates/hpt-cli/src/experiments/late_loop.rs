//! The loop that must not be late: it looks at the time, and acts when a period has passed.

use std::time::Duration;

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::Measured,
    instruments::{Chosen, beats_of, outlook_of, register},
};
use crate::exit::Failure;

const PERIOD: Duration = Duration::from_micros(100);

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "late-loop",
    title: "how late a loop acts that looks at the time and does nothing else, by the system's clock and by a register",
    published_in: "article (2015)",
    hardware: "Raspberry Pi 1, Linux 3.12; an output pin, sampled at 50 MHz from outside",
    differs: "here the loop tells its own lateness by the source that it looks at, once each 100 µs; no pin is toggled, so that what an edge takes to come out is not in it. There ± 900 ns \
              were read off a screen, here 99 % are not later than the figure",
    published: &[
        Published { what: "usually late, by the system's clock", value: 900.0, unit: "ns" },
        Published { what: "now and then later than, by the system's clock", value: 10_000.0, unit: "ns" },
    ],
    way: Some(|context, _| outlook_of(context, register)),
    parts: &[Part {
        name: "loop",
        count: 100_000,
        short: 2_000,
        each: Duration::from_micros(200),
        continues: false,
        measure,
    }],
};

fn measure(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    let system = run.context.open("monotonic").map(Chosen::of)?;
    let mut found = Vec::new();
    for (place, (by, chosen)) in
        [("the system's clock", Ok(system)), ("register", register(run.context))].into_iter().enumerate()
    {
        let whats = [format!("usually late, by {by}"), format!("now and then later than, by {by}")];
        match chosen.and_then(|chosen| beat(run, &chosen, place, &whats)) {
            Ok(figures) => found.extend(figures),
            Err(why) => found.extend(whats.iter().map(|what| Measured::missing(what, "ns", why.as_str()))),
        }
        if !run.goes_on() {
            break;
        }
    }
    Ok(found)
}

fn beat(run: &Run<'_>, chosen: &Chosen, place: usize, whats: &[String; 2]) -> Result<Vec<Measured>, String> {
    let (late, how) = beats_of(run, chosen, PERIOD, (place, 2))?;
    let Some(all) = late.figure(&whats[0], 1.0, "ns", how.as_str()) else { return Ok(Vec::new()) };
    let latest = Measured::figure(&whats[1], all.max.unwrap_or(0.0), "ns", all.samples, format!("{how}: the latest"));
    Ok(vec![Measured { value: all.p99, ..all }, latest])
}
