//! `hpt doctor --try` finds and keeps the fix that removes a handicap, and undoes the fixes that
//! change nothing. `hpt restore` undoes the fix that was kept. sysctl accepts the file that was written.

use std::collections::BTreeMap;

use hpt_document::doctor_try::{DoctorTryDocument, TriedFix, TryVerdict};

use crate::judge::{
    case::Case,
    plant::{Plant, Plants},
};

/// The handicaps. Each has the name of the fix that removes it.
const HANDICAPS: [&str; 3] = ["interrupts", "governor", "throttling"];

/// The handicap whose fix is a setting of sysctl.
const IN_SYSCTL: &str = "throttling";

pub(super) fn judge(case: &Case<'_>) {
    for handicap in HANDICAPS {
        let step = format!("{}.try-{handicap}", case.board.first_build());
        let Some(tried) = case.ended_with::<DoctorTryDocument>(&step) else { continue };
        let is_its = |fix: &&TriedFix| fix.fix == handicap;
        tried.holds("the fix of the handicap helps, and is kept", |it| {
            let figures = it.result_ns.zip(it.baseline_ns);
            it.results.iter().filter(is_its).any(|fix| fix.verdict == TryVerdict::Helpful && fix.keep)
                && it.kept_until_reboot
                && figures.is_some_and(|(result, baseline)| result < baseline)
        });
        // One fix that changes nothing may appear to help, with a probability of a few percent.
        tried.holds("at least two fixes that change nothing are within the spread, and are undone", |it| {
            let is_useless = |fix: &&TriedFix| !is_its(fix) && fix.verdict == TryVerdict::WithinSpread && !fix.keep;
            it.results.iter().filter(is_useless).count() >= 2
        });
        let settings = |when| settings(case.err(&step), when);
        let (before, kept) = (settings("before"), settings("kept"));
        tried.holds("the kept fix has changed its setting, and every other setting is unchanged", |it| {
            let its = it.results.iter().find(is_its).map_or(&[][..], |fix| &fix.settings);
            let mut others = it.results.iter().filter(|fix| !fix.keep).map(|fix| fix.fix.as_str());
            let value = kept.get(handicap);
            its.iter().any(|setting| value == Some(&setting.value.as_str()))
                && value != before.get(handicap)
                && others.all(|name| kept.contains_key(name) && kept.get(name) == before.get(name))
        });
        tried.holds("hpt restore restores every setting", |_| !before.is_empty() && settings("restored") == before);
        if handicap == IN_SYSCTL {
            let read = settings("sysctl");
            tried.holds("sysctl makes the kept change, and no other, with the written file", |it| {
                it.files.iter().any(|path| path.ends_with("/90-hpt.conf"))
                    && read.get(handicap) == kept.get(handicap)
                    && before.iter().all(|(name, value)| *name == handicap || read.get(name) == Some(value))
            });
        }
        let helpful = |it: &DoctorTryDocument| it.results.iter().filter(|fix| fix.keep).count();
        case.shown(format!("{handicap}: {} of {} fixes kept", helpful(&tried), tried.results.len()));
    }
}

/// Returns the settings that the guest printed, by the name of their fix.
fn settings<'a>(said: &'a str, when: &str) -> BTreeMap<&'a str, &'a str> {
    said.lines().filter_map(|line| line.strip_prefix(when)?.strip_prefix(' ')?.split_once(' ')).collect()
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "try",
    fit: |board| board.asked_for("try"),
    plants: &[
        Plant {
            what: "no fix helps against the interrupts",
            change: |it| {
                it.document(".try-interrupts", |it: &mut DoctorTryDocument| {
                    it.results.iter_mut().for_each(|fix| fix.verdict = TryVerdict::WithinSpread);
                });
            },
        },
        Plant {
            what: "the governor is not worth keeping",
            change: |it| {
                it.document(".try-governor", |it: &mut DoctorTryDocument| {
                    it.results.iter_mut().for_each(|fix| fix.keep = false);
                });
            },
        },
        Plant {
            what: "a useless fix helps",
            change: |it| {
                it.document(".try-throttling", |it: &mut DoctorTryDocument| {
                    it.results.iter_mut().for_each(|fix| fix.verdict = TryVerdict::Helpful);
                });
            },
        },
        Plant {
            what: "no other fix was tried",
            change: |it| {
                it.document(".try-interrupts", |it: &mut DoctorTryDocument| it.results.retain(|fix| fix.keep));
            },
        },
        Plant {
            what: "the figure is not better with the fix",
            change: |it| {
                it.document(".try-governor", |it: &mut DoctorTryDocument| it.result_ns = it.baseline_ns);
            },
        },
        Plant {
            what: "throttling is on while the fix is kept",
            change: |it| it.set_lines(".try-throttling.err", "kept throttling ", "kept throttling 950000"),
        },
        Plant {
            what: "a useless fix was not undone",
            change: |it| it.set_lines(".try-interrupts.err", "kept same-pages ", "kept same-pages 0"),
        },
        Plant {
            what: "hpt restore did not restore the governor",
            change: |it| it.set_lines(".try-governor.err", "restored governor ", "restored governor performance"),
        },
        Plant {
            what: "sysctl changed nothing",
            change: |it| it.set_lines(".try-throttling.err", "sysctl throttling ", "sysctl throttling 50000"),
        },
        Plant {
            what: "sysctl changed something else",
            change: |it| it.set_lines(".try-throttling.err", "sysctl timer-migration ", "sysctl timer-migration 7"),
        },
        Plant {
            what: "the file for sysctl was not written",
            change: |it| {
                it.document(".try-throttling", |it: &mut DoctorTryDocument| {
                    it.files.retain(|path| !path.ends_with(".conf"));
                });
            },
        },
        Plant { what: "no settings were printed", change: |it| it.put(".try-throttling.err", "") },
        Plant { what: "a try did not complete", change: |it| it.never_ended(".try-interrupts") },
    ],
}];

#[cfg(test)]
mod tests {
    use super::settings;

    #[test]
    fn settings_have_names_and_values() {
        let said =
            "hpt: a note\nbefore throttling 950000\nbefore huge-pages [always] madvise never\nkept throttling -1\n";
        let before = settings(said, "before");
        assert_eq!((before.len(), before["huge-pages"]), (2, "[always] madvise never"));
        assert_eq!(settings(said, "kept").into_iter().collect::<Vec<_>>(), [("throttling", "-1")]);
        assert!(settings(said, "restored").is_empty());
    }
}
