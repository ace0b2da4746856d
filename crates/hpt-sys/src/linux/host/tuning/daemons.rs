//! Detects time daemons that are running: processes of the system that may set the clock (CAP_SYS_TIME), and that
//! execute the daemon's program or belong to its service. A process name alone proves nothing, because every program can
//! choose it; nor does the program alone, because some daemons only serve the time. A process that was given little more
//! than this capability may set the clock as well, whatever its program. The daemons themselves are not queried.

use std::{fs, ops::RangeInclusive};

use super::Host;

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

/// The user of a process, and its effective capabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Status {
    uid: u32,
    capabilities: u64,
}

impl Status {
    /// Parses /proc/PID/status. proc_pid_status(5).
    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next());
        let capabilities = value("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        Some(Self { uid: value("Uid:")?.parse().ok()?, capabilities: capabilities? })
    }

    /// Returns whether the process belongs to the system. The capabilities of others apply only in their user namespace.
    fn is_of_the_system(self) -> bool {
        self.uid <= LAST_OF_THE_SYSTEM || OF_SERVICES.contains(&self.uid)
    }

    const fn has(self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }

    /// Returns whether the process has a capability on purpose: without those that come with all others.
    fn was_given(self, capability: u32) -> bool {
        self.is_of_the_system() && self.has(capability) && !self.has(CAP_SYS_ADMIN)
    }
}

/// Linux, include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_TIME: u32 = 25;

/// The daemons that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) time_daemons: Vec<&'static str>,
    /// The names of other processes that were given the capability to set the clock without all others.
    pub(super) other_clock_setters: Vec<String>,
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
            let status = self.text(&format!("/proc/{number}/status")).and_then(|text| Status::parse(&text));
            let daemon = DAEMONS.into_iter().chain([IRQBALANCE]).find(|daemon| daemon.is_called(name));
            let is_it = daemon.and_then(|daemon| self.executes(number, status?, daemon));
            match (daemon, is_it, status) {
                (Some(IRQBALANCE), Some(true), _) => seen.irqbalance = true,
                (Some(daemon), Some(true), Some(status)) if status.has(CAP_SYS_TIME) => {
                    seen.time_daemons.push(daemon.name);
                }
                (Some(_), None, _) => seen.has_doubtful = true,
                (_, _, Some(status)) if status.was_given(CAP_SYS_TIME) => {
                    seen.other_clock_setters.push(name.trim_end().to_owned());
                }
                _ => {}
            }
        }
        seen.other_clock_setters.sort_unstable();
        seen.other_clock_setters.dedup();
        seen.time_daemons.sort_unstable();
        seen.time_daemons.dedup();
        (!names.is_empty()).then_some(seen)
    }

    /// Returns whether a process belongs to the system and executes the daemon's program, or belongs to its service;
    /// `None` if this user may not see it.
    fn executes(&self, number: &str, status: Status, daemon: Daemon) -> Option<bool> {
        if !status.is_of_the_system() {
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

    /// The capabilities of root, and those of a daemon that gave up all others than CAP_NET_BIND_SERVICE and CAP_SYS_TIME.
    const ALL: u64 = 0x1ff_ffff_ffff;
    const OF_A_DAEMON: u64 = 0x200_0400;

    fn seen(processes: &[Process<'_>]) -> Option<Seen> {
        seen_with(processes, |uid| if uid == 0 { ALL } else { OF_A_DAEMON })
    }

    fn seen_with(processes: &[Process<'_>], capabilities: impl Fn(u32) -> u64) -> Option<Seen> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (number, name, uid, executable, group) in processes {
            let path = folder.path().join("proc").join(number);
            fs::create_dir_all(&path).expect("ours");
            fs::write(path.join("comm"), format!("{name}\n")).expect("ours");
            let status =
                format!("Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{:016x}\n", capabilities(*uid));
            fs::write(path.join("status"), status).expect("ours");
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
    fn only_a_process_that_may_set_the_clock_disciplines_it() {
        let with = |process: Process<'_>, capabilities: u64| {
            let seen = seen_with(&[process], |_| capabilities).expect("a process");
            (seen.time_daemons, seen.other_clock_setters)
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        // `chronyd -x`, and a container without the capability, serve the time only.
        let chronyd = ("7", "chronyd", 105, "/usr/sbin/chronyd", "/system.slice/chrony.service");
        assert_eq!(with(chronyd, 0x400), (Vec::new(), Vec::new()));
        assert_eq!(with(chronyd, OF_A_DAEMON), (vec!["chronyd"], Vec::new()));
        // A daemon that hpt does not know.
        let gpsd = ("7", "gpsd", 110, "/usr/sbin/gpsd", "/system.slice/gpsd.service");
        assert_eq!(with(gpsd, 1 << 25), (Vec::new(), names(&["gpsd"])));
        // Root has the capability as one of all, and a rootless container has it in its own user namespace.
        let cron = ("7", "cron", 0, "/usr/sbin/cron", "/system.slice/cron.service");
        assert_eq!(with(cron, ALL), (Vec::new(), Vec::new()));
        let container = ("7", "ntpd", 100_123, "/usr/sbin/ntpd", "/user.slice");
        assert_eq!(with(container, OF_A_DAEMON), (Vec::new(), Vec::new()));
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
