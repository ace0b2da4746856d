//! The document of `hpt doctor`, and the answer that follows from the verdicts.

use hpt_core::Host;
use hpt_document::doctor::{
    DoctorDocument, DoctorEvidence, DoctorFix, DoctorMeasurement, DoctorRule, DoctorVerdict, Goal, Severity,
};
use hpt_instrument::diagnose::{Examined, Finding, MachineFacts, Verdict};

use crate::{document_head::head_of, output::Answer};

/// The verdicts on a machine, and for what they were reached.
pub(super) struct Examination<'a> {
    pub(super) goal: Goal,
    pub(super) cpu: Option<usize>,
    pub(super) examined: &'a [Examined],
    pub(super) measured: Option<Vec<DoctorMeasurement>>,
    pub(super) interrupted: bool,
    pub(super) notes: Vec<String>,
}

pub(super) fn document(host: &Host, facts: &MachineFacts, examination: Examination<'_>) -> DoctorDocument {
    let Examination { goal, cpu, examined, measured, interrupted, notes } = examination;
    let count = |severity: Severity| findings(examined).filter(|finding| finding.severity == severity).count() as u64;
    DoctorDocument {
        head: head_of("doctor", host),
        cpu,
        goal,
        problems_found: match answer(examined, goal, Severity::Low, false) {
            Answer::Yes => Some(false),
            Answer::No => Some(true),
            Answer::Unknown => None,
        },
        high: count(Severity::High),
        low: count(Severity::Low),
        info: count(Severity::Info),
        rules: examined.iter().map(row).collect(),
        measured,
        interrupted,
        needs_root: facts.needs_root().into_iter().map(str::to_owned).collect(),
        notes,
    }
}

fn findings(examined: &[Examined]) -> impl Iterator<Item = &Finding> {
    examined.iter().filter_map(|examined| match &examined.verdict {
        Verdict::Problem(finding) => Some(finding),
        Verdict::Pass(_) | Verdict::NotApplicable(_) | Verdict::Unknown { .. } => None,
    })
}

/// Returns `Answer::No` if a problem of this severity or a higher one was observed. Otherwise, returns
/// `Answer::Unknown` if such a problem is likely, or if a check that may find one had no result. `root_counts` states
/// whether this includes the checks that need root.
pub(super) fn answer(examined: &[Examined], goal: Goal, severity: Severity, root_counts: bool) -> Answer {
    let has_problem =
        |certain: bool| findings(examined).any(|finding| finding.severity >= severity && finding.certain == certain);
    let is_unknown = |examined: &Examined| match examined.verdict {
        Verdict::Unknown { needs_root, is_unlikely, .. } => {
            let is_relevant = examined.rule.relevance.severity(goal) >= severity;
            is_relevant && !is_unlikely && (root_counts || !needs_root)
        }
        Verdict::Problem(_) | Verdict::Pass(_) | Verdict::NotApplicable(_) => false,
    };
    match (has_problem(true), has_problem(false) || examined.iter().any(is_unknown)) {
        (true, _) => Answer::No,
        (false, true) => Answer::Unknown,
        (false, false) => Answer::Yes,
    }
}

fn row(examined: &Examined) -> DoctorRule {
    let rule = examined.rule;
    let (verdict, observed, finding) = match &examined.verdict {
        Verdict::Problem(finding) => (DoctorVerdict::Problem, finding.observed.clone(), Some(finding)),
        Verdict::Pass(observed) => (DoctorVerdict::Pass, observed.clone(), None),
        Verdict::NotApplicable(why) => (DoctorVerdict::NotApplicable, why.clone(), None),
        Verdict::Unknown { why, .. } => (DoctorVerdict::Unknown, why.clone(), None),
    };
    let fixes = finding.map(|finding| finding.fixes.as_slice()).unwrap_or_default();
    let fix = |fix: &hpt_instrument::diagnose::Fix| DoctorFix {
        text: fix.text.clone(),
        commands: fix.commands.clone(),
        commands_suffice: fix.commands_suffice,
    };
    DoctorRule {
        rule: rule.id.to_owned(),
        theme: examined.theme.to_owned(),
        title: rule.title.to_owned(),
        about: rule.about.to_owned(),
        verdict,
        goals: examined.goals(),
        severity: finding.map(|finding| finding.severity),
        certain: finding.map(|finding| finding.certain),
        observed,
        evidence: examined
            .evidence
            .iter()
            .map(|one| DoctorEvidence {
                file: one.file.clone(),
                cpus: one.cpus.as_ref().map(ToString::to_string),
                value: one.value.clone(),
            })
            .collect(),
        why: rule.why.to_owned(),
        affects: rule.affects.to_owned(),
        fixes: fixes.iter().map(fix).collect(),
        references: rule.references.iter().map(|&text| text.to_owned()).collect(),
    }
}
