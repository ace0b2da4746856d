//! The iteration jitter of a busy-polling loop that acts whenever a period has passed since its last action. The jitter
//! is the time by which each iteration exceeds the period. Each value includes the read overhead and the granularity of
//! the source. This module neither sleeps nor configures the thread.

use std::time::Duration;

use crate::{source::TimeSource, stats::Histogram, units::Frequency};

/// The iterations that were timed with one source.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoopJitter {
    /// The time by which each iteration exceeded the period, in ticks of the source.
    pub excess: Histogram,
    /// The period, in ticks, rounded up.
    pub period_ticks: u64,
}

/// Polls `source`, which ticks at `frequency`, until `count` periods have passed. Each period starts at the reading
/// that ended the previous period. Calls `act` after each period; its run time is part of the next iteration. If `act`
/// returns false, returns the results so far.
pub fn beats<S: TimeSource + ?Sized>(
    source: &S,
    frequency: Frequency,
    period: Duration,
    count: u64,
    mut act: impl FnMut(u64) -> bool,
) -> LoopJitter {
    let period_ticks = (period.as_nanos() * u128::from(frequency.microhertz())).div_ceil(1_000_000_000_000_000);
    let period_ticks = u64::try_from(period_ticks).unwrap_or(u64::MAX).max(1);
    let width = source.info().width;
    let mut beats = LoopJitter { excess: Histogram::new(), period_ticks };
    let mut last = source.ticks();
    let mut done = 0;
    while done < count {
        let now = source.ticks();
        let passed = width.difference(last, now);
        // If access to a counter is revoked, its readings go backward. Such a step is not an iteration.
        if passed < period_ticks || width.signed_difference(last, now) < 0 {
            continue;
        }
        last = now;
        beats.excess.record(passed - period_ticks);
        done += 1;
        if !act(done) {
            break;
        }
    }
    beats
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::beats;
    use crate::{
        source::{SourceId, SourceInfo},
        testing::ManualSource,
        units::{Frequency, Width},
    };

    #[test]
    fn a_beat_is_rounded_up_to_whole_steps() {
        let source = ManualSource::new("source").stepping_by(300);
        let found = beats(&source, Frequency::GIGAHERTZ, Duration::from_micros(100), 50, |_| true);
        let spread = found.excess.spread(1.0).expect("fifty");
        assert_eq!((spread.samples, spread.min_ns, spread.max_ns), (50, 200.0, 200.0));
    }

    #[test]
    fn beats_continue_across_a_wrap_and_end_when_the_callback_returns_false() {
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let source = ManualSource::with_info(info).stepping_by(1 << 20);
        let found = beats(&source, Frequency::GIGAHERTZ, Duration::from_millis(10), 2_000, |done| done < 1_500);
        assert_eq!((found.excess.samples(), found.period_ticks), (1_500, 10_000_000));
        assert_eq!(found.excess.spread(1.0).map(|spread| spread.max_ns), Some(f64::from(10 << 20) - 1e7));
    }
}
