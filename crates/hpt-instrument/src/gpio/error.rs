//! Defines the errors of GPIO operations; the messages suggest fixes.

use std::{io, path::PathBuf};

/// The reason a GPIO line cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpioError {
    /// The machine has no GPIO chip.
    #[error("no /dev/gpiochip* exists: {why}")]
    NoChips {
        /// The reason and a fix.
        why: &'static str,
    },
    /// No chip has the requested name.
    #[error("no GPIO chip is named {name:?}; available chips: {there}")]
    NoSuchChip {
        /// The requested name.
        name: String,
        /// The existing chips.
        there: String,
    },
    /// This process has no permission to open the device.
    #[error(
        "no permission to open {path}; run as root, or join the group that owns the device (on Raspberry Pi OS, run `sudo usermod -aG gpio $USER` and log in again; elsewhere, first add the udev rule \
         SUBSYSTEM==\"gpio\", KERNEL==\"gpiochip*\", GROUP=\"gpio\", MODE=\"0660\"); in a container, pass the device to the container"
    )]
    NoRight {
        /// The device.
        path: PathBuf,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The file is not a GPIO chip.
    #[error("{path} is not a GPIO chip")]
    NotAChip {
        /// The file.
        path: PathBuf,
    },
    /// The chip cannot be opened or queried for another reason.
    #[error("cannot use {path}")]
    Chip {
        /// The device.
        path: PathBuf,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The kernel supports only the GPIO interface that predates Linux 5.10.
    #[error(
        "{path} requires version 2 of the GPIO interface, which this kernel does not support; use Linux 5.10 or newer"
    )]
    TooOld {
        /// The device.
        path: PathBuf,
    },
    /// The chip does not have a line with the requested number.
    #[error("{chip} has no line {offset}: {}", numbered(*.lines))]
    NoSuchLine {
        /// The chip.
        chip: String,
        /// The requested line.
        offset: u32,
        /// The number of lines on the chip.
        lines: u32,
    },
    /// No line has the requested name.
    #[error("no line of {chips} is named {name:?}{similar}; `Chip::all_lines` returns all names")]
    NoSuchName {
        /// The requested name.
        name: String,
        /// The chips that were searched.
        chips: String,
        /// Similar names.
        similar: String,
    },
    /// Several lines have the requested name.
    #[error("more than one GPIO line is named {name:?}: {places}; use one of these instead of the name")]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The chip and the number of each of these lines.
        places: String,
    },
    /// The line was given as a number without a chip, but the machine has several chips.
    #[error(
        "line {offset} is ambiguous without a chip; specify the chip, for example gpiochip0:{offset} (available chips: {chips})"
    )]
    WhichChip {
        /// The line's number.
        offset: u32,
        /// The chips.
        chips: String,
    },
    /// The line is in use.
    #[error("{line} is in use by {consumer}; choose another line, or end the program that uses it")]
    Busy {
        /// The line.
        line: String,
        /// The program that uses the line or, if the kernel reports no program, a text that names the kernel itself.
        consumer: String,
    },
    /// One line was requested as both the output and the input.
    #[error("{line} cannot be both the output and the input; connect the output to another line")]
    SameLine {
        /// The line.
        line: String,
    },
    /// The kernel cannot report edges on this line.
    #[error(
        "{line} does not support interrupts, so its edges cannot be detected; use a line of a chip that supports interrupts (on a Raspberry Pi, the header pins)"
    )]
    NoInterrupts {
        /// The line.
        line: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The registers of the chip cannot be used.
    #[error("the registers of {chip} cannot be used: {why}")]
    NoRegisters {
        /// The chip.
        chip: String,
        /// The reason and a fix.
        why: String,
    },
    /// The driver refused the operation.
    #[error("{line} {what}")]
    Refused {
        /// The line.
        line: String,
        /// The rest of the message, which describes the refused operation.
        what: &'static str,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The line could not be restored to its previous state.
    #[error("cannot restore {line}")]
    NotPutBack {
        /// The line.
        line: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
}

/// Returns the likely reason why no chip was found. `listed` is the number of chips that the kernel lists in /sys;
/// `None` if that list does not exist.
pub(super) const fn why_none(listed: Option<usize>) -> &'static str {
    match listed {
        None => {
            "either the kernel was built without the GPIO character device, as many kernels for virtual machines are, or /sys is not mounted; use a machine with a GPIO chip and a kernel with CONFIG_GPIO_CDEV"
        }
        Some(0) => {
            "the kernel found no GPIO chip, which is normal on most PCs and virtual machines; use a board with GPIO pins, or a GPIO adapter for which the kernel has a driver"
        }
        Some(_) => {
            "the kernel has GPIO chips, but their device files are missing; in a container, pass them in with --device /dev/gpiochip0; elsewhere, mount devtmpfs on /dev"
        }
    }
}

/// Converts an error that the kernel returned for an attempt to open a chip.
pub(super) fn of_open(path: PathBuf, cause: io::Error) -> GpioError {
    match cause.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => GpioError::NoRight { path, cause },
        _ => GpioError::Chip { path, cause },
    }
}

