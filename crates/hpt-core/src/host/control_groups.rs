//! The CPU time and the CPUs that control groups allow the current process to use. The names of groups are not stored,
//! so a capture contains only numbers. This module changes nothing.

use super::{CpuList, Host};

/// The CPU quota for ordinary threads: the most restrictive quota among the control groups of the current process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CpuQuota {
    /// The time that all threads of the group together may use in each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds.
    pub period_us: u64,
    /// The number of times that the threads were throttled because the quota was used up; `None` if the kernel does not
    /// report it.
    pub used_up: Option<u64>,
}

/// The limits and counts that the control groups of the current process report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct ControlGroups {
    /// Whether any group reports its CPU quota or the absence of one.
    pub tell_of_time: bool,
    /// The quota, if there is one.
    pub quota: Option<CpuQuota>,
    /// Whether a version 1 group controls CPU time. Such a group also reports a real-time quota if the kernel
    /// supports real-time quotas.
    pub are_of_version_1: bool,
    /// The time that the real-time threads of the process's own group may use in each period, in microseconds (version
    /// 1 only); `None` if no group reports it.
    pub realtime_us: Option<i64>,
    /// The allowed CPUs, in the kernel's list notation; `None` if no group reports them.
    pub cpus: Option<String>,
}

/// The file that lists the groups of the current process. cgroups(7).
const GROUPS: &str = "/proc/thread-self/cgroup";
/// The directory of the control groups. It contains the single version 2 tree, or one tree per controller in version
/// 1. Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1.
const TREES: &str = "/sys/fs/cgroup";
/// The maximum depth of a group's path. Deeper groups are ignored.
const DEEPEST: usize = 64;

impl Host {
    /// Reads the limits and counts of the current process's groups; `None` if the groups are unknown.
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
            // Only version 1 groups have this file: in version 2, its counterpart is cpu.weight.
            told.are_of_version_1 |= number("cpu.shares").is_some();
            told.realtime_us = told.realtime_us.or_else(|| number("cpu.rt_runtime_us")?.trim().parse().ok());
            if let Some((quota_us, period_us)) = quota {
                let used_up = number("cpu.stat").and_then(|text| used_up(&text));
                let new = CpuQuota { quota_us, period_us, used_up };
                told.quota = Some(told.quota.filter(|old| leaves_no_more(*old, new)).unwrap_or(new));
            }
        }
        // The list of the innermost group already reflects the limits of the groups above.
        told.cpus = self.cpusets_of(&groups).next().map(|(_, cpus)| cpus.to_string());
        Some(told)
    }

    /// Returns the files that list the CPUs which the control groups of the current process allow, and these CPUs. The
    /// innermost group comes first.
    pub(crate) fn cpusets(&self) -> Vec<(String, CpuList)> {
        self.text(GROUPS).map(|groups| self.cpusets_of(&groups).collect()).unwrap_or_default()
    }

    fn cpusets_of(&self, groups: &str) -> impl Iterator<Item = (String, CpuList)> {
        let names = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
        let files = folders(groups, "cpuset").flat_map(move |folder| names.map(|name| format!("{folder}/{name}")));
        files.filter_map(|path| {
            let cpus = CpuList::parse(&self.text(&path)?).unwrap_or_default();
            Some((path, cpus))
        })
    }
}

/// Returns whether the first quota is at least as restrictive as the second.
fn leaves_no_more(one: CpuQuota, other: CpuQuota) -> bool {
    u128::from(one.quota_us) * u128::from(other.period_us) <= u128::from(other.quota_us) * u128::from(one.period_us)
}

/// Returns the directories of the groups that may report a value of a controller. For each tree, the innermost group
/// comes first and the root comes last. In a container, the root is the container's own group, and the groups above it
/// are not visible.
fn folders(groups: &str, controller: &str) -> impl Iterator<Item = String> {
    let trees = groups.lines().filter_map(move |line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        if controllers.is_empty() {
            // If version 1 trees also exist, the version 2 tree is in the directory `unified`.
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

/// Parses a quota in the version 2 format: `50000 100000`, or `max 100000` if there is no quota.
fn of_version_2(text: &str) -> Option<(u64, u64)> {
    let (quota, period) = text.split_once(' ')?;
    pair(quota, period)
}

/// Parses a quota in the version 1 format, in which -1 means that there is no quota.
fn pair(quota: &str, period: &str) -> Option<(u64, u64)> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (period > 0).then_some((quota, period))
}

/// Parses the number of times that the quota was used up. Its name is the same in both versions.
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
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
            fs::write(path, content).expect("ours");
        }
        Host::below(folder.path(), Facts::live()).look_at_control_groups()
    }

    #[test]
    fn the_most_restrictive_group_applies() {
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
    fn version_1_hierarchies_and_the_root_of_a_container_are_read() {
        let told = look(&[
            ("proc/thread-self/cgroup", "4:cpu,cpuacct:/box/inner\n3:cpuset:/docker/0123\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "20000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "10000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/box/inner/cpu.rt_runtime_us", "0\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.rt_runtime_us", "950000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.shares", "1024\n"),
            // Its name in /proc is not visible in a container.
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
    fn a_group_path_cannot_leave_the_cgroup_file_system() {
        assert!(
            folders("0::/../../etc/x\n", "cpu")
                .all(|folder| folder.starts_with("/sys/fs/cgroup") && !folder.contains(".."))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in any::<String>(), other in any::<String>()) {
            let _ = (folders(&text, "cpu").count(), of_version_2(&text), pair(&text, &other), used_up(&text));
        }
    }
}
