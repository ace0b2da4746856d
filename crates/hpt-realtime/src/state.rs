//! Stores files that persist between runs, one for each purpose. Each file has a version and a checksum, is replaced
//! atomically, and is bound to the boot and the processor of the run that saved it.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use hpt_sys::{
    file_lock::{FileLock, try_lock},
    host::{BootId, FileOwner, Host, read_regular_file_and_about},
};

/// The first line of every file. It includes the version of the layout. A file with another version is refused with an
/// error that states this.
const MAGIC: &str = "hpt-state 1";

/// The boot and the processor that a file is bound to. After a reboot, or on another processor, the file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The ID of the boot.
    pub boot: BootId,
    /// The vendor, family, model and stepping of the processor.
    pub processor: String,
}

impl Binding {
    /// Returns the binding to this host's current boot; `None` if /proc does not contain the boot ID.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::state::Binding;
    ///
    /// match Binding::new(&Host::live()) {
    ///     Some(binding) => println!("boot {}, processor {}", binding.boot, binding.processor),
    ///     None => println!("/proc does not contain the boot ID"),
    /// }
    /// ```
    #[must_use]
    pub fn new(host: &Host) -> Option<Self> {
        Some(Self { boot: host.boot_id()?, processor: host.cpu().signature().to_owned() })
    }
}

/// The reason a file could not be read or written, or is not valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// No file exists for the purpose.
    #[error("nothing is saved at {path}")]
    Missing {
        /// The path of the missing file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        cause: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {path}; choose a writable directory")]
    Unwritable {
        /// The path of the file or of its directory.
        path: PathBuf,
        /// The error that the operating system returned.
        #[source]
        cause: io::Error,
    },
    /// The file was written by another program, or is damaged.
    #[error("{path} is corrupt: {what}; save again to replace it")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The problem.
        what: &'static str,
    },
    /// The file was saved during another boot.
    #[error("{path} is stale: it was saved during another boot; save again to replace it")]
    Stale {
        /// The file.
        path: PathBuf,
    },
    /// The file was saved on another processor.
    #[error("{path} was saved on another processor ({saved_on}); save again to replace it")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The processor on which the file was saved.
        saved_on: String,
    },
}

/// An exclusive lock, which is held until this value is dropped.
#[derive(Debug)]
pub struct Locked(#[expect(dead_code, reason = "dropping it unlocks the file")] FileLock);

/// A directory of state files.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    is_private: bool,
}

