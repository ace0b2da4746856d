//! The chart of the latency of a thread over the course of a run: a heat map, and the maximum of each interval.

use hpt_document::{
    latency::HeatMapColumn,
    wake_latency::{TimeSeriesInterval, WakeLatencyDocument, WakeLatencyRow},
};

use super::{
    axis::{Axis, time},
    provenance::about_all,
    svg::{Chart, GridCell, Mark, Panel, Series, shade},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted, whole},
};

/// The maximum number of curves.
const MOST_CURVES: usize = 6;

/// A thread, with its name.
struct ThreadCurve<'a> {
    name: String,
    row: &'a WakeLatencyRow,
    /// The interval with the highest maximum.
    worst: &'a TimeSeriesInterval,
}

/// Returns the chart of one document, or of several documents. If there are several, each has a name.
pub(crate) fn time_series(documents: &[(&str, &WakeLatencyDocument)]) -> Result<TitledChart, Unreadable> {
    let mut curves: Vec<ThreadCurve<'_>> =
        documents.iter().flat_map(|(label, document)| of_document(label, document)).collect();
    if curves.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let provenance = |(label, document): &(&str, &'_ WakeLatencyDocument)| {
        let colon = if label.is_empty() { "" } else { ": " };
        format!("{label}{colon}timed with {}", document.measuring.source)
    };
    let provenances: Vec<_> = documents.iter().map(|one| (provenance(one), one.1.into())).collect();
    let rows = curves.iter().map(figures).collect();
    let every = curves.iter().map(|curve| curve.row.time_series_interval_ns).max().unwrap_or(0);
    let omitted = choose(&mut curves, documents);
    let bins = curves.iter().flat_map(|curve| &curve.row.heat_map).flat_map(|HeatMapColumn(_, bins)| bins);
    let most = bins.map(|bin| bin.2).max();
    let cells = most.map_or_else(String::new, |most| {
        format!(
            "Each cell counts the samples of one interval and one range of latencies: the faintest cells are single samples, the strongest {} samples. ",
            count(most)
        )
    });
    Ok(TitledChart {
        name: "time-series".to_owned(),
        title: "Latency over time".to_owned(),
        says: format!(
            "{cells}The line is the maximum of each interval. Periodic delays appear as a regular pattern.{omitted}"
        ),
        chart: Chart { panels: panels(&curves, every, most.unwrap_or(0)), side_by_side: false },
        figures: Figures { head: ["", "intervals", "samples", "max", "at"].map(str::to_owned).to_vec(), rows },
        provenance: about_all(&provenances),
    })
}

/// Returns the threads of a document that have a time series.
fn of_document<'a>(label: &str, document: &'a WakeLatencyDocument) -> impl Iterator<Item = ThreadCurve<'a>> {
    let has_cpu = document.results.len() > 1 || label.is_empty();
    document.results.iter().filter_map(move |row| {
        let worst = row.time_series.iter().max_by_key(|TimeSeriesInterval(.., max_ns)| *max_ns)?;
        let cpu = row.cpu.filter(|_| has_cpu).map(|cpu| format!("CPU {cpu}"));
        let name = [Some(label.to_owned()).filter(|label| !label.is_empty()), cpu];
        Some(ThreadCurve { name: name.into_iter().flatten().collect::<Vec<_>>().join(", "), row, worst })
    })
}

fn figures(curve: &ThreadCurve<'_>) -> Vec<String> {
    let samples = curve.row.time_series.iter().fold(0_u64, |sum, window| sum.saturating_add(window.1));
    vec![
        curve.name.clone(),
        count(curve.row.time_series.len() as u64),
        count(samples),
        time(whole(curve.worst.3)),
        format!("{:.2} s", whole(curve.worst.0) / 1e9),
    ]
}

