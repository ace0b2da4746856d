//! The rows of the `hpt latency timer` and `hpt latency poll` documents.

use hpt_core::measure::Latencies;
use hpt_document::{not_run::NotRun, wake_latency::WakeLatencyRow};

use crate::sampling::{latency_figures::figures, time_series::TimeSeries};

pub(super) fn row(
    cpu: Option<usize>,
    (latencies, time_series): (&Latencies, &TimeSeries),
    not_run: NotRun,
) -> Option<WakeLatencyRow> {
    Some(WakeLatencyRow {
        cpu,
        figures: figures(latencies)?,
        not_run,
        clock_stepped: latencies.clock_was_set(),
        time_series_interval_ns: time_series.every_ns(),
        time_series: time_series.rows(),
        heat_map_interval_ns: time_series.heat_map().every_ns(),
        heat_map: time_series.heat_map().columns(),
    })
}
