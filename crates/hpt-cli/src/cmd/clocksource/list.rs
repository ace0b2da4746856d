//! `hpt clocksource`: lists every clocksource with its read overhead and its risks, the reasons why clocksources are
//! missing, and the boot parameters that affect clocksources. This module changes nothing.

use hpt_core::{
    Host,
    host::{BootParameter as SetParameter, KnownParameter, LogLine},
    knobs::{ClockSourceOutline, KnownClockSource, outline_clock_sources},
};
use hpt_document::clocksource::{BootParameter, ClocksourceDocument, ClocksourceRow, KernelLogState};

use crate::{
    document_head::{head_of, machine_facts},
    exit::causes,
    output::{Answer, Block, Cell, Document, Tone},
};

pub(super) fn list(host: &Host, notes: Vec<String>) -> Document {
    let outline = outline_clock_sources(host);
    let set = host.boot_parameters();
    let data = ClocksourceDocument {
        head: head_of("clocksource", host),
        sources: rows(&outline),
        log: log(&outline),
        command_line_readable: set.is_some(),
        boot_parameters: parameters(host, &set.unwrap_or_default()),
        notes,
    };
    let answer = if data.sources.is_empty() { Answer::Unknown } else { Answer::Yes };
    let blocks = list_page(&data);
    Document { answer, ..Document::new(data, blocks) }
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

pub(super) fn list_page(data: &ClocksourceDocument) -> Vec<Block> {
    let mut blocks = vec![Block::Facts(machine_facts(&data.head.machine))];
    for row in &data.sources {
        let state = match (row.available, row.current) {
            (true, true) => "in use",
            (true, false) => "available",
            (false, _) => "not available",
        };
        let unknown = "unknown to hpt";
        let mut lines = vec![line("description", row.counter.as_deref().unwrap_or(unknown), Tone::Plain)];
        lines.extend(row.read_cost.as_ref().map(|cost| line("read overhead", cost, Tone::Plain)));
        lines.extend(row.risk.as_ref().map(|risk| line("risks", risk, Tone::Plain)));
        if !row.available {
            lines.push(line("why missing", &missing(row, &data.log), Tone::Bad));
            lines.extend(row.log_lines.iter().map(|said| line("log", said, Tone::Plain)));
        }
        blocks.push(Block::Section(format!("{}: {state}", row.name), lines));
    }
    if data.sources.is_empty() {
        let text = "Cannot read /sys/devices/system/clocksource; mount /sys.";
        blocks.push(Block::Text(text.to_owned()));
    }
    blocks.push(Block::Text(match (&data.log.reason, data.log.complete) {
        (Some(reason), _) => {
            let remedy = data.log.fix.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            format!(
                "hpt could not read the kernel log, which reports the clocksources that the kernel dropped, and why: {reason}{remedy}."
            )
        }
        (None, true) => "The kernel log was read from its beginning.".to_owned(),
        (None, false) => "The kernel log was read, but its beginning is no longer available.".to_owned(),
    }));
    let parameters = |set: bool| data.boot_parameters.iter().filter(move |parameter| parameter.set == set);
    let now: Vec<Vec<Cell>> = parameters(true)
        .map(|parameter| {
            let effect = parameter.effect.as_deref().unwrap_or("affects clocksources; this value is unknown to hpt");
            vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(effect)]
        })
        .collect();
    blocks.push(match (data.command_line_readable, now.is_empty()) {
        (false, _) => Block::Text("The boot parameters are unknown: cannot read /proc/cmdline.".to_owned()),
        (true, true) => Block::Text("No boot parameter that affects clocksources is set.".to_owned()),
        (true, false) => Block::Section("Boot parameters that are set".to_owned(), now),
    });
    let others = parameters(false).map(|parameter| {
        let (effect, helps) =
            (parameter.effect.as_deref().unwrap_or_default(), parameter.advice.as_deref().unwrap_or_default());
        vec![Cell::plain(parameter.parameter.as_str()), Cell::plain(format!("{effect}. Helps {helps}"))]
    });
    blocks.push(Block::Section("Boot parameters that may help".to_owned(), others.collect()));
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
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
