//! `hpt report`: runs a set of measurements and creates an HTML page from their results, or compares two reports. The
//! caller provides the function that runs a command line.

pub(crate) mod compare;
mod conditions;
mod data_file;
mod files;
mod html_page;
mod page_line;
mod plan;
mod summary;

use std::{
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use clap::{Args, builder::PossibleValuesParser};
use hpt_core::Host;
use hpt_document::{
    SCHEMA,
    report::{ReportDocument, ReportPart, ReportPartState},
};
use serde_json::{Map, Value};

pub(crate) use self::plan::PLANS;
use self::{
    data_file::{KIND, Report, words},
    files::ReportFiles,
    page_line::page_line,
    plan::Plan,
};
use crate::{
    arguments::{Codes, CpuChoice, after_help, cpu_choice, without_metrics},
    context::Context,
    document_head::machine_of,
    exit::{Failure, causes},
    measurements::Request,
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, Tone, html, progress::WholeProgress, remarks, rounded,
    },
};

const EXAMPLES: &str = "  \
  hpt report                                  write hpt-report.html and .json in
                                              about 90 seconds
  hpt report --short --output quick.html      take about ten seconds
  hpt report --part bench,timer --svg charts  measure two parts, save charts
  hpt report --from hpt-report.json --output again.html
  hpt report --compare monday.json friday.json --output comparison.html
  hpt report --compare a.json b.json c.json   rank any number of machines";

/// The default path of the page, without its extension.
const PAGE: &str = "hpt-report";

/// Measure everything, and write an HTML report
///
/// Runs doctor, probe, bench, latency timer (on every CPU), poll and stall, sleep, sleep --curve and
/// watch, one after another. Writes a self-contained HTML page and, in the same directory, a
/// JSON file with the same data. Neither file contains a host name or a user name. If Ctrl-C ends
/// the measurement, hpt writes the partial results. --from recreates the page from saved data.
/// --compare compares two or more reports, as hpt compare does.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a part could not be measured")), EXAMPLES), args(without_metrics()))]
pub(crate) struct ReportArguments {
    /// HTML page to write [default: hpt-report.html]
    ///
    /// The data file has the same name with the extension .json. If the default page or its data file exists, hpt writes
    /// hpt-report-2.html, and so on. With --from, the default is the
    /// name of the data file with the extension .html, unless --svg is given. With --compare, hpt
    /// writes a page only if this option is given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace existing files
    ///
    /// With --svg, also removes the charts of an earlier report. Never replaces the input data.
    #[arg(long)]
    force: bool,
    /// Parts to measure [default: all but experiment]
    ///
    /// doctor, probe, bench, timer, timer-hpt, poll, stall, sleep, sleep-curve, watch, experiment; separated by commas. The
    /// part experiment shows published figures next to figures that were measured here.
    #[arg(long, value_name = "PART", hide_possible_values = true, value_delimiter = ',', value_parser = PossibleValuesParser::new(PLANS.iter().map(|plan| plan.name)), conflicts_with_all = ["from", "compare"])]
    part: Vec<String>,
    /// Take fewer samples, so that hpt needs about ten seconds
    #[arg(long, conflicts_with_all = ["from", "compare"])]
    short: bool,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true, conflicts_with_all = ["from", "compare"])]
    cpu: Option<CpuChoice>,
    /// Explain the latest samples, with timelines
    ///
    /// Measures the parts timer, timer-hpt, poll, stall and sleep with --explain, which requires root. Recording the kernel's
    /// trace adds about two microseconds to each wake-up.
    #[arg(long, conflicts_with_all = ["from", "compare", "host"])]
    explain: bool,
    /// Name of the machine in the report [default: none]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "compare"])]
    name: Option<String>,
    /// Report on the system snapshot in FILE (see hpt capture)
    ///
    /// The report contains the parts doctor and probe, because nothing can be measured in a snapshot.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "compare", "cpu", "short"])]
    host: Option<PathBuf>,
    /// Recreate the page from saved data
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    from: Option<PathBuf>,
    /// Compare two or more reports (as hpt compare does)
    ///
    /// Prints the differences, and with -v all values. Ratios are relative to the first report. For three and more, also
    /// prints a ranking, and marks outliers. With --output, also writes a page.
    #[arg(long, value_names = ["A", "B"], num_args = 2..)]
    compare: Vec<PathBuf>,
    /// Also write every chart to DIR, as SVG
    ///
    /// Creates the directory if it does not exist.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(arguments: &ReportArguments, context: &Context) -> Result<Document, Failure> {
    if !arguments.compare.is_empty() {
        let keeping = arguments.keeping(arguments.output.clone(), None);
        return compare::compare(&arguments.compare, None, &keeping, context);
    }
    if let Some(path) = &arguments.from {
        let out = arguments.output.clone().or_else(|| arguments.svg.is_none().then(|| path.with_extension("html")));
        let keeping = arguments.keeping(out, None);
        keeping.spare(&[path.as_path()])?;
        return written(&Report::read(path)?, &keeping, Some(path));
    }
    let out = arguments.output.clone().unwrap_or_else(|| default_page(arguments.force));
    let data = out.with_extension("json");
    if data == out {
        return Err(Failure::Usage(
            "--output must not name a file with the extension .json, because the data file has this name; choose another extension for the page",
        ));
    }
    let keeping = arguments.keeping(Some(out), Some(data));
    // Check the paths before the measurement.
    keeping.check()?;
    let captured = arguments.host.as_deref().map(Context::captured).transpose()?;
    if captured.is_some() && arguments.part.iter().any(|part| !plan::EXAMINING.contains(&part.as_str())) {
        return Err(Failure::Usage(
            "--host examines a system snapshot, in which nothing can be measured; choose among --part doctor,probe",
        ));
    }
    context.signals.listen()?;
    let report = measure(arguments, captured.as_ref().unwrap_or(&context.host), context);
    written(&report, &keeping, None)
}

