//! The files of the settings that this crate changes. Only these settings can be restored from a journal.

use std::{fs, path::Path};

use hpt_sys::{
    host::CpuList,
    settings::{ALL, Form},
};

use super::irqbalance;

/// Returns whether the path is the canonical path of a setting.
pub(super) fn is_setting(path: &Path) -> bool {
    // Users cannot create links in these file systems, nor in the directory of irqbalance. A link in another file
    // system that points to one of these files is refused, because its target can change.
    fs::canonicalize(path).is_ok_and(|canonical| canonical == path) && form(path).is_some()
}

/// Returns whether a value has the form of the values of the setting in the file `path`.
pub(super) fn is_value(path: &Path, value: &str) -> bool {
    match form(path) {
        None | Some(Form::WhileOpen) => false,
        Some(Form::Name) => {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.,".contains(&byte);
            !value.is_empty() && value.len() <= LONGEST_NAME && value.bytes().all(is_letter)
        }
        Some(Form::Number) => value.parse::<i64>().is_ok_and(|number| number.to_string() == value),
        Some(Form::Cpus) => CpuList::parse(value).is_some_and(|cpus| !cpus.is_empty() && cpus.to_string() == value),
        Some(Form::Mask) => CpuList::parse_mask(value).is_some_and(|cpus| !cpus.is_empty() && cpus.mask() == value),
        Some(Form::OneOf(words)) => words.contains(&value),
        Some(Form::Interrupts) => irqbalance::is_list(value),
    }
}

/// The maximum length of a name. The kernel's names have at most 32 bytes (include/linux/clocksource.h, cpufreq.h).
const LONGEST_NAME: usize = 64;

fn form(path: &Path) -> Option<Form> {
    let path = path.to_str()?;
    let mut changed = ALL.iter().filter(|setting| !setting.name.is_empty());
    let has = |pattern: &str| matches(pattern, path);
    changed.find(|setting| has(setting.path) || setting.also.iter().any(|also| has(also))).map(|setting| setting.form)
}

/// Returns the value that a line of the file `path` shows. See [`Form::value_of`].
pub(super) fn value_of(path: &Path, line: &str) -> String {
    form(path).and_then(|form| form.value_of(line)).unwrap_or_else(|| line.to_owned())
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

    use super::{form, is_setting, is_value};
    use hpt_sys::settings::ALL;

    #[test]
    fn only_the_paths_of_settings_match() {
        let is_named = |path: &Path| form(path).is_some();
        let changed = ALL.iter().filter(|setting| !setting.name.is_empty());
        for pattern in changed.flat_map(|setting| setting.also.iter().copied().chain([setting.path])) {
            assert!(is_named(Path::new(&pattern.replace('#', "17"))), "{pattern}");
            assert!(!is_named(Path::new(&format!("{}/more", pattern.replace('#', "0")))), "{pattern}");
            assert!(!pattern.contains('#') || !is_named(Path::new(&pattern.replace('#', ""))), "{pattern}");
        }
        for other in [
            "/proc/sys/kernel/core_pattern",
            "/run/irqbalance/irqbalance1.sock.x",
            "/sys/kernel/uevent_helper",
            "/etc/passwd",
            "proc/sys",
            "",
        ] {
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

    #[test]
    fn only_values_of_the_right_form_are_accepted() {
        let is = |path: &str, value: &str| is_value(Path::new(path), value);
        let governor = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        assert!(is(governor, "performance") && !is(governor, "a b") && !is(governor, ""));
        let runtime = "/proc/sys/kernel/sched_rt_runtime_us";
        assert!(
            is(runtime, "-1")
                && is(runtime, "950000")
                && !is(runtime, "1 2")
                && !is(runtime, "x")
                && !is(runtime, "+1")
        );
        let pages = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert!(is(pages, "madvise") && !is(pages, "[madvise]") && !is(pages, "sometimes"));
        let irq = "/proc/irq/24/smp_affinity_list";
        assert!(is(irq, "0-2,7") && !is(irq, "") && !is(irq, "x") && !is(irq, "3-1"));
        let workers = "/sys/devices/virtual/workqueue/cpumask";
        assert!(is(workers, "f") && is(workers, "1,00000002") && !is(workers, "0") && !is(workers, "g"));
        let bans = "/run/irqbalance/irqbalance1.sock";
        assert!(is(bans, "none") && is(bans, "5 24") && !is(bans, "5\nsettings sleep 1"));
        let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        assert!(is(clock, "arm,sp804") && is(clock, "kvm-clock") && is(clock, "acpi_pm"));
        assert!(!is("/etc/passwd", "1"));
    }
}
