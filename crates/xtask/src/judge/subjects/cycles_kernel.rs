//! Readings that the kernel module `hpt_cycles` makes in the kernel.

use hpt_document::pairs::PairsDocument;

use crate::judge::{board::AfterPerf, case::Case, plant::Plant, text::in_one_line};

/// Judges what hpt prints if the module is not loaded.
pub(super) fn judge_without(case: &Case<'_>, build: &str) {
    is_refused(case, &format!("{build}.cycles-kernel-before"), "is not loaded; load it");
}

pub(super) fn judge(case: &Case<'_>, build: &str) {
    is_refused(case, &format!("{build}.cycles-kernel-unmounted"), "mount -t debugfs none /sys/kernel/debug");
    is_refused(case, &format!("{build}.cycles-kernel-plain"), "run as root");
    if case.board.after_perf != AfterPerf::None {
        is_refused(case, &format!("{build}.cycles-kernel-after-perf"), "because it is not open");
    }
    let Some(pairs) = case.ended_with::<PairsDocument>(&format!("{build}.cycles-kernel")) else { return };
    pairs.holds("pairs of the kernel beside those of the program, without and after pauses", |it| {
        let expected = [
            ("realtime", 20, 20),
            ("arm-cycles", 20, 20),
            ("realtime-in-kernel", 999, 20),
            ("arm-cycles-in-kernel", 999, 20),
        ];
        let in_a_row = expected.map(|(id, samples, _)| (id, samples));
        let after_pauses = expected.map(|(id, _, samples)| (id, samples));
        let found = it.results.iter().map(|row| (row.id.as_str(), row.samples));
        let is_measured = it.results.iter().all(|row| row.mean_ns.is_some_and(|mean_ns| mean_ns > 0.0));
        found.eq(in_a_row.into_iter().chain(after_pauses)) && is_measured
    });
}

/// Judges whether a step ended with exit code 3 and an error that contains these words.
fn is_refused(case: &Case<'_>, step: &str, words: &str) {
    let said = case.err(step);
    if case.answers.status(step) != Some(3) || !said.contains("cannot read in the kernel") || !said.contains(words) {
        case.wrong(format!("{step}: expected exit code 3, and an error with {words}: {}", in_one_line(said)));
    }
}

pub(super) const PLANTS: &[Plant] = &[
    Plant {
        what: "the kernel's cycles are missing",
        change: |it| {
            it.document(".cycles-kernel", |it: &mut PairsDocument| {
                it.results.retain(|row| row.id != "arm-cycles-in-kernel");
            });
        },
    },
    Plant {
        what: "a difference of the kernel's readings is missing",
        change: |it| it.document(".cycles-kernel", |it: &mut PairsDocument| it.results[2].samples = 998),
    },
    Plant { what: "reading in the kernel failed", change: |it| it.status(".cycles-kernel", 3) },
    Plant { what: "readings in the kernel without the module", change: |it| it.status(".cycles-kernel-before", 0) },
    Plant {
        what: "the error does not name debugfs",
        change: |it| it.replace(".cycles-kernel-unmounted.err", "mount -t debugfs", "mount"),
    },
    Plant { what: "an unprivileged user reads in the kernel", change: |it| it.status(".cycles-kernel-plain", 0) },
];