impl Store {
    /// Creates a store in the directory `folder`. The directory itself is created by the first save.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::state::Store;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("my-program");
    /// let store = Store::new(&folder);
    /// assert!(store.path("rates").starts_with(&folder) && !folder.exists());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), is_private: false }
    }

    /// Creates a store in the directory `folder` whose files only their owner can read.
    pub(crate) fn private(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), is_private: true }
    }

    /// Returns the path of the file for `purpose`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::path::Path;
    /// use hpt_realtime::state::Store;
    ///
    /// assert_eq!(Store::new("/run/my-program").path("rates"), Path::new("/run/my-program/rates"));
    /// ```
    #[must_use]
    pub fn path(&self, purpose: &str) -> PathBuf {
        self.folder.join(purpose)
    }

    /// Replaces the file for `purpose` atomically: a reader sees the old or the new content, even if this process is
    /// killed.
    ///
    /// # Errors
    ///
    /// Returns [`StateError::Unwritable`] if the file cannot be written.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::state::{Binding, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let binding = Binding::new(&Host::live()).ok_or("no boot ID")?;
    /// let store = Store::new(folder);
    /// store.save("rates", &binding, b"first")?;
    /// store.save("rates", &binding, b"second")?;
    /// assert_eq!(store.load("rates", &binding)?, b"second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::disallowed_methods, reason = "the directory that holds the file")]
    pub fn save(&self, purpose: &str, binding: &Binding, payload: &[u8]) -> Result<(), StateError> {
        let path = self.path(purpose);
        let unwritable = |cause| StateError::Unwritable { path: path.clone(), cause };
        make_folder(&self.folder).map_err(unwritable)?;
        let (unfinished, file) = self.unfinished(purpose).map_err(unwritable)?;
        let written = write_durably(file, &encode(purpose, binding, payload))
            .and_then(|()| fs::rename(&unfinished, &path))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        written.map_err(|cause| {
            // The removal is best effort: the write error is reported, not an error from the removal.
            let _ = fs::remove_file(&unfinished);
            unwritable(cause)
        })
    }

    /// Creates a file that no other thread writes to. The process ID alone does not make the file name unique: several
    /// threads of a process may save at once, and a process in another container may have the same ID. An existing file
    /// is not touched, because another thread may still be writing it.
    fn unfinished(&self, purpose: &str) -> io::Result<(PathBuf, File)> {
        let mut number = 0_u32;
        loop {
            let path = self.folder.join(format!(".{purpose}.{}.{number}", process::id()));
            // The mode is set explicitly, because some containers and daemons set the umask to 0.
            let mode = if self.is_private { 0o600 } else { 0o644 };
            match File::options().write(true).create_new(true).mode(mode).open(&path) {
                Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => number += 1,
                opened => return opened.map(|file| (path, file)),
            }
        }
    }

    /// Returns the files that saves for `purpose` left unfinished. A save that another process is making has such a file
    /// too.
    pub(crate) fn unfinished_files(&self, purpose: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_unfinished = |name: &str| {
            let rest = name.strip_prefix('.').and_then(|rest| rest.strip_prefix(purpose)?.strip_prefix('.'));
            rest.and_then(|rest| rest.split_once('.')).is_some_and(|(id, count)| is_number(id) && is_number(count))
        };
        let named = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_unfinished));
        named.map(|entry| entry.path()).collect()
    }

    /// Removes the files that killed processes left when they saved for `purpose`. The caller must make sure that no other
    /// process is saving. A link is removed, and its target is left alone.
    pub(crate) fn remove_unfinished(&self, purpose: &str) {
        for path in self.unfinished_files(purpose) {
            // The removal is best effort: such a file does no harm.
            let _ = fs::remove_file(path);
        }
    }

    /// Locks `purpose` until the result is dropped or the process ends; returns `None` if `purpose` is already locked.
    ///
    /// # Errors
    ///
    /// Returns [`StateError::Unwritable`] if the lock file cannot be opened or locked.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::state::Store;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let store = Store::new(folder);
    /// let locked = store.lock("rates")?;
    /// assert!(locked.is_some() && store.lock("rates")?.is_none());
    /// drop(locked);
    /// assert!(store.lock("rates")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lock(&self, purpose: &str) -> Result<Option<Locked>, StateError> {
        let path = self.folder.join(format!("{purpose}.lock"));
        let locked = || {
            make_folder(&self.folder)?;
            // These flags prevent the open from following a symbolic link or blocking on a FIFO.
            let open =
                |options: &mut OpenOptions| options.custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&path);
            let file = match open(File::options().create(true).append(true).mode(0o644)) {
                // The file may belong to another user, for example because root created it in a user's directory. Read
                // access is sufficient to lock a file.
                Err(refused) if refused.kind() == io::ErrorKind::PermissionDenied => {
                    open(File::options().read(true)).map_err(|_| refused)?
                }
                opened => opened?,
            };
            Ok(try_lock(file)?.map(Locked))
        };
        locked().map_err(|cause| StateError::Unwritable { path, cause })
    }

    /// Removes the file for `purpose`. A missing file is not an error.
    ///
    /// # Errors
    ///
    /// Returns [`StateError::Unwritable`] if the file cannot be removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::state::{Binding, StateError, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let binding = Binding::new(&Host::live()).ok_or("no boot ID")?;
    /// let store = Store::new(folder);
    /// store.save("rates", &binding, b"payload")?;
    /// store.remove("rates")?;
    /// assert!(matches!(store.load("rates", &binding), Err(StateError::Missing { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[allow(clippy::disallowed_methods, reason = "the directory that holds the file")]
    pub fn remove(&self, purpose: &str) -> Result<(), StateError> {
        let path = self.path(purpose);
        let removed = fs::remove_file(&path).and_then(|()| File::open(&self.folder)?.sync_all());
        match removed {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(StateError::Unwritable { path, cause }),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Returns the payload saved for `purpose`, if it was saved during this boot on this processor and is intact.
    ///
    /// # Errors
    ///
    /// Returns [`StateError`] if the file is missing, unreadable or damaged, or was saved during another boot or on
    /// another processor.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::state::{Binding, StateError, Store};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path();
    /// let binding = Binding::new(&Host::live()).ok_or("no boot ID")?;
    /// let store = Store::new(folder);
    /// store.save("rates", &binding, b"payload")?;
    /// assert_eq!(store.load("rates", &binding)?, b"payload");
    /// let elsewhere = Binding { processor: "another".to_owned(), ..binding };
    /// assert!(matches!(store.load("rates", &elsewhere), Err(StateError::Foreign { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(&self, purpose: &str, binding: &Binding) -> Result<Vec<u8>, StateError> {
        let path = self.path(purpose);
        let (content, _) = self.content_and_about(purpose)?;
        let saved = self.saved(purpose, &content)?;
        if saved.boot != binding.boot {
            Err(StateError::Stale { path })
        } else if saved.processor != in_one_line(&binding.processor) {
            Err(StateError::Foreign { path, saved_on: saved.processor })
        } else {
            Ok(saved.payload)
        }
    }

    /// Parses the content of the file for `purpose`, if the file is intact. Accepts a file from any boot and any
    /// processor.
    ///
    /// # Errors
    ///
    /// Returns [`StateError::Corrupt`] if the file is not intact.
    pub(crate) fn saved(&self, purpose: &str, content: &[u8]) -> Result<Saved, StateError> {
        decode(content, purpose).map_err(|what| StateError::Corrupt { path: self.path(purpose), what })
    }

    /// Returns the content of the file for `purpose`, its owner and its mode.
    ///
    /// # Errors
    ///
    /// Returns [`StateError`] if the file is missing or unreadable.
    pub(crate) fn content_and_about(&self, purpose: &str) -> Result<(Vec<u8>, FileOwner), StateError> {
        let path = self.path(purpose);
        read_regular_file_and_about(&path).map_err(|cause| match cause.kind() {
            // A dangling symbolic link does not count as a missing file, because its target may only be temporarily
            // unavailable.
            io::ErrorKind::NotFound if fs::symlink_metadata(&path).is_ok() => {
                let to_nothing = io::Error::new(io::ErrorKind::NotFound, "it is a dangling symbolic link");
                StateError::Unreadable { path: path.clone(), cause: to_nothing }
            }
            io::ErrorKind::NotFound => StateError::Missing { path: path.clone() },
            _ => StateError::Unreadable { path: path.clone(), cause },
        })
    }
}

