//! Axes of charts: their range, ticks and tick labels.

/// The powers of ten that a scale of times or other figures can show. Values outside this range are drawn at the ends of
/// the scale.
const POWERS: (f64, f64) = (-3.0, 15.0);
/// The powers of ten that a scale of shares can show: down to one sample of as many as a run can have.
const SHARES: (f64, f64) = (-18.0, 0.0);
/// The start of a scale of counts, as a power of ten. A single sample is therefore visible above the start.
const BELOW_ONE: f64 = -0.4;

/// An axis. The position of a value on the axis is the number itself, its logarithm, or the index of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The quantity and its unit.
    pub(super) title: String,
    pub(super) low: f64,
    pub(super) high: f64,
    /// The position and the label of each tick.
    pub(super) ticks: Vec<(f64, String)>,
    kind: AxisKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AxisKind {
    Linear,
    Log,
    Names,
}

impl Axis {
    /// Creates a logarithmic axis from the power of ten below the smallest value to the power of ten above the
    /// largest value. Ignores values that are not positive.
    pub(super) fn log(title: &str, values: impl IntoIterator<Item = f64>, text: impl Fn(f64) -> String) -> Self {
        Self::between(POWERS, title, values, text)
    }

    /// Creates a logarithmic axis of shares, from the power of ten below the smallest share.
    pub(super) fn shares(title: &str, values: impl IntoIterator<Item = f64>, text: impl Fn(f64) -> String) -> Self {
        Self::between(SHARES, title, values, text)
    }

    /// Creates a logarithmic axis of counts. It begins below 1, so that a single sample is visible, and leaves
    /// room above the largest count for labels.
    pub(super) fn counts(title: &str, most: f64, text: impl Fn(f64) -> String) -> Self {
        let most = if most.is_finite() && most > 1.0 { most.log10().min(POWERS.1) } else { 0.0 };
        let every = if most > 5.0 { 2.0 } else { 1.0 };
        let ticks = steps(0.0, most, every).map(|power| (power, text(10_f64.powf(power)))).collect();
        let high = most + 0.3 * (most - BELOW_ONE);
        Self { title: title.to_owned(), low: BELOW_ONE, high, ticks, kind: AxisKind::Log }
    }

    fn between(
        ends: (f64, f64),
        title: &str,
        values: impl IntoIterator<Item = f64>,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let powers = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let powers = powers.map(|value| value.log10().clamp(ends.0, ends.1));
        let (least, most) = powers.fold((ends.1, ends.0), |(least, most), power| (least.min(power), most.max(power)));
        let (low, high) = if least > most { (0.0, 1.0) } else { (least.floor(), most.ceil()) };
        let high = if high > low { high } else { low + 1.0 };
        let every = if high - low > 9.0 { 2.0 } else { 1.0 };
        let ticks = steps(low, high, every).map(|power| (power, text(10_f64.powf(power)))).collect();
        Self { title: title.to_owned(), low, high, ticks, kind: AxisKind::Log }
    }

    /// Creates a linear axis with round ticks. The axis includes all values, and zero if `from_zero` is true.
    pub(super) fn linear(
        title: &str,
        values: impl IntoIterator<Item = f64>,
        from_zero: bool,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let begin = if from_zero { (0.0, 0.0) } else { (f64::MAX, f64::MIN) };
        let sound = values.into_iter().filter(|value| value.abs() < 1e18);
        let (least, most) = sound.fold(begin, |(least, most): (f64, f64), value| (least.min(value), most.max(value)));
        let (least, most) = if least > most { (0.0, 1.0) } else { (least, most) };
        // The step of a shorter run would be zero.
        let run_length = if most - least > 1e-300 { most - least } else { least.abs().max(1.0) };
        let step = round_step(run_length / 5.0);
        let (low, high) = ((least / step).floor() * step, (most / step).ceil() * step);
        let high = if high > low { high } else { low + step };
        let ticks = steps(low, high, step).map(|value| (value, text(value))).collect();
        Self { title: title.to_owned(), low, high, ticks, kind: AxisKind::Linear }
    }

    /// Creates a time axis from zero to exactly the end of a run.
    pub(super) fn run(title: &str, seconds: impl IntoIterator<Item = f64>) -> Self {
        let text = |s: f64| format!("{s:.4}").trim_end_matches('0').trim_end_matches('.').to_owned();
        let seconds: Vec<f64> = seconds.into_iter().filter(|s| s.abs() < 1e18).collect();
        let last = seconds.iter().copied().fold(0.0, f64::max);
        let mut axis = Self::linear(title, seconds, true, text);
        if last > 0.0 {
            axis.high = last;
            axis.ticks.retain(|tick| tick.0 <= last);
        }
        axis
    }

