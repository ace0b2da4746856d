//! The definition of a published measurement, and the input of a run. Names no particular measurement.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use super::figure::Measured;
use crate::{context::Context, exit::Failure, kernel_clocksources::Comparison, sampling::realtime_options::Alone};

/// A published measurement.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// A description of the measurement.
    pub(crate) title: &'static str,
    /// The publication, and the hardware of the published measurement.
    pub(crate) published_in: &'static str,
    pub(crate) hardware: &'static str,
    /// How hpt's measurement differs from the published one, on any machine.
    pub(crate) differs: &'static str,
    pub(crate) published: &'static [Published],
    /// Determines the conditions that identify the samples, such as sources and scheduling policy, in
    /// addition to the conditions of the system and the thread. Reports anything that would fail during
    /// the measurement.
    pub(crate) way: Option<Way>,
    /// The parts of the measurement, which are measured and saved one after another.
    pub(crate) parts: &'static [Part],
}

/// Determines the conditions of a measurement before it starts.
pub(crate) type Way = fn(&Context, &Ways) -> Result<Preflight, Failure>;

/// The conditions under which an experiment would run now.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    pub(crate) conditions: Vec<String>,
    /// Notes that a user needs before a long measurement starts.
    pub(crate) notes: Vec<String>,
    /// Warnings for standard error after the result.
    pub(crate) warnings: Vec<String>,
}

/// A published value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// A part measured in one run.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// The number of samples as published, and with `--short`.
    pub(crate) count: u64,
    pub(crate) short: u64,
    /// The approximate duration of one sample.
    pub(crate) each: Duration,
    /// Whether an interrupted run can be resumed. If so, its state is saved once per minute.
    pub(crate) continues: bool,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Measured>, Failure>,
}

/// The requested settings: for the thread, and system-wide.
#[derive(Default)]
pub(crate) struct Ways {
    /// The CPU of the thread.
    pub(crate) cpu: Option<usize>,
    /// Settings for the thread on a dedicated core.
    pub(crate) alone: Alone,
    /// The comparison of all clocksources, if requested.
    pub(crate) clock_sources: Option<Comparison>,
    /// The journal, which records system-wide settings before they are changed.
    pub(crate) journal: Option<PathBuf>,
}

/// The input of a part.
pub(crate) struct Run<'a> {
    pub(crate) context: &'a Context,
    pub(crate) ways: &'a Ways,
    /// The number of samples to measure, in addition to the samples in `before`.
    pub(crate) count: u64,
    /// The result of an earlier run that was interrupted.
    pub(crate) before: &'a [Measured],
    /// Reports progress from 0 to 1.
    pub(crate) progress: &'a dyn Fn(f64),
    /// Reports how many of the `count` samples are done, and all values so far.
    pub(crate) keep: &'a dyn Fn(u64, Vec<Measured>),
    /// Warnings for standard error after the result.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
}
