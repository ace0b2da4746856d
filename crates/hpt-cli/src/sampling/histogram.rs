//! The histogram of a duration as a table with bars, for a terminal.

use hpt_core::stats::Histogram;
use hpt_instrument::measure::Latencies;

use crate::output::{Align, Block, Cell, Column, Table, bar, has_tail, short_time};

/// The upper limits of the bins in nanoseconds, between powers of ten: at least three up to 10 ms. From 1 µs, all limits
/// are whole microseconds.
const FINE_NS: [u64; 46] = [
    2,
    3,
    5,
    7,
    10,
    15,
    20,
    25,
    30,
    40,
    50,
    70,
    100,
    150,
    200,
    300,
    500,
    700,
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
/// The limits that are used if there are too many fine bins for one screen.
const COARSE_NS: [u64; 24] = [
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    u64::MAX,
];
/// The number of rows above which the coarse limits are used.
const MOST_ROWS: usize = 16;
/// The number of consecutive empty bins from which they are shown as one row.
const LONG_GAP: usize = 3;

/// Returns the histogram of latencies. `what` contains the headers of the first two columns.
pub(crate) fn of_latencies(latencies: &Latencies, what: (&'static str, &'static str)) -> Option<Block> {
    table(&counts_of_latencies(latencies), what)
}

/// Returns the histogram of a number of ticks of this length. `what` contains the headers of the first two columns.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for drawing")]
pub(crate) fn of_ticks(ticks: &Histogram, tick_ns: f64, what: (&'static str, &'static str)) -> Option<Block> {
    let counts = ticks.classes().map(|class| ((class.largest_ticks as f64 * tick_ns) as u64, class.samples));
    table(&counts.collect::<Vec<_>>(), what)
}

/// Returns durations in nanoseconds, in any order, and the number of samples of each. The microsecond of a sample
/// below 10 ms is exact. Other samples have a resolution of three digits.
fn counts_of_latencies(latencies: &Latencies) -> Vec<(u64, u64)> {
    let whole = latencies.microseconds();
    let whole_ns = whole.len() as u64 * 1_000;
    let classes = || latencies.histogram().classes().map(|class| (class.largest_ticks, class.samples));
    // A class of the histogram may contain samples of both sides of these limits.
    let limited = |counts: Vec<(u64, u64)>, mut left: u64, rest_ns: u64| {
        let mut limited: Vec<(u64, u64)> = Vec::new();
        for (ns, count) in counts {
            let count = count.min(left);
            left -= count;
            limited.push((ns, count));
        }
        limited.push((rest_ns, left));
        limited
    };
    let below = classes().filter(|&(ns, _)| ns < 1_000).collect();
    let mut counts = limited(below, whole.first().copied().unwrap_or(0), 999);
    counts.extend((0..).zip(whole).skip(1).map(|(us, &count)| (us * 1_000, count)));
    // The class at the limit gets the samples that the classes of longer durations leave.
    let mut above: Vec<(u64, u64)> = classes().filter(|&(ns, _)| ns >= whole_ns).collect();
    above.reverse();
    counts.extend(limited(above, latencies.overflows(), whole_ns));
    counts
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Bin {
    /// The upper limit in nanoseconds; a sample of exactly this duration is in the next bin.
    end_ns: u64,
    count: u64,
    /// The figures that lie in this bin.
    marks: Vec<&'static str>,
}

/// Returns the bins between these limits, from the first to the last bin with samples.
fn bins(counts: &[(u64, u64)], limits: &[u64]) -> Vec<Bin> {
    let mut bins: Vec<Bin> = limits.iter().map(|&end_ns| Bin { end_ns, count: 0, marks: Vec::new() }).collect();
    for &(ns, count) in counts {
        bins[limits.partition_point(|&end| end <= ns).min(limits.len() - 1)].count += count;
    }
    let samples: u64 = bins.iter().map(|bin| bin.count).sum();
    let Some(last) = bins.iter().rposition(|bin| bin.count > 0) else { return Vec::new() };
    bins.truncate(last + 1);
    mark(&mut bins, "p50", samples.div_ceil(2));
    if has_tail(samples, 0.99) {
        mark(&mut bins, "p99", samples - samples / 100);
    }
    mark(&mut bins, "max", samples);
    let first = bins.iter().position(|bin| bin.count > 0).unwrap_or(0);
    bins.split_off(first)
}

/// Marks the bin that contains the sample with this rank, counted from 1.
fn mark(bins: &mut [Bin], name: &'static str, rank: u64) {
    let mut below = 0;
    let bin = bins.iter_mut().find(|bin| {
        below += bin.count;
        below >= rank
    });
    bin.into_iter().for_each(|bin| bin.marks.push(name));
}

/// Returns the share of the longest bar for a count, on a logarithmic scale that begins at a tenth of a sample.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
fn share(count: u64, most: u64) -> f64 {
    let scale = |count: u64| (count as f64 * 10.0).log10();
    if count == 0 { 0.0 } else { scale(count) / scale(most) }
}

/// Returns the runs of bins that form one row each: a single bin, or a gap of empty bins.
fn rows_of(bins: &[Bin]) -> Vec<&[Bin]> {
    let runs = bins.chunk_by(|one, next| one.count == 0 && next.count == 0);
    let rows = runs.flat_map(|run| if run.len() >= LONG_GAP { vec![run] } else { run.chunks(1).collect() });
    rows.collect()
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn table(counts: &[(u64, u64)], what: (&'static str, &'static str)) -> Option<Block> {
    let mut bins_shown = bins(counts, &FINE_NS);
    if rows_of(&bins_shown).len() > MOST_ROWS {
        bins_shown = bins(counts, &COARSE_NS);
    }
    let most = bins_shown.iter().map(|bin| bin.count).max()?;
    let all: u64 = bins_shown.iter().map(|bin| bin.count).sum();
    let rows = rows_of(&bins_shown).into_iter().map(|run| {
        let [Bin { end_ns, count, marks }] = run else {
            return vec![Cell::faint("…"), Cell::faint("0"), Cell::faint("-"), Cell::plain(""), Cell::plain("")];
        };
        let name = if *end_ns == u64::MAX { "more".to_owned() } else { format!("< {}", short_time(*end_ns as f64)) };
        let percent = *count as f64 / all as f64 * 100.0;
        let percent = match count {
            0 => Cell::faint("-"),
            _ if percent < 0.0005 => Cell::plain("< 0.001"),
            _ => Cell::plain(format!("{percent:.3}")),
        };
        vec![
            Cell::plain(name),
            Cell::plain(count.to_string()),
            percent,
            Cell::plain(bar(share(*count, most))),
            Cell::strong(marks.join(" ")),
        ]
    });
    let columns = vec![
        Column(what.0, Align::Right),
        Column(what.1, Align::Right),
        Column("%", Align::Right),
        Column("log scale", Align::Bar),
        Column("", Align::Left),
    ];
    Some(Block::Table(Table { columns, rows: rows.collect() }))
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, time::Duration};

    use hpt_core::{Instant, stats::Histogram};
    use hpt_instrument::measure::{Latencies, Wake, Wakes};

    use super::{Bin, COARSE_NS, FINE_NS, bins, counts_of_latencies, of_latencies, of_ticks, table};
    use crate::output::{
        Block, Document, Format, Look,
        latency_files::{ThreadLatencies, counts::tests::threads},
        rendered,
    };

    fn of(latencies: &Latencies) -> Vec<(u64, u64)> {
        let bins = bins(&counts_of_latencies(latencies), &FINE_NS);
        bins.into_iter().map(|bin| (bin.end_ns, bin.count)).collect()
    }

    fn shown(block: Block, width: u16) -> String {
        let document = Document::new(crate::golden::empty("latency-timer"), vec![block]);
        rendered(&document, Format::Human, Look { width, color: false, verbose: false })
    }

    /// The number of columns of the bar in the row of the bin below `limit`.
    fn columns_of_bar(text: &str, limit: &str) -> usize {
        let row = text.lines().find(|line| line.trim_start().starts_with(limit)).unwrap_or_else(|| panic!("{text}"));
        row.chars().filter(|letter| ('▀'..='▟').contains(letter)).count()
    }

    #[test]
    fn every_sample_is_in_one_bin() {
        for ThreadLatencies { latencies, .. } in threads() {
            assert_eq!(of(&latencies).iter().map(|&(_, count)| count).sum::<u64>(), latencies.histogram().samples());
        }
        assert_eq!(
            of(&threads()[0].latencies),
            [(700, 1), (1_000, 0), (2_000, 2), (3_000, 0), (5_000, 0), (7_000, 0), (10_000, 0), (15_000, 1)]
        );
        assert_eq!(of(&Latencies::new()), []);
        assert!(of_latencies(&Latencies::new(), ("latency", "samples")).is_none());
        let mut live = Latencies::new();
        let wakes = Wakes::new(Duration::from_micros(50)).with_start(Instant::now()).with_count(50);
        let waited = wakes.run(|wake| {
            live.record(wake);
            ControlFlow::Continue(())
        });
        waited.expect("no sandbox");
        let deadlines = 50 + live.missed();
        assert_eq!(of(&live).iter().map(|&(_, count)| count).sum::<u64>(), deadlines);
    }

    #[test]
    fn samples_next_to_the_limit_of_exact_counts_take_no_longer_ones_with_them() {
        // 9.998 ms is in the same class of the histogram as 10 ms, from which on samples are not counted exactly.
        let mut latencies = Latencies::new();
        for latency_ns in [9_998_000, 9_998_000, 2_000_000_000] {
            latencies.record(Wake::new(Instant::EPOCH, latency_ns));
        }
        assert_eq!(
            of(&latencies).last().map(|&(end_ns, count)| (end_ns > 2_000_000_000, count)),
            Some((true, 1)),
            "{:?}",
            of(&latencies)
        );
    }

    #[test]
    fn a_single_sample_in_the_tail_is_visible_and_differs_from_fifty() {
        let counts = [(19_000, 100_000_000), (150_000, 50), (3_850_000, 1)];
        for (width, one, fifty, most) in [(80, 5, 12, 40), (40, 1, 3, 9)] {
            let text = shown(table(&counts, ("latency", "samples")).expect("a table"), width);
            assert_eq!(columns_of_bar(&text, "< 5 ms"), one, "{text}");
            assert_eq!(columns_of_bar(&text, "< 200 µs"), fifty, "{text}");
            assert_eq!(columns_of_bar(&text, "< 20 µs"), most, "{text}");
            assert!(text.contains("log scale") && text.contains("100000000"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        }
    }

    #[test]
    fn the_bins_of_the_median_the_tail_and_the_maximum_are_marked() {
        let marks = |counts: &[(u64, u64)]| -> Vec<(u64, String)> {
            let bins = bins(counts, &FINE_NS).into_iter().filter(|bin| !bin.marks.is_empty());
            bins.map(|bin| (bin.end_ns, bin.marks.join(" "))).collect()
        };
        let marked = |end_ns, marks: &str| (end_ns, marks.to_owned());
        assert_eq!(
            marks(&[(10, 500), (20, 490), (90, 10)]),
            [marked(15, "p50"), marked(25, "p99"), marked(100, "max")]
        );
        assert_eq!(marks(&[(10, 501), (90, 498)]), [marked(15, "p50"), marked(100, "max")], "too few for p99");
        assert_eq!(marks(&[(7, 1)]), [marked(10, "p50 max")]);
    }

    #[test]
    fn a_histogram_fits_on_one_screen() {
        let everywhere: Vec<(u64, u64)> = FINE_NS.iter().map(|&end_ns| (end_ns - 1, 1)).collect();
        let text = shown(table(&everywhere, ("latency", "samples")).expect("a table"), 80);
        assert_eq!(text.lines().count(), 1 + COARSE_NS.len(), "{text}");
        let far_apart = [(1, 1), (1_000_000, 1)];
        let text = shown(table(&far_apart, ("latency", "samples")).expect("a table"), 80);
        assert_eq!(
            text.lines().map(|line| line.split_whitespace().next()).collect::<Vec<_>>(),
            [Some("latency"), Some("<"), Some("…"), Some("<")]
        );
    }

    #[test]
    fn ticks_are_converted_to_nanoseconds() {
        let mut ticks = Histogram::new();
        [10, 12, 40].into_iter().for_each(|count| ticks.record(count));
        let text = shown(of_ticks(&ticks, 0.5, ("interval", "pairs")).expect("a table"), 80);
        assert!(text.contains("< 7 ns") && text.contains("< 25 ns"), "{text}");
    }

    #[test]
    fn a_sample_on_a_limit_is_in_the_next_bin() {
        assert_eq!(bins(&[(1_000, 1)], &FINE_NS), [Bin { end_ns: 2_000, count: 1, marks: vec!["p50", "max"] }]);
    }
}
