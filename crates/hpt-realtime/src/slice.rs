//! The time slice of an ordinary thread, for waits beside other threads that need its CPU.

use std::{io, marker::PhantomData, time::Duration};

use hpt_sys::{process::Scheduling, units::saturating_nanos};

use super::RealtimeError;

/// A guard that keeps a time slice of its own for the calling thread as long as the guard exists. Since Linux 6.12, an
/// ordinary thread with a shorter slice than the others of its CPU gets its turn sooner, and ends it sooner. Its share of
/// the CPU does not change. A thread under a real-time policy has no slice of this kind.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use hpt_core::sleep;
/// use hpt_realtime::ShortSlice;
///
/// match ShortSlice::new(Duration::from_micros(100)) {
///     Ok(_slice) => println!("{:?} late", sleep::for_(Duration::from_millis(1))),
///     Err(refused) => println!("{refused}"),
/// }
/// ```
#[derive(Debug)]
#[must_use = "the previous slice is restored when the guard is dropped"]
pub struct ShortSlice {
    before: Scheduling,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl ShortSlice {
    /// Sets the slice of the calling thread. The kernel limits it to 0.1 ms to 100 ms.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Slice`] if the kernel is older than Linux 6.12, if it refuses the slice, or if the thread
    /// has a real-time policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::Sleeper;
    /// use hpt_realtime::ShortSlice;
    ///
    /// let (mut sleeper, ms) = (Sleeper::new(), Duration::from_millis(1));
    /// println!("{:?} late with the usual slice", sleeper.sleep(ms).late);
    /// if let Ok(_slice) = ShortSlice::new(Duration::from_micros(100)) {
    ///     println!("{:?} late with a short one", sleeper.sleep(ms).late);
    /// }
    /// ```
    pub fn new(slice: Duration) -> Result<Self, RealtimeError> {
        let refused = |cause| RealtimeError::Slice { slice, cause };
        let before = Scheduling::of_this_thread().map_err(refused)?;
        if ![libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&before.policy) {
            return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
        }
        // An older kernel ignores the slice, and reports none.
        if before.runtime == 0 {
            return Err(refused(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        Scheduling { runtime: saturating_nanos(slice).max(1), ..before }.apply().map_err(refused)?;
        Ok(Self { before, bound_to_its_thread: PhantomData })
    }
}

impl Drop for ShortSlice {
    fn drop(&mut self) {
        // Zero is the default slice, which follows the kernel's setting. Another one was set before.
        let _ = Scheduling { runtime: 0, ..self.before }.apply();
        if Scheduling::of_this_thread().is_ok_and(|now| now.runtime != self.before.runtime) {
            let _ = self.before.apply();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ShortSlice;
    use crate::{Fifo, RealtimeError};
    use hpt_sys::process::Scheduling;

    fn slice_ns() -> u64 {
        Scheduling::of_this_thread().expect("every kernel reports the policy").runtime
    }

    #[test]
    fn nested_slices_are_set_and_restored_in_turn() {
        let before = slice_ns();
        let outer = match ShortSlice::new(Duration::from_micros(500)) {
            Ok(outer) => outer,
            Err(refused) => return skipped!("{refused}"),
        };
        assert_eq!(slice_ns(), 500_000);
        drop(ShortSlice::new(Duration::from_micros(100)).expect("as the first one"));
        assert_eq!(slice_ns(), 500_000);
        // The kernel's limits.
        let shortest = ShortSlice::new(Duration::ZERO).expect("as the first one");
        assert_eq!(slice_ns(), 100_000);
        drop((shortest, outer));
        assert_eq!(slice_ns(), before);
    }

    #[test]
    fn a_real_time_thread_has_no_slice() {
        let Ok(_fifo) = Fifo::new(1) else { return skipped!("a real-time policy requires root") };
        let refused = ShortSlice::new(Duration::from_millis(1)).expect_err("it has a real-time policy");
        assert!(matches!(refused, RealtimeError::Slice { .. }), "{refused}");
    }
}
