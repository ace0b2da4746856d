//! The GPIO registers of the Broadcom SoCs in a Raspberry Pi 1 to 4, mapped into this process: reads the level of a pin,
//! and drives a pin that the kernel has granted to this process as an output. Never writes the function of a pin.

use std::{fs, io, path::Path};

use hpt_sys::{
    arch::Barrier,
    host::{DeviceDenial, Host, Region},
    mmio::{Registers, Window},
    mmio_writable::{WritableRegisters, WritableWindow},
    process,
};

use super::{Chip, GpioError};

/// The `compatible` names of the GPIO controllers that have these registers. Linux,
/// drivers/pinctrl/bcm/pinctrl-bcm2835.c, `bcm2835_pinctrl_match`.
const COMPATIBLE: [&str; 2] = ["brcm,bcm2835-gpio", "brcm,bcm2711-gpio"];
/// The `compatible` name of the GPIO controller of RP1, the I/O chip of a Raspberry Pi 5.
const RP1: &str = "raspberrypi,rp1-gpio";

// BCM2835 ARM Peripherals, 6.1, Register View. BCM2711 ARM Peripherals, 5.2, has the same registers at these offsets.
/// Three bits for each pin: its function.
const FUNCTION_SELECT: usize = 0x00;
/// One bit for each pin: writing a one drives an output high. A zero has no effect.
const SET: usize = 0x1c;
/// One bit for each pin: writing a one drives an output low. A zero has no effect.
const CLEAR: usize = 0x28;
/// One bit for each pin: its level.
const LEVEL: usize = 0x34;
/// The number of bytes to map, up to the second register of levels.
const LENGTH: usize = 0x3c;

/// The function of a pin: 0 is an input, 1 is an output, and the other six are those of other devices.
const INPUT: u32 = 0b000;
/// See [`INPUT`].
const OUTPUT: u32 = 0b001;

/// Raspberry Pi OS: the page of the GPIO registers, for members of the group gpio. The driver ignores the offset.
/// Linux of Raspberry Pi, drivers/char/broadcom/bcm2835-gpiomem.c.
const GPIO_MEMORY: &str = "/dev/gpiomem";
const MEMORY: &str = "/dev/mem";

/// The bit of a pin in a group of registers with one bit for each pin.
#[derive(Clone, Copy, Debug)]
struct Bit {
    /// The offset of its register in the group.
    offset: usize,
    mask: u32,
}

impl Bit {
    fn of(pin: u32) -> Self {
        Self { offset: usize::try_from(pin / 32).expect("a small number") * 4, mask: 1 << (pin % 32) }
    }
}

/// Returns the function of a pin.
fn function(registers: &impl Registers, pin: u32) -> u32 {
    let offset = usize::try_from(pin / 10).expect("a small number") * 4;
    registers.read_u32(FUNCTION_SELECT + offset) >> (pin % 10 * 3) & 0b111
}

/// Returns the level of a pin.
#[inline]
fn level(registers: &impl Registers, bit: Bit) -> bool {
    registers.read_u32(LEVEL + bit.offset) & bit.mask != 0
}

/// Drives an output to a level.
#[inline]
fn drive(registers: &impl WritableRegisters, bit: Bit, level: bool) {
    registers.write_u32(if level { SET } else { CLEAR } + bit.offset, bit.mask);
}

/// A pin that another device uses has another function, and must not be requested: the kernel lists it as unused.
fn require_no_other_function(registers: &impl Registers, pin: u32, name: &str) -> Result<(), GpioError> {
    match function(registers, pin) {
        INPUT | OUTPUT => Ok(()),
        other => Err(GpioError::Busy {
            line: name.to_owned(),
            consumer: format!("another device of the SoC (function {other:03b})"),
        }),
    }
}

