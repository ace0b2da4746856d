//! A request for a measurement by a subcommand that makes several: a report, a check, or a trial of fixes.

use std::{ffi::OsString, path::Path, time::Duration};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint, error::ErrorKind, parser::ValueSource,
};

use super::{
    common_options::{CommonOptions, CpuOption},
    doctor::ExaminationArguments,
    measurement::Measurement,
};
use crate::{
    arguments::{CpuChoice, Printed},
    context::Context,
    exit::Failure,
    output::Document,
    sampling::{
        cpu_options::Cpus,
        limits::quantity::{Limit, Quantity},
    },
    usage_error,
};

/// A measurement, and the command line that makes it, for people.
#[derive(Debug)]
pub(crate) struct Request {
    measurement: Box<Measurement>,
    line: String,
}

/// The command line of a measurement.
#[derive(Debug, Parser)]
#[command(name = "hpt")]
struct Line {
    #[command(flatten)]
    printed: Printed,
    #[command(subcommand)]
    requested: RequestedCommand,
}

#[derive(Debug, Subcommand)]
enum RequestedCommand {
    #[command(flatten)]
    Measurement(Box<Measurement>),
    Doctor(ExaminationArguments),
}

impl Request {
    /// Reads a command line, with or without `hpt` as its first word. Returns the reason if it is no measurement, or if it
    /// would print or write something itself.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let words = if words.first().is_some_and(|word| word == "hpt") { &words[1..] } else { words };
        let line: Vec<OsString> = ["hpt"].into_iter().map(Into::into).chain(words.iter().map(Into::into)).collect();
        let definition = Line::command().color(clap::ColorChoice::Never);
        let matches = definition.clone().try_get_matches_from(&line).map_err(|error| in_a_line(error, &line))?;
        let Line { printed, requested } = Line::from_arg_matches(&matches).map_err(|error| in_a_line(error, &line))?;
        if !printed.is_default() {
            return Err("options for the output belong to hpt check itself, not to a step".to_owned());
        }
        if let Some(option) = option_with_file(&matches, &definition) {
            // The request may come from another user, and must not make root write a file.
            return Err(format!("a step writes no files, so it has no --{option}"));
        }
        let measurement = match requested {
            RequestedCommand::Measurement(measurement) => measurement,
            RequestedCommand::Doctor(arguments) => Box::new(Measurement::Doctor(arguments)),
        };
        Ok(Self { measurement, line: format!("hpt {}", words.join(" ")) })
    }

    /// Reads a command line whose words are separated by spaces.
    pub(crate) fn read_line(line: &str) -> Result<Self, String> {
        Self::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    pub(crate) fn line(&self) -> &str {
        &self.line
    }

    pub(crate) fn measurement(&self) -> &Measurement {
        &self.measurement
    }

    pub(crate) fn measure(&self, context: &Context) -> Result<Document, Failure> {
        self.measurement.measure(context)
    }

    pub(crate) fn common(&mut self) -> CommonOptions<'_> {
        self.measurement.common()
    }

    fn and(&mut self, words: &str) {
        self.line.push(' ');
        self.line.push_str(words);
    }

    /// Returns the limits. Fails if the measurement cannot have limits.
    pub(crate) fn limits(&mut self) -> Result<&mut Vec<Limit>, String> {
        let command = self.line.split(' ').nth(1).unwrap_or_default().to_owned();
        self.common().limits.map(|(limits, _)| limits).ok_or_else(|| format!("hpt {command} has no limits; {STEPS}"))
    }

    /// Adds a limit in the notation of `--limit`.
    pub(crate) fn limit(&mut self, text: &str) -> Result<(), String> {
        self.limits()?;
        if let Some((limits, accepted)) = self.common().limits {
            for limit in text.split(',') {
                let wrong = |why| format!("invalid value '{limit}' for a limit: {why}");
                limits.push(Limit::parse(limit, accepted).map_err(wrong)?);
            }
        }
        self.and(&format!("--limit {text}"));
        Ok(())
    }

    /// Adds a limit that every value of the quantity holds, so that the document contains the value.
    pub(crate) fn observe(&mut self, quantity: Quantity) -> Result<(), String> {
        self.limits()?;
        if let Some((limits, accepted)) = self.common().limits {
            limits.push(Limit::boundless(quantity, accepted)?);
        }
        Ok(())
    }

    /// Measures on these CPUs. Does nothing if the measurement cannot.
    pub(crate) fn on(&mut self, cpus: Cpus) {
        let words = cpus.words();
        let one = match &cpus {
            Cpus::Any => Some(CpuChoice::Any),
            Cpus::All => None,
            Cpus::These(cpus) => cpus.first().copied().filter(|_| cpus.len() == 1).map(CpuChoice::Number),
        };
        match (self.common().cpu, one) {
            (CpuOption::Several(cpu), _) => *cpu = Some(cpus),
            (CpuOption::One(cpu), Some(one)) => *cpu = Some(one),
            (CpuOption::Number(cpu), Some(CpuChoice::Number(number))) => *cpu = Some(number),
            (CpuOption::Missing | CpuOption::One(_) | CpuOption::Number(_), _) => return,
        }
        self.and(&format!("--cpu {words}"));
    }

    /// Returns the CPU that is measured, if the request names exactly one, and whether it names any.
    pub(crate) fn cpu(&mut self) -> (Option<usize>, bool) {
        match self.common().cpu {
            CpuOption::Several(Some(Cpus::These(cpus))) => (cpus.first().copied().filter(|_| cpus.len() == 1), true),
            CpuOption::One(Some(CpuChoice::Number(cpu))) | CpuOption::Number(Some(cpu)) => (Some(*cpu), true),
            CpuOption::Several(cpus) => (None, cpus.is_some()),
            CpuOption::One(cpu) => (None, cpu.is_some()),
            CpuOption::Number(None) | CpuOption::Missing => (None, false),
        }
    }

    /// Explains late samples, if the measurement has any.
    pub(crate) fn explained(&mut self) {
        if let Some(explain) = self.common().explain {
            explain.request();
            self.and("--explain");
        }
    }

    /// Examines a system snapshot instead of the machine.
    pub(crate) fn of_snapshot(&mut self, file: &Path) {
        if let Some(host) = self.common().host {
            *host = Some(file.to_owned());
            self.and(&format!("--host {}", file.display()));
        }
    }

    /// Measures for this time. Does nothing if the measurement has no duration.
    pub(crate) fn for_time(&mut self, time: Duration) {
        if let Some(duration) = self.common().duration {
            *duration = Some(time);
        }
    }

    /// Returns the command line with a duration, for people.
    pub(crate) fn line_with(&self, duration: Option<Duration>) -> String {
        let duration = duration.map(|time| format!(" --duration {}ms", time.as_millis()));
        format!("{}{}", self.line, duration.unwrap_or_default())
    }
}

