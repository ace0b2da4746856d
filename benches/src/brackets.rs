//! Bracketed readings of a clock between two readings of another, and the offset of the clock.
//! Pure: computes figures from brackets.

use std::collections::VecDeque;

use serde::Serialize;

use crate::tails::{Samples, Tails};

/// Number of brackets that determine the usual width. They are judged after that.
const TO_BEGIN_WITH: usize = 1_000;
/// Number of brackets after which the usual width is determined again.
const UNTIL_TOLD_AGAIN: u64 = 1 << 16;
/// Number of narrow brackets that determine the offset at the beginning and at the end.
const AT_AN_END: usize = 1_001;

/// A reading of a clock between two readings of the reference, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The reading before.
    pub before_ns: i64,
    /// The clock's reading.
    pub reading_ns: i64,
    /// The reading after.
    pub after_ns: i64,
}

impl Bracket {
    /// Returns the width in nanoseconds.
    #[must_use]
    pub fn width_ns(self) -> u64 {
        u64::try_from(self.after_ns - self.before_ns).unwrap_or(0)
    }

    /// Returns the distance of the reading from the bracket, in nanoseconds; zero inside.
    #[must_use]
    pub fn outside_ns(self) -> u64 {
        let outside = (self.before_ns - self.reading_ns).max(self.reading_ns - self.after_ns);
        u64::try_from(outside).unwrap_or(0)
    }

    /// Returns the offset of the reading from the middle, in nanoseconds; negative if it is behind.
    #[must_use]
    pub fn ahead_of_middle_ns(self) -> i64 {
        self.reading_ns - self.before_ns - (self.after_ns - self.before_ns) / 2
    }
}

/// All brackets of one clock.
#[derive(Debug, Default)]
pub struct Account {
    has_own_epoch: bool,
    /// The correction for a clock with its own epoch.
    anchor_ns: i64,
    waiting: Vec<(Bracket, &'static str)>,
    usual_ns: u64,
    begun_ns: Option<i64>,
    ended_ns: i64,
    widths: Samples,
    outside: Samples,
    from_middle: Samples,
    most_behind_ns: i64,
    most_ahead_ns: i64,
    disturbed: u64,
    disturbed_worst_ns: u64,
    worst: Option<Worst>,
    first: Vec<i64>,
    last: VecDeque<i64>,
}

/// The bracket with the largest distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// The distance of the reading from the bracket.
    pub outside_ns: u64,
    /// The width of the bracket.
    pub width_ns: u64,
    /// Its time, in seconds from the first reading.
    pub at_s: f64,
    /// The pause before the reading.
    pub pause: &'static str,
}

/// The figures of one clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offsets {
    /// The name of the clock.
    pub name: &'static str,
    /// Whether the clock has its own epoch, and was set to the reference in its first narrow
    /// bracket.
    pub has_own_epoch: bool,
    /// Number of readings, including disturbed ones.
    pub readings: u64,
    /// Number of readings whose bracket was wider than twice the usual width. No quantile includes
    /// them.
    pub disturbed: u64,
    /// The usual width of a bracket.
    pub usual_width_ns: u64,
    /// The distance of readings from their brackets.
    pub outside: Option<Tails>,
    /// The distance of the worst disturbed reading from its bracket.
    pub disturbed_worst_ns: u64,
    /// The bracket of the worst reading of all.
    pub worst: Option<Worst>,
    /// The distance of readings from the middle, for brackets up to one and a half times the usual
    /// width.
    pub from_middle: Option<Tails>,
    /// The largest offset behind the middle, for the same brackets.
    pub most_behind_ns: i64,
    /// The largest offset ahead of the middle, for the same brackets.
    pub most_ahead_ns: i64,
    /// The median offset from the middle at the end.
    pub at_end_ns: Option<i64>,
    /// The change of that offset from the beginning to the end, in parts per million.
    pub drift_ppm: Option<f64>,
}

impl Account {
    /// Creates an account of a clock, which has its own epoch or that of the reference.
    #[must_use]
    pub fn new(has_own_epoch: bool) -> Self {
        Self { has_own_epoch, ..Self::default() }
    }

