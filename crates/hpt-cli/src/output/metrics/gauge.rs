//! Gauges, and how they are made from the rows of a document.
//! Knows no kind of document.

/// A gauge with all its samples. What is counted is counted within one run, and so is a gauge too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gauge {
    /// Without the unit, which is appended.
    pub(crate) name: &'static str,
    /// `seconds`, `hertz`, `ratio`; empty of counts and of yes and no.
    pub(crate) unit: &'static str,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<Sample>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Labels,
    pub(crate) value: f64,
}

/// Names of labels, and their values.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// One gauge of a list of rows, with the labels of each. Rows that have no such figure have no sample.
pub(super) fn of_rows<'a, T: 'a>(
    rows: impl IntoIterator<Item = &'a T>,
    labels: fn(&T) -> Labels,
    (name, unit, help): (&'static str, &'static str, &'static str),
    figure: impl Fn(&T) -> Option<f64>,
) -> Gauge {
    let sample = |row: &T| Some(Sample { labels: labels(row), value: figure(row)? });
    Gauge { name, unit, help, samples: rows.into_iter().filter_map(sample).collect() }
}

/// A quantile as a label, and its figure in nanoseconds.
pub(super) type Quantile<T> = (&'static str, fn(&T) -> Option<u64>);

/// One gauge of the quantiles of distributions, in seconds.
pub(super) fn of_quantiles<'a, T: 'a>(
    rows: impl IntoIterator<Item = &'a T>,
    labels: fn(&T) -> Labels,
    quantiles: &[Quantile<T>],
    (name, help): (&'static str, &'static str),
) -> Gauge {
    let samples = rows.into_iter().flat_map(|row| {
        quantiles.iter().filter_map(move |(quantile, figure)| {
            let labels = labels(row).into_iter().chain([("quantile", (*quantile).to_owned())]);
            Some(Sample { labels: labels.collect(), value: seconds(whole(figure(row)?)) })
        })
    });
    Gauge { name, unit: "seconds", help, samples: samples.collect() }
}

/// The label of a CPU. A thread that stayed nowhere has none, and a label is not empty.
pub(super) fn cpu_label(cpu: Option<usize>) -> (&'static str, String) {
    ("cpu", cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()))
}

/// One figure of the whole document.
pub(super) fn single((name, unit, help): (&'static str, &'static str, &'static str), value: Option<f64>) -> Gauge {
    let samples = value.map(|value| Sample { labels: Vec::new(), value }).into_iter().collect();
    Gauge { name, unit, help, samples }
}

/// A label that may be missing.
pub(super) fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

/// A count as a sample has it.
#[expect(clippy::cast_precision_loss, reason = "samples are floating-point numbers")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

/// Parts per million as a ratio.
pub(super) fn ratio(ppm: f64) -> f64 {
    ppm / 1e6
}

/// Yes as 1, no as 0.
pub(super) fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

#[cfg(test)]
mod tests {
    use super::of_rows;

    #[test]
    fn what_was_not_measured_has_no_sample() {
        let rows = [("a", Some(1.5)), ("b", None)];
        let gauge = of_rows(&rows, |row| vec![("source", row.0.to_owned())], ("hpt_n", "", "n"), |row| row.1);
        assert_eq!(gauge.samples.len(), 1);
        assert_eq!((gauge.samples[0].labels[0].1.as_str(), gauge.samples[0].value), ("a", 1.5));
    }
}