/// Compares the registers with what the kernel has just done with the pin. A page of another device fails this
/// comparison unless the same bits happen to be set in it.
fn require_granted(registers: &impl Registers, pin: u32, expected: (u32, Option<bool>)) -> Result<(), String> {
    let (wanted, wanted_level) = expected;
    let found = function(registers, pin);
    if found != wanted {
        return Err(format!(
            "the registers show the function {found:03b} for the line, which the kernel has just made an {}; they are not the registers of this chip",
            if wanted == OUTPUT { "output" } else { "input" }
        ));
    }
    let found = level(registers, Bit::of(pin));
    match wanted_level {
        Some(wanted) if wanted != found => Err(format!(
            "the registers show the line {}, which the kernel has just driven {}; they are not the registers of this chip",
            high_or_low(found),
            high_or_low(wanted)
        )),
        _ => Ok(()),
    }
}

const fn high_or_low(level: bool) -> &'static str {
    if level { "high" } else { "low" }
}

/// Returns the location of the chip's registers, or the reason why they are not those that this module knows.
fn region(host: &Host, chip: &Chip) -> Result<Region, String> {
    let node = host
        .locate(&format!("/sys/bus/gpio/devices/{}/of_node", chip.name()))
        .and_then(|link| fs::read_link(link).ok())
        .and_then(|link| Some(link.to_str()?.split_once("devicetree/base")?.1.to_owned()));
    let Some(node) = node else {
        return Err(format!(
            "the device tree describes no chip {} ({}), so its registers are unknown",
            chip.name(),
            chip.label()
        ));
    };
    region_of(host, &node)
}

/// Returns the location of the registers of a node of the device tree.
fn region_of(host: &Host, node: &str) -> Result<Region, String> {
    let names = host.read(&format!("/proc/device-tree{node}/compatible")).unwrap_or_default();
    let names = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names: Vec<_> = names.map(String::from_utf8_lossy).collect();
    if names.iter().any(|name| name == RP1) {
        return Err("the lines belong to RP1, the I/O chip of a Raspberry Pi 5 (BCM2712), whose registers differ from those of BCM2835 to BCM2711".to_owned());
    }
    let Some(compatible) = COMPATIBLE.into_iter().find(|known| names.iter().any(|name| name == known)) else {
        return Err(format!(
            "{node} is {}, but hpt knows only the registers of {}",
            names.first().map_or("no device with a name", |name| name),
            COMPATIBLE.join(" and ")
        ));
    };
    let length = u64::try_from(LENGTH).expect("sixty");
    host.device_node(compatible)
        .filter(|found| found.path == node)
        .and_then(|found| found.registers)
        .filter(|registers| registers.length >= length && registers.address % 4 == 0)
        .map(|registers| Region { length, ..registers })
        .ok_or_else(|| format!("the device tree does not contain the address of the registers of {node}"))
}

/// Maps the registers of the chip, from /dev/gpiomem if there is one, otherwise from /dev/mem.
fn map<W>(host: &Host, chip: &Chip, open: impl Fn(&Path, u64, usize, usize) -> io::Result<W>) -> Result<W, GpioError> {
    let refused = |why: String| GpioError::NoRegisters { chip: chip.name().to_owned(), why };
    let region = region(host, chip).map_err(refused)?;
    let page = process::page_size();
    let page_address = region.address & !(page - 1);
    let start = usize::try_from(region.address - page_address).expect("less than a page");
    let from = |path: &Path, offset: u64| open(path, offset, start, LENGTH);
    match from(Path::new(GPIO_MEMORY), 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => from(Path::new(MEMORY), page_address)
            .map_err(|error| refused(diagnose(MEMORY, host.device_denial(), &error))),
        Err(error) => Err(refused(diagnose(GPIO_MEMORY, host.device_denial(), &error))),
        Ok(window) => Ok(window),
    }
}

