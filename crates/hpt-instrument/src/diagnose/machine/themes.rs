//! The list of all rules by category, and the function that applies them to a machine. The rules themselves are in
//! other files, one for each category.

use super::{
    Evidence, Examined, Goal, MachineFacts, Rule, Subject, Theme, Verdict, access, board, interrupts, isolation,
    limits, memory, power, realtime, time, virtual_machine,
};

/// All rules, grouped by category.
pub const THEMES: &[Theme] = &[
    Theme { title: "Time", rules: time::RULES },
    Theme { title: "Real-time scheduling", rules: realtime::RULES },
    Theme { title: "Limits of this process", rules: limits::RULES },
    Theme { title: "Isolated CPUs", rules: isolation::RULES },
    Theme { title: "Interrupts and kernel threads", rules: interrupts::RULES },
    Theme { title: "Frequency and idle states", rules: power::RULES },
    Theme { title: "Memory", rules: memory::RULES },
    Theme { title: "Virtual machines", rules: virtual_machine::RULES },
    Theme { title: "Power supply and temperature", rules: board::RULES },
    Theme { title: "Permissions for counters and devices", rules: access::RULES },
];

/// Applies every rule to the machine, or to one of its CPUs. The severity of the findings depends on `goal`.
#[must_use]
pub fn examine(facts: &MachineFacts, cpu: Option<usize>, goal: Goal) -> Vec<Examined> {
    let subject = Subject::of(facts, cpu);
    let all = THEMES.iter().flat_map(|theme| theme.rules.iter().map(|rule| (theme.title, rule)));
    all.map(|(theme, rule)| {
        let evidence = facts.evidence_of(rule.id);
        let verdict = resting_on(&evidence, judged(rule, facts, &subject, goal));
        Examined { rule, theme, verdict, evidence }
    })
    .collect()
}

/// Returns the verdict, or that it is unknown if it is definite although the rule saw none of its evidence: a missing
/// file proves neither a problem nor its absence. An uncertain finding says itself that it is inferred.
fn resting_on(evidence: &[Evidence], verdict: Verdict) -> Verdict {
    let is_definite = match &verdict {
        Verdict::Problem(finding) => finding.certain,
        Verdict::Pass(_) => true,
        Verdict::NotApplicable(_) | Verdict::Unknown { .. } => false,
    };
    if is_definite && !evidence.iter().any(Evidence::is_seen) {
        return Verdict::unknown_and_unlikely("none of the files or calls that state it could be read");
    }
    verdict
}

/// Applies a rule, and limits the severity of its finding to the highest severity that the rule has for `goal`.
fn judged(rule: &Rule, facts: &MachineFacts, subject: &Subject, goal: Goal) -> Verdict {
    let mut verdict = (rule.judge)(facts, subject);
    if let Verdict::Problem(finding) = &mut verdict {
        finding.severity = finding.severity.min(rule.relevance.severity(goal));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Evidence, THEMES, Verdict, resting_on};
    use crate::diagnose::{Severity, machine::Finding};

    #[test]
    fn a_definite_verdict_without_evidence_is_unknown() {
        let of = |value: &str| Evidence { file: "/proc/x".to_owned(), cpus: None, value: value.to_owned() };
        let problem = || Finding::new(Severity::High, "x");
        let is_unknown =
            |evidence: &[Evidence], verdict| matches!(resting_on(evidence, verdict), Verdict::Unknown { .. });
        for verdict in [Verdict::pass("x"), problem().problem()] {
            assert!(
                is_unknown(&[], verdict.clone()) && is_unknown(&[of("not readable by this user")], verdict.clone())
            );
            assert!(!is_unknown(&[of("not readable by this user"), of("1")], verdict));
        }
        assert!(!is_unknown(&[], problem().uncertain().problem()) && !is_unknown(&[], Verdict::not_applicable("x")));
    }

    #[test]
    fn every_rule_has_a_unique_name_and_title_and_all_texts() {
        let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
        for rule in THEMES.iter().flat_map(|theme| theme.rules) {
            assert!(ids.insert(rule.id) && titles.insert(rule.title), "{} is not unique", rule.id);
            assert!(rule.id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{}", rule.id);
            for text in [rule.title, rule.about, rule.why, rule.affects] {
                assert!(!text.is_empty(), "{}", rule.id);
            }
            assert!(!rule.references.is_empty(), "{}", rule.id);
        }
    }
}
