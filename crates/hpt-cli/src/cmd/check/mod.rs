//! `hpt check`: runs the steps of a file, each a measurement with limits, and reports the verdicts as a table, JSON and
//! JUnit XML. The caller provides the function that reads a step's command line.

mod file;
mod init;
mod junit;
mod notes;
mod terminal;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use clap::{Args, value_parser};
use hpt_document::check::{CheckDocument, CheckRow, CheckStep, CheckStepState, CheckVerdict};

use self::{file::Step, notes::notes_of, terminal::page};
use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::head_of,
    exit::{Failure, causes},
    measurements::Request,
    output::{
        Answer, Document,
        files::{self, Unfinished, WriteError},
        message, rounded,
    },
    sampling::{
        conditions::REFUSAL,
        limits::{
            quantity::Limit,
            verdict::{self, verdicts},
        },
    },
};

const EXAMPLES: &str = "  \
  hpt check --init                        measure now, and write hpt-check.toml
  hpt check                               run the steps of hpt-check.toml
  hpt check realtime.toml --junit check.xml
  hpt check realtime.toml --step timer --json";

const KIND: &str = "check";
/// The file without FILE.
const FILE: &str = "hpt-check.toml";
/// The maximum size of a file.
const LARGEST: u64 = 1 << 20;

/// Run measurements with limits from a file, and report verdicts
///
/// FILE is a TOML file with steps: each has a name, the command line of a measurement (bench, sleep, or latency timer,
/// poll, stall, pairs or gpio) and its limits. All steps run, whatever their verdicts. The exit code is that of the
/// worst verdict: 1 (a limit was exceeded) is worse than 3 (unknown), and 3 is worse than 0. --init writes a file with
/// limits from what this machine does now. Ready files are in /usr/share/hpt/check.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a limit was exceeded")), EXAMPLES), args(without_metrics()))]
pub(crate) struct CheckArguments {
    /// File with the steps
    #[arg(value_name = "FILE", default_value = FILE)]
    file: PathBuf,
    /// Also write the verdicts to FILE as JUnit XML
    #[arg(long, value_name = "FILE", conflicts_with = "init")]
    junit: Option<PathBuf>,
    /// Run only these steps, separated by commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "init")]
    step: Vec<String>,
    /// Measure now, and write FILE with limits from the result
    #[arg(long)]
    init: bool,
    /// Limits are at least FACTOR times the values that were seen
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0, value_parser = factor, requires = "init")]
    headroom: f64,
    /// Measure each step N times, from 2 to 100; the limits follow from the highest value and from the differences
    /// between runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(2..=100), requires = "init")]
    rounds: u32,
    /// Replace FILE if it exists
    #[arg(long, requires = "init")]
    force: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1.0..=1_000.0).contains(factor));
    factor.ok_or_else(|| "expected a number from 1 to 1000, for example 3 or 1.5".to_owned())
}

/// A step whose command line is valid.
struct PreparedStep {
    name: String,
    request: Request,
    limits: Vec<Limit>,
}

