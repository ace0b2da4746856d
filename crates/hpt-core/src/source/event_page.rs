//! What every reader of a perf event's page goes by, and the page that their tests script.
//! Reads nothing itself.

/// `struct perf_event_mmap_page`, in bytes from its beginning: what changes with the rest, and what may be read. Linux, include/uapi/linux/perf_event.h.
pub(super) const LOCK: usize = 8;
pub(super) const CAPABILITIES: usize = 40;

/// Times that the page is believed to change within one reading: each is a switch to another task and back.
pub(super) const MOST_CHANGES: u32 = 16;

#[cfg(test)]
pub(super) mod scripted {
    use std::cell::RefCell;

    /// Shows one thing after another, each for so many reads, and the last for ever.
    #[derive(Debug)]
    pub(in crate::source) struct Script<T>(RefCell<Vec<(u32, T)>>);

    impl<T: Copy> Script<T> {
        pub(in crate::source) fn new(script: &[(u32, T)]) -> Self {
            Self(RefCell::new(script.iter().rev().copied().collect()))
        }

        /// What the next read shows.
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
