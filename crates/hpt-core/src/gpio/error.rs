//! Why a GPIO line cannot be used, and how to fix that. Performs no operation.

use std::{io, path::PathBuf};

/// Why a GPIO line cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpioError {
    /// The machine has no GPIO chip.
    #[error("no /dev/gpiochip* exists: {why}")]
    NoChips {
        /// The reason, and how to fix it.
        why: &'static str,
    },
    /// No chip has that name.
    #[error("no GPIO chip is named {name:?}; available: {there}")]
    NoSuchChip {
        /// The requested name.
        name: String,
        /// The existing chips.
        there: String,
    },
    /// The permissions of the device file do not allow this process to open it.
    #[error(
        "no permission to open {path}; run as root, or join the group that owns the device (gpio on Raspberry Pi OS: sudo usermod -aG gpio $USER, then log in again; elsewhere a udev rule: \
         SUBSYSTEM==\"gpio\", KERNEL==\"gpiochip*\", GROUP=\"gpio\", MODE=\"0660\"); in a container, pass the device in"
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
    /// The chip cannot be opened for another reason.
    #[error("cannot use {path}")]
    Chip {
        /// The device.
        path: PathBuf,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The kernel supports only the interface from before Linux 5.10.
    #[error("this kernel does not support the GPIO interface that hpt uses for {path}; use Linux 5.10 or newer")]
    TooOld {
        /// The device.
        path: PathBuf,
    },
    /// The chip has fewer lines than requested.
    #[error("{chip} has no line {offset}: its {lines} lines are numbered from 0")]
    NoSuchLine {
        /// The chip.
        chip: String,
        /// The requested line.
        offset: u32,
        /// The number of lines of the chip.
        lines: u32,
    },
    /// No line has that name.
    #[error("no line of {chips} is named {name:?}{similar}; `hpt latency gpio --list` shows all names")]
    NoSuchName {
        /// The requested name.
        name: String,
        /// The chips that were searched.
        chips: String,
        /// Similar names.
        similar: String,
    },
    /// Several lines have that name.
    #[error("several lines are named {name:?}: {places}; select one by chip and number, for example gpiochip0:17")]
    Ambiguous {
        /// The requested name.
        name: String,
        /// The chips and numbers of these lines.
        places: String,
    },
    /// The line was given as a number without a chip, but the machine has several chips.
    #[error("line {offset} is ambiguous without a chip; the chips are {chips}; write it as in gpiochip0:{offset}")]
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
        /// The program that uses the line, as far as the kernel reports it.
        consumer: String,
    },
    /// The output and the input are the same line, which cannot be connected to itself.
    #[error("{line} cannot be both output and input; wire the output to another line")]
    SameLine {
        /// The line.
        line: String,
    },
    /// The kernel cannot report edges of this line.
    #[error(
        "{line} does not support interrupts, so its edges cannot be detected; use a line of a chip that does (on a Raspberry Pi, the header pins)"
    )]
    NoInterrupts {
        /// The line.
        line: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The driver refused the operation.
    #[error("{line} {what}")]
    Refused {
        /// The line.
        line: String,
        /// The requested operation.
        what: &'static str,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
    /// The line could not be restored.
    #[error("could not restore {line}")]
    NotPutBack {
        /// The line.
        line: String,
        /// The error that the kernel returned.
        #[source]
        cause: io::Error,
    },
}

/// Returns the likely reason why no chip was found. `listed` is the number of chips that the kernel lists in /sys;
/// `None` if it has no such list.
pub(super) const fn why_none(listed: Option<usize>) -> &'static str {
    match listed {
        None => {
            "the kernel was built without the GPIO character device, like many kernels for virtual machines, or /sys is not mounted; use a kernel with CONFIG_GPIO_CDEV and a supported chip"
        }
        Some(0) => {
            "the kernel found no GPIO chip: most PCs and virtual machines have none; use a board with pins, or an adapter with a driver"
        }
        Some(_) => {
            "the kernel has GPIO chips, but their device files are missing: in a container, pass them in (--device /dev/gpiochip0); elsewhere, mount devtmpfs on /dev"
        }
    }
}

/// Converts an error that the kernel returned when a chip was opened.
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
        // Linux, drivers/gpio/gpiolib-cdev.c, `edge_detector_setup`: ENODEV, and ENXIO since 5.19.
        Some(libc::ENXIO | libc::ENODEV | libc::EOPNOTSUPP) => GpioError::NoInterrupts { line, cause },
        // The error of irq_set_type from a controller that supports one kind of edge at a time.
        Some(libc::EINVAL) => GpioError::Refused {
            line,
            what: "cannot report both edges: its controller may support only one kind at a time",
            cause,
        },
        _ => GpioError::Refused { line, what: "cannot report its edges", cause },
    }
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
