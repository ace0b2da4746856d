//! How much memory and disk space a load may use, depending on how much is free. Uses none.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use hpt_core::Host;

/// The most memory or disk space that one worker uses.
const MOST_PER_WORKER: u64 = 256 << 20;
/// The least with which a worker makes sense.
const LEAST_PER_WORKER: u64 = 1 << 20;
/// The type of a file system in memory. statfs(2).
const TMPFS: rustix::fs::FsWord = 0x0102_1994;
/// A load uses at most this part of what is free.
const PART: u64 = 4;

/// Returns the number of bytes for each of `workers` workers, or `None` if too little is free.
pub(super) fn per_worker(free: u64, workers: u64) -> Option<u64> {
    // Files are written in blocks of this size.
    let bytes = (free / PART / workers.max(1)).min(MOST_PER_WORKER) / LEAST_PER_WORKER * LEAST_PER_WORKER;
    (bytes >= LEAST_PER_WORKER).then_some(bytes)
}

/// Returns the memory that is free for this process: the available memory of the machine, or less if a control group
/// limits it.
pub(super) fn free_memory(host: &Host) -> Option<u64> {
    let text = |path: &str| host.read(path).ok().and_then(|content| String::from_utf8(content).ok());
    let of_machine = text("/proc/meminfo").as_deref().and_then(available);
    let group = text("/proc/self/cgroup").as_deref().and_then(group_of).unwrap_or_default();
    let of_group = |group: &str| {
        let file = |name: &str| text(&format!("/sys/fs/cgroup{group}/{name}"));
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        // The kernel frees the cache of files when memory is needed.
        let cache = file("memory.stat").as_deref().and_then(cached).unwrap_or(0);
        Some(number("memory.max")?.saturating_sub(number("memory.current")?.saturating_sub(cache)))
    };
    // Each parent group may have a limit, too.
    let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
    let of_groups = ends.filter_map(|end| of_group(&group[..end])).min();
    of_machine.map(|free| free.min(of_groups.unwrap_or(u64::MAX)))
}

/// Returns the size of the file cache of a control group that the kernel frees first, in bytes.
fn cached(statistics: &str) -> Option<u64> {
    statistics.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse().ok()
}

/// Returns the available memory according to /proc/meminfo, in bytes. proc_meminfo(5).
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the control group of this process in the unified hierarchy. cgroups(7).
fn group_of(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(if path == "/" { String::new() } else { path.to_owned() })
}

/// Returns the directory for files of the load: one that keeps them on a disk if possible.
pub(super) fn folder() -> PathBuf {
    let lasting = Path::new("/var/tmp");
    if fs::metadata(lasting).is_ok_and(|about| about.is_dir())
        && rustix::fs::access(lasting, rustix::fs::Access::WRITE_OK).is_ok()
    {
        lasting.to_owned()
    } else {
        env::temp_dir()
    }
}

/// Returns the free space in a directory, in bytes. Files of a tmpfs use `memory`.
pub(super) fn free_space(folder: &Path, memory: Option<u64>) -> Option<u64> {
    let about = rustix::fs::statvfs(folder).ok()?;
    let free = about.f_bavail.checked_mul(about.f_frsize)?;
    let is_tmpfs = rustix::fs::statfs(folder).is_ok_and(|about| about.f_type == TMPFS);
    Some(if is_tmpfs { free.min(memory.unwrap_or(0)) } else { free })
}

#[cfg(test)]
mod tests {
    use super::{available, cached, folder, free_space, group_of, per_worker};

    #[test]
    fn a_load_uses_at_most_a_quarter_of_what_is_free() {
        const MIB: u64 = 1 << 20;
        assert_eq!(per_worker(8 << 30, 1), Some(256 * MIB));
        assert_eq!(per_worker(400 * MIB, 2), Some(50 * MIB));
        assert_eq!(per_worker(6 * MIB, 1), Some(MIB), "whole blocks");
        assert_eq!((per_worker(4 * MIB, 2), per_worker(0, 1), per_worker(4 * MIB, 0)), (None, None, Some(MIB)));
    }

    #[test]
    fn free_memory_is_read_from_the_kernels_texts() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!((available(""), available("MemAvailable: many kB\n")), (None, None));
        assert_eq!(group_of("1:cpu:/x\n0::/user.slice\n").as_deref(), Some("/user.slice"));
        assert_eq!(cached("file 9\ninactive_file 4096\nactive_file 1\n"), Some(4096));
        assert_eq!((group_of("0::/\n").as_deref(), group_of("1:cpu:/x\n")), (Some(""), None));
    }

    #[test]
    fn the_folder_for_files_has_a_size() {
        assert!(free_space(&folder(), Some(0)).is_some());
        let tmpfs = std::path::Path::new("/dev/shm");
        if rustix::fs::statfs(tmpfs).is_ok_and(|about| about.f_type == super::TMPFS) {
            assert_eq!(free_space(tmpfs, Some(7)), Some(7), "its files use memory");
        }
    }
}
