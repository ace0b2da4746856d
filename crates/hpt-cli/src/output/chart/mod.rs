//! Charts of documents: one kind of chart per file.
//! Reads documents in the form that they are printed in, measures nothing and writes no file.

mod axis;
mod comparison;
mod distribution;
mod offsets;
mod picture;
mod provenance;
mod read_cost;
mod sleeps;
mod svg;
mod time_series;

use serde_json::Value;

pub(crate) use self::{
    comparison::{Pair, pairs_of},
    distribution::distribution,
    picture::{Figures, MARK, Picture, Unreadable, kind, style},
    provenance::{about, about_all, runs_it, says_where},
    svg::Width,
    time_series::course,
};

/// The picture of a document: of an experiment, the first of several.
pub(crate) fn of(document: &Value) -> Result<Picture, Unreadable> {
    match kind(document) {
        "bench" => read_cost::cost(document),
        "sleep" => sleeps::sleeps(document),
        "watch-summary" => offsets::offsets(document),
        "latency-pairs" => distribution::ranges(document),
        "latency-timer" | "latency-poll" | "latency-stall" | "latency-gpio" => distribution(&[("", document)]),
        other => Err(Unreadable::Kind(other.to_owned())),
    }
}

/// The pictures of published measurements beside those made here, one for each unit of each experiment.
pub(crate) fn of_experiments(document: &Value) -> Result<Vec<Picture>, Unreadable> {
    comparison::experiments(document)
}
