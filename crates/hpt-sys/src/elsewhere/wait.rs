//! Waits for a deadline or for a wake-up through a word in memory, with a mutex and a condition variable. The counterpart
//! of the futex on Linux. Makes no decisions; `sleep` does.

use std::{
    ffi::c_ulong,
    ptr,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use super::clock::{Clock, ClockId, Route};

/// The clock of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Till {
    Monotonic,
    /// The wall clock: if it is set, the wait ends earlier or later.
    Realtime,
}

/// The longest single wait until a wall-clock time. The condition variable does not notice that the wall clock was set,
/// so the caller reads the clock again at this interval.
const LONGEST_WALL_WAIT: Duration = Duration::from_millis(100);
/// The longest single wait. Some systems refuse to wait for centuries.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The number of places where threads wait. Words at different addresses can share a place; a wake-up of one of them is
/// then spurious for the other.
const PLACES: usize = 32;

/// A place where the threads wait whose words have the same hash.
struct Place {
    lock: Mutex<()>,
    changed: Condvar,
}

static TABLE: [Place; PLACES] = [const { Place { lock: Mutex::new(()), changed: Condvar::new() } }; PLACES];

fn place_of(word: &AtomicU32) -> &'static Place {
    &TABLE[ptr::from_ref(word).addr() / 64 % PLACES]
}

/// Returns the time until the clock reaches `moment` after its epoch, at most as long as a single wait may be.
fn left_until(till: Till, moment: Duration) -> Duration {
    let (now, longest) = match till {
        Till::Monotonic => {
            let now = Clock::unasked(ClockId::Monotonic, Route::Library).nanos();
            (Duration::from_nanos(now), LONGEST_WAIT)
        }
        Till::Realtime => {
            (SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(), LONGEST_WALL_WAIT)
        }
    };
    moment.saturating_sub(now).min(longest)
}

/// Waits until the clock reaches `moment` after its epoch, or until [`wake`] is called. Returns at once if `word` is
/// not zero. May return spuriously, so the caller must check the condition again.
pub fn wait_while_zero(word: &AtomicU32, till: Till, moment: Duration) {
    let left = left_until(till, moment);
    let place = place_of(word);
    // The mutex protects no data, so a panic elsewhere leaves nothing inconsistent.
    let guard = place.lock.lock().unwrap_or_else(PoisonError::into_inner);
    // A thread that sets the word takes the lock before it notifies, so no wake-up is lost between this check and the
    // wait.
    if left.is_zero() || word.load(Ordering::Acquire) != 0 {
        return;
    }
    drop(place.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner));
}

/// Sleeps until the clock reaches `moment` after its epoch. May return earlier, so the caller must check the time again.
/// Returns true: no signal ends the sleep, and no system refuses it.
#[allow(clippy::disallowed_methods, reason = "only Linux has sandboxes that refuse to sleep")]
pub fn sleep_once(till: Till, moment: Duration) -> std::io::Result<bool> {
    std::thread::sleep(left_until(till, moment));
    Ok(true)
}

/// Wakes all threads that wait on `word`. Must not be called in a signal handler, because it takes a lock.
pub fn wake(word: &AtomicU32) {
    let place = place_of(word);
    drop(place.lock.lock().unwrap_or_else(PoisonError::into_inner));
    place.changed.notify_all();
}

/// Returns `None`: only Linux reports the time by which it may delay a wake-up.
pub const fn timer_slack() -> Option<c_ulong> {
    None
}

/// Does nothing, because [`timer_slack`] returned no value to change.
pub const fn set_timer_slack(_nanoseconds: c_ulong) {}
