//! The headline and the tables of `hpt calibrate`.

use hpt_document::calibrate::{CalibrateDocument, CalibrationRow};

use crate::{
    document_head::machine_line,
    output::{Align, Block, Cell, Column, Table, Tone, short_time},
};

/// The maximum number of counters in the headline.
const IN_HEADLINE: usize = 2;
/// The bound from which on a measured frequency says nothing about the rate of a clock.
const NO_RATE_PPM: f64 = 1_000.0;
/// The largest number of decimals of a frequency, in its unit: a microhertz.
const MOST_DECIMALS: i32 = 15;

pub(super) fn page(data: &CalibrateDocument) -> Vec<Block> {
    let mut blocks = Vec::from_iter(headline(data));
    let calibrated: Vec<&CalibrationRow> = data.calibrations.iter().filter(|row| row.calibrated).collect();
    let columns = [
        Column("source", Align::Left),
        Column("frequency", Align::Right),
        Column("error ppm", Align::Right),
        Column("± ppm", Align::Right),
        Column("nominal from", Align::Left),
    ];
    let rows = calibrated.iter().map(|row| {
        if has_no_rate(row) {
            let others = std::iter::repeat_with(|| Cell::faint("-")).take(2);
            let named = [Cell::plain(row.source.as_str()), Cell::faint("no rate")].into_iter().chain(others);
            return named.chain([Cell::or_dash(row.nominal_origin.clone())]).collect();
        }
        vec![
            Cell::plain(row.source.as_str()),
            Cell::or_dash(frequency(row)),
            Cell::or_dash(row.error_ppm.zip(row.bound_ppm).map(|(error, bound)| signed(error, bound))),
            Cell::or_dash(row.bound_ppm.map(figures)),
            Cell::or_dash(row.nominal_origin.clone()),
        ]
    });
    blocks.push(Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }));
    if calibrated.iter().any(|row| has_no_rate(row)) {
        let text = "no rate: the bound is wider than 1000 ppm. A longer --duration narrows it.";
        blocks.push(Block::Text(text.to_owned()));
    }
    if calibrated.iter().any(|row| row.bound_ppm.is_none()) {
        let text = "-: without a bound. The reference advances with the kernel's tick, which may be late, or the \
                    readings of a clock contradict each other.";
        blocks.push(Block::Text(text.to_owned()));
    }
    let failed = data.calibrations.iter().filter_map(|row| {
        row.failure.as_ref().map(|failure| vec![Cell(row.source.clone(), Tone::Bad), Cell::plain(failure)])
    });
    let failed: Vec<Vec<Cell>> = failed.collect();
    if !failed.is_empty() {
        blocks.push(Block::Section("Not calibrated".to_owned(), failed));
    }
    blocks.push(Block::Detail(Box::new(readings(&calibrated))));
    blocks.extend(summary(data).map(Block::detail));
    if data.interrupted {
        blocks.push(Block::Text(
            "Interrupted; the run time was shorter than requested, so the bounds are wider.".to_owned(),
        ));
    }
    blocks.extend(data.saved_to.iter().map(|path| Block::Text(format!("Saved to {path}, valid until the next boot."))));
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
}

/// Returns whether the bound of a frequency is so wide that the frequency says nothing.
fn has_no_rate(row: &CalibrationRow) -> bool {
    row.bound_ppm.is_some_and(|bound| bound >= NO_RATE_PPM)
}

/// Names the frequency of the counters. If only the kernel's clocks were calibrated, names the clock with the largest
/// frequency error.
fn headline(data: &CalibrateDocument) -> Option<Block> {
    let bounded = || data.calibrations.iter().filter(|row| row.bound_ppm.is_some() && !has_no_rate(row));
    let is_counter = |row: &&CalibrationRow| row.nominal_origin.as_deref() != Some("definition");
    let described = |row: &CalibrationRow| described(row, data.counter_of_reference.as_deref());
    let counters: Vec<String> = bounded().filter(is_counter).filter_map(described).collect();
    let text = match (counters.len(), bounded().count()) {
        (0, 0) if data.calibrations.iter().any(has_no_rate) => {
            "No rate: every bound is wider than 1000 ppm; use a longer --duration".to_owned()
        }
        (0, 0) => return None,
        (0, 1) => described(bounded().next()?)?,
        (0, clocks) => {
            let certain = |row: &CalibrationRow| Some(row.error_ppm?.abs() - row.bound_ppm?);
            let largest = bounded().filter(|row| certain(row).is_some());
            let largest = largest.max_by(|one, other| {
                let size = |row| certain(row).unwrap_or(f64::NEG_INFINITY);
                size(one).total_cmp(&size(other))
            })?;
            let (error, bound) = largest.error_ppm.zip(largest.bound_ppm)?;
            if error.abs() <= bound {
                format!("{clocks} clocks run at their nominal frequency, within the bounds below")
            } else {
                let (size, side) = (rounded_to(error.abs(), bound), side(error));
                let bound = figures(bound);
                format!(
                    "Largest frequency error of {clocks} clocks: {}, {size} ppm {side} nominal, ± {bound} ppm",
                    largest.source
                )
            }
        }
        (several, _) if several > IN_HEADLINE => {
            format!("{}; and {} other counters", counters[..IN_HEADLINE].join("; "), several - IN_HEADLINE)
        }
        _ => counters.join("; "),
    };
    Some(Block::Headline(text))
}

