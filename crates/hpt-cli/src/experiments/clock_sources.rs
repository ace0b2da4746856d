//! Ten million reads of the kernel's clocks, under the active clocksource or under each available clocksource.

use std::time::Duration;

use super::{
    definition::{Experiment, Part, Preflight, Published, Run, Ways},
    figure::Measured,
};
use hpt_document::clocksource_cost::ClockCost;

use crate::{
    context::Context,
    exit::Failure,
    kernel_clocksources::{Timing, measure as measure_clocks},
};

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "s" }
}

const fn resolution(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

/// The kernel's names for the published clocksources, and their names in example 15.1. Examples 15.1 and 15.5
/// both measure CLOCK_MONOTONIC.
const SOURCES: [(&str, &str); 3] = [("tsc", "15.1, TSC"), ("hpet", "15.1, HPET"), ("acpi_pm", "15.1, ACPI PM")];
const CLOCKS: [&str; 2] = ["monotonic", "monotonic-coarse"];
/// The published number of reads.
const READS: f64 = 1e7;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "clock-sources",
    title: "ten million reads of CLOCK_MONOTONIC and of CLOCK_MONOTONIC_COARSE, and the resolution of both clocks, under each of the kernel's clocksources",
    published_in: "vendor's manual, examples 15.1, 15.3 and 15.5",
    hardware: "a PC with RHEL 8 for Real Time",
    differs: "by default, hpt measures only the active clocksource; --all-clock-sources, which requires root, also measures the other clocksources; example 15.1 times a whole program, but hpt times only \
              the reads; user and system times have the granularity of the kernel's tick; times of fewer reads are scaled to ten million",
    published: &[
        published("15.1, TSC", 0.601),
        published("15.1, TSC, user", 0.592),
        published("15.1, TSC, system", 0.002),
        published("15.1, HPET", 12.263),
        published("15.1, HPET, user", 12.197),
        published("15.1, HPET, system", 0.001),
        published("15.1, ACPI PM", 24.461),
        published("15.1, ACPI PM, user", 0.504),
        published("15.1, ACPI PM, system", 23.776),
        resolution("monotonic resolution, tsc", 1.0),
        resolution("monotonic resolution, hpet", 1.0),
        resolution("monotonic resolution, acpi_pm", 1.0),
        resolution("monotonic-coarse resolution, tsc", 999_848.0),
        resolution("monotonic-coarse resolution, hpet", 999_848.0),
        resolution("monotonic-coarse resolution, acpi_pm", 999_848.0),
        published("monotonic, tsc", 0.567),
        published("monotonic, hpet", 12.257),
        published("monotonic, acpi_pm", 25.524),
        published("monotonic-coarse, tsc", 0.120),
        published("monotonic-coarse, hpet", 0.119),
        published("monotonic-coarse, acpi_pm", 0.119),
    ],
    way: Some(preflight),
    parts: &[Part {
        name: "reads",
        count: 10_000_000,
        short: 100_000,
        each: Duration::from_nanos(200),
        continues: false,
        measure,
    }],
};

fn preflight(_: &Context, ways: &Ways) -> Result<Preflight, Failure> {
    let under = ways.clock_sources.as_ref().map(|comparison| format!("under {}", comparison.names.join(", ")));
    Ok(Preflight { conditions: under.into_iter().collect(), ..Preflight::default() })
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &Run<'_>) -> Result<Vec<Measured>, Failure> {
    let sources = run.context.host.clock_sources();
    let current = sources.current.clone().unwrap_or_else(|| "unknown".to_owned());
    let under = run.ways.clock_sources.as_ref().map_or(1, |comparison| comparison.names.len());
    let all = run.count as f64 * (CLOCKS.len() * under) as f64;
    let progress = |done: u64| (run.progress)(done as f64 / all);
    let mut refused = Vec::new();
    let (results, by) = if let Some(comparison) = &run.ways.clock_sources {
        let made = comparison.make(run.context, "hpt experiment", &CLOCKS, run.count, &|_, done| progress(done))?;
        run.warnings.borrow_mut().extend(made.warnings);
        refused = made.refused;
        (made.results, made.stopwatch)
    } else {
        let (timing, mut results) = (Timing::of(run.context)?, Vec::new());
        measure_clocks(run.context, &timing, &current, &CLOCKS, run.count, &progress, &mut results)?;
        (results, timing.stopwatch_name())
    };
    let mut found: Vec<Measured> = results.iter().flat_map(|cost| figures(cost, &by)).collect();
    if !run.goes_on() {
        return Ok(found);
    }
    let is_missing = |name: &str| !results.iter().any(|cost| cost.clocksource == name);
    for (name, _) in SOURCES.into_iter().filter(|(name, _)| is_missing(name)) {
        let refused = refused.iter().find(|not| not.clocksource == name).map(|not| not.reason.as_str());
        let why = why_not(name, &current, sources.offers(name), refused);
        let of_it = EXPERIMENT.published.iter().filter(|published| is_of(published.what, name));
        found.extend(of_it.map(|published| Measured::unavailable(published.what, published.unit, why.as_str())));
    }
    Ok(found)
}

