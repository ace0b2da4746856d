//! Charts of the distribution of latencies and stalls, on logarithmic scales. A distribution is shown as a histogram
//! down to one sample, and as the share of samples above each value, up to the last sample.

use hpt_document::{
    gpio_latency::GpioLatencyDocument,
    latency::{HistogramBin, LatencyFigures, MicrosecondCount},
    limit::LimitRow,
    pairs::{PairsDocument, PairsRow},
    quantiles::{LatencyList, Quantile, QuantileList, Quantiles},
    stall::{StallDocument, StallThreadRow},
    wake_latency::{WaitMethod, WakeLatencyDocument},
};

use super::{
    super::text::has_tail,
    axis::{Axis, time},
    provenance::{Origin, about, about_all},
    svg::{Chart, MOST_PANELS, Mark, Panel, Series},
    titled_chart::{Figures, TitledChart, Unreadable, count, counted, whole},
};

/// The maximum number of curves. If there are more rows, all rows are drawn as one curve.
const MOST_CURVES: usize = 6;
/// The minimum ratio between neighboring points of a curve. Smaller differences are not visible.
const LEAST_RATIO: f64 = 1.008;
/// The ends of the bins of documents without bins of nanoseconds in each decade from 10 µs on, as multiples of a tenth of
/// the start of the decade. All ends are whole microseconds, because samples are counted per microsecond.
const IN_TEN: [u64; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];

#[derive(Clone, Debug)]
pub(crate) struct Latencies<'a> {
    kind: &'a str,
    origin: Origin<'a>,
    source: &'a str,
    by: Option<WaitMethod>,
    interval_ns: Option<u64>,
    rows: Vec<Row>,
    /// Whether the rows are drawn as one curve.
    merged: bool,
    /// The limits that were given for the latency, each with its text.
    limits: Vec<(String, f64)>,
}

impl Latencies<'_> {
    /// Draws all rows as one curve.
    pub(crate) fn merged(self) -> Self {
        Self { merged: true, ..self }
    }

    /// Adds the rows of another run.
    pub(crate) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }
}

/// Returns the limits of times, in nanoseconds, each with its text.
fn given(limits: &[LimitRow]) -> Vec<(String, f64)> {
    let times = limits.iter().filter_map(|limit| {
        let ns = limit.limit_ns.filter(|ns| *ns > 0)?;
        Some((limit.text.clone(), whole(ns)))
    });
    times.collect()
}

/// The figures that rows of wake-ups, edges and stalls have in common.
#[derive(Clone, Debug)]
struct Row {
    cpu: Option<usize>,
    figure: Option<String>,
    samples: u64,
    min_ns: Option<f64>,
    mean_ns: Option<f64>,
    /// The share and the value of each known quantile.
    quantiles: Vec<(f64, f64)>,
    max_ns: Option<f64>,
    microseconds: Vec<MicrosecondCount>,
    bins: Vec<HistogramBin>,
}

impl Row {
    /// Returns the value of a quantile.
    fn quantile(&self, share: f64) -> Option<f64> {
        self.quantiles.iter().find(|(known, _)| (known - share).abs() < 1e-9).map(|(_, ns)| *ns)
    }

    fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    fn p99(&self) -> Option<f64> {
        self.quantile(0.99)
    }
}

fn known<L: QuantileList>(quantiles: &Quantiles<L>) -> Vec<(f64, f64)> {
    quantiles.nanos().filter_map(|(quantile, ns)| Some((quantile.share, ns?))).collect()
}

/// Returns the quantiles that the table below a chart shows.
fn shown() -> impl Iterator<Item = &'static Quantile> {
    LatencyList::LIST.iter().filter(|quantile| quantile.share <= 0.9999)
}

impl From<&LatencyFigures> for Row {
    fn from(figures: &LatencyFigures) -> Self {
        Self {
            cpu: None,
            figure: None,
            samples: figures.samples,
            min_ns: Some(whole(figures.min_ns)),
            mean_ns: Some(figures.mean_ns),
            quantiles: known(&figures.quantiles),
            max_ns: Some(whole(figures.max_ns)),
            microseconds: figures.histogram_us.clone(),
            bins: figures.histogram_ns.clone(),
        }
    }
}

