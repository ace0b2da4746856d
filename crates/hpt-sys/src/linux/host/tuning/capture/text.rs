//! The text format of captures: a writer, and a strict parser for text that may come from an untrusted user.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use super::entry::{ARROW, Entry, MOST_PATHS, ReadRefused, is_plain, wrong_with_path, wrong_with_target};

const NAME: &str = "hpt-capture";
const VERSION: &str = "1";
const ABOUT: &str = "about";
const FACTS: &str = "facts";
const END: &str = "end";
/// The line that marks content without a newline at its end. It follows the last line of that content.
const NO_NEWLINE: &str = "no-newline";
const EXTENSION: &str = ".capture";

/// The maximum number of bytes in a line of hexadecimal numbers.
const BYTES_IN_A_LINE: usize = 16;

/// The maximum number of characters that an error message quotes from a line.
const MOST_QUOTED: usize = 60;

/// A fault in the text of a capture: its line, the problem and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureTextError {
    /// The number of the line, starting at 1.
    pub line: usize,
    /// The fault.
    pub problem: String,
    /// The fix.
    pub fix: String,
    /// Whether the text starts like a capture. If not, it was probably never a capture.
    pub is_capture: bool,
}

impl std::fmt::Display for CaptureTextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, problem, fix, .. } = self;
        write!(f, "line {line}: {problem}; {fix}")
    }
}

impl std::error::Error for CaptureTextError {}

/// The content of one capture file: a whole capture, or its differences from a base.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) base: Option<String>,
    pub(super) about: String,
    pub(super) facts: Option<String>,
    /// The sections by path, each with its line number.
    pub(super) sections: BTreeMap<String, (usize, Section)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Section {
    Is(Entry),
    /// The base has an entry at this path, but the derived capture does not.
    Removed,
}

/// Quotes a part of a capture for an error message. The result is short, and safe to print on a terminal.
pub(super) fn quoted(text: &str) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(MOST_QUOTED).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    format!("{short:?}")
}

/// Writes a whole capture: its origin, its facts, and its entries by path.
pub(super) fn write<'a>(
    f: &mut fmt::Formatter<'_>,
    about: &str,
    facts: &str,
    entries: impl Iterator<Item = (&'a str, &'a Entry)>,
) -> fmt::Result {
    writeln!(f, "{NAME} {VERSION}\n{ABOUT}")?;
    write_content(f, about.as_bytes())?;
    writeln!(f, "{FACTS}")?;
    write_content(f, facts.as_bytes())?;
    for (path, entry) in entries {
        match entry {
            Entry::File(content) => {
                writeln!(f, "file {path}")?;
                write_content(f, content)?;
            }
            Entry::Link(target) => writeln!(f, "link {path}{ARROW}{target}")?,
            Entry::Unreadable(why) => writeln!(f, "unreadable {why} {path}")?,
            Entry::Absent => writeln!(f, "absent {path}")?,
        }
    }
    writeln!(f, "{END}")
}

fn write_content(f: &mut fmt::Formatter<'_>, content: &[u8]) -> fmt::Result {
    let is_text = |text: &&str| text.chars().all(|letter| letter == '\n' || is_plain(letter));
    let Some(text) = std::str::from_utf8(content).ok().filter(is_text) else {
        return content.chunks(BYTES_IN_A_LINE).try_for_each(|bytes| write_bytes(f, bytes));
    };
    for line in text.split_inclusive('\n') {
        writeln!(f, "|{}", line.trim_end_matches('\n'))?;
    }
    if text.is_empty() || text.ends_with('\n') { Ok(()) } else { writeln!(f, "{NO_NEWLINE}") }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut line = String::from("=");
    for (index, byte) in bytes.iter().enumerate() {
        let separator = if index == 0 { "" } else { " " };
        write!(line, "{separator}{byte:02x}")?;
    }
    // The padding aligns the text column of a short line with that of the other lines.
    let width = BYTES_IN_A_LINE * 3;
    writeln!(f, "{line:width$}  {}", picture(bytes))
}

/// Returns the bytes as text, with `.` in place of every byte that is not a visible ASCII character.
fn picture(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' }).collect()
}

/// The unread lines of a file. Every line must be valid text without special characters.
struct Lines<'a> {
    rest: &'a [u8],
    /// The number of the next line.
    number: usize,
}

impl<'a> Lines<'a> {
    fn fault(&self, problem: impl Into<String>, fix: impl Into<String>) -> CaptureTextError {
        CaptureTextError { line: self.number, problem: problem.into(), fix: fix.into(), is_capture: true }
    }

