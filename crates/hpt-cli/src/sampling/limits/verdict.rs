//! Compares the rows of a result with limits: held, exceeded, or unknown.

use hpt_core::stats::Histogram;
use hpt_document::limit::LimitRow;
use hpt_instrument::measure::Latencies;

use super::quantity::{Limit, Most, Quantile, Quantity};
use crate::output::{Answer, one_or_many, rounded, short_time};

/// The legend of a maximum. How often later samples exceed it is unknown: late samples come in bursts, so their number
/// is not the number of independent observations.
pub(crate) const MAX_LEGEND: &str = "max: the highest value of this run; a later run can exceed it";

const NO_SAMPLES: &str = "there are no samples";

/// The value of a quantity in one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Nanos(f64),
    Count(u64),
    /// Nothing was seen above this time in nanoseconds. The text says why, and what would tell more.
    AtMost(f64, String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Above {
    Exactly(u64),
    AtLeast(u64),
}

impl Above {
    const fn least(self) -> u64 {
        match self {
            Self::Exactly(count) | Self::AtLeast(count) => count,
        }
    }
}

/// A row that limits apply to. `seen` returns the value of a quantity, or why there is none. `above` returns the number
/// of samples above a time in nanoseconds. `each` is the singular and the plural of a sample.
pub(crate) struct LimitedRow<'a> {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) each: [&'static str; 2],
    pub(crate) seen: Box<dyn Fn(Quantity) -> Result<Seen, String> + 'a>,
    pub(crate) above: Box<dyn Fn(u64) -> Above + 'a>,
}

const SAMPLES: [&str; 2] = ["sample", "samples"];

impl<'a> LimitedRow<'a> {
    /// Returns the row of a latency distribution.
    pub(crate) fn of_latencies(name: String, latencies: &'a Latencies) -> Self {
        let counts = latencies.histogram();
        let seen = move |quantity| {
            #[expect(clippy::cast_precision_loss, reason = "for comparing")]
            let nanos = |ns: Option<u64>| ns.map(|ns| Seen::Nanos(ns as f64));
            let seen = match quantity {
                Quantity::Quantile(quantile) => nanos(counts.quantile(quantile.part())),
                Quantity::Mean => latencies.mean_ns().map(|ns| Seen::Nanos(rounded(ns))),
                Quantity::Max => nanos(latencies.worst().map(|worst| worst.latency_ns)),
                Quantity::Missed => (counts.samples() > 0).then(|| Seen::Count(latencies.missed())),
                Quantity::Stalls => Some(Seen::Count(counts.samples())),
                Quantity::Read => None,
            };
            seen.ok_or_else(|| NO_SAMPLES.to_owned())
        };
        let above = |limit_ns| above(counts, limit_ns);
        Self { name, samples: counts.samples(), each: SAMPLES, seen: Box::new(seen), above: Box::new(above) }
    }

    /// Returns a row of times in nanoseconds. `nanos` returns the value of a quantity; `missing` says why one may be
    /// missing.
    pub(crate) fn of_times(
        name: String,
        samples: u64,
        missing: &'a str,
        nanos: impl Fn(Quantity) -> Option<f64> + Clone + 'a,
    ) -> Self {
        let of_quantiles = nanos.clone();
        let seen = move |quantity| {
            let missing = if samples == 0 { NO_SAMPLES } else { missing };
            nanos(quantity).map(Seen::Nanos).ok_or_else(|| missing.to_owned())
        };
        let above = move |limit_ns| above_by_quantiles(samples, limit_ns, &of_quantiles);
        Self { name, samples, each: SAMPLES, seen: Box::new(seen), above: Box::new(above) }
    }
}

/// Returns the number of samples of a histogram above a limit in its ticks.
pub(crate) fn above(counts: &Histogram, limit: u64) -> Above {
    let range = counts.samples_above(limit);
    if range.start() == range.end() { Above::Exactly(*range.start()) } else { Above::AtLeast(*range.start()) }
}

