//! The rules of `hpt doctor` with different results on the sides.

use hpt_document::{
    compare::ComparedRuleRow,
    doctor::{DoctorDocument, DoctorRule, DoctorVerdict, Severity},
};

use super::super::data_file::Report;
use crate::output::chart::Unreadable;

pub(super) fn rules(reports: &[&Report]) -> Result<Vec<ComparedRuleRow>, Unreadable> {
    let doctors: Result<Vec<Option<DoctorDocument>>, _> =
        reports.iter().map(|report| report.document("doctor")).collect();
    let doctors = doctors?;
    // Missing rules mean nothing if a side has no rules at all.
    if doctors.iter().any(|doctor| doctor.as_ref().is_none_or(|doctor| doctor.rules.is_empty())) {
        return Ok(Vec::new());
    }
    let all = || doctors.iter().flatten().flat_map(|doctor| &doctor.rules);
    let mut names: Vec<(&str, &str)> = Vec::new();
    for rule in all() {
        if !names.iter().any(|(name, _)| *name == rule.rule) {
            names.push((&rule.rule, &rule.about));
        }
    }
    let rows = names.into_iter().map(|(name, about)| ComparedRuleRow {
        rule: name.to_owned(),
        about: about.to_owned(),
        verdicts: doctors
            .iter()
            .map(|doctor| doctor.as_ref()?.rules.iter().find(|rule| rule.rule == name).map(said))
            .collect(),
    });
    // Between several machines, a rule that found no problem on any of them is no difference that matters.
    let is_problem = |said: &Option<String>| {
        said.as_ref().is_some_and(|said| {
            ![DoctorVerdict::Pass, DoctorVerdict::NotApplicable, DoctorVerdict::Unknown]
                .iter()
                .any(|it| it.name() == said)
        })
    };
    let matters = |row: &ComparedRuleRow| reports.len() == 2 || row.verdicts.iter().any(is_problem);
    // What was observed differs from run to run, such as a share of 0.81 or 0.80 %.
    let verdict = |said: &Option<String>| said.as_ref().map(|said| said.split(": ").next().unwrap_or(said).to_owned());
    let differs = |row: &ComparedRuleRow| row.verdicts.windows(2).any(|two| verdict(&two[0]) != verdict(&two[1]));
    Ok(rows.filter(differs).filter(matters).collect())
}

fn said(rule: &DoctorRule) -> String {
    match (rule.verdict, rule.severity) {
        (DoctorVerdict::Problem, severity) => {
            format!("{}: {}", severity.map_or("", Severity::name), rule.observed)
        }
        (verdict, _) => verdict.name().to_owned(),
    }
}
