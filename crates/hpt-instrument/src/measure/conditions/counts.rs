//! The kernel's counts for each measured CPU: idle states, throttling, firmware interrupts, steal time and interrupts.
//! This module computes increases.

use hpt_document::{
    conditions::{CpuConditions, IdleResidency},
    round::{rounded, rounded_share},
};
use hpt_sys::host::{Host, count_lines, stolen_hundredths};

use crate::measure::cpu_counters::{INTERRUPTS, STATISTICS, forwards, smi_count};

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
    idle: Vec<IdleState>,
}

/// The values that the kernel counts for an idle state.
#[derive(Clone, Debug)]
struct IdleState {
    name: String,
    time_us: u64,
    entries: u64,
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
    /// Returns the increases until `end`, which came this time later. The CPU number and the frequency are set by the
    /// caller.
    #[expect(clippy::cast_precision_loss, reason = "numbers of interrupts and hundredths of a second")]
    pub(super) fn until(&self, end: &Self, elapsed_s: f64) -> CpuConditions {
        let by = |before: Option<u64>, now: Option<u64>| Some(forwards(before?, now?));
        let hundredths = by(self.stolen_hundredths, end.stolen_hundredths);
        let interrupts = by(self.interrupts, end.interrupts).filter(|_| elapsed_s > 0.0);
        CpuConditions {
            idle_states: (!end.idle.is_empty()).then(|| self.idle_until(end, elapsed_s)),
            thermal_throttles: by(self.thermal_throttles, end.thermal_throttles),
            smi_count: by(self.firmware_interrupts, end.firmware_interrupts),
            stolen_s: hundredths.map(|hundredths| rounded(hundredths as f64 / 100.0)),
            interrupts_per_s: interrupts.map(|count| rounded(count as f64 / elapsed_s)),
            ..CpuConditions::default()
        }
    }

    /// A period in a state that has not ended yet is not included.
    #[expect(clippy::cast_precision_loss, reason = "a share of a measurement")]
    fn idle_until(&self, end: &Self, elapsed_s: f64) -> Vec<IdleResidency> {
        let share = |time_us: u64| if elapsed_s > 0.0 { (time_us as f64 / 1e6 / elapsed_s).min(1.0) } else { 0.0 };
        let states = end.idle.iter().filter_map(|state| {
            let before = self.idle.iter().find(|before| before.name == state.name)?;
            Some(IdleResidency {
                name: state.name.clone(),
                share: rounded_share(share(state.time_us.saturating_sub(before.time_us))),
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
fn idle(host: &Host, cpu: usize) -> Vec<IdleState> {
    let states = (0..MOST_STATES).map_while(|state| {
        let file = |name: &str| file_of(cpu, &format!("cpuidle/state{state}/{name}"));
        Some(IdleState {
            name: host.text(&file("name"))?,
            time_us: count_in(host, &file("time"))?,
            entries: count_in(host, &file("usage"))?,
        })
    });
    states.collect()
}
