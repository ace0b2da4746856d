//! Prevents this process from reading a core's cycles in two ways at the same time. A perf event revokes access to the
//! counter for readers without an event, and the next read by such a reader would kill the process. Other processes are
//! not covered.

use std::sync::atomic::{AtomicIsize, Ordering};

/// The number of open sources: positive for perf events, negative for bare counters. The two kinds are never open at
/// the same time.
static OPEN: AtomicIsize = AtomicIsize::new(0);

/// The method of reading a core's cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    PerfEvent,
    BareCounter,
}

impl Kind {
    const fn step(self) -> isize {
        match self {
            Self::PerfEvent => 1,
            Self::BareCounter => -1,
        }
    }
}

/// A guard that marks a source of this kind as open while it exists.
#[derive(Debug)]
pub(super) struct OneKind(Kind);

impl OneKind {
    /// Marks a source of this kind as open. Returns `None` while a source of the other kind is open.
    pub(super) fn begin(kind: Kind) -> Option<Self> {
        let step = kind.step();
        // Relaxed ordering is sufficient, because no other data depends on this number.
        let mut open = OPEN.load(Ordering::Relaxed);
        while open * step >= 0 {
            match OPEN.compare_exchange_weak(open, open + step, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Self(kind)),
                Err(meanwhile) => open = meanwhile,
            }
        }
        None
    }
}

impl Drop for OneKind {
    fn drop(&mut self) {
        OPEN.fetch_sub(self.0.step(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, OneKind};

    #[test]
    fn only_one_kind_is_open_at_a_time_but_any_number_of_it() {
        // Other tests open and close the same kinds at the same time: only the state of the kind held here is certain.
        if let Some(first) = OneKind::begin(Kind::PerfEvent) {
            let second = OneKind::begin(Kind::PerfEvent);
            assert!(second.is_some() && OneKind::begin(Kind::BareCounter).is_none());
            drop(first);
            assert!(OneKind::begin(Kind::BareCounter).is_none());
        }
        if let Some(bare) = OneKind::begin(Kind::BareCounter) {
            assert!(OneKind::begin(Kind::PerfEvent).is_none());
            drop(bare);
        }
    }
}
