//! Summarizes many readings: distributions, medians and steps. Values keep the unit of the caller unless a name
//! includes a unit.

use std::fmt;

#[cfg(feature = "stats")]
mod durations;
#[cfg(feature = "stats")]
mod histogram;

#[cfg(feature = "stats")]
pub use self::{
    durations::Durations,
    histogram::{Class, Histogram},
};

/// The distribution of a set of durations: quantiles, minimum, maximum and mean, in nanoseconds.
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spread {
    /// The number of samples.
    pub samples: u64,
    /// The minimum, in nanoseconds.
    pub min_ns: f64,
    /// The median, in nanoseconds.
    pub p50_ns: f64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: f64,
    /// The 99.9th percentile, in nanoseconds.
    pub p999_ns: f64,
    /// The maximum, in nanoseconds.
    pub max_ns: f64,
    /// The arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
}

impl fmt::Debug for Spread {
    /// With one decimal place in a unit that suits each time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Spread");
        fields.field("samples", &self.samples);
        for (name, ns) in [
            ("min", self.min_ns),
            ("p50", self.p50_ns),
            ("p99", self.p99_ns),
            ("p999", self.p999_ns),
            ("max", self.max_ns),
            ("mean", self.mean_ns),
        ] {
            match ns {
                ..1e3 => fields.field(name, &format_args!("{ns:.1}ns")),
                ..1e6 => fields.field(name, &format_args!("{:.1}µs", ns / 1e3)),
                ..1e9 => fields.field(name, &format_args!("{:.1}ms", ns / 1e6)),
                _ => fields.field(name, &format_args!("{:.1}s", ns / 1e9)),
            };
        }
        fields.finish()
    }
}

/// Returns the median or, for an even number of samples, the lower of the two middle values; `None` if there are no
/// samples. Reorders `samples`.
///
/// # Examples
///
/// ```
/// use hpt_core::stats::median;
///
/// assert_eq!(median(&mut [30, 10, 20]), Some(20));
/// assert_eq!(median(&mut [4, 1, 3, 2]), Some(2));
/// assert_eq!(median(&mut []), None);
/// ```
#[must_use]
pub fn median(samples: &mut [u64]) -> Option<u64> {
    let middle = samples.len().checked_sub(1)? / 2;
    Some(*samples.select_nth_unstable(middle).1)
}

/// Statistics of the non-zero steps of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    smallest: u64,
    largest: u64,
    multiple: u64,
    count: u64,
}

impl Steps {
    /// Adds the step between two consecutive readings; ignores a step of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Steps;
    ///
    /// let readings = [0, 26, 26, 65, 130];
    /// let mut steps = Steps::default();
    /// readings.windows(2).for_each(|pair| steps.record(pair[1] - pair[0]));
    /// assert_eq!((steps.count(), steps.multiple_ticks()), (3, Some(13)));
    /// ```
    pub fn record(&mut self, step_ticks: u64) {
        if step_ticks == 0 {
            return;
        }
        self.smallest = if self.count == 0 { step_ticks } else { self.smallest.min(step_ticks) };
        self.largest = self.largest.max(step_ticks);
        self.multiple = greatest_common_divisor(self.multiple, step_ticks);
        self.count += 1;
    }

    /// Returns the granularity: the smallest step observed, in ticks; `None` if the counter never advanced.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Steps;
    ///
    /// let mut steps = Steps::default();
    /// assert_eq!(steps.smallest_ticks(), None);
    /// [0, 26, 39].into_iter().for_each(|step| steps.record(step));
    /// assert_eq!(steps.smallest_ticks(), Some(26));
    /// ```
    #[must_use]
    pub const fn smallest_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.smallest) }
    }

    /// Returns the largest step observed, in ticks; `None` if the counter never advanced. The largest step includes
    /// delays from interrupts and late kernel ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Steps;
    ///
    /// let mut steps = Steps::default();
    /// [26, 9_000, 39].into_iter().for_each(|step| steps.record(step));
    /// assert_eq!(steps.largest_ticks(), Some(9_000));
    /// ```
    #[must_use]
    pub const fn largest_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.largest) }
    }

    /// Returns the greatest common divisor of all steps observed, in ticks; `None` if the counter never advanced. A
    /// counter that is driven by a slower counter advances by more than one tick at a time.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Steps;
    ///
    /// let mut steps = Steps::default();
    /// [26, 39, 65].into_iter().for_each(|step| steps.record(step));
    /// assert_eq!(steps.multiple_ticks(), Some(13));
    /// ```
    #[must_use]
    pub const fn multiple_ticks(&self) -> Option<u64> {
        if self.count == 0 { None } else { Some(self.multiple) }
    }

    /// Returns the number of non-zero steps observed.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::stats::Steps;
    ///
    /// let mut steps = Steps::default();
    /// [0, 26, 0].into_iter().for_each(|step| steps.record(step));
    /// assert_eq!(steps.count(), 1);
    /// ```
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}