/// The measurements with limits.
const STEPS: &str = "a step is bench, sleep, or latency timer, poll, stall, pairs or gpio";

/// Returns the text of a usage error on one line.
fn in_a_line(error: clap::Error, line: &[OsString]) -> String {
    let is_unknown = error.kind() == ErrorKind::InvalidSubcommand;
    let text = usage_error::text(error, line.iter().skip(1).cloned(), Line::command());
    let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    if is_unknown { format!("{first}; {STEPS}") } else { first }
}

/// Returns the name of a given option whose value is a file or a directory.
fn option_with_file(matches: &ArgMatches, command: &clap::Command) -> Option<String> {
    if let Some((name, matches)) = matches.subcommand() {
        return option_with_file(matches, command.find_subcommand(name)?);
    }
    let is_file = |option: &&clap::Arg| matches!(option.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath);
    let is_given =
        |option: &&clap::Arg| matches.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
    let mut options = command.get_arguments().filter(is_file).filter(is_given);
    options.find_map(|option| option.get_long().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Limit, Measurement, Quantity, Request};
    use crate::sampling::cpu_options::Cpus;

    fn read(line: &str) -> Request {
        Request::read_line(line).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    #[test]
    fn a_request_survives_as_json_with_all_its_options() {
        for line in [
            "latency timer",
            "latency timer --by hpt -i 250us -n 100 -c 0,2-3 -P d:2ms/10ms --limit p99.9=1ms,max=2ms,missed=0 --load cpu,fork --load-cpus all --explain=7 --as cyclictest --strict --stop-above 1ms --warm-up 1s --best-effort",
            "latency timer --at 12:30:15.5 --pulse GPIO17 --drive registers --mlockall",
            "latency timer --at 2030-01-31T12:30:15Z -c any",
            "latency poll --fifo 80 --accept-throttling -s tsc -d 3s --dma-latency 10",
            "latency stall --above 20us --count 5 --rr 3 --no-throttling --no-turbo --governor performance -s tsc",
            "latency pairs -s tsc,monotonic -i 0s,1s/5s -n 7 -c 1 --in-kernel",
            "latency gpio --output-line GPIO22 --input-line gpiochip0:23 --chip a --listen level --drive kernel --figure irq-to-user --timeout 5ms",
            "sleep -l 1ms,10ms -n 5 --strategy busy,hpt --target p99=1us,cpu=2% --limit p99=5us -P f:50",
            "bench -s tsc --count 1e3 --cpu any --load memory --limit read=1us",
        ] {
            let request = read(line);
            let text = serde_json::to_string(request.measurement()).expect("it has a JSON form");
            let again: Measurement = serde_json::from_str(&text).expect(&text);
            assert_eq!(serde_json::to_string(&again).expect("it has a JSON form"), text);
            // Everything that differs from the defaults is in the text.
            let first = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            let plain =
                if first.starts_with("latency") { read(&first) } else { read(first.split(' ').next().expect("one")) };
            let plain = serde_json::to_string(plain.measurement()).expect("it has a JSON form");
            assert_eq!(plain == text, line == first, "{text}");
        }
    }

    #[test]
    fn a_request_that_would_write_a_file_or_print_is_refused() {
        let why = |line: &str| Request::read_line(line).expect_err(line);
        for line in [
            "bench --svg a.svg",
            "latency timer --raw=a",
            "latency timer --write line=a",
            "latency pairs --raw a",
            "latency poll --journal /tmp/a",
            "sleep --journal=/tmp/a",
        ] {
            assert!(why(line).starts_with("a step writes no files, so it has no --"), "{}", why(line));
        }
        assert!(why("bench --json").starts_with("options for the output"));
        assert!(why("check").starts_with("unrecognized subcommand 'check'; a step is bench"), "{}", why("check"));
        assert!(
            why("latency timer --interval 5").contains("time unit missing"),
            "{}",
            why("latency timer --interval 5")
        );
    }

    #[test]
    fn every_option_with_a_file_says_so() {
        fn check(command: &clap::Command, seen: &mut usize) {
            let is_file = |option: &&clap::Arg| {
                let names = option.get_value_names().unwrap_or_default();
                names.iter().any(|name| name.contains("FILE") || name.contains("DIR"))
                    && option.get_long() != Some("textfile")
            };
            for option in command.get_arguments().filter(is_file).filter(|option| !option.is_positional()) {
                let hint = option.get_value_hint();
                let has_hint = matches!(hint, clap::ValueHint::FilePath | clap::ValueHint::DirPath);
                assert!(has_hint, "{} --{:?}", command.get_name(), option.get_long());
                *seen += 1;
            }
            command.get_subcommands().for_each(|command| check(command, seen));
        }
        let mut seen = 0;
        check(&<super::Line as clap::CommandFactory>::command(), &mut seen);
        assert!(seen > 15, "{seen}");
    }

    #[test]
    fn limits_are_those_of_the_measurement() {
        let mut request = read("sleep");
        assert!(request.limit("p99=1ms,max=2ms").is_ok() && request.limit("p99.99=1ms").is_err());
        assert!(request.observe(Quantity::Max).is_ok() && request.observe(Quantity::Read).is_err());
        let texts: Vec<String> =
            request.limits().expect("limits").iter().map(|limit: &Limit| limit.text.clone()).collect();
        assert_eq!(texts, ["p99=1ms", "max=2ms", "max"]);
        assert_eq!(request.line(), "hpt sleep --limit p99=1ms,max=2ms");
        for line in ["probe", "latency gpio --list", "doctor", "watch", "experiment"] {
            let command = line.split(' ').next().expect("one");
            assert!(read(line).limits().is_err_and(|why| why.starts_with(&format!("hpt {command} has no limits"))));
        }
    }

    #[test]
    fn an_option_applies_only_to_measurements_that_have_it() {
        let line = |line: &str, cpus: &Cpus| {
            let mut request = read(line);
            request.on(cpus.clone());
            request.explained();
            request.of_snapshot(Path::new("a.capture"));
            request.line().to_owned()
        };
        let (any, all, three) = (&Cpus::Any, &Cpus::All, &Cpus::These(vec![3]));
        assert_eq!(line("latency timer", all), "hpt latency timer --cpu all --explain");
        assert_eq!(line("latency pairs", all), "hpt latency pairs");
        assert_eq!(
            (line("bench", any), line("doctor", any)),
            ("hpt bench --cpu any".to_owned(), "hpt doctor --host a.capture".to_owned())
        );
        assert_eq!(line("doctor", three), "hpt doctor --cpu 3 --host a.capture");
        assert_eq!(
            (line("probe", three), line("sleep --curve", three)),
            ("hpt probe --host a.capture".to_owned(), "hpt sleep --curve --cpu 3".to_owned())
        );
    }
}
