//! The command line: names, values and help. Parsing does nothing else.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Arg, Args, Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};

use crate::{
    cmd,
    picture_option::Wanted,
    render::{self, Format},
};

const EXIT_CODES: &str = "\
Exit codes:
  0  yes: done, or usable
  1  a negative answer: not usable, or not all could be calibrated
  2  could not tell, or wrong usage
Ctrl-C ends a measurement early: what was measured is printed.";

const EXAMPLES: &str = "\
Examples:
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
#[command(name = "hpt", version, max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) printed: Printed,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is printed of a result, and where else it is written.
#[derive(Debug, Args)]
pub(crate) struct Printed {
    /// Print the result as a table for people, as JSON, its rows as CSV, or its metrics as OpenMetrics
    #[arg(long, global = true, value_name = "FORMAT", default_value = "human")]
    pub(crate) format: Format,
    /// Also write the metrics into a file that node_exporter's textfile collector takes, replaced in one step; its name ends in .prom
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) textfile: Option<PathBuf>,
}

/// One of the options of `Printed`, for a command that has another help for it: a command's own comes before the global one.
fn printed(name: &str) -> Arg {
    let options = Printed::augment_args(clap::Command::new("hpt"));
    options.get_arguments().find(|option| option.get_id() == name).expect("it is one of them").clone()
}

/// One of the options of `Printed` that a command always refuses: not in its help.
fn refused(name: &str) -> Arg {
    printed(name).hide(true)
}

/// The options of `Printed` for a command that prints no document.
pub(crate) fn without_documents() -> [Arg; 2] {
    [refused("format"), refused("textfile")]
}

/// The options of `Printed` for a command that has no metrics: the help does not name them.
pub(crate) fn without_metrics() -> [Arg; 2] {
    let names = Format::value_variants()
        .iter()
        .filter_map(|format| Some(format.to_possible_value()?.hide(*format == Format::Openmetrics)));
    let read = |name: String| Format::from_str(&name, false).expect("it is one of the values");
    let format = printed("format")
        .help("Print the result as a table for people, as JSON, or its rows as CSV")
        .value_parser(PossibleValuesParser::new(names).map(read));
    [format, refused("textfile")]
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
        render::has_metrics(kind)
    }

    /// Where a picture of its result is to be.
    pub(crate) fn picture(&self) -> Option<Wanted<'_>> {
        match self {
            Self::Bench(arguments) => arguments.picture.wanted(),
            Self::Sleep(arguments) => arguments.picture.wanted(),
            Self::Watch(arguments) => arguments.picture.wanted(),
            Self::Latency(arguments) => arguments.picture(),
            _ => None,
        }
    }
}

/// Exit codes and examples, for the end of a subcommand's help.
pub(crate) fn after_help(examples: &str) -> String {
    format!("{EXIT_CODES}\n\nExamples:\n{examples}")
}

/// The CPU a measurement runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CpuChoice {
    /// Wherever the kernel moves it.
    Any,
    /// This one.
    Number(usize),
}

/// Reads `3` or `any`.
pub(crate) fn cpu_choice(text: &str) -> Result<CpuChoice, String> {
    match text {
        "any" => Ok(CpuChoice::Any),
        number => number.parse().map(CpuChoice::Number).map_err(|_| "a CPU's number, or `any`".to_owned()),
    }
}

/// Reads `1000000`, `1_000_000` or `1e6`.
pub(crate) fn calls(text: &str) -> Result<u64, String> {
    let wrong = || "a whole number from 1 to 1e12".to_owned();
    let digits = text.replace('_', "");
    let calls = match digits.split_once(['e', 'E']) {
        None => digits.parse::<u64>().map_err(|_| wrong())?,
        Some((mantissa, exponent)) => {
            let mantissa: u64 = mantissa.parse().map_err(|_| wrong())?;
            let power = exponent.parse().ok().and_then(|exponent| 10_u64.checked_pow(exponent)).ok_or_else(wrong)?;
            mantissa.checked_mul(power).ok_or_else(wrong)?
        }
    };
    if (1..=1_000_000_000_000).contains(&calls) { Ok(calls) } else { Err(wrong()) }
}

