//! Kinds of clocks whose devices are numbered, for example rtc0, ptp0 and ptp1.

use std::{
    io,
    path::{Path, PathBuf},
};

use hpt_sys::host::Host;

use crate::source::{KernelVerdict, MissingRight, ProbeReport, SourceError, SourceId, SourceInfo};

/// The properties that all clocks of a kind share.
#[derive(Debug)]
pub(super) struct Numbered {
    /// The name of the devices and of their class, without a number.
    pub(super) kind: &'static str,
    pub(super) description: &'static str,
    /// The reason why the kernel gives no verdict on clocks of this kind.
    pub(super) unknown: &'static str,
    /// The possible reasons why a clock of this kind does not exist.
    pub(super) missing: &'static str,
}

impl Numbered {
    pub(super) fn id(&self, number: u32) -> SourceId {
        SourceId::from(format!("{}{number}", self.kind))
    }

    /// Returns the names of the existing clocks, ordered by number. The clock with number 0 is always included.
    pub(super) fn all(&self, host: &Host) -> Vec<SourceId> {
        let names = host.devices_of_class(self.kind);
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number(self.kind, name)).chain([0]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().map(|number| self.id(number)).collect()
    }

    /// Returns the path of a sysfs attribute of this clock.
    pub(super) fn attribute(&self, id: &SourceId, name: &str) -> String {
        format!("/sys/class/{}/{id}/{name}", self.kind)
    }

    /// Translates the kernel's error from opening the device into its cause and fix.
    pub(super) fn refusal(&self, id: &SourceId, error: io::Error) -> SourceError {
        let path = device(id).display().to_string();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV) => {
                SourceError::NoDevice { evidence: format!("{path} does not exist: {}", self.missing) }
            }
            Some(libc::EACCES | libc::EPERM) => SourceError::NoRight { path, right: MissingRight::FileMode },
            _ => SourceError::refused(path, error),
        }
    }

    pub(super) fn report(
        &self,
        id: SourceId,
        evidence: Vec<String>,
        availability: Result<SourceInfo, SourceError>,
    ) -> ProbeReport {
        let kernel = KernelVerdict::Unknown(self.unknown.to_owned());
        ProbeReport { id, description: self.description, kernel, evidence, availability }
    }

    /// Returns a report on each clock. No clock is opened, because none of these clocks has a constant rate. `is_there`
    /// determines whether a clock exists.
    pub(super) fn outline(
        &self,
        host: &Host,
        info: fn(SourceId) -> SourceInfo,
        is_there: impl Fn(&SourceId) -> bool,
    ) -> Vec<ProbeReport> {
        let of_one = |id: SourceId| {
            let availability = if host.is_live() && !is_there(&id) {
                Err(self.refusal(&id, io::Error::from_raw_os_error(libc::ENOENT)))
            } else {
                Ok(info(id.clone()))
            };
            self.report(id, Vec::new(), availability)
        };
        self.all(host).into_iter().map(of_one).collect()
    }
}

pub(super) fn device(id: &SourceId) -> PathBuf {
    Path::new("/dev").join(id.as_str())
}

/// Returns the number in a device's name, if the name belongs to this kind and has the form that the kernel uses.
fn number(kind: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(kind)?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Numbered;
    use hpt_sys::host::{Facts, Host};

    const CLOCKS: Numbered = Numbered { kind: "ptp", description: "", unknown: "", missing: "" };

    #[test]
    fn devices_are_sorted_by_number_and_the_first_is_always_listed() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        let names = || CLOCKS.all(&host).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(), ["ptp0"]);
        for device in ["ptp10", "ptp2", "ptp", "ptp07", "ptpx", "pps0"] {
            fs::create_dir_all(folder.path().join("sys/class/ptp").join(device)).expect("a new directory");
        }
        assert_eq!(names(), ["ptp0", "ptp2", "ptp10"]);
    }
}
