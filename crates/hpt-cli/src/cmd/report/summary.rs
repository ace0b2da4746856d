//! The top of a report: the verdict in a few sentences, the key figures, and the conditions of the measurement.

use hpt_document::{
    doctor::{DoctorDocument, DoctorVerdict, Severity},
    probe::ProbeDocument,
    report::ReportConditions,
    stall::StallDocument,
    wake_latency::{WakeLatencyDocument, WakeLatencyRow},
};

use super::data_file::Report;
use crate::output::{chart::Unreadable, one_or_many, short_time};

/// The load per CPU from which other programs are likely to have delayed the measurement.
const BUSY: f64 = 0.5;
/// The share of time without a CPU from which the figures are those of a busy machine.
const NOT_RUN: f64 = 0.02;
/// The maximum number of problems that the verdict names.
const MOST_NAMED: usize = 3;

#[expect(clippy::cast_precision_loss, reason = "for display")]
pub(super) fn time(ns: u64) -> String {
    short_time(ns as f64)
}

/// Formats a wall-clock time, for example `22 Nov 2026, 20:19 UTC`, without a place for a line break.
pub(super) fn date(rfc3339: &str) -> String {
    let text = rfc3339.parse::<jiff::Timestamp>().map(|time| time.strftime("%-d %b %Y, %H:%M UTC").to_string());
    text.unwrap_or_else(|_| rfc3339.to_owned()).replace(' ', "\u{a0}")
}

/// Returns the thread with the highest latency.
pub(super) fn worst(document: &WakeLatencyDocument) -> Option<&WakeLatencyRow> {
    document.results.iter().max_by_key(|row| row.figures.max_ns)
}

/// Returns the highest p99 of all threads, if every thread has one.
pub(super) fn highest_p99(document: &WakeLatencyDocument) -> Option<u64> {
    let all: Option<Vec<u64>> = document.results.iter().map(|row| row.figures.quantiles.p99()).collect();
    all?.into_iter().max()
}

/// Returns the highest median of all threads.
pub(super) fn highest_p50(document: &WakeLatencyDocument) -> u64 {
    document.results.iter().filter_map(|row| row.figures.quantiles.median()).max().unwrap_or(0)
}

/// Names a quantile of a document: with several CPUs, it is the highest of all of them.
fn of_cpus(quantile: &str, document: &WakeLatencyDocument) -> String {
    match document.results.len() {
        0 | 1 => quantile.to_owned(),
        cpus => format!(
            "{} of {cpus} CPUs",
            quantile
                .strip_prefix("the ")
                .map_or_else(|| format!("highest {quantile}"), |name| format!("the highest {name}"))
        ),
    }
}

/// Returns the result in a few sentences: the worst latency, the problems, and whether the machine was busy.
pub(super) fn verdict(report: &Report) -> Result<String, Unreadable> {
    let mut sentences = Vec::new();
    let kernel = report.document::<WakeLatencyDocument>("timer")?;
    let hpt = report.document::<WakeLatencyDocument>("timer-hpt")?;
    if let Some((document, row)) = kernel.as_ref().and_then(|document| Some((document, worst(document)?))) {
        let cpus = document.results.len();
        let cpu = row.cpu.filter(|_| cpus > 1).map_or_else(String::new, |cpu| format!(" (CPU {cpu} of {cpus})"));
        let p99 = highest_p99(document).map_or_else(String::new, |ns| format!("; 99 % within {}", time(ns)));
        let max = time(row.figures.max_ns);
        sentences.push(format!("The worst wake-up by the kernel's timer was {max} late{cpu}{p99}."));
    }
    if let Some((document, row)) = hpt.as_ref().and_then(|document| Some((document, worst(document)?))) {
        let (max, p50) = (time(row.figures.max_ns), time(highest_p50(document)));
        let highest = of_cpus("the median", document);
        sentences.push(format!("With hpt's Sleeper, the worst was {max}, {highest} {p50}."));
    }
    if let Some(doctor) = report.document::<DoctorDocument>("doctor")? {
        sentences.push(problems(&doctor));
    }
    let poll = report.document::<WakeLatencyDocument>("poll")?;
    let stall = report.document::<StallDocument>("stall")?;
    let wakes = [&kernel, &hpt, &poll].into_iter().flatten().flat_map(|document| &document.results);
    let stalls = stall.iter().flat_map(|document| &document.results);
    let share = wakes.map(|row| &row.not_run).chain(stalls.map(|row| &row.not_run)).filter_map(|not_run| not_run.share);
    // It takes back what the other sentences state about the machine.
    let busy = busy(report.0.conditions.as_ref(), share.fold(0.0, f64::max));
    let mut sentences: Vec<String> = busy.into_iter().chain(sentences).collect();
    if report.0.interrupted {
        sentences.push("The report ended early.".to_owned());
    }
    Ok(sentences.join(" "))
}

/// Names the problems that `hpt doctor` found.
fn problems(doctor: &DoctorDocument) -> String {
    let of = |severity| {
        let found = doctor
            .rules
            .iter()
            .filter(move |rule| rule.verdict == DoctorVerdict::Problem && rule.severity == Some(severity));
        found.map(|rule| rule.title.as_str()).collect::<Vec<_>>()
    };
    let (high, low) = (of(Severity::High), of(Severity::Low));
    let (named, kind) = match (high.is_empty(), low.is_empty()) {
        (false, _) => (&high, "high"),
        (true, false) => (&low, "low"),
        (true, true) => return "hpt doctor found no problem.".to_owned(),
    };
    let more =
        if named.len() > MOST_NAMED { format!(", and {} more", named.len() - MOST_NAMED) } else { String::new() };
    let list = named.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join("; ");
    let count = named.len();
    format!("{count} {} of {kind} severity: {list}{more}.", one_or_many(count, "problem", "problems"))
}

