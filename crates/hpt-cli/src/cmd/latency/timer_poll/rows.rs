//! What `hpt latency timer` and `hpt latency poll` found, for programs: their document and its
//! rows.

use hpt_core::{SourceId, measure::Lateness};
use serde::Serialize;

use crate::{
    document_head::Head,
    sampling::{cpu_absences::Away, distribution::Figures, realtime_settings::EffectiveSettings, time_series::Course},
};

/// One CPU, or all of them, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) cpu: Option<usize>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) clock_was_set: u64,
    pub(super) course_every_ns: u64,
    /// Of each stretch of time: when it began after the first deadline, samples, mean and worst, all in nanoseconds.
    pub(super) course: Vec<(u64, u64, f64, u64)>,
}

#[derive(Debug, Serialize)]
pub(super) struct Data {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) interval_ns: u64,
    pub(super) at: Option<String>,
    pub(super) by: &'static str,
    pub(super) pulse: Option<String>,
    pub(super) thread: EffectiveSettings,
    pub(super) source: SourceId,
    pub(super) look_ns: u64,
    pub(super) step_ns: Option<u64>,
    pub(super) began: String,
    pub(super) elapsed_s: f64,
    pub(super) broke_at_ns: Option<u64>,
    pub(super) interrupted: bool,
    pub(super) away: Vec<Away>,
    pub(super) results: Vec<Row>,
    pub(super) notes: Vec<String>,
}

pub(super) fn row(cpu: Option<usize>, lateness: &Lateness, course: &Course) -> Option<Row> {
    Some(Row {
        cpu,
        figures: Figures::of(lateness)?,
        clock_was_set: lateness.clock_was_set(),
        course_every_ns: course.every_ns(),
        course: course.rows(),
    })
}
