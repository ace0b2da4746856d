//! `hpt doctor`: finds problems that impair latency and timekeeping on a machine.

mod details;
mod document;
mod measure;
mod summary;
mod trial;

use std::path::PathBuf;

use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser},
};
use hpt_core::Host;
use hpt_instrument::diagnose::{Examined, Goal, MachineFacts, Severity, THEMES, examine, run_time_fixes};

pub(crate) use self::trial::Prepares;
use self::{
    details::details,
    document::{Examination, answer, document, goal_word},
    measure::measure,
    summary::summary,
    trial::{TrialOptions, Wanted},
};
use crate::{
    arguments::{Codes, CpuChoice, after_help, verbose_with},
    context::Context,
    exit::Failure,
    output::{Answer, Document, message},
    sampling::{cpu_absences::Parts, realtime_options::check_cpus},
};

const EXAMPLES: &str = "  \
  hpt doctor                         check this machine
  hpt doctor -v                      also print notes, reasons and all fixes
  hpt doctor wall-time governor      print the details of two rules
  hpt doctor --for benchmarks        check it for benchmarks
  hpt doctor --cpu 3                 check it for a thread dedicated to CPU 3
  sudo hpt doctor --cpu 3 --measure  also measure for six seconds
  sudo hpt doctor --cpu 3 --try      try fixes, and measure which of them help
  hpt doctor --fail-on high          for scripts: see the exit codes
  hpt doctor --host my.capture       check a system snapshot";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Use {
    /// Only faults and misconfiguration are problems
    General,
    /// Accurate time and accurate intervals
    Timekeeping,
    /// Threads that must react within a bounded time
    Realtime,
    /// Repeatable measurements of the speed of programs
    Benchmarks,
}

impl Use {
    const fn goal(self) -> Goal {
        match self {
            Self::General => Goal::General,
            Self::Timekeeping => Goal::Timekeeping,
            Self::Realtime => Goal::Realtime,
            Self::Benchmarks => Goal::Benchmarks,
        }
    }
}

/// The least severity with which a problem determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A problem that delays programs by a millisecond or more, or makes time wrong
    High,
    /// Any problem
    Low,
}

impl FailOn {
    const fn severity(self) -> Severity {
        match self {
            Self::High => Severity::High,
            Self::Low => Severity::Low,
        }
    }
}

/// Find what causes latency and clock errors, and how to fix it
///
/// Checks the clocksource, time synchronization, real-time permissions and throttling, isolated CPUs and what still
/// runs there, frequency scaling and idle states, memory, the hypervisor, the power supply of a board, and permissions
/// for counters and devices. Without --try, hpt doctor changes nothing and does not need root. The result fits on one screen: a
/// verdict, and each problem with its first fix. -v prints all details. --for selects what counts as a problem: without
/// it, default settings of Linux are only notes. With --measure, hpt also measures for six seconds to confirm problems
/// while they occur. With --try, hpt applies the fixes in turn, measures which of them help, and undoes them.
#[derive(Debug, Args)]
#[command(
    after_long_help = after_help(Codes::measuring(Some("a problem was found (--fail-on), or --try was declined")), EXAMPLES),
    args([verbose_with("notes, reasons, all fixes, and the rules without a problem")])
)]
pub(crate) struct DoctorArguments {
    /// Check only these rules, and print their details
    ///
    /// hpt doctor -v prints the names of all rules.
    #[arg(value_name = "RULE", value_parser = PossibleValuesParser::new(rules()), hide_possible_values = true)]
    rules: Vec<String>,
    /// Choose what counts as a problem [default: general, or realtime with --cpu]
    ///
    /// Everything that does not count for the goal is a note.
    #[arg(long = "for", value_name = "GOAL")]
    goal: Option<Use>,
    /// Check for a thread on this CPU [default: isolated CPUs]
    ///
    /// Without this option, checks of dedicated CPUs examine the isolated CPUs, and all other checks examine all CPUs.
    #[arg(short, long, value_name = "CPU", allow_hyphen_values = true)]
    cpu: Option<usize>,
    /// Also measure for six seconds
    ///
    /// Measures the read overhead of the clock, the pauses of a thread that never blocks, and wake-up latency.
    #[arg(long)]
    measure: bool,
    /// Exit with 1 if a problem of this severity is found
    ///
    /// The exit code is 3 if no such problem was observed, but one is likely, or a check that may find one had no
    /// result. Without this option, the exit code does not depend on the problems.
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<FailOn>,
    /// Check the system snapshot in FILE (see hpt capture)
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    host: Option<PathBuf>,
    #[command(flatten)]
    trial: TrialOptions,
}

