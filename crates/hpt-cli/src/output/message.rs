//! Messages on standard error (errors, warnings, hints and notes), and their verbosity and colors.

use std::{
    env, fmt,
    io::{self, IsTerminal, Write},
    sync::{Mutex, OnceLock, PoisonError},
};

use clap::ValueEnum;
use console::{Term, measure_text_width};
use indicatif::ProgressBar;

use super::without_escapes;

/// The conditions under which colors are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// Use colors only on a terminal.
    #[default]
    Auto,
    /// Use colors even if the output is a pipe or a file.
    Always,
    /// Do not use colors.
    Never,
}

impl ColorChoice {
    /// Converts clap's choice.
    pub(crate) const fn of(choice: clap::ColorChoice) -> Self {
        match choice {
            clap::ColorChoice::Auto => Self::Auto,
            clap::ColorChoice::Always => Self::Always,
            clap::ColorChoice::Never => Self::Never,
        }
    }
}

/// The verbosity and the colors of messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manner {
    /// Whether to suppress the progress bar, notes and hints.
    pub(crate) quiet: bool,
    /// Whether to report each step.
    pub(crate) verbose: bool,
    /// The conditions under which colors are used.
    pub(crate) color: ColorChoice,
}

static MANNER: OnceLock<Manner> = OnceLock::new();

/// Sets the verbosity and colors for this process. Only the first call has an effect.
pub(crate) fn behave(manner: Manner) {
    let _ = MANNER.set(manner);
}

fn manner() -> Manner {
    MANNER.get().copied().unwrap_or_default()
}

/// Returns whether `--quiet` was given.
pub(crate) fn is_quiet() -> bool {
    manner().quiet
}

/// Returns whether `--verbose` was given.
pub(crate) fn is_verbose() -> bool {
    manner().verbose
}

/// Returns whether to use colors on a stream. `is_terminal` states whether the stream is a terminal.
pub(super) fn is_colored(is_terminal: bool) -> bool {
    colors(manner().color, is_terminal, |name| env::var_os(name).and_then(|value| value.into_string().ok()))
}

/// Returns whether to draw on a stream, that is, to move the cursor and to erase lines. A dumb terminal does not obey
/// such escape sequences, and NO_COLOR asks for none (no-color.org).
pub(super) fn can_draw(is_terminal: bool) -> bool {
    draws(is_terminal, |name| env::var_os(name).and_then(|value| value.into_string().ok()))
}

