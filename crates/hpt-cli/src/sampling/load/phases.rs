//! An idle phase and a loaded phase of a measurement, in one document and one table. Measures nothing itself; the caller
//! passes the measurement.

use hpt_document::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    limit::LimitRow,
    load::{Load, LoadKind, LoadedPhase},
};
use hpt_sys::host::CpuList;

use super::{
    options::LoadOptions,
    running::{RunningLoad, check_space},
};
use crate::{
    context::Context,
    exit::Failure,
    output::{Align, Answer, Block, Cell, Column, Document, Table, cause_words, remarks},
    sampling::{
        explain,
        limits::{
            self,
            verdict::{doubt, of_both_phases},
        },
    },
};

/// Measures once or, with `--load`, twice: idle and under load. `keys` is the number of columns of the first table that
/// identify a row. `measured` contains the CPU of each measuring thread.
pub(crate) fn in_phases(
    options: &LoadOptions,
    context: &Context,
    (measured, keys): (&[Option<usize>], usize),
    measure: impl Fn() -> Result<Document, Failure>,
) -> Result<Document, Failure> {
    let kinds = options.kinds();
    if kinds.is_empty() {
        return measure();
    }
    let cpus = options.cpus(measured)?;
    // A long idle phase must not be lost because the load cannot start.
    check_space(&context.host, &kinds, &cpus)?;
    let idle = measure()?;
    // A run that ended early is not comparable, and neither Ctrl-C nor --stop-above asks for another one.
    if context.interrupted() || was_stopped(&idle.data) {
        return Ok(idle);
    }
    let loaded = || {
        let running = RunningLoad::start(&context.host, &kinds, &cpus)?;
        Ok((measure()?, running.end()))
    };
    Ok(match loaded() {
        Ok((loaded, load)) => combined(idle, loaded, load, keys),
        Err(failure) => only_idle(idle, &failure),
    })
}

/// Returns the document of the idle phase, which is not lost if the loaded phase fails.
fn only_idle(idle: Document, failure: &Failure) -> Document {
    let why = format!("there is no loaded phase: {}", failure.text());
    let Document { mut warnings, answer, mut data, blocks, .. } = idle;
    let parts = PhaseParts::of(blocks, data.limits());
    let (limits, notes) = limits_and_notes(&mut data);
    doubt(limits, &why);
    notes.push(why.clone());
    warnings.push(why);
    let blocks = (parts.headline.map(|text| Block::Headline(format!("Idle: {text}"))).into_iter())
        .chain(limits::table::blocks(data.limits()))
        .chain(parts.table.map(Block::Table))
        .chain(parts.details)
        .chain(remarks(data.interrupted(), data.notes()))
        .collect();
    Document { warnings, answer: answer.and(Answer::Unknown), ..Document::new(data, blocks) }
}

/// Returns the limits and the notes of a document of a command with `--load`.
fn limits_and_notes(data: &mut hpt_document::Document) -> (&mut [LimitRow], &mut Vec<String>) {
    use hpt_document::Document;
    match data {
        Document::WakeLatency(data) => (&mut data.limits, &mut data.notes),
        Document::Stall(data) => (&mut data.limits, &mut data.notes),
        Document::Sleep(data) => (&mut data.limits, &mut data.notes),
        Document::Bench(data) => (&mut data.limits, &mut data.notes),
        other => unreachable!("no other command has --load: {other:?}"),
    }
}

/// Returns the causes of late samples, and the name of one sample and of several.
fn explanation_of(data: &mut hpt_document::Document) -> Option<(&mut Explanation, (&'static str, &'static str))> {
    use hpt_document::Document;
    match data {
        Document::WakeLatency(data) => Some((&mut data.explanation, ("wake-up", "wake-ups"))),
        Document::Stall(data) => Some((&mut data.explanation, ("stall", "stalls"))),
        Document::Sleep(data) => Some((&mut data.explanation, ("sleep", "sleeps"))),
        _ => None,
    }
}

/// Names the processes that the built-in load `fork` starts. Before they can name themselves, their name is that of the
/// link by which hpt starts itself.
fn name_processes(explanation: &mut Explanation, load: &Load) {
    if load.program != "hpt" || !load.kinds.contains(&LoadKind::Fork) {
        return;
    }
    let parts = explanation.explained.iter_mut().flat_map(|sample| &mut sample.parts).map(|part| &mut part.name);
    for name in parts.chain(explanation.causes.iter_mut().map(|cause| &mut cause.name)) {
        if name.as_deref() == Some("exe") {
            *name = Some(format!("{}{}", cause_words::LOAD, LoadKind::Fork.name()));
        }
    }
}

