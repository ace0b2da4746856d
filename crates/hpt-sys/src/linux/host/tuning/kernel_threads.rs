//! The kernel's own threads: their affinity and scheduling policy. Threads of programs are not included.

use super::{CpuList, Host};

/// A kernel thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KernelThread {
    /// Its name or, in a capture, the name of its family.
    pub name: String,
    /// The CPUs on which it may run, in the kernel's list notation.
    pub cpus: String,
    /// Its scheduling policy. sched(7).
    pub policy: u32,
    /// Its real-time priority; 0 if it has none.
    pub priority: u32,
}

/// Linux, include/linux/sched.h, PF_KTHREAD.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Host {
    /// Returns the kernel's threads as /proc shows them; `None` if /proc shows no such thread, for example in a
    /// container.
    pub(super) fn look_at_kernel_threads(&self) -> Option<Vec<KernelThread>> {
        let processes = self.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let threads: Vec<KernelThread> = processes.filter_map(|number| self.kernel_thread(&number)).collect();
        (!threads.is_empty()).then_some(threads)
    }

    /// Returns the CPUs on which a real-time thread of a program may run: a thread of another process than this one,
    /// under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE. Returns `None` if some processes are hidden.
    pub fn cpus_of_realtime_programs(&self) -> Option<CpuList> {
        let own = std::process::id().to_string();
        let numbers = self.list("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let (mut sees_the_kernel, mut cpus) = (false, CpuList::default());
        for number in numbers.filter(|number| *number != own) {
            if self.kernel_thread(&number).is_some() {
                sees_the_kernel = true;
                continue;
            }
            for thread in self.list(&format!("/proc/{number}/task")) {
                let folder = format!("/proc/{number}/task/{thread}");
                // A thread may end at any time.
                let Some(stat) = self.text(&format!("{folder}/stat")) else { continue };
                if !REALTIME.contains(&fields(&stat).map_or(0, |(_, field)| field(41).unwrap_or(0))) {
                    continue;
                }
                let status = self.text(&format!("{folder}/status")).unwrap_or_default();
                cpus = cpus.or(&allowed(&status).and_then(CpuList::parse).unwrap_or_default());
            }
        }
        sees_the_kernel.then_some(cpus)
    }

    fn kernel_thread(&self, number: &str) -> Option<KernelThread> {
        let (name, policy, priority) = of_the_kernel(&self.text(&format!("/proc/{number}/stat"))?)?;
        let status = self.text(&format!("/proc/{number}/status"))?;
        let cpus = allowed(&status)?.to_owned();
        Some(KernelThread { name, cpus, policy, priority })
    }
}

impl KernelThread {
    /// Returns the CPUs on which the thread may run; the list is empty if it cannot be interpreted.
    pub fn may_run_on(&self) -> CpuList {
        CpuList::parse(&self.cpus).unwrap_or_default()
    }

    /// Returns the CPU whose offloaded RCU callbacks this thread executes, for example 3 for `rcuop/3` and `rcuos/3`.
    /// Returns `None` for other threads, including `rcuog/0`, which only wakes the threads of its group. Linux,
    /// kernel/rcu/tree_nocb.h, rcu_spawn_cpu_nocb_kthread.
    pub fn frees_for(&self) -> Option<usize> {
        let (flavor, cpu) = self.name.strip_prefix("rcuo")?.split_once('/')?;
        (flavor != "g").then(|| cpu.parse().ok()).flatten()
    }

    /// Returns the thread in the form that may leave the machine. The name of its family replaces its own name, which
    /// may contain the name of a device, a file system or a network.
    #[must_use]
    pub fn without_what_is_private(mut self) -> Self {
        self.name = family(&self.name);
        self.cpus = self.may_run_on().to_string();
        self
    }
}

/// The policies SCHED_FIFO, SCHED_RR and SCHED_DEADLINE. sched(7).
const REALTIME: [u64; 3] = [1, 2, 6];

/// Returns the CPUs on which a thread may run, from its file `status`. proc_pid_status(5).
fn allowed(status: &str) -> Option<&str> {
    Some(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim())
}

/// Returns the name of a thread, and its numeric fields by their number in proc_pid_stat(5).
fn fields(stat: &str) -> Option<(&str, impl Fn(usize) -> Option<u64>)> {
    let (head, fields) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // The first field after the name is field 3.
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some((name, move |number: usize| fields.get(number - 3)?.parse::<u64>().ok()))
}

