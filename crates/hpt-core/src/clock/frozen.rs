//! The time that a test sets for a thread, or for all threads of the process, in place of the system's time. Present only
//! with the feature `testing`; `not_frozen` is the counterpart.

use std::{
    cell::Cell,
    collections::BTreeMap,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    task::{Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use super::Instant;

thread_local! {
    // The type needs no destructor, so a read also works in a signal handler and while the thread is exiting.
    static ENTERED: Cell<Option<&'static AtomicI64>> = const { Cell::new(None) };
}

/// Whether threads that have entered no clock of their own read [`PROCESS_NS`].
static IS_PROCESS_FROZEN: AtomicBool = AtomicBool::new(false);
pub(crate) static PROCESS_NS: AtomicI64 = AtomicI64::new(0);
static WAITING: Mutex<Waiting> = Mutex::new(Waiting { deadlines: BTreeMap::new(), next_number: 0 });

/// The interval at which a thread that waits on the process's clock looks whether it was interrupted.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A deadline in nanoseconds, and a number that is unique.
type Key = (i64, u64);

/// The deadlines on the process's clock.
struct Waiting {
    deadlines: BTreeMap<Key, Waker>,
    next_number: u64,
}

fn waiting() -> MutexGuard<'static, Waiting> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this thread read `nanos`, or the process's clock for `None`. Returns what the thread read before.
pub(crate) fn enter(nanos: Option<&'static AtomicI64>) -> Option<&'static AtomicI64> {
    ENTERED.replace(nanos)
}

/// Makes all threads read the clock that shows `now`, or the system's clock for `None`.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a frozen process needs Linux"))]
pub(crate) fn enter_process(now: Option<Instant>) {
    PROCESS_NS.store(now.unwrap_or(Instant::EPOCH).as_nanos(), Ordering::Release);
    IS_PROCESS_FROZEN.store(now.is_some(), Ordering::Release);
    // What waits on the wrong clock looks again.
    advance_process(i64::MAX);
}

/// Returns the time that is set for this thread, if any.
#[inline]
pub(crate) fn now_ns() -> Option<i64> {
    match ENTERED.get() {
        Some(nanos) => Some(nanos.load(Ordering::Acquire)),
        None => IS_PROCESS_FROZEN.load(Ordering::Acquire).then(|| PROCESS_NS.load(Ordering::Acquire)),
    }
}

/// Waits until the time that is set for this thread has reached `deadline_ns`, or until it is interrupted. A thread with a
/// clock of its own advances it. Returns the resulting time; `None` if no time is set for this thread.
pub(crate) fn sleep_until(deadline_ns: i64, is_interrupted: &dyn Fn() -> bool) -> Option<i64> {
    if let Some(nanos) = ENTERED.get() {
        return Some(nanos.fetch_max(deadline_ns, Ordering::AcqRel).max(deadline_ns));
    }
    let deadline =
        FrozenDeadline::new(Instant::from_nanos(deadline_ns), &Waker::from(Arc::new(Unpark(thread::current()))));
    while deadline.as_ref().is_some_and(|deadline| !deadline.has_passed()) && !is_interrupted() {
        thread::park_timeout(LOOK_AGAIN);
    }
    now_ns()
}

/// Makes the threads that wait on the process's clock look whether they were interrupted.
pub(crate) fn interrupt() {
    if IS_PROCESS_FROZEN.load(Ordering::Acquire) {
        // A waker may run a task that adds deadlines, so nothing is locked when it is called.
        let wakers: Vec<Waker> = waiting().deadlines.values().cloned().collect();
        wakers.iter().for_each(Waker::wake_by_ref);
    }
}

/// Returns the earliest deadline on the process's clock that has not passed.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a frozen process needs Linux"))]
pub(crate) fn next_deadline() -> Option<i64> {
    let now_ns = PROCESS_NS.load(Ordering::Acquire);
    waiting().deadlines.range((now_ns + 1, 0)..).next().map(|(&(deadline_ns, _), _)| deadline_ns)
}

/// Wakes what waits for deadlines up to `now_ns`, and forgets them. The process's clock shows that time, or a later one.
pub(crate) fn advance_process(now_ns: i64) {
    let due = {
        let mut waiting = waiting();
        let later = waiting.deadlines.split_off(&(now_ns, u64::MAX));
        mem::replace(&mut waiting.deadlines, later)
    };
    due.into_values().for_each(Waker::wake);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A deadline on a clock that a test controls, for crates that implement waiting. [`Sleeper`](crate::Sleeper) and hpt-async
/// follow such a clock already.
#[derive(Debug)]
pub struct FrozenDeadline {
    deadline: Instant,
    /// The place among the deadlines of the process's clock.
    key: Option<Key>,
}

impl FrozenDeadline {
    /// Returns a deadline, and wakes `waker` once when the clock has reached it; `None` if this thread reads the system's
    /// clock, and always without the feature `testing`. A clock that only this thread has entered advances to the deadline
    /// at once.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{task::Waker, time::Duration};
    /// use hpt_core::{Instant, clock::FrozenDeadline, testing::FrozenClock};
    ///
    /// let deadline = Instant::now() + Duration::from_secs(3600);
    /// // Without a frozen clock, wait for the system's clock.
    /// assert!(FrozenDeadline::new(deadline, Waker::noop()).is_none());
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let frozen = FrozenDeadline::new(deadline, Waker::noop()).expect("this thread reads a frozen clock");
    /// assert!(frozen.has_passed() && Instant::now() == deadline);
    /// ```
    #[must_use]
    pub fn new(deadline: Instant, waker: &Waker) -> Option<Self> {
        if let Some(nanos) = ENTERED.get() {
            nanos.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
            waker.wake_by_ref();
            return Some(Self { deadline, key: None });
        }
        Self::of_process(deadline, waker)
    }

    /// As [`new`](Self::new), for a wait of another thread: ignores a clock that only this thread has entered.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::task::Waker;
    /// use hpt_core::{Instant, clock::FrozenDeadline, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// // Only `FrozenProcess` freezes the clock of other threads.
    /// assert!(FrozenDeadline::of_process(Instant::now(), Waker::noop()).is_none());
    /// ```
    #[must_use]
    pub fn of_process(deadline: Instant, waker: &Waker) -> Option<Self> {
        if !Self::is_any() {
            return None;
        }
        let mut waiting = waiting();
        let key = (deadline.as_nanos(), waiting.next_number);
        waiting.next_number += 1;
        waiting.deadlines.insert(key, waker.clone());
        drop(waiting);
        if deadline.as_nanos() <= PROCESS_NS.load(Ordering::Acquire) {
            advance_process(deadline.as_nanos());
        }
        Some(Self { deadline, key: Some(key) })
    }

    /// Returns whether all threads of the process read a clock that a test controls, but for those that have entered another
    /// one.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use hpt_core::clock::FrozenDeadline;
    ///
    /// assert!(!FrozenDeadline::is_any());
    /// # #[cfg(target_os = "linux")] {
    /// let frozen = hpt_core::testing::FrozenProcess::enter();
    /// assert!(FrozenDeadline::is_any());
    /// # drop(frozen);
    /// # }
    /// ```
    #[must_use]
    pub fn is_any() -> bool {
        IS_PROCESS_FROZEN.load(Ordering::Acquire)
    }

    /// Returns whether the clock has reached the deadline, or the thread has left the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{task::Waker, time::Duration};
    /// use hpt_core::{Instant, clock::FrozenDeadline, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let entered = clock.enter();
    /// let deadline = FrozenDeadline::new(Instant::now() + Duration::from_secs(60), Waker::noop());
    /// clock.set(Instant::EPOCH);
    /// assert!(deadline.as_ref().is_some_and(|deadline| !deadline.has_passed()));
    /// // A thread that has left the clock no longer waits for it.
    /// drop(entered);
    /// assert!(deadline.is_some_and(|deadline| deadline.has_passed()));
    /// ```
    #[must_use]
    pub fn has_passed(&self) -> bool {
        now_ns().is_none_or(|now_ns| now_ns >= self.deadline.as_nanos())
    }
}

impl Drop for FrozenDeadline {
    fn drop(&mut self) {
        let removed = self.key.and_then(|key| waiting().deadlines.remove(&key));
        // A waker may own a task that owns other deadlines, so nothing is locked when it is dropped.
        drop(removed);
    }
}
