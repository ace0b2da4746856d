//! The tables of `hpt experiment`.

use hpt_document::{
    experiment::{
        ExperimentDocument, ExperimentFigureRow, ExperimentPartRow, ExperimentPartState, FigureState, LengthCount,
    },
    not_run::NotRun,
};

use crate::{
    document_head::machine_line,
    experiments::{EXPERIMENTS, decimals},
    output::{Align, Block, Cell, Column, Table, chart, remarks, rounded, short_time},
    sampling::{not_run, realtime_settings::words},
};

/// Formats a value with about three digits. A large value has as many decimals as the published value.
pub(super) fn figure(value: Option<f64>, compared: Option<f64>) -> Cell {
    let Some(value) = value else { return Cell::faint("-") };
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => {
            let compared = compared.map(|compared| compared.to_string()).unwrap_or_default();
            compared.split_once('.').map_or(0, |(_, decimals)| decimals.len())
        }
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size => decimals(10_f64.powf(size.log10().floor() - 2.0)),
    };
    Cell::plain(format!("{value:.decimals$}"))
}

/// Adds the marks of a value with few samples, and of a value during whose measurement the thread did not run.
fn marked(mut cell: Cell, row: &ExperimentFigureRow) -> Cell {
    if row.has_few_samples {
        cell.0.push('*');
    }
    if is_disturbed(row) {
        cell.0.push('!');
    }
    cell
}

/// Returns whether the thread did not run for a noticeable share of the time in which the value was measured.
fn is_disturbed(row: &ExperimentFigureRow) -> bool {
    row.measured.is_some() && not_run::is_noticeable(&NotRun { share: row.not_run_share, ..NotRun::default() })
}

/// Formats the number of samples in bins with the limits 1, 2, 3, 5, 7, 10, 20, and so on. The first bin contains the
/// values below 1.
pub(super) fn classes(distribution: &[LengthCount]) -> String {
    let mut classes: Vec<(f64, u64)> = Vec::new();
    for &LengthCount(length, samples) in distribution {
        let power = 10_f64.powf(length.max(1.0).log10().floor());
        let ends = [1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0].map(|digit| rounded(digit * power));
        let end = ends.into_iter().find(|&end| end > length).unwrap_or(f64::INFINITY);
        match classes.last_mut().filter(|(last, _)| *last >= end) {
            Some((_, all)) => *all += samples,
            None => classes.push((end, samples)),
        }
    }
    let classes = classes.into_iter().map(|(end, samples)| format!("< {end}: {samples}"));
    classes.collect::<Vec<_>>().join(", ")
}

/// Formats the main result beside the published one, in one sentence.
fn headline(experiment: &str, rows: &[&ExperimentFigureRow]) -> String {
    let main = EXPERIMENTS.iter().find(|one| one.name == experiment).map(|one| one.main);
    let is_whole = |row: &&&ExperimentFigureRow| row.measured.is_some() && row.published.is_some();
    let of_main = rows.iter().filter(is_whole).find(|row| Some(row.quantity.as_str()) == main);
    let Some(row) = of_main.or_else(|| rows.iter().find(is_whole)) else {
        return format!("{experiment}: no published figure was measured");
    };
    let value = |value: Option<f64>, compared| with_unit(value.unwrap_or_default(), compared, &row.unit);
    let few = if row.has_few_samples { " (few samples)" } else { "" };
    let spread = match (row.p50, row.max) {
        (Some(p50), Some(max)) => format!("; p50 {}, max {}", value(Some(p50), None), value(Some(max), None)),
        (_, _) => String::new(),
    };
    format!(
        "{experiment}: {}: {} here{few}, {} published{spread}",
        row.quantity,
        value(row.measured, row.published),
        value(row.published, None)
    )
}

/// Formats a value. A time has a suitable unit.
fn with_unit(value: f64, compared: Option<f64>, unit: &str) -> String {
    match [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)].iter().find(|(name, _)| *name == unit) {
        Some((_, ns)) => short_time(value * ns),
        None => format!("{} {unit}", figure(Some(value), compared).0),
    }
}

/// Formats the texts of rows, each once and with the quantities that it applies to.
fn by_text<'a>(rows: impl Iterator<Item = &'a &'a ExperimentFigureRow>) -> Vec<Vec<Cell>> {
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        match texts.iter_mut().find(|(text, _)| *text == row.method) {
            Some((_, quantities)) => quantities.push(&row.quantity),
            None => texts.push((&row.method, vec![&row.quantity])),
        }
    }
    texts
        .into_iter()
        .map(|(text, quantities)| vec![Cell::plain(format!("{}: {text}", quantities.join("; ")))])
        .collect()
}

