//! A progress bar on standard error, on a terminal only, drawn between timed regions.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A run that ends sooner has no bar.
const SHORTEST_RUN: Duration = Duration::from_secs(1);

/// A bar that may be invisible.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of `steps` steps, for a run expected to take `expected`.
    pub(crate) fn new(steps: u64, expected: Duration) -> Self {
        let visible = std::io::stderr().is_terminal() && expected >= SHORTEST_RUN;
        let target = if visible { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{msg:17} {wide_bar} {percent:>3} % {eta:>4}");
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        Self { bar: bar.with_style(style.expect("the template is a constant")) }
    }

    /// Says what is being measured.
    pub(crate) fn name(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// Says how far the run is, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0 to 1, of a thousand steps"
    )]
    pub(crate) fn at_fraction(&self, done: f64) {
        let steps = self.bar.length().unwrap_or(0).min(1 << 32);
        self.bar.set_position((done.clamp(0.0, 1.0) * f64::from(steps as u32)) as u64);
    }

    /// Says how many steps are done.
    pub(crate) fn at(&self, step: u64) {
        self.bar.set_position(step);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
