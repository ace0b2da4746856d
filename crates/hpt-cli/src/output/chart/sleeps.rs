//! The chart of the overshoot of sleeps: the cumulative distribution (ECDF) of each method. Curves further to the left are
//! better.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use hpt_document::{
    quantiles::{QuantileList, SleepList},
    sleep::{SleepDocument, SleepRow},
};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted},
};

/// The maximum number of methods in a panel.
const MOST_METHODS: usize = 36;

/// Returns the share of a CPU that a method takes, as a percentage.
fn percent(row: &SleepRow) -> String {
    row.cpu_share.map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", share * 100.0))
}

/// Returns the steps of a cumulative distribution: from each bin, or from the quantiles if the document has no bins.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn steps(row: &SleepRow) -> Vec<(f64, f64)> {
    let all = row.samples.max(1) as f64;
    let mut passed = 0_u64;
    let mut points: Vec<(f64, f64)> = row
        .histogram_ns
        .iter()
        .map(|bin| {
            passed = passed.saturating_add(bin.2);
            ((bin.1 as f64).min(row.max_ns.unwrap_or(f64::MAX)), (passed as f64 / all).min(1.0))
        })
        .collect();
    if points.is_empty() {
        let quantiles = row.quantiles.nanos().map(|(quantile, ns)| (ns, quantile.share)).chain([(row.max_ns, 1.0)]);
        points.extend(quantiles.filter_map(|(ns, share)| Some((ns?, share))));
    }
    let first = row.histogram_ns.first().map(|bin| bin.0 as f64).or_else(|| points.first().map(|point| point.0));
    points.insert(0, (first.unwrap_or(1.0), 0.0));
    // A step at each point: the share grows only where sleeps end.
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (ns, share) in points {
        let ns = ns.max(1.0);
        steps.extend(steps.last().map(|last| (ns, last.1)));
        steps.push((ns, share));
    }
    steps
}

/// Returns each value once, in the order of the first occurrence.
fn distinct<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

