//! The CPUs that a program can use, and the CPU that suits a time-critical thread if the user names none.

use std::fmt;

use hpt_sys::host::{CpuList, Host};

use super::allowed_cpus;

/// A CPU for a time-critical thread, and the reason why it was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChosenCpu {
    /// The number of the CPU.
    pub cpu: usize,
    /// The reason.
    pub reason: ChoiceReason,
}

/// The reason why [`choose_cpu`] chose a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChoiceReason {
    /// It has the highest number. Interrupts and kernel work concentrate on the lowest CPUs.
    Highest,
    /// It has the highest number among the performance cores of a hybrid processor.
    PerformanceCore,
    /// It is isolated, and no real-time thread of another program may run on it.
    Isolated,
    /// It is the first CPU that is not isolated: a real-time thread of another program may run on each isolated CPU.
    IsolatedAreInUse,
    /// It is the first CPU that is not isolated: some processes are hidden, and may run on the isolated CPUs.
    IsolatedMayBeInUse,
}

impl fmt::Display for ChosenCpu {
    /// Formats a sentence without a full stop: `CPU 3 was chosen because it has the highest number`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = match self.reason {
            ChoiceReason::Highest => "it has the highest number",
            ChoiceReason::PerformanceCore => "it has the highest number among the performance cores",
            ChoiceReason::Isolated => {
                "isolcpus, nohz_full or a cpuset partition reserves it, and no real-time thread of another program may run on it"
            }
            ChoiceReason::IsolatedAreInUse => {
                "it is the first CPU that is not reserved (isolcpus, nohz_full); a real-time thread of another program may run on each reserved CPU"
            }
            ChoiceReason::IsolatedMayBeInUse => {
                "it is the first CPU that is not reserved (isolcpus, nohz_full); some processes are hidden, so real-time threads of other programs may run on the reserved CPUs"
            }
        };
        write!(f, "CPU {} was chosen because {because}", self.cpu)
    }
}

/// Returns the CPUs that the calling thread can use, in ascending order.
///
/// The kernel starts programs without the isolated CPUs (`isolcpus`) in their affinity, although they can be pinned
/// there. If the affinity lacks no other CPU that is online and in the cpuset, this function adds the isolated CPUs.
/// Otherwise, the affinity was restricted, for example with `taskset`, and this function returns it unchanged.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
/// use hpt_realtime::{allowed_cpus, usable_cpus};
///
/// let usable = usable_cpus(&Host::live());
/// assert!(allowed_cpus().iter().all(|cpu| usable.contains(cpu)));
/// ```
#[must_use]
pub fn usable_cpus(host: &Host) -> Vec<usize> {
    let affinity: CpuList = allowed_cpus().into_iter().collect();
    let Some(online) = host.online_cpus().filter(|_| host.is_live()) else { return affinity.iter().collect() };
    let cpuset = host.cpusets().into_iter().next().map(|(_, cpus)| cpus);
    let available = cpuset.map_or_else(|| online.clone(), |cpuset| cpuset.and(&online));
    usable(&affinity, &available, &host.reserved_cpus()).iter().collect()
}

fn usable(affinity: &CpuList, available: &CpuList, reserved: &CpuList) -> CpuList {
    let is_restricted = !available.without(reserved).without(affinity).is_empty();
    if is_restricted { affinity.clone() } else { affinity.or(available) }
}

/// Chooses the CPU for a time-critical thread among the [usable CPUs](usable_cpus); `None` if the kernel lists none.
///
/// If CPUs are isolated (`isolcpus`, `nohz_full`, or a partition of a control group), chooses the highest-numbered
/// isolated CPU on which no real-time thread of another program may run, and otherwise the first CPU that is not
/// isolated. If no CPU is isolated, chooses the highest-numbered one. On hybrid processors, performance cores take
/// precedence over other CPUs.
///
/// # Examples
///
/// ```
/// use hpt_core::Host;
/// use hpt_realtime::{Setup, choose_cpu};
///
/// let mut setup = Setup::blocking();
/// if let Some(chosen) = choose_cpu(&Host::live()) {
///     println!("{chosen}");
///     setup = setup.with_cpu(chosen.cpu);
/// }
/// # assert!(!setup.changes_the_machine());
/// ```
#[must_use]
pub fn choose_cpu(host: &Host) -> Option<ChosenCpu> {
    let usable: CpuList = usable_cpus(host).into_iter().collect();
    let reserved = host.reserved_cpus().and(&usable);
    let in_use = if reserved.is_empty() { None } else { host.cpus_of_realtime_programs() };
    choose(&usable, &reserved, in_use.as_ref(), host.performance_cpus().as_ref())
}

