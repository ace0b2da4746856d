//! The figures of a latency distribution as document fields, as table cells and as text.

use hpt_core::{Instant, stats::Histogram};
use hpt_document::{
    latency::{LatencyFigures, MicrosecondCount},
    quantiles::{LatencyList, QuantileList, Quantiles},
};
use hpt_instrument::measure::Latencies;

use super::bins::bins_of;
use crate::output::{self, Align, Cell, Column, one_or_many, quantiles, rounded, short_time};

/// Returns the columns of `cells`.
pub(crate) fn columns() -> Vec<Column> {
    let named = |name| Column(name, Align::Right);
    let head = ["samples", "min", "mean"].map(named).into_iter();
    head.chain(quantiles::columns::<LatencyList>()).chain(["max", "missed"].map(named)).collect()
}

/// Returns the figures as document fields, or `None` if there are no samples.
pub(crate) fn figures(latencies: &Latencies) -> Option<LatencyFigures> {
    let counts = latencies.histogram();
    let worst = latencies.worst()?;
    let microseconds = (0..).zip(latencies.microseconds()).filter(|&(_, &count)| count > 0);
    Some(LatencyFigures {
        samples: counts.samples(),
        missed: latencies.missed(),
        min_ns: counts.quantile(0.0).unwrap_or(0),
        mean_ns: rounded(latencies.mean_ns()?),
        quantiles: quantiles_of(counts),
        max_ns: worst.latency_ns,
        max_at_ns: worst.deadline.nanos_since(Instant::EPOCH),
        histogram_us: microseconds.map(|(us, &count)| MicrosecondCount(us, count)).collect(),
        above_10ms: latencies.overflows(),
        histogram_ns: bins_of(counts),
    })
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(crate) fn cells(figures: &LatencyFigures) -> Vec<Cell> {
    let time = |ns: u64| Cell::plain(short_time(ns as f64));
    let head =
        [Cell::plain(figures.samples.to_string()), time(figures.min_ns), Cell::plain(short_time(figures.mean_ns))];
    let last = [time(figures.max_ns), Cell::plain(figures.missed.to_string())];
    head.into_iter().chain(quantiles::cells(&figures.quantiles)).chain(last).collect()
}

/// Returns the main figures as text: `p50 19.6 µs, p99 41.1 µs, max 3.85 ms`.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(crate) fn words(figures: &LatencyFigures) -> String {
    let figures =
        [("p50", figures.quantiles.median()), ("p99", figures.quantiles.p99()), ("max", Some(figures.max_ns))];
    let figures = figures.into_iter().filter_map(|(name, ns)| Some(format!("{name} {}", short_time(ns? as f64))));
    figures.collect::<Vec<_>>().join(", ")
}

pub(crate) fn samples(count: u64) -> String {
    format!("{count} {}", one_or_many(count, "sample", "samples"))
}

/// Returns the quantiles of a list. The median takes one sample; the others take ten beyond them.
pub(crate) fn quantiles_of<L: QuantileList<Value = u64>>(counts: &Histogram) -> Quantiles<L> {
    Quantiles::of(|quantile| match quantile.share {
        share if share <= 0.5 => counts.quantile(share),
        share => tail(counts, share),
    })
}

/// Returns a tail quantile, or `None` if fewer than ten samples lie beyond it.
pub(crate) fn tail(counts: &Histogram, part: f64) -> Option<u64> {
    output::tail(counts.samples(), part, counts.quantile(part)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_instrument::measure::Latencies;

    use super::{cells, columns, figures, words};
    use crate::output::latency_files::counts::tests::wake;

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_not_computed() {
        for (samples, had) in [(1, 0), (999, 0), (1_000, 1), (9_999, 1), (10_000, 2), (100_000, 3), (1_000_000, 4)] {
            let mut latencies = Latencies::new();
            (0..samples).for_each(|latency_ns| latencies.record(wake(latency_ns)));
            let figures = figures(&latencies).expect("some");
            let tails = figures.quantiles.iter().skip(1).filter(|(_, ns)| ns.is_some());
            assert_eq!(tails.count(), had, "{samples}");
            assert_eq!(cells(&figures).len(), columns().len());
        }
    }
    #[test]
    fn the_main_figures_are_one_phrase() {
        let mut latencies = Latencies::new();
        [5, 7].into_iter().for_each(|latency_ns| latencies.record(wake(latency_ns)));
        assert_eq!(figures(&latencies).map(|figures| words(&figures)).as_deref(), Some("p50 5 ns, max 7 ns"));
        (0..1_000).for_each(|_| latencies.record(wake(41_100)));
        let of_many = figures(&latencies).map(|figures| words(&figures));
        assert_eq!(of_many.as_deref(), Some("p50 41.1 µs, p99 41.1 µs, max 41.1 µs"));
    }
}
