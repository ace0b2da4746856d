//! The library's own live tests pass on the board.

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.live");
        if !case.ended(&step) {
            let failed = case.out(&step).lines().filter(|line| line.starts_with("test ") && line.ends_with(" FAILED"));
            failed.for_each(|line| case.wrong(line.to_owned()));
            continue;
        }
        let passed = passed(case.out(&step));
        if passed == 0 {
            case.wrong(format!("{step}: no test passed"));
        } else {
            case.shown(format!("{passed} live tests"));
        }
        let mut said = case.err(&step).lines();
        if case.board.system_timer.is_some() && said.any(|line| line.starts_with("skipped: no System Timer")) {
            case.wrong(format!("{step}: skipped a test of the System Timer"));
        }
        let step = format!("{build}.wall");
        if case.ended(&step) && case.out(&step).lines().filter(|line| line.starts_with("followed: ")).count() != 3 {
            case.wrong(format!("{step}: a sleep did not follow the wall clock"));
        }
    }
}

/// Returns the number of tests that passed.
fn passed(out: &str) -> u64 {
    let results = out
        .lines()
        .filter_map(|line| line.strip_prefix("test result: ok. ")?.split_once(" passed")?.0.parse::<u64>().ok());
    results.sum()
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "live tests",
    fit: |board| board.asked_for("live"),
    plants: &[
        Plant { what: "a live test failed", change: |it| it.status(".live", 101) },
        Plant {
            what: "no live test ran",
            change: |it| it.set_lines(".live.out", "test result: ok. ", "test result: ok. 0 passed; 0 failed"),
        },
        Plant {
            what: "a sleep did not follow the wall clock",
            change: |it| it.leave_out(".wall.out", "followed: SpinOnly"),
        },
    ],
}];
