//! An idle phase and a loaded phase of a measurement, in one document and one table. Measures nothing itself; the caller
//! passes the measurement.

use hpt_document::{
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
        finished::{Finished, ResultDocument},
        limits::{
            self,
            verdict::{doubt, of_both_phases},
        },
    },
};

/// Measures once or, with `--load`, twice: idle and under load. `keys` is the number of columns of the first table that
/// identify a row. `measured` contains the CPU of each measuring thread.
pub(crate) fn in_phases<D: ResultDocument>(
    options: &LoadOptions,
    context: &Context,
    (measured, keys): (&[Option<usize>], usize),
    measure: impl Fn() -> Result<Finished<D>, Failure>,
) -> Result<Document, Failure> {
    let kinds = options.kinds();
    if kinds.is_empty() {
        return measure().map(Document::from);
    }
    let cpus = options.cpus(measured)?;
    // A long idle phase must not be lost because the load cannot start.
    check_space(&context.host, &kinds, &cpus)?;
    let mut idle = measure()?;
    // A run that ended early is not comparable, and neither Ctrl-C nor --stop-above asks for another one.
    if context.interrupted() || idle.data.parts().stopped_at_ns.is_some() {
        return Ok(idle.into());
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
fn only_idle<D: ResultDocument>(idle: Finished<D>, failure: &Failure) -> Document {
    let why = format!("there is no loaded phase: {}", failure.text());
    let Finished { mut data, blocks, mut warnings, answer } = idle;
    let parts = data.parts();
    let of_phase = PhaseParts::of(blocks, parts.limits);
    doubt(parts.limits, &why);
    parts.notes.push(why.clone());
    let blocks = (of_phase.headline.map(|text| Block::Headline(format!("Idle: {text}"))).into_iter())
        .chain(limits::table::blocks(parts.limits))
        .chain(of_phase.table.map(Block::Table))
        .chain(of_phase.details)
        .chain(remarks(*parts.interrupted, parts.notes))
        .collect();
    warnings.push(why);
    Finished { data, blocks, warnings, answer: answer.and(Answer::Unknown) }.into()
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

/// Combines the documents of the two phases: the loaded phase becomes a part of the document of the idle phase. A limit
/// applies to both phases.
fn combined<D: ResultDocument>(
    idle: Finished<D>,
    loaded: Finished<D>,
    (load, notes): (Load, Vec<String>),
    keys: usize,
) -> Document {
    // An exceeded limit counts even if the result of the other phase is unknown.
    let mut answer = idle.answer.and(loaded.answer);
    let ended_early = notes.first().cloned();
    let of_load = words(&load);
    let mut warnings = idle.warnings;
    warnings.extend(loaded.warnings.into_iter().map(under_load));
    let (mut data, mut other) = (idle.data, loaded.data);
    let (parts, others) = (data.parts(), other.parts());
    let tables = (PhaseParts::of(idle.blocks, parts.limits), PhaseParts::of(loaded.blocks, others.limits));
    let mut explanation = others.explanation.map(std::mem::take).unwrap_or_default();
    name_processes(&mut explanation, &load);
    let of_idle = parts.explanation.map(|explanation| &*explanation);
    let causes = [("Idle", of_idle), ("Under load", Some(&explanation))].into_iter().flat_map(|(phase, causes)| {
        causes.map_or_else(Vec::new, |causes| explain::terminal::blocks_of_phase(phase, causes, D::SAMPLES))
    });
    let causes: Vec<Block> = causes.collect();
    *parts.interrupted |= *others.interrupted;
    parts.notes.extend(notes);
    parts.notes.extend(others.notes.iter().map(under_load));
    *parts.limits = of_both_phases(std::mem::take(parts.limits), std::mem::take(others.limits));
    if let Some(why) = ended_early {
        doubt(parts.limits, &why);
        answer = answer.and(Answer::Unknown);
    }
    if let Some(loaded) = parts.loaded {
        *loaded = Some(LoadedPhase {
            load,
            interrupted: *others.interrupted,
            stopped_at_ns: others.stopped_at_ns,
            cpu_absences: std::mem::take(others.cpu_absences),
            conditions: std::mem::take(others.conditions),
            explanation,
            results: std::mem::take(others.results),
        });
    }
    let blocks = side_by_side(tables, of_load, keys)
        .into_iter()
        .chain(causes)
        .chain(limits::table::blocks(parts.limits))
        .chain(remarks(*parts.interrupted, parts.notes))
        .collect();
    Finished { data, blocks, warnings, answer }.into()
}

fn under_load(text: impl AsRef<str>) -> String {
    format!("under load: {}", text.as_ref())
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
            if let Some(before) = above.get(index).filter(|_| cell.0.is_empty()) {
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
    use hpt_document::{
        bench::BenchDocument,
        load::{Load, LoadKind},
        sleep::SleepDocument,
        stall::StallDocument,
        wake_latency::WakeLatencyDocument,
    };
    use serde::de::DeserializeOwned;

    use super::{combined, merged, name_processes, only_idle, words};
    use crate::{
        exit::Failure,
        golden,
        output::{Align, Answer, Block, Cell, Column, Document, Format, Look, Table, rendered},
        sampling::{
            explain,
            finished::{Finished, ResultDocument},
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

    /// Returns the result of a measurement of this kind, without rows.
    fn finished<D: ResultDocument + DeserializeOwned>(kind: &str, answer: Answer, headline: &str) -> Finished<D> {
        let data = serde_json::to_value(golden::empty(kind)).expect("a document");
        let data = serde_json::from_value(data).expect("the kind of this type");
        Finished { data, blocks: vec![Block::Headline(headline.to_owned())], warnings: Vec::new(), answer }
    }

    fn assert_combined<D: ResultDocument + DeserializeOwned>(kind: &str) {
        let both =
            |one, other| combined::<D>(finished(kind, one, "a"), finished(kind, other, "b"), (load(), Vec::new()), 1);
        let of_no = both(Answer::Yes, Answer::No);
        assert_eq!(of_no.answer, Answer::No, "{kind}");
        let value = of_no.value();
        assert_eq!(value["loaded"]["load"]["program"], "stress-ng", "{kind}");
        assert_eq!((&value["loaded"]["results"], &value["notes"]), (&serde_json::json!([]), &serde_json::json!([])));
        let headlines = of_no.blocks.iter().filter_map(|block| match block {
            Block::Headline(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(headlines.collect::<Vec<_>>(), ["Idle: a", "Under load: b"]);
        assert_eq!(both(Answer::Unknown, Answer::No).answer, Answer::No);
        assert_eq!(both(Answer::Yes, Answer::Unknown).answer, Answer::Unknown);
    }

    #[test]
    fn both_phases_are_in_one_document_and_the_worse_answer_counts() {
        assert_combined::<WakeLatencyDocument>("latency-timer");
        assert_combined::<WakeLatencyDocument>("latency-poll");
        assert_combined::<StallDocument>("latency-stall");
        assert_combined::<SleepDocument>("sleep");
        assert_combined::<BenchDocument>("bench");
    }

    /// Returns a result with a limit of each verdict, or only with one that held.
    fn limited(only_held: bool) -> Finished<WakeLatencyDocument> {
        let mut limited: Finished<WakeLatencyDocument> = finished("latency-timer", Answer::Yes, "a");
        limited.data.limits = examples();
        limited.data.limits.truncate(if only_held { 1 } else { 3 });
        limited.answer = verdict::answer(&limited.data.limits);
        limited.blocks.extend(limits::table::blocks(&limited.data.limits));
        limited
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
