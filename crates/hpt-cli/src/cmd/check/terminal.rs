//! The verdicts of a check as a sentence and a table.

use hpt_document::check::{CheckDocument, CheckRow, CheckStep, CheckStepState};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, one_or_many, remarks},
    sampling::limits::table::{seen, summary, word},
};

/// Returns the verdict in one sentence.
fn headline(data: &CheckDocument) -> String {
    // The file of --init contains only steps with limits.
    let is_counted = |step: &&CheckStep| !data.init || data.results.iter().any(|row| row.step == step.name);
    let count = data.steps.iter().filter(is_counted).count();
    let steps = format!("{count} {}", one_or_many(count as u64, "step", "steps"));
    let limits = summary(data.results.iter().map(|row| &row.limit));
    if data.init {
        return format!("Wrote {}: {steps} with {} limits", data.file, data.results.len());
    }
    let label = if data.results.len() == 1 { "limit" } else { "limits" };
    format!("{}: {steps}, {label}: {limits}", data.file)
}

/// Returns the remarks on a step and on its limits.
fn reasons(step: &CheckStep, rows: &[&CheckRow]) -> Vec<String> {
    let of_step = step.reason.iter().map(|reason| format!("{}: {reason}.", step.name));
    let is_own = |row: &&&CheckRow| row.limit.reason != step.reason;
    let of_limits = rows
        .iter()
        .filter(is_own)
        .filter_map(|row| Some(format!("{}, {}: {}.", row.step, row.limit.text, row.limit.reason.as_ref()?)));
    of_step.chain(of_limits).collect()
}

pub(super) fn page(data: &CheckDocument) -> Vec<Block> {
    let columns = vec![
        Column("step", Align::Left),
        Column("limit", Align::Left),
        Column("seen", Align::Right),
        Column("verdict", Align::Left),
        Column("worst", Align::Left),
    ];
    let mut before = None;
    let rows = data.results.iter().map(|row| {
        let first = before.replace(&row.step) != Some(&row.step);
        let limit = &row.limit;
        let worst = limit.worst_row.as_ref().filter(|_| limit.rows > 1);
        vec![
            Cell::plain(if first { row.step.as_str() } else { "" }),
            Cell::plain(&limit.text),
            seen(limit),
            word(limit.held),
            Cell::or_dash(worst),
        ]
    });
    let table = Table { columns, rows: rows.collect() }.without_empty_columns();
    let reasons = data
        .steps
        .iter()
        .flat_map(|step| reasons(step, &data.results.iter().filter(|row| row.step == step.name).collect::<Vec<_>>()));
    let reasons: Vec<String> = reasons.collect();
    let mut blocks = vec![Block::Headline(headline(data)), Block::Table(table)];
    if !reasons.is_empty() {
        blocks.push(Block::Text(reasons.join("\n")));
    }
    let commands = data.steps.iter().map(|step| {
        let state = match step.state {
            CheckStepState::Measured => format!("{:.1} s", step.elapsed_s),
            other => other.name().to_owned(),
        };
        vec![Cell::plain(&step.name), Cell::plain(state), Cell::plain(&step.command)]
    });
    let columns = vec![Column("step", Align::Left), Column("time", Align::Right), Column("command", Align::Left)];
    blocks.push(Block::Detail(Box::new(Block::Table(Table { columns, rows: commands.collect() }))));
    blocks.push(Block::detail(format!(
        "A limit holds if the value is at most the limit in every row of the step's result. worst: the row with the worst \
         verdict. {}",
        machine_line(&data.head.machine)
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use super::page;
    use crate::{cmd::check::tests::example, golden, output::Document};

    #[test]
    fn a_check_is_printed_exactly() {
        let data = example();
        let blocks = page(&data);
        golden::assert("check", &Document::new(data, blocks));
    }
}
