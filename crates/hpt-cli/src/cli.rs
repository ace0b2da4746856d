//! The command line: the subcommands and the global options. This module only parses the command line. Only `main`
//! uses the module, and the tests of `usage_error`, because each subcommand defines its own arguments.

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{
    arguments::{Codes, OPTIONS_WITH_VALUE, Printed, after_help},
    cmd,
    measurements::Measurement,
    output::{self, chart_option::ChartFile},
};

const EXAMPLES: &str = "  \
  hpt                       show a summary of this system on one screen
  hpt doctor                find what causes latency, and how to fix it
  hpt latency timer -d 1m   measure wake-up latency, as cyclictest does
  hpt bench --json          measure the read overhead of each time source
  hpt report                measure everything (90 s), and write an HTML page";

const MORE: &str = "Run hpt COMMAND -h for options, or --help for examples and exit codes.";

/// The subcommands, in the order in which the help lists them. A test compares this list with the definitions.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Start here", &["doctor", "report", "compare"]),
    ("Measure", &["probe", "read", "bench", "calibrate", "sleep", "latency", "watch", "check"]),
    ("Change", &["run", "clocksource", "restore"]),
    ("Other", &["experiment", "capture", "schema", "completions", "manual"]),
];

/// Measure and diagnose clocks, timers and latency on Linux
#[derive(Debug, Parser)]
#[command(name = "hpt", version, max_term_width = 80, after_help = MORE, after_long_help = after_help(Codes::measuring(Some("the meaning depends on the command")), EXAMPLES))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) printed: Printed,
    /// Without a command, hpt prints an overview.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The name of the command.
    #[arg(skip)]
    pub(crate) name: String,
}

impl Cli {
    /// Returns the definition of the whole command line.
    pub(crate) fn definition() -> clap::Command {
        let command = Self::command();
        let template = help_template(&command);
        command.help_template(template)
    }

    /// Parses a command line. `color` controls colors in its errors and its help.
    pub(crate) fn read(
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        color: clap::ColorChoice,
    ) -> Result<Self, clap::Error> {
        let matches = Self::definition().color(color).try_get_matches_from(line)?;
        let name = matches.subcommand_name().unwrap_or_default().to_owned();
        Ok(Self { name, ..Self::from_arg_matches(&matches)? })
    }
}

/// Returns the template of the main help, which lists the subcommands in groups.
fn help_template(command: &clap::Command) -> String {
    let about = |name: &str| {
        let about = command.find_subcommand(name).and_then(clap::Command::get_about);
        about.map(ToString::to_string).unwrap_or_default()
    };
    let groups = GROUPS.map(|(title, names)| {
        let lines = names.iter().map(|name| format!("  {name:11}  {}\n", about(name)));
        format!("{title}:\n{}", lines.collect::<String>())
    });
    format!("{{about}}\n\n{{usage-heading}} {{usage}}\n\n{}\nOptions:\n{{options}}{{after-help}}", groups.join("\n"))
}

