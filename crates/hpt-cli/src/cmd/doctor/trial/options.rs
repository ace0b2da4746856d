//! The options of `hpt doctor --try`, and the command line of its measurement.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use hpt_instrument::diagnose::Goal;

use crate::sampling::{
    limits::quantity::{Accepted, Limit, Quantity},
    run_length::long,
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
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.with.as_deref().and_then(|line| Line::of(line).cpu())
    }
}

/// The figure that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrialFigure {
    pub(super) name: String,
    /// The number of samples that the figure takes.
    pub(super) least_samples: u64,
}

/// Parses a figure. Each is a quantity that can have a limit, but not a count.
fn figure(text: &str) -> Result<TrialFigure, String> {
    let expected = || "expected p50 to p99.999999, mean, max or read".to_owned();
    let limit = [Accepted::LATENCY, Accepted::BENCH]
        .into_iter()
        .find_map(|accepted| Limit::parse(&limit_of(text), accepted).ok());
    let quantity = limit.ok_or_else(expected)?.quantity;
    let least_samples = match quantity {
        Quantity::Quantile(quantile) => quantile.least_samples(),
        Quantity::Mean | Quantity::Max | Quantity::Read => 1,
        Quantity::Missed | Quantity::Stalls => return Err(expected()),
    };
    Ok(TrialFigure { name: text.to_owned(), least_samples })
}

/// Returns a limit that every value of the figure holds.
pub(super) fn limit_of(figure: &str) -> String {
    format!("{figure}=1h")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line(Vec<String>);

impl Line {
    /// Splits the command line in `--with`, which may begin with `hpt`.
    pub(super) fn of(text: &str) -> Self {
        let words = text.split_whitespace().map(str::to_owned);
        Self(words.skip_while(|word| word == "hpt").collect())
    }

    /// The measurement that shows the effect of throttling and of the fair server, which pause only a real-time thread
    /// that never blocks. hpt measures a second at a time, and the other CPUs stay free.
    pub(super) fn spinning(cpu: usize) -> Self {
        Self::of(&format!("latency poll --cpu {cpu} --fifo 80 --accept-throttling --interval 500us"))
    }

    /// Returns whether the line measures a real-time thread that never blocks, without accepting that the kernel
    /// throttles it. hpt refuses such a measurement while throttling is on.
    pub(super) fn is_refused_while_throttled(&self) -> bool {
        let has = |words: &[&str]| self.0.iter().any(|word| words.contains(&word.split('=').next().unwrap_or(word)));
        let is_realtime = has(&["--fifo", "--rr"])
            || self.value("-P", "--policy").is_some_and(|policy| policy.starts_with(['f', 'r']));
        has(&["poll", "stall"]) && is_realtime && !has(&["--accept-throttling"])
    }

    /// The usual measurement for a goal.
    pub(super) fn usual(goal: Goal, cpu: usize) -> Self {
        Self::of(&match goal {
            Goal::Realtime => format!("latency timer --cpu {cpu} --fifo 80 --interval 500us"),
            Goal::Benchmarks => format!("latency poll --cpu {cpu} --interval 500us"),
            Goal::General | Goal::Timekeeping => format!("latency timer --cpu {cpu} --interval 500us"),
        })
    }

    /// Returns the CPU that is measured, if the line names exactly one.
    pub(super) fn cpu(&self) -> Option<usize> {
        self.value("-c", "--cpu")?.parse().ok()
    }

    pub(super) fn names_cpus(&self) -> bool {
        self.value("-c", "--cpu").is_some()
    }

    /// Returns whether the line determines how long the measurement takes.
    pub(super) fn has_length(&self) -> bool {
        self.value("-d", "--duration").is_some() || self.value("-n", "--count").is_some()
    }

    /// Returns the option of the line that changes a setting of the system, if there is one.
    pub(super) fn option_that_changes_settings(&self) -> Option<&'static str> {
        let options = ["--no-throttling", "--no-turbo", "--governor"];
        options.into_iter().find(|option| self.0.iter().any(|word| word.split('=').next() == Some(option)))
    }

    /// Returns whether the measurement has an idle and a loaded phase.
    pub(super) fn has_load(&self) -> bool {
        self.value("--load", "--load").is_some()
    }

    /// Returns the line with more words.
    pub(super) fn and(&self, more: &[&str]) -> Self {
        Self(self.0.iter().cloned().chain(more.iter().map(|&word| word.to_owned())).collect())
    }

    /// Returns the words, with `hpt` as the first one.
    pub(super) fn words(&self) -> Vec<String> {
        ["hpt".to_owned()].into_iter().chain(self.0.iter().cloned()).collect()
    }

    fn value(&self, short: &str, long: &str) -> Option<&str> {
        self.0.iter().enumerate().find_map(|(place, word)| {
            if word == short || word == long {
                return self.0.get(place + 1).map(String::as_str);
            }
            let joined = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
            let is_short = short.len() == 2 && !word.starts_with("--");
            joined.or_else(|| word.strip_prefix(short).filter(|_| is_short).map(|rest| rest.trim_start_matches('=')))
        })
    }
}

#[cfg(test)]
mod tests {
    use hpt_instrument::diagnose::Goal;

    use super::{Line, figure};

    #[test]
    fn the_options_of_a_measurement_are_found() {
        for line in
            ["latency timer -c 3", "hpt latency timer --cpu 3", "latency timer --cpu=3 -d1s", "latency timer -c3"]
        {
            assert_eq!(Line::of(line).cpu(), Some(3), "{line}");
        }
        assert_eq!(Line::of("latency timer -c 0,2").cpu(), None);
        assert!(Line::of("latency timer -c all").names_cpus() && !Line::of("latency timer").names_cpus());
        for line in ["latency timer -d 1s", "latency timer --duration=1s", "latency timer -n1000", "bench --count 5"] {
            assert!(Line::of(line).has_length(), "{line}");
        }
        assert!(!Line::of("latency timer --load cpu").has_length() && Line::of("latency timer --load cpu").has_load());
        let line = Line::usual(Goal::Realtime, 3).and(&["--duration", "1s"]);
        assert!(line.has_length() && line.cpu() == Some(3));
        assert_eq!(line.words()[..3], ["hpt", "latency", "timer"]);
    }

    #[test]
    fn a_real_time_thread_that_never_blocks_has_to_accept_throttling() {
        let of = |line: &str| Line::of(line).is_refused_while_throttled();
        assert!(of("latency poll --fifo 80") && of("latency stall -P f:80 -c 1") && of("latency poll --rr=3"));
        assert!(!of("latency poll") && !of("latency timer --fifo 80") && !of("latency poll -P o"));
        assert!(!of("latency poll --fifo 80 --accept-throttling") && !Line::spinning(1).is_refused_while_throttled());
    }

    #[test]
    fn an_option_that_changes_settings_is_found() {
        let of = |line: &str| Line::of(line).option_that_changes_settings();
        assert_eq!(of("latency timer --fifo 80 --no-throttling"), Some("--no-throttling"));
        assert_eq!(of("latency poll --governor=performance"), Some("--governor"));
        assert_eq!(of("latency timer --dma-latency 0 --fifo 80"), None);
    }

    #[test]
    fn a_figure_is_a_time() {
        assert_eq!(figure("p99").map(|figure| figure.least_samples), Ok(1_000));
        assert_eq!(figure("max").map(|figure| figure.least_samples), Ok(1));
        for wrong in ["missed", "stalls", "p100", "p99=1us", "", "worst"] {
            assert!(figure(wrong).is_err(), "{wrong}");
        }
    }
}
