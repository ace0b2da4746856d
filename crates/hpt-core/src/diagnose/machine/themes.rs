//! The list of all rules by category, and the function that applies them to a machine. The rules themselves are in
//! other files, one for each category.

use super::{
    Examined, MachineFacts, Subject, Theme, access, board, interrupts, isolation, limits, memory, power, realtime,
    time, virtual_machine,
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

/// Applies every rule to the machine, or to one of its CPUs.
#[must_use]
pub fn examine(facts: &MachineFacts, cpu: Option<usize>) -> Vec<Examined> {
    let subject = Subject::of(facts, cpu);
    let all = THEMES.iter().flat_map(|theme| theme.rules.iter().map(|rule| (theme.title, rule)));
    all.map(|(theme, rule)| Examined { rule, theme, verdict: (rule.judge)(facts, &subject) }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::THEMES;

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
