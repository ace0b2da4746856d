//! Facts from the device tree about the timers of a system on a chip. This module only parses; `Host` opens the files.

/// The node of the ARM generic timer.
///
/// # References
///
/// Linux, Documentation/devicetree/bindings/timer/arm,arch_timer.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchTimer {
    /// The property `clock-frequency`, in hertz. Device trees set it if the firmware does not
    /// write CNTFRQ correctly on every CPU.
    pub clock_frequency_hz: Option<u32>,
    /// `arm,no-tick-in-suspend`: the counter stops while the machine is suspended.
    pub stops_in_suspend: bool,
    /// The errata that the node names. For these errata, the kernel traps or corrects reads of the counter.
    pub errata: Vec<&'static str>,
}

/// The `compatible` name of the Broadcom System Timer on every Raspberry Pi. Linux,
/// Documentation/devicetree/bindings/timer/brcm,bcm2835-system-timer.yaml.
pub(crate) const SYSTEM_TIMER: &str = "brcm,bcm2835-system-timer";

/// The possible values of the node's `compatible` property.
const COMPATIBLE: [&str; 2] = ["arm,armv8-timer", "arm,armv7-timer"];
/// The other properties of the node, except those that name errata.
pub(super) const CLOCK_FREQUENCY: &str = "clock-frequency";
pub(super) const NO_TICK_IN_SUSPEND: &str = "arm,no-tick-in-suspend";
/// Properties that name an erratum of the counter.
pub(super) const ERRATA: [&str; 3] =
    ["fsl,erratum-a008585", "hisilicon,erratum-161010101", "allwinner,erratum-unknown1"];

/// Returns whether a `compatible` property, a list of zero-terminated names, names the ARM generic timer.
pub(super) fn is_arch_timer(compatible: &[u8]) -> bool {
    compatible.split(|&byte| byte == 0).any(|name| COMPATIBLE.iter().any(|wanted| name == wanted.as_bytes()))
}

/// Parses a one-cell property: 32 bits, most significant byte first. Devicetree Specification v0.4, 2.2.4.
pub(super) fn cell(property: &[u8]) -> Option<u32> {
    property.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, proptest},
    };

    use super::{cell, is_arch_timer};

    #[test]
    fn a_node_matches_any_of_its_compatible_names() {
        assert!(is_arch_timer(b"arm,armv7-timer\0"));
        assert!(is_arch_timer(b"arm,cortex-a15-timer\0arm,armv7-timer\0"));
        assert!(!is_arch_timer(b"arm,armv7-timer-mem\0"));
        assert!(!is_arch_timer(b""));
    }

    #[test]
    fn a_cell_has_four_bytes() {
        assert_eq!((cell(&[0x03, 0x37, 0xf9, 0x80]), cell(&[1, 2, 3]), cell(&[])), (Some(54_000_000), None, None));
    }

    proptest! {
        #[test]
        fn any_property_is_parsed_without_a_panic(bytes in vec(any::<u8>(), 0..64)) {
            let _ = (is_arch_timer(&bytes), cell(&bytes));
        }
    }
}
