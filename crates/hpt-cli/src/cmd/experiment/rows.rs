//! What `hpt experiment` found, for programs: its document and the rows of it.

use serde::Serialize;

use crate::{
    context::Context,
    document_head::Head,
    experiments::{Experiment, Measured, Standing},
    sampling::realtime_settings::EffectiveSettings,
};

/// A figure beside the published one.
#[derive(Debug, Serialize)]
pub(super) struct FigureRow {
    pub(super) experiment: &'static str,
    pub(super) what: String,
    pub(super) unit: String,
    pub(super) published: Option<f64>,
    pub(super) measured: Option<f64>,
    pub(super) state: Standing,
    pub(super) samples: u64,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) distribution: Vec<(f64, u64)>,
    pub(super) how: String,
}

/// An experiment, and how it was made.
#[derive(Debug, Serialize)]
pub(super) struct ExperimentRow {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) published_in: &'static str,
    pub(super) hardware: &'static str,
    pub(super) differs: &'static str,
    pub(super) parts: Vec<PartRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct PartRow {
    pub(super) name: &'static str,
    /// Without --short and --repeat, and here.
    pub(super) full_count: u64,
    pub(super) count: u64,
    /// Of `count`, by an earlier run.
    pub(super) taken_up: u64,
    /// Of `count`, as far as its figures came.
    #[serde(skip)]
    pub(super) reached: u64,
    pub(super) expected_s: f64,
    pub(super) state: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct ExperimentData {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) cpu: Option<usize>,
    pub(super) thread: Option<EffectiveSettings>,
    pub(super) interrupted: bool,
    pub(super) experiments: Vec<ExperimentRow>,
    pub(super) results: Vec<FigureRow>,
    pub(super) notes: Vec<String>,
}

/// Every published figure with what was measured of it, and then what was measured besides.
pub(super) fn beside(experiment: &'static Experiment, measured: Vec<Measured>, failed: Option<&str>) -> Vec<FigureRow> {
    let row = |published: Option<f64>, figure: Measured| FigureRow {
        experiment: experiment.name,
        what: figure.what,
        unit: figure.unit,
        published,
        measured: figure.value,
        state: figure.standing,
        samples: figure.samples,
        p50: figure.p50,
        p99: figure.p99,
        max: figure.max,
        distribution: figure.distribution,
        how: figure.how,
    };
    let mut rows = Vec::new();
    let mut left = measured;
    for figure in experiment.published {
        let found = left.iter().position(|one| one.what == figure.what).map(|place| left.remove(place));
        let absent = || match failed {
            Some(why) => Measured::missing(figure.what, figure.unit, why),
            None => Measured {
                standing: Standing::NotMade,
                ..Measured::missing(figure.what, figure.unit, "not made: hpt did not get so far")
            },
        };
        rows.push(row(Some(figure.value), found.unwrap_or_else(absent)));
    }
    rows.extend(left.into_iter().map(|figure| row(None, figure)));
    rows
}

pub(super) const fn of(experiment: &'static Experiment, parts: Vec<PartRow>) -> ExperimentRow {
    ExperimentRow {
        name: experiment.name,
        title: experiment.title,
        published_in: experiment.published_in,
        hardware: experiment.hardware,
        differs: experiment.differs,
        parts,
    }
}

pub(super) fn data(
    context: &Context,
    (cpu, thread): (Option<usize>, Option<EffectiveSettings>),
    experiments: Vec<ExperimentRow>,
    mut results: Vec<FigureRow>,
    mut notes: Vec<String>,
) -> ExperimentData {
    let head = Head::of("experiment", &context.host);
    if let Some(by) = head.machine.emulator() {
        // Each by itself, because rows are taken apart.
        let measured = results.iter_mut().filter(|row| row.state == Standing::Measured);
        measured.for_each(|row| row.how.push_str(&format!("; emulated by {by}")));
        if thread.is_some() {
            notes.push(format!("emulated by {by}: how long things take is the emulator's doing"));
        }
    }
    ExperimentData { head, cpu, thread, interrupted: context.interrupted(), experiments, results, notes }
}