/// Returns the names of all rules, each with the problem that it finds.
fn rules() -> impl Iterator<Item = PossibleValue> {
    THEMES.iter().flat_map(|theme| theme.rules).map(|rule| PossibleValue::new(rule.id).help(rule.title))
}

impl DoctorArguments {
    fn goal(&self) -> Goal {
        match self.goal {
            Some(goal) => goal.goal(),
            None if self.cpu.is_some() => Goal::Realtime,
            None => Goal::General,
        }
    }

    /// Returns whether fixes are tried.
    pub(crate) const fn tries(&self) -> bool {
        self.trial.tries
    }

    /// Returns the options with which another run examines the same machine in the same way, each after a space.
    fn options(&self) -> String {
        let goal = self.goal.map(|goal| format!(" --for {}", goal.goal().name()));
        let cpu = self.cpu.map(|cpu| format!(" --cpu {cpu}"));
        let host = self.host.as_ref().map(|path| format!(" --host {}", quoted(&path.to_string_lossy())));
        [goal, cpu, host].into_iter().flatten().collect()
    }
}

/// Quotes a word for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:,@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

pub(crate) fn run(arguments: &DoctorArguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let facts = MachineFacts::new(host);
    if let (Some(cpu), Some(online)) = (arguments.cpu, facts.cpus())
        && !online.contains(cpu)
    {
        // Here, the kernel's refusal states why: the CPU is offline, or it is not present.
        if captured.is_none() {
            context.pin(Some(CpuChoice::Number(cpu)))?;
        }
        return Err(Failure::NotOnline { cpu, online: online.clone() });
    }
    let goal = arguments.goal();
    let mut examined = examine(&facts, arguments.cpu, goal);
    let mut notes = context.notes();
    let measured = if arguments.measure {
        context.signals.listen()?;
        // Determine the allowed CPUs before pinning the thread, because pinning leaves only one allowed CPU.
        let cpus = hpt_realtime::allowed_cpus();
        let pinned = context.pin(arguments.cpu.map(CpuChoice::Number))?.expect("the thread is pinned by default");
        let mut parts = Parts::of(Some(pinned.cpu()), context);
        let spare = cpus.into_iter().find(|cpu| *cpu != pinned.cpu());
        let measured = measure(host, &facts, &mut examined, (&pinned, spare), context);
        parts.end("all of them");
        notes.extend(parts.notes());
        Some(measured)
    } else {
        None
    };
    // The measurement needs the verdicts of other rules.
    if !arguments.rules.is_empty() {
        examined.retain(|examined| arguments.rules.iter().any(|rule| rule == examined.rule.id));
    }
    let examination = Examination { goal, cpu: arguments.cpu, examined: &examined, measured };
    Ok(result(arguments, host, &facts, examination, context.interrupted(), notes))
}

/// Tries the fixes of the problems. `prepares` reads the command line of the measurement.
pub(crate) fn try_fixes(
    arguments: &DoctorArguments,
    context: &Context,
    prepares: Prepares<'_>,
) -> Result<Document, Failure> {
    let facts = MachineFacts::new(&context.host);
    let named = arguments.cpu.or_else(|| arguments.trial.cpu());
    // Without a CPU on the command line, this is also the CPU of hpt latency.
    let cpu = context.cpu(named.map(CpuChoice::Number)).unwrap_or(0);
    check_cpus(&[Some(cpu)])?;
    let goal = arguments.goal.map_or(Goal::Realtime, Use::goal);
    let mut examined = examine(&facts, Some(cpu), goal);
    if !arguments.rules.is_empty() {
        examined.retain(|examined| arguments.rules.iter().any(|rule| rule == examined.rule.id));
    }
    let fixes = run_time_fixes(&context.host, &facts, &examined, cpu);
    let is_cpu_named = arguments.cpu.is_some();
    let goal_word = goal_word(goal);
    let wanted = Wanted { goal, goal_word, cpu, is_cpu_named, fixes: &fixes, examined: &examined };
    trial::run(&arguments.trial, &wanted, context, prepares)
}

