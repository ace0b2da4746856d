//! `hpt clocksource`: what the kernel tells the time by, what else it could, and what that would cost.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use hpt_core::{
    Host,
    host::{BootParameter, KnownParameter, LogLine},
    knobs::{ClockSourceOutline, Knob, KnobError, KnownClockSource, outline_clock_sources},
    realtime::Pinned,
};
use serde::Serialize;

use crate::{
    ask::consent,
    away::{self, Away, Parts},
    cli::{CpuChoice, after_help, calls, cpu_choice, without_metrics},
    clock_sources::{Comparison, Cost, NotTaken, Timing, begin, did_not_stay, measure, offered, sources},
    context::Context,
    exit::{Failure, causes},
    machine::Head,
    progress::Progress,
    realtime::pinned_to,
    render::{Align, Answer, Block, Cell, Column, Document, Table, Tone, remarks, rounded, short_time},
};

const EXAMPLES: &str = "  \
  hpt clocksource                    what there is, and why something is missing
  sudo hpt clocksource compare       what clocks cost under each, and back again
  sudo hpt clocksource set hpet      another one, until hpt restore";
const SET_EXAMPLES: &str = "  \
  sudo hpt clocksource set hpet       asks before it does it
  sudo hpt clocksource set tsc --yes  for scripts
  sudo hpt restore                    back to what it was before hpt changed it";
const COMPARE_EXAMPLES: &str = "  \
  sudo hpt clocksource compare                  all that the kernel offers
  sudo hpt clocksource compare --calls 1e6 --yes --format csv > costs.csv
  sudo hpt clocksource compare --source tsc,hpet";

/// The clocks whose readings depend on the clock source, and those that do not, beside them.
const CLOCKS: [&str; 7] =
    ["realtime", "monotonic", "monotonic-raw", "boottime", "tai", "realtime-coarse", "monotonic-coarse"];
/// What a read is taken to cost when the length of the run is guessed, for the progress bar: that of a device, and three reads for each single one.
const GUESSED_READ: Duration = Duration::from_micros(4);

/// Say what the kernel tells the time by, what else it could, and what that costs
///
/// Each clock source stands with its cost and its risk; one that the kernel dropped, with what its log says of it; and the boot parameters that bear on
/// them, with when they help.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Explain the machine in this file instead (hpt capture)
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Set(SetArguments),
    Compare(CompareArguments),
}

/// Make another clock source the current one, and measure a clock before and after
///
/// For the whole machine, until the next boot or `hpt restore`. Needs root, and asks before it does it. The kernel may override the wish: what it has
/// afterwards is read back.
#[derive(Debug, Args)]
#[command(after_help = after_help(SET_EXAMPLES))]
struct SetArguments {
    /// The clock source, as the kernel calls it
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    run: RunArguments,
}

/// Measure the kernel's clocks under every clock source, and put the first one back
///
/// Needs root, and asks before it does it. The first one is put back also after Ctrl-C, SIGTERM, SIGHUP or a panic; after SIGKILL by `hpt restore`.
#[derive(Debug, Args)]
#[command(after_help = after_help(COMPARE_EXAMPLES))]
struct CompareArguments {
    /// Measure under this clock source; may be given several times, or with commas [default: all that the kernel offers]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    source: Vec<String>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Read each clock so many times in a row; 1e6 is understood
    #[arg(long, value_name = "N", default_value = "20000", value_parser = calls)]
    calls: u64,
    /// Run on this CPU; `any` does not pin [default: the highest allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    /// Keep the journal of what is changed in this folder [default: /run/hpt]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
}

/// One clock source, for programs.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    available: bool,
    current: bool,
    what: Option<&'static str>,
    cost: Option<&'static str>,
    risk: Option<&'static str>,
    known_because: &'static str,
    log_says: Vec<String>,
}

/// What came of reading the kernel's log.
#[derive(Debug, Serialize)]
struct Log {
    readable: bool,
    from_the_beginning: bool,
    reason: Option<String>,
    remedy: Option<&'static str>,
}