/// Converts an error that the kernel returned for a query about a line of a chip.
pub(super) fn of_question(path: PathBuf, cause: io::Error) -> GpioError {
    match cause.raw_os_error() {
        Some(libc::EINVAL | libc::ENOTTY) => GpioError::TooOld { path },
        _ => GpioError::Chip { path, cause },
    }
}

/// Converts an error that the kernel returned for a request to report edges.
pub(super) fn of_edges(line: String, cause: io::Error) -> GpioError {
    match cause.raw_os_error() {
        // In Linux, `edge_detector_setup` in drivers/gpio/gpiolib-cdev.c returns ENODEV or, since Linux 5.19, ENXIO.
        Some(libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP) => GpioError::NoInterrupts { line, cause },
        // `irq_set_type` returns this error if the interrupt controller supports only one kind of edge at a time.
        Some(libc::EINVAL) => GpioError::Refused {
            line,
            what: "cannot report both edges; its interrupt controller may support only one kind of edge at a time",
            cause,
        },
        _ => GpioError::Refused { line, what: "cannot report its edges", cause },
    }
}

/// Describes the numbers of a chip's lines.
fn numbered(lines: u32) -> String {
    if lines == 1 { "its only line is number 0".to_owned() } else { format!("its {lines} lines are numbered from 0") }
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use super::{GpioError, of_edges, of_open, of_question, why_none};

    #[test]
    fn every_kernel_error_is_explained_with_a_fix() {
        let path = || PathBuf::from("/dev/gpiochip0");
        let answer = io::Error::from_raw_os_error;
        let refused = of_open(path(), answer(libc::EACCES));
        assert!(matches!(refused, GpioError::NoRight { .. }) && refused.to_string().contains("group"), "{refused}");
        assert!(matches!(of_open(path(), answer(libc::ENOENT)), GpioError::Chip { .. }));
        for old in [libc::EINVAL, libc::ENOTTY] {
            let old = of_question(path(), answer(old));
            assert!(old.to_string().contains("5.10"), "{old}");
        }
        assert!(matches!(of_question(path(), answer(libc::ENODEV)), GpioError::Chip { .. }));
        for none in [libc::ENXIO, libc::ENODEV] {
            let none = of_edges("gpiochip0:4".to_owned(), answer(none));
            assert!(none.to_string().contains("does not support interrupts"), "{none}");
        }
        assert!(of_edges("x".to_owned(), answer(libc::EINVAL)).to_string().contains("both edges"));
        assert!(matches!(of_edges("x".to_owned(), answer(libc::EIO)), GpioError::Refused { .. }));
    }

    #[test]
    fn the_absence_of_a_chip_is_explained() {
        assert!(why_none(None).contains("CONFIG_GPIO_CDEV"));
        assert!(why_none(Some(0)).contains("found no GPIO chip"));
        assert!(why_none(Some(2)).contains("pass them in"));
    }
}
