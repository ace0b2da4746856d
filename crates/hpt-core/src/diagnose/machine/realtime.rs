//! Whether real-time scheduling is available, and what the kernel reserves from it. Requests none.

use super::{Finding, MachineFacts, Rule, Severity, Subject, Verdict};
use crate::{
    host::{Architecture, FAIR_SERVER, RT_RUNTIME, Told},
    realtime::{CAP_IPC_LOCK, CAP_SYS_NICE, FAIR_SERVER_SINCE},
};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preemption",
        about: "whether the kernel is one for real time (PREEMPT_RT)",
        why: "In other kernels a thread waits while the kernel itself is at work for somebody else: mostly microseconds, now and then hundreds of them, and nothing says how many at most.",
        bites: "who needs a bound on the worst wake-up",
        references: &[
            "Documentation/core-api/real-time/theory.rst",
            "Documentation/admin-guide/kernel-parameters.txt: preempt",
        ],
        judge: preemption,
    },
    Rule {
        id: "throttling",
        about: "the time that real-time threads may have of each period (before Linux 6.12, and later with CONFIG_RT_GROUP_SCHED)",
        why: "A thread that does not wait is stopped for the rest of each period, usually for 50 ms in every second.",
        bites: "threads by SCHED_FIFO or SCHED_RR that never wait, as those that look at a clock all the time",
        references: &[
            "Documentation/scheduler/sched-rt-group.rst",
            "sched(7)",
            "systemd's README: CONFIG_RT_GROUP_SCHED",
        ],
        judge: throttling,
    },
    Rule {
        id: "fair-server",
        about: "the time that each CPU keeps for ordinary threads (from Linux 6.12 on)",
        why: "Where ordinary threads wait for the CPU, a thread that does not wait is stopped for them, usually for 50 ms in every second.",
        bites: "threads by SCHED_FIFO or SCHED_RR that never wait, on a CPU that ordinary threads wait for",
        references: &["sched(7)", "Documentation/scheduler/sched-deadline.rst"],
        judge: fair_server,
    },
    Rule {
        id: "right-to-realtime",
        about: "the right to a real-time class (RLIMIT_RTPRIO, CAP_SYS_NICE, cpu.rt_runtime_us)",
        why: "An ordinary thread shares its CPU with all others: it may wait for milliseconds until its turn comes.",
        bites: "who wants SCHED_FIFO or SCHED_RR as this user",
        references: &["sched(7)", "getrlimit(2): RLIMIT_RTPRIO", "limits.conf(5)"],
        judge: right_to_realtime,
    },
    Rule {
        id: "right-to-lock-memory",
        about: "how much memory may be locked (RLIMIT_MEMLOCK, CAP_IPC_LOCK)",
        why: "A page that is not in memory is fetched when it is touched: from a card or disk that takes milliseconds.",
        bites: "who wants to lock memory as this user",
        references: &["mlockall(2)", "getrlimit(2): RLIMIT_MEMLOCK", "limits.conf(5)"],
        judge: right_to_lock,
    },
];

fn preemption(facts: &MachineFacts, _: &Subject) -> Verdict {
    let version = &facts.kernel_version;
    if facts.says_realtime == Told::Is(true) || version.contains("PREEMPT_RT") || version.contains("PREEMPT RT") {
        return Verdict::fine("it is");
    }
    if version.is_empty() {
        return Verdict::untold("uname tells no version");
    }
    let chosen = facts.preemption.is().map(String::as_str).or_else(|| facts.parameter("preempt"));
    let dynamic = version.contains("PREEMPT_DYNAMIC");
    let seen = match (dynamic, chosen) {
        (true, Some(way)) => format!("it is not; it is preempted by the way `{way}`"),
        (true, None) => {
            "it is not; by which way it is preempted was chosen when it was built, and may be chosen at boot".to_owned()
        }
        (false, _) if version.contains("PREEMPT") => {
            "it is not; it is preempted outside of its critical sections (PREEMPT)".to_owned()
        }
        (false, _) => "it is not; it is preempted where it offers that itself".to_owned(),
    };
    let mut finding = Finding::new(Severity::Minor, seen);
    finding = if facts.is_a_raspberry_pi {
        finding.helped(
            "install a kernel for real time, if your system's archive has one; else build one with CONFIG_PREEMPT_RT",
            ["apt-cache search --names-only 'linux-image.*-rt'".to_owned()],
        )
    } else {
        let package = match facts.architecture {
            Architecture::X86_64 => Some("linux-image-rt-amd64"),
            Architecture::Aarch64 => Some("linux-image-rt-arm64"),
            Architecture::Arm => Some("linux-image-rt-armmp"),
            Architecture::Other => None,
        };
        match package {
            Some(package) => {
                finding.helped("install a kernel for real time", [format!("sudo apt-get install {package}")])
            }
            None => finding.helped("build a kernel with CONFIG_PREEMPT_RT, where it can be for this architecture", []),
        }
    };
    if dynamic && chosen != Some("full") {
        let (text, commands) = facts.at_boot("preempt=full");
        finding = finding.helped(format!("or, for some of it, {text}"), commands);
    }
    finding.found()
}

