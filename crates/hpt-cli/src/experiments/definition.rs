//! The definition of a published measurement, and the input of a run. Names no particular measurement.

use std::{cell::RefCell, path::PathBuf, time::Duration};

use super::figure::Measured;
use crate::{context::Context, exit::Failure, kernel_clocksources::Comparison, sampling::realtime_options::Alone};

/// A published measurement.
#[derive(Debug)]
pub(crate) struct Experiment {
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) title: &'static str,
    /// Where it was published, and on which hardware.
    pub(crate) published_in: &'static str,
    pub(crate) hardware: &'static str,
    /// How it differs here from the publication, on any machine.
    pub(crate) differs: &'static str,
    pub(crate) published: &'static [Published],
    /// Returns what identifies its samples in addition to the machine and the thread: sources, scheduling policy.
    /// Anything that would be refused is refused here.
    pub(crate) way: Option<Way>,
    /// Its parts, measured and saved one after another.
    pub(crate) parts: &'static [Part],
}

/// Returns the sources of a measurement before anything is measured.
pub(crate) type Way = fn(&Context, &Ways) -> Result<Outlook, Failure>;

/// Returns the source that would be used now.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) conditions: Vec<String>,
    /// Errors to detect before an hour of measuring.
    pub(crate) notes: Vec<String>,
    /// Returns notes for standard error after the result.
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
    /// Sample count as published, and with --short.
    pub(crate) count: u64,
    pub(crate) short: u64,
    /// The approximate duration of one sample.
    pub(crate) each: Duration,
    /// Whether an interrupted run can continue: its state is saved once per minute.
    pub(crate) continues: bool,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Measured>, Failure>,
}

/// Requested system-wide settings.
#[derive(Default)]
pub(crate) struct Ways {
    /// The CPU of the thread.
    pub(crate) cpu: Option<usize>,
    /// For the thread with a core of its own.
    pub(crate) alone: Alone,
    /// Under each clocksource, if supported.
    pub(crate) clock_sources: Option<Comparison>,
    /// Where system-wide settings are recorded before they are changed.
    pub(crate) journal: Option<PathBuf>,
}

/// The input of a part.
pub(crate) struct Run<'a> {
    pub(crate) context: &'a Context,
    pub(crate) ways: &'a Ways,
    /// Number of samples to measure, after those of `before`.
    pub(crate) count: u64,
    /// The result of an earlier run that was interrupted.
    pub(crate) before: &'a [Measured],
    /// Reports progress from 0 to 1.
    pub(crate) progress: &'a dyn Fn(f64),
    /// Reports how many of `count` are done, and all values so far.
    pub(crate) keep: &'a dyn Fn(u64, Vec<Measured>),
    /// Notes for standard error after the result.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
}
