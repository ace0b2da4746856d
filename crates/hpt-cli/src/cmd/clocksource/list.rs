//! `hpt clocksource`: lists every clocksource with its read overhead and its risks, the reasons why clocksources are
//! missing, and the boot parameters that affect clocksources.

use hpt_core::Host;
use hpt_document::clocksource::{BootParameter, ClocksourceDocument, ClocksourceRow, KernelLogState};
use hpt_instrument::diagnose::{Finding, Goal, MachineFacts, Verdict, examine};
use hpt_realtime::knobs::{ClockSourceOutline, KnownClockSource, outline_clock_sources};
use hpt_sys::host::{BootParameter as SetParameter, KnownParameter, LogLine};

use crate::{
    document_head::{head_of, machine_facts},
    exit::causes,
    output::{Align, Answer, Block, Cell, Column, Document, Table, Tone, remarks},
};

/// The rule of `hpt doctor` that decides whether the active clocksource is the best one.
const RULE: &str = "clock-source";

pub(super) fn list(host: &Host, with_parameters: bool, notes: Vec<String>) -> Document {
    let (best, finding) = verdict(host);
    let outline = outline_clock_sources(host);
    let set = host.boot_parameters();
    let data = ClocksourceDocument {
        head: head_of("clocksource", host),
        sources: rows(&outline),
        best,
        finding: finding.as_ref().map(|finding| finding.observed.clone()),
        log: log(&outline),
        command_line_readable: set.is_some(),
        boot_parameters: parameters(host, &set.unwrap_or_default()),
        notes,
    };
    let answer = if data.sources.is_empty() { Answer::Unknown } else { Answer::Yes };
    let blocks = list_page(&data, finding.as_ref(), with_parameters);
    Document { answer, ..Document::new(data, blocks) }
}

/// Returns whether hpt knows of no better clocksource, and if it does, the finding.
fn verdict(host: &Host) -> (Option<bool>, Option<Finding>) {
    let examined = examine(&MachineFacts::new(host), None, Goal::General);
    match examined.into_iter().find(|examined| examined.rule.id == RULE).map(|examined| examined.verdict) {
        Some(Verdict::Problem(finding)) => (Some(false), Some(finding)),
        Some(Verdict::Pass(_)) => (Some(true), None),
        // hpt knows of no better clocksource, but it may not know this one.
        Some(Verdict::NotApplicable(_) | Verdict::Unknown { .. }) | None => (None, None),
    }
}

pub(super) fn rows(outline: &ClockSourceOutline) -> Vec<ClocksourceRow> {
    let known = |known: Option<&'static KnownClockSource>| {
        let say = |said: fn(&KnownClockSource) -> &'static str| known.map(|known| said(known).to_owned());
        (say(|known| known.what), say(|known| known.cost), say(|known| known.risk))
    };
    let listed = outline.listed.iter().map(|source| {
        let (what, cost, risk) = known(source.known);
        ClocksourceRow {
            name: source.name.clone(),
            available: true,
            current: source.current,
            counter: what,
            read_cost: cost,
            risk,
            evidence: "the kernel offers it".to_owned(),
            log_lines: Vec::new(),
        }
    });
    let absent = outline.absent.iter().map(|source| {
        let (what, cost, risk) = known(source.known);
        ClocksourceRow {
            name: source.name.clone(),
            available: false,
            current: false,
            counter: what,
            read_cost: cost,
            risk,
            evidence: source.had.to_owned(),
            log_lines: source.said.iter().map(log_line).collect(),
        }
    });
    listed.chain(absent).collect()
}

/// Formats a line as dmesg does.
pub(super) fn log_line(line: &LogLine) -> String {
    format!("[{:5}.{:06}] {}", line.at_us / 1_000_000, line.at_us % 1_000_000, line.text)
}

pub(super) fn log(outline: &ClockSourceOutline) -> KernelLogState {
    match &outline.log {
        Ok(from_the_beginning) => {
            KernelLogState { readable: true, complete: *from_the_beginning, reason: None, fix: None }
        }
        Err(reason) => KernelLogState {
            readable: false,
            complete: false,
            reason: Some(causes(reason)),
            fix: reason.remedy().map(str::to_owned),
        },
    }
}

