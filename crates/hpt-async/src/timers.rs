//! Many absolute deadlines, with one thread and one timer of the kernel. Knows no runtime.
//!
//! The deadlines are in a `BTreeMap`. Timer wheels (tokio's, or those of crates) round deadlines to a tick, and a binary
//! heap keeps cancelled deadlines until they reach its top. The map keeps nanoseconds, and removes a deadline at once.
//! With 10^5 deadlines, adding or cancelling one visits four to six nodes.

use std::{
    collections::BTreeMap,
    fmt, hint, io, mem,
    panic::{self, AssertUnwindSafe},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    thread::{self, JoinHandle},
    time::Duration,
};

use hpt_core::{Instant, clock::FrozenDeadline};

use crate::{
    finish::Finish,
    margin::Margin,
    timerfd::{IN_CHILD, TimerFd},
};

/// The interval at which the thread looks for earlier deadlines while it busy-waits.
const LOOK_AGAIN: Duration = Duration::from_micros(2);

/// A set of absolute deadlines, any number of them, that one thread serves with one timer of the kernel.
///
/// At each deadline, the thread runs a callback ([`call_at`](Self::call_at)) or wakes a task
/// ([`sleep_until`](Self::sleep_until)). No runtime is required, and any thread can add and cancel deadlines. Deadlines
/// are served in their order, equal ones in the order in which they were added, never early according to
/// [`Instant::now`], and never twice.
///
/// Clones share the thread. When the last clone and the last [`Sleep`] are dropped, the thread ends; pending callbacks
/// are dropped and do not run. The drop blocks until a callback that is running has returned, except if that callback
/// itself drops the last clone.
///
/// The thread does not exist in a child that is created by `fork`. There, adding a deadline panics, pending ones are
/// neither served nor dropped, and the parent's are not disturbed: create other timers in the child.
///
/// The thread inherits the scheduling policy and the CPUs of the thread that creates it. A callback with the deadline
/// [`Instant::EPOCH`] can change them.
///
/// # Examples
///
/// ```
/// use std::{sync::mpsc, time::Duration};
/// use hpt_async::Timers;
/// use hpt_core::Instant;
///
/// let timers = Timers::new()?;
/// let (sender, receiver) = mpsc::channel();
/// let now = Instant::now();
/// for number in [1, 2, 3] {
///     let sender = sender.clone();
///     timers.call_at(now + Duration::from_millis(number), move || sender.send(number).expect("it is open"));
/// }
/// let timeout = timers.call_at(now + Duration::from_secs(3_600), || eprintln!("timed out"));
/// drop(sender);
/// assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
/// assert!(timeout.cancel());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timers(Arc<Owner>);

/// Ends the thread when the last user is gone.
#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the thread shares with its users.
struct Shared {
    timer: TimerFd,
    queue: Mutex<Queue>,
}

/// A deadline, and a number that is unique and increasing.
type Key = (Instant, u64);

enum Action {
    Call(Box<dyn FnOnce() + Send>),
    Wake(Waker),
}

struct Queue {
    pending: BTreeMap<Key, Action>,
    next_number: u64,
    thread: Serving,
    margin: Margin,
    is_ending: bool,
}

/// The state of the thread.
#[derive(Clone, Copy, Debug)]
enum Serving {
    /// It runs, and looks at the queue before it blocks.
    Running,
    /// It blocks until the timer expires: at `wake_at`, to serve `deadline`; never, if `None`.
    Blocked(Option<Armed>),
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    deadline: Instant,
    wake_at: Instant,
    remaining_ns: u64,
}

