//! A report as a page: what stands first, what follows, and which pictures.

use std::time::Duration;

use hpt_core::host::Cpu;
use serde::Deserialize;
use serde_json::Value;

use super::data_file::{Report, State};
use crate::output::{
    chart::{self, Picture, Unreadable, Width},
    html::{Figure, Finding, Page, Piece, Section, Table},
    short_time,
};

/// A page, and its pictures as files: name and content.
pub(super) struct Made {
    pub(super) page: Page,
    pub(super) pictures: Vec<(String, String)>,
}

/// Those of wake-ups, with the names that curves have.
pub(super) const WAKES: [(&str, &str); 3] =
    [("timer", "kernel's timer"), ("timer-hpt", "hpt's Sleeper"), ("poll", "looking")];

pub(super) fn page(report: &Report) -> Result<Made, Unreadable> {
    let mut gallery = Gallery::default();
    let mut sections = vec![machine(report)?];
    sections.extend(report.document("doctor").map(findings).transpose()?);
    sections.extend(report.document("probe").map(sources).transpose()?);
    if let Some(document) = report.document("bench") {
        let pieces = gallery.show(chart::of(document))?;
        sections.push(Section { id: "cost", title: "Cost of a read".to_owned(), pieces });
    }
    sections.extend(wakes(report, &mut gallery)?);
    if let Some(document) = report.document("stall") {
        let mut pieces = gallery.show(chart::of(document))?;
        if pieces.is_empty() {
            pieces.push(Piece::Text("The thread was never kept from its CPU for longer than the limit.".to_owned()));
            pieces.push(Piece::Provenance(chart::about(document, &report.command("stall"))));
        }
        sections.push(Section { id: "stalls", title: "What takes the CPU away".to_owned(), pieces });
    }
    if let Some(document) = report.document("sleep") {
        let pieces = gallery.show(chart::of(document))?;
        sections.push(Section { id: "sleeps", title: "Sleeps".to_owned(), pieces });
    }
    if let Some(document) = report.document("watch") {
        let pieces = gallery.show(chart::of(document))?;
        sections.push(Section { id: "offsets", title: "Clocks in the course of time".to_owned(), pieces });
    }
    if let Some(document) = report.document("experiment") {
        let mut pieces = Vec::new();
        for one in chart::of_experiments(document)? {
            pieces.extend(gallery.show(Ok(one))?);
        }
        sections.push(Section { id: "published", title: "Published beside measured".to_owned(), pieces });
    }
    sections.push(made(report));
    sections.retain(|section| !section.pieces.is_empty());
    let page =
        Page { title: report.title(), lead: report.lead(), first: first(report), sections, style: chart::style() };
    Ok(Made { page, pictures: gallery.files })
}

/// Pictures that have been shown.
#[derive(Default)]
pub(super) struct Gallery {
    pub(super) files: Vec<(String, String)>,
}

impl Gallery {
    /// The picture for the page; none of what was not measured long enough to be drawn.
    pub(super) fn show(&mut self, picture: Result<Picture, Unreadable>) -> Result<Vec<Piece>, Unreadable> {
        let picture = match picture {
            Err(Unreadable::Nothing) => return Ok(Vec::new()),
            other => other?,
        };
        let id = format!("chart-{}", self.files.len() + 1);
        self.files.push((format!("{:02}-{}", self.files.len() + 1, picture.name), picture.file()));
        Ok(vec![Piece::Figure(Figure {
            wide: picture.in_page(Width::Wide, &id),
            narrow: picture.in_page(Width::Narrow, &format!("{id}-narrow")),
            table: Table {
                caption: format!("{}: the figures", picture.title),
                head: picture.figures.head,
                rows: picture.figures.rows,
                marked: Vec::new(),
            },
            title: picture.title,
            says: picture.says,
            provenance: picture.provenance,
        })])
    }
}

#[derive(Debug, Deserialize)]
struct MachineRead {
    architecture: String,
    cpu: Option<String>,
    board: Option<String>,
    hypervisor: Option<String>,
    kernel_release: String,
    kernel_version: String,
    clock_source: Option<String>,
    clock_sources_available: Option<Vec<String>>,
    vdso: Option<bool>,
}

fn shape(kind: &str) -> impl Fn(serde_json::Error) -> Unreadable {
    let kind = kind.to_owned();
    move |cause| Unreadable::Shape { kind: kind.clone(), cause }
}

impl Report {
    fn machine(&self) -> Result<MachineRead, Unreadable> {
        MachineRead::deserialize(&self.machine).map_err(shape("report"))
    }