/// Returns the reason why a file cannot be mapped, and the fix. The kernel checks in this order: the mode of the file,
/// the capability, lockdown, and the page itself.
fn diagnose(path: &str, denial: Option<DeviceDenial>, error: &io::Error) -> String {
    let why = match (error.raw_os_error(), denial) {
        (Some(libc::EACCES), _) if path == GPIO_MEMORY => {
            "this user does not have permission to open it; run as root (sudo), or join the group gpio"
        }
        (Some(libc::EACCES), _) | (Some(libc::EPERM), Some(DeviceDenial::Capability)) => {
            "this process does not have permission to map it; run as root (sudo)"
        }
        (Some(libc::EPERM), Some(DeviceDenial::Lockdown)) => {
            "kernel lockdown denies access, even to root; Secure Boot or lockdown= on the kernel command line enables it"
        }
        (Some(libc::EPERM), None) => {
            "the kernel does not map this page, because the GPIO driver has claimed it; boot with iomem=relaxed, or use a kernel with /dev/gpiomem (Raspberry Pi OS)"
        }
        (Some(libc::ENOENT | libc::ENXIO | libc::ENODEV), _) => {
            "the kernel was built without CONFIG_DEVMEM, or the container does not have the device"
        }
        _ => return format!("{path}: {error}"),
    };
    format!("{path}: {why}")
}

/// The level of a pin of a Broadcom SoC (BCM2835 to BCM2711), read from a register without the kernel. A reading
/// changes nothing, whatever the pin is used for.
#[derive(Debug)]
pub struct PinLevel {
    registers: Window,
    bit: Bit,
}

impl PinLevel {
    /// Maps the registers of the chip read-only, from /dev/gpiomem if there is one, otherwise from /dev/mem. Their
    /// address comes from the device tree.
    ///
    /// # Errors
    ///
    /// Returns [`GpioError::NoSuchLine`] if the chip does not have this line, and [`GpioError::NoRegisters`] if the chip
    /// has other registers, or if they cannot be mapped.
    ///
    /// # References
    ///
    /// BCM2835 ARM Peripherals, chapter 6, General Purpose I/O: GPLEVn.
    pub fn open(host: &Host, chip: &Chip, offset: u32) -> Result<Self, GpioError> {
        chip.line(offset)?;
        Ok(Self { registers: map(host, chip, Window::map)?, bit: Bit::of(offset) })
    }

    /// Returns whether the pin is high.
    #[inline]
    #[must_use]
    pub fn is_high(&self) -> bool {
        level(&self.registers, self.bit)
    }

    /// See [`require_no_other_function`].
    pub(super) fn require_no_other_function(&self, pin: u32, name: &str) -> Result<(), GpioError> {
        require_no_other_function(&self.registers, pin, name)
    }

    /// See [`require_granted`].
    pub(super) fn require_input(&self, chip: &Chip, pin: u32) -> Result<(), GpioError> {
        require_granted(&self.registers, pin, (INPUT, None))
            .map_err(|why| GpioError::NoRegisters { chip: chip.name().to_owned(), why })
    }
}

/// The registers that drive one pin.
#[derive(Debug)]
pub(super) struct PinDriver {
    registers: WritableWindow,
    bit: Bit,
    barrier: Barrier,
}

impl PinDriver {
    /// Maps the registers, and checks that no other device uses the pin. Writes nothing.
    pub(super) fn open(host: &Host, chip: &Chip, pin: u32) -> Result<Self, GpioError> {
        let state = chip.line(pin)?;
        let registers = map(host, chip, WritableWindow::map)?;
        require_no_other_function(&registers, pin, &chip.name_of(pin, state.name.as_deref()))?;
        Ok(Self { registers, bit: Bit::of(pin), barrier: Barrier::detect(process::platform().as_deref()) })
    }

    /// See [`require_granted`].
    pub(super) fn require_output(&self, chip: &Chip, pin: u32, level: Option<bool>) -> Result<(), GpioError> {
        require_granted(&self.registers, pin, (OUTPUT, level))
            .map_err(|why| GpioError::NoRegisters { chip: chip.name().to_owned(), why })
    }

    /// Drives the pin. Waits first until all earlier instructions have completed: accesses to different devices of the
    /// SoC are not in order (BCM2835 ARM Peripherals, 1.3), and the clock may be one of them.
    #[inline]
    pub(super) fn set(&self, level: bool) {
        self.barrier.wait();
        drive(&self.registers, self.bit, level);
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, io};

    use super::{
        Bit, CLEAR, INPUT, LENGTH, LEVEL, OUTPUT, Registers, SET, WritableRegisters, diagnose, drive, function, level,
        region_of, require_granted, require_no_other_function,
    };
    use crate::gpio::GpioError;
    use hpt_sys::host::{DeviceDenial, Facts, Host, Region};

