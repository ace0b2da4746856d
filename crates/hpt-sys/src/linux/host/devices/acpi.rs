//! The location of the ACPI power management timer: the firmware's table, the kernel's list of ports, and chipsets
//! whose timer is known to return invalid values. This module only parses files, which `Host` opens; it does not read
//! ports.

use std::io;

use super::Host;

/// The Fixed ACPI Description Table, readable by root. Linux, Documentation/ABI/testing/sysfs-firmware-acpi.
pub const FADT: &str = "/sys/firmware/acpi/tables/FACP";
const IO_PORTS: &str = "/proc/ioports";
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// The kernel's name for the timer's ports. Linux, drivers/acpi/osl.c, `acpi_reserve_resources`.
const PORTS_NAME: &str = "ACPI PM_TMR";

/// Offsets of fields in the table. ACPI Specification 6.5, 5.2.6 (header) and 5.2.9 (FADT).
const LENGTH: usize = 4;
const REVISION: usize = 8;
const PM_TIMER_BLOCK: usize = 76;
const PM_TIMER_LENGTH: usize = 91;
const FLAGS: usize = 112;
const X_PM_TIMER_BLOCK: usize = 208;
/// The length of the shortest version of the table, defined by ACPI 1.0, in bytes.
const SHORTEST: usize = 116;
/// Flags of the table: the timer has 32 bits instead of 24; the machine has no ACPI fixed hardware, which includes this
/// timer. ACPI Specification 6.5, table 5.10.
const TIMER_IS_WIDE: u32 = 1 << 8;
const HARDWARE_REDUCED: u32 = 1 << 20;
/// The address space ID of system I/O space. ACPI Specification 6.5, table 5.1.
const SYSTEM_IO: u8 = 1;
/// The size of the timer's register, in bytes.
const REGISTER_LENGTH: u64 = 4;

/// Chipsets whose timer may return an invalid value if it is read during an update: the vendor ID, the device ID, and
/// the first revision without the fault. They are PIIX4 before PIIX4M, ICH4 and `ServerWorks` LE. Linux,
/// drivers/clocksource/acpi_pm.c.
const DOUBTFUL: [(u32, u32, u32); 3] = [(0x8086, 0x7113, 3), (0x8086, 0x24c0, u32::MAX), (0x1166, 0x0009, u32::MAX)];

/// The timer as described by the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmTimer {
    /// The first of the timer's four I/O ports.
    pub port: u16,
    /// Whether the table states that the timer has 32 bits instead of 24.
    pub says_32_bits: bool,
    /// The revision of the table.
    pub revision: u8,
}

/// The reason why the location of the timer is unknown.
#[derive(Debug)]
pub enum NoPmTimer {
    /// The firmware's table cannot be read.
    Unreadable(io::Error),
    /// The table is invalid. Contains the details.
    Malformed(String),
    /// The table describes no timer that is accessed through I/O ports. Contains the details.
    Absent(String),
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
    /// Returns the ACPI power management timer as described by the firmware; `None` if the table cannot be read or
    /// describes no timer.
    #[must_use]
    pub fn pm_timer(&self) -> Option<PmTimer> {
        self.find_pm_timer().ok()
    }

