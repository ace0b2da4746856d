//! Determines whether the current process has created a mark, or is a child that was forked after that. Queries the
//! kernel only when a mark is created. A comparison takes one load.

use std::sync::atomic::{AtomicU64, Ordering};

use super::native;

/// A mark that is visible in the process that created it, but in none of its children.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    shown: &'static AtomicU64,
    own: u64,
}

impl Mark {
    /// Creates a mark of this process; `None` if the kernel cannot distinguish a child (before 4.14). Takes no lock, so
    /// that it can be called in a signal handler, and in a child that was forked at any moment.
    pub(super) fn new() -> Option<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed is sufficient, because no other data depends on these words.
        let (words, is_wiped_on_fork) = native::words();
        let shown = is_wiped_on_fork.then_some(&words.process_mark)?;
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
