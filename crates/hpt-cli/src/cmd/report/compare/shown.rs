//! The values of a comparison as text.

use hpt_document::compare::{
    CompareDocument, CompareMethod, CompareVerdict, ComparedFigureRow, ComparedSide, RankedSide,
};

use super::super::summary::time;
use crate::output::{one_or_many, rounded, short_time};

/// Returns the rule of the verdicts.
pub(super) const fn rule(method: CompareMethod) -> &'static str {
    match method {
        CompareMethod::WithinRuns => {
            "Two values differ if the interval of their ratio excludes 1. It follows from the intervals of both values, which come from the samples of one run each: a difference between two runs is not yet one between two machines or settings. To show one, take at least three runs of each in turns. If nothing differs, at least one value is said to differ with a probability of at most 5 %. A maximum is not judged, because one late sample decides it; the median of the maxima of short intervals is. The interval of a frequency is that of its bounds."
        }
        CompareMethod::BetweenRuns => {
            "Each run is one observation of each value. Two values differ if the interval of their ratio excludes 1 (Student's t-test of the logarithms). If nothing differs, at least one value is said to differ with a probability of at most 5 %, all values of this comparison together. Maxima are compared only between runs of equal length."
        }
    }
}

/// The settings that a user can hardly change.
const FIXED: [&str; 4] = ["CPU", "architecture", "board", "kernel"];
/// The maximum number of differences in the headline.
const MOST_NAMED: usize = 3;

fn shown(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(ns), "ns") => short_time(ns),
        (Some(value), _) => format!("{} {unit}", rounded(value)),
    }
}

/// Returns whether the value of at least one side differs from that of the first.
pub(super) fn differs(rows: &[ComparedFigureRow]) -> bool {
    rows.iter().any(|row| row.verdict == CompareVerdict::Differs)
}

/// Returns whether a duration is surely longer than that of the first side.
pub(super) fn is_worse(row: &ComparedFigureRow) -> bool {
    let is_longer = row.unit == "ns" || row.part == "stall";
    is_longer && row.verdict == CompareVerdict::Differs && row.ratio.is_some_and(|ratio| ratio > 1.0)
}

/// Returns the ratio to the value of the first side, not rounded. Frequency errors have none.
fn ratio(first: &ComparedFigureRow, other: &ComparedFigureRow) -> Option<f64> {
    let reference = first.value.filter(|value| first.unit != "ppm" && *value > 0.0)?;
    Some(other.value? / reference).filter(|ratio| ratio.is_finite() && *ratio >= 0.0)
}

/// Returns the ratio to the value of the first side, with its interval.
fn ratio_with_interval(first: &ComparedFigureRow, other: &ComparedFigureRow) -> String {
    let ratio = ratio(first, other).map_or_else(|| "-".to_owned(), ratio_text);
    let ends = other.ratio_low.zip(other.ratio_high);
    ratio + &ends.map_or_else(String::new, |(low, high)| format!(" ({} to {})", plain_ratio(low), plain_ratio(high)))
}

/// Formats a ratio without its sign.
fn plain_ratio(ratio: f64) -> String {
    ratio_text(ratio).replace("×\u{a0}", "")
}

/// Formats a ratio with two or three significant digits. A small ratio is the reciprocal of a whole number.
fn ratio_text(ratio: f64) -> String {
    let space = '\u{a0}';
    match ratio {
        none if none <= 0.0 => format!("×{space}0"),
        small if small < 0.1 => {
            let times = 1.0 / small;
            // Two significant digits.
            let unit = 10_f64.powf(times.log10().floor() - 1.0);
            format!("×{space}1/{:.0}", (times / unit).round() * unit)
        }
        large if large >= 99.95 => format!("×{space}{large:.0}"),
        large if large >= 9.995 => format!("×{space}{large:.1}"),
        _ => format!("×{space}{ratio:.2}"),
    }
}

/// Returns the name of a quantity in a list of quantities of all parts.
pub(super) fn full_name(row: &ComparedFigureRow) -> String {
    let quantity = &row.quantity;
    match row.part.as_str() {
        "bench" => format!("read overhead of {quantity}"),
        "timer" | "timer-hpt" => format!("wake-up latency, {quantity}"),
        "poll" | "gpio" => format!("latency, {quantity}"),
        "pairs" => format!("offset of {quantity}"),
        "stall" if row.unit == "ns" => format!("duration of {quantity}"),
        "sleep" => format!("sleep of {quantity}"),
        _ => quantity.clone(),
    }
}

/// Returns the distance of a ratio from 1, on a logarithmic scale.
fn distance(ratio: f64) -> f64 {
    ratio.ln().abs()
}

/// Returns the ratio to the first side that is furthest from 1, of the values that differ.
fn factor(rows: &[ComparedFigureRow]) -> Option<f64> {
    let (first, others) = rows.split_first()?;
    let differing = others.iter().filter(|row| row.verdict == CompareVerdict::Differs);
    let ratios = differing.filter_map(|row| ratio(first, row));
    ratios.max_by(|one, other| distance(*one).total_cmp(&distance(*other)))
}

