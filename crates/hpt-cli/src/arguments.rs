//! Values that several commands accept: their types, parsers and help texts.

use hpt_document::words::Word;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

use clap::{
    Arg, Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};

use crate::output::{
    Format, OUTPUT,
    message::{ColorChoice, Manner},
};

/// The help heading for options that control the scheduling of a thread.
pub(crate) const SCHEDULING: &str = "Scheduling";

/// The help heading for options that change system-wide settings.
pub(crate) const SYSTEM_WIDE: &str = "System-wide (restored afterwards)";

/// The exit codes of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codes {
    no: Option<&'static str>,
    on_signals: &'static str,
}

impl Codes {
    /// Returns the exit codes of a command that measures nothing. `no` is the meaning of exit code 1, if the command
    /// uses it.
    pub(crate) const fn of(no: Option<&'static str>) -> Self {
        Self { no, on_signals: "" }
    }

    /// Returns the exit codes of a command that measures for a limited time.
    pub(crate) const fn measuring(no: Option<&'static str>) -> Self {
        let on_signals = "
  129  ended by a hang-up (SIGHUP); partial results are printed
  130  interrupted by Ctrl-C; partial results are printed
  143  terminated by SIGTERM; partial results are printed";
        Self { no, on_signals }
    }

    /// Returns the exit codes of a command that measures until Ctrl-C or until `--duration` has elapsed.
    pub(crate) const fn watching(no: Option<&'static str>) -> Self {
        let on_signals = "
  129  ended by a hang-up before the end of --duration; results are printed
  130  interrupted by Ctrl-C before the end of --duration; results are printed
  143  terminated by SIGTERM before the end of --duration; results are printed";
        Self { no, on_signals }
    }
}

fn exit_codes(Codes { no, on_signals }: Codes) -> String {
    let no = no.map(|no| format!("\n  1    no: {no}")).unwrap_or_default();
    format!(
        "\
Exit codes:
  0    success, or yes{no}
  2    usage error
  3    unknown: permissions, hardware or samples are missing{on_signals}"
    )
}

/// The output options of all commands: the format of the result, a file for metrics, and the verbosity and color of
/// messages.
#[derive(Debug, Args)]
pub(crate) struct Printed {
    /// human, json, csv or openmetrics
    ///
    /// human prints tables, json the complete result, csv the result rows, and openmetrics metrics for Prometheus.
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "human", hide_possible_values = true, help_heading = OUTPUT)]
    pub(crate) format: Format,
    /// Same as --format json
    #[arg(long, global = true, conflicts_with = "format", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) json: bool,
    /// Also write metrics for node_exporter to FILE (.prom)
    ///
    /// FILE must be in the directory that node_exporter's textfile collector reads. The name must end in .prom. hpt
    /// replaces FILE atomically.
    #[arg(long, global = true, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) textfile: Option<PathBuf>,
    /// Print only the result, without a progress bar or notes
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) quiet: bool,
    /// Also explain the figures and how they were measured, and report each step on standard error
    #[arg(short, long, global = true, help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) verbose: bool,
    /// When to use colors
    ///
    /// With auto, hpt honors the environment variables NO_COLOR, CLICOLOR and CLICOLOR_FORCE.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT, hide_short_help = true)]
    pub(crate) color: ColorChoice,
}

impl Printed {
    /// Returns the requested format.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// Returns whether no output option was given.
    pub(crate) fn is_default(&self) -> bool {
        let is_plain = !self.json && !self.quiet && !self.verbose && self.textfile.is_none();
        is_plain && self.format == Format::Human && self.color == ColorChoice::Auto
    }

    /// Returns the options that control output other than the result.
    pub(crate) fn manner(&self) -> Manner {
        Manner { quiet: self.quiet, verbose: self.verbose, color: self.color }
    }
}

/// The options that are valid before a subcommand and take the next argument as their value.
pub(crate) const OPTIONS_WITH_VALUE: [&str; 4] = ["--format", "-f", "--textfile", "--color"];

/// Returns the option of `Printed` with this name, for a command that changes the help text of the option. An option
/// that a command defines takes precedence over the global option with the same name.
fn printed(name: &str) -> Arg {
    let options = Printed::augment_args(clap::Command::new("hpt"));
    options.get_arguments().find(|option| option.get_id() == name).expect("the option exists").clone()
}

/// Returns the option of `Printed` with this name, hidden from the help of a command that always rejects the option.
fn refused(name: &str) -> Arg {
    printed(name).hide(true)
}

/// Returns the options of `Printed` for a command that prints no document.
pub(crate) fn without_documents() -> [Arg; 3] {
    [refused("format"), refused("json"), refused("textfile")]
}

