//! The CPU time and the CPUs that control groups allow the current process to use. The names of groups are not stored,
//! so a capture contains only numbers.

use std::{path::PathBuf, time::Duration};

use super::{CpuList, Host};

/// The CPU quota for ordinary threads: the most restrictive quota among the control groups of the current process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuQuota {
    /// The time that all threads of the group together may use in each period, in microseconds.
    pub quota_us: u64,
    /// The period, in microseconds.
    pub period_us: u64,
    /// The number of times that the threads were throttled because the quota was used up; `None` if the kernel does not
    /// report it.
    pub used_up: Option<u64>,
    /// The number of periods in which threads of the group ran; `None` if the kernel does not report it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub periods: Option<u64>,
}

/// How often threads were paused because the CPU quota of a control group was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Throttled {
    /// The time for which threads of the group were paused, added up over the CPUs on which they were paused.
    pub time: Duration,
    /// The number of periods in which the quota was used up.
    pub times: u64,
}

impl Throttled {
    /// Creates a value with this time and this number of periods.
    #[must_use]
    pub const fn new(time: Duration, times: u64) -> Self {
        Self { time, times }
    }

    /// Parses a group's cpu.stat; `None` if it does not count this. Version 1 states nanoseconds, and version 2
    /// microseconds.
    pub fn parse(stat: &str) -> Option<Self> {
        let time = count(stat, "throttled_usec ").map(Duration::from_micros);
        let time = time.or_else(|| count(stat, "throttled_time ").map(Duration::from_nanos))?;
        Some(Self { time, times: count(stat, TIMES)? })
    }

    /// Returns the increase since an earlier count.
    pub fn since(self, before: Self) -> Self {
        Self { time: self.time.saturating_sub(before.time), times: self.times.saturating_sub(before.times) }
    }
}

/// The files in which control groups count how often their quota was used up.
#[derive(Debug)]
pub struct QuotaCounts {
    /// The files of the groups that have a quota.
    pub files: Vec<PathBuf>,
    /// Whether all groups of the process are visible, up to the root, so that no other quota applies. A container does
    /// not see the groups above its own.
    pub are_all: bool,
}

/// The limits and counts that the control groups of the current process report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
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
/// The number of periods in which the quota was used up, in a group's cpu.stat. The name is the same in both versions.
const TIMES: &str = "nr_throttled ";
/// The number of periods in which the group had something to run.
const PERIODS: &str = "nr_periods ";
/// The maximum depth of a group's path. Deeper groups are ignored.
const DEEPEST: usize = 64;

impl Host {
    /// Reads the limits and counts of the current process's groups; `None` if the groups are unknown.
    pub(super) fn look_at_control_groups(&self) -> Option<ControlGroups> {
        let groups = self.text(GROUPS)?;
        let mut told = ControlGroups::default();
        for folder in folders(&groups, "cpu") {
            let number = |name: &str| self.text(&format!("{folder}/{name}"));
            let (quota, tells) = self.quota_of(&folder);
            told.tell_of_time |= tells;
            // Only version 1 groups have this file: in version 2, its counterpart is cpu.weight.
            told.are_of_version_1 |= number("cpu.shares").is_some();
            told.realtime_us = told.realtime_us.or_else(|| number("cpu.rt_runtime_us")?.trim().parse().ok());
            if let Some((quota_us, period_us)) = quota {
                let stat = number("cpu.stat").unwrap_or_default();
                let (used_up, periods) = (count(&stat, TIMES), count(&stat, PERIODS));
                let new = CpuQuota { quota_us, period_us, used_up, periods };
                told.quota = Some(told.quota.filter(|old| leaves_no_more(*old, new)).unwrap_or(new));
            }
        }
        // The list of the innermost group already reflects the limits of the groups above.
        told.cpus = self.cpusets_of(&groups).next().map(|(_, cpus)| cpus.to_string());
        Some(told)
    }

    /// Returns the quota of a group and its period, and whether the group reports its quota or the absence of one.
    fn quota_of(&self, folder: &str) -> (Option<(u64, u64)>, bool) {
        let text = |name: &str| self.text(&format!("{folder}/{name}"));
        match (text("cpu.max"), text("cpu.cfs_quota_us"), text("cpu.cfs_period_us")) {
            (Some(text), ..) => (of_version_2(&text), true),
            (None, Some(quota), Some(period)) => (pair(&quota, &period), true),
            _ => (None, false),
        }
    }

    /// Returns where the groups of the current process count how often their quotas were used up; `None` if the groups
    /// are unknown.
    pub fn quota_counts(&self) -> Option<QuotaCounts> {
        let groups = self.text(GROUPS)?;
        let with_quota = folders(&groups, "cpu").filter(|folder| self.quota_of(folder).0.is_some());
        let files = with_quota.filter_map(|folder| self.locate(&format!("{folder}/cpu.stat"))).collect();
        let of_version_1 = trees(&groups, "cpu").find(|tree| !tree.is_unified);
        let tree = of_version_1.or_else(|| trees(&groups, "cpu").next());
        Some(QuotaCounts { files, are_all: tree.is_some_and(|tree| self.shows_every_group(&tree)) })
    }

