//! Compares two reports, and finds the values that differ by more than the spread of their samples.

use std::path::Path;

use hpt_document::{
    Document as AnyDocument, SCHEMA,
    bench::BenchDocument,
    doctor::{DoctorDocument, DoctorRule, DoctorSeverity, DoctorVerdict},
    experiment::ExperimentDocument,
    report_compare::{CompareVerdict, ComparedFigureRow, ComparedReport, ComparedRuleRow, ReportCompareDocument},
    sleep::SleepDocument,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
    watch::WatchSummaryDocument,
    words::REPORT_PARTS,
};

use super::{
    data_file::Report,
    files::ReportFiles,
    html_page::{Gallery, WAKES},
};
use crate::{
    context::Context,
    exit::{Failure, causes},
    output::{
        Align, Block, Cell, Column, Document, Table, Tone,
        chart::{self, Figures, Origin, Pair, Unreadable},
        html::{self, Page, Piece, Section},
        one_or_many, rounded, short_time,
    },
};

/// A value of one report: its central value, and the range that contains most samples.
#[derive(Clone, Debug, PartialEq)]
struct One {
    part: &'static str,
    what: String,
    unit: String,
    value: f64,
    range: Option<(f64, f64)>,
    samples: u64,
    /// The origin of the nominal frequency, and this frequency in hertz, if the value is a frequency error. Nominal
    /// frequencies of different origins differ by more than the clocks themselves.
    against: Option<(String, f64)>,
    /// The number of earlier values with this name in the report. For example, if the kernel provides no vDSO, two
    /// rows of `bench` measure the same clock with a system call.
    earlier: usize,
}

/// A value, the range of most samples, and the number of samples.
type Spread = (Option<f64>, Option<(f64, f64)>, u64);

impl One {
    /// Creates a value, or returns `None` if it was not measured. A range extends from p50 to p99,
    /// because values below p50 hardly differ between runs.
    fn of(part: &'static str, what: String, unit: &str, (value, range, samples): Spread) -> Option<Self> {
        let value = value.filter(|value| value.is_finite())?;
        Some(Self { part, what, unit: unit.to_owned(), value, range, samples, against: None, earlier: 0 })
    }
}

/// The maximum length of a name. A chart truncates longer names, so two names with the same beginning could look the
/// same.
const LONGEST_NAME: usize = 24;

pub(super) fn run(
    (one, other): (&Path, &Path),
    keeping: &ReportFiles<'_>,
    context: &Context,
) -> Result<Document, Failure> {
    keeping.spare(&[one, other])?;
    let (first, second) = (sound(one)?, sound(other)?);
    if keeping.page.is_none() && keeping.charts.is_some() {
        return Err(Failure::Usage(
            "--svg with --compare also requires --output, because the charts are taken from the page",
        ));
    }
    let unreadable = |why: Unreadable| Failure::NotAReport {
        path: format!("{} or {}", one.display(), other.display()).into(),
        why: causes(&why),
    };
    let data = data(&first, &second, context).map_err(unreadable)?;
    let (page, files) = page(&first, &second, &data).map_err(unreadable)?;
    let written = keeping.page.is_some().then(|| keeping.keep(&html::page(&page), "", &files)).transpose()?;
    let mut blocks = blocks(&data);
    if let Some(path) = written.and_then(|kept| kept.page) {
        blocks.insert(0, Block::Facts(vec![("page", path.display().to_string())]));
    }
    Ok(Document::new(data, blocks))
}

/// Reads a report. Fails if a part cannot be read, because missing values would go unnoticed in the comparison.
fn sound(path: &Path) -> Result<Report, Failure> {
    let report = Report::read(path)?;
    let made = super::html_page::page(&report);
    made.map_err(|why| Failure::NotAReport { path: path.to_owned(), why: causes(&why) })?;
    Ok(report)
}

