//! Detects time daemons that are running, by process name. The daemons themselves are not queried.

use std::collections::BTreeSet;

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
    /// in other PID namespaces are not visible. Also returns `None` if only an ordinary user runs a program with the name of
    /// a daemon, because any user can do so.
    #[must_use]
    pub fn time_daemons(&self) -> Option<Vec<&'static str>> {
        let processes = self.processes();
        let of = |wanted: bool| {
            let some = processes.iter().filter(move |(_, is_of_the_system)| *is_of_the_system == wanted);
            some.filter_map(|(name, _)| daemon(name)).collect::<BTreeSet<_>>()
        };
        let (of_the_system, of_others) = (of(true), of(false));
        // Any user can start a program with the name of a daemon, and a daemon may run as an ordinary user.
        let is_known = !processes.is_empty() && of_others.is_subset(&of_the_system);
        is_known.then(|| of_the_system.into_iter().collect())
    }

    /// Returns whether a process of the system has this name.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.processes().iter().any(|(process, is_of_the_system)| *is_of_the_system && process.trim_end() == name)
    }

    /// Returns the names of all processes, and whether each runs a program of that name as root or as a system user.
    fn processes(&self) -> Vec<(String, bool)> {
        let numbers = self.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let process = |number: String| {
            let name = self.text(&format!("/proc/{number}/comm"))?;
            let is_of_the_system = daemon(&name).is_none() && name.trim_end() != IRQBALANCE
                || self.is_of_the_system(&number, name.trim_end());
            Some((name, is_of_the_system))
        };
        numbers.filter_map(process).collect()
    }

    /// Returns whether a process runs the program `name` as root or as a system user. Without permission to see the
    /// program, the user alone decides.
    fn is_of_the_system(&self, number: &str, name: &str) -> bool {
        let status = self.text(&format!("/proc/{number}/status")).unwrap_or_default();
        let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = users.and_then(|users| users.split_whitespace().nth(1)?.parse::<u32>().ok());
        if user.is_none_or(|user| user >= FIRST_ORDINARY_USER) {
            return false;
        }
        let program = self.is_live().then(|| std::fs::read_link(format!("/proc/{number}/exe")).ok()).flatten();
        program.is_none_or(|program| program.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
    }
}

/// The first number of an ordinary user. login.defs(5), UID_MIN.
const FIRST_ORDINARY_USER: u32 = 1_000;

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
            let user = if number == "74" { "65534" } else { "0" };
            fs::write(path.join("status"), format!("Name:\tany\nUid:\t{user}\t{user}\t0\t0\n")).expect("ours");
        };
        let daemons = |root: &Path| Host::below(root, Facts::live()).time_daemons();
        assert_eq!(daemons(folder.path()), None);
        for (number, name) in
            [("1", "init\n"), ("72", "chronyd\n"), ("73", "chronyd\n"), ("self", "ptp4l\n"), ("9", "phc2sys\n")]
        {
            process(number, name);
        }
        assert_eq!(daemons(folder.path()), Some(vec!["chronyd", "phc2sys"]));
        // A user starts a program that is called like a daemon that runs, and one like a daemon that may run.
        process("74", "chronyd\n");
        assert_eq!(daemons(folder.path()), Some(vec!["chronyd", "phc2sys"]));
        process("74", "systemd-timesyn\n");
        assert_eq!(daemons(folder.path()), None);
        assert!(Host::live().time_daemons().is_some() || !Path::new("/proc/1").exists());
    }
}
