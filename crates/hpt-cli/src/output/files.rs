//! Files that results are written to, and files that another user may have made and hpt reads. Output files are checked
//! before the measurement and replaced atomically. This module is independent of the format. It resolves each path
//! itself, because root must not follow other users' symbolic links.

use std::{
    collections::hash_map::RandomState,
    ffi::{OsStr, OsString},
    fs::File,
    hash::{BuildHasher, Hasher},
    io::{self, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::{Component, Path, PathBuf},
    time::Duration,
};

use hpt_core::Instant;
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Gid, Mode, OFlags, PROC_SUPER_MAGIC, RenameFlags, Stat, Uid, fchmod, fchown, fstat,
        fstatfs, linkat, mkdirat, openat, readlinkat, renameat, renameat_with, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};

/// The error for a file that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}")]
pub(crate) struct WriteError {
    pub(crate) path: PathBuf,
    #[source]
    pub(crate) cause: io::Error,
}

/// The time after which hpt stops retrying a write to a full pipe.
const LONGEST_WRITE: Duration = Duration::from_secs(5);

/// The maximum number of symbolic links that Linux follows. See path_resolution(7).
const MOST_LINKS: usize = 40;

/// The mode of a new file, unless the umask removes more permissions. Some containers and daemons set the umask to 0.
const NEW_FILE: u32 = 0o644;

/// Returns the mode of a new file. proc_pid_status(5), Umask.
fn mode_of_new_file() -> Mode {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    Mode::from_raw_mode(NEW_FILE & !umask.unwrap_or(0))
}

/// Reads a file that another user may have made: at most `most` bytes of a regular file, or of a pipe that this process
/// already has open (/dev/stdin). Opens no device and no other pipe, because opening a device may have side effects.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_foreign(path)?.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(content)
}

/// Opens a file that another user may have made, as for [`read`], for a reader that needs bounded memory.
pub(crate) fn open_foreign(path: &Path) -> io::Result<File> {
    let not_regular = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    let place = Place::of(path, Last::Followed).map_err(|cause| match cause.kind() {
        io::ErrorKind::IsADirectory => not_regular(),
        _ => cause,
    })?;
    let Some((found, _)) = &place.found else { return Err(Errno::NOENT.into()) };
    if !place.is_open_file && place.kind() != Some(FileType::RegularFile) {
        return Err(not_regular());
    }
    // What was checked is what is read, even if another user exchanges the file in between.
    let same = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = openat(CWD, same.as_str(), OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(file.into())
}

/// Creates a directory and its missing parents. Returns the directories that did not exist, the outermost first.
pub(crate) fn create_folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    // Without a slash at the end.
    let folder: PathBuf = folder.components().collect();
    let folders: Vec<&Path> = folder.ancestors().filter(|path| path.file_name().is_some()).collect();
    let mut made = Vec::new();
    for path in folders.into_iter().rev() {
        let place = Place::of(path, Last::Followed)?;
        match place.kind() {
            Some(FileType::Directory) => {}
            Some(_) => return Err(Errno::NOTDIR.into()),
            None => match mkdirat(&place.folder, &place.name, Mode::from_raw_mode(0o755)) {
                // Another process has just created it.
                Err(Errno::EXIST) => {}
                created => {
                    created?;
                    made.push(path.to_owned());
                }
            },
        }
    }
    Ok(made)
}

/// Rejects a directory that root would reach through another user's symbolic link. The end of the path need not exist.
pub(crate) fn check_folder(folder: &Path) -> io::Result<()> {
    let folder: PathBuf = folder.components().collect();
    for path in folder.ancestors().filter(|path| path.file_name().is_some()) {
        match Place::of(path, Last::Followed) {
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => {}
            found => return found.map(drop),
        }
    }
    Ok(())
}

/// Rejects a file that cannot be written. Changes nothing: an existing file keeps its content, and the
/// reader of a pipe receives no data.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    let place = Place::of(path, Last::Followed)?;
    if place.is_replaced() {
        place.found.as_ref().map_or(Ok(()), |_| place.open_found(OFlags::APPEND).map(drop))?;
    }
    place.check()
}

