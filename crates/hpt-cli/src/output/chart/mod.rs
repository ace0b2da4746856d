//! Charts of documents: one kind of chart per module. These modules read the documents that are printed; they measure
//! nothing and write no files.

mod axis;
mod comparison;
mod cpus;
mod distribution;
mod experiment;
mod offsets;
mod provenance;
mod read_cost;
mod sleep_curve;
mod sleeps;
mod svg;
mod time_series;
mod timeline;
mod titled_chart;

use hpt_document::Document;

pub(crate) use self::{
    comparison::{Compared, experiments, side_by_side},
    cpus::cpus,
    distribution::{Latencies, distribution},
    experiment::{experiment, samples_of},
    offsets::offsets,
    provenance::{Origin, SEPARATOR, about, about_all, on_machine, runs_it},
    read_cost::cost,
    sleep_curve::sleep_curve,
    sleeps::sleeps,
    svg::Width,
    time_series::time_series,
    timeline::timeline,
    titled_chart::{Figures, MARK, TitledChart, Unreadable, style},
};

pub(crate) fn of(document: &Document) -> Result<TitledChart, Unreadable> {
    match document {
        Document::Bench(document) => cost(document),
        Document::Sleep(document) => sleeps(document),
        Document::SleepCurve(document) => sleep_curve(document),
        Document::WatchSummary(document) => offsets(document),
        Document::Pairs(document) => distribution::ranges(document),
        Document::Experiment(document) => experiment(document),
        Document::WakeLatency(document) => distribution(&[("", document.into())]),
        Document::Stall(document) => distribution(&[("", document.into())]),
        Document::GpioLatency(document) => distribution(&[("", document.into())]),
        _ => Err(Unreadable::Kind),
    }
}
