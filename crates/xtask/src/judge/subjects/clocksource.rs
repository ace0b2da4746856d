//! The kernel's clock source is listed, set, compared and put back.

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

/// Another clock source than the board's own, which it offers. `scripts/lib/shows.bash` sets it.
const OTHER: &str = "acpi_pm";

pub(super) fn judge(case: &Case<'_>) {
    let own = &case.board.clock_source;
    for build in &case.board.builds {
        let step = format!("{build}.clocksource");
        judge_list(case, &step);
        // An ARM board has one clock source, and no other to turn to.
        if case.board.tsc.is_none() {
            continue;
        }
        if let Some(compare) = case.ended_with::<ClocksourceCostDocument>(&format!("{step}-compare")) {
            judge_compare(case.board, &compare);
            case.shown(format!("clock sources compared: {}", compare.wanted.join(", ")));
        }
        is_in_use(case, &format!("{step}-compared"), own);
        judge_published(case, &format!("{step}-published"));
        is_in_use(case, &format!("{step}-published-left"), own);
        if let Some(set) = case.ended_with::<ClocksourceCostDocument>(&format!("{step}-set")) {
            set.holds(&format!("set from {own} to {OTHER}, measured under both"), |it| {
                it.before == *own
                    && it.after.as_deref() == Some(OTHER)
                    && it.results.iter().map(|row| row.clock_source.as_str()).eq([own.as_str(), OTHER])
            });
        }
        is_in_use(case, &format!("{step}-is-set"), OTHER);
        if let Some(restore) = case.ended_with::<RestoreDocument>(&format!("{step}-restore")) {
            restore.holds("it was put back", |it| {
                it.settings.iter().map(|setting| setting.outcome).eq([RestoreOutcome::PutBack])
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

/// The kernel's clock source at that step.
fn is_in_use(case: &Case<'_>, step: &str, name: &str) {
    if case.ended(step) && case.out(step).trim_end() != name {
        case.wrong(format!("{step}: the clock source is {}, not {name}", in_one_line(case.out(step))));
    }
}

fn judge_list(case: &Case<'_>, step: &str) {
    let own = &case.board.clock_source;
    if let Some(list) = case.ended_with::<ClocksourceDocument>(step) {
        list.holds(&format!("in use is {own}, and the log was read"), |it| {
            it.sources.iter().filter(|row| row.current).map(|row| &row.name).eq([own])
                && it.log.readable
                && it.log.from_the_beginning
        });
        list.holds("every source has its cost and its risk", |it| {
            it.sources.iter().all(|row| row.cost.is_some() && row.risk.is_some())
        });
        if case.board.tsc.is_some() {
            list.holds("the boot parameter of the board is told", |it| {
                it.boot_parameters.iter().any(|parameter| parameter.set && parameter.parameter == "tsc=reliable")
            });
        }
    }
    if let Some(plain) = case.ended_with::<ClocksourceDocument>(&format!("{step}-plain")) {
        plain.holds("a plain user is told that the log was not read, and what helps", |it| {
            !it.log.readable && it.log.remedy.is_some()
        });
    }
}

fn judge_compare(board: &Board, compare: &Judged<'_, ClocksourceCostDocument>) {
    compare.holds("seven clocks under each source, read to the end", |it| {
        it.after.as_ref() == Some(&it.before)
            && it.before == board.clock_source
            && it.not_taken.is_empty()
            && it.wanted.len() >= 2
            && it.results.len() == 7 * it.wanted.len()
            && it.results.iter().all(|row| row.repeated.complete)
    });
    // The cost of a read shows whether it went through the vDSO, and a busy host distorts that.
    compare.holds("under another source than the TSC a read is a system call", |it| {
        let mut others = it.results.iter().filter(|row| row.clock == "monotonic" && row.clock_source != "tsc");
        others.all(|row| row.read_path == "syscall")
    });
    compare.holds("what clocks claim, and what they step by", |it| it.results.iter().all(steps_as_it_claims));
}

/// As the published examples show: every clock claims a nanosecond, and coarse clocks the tick that
/// they step by. On a busy host the ticks of an emulated machine come late, and two at once.
fn steps_as_it_claims(row: &ClockCost) -> bool {
    if !row.clock.ends_with("coarse") {
        return row.resolution_ns == Some(1) && row.granularity_ns.is_none_or(|step| step < 1e6);
    }
    row.resolution_ns.zip(row.granularity_ns).is_some_and(|(tick, step)| {
        let ticks = step / tick as f64;
        tick >= 1_000_000 && ticks.round() >= 1.0 && (ticks - ticks.round()).abs() < 0.1
    })
}

fn judge_published(case: &Case<'_>, step: &str) {
    let Some(published) = case.ended_with::<ExperimentDocument>(step) else { return };
    let what = format!("what was published under the TSC and {OTHER} was measured under both, to the end");
    published.holds(&what, |it| {
        let both = ["monotonic, tsc".to_owned(), format!("monotonic-coarse, {OTHER}")];
        let parts = it.experiments.iter().flat_map(|experiment| &experiment.parts).map(|part| part.state);
        parts.eq([ExperimentPartState::Measured])
            && it.results.iter().filter(|row| both.contains(&row.what)).map(|row| row.samples).eq([100_000; 2])
            && it.results.iter().all(|row| match row.state {
                FigureState::Measured => true,
                FigureState::Missing => row.how.contains("does not offer"),
                FigureState::Elsewhere | FigureState::NotMade => false,
            })
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "clocksource",
    fit: |board| board.asked_for("clocksource") && board.tsc.is_some(),
    plants: &[
        Plant { what: "another clock source is expected", change: |it| it.board.clock_source = "sundial".to_owned() },
        Plant {
            what: "the log was not read",
            change: |it| it.document(".clocksource", |it: &mut ClocksourceDocument| it.log.readable = false),
        },
        Plant {
            what: "a source has no risk",
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
            what: "a plain user's list is that of root",
            change: |it| it.copy(".clocksource", ".clocksource-plain"),
        },
        Plant {
            what: "reads were not made to the end",
            change: |it| {
                it.document(".clocksource-compare", |it: &mut ClocksourceCostDocument| {
                    it.results.iter_mut().for_each(|row| row.repeated.complete = false);
                });
            },
        },
        Plant {
            what: "every read goes through the vDSO",
            change: |it| it.replace(".clocksource-compare.out", "\"syscall\"", "\"vdso\""),
        },
        Plant {
            what: "every clock claims a tick",
            change: |it| {
                it.document(".clocksource-compare", |it: &mut ClocksourceCostDocument| {
                    it.results.iter_mut().for_each(|row| row.resolution_ns = Some(4_000_000));
                });
            },
        },
        Plant {
            what: "the other clock source is in use after a comparison",
            change: |it| it.put(".clocksource-compared.out", "acpi_pm\n"),
        },
        Plant {
            what: "a published figure was not made",
            change: |it| {
                it.document(".clocksource-published", |it: &mut ExperimentDocument| {
                    it.results[0].state = FigureState::NotMade;
                });
            },
        },
        Plant {
            what: "it was not set",
            change: |it| {
                let own = it.board.clock_source.clone();
                it.put(".clocksource-is-set.out", &format!("{own}\n"));
            },
        },
        Plant {
            what: "it was measured under one source only",
            change: |it| {
                it.document(".clocksource-set", |it: &mut ClocksourceCostDocument| it.results.truncate(1));
            },
        },
        Plant {
            what: "another process had put it back",
            change: |it| it.replace(".clocksource-restore.out", "put-back", "was-back"),
        },
        Plant {
            what: "nothing was refused",
            change: |it| {
                it.lines(".clocksource-refused.out", |_, line| Some(if line == "2" { "0" } else { line }.to_owned()));
            },
        },
        Plant {
            what: "the other clock source is in use after SIGHUP",
            change: |it| it.set_lines(".clocksource-HUP.out", "after ", "after acpi_pm"),
        },
        Plant {
            what: "SIGTERM did not end it",
            change: |it| it.set_lines(".clocksource-TERM.out", "status ", "status 0"),
        },
        Plant {
            what: "it was not restored after SIGKILL",
            change: |it| it.set_lines(".clocksource-KILL.out", "restored ", "restored 0 acpi_pm"),
        },
        Plant { what: "the board did not get to SIGINT", change: |it| it.never_ended(".clocksource-INT") },
    ],
}];
