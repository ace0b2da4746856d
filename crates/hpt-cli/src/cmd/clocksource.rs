//! `hpt clocksource`: what the kernel tells the time by, what else it could, and what that would cost.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use hpt_core::{
    Frequency, Host, Opened, Spread, calibrate,
    host::{BootParameter, KnownParameter, LogLine},
    knobs::{Change, ClockSourceOutline, Journal, Knob, KnobError, KnownClockSource, outline_clock_sources},
    measure::{Instruments, granularity, read_cost},
    realtime::Pinned,
    source,
};
use serde::Serialize;

use crate::{
    ask::consent,
    cli::{CpuChoice, after_help, calls, cpu_choice},
    context::Context,
    exit::{Failure, causes},
    machine::Machine,
    progress::Progress,
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
/// How long the counter is calibrated that times single reads.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(20);
/// Coarse clocks are watched for their granularity for three of their claimed resolutions, within these limits.
const SHORTEST_WATCH: Duration = Duration::from_millis(1);
const LONGEST_WATCH: Duration = Duration::from_millis(40);
/// What a read is taken to cost when the length of the run is guessed, for the progress bar: that of a device, and three reads for each single one.
const GUESSED_READ: Duration = Duration::from_micros(4);

/// Say what the kernel tells the time by, what else it could, and what that costs
///
/// Each clock source stands with its cost and its risk; one that the kernel dropped, with what its log says of it; and the boot parameters that bear on
/// them, with when they help.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Explain a captured machine instead of this one
    #[arg(long, value_name = "DIR")]
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
    schema: u32,
    kind: &'static str,
    hpt: &'static str,
    machine: Machine,
    sources: Vec<Row>,
    log: Log,
    command_line_readable: bool,
    boot_parameters: Vec<Parameter>,
    notes: Vec<String>,
}

/// What one clock costs under one clock source, for programs.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    clock_source: String,
    clock: &'static str,
    read_path: &'static str,
    calls: u64,
    complete: bool,
    total_s: f64,
    user_s: f64,
    system_s: f64,
    per_call_ns: Option<f64>,
    ratio_to_first: Option<f64>,
    single_samples: Option<u64>,
    single_p50_ns: Option<f64>,
    single_p99_ns: Option<f64>,
    single_p999_ns: Option<f64>,
    single_max_ns: Option<f64>,
    resolution_ns: Option<u64>,
    granularity_ns: Option<f64>,
}

/// A clock source that was to be measured and was not.
#[derive(Debug, Serialize)]
struct NotTaken {
    clock_source: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct RunData {
    schema: u32,
    kind: &'static str,
    hpt: &'static str,
    machine: Machine,
    cpu: Option<usize>,
    stopwatch: String,
    before: String,
    after: Option<String>,
    wanted: Vec<String>,
    not_taken: Vec<NotTaken>,
    journal: String,
    interrupted: bool,
    results: Vec<Cost>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    match (&arguments.action, &arguments.host) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("--host explains a captured machine: nothing of it can be set or measured"))
        }
        (None, folder) => {
            let captured = folder.as_deref().map(Context::captured).transpose()?;
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
        schema: 1,
        kind: "clocksource",
        hpt: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(host),
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
    let mut blocks = vec![Block::Facts(data.machine.facts())];
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

/// The machine's clock source, and what may be written there.
struct Sources {
    current: String,
    available: Vec<String>,
}

fn sources(context: &Context) -> Result<Sources, Failure> {
    let sources = context.host.clock_sources();
    match (sources.current, sources.available) {
        (Some(current), Some(available)) => Ok(Sources { current, available }),
        (_, _) => Err(Failure::NoClockSources),
    }
}

fn offered(context: &Context, sources: &Sources, name: &str) -> Result<(), Failure> {
    if sources.available.iter().any(|available| available == name) {
        return Ok(());
    }
    let outline = outline_clock_sources(&context.host);
    let why = outline.absent.iter().find(|absent| absent.name == name).map(|absent| match absent.said.first() {
        Some(said) => format!("; it was dropped: {}", said.text),
        None => format!("; {}, see hpt clocksource", absent.had),
    });
    Err(Failure::NotOffered {
        name: name.to_owned(),
        available: sources.available.join(", "),
        why: why.unwrap_or_default(),
    })
}

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
    let instruments = Timing::of(context)?;
    let progress =
        Progress::new(2 * run.calls, GUESSED_READ.saturating_mul(u32::try_from(run.calls).unwrap_or(u32::MAX)));
    let mut results = Vec::new();
    measure(context, &instruments, &sources.current, &["monotonic"], run.calls, &progress, &mut results)?;
    let (mut not_taken, mut notes) = (Vec::new(), context.notes());
    if let Some(mut change) = change.take().filter(|_| !is_so && !context.interrupted()) {
        match change.set(name) {
            Ok(()) => {
                change.keep()?;
                measure(context, &instruments, name, &["monotonic"], run.calls, &progress, &mut results)?;
            }
            Err(error @ KnobError::Overridden { .. }) => {
                change.restore()?;
                not_taken.push(NotTaken { clock_source: name.clone(), reason: causes(&error) });
            }
            Err(error) => return Err(error.into()),
        }
    }
    drop(progress);
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
        schema: 1,
        kind: "clocksource-set",
        hpt: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(&context.host),
        cpu: pinned.as_ref().map(Pinned::cpu),
        stopwatch: instruments.stopwatch_name(),
        before: sources.current,
        after,
        wanted: vec![name.clone()],
        not_taken,
        journal: journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        results: with_ratios(results),
        notes,
    };
    let blocks = run_page(&data);
    Ok(Document { answer, ..Document::new(&data, "results", blocks) })
}