impl From<&StallThreadRow> for Row {
    fn from(row: &StallThreadRow) -> Self {
        Self {
            cpu: row.cpu,
            figure: None,
            samples: row.stalls,
            min_ns: row.min_ns.map(whole),
            mean_ns: row.mean_ns,
            quantiles: known(&row.quantiles),
            max_ns: row.max_ns.map(whole),
            microseconds: row.histogram_us.clone(),
            bins: row.histogram_ns.clone(),
        }
    }
}

impl<'a> From<&'a WakeLatencyDocument> for Latencies<'a> {
    fn from(document: &'a WakeLatencyDocument) -> Self {
        Self {
            kind: &document.head.kind,
            origin: document.into(),
            source: &document.measuring.source,
            by: Some(document.wait_method),
            interval_ns: Some(document.interval_ns),
            rows: document.results.iter().map(|row| Row { cpu: row.cpu, ..Row::from(&row.figures) }).collect(),
            merged: false,
            limits: given(&document.limits),
        }
    }
}

impl<'a> From<&'a StallDocument> for Latencies<'a> {
    fn from(document: &'a StallDocument) -> Self {
        Self {
            kind: &document.head.kind,
            origin: document.into(),
            source: &document.measuring.source,
            by: None,
            interval_ns: None,
            rows: document.results.iter().map(Row::from).collect(),
            merged: false,
            limits: given(&document.limits),
        }
    }
}

impl<'a> From<&'a GpioLatencyDocument> for Latencies<'a> {
    fn from(document: &'a GpioLatencyDocument) -> Self {
        let rows = document.results.iter();
        let rows = rows.map(|row| Row { figure: Some(row.figure.name().to_owned()), ..Row::from(&row.figures) });
        Self {
            kind: &document.head.kind,
            origin: document.into(),
            source: &document.measuring.source,
            by: None,
            interval_ns: Some(document.interval_ns),
            rows: rows.collect(),
            merged: false,
            limits: given(&document.limits),
        }
    }
}

/// The name of a curve, and its row.
struct Curve {
    name: String,
    row: Row,
}

/// Returns the chart of one document, or of several documents with the same quantity. If there are several, each has a
/// name.
pub(crate) fn distribution(documents: &[(&str, Latencies<'_>)]) -> Result<TitledChart, Unreadable> {
    let curves = documents.iter().flat_map(|(label, document)| of_document(label, document));
    let curves: Vec<Curve> = curves.filter(|curve| curve.row.samples > 0).collect();
    let Some((_, first)) = documents.first().filter(|_| !curves.is_empty()) else { return Err(Unreadable::Nothing) };
    let mut limits: Vec<(String, f64)> = Vec::new();
    for limit in documents.iter().flat_map(|(_, document)| &document.limits) {
        if !limits.contains(limit) {
            limits.push(limit.clone());
        }
    }
    let scales = Scales { is_stall: first.kind == "latency-stall", curves: &curves, limits: &limits };
    let panels = scales.histograms().chain([scales.survival()]).collect();
    let is_merged =
        |document: &Latencies<'_>| document.merged && document.rows.len() > 1 || document.rows.len() > MOST_CURVES;
    let rounded = if documents.iter().any(|(_, document)| is_merged(document)) {
        " Quantiles of several CPUs or runs together have two digits, because they come from a histogram."
    } else {
        ""
    };
    let head = ["", "samples", "min", "mean"].into_iter().chain(shown().map(|quantile| quantile.name)).chain(["max"]);
    Ok(TitledChart {
        name: first.kind.to_owned(),
        title: title(first, documents.len() == 1).to_owned(),
        says: said(&curves) + rounded,
        chart: Chart { panels, side_by_side: false },
        figures: Figures {
            head: head.map(str::to_owned).collect(),
            rows: curves.iter().map(|curve| cells(&curve.name, &curve.row)).collect(),
        },
        provenance: about_all(&documents.iter().map(measured).collect::<Vec<_>>()),
    })
}

/// Returns how the samples of a document were measured.
fn measured<'a>((label, document): &(&str, Latencies<'a>)) -> (String, Origin<'a>) {
    let samples = document.rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.samples));
    let every = document.interval_ns.map_or_else(String::new, |ns| format!(", one every {}", time(whole(ns))));
    let colon = if label.is_empty() { "" } else { ": " };
    let samples = counted(samples, "sample", "samples");
    (format!("{label}{colon}{samples}{every}, timed with {}", document.source), document.origin.clone())
}

