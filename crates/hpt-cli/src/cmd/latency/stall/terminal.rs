//! The tables of `hpt latency stall`. Measures nothing.

use hpt_core::measure::Latencies;
use hpt_document::stall::{StallCounterRow, StallDocument};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, remarks, short_time},
    sampling::{
        cpu_absences, cpu_options::name_of, latency_figures::bars, realtime_settings::words_of_threads,
        result_files::ended_by,
    },
};

/// The maximum number of rows in the table of longest stalls and in the table of counters.
const SHOWN: usize = 10;

/// Returns the description of a cause for the table of causes.
fn cause_words(cause: &str) -> &'static str {
    match cause {
        "preempted" => "waited for the CPU: other threads ran, or a quota was exhausted",
        "stopped" => "stopped by a signal, a debugger or the cgroup freezer",
        "page-fault" => "waited for a page to be read from disk",
        "migrated" => "moved to another CPU",
        "steal" => "the hypervisor ran other guests (steal time)",
        "firmware" => "firmware (SMI)",
        "interrupts" => "interrupts that are more frequent than in windows without a stall",
        "usual-activity" => "only interrupts at their usual rate",
        "none" => "no counter increased: firmware, hypervisor or processor",
        _ => "no counter could be read",
    }
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub(super) fn page(data: &StallDocument, words: &[String], all: &Latencies) -> Vec<Block> {
    let time = |ns: Option<u64>| Cell::or_dash(ns.map(|ns| short_time(ns as f64)));
    let columns = ["CPU", "stalls", "above", "p50", "p99", "p99.9", "max", "time lost %", "blind %", "period"];
    let columns = columns.map(|name| Column(name, Align::Right)).to_vec();
    let rows = data.results.iter().map(|row| {
        let percent = |ns: u64| format!("{:.3}", ns as f64 / row.elapsed_ns.max(1) as f64 * 100.0);
        vec![
            Cell::plain(name_of(row.cpu)),
            Cell::plain(row.stalls.to_string()),
            time(Some(row.threshold_ns)),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.p999_ns),
            time(row.max_ns),
            Cell::plain(percent(row.stalled_ns)),
            Cell::plain(percent(row.sampling_ns)),
            time(row.period_ns),
        ]
    });
    let mut blocks = vec![Block::Table(Table { columns, rows: rows.collect() })];
    blocks.extend(bars(all, ("length", "stalls")));
    if !data.causes.is_empty() {
        let columns = vec![
            Column("stalls", Align::Right),
            Column("time lost", Align::Right),
            Column("likely cause, from the counters that increased", Align::Left),
        ];
        let rows = data.causes.iter().map(|row| {
            vec![Cell::plain(row.stalls.to_string()), time(Some(row.stalled_ns)), Cell::plain(cause_words(&row.cause))]
        });
        blocks.push(Block::Table(Table { columns, rows: rows.collect() }));
        blocks.push(Block::Table(longest(data, words)));
        blocks.extend(counters(data));
    }
    for row in data.results.iter().filter(|row| row.period_ns.is_some()) {
        let short = |ns: Option<u64>| short_time(ns.unwrap_or(0) as f64);
        let most = row.period_p10_ns.zip(row.period_p90_ns).map_or_else(String::new, |(p10_ns, p90_ns)| {
            format!(" (80 % of them after {} to {})", short(Some(p10_ns)), short(Some(p90_ns)))
        });
        blocks.push(Block::Text(format!(
            "Periodic stalls on CPU {}: the period is {}. {} of {} stalls were followed by another stall after about that time{most}.",
            name_of(row.cpu),
            short(row.period_ns),
            row.period_followed.unwrap_or(0),
            row.period_eligible.unwrap_or(0),
        )));
    }
    let cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    let thread = words_of_threads(&data.measuring.thread, &cpus) + &cpu_absences::except(&data.end.cpu_absences);
    let step = data.step_p90_ns.map_or_else(String::new, |ns| format!(", granularity {}", short_time(ns as f64)));
    let blind_ns = data.results.iter().map(|row| row.blind_below_ns).max().unwrap_or(0);
    blocks.push(Block::Text(format!(
        "CPU stalls: gaps in a loop that only reads {} (read overhead {}{step}), for {:.1} s from {}. {thread}. blind: share of the time during which hpt read kernel counters \
         instead of the time source; a stall during that time is detected only if it is longer than {}. {}",
        data.measuring.source,
        short_time(data.read_ns),
        data.time.elapsed_s,
        data.time.started_at,
        short_time(blind_ns as f64),
        machine_line(&data.head.machine)
    )));
    blocks.extend(ended_by(data.end.stopped_at_ns, "a stall exceeded the limit; it began"));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

