//! The chart of the latency of every CPU: one row per CPU, with its distribution, p50, p99 and the maximum.

use hpt_document::{
    quantiles::{LatencyList, Quantile, QuantileList},
    wake_latency::{WakeLatencyDocument, WakeLatencyRow},
};

use super::{
    axis::{Axis, time},
    provenance::about_all,
    svg::{Chart, GridCell, Mark, Panel, Series, shade},
    titled_chart::{Figures, TitledChart, Unreadable, count, whole},
};

/// The maximum number of CPUs in a panel. If there are more, those with the highest maximum are drawn.
const MOST_CPUS: usize = 64;
/// The part of a row that the cells fill, and the place of the markers below them.
const CELLS: (f64, f64) = (-0.42, 0.12);
const MARKERS: f64 = 0.32;

/// Returns the chart of one or several documents, each with a name. Documents of a single CPU are not drawn.
pub(crate) fn cpus(documents: &[(&str, &WakeLatencyDocument)]) -> Result<TitledChart, Unreadable> {
    let several: Vec<_> = documents.iter().filter(|(_, document)| document.results.len() > 1).collect();
    if several.is_empty() {
        return Err(Unreadable::Nothing);
    }
    let rows = || several.iter().flat_map(|(_, document)| &document.results);
    let most = rows().flat_map(|row| &row.figures.histogram_ns).map(|bin| bin.2).max().unwrap_or(0);
    let ends = rows().flat_map(|row| [row.figures.min_ns, row.figures.max_ns]).map(|ns| whole(ns).max(1.0));
    let x = Axis::log("latency, log scale", ends, time);
    let panels = several.iter().map(|(name, document)| panel(name, &drawn(&document.results), &x, most));
    let panels = panels.collect();
    let named = || several.iter().flat_map(|(name, document)| document.results.iter().map(move |row| (*name, row)));
    let worst = named().max_by_key(|(_, row)| row.figures.max_ns);
    let best = named().min_by_key(|(_, row)| row.figures.max_ns);
    // Documents can have the same CPUs.
    let of = |name: &str, row: &WakeLatencyRow| {
        if documents.len() > 1 { format!("{name}, {}", name_of(row)) } else { name_of(row) }
    };
    let says = match (worst, best) {
        (Some((slowest, worst)), Some((fastest, best))) if most > 0 => format!(
            "Each row is the distribution of one CPU: the faintest cells are single samples, the strongest {} samples. The highest maximum is {} ({}), the lowest {} ({}).",
            count(most),
            time(whole(worst.figures.max_ns)),
            of(slowest, worst),
            time(whole(best.figures.max_ns)),
            of(fastest, best)
        ),
        _ => "Each row is one CPU.".to_owned(),
    };
    let omitted =
        several.iter().map(|(_, document)| document.results.len().saturating_sub(MOST_CPUS)).max().unwrap_or(0);
    let omitted = if omitted > 0 {
        format!(" The chart shows the {MOST_CPUS} CPUs with the highest maximum; the table contains all of them.")
    } else {
        String::new()
    };
    let figures = several.iter().flat_map(|(name, document)| document.results.iter().map(|row| cells(name, row)));
    let origins: Vec<_> = several.iter().map(|(name, document)| ((*name).to_owned(), (*document).into())).collect();
    Ok(TitledChart {
        name: "cpus".to_owned(),
        title: "Wake-up latency of every CPU".to_owned(),
        says: says + &omitted,
        chart: Chart { panels, side_by_side: several.len() > 1 },
        figures: Figures {
            head: ["", "samples", "min"]
                .into_iter()
                .chain(LatencyList::LIST.iter().filter(|quantile| shown(quantile)).map(|quantile| quantile.name))
                .chain(["max"])
                .map(str::to_owned)
                .collect(),
            rows: figures.collect(),
        },
        provenance: about_all(&origins),
    })
}

/// Returns the rows with the highest maximum, in the order of the document.
fn drawn(rows: &[WakeLatencyRow]) -> Vec<&WakeLatencyRow> {
    let mut maxima: Vec<u64> = rows.iter().map(|row| row.figures.max_ns).collect();
    maxima.sort_unstable_by(|one, other| other.cmp(one));
    let least = maxima.get(MOST_CPUS - 1).copied().unwrap_or(0);
    rows.iter().filter(|row| row.figures.max_ns >= least).take(MOST_CPUS).collect()
}

fn panel(name: &str, rows: &[&WakeLatencyRow], x: &Axis, most: u64) -> Panel {
    let places = || (0_u32..).map(f64::from).zip(rows);
    let cells = places().flat_map(|(place, row)| {
        row.figures.histogram_ns.iter().map(move |bin| GridCell {
            x: (whole(bin.0).max(1.0), whole(bin.1).max(1.0)),
            y: (place + CELLS.0, place + CELLS.1),
            shade: shade(bin.2, most),
        })
    });
    let cells: Vec<GridCell> = cells.collect();
    let points = |figure: fn(&WakeLatencyRow) -> Option<u64>| {
        let points = places().filter_map(|(place, row)| Some((whole(figure(row)?).max(1.0), place + MARKERS)));
        Mark::Points(points.collect())
    };
    let texts = places().flat_map(|(place, row)| {
        let figures = &row.figures;
        let words = format!(
            "{}: p50 {}, p99 {}, max {} of {} samples",
            name_of(row),
            super::titled_chart::time(figures.quantiles.median().map(whole)),
            super::titled_chart::time(figures.quantiles.p99().map(whole)),
            time(whole(figures.max_ns)),
            count(figures.samples)
        );
        [
            Mark::Words { x: whole(figures.max_ns).max(1.0), y: place + MARKERS, words: time(whole(figures.max_ns)) },
            Mark::Hover { x: (0.0, f64::MAX), y: (place - 0.45, place + 0.45), words },
        ]
    });
    let named = |name: &str, look, marks| Series { name: Some(name.to_owned()), look, marks };
    let mut below = if cells.is_empty() { Vec::new() } else { vec![Mark::Cells(cells)] };
    below.extend(texts);
    let series = vec![
        Series { name: None, look: 0, marks: below },
        named("p50", 0, vec![points(|row| row.figures.quantiles.median())]),
        named("p99", 1, vec![points(|row| row.figures.quantiles.p99())]),
        named("max", 3, vec![points(|row| Some(row.figures.max_ns))]),
    ];
    let y = Axis::names(rows.iter().map(|row| name_of(row)).collect());
    let height = 34 * i32::try_from(rows.len()).unwrap_or(1) + 8;
    Panel { title: name.to_owned(), x: x.clone(), y, height, series }
}

/// Returns whether the table below the chart has a column for a quantile.
fn shown(quantile: &Quantile) -> bool {
    quantile.share <= 0.999
}

fn name_of(row: &WakeLatencyRow) -> String {
    row.cpu.map_or_else(|| "not pinned".to_owned(), |cpu| format!("CPU {cpu}"))
}

fn cells(name: &str, row: &WakeLatencyRow) -> Vec<String> {
    let figures = &row.figures;
    let quantiles = figures.quantiles.nanos().filter(|(quantile, _)| shown(quantile)).map(|(_, ns)| ns);
    let times = [Some(whole(figures.min_ns))].into_iter().chain(quantiles).chain([Some(whole(figures.max_ns))]);
    let head = [format!("{name}, {}", name_of(row)), count(figures.samples)];
    head.into_iter().chain(times.map(super::titled_chart::time)).collect()
}
