//! The word that interrupts a sleeper. Any thread may set it at any time; the sleeper clears it when its sleep ends.
//! Waits with a function from the caller: in the model, that function tries every order of threads; in `mod`, it uses
//! the kernel's futex.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Zero until an interruption sets it.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl Default for Word {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Word {
    /// Interrupts the current sleep, or else the next one. `wake` wakes a thread that waits on the word in the kernel.
    pub(crate) fn set(&self, wake: impl FnOnce(&AtomicU32)) {
        // A thread that finds the word set relies on the thread that set it to wake the sleeper.
        if self.0.swap(1, Ordering::AcqRel) == 0 {
            wake(&self.0);
        }
    }

    /// Returns whether there is an interruption that has not been taken yet.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Clears the interruption, so that it ends only one sleep. Returns whether there was one.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        self.is_set() && self.0.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `wait`, which must not wait while the word is set, and may return spuriously.
    pub(crate) fn wait_once(&self, wait: impl FnOnce(&AtomicU32)) {
        wait(&self.0);
    }

    /// Blocks until `is_due` returns true or the word is set. Until then, it calls `wait`, which must not wait while
    /// the word is set, and may return spuriously.
    #[inline(always)]
    pub(crate) fn until_set_or(&self, mut is_due: impl FnMut() -> bool, mut wait: impl FnMut(&AtomicU32)) {
        while !is_due() && !self.is_set() {
            wait(&self.0);
        }
    }
}