fn throttling(facts: &MachineFacts, _: &Subject) -> Verdict {
    let (Told::Is(runtime), Told::Is(period)) = (&facts.rt_runtime_us, &facts.rt_period_us) else {
        return match facts.kernel {
            Some(kernel) if kernel >= FAIR_SERVER_SINCE => {
                Verdict::not_here("this kernel does not stop real-time threads by a period")
            }
            _ => Verdict::without(&facts.rt_runtime_us, RT_RUNTIME),
        };
    };
    if !(0..*period).contains(runtime) {
        return Verdict::fine("off");
    }
    // Groups with real-time quotas of their own came with RT throttling, and keep it: Linux 6.12, kernel/sched/rt.c,
    // CONFIG_RT_GROUP_SCHED.
    let groups = facts.situation.control_groups.as_ref();
    let by_groups = groups.is_some_and(|groups| groups.realtime_us.is_some());
    if !by_groups && facts.kernel.is_some_and(|kernel| kernel >= FAIR_SERVER_SINCE) {
        let seen = format!("sched_rt_runtime_us is {runtime}, and in this kernel binds threads by SCHED_DEADLINE only");
        // Version 2 has no file for it, so its absence means nothing there.
        return if groups.is_some_and(|groups| groups.are_of_version_1) {
            Verdict::not_here(format!("{seen}: see fair-server"))
        } else {
            // systemd's README advises against this option: threads in a group of version 2 are then refused real-time
            // policies.
            Verdict::untold_and_unlikely(format!(
                "{seen}, unless it was built with CONFIG_RT_GROUP_SCHED, which is rare, and not to be seen here: see fair-server for what each CPU keeps"
            ))
        };
    }
    let finding = Finding::new(
        Severity::Major,
        format!("real-time threads may have {} ms of every {} ms", runtime / 1000, period / 1000),
    );
    let finding = if facts.kernel.is_some() { finding } else { finding.uncertain() };
    finding
        .helped("let hpt turn it off while it measures", ["sudo hpt latency poll --fifo 80 --no-throttling".to_owned()])
        .helped(
            "turn it off; a thread that never ends then keeps its CPU from everybody. A line in /etc/sysctl.d keeps it over reboots",
            ["sudo sysctl -w kernel.sched_rt_runtime_us=-1".to_owned()],
        )
        .found()
}

