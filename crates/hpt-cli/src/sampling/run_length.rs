//! The length of a run: its options, and the progress of one thread.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use clap::Args;
use hpt_core::Instant;
use hpt_instrument::measure::Wake;

use crate::arguments::{at_least_one, duration_in};

/// Parses the time from one sample to the next.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_micros(10), Duration::from_secs(3_600)), ("between 10us and 1h", "250us or 1h"))
}

/// Parses a time from 1 µs to 365 days.
pub(crate) fn long(text: &str) -> Result<Duration, String> {
    duration_in(
        text,
        (Duration::from_micros(1), Duration::from_secs(365 * 24 * 3_600)),
        ("between 1us and 365days", "250us or 1h"),
    )
}

/// The run time without `--duration`.
pub(crate) const USUAL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub(crate) struct RunLength {
    /// Time between samples
    #[arg(short, long, value_name = "TIME", default_value = "1ms", value_parser = period)]
    pub(crate) interval: Duration,
    /// Run time [default: 10s]
    #[arg(short, long, value_name = "TIME", value_parser = long, conflicts_with = "count")]
    pub(crate) duration: Option<Duration>,
    /// Stop after N samples per CPU, not after --duration
    ///
    /// With --count, the run has no time limit.
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one::<u64>)]
    pub(crate) count: Option<u64>,
}

impl RunLength {
    /// Returns whether the options state how long the run takes.
    pub(crate) const fn is_given(&self) -> bool {
        self.duration.is_some() || self.count.is_some()
    }

    pub(crate) fn duration(&self) -> Duration {
        self.duration.unwrap_or(USUAL)
    }

    /// Returns the expected duration of a run with samples at equal intervals.
    pub(super) fn expected(&self) -> Duration {
        match self.count {
            Some(count) => self.interval.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)),
            None => self.duration(),
        }
    }

    /// Returns the rest of the run time; `None` if the number of samples determines the end.
    pub(super) fn left(&self, elapsed: Duration) -> Option<Duration> {
        self.count.is_none().then(|| self.duration().saturating_sub(elapsed))
    }

    /// Returns the finished fraction of the run after all `threads` together have taken `done` samples.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(super) fn fraction(&self, done: u64, threads: usize, elapsed: Duration) -> f64 {
        match self.count {
            Some(count) => done as f64 / (count as f64 * threads as f64),
            None => elapsed.as_secs_f64() / self.duration().as_secs_f64(),
        }
    }

    /// Returns the time at which a thread ends its measurement. With `--count`, that time is never reached.
    pub(crate) fn end(&self, start: Instant) -> Instant {
        if self.count.is_none() { start.saturating_add(self.duration()) } else { Instant::MAX }
    }
}

/// The progress of one thread. A run begins at its first deadline, which may be a time of day. The length of the
/// run is measured with CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadProgress {
    run_length: RunLength,
    end: Option<Instant>,
    count: u64,
}

impl ThreadProgress {
    pub(crate) const fn of(run_length: RunLength) -> Self {
        Self { run_length, end: None, count: 0 }
    }

    /// Returns the start of the run for the first sample, and `None` for later samples. `now` returns the time at which
    /// the sample was handed over.
    pub(crate) fn begins(&mut self, sample: Wake, now: impl FnOnce() -> Instant) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        // If the clock was set, the deadline on CLOCK_MONOTONIC is unknown.
        let begins = if sample.clock_was_set { now() } else { sample.deadline };
        self.end = Some(self.run_length.end(begins));
        Some(begins)
    }

    /// Counts a sample, and returns whether the run continues.
    pub(crate) fn goes_on_after(&mut self, wake: Wake) -> bool {
        self.count += 1;
        self.end.is_none_or(|end| wake.deadline < end) && self.run_length.count.is_none_or(|wanted| self.count < wanted)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Instant;
    use hpt_instrument::measure::Wake;

    use super::{RunLength, ThreadProgress, long, period};

    #[test]
    fn times_are_parsed_or_refused() {
        assert_eq!((period("10us"), long("18h")), (Ok(Duration::from_micros(10)), Ok(Duration::from_secs(18 * 3_600))));
        assert!(["1us", "2h", "1"].iter().all(|wrong| period(wrong).is_err()) && long("2years").is_err());
    }

    #[test]
    fn the_run_time_counts_from_the_first_deadline() {
        let at_s = |seconds: u64| Instant::EPOCH + Duration::from_secs(seconds);
        let wake = |due_s: u64| Wake::new(at_s(due_s), 1_000);
        let run_length =
            RunLength { interval: Duration::from_secs(1), duration: Some(Duration::from_secs(3)), count: None };
        // Hours later or earlier than requested: the wall clock during the run does not matter.
        for first_s in [5, 50_000] {
            let mut thread_progress = ThreadProgress::of(run_length);
            assert_eq!(thread_progress.begins(wake(first_s), || at_s(first_s)), Some(at_s(first_s)));
            assert_eq!(thread_progress.begins(wake(first_s + 1), || at_s(first_s + 1)), None);
            let goes_on = [0, 1, 2, 3].map(|since_s| thread_progress.goes_on_after(wake(first_s + since_s)));
            assert_eq!(goes_on, [true, true, true, false]);
        }
        // The clock was set past the start: according to the clock, the run was due an hour ago; it began now.
        let mut thread_progress = ThreadProgress::of(run_length);
        let mut first = Wake::new(at_s(100), 3_600_000_000_000);
        first.clock_was_set = true;
        assert_eq!(thread_progress.begins(first, || at_s(3_700)), Some(at_s(3_700)));
        assert!(
            thread_progress.goes_on_after(first)
                && thread_progress.goes_on_after(wake(3_701))
                && !thread_progress.goes_on_after(wake(3_703))
        );
        let mut counted = ThreadProgress::of(RunLength { count: Some(2), ..run_length });
        counted.begins(wake(5), || at_s(5));
        assert!(counted.goes_on_after(wake(5)) && !counted.goes_on_after(wake(1_000)));
    }
}
