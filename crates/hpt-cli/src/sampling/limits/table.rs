//! The verdicts on limits as a sentence, a table and remarks for a terminal.

use hpt_document::limit::LimitRow;

use crate::output::{Align, Block, Cell, Column, Table, Tone, short_time};

/// Returns the verdict in one word, with its color.
pub(crate) fn word(held: Option<bool>) -> Cell {
    match held {
        Some(true) => Cell("held".to_owned(), Tone::Good),
        Some(false) => Cell("exceeded".to_owned(), Tone::Bad),
        None => Cell("unknown".to_owned(), Tone::Strong),
    }
}

pub(crate) fn seen(limit: &LimitRow) -> Cell {
    let count = || limit.seen_count.map(|count| count.to_string());
    Cell::or_dash(limit.seen_ns.map(short_time).or_else(count))
}

/// Returns how many limits held, as the end of a sentence.
pub(crate) fn summary<'a>(limits: impl IntoIterator<Item = &'a LimitRow>) -> String {
    let (mut all, mut exceeded, mut unknown) = (0_usize, 0_usize, 0_usize);
    for limit in limits {
        all += 1;
        exceeded += usize::from(limit.held == Some(false));
        unknown += usize::from(limit.held.is_none());
    }
    match (all, exceeded, unknown) {
        (1, 0, 0) => "held".to_owned(),
        (1, 1, _) => "exceeded".to_owned(),
        (1, _, _) => "unknown".to_owned(),
        (all, 0, 0) => format!("all {all} held"),
        (all, 0, unknown) => format!("{unknown} of {all} unknown"),
        (all, exceeded, 0) => format!("{exceeded} of {all} exceeded"),
        (all, exceeded, unknown) => format!("{exceeded} of {all} exceeded, {unknown} unknown"),
    }
}

/// Returns the verdicts: a sentence, a table, and the reasons. Returns nothing if there are no limits.
pub(crate) fn blocks(limits: &[LimitRow]) -> Vec<Block> {
    if limits.is_empty() {
        return Vec::new();
    }
    let label = if limits.len() == 1 { "Limit" } else { "Limits" };
    let columns = vec![
        Column("limit", Align::Left),
        Column("seen", Align::Right),
        Column("verdict", Align::Left),
        Column("worst", Align::Left),
    ];
    let rows = limits.iter().map(|limit| {
        let worst = limit.worst_row.as_ref().filter(|_| limit.rows > 1);
        vec![Cell::plain(&limit.text), seen(limit), word(limit.held), Cell::or_dash(worst)]
    });
    let table = Table { columns, rows: rows.collect() }.without_empty_columns();
    let reasons = limits.iter().filter_map(|limit| Some(format!("{}: {}.", limit.text, limit.reason.as_ref()?)));
    let reasons: Vec<String> = reasons.collect();
    let mut blocks = vec![Block::Headline(format!("{label}: {}", summary(limits))), Block::Table(table)];
    if !reasons.is_empty() {
        blocks.push(Block::Text(reasons.join("\n")));
    }
    blocks
}

#[cfg(test)]
pub(crate) mod tests {
    use hpt_document::limit::LimitRow;

    use super::summary;

    /// Limits with each verdict, for tests of the output.
    pub(crate) fn examples() -> Vec<LimitRow> {
        let held = LimitRow {
            text: "max=5ms".to_owned(),
            quantity: "max".to_owned(),
            limit_ns: Some(5_000_000),
            limit_count: None,
            seen_ns: Some(3_850_000.0),
            seen_count: None,
            worst_row: Some("CPU 1".to_owned()),
            samples: 1_000,
            above: Some(0),
            rows: 2,
            held: Some(true),
            reason: Some("none of 1000 samples exceeds it".to_owned()),
        };
        let exceeded = LimitRow {
            text: "missed=0".to_owned(),
            quantity: "missed".to_owned(),
            limit_ns: None,
            limit_count: Some(0),
            seen_ns: None,
            seen_count: Some(2),
            above: None,
            held: Some(false),
            reason: None,
            ..held.clone()
        };
        let unknown = LimitRow {
            text: "p99.9=50us".to_owned(),
            quantity: "p99.9".to_owned(),
            limit_ns: Some(50_000),
            seen_ns: None,
            above: None,
            held: None,
            reason: Some("p99.9 needs 10000 samples, and there are 1000".to_owned()),
            ..held.clone()
        };
        vec![held, exceeded, unknown]
    }

    #[test]
    fn the_summary_counts_each_verdict() {
        let [held, exceeded, unknown] = examples().try_into().expect("three");
        assert_eq!(summary([&held]), "held");
        assert_eq!(summary([&unknown]), "unknown");
        assert_eq!(summary([&held, &held]), "all 2 held");
        assert_eq!(summary([&held, &unknown]), "1 of 2 unknown");
        assert_eq!(summary([&held, &exceeded]), "1 of 2 exceeded");
        assert_eq!(summary([&held, &exceeded, &unknown]), "1 of 3 exceeded, 1 unknown");
    }
}
