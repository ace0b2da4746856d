//! The case of one board: its answers, the expectations, the problems and the results.
//! Independent of the subjects.

use std::{cell::RefCell, collections::BTreeSet, ops::Deref};

use hpt_document::{
    bench::BenchDocument,
    calibrate::{CalibrateDocument, CalibrationRow},
    clocksource::ClocksourceDocument,
    clocksource_cost::ClocksourceCostDocument,
    doctor::DoctorDocument,
    doctor_try::DoctorTryDocument,
    experiment::ExperimentDocument,
    gpio_latency::GpioLatencyDocument,
    gpio_line::GpioListDocument,
    pairs::PairsDocument,
    probe::{ProbeDocument, ProbeRow},
    restore::RestoreDocument,
    sleep::SleepDocument,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
    watch::{WatchDocument, WatchSummaryDocument},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{answers::Answers, board::Board, text};

/// The permitted relative error of a rate, and the largest permitted bound. The kernel measures the
/// TSC itself, and disturbed readings make its result inaccurate. A larger bound means that nothing
/// was measured.
pub(super) const RATE_TOLERANCE: f64 = 0.03;

/// A document that a step prints, and the kinds that it may state.
pub(super) trait Printed: DeserializeOwned + Serialize {
    const KINDS: &'static [&'static str];
}

macro_rules! printed {
    ($($type:ident: $($kind:literal)|+,)*) => {
        $(impl Printed for $type {
            const KINDS: &'static [&'static str] = &[$($kind),+];
        })*
    };
}

printed! {
    BenchDocument: "bench",
    CalibrateDocument: "calibrate",
    ClocksourceDocument: "clocksource",
    ClocksourceCostDocument: "clocksource-compare" | "clocksource-set",
    DoctorDocument: "doctor",
    DoctorTryDocument: "doctor-try",
    ExperimentDocument: "experiment",
    GpioLatencyDocument: "latency-gpio",
    GpioListDocument: "latency-gpio-list",
    PairsDocument: "latency-pairs",
    ProbeDocument: "probe",
    RestoreDocument: "restore",
    SleepDocument: "sleep",
    StallDocument: "latency-stall",
    WakeLatencyDocument: "latency-timer" | "latency-poll",
    WatchDocument: "watch",
    WatchSummaryDocument: "watch-summary",
}

/// The exit code of a measurement that a signal ended.
pub(super) fn code_of(signal: &str) -> u8 {
    match signal {
        "HUP" => 129,
        "INT" => 130,
        _ => 143,
    }
}

/// One board's answers, and the findings of the judges.
#[derive(Debug)]
pub(super) struct Case<'a> {
    /// The expectations.
    pub(super) board: &'a Board,
    pub(super) answers: &'a Answers,
    wrong: RefCell<Vec<String>>,
    shown: RefCell<BTreeSet<String>>,
}

impl<'a> Case<'a> {
    pub(super) fn new(board: &'a Board, answers: &'a Answers) -> Self {
        Self { board, answers, wrong: RefCell::default(), shown: RefCell::default() }
    }

    /// Returns the problems and the results.
    pub(super) fn close(self) -> (Vec<String>, Vec<String>) {
        (self.wrong.into_inner(), self.shown.into_inner().into_iter().collect())
    }

    /// Records a problem, in one line.
    pub(super) fn wrong(&self, text: String) {
        let mut wrong = self.wrong.borrow_mut();
        if !wrong.contains(&text) {
            wrong.push(text);
        }
    }

