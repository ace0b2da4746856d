//! Plants: changes of a board's answers or expectations that a judge must notice.
//! Independent of the subjects.

use super::{
    answers::Answers,
    board::Board,
    case::{self, Printed},
};
use hpt_document::watch::{WatchDocument, WatchSummaryDocument};

/// A fault that is planted in the answers of a board that passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plant {
    /// A description of the change.
    pub(super) what: &'static str,
    pub(super) change: fn(&mut Planted),
}

/// The plants of one subject, and the boards that they apply to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plants {
    /// The topic of the plants.
    pub(super) about: &'static str,
    /// Returns whether the answers of a board contain what the plants change.
    pub(super) fit: fn(&Board) -> bool,
    pub(super) plants: &'static [Plant],
}

/// A copy of a board and its answers, to be changed. A name that begins with a dot is a step of the
/// first build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planted {
    pub(super) board: Board,
    pub(super) answers: Answers,
}

impl Planted {
    fn named(&self, name: &str) -> String {
        if name.starts_with('.') { format!("{}{name}", self.board.first_build()) } else { name.to_owned() }
    }

    fn text(&self, name: &str) -> String {
        self.answers.file(name).unwrap_or_default().to_owned()
    }

    /// Makes the step not complete.
    pub(super) fn never_ended(&mut self, step: &str) {
        let name = self.named(step);
        self.answers.remove(&format!("{name}.status"));
    }

    /// Sets the exit code of a step.
    pub(super) fn status(&mut self, step: &str, code: i32) {
        let name = self.named(step);
        self.answers.put(&format!("{name}.status"), format!("{code}\n"));
    }

    /// Replaces the output of the step `to` with that of the step `from`.
    pub(super) fn copy(&mut self, from: &str, to: &str) {
        let text = self.text(&format!("{}.out", self.named(from)));
        let to = self.named(to);
        self.answers.put(&format!("{to}.out"), text);
    }

    /// Replaces the text of a file.
    pub(super) fn put(&mut self, file: &str, text: &str) {
        let name = self.named(file);
        self.answers.put(&name, text);
    }

    pub(super) fn append(&mut self, file: &str, line: &str) {
        let name = self.named(file);
        let text = self.text(&name);
        self.answers.put(&name, format!("{text}{line}\n"));
    }

    /// Replaces or removes each line of a file. `change` gets the line's number, from 1, and its
    /// text.
    pub(super) fn lines(&mut self, file: &str, change: impl Fn(usize, &str) -> Option<String>) {
        let name = self.named(file);
        let text = self.text(&name);
        let lines = text.lines().enumerate().filter_map(|(index, line)| change(index + 1, line));
        let changed = lines.map(|line| line + "\n").collect::<String>();
        self.answers.put(&name, changed);
    }

    /// Replaces lines that begin with a text.
    pub(super) fn set_lines(&mut self, file: &str, beginning: &str, line: &str) {
        self.lines(file, |_, one| Some(if one.starts_with(beginning) { line } else { one }.to_owned()));
    }

    /// Removes lines that contain a text.
    pub(super) fn leave_out(&mut self, file: &str, text: &str) {
        self.lines(file, |_, line| (!line.contains(text)).then(|| line.to_owned()));
    }

    /// Replaces all occurrences of a text in a file.
    pub(super) fn replace(&mut self, file: &str, from: &str, to: &str) {
        let name = self.named(file);
        let changed = self.text(&name).replace(from, to);
        self.answers.put(&name, changed);
    }

    /// Replaces the number between two texts, in each line.
    pub(super) fn set_number(&mut self, file: &str, before: &str, after: &str, number: &str) {
        self.lines(file, |_, line| {
            let changed = line.split_once(before).and_then(|(head, tail)| {
                let (old, rest) = tail.split_once(after)?;
                let is_number = !old.is_empty() && old.chars().all(|digit| digit.is_ascii_digit() || digit == '.');
                is_number.then(|| format!("{head}{before}{number}{after}{rest}"))
            });
            Some(changed.unwrap_or_else(|| line.to_owned()))
        });
    }

    /// Changes the document that the step printed. Does not change output that is not such a
    /// document.
    pub(super) fn document<D: Printed>(&mut self, step: &str, change: impl FnOnce(&mut D)) {
        let file = format!("{}.out", self.named(step));
        let Ok(mut document) = case::read::<D>(&self.text(&file)) else { return };
        change(&mut document);
        self.answers.put(&file, serde_json::to_string_pretty(&document).expect("a document has a JSON form") + "\n");
    }

    /// Changes the intervals and the summary of the watch that the step printed.
    pub(super) fn watch(
        &mut self,
        step: &str,
        interval: impl Fn(&mut WatchDocument),
        summary: impl Fn(&mut WatchSummaryDocument),
    ) {
        fn line<D: Printed>(document: &D) -> String {
            serde_json::to_string(document).expect("a document has a JSON form")
        }
        self.lines(&format!("{step}.out"), |_, text| {
            if let Ok(mut document) = case::read::<WatchDocument>(text) {
                interval(&mut document);
                return Some(line(&document));
            }
            let Ok(mut document) = case::read::<WatchSummaryDocument>(text) else { return Some(text.to_owned()) };
            summary(&mut document);
            Some(line(&document))
        });
    }

    /// Changes the summary of the watch that the step printed.
    pub(super) fn summary(&mut self, step: &str, change: impl Fn(&mut WatchSummaryDocument)) {
        self.watch(step, |_| {}, change);
    }
}
