//! Definitions for all readers of a perf event's page, and the scripted page for their tests. Reads nothing itself.

/// Offsets in `struct perf_event_mmap_page`, in bytes: the sequence lock, and the capabilities. Linux,
/// include/uapi/linux/perf_event.h.
pub(super) const LOCK: usize = 8;
pub(super) const CAPABILITIES: usize = 40;

/// The maximum number of times that the page may change within one reading. Each change is caused by a switch to
/// another task and back.
pub(super) const MOST_CHANGES: u32 = 16;

#[cfg(test)]
pub(super) mod scripted {
    use std::cell::RefCell;

    /// A script of values: each value is returned for a number of reads, and the last value for all further reads.
    #[derive(Debug)]
    pub(in crate::source) struct Script<T>(RefCell<Vec<(u32, T)>>);

    impl<T: Copy> Script<T> {
        pub(in crate::source) fn new(script: &[(u32, T)]) -> Self {
            Self(RefCell::new(script.iter().rev().copied().collect()))
        }

        /// Returns the value of the next read.
        pub(in crate::source) fn next(&self) -> T {
            let mut shown = self.0.borrow_mut();
            let last = shown.len() - 1;
            let (reads, now) = shown[last];
            if last > 0 {
                if reads <= 1 {
                    shown.pop();
                } else {
                    shown[last].0 = reads - 1;
                }
            }
            now
        }
    }
}
