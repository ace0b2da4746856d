//! The command line: the subcommands and the options of all of them. Parsing does nothing else.
//! Only `main` names this file: each subcommand defines its own arguments.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::{
    arguments::{Printed, after_help},
    cmd,
    output::{self, chart_option::ChartFile},
};

const EXAMPLES: &str = "  \
  hpt probe                       list every time source of this machine
  hpt calibrate --source tsc      say how fast the TSC ticks, with a bound
  hpt bench --format json         what a read of each costs, for programs
  hpt sleep --duration 1ms        how late sleeps of a millisecond return
  hpt latency pairs --every 1s    what two reads differ by, once a second
  hpt doctor --cpu 3              what is in the way of low latency on CPU 3
  hpt report                      all of it on a page, in a minute and a half
  hpt clocksource                 what the kernel tells the time by";

/// Time sources of a Linux machine: which there are, how fast they tick, what a read costs; how late
/// it wakes who sleeps, and how long it takes until a program knows.
#[derive(Debug, Parser)]
#[command(name = "hpt", version, max_term_width = 80, after_help = after_help(EXAMPLES))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) printed: Printed,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Probe(cmd::probe::Arguments),
    Calibrate(cmd::calibrate::Arguments),
    Bench(cmd::bench::Arguments),
    Sleep(cmd::sleep::Arguments),
    Latency(cmd::latency::Arguments),
    Experiment(cmd::experiment::Arguments),
    Doctor(cmd::doctor::Arguments),
    Report(cmd::report::Arguments),
    Capture(cmd::capture::Arguments),
    Clocksource(cmd::clocksource::Arguments),
    Watch(cmd::watch::Arguments),
    Restore(cmd::restore::Arguments),
    Completions(cmd::completions::Arguments),
    Manual(cmd::manual::Arguments),
    Run(cmd::run::Arguments),
}

/// Whether the arguments are for `hpt run`, whose wrong usage must not look like the program's own exit code.
pub(crate) fn is_for_run(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if argument == "--format" || argument == "--textfile" {
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            return argument == "run";
        }
    }
    false
}

impl Command {
    /// Whether its last document has figures for a fleet.
    pub(crate) fn has_metrics(&self) -> bool {
        let kind = match self {
            Self::Probe(_) => "probe",
            Self::Doctor(_) => "doctor",
            Self::Latency(arguments) => arguments.kind(),
            Self::Calibrate(_) => "calibrate",
            Self::Watch(_) => "watch-summary",
            _ => return false,
        };
        output::has_metrics(kind)
    }

    /// Where a picture of its result is to be.
    pub(crate) fn picture(&self) -> Option<ChartFile<'_>> {
        match self {
            Self::Bench(arguments) => arguments.picture.file(),
            Self::Sleep(arguments) => arguments.picture.file(),
            Self::Watch(arguments) => arguments.picture.file(),
            Self::Latency(arguments) => arguments.picture(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{CommandFactory, Parser, ValueEnum};

    use super::{Cli, is_for_run};
    use crate::{arguments::CpuChoice, cmd::report::PLANS, output::Format};

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn formats_are_read_before_and_behind_each_command() {
        let of = |line: &str| Cli::try_parse_from(line.split(' ')).expect(line).printed;
        for command in ["probe", "experiment", "run true"] {
            for format in ["human", "json", "csv", "openmetrics"] {
                let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
                let behind = format!("hpt {name} --format {format} --textfile x.prom {rest}");
                let before = format!("hpt --format {format} --textfile x.prom {command}");
                for line in [behind.trim_end(), before.as_str()] {
                    let printed = of(line);
                    assert_eq!(printed.format, Format::from_str(format, false).expect("one of them"), "{line}");
                    assert_eq!(printed.textfile.as_deref(), Some(Path::new("x.prom")), "{line}");
                }
            }
            let printed = of(&format!("hpt {command}"));
            assert_eq!((printed.format, printed.textfile), (Format::Human, None));
        }
    }

    #[test]
    fn the_help_offers_metrics_where_there_are_some() {
        let mut hpt = Cli::command();
        hpt.build();
        let help = |words: &str| {
            let find = |command: &clap::Command, word| command.find_subcommand(word).expect(word).clone();
            words.split(' ').fold(hpt.clone(), |command, word| find(&command, word)).render_long_help().to_string()
        };
        for words in
            ["probe", "calibrate", "watch", "doctor", "latency timer", "latency poll", "latency stall", "latency gpio"]
        {
            assert!(help(words).contains("openmetrics") && help(words).contains("--textfile"), "{words}");
        }
        for words in [
            "bench",
            "sleep",
            "report",
            "capture",
            "restore",
            "clocksource",
            "clocksource set",
            "clocksource compare",
            "experiment",
            "latency pairs",
        ] {
            let help = help(words);
            assert!(
                !help.contains("openmetrics") && !help.contains("--textfile") && help.contains("--format"),
                "{words}"
            );
        }
        for words in ["completions", "manual", "run"] {
            assert!(!help(words).contains("--format") && !help(words).contains("--textfile"), "{words}");
        }
    }

    #[test]
    fn what_is_for_run_is_told_by_its_first_word() {
        let is = |line: &str| is_for_run(line.split(' ').map(Into::into));
        assert!(is("run") && is("--format json run x") && is("--format=json run --fifo 0"));
        assert!(!is("probe run") && !is("--format run probe") && !is("--help") && !is(""));
    }

    #[test]
    fn every_command_line_of_a_report_is_one_that_hpt_takes() {
        for plan in &PLANS {
            for short in [false, true] {
                for cpu in [None, Some(CpuChoice::Any), Some(CpuChoice::Number(0))] {
                    let line = plan.line(short, cpu);
                    assert!(Cli::try_parse_from(&line).is_ok(), "{line:?}");
                }
            }
        }
    }
}