fn draws(is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_dumb = variable("TERM").is_none_or(|terminal| ["", "dumb", "unknown"].contains(&terminal.as_str()));
    is_terminal && !is_dumb && variable("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Returns whether to use colors. These settings are considered, in order of precedence: `--color`, NO_COLOR
/// (no-color.org), CLICOLOR_FORCE, and finally CLICOLOR and TERM.
fn colors(choice: ColorChoice, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set == value);
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if is_set("NO_COLOR") => false,
        ColorChoice::Auto if is_set("CLICOLOR_FORCE") && !is("CLICOLOR_FORCE", "0") => true,
        ColorChoice::Auto => is_terminal && !is("TERM", "dumb") && !is("CLICOLOR", "0"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKind {
    Error,
    Warning,
    Hint,
    Note,
    /// A step that hpt performs, shown with `--verbose`.
    Detail,
}

impl MessageKind {
    /// Returns the label and its color: red, yellow, cyan, or the terminal's default in bold.
    const fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::Error => ("error: ", "\x1b[1;31m"),
            Self::Warning => ("warning: ", "\x1b[1;33m"),
            Self::Hint => ("hint: ", "\x1b[36m"),
            Self::Note => ("note: ", "\x1b[1m"),
            Self::Detail => ("", ""),
        }
    }
}

/// The progress bar that is drawn below the messages, if any.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Makes messages appear above this progress bar.
pub(super) fn write_above(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Writes a message with its label.
fn tell(kind: MessageKind, text: &str) {
    let is_terminal = io::stderr().is_terminal();
    let line = line(kind, text, is_colored(is_terminal));
    let width = is_terminal.then(|| usize::from(Term::stderr().size().1));
    write_text(&width.map_or_else(|| line.clone(), |width| wrapped(&line, width)));
}

/// Wraps lines at words. Text between backquotes, which is a command to copy, stays on one line if it fits.
fn wrapped(text: &str, width: usize) -> String {
    let mut whole = String::new();
    for line in text.lines() {
        let mut column = 0;
        let mut rest = line;
        while !rest.is_empty() {
            let end = end_of_word(rest, width);
            let (word, after) = rest.split_at(end);
            let length = measure_text_width(word);
            if column > 0 && column + 1 + length > width {
                whole.push('\n');
                column = 0;
            } else if column > 0 {
                whole.push(' ');
                column += 1;
            }
            whole.push_str(word);
            column += length;
            rest = after.strip_prefix(' ').unwrap_or(after);
        }
        whole.push('\n');
    }
    whole
}

/// Returns the end of the first word, or of the first text between backquotes if it fits on a line.
fn end_of_word(text: &str, width: usize) -> usize {
    let mut ends = text.match_indices(' ').map(|(at, _)| at).chain([text.len()]);
    let end = ends.next().unwrap_or(text.len());
    let is_open = |end: usize| text[..end].matches('`').count() % 2 == 1;
    let closed = if is_open(end) { ends.find(|&end| !is_open(end)) } else { None };
    closed.filter(|&end| measure_text_width(&text[..end]) <= width).unwrap_or(end)
}

/// Writes text to standard error, above the progress bar. Ignores write errors.
pub(crate) fn write_text(text: &str) {
    let write = || {
        let _ = io::stderr().write_all(text.as_bytes());
    };
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Erases the `^C` that a terminal echoes, so that the next line begins in the first column.
pub(crate) fn erase_echo() {
    let mut out = io::stderr();
    if out.is_terminal() {
        let erased: &[u8] = if can_draw(true) { b"\r\x1b[2K" } else { b"\n" };
        let _ = out.write_all(erased);
    }
}

fn line(kind: MessageKind, text: &str, is_colored: bool) -> String {
    let (label, color) = kind.label();
    let text = without_escapes(text);
    if is_colored && !color.is_empty() {
        format!("hpt: {color}{label}\x1b[0m{text}\n")
    } else {
        format!("hpt: {label}{text}\n")
    }
}

/// Reports an error, which is the reason why there is no result.
pub(crate) fn error(text: impl fmt::Display) {
    tell(MessageKind::Error, &text.to_string());
}

/// Reports clap's message about an invalid command line, in the same format as all other messages.
pub(crate) fn wrong_usage(text: &str) {
    for paragraph in text.trim_end().split("\n\n") {
        let paragraph = paragraph.trim_end();
        if let Some(what) = paragraph.strip_prefix("error: ") {
            error(what);
        } else if let Some(tip) = paragraph.trim_start().strip_prefix("tip: ") {
            hint(tip);
        } else {
            let _ = writeln!(io::stderr(), "\n{}", without_escapes(paragraph));
        }
    }
}

/// Reports a warning: a problem that did not prevent the result.
pub(crate) fn warning(text: impl fmt::Display) {
    tell(MessageKind::Warning, &text.to_string());
}

/// Reports a hint on how to fix the problem.
pub(crate) fn hint(text: impl fmt::Display) {
    tell(MessageKind::Hint, &text.to_string());
}

/// Reports a note, unless `--quiet` was given.
pub(crate) fn note(text: impl fmt::Display) {
    if !is_quiet() {
        tell(MessageKind::Note, &text.to_string());
    }
}

/// Reports a step if `--verbose` was given.
pub(crate) fn detail(text: impl fmt::Display) {
    if manner().verbose {
        tell(MessageKind::Detail, &text.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::{ColorChoice, MessageKind, colors, line};

    #[test]
    fn the_option_decides_before_the_environment() {
        let with = |choice, is_terminal, set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned());
            colors(choice, is_terminal, variable)
        };
        let auto = |is_terminal, set: &[(&str, &str)]| with(ColorChoice::Auto, is_terminal, set);
        assert!(auto(true, &[]) && !auto(false, &[]));
        assert!(auto(false, &[("CLICOLOR_FORCE", "1")]) && !auto(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!auto(true, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]) && auto(true, &[("NO_COLOR", "")]));
        assert!(!auto(true, &[("TERM", "dumb")]) && !auto(true, &[("CLICOLOR", "0")]));
        assert!(with(ColorChoice::Always, false, &[("NO_COLOR", "1"), ("TERM", "dumb")]));
        assert!(!with(ColorChoice::Never, true, &[("CLICOLOR_FORCE", "1")]));
    }

    #[test]
    fn messages_are_wrapped_at_words_but_not_within_a_command() {
        let text = "hpt: error: the limit LIMIT is exceeded; run `hpt restore --journal /tmp/a` now\n";
        for width in [30, 40, 80, 120] {
            let shown = super::wrapped(text, width);
            assert!(shown.lines().all(|line| line.len() <= width), "{width}: {shown}");
            assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
            assert!(shown.contains("`hpt restore --journal /tmp/a`"), "{width}: {shown}");
        }
        assert_eq!(super::wrapped("hpt: error: x\n", 40), "hpt: error: x\n");
        // A word or a command that is wider than the terminal stays whole, or is wrapped at its words.
        assert_eq!(super::wrapped("a bbbbbbbbbb c `d e f g h`\n", 6), "a\nbbbbbbbbbb\nc `d e\nf g h`\n");
    }

    #[test]
    fn only_a_terminal_that_obeys_is_drawn_on() {
        let with = |is_terminal, set: &[(&str, &str)]| {
            super::draws(is_terminal, |name| {
                set.iter().find(|(one, _)| *one == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(true, &[("TERM", "xterm")]) && !with(false, &[("TERM", "xterm")]));
        for quiet in [&[("TERM", "dumb")][..], &[("TERM", "")], &[], &[("TERM", "xterm"), ("NO_COLOR", "1")]] {
            assert!(!with(true, quiet), "{quiet:?}");
        }
    }

    #[test]
    fn a_message_has_a_label_and_no_foreign_escapes() {
        assert_eq!(line(MessageKind::Error, "no \x1b[1msuch\x1b[0m", false).matches('\x1b').count(), 0);
        assert_eq!(line(MessageKind::Hint, "try it", false), "hpt: hint: try it\n");
        assert_eq!(line(MessageKind::Hint, "try it", true), "hpt: \x1b[36mhint: \x1b[0mtry it\n");
        assert_eq!(line(MessageKind::Detail, "done", true), "hpt: done\n");
    }
}