/// Returns a warning if other programs used the CPUs during the measurement.
#[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
fn busy(conditions: Option<&ReportConditions>, share: f64) -> Option<String> {
    let load = conditions.and_then(|it| Some((it.load_before?, it.cpus?)));
    let loaded = load.filter(|(load, cpus)| *load >= BUSY * *cpus as f64);
    let seen = match (loaded, share > NOT_RUN) {
        (None, false) => return None,
        (Some((load, cpus)), false) => {
            format!("the load average was {load} on {cpus} {}", one_or_many(cpus, "CPU", "CPUs"))
        }
        (None, true) => format!("a measuring thread waited for its CPU for {:.0} % of the time", share * 100.0),
        (Some((load, cpus)), true) => format!(
            "the load average was {load} on {cpus} {}, and a measuring thread waited for its CPU for {:.0} % of the time",
            one_or_many(cpus, "CPU", "CPUs"),
            share * 100.0
        ),
    };
    Some(format!("The machine was busy: {seen}. Repeat the report on an idle machine to judge the machine itself."))
}

/// Returns the most important values, each with a name and a description.
pub(super) fn first(report: &Report) -> Result<Vec<(String, String, String)>, Unreadable> {
    let mut first = Vec::new();
    for (part, name) in [("timer", "Worst wake-up, kernel timer"), ("timer-hpt", "Worst wake-up, hpt's Sleeper")] {
        let document = report.document::<WakeLatencyDocument>(part)?;
        if let Some((document, row)) = document.as_ref().and_then(|document| Some((document, worst(document)?))) {
            let p50 = highest_p50(document);
            // If there are few samples, there is no p99.
            let p99 = highest_p99(document);
            let p99 = p99.map_or_else(String::new, |ns| format!("{} {}, ", of_cpus("p99", document), time(ns)));
            let says = format!("{p99}{} {}", of_cpus("p50", document), time(p50));
            first.push((name.to_owned(), time(row.figures.max_ns), says));
        }
    }
    let stall = report.document::<StallDocument>("stall")?;
    let worst = stall.iter().flat_map(|stall| &stall.results).max_by_key(|row| row.max_ns);
    if let Some((row, max_ns)) = worst.and_then(|row| Some((row, row.max_ns?))) {
        #[expect(clippy::cast_precision_loss, reason = "for display")]
        let lost = row.stalled_ns as f64 / row.elapsed_ns.max(1) as f64 * 100.0;
        first.push(("Longest CPU stall".to_owned(), time(max_ns), format!("{lost:.2} % of the time lost to stalls")));
    }
    let fastest = report.document::<ProbeDocument>("probe")?.and_then(|probe| {
        let source = probe.recommendation.source?;
        let cost = probe.sources.iter().find(|row| row.id == source)?.read_cost_ns?;
        Some((source, cost))
    });
    if let Some((source, cost)) = fastest {
        first.push(("Fastest suitable source".to_owned(), short_time(cost), format!("per read of {source}")));
    }
    if let Some(doctor) = report.document::<DoctorDocument>("doctor")? {
        let found = doctor.high.saturating_add(doctor.low);
        first.push((
            "Problems found".to_owned(),
            found.to_string(),
            format!("{} high, {} low severity", doctor.high, doctor.low),
        ));
    }
    Ok(first)
}

/// Returns the settings and the load, each with a name.
pub(super) fn conditions(report: &Report) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), |load| load.to_string());
    if let Some(it) = &report.0.conditions {
        let isolated = match it.isolated_cpus.as_deref() {
            None => String::new(),
            Some("") => ", none isolated".to_owned(),
            Some(list) => format!(", isolated: {list}"),
        };
        fact("CPUs", it.cpus.map_or_else(|| "unknown".to_owned(), |cpus| format!("{cpus}{isolated}")));
        fact("Governor", if it.governors.is_empty() { "none".to_owned() } else { it.governors.join(", ") });
        fact("Preemption", it.preemption.clone());
        fact("Load average, before → after", format!("{} → {}", load(it.load_before), load(it.load_after)));
    }
    fact("Clocksource", report.0.machine.clocksource.clone().unwrap_or_else(|| "unknown".to_owned()));
    fact("Measured", date(&report.0.started_at));
    facts
}

#[cfg(test)]
mod tests {
    use hpt_document::report::ReportConditions;

    use super::{busy, date};

    #[test]
    fn a_date_is_short_and_never_broken() {
        assert_eq!(date("2026-11-22T20:19:48Z"), "22\u{a0}Nov\u{a0}2026,\u{a0}20:19\u{a0}UTC");
        assert_eq!(date("some day"), "some\u{a0}day");
    }

    #[test]
    fn a_busy_machine_is_mentioned() {
        let on = |load| ReportConditions { cpus: Some(2), load_before: load, ..ReportConditions::default() };
        assert_eq!(busy(Some(&on(Some(0.2))), 0.0), None);
        assert_eq!(busy(None, 0.01), None);
        let loaded = busy(Some(&on(Some(5.6))), 0.0).expect("it is busy");
        assert!(loaded.contains("the load average was 5.6 on 2 CPUs"), "{loaded}");
        let waited = busy(Some(&on(None)), 0.25).expect("it is busy");
        assert!(waited.contains("25 % of the time") && !waited.contains("load"), "{waited}");
    }
}
