//! CPUs go offline and come back under measurements. The last CPU is the one that hpt is pinned to,
//! or one of them.

use hpt_document::{
    away::Away,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
    watch::{MachineEventKind, WatchSummaryDocument},
};

use crate::judge::{
    case::{Case, Judged},
    plant::{Plant, Plants},
    text::has_line,
};

/// That and when a thread was not on its CPU.
const ELSEWHERE: &str = "that and when a thread was not on its CPU";

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.hotplug");
        let watch = format!("{step}-watch");
        if case.ended(&watch)
            && let Some(watch) = case.watched(&watch)
        {
            judge_watch(&watch);
        }
        if let Some(timer) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-timer")) {
            timer.holds(ELSEWHERE, |it| was_away(&it.end.away, &it.notes));
            timer.holds("all four CPUs, and fewer deadlines of the one that was offline", |it| {
                let deadlines: Vec<u64> =
                    it.results.iter().map(|row| row.figures.samples + row.figures.missed).collect();
                it.results.iter().map(|row| row.cpu).eq([0, 1, 2, 3].map(Some))
                    && it.results[3].figures.samples > 0
                    && deadlines[3] < deadlines[2]
            });
        }
        if let Some(poll) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-poll")) {
            poll.holds(ELSEWHERE, |it| was_away(&it.end.away, &it.notes));
        }
        if let Some(stall) = case.ended_with::<StallDocument>(&format!("{step}-stall")) {
            stall.holds(ELSEWHERE, |it| was_away(&it.end.away, &it.notes));
            stall.holds("the time elsewhere is none of the CPU", |it| {
                it.results.iter().filter(|row| row.elsewhere_ns > 0).map(|row| row.cpu).eq([Some(3)])
                    && it.results.len() > 1
                    && it.results[1].elapsed_ns < it.results[0].elapsed_ns
            });
        }
        for what in ["watch", "timer", "poll", "stall"] {
            let step = format!("{step}-{what}");
            if !has_line(case.err(&step), "pinned again") {
                case.wrong(format!("{step}: not pinned again"));
            }
        }
        case.shown("CPUs taken off and on");
    }
}

/// Whether CPU 3 was offline once, with a beginning and an end, and a note says so.
fn was_away(away: &[Away], notes: &[String]) -> bool {
    matches!(away, [away] if away.cpu == 3
        && away.offline
        && away.to_s.is_some_and(|to_s| away.from_s < to_s)
        && away.samples > 0
        && !away.ran_on.is_empty()
        && !away.ran_on.contains(&3))
        && notes.iter().any(|note| note.starts_with("CPU 3 was offline from "))
}

