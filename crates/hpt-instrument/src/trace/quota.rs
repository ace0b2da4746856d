//! The time for which CPU quotas of control groups paused threads of this process during a run.

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
};

use hpt_sys::host::{Host, Throttled};

/// The number of readings that are kept, and of directories in which threads of a group are searched.
const READINGS: usize = 64;
const FOLDERS: usize = 64;
/// The directory of the control groups.
const TREES: &str = "/sys/fs/cgroup";

/// A control group with a quota.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    /// The throttled time at recent times on `CLOCK_MONOTONIC`, both in nanoseconds.
    readings: VecDeque<(u64, u64)>,
}

/// The control groups of this process that have a quota.
#[derive(Debug)]
pub(super) struct Quotas(Vec<Group>);

/// A quota that was used up around a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UsedUp {
    pub(super) throttled_ns: u64,
    /// The path of the group.
    pub(super) group: String,
    /// The threads of the group.
    pub(super) threads: Vec<i32>,
}

impl Quotas {
    pub(super) fn new(host: &Host, now: u64) -> Self {
        let files = host.quota_counts().map(|counts| counts.files).unwrap_or_default();
        let folders = files.into_iter().filter_map(|file| Some(file.parent()?.to_owned()));
        let mut quotas = Self(folders.map(|folder| Group { folder, readings: VecDeque::new() }).collect());
        quotas.update(now);
        quotas
    }

    /// Reads the counts again.
    pub(super) fn update(&mut self, now: u64) {
        for Group { folder, readings } in &mut self.0 {
            let stat = fs::read_to_string(folder.join("cpu.stat")).ok();
            let Some(throttled) = stat.as_deref().and_then(Throttled::parse) else { continue };
            if readings.len() == READINGS {
                readings.pop_front();
            }
            readings.push_back((now, u64::try_from(throttled.time.as_nanos()).unwrap_or(u64::MAX)));
        }
    }

    /// Returns the quota that paused threads for the longest time since `begin`, at most one reading earlier.
    pub(super) fn used_up(&self, begin: u64) -> UsedUp {
        let used_up = self.0.iter().map(|group| (group.throttled_ns(begin), group));
        match used_up.max_by_key(|&(throttled_ns, _)| throttled_ns) {
            Some((throttled_ns, group)) if throttled_ns > 0 => {
                let group = &group.folder;
                let path = group.strip_prefix(TREES).unwrap_or(group);
                let mut threads = Vec::new();
                collect_threads(group, &mut FOLDERS.clone(), &mut threads);
                UsedUp { throttled_ns, group: format!("/{}", path.display()), threads }
            }
            _ => UsedUp::default(),
        }
    }
}

impl Group {
    fn throttled_ns(&self, begin: u64) -> u64 {
        let before = self.readings.iter().rfind(|&&(time, _)| time <= begin).or_else(|| self.readings.front());
        self.readings.back().zip(before).map_or(0, |(last, before)| last.1.saturating_sub(before.1))
    }
}

/// Adds the threads of a group and of the groups below it.
fn collect_threads(folder: &Path, left: &mut usize, threads: &mut Vec<i32>) {
    let text = ["cgroup.threads", "tasks"].iter().find_map(|name| fs::read_to_string(folder.join(name)).ok());
    threads.extend(text.iter().flat_map(|text| text.lines()).filter_map(|line| line.parse::<i32>().ok()));
    let folders = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    for folder in folders.filter(|path| path.is_dir()) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        collect_threads(&folder, left, threads);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Group, Quotas, UsedUp};

    #[test]
    fn throttled_time_counts_from_the_reading_before_a_sample() {
        let folder = std::env::temp_dir().join(format!("hpt-quota-{}", std::process::id()));
        fs::create_dir_all(folder.join("inner")).expect("a directory");
        let stat = |throttled: u64| {
            let text = format!("nr_throttled 1\nthrottled_usec {throttled}\n");
            fs::write(folder.join("cpu.stat"), text).expect("a file");
        };
        fs::write(folder.join("cgroup.threads"), "7\n").expect("a file");
        fs::write(folder.join("inner/cgroup.threads"), "8\n").expect("a file");
        let mut quotas = Quotas(vec![Group { folder: folder.clone(), readings: std::collections::VecDeque::new() }]);
        for (now, throttled) in [(10, 5), (20, 9), (30, 12)] {
            stat(throttled);
            quotas.update(now);
        }
        assert_eq!(quotas.used_up(25).throttled_ns, 3_000);
        assert_eq!(quotas.used_up(19).throttled_ns, 7_000);
        assert_eq!((quotas.used_up(1).throttled_ns, quotas.used_up(40)), (7_000, UsedUp::default()));
        assert_eq!(quotas.used_up(1).threads, [7, 8]);
        fs::remove_dir_all(&folder).expect("it exists");
        // Without the file, nothing is counted.
        quotas.update(50);
        assert_eq!(quotas.used_up(45), UsedUp::default());
    }
}
