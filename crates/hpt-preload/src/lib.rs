//! A library for `LD_PRELOAD` that serves `clock_gettime(CLOCK_MONOTONIC, …)` from [`hpt_core::Instant`] to unmodified
//! programs. It is used only in tests and is not published: with it, existing tests of other clocks can test hpt's
//! clock.
//!
//! ```console
//! $ cargo build --profile dist --package hpt-preload
//! $ HPT_PRELOAD_VERBOSE=1 LD_PRELOAD=target/dist/libhpt_preload.so python3 -c 'import time; print(time.monotonic())'
//! 13641.386769715
//! hpt-preload: served 849 readings of CLOCK_MONOTONIC from tsc, passed on 0 other calls
//! ```
//!
//! `scripts/test-kernel-timers` runs the kernel's own timer tests with this library.
//!
//! # What is served
//!
//! - The library serves `clock_gettime` for `CLOCK_MONOTONIC` and a non-null pointer. On success `errno` is unchanged.
//!   An invalid pointer raises SIGSEGV, as it does with the vDSO.
//! - Calls for any other clock, and calls with a null pointer, are passed on to the next function of that name, usually
//!   the C library's. Its result is returned.
//! - On 32-bit ARM the library serves both of the C library's functions: `clock_gettime`, whose seconds have 32 bits
//!   (counted from boot, which is enough), and `__clock_gettime64`, which programs with a 64-bit `time_t` call.
//! - Only calls through the dynamic symbol arrive here. Static programs, programs that use the vDSO directly (as Go
//!   programs do), and the C library's internal calls do not.
//!
//! # How it avoids recursion
//!
//! `Instant` reads the kernel's clock about once per millisecond with `clock_gettime`, which resolves to this library's
//! function, because it precedes the C library's. The function therefore checks its return address. It passes calls
//! from inside this library on to the C library, and serves all others. This requires no state: nothing that a signal
//! handler could find half updated, that a fork could copy, or that a thread would need first. A per-thread flag would
//! be set while a handler interrupts a call. The handler's own call would then be served by the kernel's clock, which
//! may be slightly behind the previous result.
//!
//! The next function is looked up when the library is loaded, because a signal handler must not do that. Calls before
//! that, for example from another library during loading, are served too; until then the system call replaces the next
//! function.
//!
//! `Instant::now` promises not to panic, allocate or wait. If it did panic, the process would be aborted (`extern
//! "C"`): a panic cannot reach the program.
//!
//! # Checking that it was in effect
//!
//! With `HPT_PRELOAD_VERBOSE` set and not empty, a process that ends with `exit` reports on standard error the number
//! of calls served, and the source. Counts that several threads make at the same time may be lost, so the numbers are
//! a lower bound. An atomic increment would lose none, but on x86-64 it is a barrier, which would hide out-of-order
//! readings from a test.
#![expect(unsafe_code, reason = "exports a function of the C library, with its name and its pointers")]

mod answer;
#[cfg_attr(target_arch = "x86_64", path = "entry/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "entry/aarch64.rs")]
#[cfg_attr(target_arch = "arm", path = "entry/arm.rs")]
mod entry;
mod errno;
mod next;
mod own_code;
mod process;
#[cfg_attr(target_pointer_width = "64", path = "timespec_64.rs")]
#[cfg_attr(target_pointer_width = "32", path = "timespec_32.rs")]
mod timespec;
