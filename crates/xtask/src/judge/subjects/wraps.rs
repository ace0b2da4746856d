//! The 32-bit counters of a SoC wrap while a program reads them.

use super::soc;
use crate::judge::{
    board::Board,
    case::Case,
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        if has_wide(case.board) {
            soc::judge_instants(case, &format!("{build}.wraps-instants"));
        }
        let step = format!("{build}.wraps");
        if !case.ended(&step) {
            continue;
        }
        for counter in case.board.soc_counters.iter().filter(|counter| counter.id != soc::WIDE) {
            let id = &counter.id;
            let wrapped = format!("wrapped: {id}, ");
            match case.out(&step).lines().find_map(|line| line.strip_prefix(&wrapped)) {
                Some(how) => case.shown(format!("{id} across a wrap: {how}")),
                None => case.wrong(format!("{step}: {id} did not wrap")),
            }
        }
    }
}

/// Returns whether the board has a counter that `Instant` can follow.
fn has_wide(board: &Board) -> bool {
    board.soc_counters.iter().any(|counter| counter.id == soc::WIDE)
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "wraps",
        fit: |board| board.asked_for("wraps"),
        plants: &[
            Plant { what: "no counter wrapped", change: |it| it.leave_out(".wraps.out", "wrapped: ") },
            Plant { what: "the test failed", change: |it| it.status(".wraps", 101) },
        ],
    },
    Plants {
        about: "wraps, instants",
        fit: |board| board.asked_for("wraps") && has_wide(board),
        plants: &[Plant {
            what: "Instant was not read",
            change: |it| it.leave_out(".wraps-instants.out", "instants: "),
        }],
    },
];
