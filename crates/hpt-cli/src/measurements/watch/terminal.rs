//! The output of `hpt watch`: a line for each source and interval, and the summary.

use hpt_document::watch::{CpuOffset, Synchronization, WatchDocument, WatchRow, WatchSummaryDocument, WatchSummaryRow};
use hpt_instrument::diagnose::Limits;

use crate::{
    context::Context,
    document_head::machine_line,
    exit::Failure,
    output::{
        Align, Block, Cell, Column, Document, Table, Tone, columns, message, one_or_many, print_one_of_several,
        remarks, short_time,
    },
    sampling::{cpu_absences, realtime_settings::pinned_to},
};

pub(super) fn print_interval(data: &WatchDocument, limits: &Limits, context: &Context) -> Result<bool, Failure> {
    let blocks = vec![Block::Text(lines(data, limits, columns()))];
    let document = Document { one_of_several: true, ..Document::new(data.clone(), blocks) };
    if context.interrupted() {
        message::erase_echo();
    }
    print_one_of_several(&document, context.format, data.interval == 1).map_err(Failure::Print)
}

/// The least width of the output that has all columns.
const WIDE: usize = 80;

/// Formats a line for each source, and a line for each event.
pub(super) fn lines(data: &WatchDocument, limits: &Limits, width: usize) -> String {
    let is_wide = width >= WIDE;
    let mut lines = Vec::new();
    if data.interval == 1 {
        lines.push(if is_wide {
            format!(
                "{:>9} {:17} {:>12} {:>9} {:>10} {:>9} {:>8}",
                "time", "source", "offset", "±", "error ppm", "±", "bracket"
            )
        } else {
            format!("{:>8} {:10} {:>9} {:>8}", "time", "source", "offset", "±")
        });
    }
    let after = format!("{:.1} s", data.at_s);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), signed_time);
    for row in &data.sources {
        let (error, error_bound) = rate(row.frequency_error_ppm, row.frequency_bound_ppm);
        #[expect(clippy::cast_precision_loss, reason = "a bracket is far below 2^53 ns")]
        let bracket = row.offset.bracket_ns.map(|ns| ns as f64);
        let (offset, bound) = (time(row.offset.offset_ns), time(row.offset.offset_bound_ns));
        lines.push(if is_wide {
            format!(
                "{after:>9} {:17} {offset:>12} {bound:>9} {:>10} {:>9} {:>8}",
                row.source.as_str(),
                error,
                error_bound,
                time(bracket)
            )
        } else {
            format!("{after:>8} {:10} {offset:>9} {bound:>8}", row.source.as_str())
        });
        lines.extend(messages(data, row));
    }
    for cores in &data.cores {
        let between = format!("{} CPU {}-{}", cores.source, cores.first_cpu, cores.second_cpu);
        let bounds = bounds(cores, limits.core_offset.as_secs_f64() * 1e9);
        lines.push(match (is_wide, bounds) {
            (true, Some((least, most))) => format!("{after:>9} {between:17} {least:>12} to {most}"),
            (true, None) => format!("{after:>9} {between:17} {:>12}", "-"),
            (false, Some((least, most))) => format!("{after:>8} {between}: {least} to {most}"),
            (false, None) => format!("{after:>8} {between}: -"),
        });
        lines.extend(core_fault(data, cores));
    }
    lines.extend(other_events(data));
    lines.join("\n")
}

fn at(data: &WatchDocument) -> String {
    format!("{:>9}", format!("{:.1} s", data.at_s))
}

fn messages<'a>(data: &WatchDocument, row: &'a WatchRow) -> impl Iterator<Item = String> + use<'a> {
    let at = at(data);
    row.messages.iter().map(move |message| format!("{at} {} {message}", row.source))
}

fn core_fault(data: &WatchDocument, cores: &CpuOffset) -> Option<String> {
    cores.fault.as_ref().map(|fault| format!("{} {} {fault}", at(data), cores.source))
}

fn other_events(data: &WatchDocument) -> impl Iterator<Item = String> {
    let at = at(data);
    let messages = data.shared_faults.iter().chain(data.events.iter().map(|event| &event.message));
    messages.map(move |message| format!("{at} {message}"))
}

/// Formats a line for each fault and each event of an interval.
pub(super) fn event_lines(data: &WatchDocument) -> Vec<String> {
    let of_sources = data.sources.iter().flat_map(|row| messages(data, row));
    let of_cores = data.cores.iter().filter_map(|cores| core_fault(data, cores));
    of_sources.chain(of_cores).chain(other_events(data)).collect()
}

