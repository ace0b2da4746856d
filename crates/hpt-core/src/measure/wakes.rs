//! How long after a moment a thread knows that it has come: parked in the kernel until then, or looking at the clock all the time.
//! Pins nothing and draws nothing: the caller does.

use std::time::Duration;

use crate::{
    clock::Instant,
    realtime::NoSlack,
    sleep::{Sleeper, Strategy},
    stats::{Histogram, median},
    sys::wait,
};

/// A longer wait is made in pieces, so that somebody can end it.
const PIECE: Duration = Duration::from_millis(100);
/// Lateness is counted in whole microseconds up to here.
const MICROSECONDS: usize = 10_000;
/// As many readings are made to see what one costs.
const READINGS: usize = 1_001;

/// How a thread waits for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// Parked by `clock_nanosleep` until the moment, with a timer slack of 1 ns.
    #[default]
    Parked,
    /// Looking at the clock all the time.
    Polling,
    /// By a [`Sleeper`]: parked until a learned reserve before the moment, then looking at the clock.
    Precise,
}

/// A thread knew that a moment had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wake {
    /// The moment.
    pub deadline: Instant,
    /// How long after it, in nanoseconds.
    pub late_ns: u64,
    /// How many moments after it had passed by then, and were left out.
    pub missed: u64,
}

impl Wake {
    /// One that was late by so much, of which nothing was missed.
    #[must_use]
    pub const fn new(deadline: Instant, late_ns: u64) -> Self {
        Self { deadline, late_ns, missed: 0 }
    }
}

/// Waits for `first`, and then for one moment after the other, each `period` after the last (a microsecond at least), and hands every wake-up to `each`, until that
/// says no. `go_on` is asked in waits of more than a tenth of a second.
pub fn wakes(
    first: Instant,
    period: Duration,
    waiting: Waiting,
    go_on: impl Fn() -> bool,
    mut each: impl FnMut(Wake) -> bool,
) {
    let period = period.max(Duration::from_micros(1));
    let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let mut deadline = first;
    let mut sleeper = Sleeper::new().with_strategy(match waiting {
        Waiting::Precise => Strategy::Precise,
        Waiting::Parked | Waiting::Polling => Strategy::SpinOnly,
    });
    let _slack = NoSlack::hold();
    loop {
        while deadline.saturating_duration_since(Instant::now()) > 2 * PIECE {
            wait::sleep_until_monotonic(Duration::from_nanos((Instant::now() + PIECE).as_nanoseconds()));
            if !go_on() {
                return;
            }
        }
        if waiting == Waiting::Parked {
            wait::sleep_until_monotonic(Duration::from_nanos(deadline.as_nanoseconds()));
        } else {
            let _ = sleeper.sleep_until(deadline);
        }
        let now = Instant::now();
        // The kernel keeps to its own clock, which this one may be behind by its bound: what came at once is not late.
        let late_ns = now.nanoseconds_since(deadline);
        let missed = late_ns / period_ns;
        if !each(Wake { deadline, late_ns, missed }) {
            return;
        }
        deadline = deadline.saturating_add(period.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX)));
        deadline = deadline.saturating_add(period);
    }
}

/// How late a thread was, many times: in bounded memory, however often.
#[derive(Clone, Debug, PartialEq)]
pub struct Lateness {
    counts: Histogram,
    microseconds: Vec<u64>,
    beyond: u64,
    missed: u64,
    sum_ns: u128,
    latest: Option<Wake>,
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

impl Lateness {
    /// Of no wake-ups.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: Histogram::new(),
            microseconds: vec![0; MICROSECONDS],
            beyond: 0,
            missed: 0,
            sum_ns: 0,
            latest: None,
        }
    }

    /// Adds one.
    pub fn record(&mut self, wake: Wake) {
        self.counts.record(wake.late_ns);
        let us = usize::try_from(wake.late_ns / 1_000).unwrap_or(usize::MAX);
        match self.microseconds.get_mut(us) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
        self.missed += wake.missed;
        self.sum_ns += u128::from(wake.late_ns);
        if self.latest.is_none_or(|latest| wake.late_ns > latest.late_ns) {
            self.latest = Some(wake);
        }
    }

    /// Adds those of another thread.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        for (count, others) in self.microseconds.iter_mut().zip(&other.microseconds) {
            *count += others;
        }
        self.beyond += other.beyond;
        self.missed += other.missed;
        self.sum_ns += other.sum_ns;
        if other.latest.map(|wake| wake.late_ns) > self.latest.map(|wake| wake.late_ns) {
            self.latest = other.latest;
        }
    }

    /// All of them, in nanoseconds, to three digits.
    #[must_use]
    pub const fn counts(&self) -> &Histogram {
        &self.counts
    }

    /// How many were late by 0, 1, 2, … whole microseconds: exactly, and cut off as cyclictest does.
    #[must_use]
    pub fn microseconds(&self) -> &[u64] {
        &self.microseconds
    }

    /// How many were later than that.
    #[must_use]
    pub const fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The mean of all, in nanoseconds; `None` of none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean, for people and statistics")]
    pub fn mean_ns(&self) -> Option<f64> {
        let samples = self.counts.samples();
        (samples > 0).then(|| self.sum_ns as f64 / samples as f64)
    }

    /// How many moments were left out, because they had passed.
    #[must_use]
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// The latest one.
    #[must_use]
    pub const fn latest(&self) -> Option<Wake> {
        self.latest
    }
}

