//! A clock that stands still for all threads of a process, and advances while none of them works. Requires the feature
//! `testing`, and Linux, which tells whether a thread works.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::FrozenClock;
use crate::clock::{Instant, frozen};

/// The pause between two looks at threads that work.
const PAUSE: Duration = Duration::from_micros(50);
/// Only one test at a time can freeze the process.
static ALONE: Mutex<()> = Mutex::new(());

/// A clock that stands still for all threads of the process while this guard exists, those included that start later, and
/// with them all tasks of an asynchronous runtime. While no thread works, the clock jumps to the next deadline of a
/// [`Sleeper`](crate::Sleeper), a [`Pacer`](crate::Pacer), [`sleep::until`](crate::sleep::until) or of the crate hpt-async.
/// So the program waits for the same things in the same order as otherwise, but not for the time: a day takes about a
/// second if it has ten thousand deadlines.
///
/// A thread works unless it is blocked in the kernel. Waits for other clocks, such as `std::thread::sleep` or
/// `tokio::time::sleep`, are not known: the clock passes them. All tests of the process read the clock: put such a test
/// into a file of its own in `tests`, which is a process of its own. Two of them in one process run one after the other.
///
/// # Examples
///
/// ```standalone_crate
/// use std::{thread, time::Duration};
/// use hpt_core::{Instant, Pacer, sleep, testing::FrozenProcess};
///
/// /// The program under test: counts minutes in a thread of its own.
/// fn count_minutes() -> u32 {
///     let counter = thread::spawn(|| {
///         let (start, mut pacer, mut minutes) = (Instant::now(), Pacer::new(Duration::from_secs(60)), 0);
///         while start.elapsed() < Duration::from_secs(3_600) {
///             let _ = pacer.wait();
///             minutes += 1;
///         }
///         minutes
///     });
///     counter.join().unwrap()
/// }
///
/// let frozen = FrozenProcess::enter();
/// let start = Instant::now();
/// assert_eq!(count_minutes(), 60);
/// sleep::for_(Duration::from_secs(82_800));
/// assert_eq!(start.elapsed(), Duration::from_secs(86_400));
/// # drop(frozen);
/// ```
#[derive(Debug)]
#[must_use = "the process leaves the clock when the guard is dropped"]
pub struct FrozenProcess {
    driver: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
    _alone: MutexGuard<'static, ()>,
}

impl FrozenProcess {
    /// Makes all threads of the process read a clock that shows the current time. Waits until another guard is dropped;
    /// a thread that holds one must not call it.
    ///
    /// # Panics
    ///
    /// Panics if no thread can be started.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use std::{thread, time::Duration};
    /// use hpt_core::{Instant, sleep, testing::FrozenProcess};
    ///
    /// let frozen = FrozenProcess::enter();
    /// let start = Instant::now();
    /// let sleeper = thread::spawn(|| sleep::for_(Duration::from_secs(3600)));
    /// sleeper.join().expect("it only sleeps");
    /// assert_eq!(start.elapsed(), Duration::from_secs(3600));
    /// # drop(frozen);
    /// ```
    pub fn enter() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        frozen::enter_process(Some(Instant::now()));
        let is_over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&is_over);
        let driver = thread::Builder::new().name("hpt-frozen".to_owned()).spawn(move || drive(&watched));
        Self { driver: Some(driver.expect("a thread can be started")), is_over, _alone: alone }
    }

    /// Returns the clock, for [`FrozenClock::advance`], which makes it jump past deadlines, and for code that is generic
    /// over [`Clock`](crate::Clock).
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// use std::time::Duration;
    /// use hpt_core::{Instant, testing::FrozenProcess};
    ///
    /// let frozen = FrozenProcess::enter();
    /// let start = Instant::now();
    /// frozen.clock().advance(Duration::from_secs(60));
    /// assert_eq!(start.elapsed(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub const fn clock(&self) -> FrozenClock {
        FrozenClock::of_process()
    }
}

impl Drop for FrozenProcess {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(driver) = self.driver.take() {
            driver.thread().unpark();
            // It does not panic.
            let _ = driver.join();
        }
        frozen::enter_process(None);
    }
}

/// Advances the clock to the next deadline whenever no thread works.
fn drive(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        // What was woken for the last deadline works already: a wake-up makes a thread ready at once. A thread that works may
        // add an earlier deadline, so they are looked at afterwards.
        let is_waiting = frozen::next_deadline().is_some() && is_idle();
        match is_waiting.then(frozen::next_deadline).flatten() {
            Some(deadline_ns) => {
                frozen::PROCESS_NS.fetch_max(deadline_ns, Ordering::AcqRel);
                frozen::advance_process(deadline_ns);
            }
            None => thread::park_timeout(PAUSE),
        }
    }
}

/// Returns whether all other threads are blocked in the kernel, and were all the time between two looks at each.
fn is_idle() -> bool {
    let Some(before) = blocked_threads() else { return false };
    blocked_threads().is_some_and(|now| now == before)
}

/// Returns how often each other thread has been switched to; `None` if one of them is not blocked.
fn blocked_threads() -> Option<BTreeMap<String, Vec<String>>> {
    let own = fs::read_link("/proc/thread-self").ok()?;
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir("/proc/self/task").ok()? {
        let name = entry.ok()?.file_name();
        if own.file_name() == Some(&name) {
            continue;
        }
        let name = name.to_string_lossy().into_owned();
        // A thread that has ended meanwhile is looked for again.
        let status = fs::read_to_string(format!("/proc/self/task/{name}/status")).ok()?;
        let is_blocked = status.lines().any(|line| line.starts_with("State:\tS"));
        let switches = status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect();
        threads.insert(name, is_blocked.then_some(switches)?);
    }
    Some(threads)
}
