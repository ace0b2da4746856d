//! The HTML page of a report: the order of its sections, and its charts.

use std::time::Duration;

use hpt_document::{
    Document,
    doctor::{DoctorDocument, DoctorVerdict, Severity},
    probe::ProbeDocument,
    report::{ReportDocument, ReportPartState},
    sleep::SleepDocument,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
};
use hpt_sys::host::Cpu;

use super::{
    data_file::{Report, words},
    summary,
};
use crate::output::{
    chart::{self, TitledChart, Unreadable, Width},
    html::{Finding, HtmlFigure, HtmlTable, Page, Piece, Section},
    one_or_many, short_time,
};

/// A page and its charts. Each chart consists of a file name and the content of the file.
pub(super) struct RenderedPage {
    pub(super) page: Page,
    pub(super) charts: Vec<(String, String)>,
}

/// The parts in the wake-up charts, with the names of their curves.
pub(super) const WAKES: [(&str, &str); 3] =
    [("timer", "kernel's timer"), ("timer-hpt", "hpt's Sleeper"), ("poll", "polling")];

pub(super) fn page(report: &Report) -> Result<RenderedPage, Unreadable> {
    // The top of the page describes the machine, so the captions do not.
    let machine_of_page = chart::on_machine(&report.0.machine, &report.0.hpt);
    let mut gallery = Gallery { machine: Some(machine_of_page), ..Gallery::default() };
    let mut sections = Vec::new();
    // What the reader looks for comes first: the charts, then the findings, then how it was measured.
    sections.extend(wakes(report, &mut gallery)?);
    if let Some(document) = report.document::<StallDocument>("stall")? {
        let mut pieces = gallery.show(chart::distribution(&[("", (&document).into())]))?;
        if pieces.is_empty() {
            pieces.push(Piece::Text("No stall exceeded the limit.".to_owned()));
            pieces.push(Piece::Provenance(chart::about(&(&document).into(), &report.command("stall"))));
        }
        pieces.extend(gallery.show(chart::timeline(&document.explanation, &(&document).into(), ("", "stalls")))?);
        sections.push(Section { id: "stalls", title: "CPU stalls".to_owned(), pieces });
    }
    if let Some(document) = report.document::<SleepDocument>("sleep")? {
        let mut pieces = gallery.show(chart::sleeps(&document))?;
        pieces.extend(gallery.show(chart::timeline(&document.explanation, &(&document).into(), ("", "sleeps")))?);
        sections.push(Section { id: "sleeps", title: "Sleep overshoot".to_owned(), pieces });
    }
    if let Some(document) = report.document("sleep-curve")? {
        let pieces = gallery.show(chart::sleep_curve(&document))?;
        sections.push(Section { id: "sleep-curve", title: "Sleeps: overshoot against CPU time".to_owned(), pieces });
    }
    if let Some(document) = report.document("bench")? {
        let pieces = gallery.show(chart::cost(&document))?;
        sections.push(Section { id: "cost", title: "Read overhead".to_owned(), pieces });
    }
    if let Some(document) = report.document("watch")? {
        let pieces = gallery.show(chart::offsets(&document))?;
        sections.push(Section { id: "offsets", title: "Clock drift".to_owned(), pieces });
    }
    sections.extend(report.document("doctor")?.map(findings));
    sections.extend(report.document("probe")?.as_ref().map(sources));
    if let Some(document) = report.document("experiment")? {
        let mut pieces = Vec::new();
        for one in chart::experiments(&document).into_iter().chain(chart::samples_of(&document)) {
            pieces.extend(gallery.show(Ok(one))?);
        }
        sections.push(Section { id: "published", title: "Published and measured results".to_owned(), pieces });
    }
    sections.push(machine(&report.0));
    sections.push(made(&report.0));
    sections.retain(|section| !section.pieces.is_empty());
    for piece in sections.iter_mut().flat_map(|section| &mut section.pieces) {
        if let Piece::Provenance(text) = piece {
            *text = gallery.without_machine(text);
        }
    }
    let page = Page {
        title: report.title(),
        verdict: summary::verdict(report)?,
        lead: report.lead(),
        conditions: summary::conditions(report),
        first: summary::first(report)?,
        sections,
        style: chart::style(),
    };
    Ok(RenderedPage { page, charts: gallery.files })
}

