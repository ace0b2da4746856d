//! The page of a comparison: the differences first, then the ranking and the settings, then each part with the values
//! that do not differ collapsed.

use hpt_document::{
    Document as AnyDocument,
    compare::{CompareDocument, ComparedFigureRow},
    words::REPORT_PARTS,
};

use super::{
    super::html_page::{Gallery, WAKES},
    shown::{
        RANKING_HEAD, cells, differences, differs, full_name, has_shared_values, head, headline, quantities, ranked,
        rule, title,
    },
    sides::Side,
};
use crate::output::{
    chart::{self, Compared, Figures, Latencies, Origin, TitledChart, Unreadable},
    html::{HtmlTable, Page, Piece, Section},
    one_or_many,
};

/// The maximum length of a name. A chart truncates longer names, so two names with the same beginning could look the
/// same.
const LONGEST_NAME: usize = 24;
/// The maximum number of differences in the first chart.
const MOST_DRAWN: usize = 24;

pub(super) fn page(sides: &[Side], data: &CompareDocument) -> Result<(Page, Vec<(String, String)>), Unreadable> {
    let mut gallery = Gallery::default();
    let letters: Vec<String> =
        ('A'..='Z').map(String::from).chain((27..).map(|at| format!("R{at}"))).take(sides.len()).collect();
    let is_long = data.sides.iter().any(|side| side.name.chars().count() > LONGEST_NAME);
    let names: Vec<&str> = if is_long {
        letters.iter().map(String::as_str).collect()
    } else {
        data.sides.iter().map(|side| side.name.as_str()).collect()
    };
    let mut sections = vec![differing(&names, data, &mut gallery)?];
    if sides.len() > 2 {
        sections.push(ranking(&names, data));
    }
    sections.extend(settings(&names, data));
    let mut parts: Vec<(&str, Vec<&[ComparedFigureRow]>)> = Vec::new();
    for rows in quantities(data) {
        let part = rows[0].part.as_str();
        match parts.iter_mut().find(|(name, _)| *name == part) {
            Some((_, all)) => all.push(rows),
            None => parts.push((part, vec![rows])),
        }
    }
    for (part, rows) in parts {
        sections.push(of_part(part, &rows, &names, sides, &mut gallery)?);
    }
    sections.extend(findings(&names, data));
    if !data.notes.is_empty() {
        let pieces = data.notes.iter().map(|note| Piece::Text(format!("{note}."))).collect();
        sections.push(Section { id: "remarks", title: "Remarks".to_owned(), pieces });
    }
    let page = Page {
        title: match names.as_slice() {
            [one, other] => format!("Comparison: {one} vs {other}"),
            all => format!("Comparison of {} sides", all.len()),
        },
        verdict: headline(data),
        lead: String::new(),
        conditions: names
            .iter()
            .zip(sides)
            .map(|(name, side)| {
                let first = side.first();
                let own = first.machine_name();
                let runs = (side.runs.len() > 1).then(|| format!("{} runs", side.runs.len()));
                // A note can say that the figures are not those of the machine.
                let lead = runs.into_iter().chain([first.lead()]).chain(first.0.notes.iter().cloned());
                let lead = lead.collect::<Vec<_>>().join(" · ");
                ((*name).to_owned(), if own == *name { lead } else { format!("{own}: {lead}") })
            })
            .collect(),
        first: Vec::new(),
        sections,
        style: chart::style(),
    };
    Ok((page, gallery.files))
}