fn data(first: &Report, second: &Report, context: &Context) -> Result<ReportCompareDocument, Unreadable> {
    let (of_first, of_second) = (figures(first)?, figures(second)?);
    let rules = rules(first.document("doctor")?, second.document("doctor")?);
    let results = rows(&of_first, &of_second);
    let names = match (&first.0.name, &second.0.name) {
        (Some(one), Some(other)) if one != other => (one.clone(), other.clone()),
        _ => ("A".to_owned(), "B".to_owned()),
    };
    let mut notes = context.notes();
    if first.0.hpt != second.0.hpt {
        notes.push(format!("different versions of hpt created the reports: {} and {}", first.0.hpt, second.0.hpt));
    }
    if first.0.machine.cpu != second.0.machine.cpu {
        notes.push("the machines have different CPUs".to_owned());
    }
    notes.extend(other_commands(first, second));
    notes.extend(of_first.iter().filter_map(|one| {
        let other = of_second.iter().find(|other| is_same(one, other) && !is_alike(one, other))?;
        let against = |one: &One| {
            one.against.as_ref().map_or_else(
                || "an unknown frequency".to_owned(),
                |(by, hz)| format!("{} MHz ({by})", rounded(hz / 1e6)),
            )
        };
        Some(format!(
            "{}: not compared because the origins of the nominal frequencies differ: {} in the first report, {} in the second",
            one.what,
            against(one),
            against(other)
        ))
    }));
    Ok(ReportCompareDocument {
        schema: SCHEMA,
        kind: "report-compare".to_owned(),
        hpt: env!("CARGO_PKG_VERSION").to_owned(),
        first: side(first, names.0),
        second: side(second, names.1),
        differing: results.iter().filter(|row| row.verdict == CompareVerdict::Differs).count(),
        results,
        rules,
        notes,
    })
}

/// Returns a note for each part that was measured with different command lines.
fn other_commands(first: &Report, second: &Report) -> Vec<String> {
    let both = first.0.parts.iter().map(|part| (part.command.as_str(), second.command(&part.name)));
    both.filter(|(one, other)| !other.is_empty() && one != other)
        .map(|(one, other)| format!("the commands differ: `{one}` in the first report, `{other}` in the second"))
        .collect()
}

fn side(report: &Report, name: String) -> ComparedReport {
    ComparedReport {
        name,
        title: report.title(),
        started_at: report.0.started_at.clone(),
        hpt: report.0.hpt.clone(),
        interrupted: report.0.interrupted,
        emulated_by: report.0.emulated_by.clone(),
        machine: report.0.machine.clone(),
    }
}

/// Returns all values of a report that can be compared.
fn figures(report: &Report) -> Result<Vec<One>, Unreadable> {
    let mut found = Vec::new();
    if let Some(bench) = report.document::<BenchDocument>("bench")? {
        for row in bench.results {
            let by_call = row.read_path == "syscall" && ["monotonic", "perf-cycles"].contains(&row.id.as_str());
            let name = format!("{}{}", row.id, if by_call { " (syscall)" } else { "" });
            let (p50, samples) = (row.single.single_p50_ns, row.single.single_samples.unwrap_or(0));
            let range = p50.zip(row.single.single_p99_ns);
            found.extend(One::of("bench", format!("{name}, single read"), "ns", (p50, range, samples)));
            let mean = (row.repeated.per_read_ns, None, row.repeated.reads);
            found.extend(One::of("bench", format!("{name}, back to back"), "ns", mean));
        }
    }
    let of_cpu = |what: &str, cpu: Option<usize>, threads: usize| {
        let cpu = cpu.filter(|_| threads > 1).map_or_else(String::new, |cpu| format!(", CPU {cpu}"));
        format!("{what}{cpu}")
    };
    for (part, what) in [("timer", "kernel's timer"), ("timer-hpt", "hpt's Sleeper"), ("poll", "polling")] {
        let Some(document) = report.document::<WakeLatencyDocument>(part)? else { continue };
        found.extend(document.results.iter().filter_map(|row| {
            let p50 = whole(row.figures.p50_ns);
            let range = row.figures.p99_ns.map(|p99| (p50, whole(p99)));
            let what = of_cpu(what, row.cpu, document.results.len());
            One::of(part, what, "ns", (Some(p50), range, row.figures.samples))
        }));
    }
    if let Some(document) = report.document::<StallDocument>("stall")? {
        found.extend(document.results.iter().filter_map(|row| {
            let (p50, p99) = (row.p50_ns.map(whole), row.p99_ns.map(whole));
            let what = of_cpu("stalls", row.cpu, document.results.len());
            One::of("stall", what, "ns", (p50, p50.zip(p99), row.stalls))
        }));
    }
    if let Some(document) = report.document::<SleepDocument>("sleep")? {
        found.extend(document.results.iter().filter_map(|row| {
            let what = format!("{}, {}", short_time(whole(row.duration_ns)), row.method);
            // A report has too few sleeps for p99.
            One::of("sleep", what, "ns", (row.p50_ns, row.p50_ns.zip(row.p99_ns.or(row.max_ns)), row.samples))
        }));
    }
    if let Some(watch) = report.document::<WatchSummaryDocument>("watch")? {
        found.extend(watch.sources.iter().filter_map(|row| {
            let low = row.lowest_ppm.zip(row.lowest_bound_ppm).map(|(ppm, bound)| ppm - bound);
            let high = row.highest_ppm.zip(row.highest_bound_ppm).map(|(ppm, bound)| ppm + bound);
            let range = low.zip(high);
            let middle = range.map(|(low, high)| rounded(f64::midpoint(low, high)));
            let what = format!("{}, frequency error against {}", row.source, watch.reference);
            let one = One::of("watch", what, "ppm", (middle, range, row.offset.bursts))?;
            Some(One { against: row.expected_origin.clone().zip(row.expected_hz), ..one })
        }));
    }
    if let Some(experiment) = report.document::<ExperimentDocument>("experiment")? {
        found.extend(experiment.results.iter().filter_map(|row| {
            let what = format!("{}: {}", row.experiment, row.quantity);
            let middle = row.p50.or(row.measured);
            One::of("experiment", what, &row.unit, (middle, row.p50.zip(row.p99.or(row.max)), row.samples))
        }));
    }
    Ok(numbered(found))
}

