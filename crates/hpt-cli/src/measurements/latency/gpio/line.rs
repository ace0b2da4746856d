//! Descriptions of a GPIO line, for documents and as text.

use hpt_document::gpio_line::GpioLine;
use hpt_instrument::gpio::{Chip, LineState};

/// Describes the line for a document.
pub(super) fn line_of(chip: &Chip, line: &LineState) -> GpioLine {
    GpioLine {
        chip: chip.name().to_owned(),
        label: chip.label().to_owned(),
        line: line.offset,
        name: line.name.clone(),
    }
}

/// Describes the line as text.
pub(super) fn line_words(line: &GpioLine) -> String {
    let place = format!("{}:{}", line.chip, line.line);
    line.name.as_ref().map_or_else(|| place.clone(), |name| format!("{name} ({place})"))
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_document::gpio_line::GpioLine;

    /// Creates a line for tests of the output.
    pub(crate) fn place(line: u32) -> GpioLine {
        GpioLine {
            chip: "gpiochip0".to_owned(),
            label: "pinctrl-bcm2835".to_owned(),
            line,
            name: (line != 0).then(|| format!("GPIO{line}")),
        }
    }
}
