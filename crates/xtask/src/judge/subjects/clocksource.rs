//! The kernel's clocksource is listed, set, compared and restored.

use hpt_document::{
    clocksource::ClocksourceDocument,
    clocksource_cost::{ClockCost, ClocksourceCostDocument},
    experiment::{ExperimentDocument, ExperimentPartState, FigureState},
    restore::{RestoreDocument, RestoreOutcome},
};

use crate::judge::{
    board::Board,
    case::{Case, Judged, code_of},
    plant::{Plant, Plants},
    text::in_one_line,
};

/// A clocksource that the board offers, other than its default. `scripts/lib/shows.bash` sets it.
const OTHER: &str = "acpi_pm";

pub(super) fn judge(case: &Case<'_>) {
    let own = &case.board.clock_source;
    for build in &case.board.builds {
        let step = format!("{build}.clocksource");
        judge_list(case, &step);
        // ARM boards have only one clocksource.
        if case.board.tsc.is_none() {
            continue;
        }
        if let Some(compare) = case.ended_with::<ClocksourceCostDocument>(&format!("{step}-compare")) {
            judge_compare(case.board, &compare);
            case.shown(format!("clocksources compared: {}", compare.requested.join(", ")));
        }
        is_in_use(case, &format!("{step}-compared"), own);
        judge_published(case, &format!("{step}-published"));
        is_in_use(case, &format!("{step}-published-left"), own);
        if let Some(set) = case.ended_with::<ClocksourceCostDocument>(&format!("{step}-set")) {
            set.holds(&format!("set from {own} to {OTHER}, measured under both"), |it| {
                it.before == *own
                    && it.after.as_deref() == Some(OTHER)
                    && it.results.iter().map(|row| row.clocksource.as_str()).eq([own.as_str(), OTHER])
            });
        }
        is_in_use(case, &format!("{step}-is-set"), OTHER);
        if let Some(restore) = case.ended_with::<RestoreDocument>(&format!("{step}-restore")) {
            restore.holds("the clocksource was restored", |it| {
                it.settings.iter().map(|setting| setting.outcome).eq([RestoreOutcome::Restored])
            });
        }
        is_in_use(case, &format!("{step}-restored"), own);
        case.said_all(&format!("{step}-refused"), &format!("2;3;{own}"));
        for signal in ["INT", "TERM", "HUP"] {
            case.said_all(
                &format!("{step}-{signal}"),
                &format!("during {OTHER};status {};after {own};1", code_of(signal)),
            );
        }
        let killed = format!("during {OTHER};status 137;after {OTHER};1;1;restored 0 {own};1");
        case.said_all(&format!("{step}-KILL"), &killed);
    }
}

/// Judges the kernel's clocksource at that step.
fn is_in_use(case: &Case<'_>, step: &str, name: &str) {
    if case.ended(step) && case.out(step).trim_end() != name {
        case.wrong(format!("{step}: the clocksource is {}, expected {name}", in_one_line(case.out(step))));
    }
}

fn judge_list(case: &Case<'_>, step: &str) {
    let own = &case.board.clock_source;
    if let Some(list) = case.ended_with::<ClocksourceDocument>(step) {
        list.holds(&format!("the clocksource in use is {own}, and the kernel's log was read"), |it| {
            it.sources.iter().filter(|row| row.current).map(|row| &row.name).eq([own])
                && it.log.readable
                && it.log.complete
        });
        list.holds("every clocksource has a read overhead and a risk", |it| {
            it.sources.iter().all(|row| row.read_cost.is_some() && row.risk.is_some())
        });
        if case.board.tsc.is_some() {
            list.holds("the board's boot parameter is reported", |it| {
                it.boot_parameters.iter().any(|parameter| parameter.set && parameter.parameter == "tsc=reliable")
            });
        }
    }
    if let Some(plain) = case.ended_with::<ClocksourceDocument>(&format!("{step}-plain")) {
        plain.holds("for an unprivileged user, the kernel's log was not read, and a fix is reported", |it| {
            !it.log.readable && it.log.fix.is_some()
        });
    }
}

fn judge_compare(board: &Board, compare: &Judged<'_, ClocksourceCostDocument>) {
    compare.holds("seven clocks were measured completely under each clocksource", |it| {
        it.after.as_ref() == Some(&it.before)
            && it.before == board.clock_source
            && it.refused.is_empty()
            && it.requested.len() >= 2
            && it.results.len() == 7 * it.requested.len()
            && it.results.iter().all(|row| row.repeated.complete)
    });
    // The read overhead shows whether a read used the vDSO, and a busy host distorts it.
    compare.holds("under a clocksource other than the TSC, a read is a system call", |it| {
        let mut others = it.results.iter().filter(|row| row.clock == "monotonic" && row.clocksource != "tsc");
        others.all(|row| row.read_path == "syscall")
    });
    compare.holds("each clock's granularity matches its resolution", |it| it.results.iter().all(steps_as_it_claims));
}

