//! Charts that show several figures of the same quantity side by side: published and measured, or from several reports.

use hpt_document::experiment::{ExperimentDocument, ExperimentFigureRow};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, count, counted},
};

/// The maximum length of the name of a file, without its suffix.
const LONGEST_FILE_NAME: usize = 64;

/// A quantity with a figure from each side.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    pub(crate) what: String,
    pub(crate) figures: Vec<Option<f64>>,
    /// The label of each figure, which stands next to its own marker; empty if there is none.
    pub(crate) labels: Vec<String>,
}

/// Returns a panel of figures of several sides on a logarithmic scale.
fn panel(scale: &str, sides: &[(&str, usize)], rows: &[Compared], text: &dyn Fn(f64) -> String) -> Panel {
    let values = rows.iter().flat_map(|row| &row.figures).flatten();
    // Room for the labels on both sides of the markers.
    let x = Axis::log(scale, values.flat_map(|value| [value / 3.0, value * 3.0]), text);
    let y = Axis::names(rows.iter().map(|row| row.what.clone()).collect());
    let places = || (0_u32..).map(f64::from).zip(rows);
    let mut between = Vec::new();
    for (place, row) in places() {
        let positive = || row.figures.iter().flatten().copied().filter(|value| *value > 0.0);
        let (least, most) = (positive().fold(f64::MAX, f64::min), positive().fold(0.0, f64::max));
        if positive().count() > 1 {
            between.push(Mark::Across { from: least, to: most, y: place });
        }
        for (value, words) in row.figures.iter().zip(&row.labels) {
            let Some(value) = value.filter(|value| *value > 0.0 && !words.is_empty()) else { continue };
            let words = words.clone();
            // The label of the smallest figure stands before it, where no other marker is.
            between.push(if value <= least && least < most {
                Mark::WordsBefore { x: value, y: place, words }
            } else {
                Mark::WordsAfter { x: value, y: place, words }
            });
        }
    }
    let mut series = vec![Series { name: None, look: 5, marks: between }];
    series.extend(sides.iter().enumerate().map(|(side, (name, look))| {
        let of_side = || places().filter_map(move |(place, row)| Some((row, place, row.figures.get(side).copied()??)));
        let points = of_side().filter(|point| point.2 > 0.0).map(|(_, place, value)| (value, place));
        let hovers = of_side().map(|(row, place, value)| Mark::Hover {
            x: (value, value),
            y: (place, place),
            words: format!("{}, {name}: {}", row.what, text(value)),
        });
        let marks = std::iter::once(Mark::Points(points.collect())).chain(hovers).collect();
        Series { name: Some((*name).to_owned()), look: *look, marks }
    }));
    let height = 24 * i32::try_from(rows.len()).unwrap_or(1_000).min(1_000) + 8;
    Panel { title: String::new(), x, y, height, series }
}