fn title(first: &Latencies<'_>, is_single: bool) -> &'static str {
    match first.kind {
        "latency-stall" => "Duration of CPU stalls",
        "latency-gpio" => "GPIO edge latency",
        "latency-poll" if is_single => "Latency of a busy-polling thread",
        _ if is_single && first.by == Some(WaitMethod::Hpt) => "Wake-up latency of hpt's Sleeper",
        _ if is_single => "Wake-up latency of kernel timers",
        _ => "Latency from a deadline to its detection",
    }
}

/// Returns the description of the curves: the most important figures of each.
fn said(curves: &[Curve]) -> String {
    let of_curve = |curve: &Curve| {
        let row = &curve.row;
        // If there are few samples, there is no p99.
        let within = [("p50", row.median()), ("p99", row.p99()), ("max", row.max_ns)];
        let within: Vec<_> =
            within.into_iter().filter_map(|(words, ns)| Some(format!("{words} {}", time(ns?)))).collect();
        format!("{}{}.", named(&curve.name), within.join(", "))
    };
    let mut sentences: Vec<String> = curves.iter().map(of_curve).collect();
    if curves.len() >= MOST_PANELS {
        sentences.push(format!(
            "The chart shows the histograms of the first {} of {} rows; the table contains all of them.",
            MOST_PANELS - 1,
            curves.len()
        ));
    }
    sentences.join(" ")
}

/// The curves of a chart, which all have the same scales, and the limits that are drawn beside them.
struct Scales<'a> {
    is_stall: bool,
    curves: &'a [Curve],
    limits: &'a [(String, f64)],
}

impl Scales<'_> {
    fn x(&self) -> Axis {
        let ends = self.curves.iter().flat_map(|curve| [least(&curve.row), curve.row.max_ns.unwrap_or(1.0) * 3.0]);
        let mut axis = Axis::log("", ends.chain(self.limits.iter().map(|(_, ns)| *ns)), time);
        axis.title = format!("{}, log scale", if self.is_stall { "duration" } else { "latency" });
        axis
    }

    /// Returns one histogram for each curve, because overlapping histograms hide each other.
    fn histograms(&self) -> impl Iterator<Item = Panel> {
        let most = self.curves.iter().flat_map(|curve| classes(&curve.row)).map(|class| class.2).max().unwrap_or(1);
        let height = if self.curves.len() > 1 { 90 } else { 160 };
        // The last panel shows the shares.
        self.curves.iter().enumerate().take(MOST_PANELS - 1).map(move |(look, curve)| Panel {
            title: curve.name.clone(),
            x: self.x(),
            y: Axis::counts("samples per bin, log scale", whole(most), count_of),
            height,
            series: vec![
                outline(look, curve),
                Series { name: None, look: 5, marks: rules(&curve.row).chain(limit_rules(self.limits)).collect() },
            ],
        })
    }

    /// Returns the panel with the share of samples above each value.
    fn survival(&self) -> Panel {
        // A stall has a length, and a wake-up is late.
        let (unit, beyond) = if self.is_stall { ("stalls", "longer") } else { ("samples", "later") };
        let of_curve = |(look, curve): (usize, &Curve)| Series {
            name: (self.curves.len() > 1).then(|| curve.name.clone()),
            look,
            marks: survival_of(curve, beyond),
        };
        let max = |curve: &Curve| curve.row.max_ns.unwrap_or(0.0);
        let worst = self.curves.iter().max_by(|one, other| max(one).total_cmp(&max(other)));
        let worst = worst.and_then(|curve| {
            let x = curve.row.max_ns?;
            let y = 1.0 / whole(curve.row.samples.max(1));
            Some(Mark::Words { x, y, words: format!("max {}", time(x)) })
        });
        let marks = worst.into_iter().chain(limit_rules(self.limits)).collect();
        let rarest = self.curves.iter().map(|curve| 1.0 / whole(curve.row.samples)).fold(0.5, f64::min);
        let title = format!("share of {unit} that are {beyond}, down to the last one");
        Panel {
            title: String::new(),
            x: self.x(),
            y: Axis::shares(&title, [rarest, 1.0], short_percent),
            height: 180,
            series: self
                .curves
                .iter()
                .enumerate()
                .map(of_curve)
                .chain([Series { name: None, look: 5, marks }])
                .collect(),
        }
    }
}

