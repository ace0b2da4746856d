//! The result of a recording: plain data.

use super::{causes::CauseTotal, part::Explained};

/// The explained samples of a run, and the causes of all of them.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TraceReport {
    /// The worst samples, worst first, then those above the requested latency.
    pub explained: Vec<Explained>,
    /// The causes of all samples above the threshold, largest first.
    pub causes: Vec<CauseTotal>,
    /// The number of samples above the threshold.
    pub samples: u64,
    /// The sum of their latencies, in nanoseconds.
    pub latency_ns: u64,
    /// The number of them during which events were lost.
    pub incomplete: u64,
    /// The number of events that were lost during the run.
    pub lost_events: u64,
    /// The time that recording one event takes, in nanoseconds: the shortest time between two events; `None` without events.
    pub event_ns: Option<u64>,
    /// The smallest number of events during the latency of a sample; `None` without samples.
    pub events: Option<u64>,
    /// The number of late samples that were not examined because there were too many at once.
    pub skipped: u64,
    /// Whether this is a virtual machine whose kernel has never counted steal time. A pause by the hypervisor then cannot
    /// be distinguished from disabled interrupts.
    pub host_unknown: bool,
    /// The steal time of the recorded CPUs during the run, in seconds; `None` if the kernel does not report it.
    pub steal_s: Option<f64>,
}