#[expect(clippy::cast_precision_loss, reason = "for comparing")]
fn whole(ns: u64) -> f64 {
    ns as f64
}

/// Numbers the values that share a name.
fn numbered(mut found: Vec<One>) -> Vec<One> {
    for at in 0..found.len() {
        let (before, rest) = found.split_at_mut(at);
        rest[0].earlier = before.iter().filter(|other| is_named_alike(&rest[0], other)).count();
    }
    found
}

/// Returns whether two values have the same meaning.
fn is_same(one: &One, other: &One) -> bool {
    is_named_alike(one, other) && one.earlier == other.earlier
}

fn is_named_alike(one: &One, other: &One) -> bool {
    one.part == other.part && one.what == other.what && one.unit == other.unit
}

/// Returns whether the nominal frequencies of both values have the same origin, or both have none.
fn is_alike(one: &One, other: &One) -> bool {
    let by = |one: &One| one.against.as_ref().map(|(by, _)| by.clone());
    by(one) == by(other)
}

fn rows(first: &[One], second: &[One]) -> Vec<ComparedFigureRow> {
    let mut rows: Vec<ComparedFigureRow> =
        first.iter().map(|one| row(Some(one), second.iter().find(|other| is_same(one, other)))).collect();
    rows.extend(
        second.iter().filter(|other| !first.iter().any(|one| is_same(one, other))).map(|other| row(None, Some(other))),
    );
    rows
}

fn row(first: Option<&One>, second: Option<&One>) -> ComparedFigureRow {
    let either = first.or(second).expect("a row has at least one value");
    let ratio = first.zip(second).filter(|(one, _)| either.unit != "ppm" && one.value > 0.0);
    let low = |one: Option<&One>| one.and_then(|one| one.range).map(|range| range.0);
    let high = |one: Option<&One>| one.and_then(|one| one.range).map(|range| range.1);
    ComparedFigureRow {
        part: either.part.to_owned(),
        quantity: either.what.clone(),
        unit: either.unit.clone(),
        first: first.map(|one| one.value),
        first_low: low(first),
        first_high: high(first),
        first_samples: first.map(|one| one.samples),
        second: second.map(|one| one.value),
        second_low: low(second),
        second_high: high(second),
        second_samples: second.map(|one| one.samples),
        ratio: ratio.map(|(one, other)| rounded(other.value / one.value)),
        verdict: verdict(first, second),
    }
}

/// Compares two values. They differ if their ranges do not overlap.
fn verdict(first: Option<&One>, second: Option<&One>) -> CompareVerdict {
    match (first, second) {
        (Some(one), Some(other)) if !is_alike(one, other) => CompareVerdict::DifferentNominalRates,
        (Some(one), Some(other)) => match (one.range, other.range) {
            (Some(one), Some(other)) if one.1 < other.0 || other.1 < one.0 => CompareVerdict::Differs,
            (Some(_), Some(_)) => CompareVerdict::WithinSpread,
            _ => CompareVerdict::SpreadUnknown,
        },
        (Some(_), None) => CompareVerdict::OnlyFirst,
        (None, _) => CompareVerdict::OnlySecond,
    }
}

