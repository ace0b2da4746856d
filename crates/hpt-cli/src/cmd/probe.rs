//! `hpt probe`: lists every time source, and explains why it is or is not available.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use hpt_core::{
    Frequency, Host, Instant, PosixClock, PosixId, SourceInfo, Unavailable, clock,
    measure::Granularity,
    source::{self, Candidate, Fitness, ProbeReport, ReadPath, Scope, Selection, SelfTest, select, self_test},
};
use hpt_document::probe::{InstantStatus, ProbeDocument, ProbeRow, SourceRecommendation};

use crate::{
    arguments::{Codes, after_help},
    context::Context,
    document_head::{head_of, machine_facts, machine_line},
    exit::{Failure, causes, source_remedy},
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, Tone, one_or_many, rounded, saturating_nanos,
        short_frequency, short_time,
    },
    source_granularity::granularity,
};

const EXAMPLES: &str = "  \
  hpt probe                       list every source
  hpt probe tsc                   explain tsc; exit code 0 if available, else 1
  hpt probe --host my.capture     list the sources in a system snapshot";

/// List time sources, and explain why each is available or not
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(Some("the source is not available (hpt probe SOURCE)")), EXAMPLES))]
pub(crate) struct Arguments {
    /// Explain this source in detail
    #[arg(value_name = "SOURCE")]
    name: Option<String>,
    /// Same as the argument SOURCE
    #[arg(short, long, value_name = "SOURCE", conflicts_with = "name")]
    source: Option<String>,
    /// Read the system snapshot in FILE (see hpt capture)
    ///
    /// With this option, hpt does not open any source.
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    let host = captured.as_ref().unwrap_or(&context.host);
    let wanted = arguments.name.as_deref().or(arguments.source.as_deref());
    if let Some(name) = wanted {
        context.known(name)?;
    }
    let mut data = survey(host, context.notes());
    let Some(name) = wanted else {
        let blocks = page(&data);
        return Ok(Document::new(data, blocks));
    };
    data.sources.retain(|row| row.id == name);
    let row = data.sources.first().expect("every known name has a report");
    let answer = if row.available { Answer::Yes } else { Answer::No };
    let blocks = explanation(&data, row);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

fn survey(host: &Host, notes: Vec<String>) -> ProbeDocument {
    if host.is_live() {
        // Start the clock before the survey, so that it determines the frequency of the counter during the survey.
        clock::prime();
    }
    let reference = PosixClock::open(host, PosixId::MonotonicRaw);
    let examined: Vec<(Candidate, Option<Granularity>)> =
        source::probe(host).into_iter().map(|report| examine(host, report, reference.as_ref().ok())).collect();
    let selection = select(examined.iter().map(|(candidate, _)| candidate.clone()));
    let sources: Vec<ProbeRow> = examined
        .into_iter()
        .zip(selection.verdicts())
        .map(|((candidate, granularity), verdict)| row(candidate, granularity, &verdict.fitness))
        .collect();
    let served = sources.iter().find(|row| row.id == "monotonic").and_then(|row| row.read_path.clone());
    ProbeDocument {
        head: head_of("probe", host),
        clock_gettime_read_path: served,
        recommendation: choice(host, &selection),
        instant: host.is_live().then(instant_status),
        sources,
        notes,
    }
}

fn instant_status() -> InstantStatus {
    let _ = Instant::now();
    let status = clock::status();
    InstantStatus {
        source: status.source.to_string(),
        reason: status.reason.to_owned(),
        bound_ns: saturating_nanos(status.bound),
        last_bracket_ns: status.last_bracket.map(saturating_nanos),
        frequency_error_ppm: status.frequency_error_ppm.map(rounded),
        comparisons: status.anchorings,
        rate_changes: status.rate_changes,
        steps: status.jumps,
        disruptions: status.disruptions,
        rejected_brackets: status.refused_brackets,
    }
}

/// Formats the source and the error bound of `Instant`, the clock of the library.
fn instant_line(status: &InstantStatus) -> String {
    if status.bound_ns == 0 {
        return format!("{}: {}", status.source, status.reason);
    }
    format!(
        "{}, within {} of CLOCK_MONOTONIC",
        status.source,
        short_time(Duration::from_nanos(status.bound_ns).as_secs_f64() * 1e9)
    )
}

fn choice(host: &Host, selection: &Selection) -> SourceRecommendation {
    let reason = if host.is_live() {
        selection.reason()
    } else {
        "none: hpt tests sources only on a live system, not in a snapshot".to_owned()
    };
    SourceRecommendation { source: selection.chosen().map(ToString::to_string), reason }
}

/// Opens and tests an available source. A system snapshot has no sources to open.
fn examine(host: &Host, report: ProbeReport, reference: Option<&PosixClock>) -> (Candidate, Option<Granularity>) {
    let untested = |report| (Candidate { report, self_test: None }, None);
    let Some(reference) = reference.filter(|_| report.availability.is_ok()) else {
        return untested(report);
    };
    let opened = match source::open(host, report.id.as_str()) {
        Ok(opened) => opened,
        Err(reason) => return untested(ProbeReport { availability: Err(reason), ..report }),
    };
    let opened = opened.as_dyn();
    let tested = self_test(opened, reference);
    let watched = tested.ok().and_then(|test| {
        let info = opened.info();
        let frequency = info.nominal.map(|nominal| nominal.frequency).or(measured(info, test))?;
        granularity(opened, frequency, reference)
    });
    (Candidate { report, self_test: Some(tested) }, watched)
}

/// Returns the frequency that the self-test measured. A source that counts for one thread in user mode has no frequency
/// relative to a clock, because its reads run in the kernel.
fn measured(info: &SourceInfo, test: SelfTest) -> Option<Frequency> {
    (info.scope != Scope::Thread).then(|| test.rate.midpoint())
}

fn row(candidate: Candidate, granularity: Option<Granularity>, fitness: &Fitness) -> ProbeRow {
    let Candidate { report, self_test } = candidate;
    let test = self_test.and_then(Result::ok);
    let unavailable = match (&report.availability, self_test) {
        (Err(reason), _) => Some(reason.clone()),
        (Ok(_), Some(Err(failure))) => Some(Unavailable::SelfTest(failure)),
        (Ok(_), Some(Ok(_)) | None) => None,
    };
    let info = report.availability.as_ref().ok();
    let stated = info.and_then(|info| info.nominal);
    let measured = info.zip(test).and_then(|(info, test)| measured(info, test));
    let untested = info.is_some() && self_test.is_none();
    ProbeRow {
        id: report.id.to_string(),
        description: report.description.to_owned(),
        available: unavailable.is_none(),
        reason_kind: unavailable.as_ref().map(|reason| reason.kind().to_owned()),
        reason: unavailable.as_ref().map(|reason| causes(reason)),
        fix: unavailable.as_ref().and_then(source_remedy),
        width_bits: info.map(|info| info.width.bits()),
        frequency_hz: stated.map(|nominal| nominal.frequency).or(measured).map(Frequency::hertz_f64).map(rounded),
        frequency_origin: stated
            .map(|nominal| nominal.stated_by.name())
            .or(measured.map(|_| "measured"))
            .map(str::to_owned),
        resolution_ns: info.and_then(SourceInfo::resolution_ns).or(measured.map(Frequency::tick_ns_f64)).map(rounded),
        granularity_ns: granularity.map(|seen| rounded(seen.smallest_ns)),
        step_multiple_ticks: granularity.map(|seen| seen.multiple_ticks),
        read_cost_ns: test.map(|test| rounded(test.read_cost_ns)),
        read_path: info.map(|info| info.read_path.name().to_owned()),
        scope: info.map(|info| info.scope.name().to_owned()),
        constant_rate: info.map(|info| info.rate.is_steady()),
        disciplined: info.map(|info| info.rate.is_slewed()),
        counts_in_suspend: info.and_then(|info| info.counts_in_suspend),
        revocable: info.map(|info| info.revocable),
        kernel_verdict: report.kernel.name().to_owned(),
        kernel_evidence: report.kernel.evidence().to_owned(),
        suitability: if untested && matches!(fitness, Fitness::NotTrusted(_)) && report.kernel.name() == "trusted" {
            "not tested (snapshot)".to_owned()
        } else {
            fitness.to_string()
        },
        evidence: report.evidence,
    }
}

/// Formats the table of all sources.
fn page(data: &ProbeDocument) -> Vec<Block> {
    let mut facts = machine_facts(&data.head.machine);
    if let Some(path) = &data.clock_gettime_read_path {
        facts.push(("clock_gettime", served(path).to_owned()));
    }
    facts.push(("hpt's choice", data.recommendation.reason.clone()));
    facts.extend(data.instant.as_ref().map(|status| ("hpt's Instant", instant_line(status))));
    let columns = vec![
        Column("source", Align::Left),
        Column("use", Align::Left),
        Column("bits", Align::Right),
        Column("frequency", Align::Right),
        Column("from", Align::Left),
        Column("resol.", Align::Right),
        Column("granul.", Align::Right),
        Column("cost", Align::Right),
        Column("path", Align::Left),
        Column("attr", Align::Left),
    ];
    let rows = data.sources.iter().map(|row| table_row(row, data.recommendation.source.as_ref())).collect();
    let mut blocks = vec![
        Block::Facts(facts),
        Block::Table(Table { columns, rows }),
        Block::Text(
            "from: origin of the frequency · resol.: resolution (clock_getres) · granul.: smallest observed step · cost: read \
             overhead · path: how a read reaches the source · attr: S constant rate, never stepped; W system-wide; A adjusted \
             by a time daemon; Z counts in suspend; R access can be revoked"
                .to_owned(),
        ),
    ];
    let refused: Vec<Vec<Cell>> = data
        .sources
        .iter()
        .filter(|row| !row.available)
        .map(|row| {
            let remedy = row.fix.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
            vec![Cell::plain(row.id.as_str()), Cell::plain(format!("{}{remedy}", row.reason.as_deref().unwrap_or("?")))]
        })
        .collect();
    if !refused.is_empty() {
        blocks.push(Block::Section("Not available".to_owned(), refused));
    }
    let others =
        data.sources.iter().filter(|row| row.available && Some(&row.id) != data.recommendation.source.as_ref());
    blocks.push(Block::Section(
        "Why hpt did not choose the other sources".to_owned(),
        others.map(|row| vec![Cell::plain(row.id.as_str()), Cell::plain(&row.suitability)]).collect(),
    ));
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
}

fn served(read_path: &str) -> &'static str {
    match read_path {
        path if path == ReadPath::Vdso.name() => "served by the vDSO",
        path if path == ReadPath::SystemCall.name() => "a system call, not served by the vDSO",
        _ => "not tested",
    }
}