    /// The registers of a chip with 54 pins, as the manual describes them. No write to a function or a level is
    /// accepted.
    struct Fake {
        functions: [u32; 54],
        levels: RefCell<[bool; 54]>,
    }

    impl Fake {
        fn new() -> Self {
            Self { functions: [INPUT; 54], levels: RefCell::new([false; 54]) }
        }

        fn with_function(mut self, pin: usize, function: u32) -> Self {
            self.functions[pin] = function;
            self
        }

        /// Returns the pins that are high.
        fn high(&self) -> Vec<usize> {
            self.levels.borrow().iter().enumerate().filter_map(|(pin, high)| high.then_some(pin)).collect()
        }

        /// Returns the number of the first pin of a register in a group.
        fn first_pin(offset: usize, group: usize, pins: usize) -> usize {
            assert_eq!(offset % 4, 0);
            (offset - group) / 4 * pins
        }
    }

    impl Registers for Fake {
        fn read_u32(&self, offset: usize) -> u32 {
            assert!(offset + 4 <= LENGTH, "{offset:#x} is not mapped");
            match offset {
                0x00..=0x14 => {
                    let first = Self::first_pin(offset, 0, 10);
                    let pins = self.functions.iter().skip(first).take(10).enumerate();
                    pins.fold(0, |word, (pin, function)| word | function << (pin * 3))
                }
                0x34 | 0x38 => {
                    let first = Self::first_pin(offset, LEVEL, 32);
                    let pins = self.levels.borrow().iter().skip(first).take(32).copied().collect::<Vec<_>>();
                    pins.iter().enumerate().fold(0, |word, (pin, high)| word | u32::from(*high) << pin)
                }
                _ => panic!("{offset:#x} is not a register to read"),
            }
        }
    }

    impl WritableRegisters for Fake {
        fn write_u32(&self, offset: usize, value: u32) {
            let (group, driven) = match offset {
                0x1c | 0x20 => (SET, true),
                0x28 | 0x2c => (CLEAR, false),
                _ => panic!("{offset:#x} must not be written"),
            };
            let first = Self::first_pin(offset, group, 32);
            for pin in (0..32).filter(|pin| value >> pin & 1 == 1) {
                assert_eq!(self.functions[first + pin], OUTPUT, "pin {} is not an output", first + pin);
                self.levels.borrow_mut()[first + pin] = driven;
            }
        }
    }

    /// A page of one repeated word.
    struct Constant(u32);

    impl Registers for Constant {
        fn read_u32(&self, _: usize) -> u32 {
            self.0
        }
    }

    #[test]
    fn a_pin_is_driven_and_read_without_touching_another() {
        for pin in [0, 9, 10, 22, 31, 32, 45, 53_u32] {
            let place = usize::try_from(pin).expect("small");
            let chip = Fake::new().with_function(place, OUTPUT);
            chip.levels.borrow_mut()[(place + 1) % 54] = true;
            let others = chip.high();
            drive(&chip, Bit::of(pin), true);
            assert!(level(&chip, Bit::of(pin)) && chip.levels.borrow()[place], "{pin}");
            drive(&chip, Bit::of(pin), true);
            assert_eq!(chip.high().len(), others.len() + 1, "{pin}");
            drive(&chip, Bit::of(pin), false);
            assert!(!level(&chip, Bit::of(pin)), "{pin}");
            assert_eq!(chip.high(), others, "{pin}");
        }
    }

