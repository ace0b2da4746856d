//! The library in a process: what is done as it is loaded, what was counted, and what is said of that in the end.
//! Answers nothing itself: `answer` does.

use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use hpt_core::clock;

use crate::timespec;

/// Answers of hpt-core.
pub(crate) static SERVED: Count = Count::new();
/// Calls of the program that the next function answered.
pub(crate) static PASSED_ON: Count = Count::new();

/// A number of events, of which those that threads count at the same moment may be lost.
#[derive(Debug)]
pub(crate) struct Count {
    events: AtomicUsize,
}

impl Count {
    const fn new() -> Self {
        Self { events: AtomicUsize::new(0) }
    }

    /// Not `fetch_add`: on x86-64 that is a barrier, and the readings on both sides of it would be in order by it.
    #[inline(always)]
    pub(crate) fn add_one(&self) {
        self.events.store(self.events().wrapping_add(1), Ordering::Relaxed);
    }

    fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }
}

/// The loader calls what these sections list, when it has loaded a library and when the process exits. System V ABI, generic 4.1, chapter 5, "Initialization
/// and Termination Functions".
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = when_loaded;
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn when_loaded() {
    timespec::look_up_next();
}

extern "C" fn at_exit() {
    if std::env::var_os("HPT_PRELOAD_VERBOSE").is_none_or(|value| value.is_empty()) {
        return;
    }
    let (served, passed_on) = (SERVED.events(), PASSED_ON.events());
    let (source, _) = clock::source();
    let text = format!(
        "hpt-preload: served {served} readings of CLOCK_MONOTONIC by {source}, passed on {passed_on} other calls\n"
    );
    // Where standard error is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
