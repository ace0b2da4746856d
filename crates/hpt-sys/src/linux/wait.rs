//! Waits in the kernel for a deadline or for a wake-up through a word in memory (futex(2)). Also contains the timer
//! slack, the delay by which the kernel may postpone a wake-up to save power. Makes no decisions; `sleep` does.

use std::{
    io,
    sync::atomic::AtomicU32,
    thread,
    time::{Duration, Instant},
};

/// The clock of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Till {
    Monotonic,
    /// The wall clock: if it is set, the wait ends earlier or later.
    Realtime,
}

/// A time in the kernel's format, with 64-bit seconds even if the C library uses 32 bits.
#[repr(C)]
struct WakeTime64 {
    seconds: i64,
    nanoseconds: i64,
}

/// Waits until the clock reaches `moment` after its epoch, or until [`wake`] is called. Returns at once if `word` is
/// not zero. May return spuriously, so the caller must check the condition again.
pub fn wait_while_zero(word: &AtomicU32, till: Till, moment: Duration) {
    let clock = match till {
        Till::Monotonic => 0,
        Till::Realtime => libc::FUTEX_CLOCK_REALTIME,
    };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG | clock;
    #[cfg(target_pointer_width = "64")]
    let _ = wait(libc::SYS_futex, word, operation, &timespec64(moment));
    #[cfg(target_pointer_width = "32")]
    if wait(SYS_FUTEX_TIME64, word, operation, &timespec64(moment)) == Err(libc::ENOSYS) {
        // The kernel is older than Linux 5.1. A deadline after 2038 takes more than one wait: this wait returns, and
        // the caller checks again.
        let seconds = libc::c_long::try_from(moment.as_secs()).unwrap_or(libc::c_long::MAX);
        let nanoseconds = libc::c_long::try_from(moment.subsec_nanos()).unwrap_or(0);
        let _ = wait(libc::SYS_futex, word, operation, &[seconds, nanoseconds]);
    }
}

/// Linux, arch/arm/tools/syscall.tbl.
#[cfg(target_pointer_width = "32")]
const SYS_FUTEX_TIME64: libc::c_long = 422;

fn timespec64(moment: Duration) -> WakeTime64 {
    // If the nanoseconds do not fit into 64 bits, the kernel uses the last representable time instead. Linux,
    // include/linux/ktime.h, ktime_set.
    let seconds = i64::try_from(moment.as_secs()).unwrap_or(i64::MAX);
    WakeTime64 { seconds, nanoseconds: moment.subsec_nanos().into() }
}

/// Makes the system call `number`, which must take its time as a `T`.
fn wait<T>(number: libc::c_long, word: &AtomicU32, operation: libc::c_int, moment: &T) -> Result<(), libc::c_int> {
    // SAFETY: the word and the time are live for the duration of the call, and the time has the form that this call
    // reads; it writes to neither. This operation does not read the fifth argument. The sixth argument allows any
    // waker. futex(2).
    let answer = unsafe {
        libc::syscall(
            number,
            word.as_ptr(),
            operation,
            0_u32,
            std::ptr::from_ref(moment),
            std::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) }
}

/// Sleeps until the clock reaches `moment` after its epoch, with clock_nanosleep(2). Signals do not end the sleep.
///
/// Returns the kernel's error if it refuses to sleep, as in a sandbox.
pub fn sleep_until(till: Till, moment: Duration) -> io::Result<()> {
    while !sleep_once(till, moment)? {}
    Ok(())
}

/// Sleeps until the clock reaches `moment` after its epoch, or until a signal is handled. Returns whether the sleep
/// reached its deadline, or the kernel's error if it refuses to sleep.
#[allow(
    clippy::unnecessary_fallible_conversions,
    clippy::useless_conversion,
    reason = "c_long is 32 bits wide on some targets"
)]
pub fn sleep_once(till: Till, moment: Duration) -> io::Result<bool> {
    let clock = match till {
        Till::Monotonic => libc::CLOCK_MONOTONIC,
        Till::Realtime => libc::CLOCK_REALTIME,
    };
    // SAFETY: timespec consists of integers (and padding), for which zero is a valid value.
    let mut deadline = unsafe { std::mem::zeroed::<libc::timespec>() };
    deadline.tv_sec = moment.as_secs().try_into().unwrap_or(libc::c_long::MAX.into());
    deadline.tv_nsec = libc::c_long::try_from(moment.subsec_nanos()).unwrap_or(0);
    // SAFETY: `deadline` is live; an absolute sleep writes no remainder. clock_nanosleep(2).
    let answer =
        unsafe { libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &raw const deadline, std::ptr::null_mut()) };
    match answer {
        0 => Ok(true),
        libc::EINTR => Ok(false),
        refused => Err(io::Error::from_raw_os_error(refused)),
    }
}