/// Returns what the maximum and the usual quantiles say about the number of samples above a limit.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the samples"
)]
fn above_by_quantiles(samples: u64, limit_ns: u64, nanos: &dyn Fn(Quantity) -> Option<f64>) -> Above {
    let is_above = |quantity| nanos(quantity).is_some_and(|ns| ns > limit_ns as f64);
    if !is_above(Quantity::Max) {
        return Above::Exactly(0);
    }
    let lowest = Quantile::usual().find(|&quantile| is_above(Quantity::Quantile(quantile)));
    let share = lowest.map_or(0.0, |quantile| 1.0 - quantile.part());
    match (samples as f64 * share).floor() as u64 {
        _ if samples == 1 => Above::Exactly(1),
        least => Above::AtLeast(least.max(1)),
    }
}

struct Verdict {
    seen: Option<Seen>,
    above: Option<Above>,
    held: Option<bool>,
    reason: Option<String>,
}

impl Verdict {
    fn unknown(reason: String) -> Self {
        Self { seen: None, above: None, held: None, reason: Some(reason) }
    }

    /// Orders the verdicts: the worst one is the greatest.
    #[expect(clippy::cast_precision_loss, reason = "for ordering")]
    fn badness(&self) -> (u8, f64) {
        let value = match self.seen {
            Some(Seen::Nanos(ns) | Seen::AtMost(ns, _)) => ns,
            Some(Seen::Count(count)) => count as f64,
            None => 0.0,
        };
        (rank(self.held), value)
    }
}

