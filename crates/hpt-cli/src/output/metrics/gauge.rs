//! Gauges, and how they are made from the JSON of a document.
//! Knows no kind of document.

use serde_json::Value;

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
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

/// One gauge of a list of rows, with these keys of a row as labels. Rows that have no such figure have no sample.
pub(super) fn of_rows<'a>(
    rows: impl IntoIterator<Item = &'a Value>,
    labels: &[(&'static str, &str)],
    (name, unit, help): (&'static str, &'static str, &'static str),
    figure: impl Fn(&Value) -> Option<f64>,
) -> Gauge {
    let sample = |row: &Value| {
        let labels = labels.iter().map(|&(label, key)| (label, text(&row[key]))).collect();
        Some(Sample { labels, value: figure(row)? })
    };
    Gauge { name, unit, help, samples: rows.into_iter().filter_map(sample).collect() }
}

/// One gauge of the parts of distributions, in seconds: for each row what these parts of its samples did not exceed, by their keys.
pub(super) fn of_parts(
    rows: &[Value],
    labels: &[(&'static str, &str)],
    parts: &[(&str, &str)],
    (name, help): (&'static str, &'static str),
) -> Gauge {
    let samples = rows.iter().flat_map(|row| {
        parts.iter().filter_map(|&(part, key)| {
            let of_row = labels.iter().map(|&(label, key)| (label, text(&row[key])));
            Some(Sample { labels: of_row.chain([("part", part.to_owned())]).collect(), value: seconds(&row[key])? })
        })
    });
    Gauge { name, unit: "seconds", help, samples: samples.collect() }
}

/// A thread that stayed nowhere has no CPU, and a label is not empty.
pub(super) fn name_any_cpu(gauges: &mut [Gauge]) {
    for (label, value) in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples).flat_map(|sample| &mut sample.labels) {
        if *label == "cpu" && value.is_empty() {
            "any".clone_into(value);
        }
    }
}

/// One figure of the whole document.
pub(super) fn single((name, unit, help): (&'static str, &'static str, &'static str), value: Option<f64>) -> Gauge {
    let samples = value.map(|value| Sample { labels: Vec::new(), value }).into_iter().collect();
    Gauge { name, unit, help, samples }
}

pub(super) fn rows<'a>(document: &'a Value, key: &str) -> &'a [Value] {
    document[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(ns: &Value) -> Option<f64> {
    ns.as_f64().map(|ns| ns / 1e9)
}

/// Parts per million as a ratio.
pub(super) fn ratio(ppm: &Value) -> Option<f64> {
    ppm.as_f64().map(|ppm| ppm / 1e6)
}

/// Yes as 1, no as 0.
pub(super) fn yes(value: &Value) -> Option<f64> {
    value.as_bool().map(|is| f64::from(u8::from(is)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::of_rows;

    #[test]
    fn what_was_not_measured_has_no_sample() {
        let rows = [json!({ "id": "a", "n": 1.5 }), json!({ "id": "b", "n": null }), json!({ "id": 3 })];
        let gauge = of_rows(&rows, &[("source", "id")], ("hpt_n", "", "n"), |row| row["n"].as_f64());
        assert_eq!(gauge.samples.len(), 1);
        assert_eq!((gauge.samples[0].labels[0].1.as_str(), gauge.samples[0].value), ("a", 1.5));
    }
}