    /// What its user called it, else what it is.
    pub(super) fn title(&self) -> String {
        let of = |key: &str| self.machine.get(key).and_then(Value::as_str);
        let what = of("board").or_else(|| of("cpu")).or_else(|| of("architecture")).unwrap_or("a machine");
        format!("Time on {}", self.name.as_deref().unwrap_or(what))
    }

    /// The machine, the day and the version, in a line.
    pub(super) fn lead(&self) -> String {
        let of = |key: &str| self.machine.get(key).and_then(Value::as_str);
        let mut parts = vec![of("cpu").or_else(|| of("architecture")).unwrap_or("unnamed CPU").to_owned()];
        parts.extend(of("kernel_release").map(|release| format!("Linux {release}")));
        match &self.emulated_by {
            Some(emulator) => parts.push(format!("emulated by {emulator}: its figures are the emulator's")),
            None => parts.extend(chart::runs_it(None, of("hypervisor"), of("board"))),
        }
        parts.push(self.began.clone());
        parts.push(format!("hpt {}", self.hpt));
        if self.interrupted {
            parts.push("ended early".to_owned());
        }
        parts.join(" · ")
    }

    /// The command line of a part.
    pub(super) fn command(&self, name: &str) -> String {
        self.parts.iter().find(|part| part.name == name).map_or_else(String::new, |part| part.command.clone())
    }
}

/// The figures that say the most, each with where it is from.
fn first(report: &Report) -> Vec<(String, String, String)> {
    let mut first = Vec::new();
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    if let Some(probe) = report.document("probe")
        && let Some(source) = probe["choice"]["source"].as_str()
        && let Some(cost) = probe["sources"].as_array().and_then(|sources| {
            sources.iter().find(|row| row["id"] == source).and_then(|row| number(row.get("read_cost_ns")))
        })
    {
        first.push(("Cheapest fit source".to_owned(), short_time(cost), format!("a read of {source}")));
    }
    for (part, name) in [("timer", "Kernel wakes a thread"), ("timer-hpt", "hpt's Sleeper is there")] {
        if let Some(row) = report.document(part).and_then(|document| document["results"].get(0))
            && let (Some(p50), Some(p99), Some(max)) =
                (number(row.get("p50_ns")), number(row.get("p99_ns")), number(row.get("max_ns")))
        {
            let said = format!("late (p50); p99 {}, worst {}", short_time(p99), short_time(max));
            first.push((name.to_owned(), short_time(p50), said));
        }
    }
    if let Some(doctor) = report.document("doctor") {
        let count = |key: &str| doctor[key].as_u64().unwrap_or(0);
        let found = count("major").saturating_add(count("minor"));
        first.push((
            "In the way of good time".to_owned(),
            found.to_string(),
            format!("{} major, {} minor", count("major"), count("minor")),
        ));
    }
    first
}

fn machine(report: &Report) -> Result<Section, Unreadable> {
    let machine = report.machine()?;
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
    let available = machine.clock_sources_available.unwrap_or_default();
    let others = if available.is_empty() { String::new() } else { format!(" (available: {})", available.join(", ")) };
    facts.extend(machine.clock_source.map(|source| ("Clock source".to_owned(), format!("{source}{others}"))));
    facts.extend(machine.vdso.map(|there| ("vDSO".to_owned(), if there { "yes" } else { "no" }.to_owned())));
    Ok(Section { id: "machine", title: "The machine".to_owned(), pieces: vec![Piece::Facts(facts)] })
}

#[derive(Debug, Deserialize)]
struct Doctor {
    rules: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    about: String,
    verdict: String,
    severity: Option<String>,
    certain: Option<bool>,
    seen: String,
    why: String,
    remedies: Vec<Remedy>,
}

#[derive(Debug, Deserialize)]
struct Remedy {
    text: String,
    commands: Vec<String>,
}

