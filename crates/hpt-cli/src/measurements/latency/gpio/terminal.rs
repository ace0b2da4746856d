//! The tables of `hpt latency gpio`.

use std::time::Duration;

use hpt_document::{
    gpio_latency::{GpioLatencyDocument, GpioLatencyRow, GpioListening},
    gpio_line::GpioLine,
};
use hpt_instrument::measure::{EdgeCounts, Latencies};

use super::{edge_figures::head, line::line_words};
use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, exact_time, one_or_many, remarks, short_time},
    sampling::{
        conditions, cpu_absences, explain,
        gpio_pulse::drive_words,
        histogram,
        latency_figures::{cells, columns, samples, words},
        limits::{self, verdict::MAX_LEGEND},
        not_run, realtime_settings,
        result_files::ended_by,
    },
};

/// Returns notes on irregular edges, the most severe first.
pub(super) fn what_was_wrong(
    counts: &EdgeCounts,
    (out, input): (&GpioLine, &GpioLine),
    timeout: Duration,
    is_delayed: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if counts.lost > 0 {
        let which = if counts.arrived == 0 {
            "no edge arrived".to_owned()
        } else {
            format!("{} of {} edges did not arrive", counts.lost, counts.lost + counts.arrived)
        };
        let why = if is_delayed {
            "; the measuring thread spins, and the kernel thread that delivers edges (irq/...-hpt, SCHED_FIFO 50) cannot preempt it: use --listen poll, a priority below 50, or another CPU"
        } else {
            ""
        };
        wrong.push(format!(
            "{which} on {} within {} after {} was driven; check that the two lines are connected{why}",
            line_words(input),
            exact_time(timeout),
            line_words(out)
        ));
    }
    if counts.dropped > 0 {
        wrong.push(format!(
            "the kernel dropped {} {} arrived faster than hpt read them",
            counts.dropped,
            one_or_many(counts.dropped, "edge because edges", "edges because they")
        ));
    }
    if counts.unexpected > 0 {
        wrong.push(format!(
            "{} unexpected {} arrived on {}; the line may be ringing, or something else may be driving it",
            counts.unexpected,
            one_or_many(counts.unexpected, "edge", "edges"),
            line_words(input)
        ));
    }
    if counts.out_of_window > 0 {
        wrong.push(format!(
            "for {} {}, the kernel's timestamp does not fall between the time hpt drove the output line and the time it read the edge, so only the end-to-end latency of {} is counted; in a time namespace, the kernel's timestamps are those of the host",
            counts.out_of_window,
            one_or_many(counts.out_of_window, "edge", "edges"),
            one_or_many(counts.out_of_window, "this edge", "these edges")
        ));
    }
    wrong
}

/// Returns the result in one sentence: the figures of the segment that the bars show.
fn headline(data: &GpioLatencyDocument) -> String {
    let place = format!("{} to {}", line_words(&data.output_line), line_words(&data.input_line));
    let Some(row) = data.results.iter().find(|row| row.figure == data.figure).or_else(|| data.results.last()) else {
        return format!("Edge latency, {place}: no edge was measured");
    };
    let figures = &row.figures;
    let lost = match data.lost {
        0 => "no edge lost".to_owned(),
        count => format!("{count} {} lost", one_or_many(count, "edge", "edges")),
    };
    let missed = if figures.missed > 0 { format!(", {} skipped", figures.missed) } else { String::new() };
    format!(
        "Edge latency, {}, {place}, {}: {}, {lost}{missed}",
        head(row.figure),
        samples(figures.samples),
        words(figures)
    )
}

