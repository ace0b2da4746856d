//! The options, the document and the tables that `set` and `compare` share.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{
    arguments::{CpuChoice, SYSTEM_WIDE, calls, cpu_choice},
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, Tone, one_or_many, remarks, rounded, short_time},
    read_cost::{deviation, notes_of_wide_spreads, per_read},
    sampling::{cpu_absences, not_run, realtime_settings::pinned_to},
};
use hpt_document::{
    clocksource_cost::{ClockCost, ClocksourceCostDocument},
    not_run::NotRun,
};

/// The clocks whose reads depend on the clocksource, and, for comparison, clocks whose reads do not.
pub(super) const CLOCKS: [&str; 7] =
    ["realtime", "monotonic", "monotonic-raw", "boottime", "tai", "realtime-coarse", "monotonic-coarse"];
/// The assumed duration of a read. The progress bar uses it to estimate the duration of the run. The value is typical
/// of device reads; timing a single read takes three such reads.
pub(super) const GUESSED_READ: Duration = Duration::from_micros(4);

#[derive(Debug, Args)]
pub(super) struct MeasuringArguments {
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
    /// Number of back-to-back reads per clock
    ///
    /// Examples: 20000, 1e6.
    #[arg(short = 'n', long, value_name = "N", default_value = "20000", value_parser = calls)]
    pub(super) count: u64,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    pub(super) cpu: Option<CpuChoice>,
    /// Directory of the change journal [default: /run/hpt]
    ///
    /// hpt records each setting in the journal before changing it. After a crash, `hpt restore` restores the recorded
    /// settings.
    #[arg(long, value_name = "DIR", help_heading = SYSTEM_WIDE)]
    pub(super) journal: Option<PathBuf>,
}

/// Computes the ratio of each clock's read overhead to its read overhead under the first clocksource.
pub(super) fn with_ratios(mut results: Vec<ClockCost>) -> Vec<ClockCost> {
    let firsts: Vec<(String, f64)> = results
        .iter()
        .filter(|cost| cost.clocksource == results[0].clocksource)
        .filter_map(|cost| Some((cost.clock.clone(), cost.repeated.per_read_ns?)))
        .collect();
    for cost in &mut results {
        let first = firsts.iter().find(|(clock, _)| *clock == cost.clock).filter(|(_, first)| *first > 0.0);
        cost.ratio_to_first = first.zip(cost.repeated.per_read_ns).map(|((_, first), own)| rounded(own / first));
    }
    results
}

/// Returns notes on times during which the thread did not run, and on clocks whose batches differ widely.
pub(super) fn disturbances(not_run: &NotRun, results: &[ClockCost]) -> Vec<String> {
    let disturbed = not_run::note(not_run, "the reads may be slower than on an idle machine");
    let reads = results.iter().map(|cost| (format!("{} under {}", cost.clock, cost.clocksource), &cost.repeated));
    let wide = notes_of_wide_spreads(reads, disturbed.is_some());
    disturbed.into_iter().chain(wide).collect()
}

/// Compares the read overhead of CLOCK_MONOTONIC, or of the first clock, under each clocksource.
fn headline(data: &ClocksourceCostDocument) -> Option<Block> {
    let clock =
        data.results.iter().find(|cost| cost.clock == "monotonic").or_else(|| data.results.first())?.clock.as_str();
    let mut costs: Vec<&ClockCost> = data.results.iter().filter(|cost| cost.clock == clock).collect();
    if data.head.kind == "clocksource-compare" {
        let cost = |cost: &ClockCost| cost.repeated.per_read_ns.unwrap_or(f64::INFINITY);
        costs.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
    }
    let named = |cost: &&ClockCost| Some(format!("{} {}", cost.clocksource, per_read(&cost.repeated)?));
    let costs: Vec<String> = costs.iter().filter_map(named).collect();
    let cpu = data.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"));
    (!costs.is_empty()).then(|| Block::Headline(format!("Read overhead of {clock}, {cpu}: {}", costs.join(", "))))
}

