//! Compares two or more sides, each with one run or with several. `hpt compare` and `hpt report --compare` both do.

mod page;
mod ranking;
mod rows;
mod rules;
mod settings;
mod shown;
mod sides;
mod terminal;
mod values;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use hpt_document::{
    SCHEMA,
    compare::{CompareDocument, CompareMethod, CompareVerdict, ComparedFigureRow},
    wake_latency::WakeLatencyDocument,
};

use self::{
    rows::Values,
    sides::Side,
    values::{One, is_alike, is_same},
};
use super::{data_file::Report, files::ReportFiles, html_page, page_line::page_line};
use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    exit::{Failure, causes},
    output::{Answer, Block, Document, chart::Unreadable, html, one_or_many, rounded},
};

const EXAMPLES: &str = "  \
  hpt compare before.json after.json      two runs of hpt latency timer --json
  hpt compare old.json new.json --fail-on worse
                                          exit with 1 if the new one is worse
  hpt latency timer --json >> old.json    add a run to a side; repeat this for
                                          each side in turns";

/// Compare two or more results
///
/// Each FILE is a side. It contains one or several documents of hpt, one after another, for example
/// of hpt latency timer --json or hpt report. Several runs a side show how much runs differ by
/// themselves: take at least three of each, in turns, and append each document to the file of its
/// side. With one run a side, the intervals of the samples show whether these two runs differ, not
/// whether the machines or the settings do.
#[derive(Debug, Args)]
#[command(after_help = "Example: hpt compare old.json new.json --fail-on worse", after_long_help = after_help(Codes::of(Some("a value is worse (--fail-on)")), EXAMPLES), args(without_metrics()))]
pub(crate) struct CompareArguments {
    /// Files with the documents of each side
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Exit with 1 if the result is as stated: worse
    ///
    /// worse: a time of another side is surely longer than that of the first. With --fail-on, the exit code is 3 if no
    /// value could be judged.
    #[arg(long, value_name = "RESULT")]
    fail_on: Option<FailOnChange>,
    /// HTML page to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace existing files, but never the input data
    #[arg(long)]
    force: bool,
    /// Also write every chart of the page to DIR, as SVG
    #[arg(long, value_name = "DIR", requires = "output")]
    svg: Option<PathBuf>,
}

/// A result that is a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOnChange {
    Worse,
}

/// Runs `hpt compare`.
pub(crate) fn run(arguments: &CompareArguments, context: &Context) -> Result<Document, Failure> {
    let CompareArguments { files, fail_on, output, force, svg } = arguments;
    let keeping = ReportFiles { page: output.clone(), data: None, charts: svg.as_deref(), force: *force };
    compare(files, *fail_on, &keeping, context)
}

