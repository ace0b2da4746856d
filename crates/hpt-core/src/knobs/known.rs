//! The files of the settings that this crate changes. Only these settings can be restored from a journal. This module
//! does not open these files.

use std::{fs, path::Path};

/// The canonical paths of the settings. Each `#` stands for a number. Since Linux 4.2, `cpu0/cpufreq` is a link to
/// `cpufreq/policy0`.
const SETTINGS: [&str; 10] = [
    "/sys/devices/system/clocksource/clocksource#/current_clocksource",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/sys/kernel/debug/sched/fair_server/cpu#/runtime",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/cpufreq/policy#/boost",
    "/sys/devices/system/cpu/cpufreq/policy#/scaling_governor",
    "/sys/devices/system/cpu/cpu#/cpufreq/boost",
    "/sys/devices/system/cpu/cpu#/cpufreq/scaling_governor",
    "/proc/irq/#/smp_affinity_list",
];

/// Returns whether the path is the canonical path of a setting.
pub(super) fn is_setting(path: &Path) -> bool {
    // Users cannot create links in these file systems. A link in another file system that points to one of these files
    // is refused, because its target can change.
    fs::canonicalize(path).is_ok_and(|canonical| canonical == path) && is_named(path)
}

fn is_named(path: &Path) -> bool {
    path.to_str().is_some_and(|path| SETTINGS.into_iter().any(|pattern| matches(pattern, path)))
}

fn matches(pattern: &str, path: &str) -> bool {
    let mut rest = path;
    for (index, part) in pattern.split('#').enumerate() {
        if index > 0 {
            let behind = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            if behind.len() == rest.len() {
                return false;
            }
            rest = behind;
        }
        let Some(behind) = rest.strip_prefix(part) else { return false };
        rest = behind;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{SETTINGS, is_named, is_setting};

    #[test]
    fn only_the_paths_of_settings_match() {
        for pattern in SETTINGS {
            assert!(is_named(Path::new(&pattern.replace('#', "17"))), "{pattern}");
            assert!(!is_named(Path::new(&format!("{}/more", pattern.replace('#', "0")))), "{pattern}");
            assert!(!pattern.contains('#') || !is_named(Path::new(&pattern.replace('#', ""))), "{pattern}");
        }
        for other in ["/proc/sys/kernel/core_pattern", "/sys/kernel/uevent_helper", "/etc/passwd", "proc/sys", ""] {
            assert!(!is_named(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn an_indirect_path_to_a_setting_is_refused() {
        let setting = Path::new("/proc/sys/kernel/sched_rt_runtime_us");
        if !setting.exists() {
            return skipped!("this kernel does not throttle real-time threads");
        }
        assert!(is_setting(setting));
        assert!(!is_setting(Path::new("/proc/sys/../sys/kernel/sched_rt_runtime_us")));
        let folder = tempfile::tempdir().expect("a temporary directory");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(setting, &link).expect("ours");
        assert!(!is_setting(&link));
    }
}