/// Returns the name, policy and priority of a process if it is a kernel thread. proc_pid_stat(5): flags is field 9,
/// rt_priority 40, policy 41.
fn of_the_kernel(stat: &str) -> Option<(String, u32, u32)> {
    let (name, field) = fields(stat)?;
    if field(9)? & KERNEL_THREAD == 0 {
        return None;
    }
    Some((name.to_owned(), u32::try_from(field(41)?).ok()?, u32::try_from(field(40)?).ok()?))
}

/// Prefixes of the names of kernel threads that any machine may have.
const FAMILIES: [&str; 38] = [
    "kthreadd",
    "kworker",
    "pool_workqueue",
    "ksoftirqd",
    "migration",
    "cpuhp",
    "rcu_preempt",
    "rcu_sched",
    "rcu_tasks",
    "rcu_gp",
    "rcu_exp",
    "rcuc",
    "rcub",
    "rcuo",
    "rcuop",
    "rcuog",
    "rcuos",
    "idle_inject",
    "ktimers",
    "irq_work",
    "irq",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "ksmd",
    "kdevtmpfs",
    "khungtaskd",
    "oom_reaper",
    "kauditd",
    "watchdogd",
    "jbd2",
    "mmcqd",
    "scsi_eh",
    "nvme",
    "sugov",
    "psimon",
    "writeback",
    "hwrng",
];

fn family(name: &str) -> String {
    let known = FAMILIES.iter().filter(|family| name.starts_with(**family)).max_by_key(|family| family.len());
    known.map_or_else(
        || "other".to_owned(),
        |family| {
            let rest = &name[family.len()..];
            let number: String =
                rest.chars().take_while(|letter| letter.is_ascii_digit() || "/:uH".contains(*letter)).collect();
            // For example, in jbd2/sda1 the slash is followed by a device, not by a number.
            let number = if number == "/" { "" } else { number.trim_end_matches([':', '/']) };
            format!("{family}{number}")
        },
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{KernelThread, family, of_the_kernel};

    #[test]
    fn kernel_threads_are_distinguished_from_processes() {
        let kthreadd = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 2 0 0 20 0 1 0 25 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
        assert_eq!(of_the_kernel(kthreadd), Some(("kthreadd".to_owned(), 0, 0)));
        let migration = kthreadd
            .replace("(kthreadd)", "(a (b) c)")
            .replace(" 2147483647 0 1 0 0 0 0 0 0 ", " 2147483647 0 1 0 0 0 0 99 1 ");
        assert_eq!(of_the_kernel(&migration), Some(("a (b) c".to_owned(), 1, 99)));
        assert_eq!(of_the_kernel(&kthreadd.replace("2129984", "4194560")), None);
        assert_eq!(of_the_kernel(""), None);
    }

    #[test]
    fn a_capture_contains_thread_families_and_cpu_numbers() {
        for (name, kept) in [
            ("kworker/u8:2-events_unbound", "kworker/u8:2"),
            ("kworker/3:1H-kblockd", "kworker/3:1H"),
            ("ksoftirqd/3", "ksoftirqd/3"),
            ("irq/45-mmc0", "irq/45"),
            ("jbd2/alice-8", "jbd2"),
            ("kswapd0", "kswapd0"),
            ("wg-crypt-alice", "other"),
        ] {
            assert_eq!(family(name), kept);
        }
    }

    #[test]
    fn rcu_callback_threads_are_recognized_by_name_even_in_a_capture() {
        for (name, cpu) in [
            ("rcuop/3", Some(3)),
            ("rcuos/12", Some(12)),
            ("rcuog/0", None),
            ("rcuop", None),
            ("rcuop/x", None),
            ("rcuc/3", None),
        ] {
            let thread = KernelThread { name: name.to_owned(), cpus: "0-2".to_owned(), policy: 0, priority: 0 };
            assert_eq!(thread.frees_for(), cpu, "{name}");
            assert_eq!(thread.without_what_is_private().frees_for(), cpu, "{name} in a capture");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>(), name in any::<String>()) {
            let _ = (of_the_kernel(&text), of_the_kernel(&format!("1 ({name}) S {text}")), family(&name));
        }
    }
}
