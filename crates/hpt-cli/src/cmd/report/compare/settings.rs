//! The settings that differ between reports, and those that separate the slow reports from the others.

use hpt_core::host::Cpu;
use hpt_document::{
    report::ReportConditions,
    report_compare::{ComparedReport, ComparedSettingRow, RankedReport},
    wake_latency::WakeLatencyDocument,
};

use super::super::data_file::Report;
use crate::output::chart::Unreadable;

/// The minimum ratio between the slowest fast report and the fastest slow report.
const GAP: f64 = 2.0;

/// Returns the settings of all reports that differ.
pub(super) fn settings(reports: &[ComparedReport], data: &[&Report]) -> Result<Vec<ComparedSettingRow>, Unreadable> {
    let timers: Result<Vec<Option<WakeLatencyDocument>>, _> =
        data.iter().map(|report| report.document("timer")).collect();
    let timers = timers?;
    let row = |setting: &str, values: Vec<Option<String>>| ComparedSettingRow { setting: setting.to_owned(), values };
    let of_machine = |setting: &str, value: &dyn Fn(&ComparedReport) -> Option<String>| {
        row(setting, reports.iter().map(value).collect())
    };
    let condition = |setting: &str, value: &dyn Fn(&ReportConditions) -> Option<String>| {
        row(setting, reports.iter().map(|report| report.conditions.as_ref().and_then(value)).collect())
    };
    let of_thread = |setting: &str, value: &dyn Fn(&WakeLatencyDocument) -> Option<String>| {
        row(setting, timers.iter().map(|timer| timer.as_ref().and_then(value)).collect())
    };
    let governors = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let all = [
        of_machine("CPU", &|report| report.machine.cpu.clone()),
        of_machine("architecture", &|report| Some(report.machine.architecture.clone())),
        of_machine("board", &|report| Some(report.machine.board.clone().unwrap_or_else(|| "none".to_owned()))),
        of_machine("kernel", &|report| Some(report.machine.kernel_release.clone())),
        of_machine("clocksource", &|report| report.machine.clocksource.clone()),
        of_machine("vDSO", &|report| Some(if report.machine.vdso { "yes" } else { "no" }.to_owned())),
        of_machine("hypervisor", &|report| {
            Some(report.machine.hypervisor.as_deref().map_or("none", Cpu::hypervisor_name).to_owned())
        }),
        of_machine("emulated by", &|report| Some(report.emulated_by.clone().unwrap_or_else(|| "nothing".to_owned()))),
        condition("CPUs", &|it| it.cpus.map(|cpus| cpus.to_string())),
        condition("governor", &|it| Some(governors(&it.governors))),
        condition("preemption", &|it| Some(it.preemption.clone())),
        condition("isolated CPUs", &|it| {
            it.isolated_cpus.clone().map(|list| if list.is_empty() { "none".to_owned() } else { list })
        }),
        of_thread("policy", &|timer| timer.measuring.thread.policy.clone()),
        of_thread("timer slack", &|timer| timer.measuring.thread.timer_slack_ns.map(|ns| format!("{ns} ns"))),
        of_thread("turbo", &|timer| timer.measuring.thread.turbo.map(|on| if on { "on" } else { "off" }.to_owned())),
    ];
    Ok(all.into_iter().filter(differs).collect())
}

fn differs(row: &ComparedSettingRow) -> bool {
    let known: Vec<&String> = row.values.iter().flatten().collect();
    known.windows(2).any(|two| two[0] != two[1])
}

/// Returns the conditions of the measurements that differ. They are no settings: they change from run to run.
pub(super) fn conditions(reports: &[ComparedReport]) -> Vec<ComparedSettingRow> {
    let load = |report: &ComparedReport| Some(report.conditions.as_ref()?.load_before?.to_string());
    let row = ComparedSettingRow { setting: "load before".to_owned(), values: reports.iter().map(load).collect() };
    Some(row).filter(differs).into_iter().collect()
}

/// Returns a sentence for each setting that all slow reports share and none of the others has.
pub(super) fn coincidences(names: &[&str], ranking: &[RankedReport], settings: &[ComparedSettingRow]) -> Vec<String> {
    let ranked: Vec<(&str, u64)> =
        ranking.iter().filter_map(|ranked| Some((ranked.report.as_str(), ranked.wake_max_ns?))).collect();
    if ranked.len() < 3 {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "for comparing")]
    let gap = |at: usize| ranked[at].1.max(1) as f64 / ranked[at - 1].1.max(1) as f64;
    let widest = (1..ranked.len()).max_by(|one, other| gap(*one).total_cmp(&gap(*other)));
    let Some(slowest_from) = widest.filter(|at| gap(*at) >= GAP) else { return Vec::new() };
    let is_slow = |name: &str| ranked[slowest_from..].iter().any(|slow| slow.0 == name);
    let is_fast = |name: &str| ranked[..slowest_from].iter().any(|fast| fast.0 == name);
    let slow = ranked.len() - slowest_from;
    let who = if slow == 1 { "The slowest report has".to_owned() } else { format!("The {slow} slowest reports have") };
    let found = settings.iter().filter_map(|row| {
        let of = |wanted: &dyn Fn(&str) -> bool| -> Option<Vec<&String>> {
            let values = names.iter().zip(&row.values).filter(|(name, _)| wanted(name));
            values.map(|(_, value)| value.as_ref()).collect()
        };
        let (slow, fast) = (of(&is_slow)?, of(&is_fast)?);
        let own = slow.first()?;
        let separates = slow.iter().all(|value| value == own) && fast.iter().all(|value| value != own);
        separates.then(|| {
            let mut others: Vec<&str> = fast.iter().map(|value| value.as_str()).collect();
            others.dedup();
            format!("{who} {}={own}; the others have {}.", row.setting, others.join(", "))
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use hpt_document::report_compare::{ComparedSettingRow, RankedReport};

    use super::coincidences;

    fn ranked(report: &str, wake_max_ns: u64) -> RankedReport {
        RankedReport {
            place: 1,
            report: report.to_owned(),
            wake_max_ns: Some(wake_max_ns),
            wake_p99_ns: None,
            wake_p50_ns: None,
            read_cost_ns: None,
            problems: None,
            outlier: false,
        }
    }

    fn setting(name: &str, values: [&str; 5]) -> ComparedSettingRow {
        let known = |value: &str| (!value.is_empty()).then(|| value.to_owned());
        ComparedSettingRow { setting: name.to_owned(), values: values.map(known).into() }
    }

    #[test]
    fn a_setting_that_only_the_slow_reports_have_is_named() {
        let names = ["a", "b", "c", "d", "e"];
        let ranking = [ranked("b", 10), ranked("d", 12), ranked("a", 90), ranked("c", 95), ranked("e", 100)];
        let settings = [
            setting("governor", ["ondemand", "performance", "ondemand", "performance", "ondemand"]),
            setting("kernel", ["6.1", "6.1", "6.1", "6.12", "6.1"]),
            setting("board", ["", "x", "y", "x", "y"]),
        ];
        assert_eq!(
            coincidences(&names, &ranking, &settings),
            ["The 3 slowest reports have governor=ondemand; the others have performance."]
        );
        // Without a gap, no report is slow.
        let even = [ranked("b", 10), ranked("d", 12), ranked("a", 14), ranked("c", 16), ranked("e", 18)];
        assert!(coincidences(&names, &even, &settings).is_empty());
        assert!(coincidences(&names[..2], &ranking[..2], &settings).is_empty());
    }
}