/// The charts of the page.
#[derive(Default)]
pub(super) struct Gallery {
    pub(super) files: Vec<(String, String)>,
    /// The description of the machine that the page states once, so that the captions omit it.
    machine: Option<String>,
}

impl Gallery {
    /// Returns a caption without the description of the machine.
    fn without_machine(&self, caption: &str) -> String {
        let Some(machine) = &self.machine else { return caption.to_owned() };
        caption.replace(&format!("{}{machine}", chart::SEPARATOR), "")
    }

    /// Returns the chart for the page, or nothing if there are too few measurements to draw it.
    pub(super) fn show(&mut self, chart: Result<TitledChart, Unreadable>) -> Result<Vec<Piece>, Unreadable> {
        let chart = match chart {
            Err(Unreadable::Nothing) => return Ok(Vec::new()),
            other => other?,
        };
        let id = format!("chart-{}", self.files.len() + 1);
        self.files.push((format!("{:02}-{}", self.files.len() + 1, chart.name), chart.file()));
        Ok(vec![Piece::Figure(HtmlFigure {
            drawings: vec![
                chart.in_page(Width::Broad, &format!("{id}-broad")),
                chart.in_page(Width::Wide, &id),
                chart.in_page(Width::Narrow, &format!("{id}-narrow")),
            ],
            table: HtmlTable {
                caption: format!("{}: values", chart.title),
                head: chart.figures.head,
                rows: chart.figures.rows,
                marked: Vec::new(),
            },
            is_table_open: false,
            title: chart.title,
            says: chart.says,
            provenance: self.without_machine(&chart.provenance),
        })])
    }
}

impl Report {
    /// Returns the title, which contains the name given by the user or a description of the machine.
    pub(super) fn title(&self) -> String {
        format!("Timing report: {}", self.machine_name())
    }

    /// Returns the name given by the user, or a description of the machine.
    pub(super) fn machine_name(&self) -> &str {
        let machine = &self.0.machine;
        let what = machine.board.as_ref().or(machine.cpu.as_ref()).unwrap_or(&machine.architecture);
        self.0.name.as_ref().unwrap_or(what)
    }

    /// Returns the machine, the date and the version, on one line.
    pub(super) fn lead(&self) -> String {
        let machine = &self.0.machine;
        let mut parts = vec![machine.cpu.as_ref().unwrap_or(&machine.architecture).clone()];
        parts.push(format!("Linux {}", machine.kernel_release));
        match &self.0.emulated_by {
            Some(emulator) => {
                parts.push(format!("emulated by {emulator}: the measured times are those of the emulator"));
            }
            None => parts.extend(chart::runs_it(None, machine.hypervisor.as_deref(), machine.board.as_deref())),
        }
        if self.is_of_a_snapshot() {
            parts.push("from a system snapshot".to_owned());
        }
        parts.push(summary::date(&self.0.started_at));
        parts.push(format!("hpt {}", self.0.hpt));
        if self.0.interrupted {
            parts.push("ended early".to_owned());
        }
        parts.join(" · ")
    }

    /// Returns whether the report describes a system snapshot.
    fn is_of_a_snapshot(&self) -> bool {
        self.0.parts.iter().any(|part| part.command.contains(" --host "))
    }

    /// Returns the command line of a part.
    pub(super) fn command(&self, name: &str) -> String {
        self.0.parts.iter().find(|part| part.name == name).map_or_else(String::new, |part| part.command.clone())
    }
}

