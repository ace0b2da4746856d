//! Detects time daemons that are running: processes of the system that execute the daemon's program or belong to its
//! service. A process name alone proves nothing, because every program can choose it. The daemons themselves are not
//! queried.

use std::{fs, ops::RangeInclusive};

use super::Host;

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Daemon {
    name: &'static str,
    /// The file name of its program.
    program: &'static str,
    /// The names of its service, without `.service`.
    services: &'static [&'static str],
}

const DAEMONS: [Daemon; 9] = [
    Daemon { name: "chronyd", program: "chronyd", services: &["chrony", "chronyd"] },
    Daemon { name: "ntpd", program: "ntpd", services: &["ntp", "ntpd", "ntpsec", "openntpd"] },
    Daemon { name: "ntpd-rs", program: "ntp-daemon", services: &["ntpd-rs"] },
    Daemon { name: "openntpd", program: "openntpd", services: &["openntpd"] },
    Daemon { name: "systemd-timesyncd", program: "systemd-timesyncd", services: &["systemd-timesyncd"] },
    Daemon { name: "ptp4l", program: "ptp4l", services: &["ptp4l", "linuxptp"] },
    Daemon { name: "phc2sys", program: "phc2sys", services: &["phc2sys"] },
    Daemon { name: "ts2phc", program: "ts2phc", services: &["ts2phc"] },
    Daemon { name: "timemaster", program: "timemaster", services: &["timemaster"] },
];

/// irqbalance, which moves interrupts between CPUs.
const IRQBALANCE: Daemon = Daemon { name: "irqbalance", program: "irqbalance", services: &["irqbalance"] };

/// The length to which the kernel truncates process names. Linux, include/linux/sched.h: `TASK_COMM_LEN`.
const LONGEST_NAME: usize = 15;
/// The last user ID of the system, and those that systemd assigns to its services. login.defs(5), `SYS_UID_MAX`;
/// systemd, docs/UIDS-GIDS.md.
const LAST_OF_THE_SYSTEM: u32 = 999;
const OF_SERVICES: RangeInclusive<u32> = 61_184..=65_519;

impl Daemon {
    /// Returns whether a process may have this name if it executes the daemon's program.
    fn is_called(self, process_name: &str) -> bool {
        let length = self.program.len().min(LONGEST_NAME);
        process_name.trim_end() == &self.program[..length]
    }
}

/// The daemons that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) time_daemons: Vec<&'static str>,
    pub(super) irqbalance: bool,
    /// Whether a process has the name of a daemon, but this user may not see what it executes.
    pub(super) has_doubtful: bool,
}

