//! Implements the delays of embedded-hal-async with `AsyncSleeper`.

use std::time::Duration;

use embedded_hal_async::delay::DelayNs;

use crate::sleeper::AsyncSleeper;

/// Delays have deadlines in nanoseconds and the precision of sleeps. A delay begins when it is first polled. Dropping
/// its future disarms the timer.
impl DelayNs for AsyncSleeper {
    async fn delay_ns(&mut self, ns: u32) {
        self.sleep(Duration::from_nanos(ns.into())).await;
    }

    async fn delay_us(&mut self, us: u32) {
        self.sleep(Duration::from_micros(us.into())).await;
    }

    async fn delay_ms(&mut self, ms: u32) {
        self.sleep(Duration::from_millis(ms.into())).await;
    }
}
