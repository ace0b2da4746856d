//! The library in a process: its initialization on load, its counts, and the report on exit. Serves no call itself;
//! `answer` does.

use std::{
    io::Write,
    sync::atomic::{AtomicUsize, Ordering},
};

use hpt_core::clock;

use crate::timespec;

/// The number of calls served by hpt-core.
pub(crate) static SERVED: Count = Count::new();
/// The number of the program's calls that were passed on to the next function.
pub(crate) static PASSED_ON: Count = Count::new();

/// A number of events. Events that several threads count at the same time may be lost.
#[derive(Debug)]
pub(crate) struct Count {
    events: AtomicUsize,
}

impl Count {
    const fn new() -> Self {
        Self { events: AtomicUsize::new(0) }
    }

    /// Counts one event. Does not use `fetch_add`, which is a barrier on x86-64 and would order the readings on both
    /// sides.
    #[inline(always)]
    pub(crate) fn add_one(&self) {
        self.events.store(self.events().wrapping_add(1), Ordering::Relaxed);
    }

    fn events(&self) -> usize {
        self.events.load(Ordering::Relaxed)
    }
}

/// The loader calls the functions in these sections when it has loaded a library and when the process exits. System V
/// ABI, generic 4.1, chapter 5, "Initialization and Termination Functions".
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
    let source = clock::source().id;
    let text = format!(
        "hpt-preload: served {served} readings of CLOCK_MONOTONIC from {source}, passed on {passed_on} other calls\n"
    );
    // If standard error is closed, the report is lost.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
