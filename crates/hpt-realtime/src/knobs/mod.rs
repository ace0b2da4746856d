//! System-wide settings. Every change is recorded beforehand, is verified, and can be undone. This module does not
//! decide what to change, prompt the user or measure anything; the caller does.

mod changing;
mod clock_source;
mod error;
pub mod irqbalance;
mod journal;
mod known;
mod setting;

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    time::Duration,
};

use hpt_sys::{settings::CLOCK_SOURCE, wait::pause};

pub use self::{
    changing::{Change, Changing},
    clock_source::{AbsentClockSource, ClockSourceOutline, KnownClockSource, ListedClockSource, outline_clock_sources},
    error::{JournalError, KnobError},
    journal::{Contents, Entry, Journal, Outcome, Restored},
    setting::Setting,
};

/// The maximum length of a value, in bytes. A file with a longer line is not a kernel setting.
const LONGEST_VALUE: usize = 4096;
/// The time that a new value has to take effect, and the number of readings in this time. Linux applies
/// scaling_min_freq in a work item (drivers/cpufreq/cpufreq.c, `cpufreq_notifier_min`), so the file contains the old
/// value until a kernel thread has run.
const SETTLING: Duration = Duration::from_millis(500);
const LOOKS: u32 = 100;

/// A system-wide setting: a writable kernel file that contains one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    kind: String,
    path: String,
}

impl Knob {
    /// Returns the setting in the file `path`; `kind` is its name in messages and in the journal.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::Knob;
    ///
    /// let swappiness = Knob::new("swappiness", "/proc/sys/vm/swappiness");
    /// assert_eq!(swappiness.kind(), "swappiness");
    /// ```
    #[must_use]
    pub fn new(kind: impl Into<String>, path: impl Into<String>) -> Self {
        Self { kind: kind.into(), path: path.into() }
    }

    /// Returns the setting that selects the kernel's clocksource.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::Knob;
    ///
    /// match Knob::clock_source().value() {
    ///     Ok(name) => println!("the kernel uses {name}"),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    #[must_use]
    pub fn clock_source() -> Self {
        Self::new(CLOCK_SOURCE.name, CLOCK_SOURCE.path)
    }

    /// Returns the name of the setting.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::Knob;
    ///
    /// assert_eq!(Knob::new("swappiness", "/proc/sys/vm/swappiness").kind(), "swappiness");
    /// ```
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the path of the setting's file.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::path::Path;
    /// use hpt_realtime::knobs::Knob;
    ///
    /// let swappiness = Knob::new("swappiness", "/proc/sys/vm/swappiness");
    /// assert_eq!(swappiness.path(), Path::new("/proc/sys/vm/swappiness"));
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        Path::new(&self.path)
    }

    /// Returns the value of the setting, without the newline. If the file marks one of several words with brackets,
    /// returns that word. Returns a mask of CPUs without leading zeros.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError::Unreadable`] if the file cannot be read or is not one line of text.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::Knob;
    ///
    /// match Knob::new("swappiness", "/proc/sys/vm/swappiness").value() {
    ///     Ok(value) => assert!(!value.ends_with('\n')),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn value(&self) -> Result<String, KnobError> {
        let unreadable = |cause| KnobError::Unreadable { path: self.path().to_owned(), cause };
        if let Some(socket) = irqbalance::socket(self.path()) {
            return irqbalance::banned(&socket).map_err(unreadable);
        }
        let content = fs::read(self.path()).map_err(unreadable)?;
        let value = known::value_of(self.path(), String::from_utf8_lossy(&content).trim());
        let invalid = || unreadable(io::Error::new(io::ErrorKind::InvalidData, "it is not a single line of text"));
        if is_a_line(&value) { Ok(value) } else { Err(invalid()) }
    }

    /// Checks whether this process may change the setting. Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError::NotAllowed`] if this process lacks permission to change the setting or if the file system
    /// is read-only, or [`KnobError::Unreadable`] if there is no such setting.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::{Knob, KnobError};
    ///
    /// match Knob::clock_source().may_be_set() {
    ///     Ok(()) => println!("this process may change the clocksource"),
    ///     Err(KnobError::NotAllowed { path, .. }) => println!("only root may write {}", path.display()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn may_be_set(&self) -> Result<(), KnobError> {
        if irqbalance::socket(self.path()).is_some() {
            return self.value().map(drop);
        }
        File::options().write(true).open(self.path()).map(|_| ()).map_err(|cause| self.not_written(cause, None))
    }

    /// Returns whether the setting belongs to a process that has ended. Its value has ended with the process.
    fn has_ended(&self) -> bool {
        irqbalance::socket(self.path()).is_some_and(
            |socket| matches!(fs::symlink_metadata(socket), Err(error) if error.kind() == io::ErrorKind::NotFound),
        )
    }

    /// Writes `value`, and checks whether the kernel accepted it.
    fn set(&self, value: &str) -> Result<(), KnobError> {
        let refused = |cause| self.not_written(cause, Some(value));
        if let Some(socket) = irqbalance::socket(self.path()) {
            irqbalance::ban(&socket, value).map_err(refused)?;
        } else {
            let mut file = File::options().write(true).truncate(true).open(self.path()).map_err(refused)?;
            // A single write is used, because the kernel treats each write as a complete value. Its error does not
            // concern permissions, even if it is EPERM: the kernel returns that for an interrupt that cannot be moved.
            file.write_all(value.as_bytes()).map_err(|cause| KnobError::Refused {
                path: self.path().to_owned(),
                value: value.to_owned(),
                cause,
            })?;
        }
        let wanted = known::value_of(self.path(), value);
        let is = settled(&wanted, || self.value(), || pause(SETTLING / LOOKS))?;
        if is == wanted {
            Ok(())
        } else {
            Err(KnobError::Overridden { path: self.path().to_owned(), value: value.to_owned(), is })
        }
    }

    fn not_written(&self, cause: io::Error, value: Option<&str>) -> KnobError {
        let path = self.path().to_owned();
        match (cause.kind(), value) {
            (io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem, _) => {
                KnobError::NotAllowed { path, cause }
            }
            (_, Some(value)) => KnobError::Refused { path, value: value.to_owned(), cause },
            (_, None) => KnobError::Unreadable { path, cause },
        }
    }
}