    /// Returns the next line without consuming it.
    fn peek(&self) -> Result<Option<&'a str>, CaptureTextError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let Some(length) = self.rest.iter().position(|&byte| byte == b'\n') else {
            return Err(self.fault(
                "the file ends within a line",
                "it may be truncated: obtain a new copy; if only the final newline is missing, add it",
            ));
        };
        let Ok(line) = std::str::from_utf8(&self.rest[..length]) else {
            return Err(self.fault("the line is not UTF-8", "write the content as lines of hexadecimal numbers (=)"));
        };
        if line.ends_with('\r') {
            return Err(self.fault(
                "the line ends with a carriage return",
                "the line endings have been changed in transit: restore them, for example with dos2unix",
            ));
        }
        if let Some(odd) = line.chars().find(|&letter| !is_plain(letter)) {
            return Err(self.fault(
                format!("the line contains the invisible character U+{:04X}", u32::from(odd)),
                "write the content as lines of hexadecimal numbers (=)",
            ));
        }
        Ok(Some(line))
    }

    /// Consumes the line that [`peek`](Self::peek) returned.
    fn skip(&mut self, line: &str) {
        self.rest = &self.rest[line.len() + 1..];
        self.number += 1;
    }

    /// Consumes the next line if it starts with `mark`, and returns the rest of that line.
    fn take_after(&mut self, mark: &str) -> Result<Option<&'a str>, CaptureTextError> {
        let Some(line) = self.peek()? else { return Ok(None) };
        let Some(rest) = line.strip_prefix(mark) else { return Ok(None) };
        self.skip(line);
        Ok(Some(rest))
    }

    /// Consumes the next line if it is exactly `word`.
    fn take(&mut self, word: &str) -> Result<bool, CaptureTextError> {
        let is_next = self.peek()? == Some(word);
        if is_next {
            self.skip(word);
        }
        Ok(is_next)
    }

    /// Consumes and parses the content of a file, which is in the next lines.
    fn content(&mut self) -> Result<Vec<u8>, CaptureTextError> {
        let mut content = Vec::new();
        while let Some(line) = self.take_after("|")? {
            content.extend_from_slice(line.as_bytes());
            content.push(b'\n');
        }
        if content.is_empty() {
            while let Some(line) = self.peek()?.and_then(|line| line.strip_prefix('=')) {
                bytes(line, &mut content).map_err(|(problem, fix)| self.fault(problem, fix))?;
                self.number += 1;
                self.rest = &self.rest[line.len() + 2..];
            }
            return Ok(content);
        }
        if self.peek()?.is_some_and(|line| line.starts_with('=')) {
            return Err(self.fault(
                "text and hexadecimal numbers are mixed",
                "write the whole content either as lines of text (|) or as lines of hexadecimal numbers (=)",
            ));
        }
        if self.peek()? == Some(NO_NEWLINE) {
            content.pop();
            if content.is_empty() || content.ends_with(b"\n") {
                return Err(self.fault(
                    "the line of text before this line is empty",
                    format!("remove this line ({NO_NEWLINE}) and the empty line of text before it"),
                ));
            }
            self.skip(NO_NEWLINE);
        }
        Ok(content)
    }

    /// Consumes and parses content that must be text.
    fn text(&mut self) -> Result<String, CaptureTextError> {
        let line = self.number;
        String::from_utf8(self.content()?).map_err(|_| CaptureTextError {
            line,
            problem: "the content is not UTF-8".to_owned(),
            fix: "write the description and the facts as text".to_owned(),
            is_capture: true,
        })
    }
}

/// Parses a line of hexadecimal numbers, without its leading `=`, and appends the bytes to `content`.
fn bytes(line: &str, content: &mut Vec<u8>) -> Result<(), (String, &'static str)> {
    const FIX: &str = "write at most 16 bytes, each as two digits (0-9, a-f), with one space between bytes";
    let wrong = |what: &str| (what.to_owned(), FIX);
    let (numbers, shown) = line.split_once("  ").map_or((line, ""), |(numbers, rest)| (numbers, rest.trim_start()));
    let begin = content.len();
    for number in numbers.split(' ') {
        let digits = number.len() == 2 && number.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let byte = u8::from_str_radix(number, 16).ok().filter(|_| digits);
        content.push(byte.ok_or_else(|| (format!("{} is not a byte", quoted(number)), FIX))?);
    }
    let read = &content[begin..];
    if read.len() > BYTES_IN_A_LINE {
        return Err(wrong("the line contains more than 16 bytes"));
    }
    let expected = picture(read);
    if !shown.is_empty() && shown != expected {
        let problem =
            format!("the bytes represent {}, but the text next to them is {}", quoted(&expected), quoted(shown));
        return Err((problem, "correct the bytes, or remove the text next to them"));
    }
    Ok(())
}