fn findings(document: &Value) -> Result<Section, Unreadable> {
    let doctor = Doctor::deserialize(document).map_err(shape("doctor"))?;
    let all = doctor.rules.len();
    let rank = |severity: &str| ["major", "minor", "to-know"].iter().position(|name| *name == severity).unwrap_or(3);
    let count = |verdict: &str| doctor.rules.iter().filter(|rule| rule.verdict == verdict).count();
    let counts =
        [("found something", "found"), ("found all well", "fine"), ("had nothing of the kind to look at", "not-here")];
    let mut said: Vec<_> = counts.iter().map(|(words, verdict)| format!("{} {words}", count(verdict))).collect();
    let told: usize = counts.iter().map(|(_, verdict)| count(verdict)).sum();
    said.extend((told < all).then(|| format!("{} could not tell", all - told)));
    let said = format!("Of {all} rules, {}.", said.join(", "));
    let mut found: Vec<_> = doctor.rules.into_iter().filter(|rule| rule.verdict == "found").collect();
    found.sort_by_key(|rule| rank(rule.severity.as_deref().unwrap_or_default()));
    let mut pieces = vec![Piece::Text(said)];
    pieces.extend(found.into_iter().map(|rule| {
        let likely = if rule.certain == Some(false) { "Likely, not seen: " } else { "" };
        Piece::Finding(Finding {
            severity: rule.severity.unwrap_or_default(),
            about: rule.about,
            seen: format!("{likely}{}.", rule.seen),
            why: rule.why,
            remedies: rule.remedies.into_iter().map(|remedy| (remedy.text, remedy.commands)).collect(),
        })
    }));
    pieces.push(Piece::Provenance(chart::about(document, "hpt doctor, from the kernel's files; nothing was changed")));
    Ok(Section { id: "findings", title: "What is in the way".to_owned(), pieces })
}

#[derive(Debug, Deserialize)]
struct Probe {
    sources: Vec<Source>,
}

#[derive(Debug, Deserialize)]
struct Source {
    id: String,
    description: String,
    available: bool,
    reason: Option<String>,
    remedy: Option<String>,
    resolution_ns: Option<f64>,
    granularity_ns: Option<f64>,
    read_cost_ns: Option<f64>,
    read_path: Option<String>,
    fitness: Option<String>,
}

fn sources(document: &Value) -> Result<Section, Unreadable> {
    let probe = Probe::deserialize(document).map_err(shape("probe"))?;
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), short_time);
    let table = |caption: &str, head: &[&str], rows: Vec<Vec<String>>| {
        let head = head.iter().map(|&name| name.to_owned()).collect();
        Table { caption: caption.to_owned(), head, rows, marked: Vec::new() }
    };
    let open = probe.sources.iter().filter(|source| source.available).map(|source| {
        vec![
            source.id.clone(),
            source.read_path.clone().unwrap_or_default(),
            time(source.read_cost_ns),
            time(source.resolution_ns),
            time(source.granularity_ns),
            source.fitness.clone().unwrap_or_default(),
        ]
    });
    let shut = probe.sources.iter().filter(|source| !source.available).map(|source| {
        let reason =
            [source.reason.clone(), source.remedy.clone()].into_iter().flatten().collect::<Vec<_>>().join("; ");
        vec![source.id.clone(), source.description.clone(), reason]
    });
    let (open, shut): (Vec<_>, Vec<_>) = (open.collect(), shut.collect());
    let said = format!("{} of {} sources can be read here.", open.len(), open.len() + shut.len());
    let mut pieces = vec![Piece::Text(said)];
    pieces.push(Piece::Table(table(
        "Sources that can be read",
        &["source", "read by", "cost", "claims", "steps by", "fit to tell the time"],
        open,
    )));
    if !shut.is_empty() {
        pieces.push(Piece::Folded(table(
            "Sources that cannot be read here",
            &["source", "what it is", "why not"],
            shut,
        )));
    }
    pieces.push(Piece::Provenance(chart::about(
        document,
        "hpt probe, 64 timed reads of each; cost and steps are the medians and the smallest of those",
    )));
    Ok(Section { id: "sources", title: "Time sources".to_owned(), pieces })
}

fn wakes(report: &Report, gallery: &mut Gallery) -> Result<Option<Section>, Unreadable> {
    let there = WAKES.iter().filter_map(|(part, name)| Some((*name, report.document(part)?)));
    let there: Vec<(&str, &Value)> = there.collect();
    if there.is_empty() {
        return Ok(None);
    }
    let mut pieces = gallery.show(chart::distribution(&there))?;
    pieces.extend(gallery.show(chart::course(&there))?);
    Ok(Some(Section { id: "latency", title: "Latency".to_owned(), pieces }))
}