/// Returns the default page, or, unless it is to be replaced, the first numbered one that does not exist, so that a
/// report does not fail because there is an earlier one.
fn default_page(is_replaced: bool) -> PathBuf {
    let is_free =
        |page: &PathBuf| [page, &page.with_extension("json")].iter().all(|path| path.symlink_metadata().is_err());
    let first = PathBuf::from(format!("{PAGE}.html"));
    if is_replaced || is_free(&first) {
        return first;
    }
    (2..1000).map(|number| format!("{PAGE}-{number}.html").into()).find(is_free).unwrap_or(first)
}

impl ReportArguments {
    fn keeping(&self, page: Option<PathBuf>, data: Option<PathBuf>) -> ReportFiles<'_> {
        ReportFiles { page, data, charts: self.svg.as_deref(), force: self.force }
    }
}

fn measure(arguments: &ReportArguments, host: &Host, context: &Context) -> Report {
    let wanted = |plan: &&Plan| match arguments.part.as_slice() {
        [] if arguments.host.is_some() => plan::EXAMINING.contains(&plan.name),
        [] => plan.by_default,
        parts => parts.iter().any(|part| part == plan.name),
    };
    let plans: Vec<&Plan> = PLANS.iter().filter(wanted).collect();
    let mut conditions = conditions::before(host);
    let (began, start) = (SystemTime::now(), Instant::now());
    let (mut parts, mut documents, mut notes) = (Vec::new(), Map::new(), context.notes());
    let expected: Vec<_> = plans.iter().map(|plan| (plan.name, plan.expected(arguments.short))).collect();
    let progress = WholeProgress::new(&expected);
    for (number, plan) in plans.iter().enumerate() {
        let mut request = plan.request(arguments.short, arguments.cpu);
        if arguments.explain {
            request.explained();
        }
        if let Some(file) = &arguments.host {
            request.of_snapshot(file);
        }
        let mut part = part_of(plan.name, request.line());
        if !context.interrupted() {
            progress.begin(number);
            if let Some(document) = measure_part(&mut part, &request, context) {
                notes.extend(document.warnings.iter().map(|warning| format!("{}: {warning}", part.command)));
                documents.insert(part.name.clone(), document.value());
            }
        }
        parts.push(part);
    }
    drop(progress);
    conditions.load_after = conditions::load(host);
    let machine = machine_of(host);
    let mut report = Report(ReportDocument {
        schema: SCHEMA,
        kind: KIND.to_owned(),
        hpt: env!("CARGO_PKG_VERSION").to_owned(),
        name: arguments.name.clone(),
        emulated_by: machine.emulated_by.clone(),
        machine,
        started_at: humantime::format_rfc3339_seconds(began).to_string(),
        elapsed_s: rounded(start.elapsed().as_secs_f64()),
        interrupted: context.interrupted(),
        conditions: Some(conditions),
        parts,
        documents,
        notes,
    });
    report.hide(std::env::var("HOME").ok().as_deref());
    report
}

