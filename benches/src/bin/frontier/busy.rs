//! Threads that never block, beside the measured one.

use std::{
    hint,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

/// Calls `measure` while this many busy threads run. They share the CPU of the calling thread if that is pinned.
pub(crate) fn beside<T>(threads: usize, nice: i32, measure: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _ = rustix::process::setpriority_process(None, nice);
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}
