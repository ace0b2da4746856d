//! The default output of `hpt doctor`: a verdict and the problems, on one screen of 80 columns and 24 lines.

use hpt_document::doctor::{DoctorDocument, DoctorRule, DoctorVerdict, Goal, Severity};

use crate::{
    document_head::machine_line,
    output::{Block, Cell, Tone, one_or_many, remarks},
};

/// The number of problems for which a screen has room, without and with the results of a measurement. A problem takes
/// two lines.
const ROOM: usize = 7;
const ROOM_WITH_RESULTS: usize = 2;
/// The width of the text next to the severity on a terminal of 80 columns.
const WIDTH: usize = 74;
/// The minimum length of an observation. A shorter one would be cut off to a useless text.
const LEAST: usize = 12;

/// `options` are the options with which another run examines the same machine in the same way, each after a space.
pub(super) fn summary(data: &DoctorDocument, options: &str) -> Vec<Block> {
    let room = if data.measured.is_some() { ROOM_WITH_RESULTS } else { ROOM };
    let problems = problems(data);
    let shown = problems.len().min(room.max(usize::try_from(data.high).unwrap_or(usize::MAX)));
    let mut rows: Vec<_> = problems[..shown].iter().flat_map(|row| [problem(row), first_fix(row, options)]).collect();
    if problems.len() > shown {
        let more = format!("     {} more of low severity: ", problems.len() - shown);
        rows.push(vec![Cell::faint(more), Cell::command(format!("hpt doctor -v{options}"))]);
    }
    let mut blocks = vec![Block::Text(machine_line(&data.head.machine)), Block::Section(verdict_line(data), rows)];
    if let Some(measured) = &data.measured {
        let rows = measured.iter().map(|measured| vec![Cell::plain(&measured.what), Cell::plain(&measured.result)]);
        blocks.push(Block::Section("Measured:".to_owned(), rows.collect()));
    }
    blocks.push(rest(data, options));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Returns the rules that found a problem: those of high severity first, and of each severity those that were observed
/// first.
fn problems(data: &DoctorDocument) -> Vec<&DoctorRule> {
    let of = |severity, certain| {
        data.rules.iter().filter(move |row| row.severity == Some(severity) && row.certain == Some(certain))
    };
    let severities = [Severity::High, Severity::Low];
    severities.into_iter().flat_map(|severity| of(severity, true).chain(of(severity, false))).collect()
}

/// Returns the verdict in one line, for example `5 problems for realtime on CPU 3: 2 high, 3 low severity`.
pub(super) fn verdict_line(data: &DoctorDocument) -> String {
    let goal = match data.goal {
        Goal::General => String::new(),
        goal => format!(" for {}", goal.name()),
    };
    let subject = data.cpu.map_or(goal.clone(), |cpu| format!("{goal} on CPU {cpu}"));
    let (high, low) = (data.high, data.low);
    let severities = match (high, low) {
        (_, 0) => format!(" of high severity{subject}"),
        (0, _) => format!(" of low severity{subject}"),
        _ => format!("{subject}: {high} of high severity, {low} of low severity"),
    };
    let unknown = data.rules.iter().filter(|row| row.verdict == DoctorVerdict::Unknown).count();
    match (data.problems_found, high + low) {
        (Some(true), all) => format!("{all} {}{severities}", one_or_many(all, "problem", "problems")),
        (Some(false), _) => format!("No problems{subject}"),
        (None, 0) => {
            let checks = one_or_many(unknown, "check has", "checks have");
            format!("No problems observed{subject}, but {unknown} {checks} no result")
        }
        (None, all) => {
            format!("{all} {}{severities}", one_or_many(all, "likely problem", "likely problems"))
        }
    }
}

fn problem(row: &DoctorRule) -> Vec<Cell> {
    let (word, tone) = match row.severity {
        Some(Severity::High) => ("high", Tone::Bad),
        _ => ("low ", Tone::Plain),
    };
    vec![Cell(word.to_owned(), tone), Cell::plain(in_one_line(row))]
}

/// Returns the title, the observation and the name of the rule. Shortens the observation to what one line has room for.
fn in_one_line(row: &DoctorRule) -> String {
    let likely = if row.certain == Some(false) { "likely: " } else { "" };
    let observed = row.observed.strip_prefix("the ").unwrap_or(&row.observed);
    let is_the_title = observed.eq_ignore_ascii_case(&row.title);
    let observed = if is_the_title { "" } else { &row.observed };
    let left = WIDTH.saturating_sub(row.title.chars().count() + row.rule.len() + ": ".len() + " ()".len());
    let observed = shortened(&format!("{likely}{observed}"), left);
    let separator = if observed.is_empty() { "" } else { ": " };
    format!("{}{separator}{observed} ({})", row.title, row.rule)
}

/// Shortens a text to this number of characters, at the end of a word.
fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    if room < LEAST {
        return String::new();
    }
    let kept: String = text.chars().take(room - 1).collect();
    let whole = kept.rsplit_once(' ').map_or(kept.as_str(), |(words, _)| words);
    format!("{}…", whole.trim_end_matches([',', ';', ':', ' ', '(']))
}

/// Returns the first fix if it is one command, and otherwise the command that prints all fixes.
fn first_fix(row: &DoctorRule, options: &str) -> Vec<Cell> {
    let whole = row.fixes.first().filter(|fix| fix.commands_suffice);
    match whole.map(|fix| fix.commands.as_slice()) {
        Some([command]) => vec![Cell::faint("     "), Cell::command(command)],
        _ => vec![Cell::faint("     see: "), Cell::command(format!("hpt doctor {}{options}", row.rule))],
    }
}

/// Returns the number of all other verdicts, and what to run next.
fn rest(data: &DoctorDocument, options: &str) -> Block {
    let count = |verdict| data.rules.iter().filter(|row| row.verdict == verdict).count();
    let counts = [
        ("passed", count(DoctorVerdict::Pass)),
        ("not applicable", count(DoctorVerdict::NotApplicable)),
        ("unknown", count(DoctorVerdict::Unknown)),
    ];
    let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!(", {what}: {count}"));
    let mut rows = vec![vec![Cell::faint("Details: "), Cell::command(format!("hpt doctor -v{options}"))]];
    let mut add = |text: String| rows.push(vec![Cell::faint(text)]);
    let is_a_problem_elsewhere = |row: &DoctorRule| row.severity == Some(Severity::Info) && !row.goals.is_empty();
    if data.goal == Goal::General && data.rules.iter().any(is_a_problem_elsewhere) {
        add("Some notes are problems with --for timekeeping, realtime or benchmarks".to_owned());
    }
    if !data.needs_root.is_empty() {
        let count = data.needs_root.len();
        add(format!("Only root can read {count} {}; -v lists them", one_or_many(count, "setting", "settings")));
    }
    Block::Section(format!("Notes: {}{}", data.info, counts.collect::<String>()), rows)
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_text_is_shortened_at_the_end_of_a_word() {
        assert_eq!(shortened("50 ms of every period is reserved", 33), "50 ms of every period is reserved");
        assert_eq!(shortened("50 ms of every period is reserved", 32), "50 ms of every period is…");
        assert_eq!(shortened("the governor, schedutil", 15), "the governor…");
        assert_eq!(shortened("the governor", 11), "");
    }
}
