//! The chart of the read overhead of each source, drawn as bars and compared with the bare instruction.

use hpt_document::{
    bench::{BenchDocument, BenchRow},
    quantiles::{QuantileList, SingleReadList},
};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{self, Figures, TitledChart, Unreadable, count},
};
use crate::output::one_or_many;

/// Returns the cost of a read, unless it is unknown.
fn cost_of(row: &BenchRow) -> Option<f64> {
    row.repeated.per_read_ns.filter(|ns| *ns > 0.0)
}

fn name(row: &BenchRow) -> String {
    let by_call = ["monotonic", "perf-cycles"].contains(&row.id.as_str()) && row.read_path == "syscall";
    if by_call { format!("{} (syscall)", row.id) } else { row.id.clone() }
}

pub(crate) fn cost(bench: &BenchDocument) -> Result<TitledChart, Unreadable> {
    let mut rows: Vec<(&BenchRow, f64)> =
        bench.results.iter().filter_map(|row| cost_of(row).map(|cost| (row, cost))).collect();
    rows.sort_by(|one, other| one.1.total_cmp(&other.1));
    if rows.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let limit = BareInstruction::of(&rows);
    let head = ["source", "read path", "calls", "per call", "single reads"].into_iter();
    let head = head.chain(SingleReadList::LIST.iter().map(|quantile| quantile.name)).chain(["max"]);
    let reads = || rows.iter().map(|(row, _)| row.repeated.reads);
    let (fewest, most) = (reads().min().unwrap_or(0), reads().max().unwrap_or(0));
    let calls = if fewest == most { count(most) } else { format!("{} to {}", count(fewest), count(most)) };
    let measured = format!(
        "{calls} back-to-back {} timed with monotonic-raw, single reads timed with {}",
        one_or_many(most, "read", "reads"),
        bench.stopwatch
    );
    Ok(TitledChart {
        name: "cost".to_owned(),
        title: "Read overhead of each source".to_owned(),
        says: limit.said(&rows),
        chart: Chart { panels: vec![panel(&rows, &limit)], side_by_side: false },
        figures: Figures {
            head: head.map(str::to_owned).collect(),
            rows: rows.iter().map(|(row, _)| figures(row)).collect(),
        },
        provenance: about(&bench.into(), &measured),
    })
}