/// Returns a part that has not begun.
fn part_of(name: &str, command: &str) -> ReportPart {
    ReportPart {
        name: name.to_owned(),
        command: command.to_owned(),
        state: ReportPartState::NotStarted,
        reason: None,
        elapsed_s: 0.0,
    }
}

fn measure_part(part: &mut ReportPart, request: &Request, context: &Context) -> Option<Document> {
    let begun = Instant::now();
    let measured = request.measure(&context.of_a_part());
    part.elapsed_s = rounded(begun.elapsed().as_secs_f64());
    match measured {
        Ok(document) => {
            part.state = if context.interrupted() { ReportPartState::Interrupted } else { ReportPartState::Measured };
            Some(document)
        }
        Err(failure) => {
            part.state = ReportPartState::Failed;
            part.reason = Some(causes(&failure));
            None
        }
    }
}

impl Report {
    /// Replaces home directories with `~`, because they contain user names.
    fn hide(&mut self, home: Option<&str>) {
        let hide = |text: &mut String| *text = without_homes(text, home);
        let report = &mut self.0;
        report.notes.iter_mut().for_each(hide);
        report.parts.iter_mut().filter_map(|part| part.reason.as_mut()).for_each(hide);
        report.parts.iter_mut().map(|part| &mut part.command).for_each(hide);
        report.documents.iter_mut().for_each(|(_, document)| in_texts(document, &hide));
    }
}

