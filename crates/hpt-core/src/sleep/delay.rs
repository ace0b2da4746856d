//! Implements the delays of embedded-hal with `Sleeper`, for drivers that wait between two accesses to a device.

use std::time::Duration;

use embedded_hal::delay::DelayNs;

use super::{Sleeper, Woken};
use crate::clock::Instant;

/// Implements delays with the precision of sleeps. An interruption does not end a delay, because drivers rely on its
/// length; the interruption ends the next sleep instead.
impl DelayNs for Sleeper {
    fn delay_ns(&mut self, ns: u32) {
        let deadline = Instant::now() + Duration::from_nanos(ns.into());
        let mut interrupted = false;
        while let Woken::Interrupted { .. } = self.sleep_until(deadline) {
            interrupted = true;
            // The interrupted sleep is not counted, because the delay continues.
            self.recent.remove_last();
        }
        if interrupted {
            self.waker().wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use embedded_hal::delay::DelayNs;

    use crate::{clock::Instant, sleep::Sleeper};

    #[test]
    fn a_delay_is_never_too_short_and_keeps_an_interruption() {
        let mut sleeper = Sleeper::new();
        for ns in [0, 1, 700, 150_000] {
            let start = Instant::now();
            sleeper.delay_ns(ns);
            assert!(start.elapsed_nanos() >= u64::from(ns));
        }
        sleeper.waker().wake();
        let start = Instant::now();
        sleeper.delay_us(300);
        assert!(start.elapsed() >= Duration::from_micros(300));
        assert_eq!(sleeper.report().interrupted, 0, "delays are not interrupted");
        assert!(!sleeper.sleep(Duration::from_secs(3_600)).is_in_time(), "the interruption was meant for a sleep");
    }
}
