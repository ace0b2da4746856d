//! The options of `hpt doctor --try`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    measurements::Request,
    sampling::{limits::quantity::Quantity, run_length::long},
};

const TRY: &str = "Try fixes";

/// The options of `--try`.
#[derive(Debug, Args)]
pub(crate) struct TrialOptions {
    /// Try fixes: apply, measure, and undo each
    ///
    /// Applies each fix that can be undone at run time, and undoes it, in alternating rounds of a measurement. A fix
    /// counts as helpful only if its effect exceeds the spread between rounds. Helpful fixes are then tried on top of
    /// each other, the best one first. At the end, everything is undone, unless --keep is given. Requires root, and asks
    /// first. Without --for, the goal is realtime.
    #[arg(long = "try", conflicts_with_all = ["measure", "host", "fail_on"])]
    pub(crate) tries: bool,
    /// Measurement, as a command line of hpt [default: depends on --for]
    ///
    /// For example 'latency timer -c 3 --fifo 80 --load cpu'. Any measurement with --limit is possible. If it has
    /// neither --duration nor --count, hpt chooses its duration. The default is latency timer with --fifo 80 for
    /// realtime, latency poll for benchmarks, and latency timer otherwise. If only the rules throttling and fair-server
    /// are tried, it is latency poll with --fifo 80, because these rules affect only a thread that never blocks.
    #[arg(long, value_name = "LINE", requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) with: Option<String>,
    /// Figure to compare: p50 to p99.999999, mean, max or read
    #[arg(long, value_name = "FIGURE", default_value = "p99", value_parser = figure, requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) figure: TrialFigure,
    /// Time limit of the whole run
    #[arg(short, long, value_name = "TIME", default_value = "3m", value_parser = long, requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) duration: Duration,
    /// Keep what helped until reboot
    ///
    /// hpt restore undoes it.
    #[arg(long, requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) keep: bool,
    /// Write what helped as configuration files to DIR
    ///
    /// hpt writes a file for sysctl.d, a systemd unit, a profile for tuned, and boot parameters. Each states the
    /// measured effect. hpt installs none of them.
    #[arg(long, value_name = "DIR", requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) output: Option<PathBuf>,
    /// Replace files in DIR
    #[arg(long, requires = "output", help_heading = TRY, hide_short_help = true)]
    pub(super) force: bool,
    /// Do not ask for confirmation
    #[arg(short, long, requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) yes: bool,
    /// Directory of the journal of changed settings [default: /run/hpt]
    #[arg(long, value_name = "DIR", requires = "tries", help_heading = TRY, hide_short_help = true)]
    pub(super) journal: Option<PathBuf>,
}

impl TrialOptions {
    /// Returns the CPU that `--with` names.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.with.as_deref().and_then(|line| Request::read_line(line).ok()).and_then(|mut request| request.cpu().0)
    }
}

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialFigure(pub(super) Quantity);

impl TrialFigure {
    pub(super) fn name(self) -> String {
        self.0.name()
    }

    /// Returns the number of samples that the figure takes.
    pub(super) const fn least_samples(self) -> u64 {
        match self.0 {
            Quantity::Quantile(quantile) => quantile.least_samples(),
            _ => 1,
        }
    }
}

/// Parses a figure. Each is a quantity that can have a limit, but not a count.
fn figure(text: &str) -> Result<TrialFigure, String> {
    let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_count());
    quantity.map(TrialFigure).ok_or_else(|| "expected p50 to p99.999999, mean, max or read".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::{TrialOptions, figure};

    pub(in super::super) fn options(with: Option<&str>) -> TrialOptions {
        TrialOptions {
            tries: true,
            with: with.map(str::to_owned),
            figure: figure("p99").expect("a figure"),
            duration: Duration::from_secs(180),
            keep: false,
            output: None,
            force: false,
            yes: false,
            journal: None,
        }
    }

    #[test]
    fn a_figure_is_a_time() {
        assert_eq!(figure("p99").map(super::TrialFigure::least_samples), Ok(1_000));
        assert_eq!(figure("max").map(super::TrialFigure::least_samples), Ok(1));
        for wrong in ["missed", "stalls", "p100", "p99=1us", "", "worst"] {
            assert!(figure(wrong).is_err(), "{wrong}");
        }
    }
}
