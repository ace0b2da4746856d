//! Rules about the availability of real-time scheduling, and about the time that the kernel withholds from real-time
//! threads. They do not request real-time scheduling.

use hpt_realtime::{CAP_IPC_LOCK, CAP_SYS_NICE, FAIR_SERVER_SINCE};
use hpt_sys::{
    host::{Architecture, Family, KernelConfiguration, Known},
    settings::{FAIR_SERVER, PREEMPTION, REALTIME, RT_PERIOD, RT_RUNTIME},
};

use super::{Finding, MachineFacts, Relevance, Rule, Severity, Subject, Verdict};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preemption",
        title: "Kernel is not PREEMPT_RT",
        about: "whether the kernel is a real-time kernel (PREEMPT_RT)",
        why: "Without PREEMPT_RT, non-preemptible kernel code delays wake-ups, with no guaranteed maximum: usually by microseconds and sometimes by hundreds of them with full preemption, and by milliseconds where the kernel is preemptible only at explicit points.",
        affects: "threads that need a bound on their wake-up latency",
        references: &[
            "Documentation/core-api/real-time/theory.rst",
            "Documentation/admin-guide/kernel-parameters.txt: preempt",
        ],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: preemption,
    },
    Rule {
        id: "throttling",
        title: "Real-time throttling is on",
        about: "whether the kernel throttles real-time threads (before Linux 6.12, and later with CONFIG_RT_GROUP_SCHED)",
        why: "A real-time thread that never blocks is paused for the rest of each period, usually for 50 ms per second.",
        affects: "SCHED_FIFO and SCHED_RR threads that never block, such as busy-polling threads",
        references: &[
            "Documentation/scheduler/sched-rt-group.rst",
            "sched(7)",
            "systemd's README: CONFIG_RT_GROUP_SCHED",
        ],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: throttling,
    },
    Rule {
        id: "realtime-budget",
        title: "Real-time threads get little CPU time",
        about: "how much of each period all real-time threads of a CPU together may run (sched_rt_runtime_us)",
        why: "When the time is used up, every real-time thread of the CPU is paused for the rest of the period, also one that blocks: audio, time daemons and the threads of the kernel that handle interrupts.",
        affects: "all SCHED_FIFO and SCHED_RR threads",
        references: &["Documentation/scheduler/sched-rt-group.rst", "sched(7)"],
        relevance: Relevance::all(Severity::High),
        judge: budget,
    },
    Rule {
        id: "fair-server",
        title: "Fair server reserves CPU time",
        about: "how much time each CPU reserves for ordinary threads (since Linux 6.12)",
        why: "If ordinary threads wait for the CPU, a real-time thread that never blocks is paused so that they can run, usually for 50 ms per second.",
        affects: "SCHED_FIFO and SCHED_RR threads that never block, on a CPU for which ordinary threads are waiting",
        references: &["sched(7)", "Documentation/scheduler/sched-deadline.rst"],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: fair_server,
    },
    Rule {
        id: "right-to-realtime",
        title: "No permission for real-time scheduling",
        about: "whether this user may use real-time scheduling (RLIMIT_RTPRIO, CAP_SYS_NICE, cpu.rt_runtime_us)",
        why: "An ordinary thread shares its CPU with all other threads, and may wait for milliseconds until it runs.",
        affects: "programs of this user that need SCHED_FIFO or SCHED_RR",
        references: &["sched(7)", "getrlimit(2): RLIMIT_RTPRIO", "limits.conf(5)"],
        relevance: Relevance::NOTE.realtime(Severity::High),
        judge: right_to_realtime,
    },
    Rule {
        id: "right-to-lock-memory",
        title: "Memory lock limit is too low",
        about: "how much memory this user may lock (RLIMIT_MEMLOCK, CAP_IPC_LOCK)",
        why: "A page that is not locked may have to be loaded when it is accessed, which takes milliseconds from a card or disk.",
        affects: "programs of this user that lock their memory",
        references: &["mlockall(2)", "getrlimit(2): RLIMIT_MEMLOCK", "limits.conf(5)"],
        relevance: Relevance::NOTE.realtime(Severity::Low),
        judge: right_to_lock,
    },
];

