//! Examines a machine: finds problems that impair latency and timekeeping.

mod details;
mod document;
mod measure;
mod summary;

use std::path::PathBuf;

use clap::{
    Args, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use hpt_core::Host;
use hpt_instrument::diagnose::{Examined, Goal, MachineFacts, Severity, THEMES, examine};

use self::{
    details::details,
    document::{Examination, answer, document},
    measure::measure,
    summary::summary,
};
use crate::{
    arguments::{CpuChoice, word_with_help},
    context::Context,
    exit::Failure,
    output::{Answer, Document, message},
    sampling::cpu_absences::Parts,
};

/// Returns what counts as a problem for a goal, for the help.
const fn goal_help(goal: Goal) -> &'static str {
    match goal {
        Goal::General => "Only faults and misconfiguration are problems",
        Goal::Timekeeping => "Accurate time and accurate intervals",
        Goal::Realtime => "Threads that must react within a bounded time",
        Goal::Benchmarks => "Repeatable measurements of the speed of programs",
    }
}

/// Parses the least severity with which a problem determines the exit code. Notes never do.
fn fail_on() -> impl TypedValueParser<Value = Severity> {
    let help = [
        (Severity::High, "A problem that delays programs by a millisecond or more, or makes time wrong"),
        (Severity::Low, "Any problem"),
    ];
    let values = help.map(|(severity, help)| PossibleValue::new(severity.name()).help(help));
    let severity =
        move |name: String| help.iter().find(|(severity, _)| severity.name() == name).map(|(severity, _)| *severity);
    PossibleValuesParser::new(values).map(move |name| severity(name).expect("one of the values"))
}

/// The options of an examination.
#[derive(Debug, Default, Args)]
pub(crate) struct ExaminationArguments {
    /// Check only these rules, and print their details
    ///
    /// hpt doctor -v prints the names of all rules.
    #[arg(value_name = "RULE", value_parser = PossibleValuesParser::new(rules()), hide_possible_values = true)]
    pub(crate) rules: Vec<String>,
    /// Choose what counts as a problem [default: general, or realtime with --cpu]
    ///
    /// Everything that does not count for the goal is a note.
    #[arg(long = "for", value_name = "GOAL", value_parser = word_with_help(goal_help))]
    pub(crate) goal: Option<Goal>,
    /// Check for a thread on this CPU [default: isolated CPUs]
    ///
    /// Without this option, checks of dedicated CPUs examine the isolated CPUs, and all other checks examine all CPUs.
    #[arg(short, long, value_name = "CPU", allow_hyphen_values = true)]
    pub(crate) cpu: Option<usize>,
    /// Also measure for six seconds
    ///
    /// Measures the read overhead of the clock, the pauses of a thread that never blocks, and wake-up latency.
    #[arg(long)]
    measure: bool,
    /// Exit with 1 if a problem of this severity is found
    ///
    /// The exit code is 3 if no such problem was observed, but one is likely, or a check that may find one had no
    /// result. Without this option, the exit code does not depend on the problems.
    #[arg(long, value_name = "SEVERITY", value_parser = fail_on())]
    fail_on: Option<Severity>,
    /// Check the system snapshot in FILE (see hpt capture)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "measure")]
    pub(crate) host: Option<PathBuf>,
}

/// Returns the names of all rules, each with the problem that it finds.
fn rules() -> impl Iterator<Item = PossibleValue> {
    THEMES.iter().flat_map(|theme| theme.rules).map(|rule| PossibleValue::new(rule.id).help(rule.title))
}

impl ExaminationArguments {
    fn goal(&self) -> Goal {
        match self.goal {
            Some(goal) => goal,
            None if self.cpu.is_some() => Goal::Realtime,
            None => Goal::General,
        }
    }

    /// Returns the options with which another run examines the same machine in the same way, each after a space.
    fn options(&self) -> String {
        let goal = self.goal.map(|goal| format!(" --for {}", goal.name()));
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

pub(crate) fn run(arguments: &ExaminationArguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let facts = MachineFacts::new(host);
    let online = arguments.cpu.zip(facts.cpus()).filter(|(cpu, online)| !online.contains(*cpu));
    if let Some((cpu, online)) = online {
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
    let (cpu, interrupted) = (arguments.cpu, context.interrupted());
    let examination = Examination { goal, cpu, examined: &examined, measured, interrupted, notes };
    Ok(result(arguments, host, &facts, examination))
}

/// Returns the document with its text and its answer.
fn result(
    arguments: &ExaminationArguments,
    host: &Host,
    facts: &MachineFacts,
    examination: Examination<'_>,
) -> Document {
    let answer = verdict(arguments, examination.goal, examination.examined);
    let data = document(host, facts, examination);
    let are_named = !arguments.rules.is_empty();
    let blocks = if are_named || message::is_verbose() {
        details(&data, are_named)
    } else {
        summary(&data, &arguments.options())
    };
    Document { answer, ..Document::new(data, blocks) }
}

/// Returns the answer for scripts, which depends on the problems only with `--fail-on`.
fn verdict(arguments: &ExaminationArguments, goal: Goal, examined: &[Examined]) -> Answer {
    arguments.fail_on.map_or(Answer::Yes, |fail_on| answer(examined, goal, fail_on, true))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Duration};

    use hpt_document::doctor::DoctorDocument;

    use hpt_instrument::diagnose::{Examined, Gap, Gaps, Goal, MachineFacts, Severity, Verdict, examine, prove};

    use super::{
        Document, Examination, ExaminationArguments, answer, details, document, measure::measured, quoted, result,
        summary,
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
        let examination =
            Examination { goal, cpu, examined: &examined, measured: None, interrupted: false, notes: Vec::new() };
        let data = document(&host, &facts, examination);
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
                let first = data.rules.iter().filter(|rule| rule.severity == Some(Severity::High));
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

    fn arguments() -> ExaminationArguments {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: ExaminationArguments,
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
        let examination = Examination {
            goal: Goal::Realtime,
            cpu: Some(1),
            examined: &examined,
            measured: Some(vec![woken]),
            interrupted: true,
            notes: vec!["a note".to_owned()],
        };
        let printed = result(&arguments(), &host, &facts, examination);
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
