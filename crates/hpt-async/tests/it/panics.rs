//! Callbacks and wakers that panic. Their messages appear in the output of these tests.

use std::{
    panic,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Wake, Waker},
    time::Duration,
};

use hpt_async::Timers;
use hpt_core::Instant;

#[test]
fn a_callback_that_panics_does_not_stop_the_others() {
    let timers = Timers::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let start = Instant::now();
    for number in 0..10 {
        let sender = sender.clone();
        timers.call_at(start + Duration::from_micros(number), move || {
            assert!(number % 2 == 0, "this panic is intended");
            sender.send(number).unwrap();
        });
    }
    drop(sender);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 2, 4, 6, 8]);
    assert_eq!(timers.pending(), 0);
}

/// Panics when it is dropped, with a value that does the same.
struct Grudge(u32);

impl Drop for Grudge {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic::panic_any(Grudge(self.0 - 1));
        }
    }
}

#[test]
fn a_payload_that_panics_does_not_stop_the_others() {
    let timers = Timers::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    timers.call_at(Instant::EPOCH, || panic::panic_any(Grudge(2)));
    timers.call_at(Instant::now(), move || sender.send(()).unwrap());
    receiver.recv().unwrap();
}

struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("this panic is intended");
    }
}

#[test]
fn a_waker_that_panics_does_not_stop_the_others() {
    let timers = Timers::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let deadline = Instant::now() + Duration::from_millis(1);
    let waker = Waker::from(Arc::new(Broken));
    let mut sleep = pin!(timers.sleep_until(deadline));
    let _ = sleep.as_mut().poll(&mut Context::from_waker(&waker));
    timers.call_at(deadline + Duration::from_micros(1), move || sender.send(()).unwrap());
    receiver.recv().unwrap();
    assert_eq!(timers.pending(), 0);
}
