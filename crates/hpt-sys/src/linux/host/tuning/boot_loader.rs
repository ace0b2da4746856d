//! Identifies the boot loader, which determines where boot parameters are configured. The only file that this module
//! reads is the firmware variable that names the boot loader. It does not open other files, but checks whether they
//! exist.

use super::Host;

/// The boot loader that passes the command line to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum BootLoader {
    /// GRUB with Debian's `update-grub`.
    Grub,
    /// GRUB without `update-grub`, as on distributions that are not based on Debian.
    OtherGrub,
    /// systemd-boot.
    SystemdBoot,
    /// The firmware of a Raspberry Pi, which reads the parameters from /boot/firmware/cmdline.txt.
    RaspberryPi,
    /// The firmware of a Raspberry Pi with a system older than Debian 12, which reads them from /boot/cmdline.txt.
    RaspberryPiBefore12,
}

const PI: &str = "/boot/firmware/cmdline.txt";
const PI_BEFORE_12: &str = "/boot/cmdline.txt";
const GRUB: &str = "/etc/default/grub";
const UPDATE_GRUB: [&str; 2] = ["/usr/sbin/update-grub", "/sbin/update-grub"];
/// The firmware variable in which the boot loader stores its name. The Boot Loader Interface, uapi-group.org.
const LOADER_INFO: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-442b29bb8c4f";

impl Host {
    /// Returns the boot loader; `None` if no file identifies it, for example in a container, or in a virtual machine
    /// whose host sets the command line.
    pub(super) fn look_at_the_boot_loader(&self) -> Option<BootLoader> {
        let is_there = |path: &str| self.is_there(path);
        let started = self.read(LOADER_INFO).ok().map(|content| letters(&content));
        if started.is_some_and(|by| by.starts_with("systemd-boot")) {
            Some(BootLoader::SystemdBoot)
        } else if is_there(PI) {
            Some(BootLoader::RaspberryPi)
        } else if is_there(PI_BEFORE_12) {
            Some(BootLoader::RaspberryPiBefore12)
        } else if is_there(GRUB) {
            let debians = UPDATE_GRUB.iter().any(|path| is_there(path));
            Some(if debians { BootLoader::Grub } else { BootLoader::OtherGrub })
        } else {
            None
        }
    }
}

/// Decodes a firmware variable, which contains UTF-16 text after four bytes of attributes. Linux,
/// Documentation/filesystems/efivarfs.rst.
fn letters(content: &[u8]) -> String {
    let units = content.get(4..).unwrap_or_default().chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units).map_while(Result::ok).take_while(|&letter| letter != '\0').collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::{any, proptest};

    use super::{BootLoader, GRUB, LOADER_INFO, PI, PI_BEFORE_12, UPDATE_GRUB, letters};
    use crate::host::{Facts, Host};

    fn seen(files: &[(&str, &[u8])]) -> Option<BootLoader> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
            fs::write(path, content).expect("ours");
        }
        Host::below(folder.path(), Facts::live()).look_at_the_boot_loader()
    }

    #[test]
    fn the_boot_loader_is_identified_by_its_files() {
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[(GRUB, b"")]), Some(BootLoader::OtherGrub));
        assert_eq!(seen(&[(GRUB, b""), (UPDATE_GRUB[0], b"")]), Some(BootLoader::Grub));
        assert_eq!(seen(&[(PI_BEFORE_12, b"")]), Some(BootLoader::RaspberryPiBefore12));
        assert_eq!(seen(&[(PI_BEFORE_12, b""), (PI, b"")]), Some(BootLoader::RaspberryPi));
        let note: Vec<u8> =
            [6, 0, 0, 0].into_iter().chain("systemd-boot 252\0".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(seen(&[(LOADER_INFO, &note), (GRUB, b""), (UPDATE_GRUB[1], b"")]), Some(BootLoader::SystemdBoot));
        let note: Vec<u8> =
            [6, 0, 0, 0].into_iter().chain("GRUB 2.12".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(seen(&[(LOADER_INFO, &note), (GRUB, b""), (UPDATE_GRUB[1], b"")]), Some(BootLoader::Grub));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(content in any::<Vec<u8>>()) {
            let _ = letters(&content);
        }
    }
}
