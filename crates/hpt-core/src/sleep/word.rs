//! Defines the word that interrupts a sleeper. Any thread can set the word at any time; the sleeper clears it when its
//! sleep ends. The caller provides the function that waits. In `mod`, this function uses the kernel's futex; the loom
//! model replaces it to check all interleavings of threads.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// A word that is zero until an interruption sets it, and the number of its wakers.
#[derive(Debug)]
pub(crate) struct Word {
    word: AtomicU32,
    wakers: AtomicUsize,
}

impl Default for Word {
    fn default() -> Self {
        Self { word: AtomicU32::new(0), wakers: AtomicUsize::new(0) }
    }
}

impl Word {
    /// Interrupts the current sleep, or else the next one. `wake` wakes a thread that is blocked on the word in the
    /// kernel.
    pub(crate) fn set(&self, wake: impl FnOnce(&AtomicU32)) {
        // If the word is already set, the thread that set it wakes the sleeper.
        if self.word.swap(1, Ordering::AcqRel) == 0 {
            wake(&self.word);
        }
    }

    /// Returns whether an interruption is pending.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.word.load(Ordering::Acquire) != 0
    }

    /// Counts a new waker. The sleeper's own thread calls this, or a thread with another waker.
    pub(crate) fn add_waker(&self) {
        self.wakers.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a waker that was dropped.
    pub(crate) fn remove_waker(&self) {
        self.wakers.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether no interruption is pending and there is no waker from which one could come.
    #[inline(always)]
    pub(crate) fn is_out_of_reach(&self) -> bool {
        // The last waker may have been dropped after it set the word. This ordering makes that visible.
        self.wakers.load(Ordering::Acquire) == 0 && !self.is_set()
    }

    /// Clears the pending interruption, so that it ends only one sleep. Returns whether an interruption was pending.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        self.is_set() && self.word.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `wait` once. `wait` must not block while the word is set; it can return spuriously.
    pub(crate) fn wait_once(&self, wait: impl FnOnce(&AtomicU32)) {
        wait(&self.word);
    }

    /// Calls `wait` repeatedly until `is_due` returns true or the word is set. `wait` must not block while the word is
    /// set; it can return spuriously.
    #[inline(always)]
    pub(crate) fn until_set_or(&self, mut is_due: impl FnMut() -> bool, mut wait: impl FnMut(&AtomicU32)) {
        while !is_due() && !self.is_set() {
            wait(&self.word);
        }
    }
}