fn fair_server(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if facts.kernel.is_some_and(|kernel| kernel < FAIR_SERVER_SINCE) {
        return Verdict::not_here("this kernel has none: see throttling");
    }
    let servers = || facts.fair_servers.iter().filter(|(cpu, _)| subject.all.contains(**cpu));
    let command = match subject.named {
        Some(cpu) => format!("echo 0 | sudo tee {FAIR_SERVER}/cpu{cpu}/runtime"),
        // Only root can see which files exist.
        None => format!("sudo sh -c 'for file in {FAIR_SERVER}/cpu*/runtime; do echo 0 >$file; done'"),
    };
    let kept_off = "keep ordinary threads off the CPU in question: nothing is taken where none of them waits";
    let off = |finding: Finding, before: Option<&str>| {
        let after = |command: String| before.map(str::to_owned).into_iter().chain([command]);
        finding
            .helped(
                "let hpt turn it off while it measures",
                after("sudo hpt latency poll --fifo 80 --no-throttling".to_owned()),
            )
            .helped(
                "turn it off, until the next boot; a thread that never ends then keeps its CPU from everybody",
                after(command),
            )
            .helped(format!("or {kept_off}"), [])
            .found()
    };
    let told: Vec<i64> = servers().filter_map(|(_, told)| told.is().copied()).collect();
    if told.is_empty() {
        if facts.kernel.is_none() {
            return Verdict::untold("the kernel's release is not understood, and nothing else tells");
        }
        let refused = servers().any(|(_, told)| *told == Told::NotAllowed);
        let (why, mount) = match (refused, facts.is_root()) {
            (true, true) => ("it is locked down, and lets nobody see how much, nor change that", None),
            (true, false) => ("only root may see how much", None),
            (false, _) => (
                "debugfs, which would tell how much, is not mounted here",
                Some("sudo mount -t debugfs none /sys/kernel/debug"),
            ),
        };
        let seen = format!("this kernel has one; {why}. Unless somebody changed that it is 50 ms of every second");
        let finding = Finding::new(Severity::Major, seen).uncertain();
        // A setting that cannot be changed has no command that turns it off.
        return if refused && facts.is_root() { finding.helped(kept_off, []).found() } else { off(finding, mount) };
    }
    let most = told.into_iter().max().unwrap_or(0);
    if most == 0 {
        return Verdict::fine("nothing is kept");
    }
    off(Finding::new(Severity::Major, format!("ordinary threads get {} ms of every period", most / 1_000_000)), None)
}

fn right_to_realtime(facts: &MachineFacts, _: &Subject) -> Verdict {
    if facts.situation.control_groups.as_ref().and_then(|groups| groups.realtime_us) == Some(0) {
        return Finding::new(
            Severity::Major,
            "there is none: real-time threads of this control group may have no time (cpu.rt_runtime_us is 0)",
        )
        .helped("start the program outside of that group, or have its owner give it some", [])
        .found();
    }
    if facts.has(CAP_SYS_NICE) == Some(true) {
        return Verdict::fine("CAP_SYS_NICE");
    }
    match facts.limits.realtime_priority {
        None => Verdict::untold("/proc/thread-self/limits was not read"),
        Some(0) => Finding::new(Severity::Major, "there is none: RLIMIT_RTPRIO is 0, and CAP_SYS_NICE is missing")
            .helped("give it to one program", ["sudo setcap cap_sys_nice+ep PROGRAM".to_owned()])
            .helped(
                "or to a group: a file in /etc/security/limits.d with the line `@realtime - rtprio 95`, then log in again",
                ["sudo groupadd --system realtime".to_owned(), "sudo usermod --append --groups realtime USER".to_owned()],
            )
            .found(),
        Some(highest) => Verdict::fine(format!("up to priority {}", highest.min(99))),
    }
}

fn right_to_lock(facts: &MachineFacts, _: &Subject) -> Verdict {
    /// What a small program maps, with its libraries and some stacks.
    const ENOUGH: u64 = 64 << 20;
    if facts.has(CAP_IPC_LOCK) == Some(true) {
        return Verdict::fine("CAP_IPC_LOCK");
    }
    match facts.limits.may_lock {
        None => Verdict::untold("/proc/thread-self/limits was not read"),
        Some(u64::MAX) => Verdict::fine("all of it"),
        Some(bytes) if bytes >= ENOUGH => Verdict::fine(format!("{} MiB", bytes >> 20)),
        Some(bytes) => Finding::new(Severity::Minor, format!("{} KiB: mlockall is refused to most programs", bytes >> 10))
            .helped("give the right to one program", ["sudo setcap cap_ipc_lock+ep PROGRAM".to_owned()])
            .helped("or to a group: a file in /etc/security/limits.d with the line `@realtime - memlock unlimited`, then log in again", [])
            .found(),
    }
}