/// Chooses among the `usable` CPUs. `in_use` contains the CPUs on which real-time threads of other programs may run;
/// `None` if it is unknown.
fn choose(
    usable: &CpuList,
    reserved: &CpuList,
    in_use: Option<&CpuList>,
    performance: Option<&CpuList>,
) -> Option<ChosenCpu> {
    let faster = |cpus: &CpuList| match performance.map(|performance| performance.and(cpus)) {
        Some(fast) if !fast.is_empty() => fast,
        _ => cpus.clone(),
    };
    let chosen = |cpu, reason| Some(ChosenCpu { cpu, reason });
    let housekeeping = usable.without(reserved);
    if reserved.is_empty() || housekeeping.is_empty() {
        let fast = faster(usable);
        let reason = if fast == *usable { ChoiceReason::Highest } else { ChoiceReason::PerformanceCore };
        return chosen(fast.iter().next_back()?, reason);
    }
    match in_use.map(|in_use| reserved.without(in_use)) {
        Some(free) if !free.is_empty() => chosen(faster(&free).iter().next_back()?, ChoiceReason::Isolated),
        Some(_) => chosen(faster(&housekeeping).iter().next()?, ChoiceReason::IsolatedAreInUse),
        None => chosen(faster(&housekeeping).iter().next()?, ChoiceReason::IsolatedMayBeInUse),
    }
}

#[cfg(test)]
mod tests {
    use super::{ChoiceReason, choose, choose_cpu, usable, usable_cpus};
    use hpt_sys::host::{CpuList, Host};

    fn cpus(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    /// Returns the number and the reason that are chosen among these lists: usable, reserved, in use, performance.
    fn chosen(lists: [&str; 2], in_use: Option<&str>, performance: Option<&str>) -> (usize, ChoiceReason) {
        let [usable, reserved] = lists.map(cpus);
        let chosen = choose(&usable, &reserved, in_use.map(cpus).as_ref(), performance.map(cpus).as_ref());
        chosen.map(|chosen| (chosen.cpu, chosen.reason)).expect("a CPU")
    }

    #[test]
    fn isolated_cpus_are_usable_unless_the_affinity_was_restricted() {
        let of = |affinity, available, reserved| usable(&cpus(affinity), &cpus(available), &cpus(reserved)).to_string();
        assert_eq!(of("0-2", "0-3", "3"), "0-3", "as the kernel starts a program with isolcpus=3");
        assert_eq!(of("0-3", "0-3", "3"), "0-3", "nohz_full without isolcpus");
        assert_eq!(of("0", "0-3", "3"), "0", "taskset -c 0");
        assert_eq!(of("3", "0-3", "3"), "3", "taskset -c 3");
        assert_eq!(of("0-3", "0-3", ""), "0-3");
        assert_eq!(of("0", "0-1", ""), "0", "taskset -c 0 without isolated CPUs");
        assert_eq!(of("0-1", "0-1", "3"), "0-1", "a cpuset without the isolated CPU");
        assert_eq!(of("0-1", "", ""), "0-1", "a cpuset whose list cannot be interpreted");
    }

    #[test]
    fn the_highest_cpu_is_chosen_if_none_is_isolated() {
        assert_eq!(chosen(["0-3", ""], None, None), (3, ChoiceReason::Highest));
        assert_eq!(chosen(["3", "3"], Some("3"), None), (3, ChoiceReason::Highest), "taskset -c 3");
        assert_eq!(choose(&cpus(""), &cpus(""), None, None), None);
    }

    #[test]
    fn an_isolated_cpu_is_chosen_only_if_no_realtime_thread_may_run_there() {
        assert_eq!(chosen(["0-3", "2-3"], Some(""), None), (3, ChoiceReason::Isolated));
        assert_eq!(chosen(["0-3", "2-3"], Some("0,3"), None), (2, ChoiceReason::Isolated));
        assert_eq!(chosen(["0-3", "2-3"], Some("2-3"), None), (0, ChoiceReason::IsolatedAreInUse));
        assert_eq!(chosen(["1-3", "2-3"], None, None), (1, ChoiceReason::IsolatedMayBeInUse));
    }

    #[test]
    fn performance_cores_come_before_efficient_ones() {
        assert_eq!(chosen(["0-7", ""], None, Some("0-3")), (3, ChoiceReason::PerformanceCore));
        assert_eq!(chosen(["0-7", "2,6"], Some(""), Some("0-3")), (2, ChoiceReason::Isolated));
        assert_eq!(chosen(["0-7", "6-7"], Some(""), Some("0-3")), (7, ChoiceReason::Isolated), "only efficient ones");
        assert_eq!(chosen(["0-7", "7"], Some("7"), Some("4-7")), (4, ChoiceReason::IsolatedAreInUse));
        assert_eq!(chosen(["4-7", ""], None, Some("0-3")), (7, ChoiceReason::Highest), "the mask excludes them");
    }

    #[test]
    fn the_chosen_cpu_of_this_machine_is_usable() {
        let (chosen, usable) = (choose_cpu(&Host::live()), usable_cpus(&Host::live()));
        assert!(chosen.is_some_and(|chosen| usable.contains(&chosen.cpu)), "{chosen:?} of {usable:?}");
    }
}
