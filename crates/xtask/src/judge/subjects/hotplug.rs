//! CPUs go offline and online during measurements. hpt is pinned to the last CPU, or to several
//! CPUs including the last.

use hpt_document::{
    cpu_absence::CpuAbsence,
    stall::StallDocument,
    wake_latency::WakeLatencyDocument,
    watch::{MachineEventKind, WatchSummaryDocument},
};

use crate::judge::{
    case::{Case, Judged},
    plant::{Plant, Plants},
    text::has_line,
};

/// An expectation of all measurements.
const ELSEWHERE: &str = "the time when a thread was not on its CPU is reported";

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.hotplug");
        let watch = format!("{step}-watch");
        if case.ended(&watch) {
            if let Some(watch) = case.watched(&watch) {
                judge_watch(&watch);
            }
        }
        if let Some(timer) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-timer")) {
            timer.holds(ELSEWHERE, |it| was_absent(&it.end.cpu_absences, &it.notes));
            timer.holds("all four CPUs have results, and the CPU that was offline has fewer deadlines", |it| {
                let deadlines: Vec<u64> = it.results.iter().map(|row| row.figures.samples).collect();
                it.results.iter().map(|row| row.cpu).eq([0, 1, 2, 3].map(Some))
                    && it.results[3].figures.samples > 0
                    && deadlines[3] < deadlines[2]
            });
        }
        if let Some(poll) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-poll")) {
            poll.holds(ELSEWHERE, |it| was_absent(&it.end.cpu_absences, &it.notes));
        }
        if let Some(stall) = case.ended_with::<StallDocument>(&format!("{step}-stall")) {
            stall.holds(ELSEWHERE, |it| was_absent(&it.end.cpu_absences, &it.notes));
            stall.holds("time on other CPUs does not count for the CPU", |it| {
                it.results.iter().filter(|row| row.elapsed_on_other_cpus_ns > 0).map(|row| row.cpu).eq([Some(3)])
                    && it.results.len() > 1
                    && it.results[1].elapsed_ns < it.results[0].elapsed_ns
            });
        }
        for what in ["watch", "timer", "poll", "stall"] {
            let step = format!("{step}-{what}");
            if !has_line(case.err(&step), "pinned again") {
                case.wrong(format!("{step}: the thread was not pinned again"));
            }
        }
        case.shown("CPU hotplug");
    }
}

/// Returns whether CPU 3 was offline once, with a start and an end, and a note reports it. When the CPU is online again,
/// the thread may run on it before it is pinned again, and that time belongs to the absence.
fn was_absent(absences: &[CpuAbsence], notes: &[String]) -> bool {
    matches!(absences, [absence] if absence.cpu == 3
        && absence.offline
        && absence.to_s.is_some_and(|to_s| absence.from_s < to_s)
        && absence.samples > 0
        && absence.ran_on_cpus.iter().any(|cpu| *cpu != 3))
        && notes.iter().any(|note| note.starts_with("CPU 3 was offline from "))
}

fn judge_watch(watch: &Judged<'_, WatchSummaryDocument>) {
    let compared_with = |it: &WatchSummaryDocument, first: usize, faultless: bool| {
        let pairs = it.cores.iter().filter(|pair| pair.first_cpu == first && (!faultless || pair.fault.is_none()));
        let mut cpus: Vec<usize> = pairs.map(|pair| pair.second_cpu).collect();
        cpus.sort_unstable();
        cpus
    };
    watch.holds("no source is reported as faulty", |it| !it.faulty);
    watch.holds(ELSEWHERE, |it| was_absent(&it.cpu_absences, &it.notes));
    watch.holds("each CPU that was offline is reported with its times", |it| {
        let comes_and_goes = [MachineEventKind::CpuOffline, MachineEventKind::CpuOnline];
        it.offline.iter().map(|offline| offline.cpu).eq([3, 0, 1])
            && it.offline.iter().all(|offline| offline.to_s.is_some_and(|to_s| offline.from_s < to_s))
            && it.events.iter().map(|event| event.kind).eq(comes_and_goes.repeat(3))
    });
    watch.holds("without CPU 0, the other CPUs were compared", |it| {
        let cpus = compared_with(it, 1, true);
        cpus.contains(&2) && cpus.contains(&3)
    });
    watch.holds("with CPU 0, all CPUs were compared", |it| compared_with(it, 0, false) == [1, 2, 3]);
    watch.holds("a note reports that CPU 1 was offline, and none reports an error for it", |it| {
        it.notes.iter().any(|note| note.starts_with("CPU 1 was offline from "))
            && it.notes.iter().all(|note| !note.contains("could not be compared"))
    });
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "hotplug",
    fit: |board| board.asked_for("hotplug"),
    plants: &[
        Plant { what: "the watch did not complete", change: |it| it.never_ended(".hotplug-watch") },
        Plant { what: "a source misbehaved", change: |it| it.summary(".hotplug-watch", |it| it.faulty = true) },
        Plant {
            what: "the CPU was not offline",
            change: |it| it.replace(".hotplug-watch.out", "\"offline\":true", "\"offline\":false"),
        },
        Plant {
            what: "the thread ran only on the offline CPU",
            change: |it| {
                it.summary(".hotplug-watch", |it| {
                    it.cpu_absences.iter_mut().for_each(|absence| absence.ran_on_cpus = vec![3]);
                });
            },
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
            what: "a CPU did not come online again",
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
            what: "a thread did not return to its CPU",
            change: |it| {
                it.document(".hotplug-timer", |it: &mut WakeLatencyDocument| {
                    it.end.cpu_absences.iter_mut().for_each(|absence| absence.to_s = None);
                });
            },
        },
        Plant {
            what: "no note reports that the CPU was offline",
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
            change: |it| it.document(".hotplug-poll", |it: &mut WakeLatencyDocument| it.end.cpu_absences.clear()),
        },
        Plant {
            what: "no time was spent elsewhere",
            change: |it| {
                it.document(".hotplug-stall", |it: &mut StallDocument| {
                    it.results.iter_mut().for_each(|row| row.elapsed_on_other_cpus_ns = 0);
                });
            },
        },
        Plant {
            what: "the CPU that was offline was measured all the time",
            change: |it| {
                it.document(".hotplug-stall", |it: &mut StallDocument| {
                    it.results[1].elapsed_ns = it.results[0].elapsed_ns;
                });
            },
        },
        Plant {
            what: "the thread that measures stalls was not pinned again",
            change: |it| it.leave_out(".hotplug-stall.err", "pinned again"),
        },
    ],
}];
