//! Programs that wait run through a day in a moment, on a clock that stands still for all their threads. It does so for
//! the other tests of the process, so these have a file of their own.
#![cfg(feature = "tokio")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use hpt_async::{AsyncSleeper, Finish, Interval, Timers, timeout};
use hpt_core::{
    Instant, Pacer, Sleeper, sleep,
    testing::{FrozenClock, FrozenProcess},
};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// Every kind of sleeper and finish, on this thread's runtime.
fn sleepers(timers: &Timers) -> Vec<AsyncSleeper> {
    let finishes = [Finish::Kernel, Finish::Spin, Finish::Yield];
    let of = |finish: Finish| {
        let sleepers = [AsyncSleeper::timers(timers), AsyncSleeper::tokio().expect("the kernel has timers")];
        sleepers.map(|sleeper| sleeper.with_finish(finish))
    };
    finishes.into_iter().flat_map(of).collect()
}

#[tokio::test(flavor = "current_thread")]
async fn a_sleep_on_the_clock_of_a_thread_advances_it() {
    let timers = Timers::new().expect("the kernel has timers");
    let sleepers = sleepers(&timers);
    let clock = FrozenClock::new();
    let _entered = clock.enter();
    let start = Instant::now();
    for mut sleeper in sleepers {
        assert_eq!(sleeper.sleep(HOUR).await, Duration::ZERO);
    }
    timers.sleep(HOUR).await;
    assert_eq!(start.elapsed(), 7 * HOUR);
    assert!(timeout(timers.sleep(HOUR), std::future::pending::<()>()).await.is_err());
    assert_eq!(start.elapsed(), 8 * HOUR);
}

#[test]
fn a_tokio_service_runs_for_a_day() {
    let _frozen = FrozenProcess::enter();
    let (start, ticks) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    for threads in [1, 2] {
        ticks.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.expect("threads can be started");
        let timers = Timers::new().expect("the kernel has timers");
        let counted = Arc::clone(&ticks);
        let (call, called) = mpsc::channel();
        timers.call_at(begun + 5 * HOUR, move || call.send(Instant::now()).expect("it is open"));
        runtime.block_on(async {
            // A period of a minute, beside sleeps of other lengths, and deadlines that are given up.
            let periodic = tokio::spawn(async move {
                let mut interval = Interval::new(AsyncSleeper::tokio().expect("a timer"), MINUTE);
                loop {
                    assert_eq!(interval.tick().await.late, Duration::ZERO);
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            });
            let other = timers.clone();
            let sleeping = tokio::spawn(async move {
                let mut sleeper = AsyncSleeper::timers(&other).with_finish(Finish::Spin);
                for _ in 0..100 {
                    assert!(timeout(other.sleep(7 * MINUTE), sleeper.sleep(8 * MINUTE)).await.is_err());
                    assert!(timeout(other.sleep(HOUR), other.sleep(MINUTE / 2)).await.is_ok());
                }
                Instant::now()
            });
            assert_eq!(sleeping.await.expect("it does not panic") - begun, 100 * (7 * MINUTE + MINUTE / 2));
            timers.sleep_until(begun + DAY + MINUTE / 2).await;
            periodic.abort();
        });
        assert_eq!(ticks.load(Ordering::Relaxed), 24 * 60);
        assert_eq!(called.recv().expect("it was called") - begun, 5 * HOUR);
    }
    assert_eq!(start.elapsed(), 2 * (DAY + MINUTE / 2));
}

#[test]
fn a_threaded_service_runs_for_a_day() {
    let _frozen = FrozenProcess::enter();
    let start = Instant::now();
    let (send, receive) = mpsc::channel();
    let produced = thread::spawn(move || {
        let mut pacer = Pacer::new(MINUTE);
        let mut ticks = 0;
        while start.elapsed() < DAY {
            assert_eq!(pacer.wait().late, Duration::ZERO);
            ticks += 1;
            send.send(Instant::now()).expect("it is received");
        }
        ticks
    });
    // Takes ten seconds for each message, so that it is always in time for the next one.
    let consumed = thread::spawn(move || {
        let takes_time = |sent: &Instant| {
            sleep::until(*sent + Duration::from_secs(10));
            sent.elapsed() == Duration::from_secs(10)
        };
        receive.into_iter().filter(takes_time).count()
    });
    let mut sleeper = Sleeper::new();
    let waker = sleeper.waker();
    let interrupted = thread::spawn(move || (sleeper.sleep(100 * DAY).is_in_time(), Instant::now()));
    sleep::until(start + HOUR);
    waker.wake();
    let (in_time, woken) = interrupted.join().expect("it only sleeps");
    assert!(!in_time && woken == start + HOUR, "{:?}", woken - start);
    assert_eq!((produced.join().expect("it counts"), consumed.join().expect("it counts")), (24 * 60, 24 * 60));
    assert_eq!(start.elapsed(), DAY + Duration::from_secs(10));
}
