//! Timers in a forked child, which has no thread to serve them. A program of its own, so that no other test holds a lock
//! at the fork.
#![expect(unsafe_code, reason = "fork and waitpid have no safe form")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    process,
    sync::mpsc,
    task::{Context, Waker},
    time::Duration,
};

use hpt_async::Timers;
use hpt_core::Instant;

const HOUR: Duration = Duration::from_secs(3_600);

/// Runs `work` in a forked child, and returns its exit code; -1 if a signal ended it.
fn in_a_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the threads of this program hold no lock now: they wait, for a timer or for this thread. fork(2).
    match unsafe { libc::fork() } {
        0 => process::exit(work()),
        child => {
            assert!(child > 0, "fork: {}", std::io::Error::last_os_error());
            let mut status = 0;
            // SAFETY: `status` is valid for writes. waitpid(2).
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
        }
    }
}

#[test]
fn a_child_is_refused_new_deadlines_and_leaves_those_of_the_parent_alone() {
    let timers = Timers::new().expect("the kernel has timers");
    let (sender, receiver) = mpsc::channel();
    let pending = timers.call_at(Instant::now() + HOUR, || ());
    let deadline = Instant::now() + Duration::from_millis(50);
    timers.call_at(deadline, move || sender.send(Instant::now()).expect("it is open"));
    let in_parent = timers.sleep_until(Instant::now() + HOUR);

    #[cfg(feature = "tokio")]
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    #[cfg(feature = "tokio")]
    let mut sleeper = {
        let _entered = runtime.enter();
        hpt_async::AsyncSleeper::tokio().expect("the kernel has timers")
    };

    let child = in_a_child(|| {
        #[cfg(feature = "tokio")]
        {
            let polled = catch_unwind(AssertUnwindSafe(|| {
                let _ = pin!(sleeper.sleep(HOUR)).poll(&mut Context::from_waker(Waker::noop()));
            }));
            if polled.is_ok() {
                return 4;
            }
        }
        let refused = catch_unwind(AssertUnwindSafe(|| timers.call_at(Instant::EPOCH, || ())));
        if refused.err().is_none_or(|refused| !refused.is::<String>()) {
            return 1;
        }
        if pending.cancel() || timers.pending() != 0 || format!("{timers:?}").len() > 400 {
            return 2;
        }
        drop(in_parent);
        drop(timers.clone());
        // Timers of its own work.
        let own = Timers::new().expect("the kernel has timers");
        let (sender, receiver) = mpsc::channel();
        own.call_at(Instant::EPOCH, move || sender.send(()).expect("it is open"));
        if receiver.recv_timeout(Duration::from_secs(30)).is_err() {
            return 3;
        }
        0
    });
    assert_eq!(child, 0);

    assert!(receiver.recv().expect("the parent's thread serves it") >= deadline);
    let mut sleep = pin!(timers.sleep_until(Instant::now() + HOUR));
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(pending.cancel(), "it is still pending");
}