fn side(error_ppm: f64) -> &'static str {
    if error_ppm < 0.0 { "below" } else { "above" }
}

/// Returns the frequency of a source, its bound, and its deviation from the nominal frequency. A reference that is made
/// from the same counter has the same errors, so the comparison says nothing about the true rate.
fn described(row: &CalibrationRow, counter_of_reference: Option<&str>) -> Option<String> {
    let bound = row.bound_ppm?;
    if counter_of_reference == Some(row.source.as_str()) {
        let reference = row.reference.as_deref().unwrap_or("the reference");
        return Some(format!(
            "{}: {} relative to {reference}, which is made from this counter; its true rate was not measured",
            row.source,
            frequency(row)?
        ));
    }
    let deviation = match row.error_ppm {
        None => String::new(),
        Some(error) if error.abs() <= bound => ", equal to its nominal frequency within this bound".to_owned(),
        Some(error) => {
            format!(", {} ppm {} its nominal frequency", rounded_to(error.abs(), bound), side(error))
        }
    };
    Some(format!("{}: {} ± {} ppm{deviation}", row.source, frequency(row)?, figures(bound)))
}

/// Returns the frequency, rounded to its bound.
fn frequency(row: &CalibrationRow) -> Option<String> {
    let (hertz, bound_ppm) = row.frequency_hz.zip(row.bound_ppm)?;
    let (unit, size) = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3)]
        .into_iter()
        .find(|(_, size)| hertz * (1.0 + bound_ppm / 1e6) >= *size)
        .unwrap_or(("Hz", 1.0));
    Some(format!("{} {unit}", rounded_to(hertz / size, bound_ppm / 1e6 * hertz / size)))
}

/// Formats a value with the digits that its bound leaves: the last digit is worth at most a tenth
/// of the bound. If the bound is zero, formats all digits.
fn rounded_to(value: f64, bound: f64) -> String {
    if bound <= 0.0 {
        return value.to_string();
    }
    #[expect(clippy::cast_possible_truncation, reason = "the exponent of a number")]
    let power = bound.log10().floor() as i32 - 1;
    let decimals = usize::try_from((-power).clamp(0, MOST_DECIMALS)).unwrap_or(0);
    let step = 10_f64.powi(power);
    let value = if power > 0 { (value / step).round() * step } else { value };
    format!("{value:.decimals$}")
}

/// Formats a deviation with its sign, rounded to its bound.
fn signed(error_ppm: f64, bound_ppm: f64) -> String {
    let rounded = rounded_to(error_ppm.abs(), bound_ppm);
    let is_zero = rounded.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let sign = match error_ppm {
        _ if is_zero => "",
        error if error < 0.0 => "-",
        _ => "+",
    };
    format!("{sign}{rounded}")
}

/// Returns the table of the readings behind each frequency.
fn readings(calibrated: &[&CalibrationRow]) -> Block {
    let columns = [
        Column("readings", Align::Left),
        Column("pairs", Align::Right),
        Column("bracket", Align::Right),
        Column("window", Align::Right),
    ];
    #[expect(clippy::cast_precision_loss, reason = "a day is below 2^53 ns")]
    let time = |ns: Option<u64>| Cell::or_dash(ns.map(|ns| short_time(ns as f64)));
    let rows = calibrated.iter().map(|row| {
        vec![
            Cell::plain(row.source.as_str()),
            Cell::or_dash(row.pairs.map(|pairs| pairs.to_string())),
            time(row.narrowest_bracket_ns),
            time(row.window_ns),
        ]
    });
    Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() })
}

