//! Facts about a machine's state that no single file contains: the result of adjtimex, the running programs, and the
//! accessible devices.

use super::{BootLoader, ControlGroups, CpuList, Host, KernelThread, System, daemons::Seen};
use crate::{
    adjtime::{self, Timex},
    process,
};

/// The name of such a process in a capture.
const ANOTHER: &str = "another process";

/// The state of the machine when it was examined. A field is `None` if its value was not visible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct Situation {
    /// The state of the kernel's clock discipline, from adjtimex.
    pub timex: Option<Timex>,
    /// The kernel's own threads.
    pub kernel_threads: Option<Vec<KernelThread>>,
    /// The time daemons that are running; also `None` if no daemon was found and not all processes were visible.
    pub time_daemons: Option<Vec<String>>,
    /// The names of other processes that may set the clock: they have CAP_SYS_TIME without all other capabilities.
    pub other_clock_setters: Vec<String>,
    /// Whether irqbalance, which moves interrupts, is running; also `None` if it was not found and not all processes
    /// were visible.
    pub balances_interrupts: Option<bool>,
    /// The distribution, and how it starts services and its kernel.
    pub system: Option<System>,
    /// The boot loader that passes the command line to the kernel.
    pub boot_loader: Option<BootLoader>,
    /// The limits from control groups.
    pub control_groups: Option<ControlGroups>,
    /// Device files, and whether the current user may open them.
    pub devices: Vec<DeviceFile>,
}

/// A device file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceFile {
    /// Its path.
    pub path: String,
    /// Whether the current user is allowed to read it.
    pub readable: bool,
    /// Whether the current user is allowed to write to it.
    pub writable: bool,
}

impl Host {
    /// Returns the current state of the machine or, for a system snapshot, its state when the snapshot was made.
    #[must_use]
    pub fn situation(&self) -> Situation {
        if !self.is_live() {
            return self.facts().situation.clone().unwrap_or_default();
        }
        let kernel_threads = self.look_at_kernel_threads();
        let seen = self.daemons();
        let other_clock_setters = seen.as_ref().map(|seen| seen.other_clock_setters.clone()).unwrap_or_default();
        let (time_daemons, balances_interrupts) = known(seen, kernel_threads.is_some());
        Situation {
            timex: adjtime::read().ok(),
            kernel_threads,
            time_daemons,
            other_clock_setters,
            balances_interrupts,
            system: self.look_at_the_system(),
            boot_loader: self.look_at_the_boot_loader(),
            control_groups: self.look_at_control_groups(),
            devices: self.look_at_devices(),
        }
    }

    fn look_at_devices(&self) -> Vec<DeviceFile> {
        let names = self.list("/dev").into_iter().filter(|name| name == "mem" || is_gpio_chip(name));
        let device = |path: String| DeviceFile {
            readable: process::may_access(&path, process::Access::Read),
            writable: process::may_access(&path, process::Access::Write),
            path,
        };
        names.map(|name| device(format!("/dev/{name}"))).collect()
    }
}

impl Situation {
    /// Returns these facts without private data, in the form that may leave the machine.
    #[must_use]
    pub fn without_what_is_private(mut self) -> Self {
        // The owner of the machine may have chosen these names.
        self.other_clock_setters = self.other_clock_setters.iter().map(|_| ANOTHER.to_owned()).take(1).collect();
        if let Some(groups) = &mut self.control_groups {
            groups.cpus = groups.cpus.as_deref().map(|cpus| CpuList::parse(cpus).unwrap_or_default().to_string());
        }
        self.kernel_threads =
            self.kernel_threads.map(|threads| threads.into_iter().map(KernelThread::without_what_is_private).collect());
        self
    }
}

/// Returns the time daemons that are running, and whether irqbalance is running. If some processes are hidden (hidepid, a
/// PID namespace), a program that was not found may still be running. In this case, the corresponding result is `None`.
fn known(seen: Option<Seen>, all_are_seen: bool) -> (Option<Vec<String>>, Option<bool>) {
    let Some(seen) = seen else { return (None, None) };
    let all_are_seen = all_are_seen && !seen.has_doubtful;
    let names: Vec<String> = seen.time_daemons.into_iter().map(str::to_owned).collect();
    let time_daemons = (all_are_seen || !names.is_empty()).then_some(names);
    (time_daemons, (all_are_seen || seen.irqbalance).then_some(seen.irqbalance))
}

/// Returns whether this is the name of a GPIO chip: `gpiochip` and a number. Linux, drivers/gpio/gpiolib-cdev.c.
fn is_gpio_chip(name: &str) -> bool {
    name.strip_prefix("gpiochip")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{is_gpio_chip, known};
    use crate::host::{Facts, Host};

    #[test]
    fn gpio_chips_have_numbers() {
        assert!(
            is_gpio_chip("gpiochip0")
                && !is_gpio_chip("gpiochip")
                && !is_gpio_chip("gpiomem")
                && !is_gpio_chip("gpiochip-x")
        );
    }

    #[test]
    fn the_situation_of_this_machine_is_readable() {
        let situation = Host::live().situation();
        assert!(situation.devices.iter().all(|device| device.path.starts_with("/dev/")), "{situation:?}");
        if situation.kernel_threads.is_some() {
            assert!(situation.time_daemons.is_some() && situation.balances_interrupts.is_some(), "{situation:?}");
        }
    }

    #[test]
    fn a_missing_daemon_is_unknown_if_processes_are_hidden() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let process = |number: &str, name: &str| {
            let path = folder.path().join("proc").join(number);
            fs::create_dir_all(&path).expect("ours");
            fs::write(path.join("comm"), name).expect("ours");
            fs::write(path.join("status"), "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n").expect("ours");
            symlink(format!("/usr/sbin/{}", name.trim_end()), path.join("exe")).expect("ours");
        };
        let look = |all_are_seen| known(Host::below(folder.path(), Facts::live()).daemons(), all_are_seen);
        assert_eq!((look(true), look(false)), ((None, None), (None, None)));
        process("1", "init\n");
        assert_eq!((look(true), look(false)), ((Some(Vec::new()), Some(false)), (None, None)));
        process("72", "chronyd\n");
        let names = Some(vec!["chronyd".to_owned()]);
        assert_eq!((look(true), look(false)), ((names.clone(), Some(false)), (names.clone(), None)));
        process("73", "irqbalance");
        assert_eq!((look(true), look(false)), ((names.clone(), Some(true)), (names, Some(true))));
    }
}