fn machine(report: &ReportDocument) -> Section {
    let machine = report.machine.clone();
    let mut facts =
        vec![("CPU".to_owned(), format!("{} ({})", machine.cpu.as_deref().unwrap_or("unnamed"), machine.architecture))];
    if report.emulated_by.is_none() && machine.hypervisor.is_none() {
        let runs_it = chart::runs_it(None, None, machine.board.as_deref());
        facts.extend(runs_it.map(|runs_it| ("Machine".to_owned(), runs_it)));
    }
    facts.extend(machine.board.map(|board| ("Board".to_owned(), board)));
    facts.push(("Kernel".to_owned(), format!("Linux {} {}", machine.kernel_release, machine.kernel_version)));
    facts.extend(
        machine
            .hypervisor
            .map(|hypervisor| ("Virtual machine".to_owned(), format!("under {}", Cpu::hypervisor_name(&hypervisor)))),
    );
    facts.extend(report.emulated_by.iter().map(|emulator| ("Emulated".to_owned(), format!("by {emulator}"))));
    let available = machine.available_clocksources.unwrap_or_default();
    let others = if available.is_empty() { String::new() } else { format!(" (available: {})", available.join(", ")) };
    facts.extend(machine.clocksource.map(|source| ("Clocksource".to_owned(), format!("{source}{others}"))));
    facts.push(("vDSO".to_owned(), if machine.vdso { "yes" } else { "no" }.to_owned()));
    Section { id: "machine", title: "System".to_owned(), pieces: vec![Piece::Facts(facts)] }
}

fn findings(doctor: DoctorDocument) -> Section {
    let provenance = chart::about(&(&doctor).into(), "hpt doctor, which reads the kernel's files and changes nothing");
    let all = doctor.rules.len();
    let rank = |severity: Option<Severity>| match severity {
        Some(Severity::High) => 0,
        Some(Severity::Low) => 1,
        Some(Severity::Info) => 2,
        None => 3,
    };
    let count = |verdict: DoctorVerdict| doctor.rules.iter().filter(|rule| rule.verdict == verdict).count();
    let counts = [
        (["found a problem or a note"; 2], DoctorVerdict::Problem),
        (["passed"; 2], DoctorVerdict::Pass),
        (["is not applicable", "are not applicable"], DoctorVerdict::NotApplicable),
    ];
    let words = |[one, many]: [&'static str; 2], count: usize| format!("{count} {}", one_or_many(count, one, many));
    let mut said: Vec<_> = counts.iter().map(|(said, verdict)| words(*said, count(*verdict))).collect();
    let told: usize = counts.iter().map(|(_, verdict)| count(*verdict)).sum();
    said.extend((told < all).then(|| format!("{} could not be checked", all - told)));
    let said = format!("Of {all} rules, {}.", said.join(", "));
    let mut found: Vec<_> = doctor.rules.into_iter().filter(|rule| rule.verdict == DoctorVerdict::Problem).collect();
    found.sort_by_key(|rule| rank(rule.severity));
    let mut pieces = vec![Piece::Text(said)];
    pieces.extend(found.into_iter().map(|rule| {
        let likely = if rule.certain == Some(false) { "Likely, not observed: " } else { "" };
        Piece::Finding(Finding {
            severity: rule.severity.map_or("", Severity::name).to_owned(),
            title: rule.title,
            observed: format!("{likely}{}.", rule.observed),
            why: rule.why,
            fixes: rule.fixes.into_iter().map(|fix| (fix.text, fix.commands)).collect(),
        })
    }));
    pieces.push(Piece::Provenance(provenance));
    Section { id: "findings", title: "Problems found".to_owned(), pieces }
}

fn sources(probe: &ProbeDocument) -> Section {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), short_time);
    let table = |caption: &str, head: &[&str], rows: Vec<Vec<String>>| {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        HtmlTable { caption: caption.to_owned(), head, rows, marked: Vec::new() }
    };
    let open = probe.sources.iter().filter(|source| source.available).map(|source| {
        vec![
            source.id.clone(),
            source.read_path.clone().unwrap_or_default(),
            time(source.read_cost_ns),
            time(source.resolution_ns),
            time(source.granularity_ns),
            source.suitability.clone(),
        ]
    });
    let shut = probe.sources.iter().filter(|source| !source.available).map(|source| {
        let reason = [source.reason.clone(), source.fix.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        vec![source.id.clone(), source.description.clone(), reason]
    });
    let (open, shut): (Vec<_>, Vec<_>) = (open.collect(), shut.collect());
    let said = format!(
        "{} of {} sources {} available.",
        open.len(),
        open.len() + shut.len(),
        one_or_many(open.len(), "is", "are")
    );
    let mut pieces = vec![Piece::Text(said)];
    pieces.push(Piece::Table(table(
        "Available sources",
        &["source", "read path", "read overhead", "resolution", "granularity", "suitability"],
        open,
    )));
    if !shut.is_empty() {
        pieces.push(Piece::Folded(table("Unavailable sources", &["source", "description", "reason"], shut)));
    }
    pieces.push(Piece::Provenance(chart::about(
        &probe.into(),
        "hpt probe, 64 timed reads of each source; the read overhead is the median, and the granularity is the smallest step",
    )));
    Section { id: "sources", title: "Time sources".to_owned(), pieces }
}

