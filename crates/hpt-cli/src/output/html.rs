//! Report pages: self-contained HTML files for desktops, phones and print. This module is independent of documents and
//! charts: it receives text, tables and drawings.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The content of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    /// The result in a few sentences.
    pub(crate) verdict: String,
    /// The paragraph below the verdict.
    pub(crate) lead: String,
    /// The conditions of the measurement: name and value.
    pub(crate) conditions: Vec<(String, String)>,
    /// The key figures at the top: name, value and explanation.
    pub(crate) first: Vec<(String, String, String)>,
    pub(crate) sections: Vec<Section>,
    /// The style sheet of the drawings.
    pub(crate) style: String,
}

/// A section of a page, with an entry in the table of contents.
#[derive(Debug)]
pub(crate) struct Section {
    /// The anchor, which is a single word.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Debug)]
pub(crate) enum Piece {
    Text(String),
    /// A description of how the figures were measured.
    Provenance(String),
    /// A list of names and values.
    Facts(Vec<(String, String)>),
    Finding(Finding),
    Table(HtmlTable),
    /// A table that is collapsed at first.
    Folded(HtmlTable),
    /// Pieces that are collapsed at first, below this heading. A printout does not contain them.
    Closed(String, Vec<Piece>),
    Figure(HtmlFigure),
}

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) severity: String,
    pub(crate) title: String,
    pub(crate) observed: String,
    pub(crate) why: String,
    /// The fixes, each with its commands.
    pub(crate) fixes: Vec<(String, Vec<String>)>,
}

/// A table with a header and rows. The first column contains the name of each row.
#[derive(Debug)]
pub(crate) struct HtmlTable {
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    /// The rows to highlight.
    pub(crate) marked: Vec<bool>,
}

