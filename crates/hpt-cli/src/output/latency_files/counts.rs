//! The content of a latency file: the counts of each thread and the description of the run.

use hpt_instrument::measure::Latencies;

#[derive(Clone, Debug)]
pub(crate) struct ThreadLatencies {
    /// The CPU that the thread was pinned to; `None` if it was not pinned.
    pub(crate) cpu: Option<usize>,
    pub(crate) latencies: Latencies,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RunDescription<'a> {
    pub(crate) command: &'a str,
    pub(crate) began: std::time::SystemTime,
    pub(crate) ended: std::time::SystemTime,
    pub(crate) kernel_release: &'a str,
    pub(crate) kernel_version: &'a str,
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, SystemTime};

    use hpt_core::Instant;
    use hpt_instrument::measure::Latencies;

    use super::{RunDescription, ThreadLatencies};

    /// Returns two threads with one wake-up per latency.
    pub(crate) fn threads() -> Vec<ThreadLatencies> {
        let of = |latency_ns: &[u64]| {
            let mut latencies = Latencies::new();
            latency_ns.iter().for_each(|&latency_ns| latencies.record(wake(latency_ns)));
            latencies
        };
        vec![
            ThreadLatencies { cpu: Some(0), latencies: of(&[500, 1_500, 1_999, 12_000]) },
            ThreadLatencies { cpu: Some(1), latencies: of(&[3_000, 4_999, 25_000_000]) },
        ]
    }

    pub(crate) fn wake(latency_ns: u64) -> hpt_instrument::measure::Wake {
        hpt_instrument::measure::Wake::new(Instant::from_nanos(1_000_000_000), latency_ns)
    }

    pub(crate) fn about() -> RunDescription<'static> {
        RunDescription {
            command: "hpt latency timer",
            began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000),
            ended: SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_060),
            kernel_release: "6.1.0",
            kernel_version: "#1 SMP PREEMPT_RT",
        }
    }
}
