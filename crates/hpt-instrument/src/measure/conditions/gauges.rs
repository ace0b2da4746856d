//! The values that can change back during a measurement: frequency, temperature, throttling, clocksource and clock
//! rate. This module accumulates readings.

use hpt_core::clock;
use hpt_document::{
    conditions::{ClockSlew, Conditions, CpuConditions, FirmwareStates, ZoneTemperature},
    round::rounded,
};
use hpt_sys::{
    adjtime,
    host::{Host, KernelRelease, Supply},
};

use super::counts::{count_in, file_of};

/// The bits of `vcgencmd get_throttled` for the current state. The same bits, shifted left by 16, report whether the
/// state has occurred since boot. raspberrypi.com: vcgencmd get_throttled.
const CURRENT: u32 = 0xf;
const UNDER_VOLTAGE: u32 = 1;
const CAPPED: u32 = 1 << 1;
const THROTTLED: u32 = 1 << 2;
const SOFT_LIMIT: u32 = 1 << 3;

/// The directory of thermal zones. Linux, Documentation/driver-api/thermal/sysfs-api.rst.
const ZONES: &str = "/sys/class/thermal";
/// Since this version, a read of `scaling_cur_freq` on x86-64 does not interrupt the CPU. Linux 5.18,
/// arch/x86/kernel/cpu/aperfmperf.c: `arch_freq_get_on_cpu`.
const FREQUENCY_WITHOUT_INTERRUPT: KernelRelease = KernelRelease::new(5, 18);

/// The sum and the limits of several readings.
#[derive(Clone, Copy, Debug)]
struct Readings {
    count: u32,
    sum: f64,
    min: f64,
    max: f64,
}

impl Readings {
    const NONE: Self = Self { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Returns the smallest reading, the mean and the largest reading.
    fn range(&self) -> Option<[f64; 3]> {
        (self.count > 0).then(|| [self.min, self.sum / f64::from(self.count), self.max])
    }
}

/// The accumulated readings.
#[derive(Debug)]
pub(super) struct Gauges {
    readings: u64,
    frequencies: Vec<Readings>,
    /// The name of each zone, its file, and its temperatures in degrees Celsius.
    zones: Vec<(String, String, Readings)>,
    /// The first and the last report of the firmware.
    supply: Option<(Supply, Supply)>,
    /// The states that were current at any reading.
    seen: u32,
    /// The clocksource at the first and at the last reading, and the number of changes.
    clocksource: (Option<String>, Option<String>, u64),
    rates: Readings,
    /// The offset at the first and at the last reading, in nanoseconds.
    offsets_ns: Option<(i64, i64)>,
}

impl Gauges {
    /// Reads all values for the first time.
    pub(super) fn first(host: &Host, cpus: &[usize]) -> Self {
        let zones = host.devices_of_class("thermal").into_iter().filter(|name| name.starts_with("thermal_zone"));
        let zones = zones.filter_map(|zone| {
            let name = host.text(&format!("{ZONES}/{zone}/type"))?;
            Some((name, format!("{ZONES}/{zone}/temp"), Readings::NONE))
        });
        let mut gauges = Self {
            readings: 0,
            frequencies: vec![Readings::NONE; cpus.len()],
            zones: zones.collect(),
            supply: host.supply().map(|supply| (supply, supply)),
            seen: 0,
            clocksource: (None, None, 0),
            rates: Readings::NONE,
            offsets_ns: None,
        };
        gauges.read(host, cpus, true);
        gauges
    }

    /// Reads all values. `may_interrupt` permits reads that interrupt a measured CPU.
    pub(super) fn read(&mut self, host: &Host, cpus: &[usize], may_interrupt: bool) {
        if may_interrupt || !frequency_interrupts(host) {
            for (&cpu, readings) in cpus.iter().zip(&mut self.frequencies) {
                if let Some(khz) = count_in(host, &file_of(cpu, "cpufreq/scaling_cur_freq")).filter(|&khz| khz > 0) {
                    readings.add(as_f64(khz) * 1e3);
                }
            }
        }
        for (_, file, readings) in &mut self.zones {
            if let Some(&millidegrees) = host.number_in(file).is() {
                readings.add(f64::from(i32::try_from(millidegrees).unwrap_or(i32::MAX)) / 1e3);
            }
        }
        let now = self.supply.as_ref().and_then(|_| host.supply());
        if let (Some((_, last)), Some(now)) = (&mut self.supply, now) {
            *last = now;
            self.seen |= match now {
                Supply::Flags(flags) => flags & CURRENT,
                Supply::TooLow(is_too_low) => u32::from(is_too_low) * UNDER_VOLTAGE,
            };
        }
        self.read_clock(host);
        self.readings += 1;
    }