/// Checks a file that programs read during the run. A new file always replaces it. Therefore, the existing file need
/// not be writable.
pub(crate) fn check_replacing(path: &Path) -> io::Result<()> {
    Place::of(path, Last::Followed)?.check()
}

/// Replaces a file atomically. Writes in place to a device, to a pipe, and to a file in a directory
/// in which no new file can be created. Replaces the target of a symbolic link, not the link.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let place = Place::of(path, Last::Followed)?;
    if !place.is_replaced() {
        return Patient::new(place.open_found(OFlags::empty())?, LONGEST_WRITE).write_all(content);
    }
    let mut new = match place.unfinished()? {
        New::Beside(new) => new,
        New::InPlace(mut file) => {
            file.set_len(0)?;
            return file.write_all(content);
        }
    };
    new.file.write_all(content)?;
    let kept = place.found.as_ref().filter(|(_, old)| place.may_keep_its_owner(old));
    fchmod(&new.file, kept.map_or_else(mode_of_new_file, |(_, old)| Mode::from_raw_mode(old.st_mode & 0o777)))?;
    if let Some((_, old)) = kept {
        // Only root can change the owner of a file.
        let _ = fchown(&new.file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
    }
    match new.put(true) {
        // A bind-mounted file, which is common in containers, cannot be replaced.
        Err(busy) if busy.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            let mut file = place.open_found(OFlags::TRUNC)?;
            file.write_all(content)
        }
        put => put,
    }
}

/// Opens a file for incremental writing without blocking, and keeps its old content. A newly created file is removed
/// again unless [`CreatedFile::keep`] is called.
pub(crate) fn open(path: &Path) -> io::Result<(File, CreatedFile)> {
    let place = Place::of(path, Last::Followed)?;
    if place.found.is_some() {
        place.refuse_a_folder()?;
        return Ok((place.open_found(OFlags::empty())?, CreatedFile(None)));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&place.folder, &place.name, flags, mode_of_new_file())?;
    Ok((file.into(), CreatedFile(Some((place.folder, place.name)))))
}

/// A file that was opened without blocking. Writes to a full pipe are retried.
#[derive(Debug)]
pub(crate) struct Patient {
    file: File,
    longest: Duration,
}

impl Patient {
    /// Wraps a file that was opened without blocking. A write to the file waits for at most `longest`.
    pub(crate) const fn new(file: File, longest: Duration) -> Self {
        Self { file, longest }
    }

    /// Returns the wrapped file.
    pub(crate) const fn file(&self) -> &File {
        &self.file
    }
}

