//! The conditions under which CPUs were measured: frequency, idle states, temperature, throttling, firmware interrupts,
//! steal time, interrupts, and the kernel's clock. This module judges none of them; the caller does.

mod counts;
mod gauges;

use std::time::Instant;

use hpt_document::conditions::{Conditions, CpuConditions};
use hpt_sys::host::Host;

use self::{counts::Counts, gauges::Gauges};

/// Reads the conditions at the beginning and at the end of a measurement, and in between if the caller asks for it.
///
/// Reading takes up to a few milliseconds. Call [`sample`](Self::sample) on a CPU that is not measured.
#[derive(Debug)]
pub struct ConditionsWatch {
    cpus: Vec<usize>,
    begun: Instant,
    first: Counts,
    gauges: Gauges,
}

impl ConditionsWatch {
    /// Reads the conditions for the first time.
    #[must_use]
    pub fn begin(host: &Host, cpus: impl IntoIterator<Item = usize>) -> Self {
        let cpus: Vec<usize> = cpus.into_iter().collect();
        let gauges = Gauges::first(host, &cpus);
        // The counts are read last here and first at the end, so that they do not include the time of other reads.
        Self { first: Counts::read(host, &cpus), begun: Instant::now(), cpus, gauges }
    }

    /// Reads the values that can change back during the measurement: frequency, temperature, throttling, clocksource
    /// and clock rate. No value is read whose reading interrupts a measured CPU.
    pub fn sample(&mut self, host: &Host) {
        self.gauges.read(host, &self.cpus, false);
    }

    /// Reads the conditions for the last time, and returns them.
    #[must_use]
    pub fn end(mut self, host: &Host) -> Conditions {
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        let last = Counts::read(host, &self.cpus);
        self.gauges.read(host, &self.cpus, true);
        let cpus = self.cpus.iter().enumerate().map(|(index, &cpu)| {
            let counted = self.first.of(index).until(&last.of(index), elapsed_s);
            self.gauges.with_frequency(index, CpuConditions { cpu, ..counted })
        });
        Conditions { cpus: cpus.collect(), ..self.gauges.conditions(elapsed_s) }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::ConditionsWatch;
    use hpt_sys::host::{Facts, Host};

    const FLAGS: &str = "sys/bus/platform/drivers/raspberrypi-firmware/soc:firmware/get_throttled";

    fn host(root: &Path) -> Host {
        Host::below(root, Facts::live())
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent directory")).expect("a new directory");
        fs::write(path, text).expect("ours");
    }

    #[test]
    fn a_machine_without_any_file_has_no_conditions() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = host(folder.path());
        let found = ConditionsWatch::begin(&host, [1]).end(&host);
        let [cpu] = found.cpus.as_slice() else { panic!("{found:?}") };
        assert_eq!((cpu.frequency_max_hz, cpu.idle_states.as_ref(), cpu.stolen_s), (None, None, None));
        assert_eq!((cpu.thermal_throttles, cpu.smi_count, cpu.interrupts_per_s), (None, None, None));
        assert_eq!((found.temperatures, found.firmware, found.slew), (None, None, None));
        assert_eq!((found.clocksource_end, found.clocksource_changes, found.readings), (None, None, 2));
    }