fn preemption(facts: &MachineFacts, _: &Subject) -> Verdict {
    if let Some(imitator) = &facts.imitator {
        return Verdict::unknown(format!(
            "{imitator} imitates the Linux kernel; the kernel of the host, which runs the threads, is not visible"
        ));
    }
    let version = &facts.kernel_version;
    if facts.number(&REALTIME) == Known::Is(1)
        || version.contains("PREEMPT_RT")
        || version.contains("PREEMPT RT")
        || facts.is_built_with("PREEMPT_RT") == Some(true)
    {
        return Verdict::pass("the kernel is PREEMPT_RT");
    }
    if version.is_empty() {
        return Verdict::unknown("uname reports no version");
    }
    let chosen = facts.value(&PREEMPTION).is().map(String::as_str).or_else(|| facts.parameter(PREEMPTION.boot_name()));
    // `CONFIG_PREEMPT_DYNAMIC` is built with the mode in which it starts.
    let built_with = facts.configuration.as_ref().and_then(KernelConfiguration::preemption);
    let chosen = chosen.or(built_with);
    let dynamic = version.contains("PREEMPT_DYNAMIC");
    let detail = match (dynamic, chosen) {
        (true, Some(mode)) => format!("PREEMPT_DYNAMIC, in mode `{mode}`"),
        (true, None) => {
            "PREEMPT_DYNAMIC; its mode, which was set when the kernel was built, and can be changed at boot, can only be read by root in debugfs"
                .to_owned()
        }
        (false, _) if version.contains("PREEMPT") => "preemptible outside of critical sections (PREEMPT)".to_owned(),
        (false, _) => match built_with {
            Some(mode) => format!("built for the mode `{mode}`: preemptible only at explicit points in its code"),
            None => "preemptible only at explicit points in its code (PREEMPT_NONE or PREEMPT_VOLUNTARY)".to_owned(),
        },
    };
    // Only with full preemption does the kernel yield to a real-time thread while it runs ordinary code.
    let is_full = matches!(chosen, Some("full" | "lazy")) || (!dynamic && version.contains("PREEMPT"));
    let yields_late = !is_full && (chosen.is_some() || !dynamic);
    let mut finding = Finding::new(if yields_late { Severity::High } else { Severity::Low }, detail);
    finding = with_a_real_time_kernel(facts, finding);
    if dynamic && chosen != Some(PREEMPTION.better) {
        let (text, commands) = facts.at_boot(PREEMPTION.boot);
        finding = finding.steps(format!("Get part of the improvement with the current kernel. {text}"), commands);
    }
    finding.problem()
}

/// Adds the way to a real-time kernel that can work on this machine.
fn with_a_real_time_kernel(facts: &MachineFacts, finding: Finding) -> Finding {
    let then_reboot = "Install a real-time kernel, then reboot";
    let system = facts.situation.system.as_ref();
    if facts.is_a_container() {
        return finding.fix("Install a real-time kernel on the host of this container", []);
    }
    if system.is_some_and(|system| !system.has_kernel) {
        return finding.fix(
            "Have the host, or whatever starts this machine, start a real-time kernel: this system has no files of its kernel",
            [],
        );
    }
    let debians = match facts.architecture {
        Architecture::X86_64 => Some("linux-image-rt-amd64"),
        Architecture::Aarch64 => Some("linux-image-rt-arm64"),
        Architecture::Arm => Some("linux-image-rt-armmp"),
        Architecture::X86 => Some("linux-image-rt-686-pae"),
        Architecture::Riscv64 | Architecture::Other => None,
    };
    match (facts.family(), debians) {
        (Some(Family::Debian), _) if facts.is_a_raspberry_pi => finding.steps(
            "Install a real-time kernel if your distribution has one; otherwise build one with CONFIG_PREEMPT_RT",
            ["apt-cache search --names-only 'linux-image.*-rt'".to_owned()],
        ),
        (Some(Family::Debian), Some(package)) => finding.steps(then_reboot, [Family::Debian.install(package)]),
        (Some(Family::Ubuntu), _) => finding.steps(
            "Install the real-time kernel of Ubuntu Pro, which needs a subscription, then reboot",
            ["sudo pro enable realtime-kernel".to_owned()],
        ),
        (Some(Family::Suse), _) => finding.steps(then_reboot, [Family::Suse.install("kernel-rt")]),
        (Some(Family::Arch), _) => finding.steps(
            "Install a real-time kernel, add it to the boot loader, then reboot",
            [Family::Arch.install("linux-rt")],
        ),
        _ => finding.fix(
            "Install a real-time kernel if your distribution has one; otherwise build one with CONFIG_PREEMPT_RT, if this architecture supports it",
            [],
        ),
    }
}

