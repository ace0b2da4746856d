//! The chart of the overshoot of sleeps against their CPU time: one point per setting. Points further down and to the
//! left are better.

use hpt_document::sleep_curve::{SleepCurveDocument, SleepCurveRow};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{self, Figures, TitledChart, Unreadable, count, counted},
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

#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(crate) fn sleep_curve(document: &SleepCurveDocument) -> Result<TitledChart, Unreadable> {
    let groups: Vec<&[SleepCurveRow]> =
        document.results.chunk_by(|one, other| one.duration_ns == other.duration_ns).collect();
    let groups: Vec<_> = groups.into_iter().filter(|rows| rows.iter().any(|row| point(row).is_some())).collect();
    if groups.is_empty() {
        return Err(Unreadable::Nothing);
    }
    // All panels have the same scales so that they can be compared.
    let points = || groups.iter().flat_map(|rows| rows.iter()).filter_map(point);
    let x = Axis::shares("CPU time, share of a CPU, log scale", points().map(|point| point.0), percent);
    let bounds = groups.iter().flat_map(|rows| rows.iter()).flat_map(|row| [row.p99_low_ns, row.p99_high_ns]);
    let y = Axis::log("p99 of the overshoot, log scale", bounds.flatten().chain(points().map(|point| point.1)), time);
    let mut methods: Vec<&str> = Vec::new();
    for row in &document.results {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    let panels = groups.iter().take(MOST_PANELS).map(|rows| {
        let of_method = |(look, method): (usize, &&str)| {
            let marks = rows.iter().filter(|row| row.method == *method).filter_map(|row| {
                let (share, late) = point(row)?;
                let words = format!(
                    "{}: p99 {}, p50 {}, {:.2} % of a CPU",
                    name(row),
                    titled_chart::time(row.p99_ns),
                    titled_chart::time(row.p50_ns),
                    share * 100.0
                );
                let bounds = row.p99_low_ns.zip(row.p99_high_ns);
                let bounds = bounds.map(|(from, to)| Mark::Within { x: share, from: from.max(1.0), to });
                Some([
                    bounds,
                    Some(Mark::Points(vec![(share, late)])),
                    Some(Mark::Hover { x: (share, share), y: (late, late), words }),
                ])
            });
            Series { name: Some((*method).to_owned()), look, marks: marks.flatten().flatten().collect() }
        };
        let mut best: Vec<_> = rows.iter().filter(|row| row.is_best == Some(true)).filter_map(point).collect();
        let front = Series { name: None, look: methods.len(), marks: vec![Mark::Line(steps(&mut best))] };
        Panel {
            title: format!("sleeps of {}", time(rows[0].duration_ns as f64)),
            x: x.clone(),
            y: y.clone(),
            height: 300,
            series: methods.iter().enumerate().map(of_method).chain([front]).collect(),
        }
    });
    let panels = panels.collect();
    let figures = document.results.iter().map(|row| {
        let times = [row.trimmed_mean_ns, row.p50_ns, row.p90_ns, row.p99_ns, row.p99_low_ns, row.p99_high_ns];
        let share = row.cpu_share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let is_best = if row.is_best == Some(true) { "best" } else { "" };
        let head = [time(row.duration_ns as f64), name(row), count(row.samples)];
        let last = [titled_chart::time(row.max_ns), share, is_best.to_owned()];
        head.into_iter().chain(times.map(titled_chart::time)).chain(last).collect()
    });
    let recommended = document.recommendations.iter().filter_map(|one| {
        let setting = one.setting.as_deref().map(|setting| format!(" {setting}")).unwrap_or_default();
        Some(format!(
            "For p99 below {} at {}, the cheapest setting is {}{setting} ({:.2} % of a CPU).",
            time(one.limit_ns as f64),
            time(one.duration_ns as f64),
            one.method.as_ref()?,
            one.cpu_share? * 100.0
        ))
    });
    let says = ["Settings further down and to the left are better; the line joins those that no other setting beats."
        .to_owned()];
    let samples = document.results.iter().map(|row| row.samples).max().unwrap_or(0);
    Ok(TitledChart {
        name: "sleep-curve".to_owned(),
        title: "Overshoot of sleeps against their CPU time".to_owned(),
        says: recommended.chain(says).collect::<Vec<_>>().join(" "),
        chart: Chart { panels, side_by_side: true },
        figures: Figures {
            head: [
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
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: figures.collect(),
        },
        provenance: about(
            &document.into(),
            &format!(
                "{} per setting, in turn, timed with {}; thin lines: p99 at 95 % confidence, if samples are independent",
                counted(samples, "sleep", "sleeps"),
                document.source
            ),
        ),
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