/// Returns whether a published value belongs to this clocksource.
fn is_of(what: &str, name: &str) -> bool {
    let example = SOURCES.iter().find(|(other, _)| *other == name).map_or("", |(_, example)| example);
    what == example || what.starts_with(&format!("{example}, ")) || what.ends_with(&format!(", {name}"))
}

fn why_not(name: &str, current: &str, offered: Option<bool>, refused: Option<&str>) -> String {
    match (refused, offered) {
        (Some(refused), _) => format!("the kernel did not switch to {name}: {refused}"),
        (None, Some(true)) => {
            format!(
                "{current} is the active clocksource; run hpt as root with --all-clock-sources to measure {name}, too; hpt then restores {current}"
            )
        }
        (None, Some(false)) => format!(
            "the kernel of this system does not offer {name}, which requires a PC with this device and a kernel that has not disabled the device; `hpt clocksource` shows the reason"
        ),
        (None, None) => {
            "cannot read the kernel's clocksources: /sys/devices/system/clocksource does not exist; mount /sys"
                .to_owned()
        }
    }
}

/// Returns the values of one clock under one clocksource, including the values of the examples.
#[expect(clippy::cast_precision_loss, reason = "resolutions are below 2^53 ns, and so are counts of reads")]
fn figures(cost: &ClockCost, by: &str) -> Vec<Measured> {
    let ClockCost { clocksource, clock, repeated, single, .. } = cost;
    let how = format!("{clock} ({})", cost.read_path);
    // Scales the time for fewer reads to ten million reads.
    let as_published = |seconds: f64| seconds * READS / (repeated.reads as f64).max(1.0);
    let figure =
        |what: String, seconds: f64| Measured::figure(&what, as_published(seconds), "s", repeated.reads, how.as_str());
    let mut found = vec![figure(format!("{clock}, {clocksource}"), repeated.total_s)];
    let example = SOURCES.iter().find(|(name, _)| name == clocksource).filter(|_| *clock == "monotonic");
    if let Some((_, example)) = example {
        let parts = [("", repeated.total_s), (", user", repeated.user_s), (", system", repeated.system_s)];
        found.extend(parts.map(|(part, seconds)| figure(format!("{example}{part}"), seconds)));
    }
    let resolution = format!("{clock} resolution, {clocksource}");
    found.extend(cost.resolution_ns.map(|ns| Measured::figure(&resolution, ns as f64, "ns", 1, "clock_getres")));
    if let Some(p50) = single.single_p50_ns {
        let what = format!("{clock}, {clocksource}: single read");
        let samples = single.single_samples.unwrap_or(0);
        let median = Measured::figure(&what, p50, "ns", samples, format!("{how}; p50, timed with {by}"));
        let quantiles = (single.single_p50_ns, single.single_p99_ns, single.single_max_ns);
        found.push(Measured { p50: quantiles.0, p99: quantiles.1, max: quantiles.2, ..median });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{EXPERIMENT, SOURCES, is_of, why_not};

    #[test]
    fn every_published_figure_belongs_to_one_clocksource() {
        for published in EXPERIMENT.published {
            let of = SOURCES.iter().filter(|(name, _)| is_of(published.what, name)).count();
            assert_eq!(of, 1, "{}", published.what);
        }
    }

    #[test]
    fn a_missing_clocksource_states_its_requirement() {
        assert!(why_not("hpet", "tsc", Some(true), None).contains("--all-clock-sources"));
        assert!(why_not("hpet", "tsc", Some(false), None).contains("does not offer hpet, which requires"));
        assert!(why_not("hpet", "unknown", None, None).contains("mount /sys"));
        assert!(why_not("hpet", "tsc", Some(true), Some("overridden")).contains("did not switch to hpet: overridden"));
    }
}
