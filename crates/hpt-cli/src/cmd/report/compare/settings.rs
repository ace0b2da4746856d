//! The settings and the conditions that differ between sides, and the settings that separate the slow sides from the
//! others.

use hpt_document::{
    compare::{ComparedSettingRow, RankedSide},
    report::ReportConditions,
};
use hpt_sys::host::Cpu;
use serde_json::Value;

use super::{super::data_file::Report, sides::Side};
use crate::output::short_percent;

/// The minimum ratio between the slowest fast side and the fastest slow side.
const GAP: f64 = 2.0;

/// Returns the row of a setting: the values of each side, each value once.
fn row(setting: &str, sides: &[Side], value: &dyn Fn(&Report) -> Option<String>) -> ComparedSettingRow {
    let of_side = |side: &Side| {
        let mut found: Vec<String> = Vec::new();
        for value in side.runs.iter().filter_map(value) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        (!found.is_empty()).then(|| found.join(" / "))
    };
    ComparedSettingRow { setting: setting.to_owned(), values: sides.iter().map(of_side).collect() }
}

/// Returns the value of a key of the measuring thread, or of the document itself, in the first part that has it.
fn stated<'a>(run: &'a Report, key: &str) -> Option<&'a Value> {
    let documents = run.0.parts.iter().filter_map(|part| run.0.documents.get(&part.name));
    documents
        .filter_map(|document| document.get("thread").and_then(|thread| thread.get(key)).or(document.get(key)))
        .find(|value| !value.is_null())
}

/// Returns the settings that differ.
pub(super) fn settings(sides: &[Side]) -> Vec<ComparedSettingRow> {
    let row = |setting: &str, value: &dyn Fn(&Report) -> Option<String>| row(setting, sides, value);
    let or_none = |text: Option<&str>| Some(text.filter(|text| !text.is_empty()).unwrap_or("none").to_owned());
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let condition =
        |run: &Report, value: &dyn Fn(&ReportConditions) -> Option<String>| run.0.conditions.as_ref().and_then(value);
    let text = |run: &Report, key: &str| Some(stated(run, key)?.as_str()?.to_owned());
    let nanos = |run: &Report, key: &str| Some(format!("{} ns", stated(run, key)?.as_u64()?));
    let all = [
        row("CPU", &|run| run.0.machine.cpu.clone()),
        row("architecture", &|run| Some(run.0.machine.architecture.clone())),
        row("board", &|run| or_none(run.0.machine.board.as_deref())),
        row("kernel", &|run| Some(run.0.machine.kernel_release.clone())),
        row("clocksource", &|run| run.0.machine.clocksource.clone()),
        row("vDSO", &|run| Some(yes(run.0.machine.vdso))),
        row("hypervisor", &|run| or_none(run.0.machine.hypervisor.as_deref().map(Cpu::hypervisor_name))),
        row("emulated by", &|run| Some(run.0.emulated_by.clone().unwrap_or_else(|| "nothing".to_owned()))),
        row("CPUs", &|run| condition(run, &|it| it.cpus.map(|cpus| cpus.to_string()))),
        row("governor", &|run| condition(run, &|it| or_none(Some(&it.governors.join(", "))))),
        row("preemption", &|run| condition(run, &|it| Some(it.preemption.clone()))),
        row("isolated CPUs", &|run| condition(run, &|it| or_none(Some(it.isolated_cpus.as_deref()?)))),
        row("policy", &|run| text(run, "policy")),
        row("priority", &|run| Some(stated(run, "priority")?.to_string())),
        row("timer slack", &|run| nanos(run, "timer_slack_ns")),
        row("turbo", &|run| Some(yes(stated(run, "turbo")?.as_bool()?))),
        row("time source", &|run| text(run, "source")),
        row("period", &|run| nanos(run, "interval_ns")),
        row("missed deadlines", &|run| text(run, "missed_deadlines")),
    ];
    all.into_iter().filter(differs).collect()
}

fn differs(row: &ComparedSettingRow) -> bool {
    let known: Vec<&String> = row.values.iter().flatten().collect();
    known.windows(2).any(|two| two[0] != two[1])
}

/// Returns the conditions of the measurements that differ. They are no settings: they change from run to run.
pub(super) fn conditions(sides: &[Side]) -> Vec<ComparedSettingRow> {
    let highest = |setting: &str, value: &dyn Fn(&Report) -> Option<f64>, said: &dyn Fn(f64) -> String| {
        let of_side = |side: &Side| side.runs.iter().filter_map(value).reduce(f64::max).map(said);
        ComparedSettingRow { setting: setting.to_owned(), values: sides.iter().map(of_side).collect() }
    };
    let rows = |run: &Report| -> Vec<Value> {
        let documents = run.0.documents.values();
        documents.filter_map(|document| document.get("results")?.as_array().cloned()).flatten().collect()
    };
    let waited =
        |run: &Report| rows(run).iter().filter_map(|row| row.get("not_run")?.get("share")?.as_f64()).reduce(f64::max);
    let stolen = |run: &Report| {
        let of = |document: &Value| {
            let conditions = document.get("conditions")?;
            let elapsed_s = conditions.get("elapsed_s")?.as_f64().filter(|elapsed_s| *elapsed_s > 0.0)?;
            let cpus = conditions.get("cpus")?.as_array()?.iter();
            Some(cpus.filter_map(|cpu| cpu.get("stolen_s")?.as_f64()).reduce(f64::max)? / elapsed_s)
        };
        run.0.documents.values().filter_map(of).reduce(f64::max)
    };
    let load = |run: &Report| run.0.conditions.as_ref()?.load_before;
    let all = [
        highest("load before, highest", &load, &|load| load.to_string()),
        highest("time without the CPU, highest share", &waited, &short_percent),
        highest("time stolen by the hypervisor, highest share", &stolen, &short_percent),
    ];
    all.into_iter().filter(differs).collect()
}

/// Returns a sentence for each setting that all slow sides share and none of the others has.
pub(super) fn coincidences(names: &[&str], ranking: &[RankedSide], settings: &[ComparedSettingRow]) -> Vec<String> {
    let ranked: Vec<(&str, u64)> =
        ranking.iter().filter_map(|ranked| Some((ranked.side.as_str(), ranked.wake_max_ns?))).collect();
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
    let who = if slow == 1 { "The slowest side has".to_owned() } else { format!("The {slow} slowest sides have") };
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
    use hpt_document::compare::{ComparedSettingRow, RankedSide};

    use super::coincidences;

    fn ranked(side: &str, wake_max_ns: u64) -> RankedSide {
        RankedSide {
            place: 1,
            side: side.to_owned(),
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
            ["The 3 slowest sides have governor=ondemand; the others have performance."]
        );
        // Without a gap, no side is slow.
        let even = [ranked("b", 10), ranked("d", 12), ranked("a", 14), ranked("c", 16), ranked("e", 18)];
        assert!(coincidences(&names, &even, &settings).is_empty());
        assert!(coincidences(&names[..2], &ranking[..2], &settings).is_empty());
    }
}