/// A boot parameter.
#[derive(Debug, Serialize)]
struct Parameter {
    parameter: String,
    set: bool,
    effect: Option<&'static str>,
    helps: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct ListData {
    #[serde(flatten)]
    head: Head,
    sources: Vec<Row>,
    log: Log,
    command_line_readable: bool,
    boot_parameters: Vec<Parameter>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct RunData {
    #[serde(flatten)]
    head: Head,
    cpu: Option<usize>,
    stopwatch: String,
    before: String,
    after: Option<String>,
    wanted: Vec<String>,
    not_taken: Vec<NotTaken>,
    journal: String,
    interrupted: bool,
    away: Vec<Away>,
    results: Vec<Cost>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    match (&arguments.action, &arguments.host) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("--host explains a captured machine: nothing of it can be set or measured"))
        }
        (None, file) => {
            let captured = file.as_deref().map(Context::captured).transpose()?;
            Ok(list(captured.as_ref().unwrap_or(&context.host), context.notes()))
        }
        (Some(Action::Set(set)), None) => set_one(set, context),
        (Some(Action::Compare(compare)), None) => compare_all(compare, context),
    }
}

// --- what there is ---

fn list(host: &Host, notes: Vec<String>) -> Document {
    let outline = outline_clock_sources(host);
    let set = host.boot_parameters();
    let data = ListData {
        head: Head::of("clocksource", host),
        sources: rows(&outline),
        log: log(&outline),
        command_line_readable: set.is_some(),
        boot_parameters: parameters(host, &set.unwrap_or_default()),
        notes,
    };
    let answer = if data.sources.is_empty() { Answer::Unknown } else { Answer::Yes };
    let blocks = list_page(&data);
    Document { answer, ..Document::new(&data, "sources", blocks) }
}

fn rows(outline: &ClockSourceOutline) -> Vec<Row> {
    let known = |known: Option<&'static KnownClockSource>| {
        (known.map(|known| known.what), known.map(|known| known.cost), known.map(|known| known.risk))
    };
    let listed = outline.listed.iter().map(|source| {
        let (what, cost, risk) = known(source.known);
        Row {
            name: source.name.clone(),
            available: true,
            current: source.current,
            what,
            cost,
            risk,
            known_because: "the kernel offers it",
            log_says: Vec::new(),
        }
    });
    let absent = outline.absent.iter().map(|source| {
        let (what, cost, risk) = known(source.known);
        Row {
            name: source.name.clone(),
            available: false,
            current: false,
            what,
            cost,
            risk,
            known_because: source.had,
            log_says: source.said.iter().map(log_line).collect(),
        }
    });
    listed.chain(absent).collect()
}

/// As dmesg prints it.
fn log_line(line: &LogLine) -> String {
    format!("[{:5}.{:06}] {}", line.at_us / 1_000_000, line.at_us % 1_000_000, line.text)
}

fn log(outline: &ClockSourceOutline) -> Log {
    match &outline.log {
        Ok(from_the_beginning) => {
            Log { readable: true, from_the_beginning: *from_the_beginning, reason: None, remedy: None }
        }
        Err(reason) => Log {
            readable: false,
            from_the_beginning: false,
            reason: Some(reason.to_string()),
            remedy: reason.remedy(),
        },
    }
}

/// Those that are set and bear on clock sources, and those that could be.
fn parameters(host: &Host, set: &[BootParameter]) -> Vec<Parameter> {
    let set: Vec<&BootParameter> = set.iter().filter(|parameter| parameter.bears_on_clock_sources()).collect();
    let is_set = |known: &KnownParameter| set.iter().any(|parameter| parameter.known() == Some(known));
    let now = set.iter().map(|parameter| Parameter {
        parameter: parameter.text.clone(),
        set: true,
        effect: parameter.known().map(|known| known.effect),
        helps: parameter.known().map(|known| known.helps),
    });
    let others = KnownParameter::all(host.facts().architecture).filter(|known| !is_set(known));
    let others = others.map(|known| Parameter {
        parameter: known.text.to_owned(),
        set: false,
        effect: Some(known.effect),
        helps: Some(known.helps),
    });
    now.chain(others).collect()
}

