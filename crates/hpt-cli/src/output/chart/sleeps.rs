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
    titled_chart::{self, Figures, TitledChart, Unreadable, count, counted, whole},
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

pub(crate) fn sleeps(document: &SleepDocument) -> Result<TitledChart, Unreadable> {
    let drawn = || document.results.iter().filter(|row| row.quantiles.median().is_some());
    let lengths = distinct(drawn().map(|row| row.duration_ns));
    let methods = distinct(drawn().map(|row| row.method.as_str()));
    if lengths.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let omitted = |all: usize, most: usize, what: &str| {
        if all > most {
            format!(" The chart shows the first {most} of {all} {what}; the table contains all of them.")
        } else {
            String::new()
        }
    };
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let says = said(document, longest)
        + &omitted(lengths.len(), MOST_PANELS, "durations")
        + &omitted(methods.len(), MOST_METHODS, "methods");
    let head = ["sleep", "method", "samples", "mean"].into_iter();
    let head = head.chain(SleepList::LIST.iter().map(|quantile| quantile.name)).chain(["max", "early", "CPU"]);
    let samples = document.results.iter().map(|row| row.samples).max().unwrap_or(0);
    let measured = format!("{} each, in turn, timed with {}", counted(samples, "sleep", "sleeps"), document.source);
    Ok(TitledChart {
        name: "sleeps".to_owned(),
        title: "Sleep overshoot by method (cumulative distribution)".to_owned(),
        says,
        chart: Chart { panels: panels(&drawn().collect::<Vec<_>>(), &lengths, &methods), side_by_side: true },
        figures: Figures {
            head: head.map(str::to_owned).collect(),
            rows: document.results.iter().map(figures).collect(),
        },
        provenance: about(&document.into(), &measured),
    })
}

/// Returns a panel for each length. All panels have the same scales so that they can be compared.
fn panels(rows: &[&SleepRow], lengths: &[u64], methods: &[&str]) -> Vec<Panel> {
    let mut by_place: HashMap<(u64, &str), Vec<&SleepRow>> = HashMap::new();
    rows.iter().for_each(|row| by_place.entry((row.duration_ns, &row.method)).or_default().push(row));
    let ends = rows.iter().flat_map(|row| [row.quantiles.median(), row.max_ns]).flatten().map(|ns| ns.max(1.0));
    let firsts = rows.iter().filter_map(|row| row.histogram_ns.first()).map(|bin| whole(bin.0).max(1.0));
    let x = Axis::log("overshoot, log scale", ends.chain(firsts), time);
    let y = Axis::linear("share of sleeps that are at most this late", [0.0, 1.0], true, |share| {
        format!("{:.0} %", share * 100.0)
    });
    let panel = |length: &u64| {
        let series = methods.iter().take(MOST_METHODS).enumerate().map(|(look, method)| {
            let rows = by_place.get(&(*length, *method)).into_iter().flatten();
            Series { name: Some((*method).to_owned()), look, marks: rows.flat_map(|row| marks(row)).collect() }
        });
        Panel {
            title: format!("sleeps of {}", time(whole(*length))),
            x: x.clone(),
            y: y.clone(),
            height: 200,
            series: series.collect(),
        }
    };
    lengths.iter().take(MOST_PANELS).map(panel).collect()
}

/// Returns the curve of a method, its median and its end, and its text.
fn marks(row: &SleepRow) -> impl Iterator<Item = Mark> {
    let words = format!(
        "{}: p50 {}, max {}, {} of a CPU",
        row.method,
        titled_chart::time(row.quantiles.median()),
        titled_chart::time(row.max_ns),
        percent(row)
    );
    let points = steps(row);
    let middle = points.iter().find(|point| point.1 >= 0.5).copied();
    let hover = middle.map(|(x, y)| Mark::Hover { x: (x, x), y: (y, y), words });
    let ends = [middle, points.last().copied()].into_iter().flatten().collect();
    [Some(Mark::Stroke(points)), Some(Mark::Points(ends)), hover].into_iter().flatten()
}

fn figures(row: &SleepRow) -> Vec<String> {
    let quantiles = row.quantiles.nanos().map(|(_, ns)| ns);
    let times = [row.mean_ns].into_iter().chain(quantiles).chain([row.max_ns]);
    let head = [time(whole(row.duration_ns)), row.method.clone(), count(row.samples)];
    head.into_iter().chain(times.map(titled_chart::time)).chain([count(row.early), percent(row)]).collect()
}

fn said(document: &SleepDocument, longest: u64) -> String {
    let of_longest =
        |method: &str| document.results.iter().find(|row| row.duration_ns == longest && row.method == method);
    let (Some(std), Some(hpt)) = (of_longest("std"), of_longest("hpt")) else {
        return "Curves further to the left are better.".to_owned();
    };
    format!(
        "For sleeps of {}, the median overshoot is {} with the standard library and {} with hpt, at {:.1} % and {:.1} % of a CPU.",
        time(whole(longest)),
        titled_chart::time(std.quantiles.median()),
        titled_chart::time(hpt.quantiles.median()),
        std.cpu_share.unwrap_or(0.0) * 100.0,
        hpt.cpu_share.unwrap_or(0.0) * 100.0
    )
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
