//! The documents of `hpt watch`: one for each interval, and the summary.

use serde::{Deserialize, Serialize};

use crate::{cpu_absence::CpuAbsence, head::Head, not_run::NotRun, words::word_enum};

/// One interval of a watch. Each interval is a document on a separate line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt watch: one interval"))]
pub struct WatchDocument {
    /// The version of the document layout.
    pub schema: u32,
    /// The kind of document.
    pub kind: String,
    /// The version of hpt.
    pub hpt: String,
    /// The number of the interval, starting at 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub interval: u64,
    /// The end of the interval, in seconds since the start of the watch, including time in suspend.
    pub at_s: f64,
    /// The reference that the other sources are compared with.
    pub reference: String,
    /// The kernel's active clocksource.
    pub clocksource: Option<String>,
    /// Number of rounds of readings that the thread made on CPUs other than the one that it is pinned to.
    pub rounds_on_other_cpus: u64,
    /// One row for each source.
    pub sources: Vec<WatchRow>,
    /// The offsets between the counters of different CPUs.
    pub cores: Vec<CpuOffset>,
    /// The system-wide events in this interval.
    pub events: Vec<MachineEvent>,
    /// Faults that all sources share. The cause is the reference, a counter that all sources use, or a
    /// rate of the kernel's clocks that is far off (adjtimex).
    pub shared_faults: Vec<String>,
    /// The state of clock synchronization.
    pub synchronization: Synchronization,
}

/// The results of one source in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchRow {
    /// The number of the interval, starting at 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub interval: u64,
    /// The end of the interval, in seconds since the start of the watch, including time in suspend.
    pub at_s: f64,
    /// The name of the source.
    pub source: String,
    /// The offset of the source from the reference.
    #[serde(flatten)]
    pub offset: WatchOffset,
    /// The frequency error of the source in this interval, relative to the nominal rate, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub frequency_error_ppm: Option<f64>,
    /// The worst-case error bound of `frequency_error_ppm`, in parts per million, assuming that the rate was constant
    /// in the interval.
    pub frequency_bound_ppm: Option<f64>,
    /// The steps of the source.
    #[serde(flatten)]
    pub steps: WatchSteps,
    /// The faults of the source in this interval.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::source_faults))]
    pub faults: Vec<String>,
    /// Messages that describe the faults and other events.
    pub messages: Vec<String>,
}

/// The summary of all intervals of a watch. It is printed as the last line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt watch: the summary of all intervals"))]
pub struct WatchSummaryDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The CPU that the thread is pinned to; null if it is not pinned. `cpu_absences` lists the periods in which the
    /// thread ran on other CPUs.
    pub cpu: Option<usize>,
    /// The reference that the other sources are compared with.
    pub reference: String,
    /// The limits beyond which a source is faulty.
    pub limits: WatchLimits,
    /// The duration of the watch, in seconds, including time in suspend.
    pub elapsed_s: f64,
    /// Number of intervals.
    pub intervals: u64,
    /// Number of rounds of readings.
    pub rounds: u64,
    /// Periods in which the pinned thread did not run on its CPU, in chronological order. All other values include the
    /// rounds of readings that the thread made on other CPUs.
    pub cpu_absences: Vec<CpuAbsence>,
    /// The time that the measuring thread did not run although it was ready.
    #[serde(default)]
    pub not_run: Option<NotRun>,
    /// Whether a source exceeded the limits.
    pub faulty: bool,
    /// One row for each source.
    pub sources: Vec<WatchSummaryRow>,
    /// The offsets between the counters of different CPUs.
    pub cores: Vec<CpuOffset>,
    /// The system-wide events during the watch.
    pub events: Vec<MachineEvent>,
    /// Periods in which a CPU was offline and therefore not compared with other CPUs.
    pub offline: Vec<CpuOffline>,
    /// Faults that all sources share. The cause is the reference, a counter that all sources use, or a
    /// rate of the kernel's clocks that is far off (adjtimex).
    pub shared_faults: Vec<String>,
    /// The state of clock synchronization.
    pub synchronization: Synchronization,
    /// Whether Ctrl-C or another signal ended the run early.
    pub interrupted: bool,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The results of one source over all intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchSummaryRow {
    /// The name of the source.
    pub source: String,
    /// The rate that the source is compared with, in hertz.
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub expected_hz: Option<f64>,
    /// The origin of `expected_hz`, as in `hpt calibrate`; `measurement` if no nominal rate is stated and the rate
    /// measured at the start is used.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub expected_origin: Option<String>,
    /// The offset of the source from the reference.
    #[serde(flatten)]
    pub offset: WatchOffset,
    /// The lowest frequency error in any interval, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub lowest_ppm: Option<f64>,
    /// The worst-case error bound of `lowest_ppm`, in parts per million, assuming that the rate was constant in that
    /// interval.
    pub lowest_bound_ppm: Option<f64>,
    /// The highest frequency error in any interval, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub highest_ppm: Option<f64>,
    /// The worst-case error bound of `highest_ppm`, in parts per million, assuming that the rate was constant in that
    /// interval.
    pub highest_bound_ppm: Option<f64>,
    /// The steps of the source.
    #[serde(flatten)]
    pub steps: WatchSteps,
    /// Number of faults of the source.
    pub faults: u64,
    /// A message that describes the first fault; null if there was no fault.
    pub first_fault: Option<String>,
    /// The offset over time, at equal intervals. For a long watch, not every interval is listed.
    #[cfg_attr(feature = "schema", schemars(length(max = 501)))]
    pub time_series: Vec<OffsetPoint>,
}

