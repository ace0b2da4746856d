//! A progress bar on standard error. It is shown only on a terminal and drawn only between timed regions.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
    time::Duration,
};

use console::Term;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use super::message::is_quiet;

/// The duration of the shortest run that has a progress bar.
const SHORTEST_RUN: Duration = Duration::from_secs(1);
/// The number of steps of the bar. Even in a run of several days, each step takes less than a millisecond.
const STEPS: u64 = 1_000_000_000;
/// The frequency with which the bar is drawn, in hertz.
const DRAWN_HZ: u8 = 10;

/// Standard error, as a terminal that is a few columns narrower. indicatif leaves the cursor after the last column. The
/// `^C` that a terminal echoes therefore stays on the line of the bar, and is erased with it.
#[derive(Debug)]
struct Screen(Term);

/// The number of columns that the bar leaves free.
const FREE_COLUMNS: u16 = 4;

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.0.size().1.saturating_sub(FREE_COLUMNS).max(1)
    }

    fn height(&self) -> u16 {
        self.0.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.0.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.0.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.0.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.0.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reports on a terminal which of several measurements has started.
pub(crate) fn say_on_a_terminal(text: &str) {
    let mut err = io::stderr();
    if err.is_terminal() && !is_quiet() {
        let _ = writeln!(err, "hpt: {text}");
    }
}

/// Returns the number of decimal places with which the percentage changes about once per second, so that
/// even a run of several hours shows progress.
fn decimals(expected: Duration) -> usize {
    match expected.as_secs() {
        0..100 => 0,
        100..1_000 => 1,
        1_000..10_000 => 2,
        _ => 3,
    }
}

/// Estimates the remaining time. The estimate is based at first on the expected duration, and then increasingly on the
/// progress. indicatif's own estimate is based on completed steps and is therefore not available before the first step.
fn left(expected: Duration, elapsed: Duration, done: f64) -> Duration {
    let rest = 1.0 - done.clamp(0.0, 1.0);
    (expected.mul_f64(rest) + elapsed).mul_f64(rest)
}

/// A progress bar that may be invisible.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    steps: u64,
}

impl Progress {
    /// Creates a bar of `steps` steps for a run with the expected duration `expected`.
    pub(crate) fn new(steps: u64, expected: Duration) -> Self {
        let visible = io::stderr().is_terminal() && !is_quiet() && expected >= SHORTEST_RUN;
        let target = if visible {
            ProgressDrawTarget::term_like_with_hz(Box::new(Screen(Term::buffered_stderr())), DRAWN_HZ)
        } else {
            ProgressDrawTarget::hidden()
        };
        let time_left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let left = left(expected, state.elapsed(), state.fraction().into());
            let _ = write!(out, "{:#}", HumanDuration(left));
        };
        let decimals = decimals(expected);
        let done = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{:.decimals$}", state.fraction() * 100.0);
        };
        let style = ProgressStyle::with_template("{msg:17} {wide_bar} {done:>3} % {left:>4}");
        let style = style.expect("the template is a constant").with_key("left", time_left).with_key("done", done);
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        Self { bar: bar.with_style(style), steps }
    }

    /// Shows what is being measured.
    pub(crate) fn name(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// Shows the progress of the run, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the range from 0 to 1, and there are fewer than 2^53 steps"
    )]
    pub(crate) fn at_fraction(&self, done: f64) {
        self.bar.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Shows the number of completed steps.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(crate) fn at(&self, step: u64) {
        self.at_fraction(step as f64 / self.steps.max(1) as f64);
    }

    /// Runs a function that writes to standard error, and keeps its output above the bar.
    pub(crate) fn aside(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{decimals, left};

    #[test]
    fn a_percentage_moves_about_once_a_second() {
        for (expected_s, expected) in [(1, 0), (99, 0), (100, 1), (999, 1), (1_000, 2), (3_600, 2), (64_800, 3)] {
            assert_eq!(decimals(Duration::from_secs(expected_s)), expected, "{expected_s} s");
        }
    }

    #[test]
    fn the_remaining_time_starts_with_the_estimate_and_follows_the_progress() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        assert_eq!(left(hours(18), Duration::ZERO, 0.0), hours(18));
        // As fast as expected.
        assert_eq!(left(hours(18), hours(9), 0.5), hours(9));
        // Twice as slow.
        assert!(left(hours(18), hours(18), 0.5) > hours(9) && left(hours(18), hours(18), 0.5) < hours(18));
        assert_eq!([1.0, 1.5].map(|done| left(hours(18), hours(20), done)), [Duration::ZERO; 2]);
    }
}
