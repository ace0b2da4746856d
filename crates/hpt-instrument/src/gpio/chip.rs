//! Lists GPIO chips and reads the state of their lines.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use hpt_sys::gpio::{Device, LineFlags, LineInfo};

use super::{
    GpioError, LineName, error,
    name::{Which, similar},
};

const DEVICES: &str = "/dev";
const PREFIX: &str = "gpiochip";
/// The directory in which the kernel lists its GPIO chips.
const LISTED: &str = "/sys/bus/gpio/devices";

/// Returns the device paths of the GPIO chips, ordered by number.
///
/// # Errors
///
/// Returns [`GpioError::NoChips`] with the reason if there are no chips.
pub fn chips() -> Result<Vec<PathBuf>, GpioError> {
    let entries = fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let chips = in_order(entries.filter_map(|entry| entry.file_name().into_string().ok()));
    if chips.is_empty() {
        let listed = fs::read_dir(LISTED).ok().map(|entries| entries.flatten().count());
        return Err(GpioError::NoChips { why: error::why_none(listed) });
    }
    Ok(chips)
}

fn in_order(names: impl Iterator<Item = String>) -> Vec<PathBuf> {
    let number = |name: &str| name.strip_prefix(PREFIX)?.parse::<u32>().ok();
    let mut found: Vec<_> = names.filter_map(|name| Some((number(&name)?, name))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| Path::new(DEVICES).join(name)).collect()
}

/// A GPIO chip. Opening a chip does not change its lines.
#[derive(Debug)]
pub struct Chip {
    pub(super) device: Device,
    path: PathBuf,
    name: String,
    label: String,
    lines: u32,
}

/// The direction of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// An input line, whose level is read.
    Input,
    /// An output line, which is driven to a level.
    Output,
}

impl Direction {
    /// Returns `input` or `output`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
        }
    }
}

/// The state of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineState {
    /// The number of the line on its chip.
    pub offset: u32,
    /// The name of the line, if the board defines one.
    pub name: Option<String>,
    /// Whether the line is an input or an output.
    pub direction: Direction,
    /// Whether the line is in use. A line in use cannot be requested.
    pub is_used: bool,
    /// The program that uses the line, if the kernel reports it.
    pub consumer: Option<String>,
    /// Whether the line is active-low.
    pub is_active_low: bool,
}

impl LineState {
    fn of(offset: u32, info: &LineInfo) -> Self {
        let told = |text| Some(String::from(text)).filter(|text| !text.is_empty());
        let has = |flag| info.flags.contains(flag);
        Self {
            offset,
            name: told(&info.name),
            direction: if has(LineFlags::OUTPUT) { Direction::Output } else { Direction::Input },
            is_used: has(LineFlags::USED),
            consumer: told(&info.consumer),
            is_active_low: has(LineFlags::ACTIVE_LOW),
        }
    }
}

impl Chip {
    /// Opens the chip with the device path `path`.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the device does not exist, if this process has no permission to open it, or if it is
    /// not a GPIO chip. Only character devices of the kernel's GPIO subsystem are opened.
    pub fn open(path: &Path) -> Result<Self, GpioError> {
        let not_a_chip = || GpioError::NotAChip { path: path.to_owned() };
        let what = fs::metadata(path).map_err(|cause| error::of_open(path.to_owned(), cause))?;
        // The type is checked first, because opening a device can have side effects.
        if !what.file_type().is_char_device() || !is_listed(what.rdev()).unwrap_or(true) {
            return Err(not_a_chip());
        }
        let device = Device::open(path).map_err(|cause| error::of_open(path.to_owned(), cause))?;
        let info = device.info().map_err(|cause| match cause.raw_os_error() {
            Some(libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => not_a_chip(),
            _ => GpioError::Chip { path: path.to_owned(), cause },
        })?;
        Ok(Self {
            device,
            path: path.to_owned(),
            name: (&info.name).into(),
            label: (&info.label).into(),
            lines: info.num_lines,
        })
    }

    /// Returns the path of the chip's device.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the kernel's name for the chip, for example gpiochip0.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the label that the driver gives the chip, for example pinctrl-bcm2835.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the number of lines on the chip.
    #[must_use]
    pub const fn lines(&self) -> u32 {
        self.lines
    }

    /// Returns the state of a line, including the program that uses it.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the chip does not have this line, or if the kernel is older than Linux 5.10.
    pub fn line(&self, offset: u32) -> Result<LineState, GpioError> {
        if offset >= self.lines {
            return Err(GpioError::NoSuchLine { chip: self.name.clone(), offset, lines: self.lines });
        }
        let info = self.device.line(offset).map_err(|cause| error::of_question(self.path.clone(), cause))?;
        Ok(LineState::of(offset, &info))
    }

    /// Returns the states of all lines of the chip.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if the kernel is older than Linux 5.10.
    pub fn all_lines(&self) -> Result<Vec<LineState>, GpioError> {
        (0..self.lines).map(|offset| self.line(offset)).collect()
    }

    /// Returns a readable name for one of the chip's lines.
    #[must_use]
    pub fn name_of(&self, offset: u32, name: Option<&str>) -> String {
        name.map_or_else(|| format!("{}:{offset}", self.name), |name| format!("{name} ({}:{offset})", self.name))
    }

    /// Returns whether `name` identifies this chip by its device path, its kernel name, its label or its number.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.path == Path::new(name)
            || self.name == name
            || self.label == name
            || self.name.strip_prefix(PREFIX) == Some(name)
    }
}