fn wakes(report: &Report, gallery: &mut Gallery) -> Result<Option<Section>, Unreadable> {
    let mut there: Vec<(&str, WakeLatencyDocument)> = Vec::new();
    for (part, name) in WAKES {
        there.extend(report.document(part)?.map(|document| (name, document)));
    }
    if there.is_empty() {
        return Ok(None);
    }
    let latencies = there.iter().map(|(name, document)| {
        let latencies: chart::Latencies<'_> = document.into();
        (*name, latencies.merged())
    });
    let latencies: Vec<_> = latencies.collect();
    let there: Vec<_> = there.iter().map(|(name, document)| (*name, document)).collect();
    let mut pieces = gallery.show(chart::distribution(&latencies))?;
    pieces.extend(gallery.show(chart::cpus(&there))?);
    pieces.extend(gallery.show(chart::time_series(&there))?);
    for (name, document) in &there {
        let of = (*name, "wake-ups");
        pieces.extend(gallery.show(chart::timeline(&document.explanation, &(*document).into(), of))?);
    }
    Ok(Some(Section { id: "latency", title: "Wake-up latency".to_owned(), pieces }))
}

/// Formats the section about how the report was created.
fn made(report: &ReportDocument) -> Section {
    let rows = report.parts.iter().map(|part| {
        let note = part.reason.clone().unwrap_or_else(|| words(part.state).to_owned());
        vec![part.name.clone(), part.command.clone(), format!("{:.1} s", part.elapsed_s), note]
    });
    let marked = report.parts.iter().map(|part| part.state == ReportPartState::Failed).collect();
    let head = ["part", "command", "duration", ""].map(str::to_owned).to_vec();
    let mut pieces = vec![
        Piece::Text(format!(
            "The measurements ran one after another, starting at {}, and took {} in total.",
            summary::date(&report.started_at),
            took(report.elapsed_s)
        )),
        Piece::Table(HtmlTable { caption: "Parts of this report".to_owned(), head, rows: rows.collect(), marked }),
    ];
    pieces.extend(report.notes.iter().map(|note| Piece::Text(format!("Note: {note}"))));
    let documents = report.documents.iter().filter_map(|(part, value)| Some((part, Document::read(value).ok()?)));
    let own: Vec<(String, String)> = documents
        .flat_map(|(part, document)| {
            let notes = document.notes().to_vec();
            notes.into_iter().map(move |note| (part.clone(), note))
        })
        .collect();
    if !own.is_empty() {
        pieces.push(Piece::Text("Notes on the parts:".to_owned()));
        pieces.push(Piece::Facts(own));
    }
    Section { id: "made", title: "Method".to_owned(), pieces }
}