pub(super) fn run_page(data: &ClocksourceCostDocument) -> Vec<Block> {
    let columns = [
        Column("clock", Align::Left),
        Column("path", Align::Left),
        Column("per read", Align::Right),
        Column("±", Align::Right),
        Column("vs first", Align::Right),
        Column("p99", Align::Right),
        Column("max", Align::Right),
        Column("granul.", Align::Right),
    ];
    let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
    let mut blocks = Vec::from_iter(headline(data));
    for costs in data.results.chunk_by(|one, other| one.clocksource == other.clocksource) {
        blocks.push(Block::Section(format!("Under {}", costs[0].clocksource), Vec::new()));
        let mut costs: Vec<&ClockCost> = costs.iter().collect();
        let cost = |cost: &ClockCost| cost.repeated.per_read_ns.unwrap_or(f64::INFINITY);
        costs.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        let rows = costs.iter().map(|cost| {
            vec![
                Cell::plain(cost.clock.as_str()),
                Cell::plain(if cost.read_path == "syscall" { "call" } else { &cost.read_path }),
                time(cost.repeated.per_read_ns),
                Cell::or_dash(deviation(&cost.repeated)),
                Cell::or_dash(cost.ratio_to_first.map(|ratio| format!("{ratio:.2}"))),
                time(cost.single.quantiles.p99()),
                time(cost.single.single_max_ns),
                time(cost.granularity_ns),
            ]
        });
        blocks.push(Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }));
    }
    if !data.refused.is_empty() {
        let lines = data.refused.iter();
        let lines = lines.map(|not| vec![Cell(not.clocksource.clone(), Tone::Bad), Cell::plain(not.reason.as_str())]);
        blocks.push(Block::Section("Refused by the kernel".to_owned(), lines.collect()));
    }
    blocks.push(Block::Text(now(data)));
    let calls = data.results.iter().map(|cost| cost.repeated.reads).max().unwrap_or(0);
    let cpu = pinned_to(data.cpu) + &cpu_absences::except(&data.cpu_absences);
    blocks.push(Block::Detail(Box::new(cpu_times(data))));
    blocks.push(Block::detail(format!(
        "per read: median of the batches of {calls} back-to-back {}, timed with CLOCK_MONOTONIC_RAW. ±: at least half of the batches are \
         within this distance of the median. vs first: ratio to the first clocksource. user, sys: CPU time as accounted by the kernel, with a \
         granularity of up to one tick. p99, max: single reads, timed with {}, whose overhead is included. \
         granul.: observed granularity. resol.: resolution, by clock_getres. {cpu}. {}",
        one_or_many(calls, "read", "reads"),
        data.stopwatch,
        machine_line(&data.head.machine)
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

/// Returns which clocksource is active, and which was.
fn now(data: &ClocksourceCostDocument) -> String {
    let ClocksourceCostDocument { before, journal, .. } = data;
    let after = data.after.as_deref().unwrap_or("unknown");
    if after == before {
        format!("The clocksource is {after}, as before.")
    } else if data.head.kind == "clocksource-set" {
        format!(
            "The clocksource is now {after}; it was {before}. `hpt restore` restores {before}, which is recorded in {journal}."
        )
    } else {
        format!("The clocksource is now {after}; it was {before}, which is recorded in {journal}.")
    }
}

fn cpu_times(data: &ClocksourceCostDocument) -> Block {
    let columns = [
        Column("back to back", Align::Left),
        Column("under", Align::Left),
        Column("reads", Align::Right),
        Column("batches", Align::Right),
        Column("total s", Align::Right),
        Column("user s", Align::Right),
        Column("sys s", Align::Right),
        Column("resol.", Align::Right),
    ];
    let rows = data.results.iter().map(|cost| {
        vec![
            Cell::plain(cost.clock.as_str()),
            Cell::plain(cost.clocksource.as_str()),
            Cell::plain(cost.repeated.reads.to_string()),
            Cell::plain(cost.repeated.batches.to_string()),
            Cell::plain(format!("{:.3}", cost.repeated.total_s)),
            Cell::plain(format!("{:.3}", cost.repeated.user_s)),
            Cell::plain(format!("{:.3}", cost.repeated.system_s)),
            // Exact: the resolution of coarse clocks is 999848 ns on some kernels.
            Cell::or_dash(cost.resolution_ns.map(|ns| format!("{ns} ns"))),
        ]
    });
    Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() })
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        clocksource_cost::{ClockCost, ClocksourceCostDocument, RefusedClocksource},
        not_run::NotRun,
        quantiles::Quantiles,
        read_cost::{RepeatedReads, SingleReads},
    };

    use super::{CLOCKS, run_page, with_ratios};
    use crate::{golden, output::Document};

    fn cost(clock_source: &str, clock: &str, per_call_ns: f64) -> ClockCost {
        ClockCost {
            clocksource: clock_source.to_owned(),
            clock: clock.to_owned(),
            read_path: if clock_source == "tsc" { "vdso" } else { "syscall" }.to_owned(),
            repeated: RepeatedReads {
                reads: 20_000,
                complete: true,
                total_s: per_call_ns * 2e-5,
                user_s: 0.002,
                system_s: 0.021,
                per_read_ns: Some(per_call_ns),
                per_read_p25_ns: Some(per_call_ns * 0.99),
                per_read_p75_ns: Some(per_call_ns * 1.02),
                per_read_min_ns: Some(per_call_ns * 0.98),
                batches: 40,
                mean_read_ns: Some(per_call_ns * 1.1),
                not_run_share: Some(0.001),
            },
            ratio_to_first: None,
            single: SingleReads {
                single_samples: Some(20_000),
                quantiles: Quantiles::of(|quantile| {
                    let factors = [("p50", 1.0), ("p99", 1.5), ("p99.9", 2.0)];
                    factors.iter().find(|(name, _)| *name == quantile.name).map(|(_, factor)| per_call_ns * factor)
                }),
                single_max_ns: Some(per_call_ns * 900.0),
            },
            resolution_ns: Some(1),
            granularity_ns: (clock_source == "tsc").then_some(10.0),
        }
    }

    #[test]
    fn a_comparison_is_printed_exactly() {
        let under = |name: &'static str, factor: f64| {
            (1_u8..).zip(CLOCKS).map(move |(place, clock)| cost(name, clock, factor * f64::from(place)))
        };
        let results = with_ratios(under("tsc", 10.0).chain(under("acpi_pm", 800.0)).collect());
        let data = ClocksourceCostDocument {
            head: golden::head("clocksource-compare"),
            cpu: Some(1),
            stopwatch: "tsc".to_owned(),
            before: "tsc".to_owned(),
            after: Some("tsc".to_owned()),
            requested: ["tsc", "hpet", "acpi_pm"].map(str::to_owned).to_vec(),
            refused: vec![RefusedClocksource {
                clocksource: "hpet".to_owned(),
                reason: "the kernel overrode the wish".to_owned(),
            }],
            journal: "/run/hpt/journal".to_owned(),
            interrupted: true,
            cpu_absences: Vec::new(),
            not_run: NotRun { share: Some(0.001), wall_s: 0.5, stolen_s: Some(0.0), ..NotRun::default() },
            results,
            notes: vec!["a note".to_owned()],
        };
        let blocks = run_page(&data);
        golden::assert("clocksource-compare", &Document::new(data.clone(), blocks));
        let data = ClocksourceCostDocument {
            head: golden::head("clocksource-set"),
            after: Some("acpi_pm".to_owned()),
            ..data
        };
        let blocks = run_page(&data);
        golden::assert("clocksource-set", &Document::new(data, blocks));
    }

    #[test]
    fn ratios_refer_to_the_same_clock_with_the_first_clocksource() {
        let results = vec![cost("tsc", "monotonic", 10.0), cost("tsc", "tai", 20.0), cost("hpet", "tai", 100.0)];
        let ratios: Vec<_> = with_ratios(results).into_iter().map(|cost| cost.ratio_to_first).collect();
        assert_eq!(ratios, [Some(1.0), Some(1.0), Some(5.0)]);
        assert!(with_ratios(Vec::new()).is_empty());
    }
}