/// Reads a value until it is the wanted one, with a wait before each further reading. Returns the last value.
fn settled(
    wanted: &str,
    mut read: impl FnMut() -> Result<String, KnobError>,
    mut wait: impl FnMut(),
) -> Result<String, KnobError> {
    for _ in 0..LOOKS {
        let is = read()?;
        if is == wanted {
            return Ok(is);
        }
        wait();
    }
    read()
}

fn is_a_line(value: &str) -> bool {
    !value.is_empty() && value.len() <= LONGEST_VALUE && !value.contains(char::is_control) && value.trim() == value
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt, panic::AssertUnwindSafe, path::Path};

    use tempfile::TempDir;

    use super::{Contents, Entry, Journal, JournalError, Knob, KnobError, Restored, settled};
    use crate::state::Binding;
    use hpt_sys::{host::BootId, process::effective_user};

    /// A setting and a journal in a directory of their own.
    struct Room {
        folder: TempDir,
        knob: Knob,
    }

    fn binding(boot: &str) -> Binding {
        Binding { boot: BootId::parse(boot).expect("a boot identity"), processor: "any".to_owned() }
    }

    impl Room {
        fn new(value: &str) -> Self {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("current");
            fs::write(&path, format!("{value}\n")).expect("ours");
            Self { knob: Knob::new("clock-source", path.to_str().expect("UTF-8")), folder }
        }

        fn journal(&self) -> Journal {
            self.journal_of("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10")
        }

        /// Returns a journal in a directory of its own, which shares the machine-wide lock with other journals.
        fn journal_in(&self, folder: &str) -> Journal {
            let journal =
                Journal::bound_to(self.folder.path().join(folder), binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10"));
            journal.with_a_lock_of_the_machine_in(self.folder.path().join("run"))
        }

        fn journal_of(&self, boot: &str) -> Journal {
            Journal::bound_to(self.folder.path().join("state"), binding(boot))
        }

        fn is(&self) -> String {
            self.knob.value().expect("a line")
        }

        /// Simulates a process that is killed: nothing is restored, and its lock is released.
        fn leave(&self, values: &[&str]) {
            let journal = self.journal();
            let mut change = self.knob.begin(&journal, "a test").expect("no other change");
            for value in values {
                change.set(value).expect("a file accepts any value");
            }
            change.leave();
        }
    }

    fn entries(journal: &Journal) -> Vec<Entry> {
        match journal.contents().expect("readable") {
            Contents::Entries(entries) => entries,
            Contents::Nothing => Vec::new(),
            Contents::OfAnotherBoot => panic!("the journal belongs to this boot"),
        }
    }

    #[test]
    fn a_change_is_recorded_before_it_is_made_and_removed_when_it_is_restored() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut change = room.knob.begin(&journal, "a test").expect("no other change");
        assert_eq!((change.before(), entries(&journal).len()), ("tsc", 0));
        change.set("hpet").expect("a file accepts any value");
        change.set("acpi_pm").expect("a file accepts any value");
        let written = entries(&journal);
        assert_eq!((written[0].before.as_str(), room.is().as_str()), ("tsc", "acpi_pm"));
        assert_eq!(written[0].set_to, ["hpet", "acpi_pm"]);
        change.restore().expect("a file accepts any value");
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("tsc", 0));
    }

    #[test]
    fn a_dropped_change_is_restored_even_during_a_panic() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let mut change = room.knob.begin(&journal, "a test").expect("no other change");
            change.set("hpet").expect("a file accepts any value");
            panic!("in the middle");
        }));
        assert!(panicked.is_err());
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("tsc", 0));
    }

    #[test]
    fn a_restore_returns_kept_changes_to_the_first_value() {
        let room = Room::new("tsc");
        let journal = room.journal();
        for value in ["hpet", "acpi_pm"] {
            let mut change = room.knob.begin(&journal, "a test").expect("no other change");
            change.set(value).expect("a file accepts any value");
            change.keep().expect("a writable journal");
        }
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("acpi_pm", 1));
        let outcomes = journal.restore().expect("a readable journal");
        assert!(matches!(&outcomes[0].came, Restored::PutBack { from } if from == "acpi_pm"), "{outcomes:?}");
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("tsc", 0));
        assert!(journal.restore().expect("an empty journal").is_empty());
    }

    #[test]
    fn files_of_killed_saves_are_removed_and_links_are_not_followed() {
        let room = Room::new("tsc");
        let state = room.folder.path().join("state");
        let target = room.folder.path().join("target");
        fs::write(&target, "kept").expect("ours");
        let plant = || {
            fs::write(state.join(".journal.4194305.0"), "half").expect("ours");
            std::os::unix::fs::symlink(&target, state.join(".journal.4194305.1")).expect("ours");
            fs::write(state.join(".journal.notes"), "kept").expect("ours");
        };
        let names = || {
            let entries = fs::read_dir(&state).expect("readable").map(|entry| entry.expect("readable").file_name());
            let mut names: Vec<_> = entries.filter_map(|name| name.into_string().ok()).collect();
            names.sort();
            names
        };
        fs::create_dir(&state).expect("ours");
        plant();
        // Without a journal, a restore removes them too.
        assert!(room.journal().restore().expect("no journal").is_empty());
        assert_eq!(names(), [".journal.notes", "lock"]);
        plant();
        // A process that holds the lock may be saving.
        let held = room.journal().lock().expect("no other change");
        fs::write(state.join(".journal.7.0"), "half").expect("ours");
        assert!(room.journal().restore().expect("no journal").is_empty());
        assert_eq!(names(), [".journal.7.0", ".journal.notes", "lock"]);
        drop(held);
        room.leave(&["hpet"]);
        assert_eq!(names(), [".journal.notes", "journal", "lock"]);
        assert_eq!(fs::read_to_string(&target).expect("ours"), "kept");
    }

    #[test]
    fn setting_the_original_value_leaves_nothing_to_restore() {
        let room = Room::new("tsc");
        let journal = room.journal();
        for value in ["hpet", "tsc"] {
            let mut change = room.knob.begin(&journal, "a test").expect("no other change");
            change.set(value).expect("a file accepts any value");
            change.keep().expect("a writable journal");
        }
        assert!(entries(&journal).is_empty());
    }

    #[test]
    fn leftovers_of_a_killed_process_block_changes_until_they_are_restored() {
        let room = Room::new("tsc");
        room.leave(&["hpet", "acpi_pm"]);
        let journal = room.journal();
        let refused = room.knob.begin(&journal, "a test").expect_err("left behind");
        assert!(matches!(refused, KnobError::Journal(JournalError::LeftBehind { .. })), "{refused}");
        let outcomes = journal.restore().expect("a readable journal");
        assert!(matches!(outcomes[0].came, Restored::PutBack { .. }) && room.is() == "tsc", "{outcomes:?}");
        drop(room.knob.begin(&journal, "a test").expect("nothing is left"));
    }

    #[test]
    fn a_later_change_by_another_process_is_left_alone() {
        let room = Room::new("tsc");
        room.leave(&["hpet"]);
        fs::write(room.knob.path(), "kvm-clock\n").expect("ours");
        let outcomes = room.journal().restore().expect("a readable journal");
        assert!(matches!(&outcomes[0].came, Restored::ChangedSince { is } if is == "kvm-clock"), "{outcomes:?}");
        assert_eq!(room.is(), "kvm-clock");
        assert!(entries(&room.journal()).is_empty());
    }

    #[test]
    fn a_value_set_by_another_process_during_a_change_is_left_alone_and_reported() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut change = room.knob.begin(&journal, "a test").expect("no other change");
        change.set("hpet").expect("a file accepts any value");
        fs::write(room.knob.path(), "kvm-clock\n").expect("ours");
        let told = change.restore().expect_err("a value set by another process");
        assert!(matches!(&told, KnobError::ChangedSince { is, .. } if is == "kvm-clock"), "{told}");
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("kvm-clock", 0));
        // The same applies if the error cannot be returned.
        let mut change = room.knob.begin(&journal, "a test").expect("nothing is left");
        change.set("hpet").expect("a file accepts any value");
        fs::write(room.knob.path(), "acpi_pm\n").expect("ours");
        drop(change);
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("acpi_pm", 0));
    }

    #[test]
    fn a_value_that_another_process_already_restored_ends_the_change() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut change = room.knob.begin(&journal, "a test").expect("no other change");
        change.set("hpet").expect("a file accepts any value");
        fs::write(room.knob.path(), "tsc\n").expect("ours");
        change.restore().expect("the value is unchanged");
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("tsc", 0));
    }

    #[test]
    fn a_lock_that_is_not_a_regular_file_is_refused_without_waiting() {
        let room = Room::new("tsc");
        let state = room.folder.path().join("state");
        fs::create_dir(&state).expect("ours");
        let lock = state.join("lock");
        let refused = || {
            let refused = room.knob.begin(&room.journal(), "a test").expect_err("it is not a lock file");
            assert!(matches!(refused, KnobError::Journal(JournalError::Unusable { .. })), "{refused}");
            fs::remove_file(&lock).expect("ours");
        };
        let made = std::process::Command::new("mkfifo").arg(&lock).status().expect("coreutils");
        assert!(made.success());
        refused();
        let elsewhere = room.folder.path().join("elsewhere");
        std::os::unix::fs::symlink(&elsewhere, &lock).expect("ours");
        refused();
        assert!(!elsewhere.exists(), "nothing was created through the link");
        drop(room.knob.begin(&room.journal(), "a test").expect("a lock of its own"));
    }

    #[test]
    fn a_journal_of_another_user_is_not_trusted() {
        let room = Room::new("tsc");
        room.leave(&["hpet"]);
        let journal = room.journal();
        let other_user = effective_user() + 1;
        if std::os::unix::fs::chown(journal.path(), Some(other_user), None).is_err() {
            return skipped!("only root can change the owner of a file");
        }
        let names_the_owner =
            |refused| matches!(refused, JournalError::OfAnotherUser { owner, .. } if owner == other_user);
        assert!(names_the_owner(journal.contents().expect_err("a journal of another user")));
        assert!(names_the_owner(journal.restore().expect_err("a journal of another user")));
        assert!(matches!(
            room.knob.begin(&journal, "a test"),
            Err(KnobError::Journal(JournalError::OfAnotherUser { .. }))
        ));
        assert_eq!(room.is(), "hpet");
    }

    #[test]
    fn a_setting_that_cannot_be_restored_stays_in_the_journal() {
        let room = Room::new("tsc");
        room.leave(&["hpet"]);
        fs::remove_file(room.knob.path()).expect("ours");
        let outcomes = room.journal().restore().expect("a readable journal");
        assert!(matches!(outcomes[0].came, Restored::Failed(_)), "{outcomes:?}");
        assert_eq!(entries(&room.journal()).len(), 1);
    }

    #[test]
    fn a_journal_of_another_boot_is_void() {
        let room = Room::new("tsc");
        room.leave(&["hpet"]);
        let rebooted = room.journal_of("1f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10");
        assert!(matches!(rebooted.contents(), Ok(Contents::OfAnotherBoot)));
        assert!(rebooted.restore().expect("void").is_empty());
        assert!(matches!(rebooted.contents(), Ok(Contents::Nothing)), "the journal is removed");
        assert_eq!(room.is(), "hpet");
    }

    #[test]
    fn a_journal_of_this_boot_is_valid_on_another_processor_and_reports_it() {
        let room = Room::new("tsc");
        room.leave(&["hpet"]);
        let moved = Binding { processor: "another".to_owned(), ..binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10") };
        let moved = Journal::bound_to(room.folder.path().join("state"), moved);
        assert_eq!(moved.written_on_another_processor().expect("readable").as_deref(), Some("any"));
        assert_eq!(room.journal().written_on_another_processor().expect("readable"), None);
        let refused = room.knob.begin(&moved, "a test").expect_err("left behind");
        assert!(matches!(refused, KnobError::Journal(JournalError::LeftBehind { .. })), "{refused}");
        assert!(matches!(moved.restore().expect("a valid journal")[0].came, Restored::PutBack { .. }));
        assert_eq!(room.is(), "tsc");
    }

    #[test]
    fn concurrent_changes_are_refused_even_with_journals_in_different_directories() {
        let room = Room::new("tsc");
        let journal = |folder: &str| room.journal_in(folder);
        let (one, other) = (journal("one"), journal("other"));
        let mut first = room.knob.begin(&one, "a test").expect("no other change");
        first.set("hpet").expect("a file accepts any value");
        let second = room.knob.begin(&other, "a test").expect_err("the first is not over");
        assert!(matches!(second, KnobError::Journal(JournalError::Busy { .. })), "{second}");
        drop(first);
        drop(room.knob.begin(&other, "a test").expect("the first change has ended"));
        // The directory of the machine-wide lock may be that of the journal.
        drop(room.knob.begin(&journal("run"), "a test").expect("two different locks"));
    }

    #[test]
    fn leftovers_in_another_journal_block_changes_and_the_error_names_that_journal() {
        let room = Room::new("tsc");
        let journal = |folder: &str| room.journal_in(folder);
        let (one, other) = (journal("one"), journal("other"));
        let mut change = room.knob.begin(&one, "a test").expect("no other change");
        change.set("hpet").expect("a file accepts any value");
        change.leave();
        let one_is_at = fs::canonicalize(one.folder()).expect("an existing file");
        assert_eq!((other.elsewhere(), one.elsewhere()), (vec![one_is_at.clone()], Vec::new()));
        // The same holds when this is repeated with the other journal already noted, and for a third journal.
        for journal in [&other, &other, &journal("run")] {
            let refused = room.knob.begin(journal, "a test").expect_err("left behind");
            assert!(
                matches!(&refused, KnobError::Journal(JournalError::LeftBehind { journal, .. }) if **journal == *one_is_at),
                "{refused}"
            );
        }
        assert!(matches!(one.restore().expect("a readable journal")[0].came, Restored::PutBack { .. }));
        assert_eq!((room.is().as_str(), other.elsewhere().len()), ("tsc", 0));
        drop(room.knob.begin(&other, "a test").expect("nothing is left"));
        let note = fs::read_to_string(room.folder.path().join("run/lock-of-the-machine")).expect("a note");
        assert_eq!(note.lines().count(), 1, "a change that has ended is not noted: {note}");
    }

    #[test]
    fn leftovers_are_found_in_every_journal_before_a_change_begins() {
        let room = Room::new("tsc");
        let journal = |folder: &str| room.journal_in(folder);
        let (one, other) = (journal("one"), journal("other"));
        let found = |journal: &Journal| match journal.changing("a test").expect("no other change").check_nothing_left()
        {
            Ok(()) => None,
            Err(JournalError::LeftBehind { path, is, journal, .. }) => Some((path, is, journal)),
            Err(other) => panic!("{other}"),
        };
        let mut change = room.knob.begin(&one, "a test").expect("no other change");
        // The last value is one that was set, and so is the original one.
        for value in ["hpet", "tsc", "hpet"] {
            change.set(value).expect("a file accepts any value");
        }
        change.leave();
        let (path, is, at) = found(&one).expect("it is left");
        assert_eq!((Path::new(&*path), is.as_str(), &*at), (room.knob.path(), "hpet", one.folder()));
        let (.., at) = found(&other).expect("it is left");
        assert_eq!(&*at, &*fs::canonicalize(one.folder()).expect("an existing file"));
        // Another process has set it, it has its original value, or it is gone.
        for value in ["kvm-clock", "tsc"] {
            fs::write(room.knob.path(), value).expect("ours");
            assert_eq!((found(&one), found(&other)), (None, None), "{value}");
        }
        fs::remove_file(room.knob.path()).expect("ours");
        assert_eq!((found(&one), found(&other)), (None, None));
    }

    #[test]
    fn a_kept_change_is_not_left_behind() {
        let room = Room::new("tsc");
        let right = room.journal().changing("a test").expect("no other change");
        let mut change = right.begin(&room.knob).expect("no other change");
        change.set("hpet").expect("a file accepts any value");
        change.keep().expect("a writable journal");
        assert!(right.check_nothing_left().is_ok());
        assert_eq!(entries(&room.journal()).len(), 1);
    }

    #[test]
    fn a_kept_change_of_a_value_that_another_process_set_leads_back_to_that_value() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let keep = |value: &str| {
            let mut change = room.knob.begin(&journal, "a test").expect("no other change");
            change.set(value).expect("a file accepts any value");
            change.keep().expect("a writable journal");
        };
        keep("hpet");
        fs::write(room.knob.path(), "kvm-clock\n").expect("ours");
        keep("acpi_pm");
        assert_eq!(entries(&journal).len(), 1);
        journal.restore().expect("a readable journal");
        assert_eq!(room.is(), "kvm-clock");
    }

    #[test]
    fn a_directory_whose_path_contains_a_newline_is_not_listed() {
        let room = Room::new("tsc");
        let split = room.journal_in("first\nsecond");
        let mut change = room.knob.begin(&split, "a test").expect("no other change");
        change.set("hpet").expect("a file accepts any value");
        let note = fs::read_to_string(room.folder.path().join("run/lock-of-the-machine")).expect("a note");
        assert_eq!(note, "");
        change.restore().expect("a file accepts any value");
    }

    #[test]
    fn without_access_to_the_system_directory_the_lock_of_the_journal_is_sufficient() {
        let room = Room::new("tsc");
        // Root is refused as well, and so is every other user.
        let journal = room.journal().with_a_lock_of_the_machine_in("/sys/kernel");
        drop(room.knob.begin(&journal, "a test").expect("its own lock is sufficient"));
    }

    #[test]
    fn concurrent_changes_are_refused() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut first = room.knob.begin(&journal, "a test").expect("no other change");
        first.set("hpet").expect("a file accepts any value");
        let second = room.knob.begin(&journal, "a test").expect_err("the first is not over");
        assert!(matches!(second, KnobError::Journal(JournalError::Busy { .. })), "{second}");
        assert!(matches!(journal.restore(), Err(JournalError::Busy { .. })));
        drop(first);
        drop(room.knob.begin(&journal, "a test").expect("the first change has ended"));
    }

    #[test]
    fn a_value_may_take_effect_after_a_moment() {
        let came = |values: &[&str]| {
            let (mut values, mut waits) = (values.iter(), 0);
            let read = || Ok(values.next().map_or("old", |value| value).to_owned());
            let is = settled("new", read, || waits += 1).expect("each reading succeeds");
            (is, waits)
        };
        assert_eq!(came(&["new"]), ("new".to_owned(), 0));
        assert_eq!(came(&["old", "old", "new"]), ("new".to_owned(), 2));
        assert_eq!(came(&[]), ("old".to_owned(), super::LOOKS));
    }

    #[test]
    fn without_a_journal_nothing_is_changed() {
        let room = Room::new("tsc");
        let blocked = room.folder.path().join("file");
        fs::write(&blocked, "").expect("ours");
        let journal = Journal::bound_to(blocked.join("state"), binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10"));
        assert!(matches!(room.knob.begin(&journal, "a test"), Err(KnobError::Journal(_))));
        assert_eq!(room.is(), "tsc");
    }

    #[test]
    fn multiline_values_are_refused_and_missing_settings_are_reported() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut change = room.knob.begin(&journal, "a test").expect("no other change");
        for wrong in ["", "a\nb", " a"] {
            assert!(matches!(change.set(wrong), Err(KnobError::NotALine { .. })), "{wrong:?}");
        }
        drop(change);
        let absent = Knob::new("any", "/nonexistent/setting");
        assert!(matches!(absent.value(), Err(KnobError::Unreadable { .. })));
        assert!(matches!(absent.may_be_set(), Err(KnobError::Unreadable { .. })));
        // A file that accepts every value and keeps none.
        let null = Knob::new("any", "/dev/null");
        assert!(matches!(null.set("hpet"), Err(KnobError::Unreadable { .. } | KnobError::Overridden { .. })));
        assert!(Path::new("/dev/null").exists());
    }

    /// The permission bits of the mode.
    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).expect("an existing file").permissions().mode() & 0o7777
    }

    #[test]
    fn a_journal_has_the_same_modes_under_every_umask() {
        const UMASK: &str = "HPT_TEST_UMASK";
        if std::env::var_os(UMASK).is_some() {
            let room = Room::new("tsc");
            room.leave(&["hpet"]);
            let folder = room.folder.path().join("state");
            let modes = [folder.clone(), folder.join("journal"), folder.join("lock")].map(|path| mode_of(&path));
            assert_eq!(modes.map(|mode| format!("{mode:o}")), ["755", "600", "600"]);
            return;
        }
        // The umask belongs to the process, so this test runs again in child processes.
        let test = "knobs::tests::a_journal_has_the_same_modes_under_every_umask";
        for umask in ["0", "022", "077"] {
            let command = format!("umask {umask}; exec \"$@\" --exact {test} --nocapture");
            let (runner, program) = hpt_sys::testing::own_program();
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &command, "sh"]).args(runner).arg(program).env(UMASK, umask);
            let output = shell.output();
            let output = output.expect("a shell");
            assert!(
                output.status.success(),
                "umask {umask}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }

    #[test]
    fn a_journal_that_others_can_write_to_is_refused() {
        for (name, mode) in [("state", 0o777), ("state", 0o1777), ("state", 0o775), ("state/journal", 0o666)] {
            let room = Room::new("tsc");
            room.leave(&["hpet"]);
            let path = room.folder.path().join(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            let refused = room.journal().restore().expect_err("others can write to it");
            let named = matches!(&refused, JournalError::WritableByOthers { path: named, mode: told } if *named == path && *told == mode);
            assert!(named && room.is() == "hpet", "{refused}");
        }
        // Nothing is changed if the journal would be refused afterwards.
        let room = Room::new("tsc");
        let folder = room.folder.path().join("state");
        fs::create_dir(&folder).expect("ours");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("ours");
        let refused = room.knob.begin(&room.journal(), "a test").expect_err("others can write to it");
        assert!(matches!(refused, KnobError::Journal(JournalError::WritableByOthers { .. })), "{refused}");
    }

    #[test]
    fn a_journal_restores_no_file_that_is_not_a_setting() {
        let room = Room::new("core");
        room.leave(&["|/tmp/any"]);
        let journal = room.journal().only_settings();
        let outcomes = journal.restore().expect("a readable journal");
        assert!(matches!(&outcomes[0].came, Restored::Failed(KnobError::NotASetting { .. })), "{outcomes:?}");
        assert_eq!((room.is().as_str(), entries(&journal).len()), ("|/tmp/any", 1));
    }

    #[test]
    fn a_value_that_the_kernel_derives_from_the_requested_one_is_restored() {
        // Linux reads this setting in any base, and prints it in base 10.
        let setting = Knob::new("any", "/proc/self/oom_score_adj");
        let before = setting.value().expect("a number");
        if before == "1000" {
            println!("skipped: this process already has the largest value of oom_score_adj");
            return;
        }
        let room = Room::new("tsc");
        let journal = room.journal();
        let mut change = setting.begin(&journal, "a test").expect("no other change");
        let derived = change.set("0x3e8").expect_err("the kernel prints another value");
        assert!(matches!(&derived, KnobError::Overridden { is, .. } if is == "1000"), "{derived}");
        assert_eq!(entries(&journal)[0].set_to, ["0x3e8", "1000"]);
        change.restore().expect("the value comes from this change");
        assert_eq!(setting.value().expect("a number"), before);
    }

    #[test]
    fn a_refused_change_leaves_nothing_in_the_journal() {
        let room = Room::new("tsc");
        let journal = room.journal();
        let read_only = Knob::new("any", "/proc/sys/kernel/ostype");
        let mut change = read_only.begin(&journal, "a test").expect("it can be read");
        assert!(change.set("other").is_err());
        change.restore().expect("the value is the original one");
        assert!(entries(&journal).is_empty());
    }

    /// The environment variable that makes a test change settings until it is killed. It contains the directory.
    const CHANGES_IN: &str = "HPT_TEST_CHANGES_IN";
    const KILLED_TEST: &str = "knobs::tests::a_journal_restores_every_file_after_a_kill_at_any_moment";

    /// Settings of several notations, with their content and another value.
    const SETTINGS_TO_CHANGE: [(&str, &str, &str); 5] = [
        ("governor", "powersave", "performance"),
        ("workqueue/cpumask", "f", "7"),
        ("transparent_hugepage/enabled", "always", "madvise"),
        ("smp_affinity_list", "0-3", "0-2"),
        ("sched_rt_runtime_us", "950000", "-1"),
    ];

    fn settings_in(folder: &Path) -> Vec<Knob> {
        SETTINGS_TO_CHANGE.iter().map(|(name, ..)| Knob::new(*name, folder.join(name).to_string_lossy())).collect()
    }

    /// Changes each setting and undoes the change, alone and together, and keeps the first one. Ends only if it fails.
    fn change_until_killed(folder: &Path) {
        let journal = Journal::bound_to(folder.join("state"), binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10"));
        let right = journal.changing("a test").expect("no other change");
        let knobs = settings_in(folder);
        for round in 0.. {
            let mut held = Vec::new();
            for (knob, (_, _, value)) in knobs.iter().zip(SETTINGS_TO_CHANGE) {
                let mut change = right.begin(knob).expect("no other change");
                change.set(value).expect("a file accepts any value");
                if held.is_empty() && round % 3 == 0 {
                    change.keep().expect("a writable journal");
                } else if round % 2 == 0 {
                    change.restore().expect("a file accepts any value");
                } else {
                    held.push(change);
                }
            }
        }
    }

    #[test]
    fn a_journal_restores_every_file_after_a_kill_at_any_moment() {
        if let Some(folder) = std::env::var_os(CHANGES_IN) {
            return change_until_killed(Path::new(&folder));
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (name, before, _) in SETTINGS_TO_CHANGE {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent directory")).expect("ours");
            fs::write(path, before).expect("ours");
        }
        let journal = Journal::bound_to(folder.path().join("state"), binding("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10"));
        let (runner, program) = hpt_sys::testing::own_program();
        let mut restored = 0;
        for moment in 0..50_u64 {
            let words: Vec<_> = runner.iter().map(Into::into).chain([program.clone().into_os_string()]).collect();
            let mut command = std::process::Command::new(&words[0]);
            command.args(&words[1..]).args(["--exact", KILLED_TEST, "--nocapture"]).env(CHANGES_IN, folder.path());
            let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("this program runs");
            // The child is killed at a moment of its own after its first change.
            while !journal.path().exists() {
                assert_eq!(child.try_wait().expect("a child"), None, "it changes settings until it is killed");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            std::thread::sleep(std::time::Duration::from_micros(moment * 7_919 % 20_000));
            child.kill().expect("it runs");
            child.wait().expect("it was killed");
            // A file is empty between the truncation and the write. The kernel's files have no such moment, so the write
            // is completed here.
            for (name, _, value) in SETTINGS_TO_CHANGE {
                let path = folder.path().join(name);
                if fs::read(&path).expect("ours").is_empty() {
                    fs::write(&path, value).expect("ours");
                }
            }
            for outcome in journal.restore().expect("a readable journal") {
                assert!(matches!(outcome.came, Restored::PutBack { .. } | Restored::WasBack), "{outcome:?}");
                restored += usize::from(matches!(outcome.came, Restored::PutBack { .. }));
            }
            for (name, before, _) in SETTINGS_TO_CHANGE {
                let is = fs::read(folder.path().join(name)).expect("ours");
                assert_eq!(is, before.as_bytes(), "{name} after kill {moment}");
            }
            assert!(entries(&journal).is_empty());
            let left: Vec<_> = fs::read_dir(folder.path().join("state")).expect("ours").flatten().collect();
            let names: Vec<_> = left.iter().map(fs::DirEntry::file_name).collect();
            assert_eq!(names, ["lock"], "after kill {moment}");
        }
        assert!(restored > 0, "no kill left a setting changed");
    }
}