fn differing(names: &[&str], data: &CompareDocument, gallery: &mut Gallery) -> Result<Section, Unreadable> {
    let found = differences(data);
    let mut pieces = Vec::new();
    if found.is_empty() {
        let says = if has_shared_values(data) { "No difference is shown." } else { "No value is on two sides." };
        pieces.push(Piece::Text(says.to_owned()));
    } else {
        let rows = found.iter().map(|rows| std::iter::once(full_name(&rows[0])).chain(cells(rows, true)).collect());
        let rows: Vec<Vec<String>> = rows.collect();
        let head: Vec<String> = std::iter::once("quantity".to_owned()).chain(head(names)).collect();
        let times: Vec<&[ComparedFigureRow]> =
            found.iter().copied().filter(|rows| rows[0].unit == "ns").take(MOST_DRAWN).collect();
        if times.is_empty() {
            let caption = "Values that differ".to_owned();
            pieces.push(Piece::Table(HtmlTable { caption, head, rows, marked: Vec::new() }));
        } else {
            let more = found.len() - times.len();
            let says = format!(
                "The {} with the ratios furthest from 1{}.",
                one_or_many(times.len(), "difference", "differences"),
                if more > 0 { format!("; the table contains {more} more") } else { String::new() }
            );
            let compared: Vec<Compared> = times.iter().map(|rows| compared(rows)).collect();
            let figures = Figures { head, rows };
            let chart = chart::side_by_side(names, &compared, figures, says, String::new());
            pieces.extend(gallery.show(Ok(chart))?);
            for piece in &mut pieces {
                if let Piece::Figure(figure) = piece {
                    figure.is_table_open = true;
                }
            }
        }
    }
    pieces.push(Piece::Provenance(rule(data.method).to_owned()));
    Ok(Section { id: "differences", title: "Differences".to_owned(), pieces })
}

/// Returns the values of a quantity for a chart.
fn compared(rows: &[ComparedFigureRow]) -> Compared {
    Compared {
        what: full_name(&rows[0]),
        figures: rows.iter().map(|row| row.value).collect(),
        labels: rows.iter().map(|row| if row.outlier { "outlier".to_owned() } else { String::new() }).collect(),
    }
}

fn named_cells(rows: &[ComparedFigureRow]) -> Vec<String> {
    std::iter::once(rows[0].quantity.clone()).chain(cells(rows, true)).collect()
}

fn ranking(names: &[&str], data: &CompareDocument) -> Section {
    let head = ["place", "side"].into_iter().chain(RANKING_HEAD[2..].iter().copied());
    let mut rows: Vec<Vec<String>> = data.ranking.iter().map(ranked).collect();
    // Other tables of the page have letters in place of long names.
    for row in &mut rows {
        let letter = data.sides.iter().zip(names).find(|(side, _)| side.name == row[1]).map(|(_, name)| *name);
        if let Some(letter) = letter.filter(|letter| *letter != row[1]) {
            row[1] = format!("{letter}: {}", row[1]);
        }
    }
    let mut head: Vec<String> = head.map(str::to_owned).collect();
    // The first column names the row.
    head.swap(0, 1);
    rows.iter_mut().for_each(|row| row.swap(0, 1));
    let table = HtmlTable {
        caption: "Wake-up latency of the kernel's timer on all measured CPUs, time per read of the recommended source, and problems".to_owned(),
        head,
        marked: data.ranking.iter().map(|row| row.outlier).collect(),
        rows,
    };
    let says = "Ordered by the worst wake-up latency. Sides without a measured latency come last, in the order of their problems. The p99 and the p50 are those of the CPU with the highest value.";
    Section {
        id: "ranking",
        title: "Ranking".to_owned(),
        pieces: vec![Piece::Text(says.to_owned()), Piece::Table(table)],
    }
}

fn settings(names: &[&str], data: &CompareDocument) -> Option<Section> {
    let mut pieces: Vec<Piece> = data.coincidences.iter().map(|text| Piece::Text(text.clone())).collect();
    let head = |first: &str| std::iter::once(first).chain(names.iter().copied()).map(str::to_owned).collect();
    let row = |setting: &str, values: &[Option<String>]| {
        let values = values.iter().map(|value| value.clone().unwrap_or_else(|| "unknown".to_owned()));
        std::iter::once(setting.to_owned()).chain(values).collect::<Vec<_>>()
    };
    for (kind, caption, rows) in [
        (
            "setting",
            "Settings that differ. A setting that coincides with a difference is not necessarily its cause.",
            &data.settings,
        ),
        ("condition", "Conditions that differ. They change from run to run.", &data.conditions),
    ] {
        if !rows.is_empty() {
            pieces.push(Piece::Table(HtmlTable {
                caption: caption.to_owned(),
                head: head(kind),
                rows: rows.iter().map(|setting| row(&setting.setting, &setting.values)).collect(),
                marked: Vec::new(),
            }));
        }
    }
    let title = "Settings and conditions that differ".to_owned();
    (!pieces.is_empty()).then_some(Section { id: "settings", title, pieces })
}