/// Formats a duration.
fn took(elapsed_s: f64) -> String {
    humantime::format_duration(Duration::from_secs(
        Duration::try_from_secs_f64(elapsed_s).unwrap_or_default().as_secs(),
    ))
    .to_string()
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        Document, SCHEMA,
        latency::{HeatMapColumn, HistogramBin, MicrosecondCount},
        not_run::NotRun,
        quantiles::Quantiles,
        report::{ReportDocument, ReportPart, ReportPartState},
        wake_latency::{TimeSeriesInterval, WakeLatencyRow},
    };
    use serde_json::{Map, Value};

    use super::page;
    use crate::{
        cmd::report::data_file::Report,
        golden,
        output::{html, latency_files::counts::tests::threads},
        sampling::latency_figures::figures,
    };

    /// Returns wake-ups on this many CPUs. Each of ten thousand whole microseconds has counts, with
    /// higher counts for lower latencies.
    fn wakes(cpus: u64, samples: u64, kind: &str) -> Value {
        let row = |cpu: u64| {
            let counts = (0..10_000_u64).map(|us| MicrosecondCount(us, (samples / cpus / (us + 10)).max(1)));
            let counts: Vec<_> = counts.collect();
            let time_series =
                (0..400_u64).map(|at| TimeSeriesInterval(at * 1_000_000_000, 1_000, 2.5, (at * 7_919) % 9_000_000));
            let mut figures = figures(&threads()[0].latencies).expect("it has samples");
            figures.samples = counts.iter().map(|count| count.1).sum::<u64>();
            (figures.min_ns, figures.mean_ns, figures.max_ns) = (200, 900.0, 9_999_999);
            let mut times = [800, 90_000, 900_000, 5_000_000, 9_000_000].into_iter();
            figures.quantiles = Quantiles::of(|_| times.next());
            figures.histogram_us = counts;
            // One sample is far beyond all others.
            figures.histogram_ns = (100..720_u64)
                .map(|at| {
                    HistogramBin(
                        (16 + at % 16) << (at / 16 - 4),
                        (17 + at % 16) << (at / 16 - 4),
                        (figures.samples / (at * at)).max(2),
                    )
                })
                .take_while(|bin| bin.1 <= 9_000_000)
                .chain([HistogramBin(9_961_472, 10_485_760, 1)])
                .collect();
            let heat_map = (0..100_u64).map(|at| {
                let bins = (10..24_u64).map(|power| HistogramBin(1 << power, 3 << (power - 1), 1 + (at * power) % 977));
                HeatMapColumn(at * 4_000_000_000, bins.collect())
            });
            WakeLatencyRow {
                cpu: usize::try_from(cpu).ok(),
                figures,
                intervals: Vec::new(),
                not_run: NotRun::default(),
                clock_stepped: 0,
                time_series_interval_ns: 1_000_000_000,
                time_series: time_series.collect(),
                heat_map_interval_ns: 4_000_000_000,
                heat_map: heat_map.collect(),
            }
        };
        let Document::WakeLatency(mut document) = golden::empty(kind) else { panic!("it is another one") };
        document.measuring.source = "tsc".to_owned();
        document.interval_ns = 100_000;
        document.results = (0..cpus).map(row).collect();
        serde_json::to_value(document).expect("numbers and names")
    }

    fn report(cpus: u64, samples: u64) -> Report {
        let parts = [("timer", "latency-timer"), ("timer-hpt", "latency-timer"), ("poll", "latency-poll")];
        Report(ReportDocument {
            schema: SCHEMA,
            kind: "report".to_owned(),
            hpt: "0.0.0".to_owned(),
            name: None,
            machine: golden::head("report").machine,
            emulated_by: None,
            started_at: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 1.0,
            interrupted: false,
            conditions: None,
            parts: vec![ReportPart {
                name: "stall".to_owned(),
                command: "hpt <stall>".to_owned(),
                state: ReportPartState::Failed,
                reason: Some("a & b".to_owned()),
                elapsed_s: 0.0,
            }],
            documents: parts
                .iter()
                .map(|(part, kind)| ((*part).to_owned(), wakes(cpus, samples, kind)))
                .collect::<Map<_, _>>(),
            notes: vec!["a <note>".to_owned()],
        })
    }

    #[test]
    fn a_page_is_small_for_any_number_of_samples() {
        for cpus in [1, 2, 16] {
            let made = page(&report(cpus, 100_000_000)).expect("it can be drawn");
            let text = html::page(&made.page);
            assert!(text.len() < 1_000_000, "{cpus} CPUs: {} bytes", text.len());
            // The chart of the CPUs needs several.
            assert_eq!(made.charts.len(), if cpus > 1 { 3 } else { 2 });
            assert!(
                text.contains("a &lt;note&gt;") && text.contains("a &amp; b") && text.contains("hpt &lt;stall&gt;")
            );
        }
        // The size of a drawing depends on its shape and not on the number of samples.
        let size = |samples| html::page(&page(&report(1, samples)).expect("it can be drawn").page).len();
        assert!(size(100_000_000) < 2 * size(1_000_000), "{} {}", size(100_000_000), size(1_000_000));
    }
}
