//! Definitions shared by all readers of a perf event's page, and a script of values for their tests.

/// The offsets of the sequence lock and of the capability bits in `struct perf_event_mmap_page`, in bytes. Linux,
/// include/uapi/linux/perf_event.h.
pub(super) const LOCK: usize = 8;
pub(super) const CAPABILITIES: usize = 40;

/// The maximum number of attempts to read the page while the kernel changes it. The kernel changes the page
/// when it switches to another task and back.
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