fn survival_of(curve: &Curve, beyond: &str) -> Vec<Mark> {
    let points = later(&curve.row);
    let ends = points.last().copied();
    let hover = |(ns, share), words| Mark::Hover { x: (ns, ns), y: (share, share), words };
    let hovers = points.iter().map(|&(ns, share)| {
        let words = format!("{}{} are {beyond} than {}", named(&curve.name), short_percent(share), time(ns));
        hover((ns, share), words)
    });
    // More areas than this would overlap.
    let every = points.len().div_ceil(40).max(1);
    let mut marks: Vec<Mark> = hovers.step_by(every).collect();
    marks.push(Mark::Points(ends.into_iter().collect()));
    marks.extend(ends.map(|end| {
        let samples = counted(curve.row.samples, "sample", "samples");
        hover(end, format!("{}the worst of {samples}: {}", named(&curve.name), time(end.0)))
    }));
    marks.push(Mark::Curve(points));
    marks
}

/// Formats a share as a percentage, for example `0.01 %`. Uses a power of ten if the percentage would be too long.
fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 0.99e-3 {
        return format!("{} %", (percent * 1e5).round() / 1e5);
    }
    let raised = |digit: char| digit.to_digit(10).and_then(|digit| RAISED.get(digit as usize)).copied();
    let power: String = format!("{:.0}", -percent.log10()).chars().filter_map(raised).collect();
    format!("10⁻{power} %")
}

const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

fn of_document(label: &str, document: &Latencies<'_>) -> Vec<Curve> {
    let several = document.rows.len() > 1;
    if document.rows.len() > MOST_CURVES || several && document.merged {
        let mut cpus: Vec<Option<usize>> = document.rows.iter().map(|row| row.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let all = match (cpus.len(), document.rows.len() / cpus.len().max(1)) {
            (1, runs) => format!("{runs} runs"),
            (cpus, 1) => format!("all {cpus} CPUs"),
            (cpus, runs) => format!("all {cpus} CPUs, {runs} runs"),
        };
        let name = format!("{label}{}{all}", if label.is_empty() { "" } else { ", " });
        return vec![Curve { name, row: together(&document.rows) }];
    }
    let by = document.by.map_or("", WaitMethod::name);
    let of_row = |row: &Row| {
        let own = match (&row.figure, row.cpu) {
            (Some(figure), _) => figure.clone(),
            (None, Some(cpu)) if several || label.is_empty() => format!("CPU {cpu}"),
            (None, _) => String::new(),
        };
        let parts = [label.to_owned(), own];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ");
        Curve { name: if name.is_empty() { by.to_owned() } else { name }, row: row.clone() }
    };
    document.rows.iter().map(of_row).collect()
}

/// Merges all rows into one. Adds the counts and computes the quantiles from the sums.
fn together(rows: &[Row]) -> Row {
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    rows.iter().flat_map(|row| &row.microseconds).for_each(|MicrosecondCount(us, count)| {
        let sum = counts.entry(*us).or_default();
        *sum = sum.saturating_add(*count);
    });
    let mut bins = std::collections::BTreeMap::<(u64, u64), u64>::new();
    rows.iter().flat_map(|row| &row.bins).for_each(|HistogramBin(start, end, count)| {
        let sum = bins.entry((*start, *end)).or_default();
        *sum = sum.saturating_add(*count);
    });
    // If one of the rows has no bins, the bins of the others are not the whole.
    if rows.iter().any(|row| row.bins.is_empty() && row.samples > 0) {
        bins.clear();
    }
    let samples = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.samples));
    let sum_ns: f64 = rows.iter().filter_map(|row| Some(row.mean_ns? * whole(row.samples))).sum();
    let end =
        |figure: fn(&Row) -> Option<f64>, better: fn(f64, f64) -> f64| rows.iter().filter_map(figure).reduce(better);
    let mut all = Row {
        cpu: None,
        figure: None,
        samples,
        min_ns: end(|row| row.min_ns, f64::min),
        mean_ns: (samples > 0).then(|| sum_ns / whole(samples)),
        quantiles: Vec::new(),
        max_ns: end(|row| row.max_ns, f64::max),
        microseconds: counts.into_iter().map(|(us, count)| MicrosecondCount(us, count)).collect(),
        bins: bins.into_iter().map(|((start, end), count)| HistogramBin(start, end, count)).collect(),
    };
    // A bin is 6 % wide, so its middle has two digits.
    let quantile = |part: f64| {
        let mut passed = 0.0;
        let bin = all.bins.iter().find(|bin| {
            passed += whole(bin.2);
            passed >= part * whole(samples)
        });
        if let Some(bin) = bin {
            let middle = two_digits(f64::midpoint(whole(bin.0), whole(bin.1)));
            return Some(all.max_ns.map_or(middle, |max_ns| max_ns.min(middle)));
        }
        passed = 0.0;
        let found = all.microseconds.iter().find(|MicrosecondCount(_, count)| {
            passed += whole(*count);
            passed >= part * whole(samples)
        });
        found.map_or(all.max_ns, |MicrosecondCount(us, _)| Some(two_digits((whole(*us) + 0.5) * 1e3)))
    };
    let is_known = |share: f64| share <= 0.5 || has_tail(samples, share);
    let shares = shown().map(|quantile| quantile.share).filter(|share| is_known(*share));
    all.quantiles = shares.filter_map(|share| Some((share, quantile(share)?))).collect();
    all
}

