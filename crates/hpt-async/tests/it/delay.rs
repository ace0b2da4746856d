//! The delays of embedded-hal-async.

use embedded_hal_async::delay::DelayNs;
use hpt_async::{AsyncSleeper, Timers};
use hpt_core::Instant;

use crate::executor::block_on;

#[test]
fn delays_are_never_early() {
    async fn driver(mut delay: impl DelayNs) {
        for (ns, us, ms) in [(0, 0, 0), (1, 1, 1), (50_000, 300, 2)] {
            let begin = Instant::now();
            delay.delay_ns(ns).await;
            let first = Instant::now();
            delay.delay_us(us).await;
            let second = Instant::now();
            delay.delay_ms(ms).await;
            let passed = [first - begin, second - first, Instant::now() - second].map(|passed| passed.as_nanos());
            assert!(passed[0] >= ns.into() && passed[1] >= u128::from(us) * 1_000, "{passed:?}");
            assert!(passed[2] >= u128::from(ms) * 1_000_000, "{passed:?}");
        }
    }
    block_on(driver(AsyncSleeper::timers(&Timers::new().unwrap())));
}
