//! The ports of the ACPI power management timer, from the kernel's list, and chipsets whose timer is known to return
//! invalid values. This module only parses files, which `Host` opens; it does not read ports.

use std::io;

use super::Host;

/// The kernel's list of I/O ports, which shows zeros to unprivileged users.
pub const IO_PORTS: &str = "/proc/ioports";
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// The kernel's name for the timer's ports. Linux, drivers/acpi/osl.c, `acpi_reserve_resources`.
const PORTS_NAME: &str = "ACPI PM_TMR";

/// Chipsets whose timer may return an invalid value if it is read during an update: the vendor ID, the device ID, and
/// the first revision without the fault. They are PIIX4 before PIIX4M, ICH4 and `ServerWorks` LE. Linux,
/// drivers/clocksource/acpi_pm.c.
const DOUBTFUL: [(u32, u32, u32); 3] = [(0x8086, 0x7113, 3), (0x8086, 0x24c0, u32::MAX), (0x1166, 0x0009, u32::MAX)];

/// The reason why the port of the timer is unknown.
#[derive(Debug)]
pub enum NoPmTimer {
    /// The kernel's list cannot be read, or not by this user.
    Unreadable(io::Error),
    /// The kernel lists no such ports.
    Absent,
}

/// The reliability of reads of the chipset's timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latch {
    /// No fault of the timer is known.
    Sound,
    /// A read during an update may return an invalid value. Contains the reason for this assumption.
    Doubtful(String),
}

impl Host {
    /// Returns the first of the four I/O ports of the ACPI power management timer, or the reason why it is unknown.
    pub fn pm_timer(&self) -> Result<u16, NoPmTimer> {
        let list = self.read(IO_PORTS).map_err(NoPmTimer::Unreadable)?;
        match ports_of_timer(&String::from_utf8_lossy(&list)) {
            Some(0) => Err(NoPmTimer::Unreadable(io::ErrorKind::PermissionDenied.into())),
            Some(port) => Ok(port),
            None => Err(NoPmTimer::Absent),
        }
    }

    /// Returns whether reads of the chipset's timer are reliable. Without a list of PCI devices, they are assumed to be
    /// unreliable.
    pub fn pm_timer_latch(&self) -> Latch {
        let devices = self.list(PCI_DEVICES);
        if devices.is_empty() {
            return Latch::Doubtful("unknown because there is no list of PCI devices".to_owned());
        }
        match devices.iter().find_map(|device| self.doubtful(device)) {
            None => Latch::Sound,
            Some((vendor, id)) => Latch::Doubtful(format!(
                "{vendor:04x}:{id:04x} may return an invalid value if its timer is read during an update"
            )),
        }
    }

    /// Returns the vendor and device IDs if the PCI device is a chipset with a known timer fault; otherwise returns
    /// `None`.
    fn doubtful(&self, device: &str) -> Option<(u32, u32)> {
        let number = |name| self.text(&format!("{PCI_DEVICES}/{device}/{name}")).as_deref().and_then(hexadecimal);
        let (vendor, id) = (number("vendor")?, number("device")?);
        let (_, _, sound_from) = DOUBTFUL.into_iter().find(|known| (known.0, known.1) == (vendor, id))?;
        number("revision").is_none_or(|revision| revision < sound_from).then_some((vendor, id))
    }

    /// Returns the paths of the files that this module reads. Of the PCI devices, only the chipset with a known timer
    /// fault is included. If there is no such chipset, the first device is included, so that a capture contains a list
    /// of devices.
    pub(in crate::linux::host) fn pm_timer_files(&self) -> Vec<String> {
        let devices = self.list(PCI_DEVICES);
        let matters = devices.iter().find(|device| self.doubtful(device).is_some()).or(devices.first());
        let of_device = matters
            .into_iter()
            .flat_map(|device| ["vendor", "device", "revision"].map(|name| format!("{PCI_DEVICES}/{device}/{name}")));
        [IO_PORTS.to_owned()].into_iter().chain(of_device).collect()
    }
}