/// Removes the curves that are not drawn, and returns a sentence about them.
fn choose(curves: &mut Vec<ThreadCurve<'_>>, documents: &[(&str, &WakeLatencyDocument)]) -> String {
    let all = curves.len();
    // Of several documents, each has one curve: that of the thread with the highest maximum.
    if documents.len() > 1 {
        let is_worst = |&(_, document): &(&str, &WakeLatencyDocument), row: &WakeLatencyRow| {
            let threads = document.results.iter().filter(|row| !row.time_series.is_empty());
            threads.rev().max_by_key(|row| row.figures.max_ns).is_some_and(|worst| std::ptr::eq(worst, row))
        };
        curves.retain(|curve| documents.iter().any(|document| is_worst(document, curve.row)));
    }
    // If there are more, the curves with the highest maximum are drawn, in their order.
    let mut by_worst: Vec<u64> = curves.iter().map(|curve| curve.worst.3).collect();
    by_worst.sort_unstable_by(|one, other| other.cmp(one));
    let least = by_worst.get(MOST_CURVES - 1).copied().unwrap_or(0);
    curves.retain(|curve| curve.worst.3 >= least);
    curves.truncate(MOST_CURVES);
    if curves.len() == all {
        String::new()
    } else if documents.len() > 1 {
        " For each method, the chart shows the CPU with the highest maximum; the table contains all of them.".to_owned()
    } else {
        format!(
            " The chart shows the {} of {all} threads with the highest maximum; the table contains all of them.",
            curves.len()
        )
    }
}

/// Returns a panel for each curve, because overlapping curves would hide each other. All panels have the same scales.
fn panels(curves: &[ThreadCurve<'_>], every: u64, most: u64) -> Vec<Panel> {
    let points_of = |curve: &ThreadCurve<'_>| -> Vec<(f64, f64)> {
        curve.row.time_series.iter().map(|window| (whole(window.0) / 1e9, whole(window.3).max(1.0))).collect()
    };
    // The axis includes the end of the last interval.
    let run_ends = curves.iter().map(|curve| curve.row).flat_map(|row| {
        let last = row.time_series.last().map(|window| window.0.saturating_add(row.time_series_interval_ns));
        let last_cells =
            row.heat_map.last().map(|HeatMapColumn(start, _)| start.saturating_add(row.heat_map_interval_ns));
        [last, last_cells].into_iter().flatten()
    });
    let x = Axis::run("seconds from the first deadline", run_ends.map(|ns| whole(ns) / 1e9));
    let bins = curves.iter().flat_map(|curve| &curve.row.heat_map).flat_map(|HeatMapColumn(_, bins)| bins);
    let ends = bins.flat_map(|bin| [whole(bin.0), whole(bin.1)]);
    let title = format!("latency; line: max per {}", time(whole(every)));
    let y = Axis::log(&title, curves.iter().flat_map(points_of).map(|point| point.1).chain(ends), time);
    let panel = |curve: &ThreadCurve<'_>| Panel {
        title: curve.name.clone(),
        x: x.clone(),
        y: y.clone(),
        height: if most > 0 { 150 } else { 110 },
        series: vec![
            Series { name: None, look: 0, marks: cells(curve.row, most) },
            Series { name: None, look: 1, marks: vec![Mark::Line(points_of(curve))] },
        ],
    };
    curves.iter().map(panel).collect()
}

/// Returns the cells of a heat map, and a text for each interval.
#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
fn cells(row: &WakeLatencyRow, most: u64) -> Vec<Mark> {
    let mut cells = Vec::new();
    let mut areas = Vec::new();
    for HeatMapColumn(start, bins) in &row.heat_map {
        let ends = (*start as f64 / 1e9, start.saturating_add(row.heat_map_interval_ns) as f64 / 1e9);
        cells.extend(bins.iter().map(|bin| GridCell {
            x: ends,
            y: ((bin.0 as f64).max(1.0), (bin.1 as f64).max(1.0)),
            shade: shade(bin.2, most),
        }));
        let samples = bins.iter().fold(0_u64, |sum, bin| sum.saturating_add(bin.2));
        let lowest = bins.first().map_or(0, |bin| bin.0);
        let highest = bins.last().map_or(0, |bin| bin.1);
        let words = format!(
            "{:.2} s to {:.2} s: {}, {} to {}",
            ends.0,
            ends.1,
            counted(samples, "sample", "samples"),
            time(lowest as f64),
            time(highest as f64)
        );
        areas.push(Mark::Hover { x: ends, y: (0.0, f64::MAX), words });
    }
    let cells = if cells.is_empty() { Vec::new() } else { vec![Mark::Cells(cells)] };
    cells.into_iter().chain(areas).collect()
}