impl Host {
    /// Returns the time daemons that are running, without duplicates; `None` if /proc shows no processes. Daemons
    /// in other PID namespaces are not visible.
    #[must_use]
    pub fn time_daemons(&self) -> Option<Vec<&'static str>> {
        self.daemons().map(|seen| seen.time_daemons)
    }

    /// Returns the daemons that are running; `None` if /proc shows no processes.
    pub(super) fn daemons(&self) -> Option<Seen> {
        let processes = self.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let names: Vec<(String, String)> =
            processes.filter_map(|number| Some((self.text(&format!("/proc/{number}/comm"))?, number))).collect();
        let mut seen = Seen::default();
        for (name, number) in &names {
            let Some(daemon) = DAEMONS.into_iter().chain([IRQBALANCE]).find(|daemon| daemon.is_called(name)) else {
                continue;
            };
            match self.executes(number, daemon) {
                Some(true) if daemon == IRQBALANCE => seen.irqbalance = true,
                Some(true) => seen.time_daemons.push(daemon.name),
                Some(false) => {}
                None => seen.has_doubtful = true,
            }
        }
        seen.time_daemons.sort_unstable();
        seen.time_daemons.dedup();
        (!names.is_empty()).then_some(seen)
    }

    /// Returns whether a process belongs to the system and executes the daemon's program, or belongs to its service;
    /// `None` if this user may not see it.
    fn executes(&self, number: &str, daemon: Daemon) -> Option<bool> {
        let status = self.text(&format!("/proc/{number}/status"))?;
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok())?;
        if uid > LAST_OF_THE_SYSTEM && !OF_SERVICES.contains(&uid) {
            return Some(false);
        }
        let groups = self.text(&format!("/proc/{number}/cgroup")).unwrap_or_default();
        let is_service = daemon
            .services
            .iter()
            .any(|service| groups.lines().any(|group| group.ends_with(&format!("/system.slice/{service}.service"))));
        let executable = self.locate(&format!("/proc/{number}/exe")).and_then(|path| fs::read_link(path).ok());
        let is_program = executable.map(|path| {
            let path = path.to_string_lossy();
            path.strip_suffix(" (deleted)").unwrap_or(&path).rsplit('/').next() == Some(daemon.program)
        });
        if is_service { Some(true) } else { is_program }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use super::{DAEMONS, Seen};
    use crate::host::{Facts, Host};

    /// A process: its number, name, user, executable and control group.
    type Process<'a> = (&'a str, &'a str, u32, &'a str, &'a str);

    fn seen(processes: &[Process<'_>]) -> Option<Seen> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (number, name, uid, executable, group) in processes {
            let path = folder.path().join("proc").join(number);
            fs::create_dir_all(&path).expect("ours");
            fs::write(path.join("comm"), format!("{name}\n")).expect("ours");
            fs::write(path.join("status"), format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).expect("ours");
            fs::write(path.join("cgroup"), format!("0::{group}\n")).expect("ours");
            if !executable.is_empty() {
                symlink(executable, path.join("exe")).expect("ours");
            }
        }
        Host::below(folder.path(), Facts::live()).daemons()
    }

    fn found(process: Process<'_>) -> (Vec<&'static str>, bool) {
        let seen = seen(&[("1", "init", 0, "/sbin/init", "/init.scope"), process]).expect("processes");
        (seen.time_daemons, seen.has_doubtful)
    }

    #[test]
    fn a_process_is_a_daemon_by_its_program_and_its_user() {
        let chronyd = |uid, executable, group| found(("7", "chronyd", uid, executable, group));
        let yes = || (vec!["chronyd"], false);
        let no = || (Vec::new(), false);
        assert_eq!(chronyd(0, "/usr/sbin/chronyd", "/"), yes());
        assert_eq!(chronyd(105, "/usr/sbin/chronyd", "/"), yes(), "sysvinit");
        assert_eq!(chronyd(0, "/usr/sbin/chronyd (deleted)", "/"), yes(), "after an upgrade");
        assert_eq!(chronyd(105, "", "/system.slice/chrony.service"), yes(), "seen by an ordinary user");
        assert_eq!(chronyd(61_200, "", "/system.slice/chronyd.service"), yes());
        // A copy of another program, by any user.
        assert_eq!(chronyd(65_534, "/tmp/chronyd", "/user.slice"), no());
        assert_eq!(chronyd(1000, "/home/alice/chronyd", "/user.slice/user-1000.slice"), no());
        assert_eq!(chronyd(1000, "/tmp/chronyd", "/system.slice/cron.service"), no());
        assert_eq!(chronyd(0, "/usr/bin/sleep", "/system.slice/cron.service"), no());
        assert_eq!(chronyd(33, "", "/system.slice/apache2.service"), (Vec::new(), true), "unknown");
        let timesyncd = ("9", "systemd-timesyn", 997, "", "/system.slice/systemd-timesyncd.service");
        assert_eq!(found(timesyncd), (vec!["systemd-timesyncd"], false));
        assert_eq!(found(("9", "systemd-timesyn", 65_534, "/tmp/systemd-timesyncd", "/")), no());
    }

    #[test]
    fn irqbalance_is_no_time_daemon_and_directories_without_a_number_are_no_processes() {
        let irqbalance = ("8", "irqbalance", 0, "/usr/sbin/irqbalance", "/system.slice/irqbalance.service");
        let seen_here = seen(&[irqbalance, ("self", "ptp4l", 0, "/usr/sbin/ptp4l", "/")]).expect("a process");
        assert_eq!(seen_here, Seen { irqbalance: true, ..Seen::default() });
        let two = [("7", "ptp4l", 0, "/usr/sbin/ptp4l", "/"), ("8", "ptp4l", 0, "/usr/sbin/ptp4l", "/")];
        assert_eq!(seen(&two).expect("processes").time_daemons, ["ptp4l"]);
        assert_eq!(seen(&[]), None);
        assert!(Host::live().time_daemons().is_some() || !Path::new("/proc/1").exists());
    }

    #[test]
    fn every_daemon_is_found_by_the_name_that_the_kernel_shows() {
        for daemon in DAEMONS {
            let name: String = daemon.program.chars().take(15).collect();
            let path = format!("/usr/sbin/{}", daemon.program);
            assert_eq!(found(("7", &name, 0, &path, "/")), (vec![daemon.name], false), "{daemon:?}");
        }
        assert_eq!(found(("7", "ntpdate", 0, "/usr/sbin/ntpdate", "/")), (Vec::new(), false));
    }
}