    /// Creates an axis with a position for each name, the first one on top.
    #[expect(clippy::cast_precision_loss, reason = "a page has few lines and therefore few names")]
    pub(super) fn names(names: Vec<String>) -> Self {
        let high = names.len().max(1) as f64;
        let ticks = (0_u32..).zip(names).map(|(place, name)| (high - f64::from(place) - 0.5, name)).collect();
        Self { title: String::new(), low: 0.0, high, ticks, kind: AxisKind::Names }
    }

    /// Returns the position of a number, or of the name with this index.
    pub(super) fn at(&self, value: f64) -> f64 {
        let position = match self.kind {
            AxisKind::Linear => value,
            AxisKind::Log if value > 0.0 => value.log10(),
            AxisKind::Log => self.low,
            AxisKind::Names => self.high - value - 0.5,
        };
        if position.is_nan() { self.low } else { position.clamp(self.low, self.high) }
    }

    pub(super) fn is_of_names(&self) -> bool {
        self.kind == AxisKind::Names
    }
}

/// Returns the smallest number that is 1, 2 or 5 times a power of ten and at least `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0];
    factors.into_iter().map(|factor| factor * power).find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

fn steps(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    (0_u32..64).map(move |number| low + f64::from(number) * step).take_while(move |value| *value <= high + step * 1e-6)
}

/// Formats a time as a tick label, for example `1 µs`.
pub(super) fn time(ns: f64) -> String {
    crate::output::human::short_time(ns)
}

#[cfg(test)]
mod tests {
    use super::{Axis, time};

    #[test]
    fn powers_of_ten_cover_every_value_and_have_names() {
        let axis = Axis::log("late", [150.0, 2e6], time);
        let names: Vec<_> = axis.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(names, ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]);
        assert_eq!((axis.low, axis.high, axis.at(1e3), axis.ticks[1].0), (2.0, 7.0, 3.0, 3.0));
    }

    #[test]
    fn an_axis_of_shares_reaches_one_sample_of_any_run() {
        for samples in [1e4, 1e8, 1e12] {
            let axis = Axis::shares("share", [1.0 / samples, 1.0], |share| share.to_string());
            assert!((axis.low + samples.log10()).abs() < 1e-9, "{samples}: {axis:?}");
            assert!(axis.at(1.0 / samples) < axis.at(2.0 / samples), "{samples}: {axis:?}");
            assert!(axis.ticks.len() < 10, "{samples}: {axis:?}");
        }
    }

    #[test]
    fn one_sample_is_above_the_start_of_an_axis_of_counts() {
        for most in [0.0, 1.0, 7.0, 1e8, f64::NAN, f64::INFINITY] {
            let axis = Axis::counts("samples", most, |count| count.to_string());
            assert!(axis.at(1.0) > axis.low && axis.high > axis.low && axis.high.is_finite(), "{most}: {axis:?}");
            assert_eq!(axis.ticks.first(), Some(&(0.0, "1".to_owned())));
            assert!(axis.ticks.len() < 10, "{most}: {axis:?}");
        }
        let axis = Axis::counts("samples", 1e8, |count| count.to_string());
        assert!(axis.at(1e8) < axis.high && axis.at(1.0) < axis.at(2.0));
    }

    #[test]
    fn round_steps_cover_every_value() {
        let axis = Axis::linear("offset", [-130.0, 410.0], false, |value| value.to_string());
        assert!(axis.low <= -130.0 && axis.high >= 410.0, "{axis:?}");
        assert_eq!(axis.ticks.iter().map(|tick| tick.0).collect::<Vec<_>>(), [-200.0, 0.0, 200.0, 400.0, 600.0]);
    }

    #[test]
    fn values_that_are_not_finite_do_not_break_a_scale() {
        for values in [
            vec![],
            vec![f64::NAN, f64::INFINITY],
            vec![0.0],
            vec![5.0, 5.0],
            vec![1e300, 1e-300],
            vec![-1e300],
            vec![0.0, 5e-324],
        ] {
            for axis in [
                Axis::log("", values.clone(), time),
                Axis::linear("", values.clone(), false, time),
                Axis::linear("", values.clone(), true, time),
            ] {
                assert!(axis.low < axis.high && axis.low.is_finite() && axis.high.is_finite(), "{values:?}: {axis:?}");
                assert!(axis.ticks.len() < 30, "{values:?}: {axis:?}");
                for value in [f64::NAN, -1.0, 0.0, 1e300] {
                    assert!((axis.low..=axis.high).contains(&axis.at(value)), "{values:?}: {value} on {axis:?}");
                }
            }
        }
    }

    #[test]
    fn the_first_name_is_on_top() {
        let axis = Axis::names(vec!["one".to_owned(), "two".to_owned()]);
        assert!(axis.at(0.0) > axis.at(1.0));
        assert_eq!(axis.ticks.iter().find(|tick| tick.1 == "two").map(|tick| tick.0), Some(axis.at(1.0)));
    }
}
