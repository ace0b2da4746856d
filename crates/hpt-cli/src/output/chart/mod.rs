//! Charts of documents: one kind of chart per file.
//! Reads the documents that are printed, measures nothing and writes no file.

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

use hpt_document::Document;

pub(crate) use self::{
    comparison::{Pair, experiments, pairs_of},
    distribution::distribution,
    offsets::offsets,
    picture::{Figures, MARK, Picture, Unreadable, style},
    provenance::{Origin, about, about_all, runs_it},
    read_cost::cost,
    sleeps::sleeps,
    svg::Width,
    time_series::course,
};

/// The picture of a document: of an experiment, the first of several.
pub(crate) fn of(document: &Document) -> Result<Picture, Unreadable> {
    match document {
        Document::Bench(document) => cost(document),
        Document::Sleep(document) => sleeps(document),
        Document::WatchSummary(document) => offsets(document),
        Document::Pairs(document) => distribution::ranges(document),
        Document::WakeLatency(document) => distribution(&[("", document.into())]),
        Document::Stall(document) => distribution(&[("", document.into())]),
        Document::GpioLatency(document) => distribution(&[("", document.into())]),
        _ => Err(Unreadable::Kind),
    }
}