/// Returns the kernel's error if `std::thread::sleep` would panic: the standard library expects that no sleep is
/// refused.
pub fn refusal_of_std_sleep() -> Option<io::Error> {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is live; the remainder may be null. nanosleep(2).
    let answer = unsafe { libc::nanosleep(&raw const at_once, std::ptr::null_mut()) };
    let refused = io::Error::last_os_error();
    (answer != 0 && refused.kind() != io::ErrorKind::Interrupted).then_some(refused)
}

/// Pauses the thread for at least `duration`. Unlike `std::thread::sleep`, this function does not panic if a sandbox
/// refuses the system call; the thread then yields until the time is over. May be called in a signal handler.
pub fn pause(duration: Duration) {
    let begun = Instant::now();
    loop {
        let left = duration.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        // The loop waits again if the time is cut short here.
        let milliseconds = libc::c_int::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(libc::c_int::MAX);
        // SAFETY: no file descriptors are passed, so the call reads no memory. poll(2).
        let answer = unsafe { libc::poll(std::ptr::null_mut(), 0, milliseconds) };
        if answer < 0 {
            thread::yield_now();
        }
    }
}

/// Wakes all threads that wait on `word`. May be called in a signal handler.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word is live; this operation uses its address as a key, takes a number of waiters, and reads no other
    // argument. futex(2).
    let _ = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
            std::ptr::null::<WakeTime64>(),
            std::ptr::null::<u32>(),
            0_u32,
        )
    };
}

/// Returns the timer slack of this thread in nanoseconds; `None` if the kernel does not report it. The kernel can delay
/// wake-ups of the thread by up to the slack, to combine them with others.
pub fn timer_slack() -> Option<libc::c_ulong> {
    // SAFETY: the call reads no further argument. prctl(2), PR_GET_TIMERSLACK. The C library's function is not used,
    // because it returns an int and the slack is a long.
    let nanoseconds = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK) };
    // Linux, kernel/sys.c: a slack that does not fit is returned as the largest value that does.
    (nanoseconds != -1).then_some(libc::c_ulong::from_ne_bytes(nanoseconds.to_ne_bytes()))
}

/// Sets the timer slack of this thread, in nanoseconds; 0 selects the thread's default.
pub fn set_timer_slack(nanoseconds: libc::c_ulong) {
    // SAFETY: the call takes a number. prctl(2), PR_SET_TIMERSLACK.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
        time::{Duration, Instant, SystemTime},
    };

    use super::{Till, set_timer_slack, timer_slack, wait_while_zero, wake};
    use crate::clock::{Clock, ClockId, Route};

    fn now(clock: ClockId) -> Duration {
        Duration::from_nanos(Clock::unasked(clock, Route::Library).nanos())
    }

    #[test]
    fn either_clock_waits_for_a_deadline() {
        for (till, clock) in [(Till::Monotonic, ClockId::Monotonic), (Till::Realtime, ClockId::Realtime)] {
            let start = Instant::now();
            let moment = now(clock) + Duration::from_millis(20);
            let word = AtomicU32::new(0);
            // The wait may return spuriously, but not every time.
            while now(clock) < moment && start.elapsed() < Duration::from_secs(60) {
                wait_while_zero(&word, till, moment);
            }
            assert!(now(clock) >= moment && start.elapsed() >= Duration::from_millis(15), "{till:?}");
        }
    }

    #[test]
    fn a_past_deadline_or_a_changed_word_is_not_waited_for() {
        // The test passes if both waits return, because nothing else ends the second wait.
        wait_while_zero(&AtomicU32::new(0), Till::Monotonic, Duration::ZERO);
        wait_while_zero(&AtomicU32::new(1), Till::Monotonic, Duration::from_secs(u64::MAX));
    }

    #[test]
    fn a_thread_that_waits_forever_can_be_woken() {
        let word = AtomicU32::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait_while_zero(&word, Till::Monotonic, Duration::from_secs(u64::MAX));
                }
            });
            thread::sleep(Duration::from_millis(5));
            word.store(1, Ordering::Release);
            wake(&word);
        });
        assert!(SystemTime::now() > SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn the_timer_slack_can_be_set() {
        let Some(before) = timer_slack() else { return skipped!("this kernel does not report the timer slack") };
        // The last value exceeds an int, which an emulator of system calls may return.
        let emulated = std::env::var_os("HPT_TEST_RUNNER").is_some();
        for slack in [7_777, 3_000_000_000].into_iter().take(if emulated { 1 } else { 2 }) {
            set_timer_slack(slack);
            assert_eq!(timer_slack(), Some(slack));
        }
        set_timer_slack(before);
        assert_eq!(timer_slack(), Some(before));
    }
}
