//! What control groups leave of the CPUs to whoever looks: a part of their time, and some of them.
//! Their names stay here: a capture has the numbers alone. Changes nothing.

use super::{CpuList, Host};

/// What the group that leaves least, of those that whoever looks is in, leaves to the ordinary threads in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CpuQuota {
    /// The time that all of them together may have, in microseconds.
    pub quota_us: u64,
    /// Of which.
    pub period_us: u64,
    /// How often that was used up, and they stopped; `None` where the kernel does not tell.
    pub used_up: Option<u64>,
}

/// What control groups tell whoever looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct ControlGroups {
    /// Whether some group tells of the CPUs' time at all.
    pub tell_of_time: bool,
    /// What is left of it, where that is not all.
    pub quota: Option<CpuQuota>,
    /// Whether a group of version 1 tells of the CPUs' time: one of them tells of real-time threads as well, where the kernel has groups for those.
    pub are_of_version_1: bool,
    /// How much of each period the real-time threads of its own group may have, in microseconds, in version 1; `None` where no group tells.
    pub realtime_us: Option<i64>,
    /// The CPUs that are left, as the kernel lists them; `None` where no group tells.
    pub cpus: Option<String>,
}

/// The groups of whoever looks. cgroups(7).
const GROUPS: &str = "/proc/thread-self/cgroup";
/// Where they are: the one tree of version 2, or one tree for each controller of version 1. Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
const TREES: &str = "/sys/fs/cgroup";
/// No path of groups is deeper; a longer one is cut off.
const DEEPEST: usize = 64;

impl Host {
    /// `None` where nobody tells which groups whoever looks is in.
    pub(super) fn look_at_control_groups(&self) -> Option<ControlGroups> {
        let groups = self.text(GROUPS)?;
        let mut told = ControlGroups::default();
        for folder in folders(&groups, "cpu") {
            let number = |name: &str| self.text(&format!("{folder}/{name}"));
            let (quota, tells) = match (number("cpu.max"), number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")) {
                (Some(text), ..) => (of_version_2(&text), true),
                (None, Some(quota), Some(period)) => (pair(&quota, &period), true),
                _ => (None, false),
            };
            told.tell_of_time |= tells;
            // Version 2 calls it cpu.weight.
            told.are_of_version_1 |= number("cpu.shares").is_some();
            told.realtime_us = told.realtime_us.or_else(|| number("cpu.rt_runtime_us")?.trim().parse().ok());
            if let Some((quota_us, period_us)) = quota {
                let used_up = number("cpu.stat").and_then(|text| used_up(&text));
                let new = CpuQuota { quota_us, period_us, used_up };
                told.quota = Some(told.quota.filter(|old| leaves_no_more(*old, new)).unwrap_or(new));
            }
        }
        // The nearest group that tells: it has what those above it leave.
        let names = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
        let mut lists = folders(&groups, "cpuset").flat_map(|folder| names.map(|name| format!("{folder}/{name}")));
        told.cpus =
            lists.find_map(|path| self.text(&path)).map(|text| CpuList::parse(&text).unwrap_or_default().to_string());
        Some(told)
    }
}

/// Whether the first leaves the same part of the time, or less.
fn leaves_no_more(one: CpuQuota, other: CpuQuota) -> bool {
    u128::from(one.quota_us) * u128::from(other.period_us) <= u128::from(other.quota_us) * u128::from(one.period_us)
}

/// The folders of the groups that may tell of a controller's, the innermost first, up to the root of each tree. In a container the root is the container's own
/// group, and what is above it is not there.
fn folders(groups: &str, controller: &str) -> impl Iterator<Item = String> {
    let trees = groups.lines().filter_map(move |line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        if controllers.is_empty() {
            // Beside trees of version 1 the one of version 2 is called so.
            Some((vec![TREES.to_owned(), format!("{TREES}/unified")], path.to_owned()))
        } else {
            let is_it = controllers.split(',').any(|name| name == controller);
            is_it.then(|| (vec![format!("{TREES}/{controllers}"), format!("{TREES}/{controller}")], path.to_owned()))
        }
    });
    let folders: Vec<String> = trees
        .flat_map(|(roots, path)| {
            let parts: Vec<&str> =
                path.split('/').filter(|part| !part.is_empty() && *part != "..").take(DEEPEST).collect();
            let paths: Vec<String> = (0..=parts.len()).rev().map(|kept| parts[..kept].join("/")).collect();
            roots.into_iter().flat_map(move |root| {
                paths.clone().into_iter().map(
                    move |path| {
                        if path.is_empty() { root.clone() } else { format!("{root}/{path}") }
                    },
                )
            })
        })
        .collect();
    folders.into_iter()
}

/// `50000 100000`, or `max 100000`, which is all.
fn of_version_2(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    pair(quota, period)
}

/// In version 1 -1 is all.
fn pair(quota: &str, period: &str) -> Option<(u64, u64)> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (period > 0).then_some((quota, period))
}

/// Both versions call it so.
fn used_up(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::{any, proptest};

    use super::{ControlGroups, CpuQuota, folders, of_version_2, pair, used_up};
    use crate::host::{Facts, Host};

    fn look(files: &[(&str, &str)]) -> Option<ControlGroups> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
            fs::write(path, content).expect("ours");
        }
        Host::below(folder.path(), Facts::live()).look_at_control_groups()
    }

    #[test]
    fn the_group_that_leaves_least_counts() {
        let told = look(&[
            ("proc/thread-self/cgroup", "0::/user.slice/user-1000.slice\n"),
            ("sys/fs/cgroup/user.slice/user-1000.slice/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/user.slice/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 7\n"),
            ("sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-2\n"),
            ("sys/fs/cgroup/cpuset.cpus.effective", "0-3\n"),
        ]);
        let quota = CpuQuota { quota_us: 50_000, period_us: 100_000, used_up: Some(7) };
        assert_eq!(
            told,
            Some(ControlGroups {
                tell_of_time: true,
                quota: Some(quota),
                are_of_version_1: false,
                realtime_us: None,
                cpus: Some("0-2".to_owned())
            })
        );
    }

    #[test]
    fn trees_of_version_1_and_the_root_of_a_container_tell_as_well() {
        let told = look(&[
            ("proc/thread-self/cgroup", "4:cpu,cpuacct:/box/inner\n3:cpuset:/docker/0123\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "20000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "10000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.rt_runtime_us", "0\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.shares", "1024\n"),
            // What /proc calls it is not to be seen in a container.
            ("sys/fs/cgroup/cpuset/cpuset.effective_cpus", "1\n"),
        ]);
        let quota = CpuQuota { quota_us: 20_000, period_us: 10_000, used_up: None };
        assert_eq!(
            told,
            Some(ControlGroups {
                tell_of_time: true,
                quota: Some(quota),
                are_of_version_1: true,
                realtime_us: Some(0),
                cpus: Some("1".to_owned())
            })
        );
        assert_eq!(look(&[("proc/thread-self/cgroup", "0::/\n")]), Some(ControlGroups::default()));
        assert_eq!(look(&[]), None);
    }

    #[test]
    fn a_path_of_groups_leads_nowhere_else() {
        assert!(
            folders("0::/../../etc/x\n", "cpu")
                .all(|folder| folder.starts_with("/sys/fs/cgroup") && !folder.contains(".."))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in any::<String>(), other in any::<String>()) {
            let _ = (folders(&text, "cpu").count(), of_version_2(&text), pair(&text, &other), used_up(&text));
        }
    }
}