fn judge_watch(watch: &Judged<'_, WatchSummaryDocument>) {
    let compared_with = |it: &WatchSummaryDocument, first: usize, faultless: bool| {
        let pairs = it.cores.iter().filter(|pair| pair.first_cpu == first && (!faultless || pair.fault.is_none()));
        let mut cpus: Vec<usize> = pairs.map(|pair| pair.second_cpu).collect();
        cpus.sort_unstable();
        cpus
    };
    watch.holds("nobody is accused", |it| !it.misbehaved);
    watch.holds("that and when it was not on its CPU", |it| was_away(&it.away, &it.notes));
    watch.holds("each CPU that was offline, and when", |it| {
        let comes_and_goes = [MachineEventKind::CpuOffline, MachineEventKind::CpuOnline];
        it.offline.iter().map(|offline| offline.cpu).eq([3, 0, 1])
            && it.offline.iter().all(|offline| offline.to_s.is_some_and(|to_s| offline.from_s < to_s))
            && it.events.iter().map(|event| event.kind).eq(comes_and_goes.repeat(3))
    });
    watch.holds("without CPU 0 the others were compared", |it| {
        let cpus = compared_with(it, 1, true);
        cpus.contains(&2) && cpus.contains(&3)
    });
    watch.holds("with CPU 0 all were compared", |it| compared_with(it, 0, false) == [1, 2, 3]);
    watch.holds("that CPU 1 was offline, and no error for it", |it| {
        it.notes.iter().any(|note| note.starts_with("CPU 1 was offline from "))
            && it.notes.iter().all(|note| !note.contains("could not be compared"))
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "hotplug",
    fit: |board| board.asked_for("hotplug"),
    plants: &[
        Plant { what: "the board did not get to the end of the watch", change: |it| it.never_ended(".hotplug-watch") },
        Plant { what: "a source misbehaved", change: |it| it.summary(".hotplug-watch", |it| it.misbehaved = true) },
        Plant {
            what: "the CPU was not offline",
            change: |it| it.replace(".hotplug-watch.out", "\"offline\":true", "\"offline\":false"),
        },
        Plant {
            what: "the thread ran on the CPU that was offline",
            change: |it| it.replace(".hotplug-watch.out", "\"ran_on\":[", "\"ran_on\":[3,"),
        },
        Plant {
            what: "no CPU came online",
            change: |it| it.replace(".hotplug-watch.out", "\"cpu-online\"", "\"cpu-offline\""),
        },
        Plant {
            what: "CPU 1 was the first of no pair",
            change: |it| it.replace(".hotplug-watch.out", "\"first_cpu\":1", "\"first_cpu\":0"),
        },
        Plant {
            what: "CPU 0 was the first of no pair",
            change: |it| it.replace(".hotplug-watch.out", "\"first_cpu\":0", "\"first_cpu\":1"),
        },
        Plant {
            what: "a note says that CPUs could not be compared",
            change: |it| {
                it.replace(".hotplug-watch.out", "CPU 1 was offline", "CPU 0 and CPU 1 could not be compared");
            },
        },
        Plant {
            what: "a CPU did not come back",
            change: |it| {
                it.summary(".hotplug-watch", |it| {
                    it.offline.iter_mut().filter(|offline| offline.cpu == 1).for_each(|offline| offline.to_s = None);
                });
            },
        },
        Plant {
            what: "the watch was not pinned again",
            change: |it| it.leave_out(".hotplug-watch.err", "pinned again"),
        },
        Plant {
            what: "the CPU of a thread was not offline",
            change: |it| it.replace(".hotplug-timer.out", "\"offline\": true", "\"offline\": false"),
        },
        Plant {
            what: "a thread did not come back",
            change: |it| {
                it.document(".hotplug-timer", |it: &mut WakeLatencyDocument| {
                    it.end.away.iter_mut().for_each(|away| away.to_s = None);
                });
            },
        },
        Plant {
            what: "no note says that the CPU was offline",
            change: |it| it.replace(".hotplug-timer.out", "CPU 3 was offline", "CPU 3 was fine"),
        },
        Plant {
            what: "the CPU that was offline missed nothing",
            change: |it| {
                it.document(".hotplug-timer", |it: &mut WakeLatencyDocument| {
                    it.results[3] = it.results[2].clone();
                    it.results[3].cpu = Some(3);
                });
            },
        },
        Plant {
            what: "no thread was away",
            change: |it| it.document(".hotplug-poll", |it: &mut WakeLatencyDocument| it.end.away.clear()),
        },
        Plant {
            what: "no time was spent elsewhere",
            change: |it| {
                it.document(".hotplug-stall", |it: &mut StallDocument| {
                    it.results.iter_mut().for_each(|row| row.elsewhere_ns = 0);
                });
            },
        },
        Plant {
            what: "the CPU that was offline was watched all the time",
            change: |it| {
                it.document(".hotplug-stall", |it: &mut StallDocument| {
                    it.results[1].elapsed_ns = it.results[0].elapsed_ns;
                });
            },
        },
        Plant {
            what: "the stalls' thread was not pinned again",
            change: |it| it.leave_out(".hotplug-stall.err", "pinned again"),
        },
    ],
}];