fn rules(first: Option<DoctorDocument>, second: Option<DoctorDocument>) -> Vec<ComparedRuleRow> {
    let of = |doctor: Option<DoctorDocument>| -> Vec<(String, String, String)> {
        let said = |rule: &DoctorRule| match (rule.verdict, rule.severity) {
            (DoctorVerdict::Problem, severity) => {
                format!("{}: {}", severity.map_or("", DoctorSeverity::name), rule.observed)
            }
            (verdict, _) => verdict.name().to_owned(),
        };
        let rules = doctor.into_iter().flat_map(|doctor| doctor.rules);
        rules.map(|rule| (rule.rule.clone(), rule.about.clone(), said(&rule))).collect()
    };
    let (first, second) = (of(first), of(second));
    let find = |rules: &[(String, String, String)], name: &str| {
        rules.iter().find(|rule| rule.0 == name).map(|rule| rule.2.clone())
    };
    let mut names: Vec<_> = first.iter().chain(&second).map(|rule| (rule.0.clone(), rule.1.clone())).collect();
    let mut seen = Vec::new();
    names.retain(|(name, _)| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    let both = !first.is_empty() && !second.is_empty();
    let changed = names.into_iter().map(|(rule, about)| ComparedRuleRow {
        first: find(&first, &rule),
        second: find(&second, &rule),
        rule,
        about,
    });
    changed.filter(|changed| both && changed.first != changed.second).collect()
}

fn shown(value: Option<f64>, unit: &str) -> String {
    match (value, unit) {
        (None, _) => "-".to_owned(),
        (Some(ns), "ns") => short_time(ns),
        (Some(value), _) => format!("{} {unit}", rounded(value)),
    }
}

fn cells(row: &ComparedFigureRow) -> Vec<String> {
    let with_range = |value, high, unit| match high {
        Some(high) => format!("{} to {}", shown(value, unit), shown(Some(high), unit)),
        None => shown(value, unit),
    };
    let middle = |value: Option<f64>, low: Option<f64>| if row.unit == "ppm" { low } else { value };
    vec![
        row.quantity.clone(),
        with_range(middle(row.first, row.first_low), row.first_high, &row.unit),
        with_range(middle(row.second, row.second_low), row.second_high, &row.unit),
        row.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("× {ratio:.2}")),
        row.verdict.name().to_owned(),
    ]
}

const RULE: &str = "Two values differ if their ranges do not overlap. The range of a time extends from p50 to p99, or to the maximum if there are too few samples for p99; the range of a frequency error includes its bounds. Frequency errors are compared only if both nominal frequencies have the same origin.";

fn blocks(data: &ReportCompareDocument) -> Vec<Block> {
    let columns = vec![
        Column("part", Align::Left),
        Column("quantity", Align::Left),
        Column("first", Align::Right),
        Column("second", Align::Right),
        Column("ratio", Align::Right),
        Column("", Align::Left),
    ];
    let mut before = "";
    let rows = data.results.iter().map(|row| {
        let tone = if row.verdict == CompareVerdict::Differs { Tone::Strong } else { Tone::Plain };
        let part = if std::mem::replace(&mut before, &row.part) == row.part { "" } else { &row.part };
        let cells = cells(row).into_iter().map(|text| Cell(text, tone));
        std::iter::once(Cell::plain(part)).chain(cells).collect()
    });
    let mut blocks = vec![Block::Table(Table { columns, rows: rows.collect() })];
    for changed in &data.rules {
        let side = |said: &Option<String>| said.clone().unwrap_or_else(|| "not checked".to_owned());
        let rows = vec![
            vec![Cell::plain(format!("first: {}", side(&changed.first)))],
            vec![Cell::plain(format!("second: {}", side(&changed.second)))],
        ];
        blocks.push(Block::Section(format!("{} ({})", changed.about, changed.rule), rows));
    }
    let side = |side: &ComparedReport| format!("{}, {}, hpt {}", side.title, side.started_at, side.hpt);
    blocks.push(Block::Text(format!(
        "{} of {} values {}. {RULE} first: {}. second: {}.",
        data.differing,
        data.results.len(),
        one_or_many(data.differing, "differs", "differ"),
        side(&data.first),
        side(&data.second)
    )));
    blocks.extend(crate::output::remarks(false, &data.notes));
    blocks
}

