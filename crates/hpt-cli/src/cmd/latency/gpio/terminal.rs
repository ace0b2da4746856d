//! The tables of `hpt latency gpio`. Measures nothing.

use std::time::Duration;

use hpt_core::measure::{EdgeCounts, Lateness};
use hpt_document::{
    gpio_latency::{GpioLatencyDocument, GpioLatencyRow, GpioListening},
    gpio_line::GpioLine,
};

use super::{edge_figures::Figure, line::line_words};
use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, remarks, short_time},
    sampling::{
        cpu_absences,
        latency_figures::{COLUMNS, bars, cells},
        realtime_settings::words,
        result_files::ended_by,
    },
};

/// Returns notes on irregular edges, the most severe first.
pub(super) fn what_was_wrong(
    counts: &EdgeCounts,
    (out, input): (&GpioLine, &GpioLine),
    timeout: Duration,
    is_kept_away: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    if counts.lost > 0 {
        let which = if counts.came == 0 {
            "no edge came".to_owned()
        } else {
            format!("{} of {} edges did not come", counts.lost, counts.lost + counts.came)
        };
        let why = if is_kept_away {
            "; this thread spins, and runs before the one by which the kernel hands edges on (irq/...-hpt, SCHED_FIFO 50): listen by poll, or run below 50, or on another CPU than its"
        } else {
            ""
        };
        wrong.push(format!(
            "{which} at {} within {timeout:?} after {} was driven: is the one wired to the other?{why}",
            line_words(input),
            line_words(out)
        ));
    }
    if counts.dropped > 0 {
        wrong.push(format!("the kernel had no room to keep {} edges: more came than were read", counts.dropped));
    }
    if counts.strange > 0 {
        wrong.push(format!(
            "{} edges came at {} that were not made: the line rings, or somebody else drives it",
            counts.strange,
            line_words(input)
        ));
    }
    if counts.elsewhen > 0 {
        wrong.push(format!(
            "the kernel's stamps of {} edges lie outside of the moments around them, and count in the whole only: in a time namespace they are those of the machine around it",
            counts.elsewhen
        ));
    }
    wrong
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(super) fn page(data: &GpioLatencyDocument, drawn: &Lateness) -> Vec<Block> {
    if data.results.is_empty() {
        let nothing = format!(
            "Nothing was measured from {} to {}. {}. {}",
            line_words(&data.out),
            line_words(&data.r#in),
            words(&data.measuring.thread, data.cpu) + &cpu_absences::except(&data.end.away),
            machine_line(&data.head.machine)
        );
        return [Block::Text(nothing)].into_iter().chain(remarks(data.end.interrupted, &data.notes)).collect();
    }
    let mut columns = vec![Column("figure", Align::Left)];
    columns.extend(COLUMNS.map(|name| Column(name, Align::Right)));
    let row =
        |row: &GpioLatencyRow| [vec![Cell::plain(Figure::of_word(row.figure).head())], cells(&row.figures)].concat();
    let mut blocks = vec![Block::Table(Table { columns, rows: data.results.iter().map(row).collect() })];
    blocks.extend(bars(drawn, ("took", "samples")));
    let step = data.reads.step_ns.map_or_else(String::new, |ns| format!(" and steps by {}", short_time(ns as f64)));
    let how = match data.listen {
        GpioListening::Spin => "reads again and again",
        GpioListening::Poll => "is woken from poll(2) and reads it",
    };
    blocks.push(Block::Text(format!(
        "How long edges from {} to {} took, {} apart, for {:.1} s from {} on. set to edge: from before the line was driven to the kernel's stamp, in the interrupt's handler. to program: from \
         there until a program had it that {how}. whole: both. The bars are of {}. {}. missed: edges that were left out because the last one took longer than the interval. lost: {}. \
         Quantiles have ten samples beyond them at least. Time \
         by {}, the clock of the kernel's stamps: a look at it takes {}{step}, and is in every figure. {}",
        line_words(&data.out),
        line_words(&data.r#in),
        short_time(data.interval_ns as f64),
        data.time.elapsed_s,
        data.time.began,
        data.figure.name().replace('-', " "),
        words(&data.measuring.thread, data.cpu) + &cpu_absences::except(&data.end.away),
        data.lost,
        data.measuring.source,
        short_time(data.reads.look_ns as f64),
        machine_line(&data.head.machine)
    )));
    blocks.extend(ended_by(data.end.broke_at_ns, "took too long: its line was driven"));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::measure::EdgeCounts;
    use hpt_document::{
        gpio_latency::{GpioFigure, GpioLatencyDocument, GpioListening},
        latency::{ClockReads, LatencyRunEnd, LatencyRunTime, LatencyThread},
    };

    use super::{page, what_was_wrong};
    use crate::{
        cmd::latency::gpio::{
            document::rows,
            edge_figures::{EdgeFigures, Figure, tests::samples},
            line::tests::place,
        },
        golden,
        output::Document,
        sampling::realtime_settings::tests::example,
    };

    #[test]
    fn a_run_is_printed_to_the_letter() {
        let mut three = EdgeFigures::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let data = GpioLatencyDocument {
            head: golden::head("latency-gpio"),
            out: place(22),
            r#in: place(23),
            listen: GpioListening::Poll,
            interval_ns: 1_000_000,
            timeout_ns: 1_000_000_000,
            cpu: Some(1),
            measuring: LatencyThread { thread: example().thread, source: "monotonic".to_owned() },
            reads: ClockReads { look_ns: 40, step_ns: Some(10) },
            time: LatencyRunTime { began: "2001-09-09T01:46:40Z".to_owned(), elapsed_s: 60.0 },
            lost: 2,
            strange: 1,
            dropped: 0,
            elsewhen: 1,
            figure: GpioFigure::Whole,
            end: LatencyRunEnd { broke_at_ns: Some(4_000_000), interrupted: true, away: Vec::new() },
            results: rows(&three),
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, three.of(Figure::Whole));
        golden::assert("latency-gpio", &Document::new(data, blocks));
    }

    #[test]
    fn what_was_wrong_is_said_with_what_helps() {
        let said = |counts: EdgeCounts, is_kept_away| {
            what_was_wrong(&counts, (&place(22), &place(23)), Duration::from_secs(1), is_kept_away)
        };
        assert!(said(EdgeCounts::default(), true).is_empty());
        let mut counts = EdgeCounts::default();
        counts.lost = 1;
        assert_eq!(
            said(counts, false),
            [
                "no edge came at GPIO23 (gpiochip0:23) within 1s after GPIO22 (gpiochip0:22) was driven: is the one wired to the other?"
            ]
        );
        assert!(said(counts, true)[0].contains("SCHED_FIFO 50"));
        (counts.came, counts.strange, counts.dropped, counts.elsewhen) = (5, 2, 3, 4);
        let all = said(counts, false);
        assert_eq!(all.len(), 4);
        assert!(
            all[0].starts_with("1 of 6 edges did not come")
                && all[1].contains("3 edges")
                && all[2].contains("2 edges")
                && all[3].contains("4 edges"),
            "{all:?}"
        );
    }
}
