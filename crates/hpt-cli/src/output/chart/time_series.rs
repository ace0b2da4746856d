//! The chart of the latency of a thread over the course of a run: a heat map, and the maximum of each interval.

use hpt_document::{
    latency::HeatMapColumn,
    wake_latency::{TimeSeriesInterval, WakeLatencyDocument, WakeLatencyRow},
};

use super::{
    axis::{Axis, time},
    provenance::about_all,
    svg::{Chart, GridCell, Mark, Panel, Series, shade},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted},
};

/// Returns the chart of one document, or of several documents. If there are several, each has a name.
#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(crate) fn time_series(documents: &[(&str, &WakeLatencyDocument)]) -> Result<TitledChart, Unreadable> {
    const MOST_CURVES: usize = 6;
    let (mut curves, mut rows, mut provenances) = (Vec::new(), Vec::new(), Vec::new());
    let mut every = 0;
    for (label, document) in documents {
        let several = document.results.len() > 1;
        for row in &document.results {
            let Some(worst) = row.time_series.iter().max_by_key(|TimeSeriesInterval(.., max_ns)| *max_ns) else {
                continue;
            };
            every = every.max(row.time_series_interval_ns);
            let cpu = row.cpu.filter(|_| several || label.is_empty()).map(|cpu| format!("CPU {cpu}"));
            let name = [Some((*label).to_owned()).filter(|label| !label.is_empty()), cpu];
            let name = name.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let samples = row.time_series.iter().fold(0_u64, |sum, window| sum.saturating_add(window.1));
            rows.push(vec![
                name.clone(),
                count(row.time_series.len() as u64),
                count(samples),
                time(worst.3 as f64),
                format!("{:.2} s", worst.0 as f64 / 1e9),
            ]);
            let points = row.time_series.iter().map(|window| (window.0 as f64 / 1e9, (window.3 as f64).max(1.0)));
            curves.push((name, points.collect::<Vec<_>>(), row));
        }
        let colon = if label.is_empty() { "" } else { ": " };
        provenances.push((format!("{label}{colon}timed with {}", document.measuring.source), (*document).into()));
    }
    if curves.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let worst = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    // Of several documents, each has one curve: that of the thread with the highest maximum.
    let all = curves.len();
    if documents.len() > 1 {
        let is_worst = |&(_, document): &(&str, &WakeLatencyDocument), row: &WakeLatencyRow| {
            let threads = document.results.iter().filter(|row| !row.time_series.is_empty());
            threads.rev().max_by_key(|row| row.figures.max_ns).is_some_and(|worst| std::ptr::eq(worst, row))
        };
        curves.retain(|(.., row)| documents.iter().any(|document| is_worst(document, row)));
    }
    // If there are more, the curves with the highest maximum are drawn, in their order.
    let mut by_worst: Vec<f64> = curves.iter().map(|(_, points, _)| worst(points)).collect();
    by_worst.sort_by(|one, other| other.total_cmp(one));
    let least = by_worst.get(MOST_CURVES - 1).copied().unwrap_or(0.0);
    curves.retain(|(_, points, _)| worst(points) >= least);
    curves.truncate(MOST_CURVES);
    let drawn = if curves.len() == all {
        String::new()
    } else if documents.len() > 1 {
        " For each method, the chart shows the CPU with the highest maximum; the table contains all of them.".to_owned()
    } else {
        format!(
            " The chart shows the {} of {all} threads with the highest maximum; the table contains all of them.",
            curves.len()
        )
    };
    let points = || curves.iter().flat_map(|(_, points, _)| points);
    let bins = || curves.iter().flat_map(|(.., row)| &row.heat_map).flat_map(|HeatMapColumn(_, bins)| bins);
    let most = bins().map(|bin| bin.2).max().unwrap_or(0);
    // The axis includes the end of the last interval.
    let run_ends = curves.iter().flat_map(|(.., row)| {
        let last = row.time_series.last().map(|window| window.0.saturating_add(row.time_series_interval_ns));
        let last_cells =
            row.heat_map.last().map(|HeatMapColumn(start, _)| start.saturating_add(row.heat_map_interval_ns));
        [last, last_cells].into_iter().flatten()
    });
    let x = Axis::run("seconds from the first deadline", run_ends.map(|ns| ns as f64 / 1e9));
    let ends = bins().flat_map(|bin| [bin.0 as f64, bin.1 as f64]);
    let title = format!("latency; line: max per {}", time(every as f64));
    let y = Axis::log(&title, points().map(|point| point.1).chain(ends), time);
    let is_map = most > 0;
    // Each curve has its own panel, because overlapping curves would hide each other. All panels have the same scales.
    let panels = curves.iter().map(|(name, points, row)| {
        let mut series = vec![Series { name: None, look: 0, marks: cells(row, most) }];
        series.push(Series { name: None, look: 1, marks: vec![Mark::Line(points.clone())] });
        Panel { title: name.clone(), x: x.clone(), y: y.clone(), height: if is_map { 150 } else { 110 }, series }
    });
    Ok(TitledChart {
        name: "time-series".to_owned(),
        title: "Latency over time".to_owned(),
        says: if is_map {
            format!(
                "Each cell counts the samples of one interval and one range of latencies: the faintest cells are single samples, the strongest {} samples. The line is the maximum of each interval. Periodic delays appear as a regular pattern.{drawn}",
                count(most)
            )
        } else {
            format!("The line is the maximum of each interval. Periodic delays appear as a regular pattern.{drawn}")
        },
        chart: Chart { panels: panels.collect(), side_by_side: false },
        figures: Figures { head: ["", "intervals", "samples", "max", "at"].map(str::to_owned).to_vec(), rows },
        provenance: about_all(&provenances),
    })
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
