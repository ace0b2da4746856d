//! The board is the expected one, and its kernel has no errors at the end. Applies to every board.

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
    text::{has_line, in_one_line},
};

/// Texts in the log of a kernel with errors.
const ALARMS: [&str; 5] = ["undefined instruction", "Internal error", "Oops", "BUG:", "Unable to handle kernel"];

pub(super) fn judge(case: &Case<'_>) {
    let board = case.board;
    if !board.compatible.is_empty() && case.ended("compatible") && !has_line(case.out("compatible"), &board.compatible)
    {
        let found = case.out("compatible").lines().collect::<Vec<_>>().join(" ");
        case.wrong(format!("the device tree is that of {found}, expected {}", board.compatible));
    }
    if case.ended("clock_source") && !has_line(case.out("clock_source"), &board.clock_source) {
        let found = in_one_line(case.out("clock_source"));
        case.wrong(format!("the kernel's clocksource is {found}, expected {}", board.clock_source));
    }
    if case.ended("kernel") {
        let alarm = case.out("kernel").lines().find(|line| ALARMS.iter().any(|alarm| line.contains(alarm)));
        if let Some(line) = alarm {
            case.wrong(format!("the kernel's log has an error: {line}"));
        }
    }
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "machine",
    fit: |board| !board.compatible.is_empty(),
    plants: &[
        Plant { what: "another clocksource is expected", change: |it| it.board.clock_source = "sundial".to_owned() },
        Plant {
            what: "another device tree is expected",
            change: |it| it.board.compatible = "unknown,board".to_owned(),
        },
        Plant {
            what: "the kernel's log has an Oops",
            change: |it| it.append("kernel.out", "Internal error: Oops - undefined instruction: 0"),
        },
    ],
}];
