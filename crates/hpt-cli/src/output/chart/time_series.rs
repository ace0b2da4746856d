//! The chart of the latency of a thread over the course of a run: the maximum of each interval.

use hpt_document::wake_latency::{TimeSeriesInterval, WakeLatencyDocument};

use super::{
    axis::{Axis, time},
    provenance::about_all,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count},
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
            if curves.len() < MOST_CURVES {
                let points = row.time_series.iter().map(|window| (window.0 as f64 / 1e9, (window.3 as f64).max(1.0)));
                curves.push((name, points.collect::<Vec<_>>()));
            }
        }
        let colon = if label.is_empty() { "" } else { ": " };
        provenances.push((format!("{label}{colon}timed with {}", document.measuring.source), (*document).into()));
    }
    if curves.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let drawn = if rows.len() > MOST_CURVES {
        format!(" The chart shows the first {MOST_CURVES} of {} curves; the table contains all of them.", rows.len())
    } else {
        String::new()
    };
    let points = || curves.iter().flat_map(|(_, points)| points);
    let x = Axis::run("seconds from the first deadline", points().map(|point| point.0));
    let y = Axis::log(&format!("max per {}", time(every as f64)), points().map(|point| point.1), time);
    // Each curve has its own panel, because overlapping curves would hide each other. All panels have the same scales.
    let panels = curves.iter().enumerate().map(|(look, (name, points))| Panel {
        title: name.clone(),
        x: x.clone(),
        y: y.clone(),
        height: 110,
        series: vec![Series { name: None, look, marks: vec![Mark::Curve(points.clone())] }],
    });
    Ok(TitledChart {
        name: "time-series".to_owned(),
        title: "Latency over time".to_owned(),
        says: format!("Each point is the maximum of one interval. Periodic delays appear as a regular pattern.{drawn}"),
        chart: Chart { panels: panels.collect(), side_by_side: false },
        figures: Figures { head: ["", "intervals", "samples", "max", "at"].map(str::to_owned).to_vec(), rows },
        provenance: about_all(&provenances),
    })
}
