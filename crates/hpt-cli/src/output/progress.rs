//! A progress bar on standard error. It is shown only on a terminal and drawn only between timed regions.

use std::{
    fmt,
    io::{self, IsTerminal},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use console::{Term, measure_text_width};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use super::message::{self, is_quiet};

/// The duration of the shortest run that has a progress bar.
const SHORTEST_RUN: Duration = Duration::from_secs(1);
/// The number of steps of the bar. Even in a run of several days, each step takes less than a millisecond.
const STEPS: u64 = 1_000_000_000;
/// The frequency with which the bar is drawn, in hertz.
const DRAWN_HZ: u8 = 10;

/// Standard error, as a terminal that is a few columns narrower. indicatif leaves the cursor after the last column. The
/// `^C` that a terminal echoes therefore stays on the line of the bar, and is erased with it.
#[derive(Debug)]
struct ProgressScreen {
    terminal: Term,
    /// The column of the cursor. indicatif fills each line up to the width, and expects the next one to begin on the next
    /// row. As the terminal is wider than indicatif knows, it does not do so by itself.
    column: AtomicUsize,
}

impl ProgressScreen {
    fn new() -> Self {
        Self { terminal: Term::buffered_stderr(), column: AtomicUsize::new(0) }
    }
}

/// The number of columns that the bar leaves free.
const FREE_COLUMNS: u16 = 4;

impl TermLike for ProgressScreen {
    fn width(&self) -> u16 {
        self.terminal.size().1.saturating_sub(FREE_COLUMNS).max(1)
    }

    fn height(&self) -> u16 {
        self.terminal.size().0
    }

    fn move_cursor_up(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_up(lines)
    }

    fn move_cursor_down(&self, lines: usize) -> io::Result<()> {
        self.terminal.move_cursor_down(lines)
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_right(columns)
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        self.terminal.move_cursor_left(columns)
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.column.store(0, Ordering::Relaxed);
        self.terminal.write_line(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let mut column = self.column.load(Ordering::Relaxed);
        if text == "\r" {
            column = 0;
        } else if !text.is_empty() {
            if column >= usize::from(self.width()) {
                self.terminal.write_str("\r\n")?;
                column = 0;
            }
            column += measure_text_width(text);
        }
        self.column.store(column, Ordering::Relaxed);
        self.terminal.write_str(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.column.store(0, Ordering::Relaxed);
        self.terminal.clear_line()
    }

    fn flush(&self) -> io::Result<()> {
        self.terminal.flush()
    }
}

/// Formats a remaining time in whole seconds, minutes, hours or days.
fn rough(left: Duration) -> String {
    let seconds = (left.as_millis() + 500) / 1_000;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", (seconds + 30) / 60),
        6_000..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} d", (seconds + 43_200) / 86_400),
    }
}

/// Creates a bar for a run with the expected duration `expected`. The template can contain `{left}` and `{done}`.
fn bar(expected: Duration, template: &str) -> ProgressBar {
    let visible = message::can_draw(io::stderr().is_terminal()) && !is_quiet() && expected >= SHORTEST_RUN;
    let target = if visible {
        ProgressDrawTarget::term_like_with_hz(Box::new(ProgressScreen::new()), DRAWN_HZ)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(STEPS), target).with_style(style(expected, template));
    message::write_above(visible.then(|| bar.clone()));
    bar
}

/// Returns the style of a bar for a run with the expected duration `expected`.
fn style(expected: Duration, template: &str) -> ProgressStyle {
    let time_left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let left = left(expected, state.elapsed(), state.fraction().into());
        let _ = out.write_str(&rough(left));
    };
    let decimals = decimals(expected);
    let done = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{:.decimals$}", state.fraction() * 100.0);
    };
    let style = ProgressStyle::with_template(template).expect("the templates are constants");
    style.with_key("left", time_left).with_key("done", done)
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

/// The share of a whole that a part takes: from `begin` to `begin + length`, which are fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Share {
    begin: f64,
    length: f64,
}

/// The bar of a whole, and the share of the part that is being measured.
static WHOLE: Mutex<Option<(ProgressBar, Share)>> = Mutex::new(None);

/// The progress of a measurement that consists of several measurements. While it exists, the bars of the parts move
/// this bar instead.
#[derive(Debug)]
pub(crate) struct WholeProgress {
    bar: ProgressBar,
    parts: Vec<(String, Share)>,
}

impl WholeProgress {
    /// Creates a bar for parts with these names and expected durations.
    pub(crate) fn new(parts: &[(&str, Duration)]) -> Self {
        let expected: Duration = parts.iter().map(|(_, expected)| *expected).sum();
        let (mut begin, count) = (0.0, parts.len());
        let share = |(number, (name, expected_part)): (usize, &(&str, Duration))| {
            let length = expected_part.as_secs_f64() / expected.as_secs_f64().max(1e-9);
            begin += length;
            (format!("{number} of {count}: {name}"), Share { begin: begin - length, length })
        };
        let parts = (1..).zip(parts).map(share).collect();
        Self { bar: bar(expected, "{msg:19} {wide_bar} {done:>3} %, about {left} left"), parts }
    }