    /// Adds a bracket that followed a pause of this name.
    pub fn take(&mut self, bracket: Bracket, pause: &'static str) {
        self.begun_ns.get_or_insert(bracket.before_ns);
        self.ended_ns = bracket.after_ns;
        self.widths.add(bracket.width_ns());
        if self.usual_ns == 0 {
            self.waiting.push((bracket, pause));
            if self.waiting.len() == TO_BEGIN_WITH {
                self.begin();
            }
            return;
        }
        if self.widths.count().is_multiple_of(UNTIL_TOLD_AGAIN) {
            self.tell_usual_width();
        }
        self.judge(bracket, pause);
    }

    /// Computes the figures, including brackets that are not judged yet.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for printing, below 2^53 ns")]
    pub fn offsets(&mut self, name: &'static str) -> Offsets {
        self.begin();
        let middle_of = |values: &mut Vec<i64>| {
            let at = values.len().checked_sub(1)? / 2;
            Some(*values.select_nth_unstable(at).1)
        };
        let at_begin_ns = middle_of(&mut self.first);
        let at_end_ns = middle_of(&mut self.last.iter().copied().collect());
        let lasted_ns = self.ended_ns - self.begun_ns.unwrap_or(self.ended_ns);
        Offsets {
            name,
            has_own_epoch: self.has_own_epoch,
            readings: self.widths.count(),
            disturbed: self.disturbed,
            usual_width_ns: self.usual_ns,
            outside: self.outside.tails(1.0),
            disturbed_worst_ns: self.disturbed_worst_ns,
            worst: self.worst,
            from_middle: self.from_middle.tails(1.0),
            most_behind_ns: self.most_behind_ns,
            most_ahead_ns: self.most_ahead_ns,
            at_end_ns,
            drift_ppm: at_begin_ns
                .zip(at_end_ns)
                .filter(|_| lasted_ns > 0)
                .map(|(begin, end)| (end - begin) as f64 / lasted_ns as f64 * 1e6),
        }
    }

    fn tell_usual_width(&mut self) {
        self.usual_ns = self.widths.median().unwrap_or(0).max(1);
    }

    /// Determines the usual width from the first brackets, and judges them.
    fn begin(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        self.tell_usual_width();
        let waiting = std::mem::take(&mut self.waiting);
        if self.has_own_epoch {
            let narrow = waiting.iter().find(|(bracket, _)| self.is_narrow(*bracket));
            self.anchor_ns = narrow.map_or(0, |(bracket, _)| -bracket.ahead_of_middle_ns());
        }
        waiting.into_iter().for_each(|(bracket, pause)| self.judge(bracket, pause));
    }

    fn is_narrow(&self, bracket: Bracket) -> bool {
        2 * bracket.width_ns() <= 3 * self.usual_ns
    }

    fn judge(&mut self, bracket: Bracket, pause: &'static str) {
        let bracket = Bracket { reading_ns: bracket.reading_ns + self.anchor_ns, ..bracket };
        let outside_ns = bracket.outside_ns();
        if self.worst.is_none_or(|worst| worst.outside_ns < outside_ns) {
            let since_ns = bracket.before_ns - self.begun_ns.unwrap_or(bracket.before_ns);
            #[expect(clippy::cast_precision_loss, reason = "for printing, below 2^53 ns")]
            let at_s = since_ns as f64 / 1e9;
            self.worst = Some(Worst { outside_ns, width_ns: bracket.width_ns(), at_s, pause });
        }
        if bracket.width_ns() > 2 * self.usual_ns {
            self.disturbed += 1;
            self.disturbed_worst_ns = self.disturbed_worst_ns.max(outside_ns);
            return;
        }
        self.outside.add(outside_ns);
        if self.is_narrow(bracket) {
            self.note_narrow(bracket.ahead_of_middle_ns());
        }
    }