/// Returns whether the device belongs to the kernel's GPIO subsystem; `None` if the kernel does not report this.
fn is_listed(device: u64) -> Option<bool> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let subsystem = fs::read_link(format!("/sys/dev/char/{major}:{minor}/subsystem")).ok()?;
    Some(subsystem.ends_with("gpio"))
}

/// A line that [`LineName::find`] found.
#[derive(Debug)]
#[non_exhaustive]
pub struct FoundLine {
    /// The open chip.
    pub chip: Chip,
    /// The line on that chip.
    pub line: LineState,
}

impl LineName {
    /// Finds the line. A number without a chip is valid only if exactly one chip can be opened. A name without a chip
    /// is looked up on all chips that can be opened.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError`] if there is no chip, if the line may be on a chip that cannot be opened, or if no line or
    /// more than one line matches.
    pub fn find(&self) -> Result<FoundLine, GpioError> {
        let paths = match &self.chip {
            Some(path) if path.starts_with('/') => vec![PathBuf::from(path)],
            Some(_) | None => chips()?,
        };
        let opened = paths.iter().map(|path| Chip::open(path));
        self.among(opened.collect())
    }

    fn among(&self, opened: Vec<Result<Chip, GpioError>>) -> Result<FoundLine, GpioError> {
        let (mut chips, mut refusals) = (Vec::new(), Vec::new());
        for one in opened {
            match one {
                Ok(chip) => chips.push(chip),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let names = |chips: &[Chip]| {
            chips.iter().map(|chip| format!("{} ({})", chip.name, chip.label)).collect::<Vec<_>>().join(", ")
        };
        let there = names(&chips);
        if let Some(wanted) = &self.chip {
            chips.retain(|chip| chip.is_called(wanted));
        }
        // A chip that could not be opened may be the requested chip, so its error takes precedence.
        if chips.is_empty() {
            return Err(refusals
                .into_iter()
                .next()
                .unwrap_or_else(|| GpioError::NoSuchChip { name: self.chip.clone().unwrap_or_default(), there }));
        }
        let name = match &self.line {
            Which::Number(offset) => {
                if chips.len() > 1 {
                    return Err(GpioError::WhichChip { offset: *offset, chips: there });
                }
                let chip = chips.remove(0);
                let line = chip.line(*offset)?;
                return Ok(FoundLine { chip, line });
            }
            Which::Name(name) => name,
        };
        let mut found = Vec::new();
        let mut all_names = Vec::new();
        for (index, chip) in chips.iter().enumerate() {
            for line in chip.all_lines()? {
                if line.name.as_ref() == Some(name) {
                    found.push((index, line));
                } else {
                    all_names.extend(line.name);
                }
            }
        }
        if found.len() > 1 {
            let places = found.iter().map(|(index, line)| format!("{}:{}", chips[*index].name, line.offset));
            return Err(GpioError::Ambiguous { name: name.clone(), places: places.collect::<Vec<_>>().join(", ") });
        }
        let Some((index, line)) = found.pop() else {
            // The line may be on a chip that could not be opened, so the error of that chip takes precedence.
            if let Some(refusal) = refusals.into_iter().next() {
                return Err(refusal);
            }
            let near = similar(name, all_names.iter().map(String::as_str));
            let similar = if near.is_empty() { String::new() } else { format!("; similar: {}", near.join(", ")) };
            return Err(GpioError::NoSuchName { name: name.clone(), chips: names(&chips), similar });
        };
        Ok(FoundLine { chip: chips.swap_remove(index), line })
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Chip, LineName, in_order};
    use crate::gpio::GpioError;

    #[test]
    fn chips_are_sorted_by_their_numbers() {
        let names = ["gpiochip10", "null", "gpiochip2", "gpiochip", "gpiochipx", "gpiochip0", "agpiochip1"];
        let paths = ["/dev/gpiochip0", "/dev/gpiochip2", "/dev/gpiochip10"].map(PathBuf::from);
        assert_eq!(in_order(names.into_iter().map(str::to_owned)), paths);
    }

    #[test]
    fn a_file_that_is_not_a_chip_is_not_opened() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for path in [file.path(), Path::new("/"), Path::new("/dev/null")] {
            assert!(matches!(Chip::open(path), Err(GpioError::NotAChip { .. })), "{path:?}");
        }
        assert!(matches!(Chip::open(Path::new("/nonexistent")), Err(GpioError::Chip { .. })));
    }

    #[test]
    fn the_first_chip_that_cannot_be_opened_is_reported() {
        let name: LineName = "gpiochip0:1".parse().expect("a name");
        let refused = |path: &str| Err(GpioError::NotAChip { path: path.into() });
        let answer = name.among(vec![refused("/a"), refused("/b")]).expect_err("none of them");
        assert_eq!(answer.to_string(), "/a is not a GPIO chip");
        assert!(matches!(name.among(Vec::new()), Err(GpioError::NoSuchChip { .. })));
    }
}
