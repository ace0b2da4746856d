//! The timer slack: the time by which the kernel may delay the wake-up of a thread to save power. This module does not
//! wait.

use std::{ffi::c_ulong, marker::PhantomData};

use crate::wait;

/// A guard that keeps the timer slack of the calling thread at its minimum as long as the guard exists.
#[derive(Debug)]
#[must_use = "the previous slack is restored when the guard is dropped"]
pub struct NoSlack {
    before: Option<c_ulong>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl NoSlack {
    /// Sets the timer slack to 1 ns, the minimum.
    pub fn hold() -> Self {
        let before = wait::timer_slack().filter(|&before| before > 1);
        if before.is_some() {
            wait::set_timer_slack(1);
        }
        Self { before, bound_to_its_thread: PhantomData }
    }

    /// Returns whether the slack was not at its minimum before.
    pub const fn is_needed(&self) -> bool {
        self.before.is_some()
    }
}

/// The number of sleeps for which a slack that was at its minimum is assumed to stay there.
const ASSUMED: u32 = 16;

/// The timer slack of a thread that sleeps repeatedly. Reading the slack is a system call.
#[derive(Clone, Copy, Debug, Default)]
pub struct KnownSlack {
    /// The number of sleeps for which the slack is assumed to be at its minimum, without reading it.
    unread: u32,
}

impl KnownSlack {
    /// Sets the timer slack to its minimum as long as the guard exists. Returns no guard if the slack was at its minimum
    /// in one of the last 16 sleeps, as on threads with a real-time policy. The answer is used for this many sleeps.
    pub fn hold(&mut self, sleeps: u32) -> Option<NoSlack> {
        if self.unread > 0 {
            self.unread = self.unread.saturating_sub(sleeps);
            return None;
        }
        let guard = NoSlack::hold();
        if guard.before.is_none() {
            self.unread = ASSUMED.saturating_sub(sleeps);
        }
        Some(guard)
    }
}

impl Drop for NoSlack {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            wait::set_timer_slack(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownSlack, NoSlack};
    use crate::wait;

    #[test]
    fn a_minimal_slack_is_read_once_in_16_sleeps() {
        let Some(_) = wait::timer_slack() else {
            return skipped!("this kernel does not report the timer slack");
        };
        let minimal = NoSlack::hold();
        for sleeps in [1, 8, 16] {
            let mut slack = KnownSlack::default();
            let reads: Vec<bool> = (0..32 / sleeps).map(|_| slack.hold(sleeps).is_some()).collect();
            let expected: Vec<bool> = (0..32 / sleeps).map(|call| call * sleeps % 16 == 0).collect();
            assert_eq!(reads, expected, "{sleeps}");
        }
        drop(minimal);
    }

    #[test]
    fn a_guard_removes_the_timer_slack_and_restores_it_on_drop() {
        let Some(before) = wait::timer_slack() else {
            return skipped!("this kernel does not report the timer slack");
        };
        let guard = NoSlack::hold();
        assert_eq!(wait::timer_slack(), Some(before.min(1)));
        drop(guard);
        assert_eq!(wait::timer_slack(), Some(before));
    }
}
