//! Copies what hpt reads of a machine into a folder, so that others can explain it elsewhere.
//! Takes nothing private: no serial number, no boot identity, no host name, no address, nobody's name, and of other programs nothing at all.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::host::{
    COMMAND_LINE, Facts, Host, KERNEL_LOG, Told, boot_parameters, interrupts, kernel_log, settings, soc,
};

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
#[non_exhaustive]
pub struct Captured {
    /// The paths copied, as they are on the machine.
    pub copied: Vec<String>,
    /// The paths that could not be read.
    pub missing: Vec<String>,
    /// Those among them that are there, and take more rights.
    pub refused: Vec<String>,
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
    /// Copies the files that hpt reads of this machine below `folder`; [`facts_of`](Self::facts_of) are the caller's to add.
    ///
    /// # Errors
    ///
    /// When `folder` cannot be written. A file the machine does not have is not an error.
    pub fn capture(&self, folder: &Path) -> Result<Captured, CaptureError> {
        let mut captured = Captured { copied: Vec::new(), missing: Vec::new(), refused: Vec::new() };
        for path in self.files_read() {
            let Some(content) = self.without_what_is_private(&path) else {
                if self.told(&path) == Told::NotAllowed {
                    captured.refused.push(path.clone());
                }
                captured.missing.push(path);
                continue;
            };
            let target = folder.join(path.trim_start_matches('/'));
            let failed = |cause| CaptureError { path: target.clone(), cause };
            target.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
            write_new(&target, &content).map_err(failed)?;
            captured.copied.push(path);
        }
        Ok(captured)
    }

    /// The facts that belong to what was captured: what no file holds, and what may not be read.
    #[must_use]
    pub fn facts_of(&self, captured: &Captured) -> Facts {
        let mut situation = self.situation().without_what_is_private();
        situation.refused.extend(captured.refused.iter().cloned());
        situation.refused.sort();
        situation.refused.dedup();
        Facts { situation: Some(situation), ..self.facts().clone() }
    }

    /// What of a file may leave the machine: of the command line and the log, what bears on time and latency.
    fn without_what_is_private(&self, path: &str) -> Option<Vec<u8>> {
        match path {
            COMMAND_LINE => Some(boot_parameters::only_what_matters(&self.text(path)?).into_bytes()),
            KERNEL_LOG => {
                let records = self.log_records().ok()?;
                Some(kernel_log::only_on_clock_sources(&records))
            }
            _ => {
                let content = self.read(path).ok()?;
                let text = String::from_utf8_lossy(&content);
                let kept =
                    settings::without_what_is_private(path, &text).or_else(|| interrupts::without_names(path, &text));
                Some(kept.map_or_else(|| without_private_lines(&content), String::into_bytes))
            }
        }
    }

    /// Every file that hpt reads of this machine; where a device is not there, nothing of it is listed.
    fn files_read(&self) -> Vec<String> {
        let mut files = PATHS.map(str::to_owned).to_vec();
        files.extend(self.perf_files());
        files.extend(self.core_files());
        files.extend(self.interrupt_files());
        files.extend(self.setting_files());
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

/// Writes a file. A link that another user put in its place is not followed.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut open = fs::File::options();
    open.write(true).create(true).truncate(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
    open.open(path)?.write_all(content)
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