/// Returns the quantities that differ, those with the ratio furthest from 1 first.
pub(super) fn differences(data: &CompareDocument) -> Vec<&[ComparedFigureRow]> {
    let mut found: Vec<_> = quantities(data).filter(|rows| differs(rows)).collect();
    let far = |rows: &[ComparedFigureRow]| factor(rows).map_or(0.0, distance);
    found.sort_by(|one, other| far(other).total_cmp(&far(one)));
    found
}

/// Returns the rows of each quantity.
pub(super) fn quantities(data: &CompareDocument) -> impl Iterator<Item = &[ComparedFigureRow]> {
    data.results.chunks(data.sides.len().max(1))
}

/// The header of the column with the smallest ratio that would be seen.
pub(super) const UNSEEN: &str = "unseen below";

/// Returns the headers of the columns of [`cells`].
pub(super) fn head(names: &[&str]) -> Vec<String> {
    let ratio = match names {
        [first, second] => format!("{second}/{first}"),
        _ => "furthest ratio".to_owned(),
    };
    names.iter().map(|name| (*name).to_owned()).chain([ratio, UNSEEN.to_owned(), "verdict".to_owned()]).collect()
}

/// Returns the value of each side, the ratio, the smallest ratio that would be seen, and the verdict. Detailed cells also
/// contain the intervals of the values.
pub(super) fn cells(rows: &[ComparedFigureRow], is_detailed: bool) -> Vec<String> {
    let value = |row: &ComparedFigureRow| {
        let mark = if row.outlier { " (outlier)" } else { "" };
        let ends = row.low.zip(row.high).filter(|_| is_detailed || row.unit == "ppm");
        let ends = ends.map_or_else(String::new, |(low, high)| {
            format!(" ({} to {})", shown(Some(low), &row.unit), shown(Some(high), &row.unit))
        });
        format!("{}{ends}{mark}", shown(row.value, &row.unit))
    };
    let ratio = match rows {
        [first, second] => ratio_with_interval(first, second),
        _ => factor(rows).map_or_else(|| "-".to_owned(), ratio_text),
    };
    let is_shown = rows.iter().any(|row| row.verdict == CompareVerdict::NotShown);
    let least = rows.iter().filter_map(|row| row.resolution).reduce(f64::max).filter(|_| is_shown);
    let least = least.map_or_else(|| "-".to_owned(), ratio_text);
    rows.iter().map(value).chain([ratio, least, verdict(rows)]).collect()
}

fn verdict(rows: &[ComparedFigureRow]) -> String {
    match rows {
        [first, second]
            if first.verdict == CompareVerdict::Missing && second.verdict == CompareVerdict::NoReference =>
        {
            format!("only in {}", second.side)
        }
        [first, second] if second.verdict == CompareVerdict::Missing => format!("only in {}", first.side),
        [_, second] => second.verdict.name().to_owned(),
        _ => {
            let differing = rows.iter().filter(|row| row.verdict == CompareVerdict::Differs).count();
            let missing = rows.iter().filter(|row| row.value.is_none()).count();
            match (differing, missing) {
                (0, 0) => {
                    let known = [CompareVerdict::Reference, CompareVerdict::NotShown];
                    let row = rows.iter().find(|row| !known.contains(&row.verdict));
                    row.map_or(CompareVerdict::NotShown, |row| row.verdict).name().to_owned()
                }
                (0, missing) => format!("no value in {missing}"),
                (differing, _) => format!("{differing} {}", one_or_many(differing, "differs", "differ")),
            }
        }
    }
}

/// Returns whether at least two sides have a value of the same quantity.
pub(super) fn has_shared_values(data: &CompareDocument) -> bool {
    quantities(data).any(|rows| rows.iter().filter(|row| row.value.is_some()).count() > 1)
}

/// Returns whom the verdicts are about: the sides, or only their runs.
fn subject(data: &CompareDocument) -> String {
    let all_names = |sides: &[ComparedSide]| match sides {
        [one, other] => format!("{} and {}", one.name, other.name),
        sides => format!("The {} sides", sides.len()),
    };
    match (data.method, data.in_turns, data.sides.len()) {
        (CompareMethod::WithinRuns, _, 2) => "These two runs".to_owned(),
        (CompareMethod::WithinRuns, ..) => "These runs".to_owned(),
        (CompareMethod::BetweenRuns, Some(true), _) => all_names(&data.sides),
        // The load may have changed between the runs of one side and those of the other.
        (CompareMethod::BetweenRuns, _, 2) => format!("The runs of {}", all_names(&data.sides)),
        (CompareMethod::BetweenRuns, ..) => "The runs of the sides".to_owned(),
    }
}

