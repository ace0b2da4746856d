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
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => tempfile::NamedTempFile::new_in(folder_of(&path)).map(|_| ()),
    }
}

/// Linux follows no more. path_resolution(7).
const MOST_LINKS: usize = 40;

/// Where a link leads, also by way of others and where the end is not there yet; any other path is itself.
fn led_to_by(path: &Path) -> PathBuf {
    let end_of_the_links = || {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let Ok(end) = fs::read_link(&path) else { break };
            path = folder_of(&path).join(end);
        }
        path
    };
    fs::canonicalize(path).unwrap_or_else(|_| end_of_the_links())
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

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::{check_replacing, replace};

    #[test]
    fn links_are_followed_to_an_end_that_is_not_there_yet() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("elsewhere")).expect("ours");
        symlink("second", path("first")).expect("ours");
        symlink("elsewhere/end", path("second")).expect("ours");
        for content in ["one", "another"] {
            check_replacing(&path("first")).expect("it can be made");
            replace(&path("first"), content.as_bytes()).expect("it can be made");
            assert_eq!(fs::read_to_string(path("elsewhere/end")).expect("it is there"), content);
        }
        assert!(path("second").is_symlink() && path("first").is_symlink());
        symlink("round", path("round")).expect("ours");
        check_replacing(&path("round")).expect_err("it leads nowhere");
    }
}
