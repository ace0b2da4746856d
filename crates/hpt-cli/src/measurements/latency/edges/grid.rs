//! How far edges are from a constant period: the smallest strip around a line that contains all edges.

/// The largest number of corners that are kept. Edges on a line with jitter have some dozens.
const MOST_CORNERS: usize = 1 << 20;

/// An edge: its number, and its time in ticks since the first edge.
type Point = (i128, i128);

/// Edges that should be a constant period apart. Keeps only the corners of their convex hull, which determine the strip.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid {
    /// The time of the first edge, and the number of edges.
    first: Option<u64>,
    edges: u64,
    /// The earliest and the latest edges: the corners below and above.
    early: Vec<Point>,
    late: Vec<Point>,
    /// The width before a gap, in ticks.
    before: u64,
    has_too_many_corners: bool,
}

/// Returns a positive number if `to` lies above the line from `a` through `b`.
fn turn(a: Point, b: Point, to: Point) -> i128 {
    (b.0 - a.0) * (to.1 - a.1) - (b.1 - a.1) * (to.0 - a.0)
}

impl Grid {
    /// Adds an edge at the time `at`, in ticks, which must be later than the previous one.
    pub(super) fn edge(&mut self, at: u64) {
        let first = *self.first.get_or_insert(at);
        let point = (i128::from(self.edges), i128::from(at) - i128::from(first));
        self.edges += 1;
        let mut add = |corners: &mut Vec<Point>, sign: i128| {
            while matches!(corners[..], [.., a, b] if sign * turn(a, b, point) <= 0) {
                corners.pop();
            }
            self.has_too_many_corners |= corners.len() >= MOST_CORNERS;
            if !self.has_too_many_corners {
                corners.push(point);
            }
        };
        add(&mut self.early, 1);
        add(&mut self.late, -1);
    }

    /// Begins again after a gap of unknown length.
    pub(super) fn gap(&mut self) {
        let before = self.width();
        *self = Self { before, has_too_many_corners: self.has_too_many_corners, ..Self::default() };
    }

    /// Returns the time by which the latest edge is later than the earliest, relative to the constant period that fits
    /// best, in ticks, rounded up. Returns `None` if the edges do not resemble a constant period.
    pub(super) fn jitter(&self) -> Option<u64> {
        (!self.has_too_many_corners).then(|| self.width())
    }

    /// Returns the vertical width of the narrowest strip.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "deviations from a line"
    )]
    fn width(&self) -> u64 {
        let Some(&(last, end)) = self.late.last().filter(|(last, _)| *last > 1) else { return self.before };
        // The deviations from a line with a whole number of ticks as its period are exact.
        let period = end / last;
        let rest = |&(number, at): &Point| (number as f64, (at - period * number) as f64);
        let (early, late): (Vec<_>, Vec<_>) =
            (self.early.iter().map(rest).collect(), self.late.iter().map(rest).collect());
        let width = |slope: f64| {
            let over =
                |corners: &[(f64, f64)]| corners.iter().map(|(number, at)| at - slope * number).collect::<Vec<_>>();
            over(&late).into_iter().fold(f64::MIN, f64::max) - over(&early).into_iter().fold(f64::MAX, f64::min)
        };
        // The width is a convex function of the slope. The best slope is not steeper than that from the first corner to
        // the next one of either side.
        let slopes =
            early.windows(2).chain(late.windows(2)).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0));
        let (mut least, mut most) =
            slopes.fold((f64::MAX, f64::MIN), |(least, most), slope| (least.min(slope), most.max(slope)));
        for _ in 0..200 {
            let third = (most - least) / 3.0;
            let (one, other) = (least + third, most - third);
            if width(one) <= width(other) { most = other } else { least = one }
        }
        // A whole number of ticks is not exceeded by an error of rounding.
        let width = (width(f64::midpoint(least, most)) - 1e-3).ceil().max(0.0);
        self.before.max(width as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, prop_assert, proptest};

    use super::Grid;

    fn of(edges: impl IntoIterator<Item = u64>) -> Grid {
        let mut grid = Grid::default();
        edges.into_iter().for_each(|at| grid.edge(at));
        grid
    }

    #[test]
    fn a_late_edge_counts_once_and_drift_does_not_count() {
        assert_eq!(of((0..100).map(|number| number * 1_000)).jitter(), Some(0));
        let late = |number: u64| number * 1_000 + if number == 50 { 30 } else { 0 };
        assert_eq!(of((0..100).map(late)).jitter(), Some(30));
        // 0.3 ticks a period, which is rounded to whole ticks.
        assert_eq!(of((0..100).map(|number| number * 1_000 + number * 3 / 10)).jitter(), Some(1));
        assert_eq!(of([5, 9]).jitter(), Some(0));
        assert_eq!(Grid::default().jitter(), Some(0));
    }

    #[test]
    fn the_jitter_before_a_gap_counts() {
        let mut grid = of((0..100).map(|number| number * 1_000 + number % 2 * 7));
        grid.gap();
        (0..50).for_each(|number| grid.edge(500 + number * 1_000));
        assert_eq!(grid.jitter(), Some(7));
    }

    proptest! {
        #[test]
        fn jitter_around_a_grid_is_at_most_the_jitter_that_was_added(late in vec(0..50_u64, 3..300), period in 100..5_000_u64) {
            let jitter = of((0..).zip(&late).map(|(number, late)| number * period + late)).jitter().expect("few corners");
            let added = late.iter().max().expect("some") - late.iter().min().expect("some");
            prop_assert!(jitter <= added, "{jitter} of {added}");
        }

        #[test]
        fn alternating_jitter_is_found_exactly(late in 1..500_u64, period in 1_000..50_000_u64, half in 25..300_u64) {
            let edges = (0..2 * half + 1).map(|number| number * period + number % 2 * late);
            let jitter = of(edges).jitter().expect("few corners");
            prop_assert!(jitter == late, "{jitter} of {late}");
        }

        #[test]
        fn any_increasing_times_are_taken(mut times in vec(any::<u64>(), 0..60)) {
            times.sort_unstable();
            times.dedup();
            let _ = of(times).jitter();
        }
    }
}