/// Returns the document with its text and its answer.
fn result(
    arguments: &DoctorArguments,
    host: &Host,
    facts: &MachineFacts,
    examination: Examination<'_>,
    interrupted: bool,
    notes: Vec<String>,
) -> Document {
    let answer = verdict(arguments, examination.goal, examination.examined);
    let data = document(host, facts, examination, interrupted, notes);
    let are_named = !arguments.rules.is_empty();
    let blocks = if are_named || message::is_verbose() {
        details(&data, are_named)
    } else {
        summary(&data, &arguments.options())
    };
    Document { answer, ..Document::new(data, blocks) }
}

/// Returns the answer for scripts, which depends on the problems only with `--fail-on`.
fn verdict(arguments: &DoctorArguments, goal: Goal, examined: &[Examined]) -> Answer {
    arguments.fail_on.map_or(Answer::Yes, |fail_on| answer(examined, goal, fail_on.severity(), true))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

    use hpt_document::doctor::{DoctorDocument, DoctorSeverity};

    use hpt_instrument::diagnose::{Examined, Gap, Gaps, Goal, MachineFacts, Severity, Verdict, examine, prove};

    use super::{
        DoctorArguments, Document, Examination, answer, details, document, measure::measured, quoted, result, summary,
    };
    use crate::{
        golden,
        output::{Answer, Block, Format, Look, rendered},
    };

    fn captured_machines() -> Vec<String> {
        let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hpt-sys/tests/hosts");
        let names = fs::read_dir(hosts).expect("the directory exists").map(|entry| entry.expect("readable").path());
        names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
    }

    /// The summary and the details of a machine, with the commands of all fixes.
    fn printed(name: &str, goal: Goal, cpu: Option<usize>) -> (DoctorDocument, [Vec<Block>; 2]) {
        let host = golden::captured(name);
        let facts = MachineFacts::new(&host);
        let examined = examine(&facts, cpu, goal);
        let examination = Examination { goal, cpu, examined: &examined, measured: None };
        let data = document(&host, &facts, examination, false, Vec::new());
        let blocks = [summary(&data, " --host my.capture"), details(&data, false)];
        (data, blocks)
    }

    /// The output at this width.
    fn at_width(blocks: Vec<Block>, width: u16) -> String {
        let document = Document::new(golden::empty("doctor"), blocks);
        rendered(&document, Format::Human, Look { width, color: false, verbose: false })
    }

    /// The command in a line, if there is one: after a label, or alone after an indentation.
    fn command_in(line: &str) -> Option<&str> {
        ["Details: ", "see: ", "of low severity: "].iter().find_map(|label| Some(line.split_once(label)?.1))
    }

    #[test]
    fn every_printed_command_is_one_line_that_a_shell_accepts() {
        let mut commands = BTreeSet::new();
        for name in captured_machines() {
            for (goal, cpu) in [(Goal::Realtime, None), (Goal::Realtime, Some(1)), (Goal::General, None)] {
                let (data, [summary, details]) = printed(&name, goal, cpu);
                let details = at_width(details, 60);
                let fixes = || data.rules.iter().flat_map(|rule| &rule.fixes);
                for command in fixes().flat_map(|fix| &fix.commands) {
                    assert!(details.lines().any(|line| line.trim_start() == command), "{command}\n{details}");
                    commands.insert(command.clone());
                }
                let summary = at_width(summary, 60);
                for line in summary.lines() {
                    let alone = line.trim_start();
                    let is_a_fix = fixes().any(|fix| fix.commands.iter().any(|command| command == alone));
                    let command = if is_a_fix { Some(alone) } else { command_in(line) };
                    commands.extend(command.map(str::to_owned));
                }
                let first = data.rules.iter().filter(|rule| rule.severity == Some(DoctorSeverity::High));
                for rule in first {
                    assert!(summary.contains(&rule.title), "{} on {name}:\n{summary}", rule.rule);
                    let fix = rule.fixes.first().filter(|fix| fix.commands_suffice && fix.commands.len() == 1);
                    let expected = fix.map_or_else(
                        || format!("see: hpt doctor {} --host my.capture", rule.rule),
                        |fix| fix.commands[0].clone(),
                    );
                    assert!(summary.lines().any(|line| line.trim_start() == expected), "{expected}\n{summary}");
                }
            }
        }
        assert!(commands.len() > 50 && commands.iter().any(|command| command.chars().count() > 60), "{commands:?}");
        for command in commands {
            let output = Command::new("sh").args(["-n", "-c", &command]).output().expect("there is a shell");
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    #[test]
    fn the_summary_fits_on_a_screen_unless_more_problems_of_high_severity_are_found() {
        for name in captured_machines() {
            for goal in Goal::ALL {
                for cpu in [None, Some(1)] {
                    let (data, [summary, _]) = printed(&name, goal, cpu);
                    let text = at_width(summary, 80);
                    // One line is left for the prompt.
                    assert!(text.lines().count() <= 23 || data.high > 7, "{name} {goal:?}:\n{text}");
                    for line in text.lines().filter(|line| line.chars().count() > 80) {
                        let is_a_command = line.starts_with("     ") || command_in(line).is_some();
                        assert!(is_a_command, "{name}: {line}");
                    }
                }
            }
        }
    }

    /// Creates three gaps of this length, one second apart.
    fn gaps(length_ms: u64) -> Gaps {
        let length = Duration::from_millis(length_ms);
        let gaps = [0, 1, 2].map(|second| Gap { began: Duration::from_secs(second), length, waited: Some(length) });
        Gaps { gaps: gaps.into(), window: Duration::from_millis(3_300) }
    }

    fn arguments() -> DoctorArguments {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: DoctorArguments,
        }
        <Line as clap::Parser>::parse_from(["hpt", "--cpu", "1", "--measure"]).arguments
    }

    #[test]
    fn a_measurement_is_printed_exactly() {
        let host = golden::host();
        let facts = MachineFacts::new(&host);
        let mut examined = examine(&facts, Some(1), Goal::Realtime);
        prove(&mut examined, &facts, 1, &gaps(52));
        let woken = measured("wake-up latency", &["idle-states"], "p50 7 µs".to_owned());
        let examination =
            Examination { goal: Goal::Realtime, cpu: Some(1), examined: &examined, measured: Some(vec![woken]) };
        let printed = result(&arguments(), &host, &facts, examination, true, vec!["a note".to_owned()]);
        golden::assert("doctor-measured", &printed);
    }

    #[test]
    fn a_likely_problem_leaves_the_answer_unknown_and_an_observed_one_decides_it() {
        let host = golden::host();
        let facts = MachineFacts::new(&host);
        let mut examined = examine(&facts, None, Goal::Realtime);
        let of = |examined: &[Examined], severity| answer(examined, Goal::Realtime, severity, false);
        examined.retain(|examined| examined.rule.id == "fair-server" || examined.rule.id == "turbo");
        assert_eq!(of(&examined, Severity::Low), Answer::Unknown);
        prove(&mut examined, &facts, 1, &gaps(50));
        assert_eq!(of(&examined, Severity::Low), Answer::No);
        examined.retain(|examined| !matches!(examined.verdict, Verdict::Problem(_)));
        assert_eq!((examined.len(), of(&examined, Severity::Low)), (1, Answer::Yes));
    }

    #[test]
    fn a_check_without_a_result_leaves_the_answer_unknown_if_it_may_find_such_a_problem() {
        let mut examined = examine(&MachineFacts::new(&golden::host()), None, Goal::Realtime);
        examined.retain(|examined| examined.rule.id == "governor");
        for (needs_root, is_unlikely, expected) in [
            (false, false, [Answer::Unknown, Answer::Unknown]),
            (true, false, [Answer::Yes, Answer::Unknown]),
            (false, true, [Answer::Yes, Answer::Yes]),
        ] {
            examined[0].verdict = Verdict::Unknown { why: "no file".to_owned(), needs_root, is_unlikely };
            let with = |goal, severity| [false, true].map(|root_counts| answer(&examined, goal, severity, root_counts));
            assert_eq!(with(Goal::Realtime, Severity::Low), expected, "{:?}", examined[0].verdict);
            // The rule has only notes for other goals, and no problem of high severity.
            assert_eq!(with(Goal::General, Severity::Low), [Answer::Yes; 2]);
            assert_eq!(with(Goal::Realtime, Severity::High), [Answer::Yes; 2]);
        }
    }

    #[test]
    fn a_file_name_is_quoted_for_the_shell_if_necessary() {
        assert_eq!(quoted("/tmp/my-pi.capture"), "/tmp/my-pi.capture");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; $x"), r"'it'\''s; $x'");
    }
}