/// Returns the number of faults of the sources, of the counters of CPUs, and of all sources together.
pub(super) fn fault_count<'a>(
    rows: impl Iterator<Item = &'a WatchSummaryRow>,
    cores: &[CpuOffset],
    shared: &[String],
) -> u64 {
    let of_cores = cores.iter().filter(|cores| cores.fault.is_some()).count();
    rows.map(|row| row.faults).sum::<u64>() + (of_cores + shared.len()) as u64
}

pub(super) fn signed_time(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", short_time(ns.abs()))
}

/// Formats parts per million. A value that rounds to zero has no sign.
pub(super) fn ppm(ppm: f64) -> String {
    let text = format!("{ppm:.3}");
    if text == "-0.000" { "0.000".to_owned() } else { text }
}

/// The bound from which on a frequency error says nothing about the rate of a clock.
const NO_RATE_PPM: f64 = 1_000.0;

/// Formats a frequency error and its bound. An error that its bound leaves open is no rate.
fn rate(error_ppm: Option<f64>, bound_ppm: Option<f64>) -> (String, String) {
    match error_ppm.zip(bound_ppm) {
        None => ("-".to_owned(), "-".to_owned()),
        Some((_, bound)) if bound >= NO_RATE_PPM => ("no rate".to_owned(), "-".to_owned()),
        Some((error, bound)) => (ppm(error), ppm(bound)),
    }
}

/// Returns whether the rate of at least one source was determined.
pub(super) fn was_compared(data: &WatchSummaryDocument) -> bool {
    data.sources.iter().any(|source| source.lowest_ppm.is_some())
}

pub(super) fn summary_page(data: &WatchSummaryDocument) -> Vec<Block> {
    let stepped = data.sources.iter().map(|row| &row.steps);
    let has_steps = stepped.into_iter().any(|is| is.steps > 0 || is.backward_steps > 0 || is.times_set > 0);
    let names = ["offset", "±", "min ppm", "±", "max ppm", "±"].iter();
    let names = names.chain(["steps", "back", "set"].iter().filter(|_| has_steps)).chain(&["faults"]);
    let columns = [Column("source", Align::Left)].into_iter().chain(names.map(|name| Column(name, Align::Right)));
    let rows = data.sources.iter().map(|row| {
        let (lowest, highest) =
            (rate(row.lowest_ppm, row.lowest_bound_ppm), rate(row.highest_ppm, row.highest_bound_ppm));
        let mut cells = vec![
            Cell::plain(row.source.as_str()),
            Cell::or_dash(row.offset.offset_ns.map(signed_time)),
            Cell::or_dash(row.offset.offset_bound_ns.map(signed_time)),
        ];
        cells.extend([lowest.0, lowest.1, highest.0, highest.1].map(Cell::plain));
        if has_steps {
            let steps = [row.steps.steps, row.steps.backward_steps, row.steps.times_set];
            cells.extend(steps.map(|count| Cell::plain(count.to_string())));
        }
        cells.push(Cell(row.faults.to_string(), if row.faults > 0 { Tone::Bad } else { Tone::Good }));
        cells
    });
    let mut blocks = vec![
        Block::Section("Summary".to_owned(), Vec::new()),
        Block::Table(Table { columns: columns.collect(), rows: rows.collect() }),
    ];
    let faults = first_faults(data);
    if !faults.is_empty() {
        let cells = |(source, fault): &(&str, &str)| vec![Cell((*source).to_owned(), Tone::Bad), Cell::plain(*fault)];
        blocks.push(Block::Section("First fault of each source".to_owned(), faults.iter().map(cells).collect()));
    }
    blocks.extend(largest_error(data).into_iter().chain(between_cpus(data)).map(Block::Text));
    if !data.cores.is_empty() {
        let lines = data.cores.iter().map(|cores| {
            let (least, most) = (signed_time(cores.min_ns), signed_time(cores.max_ns));
            let number =
                if cores.handovers == 1 { "1 handover".to_owned() } else { format!("{} handovers", cores.handovers) };
            let text = format!("offset to CPU {}: {least} to {most} ({number})", cores.first_cpu);
            vec![Cell::plain(format!("CPU {}", cores.second_cpu)), Cell::plain(text)]
        });
        let title = format!("{}: offsets between CPUs", data.cores[0].source);
        blocks.push(Block::Detail(Box::new(Block::Section(title, lines.collect()))));
    }
    if !data.events.is_empty() {
        let lines =
            data.events.iter().map(|event| vec![Cell::faint(format!("{} s", event.at_s)), Cell::plain(&event.message)]);
        blocks.push(Block::Section("System events".to_owned(), lines.collect()));
    }
    blocks.push(Block::detail(synchronized(&data.synchronization)));
    blocks.push(Block::detail(provenance(data)));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks.push(Block::Headline(verdict(data)));
    blocks
}