/// Combines the documents of the two phases.
fn combined(idle: Document, loaded: Document, (load, mut notes): (Load, Vec<String>), keys: usize) -> Document {
    // An exceeded limit counts even if the result of the other phase is unknown.
    let mut answer = idle.answer.and(loaded.answer);
    let ended_early = notes.first().cloned();
    let of_load = words(&load);
    let mut warnings = idle.warnings;
    warnings.extend(loaded.warnings.into_iter().map(under_load));
    notes.extend(loaded.data.notes().iter().cloned().map(under_load));
    let (mut idle_data, mut loaded_data) = (idle.data, loaded.data);
    if let Some((explanation, _)) = explanation_of(&mut loaded_data) {
        name_processes(explanation, &load);
    }
    let causes: Vec<_> = [("Idle", &mut idle_data), ("Under load", &mut loaded_data)]
        .into_iter()
        .filter_map(|(phase, data)| explanation_of(data).map(|of_phase| (phase, of_phase)))
        .flat_map(|(phase, (explanation, samples))| explain::terminal::blocks_of_phase(phase, explanation, samples))
        .collect();
    let parts = (PhaseParts::of(idle.blocks, idle_data.limits()), PhaseParts::of(loaded.blocks, loaded_data.limits()));
    let mut data = with_phase(idle_data, loaded_data, load, notes);
    if let Some(why) = ended_early {
        doubt(limits_and_notes(&mut data).0, &why);
        answer = answer.and(Answer::Unknown);
    }
    let blocks = side_by_side(parts, of_load, keys)
        .into_iter()
        .chain(causes)
        .chain(limits::table::blocks(data.limits()))
        .chain(remarks(data.interrupted(), data.notes()))
        .collect();
    Document { warnings, answer, ..Document::new(data, blocks) }
}

fn under_load(text: impl AsRef<str>) -> String {
    format!("under load: {}", text.as_ref())
}

/// Returns whether `--stop-above` ended the run.
const fn was_stopped(data: &hpt_document::Document) -> bool {
    use hpt_document::Document;
    match data {
        Document::WakeLatency(data) => data.end.stopped_at_ns.is_some(),
        Document::Stall(data) => data.end.stopped_at_ns.is_some(),
        _ => false,
    }
}

/// Adds the loaded phase to the document of the idle phase. A limit applies to both phases.
fn with_phase(
    idle: hpt_document::Document,
    loaded: hpt_document::Document,
    load: Load,
    notes: Vec<String>,
) -> hpt_document::Document {
    use hpt_document::Document;
    match (idle, loaded) {
        (Document::WakeLatency(mut data), Document::WakeLatency(other)) => {
            data.end.interrupted |= other.end.interrupted;
            data.notes.extend(notes);
            data.limits = of_both_phases(data.limits, other.limits);
            let end = (other.end.interrupted, other.end.stopped_at_ns, other.end.cpu_absences);
            data.loaded = Some(phase(load, end, (other.conditions, other.explanation), other.results));
            data.into()
        }
        (Document::Stall(mut data), Document::Stall(other)) => {
            data.end.interrupted |= other.end.interrupted;
            data.notes.extend(notes);
            data.limits = of_both_phases(data.limits, other.limits);
            let end = (other.end.interrupted, other.end.stopped_at_ns, other.end.cpu_absences);
            data.loaded = Some(phase(load, end, (other.conditions, other.explanation), other.results));
            data.into()
        }
        (Document::Sleep(mut data), Document::Sleep(other)) => {
            data.interrupted |= other.interrupted;
            data.notes.extend(notes);
            data.limits = of_both_phases(data.limits, other.limits);
            let end = (other.interrupted, None, other.cpu_absences);
            data.loaded = Some(phase(load, end, (other.conditions, other.explanation), other.results));
            data.into()
        }
        (Document::Bench(mut data), Document::Bench(other)) => {
            data.interrupted |= other.interrupted;
            data.notes.extend(notes);
            data.limits = of_both_phases(data.limits, other.limits);
            let end = (other.interrupted, None, other.cpu_absences);
            data.loaded = Some(phase(load, end, (other.conditions, Explanation::default()), other.results));
            data.into()
        }
        // The same command prints both documents, and no other command has the option.
        (idle, _) => idle,
    }
}