    /// Returns whether all groups of a tree down to the own group are visible. Only the root of a tree has the file
    /// release_agent (version 1), or lacks the file cgroup.type (version 2).
    fn shows_every_group(&self, tree: &Tree<'_>) -> bool {
        let is_root = |folder: &str| match tree.is_unified {
            true => !self.is_there(&format!("{folder}/cgroup.type")),
            false => self.is_there(&format!("{folder}/release_agent")),
        };
        let own = |root: &str| format!("{root}{}/cgroup.procs", tree.path.trim_end_matches('/'));
        tree.roots.iter().any(|root| is_root(root) && self.is_there(&own(root)))
    }

    /// Returns the files that list the CPUs which the control groups of the current process allow, and these CPUs. The
    /// innermost group comes first.
    pub fn cpusets(&self) -> Vec<(String, CpuList)> {
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
    let folders: Vec<String> = trees(groups, controller)
        .flat_map(|Tree { roots, path, .. }| {
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

struct Tree<'a> {
    /// The directories in which its root may be.
    roots: [String; 2],
    /// The path of the process's own group below the root.
    path: &'a str,
    /// Whether it is the single tree of version 2.
    is_unified: bool,
}

/// Returns the trees that may control `controller`.
fn trees<'a>(groups: &'a str, controller: &str) -> impl Iterator<Item = Tree<'a>> {
    groups.lines().filter_map(move |line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_unified = controllers.is_empty();
        let roots = if is_unified {
            // If version 1 trees also exist, the version 2 tree is in the directory `unified`.
            [TREES.to_owned(), format!("{TREES}/unified")]
        } else {
            [format!("{TREES}/{controllers}"), format!("{TREES}/{controller}")]
        };
        let is_it = is_unified || controllers.split(',').any(|name| name == controller);
        is_it.then_some(Tree { roots, path, is_unified })
    })
}

/// Returns a count in a group's cpu.stat.
fn count(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::prelude::{any, proptest};

    use super::{ControlGroups, CpuQuota, QuotaCounts, Throttled, folders, of_version_2, pair};
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
        let quota = CpuQuota { quota_us: 50_000, period_us: 100_000, used_up: Some(7), periods: Some(9) };
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
        let quota = CpuQuota { quota_us: 20_000, period_us: 10_000, used_up: None, periods: None };
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
    fn a_quota_is_ruled_out_only_if_every_group_is_visible() {
        let counts = |groups: &str, files: &[&str]| {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let all = files.iter().map(|path| (*path, "50000 100000\n")).chain([("proc/thread-self/cgroup", groups)]);
            for (path, content) in all {
                let path = folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("ours");
                fs::write(path, content).expect("ours");
            }
            let QuotaCounts { files, are_all } =
                Host::below(folder.path(), Facts::live()).quota_counts().expect("groups");
            (files.len(), are_all)
        };
        let in_a_service = ["sys/fs/cgroup/a/b/cgroup.procs", "sys/fs/cgroup/a/b/cgroup.type"];
        assert_eq!(counts("0::/a/b\n", &in_a_service), (0, true));
        let with_quota = [in_a_service[0], "sys/fs/cgroup/a/cpu.max"];
        assert_eq!(counts("0::/a/b\n", &with_quota), (1, true));
        // The root is that of a container, or the own group is not below the mounted one.
        let of_a_container = ["sys/fs/cgroup/cgroup.procs", "sys/fs/cgroup/cgroup.type"];
        assert_eq!(counts("0::/\n", &of_a_container), (0, false));
        assert_eq!(counts("0::/../b\n", &["sys/fs/cgroup/cgroup.procs"]), (0, false));
        assert_eq!(counts("0::/\n", &[]), (0, false));
        let of_version_1 = ["sys/fs/cgroup/cpu/release_agent", "sys/fs/cgroup/cpu/x/cgroup.procs"];
        let groups = "3:cpu:/x\n1:name=systemd:/\n0::/\n";
        assert_eq!(counts(groups, &of_version_1), (0, true));
        assert_eq!(counts(groups, &of_version_1[1..]), (0, false));
        assert_eq!(counts(groups, &["sys/fs/cgroup/cgroup.procs"]), (0, false));
    }

    #[test]
    fn throttled_time_is_read_in_both_versions() {
        let of = |text| Throttled::parse(text).map(|found| (found.time.as_micros(), found.times));
        assert_eq!(of("nr_periods 9\nnr_throttled 7\nthrottled_usec 1500\n"), Some((1500, 7)));
        assert_eq!(of("nr_periods 9\nnr_throttled 7\nthrottled_time 1500000\n"), Some((1500, 7)));
        assert_eq!((of("usage_usec 5\n"), of("nr_throttled x\nthrottled_usec 5\n")), (None, None));
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
            let _ = (folders(&text, "cpu").count(), of_version_2(&text), pair(&text, &other), Throttled::parse(&text));
        }
    }
}
