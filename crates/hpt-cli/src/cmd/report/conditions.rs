//! The settings of the system that affect latency, and its load.

use hpt_core::Host;
use hpt_document::report::ReportConditions;
use hpt_sys::host::CpuList;

/// Reads the settings, and the load before the measurement.
pub(super) fn before(host: &Host) -> ReportConditions {
    let text = |path: &str| {
        let content = host.read(path).ok()?;
        Some(String::from_utf8_lossy(&content).trim().to_owned())
    };
    let cpus = host.online_cpus();
    let mut governors: Vec<String> = Vec::new();
    for cpu in cpus.iter().flat_map(CpuList::iter) {
        let governor = text(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"));
        governors.extend(governor.filter(|name| !governors.contains(name)));
    }
    let mode = text("/sys/kernel/debug/sched/preempt");
    ReportConditions {
        cpus: cpus.map(|cpus| cpus.len()),
        governors,
        preemption: preemption(&host.facts().kernel_version, mode.as_deref()),
        isolated_cpus: text("/sys/devices/system/cpu/isolated"),
        load_before: load(host),
        load_after: None,
    }
}

/// Returns the load average of the last minute.
pub(super) fn load(host: &Host) -> Option<f64> {
    let content = host.read("/proc/loadavg").ok()?;
    first_load(&String::from_utf8_lossy(&content))
}

fn first_load(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 0.0)
}

/// Returns the preemption model. `mode` is the kernel's list of models, in which the active one has parentheses.
fn preemption(kernel_version: &str, mode: Option<&str>) -> String {
    let model = ["PREEMPT_RT", "PREEMPT RT", "PREEMPT_DYNAMIC", "PREEMPT_LAZY", "PREEMPT"];
    let model = model.into_iter().find(|model| kernel_version.contains(model));
    let active = mode.and_then(|mode| mode.split_once('(')?.1.split_once(')')).map(|(active, _)| active);
    match (model, active) {
        (Some("PREEMPT RT"), _) => "PREEMPT_RT".to_owned(),
        (Some("PREEMPT_DYNAMIC"), Some(active)) => format!("PREEMPT_DYNAMIC ({active})"),
        (Some(model), _) => model.to_owned(),
        (None, _) => "none or voluntary".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{before, first_load, preemption};
    use crate::golden;

    #[test]
    fn the_preemption_model_is_named_as_the_kernel_names_it() {
        for (version, mode, model) in [
            ("#1 SMP PREEMPT_RT Debian 6.1", None, "PREEMPT_RT"),
            ("#1 SMP PREEMPT RT", None, "PREEMPT_RT"),
            ("#1 SMP PREEMPT_DYNAMIC", Some("none voluntary (full)"), "PREEMPT_DYNAMIC (full)"),
            ("#1 SMP PREEMPT_DYNAMIC", None, "PREEMPT_DYNAMIC"),
            ("#1 SMP PREEMPT", Some("(broken"), "PREEMPT"),
            ("#1 SMP", None, "none or voluntary"),
        ] {
            assert_eq!(preemption(version, mode), model, "{version}");
        }
    }

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        assert_eq!(first_load("5.61 2.99 1.98 7/120 4711\n"), Some(5.61));
        assert_eq!((first_load(""), first_load("NaN 1 1"), first_load("-1 1")), (None, None, None));
    }

    #[test]
    fn a_captured_machine_has_conditions_too() {
        let conditions = before(&golden::captured("derived-raspberry-pi-4-tuned"));
        assert!(conditions.cpus.is_some_and(|cpus| cpus > 1), "{conditions:?}");
        assert_eq!(conditions.load_after, None);
    }
}