/// Returns a chart of the times of several reports side by side.
pub(crate) fn side_by_side(
    names: &[&str],
    rows: &[Compared],
    figures: Figures,
    says: String,
    provenance: String,
) -> TitledChart {
    // The first two looks are those of published and measured figures.
    let looks = [3, 0, 1, 2, 4, 5];
    let sides = names.iter().enumerate().map(|(side, name)| (*name, looks.get(side).copied().unwrap_or(side)));
    let panels = vec![panel("p50, log scale", &sides.collect::<Vec<_>>(), rows, &time)];
    TitledChart {
        name: "comparison".to_owned(),
        title: "Side-by-side comparison".to_owned(),
        says,
        chart: Chart { panels, side_by_side: false },
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
pub(super) fn ns_in(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "µs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

/// Returns a name for the file of a chart. The name of an experiment in a report can be any text.
fn file_name(name: &str) -> String {
    let sound = |letter: char| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' };
    name.chars().take(LONGEST_FILE_NAME).map(sound).collect()
}

/// Returns the rows of an experiment.
pub(super) fn compared<'a>(
    document: &'a ExperimentDocument,
    name: &'a str,
) -> impl Iterator<Item = &'a ExperimentFigureRow> {
    document.results.iter().filter(move |row| row.experiment == name)
}

/// Returns the table of the published and the measured figures.
pub(super) fn figures_of(rows: &[&ExperimentFigureRow]) -> Figures {
    let head = ["", "unit", "published", "measured", "p50", "p99", "max", "samples", "method, or reason"];
    let figures = rows.iter().map(|row| {
        let published = row.published.map_or("-".to_owned(), |value| value.to_string());
        let own = [row.measured, row.p50, row.p99, row.max].map(figure);
        let head = [row.quantity.clone(), row.unit.clone(), published].into_iter().chain(own);
        head.chain([count(row.samples), row.method.clone()]).collect()
    });
    Figures { head: head.map(str::to_owned).to_vec(), rows: figures.collect() }
}

/// Returns charts that compare published measurements with measurements on this system: one chart per
/// experiment, with one panel per unit.
pub(crate) fn experiments(document: &ExperimentDocument) -> Vec<TitledChart> {
    let mut charts = Vec::new();
    for made in &document.experiments {
        let rows: Vec<&ExperimentFigureRow> = compared(document, &made.name).collect();
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
                .map(|row| Compared {
                    what: row.quantity.clone(),
                    figures: vec![row.published, row.measured],
                    labels: [row.published, row.measured].map(|value| value.map(text).unwrap_or_default()).into(),
                })
                .collect();
            let tick = |value: f64| match ns_in(unit) {
                Some(ns) => time(value * ns),
                None => format!("{} {unit}", (value * 1e6).round() / 1e6),
            };
            panel("log scale", &[("published", 3), ("measured here", 0)], &pairs, &tick)
        });
        let panels: Vec<_> = panels.collect();
        let samples = rows.iter().map(|row| row.samples).max().unwrap_or(0);
        charts.push(TitledChart {
            name: file_name(&format!("experiment-{}", made.name)),
            title: format!("Published and measured: {}", made.title),
            says: format!("Published: {}, on {}. Differences: {}.", made.published_in, made.hardware, made.differences),
            chart: Chart { panels, side_by_side: false },
            figures: figures_of(&rows),
            provenance: about(&document.into(), &format!("up to {} each", counted(samples, "sample", "samples"))),
        });
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::{Compared, file_name, panel};
    use crate::output::chart::{axis::time, svg::Mark};

    #[test]
    fn every_label_stands_at_the_marker_of_its_own_figure() {
        let row = Compared {
            what: "a call".to_owned(),
            figures: vec![Some(1_000.0), Some(20.0)],
            labels: vec!["1 µs".to_owned(), "20 ns".to_owned()],
        };
        let panel = panel("log scale", &[("published", 3), ("measured here", 0)], &[row], &time);
        let marks = || panel.series.iter().flat_map(|series| &series.marks);
        let labels: Vec<_> = marks()
            .filter_map(|mark| match mark {
                Mark::WordsAfter { x, words, .. } | Mark::WordsBefore { x, words, .. } => Some((*x, words.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(labels, [(1_000.0, "1 µs"), (20.0, "20 ns")]);
        // The labels are on the outer sides of the markers, so that they do not overlap.
        assert!(marks().any(|mark| matches!(mark, Mark::WordsBefore { x, .. } if *x < 100.0)));
    }

    #[test]
    fn the_file_of_a_chart_stays_in_its_folder() {
        assert_eq!(file_name("experiment-calls"), "experiment-calls");
        assert_eq!(file_name("experiment-../é b"), "experiment-_____b");
        assert_eq!(file_name(&"a".repeat(999)).len(), 64);
    }

    #[test]
    fn a_missing_figure_has_neither_a_marker_nor_a_label() {
        let row = Compared {
            what: "a call".to_owned(),
            figures: vec![None, Some(20.0), Some(0.0)],
            labels: vec!["-".to_owned(), "20 ns".to_owned(), "0 ns".to_owned()],
        };
        let panel = panel("log scale", &[("A", 3), ("B", 0), ("C", 1)], &[row], &time);
        let points: usize = panel
            .series
            .iter()
            .flat_map(|series| &series.marks)
            .map(|mark| match mark {
                Mark::Points(points) => points.len(),
                Mark::WordsAfter { .. } | Mark::WordsBefore { .. } => 10,
                _ => 0,
            })
            .sum();
        assert_eq!(points, 11);
    }
}