pub(crate) fn run(arguments: &CheckArguments, context: &Context) -> Result<Document, Failure> {
    if arguments.init {
        return init(arguments, context);
    }
    let path = &arguments.file;
    let wrong = |why| Failure::NotACheck { path: path.clone(), why };
    let steps = file::steps(&read(path)?).map_err(wrong)?;
    if let Some(name) = arguments.step.iter().find(|name| !steps.iter().any(|step| step.name == **name)) {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        return Err(wrong(format!("it has no step {name:?}; its steps are {}", names.join(", "))));
    }
    // The whole file must be valid, even if only some of its steps run.
    let mut steps = steps.iter().map(prepare).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    if !arguments.step.is_empty() {
        steps.retain(|step| arguments.step.contains(&step.name));
    }
    if let Some(path) = &arguments.junit {
        files::check(path).map_err(|cause| Failure::Write(WriteError { path: path.clone(), cause }))?;
    }
    // A step may change settings of the system, and restores them at its end. No signal may end hpt before that.
    context.signals.listen_until_the_end()?;
    context.signals.listen_for_requests()?;
    let (data, mut warnings) = measure(path, &steps, context);
    let mut answer = answer_of(data.verdict);
    if let Some(path) = &arguments.junit {
        if let Err(cause) = files::replace(path, junit::text(&data, host_name().as_deref()).as_bytes()) {
            warnings.push(causes(&WriteError { path: path.clone(), cause }));
            answer = answer.and(Answer::Unknown);
        }
    }
    let blocks = page(&data);
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns the name of the machine, for programs that collect the verdicts of several machines.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn read(path: &Path) -> Result<String, Failure> {
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => Failure::NoCheck { path: path.to_owned(), cause },
        _ => Failure::Unreadable { path: path.to_owned(), cause },
    };
    message::detail(format_args!("reading {}", path.display()));
    let wrong = |why: &str| Failure::NotACheck { path: path.to_owned(), why: why.to_owned() };
    let content = files::read(path, LARGEST).map_err(|cause| match cause.kind() {
        io::ErrorKind::FileTooLarge => wrong(&cause.to_string()),
        _ => failed(cause),
    })?;
    String::from_utf8(content).map_err(|_| wrong("it is not UTF-8"))
}

/// Checks the command line and the limits of a step.
fn prepare(step: &Step) -> Result<PreparedStep, String> {
    let named = |why| format!("step {:?}: {why}", step.name);
    let mut request = Request::read(&step.words).map_err(named)?;
    step.limits.iter().try_for_each(|limit| request.limit(limit)).map_err(named)?;
    let limits = request.limits().map_err(named)?.clone();
    if limits.is_empty() {
        return Err(format!("step {:?} has no limits, so it could not fail", step.name));
    }
    Ok(PreparedStep { name: step.name.clone(), request, limits })
}

