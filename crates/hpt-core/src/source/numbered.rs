//! Devices of a kind that are told apart by a number: rtc0, ptp0, ptp1.
//! Opens none.

use super::SourceId;
use crate::host::Host;

/// The first of a kind, which is listed on every machine.
pub(super) fn first(kind: &str) -> SourceId {
    SourceId::from(format!("{kind}0"))
}

/// The names of those that the kernel has, by their numbers, and the first in any case.
pub(super) fn all(host: &Host, kind: &str) -> Vec<SourceId> {
    let mut numbers: Vec<u32> =
        host.devices_of_class(kind).iter().filter_map(|name| number(kind, name)).chain([0]).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| SourceId::from(format!("{kind}{number}"))).collect()
}

/// The number in a device's name, if it is one of this kind as the kernel writes it.
fn number(kind: &str, name: &str) -> Option<u32> {
    let digits = name.strip_prefix(kind)?;
    digits.parse().ok().filter(|number: &u32| number.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::all;
    use crate::host::{Facts, Host};

    #[test]
    fn devices_stand_by_their_numbers_and_the_first_is_never_missing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = Host::captured(folder.path(), Facts::live());
        let names = || all(&host, "ptp").iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(), ["ptp0"]);
        for device in ["ptp10", "ptp2", "ptp", "ptp07", "ptpx", "pps0"] {
            fs::create_dir_all(folder.path().join("sys/class/ptp").join(device)).expect("it can be made");
        }
        assert_eq!(names(), ["ptp0", "ptp2", "ptp10"]);
    }
}
