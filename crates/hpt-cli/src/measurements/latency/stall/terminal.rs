//! The headline and the tables of `hpt latency stall`.

use std::ops::Range;

use hpt_document::{
    quantiles::StallList,
    stall::{StallCauseRow, StallCounterRow, StallDocument, StallThreadRow},
};
use hpt_instrument::measure::Latencies;

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, one_or_many, quantiles, remarks, short_time},
    sampling::{
        conditions, cpu_absences,
        cpu_options::name_of,
        explain, histogram, latency_figures,
        limits::{self, verdict::MAX_LEGEND},
        not_run,
        realtime_settings::words_of_threads,
        result_files::ended_by,
    },
};

/// The number of rows in the table of longest stalls: at first, and with the details.
const SHOWN: usize = 5;
const SHOWN_WITH_DETAILS: usize = 10;
/// The maximum number of rows in the table of counters.
const COUNTERS_SHOWN: usize = 10;

/// Returns whether the kernel counts for each thread how often its quota was used up.
fn counts_quota(data: &StallDocument) -> bool {
    data.results.iter().all(|row| row.not_run.throttled.is_some())
}

/// Returns the description of a cause for the table of causes.
fn cause_words(row: &StallCauseRow, counts_quota: bool) -> String {
    let interrupts =
        row.counter.as_ref().map_or_else(|| "interrupts".to_owned(), |name| format!("interrupts ({name})"));
    let words = match row.cause.as_str() {
        "preempted" if counts_quota => "waited for the CPU: other threads ran",
        "preempted" => "waited for the CPU: other threads ran, or a quota was exhausted",
        "quota" => "the CPU quota of the control group was used up",
        "stopped" => "stopped by a signal, a debugger or the cgroup freezer",
        "page-fault" => "waited for a page to be read from disk",
        "migrated" => "moved to another CPU",
        "steal" => "the hypervisor ran other guests (steal time)",
        "firmware" => "firmware (SMI)",
        "interrupts" => return format!("{interrupts}, more frequent than in windows without a stall"),
        "interrupts-uncompared" => return format!("{interrupts}; no window without a stall to compare with"),
        "usual-activity" => "only interrupts at their usual rate",
        "none" => "no counter increased: firmware, hypervisor or processor",
        _ => "no counter could be read",
    };
    words.to_owned()
}