/// Runs all steps. Returns the result and the warnings of the steps.
fn measure(path: &Path, steps: &[PreparedStep], context: &Context) -> (CheckDocument, Vec<String>) {
    let (began, start) = (SystemTime::now(), Instant::now());
    let (mut done, mut results, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for step in steps {
        // A request during the previous step is not for this one.
        let _ = context.signals.take_request();
        let (done_step, rows, said) = one(step, context);
        done.push(done_step);
        results.extend(rows);
        warnings.extend(said.into_iter().map(|warning| format!("{}: {warning}", step.name)));
    }
    let mut notes = [context.notes(), warnings.clone()].concat();
    for step in &done {
        let of_step = notes_of(step).filter(|note| !context.notes().iter().any(|own| own == note));
        let of_step: Vec<String> = of_step.map(|note| format!("{}: {note}", step.name)).collect();
        notes.extend(of_step.into_iter().filter(|note| !warnings.contains(note)));
    }
    let answers = done.iter().map(|step: &CheckStep| answer_of(step.verdict));
    let verdict = verdict_of(answers.fold(Answer::Yes, Answer::and));
    let data = CheckDocument {
        head: head_of(KIND, &context.host),
        file: path.to_string_lossy().into_owned(),
        init: false,
        started_at: humantime::format_rfc3339_seconds(began).to_string(),
        elapsed_s: rounded(start.elapsed().as_secs_f64()),
        interrupted: context.interrupted(),
        verdict,
        steps: done,
        results,
        notes,
    };
    (data, warnings)
}

/// Runs one step. Returns its result, its limits, and its warnings.
fn one(step: &PreparedStep, context: &Context) -> (CheckStep, Vec<CheckRow>, Vec<String>) {
    let begun = Instant::now();
    let outcome = (!context.interrupted()).then(|| step.request.measure(&context.of_a_part()));
    let rows = |limits: Vec<_>| limits.into_iter().map(|limit| CheckRow { step: step.name.clone(), limit }).collect();
    let without = |reason: &str| {
        let mut limits = verdicts(&step.limits, &[]);
        limits.iter_mut().for_each(|limit| limit.reason = Some(reason.to_owned()));
        rows(limits)
    };
    let mut done = CheckStep {
        name: step.name.clone(),
        command: step.request.line().to_owned(),
        state: CheckStepState::NotStarted,
        verdict: CheckVerdict::Unknown,
        reason: None,
        elapsed_s: rounded(begun.elapsed().as_secs_f64()),
        document: None,
    };
    match outcome {
        None => {
            let reason = "the step was not started";
            done.reason = Some(reason.to_owned());
            (done, without(reason), Vec::new())
        }
        Some(Err(failure)) => {
            let reason = failure.text();
            (done.state, done.reason) = (CheckStepState::Failed, Some(reason.clone()));
            (done, without(&reason), Vec::new())
        }
        Some(Ok(document)) => {
            let limits = document.data.limits().to_vec();
            let is_worse = document.answer != verdict::answer(&limits);
            done.state =
                if document.data.interrupted() { CheckStepState::Interrupted } else { CheckStepState::Measured };
            done.verdict = verdict_of(document.answer);
            done.reason = is_worse.then(|| own_reason(&document));
            done.document = Some(document.value());
            (done, rows(limits), document.warnings)
        }
    }
}

/// Returns why the answer of a step is worse than the verdicts on its limits.
fn own_reason(document: &Document) -> String {
    if document.warnings.is_empty() {
        let no = document.answer == Answer::No;
        let text = if no { "a sample exceeded --stop-above, or an edge was lost" } else { "nothing was measured" };
        let refusal = document.data.notes().iter().find(|note| !no && note.contains(REFUSAL));
        return refusal.cloned().unwrap_or_else(|| text.to_owned());
    }
    document.warnings.join("; ")
}

const fn answer_of(verdict: CheckVerdict) -> Answer {
    match verdict {
        CheckVerdict::Held => Answer::Yes,
        CheckVerdict::Exceeded => Answer::No,
        CheckVerdict::Unknown => Answer::Unknown,
    }
}

const fn verdict_of(answer: Answer) -> CheckVerdict {
    match answer {
        Answer::Yes => CheckVerdict::Held,
        Answer::No => CheckVerdict::Exceeded,
        Answer::Unknown => CheckVerdict::Unknown,
    }
}

/// Measures the usual steps, and writes a file with limits from the result.
fn init(arguments: &CheckArguments, context: &Context) -> Result<Document, Failure> {
    let path = &arguments.file;
    let failed = |cause| Failure::NothingWritten { path: path.clone(), cause };
    if fs::symlink_metadata(path).is_ok() && !arguments.force {
        return Err(Failure::CheckThereAlready(path.clone()));
    }
    // Create the file first, so that nothing is measured if it cannot be written.
    let mut file = Unfinished::next_to(path).map_err(failed)?;
    context.signals.listen_until_the_end()?;
    context.signals.listen_for_requests()?;
    let (mut data, mut warnings, rounds) = measure_rounds(arguments, &init::steps(), context);
    data.init = true;
    data.results = data
        .results
        .iter()
        .filter_map(|row| {
            let limit = init::with_headroom(&init::in_all_rounds(row, &rounds)?, arguments.headroom);
            Some(CheckRow { step: row.step.clone(), limit })
        })
        .collect();
    for step in &mut data.steps {
        let has_limits = data.results.iter().any(|row| row.step == step.name);
        step.verdict = if has_limits { CheckVerdict::Held } else { CheckVerdict::Unknown };
        if !has_limits && step.reason.is_none() {
            step.reason = Some("no value was seen from which a limit could follow".to_owned());
        }
    }
    let is_complete = data.results.iter().len() > 0 && !data.interrupted;
    let failed_steps = data.steps.iter().filter(|step| step.state == CheckStepState::Failed);
    let left_out: Vec<String> = failed_steps
        .map(|step| format!("step {:?} failed: {}", step.name, step.reason.as_deref().unwrap_or("unknown")))
        .collect();
    data.verdict = if is_complete && left_out.is_empty() { CheckVerdict::Held } else { CheckVerdict::Unknown };
    warnings.extend(left_out);
    let mut document = Document::new(data.clone(), Vec::new());
    if is_complete {
        let text = init::text(&data, (arguments.headroom, arguments.rounds));
        file.fill(text.as_bytes()).and_then(|()| file.put(arguments.force)).map_err(failed)?;
        document.blocks = page(&data);
        document.answer = answer_of(data.verdict);
    } else {
        data.notes.push(format!("{} was not written, because the measurement is incomplete", path.display()));
        data.init = false;
        document = Document::new(data.clone(), page(&data));
        document.answer = Answer::Unknown;
    }
    document.warnings = warnings;
    Ok(document)
}

/// Measures all steps several times, in turns. Returns the last result with the duration of all rounds, the warnings,
/// and the rows of each round.
fn measure_rounds(
    arguments: &CheckArguments,
    steps: &[PreparedStep],
    context: &Context,
) -> (CheckDocument, Vec<String>, Vec<Vec<CheckRow>>) {
    let (mut data, mut warnings) = measure(&arguments.file, steps, context);
    let mut rounds = vec![data.results.clone()];
    while rounds.len() < arguments.rounds as usize && !context.interrupted() {
        let (next, said) = measure(&arguments.file, steps, context);
        rounds.push(next.results.clone());
        warnings.extend(said);
        let (started_at, elapsed_s) = (data.started_at, rounded(data.elapsed_s + next.elapsed_s));
        data = CheckDocument { started_at, elapsed_s, ..next };
    }
    (data, warnings, rounds)
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_document::check::{CheckDocument, CheckRow, CheckStep, CheckStepState, CheckVerdict};

    use super::{answer_of, factor, verdict_of};
    use crate::{golden, output::Answer, sampling::limits::table::tests::examples};

    /// A check with a step of each state.
    pub(super) fn example() -> CheckDocument {
        let [held, exceeded, unknown] = examples().try_into().expect("three");
        let step = |name: &str, state, verdict, reason: Option<&str>| CheckStep {
            name: name.to_owned(),
            command: format!("hpt latency timer --limit max=5ms # {name}"),
            state,
            verdict,
            reason: reason.map(str::to_owned),
            elapsed_s: 1.5,
            document: None,
        };
        let refused = "cannot set SCHED_FIFO: operation not permitted";
        let mut failed = unknown.clone();
        (failed.reason, failed.worst_row) = (Some(refused.to_owned()), None);
        let mut late = unknown.clone();
        (late.reason, late.worst_row) = (Some("the step was not started".to_owned()), None);
        let row = |step: &str, limit| CheckRow { step: step.to_owned(), limit };
        CheckDocument {
            head: golden::head("check"),
            file: "realtime <pc>.toml".to_owned(),
            init: false,
            started_at: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 4.5,
            interrupted: true,
            verdict: CheckVerdict::Exceeded,
            steps: vec![
                step("timer", CheckStepState::Measured, CheckVerdict::Exceeded, None),
                step("fifo", CheckStepState::Failed, CheckVerdict::Unknown, Some(refused)),
                step("late", CheckStepState::NotStarted, CheckVerdict::Unknown, Some("the step was not started")),
            ],
            results: vec![
                row("timer", held),
                row("timer", exceeded),
                row("timer", unknown),
                row("fifo", failed),
                row("late", late),
            ],
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn verdicts_are_answers() {
        for answer in [Answer::Yes, Answer::No, Answer::Unknown] {
            assert_eq!(answer_of(verdict_of(answer)), answer);
        }
    }

    #[test]
    fn a_factor_is_at_least_one() {
        assert_eq!((factor("1.5"), factor("3")), (Ok(1.5), Ok(3.0)));
        assert!(["0.9", "0", "-1", "NaN", "inf", "many", ""].iter().all(|wrong| factor(wrong).is_err()));
    }
}
