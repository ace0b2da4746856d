//! The values of a run that can be compared with those of other runs.

use hpt_document::{
    bench::BenchDocument,
    calibrate::{CalibrateDocument, CalibrationRow},
    experiment::ExperimentDocument,
    gpio_latency::GpioLatencyDocument,
    latency::LatencyFigures,
    pairs::PairsDocument,
    quantiles::{LatencyList, Quantile, QuantileList, Quantiles},
    sleep::SleepDocument,
    stall::{StallDocument, StallThreadRow},
    wake_latency::{MissedDeadlines, QuantileInterval, TimeSeriesInterval, WakeLatencyDocument, WakeLatencyRow},
    watch::WatchSummaryDocument,
};

use super::super::data_file::Report;
use crate::{
    output::{chart::Unreadable, rounded, short_time},
    statistics::quantile,
};

/// The confidence of the intervals of one run. It is high, because many values are compared.
pub(super) const CONFIDENCE: f64 = 0.999;

/// The knowledge about a value from one run alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Range {
    /// hpt has no method for this value.
    Unknown,
    /// There are too few samples or bursts for an interval.
    TooFew,
    /// A confidence interval.
    Confidence(f64, f64),
    /// Limits that the value cannot exceed.
    Bound(f64, f64),
}

/// The kind of a value. Some values are compared only within runs, and some only between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Figure,
    /// The median of the maxima of short intervals of one run.
    MaximaOfBlocks,
    /// The maximum of a run, which is a block of several.
    Maximum,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct One {
    pub(super) part: &'static str,
    pub(super) what: String,
    pub(super) unit: String,
    /// The value; `None` if there are too few samples for it.
    pub(super) value: Option<f64>,
    pub(super) range: Range,
    pub(super) kind: ValueKind,
    pub(super) max: Option<f64>,
    pub(super) samples: u64,
    /// The smallest difference between two values that the instrument shows, in the unit of the value.
    pub(super) step: f64,
    /// The origin of the nominal frequency, and this frequency in hertz, if the value is a frequency error. Nominal
    /// frequencies of different origins differ by more than the clocks themselves.
    pub(super) against: Option<(String, f64)>,
    /// The number of earlier values with this name in the run. For example, if the kernel provides no vDSO, two rows of
    /// `bench` measure the same clock with a system call.
    pub(super) earlier: usize,
}

impl One {
    fn of(part: &'static str, what: String, unit: &str, value: Option<f64>) -> Self {
        let (value, unit) = (value.filter(|value| value.is_finite()), unit.to_owned());
        let (range, kind) = (Range::Unknown, ValueKind::Figure);
        Self { part, what, unit, value, range, kind, max: None, samples: 0, step: 1.0, against: None, earlier: 0 }
    }
}

/// Returns all values of a run that can be compared. `block_ns` is the length of the intervals of which the maxima are
/// compared.
pub(super) fn figures(run: &Report, block_ns: u64) -> Result<Vec<One>, Unreadable> {
    let mut found = Vec::new();
    if let Some(bench) = run.document::<BenchDocument>("bench")? {
        found.extend(of_bench(&bench));
    }
    for (part, what) in [("timer", "kernel's timer"), ("timer-hpt", "hpt's Sleeper"), ("poll", "polling")] {
        if let Some(document) = run.document::<WakeLatencyDocument>(part)? {
            found.extend(of_wakes(part, what, &document, block_ns));
        }
    }
    if let Some(document) = run.document::<GpioLatencyDocument>("gpio")? {
        let step = whole(document.reads.clock_granularity_ns.unwrap_or(1));
        found.extend(document.results.iter().flat_map(|row| {
            let what = format!("edge, {}", row.figure.name());
            of_figures(("gpio", &what), &row.figures, step)
        }));
    }
    if let Some(document) = run.document::<StallDocument>("stall")? {
        found.extend(document.results.iter().flat_map(|row| of_stalls(row, document.results.len())));
    }
    if let Some(document) = run.document::<PairsDocument>("pairs")? {
        found.extend(document.results.iter().flat_map(|row| {
            of_quantiles(&row.quantiles, |name, ns| {
                let what = format!("{}, {name}", row.id);
                One { samples: row.samples, max: row.max_ns, ..One::of("pairs", what, "ns", ns) }
            })
        }));
    }
    if let Some(document) = run.document::<SleepDocument>("sleep")? {
        found.extend(document.results.iter().flat_map(|row| {
            let what = format!("{}, {}", short_time(whole(row.duration_ns)), row.method);
            let figure = move |name: &str, ns| One {
                samples: row.samples,
                max: row.max_ns,
                ..One::of("sleep", format!("{what}, {name}"), "ns", ns)
            };
            of_quantiles(&row.quantiles, figure)
        }));
    }
    if let Some(watch) = run.document::<WatchSummaryDocument>("watch")? {
        found.extend(of_watch(&watch));
    }
    if let Some(document) = run.document::<CalibrateDocument>("calibrate")? {
        found.extend(document.calibrations.iter().filter_map(of_calibration));
    }
    if let Some(experiment) = run.document::<ExperimentDocument>("experiment")? {
        found.extend(experiment.results.iter().filter_map(|row| {
            let middle = row.p50.or(row.measured)?;
            let what = format!("{}: {}", row.experiment, row.quantity);
            Some(One { samples: row.samples, step: 0.0, ..One::of("experiment", what, &row.unit, Some(middle)) })
        }));
    }
    Ok(numbered(found))
}