/// Returns the name of a cause for the headline.
fn cause_name(row: &StallCauseRow, counts_quota: bool) -> String {
    let name = match row.cause.as_str() {
        "preempted" if counts_quota => "other threads",
        "preempted" => "other threads or a quota",
        "quota" => "the CPU quota of the control group",
        "stopped" => "a signal, a debugger or the cgroup freezer",
        "page-fault" => "page faults",
        "migrated" => "moves to another CPU",
        "steal" => "other guests of the hypervisor (steal time)",
        "firmware" => "firmware (SMI)",
        "interrupts" | "interrupts-uncompared" => {
            return row.counter.as_ref().map_or_else(|| "interrupts".to_owned(), |name| format!("interrupts ({name})"));
        }
        "usual-activity" => "not found, only interrupts at their usual rate",
        "none" => "not found, no counter increased (firmware, hypervisor or processor)",
        _ => "not found, no counter could be read",
    };
    name.to_owned()
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn percent(ns: u64, of_ns: u64) -> f64 {
    ns as f64 / of_ns.max(1) as f64 * 100.0
}

/// Formats a percentage with about three digits: `74 %`, `1.49 %`, `0.006 %`.
fn short_percent(percent: f64) -> String {
    let decimals = match percent {
        tiny if tiny > 0.0 && tiny < 0.0005 => return "< 0.001 %".to_owned(),
        large if large >= 10.0 => 0,
        medium if medium >= 1.0 => 2,
        _ => 3,
    };
    format!("{percent:.decimals$} %")
}

/// Returns the time that the CPUs lost, and the main cause. The figures of several CPUs are combined, and the CPU that
/// lost most is named.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn headline(data: &StallDocument, all: &Latencies) -> String {
    let rows = &data.results;
    let sum = |of: fn(&StallThreadRow) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let (stalled_ns, elapsed_ns, stalls) =
        (sum(|row| row.stalled_ns), sum(|row| row.elapsed_ns), sum(|row| row.stalls));
    let threshold_ns = rows.iter().map(|row| row.threshold_ns).max().unwrap_or(0);
    let seconds = rows.iter().map(|row| row.elapsed_ns).max().unwrap_or(0) as f64 / 1e9;
    let (place, each) = match rows.as_slice() {
        [row] => (row.cpu.map_or_else(|| "Any CPU".to_owned(), |cpu| format!("CPU {cpu}")), ""),
        rows => (format!("{} CPUs", rows.len()), " each"),
    };
    let above = format!("above {}", short_time(threshold_ns as f64));
    let Some(figures) = latency_figures::figures(all) else {
        let blind = short_percent(percent(sum(|row| row.sampling_ns), elapsed_ns));
        return format!("{place}: no stall {above} in {seconds:.1} s{each} (blind for {blind} of the time)");
    };
    let lost = |row: &StallThreadRow| percent(row.stalled_ns, row.elapsed_ns);
    let most = rows.iter().max_by(|one, other| lost(one).total_cmp(&lost(other))).filter(|_| rows.len() > 1);
    let most =
        most.map_or_else(String::new, |row| format!(" (CPU {}: {})", name_of(row.cpu), short_percent(lost(row))));
    let longest_on = rows.iter().max_by_key(|row| row.max_ns).filter(|_| rows.len() > 1);
    let longest_on = longest_on.map_or_else(String::new, |row| format!(" on CPU {}", name_of(row.cpu)));
    let figures = latency_figures::words(&figures);
    let cause = data.causes.first().map_or_else(String::new, |row| {
        format!(
            ". Main cause: {}, {} {}, {} of the lost time",
            cause_name(row, counts_quota(data)),
            row.stalls,
            one_or_many(row.stalls, "stall", "stalls"),
            short_percent(percent(row.stalled_ns, stalled_ns))
        )
    });
    format!(
        "{place} lost {} of {seconds:.1} s{each}{most} in {stalls} {} {above}: {figures}{longest_on}{cause}",
        short_percent(percent(stalled_ns, elapsed_ns)),
        one_or_many(stalls, "stall", "stalls"),
    )
}

