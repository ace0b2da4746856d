//! The rows of a comparison: the values of each quantity, with a verdict on each and a mark for outliers.

use hpt_document::report_compare::{CompareVerdict, ComparedFigureRow};

use super::values::{One, is_alike, is_same};
use crate::output::rounded;

/// The minimum number of reports in which a value can be an outlier.
const FEWEST: usize = 3;
/// The distance from the median, in robust standard deviations, from which a value is an outlier (Iglewicz and Hoaglin).
const FAR: f64 = 3.5;
/// The robust standard deviation as a multiple of the median distance.
const ROBUST: f64 = 1.4826;
/// The minimum ratio of an outlier to the median.
const LEAST_RATIO: f64 = 1.5;

/// Returns the rows of all quantities. The rows of one quantity are adjacent, and the quantities of one part too.
/// `reports` contains the name and the values of each report.
pub(super) fn rows(reports: &[(&str, Vec<One>)]) -> Vec<ComparedFigureRow> {
    let mut quantities: Vec<&One> = Vec::new();
    for one in reports.iter().flat_map(|(_, values)| values) {
        if !quantities.iter().any(|known| is_same(known, one)) {
            quantities.push(one);
        }
    }
    let place = |one: &One| hpt_document::words::REPORT_PARTS.iter().position(|(part, _)| *part == one.part);
    // A stable sort: quantities of which only later reports have values come last in their part.
    quantities.sort_by_key(|one| place(one));
    quantities.iter().flat_map(|quantity| of_quantity(quantity, reports)).collect()
}

fn of_quantity(quantity: &One, reports: &[(&str, Vec<One>)]) -> Vec<ComparedFigureRow> {
    let found: Vec<Option<&One>> =
        reports.iter().map(|(_, values)| values.iter().find(|one| is_same(one, quantity))).collect();
    let first = found.first().copied().flatten();
    let outliers = if quantity.unit == "ppm" {
        vec![false; found.len()]
    } else {
        outliers(&found.iter().map(|one| one.map(|one| one.value)).collect::<Vec<_>>())
    };
    let row = |(at, one): (usize, &Option<&One>)| ComparedFigureRow {
        part: quantity.part.to_owned(),
        quantity: quantity.what.clone(),
        unit: quantity.unit.clone(),
        report: reports[at].0.to_owned(),
        value: one.map(|one| one.value),
        low: one.and_then(|one| one.range).map(|range| range.0),
        high: one.and_then(|one| one.range).map(|range| range.1),
        max: one.and_then(|one| one.max),
        samples: one.map(|one| one.samples),
        ratio: ratio(first, *one),
        resolution: if at == 0 { None } else { resolution(first, *one) },
        verdict: if at == 0 && one.is_some() { CompareVerdict::Reference } else { verdict(first, *one) },
        outlier: outliers[at],
    };
    found.iter().enumerate().map(row).collect()
}

fn ratio(first: Option<&One>, one: Option<&One>) -> Option<f64> {
    let (first, one) = first.zip(one).filter(|(first, one)| one.unit != "ppm" && first.value > 0.0)?;
    let ratio = one.value / first.value;
    // A small ratio keeps three significant digits.
    let scale = if ratio > 0.0 && ratio < 0.1 { 10_f64.powf(-ratio.log10().floor() - 1.0) } else { 1.0 };
    Some(rounded(ratio * scale) / scale)
}

/// Returns the ratio to the first value from which on a value with an interval of the same relative width would differ.
fn resolution(first: Option<&One>, one: Option<&One>) -> Option<f64> {
    let (first, one) = first.zip(one).filter(|(first, one)| one.unit != "ppm" && first.value > 0.0)?;
    let ((_, high), (low, _)) = first.range.zip(one.range)?;
    (low > 0.0).then(|| rounded((high / first.value).max(1.0) * (one.value / low).max(1.0)))
}

/// Compares a value with that of the first report. They differ if their intervals do not overlap.
fn verdict(first: Option<&One>, one: Option<&One>) -> CompareVerdict {
    match (first, one) {
        (Some(first), Some(one)) if !is_alike(first, one) => CompareVerdict::DifferentNominalRates,
        (Some(first), Some(one)) => match (first.range, one.range) {
            (Some(first), Some(one)) if first.1 < one.0 || one.1 < first.0 => CompareVerdict::Differs,
            (Some(_), Some(_)) => CompareVerdict::NotShown,
            _ => CompareVerdict::NoInterval,
        },
        (_, None) => CompareVerdict::Missing,
        (None, Some(_)) => CompareVerdict::NoReference,
    }
}