/// How the report was made.
fn made(report: &Report) -> Section {
    let rows = report.parts.iter().map(|part| {
        let note = part.why.clone().unwrap_or_else(|| part.state.words().to_owned());
        vec![part.name.clone(), part.command.clone(), format!("{:.1} s", part.elapsed_s), note]
    });
    let marked = report.parts.iter().map(|part| part.state == State::Failed).collect();
    let head = ["part", "command", "took", ""].map(str::to_owned).to_vec();
    let mut pieces = vec![
        Piece::Text(format!(
            "The measurements were made one after the other, from {} on, in {}.",
            report.began,
            took(report.elapsed_s)
        )),
        Piece::Table(Table { caption: "The parts of this report".to_owned(), head, rows: rows.collect(), marked }),
    ];
    pieces.extend(report.notes.iter().map(|note| Piece::Text(format!("Note: {note}"))));
    let own = report.documents.iter().flat_map(|(part, document)| {
        let notes = document.get("notes").and_then(Value::as_array).into_iter().flatten();
        notes.filter_map(Value::as_str).map(move |note| (part.clone(), note.to_owned()))
    });
    let own: Vec<_> = own.collect();
    if !own.is_empty() {
        pieces.push(Piece::Text("What else is to be known of the parts:".to_owned()));
        pieces.push(Piece::Facts(own));
    }
    Section { id: "made", title: "How it was made".to_owned(), pieces }
}

/// Of one that took so long, for people.
fn took(elapsed_s: f64) -> String {
    humantime::format_duration(Duration::from_secs(
        Duration::try_from_secs_f64(elapsed_s).unwrap_or_default().as_secs(),
    ))
    .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::page;
    use crate::{
        cmd::report::data_file::{Part, Report, State},
        output::html,
    };

    /// Wake-ups on so many CPUs: each of ten thousand whole microseconds was counted, more often the earlier it was.
    fn wakes(cpus: u64, samples: u64, kind: &str) -> Value {
        let row = |cpu: u64| {
            let counts: Vec<_> = (0..10_000_u64).map(|us| (us, (samples / cpus / (us + 10)).max(1))).collect();
            let course: Vec<_> =
                (0..400_u64).map(|at| (at * 1_000_000_000, 1_000, 2.5, (at * 7_919) % 9_000_000)).collect();
            json!({"cpu": cpu, "samples": counts.iter().map(|count| count.1).sum::<u64>(), "min_ns": 200, "mean_ns": 900.0,
                "p50_ns": 800, "p99_ns": 90_000, "p999_ns": 900_000, "p9999_ns": 5_000_000, "p99999_ns": 9_000_000,
                "max_ns": 9_999_999, "microseconds": counts, "course": course, "course_every_ns": 1_000_000_000})
        };
        json!({"schema": 1, "kind": kind, "source": "tsc", "by": "kernel", "interval_ns": 100_000,
            "results": (0..cpus).map(row).collect::<Vec<_>>()})
    }

    fn report(cpus: u64, samples: u64) -> Report {
        let machine = json!({"architecture": "x86-64", "cpu": "a CPU", "board": null, "hypervisor": null,
            "kernel_release": "6.1.0", "kernel_version": "#1", "clock_source": "tsc", "clock_sources_available": ["tsc"], "vdso": true});
        let parts = [("timer", "latency-timer"), ("timer-hpt", "latency-timer"), ("poll", "latency-poll")];
        Report {
            schema: 1,
            kind: "report".to_owned(),
            hpt: "0.0.0".to_owned(),
            name: None,
            machine,
            emulated_by: None,
            began: "2001-09-09T01:46:40Z".to_owned(),
            elapsed_s: 1.0,
            interrupted: false,
            parts: vec![Part {
                name: "stall".to_owned(),
                command: "hpt <stall>".to_owned(),
                state: State::Failed,
                why: Some("a & b".to_owned()),
                elapsed_s: 0.0,
            }],
            documents: parts
                .iter()
                .map(|(part, kind)| ((*part).to_owned(), wakes(cpus, samples, kind)))
                .collect::<Map<_, _>>(),
            notes: vec!["a <note>".to_owned()],
        }
    }

    #[test]
    fn a_page_is_small_however_much_was_counted() {
        for cpus in [1, 2, 16] {
            let made = page(&report(cpus, 100_000_000)).expect("it can be drawn");
            let text = html::page(&made.page);
            assert!(text.len() < 2 << 20, "{cpus} CPUs: {} bytes", text.len());
            assert_eq!(made.pictures.len(), 2);
            assert!(
                text.contains("a &lt;note&gt;") && text.contains("a &amp; b") && text.contains("hpt &lt;stall&gt;")
            );
        }
        // What is drawn goes by the shape and not by the number of samples.
        let size = |samples| html::page(&page(&report(1, samples)).expect("it can be drawn").page).len();
        assert!(size(100_000_000) < 2 * size(1_000_000), "{} {}", size(100_000_000), size(1_000_000));
    }
}