pub(super) fn page(data: &StallDocument, words: &[String], all: &Latencies) -> Vec<Block> {
    let mut blocks = vec![Block::Headline(headline(data, all))];
    blocks.extend(limits::table::blocks(&data.limits));
    blocks.push(Block::Table(threads(data)));
    if !data.causes.is_empty() {
        blocks.push(Block::Table(causes(data)));
        blocks.push(Block::Table(longest(data, words, "longest stalls at", 0..SHOWN)));
        let others = longest(data, words, "next longest at", SHOWN..SHOWN_WITH_DETAILS);
        blocks.push(Block::Detail(Box::new(Block::Table(others))));
    }
    blocks.extend(explain::terminal::blocks(&data.explanation, ("stall", "stalls")));
    blocks.extend(histogram::of_latencies(all, ("length", "stalls")));
    blocks.extend(counters(data).map(|counters| Block::Detail(Box::new(counters))));
    blocks.extend(periods(data).into_iter().map(Block::detail));
    blocks.push(Block::detail(provenance(data)));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(ended_by(data.end.stopped_at_ns, "a stall exceeded the limit; it began"));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn time(ns: Option<u64>) -> Cell {
    Cell::or_dash(ns.map(|ns| short_time(ns as f64)))
}

fn threads(data: &StallDocument) -> Table {
    let named = |name| Column(name, Align::Right);
    let head = ["CPU", "stalls", "above"].map(named).into_iter();
    let last = ["max", "time lost %", "blind %", "period"].map(named);
    let columns = head.chain(quantiles::columns::<StallList>()).chain(last).collect();
    let rows = data.results.iter().map(|row| {
        let head = [Cell::plain(name_of(row.cpu)), Cell::plain(row.stalls.to_string()), time(Some(row.threshold_ns))];
        let last = [
            time(row.max_ns),
            Cell::plain(format!("{:.3}", percent(row.stalled_ns, row.elapsed_ns))),
            Cell::plain(format!("{:.3}", percent(row.sampling_ns, row.elapsed_ns))),
            time(row.period_ns),
        ];
        head.into_iter().chain(quantiles::cells(&row.quantiles)).chain(last).collect()
    });
    Table { columns, rows: rows.collect() }.without_empty_columns()
}

fn causes(data: &StallDocument) -> Table {
    let columns = vec![
        Column("time lost", Align::Right),
        Column("stalls", Align::Right),
        Column("likely cause, from the counters that increased", Align::Left),
    ];
    let rows = data.causes.iter().map(|row| {
        vec![
            time(Some(row.stalled_ns)),
            Cell::plain(row.stalls.to_string()),
            Cell::plain(cause_words(row, counts_quota(data))),
        ]
    });
    Table { columns, rows: rows.collect() }
}

/// Describes the periods of periodic stalls.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn periods(data: &StallDocument) -> Vec<String> {
    let short = |ns: Option<u64>| short_time(ns.unwrap_or(0) as f64);
    let periodic = data.results.iter().filter(|row| row.period_ns.is_some()).map(|row| {
        let most = row.period_p10_ns.zip(row.period_p90_ns).map_or_else(String::new, |(p10_ns, p90_ns)| {
            format!(" (80 % of them after {} to {})", short(Some(p10_ns)), short(Some(p90_ns)))
        });
        format!(
            "Periodic stalls on CPU {}: the period is {}. {} of {} stalls were followed by another stall after about that time{most}.",
            name_of(row.cpu),
            short(row.period_ns),
            row.period_followed.unwrap_or(0),
            row.period_eligible.unwrap_or(0),
        )
    });
    periodic.collect()
}

/// Returns the legend and the origin of the figures.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn provenance(data: &StallDocument) -> String {
    let cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    let thread = words_of_threads(&data.measuring.thread, &cpus)
        + &cpu_absences::except(&data.end.cpu_absences)
        + &not_run::words(data.results.iter().map(|row| (row.cpu, &row.not_run)));
    let step = data.step_p90_ns.map_or_else(String::new, |ns| format!(", granularity {}", short_time(ns as f64)));
    let blind_ns = data.results.iter().map(|row| row.blind_below_ns).max().unwrap_or(0);
    format!(
        "CPU stalls: gaps in a loop that only reads {} (read overhead {}{step}), for {:.1} s from {}. {thread}. blind: share of the time during which hpt read kernel counters \
         instead of the time source; a stall during that time is detected only if it is longer than {}. A percentile is printed only if ten samples lie beyond it (-). {MAX_LEGEND}. {}",
        data.measuring.source,
        short_time(data.read_ns),
        data.time.elapsed_s,
        data.time.started_at,
        short_time(blind_ns as f64),
        machine_line(&data.head.machine)
    )
}

/// Formats the longest stalls in these places of the list. `words` contains the likely cause of each stall.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn longest(data: &StallDocument, words: &[String], title: &'static str, places: Range<usize>) -> Table {
    let columns = [
        Column(title, Align::Left),
        Column("CPU", Align::Right),
        Column("length", Align::Right),
        Column("likely cause", Align::Left),
    ];
    // The headline names the CPU if there is only one.
    let names_cpu = data.results.len() > 1;
    let kept = |place: usize| names_cpu || place != 1;
    let rows = data.longest.iter().zip(words).skip(places.start).take(places.len()).map(|(row, words)| {
        let about = if row.uncertainty_ns > 0 { "≤ " } else { "" };
        let cells = [
            Cell::plain(time_of_day(&row.started_at)),
            Cell::plain(name_of(row.cpu)),
            Cell::plain(format!("{about}{}", short_time(row.length_ns as f64))),
            Cell::plain(words),
        ];
        (0..).zip(cells).filter(|(place, _)| kept(*place)).map(|(_, cell)| cell).collect()
    });
    let columns = (0..).zip(columns).filter(|(place, _)| kept(*place)).map(|(_, column)| column).collect();
    Table { columns, rows: rows.collect() }
}

