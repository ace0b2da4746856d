//! The types of the conditions during a measurement.

use std::time::Duration;

use hpt_sys::host::Supply;

/// The bits of `vcgencmd get_throttled` for the current state. The same bits, shifted left by 16, report whether the
/// state has occurred since boot. raspberrypi.com: vcgencmd get_throttled.
pub(super) const CURRENT: u32 = 0xf;
pub(super) const UNDER_VOLTAGE: u32 = 1;
const CAPPED: u32 = 1 << 1;
const THROTTLED: u32 = 1 << 2;
const SOFT_LIMIT: u32 = 1 << 3;

/// The conditions during a measurement. Values that could not be read are `None`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Conditions {
    /// The time from the first to the last reading.
    pub elapsed: Duration,
    /// The number of times that the conditions were read.
    pub readings: u64,
    /// The conditions of each measured CPU.
    pub cpus: Vec<CpuConditions>,
    /// The temperature of each thermal zone; `None` if the machine has none.
    pub temperatures: Option<Vec<ZoneTemperature>>,
    /// The states that the firmware of a Raspberry Pi reported; `None` on other machines.
    pub firmware: Option<FirmwareStates>,
    /// The kernel's clocksource.
    pub clocksource: ClocksourceUse,
    /// The rate correction of the kernel's clocks.
    pub slew: Option<ClockSlew>,
}

/// The conditions of one CPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuConditions {
    /// The CPU.
    pub cpu: usize,
    /// The CPU frequency, in hertz.
    pub frequency_hz: Option<ValueRange>,
    /// The idle states.
    pub idle_states: Option<Vec<IdleResidency>>,
    /// The number of times that the processor throttled the core because of its temperature.
    pub thermal_throttles: Option<u64>,
    /// The number of firmware interrupts (SMI) on the core.
    pub firmware_interrupts: Option<u64>,
    /// The steal time, with a granularity of 10 ms.
    pub stolen: Option<Duration>,
    /// The number of interrupts.
    pub interrupts: Option<u64>,
}

/// The smallest, the mean and the largest of several readings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueRange {
    /// The smallest reading.
    pub min: f64,
    /// The mean of the readings.
    pub mean: f64,
    /// The largest reading.
    pub max: f64,
}

/// The time that a CPU spent in one idle state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleResidency {
    /// The name of the idle state, such as `C6`.
    pub name: String,
    /// The time that the CPU spent in the state. A period in the state that has not ended yet is not included.
    pub time: Duration,
    /// The number of times that the CPU entered the state.
    pub entries: u64,
}

/// The temperature of one thermal zone, in degrees Celsius.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ZoneTemperature {
    /// The kernel's name for the zone.
    pub zone: String,
    /// The temperature.
    pub celsius: ValueRange,
}

/// The states that the firmware of a Raspberry Pi reported during a measurement. `None`: the kernel does not report the
/// state on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FirmwareStates {
    /// The supply voltage was too low.
    pub under_voltage: Option<bool>,
    /// The firmware limited the CPU frequency.
    pub frequency_capped: Option<bool>,
    /// The firmware throttled the CPU.
    pub throttled: Option<bool>,
    /// The temperature exceeded the soft limit.
    pub soft_temperature_limit: Option<bool>,
    /// All flags at the end, as `vcgencmd get_throttled` prints them.
    pub flags: Option<u32>,
}

/// The kernel's clocksource during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClocksourceUse {
    /// The clocksource at the beginning.
    pub begin: Option<String>,
    /// The clocksource at the end.
    pub end: Option<String>,
    /// The number of readings with another clocksource than the reading before.
    pub changes: u64,
}

/// The rate correction of the kernel's clocks during a measurement, as adjtimex(2) reports it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClockSlew {
    /// The rate correction, in parts per million.
    pub rate_ppm: ValueRange,
    /// The remaining offset that the kernel was correcting at the beginning, in nanoseconds.
    pub offset_begin_ns: i64,
    /// The remaining offset that the kernel was correcting at the end, in nanoseconds.
    pub offset_end_ns: i64,
}

impl FirmwareStates {
    /// Combines the states at the beginning and at the end with the current states that were seen at any reading.
    pub(super) fn of(begin: Supply, end: Supply, seen: u32) -> Self {
        match (begin, end) {
            (Supply::Flags(begin), Supply::Flags(end)) => {
                let occurred = (end >> 16) & !(begin >> 16) & CURRENT;
                let states = seen | occurred;
                let is = |state: u32| Some(states & state != 0);
                Self {
                    under_voltage: is(UNDER_VOLTAGE),
                    frequency_capped: is(CAPPED),
                    throttled: is(THROTTLED),
                    soft_temperature_limit: is(SOFT_LIMIT),
                    flags: Some(end),
                }
            }
            _ => Self { under_voltage: Some(seen & UNDER_VOLTAGE != 0), ..Self::default() },
        }
    }
}
