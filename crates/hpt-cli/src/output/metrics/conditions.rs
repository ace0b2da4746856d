//! The metrics of what spoils a latency measurement: steal time, throttling, firmware interrupts, a changed clocksource.

use hpt_document::conditions::{Conditions, CpuConditions};

use super::gauge::{Gauge, of_rows, single, whole, yes};

/// Returns the gauges of a run. The label for the kind of document distinguishes runs of different commands.
pub(super) fn gauges(kind: &str, conditions: &Conditions) -> Vec<Gauge> {
    let of_cpus = |words, figure: fn(&CpuConditions) -> Option<f64>| {
        of_rows(&conditions.cpus, |row| vec![("cpu", row.cpu.to_string())], words, figure)
    };
    let limited = conditions.firmware.as_ref().and_then(|states| {
        let states = [states.under_voltage, states.frequency_capped, states.throttled, states.soft_temperature_limit];
        states.into_iter().flatten().reduce(|one, other| one || other)
    });
    let mut gauges = vec![
        of_cpus(
            ("hpt_run_stolen", "seconds", "Time that the hypervisor took from the CPU during the run (steal time)"),
            |cpu| cpu.stolen_s,
        ),
        of_cpus(
            ("hpt_run_thermal_throttles", "", "Number of times that the processor throttled the CPU during the run"),
            |cpu| cpu.thermal_throttles.map(whole),
        ),
        of_cpus(
            ("hpt_run_firmware_interrupts", "", "Number of firmware interrupts (SMI) of the CPU during the run"),
            |cpu| cpu.smi_count.map(whole),
        ),
        single(
            ("hpt_run_clocksource_changes", "", "Number of changes of the kernel's clocksource during the run"),
            conditions.clocksource_changes.map(whole),
        ),
        single(
            (
                "hpt_run_firmware_limited",
                "",
                "Whether the firmware reported under-voltage or throttling during the run: 1 yes, 0 no",
            ),
            limited.map(yes),
        ),
    ];
    for sample in gauges.iter_mut().flat_map(|gauge| &mut gauge.samples) {
        sample.labels.insert(0, ("document", kind.to_owned()));
    }
    gauges
}

#[cfg(test)]
mod tests {
    use hpt_document::conditions::{Conditions, FirmwareStates};

    use super::gauges;

    #[test]
    fn a_state_that_the_firmware_does_not_report_is_no_sample() {
        let limited = |states: Option<FirmwareStates>| {
            let found = gauges("latency-timer", &Conditions { firmware: states, ..Conditions::default() });
            found.last().and_then(|gauge| gauge.samples.first()).map(|sample| (sample.labels.clone(), sample.value))
        };
        let states = |throttled, under_voltage| {
            Some(FirmwareStates {
                under_voltage,
                frequency_capped: None,
                throttled,
                soft_temperature_limit: None,
                get_throttled: None,
            })
        };
        let labels = vec![("document", "latency-timer".to_owned())];
        assert_eq!(limited(None), None);
        assert_eq!(limited(states(None, None)), None);
        assert_eq!(limited(states(Some(false), None)), Some((labels.clone(), 0.0)));
        assert_eq!(limited(states(Some(false), Some(true))), Some((labels, 1.0)));
    }
}
