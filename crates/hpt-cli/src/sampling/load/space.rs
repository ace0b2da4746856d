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
    let groups = text("/proc/self/cgroup").unwrap_or_default();
    let of_group = |names: &Hierarchy, group: &str| {
        let file = |name: &str| text(&format!("{}{group}/{name}", names.directory));
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        // The kernel frees the cache of files when memory is needed.
        let cache = file("memory.stat").as_deref().and_then(|text| cached(text, names.cache)).unwrap_or(0);
        Some(number(names.limit)?.saturating_sub(number(names.usage)?.saturating_sub(cache)))
    };
    let of_hierarchy = |names: &Hierarchy| {
        // A container may see the group under another path. Its own limit is then at the top.
        let group = group_of(&groups, names.controller).unwrap_or_default();
        // Each parent group may have a limit, too.
        let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
        ends.filter_map(|end| of_group(names, &group[..end])).min()
    };
    let of_groups = HIERARCHIES.iter().filter_map(of_hierarchy).min();
    of_machine.map(|free| free.min(of_groups.unwrap_or(u64::MAX)))
}

/// The names of a hierarchy of control groups. cgroups(7).
struct Hierarchy {
    /// The controller in /proc/self/cgroup; empty in version 2.
    controller: &'static str,
    directory: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The line of memory.stat with the file cache of a group and of its children that the kernel frees first.
    cache: &'static str,
}

/// Version 2, and version 1, which has a hierarchy for each controller.
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        controller: "",
        directory: "/sys/fs/cgroup",
        limit: "memory.max",
        usage: "memory.current",
        cache: "inactive_file",
    },
    Hierarchy {
        controller: "memory",
        directory: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        cache: "total_inactive_file",
    },
];

/// Returns the size of the file cache of a control group that the kernel frees first, in bytes.
fn cached(statistics: &str, name: &str) -> Option<u64> {
    statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.trim().parse().ok()
}

/// Returns the available memory according to /proc/meminfo, in bytes. proc_meminfo(5).
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the control group of this process in the hierarchy of this controller. cgroups(7).
fn group_of<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    let path = text.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    })?;
    Some(if path == "/" { "" } else { path })
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
    use hpt_core::Host;
    use hpt_sys::host::{Capture, Entry, Facts};

    use super::{available, cached, folder, free_memory, free_space, group_of, per_worker};

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
        let statistics = "file 9\ninactive_file 4096\ntotal_inactive_file 7\n";
        assert_eq!(cached(statistics, "inactive_file"), Some(4096));
        assert_eq!((cached(statistics, "total_inactive_file"), cached(statistics, "total")), (Some(7), None));
        let groups = "9:name=systemd:/s\n4:memory,hugetlb:/docker/a:b\n1:cpu:/\n0::/user.slice\n";
        let of = |controller| group_of(groups, controller);
        assert_eq!((of(""), of("memory"), of("cpu")), (Some("/user.slice"), Some("/docker/a:b"), Some("")));
        assert_eq!((group_of("1:cpu:/x\n", ""), of("mem")), (None, None));
    }

    /// A machine with 1 GiB of available memory and these files.
    fn machine(files: &[(&str, &str)]) -> Host {
        let mut capture = Capture::default();
        for (path, content) in [&[("proc/meminfo", "MemAvailable: 1048576 kB\n")], files].concat() {
            capture.insert(path, Entry::File(content.into())).expect("a file of the machine");
        }
        Host::captured(capture, Facts::live())
    }

    #[test]
    fn the_limit_of_a_control_group_bounds_the_free_memory() {
        const MIB: u64 = 1 << 20;
        assert_eq!(free_memory(&machine(&[])), Some(1024 * MIB));
        let unlimited = "9223372036854771712\n";
        let version_1 = [
            ("proc/self/cgroup", "4:memory:/a/b\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "41943040\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 0\ntotal_inactive_file 20971520\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", unlimited),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1048576\n"),
        ];
        // The parent's 100 MiB without the 40 MiB in use, of which 20 MiB are cache.
        assert_eq!(free_memory(&machine(&version_1)), Some(80 * MIB));
        // A container without a namespace of its own sees its group at the top, and the path of the host.
        let container = [
            ("proc/self/cgroup", "4:memory:/docker/1234\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n"),
        ];
        assert_eq!(free_memory(&machine(&container)), Some(62 * MIB));
        let version_2 = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.current", "0\n"),
            ("sys/fs/cgroup/a/b/memory.max", "52428800\n"),
            ("sys/fs/cgroup/a/b/memory.current", "52428801\n"),
        ];
        assert_eq!(free_memory(&machine(&version_2)), Some(0));
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
