//! The iteration jitter of a busy-polling loop that acts whenever a period has passed since its last action. The jitter
//! is the time by which each iteration exceeds the period. Each value includes the read overhead and the granularity of
//! the source.

use std::{ops::ControlFlow, time::Duration};

use hpt_core::{source::TimeSource, stats::Histogram};
use hpt_sys::units::Frequency;

/// The iterations that were timed with one source.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LoopJitter {
    /// The time by which each iteration exceeded the period, in ticks of the source.
    pub excess: Histogram,
    /// The period, in ticks, rounded up.
    pub period_ticks: u64,
}

/// A busy-polling loop that acts whenever a period has passed since its last action.
///
/// # Examples
///
/// ```
/// use std::{ops::ControlFlow, time::Duration};
/// use hpt_core::{Frequency, Host, PosixClock, PosixId};
/// use hpt_instrument::measure::PollLoop;
///
/// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
/// let poll_loop = PollLoop::new(&clock, Frequency::GIGAHERTZ, Duration::from_micros(50));
/// let jitter = poll_loop.with_count(100).run(&mut |_| ControlFlow::Continue(()));
/// println!("{:?}", jitter.excess.quantile(0.99));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it does nothing until it runs"]
#[derive(Clone, Copy, Debug)]
pub struct PollLoop<'a> {
    source: &'a dyn TimeSource,
    frequency: Frequency,
    period: Duration,
    count: u64,
}

impl<'a> PollLoop<'a> {
    /// Creates a loop with this period that polls `source`, which ticks at `frequency`.
    pub const fn new(source: &'a dyn TimeSource, frequency: Frequency, period: Duration) -> Self {
        Self { source, frequency, period, count: u64::MAX }
    }

    /// Ends the loop after this number of periods. Without this call, the number is unlimited.
    pub const fn with_count(self, count: u64) -> Self {
        Self { source: self.source, frequency: self.frequency, period: self.period, count }
    }

    /// Polls the source, and calls `act` after each period with the number of periods so far. Each period starts at the
    /// reading that ended the previous period, so the run time of `act` is part of the next iteration. Returns the
    /// results after the set number of periods, or when `act` returns [`ControlFlow::Break`].
    pub fn run(self, act: &mut dyn FnMut(u64) -> ControlFlow<()>) -> LoopJitter {
        let Self { source, frequency, period, count } = self;
        let period_ticks = (period.as_nanos() * u128::from(frequency.microhertz())).div_ceil(1_000_000_000_000_000);
        let period_ticks = u64::try_from(period_ticks).unwrap_or(u64::MAX).max(1);
        let width = source.info().width;
        let mut jitter = LoopJitter { excess: Histogram::new(), period_ticks };
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
            jitter.excess.record(passed - period_ticks);
            done += 1;
            if act(done).is_break() {
                break;
            }
        }
        jitter
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow::{Break, Continue},
        time::Duration,
    };

    use super::PollLoop;
    use hpt_core::{
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, Width};

    #[test]
    fn a_period_is_rounded_up_to_whole_steps() {
        let source = ManualSource::new("source").with_step(300);
        let poll_loop = PollLoop::new(&source, Frequency::GIGAHERTZ, Duration::from_micros(100));
        let found = poll_loop.with_count(50).run(&mut |_| Continue(()));
        let spread = found.excess.spread(1.0).expect("fifty");
        assert_eq!((spread.samples, spread.min_ns, spread.max_ns), (50, 200.0, 200.0));
    }

    #[test]
    fn periods_continue_across_a_wrap_and_end_when_the_callback_breaks() {
        let mut info = SourceInfo::new(SourceId::new("narrow"));
        info.width = Width::BITS_32;
        let source = ManualSource::with_info(info).with_step(1 << 20);
        let poll_loop = PollLoop::new(&source, Frequency::GIGAHERTZ, Duration::from_millis(10)).with_count(2_000);
        let found = poll_loop.run(&mut |done| if done < 1_500 { Continue(()) } else { Break(()) });
        assert_eq!((found.excess.samples(), found.period_ticks), (1_500, 10_000_000));
        assert_eq!(found.excess.spread(1.0).map(|spread| spread.max_ns), Some(f64::from(10 << 20) - 1e7));
    }
}
