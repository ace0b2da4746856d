//! Sleeps without a sleeper of one's own.

use std::{cell::RefCell, time::Duration};

use super::Sleeper;
use crate::clock::Instant;

/// Sleeps until `deadline` with a default [`Sleeper`] that belongs to the calling thread; returns at once if the deadline
/// has passed. Never returns early. Returns the overshoot.
///
/// The first call of a thread allocates about 100 KB, which are freed when the thread ends. Do not call this function in a
/// signal handler.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::{Instant, sleep};
///
/// let deadline = Instant::now() + Duration::from_millis(1);
/// sleep::until(deadline);
/// assert!(deadline.has_passed());
/// ```
#[expect(clippy::must_use_candidate, reason = "a plain sleep")]
pub fn until(deadline: Instant) -> Duration {
    thread_local!(static SLEEPER: RefCell<Sleeper> = RefCell::new(Sleeper::new()));
    let slept = SLEEPER.try_with(|sleeper| sleeper.borrow_mut().sleep_until(deadline));
    // While the thread ends, its sleeper is gone.
    let woken = slept.unwrap_or_else(|_| Sleeper::new().sleep_until(deadline));
    woken.late
}

/// Sleeps for `duration`, as [`until`] does. Returns the overshoot.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::sleep;
///
/// let late = sleep::for_(Duration::from_millis(1));
/// println!("{late:?} too long");
/// ```
#[expect(clippy::must_use_candidate, reason = "a plain sleep")]
pub fn for_(duration: Duration) -> Duration {
    until(Instant::now().saturating_add(duration))
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::{for_, until};
    use crate::clock::Instant;

    #[test]
    fn a_plain_sleep_is_never_early_on_any_thread() {
        let sleep = || {
            for us in [0, 50, 2_000] {
                let deadline = Instant::now() + Duration::from_micros(us);
                let late = until(deadline);
                assert!(Instant::now() >= deadline + late);
            }
        };
        sleep();
        thread::spawn(sleep).join().expect("it is never early");
        let start = Instant::now();
        let late = for_(Duration::from_millis(1));
        assert!(start.elapsed() >= Duration::from_millis(1) + late);
    }
}