/// The right to change it, as long as it is what it was when it was asked for consent.
fn begin(knob: &Knob, journal: &Journal, by: &str, sources: &Sources) -> Result<Change, Failure> {
    let change = knob.begin(journal, by)?;
    if change.before() == sources.current {
        Ok(change)
    } else {
        Err(Failure::ChangedMeanwhile(change.before().to_owned()))
    }
}

// --- all of them ---

fn compare_all(arguments: &CompareArguments, context: &Context) -> Result<Document, Failure> {
    let run = &arguments.run;
    let sources = sources(context)?;
    for name in &arguments.source {
        offered(context, &sources, name)?;
    }
    let wanted = |name: &&String| arguments.source.is_empty() || arguments.source.contains(name);
    let mut names: Vec<String> = sources.available.iter().filter(wanted).cloned().collect();
    // The one in use first: where nothing else may be set, it is measured all the same.
    names.sort_by_key(|name| *name != sources.current);
    let journal = context.journal(run.store.as_deref())?;
    let knob = Knob::clock_source();
    let changes = names.iter().any(|name| *name != sources.current);
    if changes {
        knob.may_be_set()?;
        let warning = format!(
            "this makes {} the clock source of the whole machine, one after the other, and then {} again; meanwhile every program's readings of clocks cost \
             what each costs, and the kernel counts as not synchronised until a time daemon speaks again.",
            names.iter().filter(|name| **name != sources.current).cloned().collect::<Vec<_>>().join(", "),
            sources.current
        );
        if !consent(&warning, run.yes)? {
            return Err(Failure::NotMeant);
        }
    }
    context.listen_until_the_end()?;
    // Before anything is measured: from here on nobody else changes it by hpt.
    let mut change = if changes { Some(begin(&knob, &journal, "hpt clocksource compare", &sources)?) } else { None };
    let pinned = context.pin(run.cpu)?;
    let instruments = Timing::of(context)?;
    let steps = run.calls.saturating_mul((CLOCKS.len() * names.len()) as u64);
    let progress = Progress::new(steps, GUESSED_READ.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX)));
    let (mut results, mut not_taken) = (Vec::new(), Vec::new());
    for name in &names {
        if context.interrupted() {
            break;
        }
        progress.name(name);
        let came_first = knob.value().is_ok_and(|is| is == *name);
        if let Some(change) = change.as_mut().filter(|_| !came_first) {
            match change.set(name) {
                Ok(()) => {}
                Err(error @ (KnobError::Overridden { .. } | KnobError::Refused { .. })) => {
                    not_taken.push(NotTaken { clock_source: name.clone(), reason: causes(&error) });
                    continue;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let measured_before = results.len();
        measure(context, &instruments, name, &CLOCKS, run.calls, &progress, &mut results)?;
        // The kernel, or somebody without hpt, may have set another one: then nobody knows under which of them what was measured.
        let is = knob.value()?;
        if is != *name {
            results.truncate(measured_before);
            let reason = format!("it did not stay: in the middle of the measurement {is} took its place");
            not_taken.push(NotTaken { clock_source: name.clone(), reason });
        }
    }
    drop(progress);
    // Whatever came of the measurement is printed, and then what could not be put back.
    let restored = change.map_or(Ok(()), Change::restore);
    let mut data = RunData {
        schema: 1,
        kind: "clocksource-compare",
        hpt: env!("CARGO_PKG_VERSION"),
        machine: Machine::of(&context.host),
        cpu: pinned.as_ref().map(Pinned::cpu),
        stopwatch: instruments.stopwatch_name(),
        before: sources.current,
        after: knob.value().ok(),
        wanted: names,
        not_taken,
        journal: journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        results: with_ratios(results),
        notes: context.notes(),
    };
    let mut warnings = Vec::new();
    if let Err(error) = restored {
        data.notes.push(format!("{} was not put back: {}", data.before, causes(&error)));
        warnings.push(format!("{} was not put back: {}\nhpt: try `hpt restore`", data.before, causes(&error)));
    }
    let answer = match (warnings.is_empty() && data.after.as_ref() == Some(&data.before), data.not_taken.is_empty()) {
        (false, _) => Answer::Unknown,
        (true, false) => Answer::No,
        (true, true) => Answer::Yes,
    };
    let blocks = run_page(&data);
    Ok(Document { answer, warnings, ..Document::new(&data, "results", blocks) })
}

// --- what they cost ---

/// What times single reads: a counter that does not depend on the kernel's clock source, where there is one.
struct Timing {
    counter: Option<(Opened, Frequency)>,
}

impl Timing {
    fn of(context: &Context) -> Result<Self, Failure> {
        let reference = context.open("monotonic-raw")?;
        let counter = ["tsc", "arm-counter"].into_iter().find_map(|name| {
            let opened = source::open(&context.host, name).ok()?;
            let measured = calibrate::calibrate(opened.as_dyn(), reference.as_dyn(), CALIBRATION_WINDOW).ok()?;
            Some((opened, measured.frequency))
        });
        Ok(Self { counter })
    }

    fn stopwatch_name(&self) -> String {
        self.counter
            .as_ref()
            .map_or_else(|| "monotonic-raw".to_owned(), |(counter, _)| counter.as_dyn().info().id.to_string())
    }
}

/// Measures the clocks under the clock source that is in use now, which is `name`.
fn measure(
    context: &Context,
    timing: &Timing,
    name: &str,
    clocks: &[&'static str],
    calls: u64,
    progress: &Progress,
    results: &mut Vec<Cost>,
) -> Result<(), Failure> {
    let wall = context.open("monotonic-raw")?;
    let (stopwatch, stopwatch_frequency) = match &timing.counter {
        Some((counter, frequency)) => (counter.as_dyn(), *frequency),
        None => (wall.as_dyn(), Frequency::GIGAHERTZ),
    };
    let instruments = Instruments { wall: wall.as_dyn(), stopwatch, stopwatch_frequency, cycles: None };
    for &clock in clocks {
        if context.interrupted() {
            break;
        }
        // Opened anew, because whether the vDSO serves it depends on the clock source.
        let opened = context.open(clock)?;
        let before = results.len() as u64 * calls;
        let cost = read_cost(opened.as_dyn(), instruments, calls, |done| {
            progress.at(before.saturating_add(done));
            !context.interrupted()
        });
        let info = opened.as_dyn().info();
        let watch = Duration::from_nanos(info.claimed_resolution_ns.unwrap_or(0).saturating_mul(3));
        let steps = granularity(
            opened.as_dyn(),
            Frequency::GIGAHERTZ,
            wall.as_dyn(),
            watch.clamp(SHORTEST_WATCH, LONGEST_WATCH),
        );
        let single = |figure: fn(&Spread) -> f64| cost.singles.as_ref().map(figure).map(rounded);
        results.push(Cost {
            clock_source: name.to_owned(),
            clock,
            read_path: info.read_path.name(),
            calls: cost.calls,
            complete: cost.complete,
            total_s: cost.total.as_secs_f64(),
            user_s: cost.user.as_secs_f64(),
            system_s: cost.system.as_secs_f64(),
            per_call_ns: cost.per_call_ns().map(rounded),
            ratio_to_first: None,
            single_samples: cost.singles.map(|spread| spread.samples),
            single_p50_ns: single(|spread| spread.p50_ns),
            single_p99_ns: single(|spread| spread.p99_ns),
            single_p999_ns: single(|spread| spread.p999_ns),
            single_max_ns: single(|spread| spread.max_ns),
            resolution_ns: info.claimed_resolution_ns,
            granularity_ns: steps.map(|steps| rounded(steps.smallest_ns)),
        });
    }
    Ok(())
}

/// Beside each clock's cost, how many times that under the first clock source it is.
fn with_ratios(mut results: Vec<Cost>) -> Vec<Cost> {
    let firsts: Vec<(&'static str, String, f64)> = results
        .iter()
        .filter(|cost| cost.clock_source == results[0].clock_source)
        .filter_map(|cost| Some((cost.clock, cost.clock_source.clone(), cost.per_call_ns?)))
        .collect();
    for cost in &mut results {
        let first = firsts.iter().find(|(clock, ..)| *clock == cost.clock).filter(|(.., first)| *first > 0.0);
        cost.ratio_to_first = first.zip(cost.per_call_ns).map(|((.., first), own)| rounded(own / first));
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
    let or_dash = |text: Option<String>| text.map_or_else(|| Cell::faint("-"), Cell::plain);
    let time = |ns: Option<f64>| or_dash(ns.map(short_time));
    let mut blocks = Vec::new();
    for costs in data.results.chunk_by(|one, other| one.clock_source == other.clock_source) {
        blocks.push(Block::Section(format!("Under {}", costs[0].clock_source), Vec::new()));
        let rows = costs.iter().map(|cost| {
            vec![
                Cell::plain(cost.clock),
                Cell::plain(if cost.read_path == "syscall" { "call" } else { cost.read_path }),
                time(cost.per_call_ns),
                or_dash(cost.ratio_to_first.map(|ratio| format!("{ratio:.2}"))),
                Cell::plain(format!("{:.3}", cost.user_s)),
                Cell::plain(format!("{:.3}", cost.system_s)),
                time(cost.single_p99_ns),
                time(cost.single_max_ns),
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
    blocks.push(Block::Text(if data.kind == "clocksource-set" {
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
    let calls = data.results.iter().map(|cost| cost.calls).max().unwrap_or(0);
    let cpu = data.cpu.map_or_else(|| "Not pinned".to_owned(), |cpu| format!("Pinned to CPU {cpu}"));
    blocks.push(Block::Text(format!(
        "{calls} reads of each clock in a row, timed by CLOCK_MONOTONIC_RAW, then singly by {}, whose own cost is in p99 and max. user and sys: as the \
         kernel accounts them, in steps of up to one of its ticks. steps: granularity. {cpu}. {}",
        data.stopwatch,
        data.machine.line()
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use super::{CLOCKS, Cost, NotTaken, RunData, run_page, with_ratios};
    use crate::{
        machine::Machine,
        render::{Document, golden},
    };

    fn cost(clock_source: &str, clock: &'static str, per_call_ns: f64) -> Cost {
        Cost {
            clock_source: clock_source.to_owned(),
            clock,
            read_path: if clock_source == "tsc" { "vdso" } else { "syscall" },
            calls: 20_000,
            complete: true,
            total_s: per_call_ns * 2e-5,
            user_s: 0.002,
            system_s: 0.021,
            per_call_ns: Some(per_call_ns),
            ratio_to_first: None,
            single_samples: Some(20_000),
            single_p50_ns: Some(per_call_ns),
            single_p99_ns: Some(per_call_ns * 1.5),
            single_p999_ns: Some(per_call_ns * 2.0),
            single_max_ns: Some(per_call_ns * 900.0),
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
            schema: 1,
            kind: "clocksource-compare",
            hpt: "0.0.0",
            machine: Machine::of(&golden::host()),
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
            results,
            notes: vec!["a note".to_owned()],
        };
        golden::assert("clocksource-compare", &Document::new(&data, "results", run_page(&data)));
        let data = RunData { kind: "clocksource-set", after: Some("acpi_pm".to_owned()), ..data };
        golden::assert("clocksource-set", &Document::new(&data, "results", run_page(&data)));
    }

    #[test]
    fn ratios_are_to_the_same_clock_under_the_first_source() {
        let results = vec![cost("tsc", "monotonic", 10.0), cost("tsc", "tai", 20.0), cost("hpet", "tai", 100.0)];
        let ratios: Vec<_> = with_ratios(results).into_iter().map(|cost| cost.ratio_to_first).collect();
        assert_eq!(ratios, [Some(1.0), Some(1.0), Some(5.0)]);
        assert!(with_ratios(Vec::new()).is_empty());
    }
}