fn findings(names: &[&str], data: &CompareDocument) -> Option<Section> {
    if data.rules.is_empty() {
        return None;
    }
    let rows = data.rules.iter().map(|rule| {
        let said = rule.verdicts.iter().map(|said| said.clone().unwrap_or_else(|| "not checked".to_owned()));
        std::iter::once(rule.about.clone()).chain(said).collect()
    });
    let head = std::iter::once("rule".to_owned()).chain(names.iter().map(|name| (*name).to_owned())).collect();
    let table = HtmlTable {
        caption: "hpt doctor rules with different results".to_owned(),
        head,
        rows: rows.collect(),
        marked: Vec::new(),
    };
    Some(Section { id: "findings", title: "Problems that differ".to_owned(), pieces: vec![Piece::Table(table)] })
}

fn of_part(
    part: &str,
    rows: &[&[ComparedFigureRow]],
    names: &[&str],
    sides: &[Side],
    gallery: &mut Gallery,
) -> Result<Section, Unreadable> {
    let head: Vec<String> = std::iter::once("quantity".to_owned()).chain(head(names)).collect();
    let differing = rows.iter().filter(|rows| differs(rows)).count();
    let says = match differing {
        0 => format!("no difference shown ({})", rows.len()),
        _ => format!("{differing} of {} values {}", rows.len(), one_or_many(differing, "differs", "differ")),
    };
    let mut documents = Vec::new();
    for (name, side) in names.iter().zip(sides) {
        for run in &side.runs {
            documents.extend(run.any_document(part)?.map(|document| (*name, run, document)));
        }
    }
    let mut pieces = Vec::new();
    if WAKES.iter().any(|(wake, _)| *wake == part) {
        let mut latencies: Vec<(&str, Latencies<'_>)> = Vec::new();
        for (side, _, document) in &documents {
            let AnyDocument::WakeLatency(document) = document else { continue };
            let own: Latencies<'_> = document.into();
            match latencies.iter_mut().find(|(known, _)| known == side) {
                Some((_, all)) => all.extend(own),
                None => latencies.push((side, own.merged())),
            }
        }
        // Each table of the page has its own name for screen readers.
        let named = |mut chart: TitledChart| {
            chart.title = format!("{}: distribution", title(part));
            chart
        };
        pieces.extend(gallery.show(chart::distribution(&latencies).map(named))?);
    }
    let is_drawn = !pieces.is_empty();
    let table = Piece::Table(HtmlTable {
        caption: format!("{}: {says}", title(part)),
        head,
        marked: rows.iter().map(|rows| differs(rows)).collect(),
        rows: rows.iter().map(|rows| named_cells(rows)).collect(),
    });
    pieces.push(Piece::Closed(format!("All values: {says}"), vec![table]));
    let commands = || documents.iter().map(|(name, run, _)| format!("{name}: {}", run.command(part)));
    pieces.push(Piece::Provenance(if is_drawn {
        // The chart states the origin of its data.
        let mut said: Vec<String> = commands().collect();
        said.dedup();
        said.join(" · ")
    } else {
        let origins = commands().zip(&documents).filter_map(|(command, (.., it))| Some((command, Origin::of_any(it)?)));
        chart::about_all(&origins.collect::<Vec<_>>())
    }));
    let id = REPORT_PARTS.iter().find(|(name, _)| *name == part).map_or("part", |(name, _)| name);
    Ok(Section { id, title: title(part).to_owned(), pieces })
}