    fn read_clock(&mut self, host: &Host) {
        let source = host.clock_sources().current;
        if self.readings == 0 {
            self.clocksource.0.clone_from(&source);
        } else if source.is_some() && self.clocksource.1.is_some() && source != self.clocksource.1 {
            self.clocksource.2 += 1;
        }
        self.clocksource.1 = source;
        // The kernel's corrections are those of this machine, not of a machine in a snapshot.
        if !host.is_live() {
            return;
        }
        if let (Ok(discipline), Ok(slew)) = (clock::discipline(), adjtime::read_slew()) {
            self.rates.add(discipline.frequency_ppm + discipline.tick_ppm);
            let (first, _) = self.offsets_ns.unwrap_or((slew.offset_ns, slew.offset_ns));
            self.offsets_ns = Some((first, slew.offset_ns));
        }
    }

    /// Adds the frequencies of a CPU, which is the one with this index.
    pub(super) fn with_frequency(&self, index: usize, conditions: CpuConditions) -> CpuConditions {
        let range = self.frequencies.get(index).and_then(Readings::range);
        let [frequency_min_hz, frequency_mean_hz, frequency_max_hz] =
            range.map_or([None; 3], |range| range.map(|hz| Some(hz.round())));
        CpuConditions { frequency_min_hz, frequency_mean_hz, frequency_max_hz, ..conditions }
    }

    /// Returns all conditions but those of the CPUs.
    pub(super) fn conditions(&self, elapsed_s: f64) -> Conditions {
        let zones = self.zones.iter().filter_map(|(zone, _, readings)| {
            let [min_celsius, mean_celsius, max_celsius] = readings.range()?.map(rounded);
            Some(ZoneTemperature { zone: zone.clone(), min_celsius, mean_celsius, max_celsius })
        });
        let zones: Vec<_> = zones.collect();
        let slew = self.offsets_ns.zip(self.rates.range()).map(|((offset_begin_ns, offset_end_ns), rates)| {
            let [rate_min_ppm, rate_mean_ppm, rate_max_ppm] = rates.map(rounded);
            ClockSlew { rate_min_ppm, rate_mean_ppm, rate_max_ppm, offset_begin_ns, offset_end_ns }
        });
        let (clocksource_begin, clocksource_end, changes) = self.clocksource.clone();
        Conditions {
            elapsed_s: rounded(elapsed_s),
            readings: self.readings,
            temperatures: (!zones.is_empty()).then_some(zones),
            firmware: self.supply.map(|(begin, end)| firmware(begin, end, self.seen)),
            clocksource_changes: clocksource_end.as_ref().map(|_| changes),
            clocksource_begin,
            clocksource_end,
            slew,
            ..Conditions::default()
        }
    }
}

/// Combines the states at the beginning and at the end with the current states that were seen at any reading.
fn firmware(begin: Supply, end: Supply, seen: u32) -> FirmwareStates {
    match (begin, end) {
        (Supply::Flags(begin), Supply::Flags(end)) => {
            let occurred = (end >> 16) & !(begin >> 16) & CURRENT;
            let states = seen | occurred;
            let is = |state: u32| Some(states & state != 0);
            FirmwareStates {
                under_voltage: is(UNDER_VOLTAGE),
                frequency_capped: is(CAPPED),
                throttled: is(THROTTLED),
                soft_temperature_limit: is(SOFT_LIMIT),
                get_throttled: Some(end),
            }
        }
        _ => FirmwareStates { under_voltage: Some(seen & UNDER_VOLTAGE != 0), ..FirmwareStates::default() },
    }
}

/// Returns whether reading the frequency of a CPU interrupts that CPU.
fn frequency_interrupts(host: &Host) -> bool {
    let facts = host.facts();
    let is_without =
        KernelRelease::parse(&facts.kernel_release).is_some_and(|release| release >= FREQUENCY_WITHOUT_INTERRUPT);
    facts.architecture.is_x86() && !is_without
}

#[expect(clippy::cast_precision_loss, reason = "a frequency in kilohertz is far below 2^53")]
const fn as_f64(khz: u64) -> f64 {
    khz as f64
}

#[cfg(test)]
mod tests {
    use super::frequency_interrupts;
    use hpt_sys::host::{Architecture, Facts, Host};

    #[test]
    fn only_old_x86_kernels_interrupt_a_cpu_to_read_its_frequency() {
        let of = |architecture, release: &str| {
            let facts = Facts { architecture, kernel_release: release.to_owned(), ..Facts::live() };
            frequency_interrupts(&Host::below("/nowhere", facts))
        };
        assert!(of(Architecture::X86_64, "5.10.0-30-amd64") && of(Architecture::X86_64, "unknown"));
        assert!(!of(Architecture::X86_64, "6.1.0-13-amd64") && !of(Architecture::Aarch64, "5.10.0"));
    }
}
