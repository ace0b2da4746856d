//! The details that `hpt doctor -v` and `hpt doctor RULE` print: all rules with their verdicts, reasons and fixes.

use hpt_document::doctor::{DoctorDocument, DoctorRule, DoctorVerdict, Goal, Severity};

use super::summary::verdict_line;
use crate::{
    document_head::machine_facts,
    output::{Block, Cell, Tone, remarks},
};

/// Returns the text. `are_named` states whether the user named the rules, so that a rule without a problem has its
/// details too.
pub(super) fn details(data: &DoctorDocument, are_named: bool) -> Vec<Block> {
    let mut facts = machine_facts(&data.head.machine);
    let goal = data.goal.name();
    facts
        .push(("goal", data.cpu.map_or(goal.to_owned(), |cpu| format!("{goal}, for a thread dedicated to CPU {cpu}"))));
    facts.push((
        "severity",
        "high: a delay of a millisecond or more, or wrong time; low: a shorter delay; info: a note".to_owned(),
    ));
    // The answer comes first, and what it is about last.
    let mut blocks = if are_named { Vec::new() } else { vec![Block::Headline(format!("{}.", verdict_line(data)))] };
    for severity in [Severity::High, Severity::Low, Severity::Info] {
        let of_this = data.rules.iter().filter(|row| row.severity == Some(severity));
        blocks.extend(of_this.map(|row| rule_block(row, &format!("{}: {}", severity.name(), row.title))));
    }
    for (verdict, title) in [
        (DoctorVerdict::Pass, "Passed:"),
        (DoctorVerdict::Unknown, "Unknown:"),
        (DoctorVerdict::NotApplicable, "Not applicable:"),
    ] {
        if are_named {
            let of_this = data.rules.iter().filter(|row| row.verdict == verdict);
            blocks.extend(of_this.map(|row| rule_block(row, &format!("{title} {}", row.rule))));
            continue;
        }
        let rows = rows_of(data, verdict);
        if !rows.is_empty() {
            blocks.push(Block::Section(title.to_owned(), rows));
        }
    }
    if !data.needs_root.is_empty() && !are_named {
        let rows = data.needs_root.iter().map(|what| vec![Cell::plain(what)]);
        blocks.push(Block::Section("To check the following, run hpt as root:".to_owned(), rows.collect()));
    }
    if let Some(measured) = &data.measured {
        let rows = measured.iter().map(|measured| vec![Cell::plain(&measured.what), Cell::plain(&measured.result)]);
        blocks.push(Block::Section("Measured:".to_owned(), rows.collect()));
    }
    blocks.push(Block::Facts(facts));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Formats the rules with this verdict. Unless the verdict is `Pass`, rules with the same text share a row.
fn rows_of(data: &DoctorDocument, verdict: DoctorVerdict) -> Vec<Vec<Cell>> {
    let mut by_text: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in data.rules.iter().filter(|row| row.verdict == verdict) {
        let alike =
            by_text.iter_mut().find(|(observed, _)| *observed == row.observed && verdict != DoctorVerdict::Pass);
        match alike {
            Some((_, rules)) => rules.push(&row.rule),
            None => by_text.push((&row.observed, vec![&row.rule])),
        }
    }
    by_text.into_iter().map(|(observed, rules)| vec![Cell::plain(rules.join(", ")), Cell::faint(observed)]).collect()
}

/// The number of values that are shown with a finding. Those of a machine with many devices would hide the rest.
const SHOWN: usize = 6;

fn rule_block(row: &DoctorRule, title: &str) -> Block {
    let is_problem = matches!(row.severity, Some(Severity::High | Severity::Low));
    let observed = match row.certain {
        Some(false) => format!("{} (likely, not observed)", row.observed),
        _ => row.observed.clone(),
    };
    let mut lines = vec![
        line("rule", &format!("{}: checks {}", row.rule, row.about), Tone::Plain),
        line("observed", &observed, if is_problem { Tone::Bad } else { Tone::Plain }),
        line("why", &row.why, Tone::Plain),
        line("affects", &row.affects, Tone::Plain),
    ];
    lines.extend(row.evidence.iter().take(SHOWN).map(|one| {
        let cpus = one.cpus.as_ref().map(|cpus| format!(" (CPUs {cpus})")).unwrap_or_default();
        line("evidence", &format!("{}{cpus}: {}", one.file, one.value), Tone::Faint)
    }));
    if row.severity == Some(Severity::Info) && !row.goals.is_empty() {
        let goals: Vec<_> = row.goals.iter().map(|goal| format!("--for {}", Goal::name(*goal))).collect();
        lines.push(line("counts", &format!("as a problem with {}", goals.join(" or ")), Tone::Plain));
    }
    for fix in &row.fixes {
        let colon = if fix.commands.is_empty() { "" } else { ":" };
        lines.push(line("fix", &format!("{}{colon}", fix.text), Tone::Plain));
        lines.extend(fix.commands.iter().map(|command| vec![Cell::plain("           "), Cell::command(command)]));
    }
    lines.push(line("see", &row.references.join(" · "), Tone::Faint));
    Block::Section(title.to_owned(), lines)
}

/// Returns a line with its name, which has the same width in all lines.
fn line(name: &str, text: &str, tone: Tone) -> Vec<Cell> {
    vec![Cell::faint(format!("  {name:8}")), Cell(text.to_owned(), tone)]
}
