//! `hpt latency edges`: the intervals between the edges in a recording of a logic analyzer.

mod grid;
mod intervals;
mod recording;

use std::{io::BufReader, path::PathBuf};

use clap::Args;
use hpt_document::{
    edges::{EdgeKind, EdgesDocument, EdgesRow},
    quantiles::{EdgeList, Quantiles},
};

use self::{
    intervals::{Edges, Intervals},
    recording::{Layout, Malformed, Samples, Whole, read},
};
use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::{head_of, machine_line},
    exit::Failure,
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, files, has_tail, one_or_many, quantiles, remarks, rounded,
        short_frequency, short_time,
    },
};

const EXAMPLES: &str = "  \
  hpt latency edges edges.csv                the jitter of all channels
  hpt latency edges edges.csv --channel D0   of one channel";

pub(super) const KIND: &str = "latency-edges";

/// The length of a cycle at 50 MHz, in nanoseconds.
const CYCLE_NS: f64 = 20.0;

/// Measure the jitter of edges that a logic analyzer recorded
///
/// Reads a CSV file of sigrok, and prints the intervals between successive edges of each channel. A logic analyzer shows
/// when a pin changed, without the time that the program itself takes to notice it. The jitter is how much later the
/// latest edge is than the earliest, around the constant period that fits best. It is known to twice the time between two
/// samples. The file may be of any size. To record a file:
/// sigrok-cli -d fx2lafw -c samplerate=24m --time 10s -C D0 -O csv -o edges.csv
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct EdgesArguments {
    /// CSV file of sigrok-cli or PulseView; /dev/stdin for a pipe
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Channels, separated by commas [default: all digital ones]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    channel: Vec<String>,
}

struct OfChannels(Vec<Edges>);

impl Samples for OfChannels {
    fn sample(&mut self, at: u64, levels: &[bool]) {
        self.0.iter_mut().zip(levels).for_each(|(edges, &level)| edges.sample(at, level));
    }

    fn gap(&mut self) {
        self.0.iter_mut().for_each(Edges::gap);
    }
}

pub(crate) fn run(arguments: &EdgesArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    let path = &arguments.file;
    let file = files::open_foreign(path).map_err(|cause| Failure::Unreadable { path: path.clone(), cause })?;
    let of_layout = |layout: &Layout| OfChannels(vec![Edges::default(); layout.channels.len()]);
    let found = read(BufReader::new(file), (&arguments.channel, &|| !context.interrupted()), of_layout);
    let (whole, OfChannels(edges)) = found.map_err(|why| match why {
        Malformed::Read(cause) => Failure::Unreadable { path: path.clone(), cause },
        Malformed::Line { .. } | Malformed::Whole(_) => {
            Failure::NotARecording { path: path.clone(), why: why.to_string() }
        }
    })?;
    let data = document(arguments, context, (&whole, &edges));
    let answer = if data.results.is_empty() { Answer::Unknown } else { Answer::Yes };
    let blocks = page(&data);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

fn document(arguments: &EdgesArguments, context: &Context, (whole, edges): (&Whole, &[Edges])) -> EdgesDocument {
    let channels = &whole.layout.channels;
    let tick_ns = whole.layout.tick_ns;
    let of_channel = |(name, edges): (&String, &Edges)| {
        let kinds =
            [(EdgeKind::All, &edges.all), (EdgeKind::Rising, &edges.rising), (EdgeKind::Falling, &edges.falling)];
        kinds.map(|(kind, intervals)| row(name, kind, intervals, tick_ns))
    };
    let results: Vec<EdgesRow> = channels.iter().zip(edges).flat_map(of_channel).flatten().collect();
    let silent: Vec<&str> =
        channels.iter().map(String::as_str).filter(|name| !results.iter().any(|row| row.channel == *name)).collect();
    let mut notes = context.notes();
    if !silent.is_empty() {
        notes.push(format!("no interval between two edges on {}", silent.join(", ")));
    }
    if whole.may_lack_rows {
        notes.push(
            "each row differs from the one before: if the file was written without equal rows (dedup=true), record it with \
             time=true, because the intervals are wrong otherwise"
                .to_owned(),
        );
    }
    EdgesDocument {
        head: head_of(KIND, &context.host),
        file: arguments.file.display().to_string(),
        sample_rate_hz: whole.layout.rate_hz,
        resolution_ns: whole.layout.rate_hz.map(|_| rounded(tick_ns)),
        samples: whole.samples,
        interrupted: context.interrupted(),
        results,
        notes,
    }
}

/// Returns the figures of a channel, or `None` if it has no interval.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn row(channel: &str, edges: EdgeKind, intervals: &Intervals, tick_ns: f64) -> Option<EdgesRow> {
    let (least, most) = intervals.ends()?;
    let nanos = |ticks: u64| rounded(ticks as f64 * tick_ns);
    let jitter_ns = intervals.grid.jitter().map(nanos);
    Some(EdgesRow {
        channel: channel.to_owned(),
        edges,
        intervals: intervals.samples(),
        mean_ns: rounded(intervals.mean() * tick_ns),
        min_ns: nanos(least),
        quantiles: Quantiles::of(|quantile| {
            let is_known = quantile.share <= 0.5 || has_tail(intervals.samples(), quantile.share);
            intervals.quantile(quantile.share).filter(|_| is_known).map(nanos)
        }),
        max_ns: nanos(most),
        jitter_ns,
        jitter_cycles_20ns: jitter_ns.map(|ns| rounded(ns / CYCLE_NS)),
        interval_jitter_ns: nanos(most - least),
    })
}

