//! A library for `LD_PRELOAD` that serves `clock_gettime(CLOCK_MONOTONIC, …)` by [`hpt_core::Instant`] to programs that know nothing of it.
//! It is for tests and not published: with it, other people's tests of a clock are tests of this one.
//!
//! ```console
//! $ cargo build --release --package hpt-preload
//! $ HPT_PRELOAD_VERBOSE=1 LD_PRELOAD=target/release/libhpt_preload.so python3 -c 'import time; print(time.monotonic())'
//! 13641.386769715
//! hpt-preload: served 849 readings of CLOCK_MONOTONIC by tsc, passed on 0 other calls
//! ```
//!
//! `scripts/test-kernel-timers` runs the kernel's own timer tests so.
//!
//! # What is served
//!
//! - `clock_gettime` for `CLOCK_MONOTONIC` and a pointer that is not null. On success `errno` stays as it was. A pointer that leads nowhere
//!   raises SIGSEGV, as it does where the vDSO answers.
//! - Every other clock and the null pointer go on to the next function of that name, mostly the C library's, and so does its answer.
//! - On 32-bit ARM both of the C library's functions: `clock_gettime`, whose seconds have 32 bits (since the machine was started, which is
//!   enough), and `__clock_gettime64`, which programs with a 64-bit `time_t` call.
//! - Only what comes by the dynamic symbol: a static program, a program that looks into the vDSO itself (as Go's do) and the C library's calls of
//!   its own do not come here.
//!
//! # How it does not call itself
//!
//! `Instant` asks the kernel's clock about once in a millisecond, by `clock_gettime`: by this library's, which comes before the C library's. The function
//! therefore looks where it was called from. From inside of this library, the call goes on to the C library; from anywhere else, it is
//! answered. This needs no state, so there is nothing that a signal handler could find half done, a fork could copy, or a thread
//! would have to be given first. A flag in each thread, "we are inside", would be set while a handler interrupts an answer; its
//! own call would then be answered by the kernel's clock, which may be a little behind what was answered before.
//!
//! The next function is looked up when the library is loaded, because a signal handler may not. Who calls earlier (another library as it is
//! loaded) is answered all the same; until then the system call stands for the next function.
//!
//! `Instant::now` promises not to panic, allocate or wait. If it did panic, the process would be ended (`extern "C"`): a panic cannot
//! get into the program.
//!
//! # Was it in effect?
//!
//! With `HPT_PRELOAD_VERBOSE` set and not empty, a process that ends by `exit` says on standard error what it was served and by which source. Threads that count at the
//! same moment may lose some: the numbers are a lower bound. An atomic increment would lose none, but on x86-64 it is a barrier, which would
//! hide from a test just those readings that are out of order.
#![expect(unsafe_code, reason = "a function of the C library, under its name and with its pointers")]

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