#[expect(clippy::cast_precision_loss, reason = "for drawing and printing")]
pub(crate) fn sleeps(document: &SleepDocument) -> Result<TitledChart, Unreadable> {
    let drawn = |row: &&SleepRow| row.quantiles.median().is_some();
    let all = || document.results.iter().filter(drawn);
    let lengths = distinct(all().map(|row| row.duration_ns));
    let methods = distinct(all().map(|row| row.method.as_str()));
    let mut by_place: HashMap<(u64, &str), Vec<&SleepRow>> = HashMap::new();
    all().for_each(|row| by_place.entry((row.duration_ns, &row.method)).or_default().push(row));
    if lengths.is_empty() {
        return Err(Unreadable::Nothing);
    }
    // All panels have the same scales so that they can be compared.
    let ends = all().flat_map(|row| [row.quantiles.median(), row.max_ns]).flatten().map(|ns| ns.max(1.0));
    let firsts = all().filter_map(|row| row.histogram_ns.first()).map(|bin| (bin.0 as f64).max(1.0));
    let x = Axis::log("overshoot, log scale", ends.chain(firsts), time);
    let y = Axis::linear("share of sleeps that are at most this late", [0.0, 1.0], true, |share| {
        format!("{:.0} %", share * 100.0)
    });
    let panels = lengths.iter().take(MOST_PANELS).map(|length| {
        let series = methods.iter().take(MOST_METHODS).enumerate().map(|(look, method)| {
            let rows = by_place.get(&(*length, *method)).into_iter().flatten();
            let marks = rows.flat_map(|row| {
                let words = format!(
                    "{method}: p50 {}, max {}, {} of a CPU",
                    super::titled_chart::time(row.quantiles.median()),
                    super::titled_chart::time(row.max_ns),
                    percent(row)
                );
                let points = steps(row);
                let middle = points.iter().find(|point| point.1 >= 0.5).copied();
                let hover = middle.map(|(x, y)| Mark::Hover { x: (x, x), y: (y, y), words });
                let ends = [middle, points.last().copied()].into_iter().flatten().collect();
                [Some(Mark::Stroke(points)), Some(Mark::Points(ends)), hover].into_iter().flatten()
            });
            Series { name: Some((*method).to_owned()), look, marks: marks.collect() }
        });
        Panel {
            title: format!("sleeps of {}", time(*length as f64)),
            x: x.clone(),
            y: y.clone(),
            height: 200,
            series: series.collect(),
        }
    });
    let panels = panels.collect();
    let figures = document.results.iter().map(|row| {
        let quantiles = row.quantiles.nanos().map(|(_, ns)| ns);
        let times = [row.mean_ns].into_iter().chain(quantiles).chain([row.max_ns]);
        let share = percent(row);
        let head = [time(row.duration_ns as f64), row.method.clone(), count(row.samples)];
        head.into_iter().chain(times.map(super::titled_chart::time)).chain([count(row.early), share]).collect()
    });
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let mut drawn = if lengths.len() > MOST_PANELS {
        format!(
            " The chart shows the first {MOST_PANELS} of {} durations; the table contains all of them.",
            lengths.len()
        )
    } else {
        String::new()
    };
    if methods.len() > MOST_METHODS {
        drawn += &format!(
            " The chart shows the first {MOST_METHODS} of {} methods; the table contains all of them.",
            methods.len()
        );
    }
    let of_longest =
        |method: &str| document.results.iter().find(|row| row.duration_ns == longest && row.method == method);
    let says = match (of_longest("std"), of_longest("hpt")) {
        (Some(std), Some(hpt)) => format!(
            "For sleeps of {}, the median overshoot is {} with the standard library and {} with hpt, at {:.1} % and {:.1} % of a CPU.",
            time(longest as f64),
            super::titled_chart::time(std.quantiles.median()),
            super::titled_chart::time(hpt.quantiles.median()),
            std.cpu_share.unwrap_or(0.0) * 100.0,
            hpt.cpu_share.unwrap_or(0.0) * 100.0
        ),
        _ => "Curves further to the left are better.".to_owned(),
    };
    let samples = document.results.iter().map(|row| row.samples).max().unwrap_or(0);
    Ok(TitledChart {
        name: "sleeps".to_owned(),
        title: "Sleep overshoot by method (cumulative distribution)".to_owned(),
        says: says + &drawn,
        chart: Chart { panels, side_by_side: true },
        figures: Figures {
            head: ["sleep", "method", "samples", "mean"]
                .into_iter()
                .chain(SleepList::LIST.iter().map(|quantile| quantile.name))
                .chain(["max", "early", "CPU"])
                .map(str::to_owned)
                .collect(),
            rows: figures.collect(),
        },
        provenance: about(
            &document.into(),
            &format!("{} each, in turn, timed with {}", counted(samples, "sleep", "sleeps"), document.source),
        ),
    })
}

#[cfg(test)]
mod tests {
    use hpt_document::{latency::HistogramBin, quantiles::Quantiles, sleep::SleepRow};

    use super::steps;

    fn row(bins: Vec<HistogramBin>) -> SleepRow {
        SleepRow {
            duration_ns: 1_000,
            method: "std".to_owned(),
            samples: 4,
            early: 0,
            mean_ns: None,
            trimmed_mean_ns: None,
            quantiles: Quantiles::of(|quantile| (quantile.name == "p50").then_some(20.0)),
            max_ns: Some(90.0),
            cpu_share: None,
            margin_ns: None,
            target: None,
            histogram_ns: bins,
        }
    }

    #[test]
    fn the_share_of_sleeps_grows_in_steps_to_all_of_them() {
        let bins = vec![HistogramBin(10, 12, 1), HistogramBin(20, 21, 2), HistogramBin(88, 92, 1)];
        let points = steps(&row(bins));
        assert_eq!(points.first().zip(points.last()), Some((&(10.0, 0.0), &(90.0, 1.0))));
        assert!(points.windows(2).all(|two| two[0].0 == two[1].0 || two[0].1 == two[1].1), "{points:?}");
        assert!(points.contains(&(21.0, 0.25)) && points.contains(&(21.0, 0.75)), "{points:?}");
        // Documents of older versions have no bins.
        let points = steps(&row(Vec::new()));
        assert!(points.contains(&(20.0, 0.5)) && points.last() == Some(&(90.0, 1.0)), "{points:?}");
    }
}