fn throttling(facts: &MachineFacts, _: &Subject) -> Verdict {
    let (Known::Is(runtime), Known::Is(period)) = (facts.number(&RT_RUNTIME), facts.number(&RT_PERIOD)) else {
        return match facts.kernel {
            Some(kernel) if kernel >= FAIR_SERVER_SINCE => {
                Verdict::not_applicable("this kernel does not throttle real-time threads")
            }
            _ => Verdict::without(facts.value(&RT_RUNTIME), RT_RUNTIME.path),
        };
    };
    if !(0..period).contains(&runtime) {
        return Verdict::pass("off");
    }
    // Kernels with CONFIG_RT_GROUP_SCHED, where control groups have their own real-time quotas, still throttle
    // real-time threads: Linux 6.12, kernel/sched/rt.c.
    let groups = facts.situation.control_groups.as_ref();
    let built_for_groups = facts.is_built_with("RT_GROUP_SCHED").map(|is_set| is_set && !are_groups_off(facts));
    let by_groups = groups.is_some_and(|groups| groups.realtime_us.is_some()) || built_for_groups == Some(true);
    if !by_groups && facts.kernel.is_some_and(|kernel| kernel >= FAIR_SERVER_SINCE) {
        let observed =
            format!("sched_rt_runtime_us is {runtime}, which limits only SCHED_DEADLINE threads in this kernel");
        // Version 2 of control groups has no file for this quota, so a missing file proves nothing.
        return if built_for_groups == Some(false) || groups.is_some_and(|groups| groups.are_of_version_1) {
            Verdict::not_applicable(format!("{observed}: see fair-server"))
        } else {
            // systemd's README advises against this option, because the kernel then refuses real-time policies to
            // threads in a control group of version 2.
            Verdict::unknown_and_unlikely(format!(
                "{observed}, unless the kernel was built with CONFIG_RT_GROUP_SCHED, which is rare and not visible here; see fair-server for the time that each CPU reserves"
            ))
        };
    }
    let finding =
        Finding::new(Severity::High, format!("allowed: {} ms of every {} ms", millis(runtime), millis(period)));
    let finding = if facts.kernel.is_some() { finding } else { finding.uncertain() };
    finding
        .fix("Let hpt disable throttling while your program runs", ["sudo hpt run --fifo 80 --no-throttling -- PROGRAM".to_owned()])
        .fix(
            "If ordinary threads need not run on the CPU of a real-time thread that never blocks, disable throttling until reboot, or permanently in a file in /etc/sysctl.d",
            [RT_RUNTIME.command()],
        )
        .problem()
}

/// Returns whether a kernel that supports real-time quotas of control groups does not use them. Linux 6.16,
/// kernel/sched/core.c, `rt_group_sched`.
fn are_groups_off(facts: &MachineFacts) -> bool {
    match facts.parameter("rt_group_sched") {
        Some(value) => value == "0",
        None => facts.is_built_with("RT_GROUP_SCHED_DEFAULT_DISABLED") == Some(true),
    }
}

/// Returns microseconds as milliseconds.
fn millis(us: i64) -> String {
    let (whole, thousandths) = (us / 1000, us % 1000);
    if thousandths == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{thousandths:03}").trim_end_matches('0').to_owned()
    }
}

fn budget(facts: &MachineFacts, subject: &Subject) -> Verdict {
    let Verdict::Problem(finding) = throttling(facts, subject) else {
        return Verdict::not_applicable("the kernel does not throttle real-time threads: see throttling");
    };
    let (Known::Is(runtime), Known::Is(period)) = (facts.number(&RT_RUNTIME), facts.number(&RT_PERIOD)) else {
        return Verdict::without(facts.value(&RT_RUNTIME), RT_RUNTIME.path);
    };
    // By default, 5 % is left to ordinary threads, which only a thread that never blocks notices.
    if runtime.saturating_mul(100) >= period.saturating_mul(95) {
        return Verdict::pass(finding.observed);
    }
    let paused = millis(period - runtime);
    Finding::new(Severity::High, format!("{}: all of them together are paused for up to {paused} ms", finding.observed))
        .fix(
            "Restore the default, 950 ms of every second, until reboot",
            ["sudo sysctl -w kernel.sched_rt_period_us=1000000 kernel.sched_rt_runtime_us=950000".to_owned()],
        )
        .steps(
            "Find the file that sets it",
            ["grep -r sched_rt_ /etc/sysctl.conf /etc/sysctl.d /usr/lib/sysctl.d".to_owned()],
        )
        .problem()
}

