//! The rows of a comparison: the values of each quantity, with a verdict on each and a mark for outliers.

use hpt_document::compare::{CompareMethod, CompareVerdict, ComparedFigureRow};

use super::values::{CONFIDENCE, One, Range, ValueKind, is_alike, is_same};
use crate::{
    output::rounded,
    statistics::{
        difference::{Difference, wider},
        few::median,
        runs::interval_of_mean,
    },
};

/// The probability with which at least one of all verdicts says "differs" although nothing differs.
pub(super) const ERROR: f64 = 0.05;
/// The largest share by which the numbers of samples of two runs differ whose maxima are compared.
const SAME_LENGTH: f64 = 0.05;
/// The minimum number of sides in which a value can be an outlier.
const FEWEST: usize = 3;
/// The distance from the median, in robust standard deviations, from which a value is an outlier (Iglewicz and Hoaglin).
const FAR: f64 = 3.5;
/// The robust standard deviation as a multiple of the median distance.
const ROBUST: f64 = 1.4826;
/// The minimum ratio of an outlier to the median.
const LEAST_RATIO: f64 = 1.5;
/// The relative standard deviation of a value that is rounded to three digits.
const OF_THREE_DIGITS: f64 = 0.003;

/// The values of one side: those of each of its runs.
#[derive(Clone, Debug)]
pub(super) struct Values<'a> {
    pub(super) name: &'a str,
    pub(super) runs: Vec<Vec<One>>,
}

/// The values of one quantity on one side, of each run that contains the quantity.
#[derive(Clone, Debug)]
struct RowValues<'a> {
    runs: Vec<&'a One>,
    is_complete: bool,
}

impl<'a> RowValues<'a> {
    fn of(quantity: &One, side: &'a Values<'_>) -> Self {
        let runs: Vec<&One> =
            side.runs.iter().filter_map(|run| run.iter().find(|one| is_same(one, quantity))).collect();
        let is_complete = !runs.is_empty() && runs.len() == side.runs.len();
        Self { runs, is_complete }
    }

    /// Returns the values of all runs, or `None` if a run has too few samples for it.
    fn values(&self) -> Option<Vec<f64>> {
        self.runs.iter().map(|one| one.value).collect::<Option<Vec<f64>>>().filter(|_| self.is_complete)
    }
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    Ratios,
    Differences,
}

impl Scale {
    fn of(values: &[f64], unit: &str) -> Self {
        let is_positive = values.iter().all(|value| *value > 0.0);
        if is_positive && unit != "ppm" { Self::Ratios } else { Self::Differences }
    }

    fn to(self, value: f64) -> f64 {
        match self {
            Self::Ratios => value.ln(),
            Self::Differences => value,
        }
    }

    fn from(self, value: f64) -> f64 {
        match self {
            Self::Ratios => value.exp(),
            Self::Differences => value,
        }
    }

    /// Returns the smallest standard deviation of a value, because of the steps of its instrument.
    fn least(self, one: &One, value: f64) -> f64 {
        // The standard deviation of a value that is rounded to a multiple of the step.
        let of_step = one.step / 12.0_f64.sqrt();
        match self {
            Self::Ratios => OF_THREE_DIGITS.max(of_step / value),
            Self::Differences => (OF_THREE_DIGITS * value.abs()).max(of_step),
        }
    }
}

