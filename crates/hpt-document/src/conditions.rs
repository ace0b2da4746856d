//! Types for the conditions during a measurement: what happened meanwhile on the measured CPUs and on the machine.

use serde::{Deserialize, Serialize};

/// The conditions during a measurement. hpt reads them at the beginning and at the end, and about once per second in
/// between if there is a CPU that is not measured. Values that could not be read are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conditions {
    /// The time from the first to the last reading of the conditions, in seconds.
    pub elapsed_s: f64,
    /// Number of times that the conditions were read.
    pub readings: u64,
    /// The CPU on which hpt read the conditions during the measurement. Null if hpt read them only at the beginning and
    /// at the end, because every CPU was measured.
    pub sampled_on_cpu: Option<usize>,
    /// One row for each measured CPU. If the thread was not pinned, these are all CPUs on which it was allowed to run.
    pub cpus: Vec<CpuConditions>,
    /// The temperature of each thermal zone; null if the kernel reports none.
    pub temperatures: Option<Vec<ZoneTemperature>>,
    /// The states that the firmware of a Raspberry Pi reported during the measurement; null on other machines.
    pub firmware: Option<FirmwareStates>,
    /// The kernel's clocksource at the beginning; null if it cannot be read.
    pub clocksource_begin: Option<String>,
    /// The kernel's clocksource at the end; null if it cannot be read.
    pub clocksource_end: Option<String>,
    /// Number of readings that found another clocksource than the reading before; null if the clocksource cannot be
    /// read.
    pub clocksource_changes: Option<u64>,
    /// The correction of the kernel's clocks; null if adjtimex(2) is not available.
    pub slew: Option<ClockSlew>,
}

/// The conditions of one measured CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuConditions {
    /// The CPU.
    pub cpu: usize,
    /// The lowest observed frequency, in hertz; null if the kernel does not report the frequency.
    pub frequency_min_hz: Option<f64>,
    /// The mean of the observed frequencies, in hertz; null if the kernel does not report the frequency.
    pub frequency_mean_hz: Option<f64>,
    /// The highest observed frequency, in hertz; null if the kernel does not report the frequency.
    pub frequency_max_hz: Option<f64>,
    /// The time in each idle state; null if the kernel does not report idle states.
    pub idle_states: Option<Vec<IdleResidency>>,
    /// Number of times that the processor throttled the core because of its temperature; null if it does not count
    /// them.
    pub thermal_throttles: Option<u64>,
    /// Number of system management interrupts (SMI) on the core; null if it cannot be read.
    pub smi_count: Option<u64>,
    /// The steal time, in seconds: the hypervisor ran other guests although the CPU had work. Null if the kernel does not
    /// report it.
    pub stolen_s: Option<f64>,
    /// Interrupts per second; null if /proc/interrupts cannot be read.
    pub interrupts_per_s: Option<f64>,
}

/// The time that a CPU spent in one idle state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct IdleResidency {
    /// The name of the idle state.
    pub name: String,
    /// The part of the elapsed time that the CPU spent in the state, from 0 to 1.
    pub share: f64,
    /// Number of times that the CPU entered the state.
    pub entries: u64,
}

/// The temperature of one thermal zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ZoneTemperature {
    /// The kernel's name for the zone.
    pub zone: String,
    /// The lowest observed temperature, in degrees Celsius.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub min_celsius: f64,
    /// The mean of the observed temperatures, in degrees Celsius.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub mean_celsius: f64,
    /// The highest observed temperature, in degrees Celsius.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub max_celsius: f64,
}

/// The states that the firmware of a Raspberry Pi reported during the measurement. A state is null if the kernel does
/// not report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FirmwareStates {
    /// Whether the supply voltage was too low.
    pub under_voltage: Option<bool>,
    /// Whether the firmware limited the CPU frequency.
    pub frequency_capped: Option<bool>,
    /// Whether the firmware throttled the CPU.
    pub throttled: Option<bool>,
    /// Whether the temperature exceeded the soft limit.
    pub soft_temperature_limit: Option<bool>,
    /// All flags at the end of the measurement, as `vcgencmd get_throttled` prints them.
    pub get_throttled: Option<u32>,
}

/// The correction of the kernel's clocks, as adjtimex(2) reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockSlew {
    /// The lowest observed rate correction, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub rate_min_ppm: f64,
    /// The mean of the observed rate corrections, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub rate_mean_ppm: f64,
    /// The highest observed rate correction, in parts per million.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub rate_max_ppm: f64,
    /// The offset that the kernel still had to correct at the beginning, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub offset_begin_ns: i64,
    /// The offset that the kernel still had to correct at the end, in nanoseconds.
    #[cfg_attr(feature = "schema", schemars(transform = crate::constraints::signed))]
    pub offset_end_ns: i64,
}