fn two_digits(value: f64) -> f64 {
    let unit = 10_f64.powf(value.abs().max(1.0).log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// Returns the start of a curve, which is the minimum. If the minimum is far below the median and no samples were
/// counted there, it results from a coarse clock. In this case, the curve starts at a tenth of the median.
fn least(row: &Row) -> f64 {
    if let Some(first) = row.bins.first() {
        return whole(first.0).max(1.0);
    }
    let (least, far_below) = (row.min_ns.unwrap_or(1.0), row.median().unwrap_or(1.0) / 10.0);
    let is_below =
        |&MicrosecondCount(us, count): &MicrosecondCount| count > 0 && whole(us.saturating_add(1)) * 1e3 <= far_below;
    let begin = if row.microseconds.iter().any(is_below) { least } else { least.max(far_below) };
    begin.max(1.0)
}

/// Returns the start and the end of each bin, in nanoseconds, and its number of samples. Omits empty bins at both ends.
fn classes(row: &Row) -> Vec<(f64, f64, u64)> {
    if !row.bins.is_empty() {
        return drawn_bins(&row.bins);
    }
    let mut ends = (1..10).collect::<Vec<u64>>();
    ends.extend([10, 100, 1_000].into_iter().flat_map(|ten| IN_TEN.map(|part| part * ten / 10)));
    ends.push(10_000);
    let mut counts = vec![0_u64; ends.len()];
    let mut counted = 0_u64;
    for &MicrosecondCount(us, count) in &row.microseconds {
        let class = ends.partition_point(|end| *end <= us);
        if let Some(sum) = counts.get_mut(class) {
            *sum = sum.saturating_add(count);
            counted = counted.saturating_add(count);
        }
    }
    let least_ns = least(row);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let mut classes: Vec<_> = starts
        .zip(&ends)
        .zip(counts)
        .map(|((start, end), count)| {
            let start_ns =
                if start == 0 { 10_f64.powf(least_ns.min(999.0).log10().floor()) } else { whole(start) * 1e3 };
            (start_ns, whole(*end) * 1e3, count)
        })
        .collect();
    // Samples that are not counted per microsecond lie between the end of the counted range and the maximum.
    let beyond = row.samples.saturating_sub(counted);
    if beyond > 0 {
        let from_ns = 1e7;
        classes.push((from_ns, row.max_ns.unwrap_or(from_ns).max(from_ns * 1.2), beyond));
    }
    let is_used = |class: &(f64, f64, u64)| class.2 > 0;
    let first = classes.iter().position(is_used).unwrap_or(classes.len());
    let last = classes.iter().rposition(is_used).map_or(first, |last| last + 1);
    classes[first..last].to_vec()
}

/// Merges neighboring bins, because the bins of documents are too narrow for a drawing, and inserts the gaps between them.
fn drawn_bins(bins: &[HistogramBin]) -> Vec<(f64, f64, u64)> {
    let mut drawn: Vec<(u64, u64, u64)> = Vec::new();
    for &HistogramBin(start, end, count) in bins {
        // Two neighboring bins become one, except for bins of one nanosecond.
        let width = end.saturating_sub(start).clamp(1, 1 << 62);
        let (start, end) = if width > 1 {
            let start = start / (2 * width) * (2 * width);
            (start, start.saturating_add(2 * width))
        } else {
            (start, end)
        };
        match drawn.last_mut() {
            Some(last) if last.0 == start => last.2 = last.2.saturating_add(count),
            Some(last) if last.1 < start => {
                let gap = (last.1, start, 0);
                drawn.extend([gap, (start, end, count)]);
            }
            _ => drawn.push((start, end, count)),
        }
    }
    drawn.into_iter().map(|(start, end, count)| (whole(start).max(0.5), whole(end).max(1.0), count)).collect()
}

/// Draws a histogram, with the number of samples of each bin.
fn outline(look: usize, curve: &Curve) -> Series {
    // Below one sample, which is the start of the axis.
    const NONE: f64 = 0.0;
    let classes = classes(&curve.row);
    let mut points: Vec<(f64, f64)> =
        classes.iter().flat_map(|&(from, to, count)| [(from, whole(count)), (to, whole(count))]).collect();
    if let (Some(first), Some(last)) = (points.first().copied(), points.last().copied()) {
        points.insert(0, (first.0, NONE));
        points.push((last.0, NONE));
    }
    let mut marks = vec![Mark::Outline(points)];
    marks.extend(classes.iter().filter(|class| class.2 > 0).map(|&(from, to, samples)| Mark::Hover {
        x: (from, to),
        y: (0.0, f64::MAX),
        words: format!(
            "{}{} to {}: {}",
            named(&curve.name),
            time(from),
            time(to),
            counted(samples, "sample", "samples")
        ),
    }));
    Series { name: None, look, marks }
}

fn named(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("{name}: ") }
}

/// Formats the count at a tick.
fn count_of(samples: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a power of ten, saturated")]
    let samples = samples.round() as u64;
    count(samples)
}

/// Returns the lines at p50, p99 and the maximum.
fn rules(row: &Row) -> impl Iterator<Item = Mark> {
    let figures = [("p50", row.median()), ("p99", row.p99()), ("max", row.max_ns)];
    let known = figures.into_iter().filter_map(|(name, ns)| Some((name, ns?.max(1.0))));
    (0..).zip(known).map(|(row, (name, ns))| Mark::Rule {
        x: ns,
        words: format!("{name} {}", time(ns)),
        row,
        is_limit: false,
    })
}

/// Returns the lines of limits, with labels below those of [`rules`]. The lowest panel has room for four of them.
fn limit_rules(limits: &[(String, f64)]) -> impl Iterator<Item = Mark> {
    let rule = |(row, (text, ns)): (i32, &(String, f64))| Mark::Rule {
        x: *ns,
        words: format!("limit: {text}"),
        row,
        is_limit: true,
    };
    (3..=6).cycle().zip(limits).map(rule)
}

/// Returns the share of samples above each time. The times are the quantiles in nanoseconds, the ends of the bins, the
/// whole microseconds of the counts, and finally the maximum.
fn later(row: &Row) -> Vec<(f64, f64)> {
    let all = whole(row.samples.max(1));
    let begin = (row.min_ns.unwrap_or(1.0).max(1.0), 1.0);
    let mut points = Vec::new();
    let beyond = row.quantiles.iter().map(|(share, ns)| (*ns, ((1.0 - share) * 1e9).round() / 1e9));
    points.extend(beyond.filter(|(_, share)| share * all >= 1.0));
    let mut left = row.samples;
    for &MicrosecondCount(us, count) in &row.microseconds {
        left = left.saturating_sub(count);
        if left > 0 {
            points.push((whole(us.saturating_add(1)) * 1e3, whole(left) / all));
        }
    }
    left = row.samples;
    for &HistogramBin(_, end, count) in &row.bins {
        left = left.saturating_sub(count);
        if left > 0 {
            points.push((whole(end), whole(left) / all));
        }
    }
    let worst = row.max_ns.unwrap_or(1.0).max(1.0);
    points.push((worst, 1.0 / all));
    points.retain(|(ns, _)| ns.is_finite() && *ns <= worst);
    points.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let end = points.last().copied();
    let (mut thinned, mut share) = (vec![begin], 1.0_f64);
    for (ns, own) in points {
        share = share.min(own);
        let is_first = thinned.len() == 1;
        match thinned.last_mut() {
            Some(last) if !is_first && ns < last.0 * LEAST_RATIO && share > last.1 / 1.05 => last.1 = share,
            _ => thinned.push((ns, share)),
        }
    }
    // The curve ends at the maximum, also if a neighboring point was so close that they became one.
    if let Some((ns, _)) = end.filter(|end| thinned.last().is_some_and(|last| last.0 < end.0)) {
        thinned.push((ns, share));
    }
    thinned
}

fn cells(name: &str, row: &Row) -> Vec<String> {
    let quantiles = shown().map(|quantile| row.quantile(quantile.share));
    let times = [row.min_ns, row.mean_ns].into_iter().chain(quantiles).chain([row.max_ns]);
    let name = if name.is_empty() { "all" } else { name };
    [name.to_owned(), count(row.samples)].into_iter().chain(times.map(super::titled_chart::time)).collect()
}

/// Returns the chart of the intervals between back-to-back reads. Each interval is drawn from min to p99, with a
/// marker at p50.
pub(super) fn ranges(document: &PairsDocument) -> Result<TitledChart, Unreadable> {
    let rows: Vec<&PairsRow> = document.results.iter().filter(|row| row.quantiles.median().is_some()).collect();
    if rows.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let name = |row: &PairsRow| {
        let waits: Vec<_> =
            row.pauses_ns.iter().map(|ns| if *ns > 0 { time(whole(*ns)) } else { "0".to_owned() }).collect();
        if waits.iter().all(|wait| wait == "0") {
            row.id.clone()
        } else {
            format!("{}, after {}", row.id, waits.join(" and "))
        }
    };
    let values = rows.iter().flat_map(|row| [row.min_ns, row.quantiles.median(), row.quantiles.p99()]).flatten();
    let x = Axis::log("min to p99, with p50 (marker)", values, time);
    let marks = (0_u32..).map(f64::from).zip(&rows).flat_map(|(place, row)| {
        let middle = row.quantiles.median().unwrap_or(0.0);
        let (from, to) = (row.min_ns.unwrap_or(middle), row.quantiles.p99().unwrap_or(middle));
        [
            Mark::Across { from, to, y: place },
            Mark::Points(vec![(middle, place)]),
            Mark::Words { x: to, y: place, words: time(middle) },
        ]
    });
    let series = vec![Series { name: None, look: 0, marks: marks.collect() }];
    let y = Axis::names(rows.iter().map(|row| name(row)).collect());
    let height = 24 * i32::try_from(rows.len()).unwrap_or(1_000).min(1_000) + 8;
    let samples = rows.iter().map(|row| row.samples).max().unwrap_or(0);
    let figures = rows.iter().map(|row| {
        let times = [row.mean_ns, row.min_ns, row.quantiles.median(), row.quantiles.p99(), row.max_ns];
        [name(row), count(row.samples)].into_iter().chain(times.map(super::titled_chart::time)).collect()
    });
    Ok(TitledChart {
        name: "pairs".to_owned(),
        title: "Interval between back-to-back reads".to_owned(),
        says: "The interval is the overhead of timing a piece of code with two reads.".to_owned(),
        chart: Chart { panels: vec![Panel { title: String::new(), x, y, height, series }], side_by_side: false },
        figures: Figures {
            head: ["source, pause", "samples", "mean", "min", "p50", "p99", "max"].map(str::to_owned).to_vec(),
            rows: figures.collect(),
        },
        provenance: about(&document.into(), &format!("up to {} each", counted(samples, "pair", "pairs"))),
    })
}

#[cfg(test)]
mod tests {
    use hpt_document::latency::{HistogramBin, MicrosecondCount};

    use super::{Row, classes, later, least, limit_rules, short_percent, together};
    use crate::output::chart::svg::Mark;

    fn row(counts: &[(u64, u64)], samples: u64) -> Row {
        Row {
            cpu: None,
            figure: None,
            samples,
            min_ns: Some(300.0),
            mean_ns: Some(2e3),
            quantiles: vec![(0.5, 1.5e3)],
            max_ns: Some(3e7),
            microseconds: counts.iter().map(|&(us, count)| MicrosecondCount(us, count)).collect(),
            bins: Vec::new(),
        }
    }

    #[test]
    fn every_sample_is_in_one_bin() {
        let row = row(&[(0, 1), (1, 5), (11, 1), (12, 1), (9_999, 1)], 10);
        let classes = classes(&row);
        assert_eq!(classes.iter().map(|class| class.2).sum::<u64>(), 10, "{classes:?}");
        assert!(classes.windows(2).all(|two| (two[0].1 - two[1].0).abs() < 1e-9), "{classes:?}");
        assert_eq!(classes[0], (100.0, 1e3, 1));
        assert_eq!(classes.last().map(|class| (class.0, class.1, class.2)), Some((1e7, 3e7, 1)));
        assert!(classes.contains(&(1e4, 1.2e4, 1)) && classes.contains(&(1.2e4, 1.5e4, 1)), "{classes:?}");
    }

    #[test]
    fn the_share_of_later_samples_falls_from_all_to_one() {
        let points = later(&row(&[(0, 1), (1, 5), (11, 1), (12, 1), (9_999, 1)], 10));
        assert_eq!((points[0], points.last().copied()), ((300.0, 1.0), Some((3e7, 0.1))));
        assert!(points.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 >= two[1].1), "{points:?}");
        assert!(points.contains(&(2e3, 0.4)), "{points:?}");
    }

    #[test]
    fn merged_rows_have_all_samples() {
        let all = together(&[row(&[(0, 1), (1, 5)], 6), row(&[(1, 4), (70, 1)], 5)]);
        let counts = [(0, 1), (1, 9), (70, 1)].map(|(us, count)| MicrosecondCount(us, count));
        assert_eq!((all.samples, all.microseconds.as_slice()), (11, &counts[..]));
        // Fewer than ten samples are above the 99th percentile.
        assert_eq!((all.median(), all.p99()), (Some(1.5e3), None));
        let many = together(&[row(&[(0, 100), (1, 500)], 600), row(&[(1, 400), (70, 100)], 500)]);
        assert_eq!((many.median(), many.p99(), many.quantile(0.999)), (Some(1.5e3), Some(71e3), None));
    }

    #[test]
    fn both_modes_of_a_distribution_are_drawn() {
        let two_heaps = Row { quantiles: vec![(0.5, 50_500.0)], ..row(&[(0, 2), (1, 1), (50, 6), (51, 1)], 10) };
        let drawn: Vec<_> = classes(&two_heaps).into_iter().filter(|class| class.2 > 0).collect();
        assert!(least(&two_heaps) <= 300.0 && drawn[0] == (100.0, 1e3, 2), "{drawn:?}");
        let points = later(&two_heaps);
        assert_eq!(points[..3], [(300.0, 1.0), (1e3, 0.8), (2e3, 0.7)]);
        // No samples were counted there: this is the minimum of a coarse clock.
        let stepping = Row { min_ns: Some(1.0), quantiles: vec![(0.5, 5e3)], ..row(&[(0, 1), (5, 9)], 10) };
        assert_eq!((least(&stepping), later(&stepping)[0]), (500.0, (1.0, 1.0)));
    }

    #[test]
    fn counts_beyond_the_largest_time_are_drawn_without_a_panic() {
        let broken = || row(&[(u64::MAX, u64::MAX), (0, 3)], u64::MAX);
        let all = together(&[broken(), broken()]);
        assert!(all.median().is_some_and(|ns| ns > 1e21), "{all:?}");
        assert!(!later(&all).is_empty() && !classes(&all).is_empty());
        let bins = vec![HistogramBin(0, u64::MAX, 3), HistogramBin(1 << 63, u64::MAX, 1), HistogramBin(9, 3, 1)];
        let wide = Row { bins, ..row(&[], 5) };
        assert!(!later(&wide).is_empty() && !classes(&wide).is_empty());
    }

    #[test]
    fn a_curve_ends_at_the_maximum_even_if_another_point_is_close() {
        let points = later(&row(&[(0, 1), (29_998, 8)], 10));
        assert_eq!(points.last(), Some(&(3e7, 0.1)), "{points:?}");
    }

    #[test]
    fn labels_of_limits_have_different_rows() {
        let limits = [("max=1ms".to_owned(), 1e6), ("p99=900us".to_owned(), 9e5)];
        let rows = limit_rules(&limits).map(|mark| if let Mark::Rule { row, .. } = mark { row } else { -1 });
        assert_eq!(rows.collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn shares_are_shown_as_percentages() {
        let shares = [1.0, 0.1, 0.01, 1e-3, 1e-5, 1e-6, 1e-8];
        assert_eq!(shares.map(short_percent), ["100 %", "10 %", "1 %", "0.1 %", "0.001 %", "10⁻⁴ %", "10⁻⁶ %"]);
    }
}
