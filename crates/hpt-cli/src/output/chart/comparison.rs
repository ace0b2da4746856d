//! Charts that show two figures of the same quantity side by side: published and measured, or from two reports.

use hpt_document::experiment::{ExperimentDocument, ExperimentFigureRow};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, count, counted},
};

/// A quantity with two figures.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) what: String,
    pub(crate) first: Option<f64>,
    pub(crate) second: Option<f64>,
    /// The label next to the points of the pair.
    pub(crate) words: String,
}

/// Returns a panel of pairs of figures on a logarithmic scale.
fn panel(title: &str, scale: &str, names: (&str, &str), pairs: &[Pair], text: &dyn Fn(f64) -> String) -> Panel {
    let values = pairs.iter().flat_map(|pair| [pair.first, pair.second]).flatten();
    let x = Axis::log(scale, values.flat_map(|value| [value, value * 3.0]), text);
    let y = Axis::names(pairs.iter().map(|pair| pair.what.clone()).collect());
    let places = || (0_u32..).map(f64::from).zip(pairs);
    let points = |figure: fn(&Pair) -> Option<f64>| {
        Mark::Points(
            places().filter_map(|(place, pair)| Some((figure(pair).filter(|value| *value > 0.0)?, place))).collect(),
        )
    };
    let mut between = Vec::new();
    for (place, pair) in places() {
        if let (Some(first), Some(second)) = (pair.first, pair.second) {
            between.push(Mark::Across { from: first, to: second, y: place });
        }
        let furthest = [pair.first, pair.second].into_iter().flatten().fold(0.0, f64::max);
        if furthest > 0.0 && !pair.words.is_empty() {
            between.push(Mark::Words { x: furthest, y: place, words: pair.words.clone() });
        }
    }
    let series = vec![
        Series { name: None, look: 5, marks: between },
        Series { name: Some(names.0.to_owned()), look: 3, marks: vec![points(|pair| pair.first)] },
        Series { name: Some(names.1.to_owned()), look: 0, marks: vec![points(|pair| pair.second)] },
    ];
    let height = 24 * i32::try_from(pairs.len()).unwrap_or(1_000).min(1_000) + 8;
    Panel { title: title.to_owned(), x, y, height, series }
}

/// Returns a chart of the times of two reports side by side.
pub(crate) fn pairs_of(
    names: (&str, &str),
    pairs: &[Pair],
    figures: Figures,
    says: String,
    provenance: String,
) -> TitledChart {
    let chart = Chart { panels: vec![panel("", "p50, log scale", names, pairs, &time)], side_by_side: false };
    TitledChart {
        name: "comparison".to_owned(),
        title: "Side-by-side comparison".to_owned(),
        says,
        chart,
        figures,
        provenance,
    }
}

/// Formats a figure with about three digits.
fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Returns the number of nanoseconds in a unit of time, or `None` for other units.
fn ns_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

/// Returns charts that compare published measurements with measurements on this system: one chart per
/// experiment, with one panel per unit.
pub(crate) fn experiments(document: &ExperimentDocument) -> Vec<TitledChart> {
    let mut charts = Vec::new();
    for made in &document.experiments {
        let rows: Vec<&ExperimentFigureRow> =
            document.results.iter().filter(|row| row.experiment == made.name).collect();
        let mut units: Vec<&str> = Vec::new();
        for row in &rows {
            let is_drawn = row.published.or(row.measured).is_some_and(|value| value > 0.0);
            if is_drawn && !units.contains(&row.unit.as_str()) {
                units.push(&row.unit);
            }
        }
        if rows.iter().all(|row| row.measured.is_none()) {
            continue;
        }
        let panels = units.iter().map(|unit| {
            let text = |value: f64| match ns_in(unit) {
                Some(ns) => time(value * ns),
                // The tick labels contain the unit.
                None => figure(Some(value)),
            };
            let of_unit = rows.iter().filter(|row| row.unit == *unit && row.published.or(row.measured).is_some());
            let pairs: Vec<_> = of_unit
                .map(|row| Pair {
                    what: row.quantity.clone(),
                    first: row.published,
                    second: row.measured,
                    words: row.measured.or(row.published).map(text).unwrap_or_default(),
                })
                .collect();
            let tick = |value: f64| match ns_in(unit) {
                Some(ns) => time(value * ns),
                None => format!("{} {unit}", (value * 1e6).round() / 1e6),
            };
            panel("", "log scale", ("published", "measured here"), &pairs, &tick)
        });
        let panels: Vec<_> = panels.collect();
        let figures = rows.iter().map(|row| {
            let head = [
                row.quantity.clone(),
                row.unit.clone(),
                row.published.map_or("-".to_owned(), |value| value.to_string()),
            ];
            let own = [row.measured, row.p50, row.p99, row.max].map(figure);
            head.into_iter().chain(own).chain([count(row.samples), row.method.clone()]).collect()
        });
        let samples = rows.iter().map(|row| row.samples).max().unwrap_or(0);
        charts.push(TitledChart {
            name: format!("experiment-{}", made.name),
            title: format!("Published and measured: {}", made.title),
            says: format!("Published: {}, on {}. Differences: {}.", made.published_in, made.hardware, made.differences),
            chart: Chart { panels, side_by_side: false },
            figures: Figures {
                head: ["", "unit", "published", "measured", "p50", "p99", "max", "samples", "method, or reason"]
                    .map(str::to_owned)
                    .to_vec(),
                rows: figures.collect(),
            },
            provenance: about(&document.into(), &format!("up to {} each", counted(samples, "sample", "samples"))),
        });
    }
    charts
}
