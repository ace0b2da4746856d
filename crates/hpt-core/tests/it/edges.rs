//! Instants in unusual processes, at the first reading or a change of the source. Each test runs in
//! a separate process.

use std::{fs::File, path::Path, process::Command, time::Duration};

use hpt_core::{
    Host, Instant, PosixClock, PosixId, Sleeper, TimeSource,
    clock::{self, ClockSource},
};

use crate::support::unsafe_calls::{ChildEnd, in_a_child, move_the_clock_back};

/// The list that shows whether the kernel offers the processor's counter as a clocksource.
const OFFERED: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

/// Returns the processor's own counter, if the kernel offers it.
fn native() -> Option<&'static str> {
    let list = std::fs::read_to_string(OFFERED).ok()?;
    let (name, id) = if cfg!(target_arch = "x86_64") { ("tsc", "tsc") } else { ("arch_sys_counter", "arm-counter") };
    list.split_whitespace().any(|offered| offered == name).then_some(id)
}

/// Runs an ignored test of this program in a separate process, started by `before` (words of a
/// command line, or none).
fn alone(before: &[&str], test: &str) {
    let program = std::env::current_exe().expect("Linux tells").display().to_string();
    let name = format!("edges::{test}");
    let own = [program.as_str(), "--exact", &name, "--ignored", "--nocapture"];
    let line: Vec<_> = before.iter().copied().chain(own).collect();
    let output = Command::new(line[0]).args(&line[1..]).output().expect("it can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether this process may create a mount namespace.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    tried.is_ok_and(|output| output.status.success())
}

#[test]
fn a_first_reading_without_a_free_descriptor_makes_no_permanent_decision() {
    if native().is_none() {
        return skipped!("the kernel offers no counter of this processor");
    }
    alone(&[], "read_without_a_free_descriptor");
}

#[test]
#[ignore = "a part of another test: it needs the first reading of a process"]
fn read_without_a_free_descriptor() {
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let first = Instant::now();
    let ClockSource { id, reason, .. } = clock::source();
    assert_eq!(id.as_str(), "monotonic");
    assert!(reason.contains("could not be read"), "{reason}");
    drop(taken);
    let now = clock::source();
    assert_eq!(Some(now.id.as_str()), native(), "{}", now.reason);
    assert!(Instant::now() >= first);
}

#[test]
fn a_first_reading_without_sysfs_makes_no_permanent_decision() {
    if native().is_none() || !may_mount() {
        return skipped!("no counter is offered, or this user may not mount");
    }
    alone(&["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /sys && exec \"$0\" \"$@\""], "read_without_sysfs");
}

#[test]
#[ignore = "a part of another test: it needs a /sys of its own"]
fn read_without_sysfs() {
    assert!(!Path::new(OFFERED).exists());
    std::hint::black_box(Instant::now());
    let ClockSource { id, reason, .. } = clock::source();
    assert!(id.as_str() == "monotonic" && reason.contains("could not be read"), "{id}: {reason}");
    let unmounted = Command::new("umount").arg("/sys").status().expect("mount is installed");
    assert!(unmounted.success());
    let now = clock::source();
    assert_eq!(Some(now.id.as_str()), native(), "{}", now.reason);
}

/// A private /dev in a mount namespace, with the page that QEMU provides as /dev/vmclock0.
#[cfg(feature = "devices")]
const WITH_VMCLOCK: &str = "page=$1 && shift && mount --make-rprivate / && mount -t tmpfs none /mnt && cp -a /dev/null /dev/zero /dev/urandom /mnt/ && \
    head -c 4096 /dev/zero > /mnt/vmclock0 && dd if=\"$page\" of=/mnt/vmclock0 conv=notrunc status=none && mount --bind /mnt /dev && exec \"$@\"";

#[cfg(feature = "devices")]
#[test]
fn a_source_chosen_before_the_first_reading_uses_vmclock() {
    if native().is_none() || !may_mount() {
        return skipped!("no counter is offered, or this user may not mount");
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vmclock/qemu-10-before.bin");
    alone(&["unshare", "--mount", "sh", "-c", WITH_VMCLOCK, "sh", page], "choose_a_source_with_vmclock");
}

#[cfg(feature = "devices")]
#[test]
#[ignore = "a part of another test: it needs a /dev of its own"]
fn choose_a_source_with_vmclock() {
    let id = native().expect("the other test looked");
    // On a busy machine, the self-test of a counter may fail. Try again.
    while let Err(refused) = clock::use_source(hpt_core::source::open(&Host::live(), id).expect("it is offered")) {
        assert!(matches!(refused, clock::UseSourceError::SelfTest { .. } | clock::UseSourceError::Busy), "{refused}");
    }
    assert_eq!(clock::status().disruptions, Some(0));
    assert_eq!(clock::disruption_marker(), Some(1));
}

/// The exit code of a child of the next tests if the kernel has no time namespaces, or does not
/// permit them for this user.
const NO_NAMESPACE: u8 = 77;

/// Runs `work` in a child whose clock steps back by ten minutes immediately after a reading.
fn with_a_clock_that_went_back(work: impl FnOnce() -> u8) {
    clock::prime();
    let end = in_a_child(|| {
        clock::prime();
        std::hint::black_box(Instant::now());
        if move_the_clock_back(600) { work() } else { NO_NAMESPACE }
    });
    if end == ChildEnd::Exited(NO_NAMESPACE.into()) {
        return skipped!("this process may not enter a time namespace, or its clock is younger than ten minutes");
    }
    assert_eq!(end, ChildEnd::Exited(0));
}

#[test]
fn an_instant_follows_a_clock_that_went_back() {
    with_a_clock_that_went_back(|| {
        let kernel = PosixClock::open(&Host::live(), PosixId::Monotonic).expect("every kernel has it");
        // The active segment ends within a millisecond, measured with the kernel's clock.
        let start_ns = kernel.ticks_end();
        while kernel.ticks_end() < start_ns + 5_000_000 {}
        let mut last = Instant::now();
        for _ in 0..10_000 {
            let before_ns = kernel.ticks_end();
            let now = Instant::now();
            let after_ns = kernel.ticks_end();
            let outside_ns = before_ns
                .saturating_sub(now.nanos_since(Instant::EPOCH))
                .max(now.nanos_since(Instant::EPOCH).saturating_sub(after_ns));
            if outside_ns > 1_000_000 {
                return 1;
            }
            if now < last {
                return 2;
            }
            last = now;
        }
        if clock::status().restarts == 1 { 0 } else { 3 }
    });
}

#[test]
fn no_sleep_hangs_when_the_clock_goes_back() {
    with_a_clock_that_went_back(|| {
        // No limit here: the time limit of the test runner applies.
        let mut sleeper = Sleeper::new();
        for _ in 0..3 {
            if !sleeper.sleep(Duration::from_millis(2)).is_in_time() {
                return 1;
            }
        }
        0
    });
}
