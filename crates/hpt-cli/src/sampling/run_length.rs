//! How long a run takes: the options that say so, and how far one thread is.
//! Measures nothing.

use std::time::Duration;

use clap::Args;
use hpt_core::{Instant, measure::Wake};

use crate::arguments::duration_in;

/// From one sample to the next.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_micros(10), Duration::from_secs(3_600)), ("between 10us and 1h", "250us or 1h"))
}

/// Any other time.
pub(crate) fn long(text: &str) -> Result<Duration, String> {
    duration_in(
        text,
        (Duration::from_micros(1), Duration::from_secs(365 * 24 * 3_600)),
        ("between 1us and 365days", "250us or 1h"),
    )
}

/// How long a run takes.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Extent {
    /// Time between samples
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = period)]
    pub(crate) interval: Duration,
    /// Run time
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = long, conflicts_with = "count")]
    pub(crate) duration: Duration,
    /// Stop after N samples on each CPU
    ///
    /// The run takes as long as that needs.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

impl Extent {
    /// Time that a run of samples at equal distances takes.
    pub(super) fn expected(&self) -> Duration {
        match self.count {
            Some(count) => self.interval.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)),
            None => self.duration,
        }
    }

    /// Share of the run that is over, when all `threads` together have taken `done` samples.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(super) fn fraction(&self, done: u64, threads: usize, elapsed: Duration) -> f64 {
        match self.count {
            Some(count) => done as f64 / (count as f64 * threads as f64),
            None => elapsed.as_secs_f64() / self.duration.as_secs_f64(),
        }
    }

    /// When a thread is to end by itself.
    pub(crate) fn end(&self, start: Instant) -> Instant {
        if self.count.is_none() { start.saturating_add(self.duration) } else { Instant::from_nanoseconds(u64::MAX) }
    }
}

/// How far one thread is. A run begins with its first moment, which may be a time of day, and its length is told by CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stint {
    extent: Extent,
    end: Option<Instant>,
    count: u64,
}

impl Stint {
    pub(crate) const fn of(extent: Extent) -> Self {
        Self { extent, end: None, count: 0 }
    }

    /// When it began, told by the first sample alone, which was handed over `now`.
    pub(crate) fn begins(&mut self, sample: Wake, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        // Where the clock was set, nobody knows when the moment was due.
        let begins = if sample.clock_was_set { now() } else { sample.deadline };
        self.end = Some(self.extent.end(begins));
        Some(begins)
    }

    /// Counts a sample, and says whether there are more to come.
    pub(crate) fn goes_on_after(&mut self, wake: Wake) -> bool {
        self.count += 1;
        self.end.is_none_or(|end| wake.deadline < end) && self.extent.count.is_none_or(|wanted| self.count < wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::{Instant, measure::Wake};

    use super::{Extent, Stint, long, period};

    #[test]
    fn times_are_read_or_refused() {
        assert_eq!((period("10us"), long("18h")), (Ok(Duration::from_micros(10)), Ok(Duration::from_secs(18 * 3_600))));
        assert!(["1us", "2h", "1"].iter().all(|wrong| period(wrong).is_err()) && long("2years").is_err());
    }

    #[test]
    fn a_run_begins_with_its_first_moment_and_is_as_long_as_it_is() {
        let at_s = |seconds: u64| Instant::from_nanoseconds(seconds * 1_000_000_000);
        let wake = |due_s: u64| Wake::new(at_s(due_s), 1_000);
        let extent = Extent { interval: Duration::from_secs(1), duration: Duration::from_secs(3), count: None };
        // Hours later than when it was asked for, or earlier: what the wall clock showed meanwhile does not matter.
        for first_s in [5, 50_000] {
            let mut stint = Stint::of(extent);
            assert_eq!(stint.begins(wake(first_s), || at_s(first_s)), Some(at_s(first_s)));
            assert_eq!(stint.begins(wake(first_s + 1), || at_s(first_s + 1)), None);
            let goes_on = [0, 1, 2, 3].map(|since_s| stint.goes_on_after(wake(first_s + since_s)));
            assert_eq!(goes_on, [true, true, true, false]);
        }
        // Set beyond the beginning: due an hour ago, as the clock has it, and begun now.
        let mut stint = Stint::of(extent);
        let mut first = Wake::new(at_s(100), 3_600_000_000_000);
        first.clock_was_set = true;
        assert_eq!(stint.begins(first, || at_s(3_700)), Some(at_s(3_700)));
        assert!(stint.goes_on_after(first) && stint.goes_on_after(wake(3_701)) && !stint.goes_on_after(wake(3_703)));
        let mut counted = Stint::of(Extent { count: Some(2), ..extent });
        counted.begins(wake(5), || at_s(5));
        assert!(counted.goes_on_after(wake(5)) && !counted.goes_on_after(wake(1_000)));
    }
}
