//! The limits of the current process: a share of CPU time, a set of CPUs, and how long a real-time thread may run.
//! Raises no limit.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::host::{ControlGroups, CpuList};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-quota",
        about: "the part of the CPUs' time that control groups leave to whoever looks (cpu.max)",
        why: "When all threads of the group together have used it up, they stand still until the period is over: for up to 100 ms, as periods usually are.",
        bites: "ordinary threads of this service, session or container; not those of a real-time class",
        references: &[
            "Documentation/admin-guide/cgroup-v2.rst: cpu.max",
            "Documentation/scheduler/sched-bwc.rst",
            "systemd.resource-control(5): CPUQuota=",
        ],
        judge: quota,
    },
    Rule {
        id: "cpus-left",
        about: "the CPUs that control groups leave to whoever looks (cpuset)",
        why: "A thread of the group runs nowhere else, whatever it asks for.",
        bites: "who wants a CPU for one thread, in this service, session or container",
        references: &[
            "Documentation/admin-guide/cgroup-v2.rst: cpuset.cpus",
            "systemd.resource-control(5): AllowedCPUs=",
        ],
        judge: cpus_left,
    },
    Rule {
        id: "realtime-timeout",
        about: "how long a real-time thread may go on without a wait (RLIMIT_RTTIME)",
        why: "One that goes on for longer is told by SIGXCPU, which ends its program, and later killed.",
        bites: "threads by SCHED_FIFO or SCHED_RR that never wait, as those that look at a clock all the time",
        references: &["getrlimit(2): RLIMIT_RTTIME", "limits.conf(5): rttime", "systemd.exec(5): LimitRTTIME="],
        judge: timeout,
    },
];

fn groups(facts: &MachineFacts) -> Result<&ControlGroups, Verdict> {
    facts.situation.control_groups.as_ref().ok_or_else(|| Verdict::not_here("nothing tells of control groups here"))
}

fn quota(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let groups = match groups(facts) {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    if !groups.tell_of_time {
        return Verdict::not_here("no control group shows here how much of the CPUs' time it leaves");
    }
    let Some(quota) = groups.quota else {
        return Verdict::fine("all of it");
    };
    let left = groups.cpus.as_deref().and_then(CpuList::parse).filter(|cpus| !cpus.is_empty());
    let cpus = left.or_else(|| facts.cpus().cloned()).map_or(0, |cpus| cpus.len());
    let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
    let seen =
        format!("{} of every {}, for all threads of the group together", ms(quota.quota_us), ms(quota.period_us));
    if cpus > 0 && u128::from(quota.quota_us) >= u128::from(quota.period_us) * (cpus as u128) {
        return Verdict::fine(format!("{seen}, which is as much as its CPUs have"));
    }
    let seen = match quota.used_up {
        None => seen,
        Some(0) => format!("{seen}; it was never used up"),
        Some(1) => format!("{seen}; it was used up once"),
        Some(times) => format!("{seen}; it was used up {times} times"),
    };
    // The named CPU is for a thread that needs all of it, and the other threads of its group share the quota.
    let one_is_enough = subject.named.is_some() && quota.quota_us >= quota.period_us;
    let severity = if one_is_enough && quota.used_up == Some(0) { Severity::ToKnow } else { Severity::Major };
    Finding::new(severity, seen)
        .helped(
            "take it off the service that it belongs to; in a container, start that without --cpus",
            ["sudo systemctl set-property --runtime SERVICE CPUQuota=".to_owned()],
        )
        .helped(
            "or let the thread in question run by a real-time class, which no quota binds",
            ["sudo hpt run --fifo 10 -- PROGRAM".to_owned()],
        )
        .found()
}

fn cpus_left(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let groups = match groups(facts) {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    let Some(left) = groups.cpus.as_deref().and_then(CpuList::parse).filter(|cpus| !cpus.is_empty()) else {
        return Verdict::not_here("no control group shows here which CPUs it leaves");
    };
    let Some(online) = facts.cpus() else {
        return Verdict::untold("neither /sys nor /proc tells which CPUs there are");
    };
    let wanted = subject.named.map_or_else(|| online.clone(), CpuList::only);
    if wanted.without(&left).is_empty() {
        return Verdict::fine(
            subject.named.map_or_else(|| "all of them".to_owned(), |cpu| format!("CPU {cpu} is one of them")),
        );
    }
    let severity = if subject.named.is_some() { Severity::Minor } else { Severity::ToKnow };
    let seen = match subject.named {
        Some(cpu) => format!("CPU {cpu} is none of them: {} may be had", Subject::in_words(&left)),
        None => format!("{} of {}", Subject::in_words(&left), online.len()),
    };
    Finding::new(severity, seen)
        .helped(
            "give them to the service that it belongs to; in a container, start that with --cpuset-cpus",
            [format!("sudo systemctl set-property --runtime SERVICE AllowedCPUs={}", left.or(&wanted))],
        )
        .found()
}

fn timeout(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.limits.realtime_timeout_us {
        None => Verdict::untold("/proc/thread-self/limits does not tell"),
        Some(u64::MAX) => Verdict::fine("for ever"),
        Some(us) => Finding::new(Severity::Major, format!("{us} µs"))
            .helped("lift the limit of a program that runs", ["sudo prlimit --rttime=unlimited --pid PID".to_owned()])
            .helped(
                "or of who starts it: LimitRTTIME=infinity of its service, or a file in /etc/security/limits.d with the line `@realtime - rttime unlimited`, then log in again",
                [],
            )
            .found(),
    }
}