/// Returns the first port that the kernel's list assigns to the timer, or zero if it is not shown. A register has four
/// ports, the first of which is a multiple of four.
fn ports_of_timer(list: &str) -> Option<u16> {
    let line = list.lines().find(|line| line.split_once(" : ").is_some_and(|(_, name)| name.trim() == PORTS_NAME))?;
    let first = line.trim_start().split(['-', ' ']).next()?;
    u16::from_str_radix(first, 16).ok().filter(|port| port % 4 == 0)
}

/// Parses a hexadecimal number with the prefix `0x`, as in the files of PCI devices, for example `0x8086`.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::{any, prop_assert, proptest};

    use super::{Latch, NoPmTimer, ports_of_timer};
    use crate::host::{Facts, Host};

    proptest! {
        #[test]
        fn any_list_of_ports_yields_a_register_or_nothing(text in any::<String>(), port in any::<u16>()) {
            let _ = ports_of_timer(&text);
            let found = ports_of_timer(&format!("{text}\n  {port:04x}-ffff : ACPI PM_TMR\n"));
            prop_assert!(found.is_none_or(|found| found % 4 == 0));
        }
    }

    fn machine() -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        (folder, host)
    }

    fn write(folder: &tempfile::TempDir, path: &str, content: &[u8]) {
        let file = folder.path().join(path);
        fs::create_dir_all(file.parent().expect("a parent directory")).expect("a new directory");
        fs::write(file, content).expect("writable");
    }

    #[test]
    fn the_kernels_list_shows_the_ports_only_to_root() {
        let list = "0000-0cf7 : PCI Bus 0000:00\n  0600-0603 : ACPI PM1a_EVT_BLK\n  0608-060b : ACPI PM_TMR\n";
        assert_eq!(ports_of_timer(list), Some(0x608));
        let (folder, host) = machine();
        assert!(matches!(host.pm_timer(), Err(NoPmTimer::Unreadable(_))));
        write(&folder, "proc/ioports", list.as_bytes());
        assert_eq!(host.pm_timer().ok(), Some(0x608));
        write(&folder, "proc/ioports", b"  0000-0000 : ACPI PM_TMR\n");
        assert!(matches!(host.pm_timer(), Err(NoPmTimer::Unreadable(_))));
        for none in ["0060-0060 : keyboard\n", "  0609-060c : ACPI PM_TMR\n", "  10608-1060b : ACPI PM_TMR\n"] {
            write(&folder, "proc/ioports", none.as_bytes());
            assert!(matches!(host.pm_timer(), Err(NoPmTimer::Absent)), "{none}");
        }
    }

    #[test]
    fn a_chipset_with_a_known_erratum_is_read_repeatedly() {
        let (folder, host) = machine();
        assert!(matches!(host.pm_timer_latch(), Latch::Doubtful(_)), "without a list of devices");
        let device = |vendor: &str, device: &str, revision: Option<&str>| {
            let at = "sys/bus/pci/devices/0000:00:07.3";
            write(&folder, &format!("{at}/vendor"), vendor.as_bytes());
            write(&folder, &format!("{at}/device"), device.as_bytes());
            let _ = fs::remove_file(folder.path().join(at).join("revision"));
            if let Some(revision) = revision {
                write(&folder, &format!("{at}/revision"), revision.as_bytes());
            }
            host.pm_timer_latch()
        };
        assert_eq!(device("0x8086\n", "0x29c0\n", Some("0x00\n")), Latch::Sound);
        assert!(matches!(device("0x8086\n", "0x7113\n", Some("0x02\n")), Latch::Doubtful(_)));
        // PIIX4M, and QEMU's chipset.
        assert_eq!(device("0x8086\n", "0x7113\n", Some("0x03\n")), Latch::Sound);
        assert!(matches!(device("0x8086\n", "0x7113\n", None), Latch::Doubtful(_)));
        assert!(matches!(device("0x8086\n", "0x24c0\n", Some("0x10\n")), Latch::Doubtful(_)));
    }
}