impl Write for Patient {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.file.write(content) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && begun.elapsed() < self.longest => {
                    crate::pause::pause(Duration::from_millis(10));
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file that did not exist before. It is removed on drop, unless [`CreatedFile::keep`] is called.
#[derive(Debug)]
pub(crate) struct CreatedFile(Option<(OwnedFd, OsString)>);

impl CreatedFile {
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for CreatedFile {
    fn drop(&mut self) {
        if let Some((folder, name)) = &self.0 {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

/// A new file that is not in place yet. Where the file system supports that, it has no name, so that nothing is left if
/// the process is killed. Otherwise, it has a temporary name, and is removed on drop.
#[derive(Debug)]
pub(crate) struct Unfinished {
    folder: OwnedFd,
    /// The temporary name, if the file has one.
    unfinished: Option<OsString>,
    name: OsString,
    file: File,
}

impl Unfinished {
    /// Creates a file that can replace `path` itself; a symbolic link at `path` is not followed.
    pub(crate) fn next_to(path: &Path) -> io::Result<Self> {
        let place = Place::of(path, Last::Kept)?;
        refuse_to_replace(place.kind())?;
        Self::new_in(place.folder, place.name)
    }

    /// Creates a file in an opened directory: without a name, or with an unused temporary one.
    fn new_in(folder: OwnedFd, name: OsString) -> io::Result<Self> {
        if let Some(file) = nameless_in(&folder) {
            return Ok(Self { folder, unfinished: None, name, file });
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (file, unfinished) = with_unused_name(|unused| openat(&folder, unused, flags, Mode::from_raw_mode(0o600)))?;
        Ok(Self { folder, unfinished: Some(unfinished), name, file: file.into() })
    }

    /// Writes the whole content to disk. Other users cannot read the file.
    pub(crate) fn fill_for_the_owner(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        self.file.sync_all()
    }

    /// Writes the whole content to disk.
    pub(crate) fn fill(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)?;
        // Other users, for example the user of a web server, must be able to read the file.
        fchmod(&self.file, mode_of_new_file())?;
        self.file.sync_all()
    }

    /// Moves the file to its final name atomically. Replaces an existing file only if `replacing` is true.
    pub(crate) fn put(mut self, replacing: bool) -> io::Result<()> {
        let unfinished = match &self.unfinished {
            Some(unfinished) => unfinished.clone(),
            None if !replacing => return Ok(link(&self.file, &self.folder, &self.name)?),
            // Only a file with a name can replace another one.
            None => with_unused_name(|unused| link(&self.file, &self.folder, unused))?.1,
        };
        self.unfinished = Some(unfinished.clone());
        if replacing {
            let old = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
            refuse_to_replace(old.ok().map(|old| FileType::from_raw_mode(old.st_mode)))?;
            renameat(&self.folder, &unfinished, &self.folder, &self.name)?;
        } else {
            match renameat_with(&self.folder, &unfinished, &self.folder, &self.name, RenameFlags::NOREPLACE) {
                // The file system does not support the flag, or the kernel does not have the system call.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    linkat(&self.folder, &unfinished, &self.folder, &self.name, AtFlags::empty())?;
                    return Ok(());
                }
                renamed => renamed?,
            }
        }
        self.unfinished = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = unlinkat(&self.folder, unfinished, AtFlags::empty());
        }
    }
}

/// Creates a file without a name in a directory; `None` if the file system or the kernel does not support that, or if
/// the file could not be given a name later because /proc is missing. open(2), `O_TMPFILE`.
fn nameless_in(folder: &OwnedFd) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(openat(folder, ".", flags, Mode::from_raw_mode(0o600)).ok()?);
    statat(CWD, own_path(&file), AtFlags::empty()).ok()?;
    Some(file)
}

fn own_path(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Gives a file without a name a name. linkat(2).
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    linkat(CWD, own_path(file), folder, name, AtFlags::SYMLINK_FOLLOW)
}

/// Tries temporary names until one is unused. Returns the name with the result.
fn with_unused_name<T>(mut made: impl FnMut(&OsStr) -> rustix::io::Result<T>) -> io::Result<(T, OsString)> {
    loop {
        let unused = OsString::from(format!(".tmp{:016x}", RandomState::new().build_hasher().finish()));
        match made(&unused) {
            Err(Errno::EXIST) => {}
            made => return Ok((made?, unused)),
        }
    }
}

/// Rejects a file that must not be replaced by a new one: anything but a regular file or a link.
fn refuse_to_replace(old: Option<FileType>) -> io::Result<()> {
    match old {
        None | Some(FileType::RegularFile | FileType::Symlink | FileType::Directory) => Ok(()),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// How a symbolic link at the end of a path is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Followed,
    Kept,
}

/// The destination of new content.
enum New {
    Beside(Unfinished),
    /// The old file, because no new file can be created in its directory.
    InPlace(File),
}

/// The resolved target of a path: a name in an opened directory.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: OsString,
    /// The existing file, opened without access to its content.
    found: Option<(OwnedFd, Stat)>,
    /// Whether the path is a process's open file in /proc/PID/fd.
    is_open_file: bool,
}

impl Place {
    /// Follows a path component by component. Rejects each link that the caller must not follow.
    fn of(path: &Path, last: Last) -> io::Result<Self> {
        let is_folder = path.as_os_str().as_bytes().ends_with(b"/");
        let mut folder = opened_folder(CWD, OsStr::new("."))?;
        let mut rest = Vec::new();
        push(&mut rest, path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == "/" || name == ".." {
                folder = opened_folder(&folder, &name)?;
                continue;
            }
            let is_last = rest.is_empty() && !is_folder;
            let found = match openat(&folder, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
                Err(Errno::NOENT) if is_last => return Ok(Self { folder, name, found: None, is_open_file: false }),
                found => found?,
            };
            let about = fstat(&found)?;
            match FileType::from_raw_mode(about.st_mode) {
                FileType::Symlink if !(is_last && last == Last::Kept) => {
                    refuse_a_link_of_another_user(&name, &about)?;
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    let is_open_file =
                        fstatfs(&found)?.f_type == PROC_SUPER_MAGIC && name.as_bytes().iter().all(u8::is_ascii_digit);
                    if is_open_file && is_last {
                        // The target of the link, for example `pipe:[7]`, need not be a path.
                        let found = openat(&folder, &name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
                        let about = fstat(&found)?;
                        return Ok(Self { folder, name, found: Some((found, about)), is_open_file });
                    }
                    let target = OsString::from_vec(readlinkat(&found, "", Vec::new())?.into_bytes());
                    push(&mut rest, Path::new(&target));
                }
                _ if is_last => return Ok(Self { folder, name, found: Some((found, about)), is_open_file: false }),
                _ => folder = opened_folder(&folder, &name)?,
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn kind(&self) -> Option<FileType> {
        self.found.as_ref().map(|(_, about)| FileType::from_raw_mode(about.st_mode))
    }

    /// Returns whether a new file replaces the existing one. Devices and pipes are written in place.
    fn is_replaced(&self) -> bool {
        !self.is_open_file && self.kind().is_none_or(|kind| kind == FileType::RegularFile)
    }

    /// Returns whether a file that replaces `old` may belong to the owner of `old`. In a directory to which several users
    /// can write, another user may have made the old file only to get the new one.
    fn may_keep_its_owner(&self, old: &Stat) -> bool {
        let owner_of_the_folder = fstat(&self.folder).map_or(0, |folder| folder.st_uid);
        [0, geteuid().as_raw(), owner_of_the_folder].contains(&old.st_uid)
    }

    fn refuse_a_folder(&self) -> io::Result<()> {
        if self.kind() == Some(FileType::Directory) { Err(Errno::ISDIR.into()) } else { Ok(()) }
    }

    /// Tries the steps that writing requires, and undoes them. Does not open devices or pipes, because opening a pipe
    /// can block, or can cause the program that reads from the pipe to end.
    fn check(&self) -> io::Result<()> {
        self.refuse_a_folder()?;
        if self.is_replaced() { self.unfinished().map(drop) } else { Ok(()) }
    }

    fn unfinished(&self) -> io::Result<New> {
        match Unfinished::new_in(self.folder.try_clone()?, self.name.clone()) {
            Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied && self.found.is_some() => {
                self.open_found(OFlags::empty()).map(New::InPlace).map_err(|_| refused)
            }
            new => new.map(New::Beside),
        }
    }

    /// Opens the existing file that was found earlier. Fails if another file has replaced it since then.
    fn open_found(&self, flags: OFlags) -> io::Result<File> {
        let Some((_, about)) = &self.found else { return Err(Errno::NOENT.into()) };
        if FileType::from_raw_mode(about.st_mode) == FileType::RegularFile {
            self.refuse_a_second_name(about)?;
        }
        let links = if self.is_open_file { OFlags::empty() } else { OFlags::NOFOLLOW };
        // O_TRUNC is not used here, because it would truncate the file before the comparison below.
        let opening = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | links;
        let file = openat(&self.folder, &self.name, opening | flags.difference(OFlags::TRUNC), Mode::empty())?;
        let opened = fstat(&file)?;
        if (opened.st_dev, opened.st_ino) != (about.st_dev, about.st_ino) {
            return Err(io::Error::other("another file replaced this file while hpt was opening it"));
        }
        if flags.contains(OFlags::TRUNC) {
            rustix::fs::ftruncate(&file, 0)?;
        }
        Ok(file.into())
    }

    /// Rejects a file that may have a hard link created by another user, if this process runs as root.
    fn refuse_a_second_name(&self, about: &Stat) -> io::Result<()> {
        if !geteuid().is_root() || self.is_open_file || about.st_nlink < 2 {
            return Ok(());
        }
        let folder = fstat(&self.folder)?;
        if folder.st_uid == 0 && folder.st_mode & 0o022 == 0 {
            return Ok(());
        }
        let why = "hpt, running as root, does not write to a file that has several hard links \
                   and is in a directory to which other users can write";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Pushes the components of a path, the first one on top. Skips `.`.
fn push(rest: &mut Vec<OsString>, path: &Path) {
    let names = path.components().filter(|component| *component != Component::CurDir);
    rest.extend(names.rev().map(|component| component.as_os_str().to_owned()));
}

fn opened_folder(at: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let links = if name == "/" || name == "." || name == ".." { OFlags::empty() } else { OFlags::NOFOLLOW };
    Ok(openat(at, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | links, Mode::empty())?)
}

/// Rejects another user's symbolic link if this process runs as root. Links that root owns are followed. The kernel
/// itself rejects other users' links only in sticky directories, and only if fs.protected_symlinks is 1.
fn refuse_a_link_of_another_user(name: &OsStr, link: &Stat) -> io::Result<()> {
    if !geteuid().is_root() || link.st_uid == 0 {
        return Ok(());
    }
    let owner = link.st_uid;
    let why = format!(
        "hpt, running as root, does not follow the symbolic link {name:?}, which belongs to user {owner}; use the path of the target instead",
        name = name.to_string_lossy()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, lchown, symlink},
        path::Path,
    };

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::{Unfinished, check, check_folder, check_replacing, open, replace};

    /// Like the macro of the same name in the integration tests.
    macro_rules! skipped {
        ($why:literal) => {{
            use std::io::Write as _;
            std::io::stderr().write_all(concat!("skipped: ", $why, "\n").as_bytes()).expect("standard error is open")
        }};
    }

    #[test]
    fn links_are_followed_to_a_target_that_does_not_exist_yet() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("elsewhere")).expect("ours");
        symlink("second", path("first")).expect("ours");
        symlink("elsewhere/end", path("second")).expect("ours");
        for content in ["one", "another"] {
            check_replacing(&path("first")).expect("it can be created");
            replace(&path("first"), content.as_bytes()).expect("it can be created");
            assert_eq!(fs::read_to_string(path("elsewhere/end")).expect("it is there"), content);
        }
        assert!(path("second").is_symlink() && path("first").is_symlink());
        symlink("round", path("round")).expect("ours");
        check_replacing(&path("round")).expect_err("the link is circular");
    }

    #[test]
    fn every_form_of_a_path_leads_to_the_same_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("one")).expect("ours");
        symlink("one", path("link")).expect("ours");
        symlink(folder.path(), path("one/up")).expect("ours");
        for (index, name) in ["one/a", "./one/./a", "one/../one/a", "link/a", "one/up/link/a"].into_iter().enumerate() {
            let content = index.to_string();
            check(&path(name)).expect("it can be written");
            replace(&path(name), content.as_bytes()).expect("it can be written");
            assert_eq!(fs::read_to_string(path("one/a")).expect("it is there"), content, "{name}");
        }
        for folder in ["one", "one/", "link", "link/", "one/..", ".", "absent/a", "one/a/b", "absent/"] {
            check(&path(folder)).expect_err(folder);
            replace(&path(folder), b"any").expect_err(folder);
        }
        assert_eq!(fs::read_dir(path("one")).expect("ours").count(), 2, "no temporary file is left");
    }

    #[test]
    fn a_file_that_is_not_in_place_has_no_name() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let names = || fs::read_dir(folder.path()).expect("ours").count();
        let flags = OFlags::WRONLY | OFlags::TMPFILE;
        if openat(CWD, folder.path(), flags, Mode::from_raw_mode(0o600)).is_err() {
            return skipped!("this file system has no files without a name");
        }
        let path = folder.path().join("page");
        for (content, replacing) in [("first", false), ("second", true)] {
            let mut page = Unfinished::next_to(&path).expect("ours");
            page.fill(content.as_bytes()).expect("ours");
            // Nothing else would be left if the process were killed here.
            assert_eq!(names(), usize::from(replacing));
            page.put(replacing).expect("ours");
            assert_eq!((names(), fs::read_to_string(&path).expect("ours").as_str()), (1, content));
        }
        let mut page = Unfinished::next_to(&path).expect("ours");
        page.fill(b"third").expect("ours");
        assert_eq!(page.put(false).expect_err("it exists").kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!((names(), fs::read_to_string(&path).expect("ours").as_str()), (1, "second"));
    }

    /// Creates a directory like /tmp in which user 65534 has made a symbolic link to a file owned by root.
    /// Returns `None` if the test does not run as root.
    fn with_a_link_of_another_user() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("victim"), "root's own").expect("ours");
        symlink("victim", folder.path().join("link")).expect("ours");
        symlink(".", folder.path().join("folder")).expect("ours");
        ["link", "folder"]
            .into_iter()
            .all(|name| lchown(folder.path().join(name), Some(65_534), None).is_ok())
            .then_some(folder)
    }

