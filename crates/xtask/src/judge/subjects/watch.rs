//! `hpt watch` reports no source as faulty, and reports events of the machine.

use hpt_document::watch::{MachineEvent, MachineEventKind, WatchSummaryDocument};

use crate::judge::{
    case::{Case, Judged},
    plant::{Plant, Plants},
    text::has_line,
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.watch");
        if case.ended(&step) {
            if let Some(watch) = case.watched(&step) {
                judge_quiet(case, &watch);
            }
            case.shown("watched");
        }
        if let Some(plain) = ended_watch(case, &format!("{step}-plain")) {
            plain.holds("for an unprivileged user, no source is reported as faulty", |it| !it.faulty);
        }
        if let Some(set) = ended_watch(case, &format!("{step}-set")) {
            set.holds("a step of the wall clock is reported, and no source is reported as faulty", |it| {
                let set = |id: &str| it.sources.iter().find(|row| row.source == id).map(|row| row.steps.times_set);
                !it.faulty && set("realtime") == Some(1) && set("monotonic") == Some(0)
            });
        }
        if case.board.tsc.is_some() {
            judge_changes(case, &step);
        }
    }
}

fn ended_watch<'a>(case: &'a Case<'_>, step: &str) -> Option<Judged<'a, WatchSummaryDocument>> {
    if case.ended(step) { case.watched(step) } else { None }
}

fn judge_quiet(case: &Case<'_>, watch: &Judged<'_, WatchSummaryDocument>) {
    let watched = |it: &WatchSummaryDocument, id: &str| it.sources.iter().any(|row| row.source == id);
    let counter = case.board.processor_counter().unwrap_or("monotonic");
    watch.holds("no source is reported as faulty", |it| !it.faulty);
    watch.holds("the first two CPUs were compared", |it| {
        let first = it.cores.iter().filter(|pair| pair.first_cpu == 0 && pair.second_cpu == 1 && pair.fault.is_none());
        first.count() == 1
    });
    watch.holds(&format!("{counter} and the kernel clocks were watched"), |it| {
        [counter, "monotonic", "realtime"].into_iter().all(|id| watched(it, id))
            && it.rounds > 1
            && it.sources.iter().all(|row| row.offset.bursts * 2 > it.rounds)
    });
    watch.holds("each rate has a bound", |it| {
        let states = |bound: Option<f64>| bound.is_some_and(|bound| bound > 0.0);
        it.sources.iter().all(|row| states(row.lowest_bound_ppm) && states(row.highest_bound_ppm))
    });
    if case.board.system_timer.is_some() {
        watch.holds("the System Timer was watched", |it| watched(it, "bcm-systimer"));
    }
    watch.holds("no events are reported", |it| it.events.is_empty());
}

/// Judges changes of the clocksource. Does not judge faults: with the ACPI timer on a busy host, a
/// guest was observed to lose half a second of CLOCK_MONOTONIC_RAW, which is a fault.
fn judge_changes(case: &Case<'_>, step: &str) {
    let kinds = |it: &WatchSummaryDocument| it.events.iter().map(|event| event.kind).collect::<Vec<_>>();
    let limit = format!("{step}-limit");
    if case.ended(&limit) && !has_line(case.out(&limit), "status 1") {
        case.wrong(format!("{limit}: expected exit code 1 for a rate beyond the limit"));
    }
    if let Some(switched) = ended_watch(case, &format!("{step}-switched")) {
        switched.holds("both changes of the clocksource are reported", |it| {
            kinds(it) == [MachineEventKind::Clocksource; 2]
        });
        switched.holds("the note about the counter of the reference follows the change", |it| {
            it.notes.iter().filter_map(|note| counted_by(note)).eq(["tsc", "acpi-pm", "tsc"])
        });
    }
    // Only the kernel's log shows this change, there and back.
    if let Some(flicker) = ended_watch(case, &format!("{step}-flicker")) {
        flicker.holds("a short change of the clocksource is the only event", |it| {
            kinds(it) == [MachineEventKind::Clocksource] && it.events[0].message.contains("then to")
        });
    }
}

/// Returns the counter in a note like `from 0 s to 3.2 s: monotonic uses tsc itself: …`.
fn counted_by(note: &str) -> Option<&str> {
    let (_, rest) = note.strip_prefix("from ")?.split_once(" uses ")?;
    let (counter, _) = rest.split_once(" itself:")?;
    let is_name = !counter.is_empty() && counter.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
    is_name.then_some(counter)
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "watch",
        fit: |board| board.asked_for("watch"),
        plants: &[
            Plant { what: "a source misbehaved", change: |it| it.summary(".watch", |it| it.faulty = true) },
            Plant {
                what: "other CPUs were compared",
                change: |it| {
                    it.summary(".watch", |it| {
                        it.cores.iter_mut().filter(|pair| pair.second_cpu == 1).for_each(|pair| pair.second_cpu = 7);
                    });
                },
            },
            Plant {
                what: "rates have no bound",
                change: |it| {
                    it.summary(".watch", |it| it.sources.iter_mut().for_each(|row| row.lowest_bound_ppm = None));
                },
            },
            Plant {
                what: "a source was hardly watched",
                change: |it| it.summary(".watch", |it| it.sources[0].offset.bursts = 0),
            },
            Plant { what: "the wall clock was not stepped", change: |it| it.copy(".watch", ".watch-set") },
            Plant { what: "the summary is missing", change: |it| it.leave_out(".watch-plain.out", "watch-summary") },
            Plant {
                what: "an event is reported",
                change: |it| {
                    it.summary(".watch", |it| {
                        let said = "CPU 1 went offline".to_owned();
                        it.events.push(MachineEvent {
                            kind: MachineEventKind::CpuOffline,
                            at_s: 1.0,
                            suspended_ns: None,
                            message: said,
                        });
                    });
                },
            },
        ],
    },
    Plants {
        about: "watch of a TSC",
        fit: |board| board.asked_for("watch") && board.tsc.is_some(),
        plants: &[
            Plant {
                what: "a rate beyond the limit is accepted",
                change: |it| it.set_lines(".watch-limit.out", "status 1", "status 0"),
            },
            Plant {
                what: "no change of the clocksource is reported",
                change: |it| it.copy(".watch", ".watch-switched"),
            },
            Plant {
                what: "the reference used the same counter all the time",
                change: |it| it.replace(".watch-switched.out", "uses acpi-pm itself", "uses tsc itself"),
            },
            Plant { what: "the short change was permanent", change: |it| it.copy(".watch-switched", ".watch-flicker") },
        ],
    },
];
