//! The word by which a sleeper is interrupted: set by anybody at any time, taken by the sleeper when its sleep ends.
//! Waits by what it is given: the model tries every order of threads with it, and `mod` uses the kernel's futex.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

/// Zero until somebody interrupts.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl Default for Word {
    fn default() -> Self {
        Self(AtomicU32::new(0))
    }
}

impl Word {
    /// Interrupts the sleep that is under way, or else the next one. `wake` wakes whoever waits for the word in the kernel.
    pub(crate) fn set(&self, wake: impl FnOnce(&AtomicU32)) {
        // Who finds it set knows that whoever set it wakes the sleeper.
        if self.0.swap(1, Ordering::AcqRel) == 0 {
            wake(&self.0);
        }
    }

    /// Whether an interruption was not taken as yet.
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Whether there was one. It ends this sleep and no other.
    #[inline(always)]
    pub(crate) fn take(&self) -> bool {
        self.is_set() && self.0.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `wait`, which is not to wait while the word is set, and may return for no reason.
    pub(crate) fn wait_once(&self, wait: impl FnOnce(&AtomicU32)) {
        wait(&self.0);
    }

    /// Comes back when `is_due` or the word is set. Until then `wait` is called: it is not to wait while the word is set, and may return for no reason.
    #[inline(always)]
    pub(crate) fn until_set_or(&self, mut is_due: impl FnMut() -> bool, mut wait: impl FnMut(&AtomicU32)) {
        while !is_due() && !self.is_set() {
            wait(&self.0);
        }
    }
}