/// Returns which values are outliers on a logarithmic scale, by their distance from the median. Values that are not
/// positive are not considered.
pub(super) fn outliers(values: &[Option<f64>]) -> Vec<bool> {
    let logs: Vec<Option<f64>> =
        values.iter().map(|value| value.filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln)).collect();
    let known: Vec<f64> = logs.iter().flatten().copied().collect();
    if known.len() < FEWEST {
        return vec![false; values.len()];
    }
    let middle = median(known.clone());
    let usual = median(known.iter().map(|log| (log - middle).abs()).collect()) * ROBUST;
    let is_far = |log: f64| {
        let distance = (log - middle).abs();
        distance > FAR * usual && distance > LEAST_RATIO.ln()
    };
    logs.into_iter().map(|log| log.is_some_and(is_far)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

#[cfg(test)]
mod tests {
    use hpt_document::report_compare::{CompareVerdict, ComparedFigureRow};

    use super::{
        super::values::{One, numbered},
        outliers, rows,
    };

    fn one(what: &str, value: f64, range: Option<(f64, f64)>) -> One {
        let (what, unit) = (what.to_owned(), "ns".to_owned());
        One { part: "bench", what, unit, value, range, max: None, samples: 9, against: None, earlier: 0 }
    }

    /// Returns the rows of the second of two reports.
    fn second(first: &[One], second: &[One]) -> Vec<ComparedFigureRow> {
        let mut rows = rows(&[("A", first.to_vec()), ("B", second.to_vec())]);
        rows.retain(|row| row.report == "B");
        rows
    }

    #[test]
    fn rates_are_compared_only_with_the_same_nominal_rate() {
        let rate = |by: &str, hz, ppm: f64| One {
            against: Some((by.to_owned(), hz)),
            ..one("rate", ppm, Some((ppm - 0.1, ppm + 0.1)))
        };
        let kernel = rate("kernel", 2.4e9, 0.0);
        for (other, verdict) in [
            (rate("kernel", 2.2e9, 5.0), CompareVerdict::Differs),
            (rate("kernel", 2.4e9, 0.1), CompareVerdict::NotShown),
            (rate("cpuid", 2.4e9, 5.0), CompareVerdict::DifferentNominalRates),
            (One { against: None, ..kernel.clone() }, CompareVerdict::DifferentNominalRates),
        ] {
            assert_eq!(second(std::slice::from_ref(&kernel), &[other])[0].verdict, verdict);
        }
    }

    #[test]
    fn figures_of_one_name_are_compared_in_their_order() {
        let figures = numbered(vec![
            one("monotonic (syscall)", 470.0, Some((470.0, 594.0))),
            one("monotonic (syscall)", 408.0, Some((408.0, 453.0))),
            one("monotonic (syscall)", 300.0, Some((300.0, 310.0))),
        ]);
        let rows = second(&figures, &figures[..2]);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.ratio, row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                (Some(1.0), CompareVerdict::NotShown),
                (Some(1.0), CompareVerdict::NotShown),
                (None, CompareVerdict::Missing)
            ]
        );
    }

    #[test]
    fn only_figures_without_overlap_are_marked_as_different() {
        let first = [
            one("apart", 10.0, Some((10.0, 12.0))),
            one("below", 30.0, Some((30.0, 40.0))),
            one("touching", 10.0, Some((10.0, 12.0))),
            one("wide", 10.0, Some((10.0, 900.0))),
            one("unjudged", 10.0, None),
            one("gone", 1.0, None),
        ];
        let other = [
            one("apart", 13.0, Some((13.0, 14.0))),
            one("below", 5.0, Some((5.0, 29.0))),
            one("touching", 12.0, Some((12.0, 14.0))),
            one("wide", 500.0, Some((500.0, 600.0))),
            one("unjudged", 20.0, Some((20.0, 21.0))),
            one("new", 1.0, None),
        ];
        let rows = second(&first, &other);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.quantity.as_str(), row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("apart", CompareVerdict::Differs),
                ("below", CompareVerdict::Differs),
                ("touching", CompareVerdict::NotShown),
                ("wide", CompareVerdict::NotShown),
                ("unjudged", CompareVerdict::NoInterval),
                ("gone", CompareVerdict::Missing),
                ("new", CompareVerdict::NoReference)
            ]
        );
        assert_eq!((rows[0].ratio, rows[5].ratio), (Some(1.3), None));
        let far = second(&[one("far", 3e6, None)], &[one("far", 1e3, None)]);
        assert!(far[0].ratio.is_some_and(|ratio| (ratio - 0.000_333).abs() < 1e-9), "{:?}", far[0].ratio);
    }

    #[test]
    fn quantities_of_one_part_are_adjacent_even_if_only_a_later_report_has_them() {
        let sleep = |what: &str| One { part: "sleep", ..one(what, 1.0, None) };
        let watch = One { part: "watch", ..one("drift", 1.0, None) };
        let first = ("A", vec![sleep("1 ms, std"), watch.clone()]);
        let later = ("B", vec![sleep("1 ms, std"), sleep("1 ms, busy"), watch]);
        let rows = rows(&[first, later]);
        let mut parts: Vec<_> = rows.iter().map(|row| row.part.as_str()).collect();
        assert_eq!(rows.len(), 6);
        parts.dedup();
        assert_eq!(parts, ["sleep", "watch"]);
        // The rows of a quantity are in the order of the reports.
        assert!(rows.chunks(2).all(|pair| pair[0].quantity == pair[1].quantity && pair[0].report == "A"), "{rows:?}");
    }

    #[test]
    fn an_outlier_is_far_from_the_median_of_at_least_three_values() {
        let of = |values: &[f64]| outliers(&values.iter().copied().map(Some).collect::<Vec<_>>());
        assert_eq!(of(&[1.0, 100.0]), [false, false]);
        assert_eq!(of(&[10.0, 11.0, 100.0]), [false, false, true]);
        assert_eq!(of(&[10.0, 11.0, 12.0, 9.0, 0.5]), [false, false, false, false, true]);
        // Similar values have no outliers, and neither have values that are all far apart.
        assert_eq!(of(&[10.0, 10.0, 10.0, 14.0]), [false; 4]);
        assert_eq!(of(&[1.0, 10.0, 100.0, 1_000.0]), [false; 4]);
        assert_eq!(outliers(&[None, Some(1.0), Some(f64::NAN), Some(-1.0)]), [false; 4]);
    }
}
