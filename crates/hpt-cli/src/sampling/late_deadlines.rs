//! Deadlines that one wake-up detects: its own, and those that it missed. Each of them has its own latency.

use hpt_core::Instant;
use hpt_instrument::measure::Wake;

/// Deadlines one period apart. Each is one period less late than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LateDeadlines {
    /// The CLOCK_MONOTONIC time of the first deadline.
    pub(crate) at_ns: u64,
    /// The latency of the first deadline, which is the highest.
    pub(crate) late_ns: u64,
    period_ns: u64,
    pub(crate) count: u64,
}

impl LateDeadlines {
    pub(crate) fn of(wake: &Wake) -> Self {
        let at_ns = wake.deadline.nanos_since(Instant::EPOCH);
        let count = wake.missed_with_latency() + 1;
        Self { at_ns, late_ns: wake.latency_ns, period_ns: wake.period_ns, count }
    }

    /// Returns a single deadline.
    #[cfg(test)]
    pub(crate) const fn one(at_ns: u64, late_ns: u64) -> Self {
        Self { at_ns, late_ns, period_ns: 0, count: 1 }
    }

    /// Returns the time of the last deadline.
    pub(crate) const fn last_at_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.period_ns.saturating_mul(self.count - 1))
    }

    /// Returns the sum of the latencies.
    pub(crate) fn sum_ns(&self) -> u64 {
        let count = u128::from(self.count);
        let less = u128::from(self.period_ns) * (count * count.saturating_sub(1) / 2);
        u64::try_from(u128::from(self.late_ns) * count - less).unwrap_or(u64::MAX)
    }

    /// Splits off the deadlines before this time, at least one.
    pub(crate) fn take_before(&mut self, end_ns: u64) -> Self {
        self.take(end_ns.saturating_sub(self.at_ns).checked_sub(1))
    }

    /// Splits off the deadlines with at least this latency, at least one.
    pub(crate) fn take_as_late_as(&mut self, least_ns: u64) -> Self {
        self.take(self.late_ns.checked_sub(least_ns))
    }

    /// Splits off the first deadline, and those up to `distance_ns` after it.
    fn take(&mut self, distance_ns: Option<u64>) -> Self {
        let steps = distance_ns.unwrap_or(0).checked_div(self.period_ns).unwrap_or(0);
        let taken = Self { count: self.count.min(steps.saturating_add(1)), ..*self };
        let past_ns = self.period_ns.saturating_mul(taken.count);
        self.at_ns = self.at_ns.saturating_add(past_ns);
        self.late_ns = self.late_ns.saturating_sub(past_ns);
        self.count -= taken.count;
        taken
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::Instant;
    use hpt_instrument::measure::Wake;

    use super::LateDeadlines;

    #[test]
    fn deadlines_are_split_by_time_and_by_latency() {
        let mut wake = Wake::new(Instant::EPOCH + std::time::Duration::from_nanos(1_000), 450);
        (wake.period_ns, wake.missed) = (100, 4);
        let all = LateDeadlines::of(&wake);
        assert_eq!((all.count, all.last_at_ns(), all.sum_ns()), (5, 1_400, 450 + 350 + 250 + 150 + 50));
        let mut left = all;
        let first = left.take_before(1_201);
        assert_eq!((first.count, left.at_ns, left.late_ns, left.count), (3, 1_300, 150, 2));
        let mut left = all;
        let first = left.take_as_late_as(150);
        assert_eq!((first.count, left.late_ns, left.count), (4, 50, 1));
        // At least one, even if it is later or less late.
        assert_eq!(left.take_before(0).count, 1);
        assert_eq!((left.count, LateDeadlines::one(1, 2).take_as_late_as(9).count), (0, 1));
    }
}