/// Formats the longest stalls. `words` contains the likely cause of each stall.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn longest(data: &StallDocument, words: &[String]) -> Table {
    let columns = vec![
        Column("longest stalls at", Align::Left),
        Column("CPU", Align::Right),
        Column("length", Align::Right),
        Column("likely cause", Align::Left),
    ];
    let rows = data.longest.iter().zip(words).take(SHOWN).map(|(row, words)| {
        // The text below the table contains the date.
        let began = row.started_at.split_once('T').map_or(row.started_at.as_str(), |(_, time)| time);
        let about = if row.uncertainty_ns > 0 { "≤ " } else { "" };
        vec![
            Cell::plain(began),
            Cell::plain(name_of(row.cpu)),
            Cell::plain(format!("{about}{}", short_time(row.length_ns as f64))),
            Cell::plain(words),
        ]
    });
    Table { columns, rows: rows.collect() }
}

/// Formats the counters that increased, and the number of windows with and without stalls in which they increased.
fn counters(data: &StallDocument) -> Option<Block> {
    let columns = vec![
        Column("counter", Align::Left),
        Column("CPU", Align::Right),
        Column("in stall windows", Align::Right),
        Column("in others", Align::Right),
        Column("usual per s", Align::Right),
    ];
    let of = |row: &StallCounterRow| data.results.iter().find(|other| other.cpu == row.cpu);
    let shown = data.counters.iter().filter_map(|row| Some((row, of(row)?))).take(SHOWN);
    let rows = shown.map(|(row, of)| {
        let label = if row.label.is_empty() { "softirq" } else { &row.label };
        let name = format!("{} ({label})", row.name);
        let hz = Cell::or_dash(row.baseline_hz.map(|hz| format!("{hz:.1}")));
        vec![
            Cell::plain(name),
            Cell::plain(name_of(row.cpu)),
            Cell::plain(format!("{} of {}", row.windows_with_stall, of.windows_with_stall)),
            Cell::plain(format!("{} of {}", row.windows_without_stall, of.windows_without_stall)),
            hz,
        ]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Block::Table(Table { columns, rows }))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use hpt_core::{
        Frequency, Instant,
        diagnose::Cause,
        measure::{
            Counter, CounterDelta, CounterDeltas, CounterKind, Latencies, Stall, StallWatchStats, UnreadableFile,
            poll_cost,
        },
        testing::ManualSource,
    };

    use hpt_document::{
        latency::{LatencyRunEnd, LatencyRunTime, LatencyThread},
        stall::{StallDocument, StallRow},
    };

    use super::{cause_words, page};
    use crate::{
        cmd::latency::stall::{
            account::{Account, OnOtherCpus, ThreadOutcome, notes_of},
            document::{StallWithWords, cause_rows, chosen, counter_rows, row},
        },
        golden,
        output::Document,
        sampling::{cpu_absences, realtime_settings::tests::example},
    };

    const MS: u64 = 1_000_000;

    fn counters() -> Vec<Counter> {
        vec![
            Counter::new(CounterKind::Interrupt, "LOC", "Local timer interrupts"),
            Counter::new(CounterKind::Interrupt, "36", "virtio1-req.0"),
            Counter::new(CounterKind::SoftInterrupt, "BLOCK", ""),
        ]
    }

    fn counts(increases: &[(usize, u64)]) -> Vec<CounterDelta> {
        increases.iter().map(|&(counter, increase)| CounterDelta::new(counter, increase)).collect()
    }

    fn deltas(change: impl FnOnce(&mut CounterDeltas)) -> CounterDeltas {
        let mut deltas = CounterDeltas::default();
        (deltas.window_ns, deltas.voluntary, deltas.involuntary) = (20 * MS, Some(0), Some(0));
        (deltas.waited_ns, deltas.stolen_ns, deltas.counts) = (Some(0), Some(0), Some(counts(&[(0, 5)])));
        change(&mut deltas);
        deltas
    }

    fn stall(at_ms: u64, length_ns: u64) -> Stall {
        Stall::new(Instant::EPOCH + Duration::from_nanos(at_ms * MS), length_ns)
    }

    fn ended(cpu: Option<usize>, account: Account) -> ThreadOutcome {
        let source = ManualSource::new("by hand").stepping_by(30);
        let clock = ManualSource::new("clock").stepping_by(1_280);
        let mut watched = StallWatchStats::default();
        (watched.elapsed_ns, watched.sampling_ns, watched.samplings) = (10_000 * MS, 40 * MS, 500);
        (watched.longest_sampling_ns, watched.blind_below_ns) = (90_000, 250_000);
        ThreadOutcome {
            cpu,
            settings: example(),
            account,
            on_other_cpus: OnOtherCpus { is_now: false, ns: 500 * MS, stalls: u64::from(cpu == Some(1)) },
            absences: Vec::new(),
            watched,
            poll_cost: poll_cost(&source, Frequency::GIGAHERTZ, &clock),
            above_ns: 10_000,
            counters: counters(),
            unreadable: vec![UnreadableFile::new(
                "/proc/thread-self/schedstat",
                std::io::Error::from_raw_os_error(libc::ENOENT),
            )],
            counts_firmware: false,
        }
    }

    /// Two threads: one with stalls of every kind, one with periodic stalls.
    fn both() -> [ThreadOutcome; 2] {
        let mut account = Account::new();
        let mut quiet = |number: usize| {
            account.record(
                &[],
                &deltas(|deltas| deltas.counts = Some(counts(&[(0, 5), (2, 1)][..1 + number % 2]))),
                |_, _| {},
            );
        };
        (0..400).for_each(&mut quiet);
        let mut record = |stalls: &[Stall], deltas: &CounterDeltas| account.record(stalls, deltas, |_, _| {});
        record(
            &[stall(1_000, 2 * MS)],
            &deltas(|deltas| (deltas.waited_ns, deltas.involuntary) = (Some(2 * MS), Some(1))),
        );
        record(&[stall(1_103, 30 * MS)], &deltas(|deltas| deltas.voluntary = Some(1)));
        record(&[stall(1_207, 40_000)], &deltas(|deltas| deltas.counts = Some(counts(&[(0, 5), (1, 1), (2, 2)]))));
        record(&[stall(1_339, 12_000)], &deltas(|_| {}));
        record(&[stall(1_476, 90_000)], &deltas(|deltas| deltas.counts = Some(Vec::new())));
        record(&[stall(1_501, 15 * MS)], &deltas(|deltas| deltas.stolen_ns = Some(10 * MS)));
        record(&[stall(1_602, 20_000), stall(1_603, 21_000)], &deltas(|deltas| deltas.counts = None));
        let mut tick = Account::new();
        let often = deltas(|deltas| (deltas.window_ns, deltas.counts) = (4 * MS, Some(counts(&[(0, 1)]))));
        (0..50).for_each(|number| tick.record(&[stall(4 * number, 11_000 + number)], &often, |_, _| {}));
        [ended(Some(0), account), ended(Some(1), tick)]
    }

    #[test]
    fn a_run_is_printed_exactly() {
        let both = both();
        let mut all = Latencies::new();
        both.iter().for_each(|one| all.add(one.account.stalls.lengths()));
        let of_a_day = |rows: Vec<StallWithWords>| -> (Vec<StallRow>, Vec<String>) {
            // The example must not depend on the wall clock of this machine.
            let of_a_day = rows.into_iter().map(|(mut row, words)| {
                let at = SystemTime::UNIX_EPOCH + Duration::from_nanos(row.start_ns);
                row.started_at = humantime::format_rfc3339_micros(at).to_string();
                (row, words)
            });
            of_a_day.unzip()
        };
        let (longest, words) =
            of_a_day(chosen(&both, |one| one.stalls.longest().iter(), |row| std::cmp::Reverse(row.length_ns)));
        let (mut newest, _) = of_a_day(chosen(&both, |one| one.stalls.newest(), |row| std::cmp::Reverse(row.start_ns)));
        let data = StallDocument {
            head: golden::head("latency-stall"),
            measuring: LatencyThread { thread: example().thread, source: "tsc".to_owned() },
            read_ns: 20.0,
            step_p90_ns: Some(30),
            time: LatencyRunTime { started_at: "2001-09-09T01:46:40Z".to_owned(), elapsed_s: 10.0 },
            end: LatencyRunEnd {
                stopped_at_ns: Some(1_103 * MS),
                interrupted: true,
                cpu_absences: vec![cpu_absences::tests::example()],
            },
            results: both.iter().map(row).collect(),
            causes: cause_rows(&both),
            counters: both.iter().flat_map(counter_rows).collect(),
            longest,
            newest: newest.split_off(50),
            notes: [notes_of(&both, true), vec!["a note".to_owned()]].concat(),
        };
        let blocks = page(&data, &words, &all);
        golden::assert("latency-stall", &Document::new(data, blocks));
    }

    #[test]
    fn every_stall_is_counted_under_its_cause() {
        let both = both();
        let causes: Vec<_> = cause_rows(&both[..1]).iter().map(|row| (row.cause.clone(), row.stalls)).collect();
        let wanted = [
            ("unknown", 2),
            ("preempted", 1),
            ("stopped", 1),
            ("steal", 1),
            ("interrupts", 1),
            ("usual-activity", 1),
            ("none", 1),
        ];
        assert_eq!(causes, wanted.map(|(cause, stalls)| (cause.to_owned(), stalls)));
        assert_eq!(hpt_document::words::STALL_CAUSES[..], Cause::NAMES[..]);
        let words: Vec<_> = Cause::NAMES.iter().map(|name| cause_words(name)).collect();
        assert!(words.iter().enumerate().all(|(place, words_)| !words[..place].contains(words_)), "{words:?}");
        let counts: u64 = both.iter().map(row).map(|row| row.stalls).sum();
        assert_eq!(counts, cause_rows(&both).iter().map(|row| row.stalls).sum::<u64>());
    }
}
