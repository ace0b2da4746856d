//! Read costs as documents state them: many reads back to back, and single reads.
//! Measures nothing.

use hpt_core::{Spread, measure::ReadCost};
use serde::Serialize;

use crate::output::rounded;

/// Many reads in a row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct InARow {
    pub(crate) calls: u64,
    pub(crate) complete: bool,
    pub(crate) total_s: f64,
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) per_call_ns: Option<f64>,
}

impl InARow {
    pub(crate) fn of(cost: &ReadCost) -> Self {
        Self {
            calls: cost.calls,
            complete: cost.complete,
            total_s: cost.total.as_secs_f64(),
            user_s: cost.user.as_secs_f64(),
            system_s: cost.system.as_secs_f64(),
            per_call_ns: cost.per_call_ns().map(rounded),
        }
    }
}

/// Reads that were timed singly.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Singly {
    pub(crate) single_samples: Option<u64>,
    pub(crate) single_p50_ns: Option<f64>,
    pub(crate) single_p99_ns: Option<f64>,
    pub(crate) single_p999_ns: Option<f64>,
    pub(crate) single_max_ns: Option<f64>,
}

impl Singly {
    pub(crate) fn of(cost: &ReadCost) -> Self {
        let figure = |figure: fn(&Spread) -> f64| cost.singles.as_ref().map(figure).map(rounded);
        Self {
            single_samples: cost.singles.map(|spread| spread.samples),
            single_p50_ns: figure(|spread| spread.p50_ns),
            single_p99_ns: figure(|spread| spread.p99_ns),
            single_p999_ns: figure(|spread| spread.p999_ns),
            single_max_ns: figure(|spread| spread.max_ns),
        }
    }
}
