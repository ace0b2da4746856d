//! A request for a recording: CPUs and limits.

/// A request for a recording.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) cpus: Vec<usize>,
    pub(super) worst: usize,
    pub(super) threshold_ns: u64,
    pub(super) above_ns: Option<u64>,
    pub(super) polls: bool,
    pub(super) edges: bool,
}

impl Request {
    /// Requests a recording of these CPUs, or of all CPUs if there are none.
    #[must_use]
    pub fn new(cpus: impl IntoIterator<Item = usize>) -> Self {
        let mut cpus: Vec<_> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self { cpus, worst: 20, threshold_ns: 20_000, above_ns: None, polls: false, edges: false }
    }

    /// Sets the number of worst samples that are explained; 20 without this call, and at least one.
    #[must_use]
    pub fn with_worst(self, worst: usize) -> Self {
        Self { worst: worst.max(1), ..self }
    }

    /// Sets the latency above which each sample counts toward the causes, in nanoseconds; 20 µs without this call.
    #[must_use]
    pub fn with_threshold_ns(self, threshold_ns: u64) -> Self {
        Self { threshold_ns, ..self }
    }

    /// States whether the threads poll instead of blocking until their deadlines.
    #[must_use]
    pub fn with_polling(self, polls: bool) -> Self {
        Self { polls, ..self }
    }

    /// States whether the threads wait for the interrupt of a device, for example for an edge on a GPIO line, instead of a
    /// timer. Such an interrupt may arrive on any CPU, so its delay is not attributed to disabled interrupts.
    #[must_use]
    pub fn with_edges(self, edges: bool) -> Self {
        Self { edges, ..self }
    }

    /// Also explains each sample above this latency, in nanoseconds, but at most 1,000 of them.
    #[must_use]
    pub fn with_above_ns(self, above_ns: Option<u64>) -> Self {
        Self { above_ns, ..self }
    }
}
