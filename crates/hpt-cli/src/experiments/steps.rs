//! The resolution of clocks, and their observed granularity.

use std::time::Duration;

use hpt_core::Frequency;

use super::{
    definition::{Experiment, ExperimentRun, Part, Published},
    figure::{Measured, Tally},
};
use crate::{exit::Failure, output::one_or_many, source_granularity::granularity};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "steps",
    brief: "clock resolution and observed granularity",
    title: "clock resolution (clock_getres) and observed granularity",
    published_in: "article (2015); vendor's manual, examples 15.3 and 15.4",
    hardware: "Raspberry Pi 1, Linux 3.12 (monotonic); a PC with RHEL 8 for Real Time (monotonic-coarse)",
    differs: "example 15.4 reads the clock five times, 200 µs apart, but hpt reads it back to back; the granularity that a loop of reads observes is never smaller than the read overhead; hpt reports the minimum of several measurements, and the quantiles of the individual minima",
    main: "monotonic granularity",
    published: &[
        Published { what: "monotonic resolution", value: 1.0, unit: "ns" },
        Published { what: "monotonic granularity", value: 1_000.0, unit: "ns" },
        Published { what: "monotonic-coarse resolution", value: 999_848.0, unit: "ns" },
        Published { what: "monotonic-coarse granularity", value: 1_000_000.0, unit: "ns" },
    ],
    way: None,
    parts: &[Part {
        name: "measurements",
        count: 20,
        short: 2,
        each: Duration::from_millis(50),
        continues: false,
        measure,
    }],
};

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let reference = run.context.open("monotonic-raw")?;
    let mut found = Vec::new();
    for (place, name) in ["monotonic", "monotonic-coarse"].into_iter().enumerate() {
        let (resolution, steps) = (format!("{name} resolution"), format!("{name} granularity"));
        let chosen = match run.open(name, &resolution, "ns") {
            Ok(chosen) => chosen,
            Err(unavailable) => {
                found.push(Measured { what: steps, ..(*unavailable).clone() });
                found.push(*unavailable);
                continue;
            }
        };
        let source = chosen.opened.as_dyn();
        found.push(match source.info().resolution_ns() {
            Some(ns) => Measured::figure(&resolution, ns, "ns", 1, "clock_getres"),
            None => Measured::unavailable(&resolution, "ns", "clock_getres failed"),
        });
        let (mut looks, mut moved) = (Tally::default(), 0);
        for look in 0..run.count {
            if let Some(seen) = granularity(source, Frequency::GIGAHERTZ, reference.as_dyn()) {
                looks.add([(seen.smallest_ns, 1)].into_iter(), 1.0);
                moved += seen.steps;
            }
            (run.progress)((place as f64 + look as f64 / run.count as f64) / 2.0);
            if !run.goes_on() {
                break;
            }
        }
        let how = format!("{}, {moved} {}", chosen.how, one_or_many(moved, "step", "steps"));
        found.push(match (looks.figure(&steps, 1.0, "ns", how), looks.smallest_ns()) {
            (Some(figure), Some(smallest)) => Measured { value: Some(smallest), ..figure },
            _ => Measured::unavailable(&steps, "ns", "the clock did not advance"),
        });
        if !run.goes_on() {
            break;
        }
    }
    Ok(found)
}
