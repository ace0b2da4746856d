//! The chart of the overshoot of sleeps against the CPU time that they use. Points closer to the lower left are better.

use hpt_document::sleep::{SleepDocument, SleepRow};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted},
};

/// The minimum share of a CPU in the chart. Methods with a smaller share are drawn at this value.
const LEAST_SHARE: f64 = 1e-3;

#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(crate) fn sleeps(document: &SleepDocument) -> Result<TitledChart, Unreadable> {
    let drawn = |row: &&SleepRow| row.p50_ns.is_some() && row.cpu_share.is_some();
    let (mut lengths, mut methods) = (Vec::new(), Vec::new());
    for row in document.results.iter().filter(drawn) {
        if !lengths.contains(&row.duration_ns) {
            lengths.push(row.duration_ns);
        }
        if !methods.contains(&row.method) {
            methods.push(row.method.clone());
        }
    }
    if lengths.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let share = |row: &SleepRow| row.cpu_share.unwrap_or(0.0).max(LEAST_SHARE);
    let late = |ns: Option<f64>| ns.map(|ns| ns.max(1.0));
    // The tail of few samples ends at the maximum.
    let upper = |row: &SleepRow| late(row.p99_ns.or(row.max_ns));
    // All panels have the same scales so that they can be compared.
    let all = || document.results.iter().filter(drawn);
    let x = Axis::log("share of a CPU", all().map(share).chain([1.0]), |share| {
        format!("{} %", (share * 1e5).round() / 1e3)
    });
    let y = Axis::log(
        "overshoot, p50 (marker) to p99, or to the maximum of few samples",
        all().flat_map(|row| [late(row.p50_ns), upper(row)]).flatten(),
        time,
    );
    let panels = lengths.iter().map(|length| {
        let of = |method: &String| {
            let rows = all().filter(|row| row.duration_ns == *length && row.method == *method);
            let marks = rows.flat_map(|row| {
                let (from, to) = (late(row.p50_ns).unwrap_or(1.0), upper(row).unwrap_or(1.0));
                [Mark::Upright { x: share(row), from, to }, Mark::Points(vec![(share(row), from)])]
            });
            marks.collect::<Vec<_>>()
        };
        let series = methods.iter().enumerate().map(|(look, method)| Series {
            name: Some(method.clone()),
            look,
            marks: of(method),
        });
        Panel {
            title: format!("sleeps of {}", time(*length as f64)),
            x: x.clone(),
            y: y.clone(),
            height: 180,
            series: series.collect(),
        }
    });
    let panels = panels.collect();
    let figures = document.results.iter().map(|row| {
        let times = [row.mean_ns, row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns];
        let share = row.cpu_share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let head = [time(row.duration_ns as f64), row.method.clone(), count(row.samples)];
        head.into_iter().chain(times.map(super::titled_chart::time)).chain([count(row.early), share]).collect()
    });
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let drawn = if lengths.len() > MOST_PANELS {
        format!(
            " The chart shows the first {MOST_PANELS} of {} durations; the table contains all of them.",
            lengths.len()
        )
    } else {
        String::new()
    };
    let of_longest =
        |method: &str| document.results.iter().find(|row| row.duration_ns == longest && row.method == method);
    let says = match (of_longest("std"), of_longest("hpt")) {
        (Some(std), Some(hpt)) => format!(
            "For sleeps of {}, the median overshoot is {} with the standard library and {} with hpt, at {:.1} % and {:.1} % of a CPU.",
            time(longest as f64),
            super::titled_chart::time(std.p50_ns),
            super::titled_chart::time(hpt.p50_ns),
            std.cpu_share.unwrap_or(0.0) * 100.0,
            hpt.cpu_share.unwrap_or(0.0) * 100.0
        ),
        _ => "Points closer to the lower left are better.".to_owned(),
    };
    let samples = document.results.iter().map(|row| row.samples).max().unwrap_or(0);
    Ok(TitledChart {
        name: "sleeps".to_owned(),
        title: "Sleep overshoot against CPU time".to_owned(),
        says: says + &drawn,
        chart: Chart { panels, side_by_side: true },
        figures: Figures {
            head: ["sleep", "method", "samples", "mean", "p50", "p99", "p99.9", "max", "early", "CPU"]
                .map(str::to_owned)
                .to_vec(),
            rows: figures.collect(),
        },
        provenance: about(
            &document.into(),
            &format!("{} each, in turn, timed with {}", counted(samples, "sleep", "sleeps"), document.source),
        ),
    })
}
