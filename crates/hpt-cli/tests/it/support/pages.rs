//! The command lines in the documentation: fenced blocks of `console` (a line after `$ ` is a command, others are its
//! output) and of `sh` (each line is a command), with the marks directly above a block. Compares output with a page.

use std::{fs, path::Path};

/// A mark above a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// `<!-- not run: WHY -->`, or `<!-- not run, BEGINNING: WHY -->` for lines that begin with it.
    NotRun { beginning: String, why: String },
    /// `<!-- without sudo: WHY -->`: runs as the user of the test.
    WithoutSudo { why: String },
    /// `<!-- of MACHINE: WHY -->`: hpt uses that captured machine.
    Of { machine: String, why: String },
}

impl Mark {
    pub(crate) fn why(&self) -> &str {
        match self {
            Self::NotRun { why, .. } | Self::WithoutSudo { why } | Self::Of { why, .. } => why,
        }
    }

    /// Parses a mark. Returns `None` for other comments.
    fn parsed(line: &str) -> Option<Self> {
        let text = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        let (what, why) = text.split_once(':').map_or((text, ""), |(what, why)| (what.trim(), why.trim()));
        let why = why.to_owned();
        if let Some(rest) = what.strip_prefix("not run") {
            let beginning = rest.trim_start_matches(',').trim().to_owned();
            return Some(Self::NotRun { beginning, why });
        }
        if what == "without sudo" {
            return Some(Self::WithoutSudo { why });
        }
        what.strip_prefix("of ").map(|machine| Self::Of { machine: machine.to_owned(), why })
    }
}

/// A command of a page, with the output that the page shows.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) command: String,
    pub(crate) shown: String,
}

impl Line {
    /// Returns the reason why it is not run, if a mark of its block states one.
    pub(crate) fn not_run<'a>(&self, marks: &'a [Mark]) -> Option<&'a str> {
        marks.iter().find_map(|mark| match mark {
            Mark::NotRun { beginning, why } if self.command.starts_with(beginning) => Some(why.as_str()),
            _ => None,
        })
    }
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) marks: Vec<Mark>,
    pub(crate) lines: Vec<Line>,
}

#[derive(Debug)]
pub(crate) struct Page {
    /// The path relative to the project directory.
    pub(crate) name: String,
    pub(crate) blocks: Vec<Block>,
    /// Commands in sentences and tables, with their line numbers.
    pub(crate) spans: Vec<(usize, String)>,
}

/// Returns the project directory.
pub(crate) fn project() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns every page with commands for users. Records show past commands and are not included.
pub(crate) fn pages() -> Vec<Page> {
    let mut names: Vec<String> = [
        "README.md",
        "CONTRIBUTING.md",
        "crates/hpt-async/README.md",
        "crates/hpt-cli/README.md",
        "crates/hpt-core/README.md",
        "crates/hpt-criterion/README.md",
        "crates/hpt-document/README.md",
        "crates/hpt-tracing/README.md",
        "boards/README.md",
        "dist/README.md",
        "kmod/README.md",
    ]
    .map(str::to_owned)
    .into();
    for directory in ["docs", "docs/contributing", "docs/howto"] {
        for entry in fs::read_dir(project().join(directory)).expect("the project has docs") {
            let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
                names.push(format!("{directory}/{name}"));
            }
        }
    }
    names.sort();
    let read = |name: String| {
        let text = fs::read_to_string(project().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        parsed(name, &text)
    };
    names.into_iter().map(read).collect()
}

pub(crate) fn parsed(name: String, text: &str) -> Page {
    let mut page = Page { name, blocks: Vec::new(), spans: Vec::new() };
    let mut marks = Vec::new();
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(language) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
            if fence.is_some() {
                page.blocks.push(Block { marks: std::mem::take(&mut marks), lines: Vec::new() });
            }
            continue;
        }
        let lines = page.blocks.last_mut().map(|block| &mut block.lines);
        match (fence, lines) {
            (Some("sh"), Some(lines)) if !line.trim().is_empty() => {
                lines.push(Line { number, command: line.trim().to_owned(), shown: String::new() });
            }
            (Some("console"), Some(lines)) => match (line.strip_prefix("$ "), lines.last_mut()) {
                (Some(command), _) => {
                    lines.push(Line { number, command: command.trim().to_owned(), shown: String::new() });
                }
                (None, Some(last)) => last.shown += &format!("{line}\n"),
                (None, None) => panic!("{}:{number}: printed by no command", page.name),
            },
            (Some(_), _) => {}
            (None, _) => {
                match Mark::parsed(line) {
                    Some(mark) => marks.push(mark),
                    None => marks.clear(),
                }
                page.spans.extend(spans(line).map(|span| (number, span.to_owned())));
            }
        }
    }
    page
}