/// Returns the boot parameters that are set and affect clocksources, and those that could be set.
pub(super) fn parameters(host: &Host, set: &[SetParameter]) -> Vec<BootParameter> {
    let set: Vec<&SetParameter> = set.iter().filter(|parameter| parameter.bears_on_clock_sources()).collect();
    let is_set = |known: &KnownParameter| set.iter().any(|parameter| parameter.known() == Some(known));
    let now = set.iter().map(|parameter| BootParameter {
        parameter: parameter.text.clone(),
        set: true,
        effect: parameter.known().map(|known| known.effect.to_owned()),
        advice: parameter.known().map(|known| known.helps.to_owned()),
    });
    let others = KnownParameter::all(host.facts().architecture).filter(|known| !is_set(known));
    let others = others.map(|known| BootParameter {
        parameter: known.text.to_owned(),
        set: false,
        effect: Some(known.effect.to_owned()),
        advice: Some(known.helps.to_owned()),
    });
    now.chain(others).collect()
}

/// Formats the active clocksource and the verdict on it.
fn headline(data: &ClocksourceDocument) -> String {
    let Some(current) = data.sources.iter().find(|row| row.current) else {
        return if data.sources.is_empty() {
            "The clocksource is unknown: cannot read /sys/devices/system/clocksource; mount /sys".to_owned()
        } else {
            "The clocksource in use is unknown".to_owned()
        };
    };
    let available: Vec<&str> = data.sources.iter().filter(|row| row.available).map(|row| row.name.as_str()).collect();
    match (&data.finding, available.as_slice()) {
        (Some(finding), _) => format!("Not the best clocksource: {finding}"),
        (None, [_]) => format!("Clocksource {} is in use: it is the only one available", current.name),
        (None, all) if data.best == Some(true) => {
            format!("Clocksource {} is in use: the best of {} available ({})", current.name, all.len(), all.join(", "))
        }
        (None, all) => {
            format!("Clocksource {} is in use: hpt knows of no better one ({})", current.name, all.join(", "))
        }
    }
}

