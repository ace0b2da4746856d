//! The rows of the `hpt latency timer` and `hpt latency poll` documents.

use hpt_document::{
    not_run::NotRun,
    wake_latency::{QuantileInterval, WakeLatencyRow},
};
use hpt_instrument::measure::Latencies;

use crate::{
    output::rounded,
    sampling::{
        latency_figures::figures,
        limits::quantity::{Quantile, Quantity},
        time_series::TimeSeries,
    },
};

/// The probabilities with which an interval does not contain its quantile: for a single quantile, and for comparisons of
/// many.
const ERRORS: [f64; 2] = [0.05, 0.001];

/// Returns the intervals of the quantiles with enough samples.
fn intervals(latencies: &Latencies, time_series: &TimeSeries) -> Vec<QuantileInterval> {
    let samples = latencies.histogram().samples();
    let known = Quantile::usual().filter(|quantile| samples >= quantile.least_samples());
    let both = known.flat_map(|quantile| ERRORS.map(|error| (quantile, error)));
    let interval = |(quantile, error): (Quantile, f64)| {
        let ends = time_series.interval_of(quantile.part(), error);
        QuantileInterval {
            quantile: Quantity::Quantile(quantile).name(),
            confidence: rounded(1.0 - error),
            low_ns: ends.map(|(low, _)| low),
            high_ns: ends.map(|(_, high)| high),
        }
    };
    both.map(interval).collect()
}

pub(super) fn row(
    cpu: Option<usize>,
    (latencies, time_series): (&Latencies, &TimeSeries),
    not_run: NotRun,
) -> Option<WakeLatencyRow> {
    Some(WakeLatencyRow {
        cpu,
        figures: figures(latencies)?,
        intervals: intervals(latencies, time_series),
        not_run,
        clock_stepped: latencies.clock_was_set(),
        time_series_interval_ns: time_series.every_ns(),
        time_series: time_series.rows(),
        heat_map_interval_ns: time_series.heat_map().every_ns(),
        heat_map: time_series.heat_map().columns(),
    })
}