/// A drawing in several widths, with text and a table for readers who cannot see the drawings.
#[derive(Debug)]
pub(crate) struct HtmlFigure {
    pub(crate) title: String,
    pub(crate) says: String,
    /// The drawings, of which the style sheet shows the one that fits the window.
    pub(crate) drawings: Vec<Markup>,
    pub(crate) table: HtmlTable,
    /// Whether the table is a result of its own, which is open at first and printed.
    pub(crate) is_table_open: bool,
    pub(crate) provenance: String,
}

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--faint:#57606a;--line:#d8dee4;--wash:#f4f6f8;--link:#00598f;--mark:#a8380a}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer{max-width:72.5rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
h1{font-size:2rem;line-height:1.15;letter-spacing:-.015em;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.35rem;line-height:1.25;letter-spacing:-.01em;margin:0 0 1rem}
h3{font-size:1rem;line-height:1.35;margin:2rem 0 .25rem}
p{margin:.25rem 0 1rem;max-width:46rem;overflow-wrap:anywhere}
a{color:var(--link)}
.lead,.provenance,footer,nav,dt,.note{color:var(--faint)}
.provenance,.note,footer,nav{font-size:.8125rem;line-height:1.5}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.125rem 1.25rem;margin:1.5rem 0 0;padding:0}
nav a{display:inline-block;padding:.25rem 0}
section{border-top:1px solid var(--line);margin-top:3rem;padding-top:2rem}
.verdict{font-size:1.25rem;line-height:1.4;max-width:52rem;margin:.75rem 0 .75rem}
.first{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:1.25rem 1.5rem;margin:1.75rem 0 0}
.conditions{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1.5rem 0 0}
.conditions dt{font-size:.8125rem;line-height:1.4}
.conditions dd{margin:0;overflow-wrap:anywhere;max-width:30rem}
.first div{border-top:2px solid var(--ink);padding-top:.5rem}
.first dt{font-size:.8125rem;line-height:1.4}
.first dd{margin:0}
.first .value{font-size:2.25rem;line-height:1.2;font-weight:600;letter-spacing:-.01em;overflow-wrap:anywhere}
.first .said{font-size:.8125rem;line-height:1.4;color:var(--faint)}
.facts{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.25rem 1.5rem;margin:0 0 1rem}
.facts dd{margin:0;overflow-wrap:anywhere}
figure{margin:0 0 2.5rem}
figcaption{max-width:60rem}
.closed>summary{font-size:1rem;padding:.4rem 0}
@media (min-width:76rem){#findings{columns:2;column-gap:3rem}#findings>h2,#findings>p,#findings>.scroll{column-span:all}.finding{break-inside:avoid}}
figure h3{margin-top:1.5rem}
.chart{display:block;width:100%;height:auto;margin:.75rem 0 .5rem}
.narrow,.broad{display:none}
@media (min-width:76rem){.wide{display:none}.broad{display:block}}
.scroll{overflow-x:auto;margin:.5rem 0 1rem}
.scroll:focus-visible,summary:focus-visible,a:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font-size:.8125rem;line-height:1.4;min-width:100%}
caption{text-align:left;color:var(--faint);padding-bottom:.25rem}
th,td{padding:.3rem .75rem .3rem 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--line);font-weight:400;white-space:nowrap}
th:first-child,.words,.left{text-align:left}
.words{white-space:normal;min-width:12rem}
thead th{color:var(--faint)}
tr.marked th,tr.marked td{font-weight:600}
tr.marked td:last-child{color:var(--mark)}
summary{cursor:pointer;font-size:.8125rem;color:var(--link);padding:.25rem 0}
.finding{margin:0 0 1.75rem;max-width:52rem}
.finding h3{margin:0 0 .25rem}
.severity{display:inline-block;font-size:.75rem;line-height:1.4;font-weight:600;border:1px solid currentColor;border-radius:.2rem;padding:0 .4rem;margin-right:.5rem}
.severity.high{color:var(--mark)}
.finding p{margin:.125rem 0 .375rem}
.finding ul{margin:.25rem 0 0;padding-left:1.1rem}
code{font:.8125rem/1.5 ui-monospace,monospace;background:var(--wash);padding:.05rem .3rem;border-radius:.2rem;overflow-wrap:anywhere}
footer{border-top:1px solid var(--line);margin-top:3rem;padding-top:1rem;padding-bottom:3rem}
@media (max-width:40rem){header{padding-top:2rem}h1{font-size:1.6rem}.wide{display:none}.narrow{display:block}section{margin-top:2.25rem;padding-top:1.5rem}.first{grid-template-columns:1fr 1fr}.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.5rem}.first .value{font-size:1.75rem}.verdict{font-size:1.125rem}}
@media screen and (max-width:40rem){.scroll table,.scroll caption,.scroll tbody,.scroll tr,.scroll th,.scroll td{display:block}.scroll thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.scroll tr{border-top:1px solid var(--line);padding:.5rem 0}.scroll th,.scroll td{border:0;padding:.1rem 0;text-align:left;white-space:normal;min-width:0}.scroll tbody th{font-weight:600;font-size:.9375rem}.scroll tbody td{display:grid;grid-template-columns:8rem 1fr;gap:.75rem}.scroll tbody td::before{content:attr(data-label);color:var(--faint)}.scroll tbody td:empty{display:none}}
@media screen and (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e8eaed;--faint:#a3acb8;--line:#343b44;--wash:#20252b;--link:#7cc4f5;--mark:#f5a07a}}
@page{margin:12mm 14mm}
@media print{body{font-size:9pt;line-height:1.4}header{padding-top:0}h1{font-size:16pt}h2{font-size:12pt;margin-bottom:.5rem}h3{font-size:9.5pt}.verdict{font-size:11pt}nav,.data,.closed>:not(summary){display:none}.closed>summary{list-style:none;color:inherit;font-size:9pt;padding:0}.closed>summary::-webkit-details-marker{display:none}.wide{display:block}.narrow,.broad{display:none}.scroll{overflow:visible}.chart,.finding,tr,.first div{break-inside:avoid}h2,h3,figure>p,caption{break-after:avoid}section{margin-top:1rem;padding-top:.75rem}main,header,footer{max-width:none;padding-left:0;padding-right:0}p{max-width:none;margin-bottom:.5rem}.first{margin-top:1rem;gap:.5rem 1rem;grid-template-columns:repeat(5,1fr)}.first .value{font-size:15pt}.conditions{margin-top:.75rem;gap:.25rem 1.25rem}figure{margin-bottom:1rem}figure h3{margin-top:.75rem}#findings{columns:2;column-gap:1.5rem}#findings>h2,#findings>p,#findings>.scroll{column-span:all}.finding{max-width:none;margin-bottom:.6rem}.finding details{display:none}section .provenance{font-size:7pt}.note,.first dt,.first .said,.conditions dt,footer{font-size:8pt;line-height:1.3}.facts{font-size:8pt;gap:.1rem 1rem}.chart{width:62%}figure>p{break-inside:avoid}table{font-size:7.5pt;line-height:1.3}th,td{white-space:normal;padding:.15rem .5rem .15rem 0}th:first-child{min-width:6rem}.words{min-width:0;overflow-wrap:anywhere}footer{margin-top:1rem;padding-bottom:0}a{color:inherit;text-decoration:none}}
";

/// Returns the whole file.
pub(crate) fn page(page: &Page) -> String {
    let whole = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // The page loads nothing and runs no scripts.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="color-scheme" content="light dark";
                title { (page.title) }
                style { (PreEscaped(STYLE)) (PreEscaped(page.style.as_str())) }
            }
            body {
                header {
                    h1 { (page.title) }
                    @if !page.verdict.is_empty() { p.verdict { (unbroken(&page.verdict)) } }
                    @if !page.lead.is_empty() { p.lead { (page.lead) } }
                    @if !page.first.is_empty() {
                        dl.first {
                            @for (name, value, said) in &page.first {
                                div { dt { (name) } dd.value { (value) } dd.said { (said) } }
                            }
                        }
                    }
                    @if !page.conditions.is_empty() {
                        dl.conditions { @for (name, value) in &page.conditions { div { dt { (name) } dd { (value) } } } }
                    }
                    nav aria-label="Contents" {
                        ul { @for section in &page.sections { li { a href={ "#" (section.id) } { (section.title) } } } }
                    }
                }
                main { @for one in &page.sections { (section(one)) } }
                footer { "Generated by hpt. This file is self-contained: it loads nothing and runs no scripts. The JSON file in the same directory contains the same data." }
            }
        }
    };
    // The page also shows names from reports that other users made.
    let mut text = super::without_escapes(&whole.into_string());
    text.push('\n');
    text
}

