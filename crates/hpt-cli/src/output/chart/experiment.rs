//! Charts of the samples of experiments: one panel per quantity, so that two sources stand side by side.

use hpt_document::experiment::{ExperimentDocument, ExperimentFigureRow, LengthCount};

use super::{
    axis::Axis,
    comparison::{compared, experiments, figures_of, ns_in},
    provenance::about,
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{TitledChart, Unreadable, count, counted, whole},
};
use crate::output::short_time;

/// The number of bins of a panel.
const BINS: usize = 40;
/// The share of the samples that a panel shows. Its title states the number of the others.
const SHOWN: f64 = 0.99;

/// Returns the chart of a document: the samples of its experiments, or if there are none, the published and the measured
/// figures.
pub(crate) fn experiment(document: &ExperimentDocument) -> Result<TitledChart, Unreadable> {
    let samples = samples_of(document);
    let charts = if samples.is_empty() { experiments(document) } else { samples };
    let is_one = charts.len() == 1;
    let whole = charts.into_iter().reduce(|mut whole, next| {
        whole.name = "experiments".to_owned();
        whole.title = format!("{}; {}", whole.title, next.title);
        whole.says = format!("{} {}", whole.says, next.says);
        whole.chart.panels.extend(next.chart.panels);
        whole.chart.panels.truncate(MOST_PANELS);
        whole.figures.rows.extend(next.figures.rows);
        whole
    });
    let mut whole = whole.ok_or(Unreadable::Nothing)?;
    // Panels of several experiments do not fit into one row.
    whole.chart.side_by_side &= is_one;
    Ok(whole)
}

/// Returns a chart for each experiment whose samples are in the document.
pub(crate) fn samples_of(document: &ExperimentDocument) -> Vec<TitledChart> {
    let charts = document.experiments.iter().filter_map(|made| {
        let of_it: Vec<_> = compared(document, &made.name).collect();
        let drawn = drawn_rows(&of_it);
        if drawn.is_empty() {
            return None;
        }
        let samples = drawn.iter().map(|row| row.samples).max().unwrap_or(0);
        Some(TitledChart {
            name: format!("experiment-{}-samples", made.name),
            title: format!("Samples: {}", made.title),
            says: format!("Published: {}, on {}. Differences: {}.", made.published_in, made.hardware, made.differences),
            chart: Chart { panels: drawn.into_iter().map(panel).collect(), side_by_side: true },
            figures: figures_of(&of_it),
            provenance: about(&document.into(), &format!("up to {} each", counted(samples, "sample", "samples"))),
        })
    });
    charts.collect()
}

/// Returns the rows with samples: the published ones if there are two to compare, otherwise all. The rows of one source
/// stand together.
fn drawn_rows<'a>(rows: &[&'a ExperimentFigureRow]) -> Vec<&'a ExperimentFigureRow> {
    let with_samples: Vec<_> = rows.iter().copied().filter(|row| !row.distribution.is_empty()).collect();
    let published: Vec<_> = with_samples.iter().copied().filter(|row| row.published.is_some()).collect();
    let mut drawn = if published.len() > 1 { published } else { with_samples };
    let source = |row: &ExperimentFigureRow| row.quantity.rsplit(", ").next().unwrap_or_default().to_owned();
    let order: Vec<String> = drawn.iter().map(|row| source(row)).collect();
    drawn.sort_by_key(|row| order.iter().position(|other| *other == source(row)));
    drawn
}