fn list_page(data: &ListData) -> Vec<Block> {
    let mut blocks = vec![Block::Facts(data.head.machine.facts())];
    for row in &data.sources {
        let state = match (row.available, row.current) {
            (true, true) => "in use",
            (true, false) => "available",
            (false, _) => "not on the kernel's list",
        };
        let unknown = "not known to hpt";
        let mut lines = vec![line("is", row.what.unwrap_or(unknown), Tone::Plain)];
        lines.extend(row.cost.map(|cost| line("costs", cost, Tone::Plain)));
        lines.extend(row.risk.map(|risk| line("risks", risk, Tone::Plain)));
        if !row.available {
            lines.push(line("missing", &missing(row, &data.log), Tone::Bad));
            lines.extend(row.log_says.iter().map(|said| line("log", said, Tone::Plain)));
        }
        blocks.push(Block::Section(format!("{}: {state}", row.name), lines));
    }
    if data.sources.is_empty() {
        let text = "Nothing can be told: /sys/devices/system/clocksource cannot be read; mount /sys.";
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.push(Block::Text(match (&data.log.reason, data.log.from_the_beginning) {
        (Some(reason), _) => {
            let remedy = data.log.remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
            format!("The kernel's log was not read, so what it dropped, and why, is not known: {reason}{remedy}.")
        }
        (None, true) => "The kernel's log was read from its beginning.".to_owned(),
        (None, false) => "The kernel's log was read, and has forgotten its beginning.".to_owned(),
    }));
    let parameters = |set: bool| data.boot_parameters.iter().filter(move |parameter| parameter.set == set);
    let now: Vec<Vec<Cell>> = parameters(true)
        .map(|parameter| {
            let effect = parameter.effect.unwrap_or("bears on clock sources; this value is not known to hpt");
            vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(effect)]
        })
        .collect();
    blocks.push(match (data.command_line_readable, now.is_empty()) {
        (false, _) => {
            Block::Text("Which boot parameters are set is not known: /proc/cmdline cannot be read.".to_owned())
        }
        (true, true) => Block::Text("No boot parameter is set that bears on clock sources.".to_owned()),
        (true, false) => Block::Section("Boot parameters that are set".to_owned(), now),
    });
    let others = parameters(false).map(|parameter| {
        let (effect, helps) = (parameter.effect.unwrap_or_default(), parameter.helps.unwrap_or_default());
        vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(format!("{effect}. Helps {helps}"))]
    });
    blocks.push(Block::Section("Boot parameters that may help".to_owned(), others.collect()));
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
}

fn line(name: &str, text: &str, tone: Tone) -> Vec<Cell> {
    vec![Cell::faint(format!("  {name}")), Cell(text.to_owned(), tone)]
}

/// Why a source is not on the list, as far as that is known.
fn missing(row: &Row, log: &Log) -> String {
    let why = match (row.log_says.is_empty(), log.readable, log.from_the_beginning) {
        (false, ..) => "the kernel's log says why",
        (true, false, _) => "the log, which would say why, was not read",
        (true, true, true) => {
            "the log says nothing of it: it may have been unbound, or never fit for high-resolution timers"
        }
        (true, true, false) => "what is left of the log says nothing of it",
    };
    format!("{}; {why}", row.known_because)
}

// --- another one ---

fn warning(from: &str, to: &str) -> String {
    let known = KnownClockSource::named(to);
    let known =
        known.map(|known| format!("\nhpt: {to} costs: {}. Its risk: {}.", known.cost, known.risk)).unwrap_or_default();
    format!(
        "this makes {to} the clock source of the whole machine instead of {from}: every program's readings of clocks cost what it costs.{known}\n\
         hpt: CLOCK_MONOTONIC_RAW goes on at its rate, and the kernel counts as not synchronised until a time daemon speaks again.\n\
         hpt: It stays so until the next boot, or until `hpt restore`."
    )
}