fn in_texts(value: &mut Value, change: &dyn Fn(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| in_texts(value, change)),
        Value::Object(values) => values.iter_mut().for_each(|(_, value)| in_texts(value, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn without_homes(text: &str, home: Option<&str>) -> String {
    let text = match home.map(|home| home.trim_end_matches('/')) {
        Some(home) if home.len() > 1 => text.replace(home, "~"),
        _ => text.to_owned(),
    };
    // Replace the home directories of other users too: the text up to the next slash is a user name.
    let mut parts = text.split("/home/");
    let mut hidden = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let name = part.find(|letter: char| letter == '/' || letter.is_whitespace() || ":,;\"')".contains(letter));
        hidden.push('~');
        hidden.push_str(&part[name.unwrap_or(part.len())..]);
    }
    hidden
}

/// Creates and saves the page. Returns its location and the measured parts.
fn written(report: &Report, keeping: &ReportFiles<'_>, from: Option<&Path>) -> Result<Document, Failure> {
    let made = html_page::page(report).map_err(|why| {
        let path = from.unwrap_or(Path::new("the report")).to_owned();
        Failure::NotAReport { path, why: causes(&why) }
    })?;
    let data = serde_json::to_string_pretty(&report.0).expect("numbers, strings and lists have a JSON form") + "\n";
    let report = &report.0;
    let kept = keeping.keep(&html::page(&made.page), &data, &made.charts)?;

    let mut blocks = parts(report);
    blocks.extend(remarks(false, &report.notes));
    if report.interrupted {
        blocks.push(Block::Text("Interrupted: the report contains partial results.".to_owned()));
    }
    if !made.page.first.is_empty() {
        let figures = made.page.first.iter();
        let figures = figures.map(|(name, value, says)| {
            vec![Cell::faint(format!("{name} ")), Cell::strong(value), Cell::plain(format!("({says})"))]
        });
        blocks.push(Block::Section("Results".to_owned(), figures.collect()));
    }
    let mut files: Vec<Vec<Cell>> = Vec::new();
    let file = |name: &str, text: String| vec![Cell::faint(format!("{name} ")), Cell::plain(text)];
    files.extend(kept.data.map(|path| file("Data", path.display().to_string())));
    files.extend(kept.charts.map(|(path, count)| file("Charts", format!("{count} in {}", path.display()))));
    files.extend(kept.page.map(page_line));
    blocks.push(Block::Section("Files".to_owned(), files));
    let answer =
        match (report.documents.is_empty(), report.parts.iter().any(|part| part.state == ReportPartState::Failed)) {
            (true, _) => Answer::Unknown,
            (false, true) => Answer::No,
            (false, false) => Answer::Yes,
        };
    Ok(Document { answer, ..Document::new(report.clone(), blocks) })
}

/// Formats the parts that were not measured, and as a detail all parts with their durations.
fn parts(report: &ReportDocument) -> Vec<Block> {
    let columns = vec![
        Column("part", Align::Left),
        Column("", Align::Left),
        Column("time s", Align::Right),
        Column("command", Align::Left),
    ];
    let row = |part: &ReportPart| {
        let tone = match part.state {
            ReportPartState::Measured => Tone::Plain,
            ReportPartState::Interrupted | ReportPartState::NotStarted => Tone::Faint,
            ReportPartState::Failed => Tone::Bad,
        };
        let why = part.reason.as_ref().map_or_else(|| part.command.clone(), |why| format!("{}: {why}", part.command));
        let state = Cell(words(part.state).to_owned(), tone);
        vec![Cell::plain(&part.name), state, Cell::plain(format!("{:.1}", part.elapsed_s)), Cell::plain(why)]
    };
    let all = Table { columns, rows: report.parts.iter().map(row).collect() };
    let incomplete = report.parts.iter().filter(|part| part.state != ReportPartState::Measured);
    let incomplete: Vec<_> = incomplete
        .map(|part| {
            let reason = part.reason.as_deref().unwrap_or_default();
            vec![Cell::plain(&part.name), Cell::plain(words(part.state)), Cell::plain(reason)]
        })
        .collect();
    let mut blocks = vec![Block::Detail(Box::new(Block::Table(all)))];
    if !incomplete.is_empty() {
        blocks.push(Block::Section("Incomplete parts".to_owned(), incomplete));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{in_texts, without_homes};

    #[test]
    fn home_directories_are_not_shown() {
        let hidden = |text: &str| without_homes(text, Some("/var/lib/carol"));
        assert_eq!(
            hidden("cannot write /home/alice/.local/x: no, /home/bob: no"),
            "cannot write ~/.local/x: no, ~: no"
        );
        assert_eq!(hidden("/var/lib/carol/.local/state"), "~/.local/state");
        assert_eq!(without_homes("/var/lib/alice/x", Some("/var/lib/alice/")), "~/x");
        assert_eq!(without_homes("a / b", Some("/")), "a / b");
        let mut document = json!({"notes": ["in /home/alice"], "n": 1, "rows": [{"how": "/home/alice/x"}]});
        in_texts(&mut document, &|text: &mut String| *text = without_homes(text, None));
        assert_eq!(document, json!({"notes": ["in ~"], "n": 1, "rows": [{"how": "~/x"}]}));
    }
}
