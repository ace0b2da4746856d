//! Rules about the limits of the current process: its CPU quota, its cpuset, and how long a real-time thread may run
//! without blocking.

use hpt_sys::host::{ControlGroups, CpuList, CpuQuota};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "cpu-quota",
        title: "CPU quota limits this process",
        about: "whether a control group limits the CPU time of this process (cpu.max)",
        why: "When the threads of the group have used up the quota, all of them are paused until the period ends, which takes up to 100 ms with the default period.",
        affects: "ordinary threads of this service, session or container, but not real-time threads",
        references: &[
            "Documentation/admin-guide/cgroup-v2.rst: cpu.max",
            "Documentation/scheduler/sched-bwc.rst",
            "systemd.resource-control(5): CPUQuota=",
        ],
        relevance: Relevance::all(Severity::High).timekeeping(Severity::Low),
        judge: quota,
    },
    Rule {
        id: "cpus-left",
        title: "CPUs are excluded by a cpuset",
        about: "which CPUs this process may use, according to its control groups (cpuset)",
        why: "Threads of the control group cannot run on the excluded CPUs, whatever affinity they request.",
        affects: "programs in this service, session or container that dedicate a CPU to one thread",
        references: &[
            "Documentation/admin-guide/cgroup-v2.rst: cpuset.cpus",
            "systemd.resource-control(5): AllowedCPUs=",
        ],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: cpus_left,
    },
    Rule {
        id: "realtime-timeout",
        title: "RLIMIT_RTTIME ends busy programs",
        about: "how long a real-time thread may run without blocking (RLIMIT_RTTIME)",
        why: "A thread that exceeds the limit receives SIGXCPU, which ends the program unless it handles the signal. At the hard limit, the program is killed.",
        affects: "SCHED_FIFO and SCHED_RR threads that never block, such as busy-polling threads",
        references: &["getrlimit(2): RLIMIT_RTTIME", "limits.conf(5): rttime", "systemd.exec(5): LimitRTTIME="],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: timeout,
    },
];

impl MachineFacts {
    /// Returns the command that sets a property of a service until reboot.
    fn set_property(&self, property: &str) -> Vec<String> {
        self.by_systemd([format!("sudo systemctl set-property --runtime SERVICE {property}")])
    }
}

fn groups(facts: &MachineFacts) -> Result<&ControlGroups, Verdict> {
    facts
        .situation
        .control_groups
        .as_ref()
        .ok_or_else(|| Verdict::not_applicable("no information on control groups is available"))
}

/// A quota that is used up less often than once in this many periods causes rare pauses.
const RARE: u64 = 1_000;

/// Returns how often the quota pauses the threads of its group, and how much that matters; `None` if this is not known.
/// A thread with a CPU of its own may need all of that CPU's time.
fn pauses(quota: CpuQuota, has_own_cpu: bool) -> Option<(Severity, String)> {
    let since = quota.periods.map_or_else(String::new, |periods| format!(" in {periods} periods"));
    match (quota.used_up, quota.periods) {
        (Some(times @ 1..), periods) => {
            let is_rare = periods.is_some_and(|periods| times < periods / RARE);
            let severity = if is_rare { Severity::Low } else { Severity::High };
            Some((severity, format!("it has been used up {}{since}", super::times(times))))
        }
        _ if has_own_cpu && quota.quota_us < quota.period_us => {
            Some((Severity::High, "it is less than the time of one CPU".to_owned()))
        }
        (Some(0), None | Some(1..)) => Some((Severity::Info, format!("it has never been used up{since}"))),
        (Some(0), Some(0)) | (None, _) => None,
    }
}

fn quota(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let groups = match groups(facts) {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    if !groups.tell_of_time {
        return Verdict::not_applicable("no control group reports a CPU quota");
    }
    let Some(quota) = groups.quota else {
        return Verdict::pass("no quota");
    };
    let left = groups.cpus.as_deref().and_then(CpuList::parse).filter(|cpus| !cpus.is_empty());
    let cpus = left.or_else(|| facts.cpus().cloned()).map_or(0, |cpus| cpus.len());
    let ms = |us: u64| format!("{}.{:03} ms", us / 1000, us % 1000);
    let observed = format!(
        "the limit is {} of CPU time in every {}, shared by all threads of the group",
        ms(quota.quota_us),
        ms(quota.period_us)
    );
    if cpus > 0 && u128::from(quota.quota_us) >= u128::from(quota.period_us) * (cpus as u128) {
        return Verdict::pass(format!("{observed}; this is the full time of all CPUs of the group"));
    }
    let Some((severity, use_of_it)) = pauses(quota, subject.named.is_some()) else {
        return Verdict::unknown(format!("{observed}; cpu.stat does not show whether the group ever uses it up"));
    };
    let set = facts.set_property("CPUQuota=");
    let finding = Finding::new(severity, format!("{observed}; {use_of_it}"));
    if facts.is_a_container() {
        finding.fix("Start the container without a limit of CPU time (--cpus)", [])
    } else {
        finding.fix(
            "Remove the quota of the service that this process belongs to; for a container, start the container without --cpus",
            set,
        )
    }
        .fix(
            "Run the thread under a real-time policy, to which the quota does not apply",
            ["sudo hpt run --fifo 10 -- PROGRAM".to_owned()],
        )
        .problem()
}

fn cpus_left(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let groups = match groups(facts) {
        Ok(groups) => groups,
        Err(verdict) => return verdict,
    };
    let Some(left) = groups.cpus.as_deref().and_then(CpuList::parse).filter(|cpus| !cpus.is_empty()) else {
        return Verdict::not_applicable("no control group reports which CPUs are allowed");
    };
    let Some(online) = facts.cpus() else {
        return Verdict::unknown("neither /sys nor /proc lists the CPUs");
    };
    let wanted = subject.named.map_or_else(|| online.clone(), CpuList::only);
    if wanted.without(&left).is_empty() {
        return Verdict::pass(
            subject.named.map_or_else(|| "all CPUs are allowed".to_owned(), |cpu| format!("CPU {cpu} is allowed")),
        );
    }
    let severity = if subject.named.is_some() { Severity::Low } else { Severity::Info };
    let observed = match subject.named {
        Some(cpu) => format!("CPU {cpu} is not allowed: the control group is limited to {}", Subject::in_words(&left)),
        None => format!("the control group is limited to {} of {} online CPUs", Subject::in_words(&left), online.len()),
    };
    let set = facts.set_property(&format!("AllowedCPUs={}", left.or(&wanted)));
    let finding = Finding::new(severity, observed);
    if facts.is_a_container() {
        finding.fix("Start the container with these CPUs (--cpuset-cpus)", [])
    } else {
        finding.fix(
            "Allow these CPUs for the service that this process belongs to; for a container, start the container with --cpuset-cpus",
            set,
        )
    }
    .problem()
}

fn timeout(facts: &MachineFacts, _: &Subject) -> Verdict {
    match facts.limits.realtime_timeout_us {
        None => Verdict::unknown("/proc/thread-self/limits does not show RLIMIT_RTTIME"),
        Some(u64::MAX) => Verdict::pass("no limit"),
        Some(us) => Finding::new(Severity::High, format!("{us} µs"))
            .fix("Remove the limit of a running program", ["sudo prlimit --rttime=unlimited --pid PID".to_owned()])
            .fix(
                "To remove the limit permanently, set LimitRTTIME=infinity in the service of the program, or add the line `@realtime - rttime unlimited` to /etc/security/limits.d/realtime.conf and log in again",
                [],
            )
            .problem(),
    }
}
