//! Detects that other threads need the CPU of a thread that sleeps. Long spinning would then use up the thread's share of
//! the CPU, so that it waits for other threads when it should run.

use std::time::Duration;

use crate::clock::Instant;

/// After a wake-up that is this late, or a gap of this length between two readings of a spinning thread, the time for
/// which the thread has waited for a CPU is read from the kernel.
pub(super) const SUSPICIOUS_NS: u64 = 300_000;
/// The shortest time between two of these readings.
const LEAST_APART_NS: u64 = 20_000_000;
/// The longest time between two readings that are compared.
const LONGEST_APART_NS: u64 = 1_000_000_000;
/// The wait for a CPU that shows contention: this long, and at least one part in this many of the elapsed time.
const LEAST_WAIT_NS: u64 = 1_000_000;
const LEAST_PART: u64 = 50;
/// The time for which the thread then spins less. It doubles each time that the contention continues.
const SHORTEST_NS: u64 = 250_000_000;
const LONGEST_NS: u64 = 1_000_000_000;
/// The time after a pause within which contention continues.
const CLOSE_NS: u64 = 250_000_000;

/// The observations of other threads that need the CPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Contention {
    /// The time of the last reading, and how long the thread had waited for a CPU since its start.
    last: Option<(Instant, u64)>,
    /// The end of the time with little spinning.
    until: Option<Instant>,
    pause_ns: u64,
}

impl Contention {
    /// Returns whether a late wake-up or a gap of this length is to be reported with [`record`](Self::record).
    pub(super) fn is_suspicious(&self, now: Instant, late_ns: u64) -> bool {
        late_ns >= SUSPICIOUS_NS && self.last.is_none_or(|(last, _)| now.nanos_since(last) >= LEAST_APART_NS)
    }

    /// Records how long the thread has waited for a CPU since its start, in nanoseconds. If a hypervisor takes the CPU,
    /// this time does not increase.
    pub(super) fn record(&mut self, now: Instant, waited_ns: u64) {
        let Some((last, before_ns)) = self.last.replace((now, waited_ns)) else { return };
        let (elapsed_ns, waited_ns) = (now.nanos_since(last), waited_ns.saturating_sub(before_ns));
        if elapsed_ns > LONGEST_APART_NS || waited_ns < LEAST_WAIT_NS.max(elapsed_ns / LEAST_PART) {
            return;
        }
        let continues = self.until.is_some_and(|until| now.nanos_since(until) < CLOSE_NS);
        let longer_ns = self.pause_ns.saturating_mul(2).min(LONGEST_NS);
        self.pause_ns = if continues { longer_ns } else { SHORTEST_NS };
        self.until = Some(now.saturating_add(Duration::from_nanos(self.pause_ns)));
    }

    /// Returns whether the thread should leave its CPU to others instead of spinning for long.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::Contention;
    use crate::clock::Instant;

    fn at(ms: i64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn waits_for_a_cpu_pause_the_spinning_and_more_of_them_extend_the_pause() {
        let mut contention = Contention::default();
        contention.record(at(0), 500 * MS);
        assert!(!contention.is_contended(at(1)), "the wait may have been long ago");
        contention.record(at(20), 502 * MS);
        assert!(contention.is_contended(at(269)) && !contention.is_contended(at(271)));
        contention.record(at(300), 510 * MS);
        assert!(contention.is_contended(at(799)) && !contention.is_contended(at(801)));
        contention.record(at(900), 530 * MS);
        contention.record(at(1_850), 560 * MS);
        assert!(contention.is_contended(at(2_849)) && !contention.is_contended(at(2_851)));
        // After a time without waits, a pause is short again.
        contention.record(at(9_000), 580 * MS);
        assert!(!contention.is_contended(at(9_001)), "the wait may have been long ago");
        contention.record(at(9_100), 600 * MS);
        assert!(contention.is_contended(at(9_349)) && !contention.is_contended(at(9_351)));
    }

    #[test]
    fn a_hypervisor_or_a_rare_wait_does_not_pause_the_spinning() {
        let mut contention = Contention::default();
        // The thread was late, but did not wait for a CPU; later, it waited for less than a fiftieth of the time.
        for (ms, waited_ns) in [(0, 0), (20, 0), (40, MS / 2), (900, 10 * MS), (1_800, 20 * MS)] {
            contention.record(at(ms), waited_ns);
            assert!(!contention.is_contended(at(ms)));
        }
    }

    #[test]
    fn not_every_late_wake_up_causes_a_reading() {
        let mut contention = Contention::default();
        assert!(contention.is_suspicious(at(0), MS) && !contention.is_suspicious(at(0), MS / 10));
        contention.record(at(0), 0);
        assert!(!contention.is_suspicious(at(19), MS) && contention.is_suspicious(at(20), MS));
    }
}
