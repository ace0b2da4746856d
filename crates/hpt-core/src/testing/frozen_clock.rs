//! A clock that stands still until a test advances it. Requires the feature `testing`.

use std::{
    marker::PhantomData,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use crate::clock::{Clock, Instant, frozen};

/// The clocks, which stay in memory.
static CLOCKS: Mutex<Vec<&AtomicI64>> = Mutex::new(Vec::new());

/// A clock that stands still until the test advances it.
///
/// On a thread that has entered the clock, [`Instant::now`] and everything based on it read this clock:
/// [`elapsed`](Instant::elapsed), [`SystemClock`](crate::SystemClock), [`Sleeper`](crate::Sleeper) and
/// [`Pacer`](crate::Pacer). On such a thread, a sleep does not wait: it advances the clock to its deadline, and so do the
/// sleeps of hpt-async. Other threads, the wall clock, and sources such as [`Tsc`](crate::Tsc) are not affected;
/// [`FrozenProcess`](super::FrozenProcess) includes other threads.
///
/// Each clock stays in memory until the process ends. Requires the feature `testing`, which adds a branch to every reading of the time;
/// enable the feature only in `[dev-dependencies]`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::{Instant, testing::FrozenClock};
///
/// /// Code under test, which reads the time on its own.
/// fn is_expired(since: Instant) -> bool {
///     since.elapsed() >= Duration::from_secs(3600)
/// }
///
/// let clock = FrozenClock::new();
/// let _entered = clock.enter();
/// let login = Instant::now();
/// clock.advance(Duration::from_secs(3599));
/// assert!(!is_expired(login));
/// clock.advance(Duration::from_secs(1));
/// assert!(is_expired(login));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrozenClock {
    nanos: &'static AtomicI64,
}

/// A guard that makes the calling thread read a [`FrozenClock`] as long as the guard exists.
#[derive(Debug)]
#[must_use = "the thread leaves the clock when the guard is dropped"]
pub struct Entered {
    before: Option<&'static AtomicI64>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl FrozenClock {
    /// Creates a clock that shows the current time, and does not enter it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Clock, Instant, testing::FrozenClock};
    ///
    /// let before = Instant::now();
    /// let clock = FrozenClock::new();
    /// let shown = clock.now();
    /// assert!(before <= shown && shown == clock.now());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(Instant::now())
    }

    /// Creates a clock that shows `instant`, and does not enter it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, testing::FrozenClock};
    ///
    /// // A machine that has just started.
    /// let clock = FrozenClock::starting_at(Instant::EPOCH + Duration::from_secs(1));
    /// let _entered = clock.enter();
    /// assert_eq!(Instant::now().to_string(), "1.000000000");
    /// ```
    #[must_use]
    pub fn starting_at(instant: Instant) -> Self {
        let nanos: &'static AtomicI64 = Box::leak(Box::new(AtomicI64::new(instant.as_nanos())));
        // Leak checkers, such as Miri's, look for memory that nothing refers to.
        CLOCKS.lock().unwrap_or_else(PoisonError::into_inner).push(nanos);
        Self { nanos }
    }

    /// Returns the clock of [`FrozenProcess`](super::FrozenProcess).
    #[cfg(target_os = "linux")]
    pub(super) const fn of_process() -> Self {
        Self { nanos: &frozen::PROCESS_NS }
    }

    /// Makes the calling thread read this clock until the guard is dropped. Several threads may enter the same clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, sleep, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let entered = clock.enter();
    /// let start = Instant::now();
    /// sleep::for_(Duration::from_secs(3600));
    /// assert_eq!(start.elapsed(), Duration::from_secs(3600));
    /// // From here on, the thread reads the system's clock again.
    /// drop(entered);
    /// ```
    pub fn enter(&self) -> Entered {
        Entered { before: frozen::enter(Some(self.nanos)), bound_to_its_thread: PhantomData }
    }

    /// Advances the clock by `duration`, for all threads that have entered it. The clock saturates at [`Instant::MAX`].
    ///
    /// # Ordering
    ///
    /// A thread that sees the advanced time also sees everything that the calling thread did before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Instant, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// let _entered = clock.enter();
    /// let deadline = Instant::now() + Duration::from_secs(60);
    /// clock.advance(Duration::from_secs(59));
    /// assert!(!deadline.has_passed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(deadline.has_passed());
    /// ```
    pub fn advance(&self, duration: Duration) {
        let next = |nanos| Some(Instant::from_nanos(nanos).saturating_add(duration).as_nanos());
        // The closure never refuses.
        let _ = self.nanos.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        self.wake();
    }

    /// Sets the clock to `instant`, which may be earlier than the time that the clock shows.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Clock, Instant, testing::FrozenClock};
    ///
    /// let clock = FrozenClock::new();
    /// clock.set(Instant::EPOCH);
    /// assert_eq!(clock.now(), Instant::EPOCH);
    /// ```
    pub fn set(&self, instant: Instant) {
        self.nanos.store(instant.as_nanos(), Ordering::Release);
        self.wake();
    }

    /// Wakes what waits for deadlines that the process's clock has reached.
    fn wake(&self) {
        if ptr::eq(self.nanos, &raw const frozen::PROCESS_NS) {
            frozen::advance_process(self.nanos.load(Ordering::Acquire));
        }
    }
}