impl Timers {
    /// Starts the thread, named `hpt-timers`. It blocks until each deadline ([`Finish::Kernel`]).
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses a timer or a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let (sender, receiver) = mpsc::channel();
    /// timers.call_at(Instant::now() + Duration::from_millis(1), move || sender.send("due").expect("it is open"));
    /// assert_eq!(receiver.recv(), Ok("due"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new() -> io::Result<Self> {
        Self::with_finish(Finish::Kernel)
    }

    /// Starts the thread with a choice of what it does in the last microseconds before a deadline. [`Finish::Yield`]
    /// yields to other threads of this CPU.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses a timer or a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use hpt_async::{Finish, Timers};
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::with_finish(Finish::Spin)?;
    /// let (sender, receiver) = mpsc::channel();
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// timers.call_at(deadline, move || sender.send(deadline.elapsed()).expect("it is open"));
    /// println!("{:?} late", receiver.recv().expect("it was sent"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_finish(finish: Finish) -> io::Result<Self> {
        let queue = Queue {
            pending: BTreeMap::new(),
            next_number: 0,
            thread: Serving::Running,
            margin: Margin::new(finish),
            is_ending: false,
        };
        let shared = Arc::new(Shared { timer: TimerFd::blocking()?, queue: Mutex::new(queue) });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name("hpt-timers".to_owned()).spawn(move || served.serve())?;
        Ok(Self(Arc::new(Owner { shared, thread: Some(thread) })))
    }

    /// Runs `callback` on the timers' thread at `deadline`, immediately if it has passed. Returns a handle that can
    /// cancel the call; dropping the handle does not cancel it.
    ///
    /// A callback delays all later ones while it runs: send a message, or set a flag. If it panics, the others still
    /// run.
    ///
    /// # Panics
    ///
    /// Panics in a child that was created by `fork` after these timers.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let (timers, start) = (Timers::new()?, Instant::now());
    /// let (sender, receiver) = mpsc::channel();
    /// for ms in [3, 1, 2] {
    ///     let sender = sender.clone();
    ///     timers.call_at(start + Duration::from_millis(ms), move || sender.send(ms).expect("it is open"));
    /// }
    /// drop(sender);
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn call_at(&self, deadline: Instant, callback: impl FnOnce() + Send + 'static) -> Call {
        let shared = self.0.shared.of_this_process().expect(IN_CHILD);
        let key = locked(&shared.queue).add(&shared.timer, deadline, Action::Call(Box::new(callback)));
        Call { shared: Arc::downgrade(&self.0.shared), key }
    }

    /// Returns a future that completes at `deadline`, in any runtime. Dropping it removes the deadline.
    ///
    /// Its overshoot includes the time until the runtime polls the task. [`AsyncSleeper`](crate::AsyncSleeper) learns
    /// this time, and is more precise.
    ///
    /// # Panics
    ///
    /// The future panics in a child that was created by `fork` after these timers.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// timers.sleep_until(deadline).await;
    /// assert!(deadline.has_passed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep { timers: self.clone(), deadline, key: None, frozen: None }
    }

    /// Returns a future that completes after `duration`, counted from this call. See [`sleep_until`](Self::sleep_until).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let start = Instant::now();
    /// timers.sleep(Duration::from_millis(1)).await;
    /// assert!(start.elapsed() >= Duration::from_millis(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(Instant::now().saturating_add(duration))
    }

    /// Returns the number of deadlines that are pending: calls, and sleeps that were polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let call = timers.call_at(Instant::now() + Duration::from_secs(3600), || println!("an hour has passed"));
    /// assert_eq!(timers.pending(), 1);
    /// call.cancel();
    /// assert_eq!(timers.pending(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.0.shared.of_this_process().map_or(0, |shared| locked(&shared.queue).pending.len())
    }

    #[cfg(test)]
    fn is_armed(&self) -> bool {
        self.0.shared.timer.is_armed()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.shared.of_this_process().is_none() {
            // There is no thread to detach.
            mem::forget(self.thread.take());
            return;
        }
        let pending = {
            let mut queue = locked(&self.shared.queue);
            queue.is_ending = true;
            self.shared.timer.arm(Instant::EPOCH);
            mem::take(&mut queue.pending)
        };
        // Callbacks may own anything, so no lock is held when they are dropped.
        drop(pending);
        // The last user can be a callback.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id()) {
            // The thread does not panic: it catches the panics of callbacks.
            let _ = thread.join();
        }
    }
}

/// A pending call of [`Timers::call_at`].
#[derive(Clone, Debug)]
pub struct Call {
    shared: Weak<Shared>,
    key: Key,
}

impl Call {
    /// Cancels the call and drops its callback. Returns whether that succeeded; otherwise, the callback has started, or
    /// was cancelled before.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let call = timers.call_at(Instant::now() + Duration::from_secs(3600), || println!("no answer"));
    /// assert!(call.cancel());
    /// // It was cancelled before.
    /// assert!(!call.cancel());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "most callers need only the effect")]
    pub fn cancel(&self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let Some(shared) = shared.of_this_process() else { return false };
        let removed = locked(&shared.queue).remove(&shared.timer, self.key);
        removed.is_some()
    }

    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let deadline = Instant::now() + Duration::from_secs(3600);
    /// let call = timers.call_at(deadline, || println!("no answer"));
    /// assert_eq!(call.deadline(), deadline);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.key.0
    }
}

