//! Defines the word that interrupts a sleeper. Any thread can set the word at any time; the sleeper clears it when its
//! sleep ends. The caller provides the function that waits. In `mod`, this function uses the kernel's futex; the loom
//! model replaces it to check all interleavings of threads.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// A word that is zero until an interruption sets it.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl Default for Word {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Word {
    /// Interrupts the current sleep, or else the next one. `wake` wakes a thread that is blocked on the word in the
    /// kernel.
    pub(crate) fn set(&self, wake: impl FnOnce(&AtomicU32)) {
        // If the word is already set, the thread that set it wakes the sleeper.
        if self.0.swap(1, Ordering::AcqRel) == 0 {
            wake(&self.0);
        }
    }

    /// Returns whether an interruption is pending.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Clears the pending interruption, so that it ends only one sleep. Returns whether an interruption was pending.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        self.is_set() && self.0.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `wait` once. `wait` must not block while the word is set; it can return spuriously.
    pub(crate) fn wait_once(&self, wait: impl FnOnce(&AtomicU32)) {
        wait(&self.0);
    }

    /// Calls `wait` repeatedly until `is_due` returns true or the word is set. `wait` must not block while the word is
    /// set; it can return spuriously.
    #[inline(always)]
    pub(crate) fn until_set_or(&self, mut is_due: impl FnMut() -> bool, mut wait: impl FnMut(&AtomicU32)) {
        while !is_due() && !self.is_set() {
            wait(&self.0);
        }
    }
}