/// Formats the reference, the run time and the CPU.
fn summary(data: &CalibrateDocument) -> Option<String> {
    let row = data.calibrations.iter().find(|row| row.calibrated)?;
    let reference = row.reference.as_ref().map_or("the nominal frequency", String::as_str);
    #[expect(clippy::cast_precision_loss, reason = "a day is below 2^53 ns")]
    let window = short_time(row.window_ns.unwrap_or(0) as f64);
    let cpu = row.cpu.map_or_else(|| "several CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
    let when = if data.measured_now { "Measured" } else { "Saved result of a measurement" };
    Some(format!(
        "{when} against {reference} for {window} on {cpu}. error ppm: deviation from the nominal frequency. ± ppm: the \
         largest possible error of the frequency if both clocks run at a constant rate; this is a hard limit, not a \
         standard uncertainty. bracket: the narrowest pair of reference readings around a reading. {}",
        machine_line(&data.head.machine)
    ))
}

/// Formats a value with about three digits. A positive value below 0.0005 is printed with an exponent.
fn figures(value: f64) -> String {
    let decimals = match value {
        _ if value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ if value >= 1.0 => 2,
        _ if value >= 0.1 => 3,
        _ => 4,
    };
    if value > 0.0 && value < 0.0005 { format!("{value:.1e}") } else { format!("{value:.decimals$}") }
}

#[cfg(test)]
mod tests {
    use hpt_document::calibrate::{CalibrateDocument, CalibrationRow};

    use super::{figures, headline, rounded_to, signed};
    use crate::{golden, output::Block};

    fn row(source: &str, frequency_hz: f64, bound_ppm: f64, error_ppm: f64, origin: &str) -> CalibrationRow {
        CalibrationRow {
            source: source.to_owned(),
            reference: Some("monotonic-raw".to_owned()),
            calibrated: true,
            failure: None,
            method: Some("bracketed".to_owned()),
            frequency_hz: Some(frequency_hz),
            lowest_hz: None,
            highest_hz: None,
            bound_ppm: Some(bound_ppm),
            nominal_hz: Some(frequency_hz),
            nominal_origin: Some(origin.to_owned()),
            error_ppm: Some(error_ppm),
            window_ns: Some(1_000_000_000),
            pairs: Some(256),
            narrowest_bracket_ns: Some(49),
            cpu: Some(1),
        }
    }

    fn headline_of(calibrations: Vec<CalibrationRow>) -> Option<String> {
        let hpt_document::Document::Calibrate(data) = golden::empty("calibrate") else { panic!("its kind") };
        match headline(&CalibrateDocument { calibrations, ..data }) {
            Some(Block::Headline(text)) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn the_headline_names_the_counters_or_the_clock_with_the_largest_error() {
        let tsc = || row("tsc", 2_596_098_026.833, 0.05, 0.036, "bogomips");
        let of = |rows: Vec<CalibrationRow>| headline_of(rows).expect("a bound");
        assert_eq!(
            of(vec![row("boottime", 1e9, 0.05, 3.0, "definition"), tsc()]),
            "tsc: 2.59609803 GHz ± 0.0500 ppm, equal to its nominal frequency within this bound"
        );
        assert_eq!(
            of(vec![row("hpet", 24e6, 0.21, -52.34, "device")]),
            "hpet: 24.0000000 MHz ± 0.210 ppm, 52.34 ppm below its nominal frequency"
        );
        // The reference is made from the counter: the bound is that of the comparison.
        let hpt_document::Document::Calibrate(data) = golden::empty("calibrate") else { panic!("its kind") };
        let own = CalibrateDocument {
            counter_of_reference: Some("tsc".to_owned()),
            calibrations: vec![row("tsc", 2_596_098_026.833, 0.05, 0.363, "bogomips")],
            ..data
        };
        let Some(Block::Headline(text)) = headline(&own) else { panic!("a headline") };
        assert!(text.ends_with("which is made from this counter; its true rate was not measured"), "{text}");
        assert!(!text.contains("ppm"), "{text}");
        assert!(of(vec![tsc(), tsc(), tsc()]).ends_with("; and 1 other counters"));
        let clocks = vec![
            row("realtime", 1_000_012_340.0, 0.05, 12.34, "definition"),
            row("monotonic-coarse", 1_000_054_000.0, 800.0, 54.0, "definition"),
        ];
        assert_eq!(of(clocks), "Largest frequency error of 2 clocks: realtime, 12.340 ppm above nominal, ± 0.0500 ppm");
        let clock = || row("boottime", 1e9, 0.05, 0.01, "definition");
        assert_eq!(of(vec![clock(), clock()]), "2 clocks run at their nominal frequency, within the bounds below");
        assert_eq!(headline_of(vec![CalibrationRow { bound_ppm: None, ..tsc() }]), None);
    }

    #[test]
    fn a_frequency_that_may_be_a_gigahertz_is_printed_in_gigahertz() {
        let coarse = row("monotonic-coarse", 999_999_700.0, 4_092.0, -0.3, "definition");
        assert_eq!(super::frequency(&coarse).as_deref(), Some("1.0000 GHz"));
        assert_eq!(super::frequency(&row("rtc0", 1.02, 80_000.0, 0.0, "definition")).as_deref(), Some("1.020 Hz"));
    }

    #[test]
    fn values_have_the_digits_that_their_bound_leaves() {
        assert_eq!(rounded_to(2_596_098_026.833, 130.0), "2596098030");
        assert_eq!(rounded_to(2.596_098_026_833, 130e-9), "2.59609803");
        assert_eq!(rounded_to(1_000.054, 8.0), "1000.1");
        assert_eq!(rounded_to(32_768.0, 0.0), "32768");
        assert_eq!([signed(54.0, 8_000.0), signed(-593.4, 21.0), signed(0.036, 0.21)], ["+100", "-593", "+0.04"]);
        assert_eq!([signed(-0.001, 0.21), signed(-9.0, 8_000.0)], ["0.00", "0"]);
    }

    #[test]
    fn figures_have_about_three_significant_digits() {
        let shown: Vec<String> = [0.000_012_3, 0.0789, 0.123, 1.5, 12.34, 52_493.7].into_iter().map(figures).collect();
        assert_eq!(shown, ["1.2e-5", "0.0789", "0.123", "1.50", "12.3", "52494"]);
    }
}