fn set_one(arguments: &SetArguments, context: &Context) -> Result<Document, Failure> {
    let (name, run) = (&arguments.name, &arguments.run);
    let sources = sources(context)?;
    offered(context, &sources, name)?;
    let journal = context.journal(run.store.as_deref())?;
    let knob = Knob::clock_source();
    let is_so = sources.current == *name;
    let may = knob.may_be_set();
    if !is_so {
        knob.may_be_set()?;
        if !consent(&warning(&sources.current, name), run.yes)? {
            return Err(Failure::NotMeant);
        }
    }
    context.listen_until_the_end()?;
    // Before anything is measured: what another one changes for a while, or one that was killed left behind, is not what the machine is set to.
    let mut change = match may {
        Ok(()) => Some(begin(&knob, &journal, "hpt clocksource set", &sources)?),
        Err(_) => None,
    };
    let pinned = context.pin(run.cpu)?;
    let mut parts = Parts::of(pinned.as_ref().map(Pinned::cpu), context);
    let instruments = Timing::of(context)?;
    let progress =
        Progress::new(2 * run.calls, GUESSED_READ.saturating_mul(u32::try_from(run.calls).unwrap_or(u32::MAX)));
    let mut results = Vec::new();
    measure(
        context,
        &instruments,
        &sources.current,
        &["monotonic"],
        run.calls,
        &|done| progress.at(done),
        &mut results,
    )?;
    let (mut not_taken, mut notes) = (Vec::new(), context.notes());
    if let Some(mut change) = change.take().filter(|_| !is_so && !context.interrupted()) {
        match change.set(name) {
            Ok(()) => {
                change.keep()?;
                let measured_before = results.len();
                measure(
                    context,
                    &instruments,
                    name,
                    &["monotonic"],
                    run.calls,
                    &|done| progress.at(done),
                    &mut results,
                )?;
                let is = knob.value()?;
                if is != *name {
                    results.truncate(measured_before);
                    not_taken.push(NotTaken { clock_source: name.clone(), reason: did_not_stay(&is) });
                }
            }
            Err(error @ KnobError::Overridden { .. }) => {
                not_taken.push(NotTaken { clock_source: name.clone(), reason: causes(&error) });
                notes.extend(given_up(change.restore())?);
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(progress);
    parts.end("all of them");
    notes.extend(parts.notes());
    if is_so {
        notes.push(format!("{name} is the clock source already: nothing was changed"));
    }
    let after = knob.value().ok();
    let answer = match &after {
        Some(after) if after == name => Answer::Yes,
        Some(_) => Answer::No,
        None => Answer::Unknown,
    };
    let data = RunData {
        head: Head::of("clocksource-set", &context.host),
        cpu: pinned.as_ref().map(Pinned::cpu),
        stopwatch: instruments.stopwatch_name(),
        before: sources.current,
        after,
        wanted: vec![name.clone()],
        not_taken,
        journal: journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        away: parts.away(),
        results: with_ratios(results),
        notes,
    };
    let blocks = run_page(&data);
    Ok(Document { answer, ..Document::new(&data, "results", blocks) })
}

/// What came of giving up a wish that the kernel overrode. What somebody else has set right then is theirs: it is left alone and told, and is no failure of hpt's.
fn given_up(restored: Result<(), KnobError>) -> Result<Option<String>, KnobError> {
    match restored {
        Ok(()) => Ok(None),
        Err(theirs @ KnobError::ChangedSince { .. }) => Ok(Some(causes(&theirs))),
        Err(error) => Err(error),
    }
}

// --- all of them ---

fn compare_all(arguments: &CompareArguments, context: &Context) -> Result<Document, Failure> {
    let run = &arguments.run;
    let comparison = Comparison::asked(context, &arguments.source, run.yes, run.store.as_deref())?;
    context.listen_until_the_end()?;
    let pinned = context.pin(run.cpu)?;
    let mut parts = Parts::of(pinned.as_ref().map(Pinned::cpu), context);
    let steps = run.calls.saturating_mul((CLOCKS.len() * comparison.names.len()) as u64);
    let progress = Progress::new(steps, GUESSED_READ.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)));
    let compared = comparison.make(context, "hpt clocksource compare", &CLOCKS, run.calls, &|name, done| {
        progress.name(name);
        progress.at(done);
    })?;
    drop(progress);
    parts.end("all of them");
    let warnings = compared.warnings;
    let data = RunData {
        head: Head::of("clocksource-compare", &context.host),
        cpu: pinned.as_ref().map(Pinned::cpu),
        stopwatch: compared.stopwatch,
        before: comparison.before.current,
        after: compared.after,
        wanted: comparison.names,
        not_taken: compared.not_taken,
        journal: comparison.journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        away: parts.away(),
        results: with_ratios(compared.results),
        notes: [context.notes(), parts.notes(), warnings.clone()].concat(),
    };
    let answer = match (warnings.is_empty() && data.after.as_ref() == Some(&data.before), data.not_taken.is_empty()) {
        (false, _) => Answer::Unknown,
        (true, false) => Answer::No,
        (true, true) => Answer::Yes,
    };
    let blocks = run_page(&data);
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

// --- what they cost ---

/// Beside each clock's cost, how many times that under the first clock source it is.
fn with_ratios(mut results: Vec<Cost>) -> Vec<Cost> {
    let firsts: Vec<(&'static str, String, f64)> = results
        .iter()
        .filter(|cost| cost.clock_source == results[0].clock_source)
        .filter_map(|cost| Some((cost.clock, cost.clock_source.clone(), cost.in_a_row.per_call_ns?)))
        .collect();
    for cost in &mut results {
        let first = firsts.iter().find(|(clock, ..)| *clock == cost.clock).filter(|(.., first)| *first > 0.0);
        cost.ratio_to_first = first.zip(cost.in_a_row.per_call_ns).map(|((.., first), own)| rounded(own / first));
    }
    results
}

fn run_page(data: &RunData) -> Vec<Block> {
    let columns = [
        Column("clock", Align::Left),
        Column("path", Align::Left),
        Column("per call", Align::Right),
        Column("× first", Align::Right),
        Column("user s", Align::Right),
        Column("sys s", Align::Right),
        Column("p99", Align::Right),
        Column("max", Align::Right),
        Column("steps", Align::Right),
    ];
    let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
    let mut blocks = Vec::new();
    for costs in data.results.chunk_by(|one, other| one.clock_source == other.clock_source) {
        blocks.push(Block::Section(format!("Under {}", costs[0].clock_source), Vec::new()));
        let rows = costs.iter().map(|cost| {
            vec![
                Cell::plain(cost.clock),
                Cell::plain(if cost.read_path == "syscall" { "call" } else { cost.read_path }),
                time(cost.in_a_row.per_call_ns),
                Cell::or_dash(cost.ratio_to_first.map(|ratio| format!("{ratio:.2}"))),
                Cell::plain(format!("{:.3}", cost.in_a_row.user_s)),
                Cell::plain(format!("{:.3}", cost.in_a_row.system_s)),
                time(cost.singly.single_p99_ns),
                time(cost.singly.single_max_ns),
                time(cost.granularity_ns),
            ]
        });
        blocks.push(Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }));
    }
    if !data.not_taken.is_empty() {
        let lines = data.not_taken.iter();
        let lines = lines.map(|not| vec![Cell(not.clock_source.clone(), Tone::Bad), Cell::plain(not.reason.as_str())]);
        blocks.push(Block::Section("Not taken by the kernel".to_owned(), lines.collect()));
    }
    let after = data.after.as_deref().unwrap_or("not told");
    blocks.push(Block::Text(if data.head.kind == "clocksource-set" {
        let back = if after == data.before {
            String::new()
        } else {
            format!(" `hpt restore` puts {} back; it is written down in {}.", data.before, data.journal)
        };
        format!("The kernel's clock source is {after}; it was {}.{back}", data.before)
    } else if data.after.as_ref() == Some(&data.before) {
        format!("The kernel's clock source is {after}, as before.")
    } else {
        format!("The kernel's clock source is {after}, and was {} before; {} has it.", data.before, data.journal)
    }));
    let calls = data.results.iter().map(|cost| cost.in_a_row.calls).max().unwrap_or(0);
    let cpu = pinned_to(data.cpu) + &away::except(&data.away);
    blocks.push(Block::Text(format!(
        "{calls} reads of each clock in a row, timed by CLOCK_MONOTONIC_RAW, then singly by {}, whose own cost is in p99 and max. user and sys: as the \
         kernel accounts them, in steps of up to one of its ticks. steps: granularity. {cpu}. {}",
        data.stopwatch,
        data.head.machine.line()
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use hpt_core::knobs::KnobError;

    use super::{CLOCKS, Cost, NotTaken, RunData, given_up, run_page, with_ratios};
    use crate::{
        read_figures::{InARow, Singly},
        render::{Document, golden},
    };

    fn cost(clock_source: &str, clock: &'static str, per_call_ns: f64) -> Cost {
        Cost {
            clock_source: clock_source.to_owned(),
            clock,
            read_path: if clock_source == "tsc" { "vdso" } else { "syscall" },
            in_a_row: InARow {
                calls: 20_000,
                complete: true,
                total_s: per_call_ns * 2e-5,
                user_s: 0.002,
                system_s: 0.021,
                per_call_ns: Some(per_call_ns),
            },
            ratio_to_first: None,
            singly: Singly {
                single_samples: Some(20_000),
                single_p50_ns: Some(per_call_ns),
                single_p99_ns: Some(per_call_ns * 1.5),
                single_p999_ns: Some(per_call_ns * 2.0),
                single_max_ns: Some(per_call_ns * 900.0),
            },
            resolution_ns: Some(1),
            granularity_ns: (clock_source == "tsc").then_some(10.0),
        }
    }

    #[test]
    fn a_comparison_is_printed_to_the_letter() {
        let under = |name: &'static str, factor: f64| {
            (1_u8..).zip(CLOCKS).map(move |(place, clock)| cost(name, clock, factor * f64::from(place)))
        };
        let results = with_ratios(under("tsc", 10.0).chain(under("acpi_pm", 800.0)).collect());
        let data = RunData {
            head: golden::head("clocksource-compare"),
            cpu: Some(1),
            stopwatch: "tsc".to_owned(),
            before: "tsc".to_owned(),
            after: Some("tsc".to_owned()),
            wanted: ["tsc", "hpet", "acpi_pm"].map(str::to_owned).to_vec(),
            not_taken: vec![NotTaken {
                clock_source: "hpet".to_owned(),
                reason: "the kernel overrode the wish".to_owned(),
            }],
            journal: "/run/hpt/journal".to_owned(),
            interrupted: true,
            away: Vec::new(),
            results,
            notes: vec!["a note".to_owned()],
        };
        golden::assert("clocksource-compare", &Document::new(&data, "results", run_page(&data)));
        let data = RunData { head: golden::head("clocksource-set"), after: Some("acpi_pm".to_owned()), ..data };
        golden::assert("clocksource-set", &Document::new(&data, "results", run_page(&data)));
    }

    #[test]
    fn what_somebody_else_sets_right_after_the_kernel_overrode_a_wish_is_told_and_no_failure() {
        let path = || PathBuf::from("current_clocksource");
        let theirs = given_up(Err(KnobError::ChangedSince { path: path(), is: "acpi_pm".to_owned() }));
        let note = theirs.expect("the answer is what there is now").expect("it is told");
        assert!(note.contains("acpi_pm") && note.contains("left alone"), "{note}");
        assert!(matches!(given_up(Ok(())), Ok(None)));
        let refused =
            KnobError::Refused { path: path(), value: "tsc".to_owned(), cause: io::Error::from_raw_os_error(22) };
        assert!(matches!(given_up(Err(refused)), Err(KnobError::Refused { .. })));
    }

    #[test]
    fn ratios_are_to_the_same_clock_under_the_first_source() {
        let results = vec![cost("tsc", "monotonic", 10.0), cost("tsc", "tai", 20.0), cost("hpet", "tai", 100.0)];
        let ratios: Vec<_> = with_ratios(results).into_iter().map(|cost| cost.ratio_to_first).collect();
        assert_eq!(ratios, [Some(1.0), Some(1.0), Some(5.0)]);
        assert!(with_ratios(Vec::new()).is_empty());
    }
}
