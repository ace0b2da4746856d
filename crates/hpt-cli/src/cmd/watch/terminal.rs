//! The output of `hpt watch`: a line for each source and interval, and the summary. Measures nothing.

use hpt_document::watch::{Synchronization, WatchDocument, WatchSummaryDocument};

use crate::{
    context::Context,
    document_head::machine_line,
    exit::Failure,
    output::{
        Align, Block, Cell, Column, Document, Table, Tone, message, one_or_many, print_one_of_several, remarks,
        short_time,
    },
    sampling::{cpu_absences, realtime_settings::pinned_to},
};

pub(super) fn print_interval(data: &WatchDocument, context: &Context) -> Result<bool, Failure> {
    let blocks = vec![Block::Text(lines(data))];
    let document = Document { one_of_several: true, ..Document::new(data.clone(), blocks) };
    if context.interrupted() {
        message::erase_echo();
    }
    print_one_of_several(&document, context.format, data.interval == 1).map_err(Failure::Print)
}

/// Formats a line for each source, and a line for each event.
pub(super) fn lines(data: &WatchDocument) -> String {
    let mut lines = Vec::new();
    if data.interval == 1 {
        lines.push(format!(
            "{:>9} {:17} {:>12} {:>9} {:>10} {:>9} {:>8}",
            "time", "source", "offset", "±", "error ppm", "±", "bracket"
        ));
    }
    let after = format!("{:.1} s", data.at_s);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), signed_time);
    let ppm = |ppm: Option<f64>| ppm.map_or_else(|| "-".to_owned(), |ppm| format!("{ppm:.3}"));
    for row in &data.sources {
        #[expect(clippy::cast_precision_loss, reason = "a bracket is far below 2^53 ns")]
        let bracket = row.offset.bracket_ns.map(|ns| ns as f64);
        lines.push(format!(
            "{after:>9} {:17} {:>12} {:>9} {:>10} {:>9} {:>8}",
            row.source.as_str(),
            time(row.offset.offset_ns),
            time(row.offset.offset_bound_ns),
            ppm(row.frequency_error_ppm),
            ppm(row.frequency_bound_ppm),
            time(bracket)
        ));
        lines.extend(row.messages.iter().map(|message| format!("{after:>9} {} {message}", row.source)));
    }
    for cores in &data.cores {
        let between = format!("{} CPU {}-{}", cores.source, cores.first_cpu, cores.second_cpu);
        let (least, most) = (signed_time(cores.min_ns), signed_time(cores.max_ns));
        lines.push(format!("{after:>9} {between:17} {least:>12} to {most}"));
        lines.extend(cores.fault.iter().map(|fault| format!("{after:>9} {} {fault}", cores.source)));
    }
    lines.extend(data.shared_faults.iter().map(|message| format!("{after:>9} {message}")));
    lines.extend(data.events.iter().map(|event| format!("{after:>9} {}", event.message)));
    lines.join("\n")
}

pub(super) fn signed_time(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", short_time(ns.abs()))
}

/// Returns whether the rate of at least one source was determined.
pub(super) fn was_compared(data: &WatchSummaryDocument) -> bool {
    data.sources.iter().any(|source| source.lowest_ppm.is_some())
}

