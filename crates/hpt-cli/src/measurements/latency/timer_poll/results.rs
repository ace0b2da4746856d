//! What each thread measures: its latencies, their course over time, and what kept the thread from its CPU.

use std::sync::{Mutex, PoisonError};

use hpt_document::{cpu_absence::CpuAbsence, not_run::NotRun, wake_latency::WakeLatencyRow};
use hpt_instrument::measure::{Latencies, Wake};

use super::document::row;
use crate::{
    output::latency_files::ThreadLatencies,
    sampling::{
        late_deadlines::LateDeadlines, live_lines::Snapshot, realtime_settings::EffectiveSettings,
        time_series::TimeSeries,
    },
};

/// The results of one thread. The measuring thread waits for a reader of the counts only if its backlog is full.
pub(super) struct Counts {
    pub(super) cpu: Option<usize>,
    pub(super) found: Mutex<WakeResults>,
    /// Available after the settings of the thread were applied.
    pub(super) outcome: Mutex<Option<WakeOutcome>>,
}

/// The settings of a thread and, after it has ended, what kept it from its CPU.
#[derive(Clone)]
pub(super) struct WakeOutcome {
    pub(super) settings: EffectiveSettings,
    pub(super) absences: Vec<CpuAbsence>,
    pub(super) not_run: NotRun,
}

/// The latencies of the wake-ups, and their time series.
pub(super) struct WakeResults {
    pub(super) latencies: Latencies,
    pub(super) time_series: TimeSeries,
    pub(super) last_ns: Option<u64>,
}

impl WakeResults {
    pub(super) fn new() -> Self {
        Self { latencies: Latencies::new(), time_series: TimeSeries::new(), last_ns: None }
    }

    pub(super) fn record(&mut self, wake: Wake) {
        if !wake.clock_was_set {
            self.time_series.record(LateDeadlines::of(&wake));
            self.last_ns = Some(wake.latency_ns);
        }
        self.latencies.record(wake);
    }
}

impl Counts {
    pub(super) fn of(cpu: Option<usize>) -> Self {
        Self { cpu, found: Mutex::new(WakeResults::new()), outcome: Mutex::new(None) }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        // The thread that measures does not wait for this copy.
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot { cpu: self.cpu, latencies: found.latencies.clone(), last_ns: found.last_ns }
    }

    pub(super) fn copy(&self) -> ThreadLatencies {
        // The counts are consistent even if a thread panicked.
        let latencies = self.found.lock().unwrap_or_else(PoisonError::into_inner).latencies.clone();
        ThreadLatencies { cpu: self.cpu, latencies }
    }

    pub(super) fn row(&self, not_run: NotRun) -> Option<WakeLatencyRow> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        row(self.cpu, (&found.latencies, &found.time_series), not_run)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Instant;
    use hpt_instrument::measure::Wake;

    use super::WakeResults;

    /// Returns the number of page faults of this thread that needed no disk.
    fn page_faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux has it");
        let fields = stat.rsplit(')').next().expect("fields follow the name");
        // proc(5): minflt is field 10, and the state after the name is field 3.
        fields.split_whitespace().nth(7).and_then(|count| count.parse().ok()).expect("a number")
    }

    fn record_all(found: &mut WakeResults) {
        for at in 0..20_000_u64 {
            let deadline = Instant::EPOCH + Duration::from_micros(at * 500);
            // From 1 ns to 8 s.
            found.record(Wake::new(deadline, 1 << (at % 34)));
        }
    }

    #[test]
    fn no_sample_waits_for_a_page_fault() {
        // The code is faulted in, as in a rehearsal.
        record_all(&mut WakeResults::new());
        let mut found = WakeResults::new();
        let before = page_faults();
        record_all(&mut found);
        let faults = page_faults() - before;
        assert!(found.latencies.histogram().samples() >= 20_000);
        assert!(faults < 8, "{faults} page faults");
    }
}