    /// Records a result for the table, unless it is empty.
    pub(super) fn shown(&self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.shown.borrow_mut().insert(text);
        }
    }

    pub(super) fn out(&self, step: &str) -> &'a str {
        self.answers.out(step)
    }

    pub(super) fn err(&self, step: &str) -> &'a str {
        self.answers.err(step)
    }

    /// Returns whether the step ended with exit code 0. Records a problem if it did not, or if it
    /// panicked.
    pub(super) fn ended(&self, step: &str) -> bool {
        let Some(status) = self.answers.status(step) else {
            self.wrong(format!("{step}: the step did not complete"));
            return false;
        };
        if (129..192).contains(&status) {
            self.wrong(format!("{step}: ended by signal {}", status - 128));
        } else if status != 0 {
            self.wrong(format!("{step}: exit code {status}, not 0: {}", text::last_line(self.err(step))));
        }
        for panic in [self.out(step), self.err(step)].into_iter().filter_map(text::panic) {
            self.wrong(format!("{step}: {panic}"));
        }
        status == 0
    }

    /// Returns the document that the step printed, or `None` if the step did not run, which
    /// [`Self::ended`] reports.
    pub(super) fn document<D: Printed>(&self, step: &str) -> Option<Judged<'_, D>> {
        let text = self.answers.file(&format!("{step}.out"))?;
        match read(text) {
            Ok(document) => Some(Judged { case: self, step: step.to_owned(), document }),
            Err(reason) => {
                self.wrong(format!("{step}: expected: a document of kind {}: {reason}", D::KINDS.join(" or ")));
                None
            }
        }
    }

    /// Returns the document of a step, which must have ended with exit code 0.
    pub(super) fn ended_with<D: Printed>(&self, step: &str) -> Option<Judged<'_, D>> {
        if self.ended(step) { self.document(step) } else { None }
    }

    /// Returns the summary of a watch: the last line that the step printed, after the intervals.
    pub(super) fn watched(&self, step: &str) -> Option<Judged<'_, WatchSummaryDocument>> {
        match read_watch(self.answers.file(&format!("{step}.out"))?) {
            Ok(document) => Some(Judged { case: self, step: step.to_owned(), document }),
            Err(reason) => {
                self.wrong(format!("{step}: expected: intervals of a watch, and their summary: {reason}"));
                None
            }
        }
    }

    /// Compares all lines that a step printed, joined with semicolons.
    pub(super) fn said_all(&self, step: &str, lines: &str) {
        if !self.ended(step) {
            return;
        }
        let said = text::in_one_line(self.out(step));
        if said != lines {
            self.wrong(format!("{step}: printed {said}, expected {lines}"));
        }
    }
}

/// Reads a document of this type, and checks its kind.
pub(super) fn read<D: Printed>(text: &str) -> Result<D, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or("none");
    if !D::KINDS.contains(&kind) {
        return Err(format!("its kind is {kind}"));
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn read_watch(text: &str) -> Result<WatchSummaryDocument, String> {
    let lines: Vec<&str> = text.lines().collect();
    let (last, intervals) = lines.split_last().ok_or("it printed nothing")?;
    for interval in intervals {
        read::<WatchDocument>(interval)?;
    }
    read(last)
}

/// A document, and the step that printed it.
#[derive(Debug)]
pub(super) struct Judged<'a, D> {
    case: &'a Case<'a>,
    step: String,
    document: D,
}

impl<D> Judged<'_, D> {
    /// Judges one condition: `what` describes it, and `is_so` returns whether it holds.
    pub(super) fn holds(&self, what: &str, is_so: impl FnOnce(&D) -> bool) {
        if !is_so(&self.document) {
            self.case.wrong(format!("{}: expected: {what}", self.step));
        }
    }
}

impl<D> Deref for Judged<'_, D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.document
    }
}

pub(super) fn source<'a>(probe: &'a ProbeDocument, id: &str) -> Option<&'a ProbeRow> {
    probe.sources.iter().find(|row| row.id == id)
}

/// Returns whether a rate was measured: it is between its limits, and its bound is useful.
pub(super) fn measured(row: &CalibrationRow) -> bool {
    let (Some(slowest), Some(rate), Some(fastest), Some(bound)) =
        (row.lowest_hz, row.frequency_hz, row.highest_hz, row.bound_ppm)
    else {
        return false;
    };
    row.calibrated && slowest <= rate && rate <= fastest && bound / 1e6 <= RATE_TOLERANCE
}

/// Returns whether a rate was measured, and `hz` lies between its limits.
pub(super) fn runs_at(row: &CalibrationRow, hz: f64) -> bool {
    measured(row)
        && row.lowest_hz.is_some_and(|slowest| slowest <= hz)
        && row.highest_hz.is_some_and(|fastest| hz <= fastest)
}

#[cfg(test)]
mod tests {
    use super::{Case, PairsDocument, RestoreDocument, measured, runs_at};
    use crate::judge::{answers::Answers, board::Board};
    use hpt_document::calibrate::CalibrationRow;

