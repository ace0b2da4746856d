//! Many deadlines on one thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use hpt_async::{Call, Finish, Timers};
use hpt_core::Instant;

use crate::{HOUR, executor::block_on};

const THREADS: usize = 4;
const OF_EACH: usize = 25_000;

#[test]
fn no_deadline_of_four_threads_is_lost_or_early_or_runs_after_it_was_cancelled() {
    let timers = Timers::new().unwrap();
    let ran: Arc<Vec<AtomicU64>> = Arc::new((0..THREADS * OF_EACH).map(|_| AtomicU64::new(0)).collect());
    let early = Arc::new(AtomicUsize::new(0));
    // Each thread cancels every second deadline of another thread: some before, some after they were due.
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<Vec<(usize, Call)>>()).unzip();
    let start = Instant::now();
    let cancelled: Vec<(usize, bool)> = thread::scope(|scope| {
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(of, receiver)| {
                let (timers, ran, early) = (&timers, &ran, &early);
                let sender = senders[(of + 1) % THREADS].clone();
                scope.spawn(move || {
                    let mut random = of as u64 + 1;
                    let mut to_cancel = Vec::new();
                    for number in of * OF_EACH..(of + 1) * OF_EACH {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let deadline = start + Duration::from_nanos((random >> 33) % 400_000_000);
                        let (ran, early) = (Arc::clone(ran), Arc::clone(early));
                        let call = timers.call_at(deadline, move || {
                            early.fetch_add(usize::from(Instant::now() < deadline), Ordering::Relaxed);
                            ran[number].fetch_add(1, Ordering::Relaxed);
                        });
                        assert_eq!(call.deadline(), deadline);
                        if number % 2 == 0 {
                            to_cancel.push((number, call));
                        }
                        if to_cancel.len() == 100 {
                            sender.send(std::mem::take(&mut to_cancel)).unwrap();
                        }
                    }
                    sender.send(to_cancel).unwrap();
                    drop(sender);
                    receiver
                        .iter()
                        .take(OF_EACH / 200 + 1)
                        .flatten()
                        .map(|(number, call)| (number, call.cancel()))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(cancelled.len(), THREADS * OF_EACH / 2);

    // Deadlines are served in order, so all others have been served when the last one is.
    let (sender, receiver) = mpsc::channel();
    timers.call_at(Instant::now().max(start + Duration::from_millis(400)), move || sender.send(()).unwrap());
    receiver.recv().unwrap();
    assert_eq!(timers.pending(), 0);
    assert_eq!(early.load(Ordering::Relaxed), 0);
    let mut expected = vec![1; THREADS * OF_EACH];
    for &(number, was_cancelled) in &cancelled {
        expected[number] = u64::from(!was_cancelled);
    }
    for (number, (ran, expected)) in ran.iter().zip(expected).enumerate() {
        assert_eq!(ran.load(Ordering::Relaxed), expected, "deadline {number}");
    }
}

#[test]
fn deadlines_are_served_in_order() {
    let timers = Timers::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now() + Duration::from_millis(2);
    let mut expected: Vec<(u64, usize)> = (0..2_000).map(|number| (number as u64 * 7_919 % 50, number)).collect();
    // The thread waits here, so that it serves none before the last one was added.
    let (go, gate) = mpsc::channel::<()>();
    timers.call_at(Instant::EPOCH, move || gate.recv().unwrap());
    for &(offset_us, number) in &expected {
        let sender = sender.clone();
        timers.call_at(start + Duration::from_micros(offset_us), move || sender.send((offset_us, number)).unwrap());
    }
    drop(sender);
    go.send(()).unwrap();
    expected.sort_unstable();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), expected, "equal ones in the order in which they were added");
}

#[test]
fn an_earlier_deadline_wakes_the_thread() {
    for finish in [Finish::Kernel, Finish::Yield, Finish::Spin] {
        let timers = Timers::with_finish(finish).unwrap();
        let hour = timers.call_at(Instant::now() + HOUR, || panic!("an hour has not passed"));
        for length in [Duration::from_secs(1_000), Duration::from_micros(300), Duration::ZERO] {
            if length > Duration::from_secs(1) {
                timers.call_at(Instant::now() + length, || panic!("it has not passed"));
                continue;
            }
            let (sender, receiver) = mpsc::channel();
            timers.call_at(Instant::now() + length, move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        }
        assert_eq!(timers.pending(), 2);
        assert!(hour.cancel());
    }
}

#[test]
fn callbacks_add_and_cancel_deadlines() {
    fn again(timers: &Timers, left: u32, done: mpsc::Sender<()>) {
        if left == 0 {
            return done.send(()).unwrap();
        }
        let later = timers.call_at(Instant::now() + HOUR, || panic!("an hour has not passed"));
        assert!(later.cancel());
        let next = timers.clone();
        timers.call_at(Instant::now() + Duration::from_micros(10), move || again(&next, left - 1, done));
    }
    let (sender, receiver) = mpsc::channel();
    again(&Timers::new().unwrap(), 100, sender);
    receiver.recv().unwrap();
}

#[test]
fn dropping_timers_drops_pending_callbacks() {
    let timers = Timers::new().unwrap();
    let owned = Arc::new(());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let owned = Arc::clone(&owned);
            timers.call_at(Instant::now() + HOUR, move || panic!("an hour has not passed: {owned:?}"))
        })
        .collect();
    let clone = timers.clone();
    drop(timers);
    assert_eq!((clone.pending(), Arc::strong_count(&owned)), (100, 101), "a clone keeps them");
    drop(clone);
    assert_eq!(Arc::strong_count(&owned), 1);
    assert!(!calls[0].cancel());
}

#[test]
fn dropping_timers_waits_for_a_callback_that_runs() {
    let timers = Timers::new().unwrap();
    let (started, has_started) = mpsc::channel();
    let is_done = Arc::new(AtomicUsize::new(0));
    let done = Arc::clone(&is_done);
    timers.call_at(Instant::EPOCH, move || {
        started.send(()).unwrap();
        thread::sleep(Duration::from_millis(20));
        done.store(1, Ordering::Relaxed);
    });
    has_started.recv().unwrap();
    drop(timers);
    assert_eq!(is_done.load(Ordering::Relaxed), 1);
}

#[test]
fn a_callback_can_drop_the_last_clone() {
    let timers = Timers::new().unwrap();
    let last = timers.clone();
    let (go, gate) = mpsc::channel::<()>();
    let (sender, receiver) = mpsc::channel();
    let owned = Arc::new(());
    let pending = Arc::clone(&owned);
    timers.call_at(Instant::now() + HOUR, move || drop(pending));
    timers.call_at(Instant::EPOCH, move || {
        gate.recv().unwrap();
        drop(last);
        sender.send(()).unwrap();
    });
    drop(timers);
    go.send(()).unwrap();
    receiver.recv().unwrap();
    assert_eq!(Arc::strong_count(&owned), 1);
}

#[test]
fn a_sleep_outlives_its_timers() {
    let timers = Timers::new().unwrap();
    let deadline = Instant::now() + Duration::from_millis(1);
    let (polled, unpolled) = (timers.sleep_until(deadline), timers.sleep_until(Instant::EPOCH));
    drop(timers);
    block_on(polled);
    assert!(Instant::now() >= deadline);
    block_on(unpolled);
}