/// Compares the files, and writes the page if one is requested.
pub(super) fn compare(
    paths: &[PathBuf],
    fail_on: Option<FailOnChange>,
    keeping: &ReportFiles<'_>,
    context: &Context,
) -> Result<Document, Failure> {
    keeping.spare(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let runs: Result<Vec<Vec<Report>>, Failure> = paths.iter().map(|path| sound(path)).collect();
    let sides = Side::all(paths, runs?);
    let method = method(&sides)?;
    if keeping.page.is_none() && keeping.charts.is_some() {
        return Err(Failure::Usage(
            "--svg with --compare also requires --output, because the charts are taken from the page",
        ));
    }
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let unreadable = |why: Unreadable| Failure::NotComparable { path: all.join(" or ").into(), why: causes(&why) };
    let data = data(&sides, method, context).map_err(unreadable)?;
    let page = keeping.page.is_some().then(|| page::page(&sides, &data)).transpose().map_err(unreadable)?;
    let written = page.map(|(page, files)| keeping.keep(&html::page(&page), "", &files)).transpose()?;
    let mut blocks = terminal::blocks(&data);
    if let Some(path) = written.and_then(|kept| kept.page) {
        blocks.push(Block::Section("Files".to_owned(), vec![page_line(path)]));
    }
    let answer = match fail_on {
        Some(FailOnChange::Worse) if data.worse > 0 => Answer::No,
        Some(FailOnChange::Worse) if data.judged == 0 => Answer::Unknown,
        Some(FailOnChange::Worse) | None => Answer::Yes,
    };
    Ok(Document { answer, ..Document::new(data, blocks) })
}

/// Reads the runs of one side. Fails if a part cannot be read, because missing values would go unnoticed in the
/// comparison.
fn sound(path: &Path) -> Result<Vec<Report>, Failure> {
    let runs = Report::read_all(path)?;
    for (run, part) in runs.iter().flat_map(|run| run.0.documents.keys().map(move |part| (run, part))) {
        let read = run.any_document(part);
        read.map_err(|why| Failure::NotComparable { path: path.to_owned(), why: causes(&why) })?;
    }
    Ok(runs)
}

/// Returns the method that the numbers of runs allow.
fn method(sides: &[Side]) -> Result<CompareMethod, Failure> {
    let counts: Vec<usize> = sides.iter().map(|side| side.runs.len()).collect();
    if counts.iter().all(|runs| *runs == 1) {
        return Ok(CompareMethod::WithinRuns);
    }
    if counts.iter().all(|runs| *runs >= 3) {
        return Ok(CompareMethod::BetweenRuns);
    }
    let of = |side: &Side| format!("{} ({})", side.file, side.runs.len());
    Err(Failure::NumbersOfRuns(sides.iter().map(of).collect::<Vec<_>>().join(", ")))
}

fn data(sides: &[Side], method: CompareMethod, context: &Context) -> Result<CompareDocument, Unreadable> {
    let block_ns = longest_interval(sides)?;
    let values: Result<Vec<Values<'_>>, Unreadable> = sides
        .iter()
        .map(|side| {
            let runs: Result<Vec<_>, _> = side.runs.iter().map(|run| values::figures(run, block_ns)).collect();
            Ok(Values { name: &side.name, runs: runs? })
        })
        .collect();
    let values = values?;
    let results = rows::rows(&values, method);
    let quantities: Vec<&[ComparedFigureRow]> = results.chunks(sides.len()).collect();
    let count = |is: &dyn Fn(&ComparedFigureRow) -> bool| quantities.iter().filter(|rows| rows.iter().any(is)).count();
    let ranking = ranking::ranking(sides, &results)?;
    let settings = settings::settings(sides);
    let names: Vec<&str> = sides.iter().map(|side| side.name.as_str()).collect();
    let in_turns = sides::in_turns(sides).filter(|_| method == CompareMethod::BetweenRuns);
    Ok(CompareDocument {
        schema: SCHEMA,
        kind: "compare".to_owned(),
        hpt: env!("CARGO_PKG_VERSION").to_owned(),
        method,
        in_turns,
        confidence: 1.0 - rows::ERROR,
        differing: count(&|row| row.verdict == CompareVerdict::Differs),
        worse: count(&shown::is_worse),
        judged: count(&|row| [CompareVerdict::Differs, CompareVerdict::NotShown].contains(&row.verdict)),
        quantities: quantities.len(),
        coincidences: settings::coincidences(&names, &ranking, &settings),
        rules: rules::rules(&sides.iter().map(Side::first).collect::<Vec<_>>())?,
        conditions: settings::conditions(sides),
        notes: notes(sides, &values, in_turns, context),
        sides: sides.iter().map(Side::described).collect(),
        results,
        ranking,
        settings,
    })
}

/// Returns the longest interval of all time series. The lengths of all others divide it.
fn longest_interval(sides: &[Side]) -> Result<u64, Unreadable> {
    let mut longest = 0;
    for run in sides.iter().flat_map(|side| &side.runs) {
        for (part, _) in html_page::WAKES {
            let rows = run.document::<WakeLatencyDocument>(part)?.into_iter().flat_map(|document| document.results);
            longest = rows.map(|row| row.time_series_interval_ns).fold(longest, u64::max);
        }
    }
    Ok(longest)
}

/// Returns remarks on what makes the sides hard to compare.
fn notes(sides: &[Side], values: &[Values<'_>], in_turns: Option<bool>, context: &Context) -> Vec<String> {
    let mut notes = context.notes();
    let runs = || sides.iter().flat_map(|side| &side.runs);
    let first = sides[0].first();
    if in_turns == Some(false) {
        notes.push("the runs of the sides were not taken in turns, so a change of the load between them may be the reason for a difference; take one run of each side after another".to_owned());
    }
    if runs().any(|run| run.0.hpt != first.0.hpt) {
        let versions: Vec<&str> = sides.iter().map(|side| side.first().0.hpt.as_str()).collect();
        notes.push(format!("different versions of hpt made the measurements: {}", versions.join(", ")));
    }
    if runs().any(|run| run.0.machine.cpu != first.0.machine.cpu) {
        notes.push("the machines have different CPUs".to_owned());
    }
    for side in sides {
        let of_run = side.runs.iter().flat_map(|run| &run.0.notes);
        let mut said: Vec<(&str, usize)> = Vec::new();
        for note in of_run.map(|note| note.trim_end_matches('.')) {
            match said.iter_mut().find(|(known, _)| *known == note) {
                Some((_, count)) => *count += 1,
                None => said.push((note, 1)),
            }
        }
        notes.extend(said.iter().map(|(note, count)| match side.runs.len() {
            1 => format!("{}: {note}", side.name),
            runs => format!("{}: {note} ({count} of {runs} {})", side.name, one_or_many(runs, "run", "runs")),
        }));
    }
    notes.extend(sides::differing_commands(sides));
    notes.extend(of_nominal_rates(values));
    notes
}

/// Explains which frequency errors are not compared.
fn of_nominal_rates(values: &[Values<'_>]) -> Vec<String> {
    let against = |one: &One| {
        let known = one.against.as_ref().map(|(by, hz)| format!("{} MHz ({by})", rounded(hz / 1e6)));
        known.unwrap_or_else(|| "an unknown frequency".to_owned())
    };
    let (first, others) = (&values[0], &values[1..]);
    let pairs = others.iter().flat_map(|other| {
        let run = other.runs.first().into_iter().flatten();
        run.map(move |one| (other.name, one))
    });
    let said = pairs.filter_map(|(name, other)| {
        let one = first.runs.first()?.iter().find(|one| is_same(one, other) && !is_alike(one, other))?;
        Some(format!(
            "{}: not compared because the origins of the nominal frequencies differ: {} in {}, {} in {name}",
            one.what,
            against(one),
            first.name,
            against(other)
        ))
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use clap::Parser;
    use hpt_core::Instant;
    use hpt_document::{Document, compare::CompareVerdict, not_run::NotRun, wake_latency::WakeLatencyRow};
    use hpt_instrument::measure::{Latencies, Wake};

    use super::{CompareArguments, run};
    use crate::{
        context::Context,
        golden,
        output::Format,
        sampling::{late_deadlines::LateDeadlines, latency_figures, time_series::TimeSeries},
        statistics::quantile::tests::Random,
    };

    /// Returns the document of a run into which 40,000 wake-ups are replayed: 20 µs and a little noise, and bursts that
    /// take 3 % of the time and whose latencies have this scale.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
    fn replayed(random: &mut Random, start_s: usize, scale: f64) -> String {
        let (mut latencies, mut time_series) = (Latencies::new(), TimeSeries::new());
        let (mut deadline, mut left, mut is_burst) = (Instant::EPOCH, 40_000, false);
        while left > 0 {
            let length = random.length(if is_burst { 3.0 } else { 97.0 }).min(left);
            for _ in 0..length {
                let noise = -random.part().ln();
                let late = if is_burst { scale * (40_000.0 + 20_000.0 * noise) } else { 20_000.0 + 1_000.0 * noise };
                deadline += Duration::from_micros(500);
                let wake = Wake::new(deadline, late as u64);
                time_series.record(LateDeadlines::of(&wake));
                latencies.record(wake);
            }
            (left, is_burst) = (left - length, !is_burst);
        }
        let Document::WakeLatency(mut document) = golden::empty("latency-timer") else { panic!("another kind") };
        document.time.started_at = format!("2026-01-01T00:{:02}:{:02}Z", start_s / 60, start_s % 60);
        document.results = vec![WakeLatencyRow {
            cpu: Some(0),
            figures: latency_figures::figures(&latencies).expect("samples"),
            intervals: Vec::new(),
            not_run: NotRun::default(),
            clock_stepped: 0,
            time_series_interval_ns: time_series.every_ns(),
            time_series: time_series.rows(),
            heat_map_interval_ns: time_series.heat_map().every_ns(),
            heat_map: time_series.heat_map().columns(),
        }];
        serde_json::to_string(&document).expect("it has a JSON form")
    }

    /// Returns the verdict of `hpt compare` on a quantile.
    fn verdict(first: &Path, other: &Path, quantile: &str) -> CompareVerdict {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            arguments: CompareArguments,
        }
        let line = Line::parse_from([Path::new("hpt"), first, other]);
        let context = Context::new(Ok(false), Format::Json, None).expect("it writes nothing");
        let compared = run(&line.arguments, &context).expect("comparable");
        let Document::Compare(data) = compared.data else { panic!("another kind") };
        let end = format!(", {quantile}");
        let row = data.results.iter().find(|row| row.side == "B" && row.quantity.ends_with(&end));
        row.unwrap_or_else(|| panic!("{quantile} in {:#?}", data.results)).verdict
    }

    #[test]
    fn a_planted_change_of_p99_by_a_fifth_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (first, other) = (folder.path().join("a"), folder.path().join("b"));
        let mut random = Random(1);
        for (scale, least, most) in [(1.2, 18, 20), (1.0, 0, 2)] {
            let found = (0..20).filter(|_| {
                let mut run = |at, scale| replayed(&mut random, at, scale);
                let pairs = (0..5).map(|at| (run(2 * at, 1.0), run(2 * at + 1, scale)));
                let (runs, others): (Vec<String>, Vec<String>) = pairs.unzip();
                std::fs::write(&first, runs.join("\n")).expect("ours");
                std::fs::write(&other, others.join("\n")).expect("ours");
                assert_eq!(verdict(&first, &other, "p50"), CompareVerdict::NotShown);
                verdict(&first, &other, "p99") == CompareVerdict::Differs
            });
            let found = found.count();
            eprintln!("p99 times {scale}: found in {found} of 20 comparisons");
            assert!((least..=most).contains(&found), "p99 times {scale}: {found} of 20");
        }
    }
}
