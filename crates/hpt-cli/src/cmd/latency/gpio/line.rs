//! A GPIO line as documents name it.

use hpt_core::gpio::{Chip, LineState};
use serde::Serialize;

/// A line, for programs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LineRow {
    pub(super) chip: String,
    pub(super) label: String,
    pub(super) line: u32,
    pub(super) name: Option<String>,
}

impl LineRow {
    pub(super) fn of(chip: &Chip, line: &LineState) -> Self {
        Self {
            chip: chip.name().to_owned(),
            label: chip.label().to_owned(),
            line: line.offset,
            name: line.name.clone(),
        }
    }

    pub(super) fn words(&self) -> String {
        let place = format!("{}:{}", self.chip, self.line);
        self.name.as_ref().map_or_else(|| place.clone(), |name| format!("{name} ({place})"))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::LineRow;

    /// A line to print.
    pub(crate) fn place(line: u32) -> LineRow {
        LineRow {
            chip: "gpiochip0".to_owned(),
            label: "pinctrl-bcm2835".to_owned(),
            line,
            name: (line != 0).then(|| format!("GPIO{line}")),
        }
    }
}
