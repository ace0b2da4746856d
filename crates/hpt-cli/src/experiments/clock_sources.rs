//! Ten million reads of the kernel's clocks, under the active clocksource or under each available clocksource.

use std::time::Duration;

use super::{
    definition::{Experiment, ExperimentRun, Part, Preflight, Published, RunOptions},
    figure::Measured,
    instruments::time_of,
};
use hpt_document::clocksource_cost::ClockCost;

use crate::{
    context::Context,
    exit::Failure,
    kernel_clocksources::{ClockReadTiming, ClockReads},
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
const READS: u64 = 10_000_000;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "clock-sources",
    brief: "reads under each of the kernel's clocksources",
    title: "ten million reads of CLOCK_MONOTONIC and of CLOCK_MONOTONIC_COARSE, and the resolution of both clocks, under each of the kernel's clocksources",
    published_in: "vendor's manual, examples 15.1, 15.3 and 15.5",
    hardware: "a PC with RHEL 8 for Real Time",
    differs: "by default, hpt measures only the active clocksource; --all-clock-sources, which requires root, also measures the other clocksources; example 15.1 times a whole program, but hpt times only \
              the reads; user and system times have the granularity of the kernel's tick; the time of fewer reads is the median of their batches, multiplied to ten million",
    main: "monotonic, tsc",
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
        published("monotonic, tsc, user", 0.559),
        published("monotonic, tsc, system", 0.002),
        published("monotonic, hpet", 12.257),
        published("monotonic, hpet, user", 12.179),
        published("monotonic, hpet, system", 0.002),
        published("monotonic, acpi_pm", 25.524),
        published("monotonic, acpi_pm, user", 0.451),
        published("monotonic, acpi_pm, system", 24.932),
        published("monotonic-coarse, tsc", 0.120),
        published("monotonic-coarse, tsc, user", 0.118),
        published("monotonic-coarse, tsc, system", 0.001),
        published("monotonic-coarse, hpet", 0.119),
        published("monotonic-coarse, hpet, user", 0.118),
        published("monotonic-coarse, hpet, system", 0.000),
        published("monotonic-coarse, acpi_pm", 0.119),
        published("monotonic-coarse, acpi_pm, user", 0.117),
        published("monotonic-coarse, acpi_pm, system", 0.001),
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

fn preflight(_: &Context, ways: &RunOptions) -> Result<Preflight, Failure> {
    let under = ways.clock_sources.as_ref().map(|comparison| format!("under {}", comparison.names.join(", ")));
    Ok(Preflight { conditions: under.into_iter().collect(), ..Preflight::default() })
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let sources = run.context.host.clock_sources();
    let current = sources.current.clone().unwrap_or_else(|| "unknown".to_owned());
    let under = run.ways.clock_sources.as_ref().map_or(1, |comparison| comparison.names.len());
    let all = run.count as f64 * (CLOCKS.len() * under) as f64;
    let progress = |done: u64| (run.progress)(done as f64 / all);
    let mut refused = Vec::new();
    let reads = ClockReads { context: run.context, cpu: run.ways.cpu, clocks: &CLOCKS, calls: run.count };
    let (results, by) = if let Some(comparison) = &run.ways.clock_sources {
        let made = comparison.make("hpt experiment", reads, &|_, done| progress(done))?;
        run.warnings.borrow_mut().extend(made.warnings);
        refused = made.refused;
        (made.results, made.stopwatch)
    } else {
        let (timing, mut results) = (ClockReadTiming::of(reads)?, Vec::new());
        timing.measure(&current, &progress, &mut results)?;
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
    what == example || what.starts_with(&format!("{example}, ")) || what.split(", ").any(|part| part == name)
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
#[expect(clippy::cast_precision_loss, reason = "resolutions are below 2^53 ns")]
fn figures(cost: &ClockCost, by: &str) -> Vec<Measured> {
    let ClockCost { clocksource, clock, repeated, single, .. } = cost;
    let how = format!("{clock} ({})", cost.read_path);
    let Some((seconds, by_median)) = time_of(READS, repeated) else { return Vec::new() };
    let figure = |what: String, seconds: f64| {
        let how = format!("{how}{by_median}");
        let figure = Measured::figure(&what, seconds, "s", repeated.reads, how);
        Measured { not_run_share: repeated.not_run_share, ..figure }
    };
    // The total CPU time of fewer reads may contain steal time, so the median is divided in the same proportion.
    let cpu_s = repeated.user_s + repeated.system_s;
    let is_total = by_median.is_empty();
    let of_cpu = |part_s: f64| if is_total || cpu_s <= 0.0 { part_s } else { seconds * part_s / cpu_s };
    let parts = [("", seconds), (", user", of_cpu(repeated.user_s)), (", system", of_cpu(repeated.system_s))];
    let mut found = parts.map(|(part, seconds)| figure(format!("{clock}, {clocksource}{part}"), seconds)).to_vec();
    let example = SOURCES.iter().find(|(name, _)| name == clocksource).filter(|_| *clock == "monotonic");
    if let Some((_, example)) = example {
        found.extend(parts.map(|(part, seconds)| figure(format!("{example}{part}"), seconds)));
    }
    let resolution = format!("{clock} resolution, {clocksource}");
    found.extend(cost.resolution_ns.map(|ns| Measured::figure(&resolution, ns as f64, "ns", 1, "clock_getres")));
    if let Some(p50) = single.quantiles.median() {
        let what = format!("{clock}, {clocksource}: single read");
        let samples = single.single_samples.unwrap_or(0);
        let median = Measured::figure(&what, p50, "ns", samples, format!("{how}; p50, timed with {by}"));
        let median = Measured { not_run_share: repeated.not_run_share, ..median };
        found.push(Measured { p50: Some(p50), p99: single.quantiles.p99(), max: single.single_max_ns, ..median });
    }
    found
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        clocksource_cost::ClockCost,
        read_cost::{RepeatedReads, SingleReads},
    };

    use super::{EXPERIMENT, SOURCES, figures, is_of, why_not};

    #[test]
    fn a_stall_during_few_reads_is_not_multiplied() {
        let cost = |reads| ClockCost {
            clocksource: "tsc".to_owned(),
            clock: "monotonic".to_owned(),
            read_path: "vdso".to_owned(),
            repeated: RepeatedReads {
                reads,
                complete: true,
                total_s: 10.5,
                user_s: 0.03,
                system_s: 0.01,
                per_read_ns: Some(50.0),
                per_read_p25_ns: Some(49.5),
                per_read_p75_ns: Some(50.5),
                per_read_min_ns: Some(49.0),
                batches: 40,
                mean_read_ns: Some(105_000.0),
                not_run_share: Some(0.95),
            },
            ratio_to_first: None,
            single: SingleReads::default(),
            resolution_ns: None,
            granularity_ns: None,
        };
        let values = |reads| {
            let found = figures(&cost(reads), "tsc");
            assert!(found.iter().all(|figure| figure.not_run_share == Some(0.95)), "{found:?}");
            found.iter().map(|figure| figure.value.expect("measured")).collect::<Vec<_>>()
        };
        // The median of the batches, multiplied by ten million, and divided as the CPU time.
        assert_eq!(values(100_000), [0.5, 0.375, 0.125, 0.5, 0.375, 0.125]);
        assert_eq!(values(10_000_000), [10.5, 0.03, 0.01, 10.5, 0.03, 0.01]);
    }

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
