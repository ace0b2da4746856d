//! All measurements, with their options.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

use super::{
    bench,
    common_options::{CommonOptions, CpuOption},
    doctor, experiment, latency, probe, sleep, watch,
};
use crate::{
    context::Context,
    exit::Failure,
    output::{Document, chart_option::ChartFile},
};

/// A measurement, with all its options. Only measurements with limits can be handed to another process.
#[derive(Debug, Subcommand, Serialize, Deserialize)]
pub(crate) enum Measurement {
    #[serde(skip)]
    Probe(probe::ProbeArguments),
    Bench(bench::BenchArguments),
    Sleep(sleep::SleepArguments),
    Latency(latency::LatencyArguments),
    #[serde(skip)]
    Experiment(experiment::ExperimentArguments),
    #[serde(skip)]
    Watch(watch::WatchArguments),
    /// The subcommand also has other options.
    #[command(skip)]
    #[serde(skip)]
    Doctor(doctor::ExaminationArguments),
}

impl Measurement {
    pub(crate) fn measure(&self, context: &Context) -> Result<Document, Failure> {
        match self {
            Self::Probe(arguments) => probe::run(arguments, context),
            Self::Bench(arguments) => bench::run(arguments, context),
            Self::Sleep(arguments) => sleep::run(arguments, context),
            Self::Latency(arguments) => latency::run(arguments, context),
            Self::Experiment(arguments) => experiment::run(arguments, context),
            Self::Watch(arguments) => watch::run(arguments, context),
            Self::Doctor(arguments) => doctor::run(arguments, context),
        }
    }

    /// Returns the kind of the document; `None` for kinds without metrics.
    pub(crate) const fn kind(&self) -> Option<&'static str> {
        match self {
            Self::Probe(_) => Some("probe"),
            Self::Latency(arguments) => Some(arguments.kind()),
            Self::Watch(_) => Some("watch-summary"),
            Self::Doctor(_) => Some("doctor"),
            Self::Bench(_) | Self::Sleep(_) | Self::Experiment(_) => None,
        }
    }

    pub(crate) fn chart(&self) -> Option<ChartFile<'_>> {
        match self {
            Self::Bench(arguments) => arguments.chart.file(),
            Self::Sleep(arguments) => arguments.chart.file(),
            Self::Latency(arguments) => arguments.chart(),
            Self::Experiment(arguments) => arguments.chart.file(),
            Self::Watch(arguments) => arguments.chart.file(),
            Self::Probe(_) | Self::Doctor(_) => None,
        }
    }

    /// Returns whether only a signal ends the measurement.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(self, Self::Watch(arguments) if arguments.is_endless())
    }

    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        match self {
            Self::Probe(arguments) => CommonOptions { host: Some(&mut arguments.host), ..CommonOptions::default() },
            Self::Bench(arguments) => arguments.common(),
            Self::Sleep(arguments) => arguments.common(),
            Self::Latency(arguments) => arguments.common(),
            Self::Experiment(_) => CommonOptions::default(),
            Self::Watch(arguments) => {
                CommonOptions { cpu: CpuOption::One(&mut arguments.cpu), ..CommonOptions::default() }
            }
            Self::Doctor(arguments) => CommonOptions {
                cpu: CpuOption::Number(&mut arguments.cpu),
                host: Some(&mut arguments.host),
                ..CommonOptions::default()
            },
        }
    }
}
