//! What is observed beside a measurement: the conditions, and with `--explain` the kernel's trace.

use hpt_document::{conditions::Conditions, explain::Explanation};
use hpt_realtime::Behavior;

use super::{
    conditions::{ConditionOptions, ConditionsThread},
    explain::{Awaited, ExplainOptions, Explaining, Feed, MeasuredThread},
    limits::quantity::Limit,
    realtime_settings::EffectiveSettings,
};
use crate::context::Context;

/// The options of a measurement that concern what is observed beside it.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    /// The CPU of each measuring thread; `None` for a thread that is not pinned.
    pub(crate) cpus: &'a [Option<usize>],
    pub(crate) conditions: ConditionOptions,
    pub(crate) explained: Option<Explained<'a>>,
}

/// The samples to be explained.
#[derive(Debug)]
pub(crate) struct Explained<'a> {
    pub(crate) options: ExplainOptions,
    pub(crate) limits: &'a [Limit],
    /// The limit above which a sample ends the run.
    pub(crate) stop_above_ns: u64,
    pub(crate) awaited: Awaited,
    /// Whether the measuring threads block.
    pub(crate) behavior: Behavior,
}

/// The observers during a measurement.
#[must_use = "they end when this is dropped"]
#[derive(Debug)]
pub(crate) struct Observers<'a> {
    context: &'a Context,
    cpus: &'a [Option<usize>],
    options: ConditionOptions,
    conditions: ConditionsThread<'a>,
    explaining: Option<(Explaining, Behavior)>,
}

/// The observations of a run.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(super) options: ConditionOptions,
    pub(super) conditions: Conditions,
    pub(super) explanation: Explanation,
}

impl<'a> Observers<'a> {
    /// Begins to observe. Call this function before the measuring thread gets its CPU and its scheduling policy, because
    /// the threads that begin here inherit both.
    pub(crate) fn begin(context: &'a Context, observation: &Observation<'a>) -> Self {
        let Observation { cpus, conditions: options, ref explained } = *observation;
        let explaining = explained.as_ref().map(|explained| {
            let above = (explained.stop_above_ns, explained.awaited);
            (explained.options.begin(cpus, explained.limits, above), explained.behavior)
        });
        Self { context, cpus, options, conditions: ConditionsThread::begin(context, cpus), explaining }
    }

    /// Returns the means by which the calling thread, on this CPU, offers its samples to be explained.
    pub(crate) fn feed(&self, cpu: Option<usize>) -> Option<Feed> {
        self.explaining.as_ref()?.0.feed(cpu)
    }

    /// Ends the observation after the last sample. The settings of the measuring threads determine the fixes of the
    /// causes; without them, nothing is explained.
    pub(crate) fn end(self, settings: Option<&EffectiveSettings>) -> Observed {
        let Self { context, cpus, options, conditions, explaining } = self;
        let conditions = conditions.end();
        let explanation = explaining.zip(settings).map(|((explaining, behavior), settings)| {
            explaining.end(context, MeasuredThread { cpus, thread: &settings.thread, behavior })
        });
        Observed { options, conditions, explanation: explanation.unwrap_or_default() }
    }
}
