//! The figures of a latency distribution as document fields, as table cells and as text.

use hpt_core::{Instant, stats::Histogram};
use hpt_document::latency::{LatencyFigures, MicrosecondCount};
use hpt_instrument::measure::Latencies;

use super::bins::bins_of;
use crate::output::{self, Cell, one_or_many, rounded, short_time};

/// The column headers of `cells`.
pub(crate) const COLUMNS: [&str; 10] =
    ["samples", "min", "mean", "p50", "p99", "p99.9", "p99.99", "p99.999", "max", "missed"];

/// Returns the figures as document fields, or `None` if there are no samples.
pub(crate) fn figures(latencies: &Latencies) -> Option<LatencyFigures> {
    let counts = latencies.histogram();
    let worst = latencies.worst()?;
    let quantile = |part| counts.quantile(part).unwrap_or(0);
    let microseconds = (0..).zip(latencies.microseconds()).filter(|&(_, &count)| count > 0);
    Some(LatencyFigures {
        samples: counts.samples(),
        missed: latencies.missed(),
        min_ns: quantile(0.0),
        mean_ns: rounded(latencies.mean_ns()?),
        p50_ns: quantile(0.5),
        p99_ns: tail(counts, 0.99),
        p999_ns: tail(counts, 0.999),
        p9999_ns: tail(counts, 0.9999),
        p99999_ns: tail(counts, 0.99999),
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
    let tail = |ns: Option<u64>| ns.map_or_else(|| Cell::faint("-"), time);
    vec![
        Cell::plain(figures.samples.to_string()),
        time(figures.min_ns),
        Cell::plain(short_time(figures.mean_ns)),
        time(figures.p50_ns),
        tail(figures.p99_ns),
        tail(figures.p999_ns),
        tail(figures.p9999_ns),
        tail(figures.p99999_ns),
        time(figures.max_ns),
        Cell::plain(figures.missed.to_string()),
    ]
}

/// Returns the main figures as text: `p50 19.6 µs, p99 41.1 µs, max 3.85 ms`.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(crate) fn words(p50_ns: u64, p99_ns: Option<u64>, max_ns: u64) -> String {
    let time = |ns: u64| short_time(ns as f64);
    let p99 = p99_ns.map_or_else(String::new, |ns| format!(", p99 {}", time(ns)));
    format!("p50 {}{p99}, max {}", time(p50_ns), time(max_ns))
}

pub(crate) fn samples(count: u64) -> String {
    format!("{count} {}", one_or_many(count, "sample", "samples"))
}

/// Returns a tail quantile, or `None` if fewer than ten samples lie beyond it.
pub(crate) fn tail(counts: &Histogram, part: f64) -> Option<u64> {
    output::tail(counts.samples(), part, counts.quantile(part)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_instrument::measure::Latencies;

    use super::{COLUMNS, cells, figures, words};
    use crate::output::latency_files::counts::tests::wake;

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_not_computed() {
        for (samples, had) in [(1, 0), (999, 0), (1_000, 1), (9_999, 1), (10_000, 2), (100_000, 3), (1_000_000, 4)] {
            let mut latencies = Latencies::new();
            (0..samples).for_each(|latency_ns| latencies.record(wake(latency_ns)));
            let figures = figures(&latencies).expect("some");
            let tails = [figures.p99_ns, figures.p999_ns, figures.p9999_ns, figures.p99999_ns];
            assert_eq!(tails.map(|ns| ns.is_some()), [1, 2, 3, 4].map(|place| place <= had), "{samples}");
            assert_eq!(cells(&figures).len(), COLUMNS.len());
        }
    }
    #[test]
    fn the_main_figures_are_one_phrase() {
        assert_eq!(words(19_600, Some(41_100), 3_850_000), "p50 19.6 µs, p99 41.1 µs, max 3.85 ms");
        assert_eq!(words(5, None, 7), "p50 5 ns, max 7 ns");
    }
}