/// Returns whether a clock matches the published examples: the resolution is a nanosecond, and for
/// coarse clocks the tick, which is also their granularity. On a busy host, ticks of an emulated
/// machine are late, and two may come at once.
fn steps_as_it_claims(row: &ClockCost) -> bool {
    if !row.clock.ends_with("coarse") {
        return row.resolution_ns == Some(1) && row.granularity_ns.is_none_or(|step| step < 1e6);
    }
    // A short run sees too few steps of a coarse clock to state its granularity.
    row.resolution_ns.is_some_and(|tick| {
        let ticks = row.granularity_ns.map(|step| step / tick as f64);
        tick >= 1_000_000 && ticks.is_none_or(|ticks| ticks.round() >= 1.0 && (ticks - ticks.round()).abs() < 0.1)
    })
}

fn judge_published(case: &Case<'_>, step: &str) {
    let Some(published) = case.ended_with::<ExperimentDocument>(step) else { return };
    let what = format!("the figures published for the TSC and {OTHER} were measured completely under both");
    published.holds(&what, |it| {
        let both = ["monotonic, tsc".to_owned(), format!("monotonic-coarse, {OTHER}")];
        let parts = it.experiments.iter().flat_map(|experiment| &experiment.parts).map(|part| part.state);
        parts.eq([ExperimentPartState::Measured])
            && it.results.iter().filter(|row| both.contains(&row.quantity)).map(|row| row.samples).eq([100_000; 2])
            && it.results.iter().all(|row| match row.state {
                FigureState::Measured => true,
                FigureState::Unavailable => row.method.contains("does not offer"),
                FigureState::NotApplicable | FigureState::NotMeasured => false,
            })
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "clocksource",
    fit: |board| board.asked_for("clocksource") && board.tsc.is_some(),
    plants: &[
        Plant { what: "another clocksource is expected", change: |it| it.board.clock_source = "sundial".to_owned() },
        Plant {
            what: "the kernel's log was not read",
            change: |it| it.document(".clocksource", |it: &mut ClocksourceDocument| it.log.readable = false),
        },
        Plant {
            what: "a clocksource has no risk",
            change: |it| it.document(".clocksource", |it: &mut ClocksourceDocument| it.sources[0].risk = None),
        },
        Plant {
            what: "the boot parameter is not set",
            change: |it| {
                it.document(".clocksource", |it: &mut ClocksourceDocument| {
                    it.boot_parameters.iter_mut().for_each(|parameter| parameter.set = false);
                });
            },
        },
        Plant {
            what: "an unprivileged user gets the list of root",
            change: |it| it.copy(".clocksource", ".clocksource-plain"),
        },
        Plant {
            what: "the reads are not complete",
            change: |it| {
                it.document(".clocksource-compare", |it: &mut ClocksourceCostDocument| {
                    it.results.iter_mut().for_each(|row| row.repeated.complete = false);
                });
            },
        },
        Plant {
            what: "every read uses the vDSO",
            change: |it| it.replace(".clocksource-compare.out", "\"syscall\"", "\"vdso\""),
        },
        Plant {
            what: "the resolution of every clock is a tick",
            change: |it| {
                it.document(".clocksource-compare", |it: &mut ClocksourceCostDocument| {
                    it.results.iter_mut().for_each(|row| row.resolution_ns = Some(4_000_000));
                });
            },
        },
        Plant {
            what: "the other clocksource is in use after a comparison",
            change: |it| it.put(".clocksource-compared.out", "acpi_pm\n"),
        },
        Plant {
            what: "a published figure was not measured",
            change: |it| {
                it.document(".clocksource-published", |it: &mut ExperimentDocument| {
                    it.results[0].state = FigureState::NotMeasured;
                });
            },
        },
        Plant {
            what: "the clocksource was not set",
            change: |it| {
                let own = it.board.clock_source.clone();
                it.put(".clocksource-is-set.out", &format!("{own}\n"));
            },
        },
        Plant {
            what: "only one clocksource was measured",
            change: |it| {
                it.document(".clocksource-set", |it: &mut ClocksourceCostDocument| it.results.truncate(1));
            },
        },
        Plant {
            what: "another process had restored it",
            change: |it| it.replace(".clocksource-restore.out", "restored", "already-restored"),
        },
        Plant {
            what: "a request without consent was not rejected",
            change: |it| {
                it.lines(".clocksource-refused.out", |_, line| Some(if line == "2" { "0" } else { line }.to_owned()));
            },
        },
        Plant {
            what: "the other clocksource is in use after SIGHUP",
            change: |it| it.set_lines(".clocksource-HUP.out", "after ", "after acpi_pm"),
        },
        Plant {
            what: "SIGTERM did not end the comparison",
            change: |it| it.set_lines(".clocksource-TERM.out", "status ", "status 0"),
        },
        Plant {
            what: "the clocksource was not restored after SIGKILL",
            change: |it| it.set_lines(".clocksource-KILL.out", "restored ", "restored 0 acpi_pm"),
        },
        Plant { what: "the test of SIGINT did not complete", change: |it| it.never_ended(".clocksource-INT") },
    ],
}];
