//! Sleeps and ticks that are dropped before they complete.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use hpt_async::{AsyncSleeper, Interval, Timers};
use hpt_core::Instant;

use crate::{
    HOUR,
    executor::{block_on, poll_once},
};

#[test]
fn a_cancelled_sleep_leaves_no_pending_deadline() {
    let timers = Timers::new().unwrap();
    let mut sleeper = AsyncSleeper::timers(&timers);
    for _ in 0..1_000 {
        assert!(poll_once(pin!(sleeper.sleep(HOUR))).is_pending());
        assert_eq!(timers.pending(), 0);
    }
    block_on(sleeper.sleep(Duration::from_micros(100)));
    assert_eq!(timers.pending(), 0);
}

#[test]
fn a_cancelled_tick_waits_for_the_same_period_again() {
    let timers = Timers::new().unwrap();
    let first = Instant::now() + HOUR;
    let mut interval = Interval::new(AsyncSleeper::timers(&timers), HOUR).with_start(first);
    for _ in 0..100 {
        assert!(poll_once(pin!(interval.tick())).is_pending());
        assert_eq!(timers.pending(), 0);
    }
    assert_eq!((interval.counts().ticks, interval.counts().skipped), (0, 0));

    let first = Instant::now() + Duration::from_millis(1);
    let mut interval = interval.with_start(first);
    while poll_once(pin!(interval.tick())).is_pending() {
        thread::yield_now();
    }
    assert_eq!(interval.counts().ticks, 1);
}

#[cfg(feature = "tokio")]
#[test]
fn the_loser_of_a_select_is_cancelled() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let mut long = AsyncSleeper::tokio().unwrap();
        let mut short = AsyncSleeper::tokio().unwrap();
        for _ in 0..100 {
            tokio::select! {
                _ = long.sleep(HOUR) => panic!("an hour has not passed"),
                _ = short.sleep(Duration::from_micros(200)) => {}
            }
        }
        long.sleep(Duration::from_micros(200)).await;
    });
}

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

#[test]
fn only_the_waker_of_the_last_poll_is_woken() {
    let timers = Timers::new().unwrap();
    let deadline = Instant::now() + Duration::from_millis(50);
    let (first, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let mut sleep = pin!(timers.sleep_until(deadline));
    for count in [&first, &first, &last] {
        let waker = Waker::from(Arc::clone(count));
        let polled = sleep.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            // This thread had to wait for its CPU.
            assert!(Instant::now() >= deadline);
            return;
        }
    }
    while last.0.load(Ordering::Acquire) == 0 {
        thread::yield_now();
    }
    assert!(Instant::now() >= deadline);
    assert!(poll_once(sleep).is_ready());
    assert_eq!(timers.pending(), 0);
    // The thread drops the waker after it has woken it.
    while Arc::strong_count(&last) > 1 {
        thread::yield_now();
    }
}