fn section(section: &Section) -> Markup {
    html! {
        section id=(section.id) aria-labelledby={ (section.id) "-title" } {
            h2 id={ (section.id) "-title" } { (section.title) }
            (pieces(&section.pieces))
        }
    }
}

fn pieces(pieces: &[Piece]) -> Markup {
    html! {
            @for piece in pieces {
                @match piece {
                    Piece::Text(text) => p { (text) },
                    Piece::Provenance(text) => p.provenance { (text) },
                    Piece::Facts(facts) => dl.facts { @for (name, value) in facts { dt { (name) } dd { (value) } } },
                    Piece::Finding(one) => (finding(one)),
                    Piece::Table(one) => (table(one)),
                    Piece::Folded(one) => details.data { summary { (one.caption) } (table(one)) },
                    Piece::Closed(title, inside) => details.closed {
                        summary { (title) }
                        (self::pieces(inside))
                    },
                    Piece::Figure(one) => (figure(one)),
                }
            }
    }
}

fn finding(finding: &Finding) -> Markup {
    html! {
        div.finding {
            h3 { span class={ "severity " (finding.severity) } { (finding.severity) } (finding.title) }
            p { (sentence(&finding.observed)) }
            p.note { (finding.why) }
            @if !finding.fixes.is_empty() {
                details {
                    summary { "How to fix" }
                    ul.note {
                        @for (text, commands) in &finding.fixes {
                            li { (text) @for command in commands { br; code { (command) } } }
                        }
                    }
                }
            }
        }
    }
}

fn figure(figure: &HtmlFigure) -> Markup {
    html! {
        figure {
            h3 { (figure.title) }
            p { (unbroken(&figure.says)) }
            @for drawing in &figure.drawings { (drawing) }
            figcaption.provenance { (figure.provenance) }
            @if figure.is_table_open {
                details open { summary { "Data table" } (table(&figure.table)) }
            } @else {
                details.data { summary { "Data table" } (table(&figure.table)) }
            }
        }
    }
}