/// The future of [`Timers::sleep_until`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Sleep {
    timers: Timers,
    deadline: Instant,
    /// Set once the deadline is in the queue.
    key: Option<Key>,
    /// The deadline on a clock that a test controls.
    frozen: Option<FrozenDeadline>,
}

impl Sleep {
    /// Returns the deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use std::time::Duration;
    /// use hpt_async::Timers;
    /// use hpt_core::Instant;
    ///
    /// let timers = Timers::new()?;
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// let sleep = timers.sleep_until(deadline);
    /// assert_eq!(sleep.deadline(), deadline);
    /// sleep.await;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    fn remove(&mut self) {
        if let (Some(key), Some(shared)) = (self.key.take(), self.timers.0.shared.of_this_process()) {
            let removed = locked(&shared.queue).remove(&shared.timer, key);
            // A waker may own a task that owns other sleeps, so no lock is held when it is dropped.
            drop(removed);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.deadline {
            self.remove();
            return Poll::Ready(());
        }
        let this = &mut *self;
        this.frozen = FrozenDeadline::new(this.deadline, context.waker());
        if let Some(frozen) = &this.frozen {
            return if frozen.has_passed() { Poll::Ready(()) } else { Poll::Pending };
        }
        // Declared before the lock, so that an earlier waker is dropped after it is released.
        let mut action = Action::Wake(context.waker().clone());
        let shared = this.timers.0.shared.of_this_process().expect(IN_CHILD);
        let mut queue = locked(&shared.queue);
        if let Some(known) = this.key.and_then(|key| queue.pending.get_mut(&key)) {
            mem::swap(known, &mut action);
        } else {
            this.key = Some(queue.add(&shared.timer, this.deadline, action));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Queue {
    /// Adds a deadline, and wakes the thread earlier if required.
    fn add(&mut self, timer: &TimerFd, deadline: Instant, action: Action) -> Key {
        let key = (deadline, self.next_number);
        self.next_number += 1;
        self.pending.insert(key, action);
        let Serving::Blocked(armed) = self.thread else { return key };
        if armed.is_none_or(|armed| deadline < armed.deadline) {
            let armed =
                self.wake_up_for(deadline).unwrap_or_else(|now| Armed { deadline, wake_at: now, remaining_ns: 0 });
            timer.arm(armed.wake_at);
            self.thread = Serving::Blocked(Some(armed));
        }
        key
    }

    /// Removes a deadline. The timer stays armed for it, unless it was the last one: most deadlines are cancelled, and
    /// the thread then wakes up once for many of them.
    fn remove(&mut self, timer: &TimerFd, key: Key) -> Option<Action> {
        let removed = self.pending.remove(&key)?;
        match &mut self.thread {
            Serving::Blocked(armed @ Some(_)) if self.pending.is_empty() => {
                *armed = None;
                timer.disarm();
            }
            Serving::Blocked(_) | Serving::Running => {}
        }
        Some(removed)
    }

    /// Returns when the thread has to be woken for this deadline; the current time if the deadline is too close to
    /// block.
    fn wake_up_for(&mut self, deadline: Instant) -> Result<Armed, Instant> {
        let now = Instant::now();
        let remaining_ns = deadline.nanos_since(now);
        // A clock that a test controls does not advance while this thread waits without blocking.
        match if FrozenDeadline::is_any() { Some(remaining_ns) } else { self.margin.block_ns(remaining_ns) } {
            Some(block_ns) => {
                let wake_at = now.saturating_add(Duration::from_nanos(block_ns));
                Ok(Armed { deadline, wake_at, remaining_ns })
            }
            None => Err(now),
        }
    }
}

/// The next step of the thread.
enum Next {
    Run(Action),
    /// Waits without blocking for a deadline that is close.
    Finish(Finish, Instant),
    Block,
    End,
}

impl Shared {
    /// Returns this state; `None` in a forked child, where no thread would unlock the queue, and the timer is that of the parent.
    fn of_this_process(&self) -> Option<&Self> {
        self.timer.is_of_this_process().then_some(self)
    }

    fn serve(&self) {
        loop {
            match self.next() {
                Next::Run(action) => caught(|| action.run()),
                Next::Finish(Finish::Yield, _) => thread::yield_now(),
                Next::Finish(Finish::Kernel | Finish::Spin, until) => {
                    while Instant::now() < until {
                        hint::spin_loop();
                    }
                }
                Next::Block => {
                    self.timer.read().expect("a blocking timer can be read");
                    self.woken();
                }
                Next::End => return,
            }
        }
    }

    fn next(&self) -> Next {
        let mut queue = locked(&self.queue);
        if queue.is_ending {
            return Next::End;
        }
        let Some(first) = queue.pending.first_entry() else {
            self.timer.disarm();
            queue.thread = Serving::Blocked(None);
            return Next::Block;
        };
        let deadline = first.key().0;
        if Instant::now() >= deadline {
            return Next::Run(first.remove());
        }
        match queue.wake_up_for(deadline) {
            Ok(armed) => {
                self.timer.arm(armed.wake_at);
                queue.thread = Serving::Blocked(Some(armed));
                Next::Block
            }
            Err(now) => Next::Finish(queue.margin.finish(), deadline.min(now.saturating_add(LOOK_AGAIN))),
        }
    }

    /// Records that the timer expired.
    fn woken(&self) {
        let now = Instant::now();
        let mut queue = locked(&self.queue);
        match mem::replace(&mut queue.thread, Serving::Running) {
            Serving::Blocked(Some(armed)) if armed.remaining_ns > 0 => {
                queue.margin.learn(armed.remaining_ns, now.nanos_since(armed.wake_at));
            }
            Serving::Blocked(_) | Serving::Running => {}
        }
    }
}

impl Action {
    fn run(self) {
        match self {
            Self::Call(callback) => callback(),
            Self::Wake(waker) => waker.wake(),
        }
    }
}

/// Runs code of a user. A panic was reported by the panic hook, and ends there: the queue is not locked, and other
/// deadlines are served.
fn caught(code: impl FnOnce()) {
    let Err(payload) = panic::catch_unwind(AssertUnwindSafe(code)) else { return };
    if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // The payload panicked when it was dropped, and what it panicked with may do the same.
        mem::forget(second);
    }
}

/// Locks the queue. No code of a user runs under this lock, so that nothing can panic or wait there.
fn locked(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.try_lock().ok();
        formatter
            .debug_struct("Shared")
            .field("pending", &queue.as_ref().map(|queue| queue.pending.len()))
            .field("thread", &queue.as_ref().map(|queue| queue.thread))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
        thread,
        time::Duration,
    };

    use hpt_core::Instant;

    use super::{Serving, Timers, locked};
    use crate::finish::Finish;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn until_blocked(timers: &Timers) {
        while matches!(locked(&timers.0.shared.queue).thread, Serving::Running) {
            thread::yield_now();
        }
    }

    #[test]
    fn the_timer_is_armed_only_while_a_deadline_is_pending() {
        for finish in [Finish::Kernel, Finish::Yield, Finish::Spin] {
            let timers = Timers::with_finish(finish).expect("the kernel has timers");
            until_blocked(&timers);
            assert!(!timers.is_armed());
            let later = timers.call_at(Instant::now() + 2 * HOUR, || ());
            let earlier = timers.call_at(Instant::now() + HOUR, || ());
            assert!(timers.is_armed());
            assert!(later.cancel() && timers.is_armed());
            assert!(earlier.cancel() && !timers.is_armed(), "it is disarmed with the last deadline");
            assert!(!earlier.cancel(), "it was cancelled before");

            let call = timers.call_at(Instant::EPOCH, || ());
            while timers.pending() > 0 {
                thread::yield_now();
            }
            until_blocked(&timers);
            assert!(!timers.is_armed() && !call.cancel(), "it ran");
        }
    }

    #[test]
    fn a_dropped_sleep_leaves_no_deadline() {
        let timers = Timers::new().expect("the kernel has timers");
        {
            let mut sleep = pin!(timers.sleep_until(Instant::now() + HOUR));
            assert_eq!(timers.pending(), 0, "it was not polled");
            for _ in 0..3 {
                assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                assert_eq!(timers.pending(), 1);
            }
        }
        until_blocked(&timers);
        assert_eq!((timers.pending(), timers.is_armed()), (0, false));
    }
}
