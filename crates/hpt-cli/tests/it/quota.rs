//! A measurement in a control group whose CPU quota is used up says so. Requires root and a group that may have a quota.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use crate::support::{self, json, stderr, stdout};

/// A control group with a quota of 4 ms in every 100 ms; removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Creates the group below the own one, or says why that is not possible.
    fn new() -> Result<Self, String> {
        let path = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|path| path.join("cgroup.procs").exists())
            .ok_or("no control groups are mounted")?
            .join(format!("hpt-test-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let group = Self(path);
        let set = |name: &str, value: &str| fs::write(group.0.join(name), value);
        let set = match group.0.join("cpu.max").exists() {
            true => set("cpu.max", "4000 100000"),
            false => set("cpu.cfs_period_us", "100000").and_then(|()| set("cpu.cfs_quota_us", "4000")),
        };
        set.map_err(|error| format!("no quota can be set: {error}"))?;
        Ok(group)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let join = format!("echo 0 > {} && exec \"$0\" \"$@\"", self.0.join("cgroup.procs").display());
        let mut words = vec!["/bin/sh".to_owned(), "-c".to_owned(), join];
        words.extend(support::words());
        support::command(&words).args(arguments).output().expect("a shell")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_quota_that_was_used_up_is_named_with_its_count() {
    let group = match Group::new() {
        Ok(group) => group,
        Err(why) => return skipped!("{why}"),
    };
    let poll = group.run(&["latency", "poll", "--duration", "2s", "--format", "json"]);
    let document = json(&poll);
    let not_run = &document["results"][0]["not_run"];
    assert!(not_run["throttled"].as_u64() > Some(0), "{not_run}: {}", stderr(&poll));
    let notes = document["notes"].to_string();
    assert!(notes.contains("its CPU quota was used up ("), "{notes}");
    // In an emulator on a busy machine, a window of the measurement takes many periods of the quota.
    let stall = group.run(&["latency", "stall", "--count", "5", "--above", "1ms", "--format", "json"]);
    let document = json(&stall);
    let is_quota = |row: &serde_json::Value| row["cause"] == "quota";
    let longest = document["longest"].as_array().cloned().unwrap_or_default();
    let of_the_quota = longest.iter().find(|row| is_quota(row));
    let throttled_ns = of_the_quota.and_then(|row| row["throttled_ns"].as_u64());
    assert!(throttled_ns > Some(0), "{}", stdout(&stall));
}
