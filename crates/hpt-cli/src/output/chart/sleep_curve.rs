//! The chart of the overshoot of sleeps against their CPU time: one point per setting. Points further down and to the
//! left are better.

use hpt_document::sleep_curve::{SleepCurveDocument, SleepCurveRow};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{self, Figures, TitledChart, Unreadable, count, counted, whole},
};

/// Returns the name of a setting, for example `hpt p99=5 µs`.
fn name(row: &SleepCurveRow) -> String {
    row.setting.as_ref().map_or_else(|| row.method.clone(), |setting| format!("{} {setting}", row.method))
}

/// Returns the position of a row: its CPU time and its p99.
fn point(row: &SleepCurveRow) -> Option<(f64, f64)> {
    let late = row.p99_ns?;
    row.cpu_share.filter(|share| *share > 0.0).map(|share| (share, late.max(1.0)))
}

fn percent(share: f64) -> String {
    let percent = format!("{:.6}", share * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// Joins the best settings by steps: between two of them, the overshoot is that of the cheaper one.
fn steps(best: &mut [(f64, f64)]) -> Vec<(f64, f64)> {
    best.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for &(share, late) in &*best {
        steps.extend(steps.last().map(|last| (share, last.1)));
        steps.push((share, late));
    }
    steps
}

pub(crate) fn sleep_curve(document: &SleepCurveDocument) -> Result<TitledChart, Unreadable> {
    let groups = document.results.chunk_by(|one, other| one.duration_ns == other.duration_ns);
    let groups: Vec<_> = groups.filter(|rows| rows.iter().any(|row| point(row).is_some())).collect();
    if groups.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let says = "Settings further down and to the left are better; the line joins those that no other setting beats.";
    let says = recommended(document).chain([says.to_owned()]).collect::<Vec<_>>().join(" ");
    let samples = document.results.iter().map(|row| row.samples).max().unwrap_or(0);
    let measured = format!(
        "{} per setting, in turn, timed with {}; thin lines: p99 at 95 % confidence, if samples are independent",
        counted(samples, "sleep", "sleeps"),
        document.source
    );
    Ok(TitledChart {
        name: "sleep-curve".to_owned(),
        title: "Overshoot of sleeps against their CPU time".to_owned(),
        says,
        chart: Chart { panels: panels(document, &groups), side_by_side: true },
        figures: Figures {
            head: COLUMNS.map(str::to_owned).to_vec(),
            rows: document.results.iter().map(figures).collect(),
        },
        provenance: about(&document.into(), &measured),
    })
}

/// Returns a panel for each duration. All panels have the same scales so that they can be compared.
fn panels(document: &SleepCurveDocument, groups: &[&[SleepCurveRow]]) -> Vec<Panel> {
    let all = || groups.iter().copied().flatten();
    let x = Axis::shares("CPU time, share of a CPU, log scale", all().filter_map(point).map(|point| point.0), percent);
    let bounds = all().flat_map(|row| [row.p99_low_ns, row.p99_high_ns]).flatten();
    let lateness = bounds.chain(all().filter_map(point).map(|point| point.1));
    let y = Axis::log("p99 of the overshoot, log scale", lateness, time);
    let mut methods: Vec<&str> = Vec::new();
    for row in &document.results {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    let panel = |rows: &&[SleepCurveRow]| {
        let of_method = |(look, method): (usize, &&str)| {
            let rows = rows.iter().filter(|row| row.method == *method);
            Series { name: Some((*method).to_owned()), look, marks: rows.flat_map(marks).collect() }
        };
        let mut best: Vec<_> = rows.iter().filter(|row| row.is_best == Some(true)).filter_map(point).collect();
        let front = Series { name: None, look: methods.len(), marks: vec![Mark::Line(steps(&mut best))] };
        Panel {
            title: format!("sleeps of {}", time(whole(rows[0].duration_ns))),
            x: x.clone(),
            y: y.clone(),
            height: 300,
            series: methods.iter().enumerate().map(of_method).chain([front]).collect(),
        }
    };
    groups.iter().take(MOST_PANELS).map(panel).collect()
}

/// Returns the bounds, the point and the text of a setting.
fn marks(row: &SleepCurveRow) -> Vec<Mark> {
    let Some((share, late)) = point(row) else { return Vec::new() };
    let words = format!(
        "{}: p99 {}, p50 {}, {:.2} % of a CPU",
        name(row),
        titled_chart::time(row.p99_ns),
        titled_chart::time(row.p50_ns),
        share * 100.0
    );
    let bounds = row.p99_low_ns.zip(row.p99_high_ns);
    let bounds = bounds.map(|(from, to)| Mark::Within { x: share, from: from.max(1.0), to });
    let point = [Mark::Points(vec![(share, late)]), Mark::Hover { x: (share, share), y: (late, late), words }];
    bounds.into_iter().chain(point).collect()
}

const COLUMNS: [&str; 12] = [
    "sleep",
    "setting",
    "samples",
    "trim 1 %",
    "p50",
    "p90",
    "p99",
    "p99 at least",
    "p99 at most",
    "max",
    "CPU",
    "best",
];

fn figures(row: &SleepCurveRow) -> Vec<String> {
    let times = [row.trimmed_mean_ns, row.p50_ns, row.p90_ns, row.p99_ns, row.p99_low_ns, row.p99_high_ns];
    let share = row.cpu_share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
    let is_best = if row.is_best == Some(true) { "best" } else { "" };
    let head = [time(whole(row.duration_ns)), name(row), count(row.samples)];
    let last = [titled_chart::time(row.max_ns), share, is_best.to_owned()];
    head.into_iter().chain(times.map(titled_chart::time)).chain(last).collect()
}

fn recommended(document: &SleepCurveDocument) -> impl Iterator<Item = String> {
    document.recommendations.iter().filter_map(|one| {
        let setting = one.setting.as_deref().map(|setting| format!(" {setting}")).unwrap_or_default();
        Some(format!(
            "For p99 below {} at {}, the cheapest setting is {}{setting} ({:.2} % of a CPU).",
            time(whole(one.limit_ns)),
            time(whole(one.duration_ns)),
            one.method.as_ref()?,
            one.cpu_share? * 100.0
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::{percent, steps};

    #[test]
    fn the_best_settings_are_joined_from_the_cheapest() {
        let mut best = [(0.5, 1.0), (0.02, 50.0), (0.1, 5.0)];
        assert_eq!(steps(&mut best), [(0.02, 50.0), (0.1, 50.0), (0.1, 5.0), (0.5, 5.0), (0.5, 1.0)]);
        assert_eq!(steps(&mut []), []);
    }

    #[test]
    fn ticks_of_small_shares_are_different() {
        assert_eq!([1.0, 0.1, 0.01, 0.001, 0.0001].map(percent), ["100 %", "10 %", "1 %", "0.1 %", "0.01 %"]);
    }
}