pub(super) fn summary_page(data: &WatchSummaryDocument) -> Vec<Block> {
    let columns = [
        Column("source", Align::Left),
        Column("offset", Align::Right),
        Column("±", Align::Right),
        Column("min ppm", Align::Right),
        Column("±", Align::Right),
        Column("max ppm", Align::Right),
        Column("±", Align::Right),
        Column("steps", Align::Right),
        Column("back", Align::Right),
        Column("set", Align::Right),
        Column("faults", Align::Right),
    ];
    let ppm = |ppm: f64| format!("{ppm:.3}");
    let rows = data.sources.iter().map(|row| {
        vec![
            Cell::plain(row.source.as_str()),
            Cell::or_dash(row.offset.offset_ns.map(signed_time)),
            Cell::or_dash(row.offset.offset_bound_ns.map(signed_time)),
            Cell::or_dash(row.lowest_ppm.map(ppm)),
            Cell::or_dash(row.lowest_bound_ppm.map(ppm)),
            Cell::or_dash(row.highest_ppm.map(ppm)),
            Cell::or_dash(row.highest_bound_ppm.map(ppm)),
            Cell::plain(row.steps.steps.to_string()),
            Cell::plain(row.steps.backward_steps.to_string()),
            Cell::plain(row.steps.times_set.to_string()),
            Cell(row.faults.to_string(), if row.faults > 0 { Tone::Bad } else { Tone::Good }),
        ]
    });
    let mut blocks = vec![
        Block::Section("Summary".to_owned(), Vec::new()),
        Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }),
    ];
    let first = data.sources.iter().filter_map(|row| {
        row.first_fault.as_ref().map(|fault| vec![Cell(row.source.clone(), Tone::Bad), Cell::plain(fault)])
    });
    let of_cores = data.cores.iter().filter_map(|cores| {
        cores.fault.as_ref().map(|fault| vec![Cell(cores.source.clone(), Tone::Bad), Cell::plain(fault)])
    });
    let shared = data.shared_faults.first().map(|fault| vec![Cell("all".to_owned(), Tone::Bad), Cell::plain(fault)]);
    let faults: Vec<Vec<Cell>> = first.chain(of_cores).chain(shared).collect();
    if !faults.is_empty() {
        blocks.push(Block::Section("First fault of each source".to_owned(), faults));
    }
    if !data.cores.is_empty() {
        let lines = data.cores.iter().map(|cores| {
            let (least, most) = (signed_time(cores.min_ns), signed_time(cores.max_ns));
            let number =
                if cores.handovers == 1 { "1 handover".to_owned() } else { format!("{} handovers", cores.handovers) };
            let text = format!("offset to CPU {}: {least} to {most} ({number})", cores.first_cpu);
            vec![Cell::plain(format!("CPU {}", cores.second_cpu)), Cell::plain(text)]
        });
        let title = format!("{}: offsets between CPUs", data.cores[0].source);
        blocks.push(Block::Section(title, lines.collect()));
    }
    if !data.events.is_empty() {
        let lines =
            data.events.iter().map(|event| vec![Cell::faint(format!("{} s", event.at_s)), Cell::plain(&event.message)]);
        blocks.push(Block::Section("System events".to_owned(), lines.collect()));
    }
    blocks.push(Block::Text(synchronized(&data.synchronization)));
    let verdict = match (data.faulty, was_compared(data)) {
        (true, _) => "Faults found.",
        (false, true) => "No faults found.",
        (false, false) => "Unknown: too few readings to compare; use a longer run time.",
    };
    let also = if data.limits.nominal_tolerance_added { " plus the uncertainty of the nominal frequency" } else { "" };
    #[expect(clippy::cast_precision_loss, reason = "limits are a second at most")]
    let (step, core_offset) = (short_time(data.limits.step_ns as f64), short_time(data.limits.core_offset_ns as f64));
    let cpu = pinned_to(data.cpu) + &cpu_absences::except(&data.cpu_absences);
    blocks.push(Block::Text(format!(
        "{verdict} {} {}, {} {} of readings in {:.1} s against {}. Accepted limits: frequency error {} ppm{also}, step {step}, offset between CPUs {core_offset}. \
         offset: change relative to the reference at the nominal frequency, since the last interruption. min ppm, max ppm: smallest and largest frequency error of an interval, each with its bound. {cpu}. {}",
        data.intervals,
        one_or_many(data.intervals, "interval", "intervals"),
        data.rounds,
        one_or_many(data.rounds, "round", "rounds"),
        data.elapsed_s,
        data.reference,
        data.limits.frequency_error_ppm,
        machine_line(&data.head.machine)
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

pub(super) fn synchronized(is: &Synchronization) -> String {
    let daemons = match &is.daemons {
        None => "time daemon unknown: /proc shows no processes".to_owned(),
        Some(daemons) if daemons.is_empty() => "no time daemon".to_owned(),
        Some(daemons) => format!("time daemon: {}", daemons.join(", ")),
    };
    match (is.synchronized, is.frequency_ppm, is.tick_ppm) {
        (Some(synchronized), Some(frequency_ppm), Some(tick_ppm)) => {
            let word = if synchronized { "synchronized" } else { "unsynchronized" };
            #[expect(clippy::cast_precision_loss, reason = "for printing")]
            let error = is.maximum_error_ns.map_or_else(|| "unknown".to_owned(), |ns| short_time(ns as f64));
            format!(
                "Kernel clock: {word} (maximum error {error}), frequency offset {frequency_ppm:.3} ppm, tick offset {tick_ppm:.1} ppm; {daemons}."
            )
        }
        (_, _, _) => format!("Kernel clock: synchronization unknown, because the kernel refused adjtimex; {daemons}."),
    }
}

#[cfg(test)]
mod tests {
    use hpt_core::{
        diagnose::{Fault, FrequencyErrorLimits, Interval, Limits, SourceEvent, SourceOffset},
        measure::{CoreOffset, CpuPair},
    };

    use hpt_document::{
        SCHEMA,
        watch::{
            CpuOffline, MachineEvent, MachineEventKind, Synchronization, WatchDocument, WatchLimits,
            WatchSummaryDocument,
        },
    };

    use super::{lines, signed_time, summary_page};
    use crate::{
        cmd::watch::totals::{SourceTotal, cores, row},
        golden,
        output::{Block, Document},
        sampling::cpu_absences,
    };

    fn interval(offset_ns: f64, (lower_ppm, upper_ppm): (f64, f64), faults: Vec<Fault>) -> Interval {
        Interval {
            bursts: 97,
            bracket_ns: Some(40),
            offset: Some(SourceOffset { offset_ns, bound_ns: 63.5 }),
            frequency_error: Some(FrequencyErrorLimits { lower_ppm, upper_ppm }),
            steps: faults.len() as u64,
            backwards: 0,
            set: 0,
            faults,
            events: vec![SourceEvent::SmallStep { least_ns: 900.0, most_ns: 1_100.0 }],
        }
    }

    fn synchronization() -> Synchronization {
        Synchronization {
            readable: true,
            synchronized: Some(true),
            status: Some(0x2001),
            frequency_ppm: Some(-12.345),
            tick_ppm: Some(0.0),
            maximum_error_ns: Some(1_500_000),
            estimated_error_ns: Some(20_000),
            daemons: Some(vec!["chronyd".to_owned()]),
        }
    }

    fn seen() -> (WatchDocument, WatchSummaryDocument) {
        let stepped = Fault::Stepped { least_ns: -20_100.0, most_ns: -20_300.0 };
        let intervals =
            [interval(-1_481.5, (1.426, 1.552), vec![stepped]), interval(11.0, (-0.075, 0.073), Vec::new())];
        let rows: Vec<_> = ["tsc", "monotonic"]
            .into_iter()
            .zip(&intervals)
            .map(|(id, interval)| row(1, 1.006, id, interval))
            .collect();
        let offset =
            |least_ns, most_ns| CoreOffset { cpus: CpuPair { first: 0, second: 1 }, least_ns, most_ns, handovers: 400 };
        let apart = vec![cores("tsc", &offset(4_900.0, 5_100.0), &Limits::default())];
        let message = "the machine was suspended for 5.999 s".to_owned();
        let events = vec![MachineEvent {
            kind: MachineEventKind::Suspend,
            at_s: 0.5,
            suspended_ns: Some(5_999_000_000),
            message,
        }];
        let mut summary: Vec<SourceTotal> =
            rows.iter().map(|row| SourceTotal::beginning(&row.source, 1e9, "definition")).collect();
        for ((sum, row), interval) in summary.iter_mut().zip(&rows).zip(&intervals) {
            sum.add(row, interval);
        }
        let interval = WatchDocument {
            schema: SCHEMA,
            kind: "watch".to_owned(),
            hpt: "0.0.0".to_owned(),
            interval: 1,
            at_s: 1.006,
            reference: "monotonic-raw".to_owned(),
            clocksource: Some("tsc".to_owned()),
            rounds_on_other_cpus: 0,
            sources: rows,
            cores: apart.clone(),
            events: events.clone(),
            shared_faults: Vec::new(),
            synchronization: synchronization(),
        };
        let all = WatchSummaryDocument {
            head: golden::head("watch-summary"),
            cpu: Some(1),
            reference: "monotonic-raw".to_owned(),
            limits: WatchLimits {
                frequency_error_ppm: 50.0,
                nominal_tolerance_added: true,
                step_ns: 5_000,
                core_offset_ns: 1_000,
            },
            elapsed_s: 1.006,
            intervals: 1,
            rounds: 97,
            cpu_absences: vec![cpu_absences::tests::example()],
            faulty: true,
            sources: summary.into_iter().map(|total| total.row).collect(),
            cores: apart,
            events,
            offline: vec![CpuOffline { cpu: 3, from_s: 0.25, to_s: None }],
            shared_faults: Vec::new(),
            synchronization: synchronization(),
            interrupted: true,
            notes: vec!["a note".to_owned()],
        };
        (interval, all)
    }

    #[test]
    fn an_interval_is_printed_exactly() {
        let (data, _) = seen();
        let document = Document::new(data.clone(), vec![Block::Text(lines(&data))]);
        golden::assert("watch", &Document { one_of_several: true, ..document });
        assert!(lines(&data).lines().all(|line| line.chars().count() <= 80), "{}", lines(&data));
    }

    #[test]
    fn a_summary_is_printed_exactly() {
        let (_, data) = seen();
        let blocks = summary_page(&data);
        golden::assert("watch-summary", &Document { one_of_several: true, ..Document::new(data, blocks) });
    }

    #[test]
    fn time_differences_have_a_sign() {
        assert_eq!((signed_time(-1_500.0), signed_time(63.5)), ("-1.5 µs".to_owned(), "63.5 ns".to_owned()));
    }
}