/// Returns the first fault of each source, of the counters of each CPU, and of all sources together.
fn first_faults(data: &WatchSummaryDocument) -> Vec<(&str, &str)> {
    let of_sources = data.sources.iter().filter_map(|row| Some((row.source.as_str(), row.first_fault.as_deref()?)));
    let of_cores = data.cores.iter().filter_map(|cores| Some((cores.source.as_str(), cores.fault.as_deref()?)));
    let shared = data.shared_faults.first().map(|fault| ("all sources", fault.as_str()));
    of_sources.chain(of_cores).chain(shared).collect()
}

/// Returns the bounds of an offset, or `None` if they neither prove nor exclude an offset beyond the limit: each handover
/// was interrupted.
fn bounds(cores: &CpuOffset, limit_ns: f64) -> Option<(String, String)> {
    let says_nothing = cores.min_ns < -limit_ns && cores.max_ns > limit_ns;
    (!says_nothing).then(|| (signed_time(cores.min_ns), signed_time(cores.max_ns)))
}

/// Formats limits that contain the offsets between all compared CPUs.
fn between_cpus(data: &WatchSummaryDocument) -> Option<String> {
    let first = data.cores.first()?;
    let least = data.cores.iter().map(|cores| cores.min_ns).fold(f64::INFINITY, f64::min);
    let most = data.cores.iter().map(|cores| cores.max_ns).fold(f64::NEG_INFINITY, f64::max);
    let pairs = data.cores.len();
    let what = if pairs == 1 { "offset".to_owned() } else { format!("offsets of {pairs} pairs") };
    let all = CpuOffset { min_ns: least, max_ns: most, ..first.clone() };
    #[expect(clippy::cast_precision_loss, reason = "a limit")]
    let bounds = bounds(&all, data.limits.core_offset_ns as f64);
    Some(match bounds {
        Some((least, most)) => {
            format!("{} on different CPUs: the {what} cannot be below {least} or above {most} (bounds)", first.source)
        }
        None => format!(
            "{} on different CPUs: the {what} could not be bounded within {}, because the threads were interrupted",
            first.source,
            short_time(data.limits.core_offset_ns as f64)
        ),
    })
}

/// Formats the result in one sentence.
fn verdict(data: &WatchSummaryDocument) -> String {
    let during =
        format!("{} {}, {:.1} s", data.intervals, one_or_many(data.intervals, "interval", "intervals"), data.elapsed_s);
    match first_faults(data).first() {
        Some((source, fault)) => {
            let faults = fault_count(data.sources.iter(), &data.cores, &data.shared_faults);
            let one_of = if faults > 1 { format!(" (1 of {faults} faults)") } else { String::new() };
            format!("FAULT: {source}: {fault}{one_of}")
        }
        None if was_compared(data) => format!("OK: no faults in {during}"),
        None => "UNKNOWN: too few readings to compare; use a longer run time".to_owned(),
    }
}

/// Formats the largest frequency error of an interval, with its bound and its source.
fn largest_error(data: &WatchSummaryDocument) -> Option<String> {
    let of_row = |row: &WatchSummaryRow| {
        let both = [row.lowest_ppm.zip(row.lowest_bound_ppm), row.highest_ppm.zip(row.highest_bound_ppm)];
        let source = row.source.clone();
        both.into_iter().flatten().map(move |(ppm, bound)| (source.clone(), ppm, bound)).collect::<Vec<_>>()
    };
    let rates = data.sources.iter().flat_map(of_row).filter(|(_, _, bound)| *bound < NO_RATE_PPM);
    let largest = rates.max_by(|one, other| one.1.abs().total_cmp(&other.1.abs()));
    largest.map(|(source, ppm, bound)| format!("Largest frequency error: {source}, {ppm:+.3} ± {bound:.3} ppm"))
}

