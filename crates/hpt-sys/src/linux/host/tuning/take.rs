//! Copies the files that this crate reads from a machine, so that they can be examined elsewhere. The copy contains
//! nothing private: no serial numbers, boot IDs, host names, addresses or user names, and no data of other programs.

use std::io;

use super::{interrupts, kernel_configuration, settings};
use crate::host::{
    COMMAND_LINE, Capture, Entry, Facts, Host, KERNEL_LOG, ReadRefused, TIMEBASE_FREQUENCY, boot_parameters,
    hypervisor, kernel_log, soc,
};

/// Files with the same path on every machine. The boot ID is omitted because it identifies one boot of one machine.
const PATHS: [&str; 6] = [
    KERNEL_LOG,
    COMMAND_LINE,
    "/proc/cpuinfo",
    "/proc/device-tree/model",
    TIMEBASE_FREQUENCY,
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
];

/// The `compatible` names of the device tree nodes that this crate searches for.
const NODES: [&str; 1] = [soc::SYSTEM_TIMER];

/// Device classes, and the file that names a device of the class. The file clock_name of a PTP clock is not included
/// because it contains the address of a network card.
const NAMES: [(&str, &str); 2] = [("rtc", "name"), ("ptp", "device/uevent")];

/// Words in the keys of values that identify an individual machine, in lower case: `Serial` in /proc/cpuinfo on Arm,
/// `identification = 279F25` within the lines of the processors on s390. Linux, arch/arm/kernel/setup.c,
/// arch/s390/kernel/processor.c.
const PRIVATE_KEYS: [&str; 3] = ["serial", "identification", "uuid"];

/// A new capture, with lists of the copied paths and of the paths that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The capture, without facts: the caller adds the facts that [`Host::facts_to_capture`] returns.
    pub capture: Capture,
    /// The copied paths, as absolute paths on the machine.
    pub copied: Vec<String>,
    /// The paths that could not be read.
    pub missing: Vec<String>,
    /// The paths in `missing` of files that exist but require additional permissions.
    pub refused: Vec<String>,
}

impl Host {
    /// Copies the files that this crate reads from this machine.
    #[must_use]
    pub fn capture(&self) -> Captured {
        let (copied, missing, refused) = (Vec::new(), Vec::new(), Vec::new());
        let mut captured = Captured { capture: Capture::new(), copied, missing, refused };
        for path in self.files_read() {
            let entry = match self.without_what_is_private(&path) {
                Ok(content) => Entry::File(content),
                Err(cause) => missing_for(&cause),
            };
            // A path that is invalid in a capture is not the path of a file that this crate uses.
            let has_content = matches!(entry, Entry::File(_));
            let is_refused = entry == Entry::Unreadable(ReadRefused::PermissionDenied);
            let is_kept = captured.capture.insert(path.trim_start_matches('/'), entry).is_ok();
            if is_refused && is_kept {
                captured.refused.push(path.clone());
            }
            let list = if has_content && is_kept { &mut captured.copied } else { &mut captured.missing };
            list.push(path);
        }
        captured
    }

    /// Returns the facts for a capture, without private data.
    #[must_use]
    pub fn facts_to_capture(&self) -> Facts {
        Facts { situation: Some(self.situation().without_what_is_private()), ..self.facts().clone() }
    }

    /// Returns the part of a file that may leave the machine. Of the command line and the kernel log, this is only the
    /// text about time and latency.
    fn without_what_is_private(&self, path: &str) -> io::Result<Vec<u8>> {
        if path == KERNEL_LOG {
            return Ok(kernel_log::only_on_clock_sources(&self.log_records()?));
        }
        let content = self.read(path)?;
        if let Some(kept) = kernel_configuration::only_what_is_used(path, &content) {
            return kept;
        }
        let text = String::from_utf8_lossy(&content);
        if path == COMMAND_LINE {
            return Ok(boot_parameters::only_what_matters(text.trim_end_matches(['\n', '\0', ' '])).into_bytes());
        }
        let kept = settings::without_what_is_private(path, &text)
            .or_else(|| interrupts::without_names(self, path, &text))
            .or_else(|| hypervisor::without_names(path, &text));
        Ok(kept.map_or_else(|| without_private_lines(&content), String::into_bytes))
    }

    /// Returns the paths of all files that this crate reads from this machine. Files of missing devices are not
    /// included.
    fn files_read(&self) -> Vec<String> {
        let mut files = PATHS.map(str::to_owned).to_vec();
        files.extend(self.perf_files());
        files.extend(self.core_files());
        files.extend(self.interrupt_files());
        files.extend(self.setting_files());
        files.extend(self.hypervisor_files());
        files.extend(self.arch_timer_files());
        files.extend(self.pm_timer_files());
        for (class, file) in NAMES {
            files.extend(
                self.devices_of_class(class).iter().map(|device| format!("/sys/class/{class}/{device}/{file}")),
            );
        }
        for compatible in NODES {
            files.extend(self.device_node_files(compatible));
            let registers = self.device_node(compatible).and_then(|node| node.registers);
            files.extend(registers.into_iter().flat_map(|region| self.uio_files(region)));
        }
        files.extend(self.soc_counter_files());
        files
    }
}

/// Returns the entry for a file that could not be read.
fn missing_for(cause: &io::Error) -> Entry {
    match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Entry::Absent,
        _ => Entry::Unreadable(ReadRefused::of(cause)),
    }
}

fn without_private_lines(content: &[u8]) -> Vec<u8> {
    let private = |line: &[u8]| {
        let line = String::from_utf8_lossy(line).to_ascii_lowercase();
        let (key, values) = line.split_once(':').unwrap_or(("", &line));
        let keys = values.split(',').filter_map(|value| Some(value.split_once('=')?.0));
        [key].into_iter().chain(keys).any(|key| PRIVATE_KEYS.iter().any(|word| key.contains(word)))
    };
    content.split_inclusive(|&byte| byte == b'\n').filter(|line| !private(line)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::without_private_lines;

    #[test]
    fn a_capture_contains_no_serial_number() {
        let cpuinfo = b"Hardware\t: BCM2835\nSerial\t\t: 00000000abcdef01\nModel\t: Raspberry Pi";
        assert_eq!(without_private_lines(cpuinfo), b"Hardware\t: BCM2835\nModel\t: Raspberry Pi");
        let s390 =
            b"vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 279F25,  machine = 3931\n";
        assert_eq!(without_private_lines(s390), b"vendor_id       : IBM/S390\n");
        let other = b"serial number\t: 7\nBoard Serial: 8\nsystem uuid: 9\nModel : 1\n";
        assert_eq!(without_private_lines(other), b"Model : 1\n");
    }
}
