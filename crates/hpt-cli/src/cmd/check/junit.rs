//! The result of a check as JUnit XML: a test suite for each step, and a test case for each limit.

use std::time::Duration;

use hpt_document::check::{CheckDocument, CheckRow, CheckStep, CheckStepState, CheckVerdict};
use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::notes::notes_of;
use crate::{output::without_escapes, sampling::limits::table::seen};

/// The name of the test case for a step whose verdict does not follow from its limits.
const RUN: &str = "run";
/// The message of a step that was interrupted or not started.
const INTERRUPTED: &str = "the check was interrupted";

/// Returns the XML text.
pub(super) fn text(data: &CheckDocument, host: Option<&str>) -> String {
    let mut report = Report::new(format!("hpt check {}", without_escapes(&data.file)));
    report.set_time(seconds(data.elapsed_s));
    for step in &data.steps {
        let mut suite = TestSuite::new(step.name.as_str());
        suite.set_time(seconds(step.elapsed_s));
        suite.add_property(Property::new("command", step.command.as_str()));
        suite.extra.insert("timestamp".into(), data.started_at.as_str().into());
        suite.extra.extend(host.map(|host| ("hostname".into(), host.into())));
        let notes: Vec<String> = notes_of(step).map(without_escapes).collect();
        if !notes.is_empty() {
            suite.set_system_out(notes.join("\n"));
        }
        let rows: Vec<&CheckRow> = data.results.iter().filter(|row| row.step == step.name).collect();
        // The measurement is one for all limits of a step, so only the first case has its duration.
        let mut left = seconds(step.elapsed_s);
        let cases = rows.iter().map(|row| (row.limit.text.as_str(), of_row(row, step))).chain(of_step(step, &rows));
        for (name, status) in cases {
            let mut case = TestCase::new(name, status);
            case.set_classname(step.name.as_str()).set_time(std::mem::take(&mut left));
            suite.add_test_case(case);
        }
        report.add_test_suite(suite);
    }
    let text = report.to_string().expect("names, numbers and texts have an XML form");
    // No JUnit schema allows this attribute for all suites. A name cannot contain the quotation mark.
    text.replacen(&format!(" skipped=\"{}\"", report.skipped), "", 1)
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn of_kind(kind: NonSuccessKind, message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(message);
    status.set_type(match kind {
        NonSuccessKind::Failure => "exceeded",
        NonSuccessKind::Error => "unknown",
    });
    status.set_description(message);
    status
}

fn of_row(row: &CheckRow, step: &CheckStep) -> TestCaseStatus {
    let limit = &row.limit;
    if step.state == CheckStepState::NotStarted {
        // Most programs that read the file accept a skipped test.
        return of_kind(NonSuccessKind::Error, INTERRUPTED);
    }
    match limit.held {
        Some(true) => TestCaseStatus::success(),
        Some(false) => {
            let place = limit.worst_row.as_ref().map_or_else(String::new, |worst| format!(" ({worst})"));
            let reason = limit.reason.as_ref().map_or_else(String::new, |reason| format!("; {reason}"));
            of_kind(NonSuccessKind::Failure, &format!("{} exceeded: {}{place}{reason}", limit.text, seen(limit).0))
        }
        None => of_kind(NonSuccessKind::Error, limit.reason.as_deref().unwrap_or("unknown")),
    }
}

/// Returns a case for a step that was interrupted, or whose own answer is worse than that of its limits.
fn of_step<'a>(step: &CheckStep, rows: &[&CheckRow]) -> Option<(&'a str, TestCaseStatus)> {
    let is_interrupted = step.state == CheckStepState::Interrupted;
    let interrupted = || is_interrupted.then(|| of_kind(NonSuccessKind::Error, INTERRUPTED));
    of_own_answer(step, rows).or_else(interrupted).map(|status| (RUN, status))
}

fn of_own_answer(step: &CheckStep, rows: &[&CheckRow]) -> Option<TestCaseStatus> {
    let reason = step.reason.as_deref().filter(|_| step.state != CheckStepState::NotStarted)?;
    let kind = match step.verdict {
        CheckVerdict::Held => return None,
        CheckVerdict::Exceeded if rows.iter().any(|row| row.limit.held == Some(false)) => return None,
        CheckVerdict::Exceeded => NonSuccessKind::Failure,
        CheckVerdict::Unknown if rows.iter().any(|row| row.limit.held.is_none()) => return None,
        CheckVerdict::Unknown => NonSuccessKind::Error,
    };
    Some(of_kind(kind, reason))
}

#[cfg(test)]
mod tests {
    use hpt_document::check::{CheckStep, CheckStepState, CheckVerdict};

    use super::text;
    use crate::cmd::check::tests::example;

    #[test]
    fn each_limit_is_a_test_case() {
        insta::with_settings!({ snapshot_path => "../../../tests/it/snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("check-junit", text(&example(), Some("runner-1")));
        });
    }

    #[test]
    fn the_suites_have_only_attributes_that_the_schemas_of_jenkins_allow() {
        let xml = text(&example(), None);
        let suites = xml.lines().find(|line| line.starts_with("<testsuites")).expect("the root");
        let names = suites.split('"').step_by(2).filter_map(|part| part.trim().rsplit(' ').next()?.strip_suffix('='));
        let names: Vec<&str> = names.collect();
        assert!(
            names.len() > 3 && names.iter().all(|name| ["name", "time", "tests", "failures", "errors"].contains(name)),
            "{suites}"
        );
        assert!(xml.contains("<testsuite name=\"late\" tests=\"1\" skipped=\"0\" errors=\"1\""), "{xml}");
        let read = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit");
        assert_eq!((read.tests, read.failures, read.errors, read.test_suites.len()), (5, 1, 3, 3));
    }

    #[test]
    fn a_step_with_a_negative_answer_of_its_own_fails() {
        let mut data = example();
        data.results.retain(|row| row.limit.held == Some(true));
        data.steps.truncate(1);
        data.steps[0] = CheckStep {
            verdict: CheckVerdict::Exceeded,
            state: CheckStepState::Measured,
            reason: Some("an edge was lost".to_owned()),
            ..data.steps[0].clone()
        };
        data.steps[0].document = Some(serde_json::json!({ "notes": ["the thread had its CPU 75 % of the time"] }));
        let xml = text(&data, None);
        assert!(xml.contains("<system-out>the thread had its CPU 75 % of the time</system-out>"), "{xml}");
        assert!(xml.contains("name=\"run\"") && xml.contains("an edge was lost"), "{xml}");
        assert!(xml.contains("failures=\"1\""), "{xml}");
    }
}