    #[test]
    fn throttling_that_begins_during_the_measurement_is_reported() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (root, host) = (folder.path(), host(folder.path()));
        write(root, FLAGS, "0\n");
        let watch = ConditionsWatch::begin(&host, [0]);
        assert_eq!(watch.end(&host).firmware.expect("a Raspberry Pi").throttled, Some(false));
        // The state has ended before the last reading, and only the bit for "has occurred" is left.
        let watch = ConditionsWatch::begin(&host, [0]);
        write(root, FLAGS, "40000\n");
        let found = watch.end(&host).firmware.expect("a Raspberry Pi");
        assert_eq!(
            (found.throttled, found.under_voltage, found.get_throttled),
            (Some(true), Some(false), Some(0x4_0000))
        );
        // It had occurred before the measurement.
        let found = ConditionsWatch::begin(&host, [0]).end(&host).firmware.expect("a Raspberry Pi");
        assert_eq!(found.throttled, Some(false));
        // A sample saw the state, which had also occurred before.
        let mut watch = ConditionsWatch::begin(&host, [0]);
        write(root, FLAGS, "40004\n");
        watch.sample(&host);
        write(root, FLAGS, "40000\n");
        assert_eq!(watch.end(&host).firmware.expect("a Raspberry Pi").throttled, Some(true));
    }

    #[test]
    fn a_board_with_a_voltage_alarm_reports_only_the_voltage() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (root, host) = (folder.path(), host(folder.path()));
        write(root, "sys/class/hwmon/hwmon1/name", "rpi_volt\n");
        write(root, "sys/class/hwmon/hwmon1/in0_lcrit_alarm", "0\n");
        let watch = ConditionsWatch::begin(&host, [0]);
        write(root, "sys/class/hwmon/hwmon1/in0_lcrit_alarm", "1\n");
        let states = watch.end(&host).firmware.expect("a Raspberry Pi");
        assert_eq!((states.under_voltage, states.throttled, states.get_throttled), (Some(true), None, None));
    }

    #[test]
    fn counts_and_gauges_are_those_of_the_cpu_since_the_beginning() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (root, host) = (folder.path(), host(folder.path()));
        let cpu = "sys/devices/system/cpu/cpu1";
        let idle = |time_us: u64, entries: u64| {
            write(root, &format!("{cpu}/cpuidle/state0/name"), "POLL\n");
            write(root, &format!("{cpu}/cpuidle/state0/time"), "7\n");
            write(root, &format!("{cpu}/cpuidle/state0/usage"), "1\n");
            write(root, &format!("{cpu}/cpuidle/state1/name"), "C1\n");
            write(root, &format!("{cpu}/cpuidle/state1/time"), &format!("{time_us}\n"));
            write(root, &format!("{cpu}/cpuidle/state1/usage"), &format!("{entries}\n"));
        };
        let state = |frequency_khz: u64, interrupts: u64, throttles: u64, source: &str, millidegrees: i64| {
            write(root, &format!("{cpu}/cpufreq/scaling_cur_freq"), &format!("{frequency_khz}\n"));
            write(root, &format!("{cpu}/thermal_throttle/core_throttle_count"), &format!("{throttles}\n"));
            write(root, "proc/stat", &format!("cpu 0 0 0 0 0 0 0 99\ncpu1 0 0 0 0 0 0 0 {interrupts}\n"));
            write(root, "proc/interrupts", &format!("   CPU0 CPU1\n 5: 1000 {interrupts} chip  dev\nERR: 3\n"));
            write(root, "sys/devices/system/clocksource/clocksource0/current_clocksource", &format!("{source}\n"));
            write(root, "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
            write(root, "sys/class/thermal/thermal_zone0/temp", &format!("{millidegrees}\n"));
        };
        idle(1_000, 10);
        state(1_500_000, 100, 2, "tsc", 50_000);
        let mut watch = ConditionsWatch::begin(&host, [1]);
        state(600_000, 100, 2, "hpet", 70_000);
        watch.sample(&host);
        idle(3_500, 15);
        state(900_000, 130, 3, "tsc", 60_000);
        let found = watch.end(&host);
        let cpu = &found.cpus[0];
        let states = cpu.idle_states.as_ref().expect("two states");
        assert_eq!((states[0].name.as_str(), states[0].share, states[0].entries), ("POLL", 0.0, 0));
        assert_eq!((states[1].name.as_str(), states[1].entries), ("C1", 5));
        assert!(states[1].share > 0.0 && cpu.interrupts_per_s.is_some_and(|rate| rate > 30.0), "{cpu:?}");
        assert_eq!((cpu.stolen_s, cpu.thermal_throttles), (Some(0.3), Some(1)));
        let [least, mean, most] =
            [cpu.frequency_min_hz, cpu.frequency_mean_hz, cpu.frequency_max_hz].map(Option::unwrap_or_default);
        assert_eq!(most, 1.5e9);
        assert!(least == 0.6e9 && mean == 1e9 || least == 0.9e9, "{cpu:?}");
        let zone = &found.temperatures.as_ref().expect("one zone")[0];
        assert_eq!(
            (zone.zone.as_str(), zone.min_celsius, zone.mean_celsius, zone.max_celsius),
            ("cpu-thermal", 50.0, 60.0, 70.0)
        );
        assert_eq!((found.clocksource_begin.as_deref(), found.clocksource_changes), (Some("tsc"), Some(2)));
        assert_eq!(found.readings, 3);
    }

    #[test]
    fn a_captured_machine_has_conditions_that_do_not_change() {
        // Its counts are those of one moment.
        let capture = hpt_sys::host::Capture::default();
        let host = Host::captured(capture, Facts::live());
        let found = ConditionsWatch::begin(&host, [0]).end(&host);
        assert_eq!((found.clocksource_changes.unwrap_or_default(), found.slew), (0, None));
    }
}