/// Parses a capture file. Returns the first fault, if there is one.
pub(super) fn read(content: &[u8]) -> Result<Document, CaptureTextError> {
    let mut lines = Lines { rest: content, number: 1 };
    // The error message does not quote a file that is not a capture, because such a file may contain anything.
    let is_capture = content.starts_with(NAME.as_bytes()) && content.get(NAME.len()) == Some(&b' ');
    if !is_capture {
        let problem = format!("this is not a capture, which starts with `{NAME} {VERSION}`");
        let fault = lines.fault(problem, "`Host::capture` creates one");
        return Err(CaptureTextError { is_capture: false, ..fault });
    }
    if !lines.take(&format!("{NAME} {VERSION}"))? {
        return Err(lines.fault("this version of the capture format is not supported", "read it with a newer version"));
    }
    let base = lines.take_after("base ")?.map(str::to_owned);
    if let Some(base) = &base {
        let name = base.strip_suffix(EXTENSION);
        if name.is_none_or(|name| name.is_empty() || name.starts_with('.')) || base.contains('/') || base.len() > 255 {
            return Err(CaptureTextError {
                line: 2,
                problem: format!("{} is not a valid base", quoted(base)),
                fix: format!("name a capture in the same directory, for example NAME{EXTENSION}"),
                is_capture: true,
            });
        }
    }
    if !lines.take(ABOUT)? {
        return Err(lines.fault(
            "the origin of the capture is missing",
            format!("add a line `{ABOUT}` here, followed by a description in lines of text (|)"),
        ));
    }
    let about = lines.text()?;
    let facts = if lines.take(FACTS)? { Some(lines.text()?) } else { None };
    if facts.is_none() && base.is_none() {
        return Err(lines.fault(
            "the facts are missing",
            format!("add a line `{FACTS}` and the facts as JSON here; only a derived capture may omit them, because it uses the facts of its base"),
        ));
    }
    let mut document = Document { base, about, facts, sections: BTreeMap::new() };
    while !lines.take(END)? {
        section(&mut lines, &mut document)?;
    }
    match lines.peek()? {
        None => Ok(document),
        Some(_) => Err(lines
            .fault("there is text after the end", format!("remove it: `{END}` must be the last line of a capture"))),
    }
}

fn section(lines: &mut Lines<'_>, document: &mut Document) -> Result<(), CaptureTextError> {
    let number = lines.number;
    let Some(line) = lines.peek()? else {
        return Err(lines.fault(
            "the file ends here",
            format!("it is truncated: obtain a new copy, which must end with the line `{END}`"),
        ));
    };
    let fault =
        |problem: String, fix: &str| CaptureTextError { line: number, problem, fix: fix.to_owned(), is_capture: true };
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    if !["file", "link", "unreadable", "absent", "removed"].contains(&word) {
        let fix = "write `file`, `link`, `unreadable`, `absent`, `removed` or `end` here; a line of text starts with `|`, and a line of hexadecimal numbers starts with `=`";
        return Err(fault(format!("{} is not recognized", quoted(line)), fix));
    }
    lines.skip(line);
    let (path, section) = match word {
        "file" => (rest, Section::Is(Entry::File(lines.content()?))),
        "absent" => (rest, Section::Is(Entry::Absent)),
        "link" => {
            let (path, target) = rest
                .split_once(ARROW)
                .ok_or_else(|| fault(format!("{} has no target", quoted(rest)), "write `link PATH -> TARGET`"))?;
            if let Some(why) = wrong_with_target(target) {
                return Err(fault(why.to_owned(), "write `link PATH -> TARGET`"));
            }
            (path, Section::Is(Entry::Link(target.to_owned())))
        }
        "unreadable" => {
            let (why, path) = rest.split_once(' ').unwrap_or((rest, ""));
            let why = ReadRefused::parse(why).ok_or_else(|| {
                fault(
                    format!("{} is not a valid reason", quoted(why)),
                    "write `unreadable REASON PATH`, where REASON is permission-denied, not-a-regular-file, too-large or error-NUMBER",
                )
            })?;
            (path, Section::Is(Entry::Unreadable(why)))
        }
        _ if document.base.is_none() => {
            return Err(fault(
                "only a capture with a base can remove files".to_owned(),
                "write `absent PATH` for a file that the system does not have",
            ));
        }
        _ => (rest, Section::Removed),
    };
    if let Some(why) = wrong_with_path(path) {
        let fix = "write a path relative to the root directory, for example proc/cpuinfo";
        return Err(fault(format!("{} is not a valid path: {why}", quoted(path)), fix));
    }
    if document.sections.len() >= MOST_PATHS {
        return Err(fault(
            "there are too many paths".to_owned(),
            "remove some of them: a capture of any system contains fewer files",
        ));
    }
    if let Some((first, _)) = document.sections.insert(path.to_owned(), (number, section)) {
        return Err(fault(format!("{} is already on line {first}", quoted(path)), "remove one of the two lines"));
    }
    Ok(())
}