/// Returns the value of `--color`, even if the command line cannot be parsed.
pub(crate) fn color_of(line: impl IntoIterator<Item = OsString>) -> clap::ColorChoice {
    let words: Vec<String> = line.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    let last = words.iter().enumerate().rev().find_map(|(index, word)| match word.strip_prefix("--color") {
        Some("") => words.get(index + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    match last {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Measurement(Box<Measurement>),
    Doctor(cmd::doctor::DoctorArguments),
    Read(cmd::read::ReadArguments),
    Calibrate(cmd::calibrate::CalibrateArguments),
    Report(cmd::report::ReportArguments),
    Compare(cmd::report::compare::CompareArguments),
    Capture(cmd::capture::CaptureArguments),
    Check(cmd::check::CheckArguments),
    Clocksource(cmd::clocksource::ClocksourceArguments),
    Restore(cmd::restore::RestoreArguments),
    Schema(cmd::schema::SchemaArguments),
    Completions(cmd::completions::CompletionsArguments),
    Manual(cmd::manual::ManualArguments),
    Run(cmd::run::RunArguments),
}

/// Returns whether the arguments invoke `hpt run`. A usage error of `hpt run` has an exit code of its own, to
/// distinguish it from the exit codes of the program that `hpt run` starts.
pub(crate) fn is_for_run(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        if OPTIONS_WITH_VALUE.iter().any(|option| argument == *option) {
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"-") {
            return argument == "run";
        }
    }
    false
}

impl Command {
    /// Returns whether the last document that the command prints has metrics.
    pub(crate) fn has_metrics(&self) -> bool {
        let kind = match self {
            Self::Measurement(measurement) => measurement.kind(),
            Self::Doctor(arguments) if arguments.tries() => Some("doctor-try"),
            Self::Doctor(_) => Some("doctor"),
            Self::Calibrate(_) => Some("calibrate"),
            _ => None,
        };
        kind.is_some_and(output::has_metrics)
    }

    /// Returns whether the command runs until a signal ends it.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, Self::Measurement(measurement) if measurement.is_endless())
    }

    pub(crate) fn chart(&self) -> Option<ChartFile<'_>> {
        match self {
            Self::Measurement(measurement) => measurement.chart(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;

    use super::{Cli, GROUPS, color_of, is_for_run};
    use crate::{arguments::CpuChoice, cmd::report::PLANS, output::Format};

    #[test]
    fn the_command_line_definition_is_valid() {
        Cli::definition().debug_assert();
    }

    fn read(line: &str) -> Cli {
        Cli::read(line.split(' '), clap::ColorChoice::Never).expect(line)
    }

    #[test]
    fn formats_are_accepted_before_and_after_each_command() {
        for command in ["probe", "experiment", "run true"] {
            for format in ["human", "json", "csv", "openmetrics"] {
                let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
                let behind = format!("hpt {name} --format {format} --textfile x.prom {rest}");
                let before = format!("hpt --format {format} --textfile x.prom {command}");
                let short = format!("hpt -f {format} --textfile x.prom {command}");
                for line in [behind.trim_end(), before.as_str(), short.as_str()] {
                    let printed = read(line).printed;
                    assert_eq!(printed.format(), Format::from_str(format, false).expect("one of them"), "{line}");
                    assert_eq!(printed.textfile.as_deref(), Some(Path::new("x.prom")), "{line}");
                }
            }
            let printed = read(&format!("hpt {command}")).printed;
            assert_eq!((printed.format(), printed.textfile), (Format::Human, None));
        }
        assert_eq!(read("hpt probe --json").printed.format(), Format::Json);
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let definition = Cli::definition();
        let mut defined: Vec<&str> = definition.get_subcommands().map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        defined.sort_unstable();
        listed.sort_unstable();
        assert_eq!(defined, listed);
    }

    /// Returns the words that invoke each command, and its definition.
    fn all_commands() -> Vec<(String, clap::Command)> {
        fn collect(name: &str, command: &clap::Command, into: &mut Vec<(String, clap::Command)>) {
            into.push((name.to_owned(), command.clone()));
            for under in command.get_subcommands().filter(|under| under.get_name() != "help") {
                collect(&format!("{name} {}", under.get_name()), under, into);
            }
        }
        let mut hpt = Cli::definition();
        hpt.build();
        let mut all = Vec::new();
        collect("hpt", &hpt, &mut all);
        all
    }

    #[test]
    fn examples_fit_a_terminal_and_are_separated_from_their_explanations() {
        let mut read = 0;
        for (name, command) in all_commands() {
            let long = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            let short = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = long.split_once("Examples:\n").unwrap_or_else(|| panic!("{name} has no examples")).1;
            let widest = long.lines().chain(short.lines()).map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= 80, "{name}: {widest} columns in\n{long}\n{short}");
            assert!(command.clone().render_long_help().to_string().contains(examples), "{name}: an example is wrapped");
            let examples = examples.replace("\\\n   ", "");
            let short = short.strip_prefix("Example: ").map(str::to_owned);
            for line in examples.lines().map(str::to_owned).chain(short) {
                // An explanation may have a line of its own.
                let Some(words) =
                    line.trim_start().strip_prefix("sudo ").unwrap_or(line.trim_start()).strip_prefix("hpt")
                else {
                    assert!(line.starts_with("          "), "{name}: {line}");
                    continue;
                };
                let example = words.split("  ").next().unwrap_or_default();
                // The command ends at a pipe or a redirection.
                let words = example.split_whitespace().take_while(|word| ![">", ">>", "|"].contains(word));
                let words = ["hpt"].into_iter().chain(words);
                assert!(Cli::read(words, clap::ColorChoice::Never).is_ok(), "{name}: {line}");
                read += 1;
            }
        }
        assert!(read > 50, "{read}");
    }

    #[test]
    fn the_short_help_starts_with_the_options_of_cyclictest() {
        let (_, mut timer) =
            all_commands().into_iter().find(|(name, _)| name == "hpt latency timer").expect("it exists");
        let help = timer.render_help().to_string();
        let mut rest = help.as_str();
        for option in ["--interval", "--duration", "--count", "--cpu", "--stop-above", "--by <METHOD>"] {
            rest = rest.split_once(option).unwrap_or_else(|| panic!("{option} is not in its place:\n{help}")).1;
        }
        for line in [
            "A thread per CPU: 0,2-5, all, any [default: chosen]",
            "Sleep method: kernel or hpt [default: kernel]",
            "Stop after N samples per CPU, not after --duration",
            "Stop at the first sample above TIME (exit code 1)",
            "Scheduling policy: f:80, r:80, d:2ms/10ms or o",
            "Disable idle states with exit latency above TIME",
            "Example: sudo hpt latency timer -c all -P f:80 --load cpu --explain -d 1h",
        ] {
            assert!(help.lines().any(|shown| shown.ends_with(line) && shown.chars().count() <= 79), "{line}\n{help}");
        }
        assert!(!help.contains("--json") && timer.render_long_help().to_string().contains("--json"));
    }

    #[test]
    fn the_main_help_refers_to_the_help_of_commands() {
        let help = Cli::definition().render_help().to_string();
        assert!(help.trim_end().ends_with("Run hpt COMMAND -h for options, or --help for examples and exit codes."));
        assert!(help.lines().count() <= 37, "{help}");
    }

    #[test]
    fn the_color_choice_is_found_before_the_command_line_is_parsed() {
        let of = |line: &str| color_of(line.split(' ').map(Into::into));
        assert_eq!(
            (of("probe --color always"), of("--color=never probe")),
            (clap::ColorChoice::Always, clap::ColorChoice::Never)
        );
        assert_eq!((of("run -- ls --color always"), of("probe")), (clap::ColorChoice::Auto, clap::ColorChoice::Auto));
    }

    #[test]
    fn the_help_lists_metrics_only_for_commands_that_have_them() {
        let mut hpt = Cli::definition();
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
            "read",
            "sleep",
            "report",
            "capture",
            "restore",
            "clocksource",
            "clocksource set",
            "clocksource compare",
            "experiment",
            "latency pairs",
            "latency edges",
        ] {
            let help = help(words);
            assert!(
                !help.contains("openmetrics") && !help.contains("--textfile") && help.contains("--format"),
                "{words}"
            );
        }
        for words in ["completions", "manual", "schema", "run"] {
            assert!(!help(words).contains("--format") && !help(words).contains("--textfile"), "{words}");
        }
    }

    #[test]
    fn the_run_command_is_recognized_by_the_first_word() {
        let is = |line: &str| is_for_run(line.split(' ').map(Into::into));
        assert!(is("run") && is("--format json run x") && is("--format=json run --fifo 0"));
        assert!(!is("probe run") && !is("--format run probe") && !is("--help") && !is(""));
    }

    #[test]
    fn every_command_line_of_a_report_is_valid() {
        for plan in &PLANS {
            for short in [false, true] {
                let cpus = [None, Some(CpuChoice::Any), Some(CpuChoice::Number(0))];
                for (cpu, explain) in cpus.into_iter().flat_map(|cpu| [(cpu, false), (cpu, true)]) {
                    let mut request = plan.request(short, cpu);
                    if explain {
                        request.explained();
                    }
                    let read = Cli::read(request.line().split(' '), clap::ColorChoice::Never);
                    assert!(read.is_ok(), "{}", request.line());
                }
            }
        }
    }
}
