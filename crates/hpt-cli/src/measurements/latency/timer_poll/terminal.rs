//! The tables of `hpt latency timer` and `hpt latency poll`.

use hpt_document::{
    latency::LatencyFigures,
    wake_latency::{MissedDeadlines, WaitMethod, WakeLatencyDocument},
};
use hpt_instrument::measure::Latencies;

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, one_or_many, remarks, short_percent, short_time},
    sampling::{
        conditions, cpu_absences,
        cpu_options::name_of,
        explain,
        gpio_pulse::drive_words,
        histogram,
        latency_figures::{cells, columns, figures, samples, words},
        limits::{self, verdict::MAX_LEGEND},
        not_run,
        realtime_settings::{policy_of, words_of_threads},
        result_files::ended_by,
    },
};

/// Returns the CPUs that were measured. If the run ended before its first deadline, no row contains the CPU. The
/// settings that the kernel reported contain it.
fn measured_cpus(data: &WakeLatencyDocument) -> Vec<usize> {
    let mut cpus: Vec<_> = data.results.iter().filter_map(|row| row.cpu).collect();
    if data.results.is_empty() {
        cpus.extend(Some(&data.measuring.thread.cpus).filter(|cpus| cpus.len() == 1).into_iter().flatten());
    }
    cpus
}

/// Returns the result in one sentence. The figures of several CPUs are combined, and the CPU with the maximum is named.
fn headline(data: &WakeLatencyDocument, all: &Latencies) -> String {
    let what = if data.wait_method == WaitMethod::Polling { "Polling latency" } else { "Wake-up latency" };
    let place = match measured_cpus(data).as_slice() {
        [] => "any CPU".to_owned(),
        [cpu] => format!("CPU {cpu}"),
        cpus => format!("{} CPUs", cpus.len()),
    };
    // Without samples, the settings of several CPUs do not tell whether the threads were pinned.
    let Some(figures) = figures(all) else {
        let is_known = data.measuring.thread.cpus.len() == 1;
        return if is_known { format!("{what}, {place}: no samples") } else { format!("{what}: no samples") };
    };
    let worst = data.results.iter().max_by_key(|row| row.figures.max_ns).and_then(|row| row.cpu);
    let worst = worst.filter(|_| data.results.len() > 1).map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let policy = policy_of(&data.measuring.thread).map_or_else(String::new, |policy| format!(", {policy}"));
    format!(
        "{what}, {place}{policy}, {}: {}{worst}, {}",
        samples(figures.samples),
        words(&figures),
        missed(data, &figures)
    )
}

/// States how many deadlines were missed, as a share of all deadlines.
#[expect(clippy::cast_precision_loss, reason = "a share for printing")]
fn missed(data: &WakeLatencyDocument, figures: &LatencyFigures) -> String {
    let is_left_out = data.missed_deadlines == MissedDeadlines::LeftOut;
    let all = figures.samples.saturating_add(if is_left_out { figures.missed } else { 0 });
    let share = short_percent(figures.missed as f64 / all.max(1) as f64);
    match figures.missed {
        0 => "no deadline missed".to_owned(),
        count if is_left_out => {
            format!("{count} missed {} ({share}) left out", one_or_many(count, "deadline", "deadlines"))
        }
        count => format!("{count} {} missed ({share})", one_or_many(count, "deadline", "deadlines")),
    }
}

pub(super) fn page(data: &WakeLatencyDocument, all: &Latencies) -> Vec<Block> {
    let columns = [vec![Column("CPU", Align::Right)], columns()].concat();
    let cells = |name: String, figures: &LatencyFigures| [vec![Cell::plain(name)], cells(figures)].concat();
    let mut rows: Vec<_> = data.results.iter().map(|row| cells(name_of(row.cpu), &row.figures)).collect();
    if data.results.len() > 1 {
        rows.extend(figures(all).map(|figures| cells("all".to_owned(), &figures)));
    }
    let mut blocks = vec![Block::Headline(headline(data, all))];
    blocks.extend(limits::table::blocks(&data.limits));
    if !rows.is_empty() {
        blocks.push(Block::Table(Table { columns, rows }.without_empty_columns()));
    }
    blocks.extend(explain::terminal::blocks(&data.explanation, ("wake-up", "wake-ups")));
    blocks.extend(histogram::of_latencies(all, ("latency", "samples")));
    blocks.push(Block::detail(provenance(data)));
    blocks.extend(conditions::details(&data.conditions));
    if let Some(line) = &data.pulse {
        let how = data.pulse_drive.map_or_else(String::new, |drive| format!(", {}", drive_words(drive)));
        blocks.push(Block::Text(format!("{line} was toggled at each deadline, directly after the clock read{how}.")));
    }
    blocks.extend(ended_by(data.end.stopped_at_ns, "a sample exceeded the limit; its deadline was"));
    blocks.extend(remarks(data.end.interrupted, &data.notes));
    blocks
}