/// Returns the result in a few sentences.
pub(super) fn headline(data: &CompareDocument) -> String {
    let (count, judged, subject) = (data.differing, data.judged, subject(data));
    let values = one_or_many(judged, "value", "values");
    let mut said = match (count, judged) {
        (_, 0) => format!("{subject} have no value that can be judged, so no difference can be shown"),
        (0, _) => format!("{subject} show no difference in {judged} {values}"),
        _ => format!("{subject} differ in {count} of {judged} {values}"),
    };
    let is_cut = count > MOST_NAMED;
    if !has_shared_values(data) {
        return "No value is on two sides, so only settings and problems are compared.".to_owned();
    }
    let largest: Vec<String> = differences(data)
        .iter()
        .take(MOST_NAMED)
        .map(|rows| match factor(rows) {
            Some(ratio) => format!("{} ({})", full_name(&rows[0]), ratio_text(ratio)),
            None => full_name(&rows[0]),
        })
        .collect();
    if !largest.is_empty() {
        said += &format!(": {}", largest.join(", "));
    }
    said += if is_cut { ", …" } else { "." };
    if data.sides.len() > 2 {
        said += &extremes(data).unwrap_or_default();
    }
    // A setting that a user can change is of more use than the machine.
    let is_fixed = |said: &&String| {
        FIXED
            .iter()
            .any(|setting| said.contains(&format!(" have {setting}=")) || said.contains(&format!(" has {setting}=")))
    };
    let changeable = data.coincidences.iter().find(|said| !is_fixed(said));
    if let Some(coincidence) = changeable.or(data.coincidences.first()) {
        said.push(' ');
        said += coincidence;
    }
    said
}

/// Names the sides with the lowest and the highest worst wake-up.
fn extremes(data: &CompareDocument) -> Option<String> {
    let (best, worst) = (data.ranking.first()?, data.ranking.iter().rfind(|row| row.wake_max_ns.is_some())?);
    let (least, most) = (time(best.wake_max_ns?), time(worst.wake_max_ns?));
    (best.side != worst.side)
        .then(|| format!(" Lowest worst wake-up: {} ({least}); highest: {} ({most}).", best.side, worst.side))
}

pub(super) const RANKING_HEAD: [&str; 7] = ["", "side", "max", "highest p99", "highest p50", "read", "problems"];

/// Returns the cells of a row of the ranking.
pub(super) fn ranked(row: &RankedSide) -> Vec<String> {
    let ns = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), time);
    let mark = if row.outlier { " (outlier)" } else { "" };
    vec![
        row.place.to_string(),
        row.side.clone(),
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
        "gpio" => "GPIO edge latency",
        "pairs" => "Offsets between sources",
        "calibrate" => "Frequencies",
        "sleep" => "Sleep overshoot",
        "watch" => "Frequency errors of clocks",
        "experiment" => "Published experiments",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::compare::{CompareVerdict, ComparedFigureRow};

    use super::{cells, factor, ratio_text};

    /// Returns the rows of one quantity.
    fn rows(unit: &str, values: &[(f64, CompareVerdict)]) -> Vec<ComparedFigureRow> {
        let row = |&(value, verdict): &(f64, CompareVerdict)| ComparedFigureRow {
            part: "bench".to_owned(),
            quantity: "tsc".to_owned(),
            unit: unit.to_owned(),
            side: "A".to_owned(),
            value: Some(value),
            low: None,
            high: None,
            max: None,
            runs: Vec::new(),
            samples: None,
            ratio: None,
            ratio_low: None,
            ratio_high: None,
            resolution: None,
            verdict,
            outlier: false,
        };
        values.iter().map(row).collect()
    }

    #[test]
    fn the_furthest_ratio_is_of_a_value_that_differs() {
        use CompareVerdict::{Differs, NotShown, Reference};
        let of = |unit: &str, first: f64| {
            factor(&rows(unit, &[(first, Reference), (15.0, Differs), (2.5, Differs), (900.0, NotShown)]))
        };
        assert_eq!((of("ns", 10.0), of("ns", 0.0), of("ppm", 10.0)), (Some(0.25), None, None));
        assert_eq!(factor(&rows("ns", &[(10.0, Reference), (20.0, NotShown), (30.0, NotShown)])), None);
    }

    #[test]
    fn a_ratio_is_never_rounded_to_nothing() {
        let said = [0.0, 1e-9, 0.000_34, 0.0049, 0.099, 0.1, 0.45, 1.0, 9.99, 47.26, 294.12, 8_300.4];
        let said: Vec<_> = said.into_iter().map(|ratio| ratio_text(ratio).replace('\u{a0}', " ")).collect();
        assert_eq!(
            said,
            [
                "× 0",
                "× 1/1000000000",
                "× 1/2900",
                "× 1/200",
                "× 1/10",
                "× 0.10",
                "× 0.45",
                "× 1.00",
                "× 9.99",
                "× 47.3",
                "× 294",
                "× 8300"
            ]
        );
    }

    #[test]
    fn a_value_without_an_interval_is_not_judged() {
        for verdict in [CompareVerdict::NotJudged, CompareVerdict::TooFew, CompareVerdict::DifferentNominalRates] {
            let within = CompareVerdict::NotShown;
            let cells = cells(&rows("ns", &[(1.0, CompareVerdict::Reference), (1.0, within), (9.0, verdict)]), false);
            assert_eq!(cells[3..], ["-", "-", verdict.name()]);
        }
    }
}