pub(super) fn page(data: &GpioLatencyDocument, drawn: &Latencies) -> Vec<Block> {
    let mut blocks = vec![Block::Headline(headline(data))];
    blocks.extend(limits::table::blocks(&data.limits));
    if !data.results.is_empty() {
        let columns = [vec![Column("segment", Align::Left)], columns()].concat();
        let row = |row: &GpioLatencyRow| [vec![Cell::plain(head(row.figure))], cells(&row.figures)].concat();
        let rows = data.results.iter().map(row).collect();
        blocks.push(Block::Table(Table { columns, rows }.without_empty_columns()));
    }
    blocks.extend(explain::terminal::blocks(&data.explanation, ("edge", "edges")));
    blocks.extend(histogram::of_latencies(drawn, (head(data.figure), "samples")));
    blocks.push(Block::detail(provenance(data)));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(ended_by(
        data.end.stopped_at_ns,
        "the latency of an edge exceeded the limit; the output line was driven",
    ));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

/// Returns the legend and the origin of the figures.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn provenance(data: &GpioLatencyDocument) -> String {
    let step = data
        .reads
        .clock_granularity_ns
        .map_or_else(String::new, |ns| format!(", granularity {}", short_time(ns as f64)));
    let how = match data.listen {
        GpioListening::Spin => "reads repeatedly",
        GpioListening::Poll => "wakes from poll(2)",
        GpioListening::Level => "reads the level of the pin repeatedly",
    };
    let segments = match data.listen {
        GpioListening::Level => format!(
            "end to end: from driving the line until the program, which {how}, has read the new level; no interrupt is raised."
        ),
        GpioListening::Spin | GpioListening::Poll => format!(
            "output to IRQ: from driving the line to the kernel's timestamp in the interrupt handler. IRQ to user: from that timestamp until the program, which {how}, has read the edge. end to end: the sum of the two."
        ),
    };
    let thread = realtime_settings::words(&data.measuring.thread, data.cpu)
        + &cpu_absences::except(&data.end.cpu_absences)
        + &not_run::words([(data.cpu, &data.not_run)]);
    format!(
        "Latency of edges at intervals of {}, for {:.1} s from {}. The line is driven {}. {segments} The bars show the {} latency. {thread}. missed: edges that were skipped because the previous edge took longer than the interval. \
         A percentile is printed only if ten samples lie beyond it (-). {MAX_LEGEND}. Clock: \
         {}{}; read overhead {}{step}, included in every sample. {}",
        short_time(data.interval_ns as f64),
        data.time.elapsed_s,
        data.time.started_at,
        drive_words(data.drive),
        head(data.figure),
        data.measuring.source,
        if data.listen == GpioListening::Level { "" } else { ", which also provides the kernel's timestamps" },
        short_time(data.reads.clock_read_ns as f64),
        machine_line(&data.head.machine)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_document::{
        gpio_latency::{GpioFigure, GpioLatencyDocument, GpioListening},
        gpio_line::GpioDrive,
        latency::{ClockReads, LatencyRunEnd, LatencyRunTime, LatencyThread},
        not_run::NotRun,
    };
    use hpt_instrument::measure::EdgeCounts;

    use super::{page, what_was_wrong};
    use crate::{
        golden,
        measurements::latency::gpio::{
            document::rows,
            edge_figures::{EdgeFigures, tests::samples},
            line::tests::place,
        },
        output::Document,
        sampling::{conditions, explain, realtime_settings::tests::example},
    };

    #[test]
    fn a_run_is_printed_exactly() {
        let mut three = EdgeFigures::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let data = GpioLatencyDocument {
            head: golden::head("latency-gpio"),
            output_line: place(22),
            input_line: place(23),
            drive: GpioDrive::Kernel,
            listen: GpioListening::Poll,
            interval_ns: 1_000_000,
            timeout_ns: 1_000_000_000,
            cpu: Some(1),
            measuring: LatencyThread { thread: example().thread, source: "monotonic".to_owned() },
            reads: ClockReads { clock_read_ns: 40, clock_granularity_ns: Some(10) },
            time: LatencyRunTime {
                started_at: "2001-09-09T01:46:40Z".to_owned(),
                elapsed_s: 60.0,
                warm_up_ns: 0,
                warm_up_samples: 0,
            },
            lost: 2,
            unexpected: 1,
            dropped: 0,
            out_of_window: 1,
            figure: GpioFigure::EndToEnd,
            not_run: NotRun { share: Some(0.004), wall_s: 60.0, stolen_s: Some(0.0), ..NotRun::default() },
            end: LatencyRunEnd { stopped_at_ns: Some(4_000_000), interrupted: true, cpu_absences: Vec::new() },
            conditions: conditions::tests::example(),
            explanation: explain::terminal::tests::example(),
            limits: Vec::new(),
            results: rows(&three),
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, three.of(GpioFigure::EndToEnd));
        golden::assert("latency-gpio", &Document::new(data, blocks));
    }

    #[test]
    fn a_run_without_an_edge_says_so_first() {
        let hpt_document::Document::GpioLatency(mut data) = golden::empty("latency-gpio") else {
            panic!("it is another one")
        };
        (data.output_line, data.input_line) = (place(22), place(23));
        let first = format!("{:?}", page(&data, &EdgeFigures::new().of(GpioFigure::EndToEnd).clone())[0]);
        assert!(first.contains("GPIO22 (gpiochip0:22) to GPIO23 (gpiochip0:23): no edge was measured"), "{first}");
    }

    #[test]
    fn problems_are_reported_with_a_fix() {
        let said = |counts: EdgeCounts, is_delayed| {
            what_was_wrong(&counts, (&place(22), &place(23)), Duration::from_secs(1), is_delayed)
        };
        assert!(said(EdgeCounts::default(), true).is_empty());
        let mut counts = EdgeCounts::default();
        counts.lost = 1;
        assert_eq!(
            said(counts, false),
            [
                "no edge arrived on GPIO23 (gpiochip0:23) within 1 s after GPIO22 (gpiochip0:22) was driven; check that the two lines are connected"
            ]
        );
        assert!(said(counts, true)[0].contains("SCHED_FIFO 50"));
        (counts.arrived, counts.unexpected, counts.dropped, counts.out_of_window) = (5, 2, 3, 4);
        let all = said(counts, false);
        assert_eq!(all.len(), 4);
        assert!(
            all[0].starts_with("1 of 6 edges did not arrive")
                && all[1].contains("3 edges")
                && all[2].contains("2 unexpected edges")
                && all[3].contains("4 edges"),
            "{all:?}"
        );
        (counts.unexpected, counts.dropped, counts.out_of_window) = (1, 1, 1);
        let all = said(counts, false);
        assert!(
            all[1].contains("dropped 1 edge because edges arrived faster")
                && all[2].contains("1 unexpected edge arrived")
                && all[3].contains("for 1 edge,")
                && all[3].contains("latency of this edge is counted"),
            "{all:?}"
        );
    }
}