fn table_row(row: &ProbeRow, chosen: Option<&String>) -> Vec<Cell> {
    let is_chosen = chosen == Some(&row.id);
    let usable = match (row.available, is_chosen) {
        (true, true) => Cell("best".to_owned(), Tone::Good),
        (true, false) => Cell("yes".to_owned(), Tone::Good),
        (false, _) => Cell("no".to_owned(), Tone::Bad),
    };
    vec![
        if is_chosen { Cell::strong(row.id.as_str()) } else { Cell::plain(row.id.as_str()) },
        usable,
        Cell::or_dash(row.width_bits.map(|bits| bits.to_string())),
        Cell::or_dash(row.frequency_hz.map(short_frequency)),
        Cell::or_dash(row.frequency_origin.as_deref().map(short_word)),
        Cell::or_dash(row.resolution_ns.map(short_time)),
        Cell::or_dash(row.granularity_ns.map(short_time)),
        Cell::or_dash(row.read_cost_ns.map(short_time)),
        Cell::or_dash(row.read_path.as_deref().map(short_word)),
        Cell::or_dash(letters(row)),
    ]
}

/// Shortens a word of the JSON document to fit the table.
fn short_word(word: &str) -> &str {
    match word {
        "definition" => "defined",
        "hypervisor" => "hyperv.",
        "device-tree" => "dev.tree",
        "register" => "reg",
        "syscall" => "call",
        other => other,
    }
}