/// Reads a duration with its unit (`100ms`, `1s`, `2m 30s`), from 1 ms to a day.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 3600);
    const SHORTEST: Duration = Duration::from_millis(1);
    let window = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 100ms or 1s"))?;
    if (SHORTEST..=LONGEST).contains(&window) { Ok(window) } else { Err("from 1ms to 1day".to_owned()) }
}

/// Reads the length of an interval with its unit, from 100 ms to an hour: shorter ones have no readings to compare.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(3600);
    const SHORTEST: Duration = Duration::from_millis(100);
    let length = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 1s or 500ms"))?;
    if (SHORTEST..=LONGEST).contains(&length) { Ok(length) } else { Err("from 100ms to 1h".to_owned()) }
}

/// Reads how far clocks may be apart, with its unit, from 1 ns to a second.
pub(crate) fn apart(text: &str) -> Result<Duration, String> {
    const MOST: Duration = Duration::from_secs(1);
    const LEAST: Duration = Duration::from_nanos(1);
    let apart = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 500ns or 5us"))?;
    if (LEAST..=MOST).contains(&apart) { Ok(apart) } else { Err("from 1ns to 1s".to_owned()) }
}

/// Reads parts per million, more than none and at most all.
pub(crate) fn parts_per_million(text: &str) -> Result<f64, String> {
    let ppm = text.strip_suffix("ppm").unwrap_or(text).trim().parse::<f64>().ok();
    let ppm = ppm.filter(|&ppm| ppm > 0.0 && ppm <= 1e6);
    ppm.ok_or_else(|| "parts per million, like 50, more than 0 and at most 1000000".to_owned())
}

/// Reads a duration with its unit, from 1 µs to ten seconds: Ctrl-C waits for the end of a sleep.
pub(crate) fn sleep_length(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(10);
    const SHORTEST: Duration = Duration::from_micros(1);
    let length = humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 250us or 1ms"))?;
    if (SHORTEST..=LONGEST).contains(&length) { Ok(length) } else { Err("from 1us to 10s".to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use clap::{CommandFactory, Parser, ValueEnum};

    use super::{
        Cli, CpuChoice, Format, apart, calls, cpu_choice, interval, is_for_run, parts_per_million, sleep_length, window,
    };

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
    fn a_window_has_a_unit_and_is_not_empty() {
        assert_eq!(window("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["0s", "100", "-1s", "1us", "2days", ""] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sleep_is_neither_nothing_nor_endless() {
        assert_eq!(sleep_length("250us"), Ok(Duration::from_micros(250)));
        for wrong in ["0s", "100", "999ns", "11s", "soon", ""] {
            assert!(sleep_length(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_have_units_and_are_more_than_nothing() {
        assert_eq!((apart("500ns"), interval("1s")), (Ok(Duration::from_nanos(500)), Ok(Duration::from_secs(1))));
        assert_eq!((parts_per_million("50"), parts_per_million("0.5ppm")), (Ok(50.0), Ok(0.5)));
        for wrong in ["0s", "5", "2s", "-1us", ""] {
            assert!(apart(wrong).is_err(), "{wrong}");
        }
        assert!(interval("10ms").is_err() && interval("2h").is_err());
        for wrong in ["0", "-1", "NaN", "inf", "2e6", "some", ""] {
            assert!(parts_per_million(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cpu_is_a_number_or_a_word() {
        assert_eq!((cpu_choice("3"), cpu_choice("any")), (Ok(CpuChoice::Number(3)), Ok(CpuChoice::Any)));
        assert!(cpu_choice("-1").is_err() && cpu_choice("many").is_err());
    }

    #[test]
    fn calls_are_whole_numbers_in_any_spelling() {
        assert_eq!((calls("1000000"), calls("1_000_000"), calls("1e6")), (Ok(1_000_000), Ok(1_000_000), Ok(1_000_000)));
        for wrong in ["0", "-1", "1.5", "1e99", "2e12", "many", "", "e6"] {
            assert!(calls(wrong).is_err(), "{wrong}");
        }
    }
}
