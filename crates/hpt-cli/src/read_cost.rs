//! Converts measured read overhead for documents: back-to-back reads and single reads. Measures nothing.

use hpt_core::{Spread, measure::ReadCost};
use hpt_document::read_cost::{RepeatedReads, SingleReads};

use crate::output::rounded;

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
    SingleReads {
        single_samples: cost.singles.map(|spread| spread.samples),
        single_p50_ns: figure(|spread| spread.p50_ns),
        single_p99_ns: figure(|spread| spread.p99_ns),
        single_p999_ns: figure(|spread| spread.p999_ns),
        single_max_ns: figure(|spread| spread.max_ns),
    }
}
