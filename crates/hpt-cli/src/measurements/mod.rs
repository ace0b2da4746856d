//! Measurements: each turns a request into a document. The command line states the request, or another process, or a
//! subcommand that makes several measurements. Nothing here depends on a subcommand.

pub(crate) mod bench;
mod child;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod latency;
pub(crate) mod probe;
mod request;
pub(crate) mod sleep;
pub(crate) mod watch;

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;
use serde::{Deserialize, Serialize};

pub(crate) use self::{
    child::{answer, command, is_asked, send},
    request::Request,
};
use crate::{
    arguments::CpuChoice,
    context::Context,
    exit::Failure,
    output::{Document, chart_option::ChartFile},
    sampling::{
        cpu_options::Cpus,
        explain::ExplainOptions,
        limits::quantity::{Accepted, Limit},
        load::LoadOptions,
        realtime_options::RealtimeOptions,
    },
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

/// The options that several measurements have in common. An option that a measurement does not have is `None`.
#[derive(Debug, Default)]
pub(crate) struct CommonOptions<'a> {
    /// The limits, and the quantities that can have one.
    pub(crate) limits: Option<(&'a mut Vec<Limit>, Accepted)>,
    /// The duration, if it can be chosen; `None` within it if the default applies.
    pub(crate) duration: Option<&'a mut Option<Duration>>,
    /// Whether the request states how long the measurement takes.
    pub(crate) has_length: bool,
    pub(crate) cpu: CpuOption<'a>,
    pub(crate) realtime: Option<&'a RealtimeOptions>,
    /// Whether the measuring thread never blocks.
    pub(crate) spins: bool,
    pub(crate) load: Option<&'a LoadOptions>,
    pub(crate) explain: Option<&'a mut ExplainOptions>,
    /// The system snapshot to examine.
    pub(crate) host: Option<&'a mut Option<PathBuf>>,
}

/// The option `--cpu`, which accepts more or fewer values.
#[derive(Debug, Default)]
pub(crate) enum CpuOption<'a> {
    #[default]
    Missing,
    /// A number.
    Number(&'a mut Option<usize>),
    /// A number, or `any`.
    One(&'a mut Option<CpuChoice>),
    /// Numbers, `all` or `any`.
    Several(&'a mut Option<Cpus>),
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

    fn common(&mut self) -> CommonOptions<'_> {
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