/// Creates a directory and its missing parents. Returns whether the directory was missing. A new directory is not
/// writable by group and others, even if the umask is 0.
pub(crate) fn make_folder(folder: &Path) -> io::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map(|()| true)
}

fn write_durably(mut file: File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    file.sync_all()
}

fn encode(purpose: &str, binding: &Binding, payload: &[u8]) -> Vec<u8> {
    let mut content = format!(
        "{MAGIC}\npurpose {purpose}\nboot {}\nprocessor {}\nchecksum {:016x}\n",
        binding.boot,
        in_one_line(&binding.processor),
        checksum(payload)
    )
    .into_bytes();
    content.extend_from_slice(payload);
    content
}

fn in_one_line(processor: &str) -> String {
    processor.replace('\n', " ")
}

/// The content of a file, with the boot and the processor that it is bound to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) boot: BootId,
    pub(crate) processor: String,
    pub(crate) payload: Vec<u8>,
}

fn decode(content: &[u8], purpose: &str) -> Result<Saved, &'static str> {
    let mut parts = content.splitn(6, |&byte| byte == b'\n');
    let mut line = || parts.next().and_then(|line| std::str::from_utf8(line).ok());
    if line() != Some(MAGIC) {
        return Err("its first line does not match this version of the format");
    }
    let mut field = |key: &str| line().and_then(|line| line.strip_prefix(key)?.strip_prefix(' ')).map(str::to_owned);
    if field("purpose").as_deref() != Some(purpose) {
        return Err("its purpose line is missing, or names another purpose");
    }
    let boot = field("boot").as_deref().and_then(BootId::parse).ok_or("its boot line is invalid")?;
    let processor = field("processor").ok_or("its processor line is missing")?;
    let sum = field("checksum").and_then(|sum| u64::from_str_radix(&sum, 16).ok());
    let sum = sum.ok_or("its checksum line is invalid")?;
    let payload = parts.next().ok_or("it is truncated")?;
    if checksum(payload) != sum {
        return Err("its checksum does not match");
    }
    Ok(Saved { boot, processor, payload: payload.to_vec() })
}