/// Returns the text with no-break spaces between numbers and their units.
fn unbroken(text: &str) -> String {
    const UNITS: [&str; 7] = ["ns", "µs", "ms", "s", "%", "ppm", "GHz"];
    let mut said = String::with_capacity(text.len() + 16);
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        said.push_str(word);
        let is_unit = |next: &&str| UNITS.contains(&next.trim_end_matches(['.', ',', ';', ')', ':']));
        match words.peek() {
            Some(next) if word.ends_with(|last: char| last.is_ascii_digit()) && is_unit(next) => said.push('\u{a0}'),
            Some(_) => said.push(' '),
            None => {}
        }
    }
    said
}

/// Returns the text with its first letter in uppercase.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns whether a column contains long text, which is left-aligned and wraps. Row names may be longer than other
/// text before they wrap.
fn is_of_words(rows: &[Vec<String>], column: usize) -> bool {
    let longest = if column == 0 { 34 } else { 24 };
    rows.iter().filter_map(|row| row.get(column)).any(|cell| cell.chars().count() > longest)
}

/// Returns whether a column contains words and not figures. It is left-aligned.
fn is_left(rows: &[Vec<String>], column: usize) -> bool {
    let cells = || rows.iter().filter_map(|row| row.get(column)).filter(|cell| !cell.is_empty() && *cell != "-");
    let words = cells().filter(|cell| cell.starts_with(char::is_alphabetic)).count();
    words > 0 && 2 * words >= cells().count()
}

fn table(table: &HtmlTable) -> Markup {
    let lefts: Vec<bool> = (0..table.head.len()).map(|column| is_left(&table.rows, column)).collect();
    let is_left = |column: usize| lefts.get(column).copied().unwrap_or(false);
    let of_words: Vec<bool> = (0..table.head.len()).map(|column| is_of_words(&table.rows, column)).collect();
    let is_of_words = |column: usize| of_words.get(column).copied().unwrap_or(false);
    let label = |column: usize| table.head.get(column).map_or("", String::as_str);
    html! {
        // The table can be scrolled with the keyboard. On a phone, the style sheet shows each row as a card. The roles
        // keep it a table for screen readers.
        div.scroll role="region" tabindex="0" aria-label=(table.caption) {
            table role="table" {
                caption { (table.caption) }
                thead role="rowgroup" {
                    tr role="row" {
                        @for (column, name) in table.head.iter().enumerate() {
                            // An empty header cell has no name for screen readers.
                            @if name.is_empty() { td role="cell" {} }
                            @else { th scope="col" role="columnheader" .words[is_of_words(column)] .left[is_left(column)] { (name) } }
                        }
                    }
                }
                tbody role="rowgroup" {
                    @for (number, row) in table.rows.iter().enumerate() {
                        tr role="row" .marked[table.marked.get(number).copied().unwrap_or(false)] {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 {
                                    th scope="row" role="rowheader" .words[is_of_words(column)] { (cell) }
                                } @else {
                                    td role="cell" data-label=(label(column)) .words[is_of_words(column)] .left[is_left(column)] { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, Piece, STYLE, Section, page};

    #[test]
    fn input_is_escaped_and_a_page_loads_nothing() {
        let told = "<script>alert(1)</script>\"'&";
        let sections = vec![Section { id: "one", title: told.to_owned(), pieces: vec![Piece::Text(told.to_owned())] }];
        let page = Page {
            title: told.to_owned(),
            verdict: told.to_owned(),
            lead: told.to_owned(),
            conditions: vec![(told.to_owned(), told.to_owned())],
            first: vec![(told.to_owned(), told.to_owned(), told.to_owned())],
            sections,
            style: String::new(),
        };
        let text = super::page(&page);
        assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
        assert!(
            !text.contains("http:") && !text.contains("https:") && !text.contains("url(") && !STYLE.contains("@import"),
            "{text}"
        );
    }

    #[test]
    fn a_number_and_its_unit_are_on_one_line() {
        let said = super::unbroken("max 9.9 ms; 99 % within 6 µs. 3 of 12 sources take 2 s.");
        assert_eq!(said, "max 9.9\u{a0}ms; 99\u{a0}% within 6\u{a0}µs. 3 of 12 sources take 2\u{a0}s.");
    }

    #[test]
    fn an_empty_page_is_valid() {
        let empty = Page { title: "t".to_owned(), ..Page::default() };
        let text = page(&empty);
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"), "{text}");
    }
}