    #[test]
    fn a_pin_with_the_function_of_another_device_is_refused() {
        for pin in [2, 14, 47_u32] {
            let place = usize::try_from(pin).expect("small");
            for (value, is_free) in [(INPUT, true), (OUTPUT, true), (0b100, false), (0b010, false), (0b111, false)] {
                let chip = Fake::new().with_function(place, value);
                assert_eq!(function(&chip, pin), value, "{pin}");
                let answer = require_no_other_function(&chip, pin, "GPIO");
                assert_eq!(answer.is_ok(), is_free, "{pin}: {value:03b}");
                if let Err(error) = answer {
                    assert!(matches!(error, GpioError::Busy { .. }), "{error}");
                    assert!(error.to_string().contains(&format!("function {value:03b}")), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_page_that_does_not_follow_the_kernel_is_not_written() {
        let chip = Fake::new().with_function(22, OUTPUT);
        assert_eq!(require_granted(&chip, 22, (OUTPUT, Some(false))), Ok(()));
        assert_eq!(require_granted(&chip, 23, (INPUT, None)), Ok(()));
        let said = |pin, expected| require_granted(&chip, pin, expected).expect_err("it differs");
        assert!(said(22, (OUTPUT, Some(true))).contains("show the line low"), "{}", said(22, (OUTPUT, Some(true))));
        assert!(said(23, (OUTPUT, None)).contains("function 000"), "{}", said(23, (OUTPUT, None)));
        assert!(said(22, (INPUT, None)).contains("function 001"), "{}", said(22, (INPUT, None)));
        assert!(require_granted(&Constant(0), 22, (OUTPUT, None)).is_err());
        assert!(require_granted(&Constant(u32::MAX), 22, (OUTPUT, None)).is_err());
        assert!(require_granted(&Constant(u32::MAX), 22, (INPUT, None)).is_err());
    }

    /// A machine whose device tree has this controller.
    fn machine(compatible: &str) -> (tempfile::TempDir, Host) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let put = |path: &str, content: &[u8]| {
            let path = folder.path().join("proc/device-tree").join(path);
            std::fs::create_dir_all(path.parent().expect("below the folder")).expect("ours");
            std::fs::write(path, content).expect("ours");
        };
        let cells = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        put("#address-cells", &cells(&[1]));
        put("#size-cells", &cells(&[1]));
        put("soc/#address-cells", &cells(&[1]));
        put("soc/#size-cells", &cells(&[1]));
        put("soc/ranges", &cells(&[0x7e00_0000, 0x3f00_0000, 0x0100_0000]));
        put("soc/gpio@7e200000/compatible", compatible.as_bytes());
        put("soc/gpio@7e200000/reg", &cells(&[0x7e20_0000, 0xb4]));
        put("soc/other/compatible", b"brcm,other\0");
        let host = Host::below(folder.path(), Facts::live());
        (folder, host)
    }

    #[test]
    fn the_address_comes_from_the_device_tree() {
        for compatible in ["brcm,bcm2835-gpio\0", "brcm,bcm2711-gpio\0brcm,bcm2835-gpio\0", "brcm,bcm2711-gpio\0"] {
            let (_folder, host) = machine(compatible);
            let region = region_of(&host, "/soc/gpio@7e200000");
            assert_eq!(region, Ok(Region { address: 0x3f20_0000, length: 0x3c }), "{compatible}");
            assert!(region_of(&host, "/soc/other").expect_err("another device").contains("brcm,other"));
            assert!(region_of(&host, "/soc/none").expect_err("no device").contains("no device with a name"));
        }
        let (_folder, host) = machine("raspberrypi,rp1-gpio\0");
        let reason = region_of(&host, "/soc/gpio@7e200000").expect_err("RP1");
        assert!(reason.contains("Raspberry Pi 5 (BCM2712)"), "{reason}");
    }

    #[test]
    fn a_refused_mapping_has_a_cause_and_a_fix() {
        let said = |path, denial, error| diagnose(path, denial, &io::Error::from_raw_os_error(error));
        assert!(said("/dev/gpiomem", None, libc::EACCES).contains("group gpio"));
        assert!(said("/dev/mem", None, libc::EACCES).contains("sudo"));
        assert!(said("/dev/mem", Some(DeviceDenial::Capability), libc::EPERM).contains("sudo"));
        assert!(said("/dev/mem", Some(DeviceDenial::Lockdown), libc::EPERM).contains("lockdown"));
        assert!(said("/dev/mem", None, libc::EPERM).contains("iomem=relaxed"));
        assert!(said("/dev/mem", None, libc::ENOENT).contains("CONFIG_DEVMEM"));
        assert!(said("/dev/mem", None, libc::EIO).starts_with("/dev/mem: "));
    }
}
