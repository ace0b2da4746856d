//! Tests time-dependent code without waiting: the test advances the clock manually.
#![forbid(unsafe_code)]

use std::time::Duration;

use hpt_core::{FixedRateClock, Frequency, Reading, TimeSource, testing::ManualSource};

/// The code under test: a rate limit that allows one action per interval. The time source is a type parameter.
struct RateLimit<S> {
    clock: FixedRateClock<S>,
    interval: Duration,
    next: Reading,
}

impl<S: TimeSource> RateLimit<S> {
    fn new(clock: FixedRateClock<S>, interval: Duration) -> Self {
        let next = clock.now();
        Self { clock, interval, next }
    }

    fn allows(&mut self) -> bool {
        let now = self.clock.now();
        let allowed = now >= self.next;
        if allowed {
            self.next = now + self.interval;
        }
        allowed
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let time = ManualSource::new("by hand");
    let mut limit = RateLimit::new(FixedRateClock::new(&time, Frequency::GIGAHERTZ)?, Duration::from_secs(1));

    assert!(limit.allows(), "the first action is allowed");
    assert!(!limit.allows(), "the second action comes too soon");
    time.advance(999_999_999);
    assert!(!limit.allows(), "the action comes a nanosecond too soon");
    time.advance(1);
    assert!(limit.allows(), "a second has passed");
    println!("a rate limit of one action per second was tested without waiting");
    Ok(())
}
