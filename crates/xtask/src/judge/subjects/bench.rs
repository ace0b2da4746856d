//! Every source can be read repeatedly, and threads are woken and stalls are found on every CPU.

use std::collections::BTreeSet;

use hpt_document::{bench::BenchDocument, stall::StallDocument, wake_latency::WakeLatencyDocument};

use crate::judge::{
    case::{Case, Judged},
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let Some(bench) = case.ended_with::<BenchDocument>(&format!("{build}.bench")) else { continue };
        bench.holds("every source was measured completely", |it| {
            it.results.len() >= 10 && it.results.iter().all(|row| row.repeated.complete)
        });
        let wanted = case.board.counters();
        bench.holds(&format!("{} and clock_gettime were measured", wanted.join(",")), |it| {
            wanted.iter().chain(&["monotonic"]).all(|id| it.results.iter().any(|row| row.id == *id))
        });
        if let Some(plain) = case.ended_with::<BenchDocument>(&format!("{build}.bench-plain")) {
            plain.holds("an unprivileged user can measure", |it| {
                it.results.len() == 2 && it.results.iter().all(|row| row.repeated.complete)
            });
        }
        judge_wakes(case, build);
        judge_stalls(case, build);
    }
}

fn judge_wakes(case: &Case<'_>, build: &str) {
    if let Some(wakes) = case.ended_with::<WakeLatencyDocument>(&format!("{build}.wakes")) {
        wakes.holds("a real-time thread was woken on every CPU", |it| {
            let thread = &it.measuring.thread;
            thread.policy.as_deref() == Some("fifo")
                && thread.refused.iter().all(|refused| refused.setting == "wake-latency")
                && it.results.len() >= case.board.cores
                && it.results.iter().all(|row| row.figures.samples.checked_sub(row.figures.missed) == Some(20))
        });
    }
    if let Some(poll) = case.ended_with::<WakeLatencyDocument>(&format!("{build}.poll")) {
        poll.holds("a note recommends the System Timer if Instant uses the kernel's clock", |it| {
            let named = it.notes.iter().any(|note| note.contains("--source bcm-systimer"));
            named == (case.board.system_timer.is_some() && case.board.arm_counter.is_none())
        });
    }
    if let Some(plain) = case.ended_with::<WakeLatencyDocument>(&format!("{build}.wakes-plain")) {
        plain.holds("an unprivileged user gets default scheduling, and all samples", |it| {
            let thread = &it.measuring.thread;
            thread.policy.as_deref() == Some("other")
                && thread.refused.iter().any(|refused| refused.setting == "policy")
                && it.results.first().is_some_and(|row| row.figures.samples.checked_sub(row.figures.missed) == Some(20))
        });
    }
}

fn judge_stalls(case: &Case<'_>, build: &str) {
    if let Some(stalls) = case.ended_with::<StallDocument>(&format!("{build}.stalls")) {
        let stop = stopped(case.err(&format!("{build}.stalls")));
        if stop.is_none() {
            case.wrong(format!("{build}.stalls: the measurement was not stopped"));
        }
        judge_stop(&stalls, case.board.cores, stop.unwrap_or_default());
    }
    if let Some(plain) = case.ended_with::<StallDocument>(&format!("{build}.stalls-plain")) {
        plain.holds("an unprivileged user gets default scheduling, and measures", |it| {
            it.measuring.thread.policy.as_deref() == Some("other")
                && it.results.first().is_some_and(|row| row.samplings > 0)
                && it.longest.iter().all(|stall| stall.cause != "unknown")
        });
    }
}

/// Returns when the guest stopped and continued the measurement, in seconds of /proc/uptime.
fn stopped(said: &str) -> Option<(f64, f64)> {
    let (from, to) = said.lines().find_map(|line| line.strip_prefix("stopped ")?.split_once(' '))?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn judge_stop(stalls: &Judged<'_, StallDocument>, cores: usize, (from, to): (f64, f64)) {
    stalls.holds(
        "a thread on every CPU found that it was stopped for that whole time, and each stall has a cause",
        |it| {
            // /proc/uptime is truncated to hundredths of a second.
            let (from, to) = ((from + 0.02) * 1e9, (to - 0.01) * 1e9);
            let covers = it.longest.iter().filter(|stall| {
                stall.cause == "stopped"
                    && stall.start_ns as f64 <= from
                    && (stall.start_ns + stall.length_ns) as f64 >= to
            });
            let cpus: BTreeSet<_> = covers.map(|stall| stall.cpu).collect();
            let of_threads: u64 = it.results.iter().map(|row| row.stalls).sum();
            let of_causes: u64 = it.causes.iter().map(|row| row.stalls).sum();
            it.results.len() >= cores
                && of_threads == of_causes
                && it.notes.iter().all(|note| !note.contains("cannot read"))
                && cpus.len() == it.results.len()
        },
    );
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "bench",
    fit: |board| board.asked_for("bench"),
    plants: &[
        Plant { what: "bench ended by a signal", change: |it| it.status(".bench", 139) },
        Plant {
            what: "a source was not measured completely",
            change: |it| {
                it.document(".bench", |it: &mut BenchDocument| {
                    it.results.iter_mut().take(1).for_each(|row| row.repeated.complete = false);
                });
            },
        },
        Plant {
            what: "clock_gettime was not measured",
            change: |it| it.document(".bench", |it: &mut BenchDocument| it.results.retain(|row| row.id != "monotonic")),
        },
        Plant {
            what: "a thread was not woken",
            change: |it| it.document(".wakes", |it: &mut WakeLatencyDocument| it.results[0].figures.samples = 19),
        },
        Plant { what: "an unprivileged user gets SCHED_FIFO", change: |it| it.copy(".wakes", ".wakes-plain") },
        Plant {
            what: "no stall has the cause \"stopped\"",
            change: |it| {
                it.document(".stalls", |it: &mut StallDocument| {
                    for stall in it.longest.iter_mut().filter(|stall| stall.cause == "stopped") {
                        stall.cause = "none".to_owned();
                    }
                });
            },
        },
        Plant {
            what: "the measurement was stopped at another time",
            change: |it| it.set_lines(".stalls.err", "stopped ", "stopped 1.00 2.00"),
        },
        Plant { what: "the measurement was not stopped", change: |it| it.leave_out(".stalls.err", "stopped ") },
        Plant {
            what: "an unprivileged user has no samplings",
            change: |it| it.document(".stalls-plain", |it: &mut StallDocument| it.results[0].samplings = 0),
        },
    ],
}];