fn phase<Row>(
    load: Load,
    (interrupted, stopped_at_ns, cpu_absences): (bool, Option<u64>, Vec<CpuAbsence>),
    (conditions, explanation): (Conditions, Explanation),
    results: Vec<Row>,
) -> LoadedPhase<Row> {
    LoadedPhase { load, interrupted, stopped_at_ns, cpu_absences, conditions, explanation, results }
}

/// Returns the load in one sentence.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn words(load: &Load) -> String {
    let kinds: Vec<_> = load.kinds.iter().map(|kind| kind.name()).collect();
    let cpus = load.cpus.iter().copied().collect::<CpuList>();
    let one = if load.cpus.len() == 1 { "CPU" } else { "CPUs" };
    let size = |bytes: u64, what: &str| format!(", {:.0} MiB of {what}", bytes as f64 / f64::from(1 << 20));
    let memory = load.memory_bytes.map_or_else(String::new, |bytes| size(bytes, "memory"));
    let disk = load.disk_bytes.map_or_else(String::new, |bytes| size(bytes, "disk space"));
    let averages = load.loadavg_before.zip(load.loadavg_after).map_or_else(String::new, |(before, after)| {
        format!("; load average {before:.2} before, {after:.2} at the end")
    });
    let program = if load.program == "hpt" { "the built-in loads" } else { &load.program };
    let version = if load.program == "hpt" { String::new() } else { format!(" {}", load.version) };
    format!("Load: {} by {program}{version} on {one} {cpus}{memory}{disk}{averages}.", kinds.join(", "))
}

/// Returns the headlines of both phases, one table with the rows of both, the load, and the details of both.
fn side_by_side((idle, loaded): (PhaseParts, PhaseParts), load: String, keys: usize) -> Vec<Block> {
    let headline = |phase: &str, text: Option<String>| text.map(|text| Block::Headline(format!("{phase}: {text}")));
    let table = match (idle.table, loaded.table) {
        (Some(idle), Some(loaded)) => Some(Block::Table(merged(idle, loaded, keys))),
        (one, other) => one.or(other).map(Block::Table),
    };
    let mut blocks = Vec::new();
    blocks.extend(headline("Idle", idle.headline));
    blocks.extend(headline("Under load", loaded.headline));
    blocks.extend(table);
    blocks.push(Block::Text(load));
    blocks.extend(idle.details);
    blocks.extend(loaded.details);
    blocks
}

/// The parts of a result that a combined result uses.
#[derive(Debug, Default)]
struct PhaseParts {
    headline: Option<String>,
    table: Option<Table>,
    details: Vec<Block>,
}

impl PhaseParts {
    /// The verdicts on the limits of the phase are left out. The combined result has its own.
    fn of(blocks: Vec<Block>, limits: &[LimitRow]) -> Self {
        let mut parts = Self::default();
        let of_limits = limits::table::blocks(limits);
        for block in blocks.into_iter().filter(|block| !of_limits.contains(block)) {
            match block {
                Block::Headline(text) if parts.headline.is_none() => parts.headline = Some(text),
                Block::Table(table) if parts.table.is_none() => parts.table = Some(table),
                Block::Detail(_) => parts.details.push(block),
                _ => {}
            }
        }
        parts
    }
}

/// Returns one table with the rows of both. A row of the loaded phase is below the row of the idle phase with the same
/// keys. A table without empty columns may lack a column of the other.
fn merged(idle: Table, loaded: Table, keys: usize) -> Table {
    let mut columns = idle.columns.clone();
    for (index, column) in loaded.columns.iter().enumerate() {
        if !columns.iter().any(|known| known.0 == column.0) {
            columns.insert(index.min(columns.len()), *column);
        }
    }
    let idle = filled(idle, &columns, keys);
    let mut loaded = filled(loaded, &columns, keys);
    let key = |row: &[Cell]| row.iter().take(keys).map(|cell| cell.0.clone()).collect::<Vec<_>>();
    let labeled = |phase: &str, mut row: Vec<Cell>| {
        row.insert(keys.min(row.len()), Cell::plain(phase));
        row
    };
    let mut rows = Vec::new();
    for row in idle {
        let same = loaded.iter().position(|other| key(other) == key(&row));
        rows.push(labeled("idle", row));
        rows.extend(same.map(|index| labeled("loaded", loaded.remove(index))));
    }
    rows.extend(loaded.into_iter().map(|row| labeled("loaded", row)));
    columns.insert(keys.min(columns.len()), Column("phase", Align::Left));
    Table { columns, rows }
}

