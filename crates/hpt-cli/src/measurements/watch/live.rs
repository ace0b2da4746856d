//! The table that `hpt watch` redraws on a terminal: the latest values of each source, and the values so far.

use std::time::Duration;

use hpt_document::watch::WatchDocument;

use super::{
    terminal::{event_lines, fault_count, ppm, signed_time},
    totals::Totals,
};
use crate::{
    context::Context,
    output::{Align, Block, Cell, Column, Format, Table, Tone, live::Live, one_or_many},
};

/// The minimum time between updates, in seconds.
const DRAW_EVERY_S: f64 = 1.0;

/// The columns that each layout has, of `COLUMNS`. A narrow terminal has the last one that fits.
const LAYOUTS: [&[usize]; 3] = [&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[0, 1, 2, 3, 4, 8], &[0, 1, 2, 8]];
const COLUMNS: [Column; 9] = [
    Column("source", Align::Left),
    Column("offset", Align::Right),
    Column("±", Align::Right),
    Column("error ppm", Align::Right),
    Column("±", Align::Right),
    Column("min ppm", Align::Right),
    Column("max ppm", Align::Right),
    Column("steps", Align::Right),
    Column("faults", Align::Right),
];

/// The table on the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    live: Live,
    duration: Option<Duration>,
    latest: Option<WatchDocument>,
    drawn_s: f64,
}

impl Screen {
    /// Returns `None` if the rows of each interval are printed instead.
    pub(super) fn open(context: &Context, duration: Option<Duration>) -> Option<Self> {
        let is_wanted = context.format == Format::Human && !context.is_of_a_part();
        let live = is_wanted.then(Live::on_terminal).flatten()?;
        Some(Self { live, duration, latest: None, drawn_s: f64::NEG_INFINITY })
    }

    /// Draws the table again if a second has passed.
    pub(super) fn update(&mut self, so_far: &Totals, now_s: f64) {
        if now_s - self.drawn_s >= DRAW_EVERY_S {
            self.draw(so_far, now_s);
        }
    }

    /// Shows the values of an interval. Its events remain above the table.
    pub(super) fn end_interval(&mut self, data: WatchDocument, so_far: &Totals) {
        let events = event_lines(&data);
        if !events.is_empty() {
            self.live.print_above(&[Block::Text(events.join("\n"))]);
        }
        let at_s = data.at_s;
        self.latest = Some(data);
        self.draw(so_far, at_s);
    }

    fn draw(&mut self, so_far: &Totals, now_s: f64) {
        let rows = rows(so_far, self.latest.as_ref());
        let status = status(so_far, self.duration, now_s);
        self.live.draw(LAYOUTS.iter().map(|columns| layout(&rows, columns, &status)));
        self.drawn_s = now_s;
    }
}

fn layout(rows: &[Vec<Cell>], columns: &[usize], status: &str) -> Vec<Block> {
    let cells = |row: &Vec<Cell>| columns.iter().map(|&column| row[column].clone()).collect();
    let table = Table {
        columns: columns.iter().map(|&column| COLUMNS[column]).collect(),
        rows: rows.iter().map(cells).collect(),
    };
    vec![Block::Table(table), Block::Headline(status.to_owned())]
}

fn rows(so_far: &Totals, latest: Option<&WatchDocument>) -> Vec<Vec<Cell>> {
    let rows = so_far.rows.iter().map(|total| {
        let total = &total.row;
        let now = latest.and_then(|data| data.sources.iter().find(|row| row.source == total.source));
        vec![
            Cell::plain(total.source.as_str()),
            Cell::or_dash(now.and_then(|now| now.offset.offset_ns).map(signed_time)),
            Cell::or_dash(now.and_then(|now| now.offset.offset_bound_ns).map(signed_time)),
            Cell::or_dash(now.and_then(|now| now.frequency_error_ppm).map(ppm)),
            Cell::or_dash(now.and_then(|now| now.frequency_bound_ppm).map(ppm)),
            Cell::or_dash(total.lowest_ppm.map(ppm)),
            Cell::or_dash(total.highest_ppm.map(ppm)),
            Cell::plain(total.steps.steps.to_string()),
            Cell(total.faults.to_string(), if total.faults > 0 { Tone::Bad } else { Tone::Good }),
        ]
    });
    rows.collect()
}

/// Formats the elapsed time and the number of faults.
fn status(so_far: &Totals, duration: Option<Duration>, now_s: f64) -> String {
    let of = duration.map(|duration| format!(" of {:.1} s", duration.as_secs_f64())).unwrap_or_default();
    let rows = so_far.rows.iter().map(|total| &total.row);
    match fault_count(rows, &so_far.worst_cores, &so_far.shared_faults) {
        0 => format!("{now_s:.1} s{of}, no faults so far"),
        faults => format!("{now_s:.1} s{of}, {faults} {} so far", one_or_many(faults, "fault", "faults")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_instrument::diagnose::{Limits, Watch};

    use super::{LAYOUTS, layout, rows, status};
    use crate::{
        measurements::watch::{
            terminal::tests::seen,
            totals::{SourceTotal, Totals, Watched},
        },
        output::{Document, Format, Look, rendered},
    };

    fn so_far() -> Totals {
        let (_, summary) = seen();
        let limits = Limits::default();
        let watched = Watched { reference: "monotonic-raw".to_owned(), limits, cpu: None };
        let mut so_far = Totals::beginning(&[], Watch::new(&[], limits), watched);
        so_far.rows = summary
            .sources
            .iter()
            .map(|row| SourceTotal { row: row.clone(), ..SourceTotal::beginning(&row.source, 1e9, "definition") })
            .collect();
        so_far
    }

    #[test]
    fn one_layout_fits_each_terminal() {
        let (interval, summary) = seen();
        let rows = rows(&so_far(), Some(&interval));
        let shown = |columns: &&[usize], width| {
            let document = Document::new(summary.clone(), layout(&rows, columns, "1.0 s"));
            rendered(&document, Format::Human, Look { width, color: false, verbose: false })
        };
        // A header, a row for each source, an empty line and the status.
        let fits = |columns: &&[usize], width| shown(columns, width).lines().count() == rows.len() + 3;
        assert!(fits(&LAYOUTS[0], 77), "{}", shown(&LAYOUTS[0], 77));
        assert!(fits(&LAYOUTS[2], 37), "{}", shown(&LAYOUTS[2], 37));
        assert_eq!(
            shown(&LAYOUTS[2], 37),
            "source      offset       ± faults\ntsc       -1.48 µs 63.5 ns      1\n\
             monotonic    11 ns 63.5 ns      0\n\n1.0 s\n"
        );
    }

    #[test]
    fn the_status_has_the_time_and_the_faults() {
        let mut so_far = so_far();
        assert_eq!(status(&so_far, Some(Duration::from_secs(60)), 2.04), "2.0 s of 60.0 s, 1 fault so far");
        so_far.rows.clear();
        assert_eq!(status(&so_far, None, 2.04), "2.0 s, no faults so far");
        so_far.shared_faults = vec!["a fault".to_owned(); 2];
        assert_eq!(status(&so_far, None, 2.04), "2.0 s, 2 faults so far");
    }
}