/// Compares the rows with each limit. Returns the verdict on the worst row for each limit.
pub(crate) fn verdicts(limits: &[Limit], rows: &[LimitedRow<'_>]) -> Vec<LimitRow> {
    limits.iter().map(|limit| of_all(limit, rows)).collect()
}

fn of_all(limit: &Limit, rows: &[LimitedRow<'_>]) -> LimitRow {
    let order = |one: &Verdict, other: &Verdict| {
        let ((rank, value), (other_rank, other_value)) = (one.badness(), other.badness());
        rank.cmp(&other_rank).then(value.total_cmp(&other_value))
    };
    let judged = rows.iter().map(|row| (Some(row), of_row(limit, row)));
    let worst = judged.max_by(|(_, one), (_, other)| order(one, other));
    let (row, verdict) = worst.unwrap_or_else(|| (None, Verdict::unknown(NO_SAMPLES.to_owned())));
    let (limit_ns, limit_count) = match limit.most {
        Most::Nanos(ns) => (Some(ns), None),
        Most::Count(count) => (None, Some(count)),
    };
    let (seen_ns, seen_count) = match verdict.seen {
        Some(Seen::Nanos(ns)) => (Some(ns), None),
        Some(Seen::Count(count)) => (None, Some(count)),
        Some(Seen::AtMost(..)) | None => (None, None),
    };
    LimitRow {
        text: limit.text.clone(),
        quantity: limit.quantity.name(),
        limit_ns,
        limit_count,
        seen_ns,
        seen_count,
        worst_row: row.map(|row| row.name.clone()),
        samples: row.map_or(0, |row| row.samples),
        above: verdict.above.map(Above::least),
        rows: rows.len() as u64,
        held: verdict.held,
        reason: verdict.reason,
    }
}

/// Combines the verdicts on the same limits in an idle and a loaded phase: the worse one counts.
pub(crate) fn of_both_phases(idle: Vec<LimitRow>, loaded: Vec<LimitRow>) -> Vec<LimitRow> {
    let worse = |(idle, mut loaded): (LimitRow, LimitRow)| {
        let rows = idle.rows + loaded.rows;
        loaded.worst_row = loaded.worst_row.map(|name| format!("{name}, under load"));
        let worse = if badness_of(&loaded) >= badness_of(&idle) { loaded } else { idle };
        LimitRow { rows, ..worse }
    };
    idle.into_iter().zip(loaded).map(worse).collect()
}

/// Orders verdicts: the worst one is the greatest.
#[expect(clippy::cast_precision_loss, reason = "for ordering")]
fn badness_of(limit: &LimitRow) -> (u8, f64) {
    (rank(limit.held), limit.seen_ns.or(limit.seen_count.map(|count| count as f64)).unwrap_or(0.0))
}

/// Returns 0 for a limit that held, 1 if that is unknown, and 2 if it was exceeded.
const fn rank(held: Option<bool>) -> u8 {
    match held {
        Some(true) => 0,
        None => 1,
        Some(false) => 2,
    }
}

fn of_row(limit: &Limit, row: &LimitedRow<'_>) -> Verdict {
    match limit.quantity {
        Quantity::Quantile(quantile) if (1..quantile.least_samples()).contains(&row.samples) => {
            return with_too_few_samples(limit, quantile, row);
        }
        _ => {}
    }
    let seen = match (row.seen)(limit.quantity) {
        Ok(seen) => seen,
        Err(reason) => return Verdict::unknown(reason),
    };
    let is_within = is_within(&seen, limit.most);
    if let Seen::AtMost(_, why) = &seen {
        let (held, reason) = (is_within.then_some(true), Some(why.clone()));
        return Verdict { seen: Some(seen), above: None, held, reason };
    }
    let above = above_in(limit, row);
    let reason = above.map(|above| in_words(above, row));
    Verdict { seen: Some(seen), above, held: Some(is_within), reason }
}

/// Returns the number of samples above a limit on a quantile or on the maximum.
fn above_in(limit: &Limit, row: &LimitedRow<'_>) -> Option<Above> {
    match (limit.quantity, limit.most) {
        (Quantity::Quantile(_) | Quantity::Max, Most::Nanos(limit_ns)) => Some((row.above)(limit_ns)),
        _ => None,
    }
}

/// States how many samples exceed a limit: `3 of 1453 samples exceed it, 99.793 % are within`.
fn in_words(above: Above, row: &LimitedRow<'_>) -> String {
    let [one, many] = row.each;
    let of = format!("{} {}", row.samples, one_or_many(row.samples, one, many));
    match above {
        Above::Exactly(0) => format!("none of {of} exceeds it"),
        Above::Exactly(1) => format!("1 of {of} exceeds it, {} are within", within(1, row.samples)),
        Above::Exactly(count) => format!("{count} of {of} exceed it, {} are within", within(count, row.samples)),
        Above::AtLeast(count) => {
            format!("at least {count} of {of} exceed it, at most {} are within", within(count, row.samples))
        }
    }
}

/// Returns the share of the samples that do not exceed a limit, rounded down: no sample beyond it is rounded away.
fn within(above: u64, samples: u64) -> String {
    let thousandths = u128::from(samples.saturating_sub(above)) * 100_000 / u128::from(samples.max(1));
    format!("{}.{:03} %", thousandths / 1_000, thousandths % 1_000)
}

/// Judges a quantile with too few samples beyond it. It is exceeded if a lower quantile is; otherwise, it is unknown.
fn with_too_few_samples(limit: &Limit, quantile: Quantile, row: &LimitedRow<'_>) -> Verdict {
    let name = limit.quantity.name();
    let takes = format!("{name} needs {} samples, and there are {}", quantile.least_samples(), row.samples);
    let lower = Quantile::usual().filter(|&lower| lower < quantile && lower.least_samples() <= row.samples);
    let exceeded = lower.rev().find_map(|lower| {
        let seen = (row.seen)(Quantity::Quantile(lower)).ok()?;
        (!is_within(&seen, limit.most)).then_some((lower, seen))
    });
    match exceeded {
        Some((lower, Seen::Nanos(ns))) => Verdict {
            reason: Some(format!(
                "{} is already {}; {}; {takes}",
                Quantity::Quantile(lower).name(),
                short_time(ns),
                above_in(limit, row).map(|above| in_words(above, row)).unwrap_or_default()
            )),
            above: above_in(limit, row),
            seen: Some(Seen::Nanos(ns)),
            held: Some(false),
        },
        _ => Verdict::unknown(takes),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a limit is at most an hour")]
fn is_within(seen: &Seen, most: Most) -> bool {
    match (seen, most) {
        (Seen::Nanos(ns) | Seen::AtMost(ns, _), Most::Nanos(most)) => *ns <= most as f64,
        (Seen::Count(count), Most::Count(most)) => *count <= most,
        (Seen::Nanos(_) | Seen::AtMost(..), Most::Count(_)) | (Seen::Count(_), Most::Nanos(_)) => false,
    }
}

/// Makes each limit that held unknown, because the result does not prove it.
pub(crate) fn doubt(limits: &mut [LimitRow], reason: &str) {
    for limit in limits.iter_mut().filter(|limit| limit.held == Some(true)) {
        (limit.held, limit.reason) = (None, Some(reason.to_owned()));
    }
}

/// Returns the answer to whether all limits held. Without limits, the answer is yes.
pub(crate) fn answer(limits: &[LimitRow]) -> Answer {
    let answers = limits.iter().map(|limit| match limit.held {
        Some(true) => Answer::Yes,
        Some(false) => Answer::No,
        None => Answer::Unknown,
    });
    answers.fold(Answer::Yes, Answer::and)
}

#[cfg(test)]
mod tests {
    use hpt_core::Instant;
    use hpt_instrument::measure::{Latencies, Wake};

    use super::{Above, LimitedRow, SAMPLES, Seen, answer, of_both_phases, verdicts};
    use crate::{
        output::Answer,
        sampling::limits::quantity::{Accepted, Limit, Quantity},
    };

    fn latencies(of: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::new();
        of.into_iter().for_each(|ns| latencies.record(Wake::new(Instant::EPOCH, ns)));
        latencies
    }

    fn judged(text: &str, rows: &[LimitedRow<'_>]) -> hpt_document::limit::LimitRow {
        let limit = Limit::parse(text, Accepted::LATENCY).expect(text);
        verdicts(&[limit], rows).remove(0)
    }

    #[test]
    fn the_worse_of_two_phases_counts() {
        let row = |ns: u64| judged("max=20us", &[LimitedRow::of_latencies("CPU 1".to_owned(), &latencies([ns; 20]))]);
        let of = |idle, loaded| of_both_phases(vec![row(idle)], vec![row(loaded)]).remove(0);
        let worse = of(5_000, 30_000);
        assert_eq!((worse.held, worse.seen_ns, worse.rows), (Some(false), Some(30_000.0), 2));
        assert_eq!(worse.worst_row.as_deref(), Some("CPU 1, under load"));
        let worse = of(30_000, 5_000);
        assert_eq!((worse.held, worse.worst_row.as_deref()), (Some(false), Some("CPU 1")));
        assert_eq!(of(5_000, 6_000).seen_ns, Some(6_000.0));
    }

    #[test]
    fn a_limit_is_held_exceeded_or_unknown() {
        let latencies = latencies(1..=100);
        let rows = [LimitedRow::of_latencies("CPU 1".to_owned(), &latencies)];
        for (text, held, seen_ns) in [
            ("max=100ns", Some(true), Some(100.0)),
            ("max=99ns", Some(false), Some(100.0)),
            ("mean=1us", Some(true), Some(50.5)),
            ("p50=50ns", Some(true), Some(50.0)),
            ("p90=89ns", Some(false), Some(90.0)),
            ("p99.99=1s", None, None),
            // The median already exceeds the limit.
            ("p99.99=49ns", Some(false), Some(50.0)),
        ] {
            let judged = judged(text, &rows);
            assert_eq!((judged.held, judged.seen_ns), (held, seen_ns), "{text}");
            assert_eq!((judged.samples, judged.worst_row.as_deref()), (100, Some("CPU 1")), "{text}");
        }
        let few = judged("p99.99=1s", &rows);
        assert_eq!(few.reason.as_deref(), Some("p99.99 needs 100000 samples, and there are 100"));
        let exceeded = judged("p99.99=49ns", &rows).reason;
        assert_eq!(
            exceeded.as_deref(),
            Some(
                "p50 is already 50 ns; 51 of 100 samples exceed it, 49.000 % are within; p99.99 needs 100000 samples, and there are 100"
            )
        );
        let missed = judged("missed=0", &rows);
        assert_eq!((missed.held, missed.seen_count, missed.limit_count), (Some(true), Some(0), Some(0)));
    }

    #[test]
    fn the_worst_row_decides() {
        let (fast, slow, none) = (latencies([10; 1_000]), latencies([20; 1_000]), latencies([]));
        let row = |name: &str, of| LimitedRow::of_latencies(name.to_owned(), of);
        let worst = |text: &str, rows: &[LimitedRow<'_>]| {
            let judged = judged(text, rows);
            (judged.held, judged.worst_row.unwrap_or_default())
        };
        let both = [row("slow", &slow), row("fast", &fast)];
        assert_eq!(worst("p99=30ns", &both), (Some(true), "slow".to_owned()));
        assert_eq!(worst("p99=15ns", &both), (Some(false), "slow".to_owned()));
        let with_none = [row("fast", &fast), row("none", &none)];
        assert_eq!(worst("p99=15ns", &with_none), (None, "none".to_owned()));
        assert_eq!(worst("p99=5ns", &with_none), (Some(false), "fast".to_owned()));
        let nothing = judged("max=1s", &[]);
        assert_eq!((nothing.held, nothing.reason.as_deref()), (None, Some("there are no samples")));
    }

    #[test]
    fn a_bound_holds_a_larger_limit_and_leaves_a_smaller_one_unknown() {
        let row = || LimitedRow {
            name: "CPU 1".to_owned(),
            samples: 0,
            each: SAMPLES,
            seen: Box::new(|_| Ok(Seen::AtMost(10_000.0, "no stall".to_owned()))),
            above: Box::new(|_| Above::Exactly(0)),
        };
        assert_eq!((judged("max=10us", &[row()]).held, judged("max=9us", &[row()]).held), (Some(true), None));
        assert_eq!(judged("max=9us", &[row()]).reason.as_deref(), Some("no stall"));
    }

    #[test]
    fn one_exceeded_limit_outweighs_an_unknown_one() {
        let latencies = latencies(1..=100);
        let rows = [LimitedRow::of_latencies("CPU 1".to_owned(), &latencies)];
        let of = |texts: &[&str]| answer(&texts.iter().map(|text| judged(text, &rows)).collect::<Vec<_>>());
        assert_eq!(of(&[]), Answer::Yes);
        assert_eq!(of(&["max=1s"]), Answer::Yes);
        assert_eq!(of(&["max=1s", "p99.99=1s"]), Answer::Unknown);
        assert_eq!(of(&["max=1ns", "p99.99=1s"]), Answer::No);
    }

    #[test]
    fn a_limit_states_how_many_samples_exceed_it() {
        let latencies = latencies(1..=100);
        let rows = [LimitedRow::of_latencies("CPU 1".to_owned(), &latencies)];
        for (text, above, words) in [
            ("max=100ns", Some(0), Some("none of 100 samples exceeds it")),
            ("max=99ns", Some(1), Some("1 of 100 samples exceeds it, 99.000 % are within")),
            ("max=1ns", Some(99), Some("99 of 100 samples exceed it, 1.000 % are within")),
            ("p90=89ns", Some(11), Some("11 of 100 samples exceed it, 89.000 % are within")),
            ("p90=1us", Some(0), Some("none of 100 samples exceeds it")),
            // The mean and counts have no samples beyond them.
            ("mean=1ns", None, None),
            ("missed=0", None, None),
        ] {
            let judged = judged(text, &rows);
            assert_eq!((judged.above, judged.reason.as_deref()), (above, words), "{text}");
        }
    }

    #[test]
    fn a_count_that_is_known_only_from_quantiles_is_a_lower_bound() {
        let nanos = |quantity| match quantity {
            Quantity::Quantile(quantile) if quantile.part() < 0.9 => Some(10.0),
            Quantity::Quantile(_) => Some(20.0),
            Quantity::Max => Some(30.0),
            _ => None,
        };
        let of =
            |text: &str, samples| judged(text, &[LimitedRow::of_times("tsc".to_owned(), samples, "", nanos)]).reason;
        assert_eq!(of("max=30ns", 1_000).as_deref(), Some("none of 1000 samples exceeds it"));
        assert_eq!(
            of("max=29ns", 1_000).as_deref(),
            Some("at least 1 of 1000 samples exceed it, at most 99.900 % are within")
        );
        assert_eq!(
            of("max=19ns", 1_000).as_deref(),
            Some("at least 10 of 1000 samples exceed it, at most 99.000 % are within")
        );
        assert_eq!(
            of("max=9ns", 1_000).as_deref(),
            Some("at least 500 of 1000 samples exceed it, at most 50.000 % are within")
        );
        assert_eq!(of("max=9ns", 1).as_deref(), Some("1 of 1 sample exceeds it, 0.000 % are within"));
    }
}