/// What looking at [`Instant`] adds to every figure here, in nanoseconds: the median of what two readings in a row differ by, and the smallest step seen.
#[must_use]
pub fn cost_of_looking() -> (u64, Option<u64>) {
    let mut readings = [Instant::from_nanoseconds(0); READINGS];
    readings.fill_with(Instant::now);
    let mut differences: Vec<_> = readings.windows(2).map(|two| two[1].nanoseconds_since(two[0])).collect();
    let step = differences.iter().copied().filter(|&difference| difference > 0).min();
    (median(&mut differences).unwrap_or(0), step)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::Duration};

    use super::{Lateness, MICROSECONDS, Waiting, Wake, cost_of_looking, wakes};
    use crate::clock::Instant;

    fn wake(late_ns: u64, missed: u64) -> Wake {
        Wake { deadline: Instant::from_nanoseconds(late_ns), late_ns, missed }
    }

    #[test]
    fn moments_are_a_period_apart_and_none_is_early() {
        for waiting in [Waiting::Parked, Waiting::Polling, Waiting::Precise] {
            let period = Duration::from_micros(300);
            let first = Instant::now() + Duration::from_millis(1);
            let mut seen = Vec::new();
            wakes(
                first,
                period,
                waiting,
                || true,
                |wake| {
                    seen.push(wake);
                    seen.len() < 20
                },
            );
            let mut due = first;
            for wake in seen {
                assert_eq!(wake.deadline, due, "{waiting:?}");
                assert_eq!(wake.missed, wake.late_ns / 300_000);
                due += period * u32::try_from(wake.missed + 1).expect("few");
            }
        }
    }

    /// A moment that had passed long before: all that passed meanwhile are left out.
    #[test]
    fn missed_moments_are_left_out_and_counted() {
        let first = Instant::now();
        std::thread::sleep(Duration::from_millis(10));
        let mut seen = Vec::new();
        wakes(
            first,
            Duration::from_millis(1),
            Waiting::Parked,
            || true,
            |wake| {
                seen.push(wake);
                seen.len() < 2
            },
        );
        assert!(seen[0].missed >= 10, "{seen:?}");
        assert!(seen[1].deadline > first + Duration::from_millis(10));
    }

    #[test]
    fn a_long_wait_is_ended() {
        let asked = Cell::new(0);
        let never = Instant::from_nanoseconds(u64::MAX);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 2
        };
        wakes(never, Duration::from_secs(1), Waiting::Parked, go_on, |_| panic!("it did not come"));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn whole_microseconds_are_counted_exactly_and_sums_are_sums() {
        let mut lateness = Lateness::new();
        let limit_ns = MICROSECONDS as u64 * 1_000;
        for (late_ns, missed) in [(999, 0), (1_000, 0), (1_999, 1), (limit_ns - 1, 2), (limit_ns, 0), (u64::MAX, 0)] {
            lateness.record(wake(late_ns, missed));
        }
        assert_eq!(lateness.microseconds()[..3], [1, 2, 0]);
        assert_eq!((lateness.microseconds()[MICROSECONDS - 1], lateness.beyond(), lateness.missed()), (1, 2, 3));
        let mean_ns = lateness.mean_ns().expect("six");
        assert!((mean_ns / (u64::MAX as f64 / 6.0) - 1.0).abs() < 1e-9, "{mean_ns}");
        assert_eq!(Lateness::new().mean_ns(), None);
        assert_eq!(lateness.latest().map(|wake| wake.late_ns), Some(u64::MAX));
        let mut both = Lateness::new();
        both.record(wake(5, 1));
        both.add(&lateness);
        assert_eq!((both.counts().samples(), both.microseconds()[0], both.beyond(), both.missed()), (7, 2, 2, 4));
        assert_eq!(both.latest(), lateness.latest());
    }

    #[test]
    fn looking_costs_something_or_less_than_a_nanosecond() {
        let (cost_ns, step_ns) = cost_of_looking();
        assert!(step_ns.is_none_or(|step| step > 0) && cost_ns < 1_000_000_000);
    }
}