/// Returns the rows of all quantities. The rows of one quantity are adjacent, and the quantities of one part too.
pub(super) fn rows(sides: &[Values<'_>], method: CompareMethod) -> Vec<ComparedFigureRow> {
    let mut quantities: Vec<&One> = Vec::new();
    // Runs are blocks themselves.
    let is_used = |one: &&One| method == CompareMethod::WithinRuns || one.kind != ValueKind::MaximaOfBlocks;
    for one in sides.iter().flat_map(|side| &side.runs).flatten().filter(is_used) {
        if !quantities.iter().any(|known| is_same(known, one)) {
            quantities.push(one);
        }
    }
    let place = |one: &One| {
        let parts = hpt_document::words::REPORT_PARTS;
        parts.iter().position(|(part, _)| *part == one.part).unwrap_or(parts.len())
    };
    // A stable sort: quantities of which only later sides have values come last in their part.
    quantities.sort_by_key(|one| place(one));
    let found: Vec<Vec<RowValues<'_>>> =
        quantities.iter().map(|quantity| sides.iter().map(|side| RowValues::of(quantity, side)).collect()).collect();
    let is_judged = |(first, other): (&RowValues<'_>, &RowValues<'_>)| refusal(first, other, method).is_none();
    let pairs = found.iter().flat_map(|sides| sides[1..].iter().map(|other| (&sides[0], other)));
    let comparisons = pairs.filter(|pair| is_judged(*pair)).count().max(1);
    #[expect(clippy::cast_precision_loss, reason = "there are few comparisons")]
    let error = ERROR / comparisons as f64;
    let names: Vec<&str> = sides.iter().map(|side| side.name).collect();
    quantities
        .iter()
        .zip(&found)
        .flat_map(|(quantity, found)| of_quantity(quantity, (&names, found), method, error))
        .collect()
}

fn of_quantity(
    quantity: &One,
    (names, sides): (&[&str], &[RowValues<'_>]),
    method: CompareMethod,
    error: f64,
) -> Vec<ComparedFigureRow> {
    let middles: Vec<Option<f64>> = sides.iter().map(middle).collect();
    let outliers = if quantity.unit == "ppm" { vec![false; sides.len()] } else { outliers(&middles) };
    let row = |(at, side): (usize, &RowValues<'_>)| {
        let refused = (at > 0).then(|| refusal(&sides[0], side, method)).flatten();
        let judged = (at > 0 && refused.is_none()).then(|| difference(&sides[0], side, method, error)).flatten();
        let verdict = match (&judged, refused) {
            _ if at == 0 && !side.runs.is_empty() => CompareVerdict::Reference,
            _ if at == 0 => CompareVerdict::Missing,
            (Some((_, found)), _) if found.is_shown() => CompareVerdict::Differs,
            (Some(_), _) => CompareVerdict::NotShown,
            (None, refused) => refused.unwrap_or(CompareVerdict::TooFew),
        };
        let ratios = judged.as_ref().filter(|(scale, _)| matches!(scale, Scale::Ratios)).map(|(_, found)| found);
        let ends = ends(side, method);
        ComparedFigureRow {
            part: quantity.part.to_owned(),
            quantity: quantity.what.clone(),
            unit: quantity.unit.clone(),
            side: names[at].to_owned(),
            value: middles[at],
            runs: side.runs.iter().filter_map(|one| one.value).collect(),
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
            max: side.runs.iter().filter_map(|one| one.max).reduce(f64::max),
            samples: (!side.runs.is_empty()).then(|| side.runs.iter().map(|one| one.samples).sum()),
            ratio: middles[0].zip(middles[at]).and_then(|(first, one)| ratio(&quantity.unit, first, one)),
            ratio_low: ratios.map(|found| rounded(found.low.exp())),
            ratio_high: ratios.map(|found| rounded(found.high.exp())),
            resolution: ratios.map(|found| rounded(found.resolution().exp())),
            verdict,
            outlier: outliers[at],
        }
    };
    sides.iter().enumerate().map(row).collect()
}

/// Returns the value of one run, or the mean of several.
fn middle(side: &RowValues<'_>) -> Option<f64> {
    let values = side.values()?;
    if let [one] = values.as_slice() {
        return Some(*one);
    }
    let scale = Scale::of(&values, &side.runs[0].unit);
    #[expect(clippy::cast_precision_loss, reason = "there are few runs")]
    let mean = values.iter().map(|value| scale.to(*value)).sum::<f64>() / values.len() as f64;
    Some(rounded(scale.from(mean)))
}

/// Returns the ends of the interval of the value of one side.
fn ends(side: &RowValues<'_>, method: CompareMethod) -> Option<(f64, f64)> {
    match (method, side.runs.as_slice()) {
        (CompareMethod::WithinRuns, [one]) => match one.range {
            Range::Confidence(low, high) | Range::Bound(low, high) => Some((low, high)),
            Range::Unknown | Range::TooFew => None,
        },
        _ => {
            let values = side.values()?;
            let scale = Scale::of(&values, &side.runs[0].unit);
            let values: Vec<f64> = values.iter().map(|value| scale.to(*value)).collect();
            interval_of_mean(&values).map(|(low, high)| (rounded(scale.from(low)), rounded(scale.from(high))))
        }
    }
}

fn ratio(unit: &str, first: f64, one: f64) -> Option<f64> {
    if unit == "ppm" || first <= 0.0 {
        return None;
    }
    let ratio = one / first;
    // A small ratio keeps three significant digits.
    let scale = if ratio > 0.0 && ratio < 0.1 { 10_f64.powf(-ratio.log10().floor() - 1.0) } else { 1.0 };
    Some(rounded(ratio * scale) / scale)
}

/// Returns the reason why the values of two sides cannot be compared.
fn refusal(first: &RowValues<'_>, other: &RowValues<'_>, method: CompareMethod) -> Option<CompareVerdict> {
    let all = || first.runs.iter().chain(&other.runs);
    if other.runs.is_empty() {
        return Some(CompareVerdict::Missing);
    }
    let Some(reference) = first.runs.first() else { return Some(CompareVerdict::NoReference) };
    if !all().all(|one| is_alike(reference, one)) {
        return Some(CompareVerdict::DifferentNominalRates);
    }
    if first.values().is_none() || other.values().is_none() {
        return Some(CompareVerdict::TooFew);
    }
    match method {
        CompareMethod::WithinRuns if all().any(|one| one.range == Range::Unknown) => Some(CompareVerdict::NotJudged),
        CompareMethod::WithinRuns if all().any(|one| one.range == Range::TooFew) => Some(CompareVerdict::TooFew),
        CompareMethod::BetweenRuns if reference.kind == ValueKind::Maximum => {
            let counts = || all().map(|one| one.samples);
            #[expect(clippy::cast_precision_loss, reason = "for comparing")]
            let ratio = counts().min().unwrap_or(0) as f64 / counts().max().unwrap_or(0).max(1) as f64;
            (ratio < 1.0 - SAME_LENGTH).then_some(CompareVerdict::DifferentLengths)
        }
        CompareMethod::WithinRuns | CompareMethod::BetweenRuns => None,
    }
}

/// Returns the difference between two sides, and the scale on which it was computed.
fn difference(
    first: &RowValues<'_>,
    other: &RowValues<'_>,
    method: CompareMethod,
    error: f64,
) -> Option<(Scale, Difference)> {
    let (from, to) = (first.values()?, other.values()?);
    let one = first.runs.first()?;
    let mut all = [from.as_slice(), &to].concat();
    if method == CompareMethod::BetweenRuns {
        let scale = Scale::of(&all, &one.unit);
        let scaled = |values: &[f64]| values.iter().map(|value| scale.to(*value)).collect::<Vec<_>>();
        let runs = first.runs.iter().chain(&other.runs);
        let least = runs.zip(&all).map(|(one, value)| scale.least(one, *value)).fold(0.0, f64::max);
        return Some((scale, Difference::of_runs(&scaled(&from), &scaled(&to), error, least)?));
    }
    let ends = |one: &One| match one.range {
        Range::Confidence(low, high) => Some(((low, high), false)),
        Range::Bound(low, high) => Some(((low, high), true)),
        Range::Unknown | Range::TooFew => None,
    };
    let (((from_low, from_high), is_bound), ((to_low, to_high), _)) = (ends(one)?, ends(other.runs.first()?)?);
    all.extend([from_low, to_low]);
    let scale = Scale::of(&all, &one.unit);
    let interval = |value: f64, low: f64, high: f64| (scale.to(value), (scale.to(low), scale.to(high)));
    let (from, to) = (interval(from[0], from_low, from_high), interval(to[0], to_low, to_high));
    let found = if is_bound {
        Difference::of_bounds(from, to)
    } else {
        Difference::of_intervals(from, to, wider(CONFIDENCE, error))
    };
    Some((scale, found))
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
    let middle = median(&known).unwrap_or(0.0);
    let distances: Vec<f64> = known.iter().map(|log| (log - middle).abs()).collect();
    let usual = median(&distances).unwrap_or(0.0) * ROBUST;
    let is_far = |log: f64| {
        let distance = (log - middle).abs();
        distance > FAR * usual && distance > LEAST_RATIO.ln()
    };
    logs.into_iter().map(|log| log.is_some_and(is_far)).collect()
}

#[cfg(test)]
mod tests {
    use hpt_document::compare::{CompareMethod, CompareVerdict, ComparedFigureRow};

    use super::{
        super::values::{One, Range, ValueKind, numbered},
        Values, outliers, rows,
    };

    fn one(what: &str, value: f64, range: Option<(f64, f64)>) -> One {
        One {
            part: "bench",
            what: what.to_owned(),
            unit: "ns".to_owned(),
            value: Some(value),
            range: range.map_or(Range::Unknown, |(low, high)| Range::Confidence(low, high)),
            kind: ValueKind::Figure,
            max: None,
            samples: 9,
            step: 0.0,
            against: None,
            earlier: 0,
        }
    }

    /// Returns the rows of the second of two sides with one run each.
    fn second(first: &[One], second: &[One]) -> Vec<ComparedFigureRow> {
        let side = |name, run: &[One]| Values { name, runs: vec![run.to_vec()] };
        let mut rows = rows(&[side("A", first), side("B", second)], CompareMethod::WithinRuns);
        rows.retain(|row| row.side == "B");
        rows
    }

    /// Returns the row of the second of two sides, with a run for each value.
    fn of_runs(first: &[f64], second: &[f64], change: &dyn Fn(&mut One)) -> ComparedFigureRow {
        let run = |value: &f64| {
            let mut run = one("wake", *value, None);
            change(&mut run);
            vec![run]
        };
        let side = |name, values: &[f64]| Values { name, runs: values.iter().map(run).collect() };
        rows(&[side("A", first), side("B", second)], CompareMethod::BetweenRuns).remove(1)
    }

    #[test]
    fn rates_are_compared_only_with_the_same_nominal_rate() {
        let rate = |by: &str, hz, ppm: f64| One {
            against: Some((by.to_owned(), hz)),
            unit: "ppm".to_owned(),
            range: Range::Bound(ppm - 0.1, ppm + 0.1),
            ..one("rate", ppm, None)
        };
        let kernel = rate("kernel", 2.4e9, 0.0);
        for (other, verdict) in [
            (rate("kernel", 2.2e9, 5.0), CompareVerdict::Differs),
            (rate("kernel", 2.4e9, 0.19), CompareVerdict::NotShown),
            (rate("kernel", 2.4e9, 0.21), CompareVerdict::Differs),
            (rate("cpuid", 2.4e9, 5.0), CompareVerdict::DifferentNominalRates),
            (One { against: None, ..kernel.clone() }, CompareVerdict::DifferentNominalRates),
        ] {
            let row = second(std::slice::from_ref(&kernel), &[other]).remove(0);
            assert_eq!((row.verdict, row.ratio), (verdict, None));
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
    fn figures_differ_if_the_interval_of_their_ratio_excludes_one() {
        let first = [
            one("apart", 10.0, Some((10.0, 12.0))),
            one("below", 30.0, Some((30.0, 40.0))),
            one("touching", 10.0, Some((9.0, 12.0))),
            one("wide", 100.0, Some((10.0, 900.0))),
            one("unjudged", 10.0, None),
            one("gone", 1.0, None),
            One { range: Range::TooFew, ..one("rare", 1.0, None) },
            One { value: None, ..one("rarer", 1.0, None) },
        ];
        let other = [
            one("apart", 13.0, Some((13.0, 14.0))),
            one("below", 5.0, Some((5.0, 29.0))),
            one("touching", 11.0, Some((10.5, 14.0))),
            one("wide", 500.0, Some((450.0, 600.0))),
            one("unjudged", 20.0, Some((20.0, 21.0))),
            one("rare", 20.0, Some((20.0, 21.0))),
            one("rarer", 20.0, Some((20.0, 21.0))),
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
                ("unjudged", CompareVerdict::NotJudged),
                ("gone", CompareVerdict::Missing),
                ("rare", CompareVerdict::TooFew),
                ("rarer", CompareVerdict::TooFew),
                ("new", CompareVerdict::NoReference)
            ]
        );
        assert_eq!((rows[0].ratio, rows[5].ratio), (Some(1.3), None));
        assert!(rows[0].ratio_low.is_some_and(|low| low > 1.0) && rows[2].resolution.is_some_and(|least| least > 1.1));
        let far = second(&[one("far", 3e6, None)], &[one("far", 1e3, None)]);
        assert!(far[0].ratio.is_some_and(|ratio| (ratio - 0.000_333).abs() < 1e-9), "{:?}", far[0].ratio);
    }

    #[test]
    fn each_of_several_runs_is_one_observation() {
        use CompareVerdict::{DifferentLengths, Differs, NotShown, TooFew};
        let same = |_: &mut One| {};
        let row = of_runs(&[10.0, 10.5, 9.5], &[12.0, 12.5, 11.6], &same);
        assert_eq!((row.verdict, row.ratio, row.runs.len()), (Differs, Some(1.204), 3), "{row:?}");
        assert!(row.ratio_low.is_some_and(|low| low > 1.0) && row.low.is_some_and(|low| low < 11.6), "{row:?}");
        // The same means with a larger spread between runs: no difference is shown, and what would be.
        let row = of_runs(&[10.0, 13.0, 7.5], &[12.0, 15.0, 9.0], &same);
        assert!(row.verdict == NotShown && row.resolution.is_some_and(|least| least > 1.3), "{row:?}");
        // Equal values of an instrument with steps of 5 ns are no proof.
        let coarse = |one: &mut One| one.step = 5.0;
        assert_eq!(of_runs(&[10.0; 3], &[12.0; 3], &coarse).verdict, NotShown);
        let maximum = |one: &mut One| {
            (one.kind, one.samples) = (ValueKind::Maximum, if one.value == Some(12.0) { 94 } else { 100 });
        };
        assert_eq!(of_runs(&[10.0, 10.1, 10.2], &[12.0, 12.1, 12.2], &maximum).verdict, DifferentLengths);
        assert_eq!(of_runs(&[10.0, 10.1, 10.2], &[12.3, 12.1, 12.2], &maximum).verdict, Differs);
        let rare = |one: &mut One| one.value = one.value.filter(|value| *value < 12.2);
        assert_eq!(of_runs(&[10.0, 10.1, 10.2], &[12.3, 12.1, 12.2], &rare).verdict, TooFew);
    }

    #[test]
    fn many_figures_together_need_stronger_evidence() {
        let run = |value: f64, others: usize| {
            let noise = |at| One { earlier: at, ..one("noise", 5.0, None) };
            [vec![one("wake", value, None)], (0..others).map(noise).collect()].concat()
        };
        let verdict = |others| {
            let side = |name, values: [f64; 3]| Values { name, runs: values.map(|value| run(value, others)).into() };
            let sides = [side("A", [10.0, 10.5, 9.5]), side("B", [12.0, 12.5, 11.6])];
            rows(&sides, CompareMethod::BetweenRuns)[1].verdict
        };
        assert_eq!((verdict(0), verdict(100)), (CompareVerdict::Differs, CompareVerdict::NotShown));
    }

    #[test]
    fn quantities_of_one_part_are_adjacent_even_if_only_a_later_side_has_them() {
        let sleep = |what: &str| One { part: "sleep", ..one(what, 1.0, None) };
        let watch = One { part: "watch", ..one("drift", 1.0, None) };
        let first = Values { name: "A", runs: vec![vec![sleep("1 ms, std"), watch.clone()]] };
        let later = Values { name: "B", runs: vec![vec![sleep("1 ms, std"), sleep("1 ms, busy"), watch]] };
        let rows = rows(&[first, later], CompareMethod::WithinRuns);
        let mut parts: Vec<_> = rows.iter().map(|row| row.part.as_str()).collect();
        assert_eq!(rows.len(), 6);
        parts.dedup();
        assert_eq!(parts, ["sleep", "watch"]);
        // The rows of a quantity are in the order of the sides.
        assert!(rows.chunks(2).all(|pair| pair[0].quantity == pair[1].quantity && pair[0].side == "A"), "{rows:?}");
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