    /// Returns the timer as described by the firmware, or the reason why its location is unknown.
    pub fn find_pm_timer(&self) -> Result<PmTimer, NoPmTimer> {
        let timer = parse(&self.read(FADT).map_err(NoPmTimer::Unreadable)?)?;
        // If the kernel lists the ports, they must match. If they differ, the table is not the one that the kernel
        // booted with.
        match self.text(IO_PORTS).as_deref().and_then(kernels_ports) {
            Some(ports) if ports != u64::from(timer.port) => Err(NoPmTimer::Malformed(format!(
                "it lists port {:#x} for the timer, but the kernel lists port {ports:#x}",
                timer.port
            ))),
            Some(_) | None => Ok(timer),
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
        [FADT.to_owned(), IO_PORTS.to_owned()].into_iter().chain(of_device).collect()
    }
}

/// Parses the table's description of the timer.
///
/// # References
///
/// ACPI Specification 6.5, 5.2.9, `PM_TMR_BLK`, `X_PM_TMR_BLK`, `PM_TMR_LEN`, `TMR_VAL_EXT`; Linux,
/// arch/x86/kernel/acpi/boot.c, `acpi_parse_fadt`, for which of the two addresses applies.
fn parse(table: &[u8]) -> Result<PmTimer, NoPmTimer> {
    let malformed = |why: String| Err(NoPmTimer::Malformed(why));
    if !table.starts_with(b"FACP") {
        return malformed("it does not start with FACP".to_owned());
    }
    let stated = usize::try_from(u32_at(table, LENGTH).unwrap_or(0)).unwrap_or(usize::MAX);
    if stated != table.len() {
        return malformed(format!("its header states a length of {stated} bytes, but the table has {}", table.len()));
    }
    if stated < SHORTEST {
        return malformed(format!("its length of {stated} bytes is too short"));
    }
    let sum = table.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
    if sum != 0 {
        return malformed(format!("its checksum is wrong: the bytes add up to {sum:#04x} instead of 0"));
    }
    let byte = |at: usize| table.get(at).copied().unwrap_or(0);
    let flags = u32_at(table, FLAGS).unwrap_or(0);
    let absent = |why: &str| Err(NoPmTimer::Absent(why.to_owned()));
    if flags & HARDWARE_REDUCED != 0 {
        return absent("the firmware implements hardware-reduced ACPI, which has no such timer");
    }
    let revision = byte(REVISION);
    let old = u64::from(u32_at(table, PM_TIMER_BLOCK).unwrap_or(0));
    // In revision 2 and later, a second address field takes precedence if it is present and nonzero.
    let address = match table.get(X_PM_TIMER_BLOCK..X_PM_TIMER_BLOCK + 12) {
        Some(generic) if revision >= 2 => {
            let address = u64::from_le_bytes(generic[4..].try_into().expect("the slice has 12 bytes"));
            if address == 0 {
                old
            } else if generic[0] == SYSTEM_IO {
                address
            } else {
                return absent("the firmware describes a memory-mapped timer, which Linux on x86 does not read");
            }
        }
        Some(_) | None => old,
    };
    if address == 0 || u64::from(byte(PM_TIMER_LENGTH)) != REGISTER_LENGTH {
        return absent("the firmware's ACPI tables describe no power management timer");
    }
    match u16::try_from(address) {
        Ok(port) if u64::from(port) + REGISTER_LENGTH <= 0x1_0000 && port % 4 == 0 => {
            Ok(PmTimer { port, says_32_bits: flags & TIMER_IS_WIDE != 0, revision })
        }
        _ => malformed(format!("it lists port {address:#x} for the timer, which cannot be a register address")),
    }
}

fn u32_at(table: &[u8], at: usize) -> Option<u32> {
    table.get(at..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Returns the first port that the kernel's list assigns to the timer; `None` for unprivileged users, to whom the
/// kernel shows zeros.
fn kernels_ports(list: &str) -> Option<u64> {
    let line = list.lines().find(|line| line.split_once(" : ").is_some_and(|(_, name)| name.trim() == PORTS_NAME))?;
    let first = line.trim_start().split(['-', ' ']).next()?;
    u64::from_str_radix(first, 16).ok().filter(|&port| port > 0)
}

/// Parses a hexadecimal number with the prefix `0x`, as in the files of PCI devices, for example `0x8086`.
fn hexadecimal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, proptest},
    };

    use super::{Latch, NoPmTimer, PmTimer, kernels_ports, parse};
    use crate::host::{Facts, Host};

    /// Tables that Linux exposed, on two machines under QEMU and on a virtual machine: tests/data/fadt/README.md.
    const Q35: &[u8] = include_bytes!("../../../../tests/data/fadt/qemu-q35.bin");
    const PC: &[u8] = include_bytes!("../../../../tests/data/fadt/qemu-pc.bin");
    const REDUCED: &[u8] = include_bytes!("../../../../tests/data/fadt/firecracker.bin");

