//! The kernel module `hpt_cycles` together with KVM, which changes the register on the CPU of a
//! guest: a test with a module that imitates KVM, and a test with a real guest.

use crate::judge::{
    case::Case,
    counter::{CPU, Counter},
    plant::Plant,
    text::{has_line, in_one_line},
};

/// The reason why a counter is closed that the module had opened.
const CLOSED: &str = "closed by KVM after a guest, or by kernel.perf_user_access";

/// Judges the test with a module that imitates KVM: no reader ends without a reported reason.
pub(super) fn judge_module(case: &Case<'_>, counter: &Counter<'_>) {
    for step in ["load", "guest", "end", "anew", "unload"] {
        case.ended(&format!("cycles-cleared-{step}"));
    }
    for step in ["load", "guest", "seen", "open", "again", "unload", "end"] {
        case.ended(&format!("cycles-kept-{step}"));
    }
    // If KVM clears the register, the counter stays closed, and the module reports the reason.
    let taken = format!("open {};taken {CPU}", counter.others);
    counter.state_is("cycles-cleared-state", &taken);
    counter.state_is("cycles-cleared-ended", &taken);
    counter.state_is("cycles-cleared-anew", &format!("open {}", counter.all));
    let why = case.out("cycles-cleared-why");
    let says = |line: &str| line.starts_with(&format!("CPU {CPU}: {CLOSED}"));
    if case.ended("cycles-cleared-why") && !why.lines().any(says) {
        case.wrong(format!("cycles-cleared-why: hpt_cycles does not report the reason: {}", in_one_line(why)));
    }
    counter.module_said(&format!("CPU{CPU}: {CLOSED}"));
    // If KVM restores the register, the module leaves the CPU alone while a guest has it.
    counter.module_said(&format!("CPU{CPU}: a guest of KVM has the CPU"));
    for build in &case.board.builds {
        counter.is_read(&format!("{build}.cycles-cleared"), "moves", Some("SIGILL"));
        for step in ["cleared-anew", "kept", "kept-again"] {
            counter.is_read(&format!("{build}.cycles-{step}"), "moves", None);
        }
        counter.is_read(&format!("{build}.cycles-kept-closed"), "SIGILL", None);
    }
}

/// Judges the test with a KVM guest. This kernel restores the register after a guest.
pub(super) fn judge_guest(case: &Case<'_>, counter: &Counter<'_>) {
    for step in ["load", "unload"] {
        case.ended(&format!("cycles-kvm-{step}"));
    }
    let step = format!("{}.cycles-kvm-guest", case.board.first_build());
    if case.ended(&step) && !has_line(case.out(&step), "guest: ran") {
        case.wrong(format!("{step}: {}", in_one_line(case.out(&step))));
    }
    for build in &case.board.builds {
        counter.is_read(&format!("{build}.cycles-kvm"), "moves", None);
    }
    counter.state_is("cycles-kvm-state", &format!("open {}", counter.all));
}

pub(super) const PLANTS_GUEST: &[Plant] = &[
    Plant {
        what: "the counter is closed after a guest",
        change: |it| it.set_lines(".cycles-kvm.out", "CPU 1: moves", "CPU 1: SIGILL"),
    },
    Plant {
        what: "the guest did not run",
        change: |it| it.replace(".cycles-kvm-guest.out", "guest: ran", "guest: left"),
    },
    Plant { what: "only one counter is open after a guest", change: |it| it.put("cycles-kvm-state.out", "open 0\n") },
    Plant {
        what: "the register is not restored after a guest",
        change: |it| it.set_lines("cycles-access-kvm-closed.out", "CPU 1: access ", "CPU 1: access 0x4"),
    },
];
