//! Implements the delays of embedded-hal with `Sleeper`, for drivers that wait between two accesses to a device.

use std::time::Duration;

use embedded_hal::delay::DelayNs;

use super::{SPUN_NS, Sleeper, Strategy, recent::Blocks};
use crate::clock::Instant;

/// Implements delays. One of up to 100 µs spins, whatever the target is, unless the strategy is
/// [`KernelOnly`](Strategy::KernelOnly): how the kernel wakes a thread does not change its length, and it takes no more CPU
/// time than its length. A longer one is as precise as a sleep. A thread that waits for its turn on a busy CPU is late
/// nevertheless; a real-time policy prevents that. An interruption does not end a delay, because drivers rely on its length;
/// it ends the next sleep instead.
impl DelayNs for Sleeper {
    fn delay_ns(&mut self, ns: u32) {
        let deadline = Instant::now() + Duration::from_nanos(ns.into());
        let spins = u64::from(ns) <= SPUN_NS && self.strategy != Strategy::KernelOnly;
        // A delay is no opportunity to learn: blocking could make it too long.
        self.untried = 0;
        let mut interrupted = false;
        loop {
            let woken = if spins {
                self.wait_until(deadline, |_, deadline, start| (Blocks::none(deadline.nanos_since(start)), start))
            } else {
                self.sleep_until(deadline)
            };
            if woken.is_in_time() {
                break;
            }
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

    use crate::{
        clock::Instant,
        sleep::{Sleeper, Strategy},
    };

    #[test]
    fn a_short_delay_never_blocks_and_a_long_one_learns_nothing() {
        let mut sleeper = Sleeper::new();
        for _ in 0..40 {
            sleeper.delay_us(60);
            sleeper.delay_us(99);
        }
        assert_eq!(sleeper.report().cpu_share, sleeper.report().spinning_share, "no delay blocked");
        assert!(sleeper.report().spinning_share > 0.99 || sleeper.report().late.is_some_and(|late| late.max_ns > 1e5));
        let mut sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
        sleeper.delay_us(90);
        assert!(sleeper.report().spinning_share < 1.0, "the user asked for the kernel");
    }

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