/// The offset of a source from the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchOffset {
    /// Number of bursts of readings.
    pub bursts: u64,
    /// The width of the narrowest bracket, in nanoseconds.
    pub bracket_ns: Option<u64>,
    /// The offset that has accumulated since the last interruption, in nanoseconds, computed with the nominal rate. In
    /// a summary of several intervals, this is the offset at the end of the last interval.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub offset_ns: Option<f64>,
    /// The worst-case error bound of `offset_ns`, in nanoseconds.
    pub offset_bound_ns: Option<f64>,
}

/// The steps of a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchSteps {
    /// Number of steps that exceeded the limit.
    pub steps: u64,
    /// Number of readings lower than the previous reading.
    pub backward_steps: u64,
    /// Number of times that the source was set; 0 if the source cannot be set.
    pub times_set: u64,
}

/// The limits beyond which a source is faulty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchLimits {
    /// The largest accepted frequency error, in parts per million.
    pub frequency_error_ppm: f64,
    /// Whether the tolerance of the nominal rate is added to `frequency_error_ppm`.
    pub nominal_tolerance_added: bool,
    /// The largest accepted step, in nanoseconds.
    pub step_ns: u64,
    /// The largest accepted offset between the counters of two CPUs, in nanoseconds.
    pub core_offset_ns: u64,
}

/// The offset between the counters of two CPUs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuOffset {
    /// The name of the source.
    pub source: String,
    /// The first CPU.
    pub first_cpu: usize,
    /// The second CPU.
    pub second_cpu: usize,
    /// The lower bound on the offset of the second CPU's counter from the first CPU's counter, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub min_ns: f64,
    /// The upper bound on the offset of the second CPU's counter from the first CPU's counter, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub max_ns: f64,
    /// Number of timestamps passed between the two CPUs.
    pub handovers: u64,
    /// A message that describes the fault if the offset certainly exceeds the limit; otherwise null.
    pub fault: Option<String>,
}

/// A system-wide event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineEvent {
    /// The kind of event.
    pub kind: MachineEventKind,
    /// The time of the event, in seconds since the start of the watch.
    pub at_s: f64,
    /// The minimum duration of the suspend, in nanoseconds; null for other events.
    pub suspended_ns: Option<u64>,
    /// A description of the event.
    pub message: String,
}

/// A period in which a CPU was offline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuOffline {
    /// The CPU.
    pub cpu: usize,
    /// The time at which the CPU was first observed offline, in seconds since the start of the watch.
    pub from_s: f64,
    /// The time at which the CPU was observed online again, in seconds since the start of the watch; null if it was
    /// still offline at the end.
    pub to_s: Option<f64>,
}

/// The state of clock synchronization, as the kernel reports it (adjtimex).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Synchronization {
    /// Whether the state could be read.
    pub readable: bool,
    /// Whether the kernel considers its clock synchronized; null if the state could not be read.
    pub synchronized: Option<bool>,
    /// The status flags of the kernel's clock (STA_…).
    pub status: Option<u32>,
    /// The active frequency correction of the kernel's clock, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub frequency_ppm: Option<f64>,
    /// The deviation of the active tick length from the default tick length, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub tick_ppm: Option<f64>,
    /// The maximum error of the kernel's clock, in nanoseconds.
    pub maximum_error_ns: Option<u64>,
    /// The estimated error of the kernel's clock, in nanoseconds.
    pub estimated_error_ns: Option<u64>,
    /// The names of the running time daemons; null if no processes are visible.
    pub daemons: Option<Vec<String>>,
}

/// The offset of a source at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffsetPoint(
    /// The time, in seconds since the start of the watch.
    pub f64,
    /// The offset of the source from the reference, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub f64,
    /// The worst-case error bound of the offset, in nanoseconds.
    pub f64,
);

word_enum! {
    /// The kind of a system-wide event.
    pub enum MachineEventKind {
        /// The machine was suspended.
        Suspend = "suspend",
        /// The hypervisor migrated the machine to another host, or stopped and restarted it (vmclock).
        Migration = "migration",
        /// The kernel switched to another clocksource, or may have done so temporarily.
        Clocksource = "clocksource",
        /// The kernel no longer considers its clock synchronized.
        Desynchronized = "desynchronized",
        /// A CPU went offline.
        CpuOffline = "cpu-offline",
        /// A CPU came online.
        CpuOnline = "cpu-online",
    }
}
