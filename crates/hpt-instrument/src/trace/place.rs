//! The place of the kernel's tracefs, and its files. Every file is opened relative to an open directory whose file
//! system is verified.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    path::Path,
};

use rustix::fs::{CWD, Mode, OFlags, fstatfs, openat};

use super::TraceError;

/// The file system type of a tracefs, from the kernel's include/uapi/linux/magic.h.
const TRACEFS_MAGIC: i128 = 0x7472_6163;
/// The inode of the initial PID namespace, PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
/// The maximum size of a text file that is read, in bytes.
const LONGEST_TEXT: usize = 64 << 10;

/// An open directory of a tracefs.
#[derive(Debug)]
pub(super) struct Folder(File);

impl Folder {
    /// Opens the mounted tracefs.
    pub(super) fn mounted() -> Result<Self, TraceError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some(point) = mount_point(&mounts) else {
            let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
            let is_known = known.lines().any(|line| line.split_whitespace().last() == Some("tracefs"));
            return Err(if is_known { TraceError::NotMounted } else { TraceError::NoTracefs });
        };
        let folder = Self::open(CWD, &point).map_err(|cause| match cause.kind() {
            ErrorKind::PermissionDenied => not_allowed(cause),
            _ => TraceError::Refused { file: point.clone(), cause },
        })?;
        if folder.is_tracefs() { Ok(folder) } else { Err(TraceError::NotTracefs { path: point }) }
    }

    fn open(parent: impl std::os::fd::AsFd, name: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(File::from(openat(parent, name.as_ref(), flags, Mode::empty())?)))
    }

    fn is_tracefs(&self) -> bool {
        // The type of the field depends on the architecture.
        fstatfs(&self.0).is_ok_and(|about| i128::from(about.f_type) & 0xffff_ffff == TRACEFS_MAGIC)
    }

    /// Opens a directory below this one.
    pub(super) fn below(&self, name: &str) -> Result<Self, TraceError> {
        let folder = Self::open(&self.0, name).map_err(|cause| refused(name, cause))?;
        if folder.is_tracefs() { Ok(folder) } else { Err(TraceError::NotTracefs { path: name.to_owned() }) }
    }

    /// Creates a directory below this one.
    pub(super) fn create(&self, name: &str) -> Result<(), TraceError> {
        rustix::fs::mkdirat(&self.0, name, Mode::RWXU).map_err(|error| refused(name, error.into()))
    }

    /// Removes a directory below this one.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, rustix::fs::AtFlags::REMOVEDIR)?)
    }

    /// Returns whether this directory contains a file or directory of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.0, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the names in this directory; empty if it cannot be read.
    pub(super) fn names(&self) -> Vec<String> {
        let Ok(entries) = rustix::fs::Dir::read_from(&self.0) else { return Vec::new() };
        let names =
            entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
        names.filter(|name| name != "." && name != "..").collect()
    }

    /// Opens a file without following a link.
    pub(super) fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(File::from(openat(&self.0, name, flags, Mode::empty())?))
    }

    pub(super) fn text(&self, name: &str) -> Result<String, TraceError> {
        let read = || {
            let mut file = self.file(name, OFlags::RDONLY)?;
            // The kernel returns some files only up to the length of the first read.
            let mut text = vec![0; LONGEST_TEXT];
            let mut length = 0;
            loop {
                match file.read(&mut text[length..]) {
                    Ok(0) => break,
                    Ok(more) => length += more,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(String::from_utf8_lossy(&text[..length]).into_owned())
        };
        read().map_err(|cause| refused(name, cause))
    }

    pub(super) fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let write = || self.file(name, OFlags::WRONLY)?.write_all(value.as_bytes());
        write().map_err(|cause| refused(name, cause))
    }
}

/// Returns an error if thread IDs of this process differ from those in the trace.
pub(super) fn check_pid_namespace() -> Result<(), TraceError> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link.as_os_str() != INITIAL_PID_NAMESPACE => Err(TraceError::PidNamespace),
        // A kernel without PID namespaces has no such file.
        _ => Ok(()),
    }
}

fn refused(file: &str, cause: io::Error) -> TraceError {
    match cause.kind() {
        ErrorKind::PermissionDenied => not_allowed(cause),
        _ => TraceError::Refused { file: file.to_owned(), cause },
    }
}

/// Returns the reason why access was denied: the kernel's lockdown, or missing privileges.
fn not_allowed(cause: io::Error) -> TraceError {
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    match lockdown_mode(&lockdown) {
        Some(mode) if hpt_sys::process::effective_user() == 0 => TraceError::Lockdown { mode },
        _ => TraceError::NotAllowed(cause),
    }
}

/// Returns the active mode from a line such as `none [integrity] confidentiality`, or `None` if there is no lockdown.
fn lockdown_mode(line: &str) -> Option<String> {
    let mode = line.split_once('[')?.1.split_once(']')?.0;
    (mode != "none").then(|| mode.to_owned())
}

/// Returns the mount point of the tracefs from the lines of mountinfo; see proc_pid_mountinfo(5).
fn mount_point(mounts: &str) -> Option<String> {
    let points = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // An escaped character means an unusual place, which the kernel's own tools do not use.
        let is_whole = root == "/" && !point.contains('\\');
        (after.split(' ').next()? == "tracefs" && is_whole).then_some(point)
    });
    let mut points: Vec<_> = points.collect();
    points.sort_by_key(|&point| point != "/sys/kernel/tracing");
    points.first().map(|&point| point.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{lockdown_mode, mount_point};

    #[test]
    fn the_usual_mount_point_is_preferred() {
        let usual = "25 1 0:7 / /sys/kernel/tracing rw,nosuid - tracefs nodev rw";
        let other = "26 1 0:7 / /sys/kernel/debug/tracing rw - tracefs tracefs rw";
        assert_eq!(mount_point(&format!("{other}\n{usual}\n")).as_deref(), Some("/sys/kernel/tracing"));
        assert_eq!(mount_point(other).as_deref(), Some("/sys/kernel/debug/tracing"));
        for none in [
            "",
            "x - tracefs",
            "25 1 0:7 /instances/a /tmp/a rw - tracefs nodev rw",
            "25 1 0:7 / /tmp rw - tmpfs tracefs rw",
        ] {
            assert_eq!(mount_point(none), None, "{none}");
        }
    }

    #[test]
    fn the_mode_of_a_lockdown_is_in_brackets() {
        assert_eq!(lockdown_mode("[none] integrity confidentiality\n"), None);
        assert_eq!(lockdown_mode("none integrity [confidentiality]\n").as_deref(), Some("confidentiality"));
        assert_eq!(lockdown_mode(""), None);
    }
}