/// Returns the time of day, in UTC and to the millisecond. The details contain the date.
fn time_of_day(started_at: &str) -> &str {
    let time = started_at.split_once('T').map_or(started_at, |(_, time)| time);
    let time = time.trim_end_matches('Z');
    let end = time.find('.').map_or(time.len(), |point| point + 4);
    time.get(..end).unwrap_or(time)
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
    let shown = data.counters.iter().filter_map(|row| Some((row, of(row)?))).take(COUNTERS_SHOWN);
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

    use hpt_core::{Frequency, Instant, testing::ManualSource};
    use hpt_instrument::{
        diagnose::Cause,
        measure::{
            Counter, CounterDelta, CounterDeltas, CounterKind, Latencies, Stall, StallWatchStats, UnreadableFile,
            poll_cost,
        },
    };

    use hpt_document::{
        latency::{LatencyRunEnd, LatencyRunTime, LatencyThread},
        not_run::NotRun,
        stall::{StallCauseRow, StallDocument, StallRow},
    };

    use super::{cause_name, cause_words, headline, longest, page, short_percent, time_of_day};
    use crate::{
        golden,
        measurements::latency::stall::{
            account::{Account, OnOtherCpus, ThreadOutcome, notes_of},
            document::{StallWithWords, cause_rows, chosen, counter_rows, row},
        },
        output::Document,
        sampling::{conditions, cpu_absences, explain, realtime_settings::tests::example},
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
        let source = ManualSource::new("by hand").with_step(30);
        let clock = ManualSource::new("clock").with_step(1_280);
        let mut watched = StallWatchStats::default();
        (watched.elapsed_ns, watched.sampling_ns, watched.samplings) = (10_000 * MS, 40 * MS, 500);
        (watched.longest_sampling_ns, watched.blind_below_ns) = (90_000, 250_000);
        ThreadOutcome {
            cpu,
            settings: example(),
            account,
            on_other_cpus: OnOtherCpus { is_now: false, ns: 500 * MS, stalls: u64::from(cpu == Some(1)) },
            absences: Vec::new(),
            not_run: NotRun { share: Some(0.0051), wall_s: 10.0, stolen_s: Some(0.01), ..NotRun::default() },
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

    fn document(both: &[ThreadOutcome], longest: Vec<StallRow>, newest: Vec<StallRow>) -> StallDocument {
        StallDocument {
            head: golden::head("latency-stall"),
            measuring: LatencyThread { thread: example().thread, source: "tsc".to_owned() },
            read_ns: 20.0,
            step_p90_ns: Some(30),
            time: LatencyRunTime {
                started_at: "2001-09-09T01:46:40Z".to_owned(),
                elapsed_s: 10.0,
                warm_up_ns: 0,
                warm_up_samples: 0,
            },
            end: LatencyRunEnd {
                stopped_at_ns: Some(1_103 * MS),
                interrupted: true,
                cpu_absences: vec![cpu_absences::tests::example()],
            },
            conditions: conditions::tests::example(),
            explanation: explain::terminal::tests::example(),
            limits: Vec::new(),
            results: both.iter().map(row).collect(),
            causes: cause_rows(both),
            counters: both.iter().flat_map(counter_rows).collect(),
            longest,
            newest,
            loaded: None,
            notes: [notes_of(both, true), vec!["a note".to_owned()]].concat(),
        }
    }

    fn lengths(of: &[ThreadOutcome]) -> Latencies {
        let mut all = Latencies::new();
        of.iter().for_each(|one| all.add(one.account.stalls.lengths()));
        all
    }

    #[test]
    fn the_headline_is_the_verdict() {
        let both = both();
        let of = |ended: &[ThreadOutcome]| headline(&document(ended, Vec::new(), Vec::new()), &lengths(ended));
        assert_eq!(
            of(&both[1..]),
            "CPU 1 lost 0.006 % of 9.5 s in 50 stalls above 10 µs: p50 11 µs, max 11 µs. Main cause: interrupts (LOC), \
             50 stalls, 100 % of the lost time"
        );
        assert_eq!(
            of(&both),
            "2 CPUs lost 0.251 % of 9.5 s each (CPU 0: 0.497 %) in 58 stalls above 10 µs: p50 11 µs, max 30 ms on CPU \
             0. Main cause: a signal, a debugger or the cgroup freezer, 1 stall, 63 % of the lost time"
        );
        let quiet = ended(Some(3), Account::new());
        assert_eq!(of(&[quiet]), "CPU 3: no stall above 10 µs in 9.5 s (blind for 0.421 % of the time)");
    }

    #[test]
    fn a_list_of_stalls_names_the_cpu_only_if_there_are_several() {
        let columns = |ended: &[ThreadOutcome]| {
            let data = document(ended, Vec::new(), Vec::new());
            longest(&data, &[], "at", 0..5).columns.iter().map(|column| column.0).collect::<Vec<_>>()
        };
        assert_eq!(columns(&both()), ["at", "CPU", "length", "likely cause"]);
        assert_eq!(columns(&both()[1..]), ["at", "length", "likely cause"]);
    }

    #[test]
    fn the_time_of_a_stall_is_printed_to_the_millisecond() {
        let times = ["2001-09-09T01:46:40.123456Z", "2001-09-09T01:46:40Z", ""].map(time_of_day);
        assert_eq!(times, ["01:46:40.123", "01:46:40", ""]);
    }

    #[test]
    fn a_percentage_has_about_three_digits() {
        assert_eq!(
            [74.26, 1.488, 0.0063, 0.0004, 0.0].map(short_percent),
            ["74 %", "1.49 %", "0.006 %", "< 0.001 %", "0.000 %"]
        );
    }

    #[test]
    fn interrupts_are_compared_only_with_windows_without_a_stall() {
        let both = both();
        let causes = |ended: &[ThreadOutcome]| {
            let rows = cause_rows(ended).into_iter().filter(|row| row.counter.is_some());
            rows.map(|row| (row.cause.clone(), cause_words(&row, false))).collect::<Vec<_>>()
        };
        let expected = |cause: &str, words: &str| vec![(cause.to_owned(), words.to_owned())];
        assert_eq!(
            causes(&both[..1]),
            expected("interrupts", "interrupts (36), more frequent than in windows without a stall")
        );
        assert_eq!(
            causes(&both[1..]),
            expected("interrupts-uncompared", "interrupts (LOC); no window without a stall to compare with")
        );
    }

    #[test]
    fn a_run_is_printed_exactly() {
        let both = both();
        let all = lengths(&both);
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
        let data = document(&both, longest, newest.split_off(50));
        let blocks = page(&data, &words, &all);
        golden::assert("latency-stall", &Document::new(data, blocks));
    }

    #[test]
    fn every_stall_is_counted_under_its_cause() {
        let both = both();
        let causes: Vec<_> = cause_rows(&both[..1]).iter().map(|row| (row.cause.clone(), row.stalls)).collect();
        let wanted = [
            ("stopped", 1),
            ("steal", 1),
            ("preempted", 1),
            ("none", 1),
            ("unknown", 2),
            ("interrupts", 1),
            ("usual-activity", 1),
        ];
        assert_eq!(causes, wanted.map(|(cause, stalls)| (cause.to_owned(), stalls)));
        let rows =
            Cause::NAMES.map(|name| StallCauseRow { cause: name.to_owned(), counter: None, stalls: 1, stalled_ns: 1 });
        let words: Vec<_> = rows.iter().map(|row| cause_words(row, false)).collect();
        assert!(words.iter().enumerate().all(|(place, words_)| !words[..place].contains(words_)), "{words:?}");
        assert!(rows.iter().all(|row| !cause_name(row, true).is_empty()));
        let counts: u64 = both.iter().map(row).map(|row| row.stalls).sum();
        assert_eq!(counts, cause_rows(&both).iter().map(|row| row.stalls).sum::<u64>());
    }
}
