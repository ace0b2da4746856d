//! Compares the rows of a result with limits: held, exceeded, or unknown. Prints nothing.

use hpt_core::measure::Latencies;
use hpt_document::limit::LimitRow;

use super::quantity::{Limit, Most, Quantile, Quantity};
use crate::output::{Answer, rounded, short_time};

/// The number of samples from which on the rule of three is close to the exact bound.
const LEAST_FOR_SUPPORT: u64 = 10;
const NO_SAMPLES: &str = "there are no samples";

/// The value of a quantity in one row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Nanos(f64),
    Count(u64),
    /// Nothing was seen above this time in nanoseconds. The text says why, and what would tell more.
    AtMost(f64, String),
}

/// A row that limits apply to. `seen` returns the value of a quantity, or why there is none.
pub(crate) struct LimitedRow<'a> {
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) seen: Box<dyn Fn(Quantity) -> Result<Seen, String> + 'a>,
}

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
        Self { name, samples: counts.samples(), seen: Box::new(seen) }
    }

    /// Returns a row of times in nanoseconds. `nanos` returns the value of a quantity; `missing` says why one may be
    /// missing.
    pub(crate) fn of_times(
        name: String,
        samples: u64,
        missing: &'a str,
        nanos: impl Fn(Quantity) -> Option<f64> + 'a,
    ) -> Self {
        let seen = move |quantity| {
            let missing = if samples == 0 { NO_SAMPLES } else { missing };
            nanos(quantity).map(Seen::Nanos).ok_or_else(|| missing.to_owned())
        };
        Self { name, samples, seen: Box::new(seen) }
    }
}

/// Returns the value of one of the quantiles that every distribution has.
pub(crate) fn usual_quantile(quantile: Quantile, [p50, p99, p999]: [Option<f64>; 3]) -> Option<f64> {
    let place = Quantile::USUAL.iter().position(|&usual| usual == quantile)?;
    [p50, p99, p999].get(place).copied().flatten()
}

/// States what the maximum of this number of samples supports: the rule of three.
pub(crate) fn support_of_max(samples: u64) -> String {
    if samples < LEAST_FOR_SUPPORT {
        return format!("{samples} samples are too few to say how often it is exceeded");
    }
    format!("at 95 % confidence, fewer than 3 in {samples} samples exceed it, if samples are independent")
}

/// The verdict on one row.
struct Verdict {
    seen: Option<Seen>,
    held: Option<bool>,
    reason: Option<String>,
}

impl Verdict {
    fn unknown(reason: String) -> Self {
        Self { seen: None, held: None, reason: Some(reason) }
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
    if let Quantity::Quantile(quantile) = limit.quantity
        && (1..quantile.least_samples()).contains(&row.samples)
    {
        return with_too_few_samples(limit, quantile, row);
    }
    let seen = match (row.seen)(limit.quantity) {
        Ok(seen) => seen,
        Err(reason) => return Verdict::unknown(reason),
    };
    let is_within = is_within(&seen, limit.most);
    let (held, reason) = match &seen {
        Seen::AtMost(_, why) => (is_within.then_some(true), Some(why.clone())),
        Seen::Nanos(_) | Seen::Count(_) => {
            (Some(is_within), (limit.quantity == Quantity::Max).then(|| support_of_max(row.samples)))
        }
    };
    Verdict { seen: Some(seen), held, reason }
}

/// Judges a quantile with too few samples beyond it. It is exceeded if a lower quantile is; otherwise, it is unknown.
fn with_too_few_samples(limit: &Limit, quantile: Quantile, row: &LimitedRow<'_>) -> Verdict {
    let name = limit.quantity.name();
    let takes = format!("{name} needs {} samples, and there are {}", quantile.least_samples(), row.samples);
    let lower = Quantile::USUAL.into_iter().filter(|&lower| lower < quantile && lower.least_samples() <= row.samples);
    let exceeded = lower.rev().find_map(|lower| {
        let seen = (row.seen)(Quantity::Quantile(lower)).ok()?;
        (!is_within(&seen, limit.most)).then_some((lower, seen))
    });
    match exceeded {
        Some((lower, Seen::Nanos(ns))) => Verdict {
            reason: Some(format!("{} is already {}; {takes}", Quantity::Quantile(lower).name(), short_time(ns))),
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
    use hpt_core::{
        Instant,
        measure::{Latencies, Wake},
    };

    use super::{LimitedRow, Seen, answer, of_both_phases, support_of_max, verdicts};
    use crate::{
        output::Answer,
        sampling::limits::quantity::{Accepted, Limit},
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
        assert_eq!(exceeded.as_deref(), Some("p50 is already 50 ns; p99.99 needs 100000 samples, and there are 100"));
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
            seen: Box::new(|_| Ok(Seen::AtMost(10_000.0, "no stall".to_owned()))),
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
    fn a_maximum_states_what_it_supports() {
        let words = "at 95 % confidence, fewer than 3 in 1000000 samples exceed it, if samples are independent";
        assert_eq!(support_of_max(1_000_000), words);
        assert!(support_of_max(9).contains("too few"));
        // The exact bound for ten samples is 0.26, and the rule of three gives 0.3.
        assert!(1.0 - 0.05_f64.powf(0.1) < 0.3);
    }
}
