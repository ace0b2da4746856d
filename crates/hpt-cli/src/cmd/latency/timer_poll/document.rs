//! The document of `hpt latency timer` and `hpt latency poll`: its rows.

use hpt_core::measure::Lateness;
use hpt_document::wake_latency::WakeLatencyRow;

use crate::sampling::{latency_figures::figures, time_series::Course};

pub(super) fn row(cpu: Option<usize>, lateness: &Lateness, course: &Course) -> Option<WakeLatencyRow> {
    Some(WakeLatencyRow {
        cpu,
        figures: figures(lateness)?,
        clock_was_set: lateness.clock_was_set(),
        course_every_ns: course.every_ns(),
        course: course.rows(),
    })
}
