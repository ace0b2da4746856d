//! `hpt latency gpio --list`: lists GPIO chips, their lines, and the users of the lines.

use std::path::PathBuf;

use hpt_document::gpio_line::{GpioChip, GpioListDocument, GpioListedLine};
use hpt_instrument::gpio::{Chip, LineState, chips};

use super::line::line_of;
use crate::{
    context::Context,
    document_head::{head_of, machine_line},
    exit::causes,
    output::{Align, Answer, Block, Cell, Column, Document, Table, Tone, one_or_many, remarks},
};

pub(super) const LIST: &str = "latency-gpio-list";

/// Lists all chips and their lines, or only the requested chip.
pub(super) fn list(context: &Context, wanted: Option<&str>) -> Document {
    let mut data = GpioListDocument {
        head: head_of(LIST, &context.host),
        chips: Vec::new(),
        lines: Vec::new(),
        notes: context.notes(),
    };
    let paths = match wanted {
        Some(path) if path.starts_with('/') => Ok(vec![PathBuf::from(path)]),
        Some(_) | None => chips(),
    };
    let (mut answer, mut no_chips) = (Answer::Yes, None);
    match paths {
        Ok(paths) => {
            for path in paths {
                let opened = Chip::open(&path);
                if matches!((&opened, wanted), (Ok(chip), Some(wanted)) if !chip.is_called(wanted)) {
                    continue;
                }
                match opened.and_then(|chip| chip.all_lines().map(|lines| (chip, lines))) {
                    Ok((chip, lines)) => {
                        data.lines.extend(lines.iter().map(|line| listed(&chip, line)));
                        data.chips.push(GpioChip {
                            path: path.to_string_lossy().into_owned(),
                            chip: Some(chip.name().to_owned()),
                            label: Some(chip.label().to_owned()),
                            lines: Some(chip.lines()),
                            reason: None,
                        });
                    }
                    Err(reason) => {
                        let reason = Some(causes(&reason));
                        let path = path.to_string_lossy().into_owned();
                        data.chips.push(GpioChip { path, chip: None, label: None, lines: None, reason });
                    }
                }
            }
            if data.chips.iter().all(|chip| chip.reason.is_some()) {
                answer = Answer::Unknown;
            }
        }
        Err(none) => {
            no_chips = Some(causes(&none));
            answer = Answer::No;
        }
    }
    if let (true, Some(wanted), Answer::Unknown) = (data.chips.is_empty(), wanted, answer) {
        no_chips = Some(format!("no such GPIO chip: {wanted:?}"));
        answer = Answer::No;
    }
    let blocks = list_page(&data, no_chips.as_deref());
    data.notes.extend(no_chips);
    Document { answer, ..Document::new(data, blocks) }
}

fn listed(chip: &Chip, line: &LineState) -> GpioListedLine {
    GpioListedLine {
        place: line_of(chip, line),
        direction: line.direction.name().to_owned(),
        in_use: line.is_used,
        consumer: line.consumer.clone(),
        active_low: line.is_active_low,
    }
}

/// Returns the number of lines in one sentence, or the reason why there are none.
fn headline(data: &GpioListDocument, no_chips: Option<&str>) -> String {
    if let Some(reason) = no_chips {
        return format!("No GPIO lines: {reason}");
    }
    if !data.chips.is_empty() && data.chips.iter().all(|chip| chip.reason.is_some()) {
        return "No GPIO lines: no chip could be read".to_owned();
    }
    let (lines, chips) = (data.lines.len(), data.chips.iter().filter(|chip| chip.reason.is_none()).count());
    let used = data.lines.iter().filter(|line| line.in_use).count();
    let [lines, chips] = [(lines, "line"), (chips, "chip")]
        .map(|(count, name)| format!("{count} GPIO {name}{}", one_or_many(count, "", "s")));
    format!("{lines} on {chips}, {used} in use")
}

/// Formats the list. `no_chips` is the reason if there is no chip.
pub(super) fn list_page(data: &GpioListDocument, no_chips: Option<&str>) -> Vec<Block> {
    let mut blocks = vec![Block::Headline(headline(data, no_chips))];
    for chip in &data.chips {
        let path = &chip.path;
        if let Some(reason) = &chip.reason {
            blocks.push(Block::Text(format!("{path}: {reason}")));
            continue;
        }
        let label = chip.label.as_deref().unwrap_or_default();
        let lines = chip.lines.unwrap_or(0);
        blocks.push(Block::Text(format!("{path}, {label}: {lines} {}", one_or_many(lines, "line", "lines"))));
        let columns = [
            Column("line", Align::Right),
            Column("name", Align::Left),
            Column("direction", Align::Left),
            Column("used by", Align::Left),
        ];
        let of_chip = data.lines.iter().filter(|line| Some(&line.place.chip) == chip.chip.as_ref());
        let rows = of_chip.map(|line| {
            let now = if line.active_low { format!("{}, active low", line.direction) } else { line.direction.clone() };
            let user = match (&line.consumer, line.in_use) {
                (Some(consumer), _) => Cell(consumer.clone(), Tone::Bad),
                (None, true) => Cell("the kernel".to_owned(), Tone::Bad),
                (None, false) => Cell::faint("-"),
            };
            let name = Cell::or_dash(line.place.name.as_deref());
            vec![Cell::plain(line.place.line.to_string()), name, Cell::plain(now), user]
        });
        blocks.push(Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }));
    }
    let hint = if data.lines.is_empty() {
        ""
    } else {
        "A line that is not in use can be the output line. It can be the input line if its chip supports interrupts. "
    };
    blocks.push(Block::detail(format!("{hint}{}", machine_line(&data.head.machine))));
    blocks.extend(remarks(false, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use hpt_document::gpio_line::{GpioChip, GpioListDocument, GpioListedLine};

    use super::list_page;
    use crate::{
        golden,
        measurements::latency::gpio::line::tests::place,
        output::{Document, Format, Look, rendered},
    };

    #[test]
    fn a_list_is_printed_exactly() {
        let line = |line: u32, used: bool, consumer: Option<&str>| GpioListedLine {
            place: place(line),
            direction: if line == 2 { "output" } else { "input" }.to_owned(),
            in_use: used,
            consumer: consumer.map(str::to_owned),
            active_low: line == 2,
        };
        let data = GpioListDocument {
            head: golden::head("latency-gpio-list"),
            chips: vec![
                GpioChip {
                    path: "/dev/gpiochip0".to_owned(),
                    chip: Some("gpiochip0".to_owned()),
                    label: Some("pinctrl-bcm2835".to_owned()),
                    lines: Some(3),
                    reason: None,
                },
                GpioChip {
                    path: "/dev/gpiochip1".to_owned(),
                    chip: None,
                    label: None,
                    lines: None,
                    reason: Some("a reason".to_owned()),
                },
            ],
            lines: vec![line(0, false, None), line(1, true, None), line(2, true, Some("led0"))],
            notes: vec!["a note".to_owned()],
        };
        let blocks = list_page(&data, None);
        golden::assert("latency-gpio-list", &Document::new(data, blocks));
    }

    #[test]
    fn the_reason_for_an_empty_list_is_its_only_line() {
        let data = GpioListDocument {
            head: golden::head("latency-gpio-list"),
            chips: Vec::new(),
            lines: Vec::new(),
            notes: Vec::new(),
        };
        let blocks = list_page(&data, Some("no /dev/gpiochip* exists"));
        let text =
            rendered(&Document::new(data, blocks), Format::Human, Look { width: 80, color: false, verbose: false });
        assert_eq!(text, "No GPIO lines: no /dev/gpiochip* exists\n");
    }
}