/// Returns the legend and the origin of the figures.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn provenance(data: &WakeLatencyDocument) -> String {
    let how = match data.wait_method {
        WaitMethod::Polling => "Polling latency: a busy-polling thread detected deadlines",
        WaitMethod::Hpt => "Wake-up latency: hpt's Sleeper woke a thread for deadlines",
        WaitMethod::Kernel => "Wake-up latency: the kernel's timer woke a thread for deadlines",
    };
    let thread = words_of_threads(&data.measuring.thread, &measured_cpus(data))
        + &cpu_absences::except(&data.end.cpu_absences)
        + &not_run::words(data.results.iter().map(|row| (row.cpu, &row.not_run)));
    let wall = if data.at.is_some() { ", following the wall clock" } else { "" };
    let step = data
        .reads
        .clock_granularity_ns
        .map_or_else(String::new, |ns| format!(", granularity {}", short_time(ns as f64)));
    let counted = match data.missed_deadlines {
        MissedDeadlines::Counted => "each is a sample: the time from the deadline until the thread ran",
        MissedDeadlines::LeftOut => "they are no samples, as in cyclictest",
    };
    format!(
        "{how} at intervals of {}, for {:.1} s from {}{wall}. {thread}. missed: deadlines that had passed before the thread waited for them; {counted}. \
         A percentile is printed only if ten samples lie beyond it (-). {MAX_LEGEND}. \
         Clock: {}; read overhead {}{step}, included in every sample. {}",
        short_time(data.interval_ns as f64),
        data.time.elapsed_s,
        data.at.as_ref().unwrap_or(&data.time.started_at),
        data.measuring.source,
        short_time(data.reads.clock_read_ns as f64),
        machine_line(&data.head.machine)
    )
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        gpio_line::GpioDrive,
        latency::{ClockReads, LatencyRunEnd, LatencyRunTime, LatencyThread},
        not_run::NotRun,
        wake_latency::{MissedDeadlines, WaitMethod, WakeLatencyDocument},
    };
    use hpt_instrument::measure::Latencies;

    use super::page;
    use crate::{
        golden,
        measurements::latency::timer_poll::document::row,
        output::{
            Document,
            latency_files::{self, ThreadLatencies},
        },
        sampling::{
            conditions, cpu_absences, explain, late_deadlines::LateDeadlines, limits,
            realtime_settings::tests::example, time_series::TimeSeries,
        },
    };

    #[test]
    fn a_run_is_printed_exactly() {
        let threads = latency_files::counts::tests::threads();
        let mut all = Latencies::new();
        threads.iter().for_each(|thread| all.add(&thread.latencies));
        let mut time_series = TimeSeries::new();
        [(0, 500), (12_000_000, 25_000_000)]
            .into_iter()
            .for_each(|(at_ns, latency_ns)| time_series.record(LateDeadlines::one(at_ns, latency_ns)));
        let not_run = |cpu| NotRun {
            share: Some(if cpu == Some(1) { 0.0312 } else { 0.004 }),
            wall_s: 60.0,
            stolen_s: Some(0.0),
            ..NotRun::default()
        };
        let row = |thread: &ThreadLatencies| row(thread.cpu, (&thread.latencies, &time_series), not_run(thread.cpu));
        let data = WakeLatencyDocument {
            head: golden::head("latency-timer"),
            interval_ns: 1_000_000,
            at: None,
            wait_method: WaitMethod::Kernel,
            missed_deadlines: MissedDeadlines::Counted,
            pulse: Some("GPIO17 (gpiochip0:17)".to_owned()),
            pulse_drive: Some(GpioDrive::Registers),
            measuring: LatencyThread { thread: example().thread, source: "tsc".to_owned() },
            reads: ClockReads { clock_read_ns: 21, clock_granularity_ns: Some(10) },
            time: LatencyRunTime {
                started_at: "2001-09-09T01:46:40Z".to_owned(),
                elapsed_s: 60.0,
                warm_up_ns: 0,
                warm_up_samples: 0,
            },
            end: LatencyRunEnd {
                stopped_at_ns: Some(1_000_000_000),
                interrupted: true,
                cpu_absences: vec![cpu_absences::tests::example()],
            },
            conditions: conditions::tests::example(),
            limits: limits::table::tests::examples(),
            results: threads.iter().filter_map(row).collect(),
            explanation: explain::terminal::tests::example(),
            loaded: None,
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, &all);
        golden::assert("latency-timer", &Document::new(data, blocks));
    }
}
