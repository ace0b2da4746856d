//! Facts about the kernel: its release, its clocksources, and the boot ID. This module only parses; `Host` opens the
//! files.

use std::fmt;

/// The first two numbers of a kernel release, for example 6 and 12 for `6.12.41-v8+`. Later releases compare as
/// greater.
///
/// # Examples
///
/// ```
/// use hpt_sys::host::KernelRelease;
///
/// let release = KernelRelease::parse("6.12.41-v8+").expect("it begins with two numbers");
/// assert!(release >= KernelRelease::new(6, 6) && release < KernelRelease::new(7, 0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelRelease {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl KernelRelease {
    /// Creates a release from its first two numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Parses a release as `uname -r` prints it. Returns `None` if it does not start with two numbers.
    #[must_use]
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some(Self { major, minor }),
            _ => None,
        }
    }
}

/// The kernel's clocksources, as sysfs lists them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClockSources {
    /// The active clocksource; `None` if sysfs does not report it.
    pub current: Option<String>,
    /// The clocksources that the kernel offers, best first; `None` if sysfs lists no clocksources.
    pub available: Option<Vec<String>>,
}

impl ClockSources {
    pub(super) fn parse(current: Option<&str>, available: Option<&str>) -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        Self {
            current: current.and_then(|text| words(text).into_iter().next()),
            available: available.map(words).filter(|sources| !sources.is_empty()),
        }
    }

    /// Returns whether the kernel offers `name`; `None` if sysfs lists no clocksources.
    #[must_use]
    pub fn offers(&self, name: &str) -> Option<bool> {
        self.available.as_ref().map(|sources| sources.iter().any(|source| source == name))
    }
}

/// The ID of one boot of one machine: 32 hexadecimal digits in five groups.
///
/// # References
///
/// random(4), `/proc/sys/kernel/random/boot_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BootId(String);

impl BootId {
    /// Parses a boot ID as the kernel writes it. Returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let groups: Vec<&str> = text.trim().split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        let hexadecimal = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()));
        (lengths == [8, 4, 4, 4, 12] && hexadecimal).then(|| Self(text.trim().to_ascii_lowercase()))
    }

    /// Returns the ID as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{BootId, ClockSources, KernelRelease};

    #[test]
    fn a_release_begins_with_two_numbers() {
        let read = ["6.12.41-v8+", "6.1.0-50-arm64", "10.0"].map(KernelRelease::parse);
        let expected = [(6, 12), (6, 1), (10, 0)].map(|(major, minor)| Some(KernelRelease::new(major, minor)));
        assert_eq!(read, expected);
        assert_eq!(["", "next", "6"].map(KernelRelease::parse), [None, None, None]);
    }

    #[test]
    fn sources_are_listed_in_the_kernels_order() {
        let sources = ClockSources::parse(Some("tsc\n"), Some("tsc kvm-clock \n"));
        assert_eq!(sources.current.as_deref(), Some("tsc"));
        assert_eq!((sources.offers("kvm-clock"), sources.offers("hpet")), (Some(true), Some(false)));
    }

    #[test]
    fn without_sysfs_nothing_is_claimed() {
        let sources = ClockSources::parse(None, None);
        assert_eq!((sources.current.clone(), sources.offers("tsc")), (None, None));
        assert_eq!(ClockSources::parse(Some(""), Some(" \n")), sources);
    }

    #[test]
    fn a_boot_identity_is_five_groups_of_hexadecimal_digits() {
        assert!(BootId::parse("0F9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10\n").is_some());
        assert_eq!(BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a1"), None);
        assert_eq!(BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a1g"), None);
        assert_eq!(BootId::parse(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(current in any::<String>(), available in any::<String>()) {
            let _ = ClockSources::parse(Some(&current), Some(&available));
            let _ = BootId::parse(&current);
        }
    }
}