/// Returns the text in backticks that begins with hpt.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|span| {
        let span = span.strip_prefix("sudo ").unwrap_or(span);
        span.starts_with("hpt ") || span.starts_with("./hpt ")
    })
}

/// Returns the parts of a command line that run hpt, each with --help appended: invalid options
/// before it are rejected. Omits programs that hpt would start, and placeholders in capitals.
pub(crate) fn questions(command: &str) -> Vec<String> {
    let mut questions = Vec::new();
    for part in command.split([';', '|', '&']) {
        let part = part.split(" #").next().unwrap_or("");
        let part = part.split(" -- ").next().unwrap_or("");
        let part = part.split(" >").next().unwrap_or("");
        let words: Vec<&str> = part.split_whitespace().collect();
        if let Some(place) = words.iter().position(|word| ["hpt", "./hpt"].contains(word)) {
            let stands_for_another = |word: &&&str| word.chars().all(|c| c.is_ascii_uppercase());
            let rest: Vec<&str> = words[place + 1..].iter().filter(|word| !stands_for_another(word)).copied().collect();
            questions.push(format!("hpt {} --help", rest.join(" ")));
        }
    }
    questions
}

/// Returns the lines of a picture by scripts/record-picture, each with its pieces and whether they
/// are a heading (dim).
pub(crate) fn picture(name: &str) -> Vec<Vec<(bool, String)>> {
    let text = fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let piece = |piece: &str| {
        let (attributes, rest) = piece.split_once('>')?;
        let words = rest.split("</tspan>").next()?.replace("&lt;", "<").replace("&gt;", ">").replace("&#x27;", "'");
        Some((attributes.contains("class=\"dim\""), words.replace("&quot;", "\"").replace("&amp;", "&")))
    };
    text.lines()
        .filter(|line| line.starts_with("<text "))
        .map(|line| line.split("<tspan").skip(1).filter_map(piece).collect())
        .collect()
}

/// Returns the first difference between the shown and the printed output. Ignores figures with
/// their units and signs. `…` matches anything.
pub(crate) fn difference(shown: &str, printed: &str) -> Option<String> {
    let (shown, printed) = (words(shown), words(printed));
    let (mut at, mut from) = (0, 0);
    // The position of the last …, and the end of the text that it matches so far, which may be
    // longer.
    let mut back: Option<(usize, usize)> = None;
    let mut furthest = (0, 0);
    while at < shown.len() || from < printed.len() {
        if at == shown.len() && shown.last().is_some_and(|word| word == "…") {
            return None;
        }
        furthest = furthest.max((from, at));
        if at < shown.len() && shown[at] == "…" {
            back = Some((at, from));
            at += 1;
        } else if at < shown.len() && from < printed.len() && stands_for(&shown[at], &printed[from]) {
            at += 1;
            from += 1;
        } else if let Some((place, end)) = back.filter(|(_, end)| *end < printed.len()) {
            back = Some((place, end + 1));
            (at, from) = (place + 1, end + 1);
        } else {
            let (from, at) = furthest;
            let some =
                |words: &[String], place: usize| words[place..].iter().take(8).cloned().collect::<Vec<_>>().join(" ");
            return Some(format!("shown:   {}\nprinted: {}", some(&shown, at), some(&printed, from)));
        }
    }
    None
}

/// Whether a word of a page matches a printed one. `…` in it matches anything.
fn stands_for(shown: &str, printed: &str) -> bool {
    shown.split_once('…').map_or(shown == printed, |(beginning, end)| {
        printed.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(end))
    })
}

/// Returns the words of a text. Line breaks and the length of bars depend on figures, so they are
/// ignored. A figure with its unit becomes one placeholder, and so does a dash instead of a figure.
fn words(text: &str) -> Vec<String> {
    const UNITS: [&str; 16] =
        ["ns", "µs", "ms", "s", "m", "h", "Hz", "kHz", "MHz", "GHz", "%", "ppm", "ppb", "ticks", "cycles", "B"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches(['(', ')', '[', ']', ',', ';', ':', '.', '±', '~']);
        let is_figure = bare.starts_with(|c: char| c.is_ascii_digit())
            || bare
                .strip_prefix(['-', '+', '−'])
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()));
        let follows_figure = words.last().is_some_and(|last| last == "0");
        if is_figure {
            words.push("0".to_owned());
        } else if !(follows_figure && UNITS.contains(&bare)
            || word.chars().all(|c| c == '#' || ('▀'..='▟').contains(&c)))
        {
            words.push(word.to_owned());
        }
    }
    words
}
