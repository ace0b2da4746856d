//! The machine is suspended while a program reads Instants, and during `hpt watch`.

use hpt_document::watch::MachineEventKind;

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
    text::numbers_between,
};

/// The output of the test, around the six numbers that are judged again here.
const LINE: [&str; 7] = [
    "suspended: source tsc, CLOCK_MONOTONIC ",
    " ms, CLOCK_BOOTTIME ",
    " ms; ",
    " readings by two threads, ",
    " ns outside, stated ",
    " ns, ",
    " ns back",
];

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.suspend");
        if !case.ended(&step) {
            continue;
        }
        let said = case.out(&step).lines().find(|line| line.starts_with("suspended: "));
        let said = said.unwrap_or("no line about the suspend");
        let numbers = numbers_between(said, &LINE);
        let Some([monotonic_ms, boottime_ms, readings, outside_ns, stated_ns, back_ns]) =
            numbers.and_then(|numbers| <[u64; 6]>::try_from(numbers).ok())
        else {
            case.wrong(format!("{step}: {said}"));
            continue;
        };
        // CLOCK_MONOTONIC was stopped while CLOCK_BOOTTIME continued.
        let slept_ms = boottime_ms.saturating_sub(monotonic_ms);
        for (is_wrong, what) in [
            (slept_ms < 1000, "the machine was not suspended"),
            (readings < 4000, "too few readings"),
            (outside_ns > stated_ns, "a reading outside the stated bound"),
            (back_ns > 0, "time ran backwards"),
            (stated_ns > 100_000, "the stated bound is too large"),
        ] {
            if is_wrong {
                case.wrong(format!("{step}: {what}: {said}"));
            }
        }
        case.shown(format!("correct after a suspend of {} s", slept_ms / 1000));
        if case.board.asked_for("watch") {
            judge_watch(case, &format!("{build}.watch-suspend"));
        }
    }
    if case.ended("kernel") && !case.out("kernel").contains("PM: suspend entry (deep)") {
        case.wrong("suspend: the kernel did not suspend to RAM".to_owned());
    }
}

/// Judges the watch. QEMU's ACPI timer stops after a suspend: only this source may be reported as
/// faulty.
fn judge_watch(case: &Case<'_>, step: &str) {
    if !case.ended(step) {
        return;
    }
    if let Some(watch) = case.watched(step) {
        watch.holds("the suspend is reported, and no source but acpi-pm is reported as faulty", |it| {
            let stands = |fault: &Option<String>| fault.as_ref().is_some_and(|fault| fault.contains("stopped for"));
            matches!(it.events.as_slice(), [event] if event.kind == MachineEventKind::Suspend
                && event.suspended_ns.is_some_and(|slept| slept > 1_000_000_000))
                && it.shared_faults.is_empty()
                && it.sources.iter().all(|row| row.faults == 0 || (row.source == "acpi-pm" && stands(&row.first_fault)))
        });
    }
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "suspend",
    fit: |board| board.asked_for("suspend") && board.asked_for("watch"),
    plants: &[
        Plant { what: "the test did not complete", change: |it| it.never_ended(".suspend") },
        Plant { what: "the test did not print its result", change: |it| it.leave_out(".suspend.out", "suspended: ") },
        Plant {
            what: "the machine was suspended for a short time only",
            change: |it| it.set_number(".suspend.out", "CLOCK_BOOTTIME ", " ms", "160"),
        },
        Plant {
            what: "CLOCK_MONOTONIC ran on",
            change: |it| {
                it.lines(".suspend.out", |_, line| {
                    let numbers = numbers_between(line, &LINE[..3]);
                    let Some([monotonic, boottime]) = numbers.as_deref() else { return Some(line.to_owned()) };
                    Some(
                        line.replace(&format!("CLOCK_MONOTONIC {monotonic} "), &format!("CLOCK_MONOTONIC {boottime} ")),
                    )
                });
            },
        },
        Plant {
            what: "a reading was 90 µs outside the bound",
            change: |it| it.set_number(".suspend.out", " readings by two threads, ", " ns outside", "90000"),
        },
        Plant {
            what: "the stated bound is 2 ms",
            change: |it| it.set_number(".suspend.out", "stated ", " ns", "2000000"),
        },
        Plant { what: "time ran backwards", change: |it| it.replace(".suspend.out", " 0 ns back", " 1 ns back") },
        Plant {
            what: "there were few readings",
            change: |it| it.set_number(".suspend.out", " ms; ", " readings", "7"),
        },
        Plant {
            what: "another source was used",
            change: |it| it.replace(".suspend.out", "source tsc", "source monotonic"),
        },
        Plant { what: "the watch did not report the suspend", change: |it| it.copy(".watch", ".watch-suspend") },
        Plant {
            what: "the suspend was not to RAM",
            change: |it| it.replace("kernel.out", "PM: suspend entry (deep)", "PM: suspend entry (s2idle)"),
        },
    ],
}];
