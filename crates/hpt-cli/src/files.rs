//! Files that results are written to: looked at before anything is measured, replaced in one step.
//! Knows no format.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{MetadataExt, PermissionsExt, fchown},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::long_run::Patient;

/// A pipe that nobody empties is tried for so long.
const LONGEST_WRITE: Duration = Duration::from_secs(5);

/// Refuses a file that cannot be written. Leaves everything as it is: an old file, none, a pipe that somebody reads.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(what) if what.is_file() => fs::OpenOptions::new().append(true).open(path).map(|_| ()),
        Ok(what) if what.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // A device or a pipe: to open it may wait for somebody, or end whoever reads.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tempfile::NamedTempFile::new_in(folder_of(&led_to_by(path))).map(|_| ())
        }
        Err(error) => Err(error),
    }
}

/// The same for a file that somebody reads meanwhile, so that only a new one in its place will do. Whoever may put one there need not be let at the old one.
pub(crate) fn check_replacing(path: &Path) -> io::Result<()> {
    let path = led_to_by(path);
    match fs::metadata(&path) {
        Ok(what) if what.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(what) if !what.is_file() => Ok(()),
        _ => tempfile::NamedTempFile::new_in(folder_of(&path)).map(|_| ()),
    }
}

/// Where a link leads, also one whose end is not there yet; any other path is itself.
fn led_to_by(path: &Path) -> PathBuf {
    let end_of_the_link = || fs::read_link(path).map(|end| folder_of(path).join(end));
    fs::canonicalize(path).or_else(|_| end_of_the_link()).unwrap_or_else(|_| path.to_owned())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A device or a pipe is written to as it is, and so is a file in a folder that takes no other. Of a link it is what it leads to.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let own = path.starts_with("/dev") || path.starts_with("/proc");
    let path = if own { path.to_owned() } else { led_to_by(path) };
    let old = fs::metadata(&path).ok();
    if own || old.as_ref().is_some_and(|what| !what.is_file()) {
        return Patient::open(&mut fs::OpenOptions::new(), &path, LONGEST_WRITE)?.write_all(content);
    }
    let mut file = match tempfile::NamedTempFile::new_in(folder_of(&path)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && old.is_some() => {
            return fs::write(&path, content);
        }
        file => file?,
    };
    file.as_file_mut().write_all(content)?;
    let mode = old.as_ref().map_or_else(|| fs::Permissions::from_mode(0o644), fs::Metadata::permissions);
    file.as_file().set_permissions(mode)?;
    if let Some(old) = old {
        // Root alone gives away.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
    }
    file.persist(&path)?;
    Ok(())
}
