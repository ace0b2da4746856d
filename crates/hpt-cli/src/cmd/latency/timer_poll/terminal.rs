//! The tables of `hpt latency timer` and `hpt latency poll`. Measures nothing.

use hpt_core::measure::Lateness;
use hpt_document::{
    latency::LatencyFigures,
    wake_latency::{WaitMethod, WakeLatencyDocument},
};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, remarks, short_time},
    sampling::{
        cpu_absences,
        cpu_options::name_of,
        latency_figures::{COLUMNS, bars, cells, figures},
        realtime_settings::words_of_threads,
        result_files::ended_by,
    },
};

#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(super) fn page(data: &WakeLatencyDocument, all: &Lateness) -> Vec<Block> {
    let columns = [&["CPU"][..], &COLUMNS].concat();
    let columns = columns.into_iter().map(|name| Column(name, Align::Right)).collect();
    let cells = |name: String, figures: &LatencyFigures| [vec![Cell::plain(name)], cells(figures)].concat();
    let mut rows: Vec<_> = data.results.iter().map(|row| cells(name_of(row.cpu), &row.figures)).collect();
    if data.results.len() > 1 {
        rows.extend(figures(all).map(|figures| cells("all".to_owned(), &figures)));
    }
    let mut blocks = vec![Block::Table(Table { columns, rows })];
    blocks.extend(bars(all, ("late by", "samples")));
    let how = match data.by {
        WaitMethod::Looking => "a thread that looks at the clock all the time knew of deadlines",
        WaitMethod::Hpt => "a thread was there at deadlines, by hpt's Sleeper,",
        WaitMethod::Kernel => "the kernel woke a thread at deadlines",
    };
    // A run that ended before its first deadline has only the kernel's statement.
    let mut cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    if data.results.is_empty() {
        cpus.extend(Some(&data.measuring.thread.cpus).filter(|cpus| cpus.len() == 1).into_iter().flatten());
    }
    let thread = words_of_threads(&data.measuring.thread, &cpus) + &cpu_absences::except(&data.end.away);
    let wall = if data.at.is_some() { ", by the wall clock" } else { "" };
    let step = data.reads.step_ns.map_or_else(String::new, |ns| format!(" and steps by {}", short_time(ns as f64)));
    blocks.push(Block::Text(format!(
        "How late {how} {} apart, for {:.1} s from {} on{wall}. {thread}. missed: deadlines that had passed before they were waited for. \
         Quantiles have ten samples beyond them at least. \
         Time by {}: a look at it takes {}{step}, and is in every figure. {}",
        short_time(data.interval_ns as f64),
        data.time.elapsed_s,
        data.at.as_ref().unwrap_or(&data.time.began),
        data.measuring.source,
        short_time(data.reads.look_ns as f64),
        machine_line(&data.head.machine)
    )));
    if let Some(line) = &data.pulse {
        blocks.push(Block::Text(format!(
            "{line} was driven to its other level at each deadline, right after the look at the clock."
        )));
    }
    blocks.extend(ended_by(data.end.broke_at_ns, "was too late: it was due"));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use hpt_core::measure::Lateness;
    use hpt_document::{
        latency::{ClockReads, LatencyRunEnd, LatencyRunTime, LatencyThread},
        wake_latency::{WaitMethod, WakeLatencyDocument},
    };

    use super::page;
    use crate::{
        cmd::latency::timer_poll::document::row,
        golden,
        output::{Document, latency_files},
        sampling::{cpu_absences, realtime_settings::tests::example, time_series::Course},
    };

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let threads = latency_files::counts::tests::threads();
        let mut all = Lateness::new();
        threads.iter().for_each(|thread| all.add(&thread.lateness));
        let mut course = Course::new();
        [(0, 500), (12_000_000, 25_000_000)].into_iter().for_each(|(at_ns, late_ns)| course.record(at_ns, late_ns));
        let data = WakeLatencyDocument {
            head: golden::head("latency-timer"),
            interval_ns: 1_000_000,
            at: None,
            by: WaitMethod::Kernel,
            pulse: Some("GPIO17 (gpiochip0:17)".to_owned()),
            measuring: LatencyThread { thread: example().thread, source: "tsc".to_owned() },
            reads: ClockReads { look_ns: 21, step_ns: Some(10) },
            time: LatencyRunTime { began: "2001-09-09T01:46:40Z".to_owned(), elapsed_s: 60.0 },
            end: LatencyRunEnd {
                broke_at_ns: Some(1_000_000_000),
                interrupted: true,
                away: vec![cpu_absences::tests::example()],
            },
            results: threads.iter().filter_map(|thread| row(thread.cpu, &thread.lateness, &course)).collect(),
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, &all);
        golden::assert("latency-timer", &Document::new(data, blocks));
    }
}