fn headline(data: &EdgesDocument) -> Option<Block> {
    let row = data.results.first()?;
    let bound = data.resolution_ns.map(|ns| format!(" (± {})", short_time(2.0 * ns))).unwrap_or_default();
    let jitter = row.jitter_ns.map_or_else(
        || "no constant period".to_owned(),
        |ns| format!("jitter {} around a constant period{bound}", short_time(ns)),
    );
    Some(Block::Headline(format!(
        "{}: {} {} between edges, p50 {}, {jitter}",
        row.channel,
        row.intervals,
        one_or_many(row.intervals, "interval", "intervals"),
        row.quantiles.median().map(short_time).unwrap_or_default()
    )))
}

fn page(data: &EdgesDocument) -> Vec<Block> {
    let named = |name| Column(name, Align::Right);
    let head = [Column("channel", Align::Left), Column("edges", Align::Left), named("intervals"), named("min")];
    let last = ["max", "max − min", "jitter", "20 ns"].map(named);
    let columns = head.into_iter().chain(quantiles::columns::<EdgeList>()).chain(last);
    let time = |ns: f64| Cell::plain(short_time(ns));
    let rows = data.results.iter().map(|row| {
        let head = [
            Cell::plain(&row.channel),
            Cell::plain(row.edges.name()),
            Cell::plain(row.intervals.to_string()),
            time(row.min_ns),
        ];
        let last = [
            time(row.max_ns),
            time(row.interval_jitter_ns),
            Cell::or_dash(row.jitter_ns.map(short_time)),
            Cell::or_dash(row.jitter_cycles_20ns.map(|cycles| cycles.to_string())),
        ];
        head.into_iter().chain(quantiles::cells(&row.quantiles)).chain(last).collect()
    });
    let mut blocks = Vec::from_iter(headline(data));
    if data.results.is_empty() {
        blocks.push(Block::Text(format!("{} has no interval between two edges.", data.file)));
    } else {
        blocks.push(Block::Table(Table { columns: columns.collect(), rows: rows.collect() }));
    }
    blocks.push(Block::detail(legend(data)));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[expect(clippy::cast_precision_loss, reason = "at most 1e12")]
fn legend(data: &EdgesDocument) -> String {
    let rate = data
        .sample_rate_hz
        .map_or_else(|| "at an unknown rate".to_owned(), |hertz| format!("at {}", short_frequency(hertz as f64)));
    let bound = data.resolution_ns.map(|ns| {
        format!(
            " An edge occurred at most {} before the sample that shows it, so the true jitter is within {} of this.",
            short_time(ns),
            short_time(2.0 * ns)
        )
    });
    format!(
        "{} {} {rate}. jitter: the latest edge relative to the earliest, around the constant period that fits best. max − min: the largest interval minus the smallest.{} 20 ns: the jitter in cycles of 50 MHz. Read on {}",
        data.samples,
        one_or_many(data.samples, "sample", "samples"),
        bound.unwrap_or_default(),
        machine_line(&data.head.machine)
    )
}

#[cfg(test)]
mod tests {
    use hpt_document::edges::{EdgeKind, EdgesDocument};

    use super::{Edges, KIND, page, row};
    use crate::{golden, output::Document};

    #[test]
    fn a_recording_is_printed_exactly() {
        // A millisecond at 50 MHz, alternately one sample too long and too short.
        let mut edges = Edges::default();
        edges.sample(0, false);
        for number in 1..=2_001_u64 {
            edges.sample(number * 50_000 + number % 2, number % 2 == 1);
        }
        let data = EdgesDocument {
            head: golden::head(KIND),
            file: "edges.csv".to_owned(),
            sample_rate_hz: Some(50_000_000),
            resolution_ns: Some(20.0),
            samples: 100_100_001,
            interrupted: true,
            results: [(EdgeKind::All, &edges.all), (EdgeKind::Rising, &edges.rising)]
                .into_iter()
                .filter_map(|(kind, intervals)| row("D0", kind, intervals, 20.0))
                .collect(),
            notes: vec!["a note".to_owned()],
        };
        let all = &data.results[0];
        assert_eq!((all.jitter_ns, all.jitter_cycles_20ns, all.interval_jitter_ns), (Some(20.0), Some(1.0), 40.0));
        assert_eq!(data.results[1].jitter_ns, Some(0.0));
        let blocks = page(&data);
        golden::assert(KIND, &Document::new(data, blocks));
    }
}