/// Returns the 64-bit FNV-1a checksum, which detects accidental damage but provides no security. The algorithm is
/// specified in draft-eastlake-fnv, section 2.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, prop_assert_eq, prop_assert_ne, proptest},
    };

    use super::{Binding, Saved, StateError, Store, decode, encode};
    use hpt_sys::host::BootId;

    fn binding(boot: &str, processor: &str) -> Binding {
        let boot = BootId::parse(boot).expect("the test writes a boot identity");
        Binding { boot, processor: processor.to_owned() }
    }

    fn here() -> Binding {
        binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10", "GenuineIntel/6/85/7")
    }

    #[test]
    fn another_boot_makes_state_stale_and_another_processor_makes_it_foreign() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path());
        store.save("calibrations", &here(), b"{}").expect("a writable directory");
        let rebooted = |processor| binding("1f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10", processor);
        let elsewhere = binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10", "AuthenticAMD/25/1/1");
        let load = |binding: Binding| store.load("calibrations", &binding);
        assert_eq!(load(here()).expect("a file of this boot"), b"{}");
        assert!(matches!(load(rebooted("GenuineIntel/6/85/7")), Err(StateError::Stale { .. })));
        // A file from another boot is stale, regardless of the processor it was saved on.
        assert!(matches!(load(rebooted("AuthenticAMD/25/1/1")), Err(StateError::Stale { .. })));
        let foreign = load(elsewhere).expect_err("another processor");
        assert!(matches!(&foreign, StateError::Foreign { saved_on, .. } if saved_on == "GenuineIntel/6/85/7"));
        assert!(decode(&encode("calibrations", &here(), b"{}"), "journal").is_err());
    }

    #[test]
    fn a_lock_has_one_holder_and_each_purpose_has_its_own_lock() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path().join("made when it is needed"));
        let first = store.lock("any").expect("a writable directory");
        assert!(first.is_some() && store.lock("any").expect("a readable directory").is_none());
        assert!(store.lock("other").expect("a readable directory").is_some());
        drop(first);
        assert!(store.lock("any").expect("a readable directory").is_some());
        let no_folder = Store::new("/dev/null/no folder");
        assert!(matches!(no_folder.lock("any"), Err(StateError::Unwritable { .. })));
    }

    #[test]
    fn concurrent_saves_leave_one_complete_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path());
        let payload = |byte: u8| vec![byte; 5_000];
        store.save("any", &here(), &payload(0)).expect("a writable directory");
        std::thread::scope(|scope| {
            for byte in 1..5 {
                let (store, payload) = (&store, payload(byte));
                scope.spawn(move || {
                    for _ in 0..20 {
                        store.save("any", &here(), &payload).expect("a writable directory");
                        let read = store.load("any", &here()).expect("a complete file");
                        assert!(
                            read.len() == 5_000 && read.iter().all(|&other| other == read[0]),
                            "all bytes are of one writer"
                        );
                    }
                });
            }
        });
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a readable directory").count(),
            1,
            "no unfinished file is left"
        );
    }

    #[test]
    fn an_unfinished_file_of_another_process_is_left_alone() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path());
        // A process with the same ID in another container.
        let (its_own, _file) = store.unfinished("any").expect("a writable directory");
        store.save("any", &here(), b"{}").expect("a writable directory");
        assert!(its_own.exists() && store.load("any", &here()).is_ok_and(|read| read == b"{}"));
    }

    #[test]
    fn a_read_only_lock_file_can_be_locked() {
        use std::{fs, os::unix::fs::PermissionsExt};
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path());
        drop(store.lock("any").expect("a writable directory"));
        let lock = folder.path().join("any.lock");
        fs::set_permissions(lock, fs::Permissions::from_mode(0o444)).expect("a readable directory");
        let first = store.lock("any").expect("a readable lock");
        assert!(first.is_some() && store.lock("any").expect("a readable lock").is_none());
    }

    #[test]
    fn a_dangling_link_is_not_a_missing_file() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let store = Store::new(folder.path());
        assert!(matches!(store.load("any", &here()), Err(StateError::Missing { .. })));
        std::os::unix::fs::symlink("/nonexistent/any", store.path("any")).expect("a writable directory");
        assert!(matches!(store.load("any", &here()), Err(StateError::Unreadable { .. })));
    }

    proptest! {
        #[test]
        fn any_payload_round_trips(payload in vec(any::<u8>(), 0..300)) {
            let Binding { boot, processor } = here();
            let content = encode("any", &here(), &payload);
            prop_assert_eq!(decode(&content, "any"), Ok(Saved { boot, processor, payload }));
        }

        #[test]
        fn any_changed_byte_and_any_truncation_is_refused(payload in vec(any::<u8>(), 1..100), at in any::<proptest::sample::Index>(), flip in 1_u8..=255) {
            let content = encode("any", &here(), &payload);
            let at = at.index(content.len());
            let mut damaged = content.clone();
            damaged[at] ^= flip;
            // Upper and lower case letters in the boot or the checksum are equivalent.
            if !damaged.eq_ignore_ascii_case(&content) {
                let Binding { boot, processor } = here();
                prop_assert_ne!(decode(&damaged, "any"), Ok(Saved { boot, processor, payload }));
            }
            prop_assert!(decode(&content[..at], "any").is_err());
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(content in vec(any::<u8>(), 0..300)) {
            prop_assert!(decode(&content, "any").is_err());
        }
    }
}
