//! Detects time daemons that are running, by process name. The daemons themselves are not queried.

use super::Host;

/// Process names, which the kernel truncates to 15 characters, and the daemons that they belong to.
const DAEMONS: [(&str, &str); 9] = [
    ("chronyd", "chronyd"),
    ("ntpd", "ntpd"),
    ("ntp-daemon", "ntpd-rs"),
    ("openntpd", "openntpd"),
    ("systemd-timesyn", "systemd-timesyncd"),
    ("ptp4l", "ptp4l"),
    ("phc2sys", "phc2sys"),
    ("ts2phc", "ts2phc"),
    ("timemaster", "timemaster"),
];

/// Returns the daemon with this process name.
fn daemon(process_name: &str) -> Option<&'static str> {
    DAEMONS.into_iter().find(|&(name, _)| name == process_name.trim_end()).map(|(_, daemon)| daemon)
}

/// The process name of irqbalance, which moves interrupts between CPUs.
pub(super) const IRQBALANCE: &str = "irqbalance";

impl Host {
    /// Returns the time daemons that are running, without duplicates; `None` if /proc shows no processes. Daemons
    /// in other PID namespaces are not visible.
    #[must_use]
    pub fn time_daemons(&self) -> Option<Vec<&'static str>> {
        let names = self.process_names();
        let mut daemons: Vec<_> = names.iter().filter_map(|name| daemon(name)).collect();
        daemons.sort_unstable();
        daemons.dedup();
        (!names.is_empty()).then_some(daemons)
    }

    /// Returns whether a process has this name.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.process_names().iter().any(|process| process == name)
    }

    fn process_names(&self) -> Vec<String> {
        let processes = self.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        processes.filter_map(|number| self.text(&format!("/proc/{number}/comm"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{DAEMONS, daemon};
    use crate::host::{Facts, Host};

    #[test]
    fn the_names_of_daemons_fit_the_kernels_limit() {
        for (name, whose) in DAEMONS {
            assert!(name.len() <= 15, "{name}");
            assert_eq!(daemon(&format!("{name}\n")), Some(whose));
        }
        assert_eq!(daemon("ntpdate"), None);
    }

    #[test]
    fn only_numbered_directories_are_processes() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let process = |number: &str, name: &str| {
            let path = folder.path().join("proc").join(number);
            fs::create_dir_all(&path).expect("ours");
            fs::write(path.join("comm"), name).expect("ours");
        };
        let daemons = |root: &Path| Host::below(root, Facts::live()).time_daemons();
        assert_eq!(daemons(folder.path()), None);
        for (number, name) in
            [("1", "init\n"), ("72", "chronyd\n"), ("73", "chronyd\n"), ("self", "ptp4l\n"), ("9", "phc2sys\n")]
        {
            process(number, name);
        }
        assert_eq!(daemons(folder.path()), Some(vec!["chronyd", "phc2sys"]));
        assert!(Host::live().time_daemons().is_some() || !Path::new("/proc/1").exists());
    }
}
