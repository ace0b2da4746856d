//! The journal, a file that lists changed system settings with their original values. It outlives the process that
//! changed them. This module writes to a setting only to restore it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, ErrorKind, Read, Seek, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use hpt_sys::{
    file_lock::{FileLock, try_lock},
    host::{Host, read_regular_file},
    process::effective_user,
};

use super::{JournalError, Knob, KnobError, is_a_line, known};
use crate::state::{Binding, Saved, StateError, Store, make_folder};

/// The names of the journal and of its lock file, in the journal's directory.
const PURPOSE: &str = "journal";
const LOCK: &str = "lock";
/// The name of a second lock file. That file is always in [`Journal::FOLDER`], even if the journal is elsewhere,
/// because the settings apply to the whole machine.
const LOCK_OF_THE_MACHINE: &str = "lock-of-the-machine";

/// The changes to one setting by one program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The setting's name.
    pub kind: String,
    /// The setting's file.
    pub path: String,
    /// The program that changed the setting.
    pub by: String,
    /// Whether the change is intended to outlive that program.
    pub lasting: bool,
    /// The setting's original value.
    pub before: String,
    /// The values that the program set, or was about to set.
    pub set_to: Vec<String>,
}

/// The content of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// There is no journal, or it is empty.
    Nothing,
    /// The journal belongs to another boot, whose settings are no longer in effect.
    OfAnotherBoot,
    /// The recorded changes, oldest first.
    Entries(Vec<Entry>),
}

/// A setting in a journal, and the result of restoring it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The setting's name.
    pub kind: String,
    /// The setting's file.
    pub path: String,
    /// The program that changed the setting.
    pub by: String,
    /// The setting's original value.
    pub before: String,
    /// The result.
    pub came: Restored,
}

/// The result of restoring a setting.
#[derive(Debug)]
pub enum Restored {
    /// The setting has its original value again.
    PutBack {
        /// The setting's value before it was restored.
        from: String,
    },
    /// The setting already had its original value.
    WasBack,
    /// The setting was left unchanged. Its value does not come from a change in the journal, so another process must
    /// have set it.
    ChangedSince {
        /// The setting's current value.
        is: String,
    },
    /// The setting could not be restored. The journal keeps its entry.
    Failed(KnobError),
}

/// The maximum size of the note that lists the journals in use, in bytes. The note normally contains only a few paths.
const LONGEST_NOTE: u64 = 64 << 10;

/// A journal of the settings that have been changed since the machine booted.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    folder: Box<Path>,
    /// The directory of the machine-wide lock; `None` if this journal does not use that lock.
    machine: Option<Box<Path>>,
    binding: Binding,
    /// Whether arbitrary files can be restored, which tests require. Otherwise, only known settings can be
    /// restored.
    restores_anywhere: bool,
}

impl Journal {
    /// The default directory of the journal. A reboot empties it and also resets the settings.
    pub const FOLDER: &'static str = "/run/hpt";