fn page(
    first: &Report,
    second: &Report,
    data: &ReportCompareDocument,
) -> Result<(Page, Vec<(String, String)>), Unreadable> {
    let mut gallery = Gallery::default();
    let names = (data.first.name.as_str(), data.second.name.as_str());
    let is_long = |name: &str| name.chars().count() > LONGEST_NAME;
    let names = if is_long(names.0) || is_long(names.1) { ("A", "B") } else { names };
    let both = [(names.0, first, &data.first), (names.1, second, &data.second)];
    let mut sections = vec![Section {
        id: "sides",
        title: "Reports".to_owned(),
        pieces: vec![
            Piece::Facts(
                both.iter()
                    .map(|(name, report, side)| ((*name).to_owned(), format!("{}: {}", side.title, report.lead())))
                    .collect(),
            ),
            Piece::Text(RULE.to_owned()),
        ],
    }];
    sections[0].pieces.extend(data.notes.iter().map(|note| Piece::Text(format!("Note: {note}."))));
    if !data.rules.is_empty() {
        let side = |said: &Option<String>| said.clone().unwrap_or_else(|| "not checked".to_owned());
        let rows = data.rules.iter().map(|rule| vec![rule.about.clone(), side(&rule.first), side(&rule.second)]);
        let head = ["", names.0, names.1].map(str::to_owned).to_vec();
        let table = html::Table {
            caption: "hpt doctor rules with different results".to_owned(),
            head,
            rows: rows.collect(),
            marked: Vec::new(),
        };
        sections.push(Section {
            id: "findings",
            title: "Problems found".to_owned(),
            pieces: vec![Piece::Table(table)],
        });
    }
    let mut of_parts: Vec<(&str, Vec<&ComparedFigureRow>)> = Vec::new();
    for row in &data.results {
        match of_parts.last_mut() {
            Some((part, rows)) if *part == row.part => rows.push(row),
            _ => of_parts.push((&row.part, vec![row])),
        }
    }
    for (part, rows) in of_parts {
        let head = ["", names.0, names.1, "ratio", ""].map(str::to_owned).to_vec();
        let table = Figures { head: head.clone(), rows: rows.iter().map(|row| cells(row)).collect() };
        let differing = rows.iter().filter(|row| row.verdict == CompareVerdict::Differs).count();
        let says = format!(
            "{differing} of {} values {} by more than {} spread.",
            rows.len(),
            one_or_many(differing, "differs", "differ"),
            one_or_many(differing, "its", "their")
        );
        let mut pieces = Vec::new();
        let times: Vec<_> =
            rows.iter().filter(|row| row.unit == "ns" && row.first.is_some() && row.second.is_some()).collect();
        let pairs: Vec<Pair> = times
            .iter()
            .map(|row| Pair {
                what: row.quantity.clone(),
                first: row.first,
                second: row.second,
                words: if row.verdict == CompareVerdict::Differs {
                    row.verdict.name().to_owned()
                } else {
                    String::new()
                },
            })
            .collect();
        let mut documents = Vec::new();
        for (name, report, _) in both {
            documents.extend(report.any_document(part)?.map(|document| (name, report, document)));
        }
        let provenance = documents.iter().filter_map(|(name, report, document)| {
            Some((format!("{name}: {}", report.command(part)), Origin::of_any(document)?))
        });
        let provenance = chart::about_all(&provenance.collect::<Vec<_>>());
        if let Some((_, name)) = WAKES.iter().find(|(wake, _)| *wake == part) {
            let labeled = documents.iter().filter_map(|(side, _, document)| match document {
                AnyDocument::WakeLatency(document) => Some((format!("{side}, {name}"), document)),
                _ => None,
            });
            let labeled: Vec<_> = labeled.collect();
            let latencies: Vec<_> =
                labeled.iter().map(|(label, document)| (label.as_str(), (*document).into())).collect();
            pieces.extend(gallery.show(chart::distribution(&latencies))?);
        } else if !pairs.is_empty() {
            pieces.extend(gallery.show(Ok(chart::pairs_of(names, &pairs, table.clone(), says.clone(), provenance)))?);
        } else {
            pieces.extend([Piece::Text(says.clone()), Piece::Provenance(provenance)]);
        }
        pieces.push(Piece::Table(html::Table {
            caption: format!("{}: {says}", title(part)),
            head,
            marked: rows.iter().map(|row| row.verdict == CompareVerdict::Differs).collect(),
            rows: table.rows,
        }));
        let id = REPORT_PARTS.iter().find(|(name, _)| *name == part).map_or("part", |(name, _)| name);
        sections.push(Section { id, title: title(part).to_owned(), pieces });
    }
    let page = Page {
        title: format!("Comparison: {} vs {}", data.first.name, data.second.name),
        lead: format!(
            "Comparison of two hpt reports: {} of {} values {}.",
            data.differing,
            data.results.len(),
            one_or_many(data.differing, "differs", "differ")
        ),
        first: Vec::new(),
        sections,
        style: chart::style(),
    };
    Ok((page, gallery.files))
}