/// Formats the legend, the limits, and the conditions of the measurement.
fn provenance(data: &WatchSummaryDocument) -> String {
    let also = if data.limits.nominal_tolerance_added { " plus the uncertainty of the nominal frequency" } else { "" };
    #[expect(clippy::cast_precision_loss, reason = "limits are a second at most")]
    let (step, core_offset) = (short_time(data.limits.step_ns as f64), short_time(data.limits.core_offset_ns as f64));
    let cpu = pinned_to(data.cpu) + &cpu_absences::except(&data.cpu_absences);
    format!(
        "{} {} of readings in {:.1} s against {}. Accepted limits: frequency error {} ppm{also}, and another 1000 ppm for a clock that a daemon may slew; step {step}, offset between CPUs {core_offset}. \
         offset: change relative to the reference at the nominal frequency, since the last interruption. min ppm, max ppm: smallest and largest frequency error of an interval, each with its bound. {cpu}. {}",
        data.rounds,
        one_or_many(data.rounds, "round", "rounds"),
        data.elapsed_s,
        data.reference,
        data.limits.frequency_error_ppm,
        machine_line(&data.head.machine)
    )
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
pub(super) mod tests {
    use hpt_instrument::{
        diagnose::{Fault, FrequencyErrorLimits, Interval, Limits, SourceEvent, SourceOffset},
        measure::{CoreOffset, CpuPair},
    };

    use hpt_document::{
        SCHEMA,
        not_run::NotRun,
        watch::{
            CpuOffline, MachineEvent, MachineEventKind, Synchronization, WatchDocument, WatchLimits,
            WatchSummaryDocument,
        },
    };

    use super::{between_cpus, event_lines, lines, ppm, signed_time, summary_page};
    use crate::{
        golden,
        measurements::watch::totals::{SourceTotal, cores, row},
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

    /// Returns an interval with a fault, and its summary.
    #[expect(clippy::too_many_lines, reason = "one example with all fields")]
    pub(in crate::measurements::watch) fn seen() -> (WatchDocument, WatchSummaryDocument) {
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
            not_run: Some(NotRun { share: Some(0.0125), wall_s: 1.006, stolen_s: Some(0.0), ..NotRun::default() }),
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
        let text = lines(&data, &Limits::default(), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let document = Document::new(data, vec![Block::Text(text)]);
        golden::assert("watch", &Document { one_of_several: true, ..document });
    }

    #[test]
    fn the_rows_of_an_interval_are_aligned_on_a_narrow_terminal() {
        let (mut data, _) = seen();
        data.sources.iter_mut().for_each(|row| row.messages.clear());
        (data.cores, data.events) = (Vec::new(), Vec::new());
        assert_eq!(
            lines(&data, &Limits::default(), 40),
            "    time source        offset        ±\n   1.0 s tsc         -1.48 µs  63.5 ns\n   \
             1.0 s monotonic      11 ns  63.5 ns"
        );
    }

    #[test]
    fn bounds_that_contain_every_accepted_offset_are_not_printed() {
        let (mut data, mut summary) = seen();
        data.sources.clear();
        data.events.clear();
        for (min_ns, max_ns, shown) in [
            (-3.97e6, 3.1e6, "-"),
            (-120.0, 291.0, "-120 ns to 291 ns"),
            (-120.0, 3.1e6, "-120 ns to 3.1 ms"),
            (4_900.0, 3.1e6, "4.9 µs to 3.1 ms"),
        ] {
            for cores in [&mut data.cores[0], &mut summary.cores[0]] {
                (cores.min_ns, cores.max_ns, cores.fault) = (min_ns, max_ns, None);
            }
            for width in [40, 80] {
                let text = lines(&data, &Limits::default(), width);
                assert!(text.lines().any(|line| line.ends_with(&format!(" {shown}"))), "{shown}: {text}");
            }
            let text = between_cpus(&summary).expect("a pair");
            assert_eq!(text.contains("could not be bounded within 1 µs"), shown == "-", "{text}");
        }
    }

    #[test]
    fn only_faults_and_events_remain_above_a_redrawn_table() {
        let (data, _) = seen();
        let lines = event_lines(&data);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines[0].contains("tsc stepped") && lines[4].contains("suspended"), "{lines:#?}");
    }

    #[test]
    fn the_last_line_is_the_verdict() {
        let (_, mut data) = seen();
        let last = |data: &super::WatchSummaryDocument| match summary_page(data).pop() {
            Some(Block::Headline(text)) => text,
            other => format!("{other:?}"),
        };
        assert!(last(&data).starts_with("FAULT: tsc: after 1.006 s: "), "{}", last(&data));
        assert!(last(&data).ends_with("(1 of 2 faults)"), "{}", last(&data));
        data.cores.clear();
        data.sources.iter_mut().for_each(|row| (row.faults, row.first_fault) = (0, None));
        assert_eq!(last(&data), "OK: no faults in 1 interval, 1.0 s");
        data.sources.clear();
        assert!(last(&data).starts_with("UNKNOWN: too few readings"));
    }

    #[test]
    fn a_summary_is_printed_exactly() {
        let (_, data) = seen();
        let blocks = summary_page(&data);
        golden::assert("watch-summary", &Document { one_of_several: true, ..Document::new(data, blocks) });
    }

    #[test]
    fn time_differences_have_a_sign() {
        assert_eq!([-0.000_4, -0.000_6].map(ppm), ["0.000", "-0.001"]);
        assert_eq!(super::rate(Some(12.0), Some(174_921.0)), ("no rate".to_owned(), "-".to_owned()));
        assert_eq!(super::rate(Some(12.0), Some(3.0)), ("12.000".to_owned(), "3.000".to_owned()));
        assert_eq!((signed_time(-1_500.0), signed_time(63.5)), ("-1.5 µs".to_owned(), "63.5 ns".to_owned()));
    }
}
