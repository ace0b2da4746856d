//! Compares reports, and finds the values whose intervals do not overlap.

mod page;
mod ranking;
mod rows;
mod rules;
mod settings;
mod shown;
mod terminal;
mod values;

use std::path::{Path, PathBuf};

use hpt_document::{
    SCHEMA,
    report_compare::{CompareVerdict, ComparedFigureRow, ComparedReport, ReportCompareDocument},
};

use self::values::{One, is_alike, is_same};
use super::{data_file::Report, files::ReportFiles, html_page, page_line::page_line};
use crate::{
    context::Context,
    exit::{Failure, causes},
    output::{Block, Document, chart::Unreadable, html, rounded},
};

pub(super) fn run(paths: &[PathBuf], keeping: &ReportFiles<'_>, context: &Context) -> Result<Document, Failure> {
    keeping.spare(&paths.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let reports: Result<Vec<Report>, Failure> = paths.iter().map(|path| sound(path)).collect();
    let reports = reports?;
    if keeping.page.is_none() && keeping.charts.is_some() {
        return Err(Failure::Usage(
            "--svg with --compare also requires --output, because the charts are taken from the page",
        ));
    }
    let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let unreadable = |why: Unreadable| Failure::NotAReport { path: all.join(" or ").into(), why: causes(&why) };
    let data = data(&reports, context).map_err(unreadable)?;
    let page = keeping.page.is_some().then(|| page::page(&reports, &data)).transpose().map_err(unreadable)?;
    let written = page.map(|(page, files)| keeping.keep(&html::page(&page), "", &files)).transpose()?;
    let mut blocks = terminal::blocks(&data);
    if let Some(path) = written.and_then(|kept| kept.page) {
        blocks.push(Block::Section("Files".to_owned(), vec![page_line(path)]));
    }
    Ok(Document::new(data, blocks))
}

/// Reads a report. Fails if a part cannot be read, because missing values would go unnoticed in the comparison.
fn sound(path: &Path) -> Result<Report, Failure> {
    let report = Report::read(path)?;
    let made = html_page::page(&report);
    made.map_err(|why| Failure::NotAReport { path: path.to_owned(), why: causes(&why) })?;
    Ok(report)
}

fn data(reports: &[Report], context: &Context) -> Result<ReportCompareDocument, Unreadable> {
    let names = names(reports);
    let values: Result<Vec<(&str, Vec<One>)>, Unreadable> =
        names.iter().zip(reports).map(|(name, report)| Ok((name.as_str(), values::figures(report)?))).collect();
    let values = values?;
    let results = rows::rows(&values);
    let quantities: Vec<&[ComparedFigureRow]> = results.chunks(reports.len()).collect();
    let differs = |rows: &&&[ComparedFigureRow]| rows.iter().any(|row| row.verdict == CompareVerdict::Differs);
    let compared: Vec<ComparedReport> = names.iter().zip(reports).map(|(name, report)| side(report, name)).collect();
    let named: Vec<(&str, &Report)> = names.iter().map(String::as_str).zip(reports).collect();
    let ranking = ranking::ranking(&named)?;
    let settings = settings::settings(&compared, &reports.iter().collect::<Vec<_>>())?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(ReportCompareDocument {
        schema: SCHEMA,
        kind: "report-compare".to_owned(),
        hpt: env!("CARGO_PKG_VERSION").to_owned(),
        differing: quantities.iter().filter(differs).count(),
        quantities: quantities.len(),
        coincidences: settings::coincidences(&names, &ranking, &settings),
        rules: rules::rules(reports)?,
        conditions: settings::conditions(&compared),
        notes: notes(&names, reports, &values, context),
        reports: compared,
        results,
        ranking,
        settings,
    })
}

/// Returns the names of the reports: those that the user gave, or letters if one has no name or two have the same.
fn names(reports: &[Report]) -> Vec<String> {
    let given: Option<Vec<String>> = reports.iter().map(|report| report.0.name.clone()).collect();
    let letter = |at: usize| {
        let letter = u8::try_from(at).ok().filter(|at| *at < 26).map(|at| char::from(b'A' + at));
        letter.map_or_else(|| format!("R{}", at + 1), String::from)
    };
    let distinct = |names: &Vec<String>| {
        let mut sorted = names.clone();
        sorted.sort();
        sorted.windows(2).all(|two| two[0] != two[1])
    };
    given.filter(distinct).unwrap_or_else(|| (0..reports.len()).map(letter).collect())
}

fn side(report: &Report, name: &str) -> ComparedReport {
    ComparedReport {
        name: name.to_owned(),
        title: report.title(),
        started_at: report.0.started_at.clone(),
        hpt: report.0.hpt.clone(),
        interrupted: report.0.interrupted,
        emulated_by: report.0.emulated_by.clone(),
        conditions: report.0.conditions.clone(),
        machine: report.0.machine.clone(),
    }
}

/// Returns remarks on what makes the reports hard to compare.
fn notes(names: &[&str], reports: &[Report], values: &[(&str, Vec<One>)], context: &Context) -> Vec<String> {
    let mut notes = context.notes();
    let (first, others) = (&reports[0], &reports[1..]);
    if others.iter().any(|other| other.0.hpt != first.0.hpt) {
        let versions: Vec<&str> = reports.iter().map(|report| report.0.hpt.as_str()).collect();
        notes.push(format!("different versions of hpt created the reports: {}", versions.join(", ")));
    }
    if others.iter().any(|other| other.0.machine.cpu != first.0.machine.cpu) {
        notes.push("the machines have different CPUs".to_owned());
    }
    for (name, report) in names.iter().zip(reports) {
        notes.extend(report.0.notes.iter().map(|note| format!("{name}: {}", note.trim_end_matches('.'))));
    }
    for part in &first.0.parts {
        // A snapshot is examined with another command line, but in the same way.
        let is_other = |command: &str| !command.is_empty() && command != part.command && !command.contains(" --host ");
        let mut differing: Vec<(&str, String)> = Vec::new();
        for (other, name) in others.iter().zip(&names[1..]) {
            let command = other.command(&part.name);
            differing.extend(is_other(&command).then_some((*name, command)));
        }
        if !differing.is_empty() && !part.command.contains(" --host ") {
            let said: Vec<String> = differing.iter().map(|(name, command)| format!("`{command}` in {name}")).collect();
            notes.push(format!("the commands differ: `{}` in {}, {}", part.command, names[0], said.join(", ")));
        }
    }
    for (name, of_other) in &values[1..] {
        notes.extend(values[0].1.iter().filter_map(|one| {
            let other = of_other.iter().find(|other| is_same(one, other) && !is_alike(one, other))?;
            let against = |one: &One| {
                one.against.as_ref().map_or_else(
                    || "an unknown frequency".to_owned(),
                    |(by, hz)| format!("{} MHz ({by})", rounded(hz / 1e6)),
                )
            };
            Some(format!(
                "{}: not compared because the origins of the nominal frequencies differ: {} in {}, {} in {name}",
                one.what,
                against(one),
                names[0],
                against(other)
            ))
        }));
    }
    notes
}
