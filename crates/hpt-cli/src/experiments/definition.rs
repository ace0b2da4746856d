//! The definition of a published measurement, and the input of a run.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use super::{figure::Measured, frames::Frames};
use crate::{
    context::Context,
    exit::Failure,
    kernel_clocksources::Comparison,
    sampling::{gpio_pulse::Pulse, realtime_options::Alone},
};

/// A published measurement.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// A description in a few words, for the list of experiments.
    pub(crate) brief: &'static str,
    /// A description of the measurement.
    pub(crate) title: &'static str,
    /// The publication.
    pub(crate) published_in: &'static str,
    /// The hardware of the published measurement.
    pub(crate) hardware: &'static str,
    /// The differences between hpt's measurement and the published measurement, on any machine.
    pub(crate) differs: &'static str,
    /// The published quantity that summarizes the result.
    pub(crate) main: &'static str,
    pub(crate) published: &'static [Published],
    /// The function that determines the conditions of the samples, such as sources and scheduling policy, in
    /// addition to the conditions of the system and the thread. It also reports anything that would fail
    /// during the measurement.
    pub(crate) way: Option<Way>,
    /// The parts of the measurement, which are measured and saved one after another.
    pub(crate) parts: &'static [Part],
}

/// A function that determines the conditions of a measurement before the measurement starts.
pub(crate) type Way = fn(&Context, &RunOptions) -> Result<Preflight, Failure>;

/// The conditions under which an experiment would run now.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    pub(crate) conditions: Vec<String>,
    /// Notes that a user needs before a long measurement starts.
    pub(crate) notes: Vec<String>,
    /// Warnings for standard error after the result.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

pub(super) const fn published_ratio(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "times" }
}

/// A part of an experiment, which is measured in one run.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// The published number of samples.
    pub(crate) count: u64,
    /// The number of samples with `--short`.
    pub(crate) short: u64,
    /// The approximate duration of one sample.
    pub(crate) each: Duration,
    /// Whether an interrupted run can be resumed. If so, its state is saved at regular intervals.
    pub(crate) continues: bool,
    pub(crate) measure: fn(&ExperimentRun<'_>) -> Result<Vec<Measured>, Failure>,
}

/// The requested settings of the thread and of the system.
#[derive(Default)]
pub(crate) struct RunOptions {
    pub(crate) cpu: Option<usize>,
    /// Settings for the thread on a dedicated core.
    pub(crate) alone: Alone,
    /// The comparison of all clocksources, if requested.
    pub(crate) clock_sources: Option<Comparison>,
    /// The GPIO line that the experiment `late-loop` toggles, if requested.
    pub(crate) pulse: Option<Pulse>,
    /// The network interfaces on which the experiment `period` sends frames, if requested.
    pub(crate) frames: Option<Frames>,
    /// The directory of the journal, which records system-wide settings before they are changed.
    pub(crate) journal: Option<PathBuf>,
}

/// The input of a part.
pub(crate) struct ExperimentRun<'a> {
    pub(crate) context: &'a Context,
    pub(crate) ways: &'a RunOptions,
    /// The number of samples to measure, in addition to the samples in `before`.
    pub(crate) count: u64,
    /// The result of an earlier run that was interrupted.
    pub(crate) before: &'a [Measured],
    /// A function that reports the progress, from 0 to 1.
    pub(crate) progress: &'a dyn Fn(f64),
    /// A function that saves all values so far. Its first argument is the number of finished samples, at most `count`.
    pub(crate) keep: &'a dyn Fn(u64, Vec<Measured>),
    /// Warnings for standard error after the result.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
}
