//! The kernel's counts for each measured CPU: idle states, throttling, firmware interrupts, steal time and interrupts.
//! This module computes increases.

use std::time::Duration;

use hpt_sys::host::{Host, count_lines, stolen_hundredths};

use super::data::{CpuConditions, IdleResidency};
use crate::measure::cpu_counters::{HUNDREDTH_NS, INTERRUPTS, STATISTICS, forwards, smi_count};

/// The maximum number of idle states of a CPU. Linux, include/linux/cpuidle.h: CPUIDLE_STATE_MAX.
const MOST_STATES: usize = 10;

/// The counts of all measured CPUs.
#[derive(Debug)]
pub(super) struct Counts(Vec<CpuCounts>);

#[derive(Clone, Debug, Default)]
pub(super) struct CpuCounts {
    interrupts: Option<u64>,
    stolen_hundredths: Option<u64>,
    thermal_throttles: Option<u64>,
    firmware_interrupts: Option<u64>,
    idle: Vec<IdleResidency>,
}

impl Counts {
    pub(super) fn read(host: &Host, cpus: &[usize]) -> Self {
        let whole = |path: &str| host.read(path).ok().and_then(|content| String::from_utf8(content).ok());
        let (interrupts, statistics) = (whole(INTERRUPTS), whole(STATISTICS));
        let counts = cpus.iter().map(|&cpu| CpuCounts {
            interrupts: interrupts.as_deref().and_then(|text| sum(text, cpu)),
            stolen_hundredths: statistics.as_deref().and_then(|text| stolen_hundredths(text, Some(cpu))),
            thermal_throttles: count_in(host, &file_of(cpu, "thermal_throttle/core_throttle_count")),
            // Most machines have no such device, or allow only root to read it.
            firmware_interrupts: host
                .open_to_read(&format!("/dev/cpu/{cpu}/msr"))
                .ok()
                .and_then(|file| smi_count(&file)),
            idle: idle(host, cpu),
        });
        Self(counts.collect())
    }

    pub(super) fn of(&self, index: usize) -> CpuCounts {
        self.0.get(index).cloned().unwrap_or_default()
    }
}

impl CpuCounts {
    /// Returns the increases until `end`. The CPU number and the frequency are set by the caller.
    pub(super) fn until(&self, end: &Self) -> CpuConditions {
        let by = |before: Option<u64>, now: Option<u64>| Some(forwards(before?, now?));
        let hundredths = by(self.stolen_hundredths, end.stolen_hundredths);
        CpuConditions {
            cpu: 0,
            frequency_hz: None,
            idle_states: (!end.idle.is_empty()).then(|| self.idle_until(end)),
            thermal_throttles: by(self.thermal_throttles, end.thermal_throttles),
            firmware_interrupts: by(self.firmware_interrupts, end.firmware_interrupts),
            stolen: hundredths.map(|hundredths| Duration::from_nanos(hundredths.saturating_mul(HUNDREDTH_NS))),
            interrupts: by(self.interrupts, end.interrupts),
        }
    }

    fn idle_until(&self, end: &Self) -> Vec<IdleResidency> {
        let states = end.idle.iter().filter_map(|state| {
            let before = self.idle.iter().find(|before| before.name == state.name)?;
            Some(IdleResidency {
                name: state.name.clone(),
                time: state.time.saturating_sub(before.time),
                entries: forwards(before.entries, state.entries),
            })
        });
        states.collect()
    }
}

/// Returns the number of interrupts of a CPU.
fn sum(text: &str, cpu: usize) -> Option<u64> {
    count_lines(text, Some(cpu)).map(|line| line.count).reduce(u64::saturating_add)
}

/// Returns the path of a file about a CPU. Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
pub(super) fn file_of(cpu: usize, name: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/{name}")
}

pub(super) fn count_in(host: &Host, path: &str) -> Option<u64> {
    host.number_in(path).is().and_then(|&count| u64::try_from(count).ok())
}

/// Reads the idle states. Linux, Documentation/admin-guide/pm/cpuidle.rst: the time is in microseconds.
fn idle(host: &Host, cpu: usize) -> Vec<IdleResidency> {
    let states = (0..MOST_STATES).map_while(|state| {
        let file = |name: &str| file_of(cpu, &format!("cpuidle/state{state}/{name}"));
        Some(IdleResidency {
            name: host.text(&file("name"))?,
            time: Duration::from_micros(count_in(host, &file("time"))?),
            entries: count_in(host, &file("usage"))?,
        })
    });
    states.collect()
}
