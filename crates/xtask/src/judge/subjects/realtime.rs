//! A thread gets its scheduling policy, and throttling is off during the run and on again after it.

use hpt_document::{experiment::ExperimentDocument, sleep::SleepDocument, thread::Thread};

use crate::judge::{
    case::{Case, code_of},
    plant::{Plant, Plants},
};

/// Linux's default limit for real-time threads, in microseconds per second.
const RUNTIME_US: i64 = 950_000;

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.realtime");
        judge_policies(case, &step);
        if let Some(published) = case.ended_with::<ExperimentDocument>(&format!("{step}-published")) {
            published.holds(
                "the experiment with an isolated core ran under SCHED_FIFO 99 without throttling, and its distribution has every delay",
                |it| {
                    it.results.iter().find(|row| row.quantity == "worst").is_some_and(|row| {
                        row.published == Some(41.0)
                            && row.samples == 1000
                            && row.distribution.iter().map(|length| length.1).sum::<u64>() == 1000
                            && row.method.contains("SCHED_FIFO 99, sched_rt_runtime_us off")
                    })
                },
            );
        }
        case.said_all(&format!("{step}-spins"), "1");
        case.said_all(&format!("{step}-run"), "3 2;-1;7");
        case.said_all(&format!("{step}-after"), &RUNTIME_US.to_string());
        for signal in ["INT", "TERM", "HUP"] {
            case.said_all(
                &format!("{step}-{signal}"),
                &format!("during -1;status {};after {RUNTIME_US};1", code_of(signal)),
            );
        }
        let killed = format!("during -1;status 137;after -1;1;restored 0 {RUNTIME_US};1");
        case.said_all(&format!("{step}-KILL"), &killed);
    }
    case.shown("real-time policies, throttling off and on again");
}

fn judge_policies(case: &Case<'_>, step: &str) {
    if let Some(fifo) = case.ended_with::<SleepDocument>(step) {
        fifo.holds(
            "SCHED_FIFO on one CPU, memory locked, deep idle states disabled and throttling off, as the kernel reports it",
            |it| {
                let thread = &it.thread;
                has(thread, "fifo", 50)
                    && thread.cpus.len() == 1
                    && thread.locked_bytes.is_some_and(|bytes| bytes > 0)
                    && thread.wake_latency_us == Some(0)
                    && runtime_us(thread) == Some(-1)
                    && thread.refused.is_empty()
            },
        );
    }
    if let Some(rr) = case.ended_with::<SleepDocument>(&format!("{step}-rr")) {
        rr.holds("SCHED_RR on CPU 0, with throttling unchanged", |it| {
            has(&it.thread, "rr", 2)
                && it.thread.cpus == [0]
                && runtime_us(&it.thread) == Some(RUNTIME_US)
                && it.thread.locked_bytes == Some(0)
        });
    }
    if let Some(deadline) = case.ended_with::<SleepDocument>(&format!("{step}-deadline")) {
        deadline.holds("SCHED_DEADLINE, on every CPU", |it| {
            it.thread.policy.as_deref() == Some("deadline")
                && it.thread.deadline_runtime_ns == Some(50_000_000)
                && it.thread.deadline_period_ns == Some(200_000_000)
                && it.thread.refused.is_empty()
        });
    }
    if let Some(plain) = case.ended_with::<SleepDocument>(&format!("{step}-plain")) {
        plain.holds("an unprivileged user gets default scheduling and the reasons, and changes nothing", |it| {
            let refused = |setting: &str, why: &str| {
                it.thread.refused.iter().any(|refused| refused.setting == setting && refused.reason.contains(why))
            };
            ["throttling", "governor", "wake-latency"].into_iter().all(|setting| refused(setting, ""))
                && refused("policy", "CAP_SYS_NICE")
                && it.thread.policy.as_deref() == Some("other")
                && runtime_us(&it.thread) == Some(RUNTIME_US)
        });
    }
}

fn has(thread: &Thread, policy: &str, priority: u32) -> bool {
    thread.policy.as_deref() == Some(policy) && thread.priority == Some(priority)
}

fn runtime_us(thread: &Thread) -> Option<i64> {
    thread.bandwidth.as_ref().map(|bandwidth| bandwidth.runtime_us)
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "real time",
    fit: |board| board.asked_for("realtime"),
    plants: &[
        Plant {
            what: "the thread has default scheduling",
            change: |it| {
                it.document(".realtime", |it: &mut SleepDocument| it.thread.policy = Some("other".to_owned()));
            },
        },
        Plant {
            what: "throttling is on",
            change: |it| {
                it.document(".realtime", |it: &mut SleepDocument| {
                    it.thread.bandwidth.iter_mut().for_each(|bandwidth| bandwidth.runtime_us = RUNTIME_US);
                });
            },
        },
        Plant {
            what: "deep idle states are allowed",
            change: |it| {
                it.document(".realtime", |it: &mut SleepDocument| it.thread.wake_latency_us = Some(2_000_000_000));
            },
        },
        Plant {
            what: "no memory is locked",
            change: |it| it.document(".realtime", |it: &mut SleepDocument| it.thread.locked_bytes = Some(0)),
        },
        Plant { what: "the policy is SCHED_FIFO, not SCHED_RR", change: |it| it.copy(".realtime", ".realtime-rr") },
        Plant { what: "an unprivileged user gets all settings", change: |it| it.copy(".realtime", ".realtime-plain") },
        Plant {
            what: "there is no runtime for SCHED_DEADLINE",
            change: |it| {
                it.document(".realtime-deadline", |it: &mut SleepDocument| it.thread.deadline_runtime_ns = None);
            },
        },
        Plant {
            what: "a delay is missing in the distribution",
            change: |it| {
                it.document(".realtime-published", |it: &mut ExperimentDocument| {
                    it.results
                        .iter_mut()
                        .filter(|row| row.quantity == "worst")
                        .for_each(|row| _ = row.distribution.pop());
                });
            },
        },
        Plant {
            what: "a real-time thread may busy-wait without consent",
            change: |it| it.put(".realtime-spins.out", "0\n"),
        },
        Plant {
            what: "the program has default scheduling",
            change: |it| it.set_lines(".realtime-run.out", "3 2", "0 0"),
        },
        Plant { what: "throttling is off after the run", change: |it| it.put(".realtime-after.out", "-1\n") },
        Plant {
            what: "throttling is off after SIGHUP",
            change: |it| it.set_lines(".realtime-HUP.out", "after ", "after -1"),
        },
        Plant {
            what: "SIGTERM did not end the run",
            change: |it| it.set_lines(".realtime-TERM.out", "status ", "status 0"),
        },
        Plant {
            what: "throttling was not restored after SIGKILL",
            change: |it| it.set_lines(".realtime-KILL.out", "restored ", "restored 0 -1"),
        },
        Plant { what: "the test of SIGINT did not complete", change: |it| it.never_ended(".realtime-INT") },
    ],
}];