/// Returns the rows of a table in the order of these columns. A key that is omitted because it is that of the row above
/// is repeated.
fn filled(table: Table, columns: &[Column], keys: usize) -> Vec<Vec<Cell>> {
    let mut above: Vec<Cell> = Vec::new();
    let mut rows = Vec::new();
    for row in table.rows {
        let of = |column: &Column| {
            let index = table.columns.iter().position(|own| own.0 == column.0)?;
            row.get(index).cloned()
        };
        let mut row: Vec<Cell> = columns.iter().map(|column| of(column).unwrap_or_else(|| Cell::faint("-"))).collect();
        for (index, cell) in row.iter_mut().enumerate().take(keys) {
            if cell.0.is_empty()
                && let Some(before) = above.get(index)
            {
                cell.clone_from(before);
            }
        }
        above.clone_from(&row);
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use hpt_document::load::{Load, LoadKind};

    use super::{combined, merged, name_processes, only_idle, words};
    use crate::{
        exit::Failure,
        golden,
        output::{Align, Answer, Block, Cell, Column, Document, Format, Look, Table, rendered},
        sampling::{
            explain,
            limits::{self, table::tests::examples, verdict},
        },
    };

    fn table(columns: &[&'static str], rows: &[&[&str]]) -> Table {
        Table {
            columns: columns.iter().map(|&name| Column(name, Align::Right)).collect(),
            rows: rows.iter().map(|row| row.iter().map(|&text| Cell::plain(text)).collect()).collect(),
        }
    }

    fn texts(table: &Table) -> Vec<String> {
        let header = table.columns.iter().map(|column| column.0).collect::<Vec<_>>().join(" ");
        let rows = table.rows.iter().map(|row| row.iter().map(|cell| cell.0.as_str()).collect::<Vec<_>>().join(" "));
        std::iter::once(header).chain(rows).collect()
    }

    #[test]
    fn processes_of_the_load_fork_are_named_after_it() {
        let name_under = |program: &str, kinds: Vec<LoadKind>| {
            let mut explanation = explain::terminal::tests::example();
            explanation.causes[0].name = Some("exe".to_owned());
            explanation.explained[0].parts[0].name = Some("exe".to_owned());
            name_processes(&mut explanation, &Load { program: program.to_owned(), kinds, ..Load::default() });
            assert_eq!(explanation.causes[0].name, explanation.explained[0].parts[0].name);
            explanation.causes[0].name.clone().unwrap_or_default()
        };
        assert_eq!(name_under("hpt", vec![LoadKind::Cpu, LoadKind::Fork]), "hpt-load-fork");
        assert_eq!(name_under("hpt", vec![LoadKind::Cpu]), "exe");
        assert_eq!(name_under("stress-ng", vec![LoadKind::Fork]), "exe");
    }

    #[test]
    fn rows_with_the_same_keys_are_side_by_side() {
        let idle =
            table(&["sleep", "method", "p50"], &[&["1 ms", "hpt", "1"], &["", "std", "50"], &["5 ms", "hpt", "2"]]);
        let loaded = table(&["sleep", "method", "p50", "p99"], &[&["1 ms", "std", "70", "90"], &["", "hpt", "3", "9"]]);
        assert_eq!(
            texts(&merged(idle, loaded, 2)),
            [
                "sleep method phase p50 p99",
                "1 ms hpt idle 1 -",
                "1 ms hpt loaded 3 9",
                "1 ms std idle 50 -",
                "1 ms std loaded 70 90",
                "5 ms hpt idle 2 -",
            ]
        );
    }

    pub(super) fn load() -> Load {
        Load {
            kinds: vec![LoadKind::Cpu, LoadKind::Memory],
            program: "stress-ng".to_owned(),
            version: "0.15.06".to_owned(),
            cpus: vec![0, 2, 3],
            processes: 6,
            memory_bytes: Some(768 << 20),
            disk_bytes: None,
            disk_directory: None,
            loadavg_before: Some(0.25),
            loadavg_after: Some(4.5),
        }
    }

    #[test]
    fn a_load_is_described_in_one_sentence() {
        assert_eq!(
            words(&load()),
            "Load: cpu, memory by stress-ng 0.15.06 on CPUs 0,2-3, 768 MiB of memory; load average 0.25 before, 4.50 at the end."
        );
        let built_in =
            Load { program: "hpt".to_owned(), cpus: vec![0], memory_bytes: None, loadavg_after: None, ..load() };
        assert_eq!(words(&built_in), "Load: cpu, memory by the built-in loads on CPU 0.");
    }

    #[test]
    fn both_phases_are_in_one_document_and_the_worse_answer_counts() {
        for kind in ["latency-timer", "latency-poll", "latency-stall", "sleep", "bench"] {
            let document = |answer, headline: &str| Document {
                answer,
                ..Document::new(golden::empty(kind), vec![Block::Headline(headline.to_owned())])
            };
            let both = combined(document(Answer::Yes, "a"), document(Answer::No, "b"), (load(), Vec::new()), 1);
            assert_eq!(both.answer, Answer::No, "{kind}");
            let value = both.value();
            assert_eq!(value["loaded"]["load"]["program"], "stress-ng", "{kind}");
            assert_eq!(
                (&value["loaded"]["results"], &value["notes"]),
                (&serde_json::json!([]), &serde_json::json!([]))
            );
            let headlines = both.blocks.iter().filter_map(|block| match block {
                Block::Headline(text) => Some(text.as_str()),
                _ => None,
            });
            assert_eq!(headlines.collect::<Vec<_>>(), ["Idle: a", "Under load: b"]);
            let both = combined(document(Answer::Unknown, ""), document(Answer::No, ""), (load(), Vec::new()), 1);
            assert_eq!(both.answer, Answer::No);
            let both = combined(document(Answer::Yes, ""), document(Answer::Unknown, ""), (load(), Vec::new()), 1);
            assert_eq!(both.answer, Answer::Unknown);
        }
    }

    /// Returns a document with a limit of each verdict, or only with one that held.
    fn limited(only_held: bool) -> Document {
        let hpt_document::Document::WakeLatency(mut data) = golden::empty("latency-timer") else {
            panic!("it is that kind");
        };
        data.limits = examples();
        data.limits.truncate(if only_held { 1 } else { 3 });
        let answer = verdict::answer(&data.limits);
        let mut blocks = vec![Block::Headline("a".to_owned())];
        blocks.extend(limits::table::blocks(&data.limits));
        Document { answer, ..Document::new(data, blocks) }
    }

    fn held(document: &Document) -> Vec<Option<bool>> {
        document.data.limits().iter().map(|limit| limit.held).collect()
    }

    #[test]
    fn the_idle_phase_is_kept_if_the_loaded_phase_fails() {
        let failure = Failure::Load("cpu on CPU 0: out of memory".to_owned());
        let idle = only_idle(limited(true), &failure);
        let why = "there is no loaded phase: cannot start the load: cpu on CPU 0: out of memory";
        assert_eq!((idle.answer, held(&idle)), (Answer::Unknown, vec![None]));
        assert_eq!((idle.warnings.as_slice(), idle.data.notes()), (&[why.to_owned()][..], &[why.to_owned()][..]));
        assert_eq!(idle.data.limits()[0].reason.as_deref(), Some(why));
        let text = rendered(&idle, Format::Human, Look { width: 80, color: false, verbose: false });
        assert!(text.contains("Idle: a") && text.contains("Limit: unknown") && !text.contains("held"), "{text}");
        let idle = only_idle(limited(false), &failure);
        assert_eq!((idle.answer, held(&idle)), (Answer::No, vec![None, Some(false), None]));
    }

    #[test]
    fn limits_do_not_hide_the_results() {
        let document = || {
            let mut document = limited(true);
            document.blocks.push(Block::Table(table(&["CPU", "max"], &[&["1", "3.85 ms"]])));
            document
        };
        let both = combined(document(), document(), (load(), Vec::new()), 1);
        let text = rendered(&both, Format::Human, Look { width: 80, color: false, verbose: false });
        let count = |part: &str| text.matches(part).count();
        assert_eq!([count("CPU phase "), count("max=5ms "), count("Limit: held")], [1; 3], "{text}");
        let idle = only_idle(document(), &Failure::Load("none".to_owned()));
        assert!(idle.blocks.contains(&Block::Table(table(&["CPU", "max"], &[&["1", "3.85 ms"]]))), "{idle:?}");
    }

    #[test]
    fn a_load_that_ended_early_proves_no_limit() {
        let early = || (load(), vec!["a load ended early".to_owned()]);
        let both = combined(limited(true), limited(true), early(), 1);
        assert_eq!((both.answer, held(&both)), (Answer::Unknown, vec![None]));
        assert_eq!(both.data.notes(), ["a load ended early"]);
        let both = combined(limited(true), limited(true), (load(), Vec::new()), 1);
        assert_eq!((both.answer, held(&both)), (Answer::Yes, vec![Some(true)]));
        let both = combined(limited(false), limited(false), early(), 1);
        assert_eq!(both.answer, Answer::No);
    }
}
