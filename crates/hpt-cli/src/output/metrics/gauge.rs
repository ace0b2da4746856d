//! Gauges, which are created from the rows of a document. This module is independent of the kinds of documents.

use hpt_document::quantiles::{QuantileList, Quantiles};

/// A gauge with all its samples. Counts are also gauges, because they cover a single run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gauge {
    /// The name of the gauge without the unit, which is appended.
    pub(crate) name: &'static str,
    /// The unit: `seconds`, `hertz` or `ratio`; empty for counts and for yes/no values.
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

pub(crate) type Labels = Vec<(&'static str, String)>;

/// Returns a gauge with one labeled sample per row. Omits rows without this figure.
pub(super) fn of_rows<'a, T: 'a>(
    rows: impl IntoIterator<Item = &'a T>,
    labels: fn(&T) -> Labels,
    (name, unit, help): (&'static str, &'static str, &'static str),
    figure: impl Fn(&T) -> Option<f64>,
) -> Gauge {
    let sample = |row: &T| Some(Sample { labels: labels(row), value: figure(row)? });
    Gauge { name, unit, help, samples: rows.into_iter().filter_map(sample).collect() }
}

/// Returns the share and the value of each quantile, in nanoseconds. The maximum has the share 1.
pub(super) fn quantile_levels<L: QuantileList>(quantiles: &Quantiles<L>, max_ns: Option<u64>) -> Vec<(f64, f64)> {
    let known = quantiles.nanos().filter_map(|(quantile, ns)| Some((quantile.share, ns?)));
    known.chain(max_ns.map(|ns| (1.0, whole(ns)))).collect()
}

/// Returns a gauge of the quantiles of each row, in seconds.
pub(super) fn of_quantiles<'a, T: 'a>(
    rows: impl IntoIterator<Item = &'a T>,
    labels: fn(&T) -> Labels,
    levels: fn(&T) -> Vec<(f64, f64)>,
    (name, help): (&'static str, &'static str),
) -> Gauge {
    let samples = rows.into_iter().flat_map(|row| {
        levels(row).into_iter().map(move |(share, ns)| {
            let labels = labels(row).into_iter().chain([("quantile_level", share.to_string())]);
            Sample { labels: labels.collect(), value: seconds(ns) }
        })
    });
    Gauge { name, unit: "seconds", help, samples: samples.collect() }
}

/// Returns the label of a CPU. The label is `any` for a thread that is not pinned, because a label must not be empty.
pub(super) fn cpu_label(cpu: Option<usize>) -> (&'static str, String) {
    ("cpu", cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()))
}

/// Returns a gauge with a single sample, for a figure of the whole document.
pub(super) fn single((name, unit, help): (&'static str, &'static str, &'static str), value: Option<f64>) -> Gauge {
    let samples = value.map(|value| Sample { labels: Vec::new(), value }).into_iter().collect();
    Gauge { name, unit, help, samples }
}

/// Returns the value of a label, or an empty string if the value is missing.
pub(super) fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

/// Converts a count to the value of a sample.
#[expect(clippy::cast_precision_loss, reason = "samples are floating-point numbers")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// Converts nanoseconds to seconds.
pub(super) fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

/// Converts parts per million to a ratio.
pub(super) fn ratio(ppm: f64) -> f64 {
    ppm / 1e6
}

/// Converts `true` to 1 and `false` to 0.
pub(super) fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

#[cfg(test)]
mod tests {
    use super::of_rows;

    #[test]
    fn a_missing_measurement_has_no_sample() {
        let rows = [("a", Some(1.5)), ("b", None)];
        let gauge = of_rows(&rows, |row| vec![("source", row.0.to_owned())], ("hpt_n", "", "n"), |row| row.1);
        assert_eq!(gauge.samples.len(), 1);
        assert_eq!((gauge.samples[0].labels[0].1.as_str(), gauge.samples[0].value), ("a", 1.5));
    }
}
