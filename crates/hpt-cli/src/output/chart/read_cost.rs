//! The chart of the read overhead of each source, drawn as bars and compared with the bare instruction.

use hpt_document::{
    bench::{BenchDocument, BenchRow},
    quantiles::{QuantileList, SingleReadList},
};

use super::{
    axis::{Axis, time},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count},
};
use crate::output::one_or_many;

pub(crate) fn cost(bench: &BenchDocument) -> Result<TitledChart, Unreadable> {
    let cost = |row: &BenchRow| row.repeated.per_read_ns.filter(|ns| *ns > 0.0);
    let mut rows: Vec<&BenchRow> = bench.results.iter().filter(|row| cost(row).is_some()).collect();
    rows.sort_by(|one, other| cost(one).unwrap_or(0.0).total_cmp(&cost(other).unwrap_or(0.0)));
    let Some(cheapest) = rows.first() else { return Err(Unreadable::Nothing) };
    // The register is read with a single instruction. Therefore, no source that uses the register can be cheaper.
    let limit = rows.iter().find(|row| row.read_path == "register").and_then(|row| Some((row.id.clone(), cost(row)?)));
    // If a source that is not coarse is cheaper, the measurement of the register was disturbed and
    // cannot serve as a limit.
    let is_fine = |row: &BenchRow| !row.id.ends_with("-coarse");
    let cheaper = limit.as_ref().and_then(|(id, ns)| {
        let row = rows.iter().find(|row| is_fine(row) && cost(row).is_some_and(|cost| cost < *ns))?;
        Some((id.clone(), *ns, *row))
    });
    let limit = limit.filter(|_| cheaper.is_none());
    let name = |row: &BenchRow| {
        let by_call = ["monotonic", "perf-cycles"].contains(&row.id.as_str()) && row.read_path == "syscall";
        if by_call { format!("{} (syscall)", row.id) } else { row.id.clone() }
    };
    let costs = || rows.iter().filter_map(|row| cost(row));
    let x = Axis::log(
        "read overhead (median of the batches, log scale)",
        costs().map(|ns| ns / 2.0).chain(costs().map(|ns| ns * 1.5)),
        time,
    );
    let y = Axis::names(rows.iter().map(|row| name(row)).collect());
    let bars = (0_u32..).map(f64::from).zip(costs());
    let marks = bars.map(|(place, ns)| Mark::Bar { name: place, to: ns, words: time(ns) });
    let mut series = vec![Series { name: None, look: 0, marks: marks.collect() }];
    series.extend(limit.as_ref().map(|(_, ns)| Series { name: None, look: 5, marks: vec![Mark::Limit(*ns)] }));
    let height = 22 * i32::try_from(rows.len()).unwrap_or(1_000).min(1_000) + 8;
    let says = match (&limit, &cheaper) {
        (_, Some((id, ns, row))) => format!(
            "The run was disturbed: the bare instruction that reads {id} took {}, but {}, which is not coarse, took only {}. Therefore, no limit is drawn.",
            time(*ns),
            name(row),
            super::titled_chart::time(cost(row))
        ),
        (Some((id, ns)), None) => {
            let under = rows.iter().filter(|row| cost(row).is_some_and(|cost| cost < 2.0 * ns)).count();
            format!(
                "The dashed line marks the bare instruction that reads {id} ({}). Only coarse clocks can be cheaper. {under} of {} sources {} less than twice as long.",
                time(*ns),
                rows.len(),
                one_or_many(under, "takes", "take")
            )
        }
        (None, None) => {
            format!("The cheapest source is {}. Programs cannot read any counter register on this system.", cheapest.id)
        }
    };
    let figures = Figures {
        head: ["source", "read path", "calls", "per call", "single reads"]
            .into_iter()
            .chain(SingleReadList::LIST.iter().map(|quantile| quantile.name))
            .chain(["max"])
            .map(str::to_owned)
            .collect(),
        rows: rows
            .iter()
            .map(|row| {
                let singles = row.single.quantiles.nanos().map(|(_, ns)| ns).chain([row.single.single_max_ns]);
                let head = [
                    name(row),
                    row.read_path.clone(),
                    count(row.repeated.reads),
                    super::titled_chart::time(cost(row)),
                    row.single.single_samples.map_or("-".to_owned(), count),
                ];
                head.into_iter().chain(singles.map(super::titled_chart::time)).collect()
            })
            .collect(),
    };
    let (fewest, most) = rows
        .iter()
        .fold((u64::MAX, 0), |(fewest, most), row| (fewest.min(row.repeated.reads), most.max(row.repeated.reads)));
    let reads = one_or_many(most, "read", "reads");
    let calls = if fewest == most { count(most) } else { format!("{} to {}", count(fewest), count(most)) };
    let first =
        format!("{calls} back-to-back {reads} timed with monotonic-raw, single reads timed with {}", bench.stopwatch);
    Ok(TitledChart {
        name: "cost".to_owned(),
        title: "Read overhead of each source".to_owned(),
        says,
        chart: Chart {
            panels: vec![Panel {
                title: limit
                    .map_or_else(String::new, |(id, ns)| format!("dashed: bare instruction ({id}), {}", time(ns))),
                x,
                y,
                height,
                series,
            }],
            side_by_side: false,
        },
        figures,
        provenance: about(&bench.into(), &first),
    })
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