    fn note_narrow(&mut self, ahead_ns: i64) {
        self.from_middle.add(ahead_ns.unsigned_abs());
        self.most_behind_ns = self.most_behind_ns.min(ahead_ns);
        self.most_ahead_ns = self.most_ahead_ns.max(ahead_ns);
        if self.first.len() < AT_AN_END {
            self.first.push(ahead_ns);
        }
        if self.last.len() == AT_AN_END {
            self.last.pop_front();
        }
        self.last.push_back(ahead_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{Account, Bracket};

    fn bracket(before_ns: i64, reading_ns: i64, width_ns: i64) -> Bracket {
        Bracket { before_ns, reading_ns, after_ns: before_ns + width_ns }
    }

    #[test]
    fn a_reading_inside_has_no_distance() {
        let outside = [995, 1000, 1050, 1100, 1107].map(|reading| bracket(1000, reading, 100).outside_ns());
        assert_eq!(outside, [5, 0, 0, 0, 7]);
        let ahead = [995, 1050, 1107].map(|reading| bracket(1000, reading, 100).ahead_of_middle_ns());
        assert_eq!(ahead, [-55, 0, 57]);
    }

    #[test]
    fn a_disturbed_bracket_is_counted_but_in_no_quantile() {
        let mut account = Account::new(false);
        (0..5_000).for_each(|at| account.take(bracket(at * 1000, at * 1000 + 50, 100), "none"));
        account.take(bracket(9_000_000, 8_999_000, 201), "sleep");
        account.take(bracket(9_500_000, 9_499_970, 200), "none");
        let offsets = account.offsets("it");
        assert_eq!((offsets.readings, offsets.disturbed, offsets.disturbed_worst_ns), (5_002, 1, 1000));
        assert_eq!(offsets.outside.map(|outside| (outside.samples, outside.worst_ns)), Some((5_001, 30.0)));
        assert_eq!(offsets.from_middle.map(|middle| (middle.samples, middle.worst_ns)), Some((5_000, 0.0)));
        assert_eq!(offsets.worst.map(|worst| (worst.pause, worst.at_s)), Some(("sleep", 0.009)));
    }

    #[test]
    fn a_wide_first_bracket_determines_neither_the_usual_width_nor_the_epoch() {
        let mut account = Account::new(true);
        account.take(bracket(0, 7, 1_000_000), "none");
        // A clock that was started when the other showed 2 ms.
        (2_000..2_010).for_each(|at| account.take(bracket(at * 1000, (at - 2_000) * 1000 + 50, 100), "none"));
        let offsets = account.offsets("it");
        assert_eq!((offsets.usual_width_ns, offsets.disturbed), (100, 1));
        assert_eq!(offsets.outside.map(|outside| outside.worst_ns), Some(0.0));
    }

    #[test]
    fn a_clock_that_runs_fast_drifts() {
        let mut account = Account::new(true);
        for at in 0..20_000_i64 {
            let now = at * 1_000_000;
            account.take(bracket(now, now + 50 + now / 100_000, 100), "none");
        }
        let offsets = account.offsets("it");
        let drift_ppm = offsets.drift_ppm.expect("it ran");
        // The two medians are slightly within the ends of the run.
        assert!((9.0..=10.0).contains(&drift_ppm), "{drift_ppm}");
        assert_eq!(offsets.most_ahead_ns, 199_990);
    }

    #[test]
    fn no_readings_have_no_figures() {
        let offsets = Account::new(true).offsets("it");
        assert_eq!((offsets.readings, offsets.outside, offsets.at_end_ns, offsets.drift_ppm), (0, None, None, None));
    }

    proptest! {
        #[test]
        fn a_reading_outside_is_further_from_the_middle_than_half_the_width(before in 0_i64..1 << 50, reading in 0_i64..1 << 50, width in 0_i64..1 << 20) {
            let bracket = bracket(before, reading, width);
            let beyond = bracket.ahead_of_middle_ns().abs() - width / 2;
            if bracket.outside_ns() > 0 {
                prop_assert!(bracket.outside_ns().abs_diff(beyond.unsigned_abs()) <= 1);
            } else {
                prop_assert_eq!(beyond.max(1), 1);
            }
        }
    }
}