    /// Returns the problems that `look` finds in these files.
    fn wrong(files: &[(&str, &str)], look: impl FnOnce(&Case<'_>)) -> Vec<String> {
        let mut answers = Answers::default();
        for (name, text) in files {
            answers.put(name, *text);
        }
        let board = Board::default();
        let case = Case::new(&board, &answers);
        look(&case);
        case.close().0
    }

    #[test]
    fn a_step_ends_with_exit_code_0_and_without_a_panic() {
        let ended = |files: &[(&str, &str)]| wrong(files, |case| _ = case.ended("a.probe"));
        assert_eq!(ended(&[("a.probe.status", "0\n")]), [""; 0]);
        assert_eq!(ended(&[]), ["a.probe: the step did not complete"]);
        assert_eq!(ended(&[("a.probe.status", "139\n")]), ["a.probe: ended by signal 11"]);
        let failed = ended(&[("a.probe.status", "2\n"), ("a.probe.err", "one\nhpt: no\n")]);
        assert_eq!(failed, ["a.probe: exit code 2, not 0: hpt: no"]);
        let panicked = ended(&[("a.probe.status", "0\n"), ("a.probe.err", "thread 'main' panicked at x.rs:1\n")]);
        assert_eq!(panicked, ["a.probe: thread 'main' panicked at x.rs:1"]);
    }

    #[test]
    fn a_document_of_another_kind_is_noticed() {
        let restore = r#"{"schema":2,"kind":"restore","hpt":"0","machine":{"live":true,"architecture":"x","cpu":null,
            "board":null,"hypervisor":null,"emulated_by":"QEMU","kernel_release":"6","kernel_version":"1","clocksource":null,
            "available_clocksources":null,"vdso":true,"counter_permission":"enabled"},"journal":"/run","from_other_boot":false,
            "settings":[],"notes":[]}"#;
        let files = [("a.restore.out", restore)];
        let look = |case: &Case<'_>| {
            case.document::<RestoreDocument>("a.restore")
                .expect("it is one")
                .holds("something", |it| !it.settings.is_empty());
        };
        assert_eq!(wrong(&files, look), ["a.restore: expected: something"]);
        let other = |case: &Case<'_>| assert!(case.document::<PairsDocument>("a.restore").is_none());
        assert_eq!(
            wrong(&files, other),
            ["a.restore: expected: a document of kind latency-pairs: its kind is restore"]
        );
        let text = wrong(&[("a.out", "hpt: no\n")], |case| assert!(case.document::<PairsDocument>("a").is_none()));
        assert!(text[0].starts_with("a: expected: a document of kind latency-pairs: expected"), "{text:?}");
    }

    #[test]
    fn the_whole_output_of_a_step_is_compared() {
        let files = [("a.status", "0"), ("a.out", "1\nafter tsc\n")];
        assert_eq!(wrong(&files, |case| case.said_all("a", "1;after tsc")), [""; 0]);
        assert_eq!(
            wrong(&files, |case| case.said_all("a", "1;after acpi_pm")),
            ["a: printed 1;after tsc, expected 1;after acpi_pm"]
        );
    }

    #[test]
    fn a_rate_without_a_useful_bound_was_not_measured() {
        let row = |slowest: f64, fastest: f64, bound: f64| CalibrationRow {
            source: "tsc".to_owned(),
            reference: None,
            calibrated: true,
            failure: None,
            method: None,
            frequency_hz: Some(1e9),
            lowest_hz: Some(slowest),
            highest_hz: Some(fastest),
            bound_ppm: Some(bound),
            nominal_hz: None,
            nominal_origin: None,
            error_ppm: None,
            window_ns: None,
            pairs: None,
            narrowest_bracket_ns: None,
            cpu: None,
        };
        assert!(measured(&row(0.99e9, 1.01e9, 1e4)));
        assert!(!measured(&row(1.0, 1.01e9, 999_999.0)) && !measured(&row(1.001e9, 1.01e9, 1e4)));
        assert!(runs_at(&row(0.99e9, 1.01e9, 1e4), 1.005e9) && !runs_at(&row(0.99e9, 1.01e9, 1e4), 1.02e9));
    }
}
