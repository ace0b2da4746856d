//! A thousand sleeps in each runtime: none is early.

use std::{sync::mpsc, time::Duration};

use hpt_async::{AsyncSleeper, Finish, Timers};
use hpt_core::Instant;

use crate::executor::block_on;

const SLEEPS: u64 = 1_000;
const CHOICES: [Finish; 3] = [Finish::Kernel, Finish::Yield, Finish::Spin];

/// Lengths from 0 to 400 µs: some leave no time to block.
fn length(number: u64) -> Duration {
    Duration::from_nanos(number * 7_919 % 400_000)
}

async fn none_is_early(mut sleeper: AsyncSleeper) {
    for finish in CHOICES {
        sleeper = sleeper.with_finish(finish);
        for number in 0..SLEEPS / 3 + 1 {
            let begin = Instant::now();
            let late = sleeper.sleep_until(begin + length(number)).await;
            let now = Instant::now();
            assert!(now >= begin + length(number) + late, "{finish:?}: {:?}, {late:?}", now - begin);
        }
    }
}

#[cfg(feature = "tokio")]
#[test]
fn sleeps_in_a_tokio_runtime_with_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async { none_is_early(AsyncSleeper::tokio().unwrap()).await });
}

#[cfg(feature = "tokio")]
#[test]
fn sleeps_in_a_tokio_runtime_with_two_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(none_is_early(AsyncSleeper::tokio().unwrap()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[cfg(feature = "tokio")]
#[test]
fn sleeps_of_timers_in_a_tokio_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(none_is_early(AsyncSleeper::timers(&Timers::new().unwrap())));
}

#[cfg(feature = "async-io")]
#[test]
fn sleeps_with_async_io_in_a_minimal_executor() {
    block_on(none_is_early(AsyncSleeper::async_io().unwrap()));
}

#[cfg(feature = "async-io")]
#[test]
fn sleeps_with_async_io_in_its_own_executor() {
    async_io::block_on(none_is_early(AsyncSleeper::async_io().unwrap()));
}

#[test]
fn sleeps_of_timers_in_a_minimal_executor() {
    block_on(none_is_early(AsyncSleeper::timers(&Timers::new().unwrap())));
    for finish in CHOICES {
        let timers = Timers::with_finish(finish).unwrap();
        block_on(async {
            for number in 0..SLEEPS / 3 + 1 {
                let deadline = Instant::now() + length(number);
                timers.sleep_until(deadline).await;
                assert!(Instant::now() >= deadline, "{finish:?}");
            }
        });
    }
}

#[test]
fn calls_of_timers() {
    for finish in CHOICES {
        let timers = Timers::with_finish(finish).unwrap();
        let (sender, receiver) = mpsc::channel();
        for number in 0..SLEEPS {
            let (sender, deadline) = (sender.clone(), Instant::now() + length(number));
            timers.call_at(deadline, move || sender.send((Instant::now(), deadline)).unwrap());
        }
        drop(sender);
        let mut ran = 0;
        for (now, deadline) in receiver {
            assert!(now >= deadline, "{finish:?}");
            ran += 1;
        }
        assert_eq!(ran, SLEEPS);
    }
}