/// Returns the values of a thread that recorded stalls. `threads` is the number of threads.
fn of_stalls(row: &StallThreadRow, threads: usize) -> Vec<One> {
    let what = of_cpu("stalls", row.cpu, threads);
    let max = row.max_ns.map(whole);
    let tail = of_quantiles(&row.quantiles, |name, ns| One {
        samples: row.stalls,
        max,
        ..One::of("stall", format!("{what}, {name}"), "ns", ns)
    });
    let lost = (row.elapsed_ns > 0).then(|| whole(row.stalled_ns) / whole(row.elapsed_ns) * 100.0);
    let lost = One { step: 0.0, samples: row.stalls, ..One::of("stall", format!("{what}, time lost"), "%", lost) };
    tail.chain([lost, maximum("stall", &what, max, row.stalls)]).collect()
}

fn of_calibration(row: &CalibrationRow) -> Option<One> {
    let hz = row.frequency_hz?;
    let range = row.lowest_hz.zip(row.highest_hz).map_or(Range::Unknown, |(low, high)| Range::Bound(low, high));
    let reference = row.reference.as_deref().unwrap_or("nothing");
    let one = One::of("calibrate", format!("{}, frequency against {reference}", row.source), "Hz", Some(hz));
    Some(One { range, step: 0.0, samples: row.pairs.map_or(0, |pairs| pairs as u64), ..one })
}

/// Returns whether a quantile is compared. Further ones depend on few samples.
fn is_compared(quantile: &Quantile) -> bool {
    quantile.share <= 0.999
}

/// Returns a value for each quantile that is compared. `one` creates it from the name and the value of the quantile.
fn of_quantiles<L: QuantileList>(
    quantiles: &Quantiles<L>,
    one: impl Fn(&str, Option<f64>) -> One,
) -> impl Iterator<Item = One> {
    quantiles.nanos().filter(|(quantile, _)| is_compared(quantile)).map(move |(quantile, ns)| one(quantile.name, ns))
}

fn of_bench(bench: &BenchDocument) -> Vec<One> {
    let of_row = |row: &hpt_document::bench::BenchRow| {
        let by_call = row.read_path == "syscall" && ["monotonic", "perf-cycles"].contains(&row.id.as_str());
        let name = format!("{}{}", row.id, if by_call { " (syscall)" } else { "" });
        let single = &row.single;
        let figure = |quantile: &str, ns| One {
            max: single.single_max_ns,
            samples: single.single_samples.unwrap_or(0),
            ..One::of("bench", format!("{name}, single read, {quantile}"), "ns", ns)
        };
        let (mean, what) = (row.repeated.per_read_ns, format!("{name}, back to back"));
        let mean = One { samples: row.repeated.reads, step: 0.0, ..One::of("bench", what, "ns", mean) };
        of_quantiles(&single.quantiles, figure).chain([mean]).collect::<Vec<_>>()
    };
    let mut found: Vec<One> = bench.results.iter().flat_map(of_row).collect();
    // A source that cannot be read has no values.
    found.retain(|one| one.samples > 0);
    found
}