/// Returns the options of `Printed` for a command without metrics. The help of such a command must not mention metrics.
pub(crate) fn without_metrics() -> [Arg; 2] {
    let names = Format::value_variants()
        .iter()
        .filter_map(|format| Some(format.to_possible_value()?.hide(*format == Format::Openmetrics)));
    let read = |name: String| Format::from_str(&name, false).expect("it is one of the values");
    let format = printed("format")
        .help("human, json or csv")
        .long_help("human prints tables, json the complete result, and csv the result rows.")
        .value_parser(PossibleValuesParser::new(names).map(read));
    [format, refused("textfile")]
}

/// Returns the option `--verbose` for a command whose result it extends. `adds` is the part that it adds.
pub(crate) fn verbose_with(adds: &str) -> Arg {
    printed("verbose").help(format!("Print {adds}; also print each step to standard error")).hide_short_help(false)
}

/// Returns the exit codes and examples, for the end of a command's long help.
pub(crate) fn after_help(codes: Codes, examples: &str) -> String {
    format!("{}\n\nExamples:\n{examples}", exit_codes(codes))
}

/// Parses a word of documents.
pub(crate) fn word<T: Word>() -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::WORDS.iter().map(|word| word.word())).map(|name| named(&name))
}

/// Parses a word of documents, whose help lists what each value means.
pub(crate) fn word_with_help<T: Word>(help: fn(T) -> &'static str) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(T::WORDS.iter().map(|&word| PossibleValue::new(word.word()).help(help(word))))
        .map(|name| named(&name))
}

fn named<T: Word>(name: &str) -> T {
    *T::WORDS.iter().find(|word| word.word() == name).expect("it is one of the values")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CpuChoice {
    /// Any CPU: the thread is not pinned.
    Any,
    /// The CPU with this number.
    Number(usize),
}

/// Parses `3` or `any`.
pub(crate) fn cpu_choice(text: &str) -> Result<CpuChoice, String> {
    match text {
        "any" => Ok(CpuChoice::Any),
        number => number.parse().map(CpuChoice::Number).map_err(|_| "expected one CPU: a number, or any".to_owned()),
    }
}

/// Parses `1000000`, `1_000_000` or `1e6`. A number that is too large for the type is its largest value.
fn whole_number(text: &str) -> Option<u128> {
    let digits = text.replace('_', "");
    let Some((mantissa, exponent)) = digits.split_once(['e', 'E']) else { return digits.parse().ok() };
    let power = 10_u128.saturating_pow(exponent.parse().ok()?);
    Some(mantissa.parse::<u128>().ok()?.saturating_mul(power))
}

/// Parses a count, which may be zero.
pub(crate) fn whole_count(text: &str) -> Option<u64> {
    whole_number(text).and_then(|number| u64::try_from(number).ok())
}

/// Parses a number of calls, from 1 to 1e12.
pub(crate) fn calls(text: &str) -> Result<u64, String> {
    if whole_number(text) == Some(0) {
        return Err("must be 1 or more".to_owned());
    }
    let number = whole_number(text).and_then(|number| u64::try_from(number).ok());
    let calls = number.filter(|calls| (1..=1_000_000_000_000).contains(calls));
    calls.ok_or_else(|| "expected a whole number from 1 to 1e12".to_owned())
}

/// Parses a number of samples, which must be at least one.
pub(crate) fn at_least_one<T: TryFrom<u128>>(text: &str) -> Result<T, String> {
    match whole_number(text) {
        Some(0) => Err("must be 1 or more".to_owned()),
        Some(number) => T::try_from(number).map_err(|_| "the number is too large".to_owned()),
        None => Err("expected a whole number, 1 or more".to_owned()),
    }
}

/// Returns whether a text is a number without a unit.
pub(crate) fn is_bare_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

/// Lists the number with each unit that makes it a valid duration, for example `1ms or 1s`. Returns `None` if there
/// is no such unit.
fn with_units(number: &str, (least, most): (Duration, Duration)) -> Option<String> {
    let value = |unit| format!("{number}{unit}");
    let is_valid = |text: &String| humantime::parse_duration(text).is_ok_and(|time| (least..=most).contains(&time));
    let valid: Vec<String> = ["ns", "us", "ms", "s"].map(value).into_iter().filter(is_valid).collect();
    // List at most three units. If there are four, omit nanoseconds, the least likely unit.
    let (last, others) = valid[valid.len().saturating_sub(3)..].split_last()?;
    Some(if others.is_empty() { last.clone() } else { format!("{} or {last}", others.join(", ")) })
}

/// Parses a duration with a unit, from `least` to `most`. `limits` describes the range in text, and `example` is a
/// valid value.
pub(crate) fn duration_in(
    text: &str,
    (least, most): (Duration, Duration),
    (limits, example): (&str, &str),
) -> Result<Duration, String> {
    if is_bare_number(text) {
        let units = with_units(text, (least, most));
        return Err(units.map_or_else(
            || format!("time unit missing, and the time must be {limits}"),
            |units| format!("time unit missing: write {units}"),
        ));
    }
    let duration =
        humantime::parse_duration(text).map_err(|_| format!("expected a number with a unit, for example {example}"))?;
    if (least..=most).contains(&duration) { Ok(duration) } else { Err(format!("must be {limits}")) }
}

/// Parses a duration with a unit (`100ms`, `1s`, `2m 30s`), from 1 ms to one day.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    duration_in(
        text,
        (Duration::from_millis(1), Duration::from_secs(24 * 3_600)),
        ("between 1ms and 1day", "100ms or 1s"),
    )
}