fn letters(row: &ProbeRow) -> Option<String> {
    let letter = |is: Option<bool>, letter: char| if is == Some(true) { Some(letter) } else { None };
    row.scope.as_ref().map(|scope| {
        [
            letter(row.constant_rate, 'S'),
            letter(Some(scope == "system"), 'W'),
            letter(row.disciplined, 'A'),
            letter(row.counts_in_suspend, 'Z'),
            letter(row.revocable, 'R'),
        ]
        .into_iter()
        .flatten()
        .collect()
    })
}

/// Formats one source in detail.
fn explanation(data: &ProbeDocument, row: &ProbeRow) -> Vec<Block> {
    let yes_no = |is: Option<bool>| match is {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let mut facts = vec![("source", format!("{}: {}", row.id, row.description))];
    match &row.reason {
        None => facts.push(("available", "yes".to_owned())),
        Some(reason) => facts.push(("available", format!("no: {reason}"))),
    }
    facts.extend(row.fix.iter().map(|remedy| ("fix", remedy.clone())));
    let mut add = |name: &'static str, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    add("width", row.width_bits.map(|bits| format!("{bits} bits")));
    let stated_by = row.frequency_origin.as_deref().unwrap_or("unknown");
    add("frequency", row.frequency_hz.map(|hertz| format!("{} ({stated_by})", short_frequency(hertz))));
    add("resolution", row.resolution_ns.map(|ns| format!("{} (nominal)", short_time(ns))));
    add(
        "granularity",
        row.granularity_ns.map(|ns| {
            let multiple = row.step_multiple_ticks.unwrap_or(1);
            format!(
                "{} is the smallest observed step; steps are multiples of {multiple} {}",
                short_time(ns),
                one_or_many(multiple, "tick", "ticks")
            )
        }),
    );
    add("read overhead", row.read_cost_ns.map(short_time));
    add("read path", row.read_path.clone());
    add("scope", row.scope.clone());
    if row.scope.is_some() {
        add("constant rate", Some(yes_no(row.constant_rate).to_owned()));
        add("adjusted", Some(yes_no(row.disciplined).to_owned()));
        add(
            "in suspend",
            Some(match row.counts_in_suspend {
                Some(true) => "counts".to_owned(),
                Some(false) => "stops".to_owned(),
                None => "unknown".to_owned(),
            }),
        );
        add("revocable", Some(yes_no(row.revocable).to_owned()));
    }
    add("kernel", Some(format!("{}: {}", row.kernel_verdict, row.kernel_evidence)));
    add("choice", Some(row.suitability.clone()));
    let mut blocks = vec![Block::Facts(facts)];
    if !row.evidence.is_empty() {
        let lines = row.evidence.iter().map(|line| vec![Cell::plain(line)]).collect();
        blocks.push(Block::Section("Evidence".to_owned(), lines));
    }
    blocks.push(Block::Text(machine_line(&data.head.machine)));
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
}