/// Formats the list. `with_parameters` adds the boot parameters that are not set.
pub(super) fn list_page(data: &ClocksourceDocument, finding: Option<&Finding>, with_parameters: bool) -> Vec<Block> {
    let mut blocks = vec![Block::Headline(headline(data))];
    if !data.sources.is_empty() {
        blocks.push(Block::Table(table(data)));
    }
    let detail = |block| Block::Detail(Box::new(block));
    for row in &data.sources {
        let lines = if row.available { Vec::new() } else { why_missing(row, &data.log) };
        if !lines.is_empty() {
            blocks.push(Block::Section(format!("{}: not available", row.name), lines));
        }
        blocks.push(detail(Block::Section(row.name.clone(), properties(row))));
    }
    blocks.extend(finding.map(fixes));
    let log = log_state(&data.log);
    // The log matters if it may explain why a better clocksource is missing.
    let is_needed = data.best != Some(true) || data.sources.iter().any(|row| !row.available);
    let is_missing = is_needed && data.log.reason.is_some();
    blocks.push(if is_missing { Block::Text(log) } else { Block::detail(log) });
    blocks.push(set_parameters(data));
    if !data.boot_parameters.iter().all(|parameter| parameter.set) {
        let others = Block::Section("Boot parameters that may help".to_owned(), other_parameters(data));
        blocks.push(if with_parameters { others } else { detail(others) });
    }
    blocks.push(detail(Block::Facts(machine_facts(&data.head.machine))));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

fn table(data: &ClocksourceDocument) -> Table {
    let columns = ["clocksource", "state", "read overhead", "counter"].map(|name| Column(name, Align::Left));
    let rows = data.sources.iter().map(|row| {
        let state = match (row.available, row.current) {
            (true, true) => Cell("in use".to_owned(), if data.best == Some(false) { Tone::Bad } else { Tone::Good }),
            (true, false) => Cell::plain("available"),
            (false, _) => Cell::faint("missing"),
        };
        let name = if row.current { Cell::strong(&row.name) } else { Cell::plain(&row.name) };
        // The details follow a colon or a semicolon; the list of properties has them.
        let cost = row.read_cost.as_deref().and_then(|cost| cost.split([':', ';']).next());
        vec![name, state, Cell::or_dash(cost), Cell::or_dash(row.counter.as_deref())]
    });
    Table { columns: columns.to_vec(), rows: rows.collect() }
}

fn properties(row: &ClocksourceRow) -> Vec<Vec<Cell>> {
    let mut lines = vec![line("description", row.counter.as_deref().unwrap_or("unknown to hpt"), Tone::Plain)];
    lines.extend(row.read_cost.as_ref().map(|cost| line("read overhead", cost, Tone::Plain)));
    lines.extend(row.risk.as_ref().map(|risk| line("risks", risk, Tone::Plain)));
    lines
}

fn why_missing(row: &ClocksourceRow, log: &KernelLogState) -> Vec<Vec<Cell>> {
    let why = line("why missing", &missing(row, log), Tone::Bad);
    let said = row.log_lines.iter().map(|said| line("log", said, Tone::Plain));
    [why].into_iter().chain(said).collect()
}

fn fixes(finding: &Finding) -> Block {
    let lines = finding.fixes.iter().flat_map(|fix| {
        let end = if fix.commands.is_empty() { "." } else { ":" };
        let text = vec![Cell::faint(" -"), Cell::plain(format!("{}{end}", fix.text))];
        let commands = fix.commands.iter().map(|command| vec![Cell::plain("    "), Cell::command(command)]);
        [text].into_iter().chain(commands)
    });
    Block::Section("Fixes".to_owned(), lines.collect())
}

fn log_state(log: &KernelLogState) -> String {
    match (&log.reason, log.complete) {
        (Some(reason), _) => {
            let remedy = log.fix.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            format!(
                "hpt could not read the kernel log, which reports the clocksources that the kernel dropped, and why: {reason}{remedy}."
            )
        }
        (None, true) => "The kernel log was read from its beginning.".to_owned(),
        (None, false) => "The kernel log was read, but its beginning is no longer available.".to_owned(),
    }
}

fn set_parameters(data: &ClocksourceDocument) -> Block {
    let set = data.boot_parameters.iter().filter(|parameter| parameter.set).map(|parameter| {
        let effect = parameter.effect.as_deref().unwrap_or("affects clocksources; this value is unknown to hpt");
        vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(effect)]
    });
    let set: Vec<Vec<Cell>> = set.collect();
    match (data.command_line_readable, set.is_empty()) {
        (false, _) => Block::Text("The boot parameters are unknown: cannot read /proc/cmdline.".to_owned()),
        (true, true) => Block::Text("No boot parameter that affects clocksources is set.".to_owned()),
        (true, false) => Block::Section("Boot parameters that are set".to_owned(), set),
    }
}

fn other_parameters(data: &ClocksourceDocument) -> Vec<Vec<Cell>> {
    let others = data.boot_parameters.iter().filter(|parameter| !parameter.set).map(|parameter| {
        let (effect, helps) =
            (parameter.effect.as_deref().unwrap_or_default(), parameter.advice.as_deref().unwrap_or_default());
        vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(format!("{effect}. Helps {helps}"))]
    });
    others.collect()
}

pub(super) fn line(name: &str, text: &str, tone: Tone) -> Vec<Cell> {
    vec![Cell::faint(format!("  {name}")), Cell(text.to_owned(), tone)]
}

/// Returns the reason why a clocksource is not available, if the reason is known.
pub(super) fn missing(row: &ClocksourceRow, log: &KernelLogState) -> String {
    let why = match (row.log_lines.is_empty(), log.readable, log.complete) {
        (false, ..) => "the kernel log states the reason",
        (true, false, _) => "the kernel log, which would state the reason, was not read",
        (true, true, true) => {
            "the kernel log does not mention this clocksource, which may have been unbound, or may be unsuitable for high-resolution timers"
        }
        (true, true, false) => "the part of the kernel log that is still available does not mention this clocksource",
    };
    format!("{}; {why}", row.evidence)
}