/// The cost of the bare instruction, as a limit for all sources.
enum BareInstruction<'a> {
    /// The register is read with a single instruction. Therefore, no source that uses the register can be cheaper.
    Register(&'a str, f64),
    /// A source that is not coarse is cheaper. Therefore, the measurement of the register was disturbed and cannot serve
    /// as a limit.
    Disturbed {
        id: &'a str,
        ns: f64,
        cheaper: (&'a BenchRow, f64),
    },
    NoRegister,
}

impl<'a> BareInstruction<'a> {
    /// Returns the limit of rows that are sorted by their cost.
    fn of(rows: &[(&'a BenchRow, f64)]) -> Self {
        let Some(&(register, ns)) = rows.iter().find(|(row, _)| row.read_path == "register") else {
            return Self::NoRegister;
        };
        let is_cheaper = |(row, cost): &&(&BenchRow, f64)| !row.id.ends_with("-coarse") && *cost < ns;
        match rows.iter().find(is_cheaper) {
            Some(&cheaper) => Self::Disturbed { id: &register.id, ns, cheaper },
            None => Self::Register(&register.id, ns),
        }
    }

    fn said(&self, rows: &[(&BenchRow, f64)]) -> String {
        match *self {
            Self::Disturbed { id, ns, cheaper: (row, cost) } => format!(
                "The run was disturbed: the bare instruction that reads {id} took {}, but {}, which is not coarse, took only {}. Therefore, no limit is drawn.",
                time(ns),
                name(row),
                time(cost)
            ),
            Self::Register(id, ns) => {
                let under = rows.iter().filter(|(_, cost)| *cost < 2.0 * ns).count();
                format!(
                    "The dashed line marks the bare instruction that reads {id} ({}). Only coarse clocks can be cheaper. {under} of {} sources {} less than twice as long.",
                    time(ns),
                    rows.len(),
                    one_or_many(under, "takes", "take")
                )
            }
            Self::NoRegister => format!(
                "The cheapest source is {}. Programs cannot read any counter register on this system.",
                rows[0].0.id
            ),
        }
    }
}

fn panel(rows: &[(&BenchRow, f64)], limit: &BareInstruction<'_>) -> Panel {
    let costs = || rows.iter().map(|(_, cost)| *cost);
    let bars = (0_u32..).map(f64::from).zip(costs());
    let marks = bars.map(|(place, ns)| Mark::Bar { name: place, to: ns, words: time(ns) });
    let mut series = vec![Series { name: None, look: 0, marks: marks.collect() }];
    let mut title = String::new();
    if let BareInstruction::Register(id, ns) = *limit {
        series.push(Series { name: None, look: 5, marks: vec![Mark::Limit(ns)] });
        title = format!("dashed: bare instruction ({id}), {}", time(ns));
    }
    Panel {
        title,
        x: Axis::log(
            "read overhead (median of the batches, log scale)",
            costs().map(|ns| ns / 2.0).chain(costs().map(|ns| ns * 1.5)),
            time,
        ),
        y: Axis::names(rows.iter().map(|(row, _)| name(row)).collect()),
        height: 22 * i32::try_from(rows.len()).unwrap_or(1_000).min(1_000) + 8,
        series,
    }
}

fn figures(row: &BenchRow) -> Vec<String> {
    let singles = row.single.quantiles.nanos().map(|(_, ns)| ns).chain([row.single.single_max_ns]);
    let head = [
        name(row),
        row.read_path.clone(),
        count(row.repeated.reads),
        titled_chart::time(cost_of(row)),
        row.single.single_samples.map_or("-".to_owned(), count),
    ];
    head.into_iter().chain(singles.map(titled_chart::time)).collect()
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        Document,
        bench::{BenchDocument, BenchRow},
        read_cost::{RepeatedReads, SingleReads},
    };

    use super::cost;
    use crate::{golden, output::chart::svg::Mark};

    fn bench(register_ns: f64) -> BenchDocument {
        let row = |id: &str, read_path: &str, ns: f64| BenchRow {
            id: id.to_owned(),
            read_path: read_path.to_owned(),
            constant_rate: None,
            repeated: RepeatedReads { reads: 9, complete: true, per_read_ns: Some(ns), ..RepeatedReads::default() },
            cycles_per_read: None,
            ratio_to_cheapest: None,
            ratio_to_monotonic: None,
            single: SingleReads::default(),
            stopwatch_overhead_ns: None,
            resolution_ns: None,
            granularity_ns: None,
        };
        let Document::Bench(mut bench) = golden::empty("bench") else { panic!("expected bench") };
        bench.results = vec![
            row("tsc", "register", register_ns),
            row("monotonic", "vdso", 30.0),
            row("monotonic-coarse", "vdso", 5.0),
        ];
        bench
    }

    #[test]
    fn a_register_that_costs_more_than_its_readers_is_not_a_limit() {
        for (register_ns, is_limit) in [(20.0, true), (40.0, false)] {
            let chart = cost(&bench(register_ns)).expect("it can be drawn");
            let marks = || chart.chart.panels[0].series.iter().flat_map(|series| &series.marks);
            assert_eq!(marks().any(|mark| matches!(mark, Mark::Limit(_))), is_limit);
            assert_eq!(chart.says.contains("The dashed line"), is_limit, "{}", chart.says);
            assert_eq!(
                chart.says.contains("disturbed") && chart.says.contains("monotonic,"),
                !is_limit,
                "{}",
                chart.says
            );
            assert_eq!(chart.chart.panels[0].title.contains("dashed"), is_limit);
        }
    }
}