/// Parses the length of an interval with a unit, from 100 ms to one hour. A shorter interval contains too few readings
/// for a comparison.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_millis(100), Duration::from_secs(3_600)), ("between 100ms and 1h", "1s or 500ms"))
}

/// Parses an offset between clocks with a unit, from 1 ns to one second.
pub(crate) fn apart(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_nanos(1), Duration::from_secs(1)), ("between 1ns and 1s", "500ns or 5us"))
}

/// Parses a value in parts per million, which must be positive and at most one million.
pub(crate) fn parts_per_million(text: &str) -> Result<f64, String> {
    let ppm = text.strip_suffix("ppm").unwrap_or(text).trim().parse::<f64>().ok();
    let ppm = ppm.filter(|&ppm| ppm > 0.0 && ppm <= 1e6);
    ppm.ok_or_else(|| "must be positive, and at most 1000000 ppm".to_owned())
}

/// Parses the duration of a sleep with a unit, from 1 µs to ten seconds. The duration has an upper limit because Ctrl-C
/// takes effect only when a sleep ends.
pub(crate) fn sleep_length(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_micros(1), Duration::from_secs(10)), ("between 1us and 10s", "250us or 1ms"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CpuChoice, apart, at_least_one, calls, cpu_choice, interval, parts_per_million, sleep_length, window};

    #[test]
    fn a_measurement_time_needs_a_unit_and_is_not_zero() {
        assert_eq!(window("100ms"), Ok(Duration::from_millis(100)));
        for wrong in ["0s", "100", "-1s", "1us", "2days", ""] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_the_units_that_fit() {
        for (refused, units) in [
            (window("1000"), "1000us, 1000ms or 1000s"),
            (window("1"), "1ms or 1s"),
            (window("0.5"), "0.5s"),
            (apart("5"), "5ns, 5us or 5ms"),
            (sleep_length("1000"), "1000ns, 1000us or 1000ms"),
        ] {
            assert_eq!(refused, Err(format!("time unit missing: write {units}")));
        }
        assert_eq!(interval("0"), Err("time unit missing, and the time must be between 100ms and 1h".to_owned()));
    }

    #[test]
    fn a_number_of_samples_is_one_or_more() {
        assert_eq!((at_least_one::<u32>("1"), at_least_one::<u64>("4294967296")), (Ok(1), Ok(4_294_967_296)));
        assert_eq!(at_least_one::<u32>("0"), Err("must be 1 or more".to_owned()));
        assert_eq!((at_least_one::<u32>("1e5"), at_least_one::<u64>("1_000")), (Ok(100_000), Ok(1_000)));
        for wrong in ["4294967296", "1e10", "-1", "1.5", "many", "", "e6"] {
            assert!(at_least_one::<u32>(wrong).is_err(), "{wrong}");
        }
        for large in ["1e20", "1e99", "1e4000000000"] {
            assert_eq!(at_least_one::<u64>(large), Err("the number is too large".to_owned()));
        }
    }

    #[test]
    fn a_sleep_length_has_limits() {
        assert_eq!(sleep_length("250us"), Ok(Duration::from_micros(250)));
        for wrong in ["0s", "100", "999ns", "11s", "soon", ""] {
            assert!(sleep_length(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_need_a_unit_and_are_not_zero() {
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
    fn numbers_of_calls_are_integers_in_any_notation() {
        assert_eq!((calls("1000000"), calls("1_000_000"), calls("1e6")), (Ok(1_000_000), Ok(1_000_000), Ok(1_000_000)));
        for wrong in ["0", "-1", "1.5", "1e99", "2e12", "many", "", "e6"] {
            assert!(calls(wrong).is_err(), "{wrong}");
        }
    }
}
