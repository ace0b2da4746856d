//! The documents of `hpt watch`: one for each interval, and the summary.

use hpt_core::SourceId;
use serde::Serialize;

use crate::{document_head::Head, sampling::cpu_absences::Away};

/// One source in one interval, for programs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct IntervalRow {
    pub(super) interval: u64,
    pub(super) at_s: f64,
    pub(super) source: SourceId,
    pub(super) bursts: u64,
    pub(super) bracket_ns: Option<u64>,
    pub(super) offset_ns: Option<f64>,
    pub(super) offset_bound_ns: Option<f64>,
    pub(super) frequency_error_ppm: Option<f64>,
    pub(super) frequency_bound_ppm: Option<f64>,
    pub(super) steps: u64,
    pub(super) backwards: u64,
    pub(super) set: u64,
    pub(super) faults: Vec<&'static str>,
    pub(super) said: Vec<String>,
}

/// The counters of two CPUs, for programs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cores {
    pub(super) source: SourceId,
    pub(super) first_cpu: usize,
    pub(super) second_cpu: usize,
    pub(super) least_ns: f64,
    pub(super) most_ns: f64,
    pub(super) handovers: u64,
    pub(super) fault: Option<String>,
}

/// Something that happened to the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MachineEvent {
    pub(super) kind: &'static str,
    pub(super) at_s: f64,
    pub(super) suspended_ns: Option<u64>,
    pub(super) said: String,
}

/// A time in which a CPU was offline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Offline {
    pub(super) cpu: usize,
    pub(super) from_s: f64,
    /// `None` until the end.
    pub(super) to_s: Option<f64>,
}

/// What a time daemon made the kernel do.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Synchronisation {
    pub(super) readable: bool,
    pub(super) synchronised: Option<bool>,
    pub(super) status: Option<u32>,
    pub(super) frequency_ppm: Option<f64>,
    pub(super) tick_ppm: Option<f64>,
    pub(super) maximum_error_ns: Option<u64>,
    pub(super) estimated_error_ns: Option<u64>,
    pub(super) daemons: Option<Vec<&'static str>>,
}

#[derive(Debug, Serialize)]
pub(super) struct IntervalData {
    pub(super) schema: u32,
    pub(super) kind: &'static str,
    pub(super) hpt: &'static str,
    pub(super) interval: u64,
    pub(super) at_s: f64,
    pub(super) reference: SourceId,
    pub(super) clock_source: Option<String>,
    pub(super) rounds_elsewhere: u64,
    pub(super) sources: Vec<IntervalRow>,
    pub(super) cores: Vec<Cores>,
    pub(super) events: Vec<MachineEvent>,
    pub(super) shared_faults: Vec<String>,
    pub(super) synchronisation: Synchronisation,
}

/// One source over all intervals, for programs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct SummaryRow {
    pub(super) source: SourceId,
    pub(super) expected_hz: f64,
    pub(super) expected_by: &'static str,
    pub(super) bursts: u64,
    pub(super) bracket_ns: Option<u64>,
    pub(super) offset_ns: Option<f64>,
    pub(super) offset_bound_ns: Option<f64>,
    pub(super) lowest_ppm: Option<f64>,
    pub(super) lowest_bound_ppm: Option<f64>,
    pub(super) highest_ppm: Option<f64>,
    pub(super) highest_bound_ppm: Option<f64>,
    pub(super) steps: u64,
    pub(super) backwards: u64,
    pub(super) set: u64,
    pub(super) faults: u64,
    pub(super) first_fault: Option<String>,
    /// When, how far it was ahead and within what, of intervals that are equally far apart: in seconds and nanoseconds.
    pub(super) course: Vec<(f64, f64, f64)>,
    /// So many intervals are one further in it.
    #[serde(skip)]
    pub(super) course_every: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct AcceptedLimits {
    pub(super) rate_ppm: f64,
    pub(super) statements_may_be_wrong: bool,
    pub(super) step_ns: u64,
    pub(super) core_offset_ns: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct SummaryData {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) cpu: Option<usize>,
    pub(super) reference: SourceId,
    pub(super) limits: AcceptedLimits,
    pub(super) watched_s: f64,
    pub(super) intervals: u64,
    pub(super) rounds: u64,
    pub(super) away: Vec<Away>,
    pub(super) misbehaved: bool,
    pub(super) sources: Vec<SummaryRow>,
    pub(super) cores: Vec<Cores>,
    pub(super) events: Vec<MachineEvent>,
    pub(super) offline: Vec<Offline>,
    pub(super) shared_faults: Vec<String>,
    pub(super) synchronisation: Synchronisation,
    pub(super) interrupted: bool,
    pub(super) notes: Vec<String>,
}

impl SummaryData {
    /// Whether at least the rate of one source was seen.
    pub(super) fn was_compared(&self) -> bool {
        self.sources.iter().any(|source| source.lowest_ppm.is_some())
    }
}
