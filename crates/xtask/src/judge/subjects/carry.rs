//! The System Timer's low word wraps while a program reads it.

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.carry");
        if !case.ended(&step) {
            continue;
        }
        let mut lines = case.out(&step).lines();
        if let Some(carried) = lines.clone().find(|line| line.starts_with("carried: ")) {
            let readings = carried.split(" readings").next().unwrap_or(carried);
            case.shown(format!("{readings} readings across a wrap"));
        } else {
            let why = lines.find(|line| line.starts_with("skipped") || line.starts_with("test result"));
            case.wrong(format!("{step}: no carry was observed: {}", why.unwrap_or("no output")));
        }
    }
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "carry",
    fit: |board| board.asked_for("carry"),
    plants: &[
        Plant { what: "no carry was observed", change: |it| it.leave_out(".carry.out", "carried: ") },
        Plant { what: "the test failed", change: |it| it.status(".carry", 101) },
    ],
}];
