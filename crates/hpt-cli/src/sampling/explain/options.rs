//! The option `--explain`, and the recording that it requests. Explains nothing itself: hpt-instrument does.

use clap::Args;
use hpt_document::explain::Explanation;
pub(crate) use hpt_instrument::trace::Feed;
use hpt_instrument::trace::{Request, TraceError, Tracing};
use serde::{Deserialize, Serialize};

use super::{document, fix::MeasuredThread};
use crate::{
    context::Context,
    sampling::limits::quantity::{Limit, Most, Quantity},
};

/// The number of samples that are explained, unless the option states it.
const USUAL: u16 = 20;
const USUAL_TEXT: &str = "20";
/// The maximum number of samples that are explained.
const MOST: i64 = 10_000;

/// The option `--explain`.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub(crate) struct ExplainOptions {
    /// Explain the N latest samples: what delayed them [default: 20]
    ///
    /// hpt records the scheduler, interrupts and idle states of the measured CPUs in a private instance of the kernel's
    /// trace (tracefs), and divides each latency into parts: interrupts that were disabled, interrupt handlers, softirqs,
    /// other threads, idle states, the hypervisor. Requires root. Samples above --stop-above or above a limit on max are
    /// explained in addition.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = USUAL_TEXT,
        value_parser = clap::value_parser!(u16).range(1..=MOST),
        hide_short_help = true
    )]
    explain: Option<u16>,
}

/// The help for sleeps, which have no --stop-above.
pub(crate) const SLEEP_HELP: &str = "Explain the N latest sleeps: what delayed them [default: 20]\n\nAs for hpt latency timer --explain. Sleeps above a limit on max are explained in addition. Requires root.";
pub(crate) const STALL_HELP: &str = "Explain the N longest stalls: what ran instead [default: 20]\n\nAs for hpt latency timer --explain: the kernel's trace names the threads and interrupts, with start and duration. Stalls above --stop-above or above a limit on max are explained in addition. Requires root.";

/// The event that ends the wait of a measured thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A timer. The threads block until it expires.
    Timer,
    /// A time. The threads poll the clock, at least shortly before that time.
    Clock,
    /// An interrupt of a device.
    Edge,
}

impl ExplainOptions {
    pub(crate) const fn is_requested(self) -> bool {
        self.explain.is_some()
    }

    /// Requests explanations of the usual number of samples.
    pub(crate) const fn request(&mut self) {
        self.explain = Some(USUAL);
    }

    /// Begins to record the measured CPUs. A sample above `stop_above_ns` or above a limit on `max` is explained even if
    /// it is not one of the worst.
    pub(crate) fn begin(
        self,
        measured: &[Option<usize>],
        limits: &[Limit],
        (stop_above_ns, awaited): (u64, Awaited),
    ) -> Explaining {
        let Some(worst) = self.explain else { return Explaining(None) };
        let maxima =
            limits.iter().filter(|limit| limit.quantity == Quantity::Max).filter_map(|limit| match limit.most {
                Most::Nanos(ns) => Some(ns),
                Most::Count(_) => None,
            });
        let above_ns = maxima.chain([stop_above_ns]).min().filter(|&ns| ns < u64::MAX);
        // A thread that is not pinned may run on every CPU.
        let cpus: Option<Vec<usize>> = measured.iter().copied().collect();
        let request = Request::new(cpus.unwrap_or_default()).with_worst(worst.into()).with_above_ns(above_ns);
        // A thread that drives a line runs at the start of its sample, as a polling thread does.
        let request = request.with_polling(awaited != Awaited::Timer).with_edges(awaited == Awaited::Edge);
        Explaining(Some(Tracing::begin(&request)))
    }
}

/// A recording during a run, or the reason why there is none.
#[must_use = "the recording ends when this is dropped"]
#[derive(Debug)]
pub(crate) struct Explaining(Option<Result<Tracing, TraceError>>);

impl Explaining {
    /// Returns the means by which the calling thread offers its samples.
    pub(crate) fn feed(&self, cpu: Option<usize>) -> Option<Feed> {
        Some(self.0.as_ref()?.as_ref().ok()?.feed(cpu))
    }

    /// Ends the recording, and returns its result.
    pub(crate) fn end(self, context: &Context, measured: MeasuredThread<'_>) -> Explanation {
        match self.0 {
            None => Explanation::default(),
            Some(Err(error)) => document::without_trace(&error),
            Some(Ok(tracing)) => document::explanation(tracing.end(), &context.host, measured),
        }
    }
}
