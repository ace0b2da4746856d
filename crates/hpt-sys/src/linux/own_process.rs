//! Determines whether the current process has created a mark, or is a child that was forked after that. Queries the
//! kernel only when a mark is created. A comparison takes one load.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use super::native::{Words, words_wiped_on_fork};

/// A mark that is visible in the process that created it, but in none of its children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    shown: &'static AtomicU64,
    own: u64,
}

impl Mark {
    /// Creates a mark of this process; `None` if the kernel cannot distinguish a child (before 4.14).
    pub(super) fn new() -> Option<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed is sufficient, because no other data depends on these words.
        let shown = &words()?[0];
        if shown.load(Ordering::Relaxed) == 0 {
            // A child continues the count of its parent, so that none of its own marks equals a mark of the parent.
            let own = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            let _ = shown.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(Self { shown, own: shown.load(Ordering::Relaxed) })
    }

    /// Returns whether the current process created this mark.
    #[inline(always)]
    pub(super) fn is_of_this_process(self) -> bool {
        self.shown.load(Ordering::Relaxed) == self.own
    }
}

/// Returns the words of all marks; `None` if the kernel cannot wipe them on a fork. Takes no lock, so that it can be
/// called in a signal handler, and in a child that was forked at any moment.
fn words() -> Option<&'static Words> {
    static PAGE: AtomicPtr<Words> = AtomicPtr::new(ptr::null_mut());
    let mut page = PAGE.load(Ordering::Acquire);
    if page.is_null() {
        let made = ptr::from_ref(words_wiped_on_fork()?).cast_mut();
        // If two threads create a page at the same time, the second uses the page of the first, and its own page stays
        // unused.
        page = match PAGE.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => first,
        };
    }
    // SAFETY: `PAGE` only ever holds null, which was excluded, or a reference to words that live forever. pointer,
    // "Pointer to reference conversion".
    Some(unsafe { &*page })
}

#[cfg(test)]
mod tests {
    use super::Mark;
    use crate::trial;

    #[test]
    fn a_child_is_not_its_parent() {
        let Some(mark) = Mark::new() else {
            return skipped!("this kernel does not support MADV_WIPEONFORK");
        };
        assert!(mark.is_of_this_process());
        let child_is_another = trial::attempt_in_child(|| {
            if mark.is_of_this_process() {
                std::process::abort();
            }
        });
        // User-mode emulators do not pass MADV_WIPEONFORK on to the kernel.
        if cfg!(target_arch = "x86_64") {
            assert_eq!(child_is_another, trial::Attempt::Lived);
        }
        assert!(Mark::new().is_some_and(|again| again.is_of_this_process() && again.own == mark.own));
    }
}