    /// Shows that this part begins.
    pub(crate) fn begin(&self, part: usize) {
        let (name, share) = &self.parts[part];
        *WHOLE.lock().unwrap_or_else(PoisonError::into_inner) = Some((self.bar.clone(), *share));
        self.bar.set_message(name.clone());
        self.bar.set_position(position(share.begin));
        self.bar.tick();
    }
}

impl Drop for WholeProgress {
    fn drop(&mut self) {
        *WHOLE.lock().unwrap_or_else(PoisonError::into_inner) = None;
        message::write_above(None);
        self.bar.finish_and_clear();
    }
}

/// Returns the position of the bar at a fraction from 0 to 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to the range from 0 to 1, and there are fewer than 2^53 steps"
)]
fn position(done: f64) -> u64 {
    (done.clamp(0.0, 1.0) * STEPS as f64) as u64
}

/// The bar of a measurement.
const ALONE: &str = "{msg:17} {wide_bar} {done:>3} % {left:>6}";
/// The bar of a measurement below lines of text.
const BELOW_LINES: &str = "{prefix}\n{msg:17} {wide_bar} {done:>3} % {left:>6}";

/// A progress bar that may be invisible.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    steps: u64,
    expected: Duration,
    /// Whether there are lines of text above the bar.
    has_lines: AtomicBool,
    /// The share of the bar, if the bar is that of a whole.
    share: Option<Share>,
}

impl Progress {
    /// Creates a bar of `steps` steps for a run with the expected duration `expected`.
    pub(crate) fn new(steps: u64, expected: Duration) -> Self {
        if let Some((bar, share)) = WHOLE.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Self { bar, steps, expected, has_lines: AtomicBool::new(false), share: Some(share) };
        }
        Self { bar: bar(expected, ALONE), steps, expected, has_lines: AtomicBool::new(false), share: None }
    }

    /// Shows what is being measured. The bar of a whole shows the name of the part instead.
    pub(crate) fn name(&self, name: &str) {
        if self.share.is_none() {
            self.bar.set_message(name.to_owned());
        }
    }

    /// Returns whether lines can be shown above the bar.
    pub(crate) fn is_visible(&self) -> bool {
        self.share.is_none() && !self.bar.is_hidden()
    }

    /// Returns the number of columns and of lines that are available above the bar.
    pub(crate) fn room(&self) -> (usize, usize) {
        let screen = ProgressScreen::new();
        // The bar has a line, and so has the shell's prompt above it.
        (screen.width().into(), usize::from(screen.height().saturating_sub(2)).max(1))
    }

    /// Shows these lines above the bar, instead of earlier ones.
    pub(crate) fn show_lines(&self, lines: &[String]) {
        if !self.is_visible() || lines.is_empty() {
            return;
        }
        if !self.has_lines.swap(true, Ordering::Relaxed) {
            self.bar.set_style(style(self.expected, BELOW_LINES));
        }
        self.bar.set_prefix(lines.join("\n"));
    }

    /// Shows the progress of the run, from 0 to 1.
    pub(crate) fn at_fraction(&self, done: f64) {
        let share = self.share.unwrap_or(Share { begin: 0.0, length: 1.0 });
        self.bar.set_position(position(share.begin + done.clamp(0.0, 1.0) * share.length));
    }

    /// Shows the number of completed steps.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    pub(crate) fn at(&self, step: u64) {
        self.at_fraction(step as f64 / self.steps.max(1) as f64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.share.is_none() {
            message::write_above(None);
            self.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{WholeProgress, decimals, left, rough};

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

    #[test]
    fn a_remaining_time_has_about_two_digits() {
        let shown = [0, 1, 99, 100, 5_999, 6_000, 64_800, 172_799, 172_800].map(|s| rough(Duration::from_secs(s)));
        assert_eq!(shown, ["0 s", "1 s", "99 s", "2 min", "100 min", "2 h", "18 h", "48 h", "2 d"]);
        assert_eq!(rough(Duration::from_millis(1_500)), "2 s");
    }

    #[test]
    fn parts_take_shares_of_the_whole() {
        let seconds = Duration::from_secs;
        let whole = WholeProgress::new(&[("a", seconds(10)), ("b", seconds(30))]);
        let shares: Vec<_> =
            whole.parts.iter().map(|(name, share)| (name.as_str(), share.begin, share.length)).collect();
        assert_eq!(shares, [("1 of 2: a", 0.0, 0.25), ("2 of 2: b", 0.25, 0.75)]);
    }
}