    /// Returns the journal in `folder`. The directory is created when the first change begins.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError::NoBootId`] if the boot ID cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, JournalError};
    ///
    /// match Journal::open(Journal::FOLDER, &Host::live()) {
    ///     Ok(journal) => println!("{}", journal.path().display()),
    ///     Err(JournalError::NoBootId) => println!("mount /proc"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open(folder: impl Into<PathBuf>, host: &Host) -> Result<Self, JournalError> {
        let journal =
            Binding::new(host).map(|binding| Self::bound_to(folder, binding)).ok_or(JournalError::NoBootId)?;
        Ok(journal.with_a_lock_of_the_machine_in(Self::FOLDER).only_settings())
    }

    /// Returns a journal for settings that no other process changes. Such a journal does not use the machine-wide lock.
    pub(crate) fn bound_to(folder: impl Into<PathBuf>, binding: Binding) -> Self {
        let folder = folder.into().into_boxed_path();
        Self { store: Store::private(&*folder), folder, machine: None, binding, restores_anywhere: true }
    }

    /// Returns the same journal, but restricts it to restoring known settings.
    pub(super) fn only_settings(self) -> Self {
        Self { restores_anywhere: false, ..self }
    }

    pub(super) fn with_a_lock_of_the_machine_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.machine = Some(folder.into().into_boxed_path());
        self
    }

    /// Returns the journal's directory, which may not exist yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::Journal;
    ///
    /// let journal = Journal::open("/run/my-daemon", &Host::live())?;
    /// assert_eq!(journal.folder().to_str(), Some("/run/my-daemon"));
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the journal's file.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::path::Path;
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::Journal;
    ///
    /// let journal = Journal::open("/run/my-daemon", &Host::live())?;
    /// assert_eq!(journal.path(), Path::new("/run/my-daemon/journal"));
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.store.path(PURPOSE)
    }

    /// Returns the directories of the other journals that are in use on this machine, as listed in the machine-wide
    /// lock file. The list is empty if that file cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::Journal;
    ///
    /// for folder in Journal::open(Journal::FOLDER, &Host::live())?.elsewhere() {
    ///     println!("another program keeps its journal in {}", folder.display());
    /// }
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    #[must_use]
    pub fn elsewhere(&self) -> Vec<PathBuf> {
        let note = self.machine.as_deref().map(|folder| read_regular_file(&folder.join(LOCK_OF_THE_MACHINE)));
        let others = note.and_then(Result::ok).map(|note| self.others_in(&note)).unwrap_or_default();
        others.into_iter().map(|journal| journal.folder.into_path_buf()).collect()
    }

    /// Returns the journals listed in a note, except this journal and empty journals.
    fn others_in(&self, note: &[u8]) -> Vec<Self> {
        let own = fs::canonicalize(&self.folder).unwrap_or_else(|_| self.folder.to_path_buf());
        let folders = note.split(|&byte| byte == b'\n').map(|line| Path::new(OsStr::from_bytes(line)));
        let others = folders.filter(|folder| folder.is_absolute() && *folder != own);
        let journals = others.map(|folder| Self::bound_to(folder, self.binding.clone()));
        let is_in_use =
            |journal: &Self| matches!(journal.contents(), Ok(Contents::Entries(_)) | Err(JournalError::Corrupt { .. }));
        journals.filter(is_in_use).collect()
    }

    /// Adds this journal to the note in the machine-wide lock file, and removes empty journals from the note. Returns
    /// the other journals.
    fn note_in(&self, lock: &mut File) -> io::Result<Vec<Self>> {
        let mut before = Vec::new();
        lock.take(LONGEST_NOTE).read_to_end(&mut before)?;
        let others = self.others_in(&before);
        let own = fs::canonicalize(&self.folder)?;
        let mut note = Vec::new();
        for folder in others.iter().map(|journal| &*journal.folder).chain([own.as_path()]) {
            let path = folder.as_os_str().as_bytes();
            // A path that contains a newline cannot be listed.
            if !path.contains(&b'\n') {
                note.extend_from_slice(path);
                note.push(b'\n');
            }
        }
        if note != before {
            lock.rewind()?;
            lock.write_all(&note)?;
            lock.set_len(note.len() as u64)?;
        }
        Ok(others)
    }

    /// Returns the content of the journal.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError`] if the journal cannot be read or is damaged.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Contents, Journal};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// match journal.contents() {
    ///     Ok(Contents::Entries(entries)) => {
    ///         for entry in entries {
    ///             println!("{} was {} before {} changed it", entry.kind, entry.before, entry.by);
    ///         }
    ///     }
    ///     Ok(Contents::Nothing | Contents::OfAnotherBoot) => println!("no setting is changed"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    pub fn contents(&self) -> Result<Contents, JournalError> {
        let Some(saved) = self.saved()? else { return Ok(Contents::Nothing) };
        if saved.boot != self.binding.boot {
            return Ok(Contents::OfAnotherBoot);
        }
        let entries = decode(&saved.payload).map_err(|what| JournalError::Corrupt { path: self.path(), what })?;
        Ok(if entries.is_empty() { Contents::Nothing } else { Contents::Entries(entries) })
    }

    /// Returns the processor on which the journal was written, if the journal belongs to this boot and the processor is
    /// not the current one. In that case, the virtual machine has been migrated since then. Its settings were migrated
    /// with it, so the journal is still valid.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError`] if the journal cannot be read or is damaged.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::Journal;
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// if let Ok(Some(processor)) = journal.written_on_another_processor() {
    ///     println!("this virtual machine has been migrated; before, it ran on {processor}");
    /// }
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    pub fn written_on_another_processor(&self) -> Result<Option<String>, JournalError> {
        let saved = self.saved()?.filter(|saved| saved.boot == self.binding.boot);
        Ok(saved.map(|saved| saved.processor).filter(|processor| *processor != self.binding.processor))
    }

    fn saved(&self) -> Result<Option<Saved>, JournalError> {
        let (content, about) = match self.store.content_and_about(PURPOSE) {
            Err(StateError::Missing { .. }) => return Ok(None),
            read => read.map_err(unusable)?,
        };
        // This process acts on the journal with its own permissions, so the content must not come from a user who has
        // fewer permissions.
        only_ours_to_write(self.path(), about.owner, about.mode)?;
        self.check_folder()?;
        self.store.saved(PURPOSE, &content).map(Some).map_err(unusable)
    }

    /// Refuses a directory in which another user can replace the journal.
    fn check_folder(&self) -> Result<(), JournalError> {
        let about = fs::metadata(&self.folder)
            .map_err(|cause| JournalError::Unusable { path: self.folder.to_path_buf(), cause })?;
        only_ours_to_write(self.folder.to_path_buf(), about.uid(), about.mode())
    }

    /// Restores the original values, one setting at a time, and removes the completed entries.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError`] if the journal cannot be read. A setting that cannot be restored is not an error; it
    /// has the outcome [`Restored::Failed`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Restored};
    ///
    /// for outcome in Journal::open(Journal::FOLDER, &Host::live())?.restore()? {
    ///     match outcome.came {
    ///         Restored::PutBack { from } => println!("{}: {} instead of {from}", outcome.kind, outcome.before),
    ///         Restored::Failed(error) => eprintln!("{}: {error}", outcome.kind),
    ///         Restored::WasBack | Restored::ChangedSince { .. } => {}
    ///     }
    /// }
    /// # Ok::<(), hpt_realtime::knobs::JournalError>(())
    /// ```
    pub fn restore(&self) -> Result<Vec<Outcome>, JournalError> {
        if self.contents()? == Contents::Nothing {
            if !self.store.unfinished_files(PURPOSE).is_empty() {
                // A process that is saving holds the lock, and its file is left alone.
                let _ = self.lock();
            }
            return Ok(Vec::new());
        }
        let _lock = self.lock()?;
        let mut entries = match self.contents()? {
            Contents::Nothing => Vec::new(),
            Contents::OfAnotherBoot => {
                self.save(&[])?;
                Vec::new()
            }
            Contents::Entries(entries) => entries,
        };
        let mut outcomes = Vec::new();
        while let Some(oldest) = entries.iter().find(|entry| is_open(&outcomes, entry)).cloned() {
            let of_it: Vec<&Entry> = entries.iter().filter(|entry| entry.path == oldest.path).collect();
            let knob = Knob::new(&oldest.kind, &oldest.path);
            let came = match self.is_restorable(&knob, &of_it) {
                Ok(()) if knob.has_ended() => Restored::WasBack,
                Ok(()) => put_back(&knob, &of_it),
                Err(refused) => Restored::Failed(refused),
            };
            if !matches!(came, Restored::Failed(_)) {
                entries.retain(|entry| entry.path != oldest.path);
                self.save(&entries)?;
            }
            let Entry { kind, path, by, before, .. } = oldest;
            outcomes.push(Outcome { kind, path, by, before, came });
        }
        Ok(outcomes)
    }

    /// Refuses a file that is not a known setting, and a value that is not one of that setting, so that a forged journal
    /// cannot modify any other file.
    fn is_restorable(&self, knob: &Knob, entries: &[&Entry]) -> Result<(), KnobError> {
        let path = knob.path().to_owned();
        if self.restores_anywhere {
            return Ok(());
        }
        if !knob.has_ended() && !known::is_setting(&path) {
            return Err(KnobError::NotASetting { path });
        }
        match entries.iter().find(|entry| !known::is_value(&path, &entry.before)) {
            Some(entry) => Err(KnobError::NotAValue { path, value: entry.before.clone() }),
            None => Ok(()),
        }
    }

    /// Prevents other processes from changing settings on this machine, regardless of their journal, as long as the
    /// returned files are open.
    pub(super) fn lock(&self) -> Result<Locks, JournalError> {
        let own = locked(&self.folder, LOCK)?;
        // The directory is checked before anything is changed, because a journal in an unsafe directory would be
        // refused later.
        self.check_folder()?;
        // A process saves only while it holds the lock, so the process that created such a file was killed.
        self.store.remove_unfinished(PURPOSE);
        let mut machine = match self.machine.as_deref().map(|folder| locked(folder, LOCK_OF_THE_MACHINE)).transpose() {
            // A user without write access to that directory is not root. Such a user can change a setting only if the
            // owner of its file permits it.
            Err(JournalError::Unusable { cause, .. })
                if matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) =>
            {
                None
            }
            other => other?,
        };
        let note = |lock: &mut FileLock| {
            let path = || self.machine.as_deref().unwrap_or(&self.folder).join(LOCK_OF_THE_MACHINE);
            self.note_in(lock).map_err(|cause| JournalError::Unusable { path: path(), cause })
        };
        let elsewhere = machine.as_mut().map(note).transpose()?.unwrap_or_default();
        Ok(Locks { _own: own, _machine: machine, elsewhere })
    }

    /// Returns an error if a process was killed before it restored the setting, because another change would lose the
    /// original value. If the setting has been corrected since then, removes the entries of that process for the
    /// setting.
    pub(super) fn refuse_what_was_left(&self, knob: &Knob, is: &str) -> Result<(), JournalError> {
        self.refuse_what_is_left(knob, is)?;
        let mut entries = self.entries()?;
        let left = |entry: &Entry| !entry.lasting && entry.path == knob.path;
        if entries.iter().any(left) {
            entries.retain(|entry| !left(entry));
            self.save(&entries)?;
        }
        Ok(())
    }

    /// Returns an error if a process was killed before it restored the setting. Does not modify this journal, which may
    /// belong to another program.
    pub(super) fn refuse_what_is_left(&self, knob: &Knob, is: &str) -> Result<(), JournalError> {
        let left = self.entries()?.into_iter().find(|entry| entry.path == knob.path && entry.is_left(is));
        left.map_or(Ok(()), |entry| Err(self.left_behind(entry, is.to_owned())))
    }

    /// Returns an error if a process was killed before it restored any of its settings. A setting that cannot be read is
    /// omitted.
    pub(super) fn refuse_anything_left(&self) -> Result<(), JournalError> {
        for entry in self.entries()? {
            match Knob::new(&entry.kind, &entry.path).value() {
                Ok(is) if entry.is_left(&is) => return Err(self.left_behind(entry, is)),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn left_behind(&self, entry: Entry, is: String) -> JournalError {
        let Entry { path, before, by, .. } = entry;
        JournalError::LeftBehind { path: path.into(), is, before, by: by.into(), journal: self.folder.clone() }
    }

    /// Adds or replaces an entry. An entry is removed if its setting has its original value again.
    pub(super) fn write_down(&self, entry: &Entry) -> Result<(), JournalError> {
        let mut entries = self.without(entry)?;
        let lasting = entries.iter_mut().find(|other| entry.lasting && other.lasting && other.path == entry.path);
        match lasting {
            Some(earlier) if entry.set_to.last() == Some(&earlier.before) => {
                entries.retain(|other| !(other.lasting && other.path == entry.path));
            }
            // Another process had changed the setting to a value that is not in the earlier entry.
            Some(earlier) if !earlier.has_set(&entry.before) => earlier.clone_from(entry),
            Some(earlier) => {
                earlier.by.clone_from(&entry.by);
                earlier.set_to.clone_from(&entry.set_to);
            }
            None => entries.push(entry.clone()),
        }
        self.save(&entries)
    }

    /// Removes the entry of a completed change.
    pub(super) fn strike_out(&self, entry: &Entry) -> Result<(), JournalError> {
        let entries = self.without(entry)?;
        self.save(&entries)
    }

    /// Returns all entries except the unfinished entry for this setting, of which there is at most one.
    fn without(&self, entry: &Entry) -> Result<Vec<Entry>, JournalError> {
        let mut entries = self.entries()?;
        entries.retain(|other| other.lasting || other.path != entry.path);
        Ok(entries)
    }

    fn entries(&self) -> Result<Vec<Entry>, JournalError> {
        Ok(match self.contents()? {
            Contents::Nothing | Contents::OfAnotherBoot => Vec::new(),
            Contents::Entries(entries) => entries,
        })
    }

    fn save(&self, entries: &[Entry]) -> Result<(), JournalError> {
        let saved = if entries.is_empty() {
            self.store.remove(PURPOSE)
        } else {
            self.store.save(PURPOSE, &self.binding, encode(entries).as_bytes())
        };
        saved.map_err(unusable)
    }
}

/// The locks of a process that changes settings.
#[derive(Debug)]
pub(super) struct Locks {
    _own: FileLock,
    _machine: Option<FileLock>,
    /// Other journals in use, from the note in the machine-wide lock file.
    pub(super) elsewhere: Vec<Journal>,
}

fn locked(folder: &Path, name: &str) -> Result<FileLock, JournalError> {
    let path = folder.join(name);
    let unusable = |cause| JournalError::Unusable { path: path.clone(), cause };
    if make_folder(folder).map_err(unusable)? {
        // Regardless of the umask, all users can read the directory, and only its owner can write to it.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(unusable)?;
    }
    // Only the owner can open the file, and therefore lock it. O_NONBLOCK is set because opening a device or a FIFO
    // might block, and O_NOFOLLOW because a link might lead to another user's file.
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(&path)
        .map_err(unusable)?;
    if !file.metadata().map_err(unusable)?.is_file() {
        return Err(unusable(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file; remove it")));
    }
    try_lock(file).map_err(unusable)?.ok_or(JournalError::Busy { path })
}

/// The mode bits that grant write permission to the group and to others.
const OTHERS_WRITE: u32 = 0o022;

/// Refuses a file if any user other than root and the caller owns it or can write to it.
fn only_ours_to_write(path: PathBuf, owner: u32, mode: u32) -> Result<(), JournalError> {
    if ![0, effective_user()].contains(&owner) {
        Err(JournalError::OfAnotherUser { path, owner })
    } else if mode & OTHERS_WRITE != 0 {
        Err(JournalError::WritableByOthers { path, mode: mode & 0o7777 })
    } else {
        Ok(())
    }
}

fn unusable(error: StateError) -> JournalError {
    match error {
        StateError::Unwritable { path, cause } | StateError::Unreadable { path, cause } => {
            JournalError::Unusable { path, cause }
        }
        StateError::Missing { path } | StateError::Stale { path } | StateError::Foreign { path, .. } => {
            JournalError::Corrupt { path, what: "it changed during the write" }
        }
        StateError::Corrupt { path, what } => JournalError::Corrupt { path, what },
    }
}

impl Entry {
    fn has_set(&self, value: &str) -> bool {
        self.set_to.iter().any(|set_to| set_to == value)
    }

    /// Returns whether a setting whose current value is `is` was changed, and neither kept nor restored.
    fn is_left(&self, is: &str) -> bool {
        !self.lasting && self.before != is && self.has_set(is)
    }
}

fn is_open(outcomes: &[Outcome], entry: &Entry) -> bool {
    !outcomes.iter().any(|outcome| outcome.path == entry.path)
}

fn put_back(knob: &Knob, entries: &[&Entry]) -> Restored {
    let is = match knob.value() {
        Ok(is) => is,
        Err(error) => return Restored::Failed(error),
    };
    match target(&is, entries) {
        None => Restored::ChangedSince { is },
        Some(target) if target == is => Restored::WasBack,
        Some(target) => match knob.set(target) {
            Ok(()) => Restored::PutBack { from: is },
            Err(error) => Restored::Failed(error),
        },
    }
}

/// Returns the original value of a setting whose current value is `is`. Follows its `entries`, which are
/// sorted oldest first, back from the newest; returns `None` if an entry does not contain the value reached so far.
fn target<'a>(is: &'a str, entries: &[&'a Entry]) -> Option<&'a str> {
    entries
        .iter()
        .rev()
        .try_fold(is, |value, entry| (entry.before == value || entry.has_set(value)).then_some(entry.before.as_str()))
}

/// Encodes entries as text, with one line per field and an empty line after each entry.
fn encode(entries: &[Entry]) -> String {
    let mut text = String::new();
    for entry in entries {
        let lasting = if entry.lasting { "yes" } else { "no" };
        let Entry { kind, path, by, before, .. } = entry;
        text.push_str(&format!("change {kind}\npath {path}\nby {by}\nlasting {lasting}\nbefore {before}\n"));
        for value in &entry.set_to {
            text.push_str(&format!("set {value}\n"));
        }
        text.push('\n');
    }
    text
}

fn decode(payload: &[u8]) -> Result<Vec<Entry>, &'static str> {
    let text = std::str::from_utf8(payload).map_err(|_| "it is not text")?;
    if !text.is_empty() && !text.ends_with("\n\n") {
        return Err("it is truncated");
    }
    text.split_terminator("\n\n").map(decode_entry).collect()
}

fn decode_entry(text: &str) -> Result<Entry, &'static str> {
    let mut lines = text.split('\n');
    let mut field = |name: &str| {
        let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.filter(|value| is_a_line(value)).map(str::to_owned).ok_or("a field of a change is missing")
    };
    let (kind, path, by) = (field("change")?, field("path")?, field("by")?);
    let lasting = match field("lasting")?.as_str() {
        "yes" => true,
        "no" => false,
        _ => return Err("the `lasting` field of a change is invalid"),
    };
    let before = field("before")?;
    let set_to: Option<Vec<String>> =
        lines.map(|line| line.strip_prefix("set ").filter(|value| is_a_line(value)).map(str::to_owned)).collect();
    let set_to = set_to.filter(|values| !values.is_empty()).ok_or("a change has no value")?;
    Ok(Entry { kind, path, by, lasting, before, set_to })
}

#[cfg(test)]
mod tests {
    use proptest::{
        collection::vec,
        prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest},
    };

    use super::{Binding, Entry, Journal, Knob, KnobError, decode, encode, target};
    use hpt_sys::host::BootId;

    #[test]
    fn a_forged_value_is_not_written_to_a_setting() {
        let boot = BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10").expect("a boot identity");
        let journal = Journal::bound_to("/nowhere", Binding { boot, processor: "any".to_owned() }).only_settings();
        let came = |path: &str, values: &[&str]| {
            let entries: Vec<Entry> = values.iter().map(|value| entry(value, &[])).collect();
            journal.is_restorable(&Knob::new("any", path), &entries.iter().collect::<Vec<_>>())
        };
        let setting = "/proc/sys/kernel/sched_rt_runtime_us";
        assert!(came(setting, &["950000", "-1"]).is_ok());
        // Each entry of the setting counts, because any of its values may be the one that is restored.
        for forged in [["950000 1", "-1"], ["-1", "950000 1"]] {
            assert!(matches!(came(setting, &forged), Err(KnobError::NotAValue { .. })), "{forged:?}");
        }
        assert!(matches!(came("/proc/sys/kernel/core_pattern", &["1"]), Err(KnobError::NotASetting { .. })));
    }

    fn entry(before: &str, set_to: &[&str]) -> Entry {
        Entry {
            kind: "clock-source".to_owned(),
            path: "/sys/any".to_owned(),
            by: "a test".to_owned(),
            lasting: true,
            before: before.to_owned(),
            set_to: set_to.iter().map(|&value| value.to_owned()).collect(),
        }
    }

    fn value() -> impl Strategy<Value = String> {
        "[a-z][a-z_ -]{0,8}[a-z]"
    }

    #[test]
    fn a_value_that_no_entry_contains_is_not_restored() {
        let (first, second) = (entry("tsc", &["hpet"]), entry("hpet", &["acpi_pm"]));
        assert_eq!(target("acpi_pm", &[&first, &second]), Some("tsc"));
        assert_eq!(target("hpet", &[&first, &second]), Some("tsc"));
        assert_eq!(target("tsc", &[&first]), Some("tsc"));
        assert_eq!(target("kvm-clock", &[&first, &second]), None);
    }

    proptest! {
        #[test]
        fn any_entries_round_trip(kind in value(), by in value(), before in value(), set_to in vec(value(), 1..4), lasting in any::<bool>(), times in 0_usize..4) {
            let entries = vec![Entry { kind, path: "/sys/any path".to_owned(), by, lasting, before, set_to }; times];
            prop_assert_eq!(decode(encode(&entries).as_bytes()), Ok(entries));
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(payload in vec(any::<u8>(), 0..200)) {
            prop_assert!(decode(&payload).is_err() || payload.is_empty());
        }

        #[test]
        fn any_truncation_is_detected(at in 1_usize..200) {
            let whole = encode(&[entry("tsc", &["hpet"]), entry("tsc", &["hpet"])]);
            let cut = &whole[..at.min(whole.len() - 1)];
            prop_assert!(decode(cut.as_bytes()).is_err() || cut.ends_with("\n\n"), "{cut:?}");
        }

        #[test]
        fn any_chain_of_changes_leads_back_to_its_beginning(first in value(), steps in vec(vec(value(), 1..4), 1..5), last in any::<proptest::sample::Index>()) {
            // Each change starts where the previous one ended.
            let (mut before, mut chain) = (first.clone(), Vec::new());
            for values in &steps {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                chain.push(entry(&before, &values));
                before = (*last.get(&values)).to_owned();
            }
            let chain: Vec<&Entry> = chain.iter().collect();
            prop_assert_eq!(target(&before, &chain), Some(first.as_str()));
        }
    }
}
