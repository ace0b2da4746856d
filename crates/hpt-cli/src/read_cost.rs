//! Converts measured read overhead for documents: back-to-back reads and single reads.

use hpt_core::Spread;
use hpt_document::{
    not_run::NotRun,
    quantiles::Quantiles,
    read_cost::{RepeatedReads, SingleReads},
};
use hpt_instrument::measure::ReadCost;

use crate::{
    output::{one_or_many, rounded, short_time},
    statistics::known_quantile,
};

/// The part of the median by which half of the batches differ if the CPU was disturbed. On an idle machine, it is about
/// a percent.
const WIDE: f64 = 0.1;
/// The maximum number of sources in a note.
const IN_NOTE: usize = 3;
/// The ratio of the mean to the median if the thread did not run during some batches.
const LARGE_MEAN: f64 = 1.25;

/// Returns the results of back-to-back reads for a document. `not_run` describes the time in which they were made.
pub(crate) fn repeated_reads(cost: &ReadCost, not_run: &NotRun) -> RepeatedReads {
    let (p25, p75) = cost.batches.and_then(|batches| batches.quartiles_ns).unzip();
    RepeatedReads {
        reads: cost.calls,
        complete: cost.complete,
        total_s: cost.total.as_secs_f64(),
        user_s: cost.user.as_secs_f64(),
        system_s: cost.system.as_secs_f64(),
        per_read_ns: cost.per_read_ns().map(rounded),
        per_read_p25_ns: p25.map(rounded),
        per_read_p75_ns: p75.map(rounded),
        per_read_min_ns: cost.batches.map(|batches| rounded(batches.min_ns)),
        batches: cost.batches.map_or(0, |batches| batches.batches),
        mean_read_ns: cost.mean_ns().map(rounded),
        not_run_share: not_run.share,
    }
}

/// Returns the largest distance of a quartile from the median: at least half of the batches are within this distance of
/// the median. It is never smaller than the smallest time that is printed.
fn deviation_ns(reads: &RepeatedReads) -> Option<f64> {
    let (median, low, high) = (reads.per_read_ns?, reads.per_read_p25_ns?, reads.per_read_p75_ns?);
    Some((median - low).max(high - median).max(0.01))
}

/// Returns the deviation of the batches as text.
pub(crate) fn deviation(reads: &RepeatedReads) -> Option<String> {
    deviation_ns(reads).map(short_time)
}

/// Returns the time per read and the deviation of the batches as text.
pub(crate) fn per_read(reads: &RepeatedReads) -> Option<String> {
    let median = short_time(reads.per_read_ns?);
    Some(deviation(reads).map_or_else(|| median.clone(), |deviation| format!("{median} ± {deviation}")))
}

/// Returns notes on the sources whose batches differ widely, and on those whose mean exceeds the median by far. `reads`
/// contains the name of each source. If another note states that the thread did not run, a large mean needs no note, and
/// the cause is not repeated.
pub(crate) fn notes_of_wide_spreads<'a>(
    reads: impl Iterator<Item = (String, &'a RepeatedReads)>,
    is_not_run_noted: bool,
) -> Vec<String> {
    let (mut wide, mut large) = (Vec::new(), Vec::new());
    for (name, reads) in reads {
        let Some(median) = reads.per_read_ns.filter(|&ns| ns > 0.0) else { continue };
        let quartiles = reads.per_read_p75_ns.zip(reads.per_read_p25_ns);
        let width = quartiles.map_or(0.0, |(high, low)| (high - low) / median);
        let mean = reads.mean_read_ns.unwrap_or(median) / median;
        if width >= WIDE {
            wide.push((width, format!("{:.0} % of the median ({name})", width * 100.0)));
        } else if mean >= LARGE_MEAN && reads.batches > 1 && !is_not_run_noted {
            large.push((mean, format!("{mean:.1} times the median ({name})")));
        }
    }
    let cause = if is_not_run_noted {
        ""
    } else {
        ": another program used the CPU, or its frequency changed; repeat the measurement on an idle machine"
    };
    let wide = listed(wide).map(|listed| format!("the middle half of the batches spans {listed}{cause}"));
    let large = listed(large).map(|listed| format!("the mean is {listed}{cause}"));
    wide.into_iter().chain(large).collect()
}

