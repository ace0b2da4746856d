//! The Broadcom System Timer: where its registers are, according to the device tree, or to the name of the chip.

use super::{Architecture, Host, Region, soc::SYSTEM_TIMER};

/// The chips whose name in /proc/cpuinfo determines the address of the System Timer. The kernels that print these names
/// were built for one chip. Later kernels print BCM2835 on every Raspberry Pi, which determines no address.
///
/// raspberrypi/linux, rpi-3.12.y, arch/arm/mach-bcm2708/include/mach/platform.h, and rpi-3.18.y,
/// arch/arm/mach-bcm2709/include/mach/platform.h: `ST_BASE`, `MACHINE_START`.
const CHIPS: [(&str, u64); 2] = [("BCM2708", 0x2000_3000), ("BCM2709", 0x3f00_3000)];
/// The registers of the timer, from CS to C3, take 28 bytes. BCM2835 ARM Peripherals, 12.1.
const SYSTEM_TIMER_LENGTH: u64 = 28;

/// The Broadcom System Timer of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemTimer {
    /// The registers; `None` if the device tree has the timer, but its address cannot be determined.
    pub registers: Option<Region>,
    /// The frequency in hertz, if the device tree states it.
    pub clock_frequency_hz: Option<u32>,
    /// The file that states that the machine has the timer.
    pub evidence: String,
}

impl Host {
    /// Returns the System Timer that the device tree describes. Without a device tree, returns the timer of the chip
    /// that /proc/cpuinfo names, if a kernel prints this name only on a chip with a known address.
    ///
    /// # Errors
    ///
    /// Returns the reason why no System Timer is known.
    pub fn system_timer(&self) -> Result<SystemTimer, String> {
        if let Some(node) = self.device_node(SYSTEM_TIMER) {
            return Ok(SystemTimer {
                registers: node.registers,
                clock_frequency_hz: node.clock_frequency_hz,
                evidence: format!("device tree: {} is {SYSTEM_TIMER}", node.path),
            });
        }
        // A tree without the timer says that there is none, whatever the chip is.
        if !self.list(DEVICE_TREE).is_empty() {
            return Err(format!("the device tree has no {SYSTEM_TIMER}"));
        }
        let cpuinfo = self.text("/proc/cpuinfo").unwrap_or_default();
        let chip = chip(&cpuinfo).filter(|_| self.facts().architecture == Architecture::Arm);
        let known = chip.and_then(|chip| CHIPS.into_iter().find(|(name, _)| *name == chip));
        let Some((name, address)) = known else {
            let says = chip.map_or("names no chip".to_owned(), |chip| format!("names {chip}"));
            return Err(format!(
                "there is no device tree, and /proc/cpuinfo {says}, which does not determine the address of a System Timer"
            ));
        };
        Ok(SystemTimer {
            registers: Some(Region { address, length: SYSTEM_TIMER_LENGTH }),
            clock_frequency_hz: None,
            evidence: format!("/proc/cpuinfo: the chip is {name}, and there is no device tree"),
        })
    }
}

/// Returns the value of the line `Hardware` in /proc/cpuinfo; `None` if there is none, or more than one.
fn chip(cpuinfo: &str) -> Option<&str> {
    let mut values = cpuinfo.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim_end() == "Hardware").then(|| value.trim())
    });
    values.next().filter(|_| values.next().is_none())
}

/// The directory in which Linux shows the device tree.
const DEVICE_TREE: &str = "/proc/device-tree";

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{SystemTimer, chip};
    use crate::host::{Architecture, Capture, Entry, Facts, Host};

    /// A 32-bit ARM machine with this /proc/cpuinfo.
    fn machine(cpuinfo: &str, others: &[&str]) -> Result<SystemTimer, String> {
        let mut capture = Capture::new();
        capture.insert("proc/cpuinfo", Entry::File(cpuinfo.into())).expect("a sound path");
        for other in others {
            capture.insert(other, Entry::File(b"any\0".to_vec())).expect("a sound path");
        }
        Host::captured(capture, Facts { architecture: Architecture::Arm, ..Facts::live() }).system_timer()
    }

    fn address(cpuinfo: &str) -> Option<u64> {
        machine(cpuinfo, &[]).ok()?.registers.map(|registers| registers.address)
    }

    #[test]
    fn only_a_name_that_stands_for_one_chip_determines_the_address() {
        assert_eq!(address("Processor\t: ARMv6\n\nHardware\t: BCM2708\nRevision\t: 000f\n"), Some(0x2000_3000));
        assert_eq!(address("Hardware\t: BCM2709\n"), Some(0x3f00_3000));
        // BCM2835 stands for every model, and the others are not a whole name or not a statement of one chip.
        for other in [
            "Hardware\t: BCM2835\n",
            "Hardware\t: BCM2711\n",
            "Hardware\t: BCM27080\n",
            "Hardware\t: bcm2708\n",
            "Hardware\t: BCM2708 (Device Tree)\n",
            "Hardware\t:\n",
            "Hardware BCM2708\n",
            "model name\t: BCM2708\n",
            "Hardware\t: BCM2708\nHardware\t: BCM2709\n",
            "",
        ] {
            assert_eq!(address(other), None, "{other:?}");
        }
        let unknown = machine("Hardware\t: BCM2835\n", &[]).expect_err("every model prints this");
        assert!(unknown.contains("names BCM2835, which does not determine"), "{unknown}");
    }

    #[test]
    fn a_device_tree_without_the_timer_outweighs_the_name_of_the_chip() {
        let refused = machine("Hardware\t: BCM2708\n", &["proc/device-tree/model"]).expect_err("the tree has none");
        assert!(refused.contains("the device tree has no"), "{refused}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text: String) {
            let _ = chip(&text);
        }
    }
}