/// Draws the samples of a row, with a line at the mean that was published.
fn panel(row: &ExperimentFigureRow) -> Panel {
    let text = |value: f64| match ns_in(&row.unit) {
        Some(ns) => short_time(value * ns),
        None => format!("{value} {}", row.unit),
    };
    let (low, high) = shown(&row.distribution);
    let bins = bins(&row.distribution, (low, high));
    let beyond = row.samples.saturating_sub(bins.iter().map(|bin| bin.2).sum());
    let most = bins.iter().map(|bin| bin.2).max().unwrap_or(1);
    let mut points = vec![(low, 0.0)];
    points.extend(bins.iter().flat_map(|&(from, to, samples)| [(from, whole(samples)), (to, whole(samples))]));
    points.push((high, 0.0));
    let mut marks = vec![Mark::Outline(points)];
    marks.extend(bins.iter().filter(|bin| bin.2 > 0).map(|&(from, to, samples)| Mark::Hover {
        x: (from, to),
        y: (0.0, f64::MAX),
        words: format!("{} to {}: {}", text(from), text(to), counted(samples, "sample", "samples")),
    }));
    let mean = row.measured.filter(|mean| (low..=high).contains(mean));
    marks.extend(mean.map(|mean| Mark::Rule {
        x: mean,
        words: format!("value {}", text(mean)),
        row: 0,
        is_limit: false,
    }));
    let above = if beyond > 0 { format!("; {} above {}", count(beyond), text(high)) } else { String::new() };
    Panel {
        title: format!("{}{above}", row.quantity),
        x: Axis::linear("", [low, high], false, text),
        y: Axis::counts("samples per bin, log scale", whole(most), |samples| format!("{samples:.0}")),
        height: 160,
        series: vec![Series { name: None, look: 0, marks }],
    }
}

/// Returns the smallest sample, and the value that almost all samples do not exceed.
fn shown(distribution: &[LengthCount]) -> (f64, f64) {
    let all = whole(distribution.iter().map(|length| length.1).sum());
    let low = distribution.first().map_or(0.0, |length| length.0);
    let mut passed = 0.0;
    let high = distribution.iter().find(|length| {
        passed += whole(length.1);
        passed >= all * SHOWN
    });
    let high = high.map_or(low, |length| length.0);
    if high > low { (low, high) } else { (low, low + low.abs().max(1.0) / 10.0) }
}

/// Returns the start, the end and the number of samples of each bin.
fn bins(distribution: &[LengthCount], (low, high): (f64, f64)) -> Vec<(f64, f64, u64)> {
    let width = (high - low) / whole(BINS as u64);
    let starts = (0..BINS as u64).map(|place| whole(place).mul_add(width, low));
    let mut bins: Vec<_> = starts.map(|start| (start, start + width, 0_u64)).collect();
    for &LengthCount(length, samples) in distribution.iter().filter(|length| length.0 <= high) {
        let place = bins.partition_point(|bin| bin.1 <= length).min(BINS - 1);
        bins[place].2 += samples;
    }
    bins
}

#[cfg(test)]
mod tests {
    use hpt_document::experiment::{ExperimentFigureRow, FigureState, LengthCount};

    use super::{bins, drawn_rows, panel, shown};

    fn row(quantity: &str, published: Option<f64>) -> ExperimentFigureRow {
        ExperimentFigureRow {
            experiment: "pairs".to_owned(),
            quantity: quantity.to_owned(),
            unit: "ns".to_owned(),
            published,
            measured: Some(25.0),
            has_few_samples: false,
            not_run_share: None,
            state: FigureState::Measured,
            samples: 1_000,
            p50: Some(20.0),
            p99: None,
            max: Some(9_000.0),
            distribution: vec![LengthCount(20.0, 600), LengthCount(30.0, 395), LengthCount(9_000.0, 5)],
            method: "a source".to_owned(),
        }
    }

    #[test]
    fn every_sample_is_in_a_bin_or_in_the_title() {
        let row = row("back to back, system clock", Some(288.0));
        assert_eq!(shown(&row.distribution), (20.0, 30.0));
        let bins = bins(&row.distribution, (20.0, 30.0));
        assert_eq!((bins[0].2, bins[bins.len() - 1].2), (600, 395));
        assert_eq!(bins.iter().map(|bin| bin.2).sum::<u64>(), 995);
        assert_eq!(panel(&row).title, "back to back, system clock; 5 above 30 ns");
        let (low, high) = shown(&[LengthCount(0.0, 7)]);
        assert!(low < high);
    }

    #[test]
    fn the_panels_of_a_source_stand_together() {
        let quantities = ["a, system", "a, cycles", "b, system", "b, cycles", "c"];
        let rows = quantities.map(|quantity| row(quantity, (quantity != "c").then_some(1.0)));
        let drawn = drawn_rows(&rows.each_ref());
        let names: Vec<_> = drawn.iter().map(|row| row.quantity.as_str()).collect();
        assert_eq!(names, ["a, system", "b, system", "a, cycles", "b, cycles"]);
        // With a single published row, all rows are drawn.
        assert_eq!(drawn_rows(&[&rows[0], &rows[4]]).len(), 2);
    }
}
