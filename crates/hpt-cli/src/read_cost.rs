//! Converts measured read overhead for documents: back-to-back reads and single reads. Measures nothing.

use hpt_core::{Spread, measure::ReadCost};
use hpt_document::read_cost::{RepeatedReads, SingleReads};

use crate::output::{rounded, tail};

/// Returns the results of back-to-back reads for a document.
pub(crate) fn repeated_reads(cost: &ReadCost) -> RepeatedReads {
    RepeatedReads {
        reads: cost.calls,
        complete: cost.complete,
        total_s: cost.total.as_secs_f64(),
        user_s: cost.user.as_secs_f64(),
        system_s: cost.system.as_secs_f64(),
        per_read_ns: cost.per_call_ns().map(rounded),
    }
}

/// Returns the results of reads that were timed one at a time, for a document.
pub(crate) fn single_reads(cost: &ReadCost) -> SingleReads {
    let figure = |figure: fn(&Spread) -> f64| cost.singles.as_ref().map(figure).map(rounded);
    let tail = |part, ns: Option<f64>| tail(cost.singles.map_or(0, |spread| spread.samples), part, ns?);
    SingleReads {
        single_samples: cost.singles.map(|spread| spread.samples),
        single_p50_ns: figure(|spread| spread.p50_ns),
        single_p99_ns: tail(0.99, figure(|spread| spread.p99_ns)),
        single_p999_ns: tail(0.999, figure(|spread| spread.p999_ns)),
        single_max_ns: figure(|spread| spread.max_ns),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::{Spread, measure::ReadCost};

    use super::single_reads;

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_missing() {
        let tails = |samples| {
            let spread =
                Spread { samples, min_ns: 1.0, p50_ns: 2.0, p99_ns: 3.0, p999_ns: 4.0, max_ns: 5.0, mean_ns: 2.5 };
            let cost = ReadCost {
                calls: samples,
                total: Duration::ZERO,
                user: Duration::ZERO,
                system: Duration::ZERO,
                cycles: None,
                singles: Some(spread),
                empty: None,
                complete: true,
                cut_short: false,
            };
            let row = single_reads(&cost);
            (row.single_p50_ns, row.single_p99_ns, row.single_p999_ns, row.single_max_ns)
        };
        assert_eq!(tails(500), (Some(2.0), None, None, Some(5.0)));
        assert_eq!(tails(5_000), (Some(2.0), Some(3.0), None, Some(5.0)));
        assert_eq!(tails(10_000), (Some(2.0), Some(3.0), Some(4.0), Some(5.0)));
    }
}