fn title(part: &str) -> &str {
    match part {
        "bench" => "Read overhead",
        "timer" => "Wake-up latency of the kernel's timer",
        "timer-hpt" => "Wake-up latency of hpt's Sleeper",
        "poll" => "Polling latency",
        "stall" => "CPU stalls",
        "sleep" => "Sleep overshoot",
        "watch" => "Frequency errors of clocks",
        "experiment" => "Published experiments",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::report_compare::CompareVerdict;

    use super::{One, numbered, rows};

    fn one(what: &str, value: f64, range: Option<(f64, f64)>) -> One {
        let (what, unit) = (what.to_owned(), "ns".to_owned());
        One { part: "bench", what, unit, value, range, samples: 9, against: None, earlier: 0 }
    }

    #[test]
    fn rates_are_compared_only_with_the_same_nominal_rate() {
        let rate = |by: &str, hz, ppm: f64| One {
            against: Some((by.to_owned(), hz)),
            ..one("rate", ppm, Some((ppm - 0.1, ppm + 0.1)))
        };
        let kernel = rate("kernel", 2.4e9, 0.0);
        for (other, verdict) in [
            (rate("kernel", 2.2e9, 5.0), CompareVerdict::Differs),
            (rate("kernel", 2.4e9, 0.1), CompareVerdict::WithinSpread),
            (rate("cpuid", 2.4e9, 5.0), CompareVerdict::DifferentNominalRates),
            (One { against: None, ..kernel.clone() }, CompareVerdict::DifferentNominalRates),
        ] {
            assert_eq!(rows(std::slice::from_ref(&kernel), &[other])[0].verdict, verdict);
        }
    }

    #[test]
    fn figures_of_one_name_are_compared_in_their_order() {
        let figures = numbered(vec![
            one("monotonic (syscall)", 470.0, Some((470.0, 594.0))),
            one("monotonic (syscall)", 408.0, Some((408.0, 453.0))),
            one("monotonic (syscall)", 300.0, Some((300.0, 310.0))),
        ]);
        let rows = rows(&figures, &figures[..2]);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.ratio, row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                (Some(1.0), CompareVerdict::WithinSpread),
                (Some(1.0), CompareVerdict::WithinSpread),
                (None, CompareVerdict::OnlyFirst)
            ]
        );
    }

    #[test]
    fn only_figures_without_overlap_are_marked_as_different() {
        let first = [
            one("apart", 10.0, Some((10.0, 12.0))),
            one("below", 30.0, Some((30.0, 40.0))),
            one("touching", 10.0, Some((10.0, 12.0))),
            one("wide", 10.0, Some((10.0, 900.0))),
            one("unjudged", 10.0, None),
            one("gone", 1.0, None),
        ];
        let second = [
            one("apart", 13.0, Some((13.0, 14.0))),
            one("below", 5.0, Some((5.0, 29.0))),
            one("touching", 12.0, Some((12.0, 14.0))),
            one("wide", 500.0, Some((500.0, 600.0))),
            one("unjudged", 20.0, Some((20.0, 21.0))),
            one("new", 1.0, None),
        ];
        let rows = rows(&first, &second);
        let verdicts: Vec<_> = rows.iter().map(|row| (row.quantity.as_str(), row.verdict)).collect();
        assert_eq!(
            verdicts,
            [
                ("apart", CompareVerdict::Differs),
                ("below", CompareVerdict::Differs),
                ("touching", CompareVerdict::WithinSpread),
                ("wide", CompareVerdict::WithinSpread),
                ("unjudged", CompareVerdict::SpreadUnknown),
                ("gone", CompareVerdict::OnlyFirst),
                ("new", CompareVerdict::OnlySecond)
            ]
        );
        assert_eq!((rows[0].ratio, rows[5].ratio), (Some(1.3), None));
    }
}
