//! The programs that load the library: this executable, with the name of a program in its environment. They run instead
//! of the tests, before those start, so that a program's first call is the first call of the process.
#![expect(unsafe_code, reason = "a section that lists functions for the loader")]

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use crate::support::unsafe_calls::{
    clock_ns, ended_well, errno, exit, give_up_after, in_a_child, kernels_ns, on_sigusr1, open_no_more_files,
    send_sigusr1, set_errno, this_thread, with_a_null_pointer,
};

/// The environment variable that names a program.
pub(crate) const PROGRAM: &str = "HPT_PRELOAD_TEST_PROGRAM";

/// The number of readings per thread. It is lower on other architectures, which are emulated when these tests run.
pub(crate) const READINGS: u64 = if cfg!(target_arch = "x86_64") { 100_000 } else { 4_000 };
const THREADS: u64 = 8;
pub(crate) const CHILDREN: u64 = 50;

/// The largest error of hpt-core while it learns the counter's rate: two brackets of the largest accepted width (20
/// µs), over the shortest baseline, along the shortest segment; half a bracket; and as much again for a segment that
/// started above a slow answer.
const WHILE_LEARNING_NS: u64 = 80_000;

/// Clocks that are never set, so that a reading cannot be below an earlier one.
pub(crate) const OTHER_CLOCKS: [libc::clockid_t; 5] = [
    libc::CLOCK_MONOTONIC_RAW,
    libc::CLOCK_MONOTONIC_COARSE,
    libc::CLOCK_BOOTTIME,
    libc::CLOCK_PROCESS_CPUTIME_ID,
    libc::CLOCK_THREAD_CPUTIME_ID,
];

/// The loader calls the functions in this section before `main`, in the order of the libraries, with this program last.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// Runs the selected program. A panic in here ends the process with a message and a signal.
extern "C" fn before_main() {
    let Ok(name) = std::env::var(PROGRAM) else { return };
    // Only against a hang: no program takes minutes, even on a busy machine.
    give_up_after(1_800);
    match name.as_str() {
        "one thread" => one_thread(),
        "errno" => leave_errno_alone(),
        "other clocks" => other_clocks(),
        "null pointer" => null_pointer(),
        "first call in a handler" => first_call_in_a_handler(),
        "interrupted" => interrupted(),
        "forked" => forked(),
        "threads" => threads(),
        "standard library" => standard_library(),
        other => panic!("unknown program {other}"),
    }
    exit();
}

/// Reads `CLOCK_MONOTONIC` between two readings of the kernel's clock that no library interposes.
fn bracketed_ns() -> u64 {
    let before_ns = kernels_ns(libc::CLOCK_MONOTONIC);
    let ns = now_ns();
    let after_ns = kernels_ns(libc::CLOCK_MONOTONIC);
    let range = before_ns - WHILE_LEARNING_NS..=after_ns + WHILE_LEARNING_NS;
    assert!(range.contains(&ns), "read {ns}, the kernel's clock {before_ns} to {after_ns}");
    ns
}

fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).expect("every kernel has this clock")
}

fn one_thread() {
    let mut last_ns = 0;
    for reading in 0..READINGS {
        let ns = bracketed_ns();
        assert!(ns >= last_ns, "{last_ns}, then {ns}");
        last_ns = ns;
        // Longer than any segment.
        if reading % (READINGS / 10) == 0 {
            thread::sleep(Duration::from_millis(3));
        }
    }
}

/// Checks `errno` while hpt-core's own calls fail: it reads the kernel's list of clocksources, and no file can be
/// opened.
fn leave_errno_alone() {
    open_no_more_files();
    for reading in 0..READINGS {
        set_errno(77);
        now_ns();
        assert_eq!(errno(), 77, "in reading {reading}");
    }
}

fn other_clocks() {
    for id in OTHER_CLOCKS {
        let before_ns = kernels_ns(id);
        let ns = clock_ns(id).expect("every kernel has this clock");
        let after_ns = kernels_ns(id);
        assert!(
            (before_ns..=after_ns).contains(&ns),
            "clock {id}: read {ns}, the kernel's clock {before_ns} to {after_ns}"
        );
    }
    assert_eq!(clock_ns(10), Err(libc::EINVAL), "a clock that no kernel has any more");
}

fn null_pointer() {
    println!("{}, {}", with_a_null_pointer(libc::CLOCK_MONOTONIC), with_a_null_pointer(libc::CLOCK_REALTIME));
}

/// The reading of the handler, and whether it was ever below an earlier reading of its thread.
static IN_HANDLER_NS: AtomicU64 = AtomicU64::new(0);
static BEFORE_HANDLER_NS: AtomicU64 = AtomicU64::new(0);
static WENT_BACK: AtomicBool = AtomicBool::new(false);

extern "C" fn read_in_handler(_: libc::c_int) {
    let before_ns = BEFORE_HANDLER_NS.load(Ordering::Relaxed);
    let Ok(ns) = clock_ns(libc::CLOCK_MONOTONIC) else { return };
    if ns < before_ns {
        WENT_BACK.store(true, Ordering::Relaxed);
    }
    IN_HANDLER_NS.store(ns, Ordering::Relaxed);
}

fn first_call_in_a_handler() {
    on_sigusr1(read_in_handler);
    send_sigusr1(this_thread());
    let ns = IN_HANDLER_NS.load(Ordering::Relaxed);
    assert!(ns > 0, "the handler was called");
    assert!(bracketed_ns() >= ns);
}

/// Lets one thread read, and another interrupt it with a handler that reads.
fn interrupted() {
    on_sigusr1(read_in_handler);
    let reader = this_thread();
    let goes_on = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            while goes_on.load(Ordering::Relaxed) {
                send_sigusr1(reader);
                thread::sleep(Duration::from_micros(50));
            }
        });
        // At least; on a single busy processor the other thread may not have started by then.
        for reading in 0.. {
            let ns = bracketed_ns();
            BEFORE_HANDLER_NS.store(ns, Ordering::Relaxed);
            if reading >= READINGS && IN_HANDLER_NS.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        goes_on.store(false, Ordering::Relaxed);
    });
    assert!(IN_HANDLER_NS.load(Ordering::Relaxed) > 0, "the handler was called");
    assert!(!WENT_BACK.load(Ordering::Relaxed), "a handler read less than the thread had read before");
}

/// Reads in children of a process that reads, and in their children.
fn forked() {
    for _ in 0..CHILDREN {
        let before_ns = bracketed_ns();
        let status = in_a_child(|| {
            let child_ns = bracketed_ns();
            let grandchild = in_a_child(|| u8::from(bracketed_ns() < child_ns));
            u8::from(child_ns < before_ns || !ended_well(grandchild))
        });
        assert!(ended_well(status), "wait status {status:#x}");
    }
}

/// Lets threads pass readings on as fast as they can.
fn threads() {
    let last_ns = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..READINGS {
                    let handed_ns = last_ns.load(Ordering::Acquire);
                    let ns = now_ns();
                    assert!(ns >= handed_ns, "{handed_ns} was passed on, then {ns} was read");
                    last_ns.fetch_max(ns, Ordering::Release);
                }
            });
        }
    });
    bracketed_ns();
}

/// Reads with the standard library: on 32-bit machines through the C library's function for a 64-bit `time_t`.
fn standard_library() {
    let start = std::time::Instant::now();
    for _ in 0..READINGS {
        assert!(std::time::Instant::now() >= start);
    }
}
