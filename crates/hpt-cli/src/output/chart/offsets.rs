//! How far each source is ahead of the reference in the course of a watch.

use hpt_document::watch::{OffsetPoint, WatchSummaryDocument};

use super::{
    axis::Axis,
    picture::{Figures, Picture, Unreadable, count, whole},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
};
use crate::output::text::rounded;

pub(crate) fn offsets(watch: &WatchSummaryDocument) -> Result<Picture, Unreadable> {
    let shown = || watch.sources.iter().filter(|source| !source.course.is_empty());
    let points = || shown().flat_map(|source| &source.course);
    if points().next().is_none() {
        return Err(Unreadable::Nothing);
    }
    let x = Axis::run("seconds", points().map(|point| point.0));
    let ends = points().flat_map(|&OffsetPoint(_, offset, bound)| [offset - bound, offset + bound]);
    let y = Axis::linear(&format!("ahead of {}; bars: within these limits", watch.reference), ends, true, signed);
    let series = shown().enumerate().map(|(look, source)| {
        let mut marks = vec![Mark::Curve(source.course.iter().map(|point| (point.0, point.1)).collect())];
        // As many as can be told apart.
        let every = source.course.len().div_ceil(60).max(1);
        marks.extend(source.course.iter().step_by(every).map(|&OffsetPoint(x, offset, bound)| Mark::Within {
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
        let expected = source.expected_hz.zip(source.expected_by.as_ref());
        vec![
            source.source.clone(),
            expected.map_or_else(|| "-".to_owned(), |(hz, by)| format!("{} MHz, {by}", rounded(hz / 1e6))),
            count(source.offset.bursts),
            source.offset.offset_ns.map_or_else(|| "-".to_owned(), signed),
            super::picture::time(source.offset.offset_bound_ns),
            ppm(source.lowest_ppm),
            ppm(source.highest_ppm),
            super::picture::time(source.offset.bracket_ns.map(whole)),
            count(source.faults),
        ]
    });
    Ok(Picture {
        name: "offsets".to_owned(),
        title: format!("How far sources are ahead of {}", watch.reference),
        says: match faults {
            0 => "A steady slope is another rate, a step is a jump. No source misbehaved.".to_owned(),
            faults => format!("A steady slope is another rate, a step is a jump. Faults: {faults}."),
        },
        chart: Chart { panels: vec![Panel { title: String::new(), x, y, height: 220, series }], side_by_side: false },
        figures: Figures {
            head: [
                "source",
                "held against",
                "bursts",
                "ahead at the end",
                "±",
                "lowest ppm",
                "highest ppm",
                "bracket",
                "faults",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: figures.collect(),
        },
        provenance: about(&watch.into(), &format!("{} intervals in {:.1} s", count(watch.intervals), watch.watched_s)),
    })
}

fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("−{}", super::axis::time(-ns)) } else { super::axis::time(ns) }
}
