//! Tests code that depends on time without waiting: the test advances the clock manually.
#![forbid(unsafe_code)]

use std::time::Duration;

use hpt_core::{Clock, Frequency, Reading, TimeSource, testing::ManualSource};

/// The code under test: allows an action once per interval. It takes its time source as a parameter.
struct RateLimit<S> {
    clock: Clock<S>,
    interval: Duration,
    next: Reading,
}

impl<S: TimeSource> RateLimit<S> {
    fn new(clock: Clock<S>, interval: Duration) -> Self {
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
    let time = ManualSource::nanoseconds("by hand");
    let mut limit = RateLimit::new(Clock::new(&time, Frequency::GIGAHERTZ)?, Duration::from_secs(1));

    assert!(limit.allows(), "the first action is free");
    assert!(!limit.allows(), "the second comes too soon");
    time.advance(999_999_999);
    assert!(!limit.allows(), "a nanosecond too soon");
    time.advance(1);
    assert!(limit.allows(), "a second has passed");
    println!("a rate limit of one action per second was tested without waiting");
    Ok(())
}