/// Formats the result. `reached` contains the number of samples of each part, in order.
pub(super) fn page(data: &ExperimentDocument, reached: &[u64]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut left = reached;
    for made in &data.experiments {
        let rows: Vec<&ExperimentFigureRow> = data.results.iter().filter(|row| row.experiment == made.name).collect();
        blocks.push(Block::Headline(headline(&made.name, &rows)));
        blocks.push(Block::Table(table(&rows)));
        if rows.iter().any(|row| row.has_few_samples) {
            blocks.push(Block::Text("*: fewer than ten samples lie beyond this percentile.".to_owned()));
        }
        let shares = rows.iter().filter(|row| is_disturbed(row)).filter_map(|row| row.not_run_share);
        if let Some(largest) = shares.max_by(f64::total_cmp) {
            blocks.push(Block::Text(format!(
                "!: the thread did not run for up to {:.0} % of the time of this measurement.",
                largest * 100.0
            )));
        }
        let is_measured = |row: &&&ExperimentFigureRow| row.state == FigureState::Measured;
        let missing = by_text(rows.iter().filter(|row| !is_measured(row)));
        if !missing.is_empty() {
            blocks.push(Block::Section("Reasons for missing values".to_owned(), missing));
        }
        let (reached, others) = left.split_at(made.parts.len().min(left.len()));
        left = others;
        blocks.push(Block::Text(format!("Samples: {}.", samples(&made.parts, reached))));
        let title = vec![Cell::plain(format!("{} ({}; {})", made.title, made.published_in, made.hardware))];
        let mut details = vec![Block::Section(made.name.clone(), vec![title])];
        let methods = by_text(rows.iter().filter(is_measured));
        if !methods.is_empty() {
            details.push(Block::Section("Methods".to_owned(), methods));
        }
        let spread = rows.iter().filter(|row| !row.distribution.is_empty());
        let spread = spread
            .map(|row| vec![Cell::plain(format!("{} ({}): {}", row.quantity, row.unit, classes(&row.distribution)))]);
        let spread: Vec<_> = spread.collect();
        if !spread.is_empty() {
            details.push(Block::Section("Distribution: number of samples".to_owned(), spread));
        }
        details.push(Block::Text(format!(
            "Differences from the publication: {}. Here: {}.",
            made.differences,
            here(data)
        )));
        blocks.extend(details.into_iter().map(|block| Block::Detail(Box::new(block))));
    }
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

fn table(rows: &[&ExperimentFigureRow]) -> Table {
    let columns = ["", "unit", "published", "here", "p50", "p99", "max"];
    let columns = columns.map(|name| Column(name, if name.is_empty() { Align::Left } else { Align::Right }));
    let cells = rows.iter().map(|row| {
        vec![
            Cell::plain(row.quantity.clone()),
            Cell::plain(row.unit.clone()),
            Cell::or_dash(row.published.map(|value| value.to_string())),
            marked(figure(row.measured, row.published), row),
            figure(row.p50, None),
            figure(row.p99, None),
            figure(row.max, None),
        ]
    });
    Table { columns: columns.to_vec(), rows: cells.collect() }
}

/// Formats the requested number of samples and the state of each part.
pub(super) fn samples(parts: &[ExperimentPartRow], reached: &[u64]) -> String {
    let parts = parts.iter().zip(reached).map(|(part, reached)| {
        let fewer =
            if part.count == part.full_count { String::new() } else { format!(" instead of {}", part.full_count) };
        let before = if part.resumed > 0 && part.resumed < part.count {
            format!(", {} of them from an earlier run", part.resumed)
        } else {
            String::new()
        };
        let reached =
            if part.state == ExperimentPartState::Interrupted { format!(" at {reached}") } else { String::new() };
        format!("{}: {}{fewer}, {}{reached}{before}", part.name, part.count, part.state.name())
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Describes the machine on which the experiments ran.
pub(super) fn here(data: &ExperimentDocument) -> String {
    let thread = data.thread.as_ref().map(|thread| format!("{}; ", words(thread, data.cpu))).unwrap_or_default();
    let machine = &data.head.machine;
    // `machine_line` already names the emulator.
    let runs_it = if machine.emulated_by.is_some() {
        None
    } else {
        chart::runs_it(None, machine.hypervisor.as_deref(), machine.board.as_deref())
    };
    let runs_it = runs_it.map(|runs_it| format!(", {runs_it}")).unwrap_or_default();
    format!("{thread}{}{runs_it}", machine_line(machine))
}

#[cfg(test)]
mod tests {
    use hpt_document::{
        experiment::{ExperimentDocument, ExperimentPartRow, ExperimentPartState, FigureState, LengthCount},
        not_run::NotRun,
    };

    use super::{classes, figure, headline, page, with_unit};
    use crate::{
        experiments::{EXPERIMENTS, Measured},
        golden,
        measurements::experiment::document::{compared, of},
        output::Document,
        sampling::realtime_settings::tests::example,
    };

    #[test]
    fn a_run_is_printed_exactly() {
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "period").expect("it is listed");
        let measured = vec![
            Measured {
                p50: Some(20.0),
                not_run_share: Some(0.25),
                distribution: vec![(19.5, 150), (20.0, 49), (2_500.0, 1)],
                ..Measured::figure("100 µs, system clock", 31.25, "ns", 200, "monotonic")
            },
            Measured::unavailable(
                "100 µs, cycle counter",
                "ns",
                "there is no counter that programs may read; see hpt probe",
            ),
            Measured { has_few_samples: true, ..Measured::figure("something else", 1_234.5, "ns", 200, "by itself") },
        ];
        let part = |name: &str, count, state| ExperimentPartRow {
            name: name.to_owned(),
            full_count: 1_000,
            count,
            resumed: if state == ExperimentPartState::Resumed { count } else { 0 },
            expected_s: 0.04,
            state,
        };
        let data = ExperimentDocument {
            head: golden::head("experiment"),
            cpu: Some(1),
            thread: Some(example().thread),
            interrupted: true,
            not_run: NotRun { share: Some(0.01), wall_s: 2.5, stolen_s: None, ..NotRun::default() },
            experiments: vec![of(
                experiment,
                vec![
                    part("100 µs", 200, ExperimentPartState::Resumed),
                    part("1 ms", 1_000, ExperimentPartState::Interrupted),
                ],
            )],
            results: compared(experiment, measured, None),
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, &[0, 70]);
        golden::assert("experiment", &Document::new(data, blocks));
    }

    #[test]
    fn the_headline_compares_the_main_figure_or_another_that_was_measured() {
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "period").expect("it is listed");
        let text = |measured| {
            let rows = compared(experiment, measured, None);
            headline("period", &rows.iter().collect::<Vec<_>>())
        };
        let other = Measured::figure("1 ms, cycle counter", 12.5, "ns", 200, "tsc");
        let main = Measured {
            p50: Some(17.0),
            max: Some(5_216_815.0),
            ..Measured::figure(experiment.main, 58_762.0, "ns", 200, "monotonic")
        };
        assert_eq!(text(Vec::new()), "period: no published figure was measured");
        assert_eq!(text(vec![other.clone()]), "period: 1 ms, cycle counter: 12.5 ns here, 6 ns published");
        assert_eq!(
            text(vec![other, main]),
            "period: 100 µs, system clock: 58.8 µs here, 383 ns published; p50 17 ns, max 5.22 ms"
        );
        assert_eq!(
            (with_unit(99.25, Some(99.0), "%"), with_unit(0.5, None, "s")),
            ("99.2 %".to_owned(), "500 ms".to_owned())
        );
    }

    #[test]
    fn a_missing_measurement_states_its_reason() {
        let experiment = EXPERIMENTS.iter().find(|experiment| experiment.name == "period").expect("it is listed");
        let failed = compared(experiment, Vec::new(), Some("it takes root"));
        assert!(failed.iter().all(|row| row.state == FigureState::Unavailable && row.method == "it takes root"));
        let not_made = compared(experiment, Vec::new(), None);
        assert!(not_made.iter().all(|row| row.state == FigureState::NotMeasured && !row.method.is_empty()));
    }

    #[test]
    fn samples_are_grouped_by_one_significant_digit() {
        assert_eq!(classes(&[]), "");
        assert_eq!(
            classes(
                &[(0.0, 1), (0.043, 2), (1.0, 3), (1.999, 4), (2.0, 5), (9.9, 6), (5_000.0, 7)]
                    .map(|(length, samples)| LengthCount(length, samples))
            ),
            "< 1: 3, < 2: 7, < 3: 5, < 10: 6, < 7000: 7"
        );
    }

    #[test]
    fn figures_have_about_three_significant_digits() {
        let shown: Vec<_> = [0.016, 9.481, 61.985, 485.0, 0.007_427, 0.0]
            .into_iter()
            .map(|value| figure(Some(value), None).0)
            .collect();
        assert_eq!(shown, ["0.0160", "9.48", "62.0", "485", "0.00743", "0"]);
        assert_eq!(figure(None, None).0, "-");
        let compared = [(100.0391, 100.383), (0.0321, 0.806_555), (485.4, 288.0)];
        assert_eq!(
            compared.map(|(value, compared)| figure(Some(value), Some(compared)).0),
            ["100.039", "0.0321", "485"]
        );
    }
}
