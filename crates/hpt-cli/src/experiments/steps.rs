//! What clocks claim, and by what they move.

use std::time::Duration;

use hpt_core::Frequency;

use super::{
    definition::{Experiment, Part, Published, Run},
    figure::{Measured, Tally},
};
use crate::{exit::Failure, source_granularity::granularity};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "steps",
    title: "what clocks claim by clock_getres, and the smallest step that is seen",
    published_in: "article (2015); chapter, examples 15.3 and 15.4",
    hardware: "Raspberry Pi 1, Linux 3.12 (monotonic); a PC with RHEL 8 for Real Time (monotonic-coarse)",
    differs: "example 15.4 read five times, 200 µs apart, here a clock is read in a row; the smallest step that a loop of reads sees is never below what a read costs; here it is the smallest of several looks, whose own smallest are in the quantiles",
    published: &[
        Published { what: "monotonic claims", value: 1.0, unit: "ns" },
        Published { what: "monotonic steps by", value: 1_000.0, unit: "ns" },
        Published { what: "monotonic-coarse claims", value: 999_848.0, unit: "ns" },
        Published { what: "monotonic-coarse steps by", value: 1_000_000.0, unit: "ns" },
    ],
    way: None,
    parts: &[Part { name: "looks", count: 20, short: 2, each: Duration::from_millis(50), continues: false, measure }],
};

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    let reference = run.context.open("monotonic-raw")?;
    let mut found = Vec::new();
    for (place, name) in ["monotonic", "monotonic-coarse"].into_iter().enumerate() {
        let (claims, steps) = (format!("{name} claims"), format!("{name} steps by"));
        let chosen = match run.open(name, &claims, "ns") {
            Ok(chosen) => chosen,
            Err(missing) => {
                found.push(Measured { what: steps, ..(*missing).clone() });
                found.push(*missing);
                continue;
            }
        };
        let source = chosen.opened.as_dyn();
        found.push(match source.info().resolution_ns() {
            Some(ns) => Measured::figure(&claims, ns, "ns", 1, "clock_getres"),
            None => Measured::missing(&claims, "ns", "clock_getres does not answer"),
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
        let how = format!("{}, {moved} steps", chosen.how);
        found.push(match (looks.figure(&steps, 1.0, "ns", how), looks.smallest_ns()) {
            (Some(figure), Some(smallest)) => Measured { value: Some(smallest), ..figure },
            _ => Measured::missing(&steps, "ns", "it did not move"),
        });
        if !run.goes_on() {
            break;
        }
    }
    Ok(found)
}
