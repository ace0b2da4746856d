//! What a published measurement consists of, and what a run of one is given.
//! Names no measurement.

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
    /// What is another way here than it was there, whatever the machine.
    pub(crate) differs: &'static str,
    pub(crate) published: &'static [Published],
    /// What makes its samples others where it is another, beside the machine and the thread: which sources, which class. Whatever would be refused is refused here.
    pub(crate) way: Option<Way>,
    /// Made and kept one after the other.
    pub(crate) parts: &'static [Part],
}

/// Tells by what it would be measured, before anything is.
pub(crate) type Way = fn(&Context, &Ways) -> Result<Outlook, Failure>;

/// By what something would be measured now.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) conditions: Vec<String>,
    /// What is to be known before an hour has passed.
    pub(crate) notes: Vec<String>,
    /// What is to be said on standard error after the result.
    pub(crate) warnings: Vec<String>,
}

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// What is measured in one go.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// How many times as published, and in short.
    pub(crate) count: u64,
    pub(crate) short: u64,
    /// How long one of them takes, about.
    pub(crate) each: Duration,
    /// Whether it goes on where it was ended: it keeps what it has once a minute.
    pub(crate) continues: bool,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Measured>, Failure>,
}

/// What was asked for of the machine, beside the measurement.
#[derive(Default)]
pub(crate) struct Ways {
    /// The CPU that the thread stays on.
    pub(crate) cpu: Option<usize>,
    /// For the thread that has a core of its own.
    pub(crate) alone: Alone,
    /// Under each clock source, where that is meant.
    pub(crate) clock_sources: Option<Comparison>,
    /// Where settings of the machine are written down before they are changed.
    pub(crate) journal: Option<PathBuf>,
}

/// What a part is given.
pub(crate) struct Run<'a> {
    pub(crate) context: &'a Context,
    pub(crate) ways: &'a Ways,
    /// How many to make, after those of `before`.
    pub(crate) count: u64,
    /// What an earlier run made of it, where it was ended.
    pub(crate) before: &'a [Measured],
    /// Told from 0 to 1 how far the part is.
    pub(crate) progress: &'a dyn Fn(f64),
    /// Told how many of `count` are made, and all figures so far.
    pub(crate) keep: &'a dyn Fn(u64, Vec<Measured>),
    /// What is to be said on standard error after the result.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
}
