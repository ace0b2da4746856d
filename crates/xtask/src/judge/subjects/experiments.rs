//! Every published experiment runs in its short form, and states where each figure is from.

use hpt_document::experiment::{ExperimentDocument, ExperimentPartState, FigureState};

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    let step = format!("{}.experiments", case.board.first_build());
    let ended = case.ended(&step);
    let Some(experiments) = case.document::<ExperimentDocument>(&step) else { return };
    if ended {
        experiments.holds(
            "every published experiment ran in its short form, and missing figures have a reason",
            |it| {
                let mut parts = it.experiments.iter().flat_map(|experiment| &experiment.parts);
                it.experiments.len() >= 9
                    && parts.all(|part| part.state == ExperimentPartState::Measured)
                    && it.results.iter().filter(|row| row.measured.is_some()).count() >= 25
                    && it.results.iter().all(|row| {
                        let is_whole = match row.state {
                            FigureState::Measured => row.samples > 0,
                            state => row.measured.is_none() && state != FigureState::NotMeasured,
                        };
                        is_whole && !row.method.is_empty()
                    })
            },
        );
    }
    experiments.holds("a note and each figure report that the machine is emulated", |it| {
        let mut measured = it.results.iter().filter(|row| row.state == FigureState::Measured);
        it.head.machine.emulated_by.as_deref() == Some("QEMU")
            && it.notes.iter().any(|note| note.starts_with("emulated by QEMU: "))
            && measured.all(|row| row.method.ends_with("; emulated by QEMU"))
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "experiments",
    fit: |board| board.asked_for("experiments"),
    plants: &[
        Plant {
            what: "no note reports that the machine is emulated",
            change: |it| it.replace(".experiments.out", "\"emulated by QEMU: ", "\"as real as can be: "),
        },
        Plant {
            what: "one figure does not report that the machine is emulated",
            change: |it| {
                it.document(".experiments", |it: &mut ExperimentDocument| {
                    let mut measured = it.results.iter_mut().filter(|row| row.state == FigureState::Measured);
                    if let Some(row) = measured.next() {
                        row.method = row.method.replace("; emulated by QEMU", "");
                    }
                });
            },
        },
        Plant {
            what: "a part of an experiment was not started",
            change: |it| {
                it.document(".experiments", |it: &mut ExperimentDocument| {
                    it.experiments[0].parts[0].state = ExperimentPartState::NotStarted;
                });
            },
        },
    ],
}];
