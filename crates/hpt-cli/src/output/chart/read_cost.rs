//! What a read of each source costs, as bars, beside the bare instruction.

use serde::Deserialize;
use serde_json::Value;

use super::{
    axis::{Axis, time},
    picture::{Figures, Picture, Unreadable, count, read},
    provenance::about,
    svg::{Chart, Mark, Panel, Series},
};

#[derive(Debug, Deserialize)]
struct Bench {
    stopwatch: String,
    results: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    read_path: String,
    calls: u64,
    per_call_ns: Option<f64>,
    single_samples: Option<u64>,
    single_p50_ns: Option<f64>,
    single_p99_ns: Option<f64>,
    single_p999_ns: Option<f64>,
    single_max_ns: Option<f64>,
}

pub(super) fn cost(document: &Value) -> Result<Picture, Unreadable> {
    let bench: Bench = read(document)?;
    let cost = |row: &Row| row.per_call_ns.filter(|ns| *ns > 0.0);
    let mut rows: Vec<&Row> = bench.results.iter().filter(|row| cost(row).is_some()).collect();
    rows.sort_by(|one, other| cost(one).unwrap_or(0.0).total_cmp(&cost(other).unwrap_or(0.0)));
    let Some(cheapest) = rows.first() else { return Err(Unreadable::Nothing) };
    // A register is read by one instruction: nothing that goes on from there can cost less.
    let limit = rows.iter().find(|row| row.read_path == "register").and_then(|row| Some((row.id.clone(), cost(row)?)));
    // What costs less and is fine all the same shows that the register's own run was disturbed: no limit is to be had of it.
    let is_fine = |row: &Row| !row.id.ends_with("-coarse");
    let cheaper = limit.as_ref().and_then(|(id, ns)| {
        let row = rows.iter().find(|row| is_fine(row) && cost(row).is_some_and(|cost| cost < *ns))?;
        Some((id.clone(), *ns, *row))
    });
    let limit = limit.filter(|_| cheaper.is_none());
    let name = |row: &Row| {
        let by_call = ["monotonic", "perf-cycles"].contains(&row.id.as_str()) && row.read_path == "syscall";
        if by_call { format!("{} (syscall)", row.id) } else { row.id.clone() }
    };
    let costs = || rows.iter().filter_map(|row| cost(row));
    let x = Axis::log(
        "cost of a read, mean of a long run, powers of ten",
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
            "The run was disturbed: the bare instruction that reads {id} took {}, and {}, which counts finely as well, {}. No limit is drawn.",
            time(*ns),
            name(row),
            super::picture::time(cost(row))
        ),
        (Some((id, ns)), None) => {
            let under = rows.iter().filter(|row| cost(row).is_some_and(|cost| cost < 2.0 * ns)).count();
            format!(
                "The dashed line is the bare instruction that reads {id}, {}: what counts finely costs no less. {under} of {} cost less than twice as much.",
                time(*ns),
                rows.len()
            )
        }
        (None, None) => format!("The cheapest read is that of {}. No register is open to programs here.", cheapest.id),
    };
    let figures = Figures {
        head: ["source", "read by", "calls", "per call", "single reads", "p50", "p99", "p99.9", "max"]
            .map(str::to_owned)
            .to_vec(),
        rows: rows
            .iter()
            .map(|row| {
                let singles = [row.single_p50_ns, row.single_p99_ns, row.single_p999_ns, row.single_max_ns];
                let head = [
                    name(row),
                    row.read_path.clone(),
                    count(row.calls),
                    super::picture::time(cost(row)),
                    row.single_samples.map_or("-".to_owned(), count),
                ];
                head.into_iter().chain(singles.map(super::picture::time)).collect()
            })
            .collect(),
    };
    let (fewest, most) =
        rows.iter().fold((u64::MAX, 0), |(fewest, most), row| (fewest.min(row.calls), most.max(row.calls)));
    let calls = if fewest == most { count(most) } else { format!("{} to {}", count(fewest), count(most)) };
    let first = format!("{calls} reads in a row by monotonic-raw, single reads by {}", bench.stopwatch);
    Ok(Picture {
        name: "cost".to_owned(),
        title: "What a read of each source costs".to_owned(),
        says,
        chart: Chart {
            panels: vec![Panel {
                title: limit
                    .map_or_else(String::new, |(id, ns)| format!("dashed: the bare instruction, {id}, {}", time(ns))),
                x,
                y,
                height,
                series,
            }],
            side_by_side: false,
        },
        figures,
        provenance: about(document, &first),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::cost;
    use crate::output::chart::svg::Mark;

    fn bench(register_ns: f64) -> Value {
        let row = |id: &str, read_path: &str, ns: f64| {
            json!({"id": id, "read_path": read_path, "calls": 9, "per_call_ns": ns,
            "single_samples": null, "single_p50_ns": null, "single_p99_ns": null, "single_p999_ns": null, "single_max_ns": null})
        };
        json!({"stopwatch": "tsc", "results": [row("tsc", "register", register_ns), row("monotonic", "vdso", 30.0),
            row("monotonic-coarse", "vdso", 5.0)]})
    }

    #[test]
    fn a_register_that_costs_more_than_what_reads_it_is_no_limit() {
        for (register_ns, is_limit) in [(20.0, true), (40.0, false)] {
            let picture = cost(&bench(register_ns)).expect("it can be drawn");
            let marks = || picture.chart.panels[0].series.iter().flat_map(|series| &series.marks);
            assert_eq!(marks().any(|mark| matches!(mark, Mark::Limit(_))), is_limit);
            assert_eq!(picture.says.contains("The dashed line"), is_limit, "{}", picture.says);
            assert_eq!(
                picture.says.contains("disturbed") && picture.says.contains("monotonic,"),
                !is_limit,
                "{}",
                picture.says
            );
            assert_eq!(picture.chart.panels[0].title.contains("dashed"), is_limit);
        }
    }
}
