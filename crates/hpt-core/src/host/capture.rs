//! Copies what hpt reads of a machine into a folder, so that others can explain it elsewhere.
//! Takes nothing private: no serial number, no boot identity, no host name, no address.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{COMMAND_LINE, Host, KERNEL_LOG, boot_parameters, kernel_log, soc};

/// Files that are at the same place on every machine, apart from the boot identity, which belongs to one boot of one machine.
const PATHS: [&str; 6] = [
    KERNEL_LOG,
    COMMAND_LINE,
    "/proc/cpuinfo",
    "/proc/device-tree/model",
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];

/// Nodes of the device tree that hpt looks for, by `compatible`.
const NODES: [&str; 1] = [soc::SYSTEM_TIMER];

/// Files that name the devices of a class. Not the clock_name of a PTP clock, which is a network card's address.
const NAMES: [(&str, &str); 2] = [("rtc", "name"), ("ptp", "device/uevent")];

/// Lines of /proc/cpuinfo that tell one machine from its sisters.
const PRIVATE_KEYS: [&str; 1] = ["Serial"];

/// What a capture wrote and what the machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The paths copied, as they are on the machine.
    pub copied: Vec<String>,
    /// The paths that could not be read.
    pub missing: Vec<String>,
}

/// The folder could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}")]
pub struct CaptureError {
    /// What could not be written.
    pub path: PathBuf,
    #[source]
    cause: io::Error,
}

impl Host {
    /// Copies the files that hpt reads of this machine below `folder`; the facts are the caller's to add.
    ///
    /// # Errors
    ///
    /// When `folder` cannot be written. A file the machine does not have is not an error.
    pub fn capture(&self, folder: &Path) -> Result<Captured, CaptureError> {
        let mut captured = Captured { copied: Vec::new(), missing: Vec::new() };
        for path in self.files_read() {
            let Some(content) = self.without_what_is_private(&path) else {
                captured.missing.push(path);
                continue;
            };
            let target = folder.join(path.trim_start_matches('/'));
            let failed = |cause| CaptureError { path: target.clone(), cause };
            target.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            fs::write(&target, content).map_err(failed)?;
            captured.copied.push(path);
        }
        Ok(captured)
    }

    /// What of a file may leave the machine: of the command line and the log, what bears on clock sources.
    fn without_what_is_private(&self, path: &str) -> Option<Vec<u8>> {
        match path {
            COMMAND_LINE => Some(boot_parameters::only_on_clock_sources(&self.text(path)?).into_bytes()),
            KERNEL_LOG => {
                let records = kernel_log::records(&self.locate(path)).ok()?;
                Some(kernel_log::only_on_clock_sources(&records))
            }
            _ => self.read(path).ok().map(|content| without_private_lines(&content)),
        }
    }

    /// Every file that hpt reads of this machine; where a device is not there, nothing of it is listed.
    fn files_read(&self) -> Vec<String> {
        let mut files = PATHS.map(str::to_owned).to_vec();
        files.extend(self.perf_files());
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
        files
    }
}

fn without_private_lines(content: &[u8]) -> Vec<u8> {
    let private = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.split_once(':').is_some_and(|(key, _)| PRIVATE_KEYS.contains(&key.trim()))
    };
    content.split_inclusive(|&byte| byte == b'\n').filter(|line| !private(line)).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::without_private_lines;

    #[test]
    fn a_serial_number_does_not_leave_the_machine() {
        let cpuinfo = b"Hardware\t: BCM2835\nSerial\t\t: 00000000abcdef01\nModel\t: Raspberry Pi";
        assert_eq!(without_private_lines(cpuinfo), b"Hardware\t: BCM2835\nModel\t: Raspberry Pi");
    }
}
