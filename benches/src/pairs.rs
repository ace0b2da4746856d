//! Pairs of `now` and `elapsed`, as a program times its work: two reads, and their conversion to an
//! interval.
//! Does not time them: `rounds` does. Does not choose them: `ours` and `rivals` do.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use crate::{
    bare::Counter,
    contender::{Gives, Group, Pair},
    rounds::{Quantiles, Times},
};

/// Returns two bare reads, unordered and ordered. They are neither subtracted nor converted, so
/// they are the baseline for computing an interval.
#[must_use]
pub fn bare(counter: Counter) -> [Pair<'static>; 2] {
    // Separate closures: with one closure over a function pointer, the reads would be calls.
    let plain = Pair::new(
        two_of(Counter::PLAIN),
        Group::Bare,
        Gives::Ticks,
        move || counter.read(),
        move |first| (first, counter.read()),
    );
    let ordered = Pair::new(
        two_of(Counter::ORDERED),
        Group::Bare,
        Gives::Ticks,
        move || counter.read_ordered(),
        move |first| (first, counter.read_ordered()),
    );
    [plain, ordered]
}

/// Returns the name of a pair of bare reads in tables.
#[must_use]
pub fn two_of(read: &str) -> String {
    format!("2 × {read}")
}

/// One pair's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairLine {
    /// The name of the pair.
    pub name: String,
    /// The group of the pair.
    pub group: Group,
    /// The unit of the interval.
    pub gives: Gives,
    /// Time per pair, in nanoseconds.
    pub fenced_ns: Option<Quantiles>,
    /// Time per pair minus that of two unordered bare reads in the same round.
    pub over_plain_ns: Option<Quantiles>,
    /// Time per pair minus that of two ordered bare reads in the same round.
    pub over_ordered_ns: Option<Quantiles>,
}

/// Returns the lines of a comparison of pairs.
#[must_use]
pub fn lines(pairs: &[Pair<'_>], times: &Times) -> Vec<PairLine> {
    let place = |read: &str| pairs.iter().position(|pair| pair.name == two_of(read));
    let (plain, ordered) = (place(Counter::PLAIN), place(Counter::ORDERED));
    let over = |at, baseline: Option<usize>| baseline.and_then(|baseline| times.extra_ns(at, baseline));
    pairs
        .iter()
        .enumerate()
        .map(|(at, pair)| PairLine {
            name: pair.name.clone(),
            group: pair.group,
            gives: pair.gives,
            fenced_ns: times.read_ns(at),
            over_plain_ns: over(at, plain),
            over_ordered_ns: over(at, ordered),
        })
        .collect()
}

/// Formats the lines as a table, which is also Markdown.
#[must_use]
pub fn table(lines: &[PairLine]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header([
        "a pair".to_owned(),
        "gives".to_owned(),
        "fenced, ns".to_owned(),
        format!("ns over {}", two_of(Counter::PLAIN)),
        format!("ns over {}", two_of(Counter::ORDERED)),
    ]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in lines {
        table.add_row([
            line.name.clone(),
            line.gives.name().to_owned(),
            Quantiles::median(line.fenced_ns),
            Quantiles::spread(line.over_plain_ns),
            Quantiles::spread(line.over_ordered_ns),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Pair, lines, table, two_of};
    use crate::{
        bare::{Counter, Fence},
        contender::{Gives, Group},
        rounds::Times,
    };

    #[test]
    fn a_pair_reads_twice() {
        let reads = Cell::new(0);
        let read = || reads.replace(reads.get() + 1);
        let pair = Pair::new("by hand", Group::Rival, Gives::Ticks, read, |start| read() - start);
        if let Some(fence) = Fence::detect() {
            pair.run(5, fence);
            assert_eq!(reads.get(), 10);
        }
    }

    #[test]
    fn a_pair_is_compared_with_two_bare_reads_of_each_kind() {
        let pair = |name| Pair::new(name, Group::Rival, Gives::Nanoseconds, || 0, |start: u64| start);
        let pairs = [pair(two_of(Counter::PLAIN)), pair(two_of(Counter::ORDERED)), pair("slow".to_owned())];
        let lines = lines(&pairs, &Times::of_race(3, 3, |at| [30.0, 40.0, 45.5][at], || true));
        let p50 =
            |at: usize| (lines[at].over_plain_ns.map(|over| over.p50), lines[at].over_ordered_ns.map(|over| over.p50));
        assert_eq!((p50(2), p50(0)), ((Some(15.5), Some(5.5)), (Some(0.0), Some(-10.0))));
        assert!(table(&lines).contains("15.50 (15.50 to 15.50)"), "{}", table(&lines));
    }
}
