//! The chart of the offset of each source from the reference over the course of a watch.

use hpt_document::watch::{OffsetPoint, WatchSummaryDocument};

use super::{
    axis::Axis,
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted, whole},
};
use crate::output::text::rounded;

pub(crate) fn offsets(watch: &WatchSummaryDocument) -> Result<TitledChart, Unreadable> {
    let shown = || watch.sources.iter().filter(|source| !source.time_series.is_empty());
    let points = || shown().flat_map(|source| &source.time_series);
    if points().next().is_none() {
        return Err(Unreadable::Nothing);
    }
    let x = Axis::run("seconds", points().map(|point| point.0));
    let ends = points().flat_map(|&OffsetPoint(_, offset, bound)| [offset - bound, offset + bound]);
    let y = Axis::linear(&format!("offset from {}; bars: worst-case bound", watch.reference), ends, true, signed);
    let series = shown().enumerate().map(|(look, source)| {
        let mut marks = vec![Mark::Curve(source.time_series.iter().map(|point| (point.0, point.1)).collect())];
        // More bars than this could not be distinguished.
        let every = source.time_series.len().div_ceil(60).max(1);
        marks.extend(source.time_series.iter().step_by(every).map(|&OffsetPoint(x, offset, bound)| Mark::Within {
            x,
            from: offset - bound,
            to: offset + bound,
        }));
        Series { name: Some(source.source.clone()), look, marks }
    });
    let series = series.collect();
    let faults = watch.sources.iter().fold(0_u64, |sum, source| sum.saturating_add(source.faults));
    let figures = watch.sources.iter().map(|source| {
        let ppm = |ppm: Option<f64>| ppm.map_or_else(|| "-".to_owned(), |ppm| format!("{ppm:.3}"));
        let expected = source.expected_hz.zip(source.expected_origin.as_ref());
        vec![
            source.source.clone(),
            expected.map_or_else(|| "-".to_owned(), |(hz, by)| format!("{} MHz, {by}", rounded(hz / 1e6))),
            count(source.offset.bursts),
            source.offset.offset_ns.map_or_else(|| "-".to_owned(), signed),
            super::titled_chart::time(source.offset.offset_bound_ns),
            ppm(source.lowest_ppm),
            ppm(source.highest_ppm),
            super::titled_chart::time(source.offset.bracket_ns.map(whole)),
            count(source.faults),
        ]
    });
    Ok(TitledChart {
        name: "offsets".to_owned(),
        title: format!("Offset of each source from {}", watch.reference),
        says: match faults {
            0 => {
                "A constant slope is a frequency error; a discontinuity is a step. No faults were detected.".to_owned()
            }
            faults => format!("A constant slope is a frequency error; a discontinuity is a step. Faults: {faults}."),
        },
        chart: Chart { panels: vec![Panel { title: String::new(), x, y, height: 220, series }], side_by_side: false },
        figures: Figures {
            head: ["source", "expected rate", "bursts", "final offset", "±", "min ppm", "max ppm", "bracket", "faults"]
                .map(str::to_owned)
                .to_vec(),
            rows: figures.collect(),
        },
        provenance: about(
            &watch.into(),
            &format!("{} in {:.1} s", counted(watch.intervals, "interval", "intervals"), watch.elapsed_s),
        ),
    })
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", super::axis::time(-ns)) } else { super::axis::time(ns) }
}