fn of_wakes(part: &'static str, what: &str, document: &WakeLatencyDocument, block_ns: u64) -> Vec<One> {
    let step = whole(document.reads.clock_granularity_ns.unwrap_or(1));
    // The figures of both kinds have different meanings, so they are different quantities.
    let left_out = document.missed_deadlines == MissedDeadlines::LeftOut;
    let what = if left_out { format!("{what} (missed deadlines left out)") } else { what.to_owned() };
    let of_row = |(phase, row): (&str, &WakeLatencyRow)| {
        let what = of_cpu(&what, row.cpu, document.results.len()) + phase;
        let mut found = of_figures((part, &what), &row.figures, step);
        for (one, quantile) in found.iter_mut().zip(LatencyList::LIST.iter().filter(|quantile| is_compared(quantile))) {
            one.range = interval(row, quantile.name);
        }
        found.extend(maxima(row, block_ns).map(|(value, range, blocks)| {
            let what = format!("{what}, median of the max per {}", short_time(whole(block_ns)));
            let one = One::of(part, what, "ns", value);
            One {
                range,
                kind: ValueKind::MaximaOfBlocks,
                max: Some(whole(row.figures.max_ns)),
                samples: blocks,
                step,
                ..one
            }
        }));
        found
    };
    let loaded = document.loaded.iter().flat_map(|phase| &phase.results).map(|row| (" under load", row));
    document.results.iter().map(|row| ("", row)).chain(loaded).flat_map(of_row).collect()
}

/// Returns the quantiles and the maximum of a distribution.
fn of_figures((part, what): (&'static str, &str), figures: &LatencyFigures, step: f64) -> Vec<One> {
    let max = Some(whole(figures.max_ns));
    let figure = |name: &str, ns| One {
        max,
        samples: figures.samples,
        step,
        ..One::of(part, format!("{what}, {name}"), "ns", ns)
    };
    let maximum = maximum(part, what, max, figures.samples);
    of_quantiles(&figures.quantiles, figure).chain([One { step, ..maximum }]).collect()
}

fn maximum(part: &'static str, what: &str, max: Option<f64>, samples: u64) -> One {
    One { kind: ValueKind::Maximum, max, samples, ..One::of(part, format!("{what}, max"), "ns", max) }
}

fn of_watch(watch: &WatchSummaryDocument) -> Vec<One> {
    let of_row = |row: &hpt_document::watch::WatchSummaryRow| {
        let low = row.lowest_ppm.zip(row.lowest_bound_ppm).map(|(ppm, bound)| ppm - bound)?;
        let high = row.highest_ppm.zip(row.highest_bound_ppm).map(|(ppm, bound)| ppm + bound)?;
        let what = format!("{}, frequency error against {}", row.source, watch.reference);
        let one = One::of("watch", what, "ppm", Some(rounded(f64::midpoint(low, high))));
        let against = row.expected_origin.clone().zip(row.expected_hz);
        Some(One { range: Range::Bound(low, high), samples: row.offset.bursts, step: 0.0, against, ..one })
    };
    watch.sources.iter().filter_map(of_row).collect()
}

fn of_cpu(what: &str, cpu: Option<usize>, threads: usize) -> String {
    let cpu = cpu.filter(|_| threads > 1).map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
    format!("{what}{cpu}")
}

/// Returns the interval that contains a quantile.
fn interval(row: &WakeLatencyRow, quantile: &str) -> Range {
    let is_it = |one: &&QuantileInterval| one.quantile == quantile && (one.confidence - CONFIDENCE).abs() < 1e-9;
    let one = row.intervals.iter().find(is_it);
    one.and_then(|one| one.low_ns.zip(one.high_ns))
        .map_or(Range::TooFew, |(low, high)| Range::Confidence(whole(low), whole(high)))
}

/// Returns the median of the maxima of blocks, its interval, and the number of blocks. The length of the intervals of
/// the time series divides the length of a block.
fn maxima(row: &WakeLatencyRow, block_ns: u64) -> Option<(Option<f64>, Range, u64)> {
    if block_ns == 0 || row.time_series_interval_ns == 0 {
        return None;
    }
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for TimeSeriesInterval(start_ns, _, _, max_ns) in &row.time_series {
        match blocks.last_mut().filter(|(place, _)| *place == start_ns / block_ns) {
            Some((_, known)) => *known = (*known).max(*max_ns),
            None => blocks.push((start_ns / block_ns, *max_ns)),
        }
    }
    // The last block is shorter than the others.
    blocks.pop();
    let mut values: Vec<u64> = blocks.iter().map(|(_, max_ns)| *max_ns).collect();
    let in_order = values.clone();
    values.sort_unstable();
    let median = values.get(values.len() / 2).copied().map(whole);
    let count = values.len() as u64;
    values.dedup();
    let one_sample = |value: &u64| -> Vec<u64> { values.iter().map(|bin| u64::from(bin == value)).collect() };
    let blocks: Vec<Vec<u64>> = in_order.iter().map(one_sample).collect();
    let range = quantile::interval(&blocks, 0.5, 1.0 - CONFIDENCE).map_or(Range::TooFew, |bins| {
        let at = |place: usize| whole(values[place.min(values.len() - 1)]);
        Range::Confidence(at(bins.low), at(bins.end))
    });
    Some((median, range, count))
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
