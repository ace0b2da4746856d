//! A latency distribution: its figures as document fields and as table cells, and its histogram as bars. Measures
//! nothing.

use hpt_core::{Instant, measure::Latencies, stats::Histogram};
use hpt_document::latency::{LatencyFigures, MicrosecondCount};

use crate::output::{self, Align, Block, Cell, Column, LONGEST_BAR, Table, rounded, short_time};

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
    })
}

/// Returns the figures as table cells.
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

/// Returns a tail quantile, or `None` if fewer than ten samples lie beyond it.
pub(crate) fn tail(counts: &Histogram, part: f64) -> Option<u64> {
    output::tail(counts.samples(), part, counts.quantile(part)?)
}

/// The upper limits of the displayed histogram bins, in nanoseconds: at least three per power of ten up to 10 ms.
const CLASSES_NS: [u64; 28] = [
    1_000,
    2_000,
    3_000,
    5_000,
    7_000,
    10_000,
    15_000,
    20_000,
    25_000,
    30_000,
    40_000,
    50_000,
    70_000,
    100_000,
    150_000,
    200_000,
    300_000,
    500_000,
    700_000,
    1_000_000,
    2_000_000,
    3_000_000,
    5_000_000,
    7_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    u64::MAX,
];

/// Returns the upper limit and the count of each bin, from the first to the last bin with samples.
fn classes(latencies: &Latencies) -> Vec<(u64, u64)> {
    let mut counts = [0; CLASSES_NS.len()];
    // Latencies up to ten milliseconds are counted per microsecond. Longer latencies have a resolution of three digits.
    let whole = latencies.microseconds();
    let whole_ns = whole.len() as u64 * 1_000;
    let exact = (0..).zip(whole).map(|(us, &count)| (us * 1_000, count));
    // The histogram counts nanoseconds.
    let rough = latencies.histogram().classes().map(|class| (class.largest_ticks, class.samples));
    let rough = rough.filter(|&(ns, _)| ns >= whole_ns);
    let mut left = latencies.overflows();
    for (ns, count) in exact.chain(rough) {
        // A coarse bin may begin below ten milliseconds.
        let count = if ns >= whole_ns { count.min(left) } else { count };
        if ns >= whole_ns {
            left -= count;
        }
        counts[CLASSES_NS.partition_point(|&end| end <= ns).min(CLASSES_NS.len() - 1)] += count;
    }
    let used: Vec<_> = counts.iter().enumerate().filter(|&(_, &count)| count > 0).map(|(class, _)| class).collect();
    let Some((&first, &last)) = used.first().zip(used.last()) else { return Vec::new() };
    (first..=last).map(|class| (CLASSES_NS[class], counts[class])).collect()
}

/// Returns a bar for each bin. `what` contains the headers of the first two columns.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for drawing")]
pub(crate) fn bars(latencies: &Latencies, what: (&'static str, &'static str)) -> Option<Block> {
    let classes = classes(latencies);
    let most = classes.iter().map(|&(_, count)| count).max()?;
    let all = latencies.histogram().samples();
    let rows = classes.into_iter().map(|(end_ns, count)| {
        let name = if end_ns == u64::MAX { "more".to_owned() } else { format!("< {}", short_time(end_ns as f64)) };
        let length = (count as f64 / most as f64 * LONGEST_BAR as f64).round() as usize;
        let bar = if count > 0 { "#".repeat(length.max(1)) } else { String::new() };
        let share = count as f64 / all as f64 * 100.0;
        let share = if count == 0 { Cell::faint("-") } else { Cell::plain(format!("{share:.3}")) };
        vec![Cell::plain(name), Cell::plain(count.to_string()), share, Cell::plain(bar)]
    });
    let columns = vec![
        Column(what.0, Align::Right),
        Column(what.1, Align::Right),
        Column("%", Align::Right),
        Column("", Align::Bar),
    ];
    Some(Block::Table(Table { columns, rows: rows.collect() }))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{ops::ControlFlow, time::Duration};

    use hpt_core::{
        Instant,
        measure::{Latencies, Wakes},
    };

    use super::{COLUMNS, cells, classes, figures};
    use crate::output::latency_files::{
        ThreadLatencies,
        counts::tests::{threads, wake},
    };

    #[test]
    fn every_sample_is_in_one_bin() {
        for ThreadLatencies { latencies, .. } in threads() {
            let classes = classes(&latencies);
            assert_eq!(classes.iter().map(|&(_, count)| count).sum::<u64>(), latencies.histogram().samples());
        }
        assert_eq!(
            classes(&threads()[0].latencies),
            [(1_000, 1), (2_000, 2), (3_000, 0), (5_000, 0), (7_000, 0), (10_000, 0), (15_000, 1)]
        );
        assert_eq!(classes(&Latencies::new()), []);
        let mut live = Latencies::new();
        let wakes = Wakes::new(Duration::from_micros(50)).with_start(Instant::now()).with_count(50);
        wakes.run(|wake| {
            live.record(wake);
            ControlFlow::Continue(())
        });
        assert_eq!(classes(&live).iter().map(|&(_, count)| count).sum::<u64>(), 50);
    }

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
}
