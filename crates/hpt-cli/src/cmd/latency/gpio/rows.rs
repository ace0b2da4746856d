//! What `hpt latency gpio` found, for programs: its document and the rows of it.

use hpt_core::SourceId;
use serde::Serialize;

use super::{
    edge_figures::{EdgeFigures, Figure},
    line::LineRow,
};
use crate::{
    document_head::Head,
    sampling::{cpu_absences::Away, distribution::Figures, realtime_settings::EffectiveSettings},
};

/// One figure, for programs.
#[derive(Debug, Serialize)]
pub(super) struct FigureRow {
    pub(super) figure: &'static str,
    #[serde(flatten)]
    pub(super) figures: Figures,
    #[serde(skip)]
    pub(super) head: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct GpioData {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) out: LineRow,
    pub(super) r#in: LineRow,
    pub(super) listen: &'static str,
    pub(super) interval_ns: u64,
    pub(super) timeout_ns: u64,
    pub(super) cpu: Option<usize>,
    pub(super) thread: EffectiveSettings,
    pub(super) source: SourceId,
    pub(super) look_ns: u64,
    pub(super) step_ns: Option<u64>,
    pub(super) began: String,
    pub(super) elapsed_s: f64,
    pub(super) lost: u64,
    pub(super) strange: u64,
    pub(super) dropped: u64,
    pub(super) elsewhen: u64,
    pub(super) figure: &'static str,
    pub(super) broke_at_ns: Option<u64>,
    pub(super) interrupted: bool,
    pub(super) away: Vec<Away>,
    pub(super) results: Vec<FigureRow>,
    pub(super) notes: Vec<String>,
}

/// Those of the three figures that have samples.
pub(super) fn rows(three: &EdgeFigures) -> Vec<FigureRow> {
    let row = |figure: Figure| {
        Some(FigureRow { figure: figure.name(), figures: Figures::of(three.of(figure))?, head: figure.head() })
    };
    Figure::ALL.into_iter().filter_map(row).collect()
}