    /// Sets the checksum to the required value.
    fn summed(mut table: Vec<u8>) -> Vec<u8> {
        table[9] = 0;
        let sum = table.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte));
        table[9] = sum.wrapping_neg();
        table
    }

    fn changed(table: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut table = table.to_vec();
        table[at..at + bytes.len()].copy_from_slice(bytes);
        summed(table)
    }

    fn why(table: &[u8]) -> String {
        match parse(table) {
            Ok(timer) => panic!("{timer:?}"),
            Err(NoPmTimer::Malformed(why)) => format!("malformed: {why}"),
            Err(NoPmTimer::Absent(why)) => format!("absent: {why}"),
            Err(NoPmTimer::Unreadable(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn each_version_of_the_table_contains_the_port() {
        let timer = |table| parse(table).expect("a timer");
        assert_eq!(timer(Q35), PmTimer { port: 0x608, says_32_bits: false, revision: 3 });
        assert_eq!(timer(PC), PmTimer { port: 0x608, says_32_bits: false, revision: 1 });
        assert!(why(REDUCED).starts_with("absent: the firmware implements hardware-reduced ACPI"));
    }

    #[test]
    fn the_extended_address_takes_precedence_if_present() {
        let port = |table: &[u8]| parse(table).map(|timer| timer.port).ok();
        let moved = changed(Q35, 208, &[1, 32, 0, 0, 0x08, 0x18, 0, 0, 0, 0, 0, 0]);
        assert_eq!(port(&moved), Some(0x1808));
        assert_eq!(port(&changed(Q35, 208, &[0; 12])), Some(0x608));
        // A table that predates that field, or claims to.
        assert_eq!(port(&changed(&moved, 8, &[1])), Some(0x608));
        assert!(
            why(&changed(Q35, 208, &[0, 32, 0, 0, 8, 0x18, 0, 0, 0, 0, 0, 0]))
                .starts_with("absent: the firmware describes a memory-mapped timer")
        );
    }

    #[test]
    fn flags_and_lengths_are_respected() {
        let wide = parse(&changed(Q35, 112, &[0xa5, 0x85, 0, 0])).expect("a timer");
        assert!(wide.says_32_bits);
        assert!(why(&changed(Q35, 91, &[0])).starts_with("absent: the firmware's ACPI tables describe no"));
        assert!(
            why(&changed(&changed(Q35, 76, &[0; 4]), 208, &[0; 12]))
                .starts_with("absent: the firmware's ACPI tables describe no")
        );
        for port in [[0x0a, 6, 0, 0], [0xfe, 0xff, 0, 0], [8, 6, 1, 0]] {
            assert!(why(&changed(PC, 76, &port)).contains("which cannot be a register"), "{port:?}");
        }
    }

    #[test]
    fn a_truncated_or_modified_table_is_detected() {
        for length in 0..Q35.len() {
            assert!(why(&Q35[..length]).starts_with("malformed"), "cut at {length}");
        }
        for at in 0..Q35.len() {
            let mut changed = Q35.to_vec();
            changed[at] ^= 0x10;
            assert!(why(&changed).starts_with("malformed"), "changed at {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(bytes in vec(any::<u8>(), 0..400)) {
            let _ = parse(&bytes);
        }

        /// Tables with a correct length and sum, so that the fields are examined.
        #[test]
        fn any_table_yields_a_complete_register_or_a_reason(
            length in 116_u16..400,
            bytes in vec(any::<u8>(), 400),
            revision in 0_u8..7,
            timer in (any::<u32>(), any::<u8>(), any::<u64>()),
        ) {
            let mut table = bytes[..length.into()].to_vec();
            table[..4].copy_from_slice(b"FACP");
            table[4..8].copy_from_slice(&u32::from(length).to_le_bytes());
            table[8] = revision;
            table[76..80].copy_from_slice(&(timer.0 & 0xffff).to_le_bytes());
            table[91] = if timer.1 < 200 { 4 } else { timer.1 };
            table[114] &= 0xef;
            if let Some(generic) = table.get_mut(208..220) {
                generic[0] = timer.1 & 1;
                generic[4..].copy_from_slice(&(timer.2 & 0xffff).to_le_bytes());
            }
            if let Ok(PmTimer { port, .. }) = parse(&summed(table)) {
                prop_assert!(port > 0 && port <= 0xfffc && port % 4 == 0, "{port:#x}");
            }
        }

        #[test]
        fn any_list_of_ports_is_parsed_without_a_panic(text in any::<String>()) {
            let _ = kernels_ports(&text);
        }
    }

    #[test]
    fn the_kernels_list_shows_the_ports_only_to_root() {
        let list = "0000-0cf7 : PCI Bus 0000:00\n  0600-0603 : ACPI PM1a_EVT_BLK\n  0608-060b : ACPI PM_TMR\n";
        assert_eq!(kernels_ports(list), Some(0x608));
        assert_eq!(kernels_ports("  0000-0000 : ACPI PM_TMR\n"), None);
        assert_eq!(kernels_ports("0060-0060 : keyboard\n"), None);
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
    fn a_table_that_contradicts_the_kernel_is_not_trusted() {
        let (folder, host) = machine();
        assert!(matches!(host.find_pm_timer(), Err(NoPmTimer::Unreadable(_))));
        write(&folder, "sys/firmware/acpi/tables/FACP", Q35);
        assert_eq!(host.pm_timer().map(|timer| timer.port), Some(0x608));
        write(&folder, "proc/ioports", b"0608-060b : ACPI PM_TMR\n");
        assert!(host.pm_timer().is_some());
        write(&folder, "proc/ioports", b"0408-040b : ACPI PM_TMR\n");
        assert!(matches!(host.find_pm_timer(), Err(NoPmTimer::Malformed(_))));
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
