//! The values of a report that can be compared with those of other reports.

use hpt_document::{
    bench::BenchDocument,
    experiment::ExperimentDocument,
    latency::LatencyFigures,
    sleep::SleepDocument,
    stall::StallDocument,
    wake_latency::{QuantileInterval, WakeLatencyDocument, WakeLatencyRow},
    watch::WatchSummaryDocument,
};

use super::super::data_file::Report;
use crate::output::{chart::Unreadable, rounded, short_time};

/// A value of one report, and the interval that contains it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct One {
    pub(super) part: &'static str,
    pub(super) what: String,
    pub(super) unit: String,
    pub(super) value: f64,
    pub(super) range: Option<(f64, f64)>,
    pub(super) max: Option<f64>,
    pub(super) samples: u64,
    /// The origin of the nominal frequency, and this frequency in hertz, if the value is a frequency error. Nominal
    /// frequencies of different origins differ by more than the clocks themselves.
    pub(super) against: Option<(String, f64)>,
    /// The number of earlier values with this name in the report. For example, if the kernel provides no vDSO, two
    /// rows of `bench` measure the same clock with a system call.
    pub(super) earlier: usize,
}

/// A value, the interval that contains it, and the number of samples.
type Figure = (Option<f64>, Option<(f64, f64)>, u64);

impl One {
    /// Creates a value, or returns `None` if it was not measured.
    fn of(part: &'static str, what: String, unit: &str, (value, range, samples): Figure) -> Option<Self> {
        let value = value.filter(|value| value.is_finite())?;
        Some(Self { part, what, unit: unit.to_owned(), value, range, max: None, samples, against: None, earlier: 0 })
    }
}

/// Returns all values of a report that can be compared.
pub(super) fn figures(report: &Report) -> Result<Vec<One>, Unreadable> {
    let mut found = Vec::new();
    if let Some(bench) = report.document::<BenchDocument>("bench")? {
        for row in bench.results {
            let by_call = row.read_path == "syscall" && ["monotonic", "perf-cycles"].contains(&row.id.as_str());
            let name = format!("{}{}", row.id, if by_call { " (syscall)" } else { "" });
            let (p50, samples) = (row.single.single_p50_ns, row.single.single_samples.unwrap_or(0));
            let one = One::of("bench", format!("{name}, single read, p50"), "ns", (p50, None, samples));
            found.extend(one.map(|one| One { max: row.single.single_max_ns, ..one }));
            let mean = (row.repeated.per_read_ns, None, row.repeated.reads);
            found.extend(One::of("bench", format!("{name}, back to back"), "ns", mean));
        }
    }
    let of_cpu = |what: &str, cpu: Option<usize>, threads: usize| {
        let cpu = cpu.filter(|_| threads > 1).map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
        format!("{what}{cpu}")
    };
    for (part, what) in [("timer", "kernel's timer"), ("timer-hpt", "hpt's Sleeper"), ("poll", "polling")] {
        let Some(document) = report.document::<WakeLatencyDocument>(part)? else { continue };
        found.extend(document.results.iter().flat_map(|row| {
            let what = of_cpu(what, row.cpu, document.results.len());
            quantiles(row)
                .filter_map(move |(quantile, value)| {
                    let figure = (value, interval(row, quantile), row.figures.samples);
                    let one = One::of(part, format!("{what}, {quantile}"), "ns", figure)?;
                    Some(One { max: Some(whole(row.figures.max_ns)), ..one })
                })
                .collect::<Vec<_>>()
        }));
    }
    if let Some(document) = report.document::<StallDocument>("stall")? {
        found.extend(document.results.iter().filter_map(|row| {
            let what = format!("{}, p50", of_cpu("stalls", row.cpu, document.results.len()));
            let one = One::of("stall", what, "ns", (row.p50_ns.map(whole), None, row.stalls))?;
            Some(One { max: row.max_ns.map(whole), ..one })
        }));
    }
    if let Some(document) = report.document::<SleepDocument>("sleep")? {
        found.extend(document.results.iter().filter_map(|row| {
            let what = format!("{}, {}, p50", short_time(whole(row.duration_ns)), row.method);
            let one = One::of("sleep", what, "ns", (row.p50_ns, None, row.samples))?;
            Some(One { max: row.max_ns, ..one })
        }));
    }
    if let Some(watch) = report.document::<WatchSummaryDocument>("watch")? {
        found.extend(watch.sources.iter().filter_map(|row| {
            let low = row.lowest_ppm.zip(row.lowest_bound_ppm).map(|(ppm, bound)| ppm - bound);
            let high = row.highest_ppm.zip(row.highest_bound_ppm).map(|(ppm, bound)| ppm + bound);
            let range = low.zip(high);
            let middle = range.map(|(low, high)| rounded(f64::midpoint(low, high)));
            let what = format!("{}, frequency error against {}", row.source, watch.reference);
            let one = One::of("watch", what, "ppm", (middle, range, row.offset.bursts))?;
            Some(One { against: row.expected_origin.clone().zip(row.expected_hz), ..one })
        }));
    }
    if let Some(experiment) = report.document::<ExperimentDocument>("experiment")? {
        found.extend(experiment.results.iter().filter_map(|row| {
            let what = format!("{}: {}", row.experiment, row.quantity);
            let middle = row.p50.or(row.measured);
            One::of("experiment", what, &row.unit, (middle, None, row.samples))
        }));
    }
    Ok(numbered(found))
}

/// The confidence of the intervals that are compared. It is high, because many values are compared.
const CONFIDENCE: f64 = 0.999;

/// Returns the quantiles of a row, each with its name.
fn quantiles(row: &WakeLatencyRow) -> impl Iterator<Item = (&'static str, Option<f64>)> {
    let LatencyFigures { p50_ns, p99_ns, p999_ns, .. } = row.figures;
    [("p50", Some(p50_ns)), ("p99", p99_ns), ("p99.9", p999_ns)].into_iter().map(|(name, ns)| (name, ns.map(whole)))
}

/// Returns the interval that contains a quantile.
fn interval(row: &WakeLatencyRow, quantile: &str) -> Option<(f64, f64)> {
    let is_it = |one: &&QuantileInterval| one.quantile == quantile && (one.confidence - CONFIDENCE).abs() < 1e-9;
    let one = row.intervals.iter().find(is_it)?;
    one.low_ns.zip(one.high_ns).map(|(low, high)| (whole(low), whole(high)))
}

#[expect(clippy::cast_precision_loss, reason = "for comparing")]
fn whole(ns: u64) -> f64 {
    ns as f64
}

/// Numbers the values that share a name.
pub(super) fn numbered(mut found: Vec<One>) -> Vec<One> {
    for at in 0..found.len() {
        let (before, rest) = found.split_at_mut(at);
        rest[0].earlier = before.iter().filter(|other| is_named_alike(&rest[0], other)).count();
    }
    found
}

/// Returns whether two values have the same meaning.
pub(super) fn is_same(one: &One, other: &One) -> bool {
    is_named_alike(one, other) && one.earlier == other.earlier
}

fn is_named_alike(one: &One, other: &One) -> bool {
    one.part == other.part && one.what == other.what && one.unit == other.unit
}

/// Returns whether the nominal frequencies of both values have the same origin, or both have none.
pub(super) fn is_alike(one: &One, other: &One) -> bool {
    let by = |one: &One| one.against.as_ref().map(|(by, _)| by.clone());
    by(one) == by(other)
}