fn fair_server(facts: &MachineFacts, subject: &Subject) -> Verdict {
    if facts.kernel.is_some_and(|kernel| kernel < FAIR_SERVER_SINCE) {
        return Verdict::not_applicable("this kernel has no fair server: see throttling");
    }
    let servers = || facts.fair_servers.iter().filter(|(cpu, _)| subject.all.contains(**cpu));
    let command = match subject.named {
        Some(cpu) => FAIR_SERVER.command_for(&[cpu], FAIR_SERVER.better),
        // Only root can see which files exist.
        None => {
            let files = FAIR_SERVER.path_of(&["*"]);
            format!("sudo sh -c 'for file in {files}; do echo {} >$file; done'", FAIR_SERVER.better)
        }
    };
    let keep_off =
        "Keep ordinary threads off the CPU; the fair server takes time only while an ordinary thread is waiting";
    let off = |finding: Finding, before: Option<&str>| {
        let after = |command: String| before.map(str::to_owned).into_iter().chain([command]);
        finding
            .fix(
                "Let hpt disable the fair server while your program runs",
                after("sudo hpt run --fifo 80 --no-throttling -- PROGRAM".to_owned()),
            )
            .fix(
                "If ordinary threads need not run on the CPU of a real-time thread that never blocks, disable the fair server until reboot",
                after(command),
            )
            .fix(keep_off, [])
            .problem()
    };
    let known: Vec<i64> = servers().filter_map(|(_, known)| known.is().copied()).collect();
    if known.is_empty() {
        if facts.kernel.is_none() {
            return Verdict::unknown(
                "the release of the kernel is not known, and nothing else shows whether there is a fair server",
            );
        }
        let refused = servers().any(|(_, known)| *known == Known::NotAllowed);
        let (why, mount) = match (refused, facts.is_root()) {
            (true, true) => ("the kernel is locked down, so the reserved time can be neither read nor changed", None),
            (true, false) => ("only root can read the reserved time", None),
            (false, _) => (
                "debugfs, which shows the reserved time, is not mounted",
                Some("sudo mount -t debugfs none /sys/kernel/debug"),
            ),
        };
        let observed = format!("50 ms of every second by default; this kernel has a fair server, but {why}");
        let finding = Finding::new(Severity::High, observed).uncertain();
        // If the setting cannot be changed, only the fix without commands applies.
        return if refused && facts.is_root() { finding.fix(keep_off, []).problem() } else { off(finding, mount) };
    }
    let most = known.into_iter().max().unwrap_or(0);
    if most == 0 {
        return Verdict::pass("no time is reserved for ordinary threads");
    }
    off(Finding::new(Severity::High, format!("{} ms of every period for ordinary threads", most / 1_000_000)), None)
}

fn right_to_realtime(facts: &MachineFacts, _: &Subject) -> Verdict {
    if facts.situation.control_groups.as_ref().and_then(|groups| groups.realtime_us) == Some(0) {
        return Finding::new(
            Severity::High,
            "real-time threads of this control group get no CPU time (cpu.rt_runtime_us is 0)",
        )
        .fix("Start the program outside that group, or ask the owner of the group to assign CPU time to it", [])
        .problem();
    }
    if facts.has(CAP_SYS_NICE) == Some(true) {
        return Verdict::pass("this process has CAP_SYS_NICE");
    }
    match facts.limits.realtime_priority {
        None => Verdict::unknown("/proc/thread-self/limits was not read"),
        Some(0) => Finding::new(Severity::High, "RLIMIT_RTPRIO is 0, and CAP_SYS_NICE is missing")
            .fix("Grant the permission to one program", ["sudo setcap cap_sys_nice+ep PROGRAM".to_owned()])
            .steps(
                "To grant the permission to a group, add the line `@realtime - rtprio 95` to /etc/security/limits.d/realtime.conf, run these commands, and log in again",
                ["sudo groupadd --system realtime".to_owned(), "sudo usermod --append --groups realtime USER".to_owned()],
            )
            .problem(),
        Some(highest) => Verdict::pass(format!("this user may use real-time priorities up to {}", highest.min(99))),
    }
}

fn right_to_lock(facts: &MachineFacts, _: &Subject) -> Verdict {
    /// The amount of memory that a small program maps, including its libraries and some stacks.
    const ENOUGH: u64 = 64 << 20;
    if facts.has(CAP_IPC_LOCK) == Some(true) {
        return Verdict::pass("this process has CAP_IPC_LOCK");
    }
    match facts.limits.may_lock {
        None => Verdict::unknown("/proc/thread-self/limits was not read"),
        Some(u64::MAX) => Verdict::pass("all memory may be locked"),
        Some(bytes) if bytes >= ENOUGH => Verdict::pass(format!("{} MiB may be locked", bytes >> 20)),
        Some(bytes) => Finding::new(Severity::Low, format!("only {} KiB may be locked: mlockall fails for most programs", bytes >> 10))
            .fix("Grant the permission to one program", ["sudo setcap cap_ipc_lock+ep PROGRAM".to_owned()])
            .fix(
                "To grant the permission to a group, add the line `@realtime - memlock unlimited` to /etc/security/limits.d/realtime.conf, and log in again",
                [],
            )
            .problem(),
    }
}