    #[test]
    fn root_does_not_write_through_links_of_another_user() {
        let Some(folder) = with_a_link_of_another_user() else {
            return skipped!("only root can create a link of another user");
        };
        let path = |name: &str| folder.path().join(name);
        for name in ["link", "folder/new"] {
            for refused in [check(&path(name)), check_replacing(&path(name)), replace(&path(name), b"metrics")] {
                assert!(refused.expect_err(name).to_string().contains("belongs to user 65534"));
            }
            assert!(open(&path(name)).expect_err(name).to_string().contains("belongs to user 65534"));
        }
        check_folder(&path("folder")).expect_err("a link of another user");
        assert_eq!(fs::read_to_string(path("victim")).expect("ours"), "root's own");
        // A report replaces a link at the end of its path, and does not follow it.
        let mut page = Unfinished::next_to(&path("link")).expect("ours");
        page.fill(b"page").and_then(|()| page.put(true)).expect("ours");
        assert_eq!(fs::read_to_string(path("victim")).expect("ours"), "root's own");
        assert!(Unfinished::next_to(&path("folder/page")).is_err() && !path("link").is_symlink());
    }

    #[test]
    fn root_does_not_write_into_a_hard_linked_file_in_a_directory_that_others_can_write_to() {
        let Some(folder) = with_a_link_of_another_user() else {
            return skipped!("only root can create a link of another user");
        };
        let path = |name: &str| folder.path().join(name);
        fs::hard_link(path("victim"), path("samples")).expect("ours");
        open(&path("samples")).expect("only root can write to the folder");
        lchown(folder.path(), Some(65_534), None).expect("root");
        assert!(open(&path("samples")).expect_err("a second name").to_string().contains("hard link"));
        // Replacing creates a new file, and the linked one keeps its content.
        replace(&path("samples"), b"metrics").expect("root");
        assert_eq!(fs::read_to_string(path("victim")).expect("ours"), "root's own");
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = &folder.path().join("any");
        fs::write(path, "old").expect("ours");
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).expect("ours");
        // As with sudo in a directory of the user.
        let owned =
            [path.as_path(), folder.path()].into_iter().all(|path| lchown(path, Some(65_534), Some(65_534)).is_ok());
        replace(path, b"new").expect("ours");
        let about = fs::metadata(path).expect("ours");
        assert_eq!(about.mode() & 0o7777, 0o640);
        assert!(!owned || (about.uid(), about.gid()) == (65_534, 65_534));
    }

    #[test]
    fn files_of_dev_shm_are_ordinary_files() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            return skipped!("no directory can be created in /dev/shm");
        };
        let path = folder.path().join("any");
        check(&path).expect("it can be created");
        for content in ["the longer one", "short"] {
            replace(&path, content.as_bytes()).expect("it can be created");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), content);
        }
        let (_, made) = open(&folder.path().join("samples")).expect("it can be created");
        drop(made);
        assert!(!folder.path().join("samples").exists());
    }

    #[test]
    fn devices_are_written_to_directly() {
        check(Path::new("/dev/null")).expect("always writable");
        replace(Path::new("/dev/null"), b"any").expect("always writable");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        check(Path::new(&path)).expect("always writable");
        replace(Path::new(&path), b"any").expect("always writable");
        drop(writer);
        assert_eq!(std::io::read_to_string(reader).expect("it was written"), "any");
    }
}
