//! The values of a comparison as text.

use hpt_document::report_compare::{CompareVerdict, ComparedFigureRow, RankedReport, ReportCompareDocument};

use super::super::summary::time;
use crate::output::{one_or_many, rounded, short_time};

pub(super) const RULE: &str = "Two values differ if their ranges do not overlap. The range of a time extends from p50 to p99, or to the maximum if there are too few samples for p99; the range of a frequency error includes its bounds. Frequency errors are compared only if both nominal frequencies have the same origin. Ratios are relative to the first report.";

/// The largest number of reports for which each value is shown with its range.
const WITH_RANGE: usize = 2;

/// The maximum number of differences in the headline.
const MOST_NAMED: usize = 3;

fn shown(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(ns), "ns") => short_time(ns),
        (Some(value), _) => format!("{} {unit}", rounded(value)),
    }
}

/// Returns whether the value of at least one report differs from that of the first report.
pub(super) fn differs(rows: &[ComparedFigureRow]) -> bool {
    rows.iter().any(|row| row.verdict == CompareVerdict::Differs)
}

/// Returns the largest ratio to the first report, or its inverse if that is larger.
pub(super) fn factor(rows: &[ComparedFigureRow]) -> f64 {
    let ratios = rows.iter().filter_map(|row| row.ratio).filter(|ratio| *ratio > 0.0);
    ratios.map(|ratio| ratio.max(1.0 / ratio)).fold(1.0, f64::max)
}

/// Returns the quantities that differ, those with the largest ratio first.
pub(super) fn differences(data: &ReportCompareDocument) -> Vec<&[ComparedFigureRow]> {
    let mut found: Vec<_> = quantities(data).filter(|rows| differs(rows)).collect();
    found.sort_by(|one, other| factor(other).total_cmp(&factor(one)));
    found
}

/// Returns the rows of each quantity.
pub(super) fn quantities(data: &ReportCompareDocument) -> impl Iterator<Item = &[ComparedFigureRow]> {
    data.results.chunks(data.reports.len().max(1))
}

/// Returns the headers of the columns of [`cells`].
pub(super) fn head(names: &[&str]) -> Vec<String> {
    let values = names.iter().map(|name| (*name).to_owned());
    match names {
        [first, second] => values.chain([format!("{second}/{first}"), "verdict".to_owned()]).collect(),
        _ => values.chain(["highest ratio".to_owned(), "verdict".to_owned()]).collect(),
    }
}

/// Returns the value of each report, the ratio and the verdict.
pub(super) fn cells(rows: &[ComparedFigureRow]) -> Vec<String> {
    let value = |row: &ComparedFigureRow| {
        let middle = if row.unit == "ppm" { row.low.or(row.value) } else { row.value };
        let mark = if row.outlier { " (outlier)" } else { "" };
        match row.high.filter(|_| rows.len() <= WITH_RANGE || row.unit == "ppm") {
            Some(high) => format!("{} to {}", shown(middle, &row.unit), shown(Some(high), &row.unit)),
            None => format!("{}{mark}", shown(middle, &row.unit)),
        }
    };
    let ratio = match rows {
        [_, second] => second.ratio,
        _ => rows.iter().any(|row| row.ratio.is_some()).then(|| factor(rows)),
    };
    let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("× {ratio:.2}"));
    rows.iter().map(value).chain([ratio, verdict(rows)]).collect()
}

fn verdict(rows: &[ComparedFigureRow]) -> String {
    match rows {
        [first, second]
            if first.verdict == CompareVerdict::Missing && second.verdict == CompareVerdict::NoReference =>
        {
            format!("only in {}", second.report)
        }
        [first, second] if second.verdict == CompareVerdict::Missing => format!("only in {}", first.report),
        [_, second] => second.verdict.name().to_owned(),
        _ => {
            let differing = rows.iter().filter(|row| row.verdict == CompareVerdict::Differs).count();
            let missing = rows.iter().filter(|row| row.value.is_none()).count();
            match (differing, missing) {
                (0, 0) => "within spread".to_owned(),
                (0, missing) => format!("missing in {missing}"),
                (differing, _) => format!("{differing} {}", one_or_many(differing, "differs", "differ")),
            }
        }
    }
}

/// Returns the result in a few sentences.
pub(super) fn headline(data: &ReportCompareDocument) -> String {
    let count = data.differing;
    let mut said = format!("{count} of {} values {}", data.quantities, one_or_many(count, "differs", "differ"));
    let is_cut = count > MOST_NAMED;
    let is_shared = |rows: &[ComparedFigureRow]| rows.iter().filter(|row| row.value.is_some()).count() > 1;
    if !quantities(data).any(is_shared) {
        return "No value is in two of the reports, so only settings and problems are compared.".to_owned();
    }
    let largest: Vec<String> = differences(data)
        .iter()
        .take(MOST_NAMED)
        .map(|rows| {
            let ratio = if let [_, second] = rows { second.ratio.unwrap_or(1.0) } else { factor(rows) };
            if rows[0].unit == "ppm" {
                rows[0].quantity.clone()
            } else {
                format!("{} (×\u{a0}{ratio:.2})", rows[0].quantity)
            }
        })
        .collect();
    if !largest.is_empty() {
        said += &format!(": {}", largest.join(", "));
    }
    said += if is_cut { ", …" } else { "." };
    if data.reports.len() > 2
        && let (Some(best), Some(worst)) =
            (data.ranking.first(), data.ranking.iter().rfind(|row| row.wake_max_ns.is_some()))
        && let (Some(least), Some(most)) = (best.wake_max_ns, worst.wake_max_ns)
        && best.report != worst.report
    {
        said += &format!(
            " Lowest worst wake-up: {} ({}); highest: {} ({}).",
            best.report,
            time(least),
            worst.report,
            time(most)
        );
    }
    for coincidence in &data.coincidences {
        said.push(' ');
        said += coincidence;
    }
    said
}

pub(super) const RANKING_HEAD: [&str; 7] = ["", "report", "max", "p99", "p50", "read", "problems"];

/// Returns the cells of a row of the ranking.
pub(super) fn ranked(row: &RankedReport) -> Vec<String> {
    let ns = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
    let mark = if row.outlier { " (outlier)" } else { "" };
    vec![
        row.place.to_string(),
        row.report.clone(),
        format!("{}{mark}", ns(row.wake_max_ns)),
        ns(row.wake_p99_ns),
        ns(row.wake_p50_ns),
        row.read_cost_ns.map_or_else(|| "-".to_owned(), short_time),
        row.problems.map_or_else(|| "-".to_owned(), |count| count.to_string()),
    ]
}

/// Returns the title of a part.
pub(super) fn title(part: &str) -> &str {
    match part {
        "bench" => "Read overhead",
        "timer" => "Wake-up latency of the kernel's timer",
        "timer-hpt" => "Wake-up latency of hpt's Sleeper",
        "poll" => "Polling latency",
        "stall" => "CPU stalls",
        "sleep" => "Sleep overshoot",
        "watch" => "Frequency errors of clocks",
        "experiment" => "Published experiments",
        other => other,
    }
}
