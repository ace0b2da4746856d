//! Intervals: no drift, and missed periods as `Overrun` defines them.

use std::{pin::pin, time::Duration};

use hpt_async::{AsyncSleeper, Finish, Interval, Timers};
use hpt_core::{Instant, pace::Overrun};

use crate::executor::{block_on, poll_once};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(10_000);

fn interval(period: Duration) -> Interval {
    Interval::new(AsyncSleeper::timers(&Timers::new().unwrap()), period)
}

/// An interval that is three periods and a half late.
fn late(overrun: Overrun) -> (Instant, Interval) {
    let first = Instant::now() - LONG * 7 / 2;
    (first, interval(LONG).with_start(first).with_overrun(overrun))
}

#[test]
fn deadlines_stay_on_the_grid() {
    for finish in [Finish::Kernel, Finish::Yield, Finish::Spin] {
        let period = Duration::from_micros(500);
        let first = Instant::now() + period;
        let sleeper = AsyncSleeper::timers(&Timers::new().unwrap()).with_finish(finish);
        let mut interval = Interval::new(sleeper, period).with_start(first);
        let mut periods = 0;
        for _ in 0..300 {
            let tick = block_on(interval.tick());
            let now = Instant::now();
            periods += tick.skipped;
            assert_eq!((tick.deadline - first).as_nanos(), u128::from(periods) * period.as_nanos());
            assert!(now >= tick.deadline + tick.late);
            periods += 1;
        }
        let counts = interval.counts();
        assert_eq!((counts.ticks, counts.skipped), (300, periods - 300));
    }
}

#[test]
fn skip_starts_the_period_that_is_due() {
    let (first, mut interval) = late(Overrun::Skip);
    let tick = block_on(interval.tick());
    assert_eq!((tick.deadline, tick.skipped), (first + LONG * 3, 3));
    assert!(tick.late >= LONG / 2);
    assert!(poll_once(pin!(interval.tick())).is_pending());
    let counts = interval.counts();
    assert_eq!((counts.ticks, counts.overruns, counts.skipped), (1, 1, 3));
}

#[test]
fn catch_up_starts_every_period() {
    let (first, mut interval) = late(Overrun::CatchUp);
    for number in 0..4 {
        let tick = block_on(interval.tick());
        assert_eq!((tick.deadline, tick.skipped), (first + LONG * number, 0));
    }
    assert!(poll_once(pin!(interval.tick())).is_pending());
    let counts = interval.counts();
    assert_eq!((counts.ticks, counts.overruns, counts.skipped), (4, 4, 0));
}

#[test]
fn reset_begins_a_new_grid() {
    let (_, mut late) = late(Overrun::Reset);
    for _ in 0..3 {
        assert!(poll_once(pin!(late.tick())).is_pending());
        let counts = late.counts();
        assert_eq!((counts.ticks, counts.skipped), (0, 4), "a cancelled tick skips periods once");
    }

    let period = Duration::from_millis(2);
    let before = Instant::now();
    let first = before - Duration::from_secs(1);
    let mut interval = interval(period).with_start(first).with_overrun(Overrun::Reset);
    let tick = block_on(interval.tick());
    assert!(tick.deadline >= before + period);
    let planned_at = tick.deadline - period;
    assert_eq!(u128::from(tick.skipped), (planned_at - first).as_nanos() / period.as_nanos() + 1);
    assert_eq!((interval.counts().ticks, interval.counts().overruns), (1, 1));
}

#[test]
fn from_now_counts_from_the_end_of_the_wait() {
    let period = Duration::from_millis(1);
    let first = Instant::now() - Duration::from_secs(1);
    let mut interval = interval(period).with_start(first).with_overrun(Overrun::FromNow);
    let tick = block_on(interval.tick());
    assert_eq!((tick.deadline, tick.skipped), (first, 0));
    let mut before = tick.deadline + tick.late;
    for _ in 0..5 {
        let tick = block_on(interval.tick());
        assert!(tick.deadline >= before + period);
        assert_eq!(tick.skipped, 0);
        before = tick.deadline + tick.late;
    }
}

#[test]
fn a_late_tick_that_is_cancelled_counts_as_one_overrun() {
    let period = Duration::from_millis(20);
    let first = Instant::now() - Duration::from_secs(1);
    let mut interval = interval(period).with_start(first).with_overrun(Overrun::Reset);
    // Whether it is pending or not depends on the machine's load: it is dropped at once.
    let was_pending = poll_once(pin!(interval.tick())).is_pending();
    let skipped = interval.counts().skipped;
    assert!(skipped >= 50);
    if was_pending {
        let tick = block_on(interval.tick());
        assert!(tick.skipped >= skipped, "the tick reports what the cancelled one skipped");
        assert_eq!((interval.counts().ticks, interval.counts().overruns), (1, 1));
    }
}