/// Lists the largest values as text, and the number of the others.
fn listed(mut values: Vec<(f64, String)>) -> Option<String> {
    values.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let others = values.len().saturating_sub(IN_NOTE);
    let mut text = values.into_iter().take(IN_NOTE).map(|(_, text)| text).collect::<Vec<_>>().join(", ");
    if others > 0 {
        text.push_str(&format!(", and less for {others} {}", one_or_many(others, "other", "others")));
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the results of reads that were timed one at a time, for a document.
pub(crate) fn single_reads(cost: &ReadCost) -> SingleReads {
    let figure = |figure: fn(&Spread) -> f64| cost.singles.as_ref().map(figure).map(rounded);
    SingleReads {
        single_samples: cost.singles.map(|spread| spread.samples),
        quantiles: Quantiles::of(|quantile| known_quantile(&cost.singles?, quantile.share).map(rounded)),
        single_max_ns: figure(|spread| spread.max_ns),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Spread;
    use hpt_document::read_cost::RepeatedReads;
    use hpt_instrument::measure::ReadCost;

    use super::{notes_of_wide_spreads, per_read, single_reads};

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_missing() {
        let tails = |samples| {
            let spread =
                Spread { samples, min_ns: 1.0, p50_ns: 2.0, p99_ns: 3.0, p999_ns: 4.0, max_ns: 5.0, mean_ns: 2.5 };
            let cost = ReadCost {
                calls: samples,
                total: Duration::ZERO,
                batches: None,
                user: Duration::ZERO,
                system: Duration::ZERO,
                cycles: None,
                singles: Some(spread),
                empty: None,
                complete: true,
                cut_short: false,
            };
            let row = single_reads(&cost);
            (row.quantiles.median(), row.quantiles.p99(), row.quantiles.get(0.999), row.single_max_ns)
        };
        assert_eq!(tails(500), (Some(2.0), None, None, Some(5.0)));
        assert_eq!(tails(5_000), (Some(2.0), Some(3.0), None, Some(5.0)));
        assert_eq!(tails(10_000), (Some(2.0), Some(3.0), Some(4.0), Some(5.0)));
    }

    #[test]
    fn wide_spreads_and_large_means_are_noted_with_the_cause() {
        let reads = |spread: f64, mean: f64| RepeatedReads {
            per_read_ns: Some(10.0),
            per_read_p25_ns: Some(10.0 - spread / 2.0),
            per_read_p75_ns: Some(10.0 + spread / 2.0),
            batches: 100,
            mean_read_ns: Some(mean),
            ..RepeatedReads::default()
        };
        let notes = |all: &[(&str, RepeatedReads)], is_not_run_noted| {
            notes_of_wide_spreads(all.iter().map(|(name, reads)| ((*name).to_owned(), reads)), is_not_run_noted)
        };
        let quiet = ("quiet", reads(0.2, 10.5));
        assert!(notes(std::slice::from_ref(&quiet), false).is_empty());
        let all = [quiet, ("wide", reads(4.0, 10.0)), ("stalled", reads(0.2, 21.0))];
        let cause = "another program used the CPU, or its frequency changed; repeat the measurement on an idle machine";
        assert_eq!(
            notes(&all, false),
            [
                format!("the middle half of the batches spans 40 % of the median (wide): {cause}"),
                format!("the mean is 2.1 times the median (stalled): {cause}")
            ]
        );
        assert_eq!(notes(&all, true), ["the middle half of the batches spans 40 % of the median (wide)"]);
        let five = ["a", "b", "c", "d", "e"].map(|name| (name, reads(4.0, 10.0)));
        assert!(notes(&five, true)[0].ends_with("40 % of the median (c), and less for 2 others"));
    }

    #[test]
    fn the_deviation_is_the_larger_distance_of_the_quartiles() {
        let reads = |median, low, high| RepeatedReads {
            per_read_ns: Some(median),
            per_read_p25_ns: low,
            per_read_p75_ns: high,
            ..RepeatedReads::default()
        };
        assert_eq!(per_read(&reads(9.4, Some(9.3), Some(9.7))).as_deref(), Some("9.4 ns ± 0.3 ns"));
        assert_eq!(per_read(&reads(9.4, Some(9.4), Some(9.4))).as_deref(), Some("9.4 ns ± 0.01 ns"));
        assert_eq!(per_read(&reads(9.4, None, None)).as_deref(), Some("9.4 ns"));
    }
}