impl Default for FrozenClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FrozenClock {
    /// Returns the time that the clock shows, on any thread.
    fn now(&self) -> Instant {
        Instant::from_nanos(self.nanos.load(Ordering::Acquire))
    }

    /// Advances the clock to `deadline`, unless it shows a later time.
    fn sleep_until(&self, deadline: Instant) {
        self.nanos.fetch_max(deadline.as_nanos(), Ordering::AcqRel);
        self.wake();
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        frozen::enter(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::FrozenClock;
    use crate::{
        clock::{Clock, Instant, SystemClock},
        pace::Pacer,
        sleep::Sleeper,
    };

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_thread_reads_the_clock_that_it_has_entered_until_it_leaves() {
        let clock = FrozenClock::starting_at(Instant::from_nanos(-5));
        let entered = clock.enter();
        assert_eq!(
            (Instant::now(), Instant::now_unordered(), SystemClock.now()),
            (clock.now(), clock.now(), clock.now())
        );
        let start = Instant::now();
        clock.advance(HOUR);
        assert_eq!(start.elapsed(), HOUR);
        {
            let inner = FrozenClock::starting_at(Instant::MAX);
            let _entered = inner.enter();
            inner.advance(HOUR);
            assert_eq!(Instant::now(), Instant::MAX);
        }
        assert_eq!(Instant::now(), clock.now());
        drop(entered);
        assert!(Instant::now().elapsed() < HOUR);
    }

    #[test]
    fn other_threads_read_the_system_clock_unless_they_enter_too() {
        let clock = FrozenClock::starting_at(Instant::MIN);
        let _entered = clock.enter();
        thread::scope(|scope| {
            scope.spawn(|| {
                assert!(Instant::now() > Instant::MIN);
                let _entered = clock.enter();
                clock.set(Instant::from_nanos(7));
                assert_eq!(Instant::now(), Instant::from_nanos(7));
            });
        });
        assert_eq!(Instant::now(), Instant::from_nanos(7));
    }

    #[test]
    fn a_sleep_advances_the_clock_and_an_interrupted_one_does_not() {
        let clock = FrozenClock::new();
        let (_entered, start) = (clock.enter(), clock.now());
        let mut sleeper = Sleeper::new();
        assert!(sleeper.sleep(HOUR).is_in_time());
        assert_eq!(clock.now() - start, HOUR);
        sleeper.waker().wake();
        assert_eq!(sleeper.sleep(HOUR).interrupted, Some(HOUR));
        assert_eq!(clock.now() - start, HOUR);
        assert_eq!(sleeper.sleep_until(start).late, HOUR);
        assert_eq!((sleeper.report().in_time, sleeper.report().interrupted), (2, 1));
        let tomorrow = std::time::SystemTime::now() + 24 * HOUR;
        assert!(sleeper.sleep_until_wall(tomorrow).woken.is_in_time());
        assert!(clock.now() - start > 24 * HOUR);
    }

    #[test]
    fn a_pacer_runs_without_waiting() {
        let clock = FrozenClock::new();
        let (_entered, start) = (clock.enter(), clock.now());
        let mut pacer = Pacer::new(HOUR);
        for tick in 1..=1000 {
            assert_eq!((pacer.wait().late, clock.now() - start), (Duration::ZERO, HOUR * tick));
        }
        clock.advance(HOUR * 3);
        assert_eq!(pacer.wait().skipped, 2);
    }
}
