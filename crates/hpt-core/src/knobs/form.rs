//! The notation of values: how a file shows the value of a setting. This module neither reads nor writes files.

use crate::host::CpuList;

/// The end of the path of a file that lists all words, the selected one in brackets. Linux,
/// Documentation/admin-guide/mm/transhuge.rst.
const BRACKETED: &str = "/transparent_hugepage/enabled";
/// The end of the path of a file that contains a mask of CPUs. Linux, Documentation/core-api/workqueue.rst.
const MASK: &str = "/workqueue/cpumask";

/// Returns the value that a line of the file `path` shows. It can be written to the file, and is the same for all
/// lines with the same meaning.
pub(super) fn value_of(path: &str, line: &str) -> String {
    let value = if path.ends_with(BRACKETED) {
        line.split_whitespace().find_map(|word| Some(word.strip_prefix('[')?.strip_suffix(']')?.to_owned()))
    } else if path.ends_with(MASK) {
        // The kernel pads the mask to the number of possible CPUs.
        CpuList::parse_mask(line).map(|cpus| cpus.mask())
    } else {
        None
    };
    value.unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::value_of;

    #[test]
    fn the_value_is_the_word_in_brackets_and_a_mask_has_no_padding() {
        let huge_pages = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert_eq!(value_of(huge_pages, "always [madvise] never"), "madvise");
        assert_eq!(value_of(huge_pages, "never"), "never");
        let workers = "/sys/devices/virtual/workqueue/cpumask";
        assert_eq!((value_of(workers, "00f").as_str(), value_of(workers, "f").as_str()), ("f", "f"));
        assert_eq!(value_of(workers, "00000001,00000002"), "1,00000002");
        assert_eq!(value_of(workers, "x"), "x");
        assert_eq!(value_of("/sys/kernel/mm/ksm/run", "[1]"), "[1]");
    }
}
