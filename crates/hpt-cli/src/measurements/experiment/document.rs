//! Creates the document of `hpt experiment` and its rows.

use hpt_document::{
    experiment::{ExperimentDocument, ExperimentFigureRow, ExperimentPartRow, ExperimentRow, FigureState, LengthCount},
    not_run::NotRun,
    thread::Thread,
};

use crate::{
    context::Context,
    document_head::head_of,
    experiments::{Experiment, Measured},
};

/// Returns every published value with the corresponding measured value, then the other measured values.
pub(super) fn compared(
    experiment: &'static Experiment,
    measured: Vec<Measured>,
    failed: Option<&str>,
) -> Vec<ExperimentFigureRow> {
    let row = |published: Option<f64>, figure: Measured| ExperimentFigureRow {
        experiment: experiment.name.to_owned(),
        quantity: figure.what,
        unit: figure.unit,
        published,
        measured: figure.value,
        has_few_samples: figure.has_few_samples,
        not_run_share: figure.not_run_share,
        state: figure.standing,
        samples: figure.samples,
        p50: figure.p50,
        p99: figure.p99,
        max: figure.max,
        distribution: figure.distribution.into_iter().map(|(length, samples)| LengthCount(length, samples)).collect(),
        method: figure.how,
    };
    let mut rows = Vec::new();
    let mut left = measured;
    for figure in experiment.published {
        let found = left.iter().position(|one| one.what == figure.what).map(|place| left.remove(place));
        let absent = || match failed {
            Some(why) => Measured::unavailable(figure.what, figure.unit, why),
            None => Measured {
                standing: FigureState::NotMeasured,
                ..Measured::unavailable(figure.what, figure.unit, "not measured: the run ended earlier")
            },
        };
        rows.push(row(Some(figure.value), found.unwrap_or_else(absent)));
    }
    rows.extend(left.into_iter().map(|figure| row(None, figure)));
    rows
}

pub(super) fn of(experiment: &'static Experiment, parts: Vec<ExperimentPartRow>) -> ExperimentRow {
    ExperimentRow {
        name: experiment.name.to_owned(),
        title: experiment.title.to_owned(),
        published_in: experiment.published_in.to_owned(),
        hardware: experiment.hardware.to_owned(),
        differences: experiment.differs.to_owned(),
        parts,
    }
}

pub(super) fn data(
    context: &Context,
    (cpu, thread, not_run): (Option<usize>, Option<Thread>, NotRun),
    experiments: Vec<ExperimentRow>,
    mut results: Vec<ExperimentFigureRow>,
    mut notes: Vec<String>,
) -> ExperimentDocument {
    let head = head_of("experiment", &context.host);
    if let Some(by) = head.machine.emulated_by.clone() {
        // Name the emulator in each row, because a reader may extract individual rows.
        let measured = results.iter_mut().filter(|row| row.state == FigureState::Measured);
        measured.for_each(|row| row.method.push_str(&format!("; emulated by {by}")));
        if thread.is_some() {
            notes.push(format!("emulated by {by}: the measured times are those of the emulator"));
        }
    }
    ExperimentDocument { head, cpu, thread, interrupted: context.interrupted(), not_run, experiments, results, notes }
}
