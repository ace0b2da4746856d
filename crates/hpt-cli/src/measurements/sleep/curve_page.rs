//! The headline and the tables of `hpt sleep --curve`.

use std::time::Duration;

use hpt_document::sleep_curve::{SleepCurveDocument, SleepCurveRow, SleepRecommendation};

use super::target::percent;
use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, exact_time, one_or_many, remarks, short_time},
    sampling::{conditions, cpu_absences, limits::verdict::MAX_LEGEND, realtime_settings::words},
};

/// The limit of p99 that the headline names, if a setting reaches it.
const HEADLINE_LIMIT_NS: u64 = 5_000;

pub(super) fn page(data: &SleepCurveDocument) -> Vec<Block> {
    let mut blocks = Vec::from_iter(headline(data));
    if !data.recommendations.is_empty() {
        blocks.push(Block::Table(recommendations(&data.recommendations)));
    }
    blocks.push(Block::Table(settings(data)));
    blocks.extend(in_a_program(data).map(Block::Text));
    let samples = fewest(data).unwrap_or(0);
    let thread = words(&data.thread, data.cpu) + &cpu_absences::except(&data.cpu_absences);
    blocks.push(Block::detail(format!(
        "Each row shows the overshoot of {samples} {}, timed with {}; the settings took turns. Before that, each \
         setting slept {} times to learn. p99 below: the upper bound of p99 is below this limit, at 95 % confidence if late sleeps are independent; \
         they often come in bursts, so repeat the run. \
         trim 1 %: mean without the largest 1 % of the samples. CPU %: CPU time of this thread as a percentage of \
         elapsed time. best: no other setting has a lower p99 without more CPU time. {MAX_LEGEND}. {thread}. {}",
        one_or_many(samples, "sleep", "sleeps"),
        data.source,
        data.learning_sleeps,
        machine_line(&data.head.machine)
    )));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

fn length(duration_ns: u64) -> String {
    exact_time(Duration::from_nanos(duration_ns))
}

fn fewest(data: &SleepCurveDocument) -> Option<u64> {
    data.results.iter().map(|row| row.samples).min()
}

/// Names a setting, for example `hpt p99=5 µs`.
fn name(method: &str, setting: Option<&str>) -> String {
    setting.map_or_else(|| method.to_owned(), |setting| format!("{method} {setting}"))
}

fn cpu_percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// Returns the recommendation of each duration that the headline names: for the headline's limit, or for the lowest
/// limit above it that a setting reaches.
fn chosen(data: &SleepCurveDocument) -> impl Iterator<Item = &SleepRecommendation> {
    let groups = data.recommendations.chunk_by(|one, other| one.duration_ns == other.duration_ns);
    groups.filter_map(|group| {
        let is_reached = |one: &&SleepRecommendation| one.limit_ns >= HEADLINE_LIMIT_NS && one.method.is_some();
        group.iter().find(is_reached).or_else(|| group.last())
    })
}

/// States the cheapest setting for each duration.
fn headline(data: &SleepCurveDocument) -> Option<Block> {
    let samples = fewest(data)?;
    let parts: Vec<String> = chosen(data)
        .map(|one| {
            let aim = format!("p99 below {} at {}", length(one.limit_ns), length(one.duration_ns));
            match (&one.method, one.cpu_share) {
                (Some(method), Some(share)) => {
                    format!("for {aim} use {}: {} of a CPU", name(method, one.setting.as_deref()), percent(share))
                }
                _ => format!("no setting has a {aim}"),
            }
        })
        .collect();
    let result = if parts.is_empty() { "too few sleeps for p99".to_owned() } else { parts.join("; ") };
    let cpu = data.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    let sleeps = one_or_many(samples, "sleep", "sleeps");
    Some(Block::Headline(format!("Sleep curve, {cpu}, {samples} {sleeps} per setting: {result}")))
}

fn recommendations(recommendations: &[SleepRecommendation]) -> Table {
    let columns = [
        Column("sleep", Align::Left),
        Column("p99 below", Align::Right),
        Column("cheapest setting", Align::Left),
        Column("p99", Align::Right),
        Column("CPU %", Align::Right),
    ];
    let mut before = None;
    let rows = recommendations.iter().map(|one| {
        let first = before.replace(one.duration_ns) != Some(one.duration_ns);
        let setting = one.method.as_ref().map(|method| name(method, one.setting.as_deref()));
        vec![
            Cell::plain(if first { length(one.duration_ns) } else { String::new() }),
            Cell::plain(length(one.limit_ns)),
            setting.map_or_else(|| Cell::faint("none"), Cell::strong),
            Cell::or_dash(one.p99_ns.map(short_time)),
            Cell::or_dash(one.cpu_share.map(cpu_percent)),
        ]
    });
    Table { columns: columns.to_vec(), rows: rows.collect() }
}

/// Returns the table of all settings, for each duration the cheapest one first.
fn settings(data: &SleepCurveDocument) -> Table {
    let columns = [
        Column("sleep", Align::Left),
        Column("setting", Align::Left),
        Column("trim 1 %", Align::Right),
        Column("p50", Align::Right),
        Column("p90", Align::Right),
        Column("p99", Align::Right),
        Column("max", Align::Right),
        Column("CPU %", Align::Right),
        Column("best", Align::Left),
    ];
    let groups = data.results.chunk_by(|one, other| one.duration_ns == other.duration_ns);
    let mut before = None;
    let rows = groups.flat_map(cheapest_first).map(|row| {
        let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
        let first = before.replace(row.duration_ns) != Some(row.duration_ns);
        vec![
            Cell::plain(if first { length(row.duration_ns) } else { String::new() }),
            Cell::plain(name(&row.method, row.setting.as_deref())),
            time(row.trimmed_mean_ns),
            time(row.p50_ns),
            time(row.p90_ns),
            time(row.p99_ns),
            time(row.max_ns),
            Cell::or_dash(row.cpu_share.map(cpu_percent)),
            Cell::plain(if row.is_best == Some(true) { "best" } else { "" }),
        ]
    });
    Table { columns: columns.to_vec(), rows: rows.collect() }.without_empty_columns()
}

fn cheapest_first(rows: &[SleepCurveRow]) -> Vec<&SleepCurveRow> {
    let mut rows: Vec<&SleepCurveRow> = rows.iter().collect();
    let key = |row: &SleepCurveRow| (row.cpu_share.unwrap_or(f64::INFINITY), row.p99_ns.unwrap_or(f64::INFINITY));
    rows.sort_by(|one, other| {
        let (one, other) = (key(one), key(other));
        one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    rows
}

/// Shows how a program selects the settings that the headline names.
fn in_a_program(data: &SleepCurveDocument) -> Option<String> {
    let is_recommended = |row: &&SleepCurveRow| {
        chosen(data).any(|one| {
            (one.duration_ns, one.method.as_deref(), &one.setting)
                == (row.duration_ns, Some(row.method.as_str()), &row.setting)
        })
    };
    let row = data.results.iter().filter(|row| row.method == "hpt").find(is_recommended)?;
    let call = super::target::call(&row.target.as_ref()?.text)?;
    Some(format!("In a program, for sleeps of {}: {call}", length(row.duration_ns)))
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_document::{
        not_run::NotRun,
        sleep::TargetField,
        sleep_curve::{SleepCurveDocument, SleepCurveRow, SleepRecommendation},
    };

    use super::page;
    use crate::{
        golden,
        output::Document,
        sampling::{conditions, realtime_settings::tests::example},
    };

    /// Returns a row whose p99 has bounds 20 % below and above it.
    pub(in super::super) fn row(method: &str, setting: Option<&str>, p99_ns: f64, cpu_share: f64) -> SleepCurveRow {
        SleepCurveRow {
            duration_ns: 1_000_000,
            method: method.to_owned(),
            setting: setting.map(str::to_owned),
            samples: 1_000,
            early: 0,
            p50_ns: Some(p99_ns / 20.0),
            p90_ns: Some(p99_ns / 5.0),
            p99_ns: Some(p99_ns),
            p99_low_ns: Some(0.8 * p99_ns),
            p99_high_ns: Some(1.2 * p99_ns),
            trimmed_mean_ns: Some(p99_ns / 15.0),
            max_ns: Some(p99_ns * 30.0),
            cpu_share: Some(cpu_share),
            is_best: Some(method == "hpt"),
            margin_ns: (method == "hpt").then_some(21_000),
            target: (method == "hpt").then(|| TargetField {
                text: setting.unwrap_or("default").to_owned(),
                met: Some(true),
                needed_cpu_share: Some(0.058),
                out_of_reach_share: 0.002,
            }),
        }
    }

    fn recommendation(limit_ns: u64, row: Option<&SleepCurveRow>) -> SleepRecommendation {
        SleepRecommendation {
            duration_ns: 1_000_000,
            limit_ns,
            method: row.map(|row| row.method.clone()),
            setting: row.and_then(|row| row.setting.clone()),
            p99_ns: row.and_then(|row| row.p99_ns),
            p99_high_ns: row.and_then(|row| row.p99_high_ns),
            cpu_share: row.and_then(|row| row.cpu_share),
        }
    }

    fn document(results: Vec<SleepCurveRow>, recommendations: Vec<SleepRecommendation>) -> SleepCurveDocument {
        SleepCurveDocument {
            head: golden::head("sleep-curve"),
            cpu: Some(1),
            thread: example().thread,
            source: "tsc".to_owned(),
            learning_sleeps: 200,
            interrupted: false,
            cpu_absences: Vec::new(),
            not_run: NotRun { share: Some(0.01), wall_s: 1.5, stolen_s: Some(0.0), ..NotRun::default() },
            conditions: conditions::tests::example(),
            recommendations,
            results,
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn a_curve_is_printed_exactly() {
        let rows = vec![
            row("std", None, 110_000.0, 0.021),
            row("nanosleep", None, 55_000.0, 0.02),
            row("fixed", Some("125 µs"), 900.0, 0.1158),
            row("hpt", Some("default"), 15_000.0, 0.026),
            row("hpt", Some("p99=5 µs"), 3_900.0, 0.0412),
            row("busy", None, 700.0, 1.0),
        ];
        let recommended = vec![
            recommendation(1_000, None),
            recommendation(5_000, Some(&rows[4])),
            recommendation(20_000, Some(&rows[3])),
            recommendation(100_000, Some(&rows[1])),
        ];
        let data = document(rows, recommended);
        let blocks = page(&data);
        golden::assert("sleep-curve", &Document::new(data, blocks));
    }

    #[test]
    fn the_headline_states_what_no_setting_reaches_and_what_is_unknown() {
        let headline = |data: &SleepCurveDocument| match &page(data)[0] {
            crate::output::Block::Headline(text) => text.clone(),
            other => panic!("not a headline: {other:?}"),
        };
        let slow = row("std", None, 5e6, 0.02);
        let none = vec![recommendation(5_000, None), recommendation(100_000, None)];
        let said = headline(&document(vec![slow.clone()], none));
        assert!(said.ends_with("per setting: no setting has a p99 below 100 µs at 1 ms"), "{said}");
        let said = headline(&document(vec![slow.clone()], Vec::new()));
        assert!(said.ends_with("per setting: too few sleeps for p99"), "{said}");
        let some = vec![recommendation(5_000, None), recommendation(20_000, Some(&slow))];
        let said = headline(&document(vec![slow], some));
        assert!(said.ends_with("for p99 below 20 µs at 1 ms use std: 2 % of a CPU"), "{said}");
    }
}
