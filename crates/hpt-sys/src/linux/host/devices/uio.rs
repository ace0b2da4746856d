//! UIO windows: device registers that a UIO driver maps into programs. This module only locates windows; `mmio`
//! opens them.

use super::{Host, Region};

const CLASS: &str = "/sys/class/uio";
/// The maximum number of maps that a UIO device can have. Linux, include/linux/uio_driver.h, `MAX_UIO_MAPS`.
const MOST_MAPS: u32 = 5;

/// One map of a UIO device.
///
/// # References
///
/// Linux, Documentation/driver-api/uio-howto.rst: map N of /dev/uioX is mapped at an offset of N pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UioWindow {
    /// The name of the device, for example `uio0` for /dev/uio0.
    pub device: String,
    /// The name that its driver provides.
    pub name: String,
    /// The number of the map.
    pub map: u32,
    /// The range of addresses that it covers.
    pub region: Region,
}

impl Host {
    /// Returns the first UIO window that covers the whole range `wanted`.
    #[must_use]
    pub fn uio_window(&self, wanted: Region) -> Option<UioWindow> {
        let devices = self.list(CLASS).into_iter();
        devices.flat_map(|device| (0..MOST_MAPS).filter_map(move |map| self.uio_map(&device, map))).find(|window| {
            let inside = wanted.address.checked_sub(window.region.address);
            inside.and_then(|inside| inside.checked_add(wanted.length)).is_some_and(|end| end <= window.region.length)
        })
    }

    /// Returns the paths of the files that describe the UIO window covering `wanted`; empty if there is no such window.
    pub(in crate::linux::host) fn uio_files(&self, wanted: Region) -> Vec<String> {
        self.uio_window(wanted).map_or_else(Vec::new, |UioWindow { device, map, .. }| {
            let of_map = |name| format!("{CLASS}/{device}/maps/map{map}/{name}");
            vec![format!("{CLASS}/{device}/name"), of_map("addr"), of_map("size")]
        })
    }

    fn uio_map(&self, device: &str, map: u32) -> Option<UioWindow> {
        let number =
            |name| self.text(&format!("{CLASS}/{device}/maps/map{map}/{name}")).as_deref().and_then(hexadecimal);
        let region = Region { address: number("addr")?, length: number("size")? };
        let name = self.text(&format!("{CLASS}/{device}/name")).unwrap_or_default();
        Some(UioWindow { device: device.to_owned(), name, map, region })
    }
}

/// Parses a hexadecimal number with the prefix `0x`, for example `0x3f003000`.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Region, hexadecimal};
    use crate::host::{Facts, Host};

    #[test]
    fn numbers_are_parsed_in_the_format_of_sysfs() {
        assert_eq!(hexadecimal("0x000000107c003000"), Some(0x10_7c00_3000));
        assert_eq!((hexadecimal("3f003000"), hexadecimal("0x"), hexadecimal("0xg")), (None, None, None));
    }

    #[test]
    fn a_uio_map_is_found_by_the_addresses_it_covers() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (device, map, address) in [("uio0", 0, "0xfe200000"), ("uio1", 0, "0x3f000000"), ("uio1", 1, "0x3f003000")]
        {
            let path = folder.path().join(format!("sys/class/uio/{device}/maps/map{map}"));
            fs::create_dir_all(&path).expect("a new directory");
            fs::write(path.join("addr"), format!("{address}\n")).expect("a writable file");
            fs::write(path.join("size"), "0x1000\n").expect("a writable file");
            fs::write(folder.path().join(format!("sys/class/uio/{device}/name")), "a window\n")
                .expect("a writable file");
        }
        let host = Host::below(folder.path(), Facts::live());
        let at = |address, length| host.uio_window(Region { address, length });
        let found = at(0x3f00_3000, 12).expect("the second map of the second device");
        assert_eq!((found.device.as_str(), found.map, found.name.as_str()), ("uio1", 1, "a window"));
        assert_eq!(at(0x3f00_3ff8, 12), None, "half of it");
        assert_eq!(at(0x2000_3000, 12), None, "another page");
    }
}
