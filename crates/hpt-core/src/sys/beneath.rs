//! Files below a folder whose content another user made: openat2(2), and openat(2) where the kernel or a sandbox does not have it.
//! Follows no symbolic link, never leaves the folder, and opens nothing whose type it does not know.

use std::{
    ffi::CString,
    fs::{File, OpenOptions},
    io,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
    },
    path::{Component, Path, PathBuf},
};

/// Opens a regular file below `folder` for reading. Anything else is refused without being opened: opening a device may have effects.
pub(crate) fn open_regular_file(folder: &Path, path: &Path) -> io::Result<File> {
    let found = find(folder, path)?;
    if !found.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    opened(&found, File::options().read(true))
}

/// The names of what is in a folder below `folder`.
pub(crate) fn names(folder: &Path, path: &Path) -> io::Result<Vec<String>> {
    let found = find(folder, path)?;
    if !found.metadata()?.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    let entries = std::fs::read_dir(descriptor_of(&found))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Whether a file or folder is there.
pub(crate) fn is_there(folder: &Path, path: &Path) -> bool {
    find(folder, path).is_ok_and(|found| found.metadata().is_ok_and(|about| about.is_file() || about.is_dir()))
}

/// What is at a path below `folder`, without access to its content. A symbolic link at its end may be the answer.
fn find(folder: &Path, path: &Path) -> io::Result<File> {
    let folder = File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder)?;
    let path = path.strip_prefix("/").unwrap_or(path);
    if path.as_os_str().is_empty() {
        return Ok(folder);
    }
    match find_in_one_call(&folder, path) {
        // Linux before 5.6 does not know the call. Sandboxes refuse what they do not know.
        Err(refused) if [Some(libc::ENOSYS), Some(libc::EPERM)].contains(&refused.raw_os_error()) => {
            find_by_component(folder, path)
        }
        found => found,
    }
}

/// What openat2 is asked for. Linux, include/uapi/linux/openat2.h, struct open_how.
#[repr(C)]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

#[allow(clippy::useless_conversion, reason = "the C library's long has 32 bits on some machines")]
fn find_in_one_call(folder: &File, path: &Path) -> io::Result<File> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    let how = How {
        flags: FIND.cast_unsigned().into(),
        mode: 0,
        resolve: libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS,
    };
    // SAFETY: the name ends with a zero byte, and `how` has the size that is given; both live until the call returns, and the kernel only reads them.
    // openat2(2).
    let answer = unsafe {
        libc::syscall(libc::SYS_openat2, folder.as_raw_fd(), name.as_ptr(), &raw const how, size_of::<How>())
    };
    let descriptor = i32::try_from(answer).unwrap_or(-1);
    owned(descriptor)
}

/// No right to the content, and a link is not followed.
const FIND: libc::c_int = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;

/// The same, one component after the other.
fn find_by_component(folder: File, path: &Path) -> io::Result<File> {
    let mut found = folder;
    for component in path.components() {
        let name = match component {
            Component::Normal(name) => CString::new(name.as_bytes())?,
            Component::CurDir => continue,
            // As openat2 answers to what would leave the folder.
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::from_raw_os_error(libc::EXDEV));
            }
        };
        if found.metadata()?.is_symlink() {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        // SAFETY: the descriptor is open and the name ends with a zero byte; without O_CREAT there is no mode. open(2).
        let descriptor = unsafe { libc::openat(found.as_raw_fd(), name.as_ptr(), FIND) };
        found = owned(descriptor)?;
    }
    Ok(found)
}

fn owned(descriptor: libc::c_int) -> io::Result<File> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for this call, and nothing else owns it. open(2).
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }.into())
}

/// Opens exactly what was found: by its descriptor, not by a name that may lead elsewhere by now.
fn opened(found: &File, open: &OpenOptions) -> io::Result<File> {
    let file = open.open(descriptor_of(found))?;
    let (about, expected) = (file.metadata()?, found.metadata()?);
    if (about.dev(), about.ino()) == (expected.dev(), expected.ino()) {
        Ok(file)
    } else {
        Err(io::Error::other("/proc is not the kernel's"))
    }
}

fn descriptor_of(found: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::Read,
        os::unix::{fs::OpenOptionsExt, fs::symlink},
        path::Path,
    };

    use super::{find_by_component, find_in_one_call, is_there, names, open_regular_file};

    /// A capture whose paths lead out of it in every way.
    fn hostile() -> tempfile::TempDir {
        let outer = tempfile::tempdir().expect("a temporary folder");
        let capture = outer.path().join("capture");
        fs::create_dir_all(capture.join("proc/sub")).expect("ours");
        fs::write(outer.path().join("secret"), "secret").expect("ours");
        fs::write(capture.join("proc/own"), "own").expect("ours");
        symlink("../../secret", capture.join("proc/relative")).expect("ours");
        symlink(outer.path().join("secret"), capture.join("proc/absolute")).expect("ours");
        symlink("own", capture.join("proc/inner")).expect("ours");
        symlink("../..", capture.join("proc/folder")).expect("ours");
        symlink("/dev/null", capture.join("proc/device")).expect("ours");
        outer
    }

    const WAYS_OUT: [&str; 6] =
        ["proc/relative", "proc/absolute", "proc/folder/secret", "proc/device", "../secret", "proc/../../secret"];

    #[test]
    fn what_is_below_the_folder_is_read_and_nothing_else_is() {
        let outer = hostile();
        let capture = outer.path().join("capture");
        for own in ["proc/own", "/proc/own", "./proc/own"] {
            let mut content = String::new();
            let file = open_regular_file(&capture, Path::new(own));
            file.expect(own).read_to_string(&mut content).expect("readable");
            assert_eq!(content, "own");
        }
        for way in WAYS_OUT.into_iter().chain(["proc/inner", "proc/sub", "proc/absent", "proc/own/more"]) {
            open_regular_file(&capture, Path::new(way)).expect_err(way);
        }
        assert!(WAYS_OUT.iter().all(|way| !is_there(&capture, Path::new(way))));
        let mut found = names(&capture, Path::new("proc")).expect("a folder");
        found.sort();
        assert_eq!(found, ["absolute", "device", "folder", "inner", "own", "relative", "sub"]);
        names(&capture, Path::new("proc/folder")).expect_err("a link");
    }

    #[test]
    fn both_ways_of_finding_agree() {
        let outer = hostile();
        let capture = outer.path().join("capture");
        let folder = || File::options().read(true).custom_flags(libc::O_PATH).open(&capture).expect("ours");
        if let Err(refused) = find_in_one_call(&folder(), Path::new("proc")) {
            return skipped!("openat2: {refused}");
        }
        let paths =
            WAYS_OUT.into_iter().chain(["proc", "proc/own", "proc/sub", "proc/inner", "proc/own/more", "absent"]);
        for path in paths.map(Path::new) {
            let (one, other) = (find_in_one_call(&folder(), path), find_by_component(folder(), path));
            // A path that goes up and comes back: only the kernel follows it, and it stays below.
            assert_eq!(one.is_ok(), other.is_ok(), "{path:?}: {one:?} {other:?}");
        }
    }
}