/// Returns the granule of a counter: the largest lag of a reading behind the true count. Estimates the granule from
/// `steps`, the differences between back-to-back reads. Sorts `steps` and removes zeros, outliers and duplicates from
/// it.
///
/// If a counter advances in granules, its steps are multiples of a granule, rounded to ticks. Their sizes form clusters
/// that are one granule apart, and the largest gap between neighboring sizes is the granule. The smallest step is used
/// instead if it is smaller, or if there are too few sizes to form clusters. One tick is added for each rounded size,
/// so that the estimate is never below the granule. Returns one if the counter did not advance.
///
/// # Examples
///
/// ```
/// use hpt_core::stats::granule;
///
/// // Two sizes are too few for clusters: the smallest step, and one tick.
/// assert_eq!(granule(&mut vec![13, 0, 26, 13, 39]), 14);
/// assert_eq!(granule(&mut Vec::new()), 1);
/// ```
#[must_use]
pub fn granule(steps: &mut Vec<u64>) -> u64 {
    const FEWEST_SIZES: usize = 4;
    steps.retain(|&step| step > 0);
    steps.sort_unstable();
    // The largest quarter of the steps is attributed to interrupts and migrations. The sizes of these steps are far
    // apart, regardless of the granule.
    steps.truncate(steps.len() - steps.len() / 4);
    steps.dedup();
    let Some(&smallest) = steps.first() else {
        return 1;
    };
    if smallest <= 1 {
        return 1;
    }
    let largest_gap = steps.windows(2).map(|pair| pair[1] - pair[0]).max();
    match largest_gap {
        Some(gap) if steps.len() >= FEWEST_SIZES => (smallest + 1).min(gap + 2),
        _ => smallest + 1,
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{prop_assert, proptest},
    };

    use super::{Spread, Steps, granule, median};

    #[test]
    fn the_debug_output_of_a_distribution_is_short() {
        let third = 1e12 / 3.0;
        let spread = Spread {
            samples: 40,
            min_ns: 0.0,
            p50_ns: 9.48,
            p99_ns: 1_234.5,
            p999_ns: 2e6,
            max_ns: 3e9,
            mean_ns: third,
        };
        assert_eq!(
            format!("{spread:?}"),
            "Spread { samples: 40, min: 0.0ns, p50: 9.5ns, p99: 1.2µs, p999: 2.0ms, max: 3.0s, mean: 333.3s }"
        );
    }

    #[test]
    fn an_empty_sample_has_no_median_and_no_steps() {
        assert_eq!(median(&mut []), None);
        assert_eq!(Steps::default().smallest_ticks(), None);
    }

    #[test]
    fn a_counter_that_advances_by_13_has_a_granule_of_13() {
        let mut steps = Steps::default();
        for step in [0, 26, 39, 0, 65] {
            steps.record(step);
        }
        assert_eq!((steps.smallest_ticks(), steps.multiple_ticks(), steps.count()), (Some(26), Some(13), 3));
    }

    #[test]
    fn no_ticks_and_single_ticks_have_a_granule_of_one() {
        assert_eq!((granule(&mut vec![]), granule(&mut vec![0, 0]), granule(&mut vec![0, 1, 0, 1])), (1, 1, 1));
    }

    #[test]
    fn a_microsecond_clock_has_a_granule_of_one_microsecond() {
        assert_eq!(granule(&mut vec![0, 1000, 0, 0, 1000, 1000, 2000]), 1001);
    }

    proptest! {
        #[test]
        fn a_granule_is_never_underestimated(
            granule_thousandths in 1_000_u64..200_000,
            gaps in vec(20_u64..90, 8..400),
        ) {
            // A counter that returns ⌊k·g⌋, read at fixed intervals of true time.
            let shown = |now: u64| now * 1000 / granule_thousandths * granule_thousandths / 1000;
            let mut now = 0;
            let mut steps: Vec<u64> = gaps.iter().map(|gap| {
                let before = shown(now);
                now += gap;
                shown(now) - before
            }).collect();
            prop_assert!(granule(&mut steps) * 1000 >= granule_thousandths, "{granule_thousandths}");
        }

        #[test]
        fn the_median_has_half_on_each_side(mut samples in vec(0_u64..100, 1..200)) {
            let middle = median(&mut samples).expect("not empty");
            let below = samples.iter().filter(|&&sample| sample < middle).count();
            let above = samples.iter().filter(|&&sample| sample > middle).count();
            prop_assert!(below * 2 <= samples.len() && above * 2 <= samples.len());
        }
    }
}
