//! The permission to change settings, and the changes that are made with it. This module contains nothing that is
//! specific to one setting.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Entry, Journal, JournalError, Knob, KnobError, is_a_line, journal::Locks};

/// The permission to change settings. Only one process on the machine can hold this permission at a time, regardless of
/// the journal that the process uses. The holder can have several changes in effect at the same time and can undo them
/// in any order. The permission lasts until this value and all of its changes have been dropped.
#[derive(Clone, Debug)]
pub struct Changing {
    journal: Journal,
    by: String,
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    locks: Locks,
    /// The paths of the settings that are being changed. This mutex also protects the journal while it is read and
    /// written.
    being_changed: Mutex<BTreeSet<String>>,
}

impl Knob {
    /// Begins a change, without modifying the setting yet. `by` is the program name that the journal records.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError`] if the setting cannot be read, if another process is changing settings, or if another
    /// process was killed before it restored this setting.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// let mut change = Knob::clock_source().begin(&journal, "my-program")?;
    /// change.set("hpet")?;
    /// // Dropping the change restores the clocksource.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin(&self, journal: &Journal, by: &str) -> Result<Change, KnobError> {
        journal.changing(by)?.begin(self)
    }
}

impl Journal {
    /// Acquires the permission to change settings, without changing any setting. `by` is the program name that the
    /// journal records.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError::Busy`] if another process holds the permission, or another error if the journal cannot
    /// be used.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// // No other program changes settings until this value and its changes are dropped.
    /// let changing = journal.changing("my-program")?;
    /// let mut change = changing.begin(&Knob::clock_source())?;
    /// change.set("hpet")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changing(&self, by: &str) -> Result<Changing, JournalError> {
        let held = Held { locks: self.lock()?, being_changed: Mutex::default() };
        Ok(Changing { journal: self.clone(), by: by.to_owned(), held: Arc::new(held) })
    }
}

impl Changing {
    /// Begins a change, without modifying the setting yet.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError`] if the setting cannot be read, if a change to it is already in progress, or if another
    /// process was killed before it restored the setting.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let changing = Journal::open(Journal::FOLDER, &Host::live())?.changing("my-program")?;
    /// let mut swappiness = changing.begin(&Knob::new("swappiness", "/proc/sys/vm/swappiness"))?;
    /// let mut clock_source = changing.begin(&Knob::clock_source())?;
    /// swappiness.set("10")?;
    /// clock_source.set("hpet")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin(&self, knob: &Knob) -> Result<Change, KnobError> {
        let before = knob.value()?;
        let mut being_changed = self.being_changed();
        if being_changed.contains(&knob.path) {
            return Err(KnobError::BeingChanged { path: knob.path().to_owned() });
        }
        for journal in &self.held.locks.elsewhere {
            journal.refuse_what_is_left(knob, &before)?;
        }
        self.journal.refuse_what_was_left(knob, &before)?;
        being_changed.insert(knob.path.clone());
        let entry = Entry {
            kind: knob.kind.clone(),
            path: knob.path.clone(),
            by: self.by.clone(),
            lasting: false,
            before,
            set_to: Vec::new(),
        };
        Ok(Change { knob: knob.clone(), entry, is_over: false, right: self.clone() })
    }

    /// Checks whether a process was killed before it restored a setting that it had changed. Reads this journal and the
    /// other journals in use on this machine. A setting that cannot be read is omitted.
    ///
    /// # Errors
    ///
    /// Returns [`JournalError::LeftBehind`] for the first such setting, or another error if a journal cannot be read.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, JournalError};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// match journal.changing("my-program")?.check_nothing_left() {
    ///     Ok(()) => println!("all settings have been restored"),
    ///     Err(left) => println!("{left}"),
    /// }
    /// # Ok::<(), JournalError>(())
    /// ```
    pub fn check_nothing_left(&self) -> Result<(), JournalError> {
        let mut journals = [&self.journal].into_iter().chain(&self.held.locks.elsewhere);
        journals.try_for_each(Journal::refuse_anything_left)
    }

    fn being_changed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.held.being_changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_journal(&self, act: impl FnOnce(&Journal) -> Result<(), JournalError>) -> Result<(), JournalError> {
        let _one_at_a_time = self.being_changed();
        act(&self.journal)
    }
}

/// A setting that is being changed. Dropping this value restores the setting, even on a panic, unless
/// [`keep`](Self::keep) was called. If the process is killed, the journal still holds the original value.
#[derive(Debug)]
#[must_use = "the setting is restored when this is dropped"]
pub struct Change {
    knob: Knob,
    entry: Entry,
    is_over: bool,
    right: Changing,
}

impl Change {
    /// Returns the original value of the setting.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// let change = Knob::clock_source().begin(&journal, "my-program")?;
    /// println!("the clocksource is {}", change.before());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn before(&self) -> &str {
        &self.entry.before
    }

    /// Records the change, applies it, and checks whether the kernel accepted it.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError`] if any of these steps fails. Even then, the original value is restored when this change is
    /// dropped.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob, KnobError};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// let mut change = Knob::clock_source().begin(&journal, "my-program")?;
    /// match change.set("hpet") {
    ///     Ok(()) => println!("the kernel uses hpet"),
    ///     Err(KnobError::Overridden { is, .. }) => println!("the kernel uses {is} nevertheless"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set(&mut self, value: &str) -> Result<(), KnobError> {
        if !is_a_line(value) {
            return Err(KnobError::NotALine { value: value.to_owned() });
        }
        if !self.entry.set_to.iter().any(|set_to| set_to == value) {
            self.entry.set_to.push(value.to_owned());
            self.right.in_journal(|journal| journal.write_down(&self.entry))?;
        }
        let set = self.knob.set(value);
        match &set {
            Err(KnobError::Overridden { is, .. })
                if is_a_line(is) && *is != self.entry.before && !self.entry.set_to.contains(is) =>
            {
                // A value that the kernel derived from the requested one counts as set by this program.
                self.entry.set_to.push(is.clone());
                self.right.in_journal(|journal| journal.write_down(&self.entry))?;
            }
            _ => {}
        }
        set
    }

    /// Keeps the new value. The original value stays in the journal, so that [`Journal::restore`] can restore it later.
    /// Without a new value, there is nothing to restore, and the journal does not list the setting.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError`] if the journal cannot be written; the setting is then restored.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// let mut change = Knob::clock_source().begin(&journal, "my-program")?;
    /// change.set("hpet")?;
    /// // The clocksource stays hpet after the program has ended.
    /// change.keep()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep(mut self) -> Result<(), KnobError> {
        if !self.entry.set_to.is_empty() {
            self.entry.lasting = true;
            self.right.in_journal(|journal| journal.write_down(&self.entry))?;
        }
        self.is_over = true;
        Ok(())
    }

    /// Restores the original value, and checks whether the kernel accepted it.
    ///
    /// # Errors
    ///
    /// Returns [`KnobError::ChangedSince`] if another process has changed the setting in the meantime. In that case,
    /// the setting keeps its current value, and the journal entry is removed. After any other error, the journal still
    /// holds the original value.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use hpt_core::Host;
    /// use hpt_realtime::knobs::{Journal, Knob};
    ///
    /// let journal = Journal::open(Journal::FOLDER, &Host::live())?;
    /// let mut change = Knob::clock_source().begin(&journal, "my-program")?;
    /// change.set("hpet")?;
    /// // Unlike dropping the change, this returns errors.
    /// change.restore()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore(mut self) -> Result<(), KnobError> {
        self.put_back()
    }

    /// Simulates a killed process, which does not restore the setting.
    #[cfg(test)]
    pub(super) fn leave(mut self) {
        self.is_over = true;
    }

    /// Restores the original value. A system call may fail once, for example while a limit is exceeded, so there is a
    /// second attempt.
    fn put_back(&mut self) -> Result<(), KnobError> {
        self.is_over = true;
        match self.try_to_put_back() {
            Err(error) if !matches!(error, KnobError::ChangedSince { .. }) => self.try_to_put_back(),
            done => done,
        }
    }

    fn try_to_put_back(&self) -> Result<(), KnobError> {
        if !self.entry.set_to.is_empty() {
            let is = self.knob.value()?;
            let is_from_here = is == self.entry.before || self.entry.set_to.contains(&is);
            // A setting that the kernel refused to change would refuse the original value too.
            if is_from_here && is != self.entry.before {
                self.knob.set(&self.entry.before)?;
            }
            self.right.in_journal(|journal| journal.strike_out(&self.entry))?;
            if !is_from_here {
                return Err(KnobError::ChangedSince { path: self.knob.path().to_owned(), is });
            }
        }
        Ok(())
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.is_over {
            // The error cannot be returned here, but the journal still holds the original value.
            let _ = self.put_back();
        }
        self.right.being_changed().remove(&self.entry.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Journal, JournalError, Knob, KnobError};
    use crate::{knobs::Contents, state::Binding};
    use hpt_sys::host::BootId;

    #[test]
    fn several_settings_are_changed_at_once_and_restored_in_any_order() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let boot = BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10").expect("a boot identity");
        let journal = Journal::bound_to(folder.path().join("state"), Binding { boot, processor: "any".to_owned() });
        let knob = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "first\n").expect("ours");
            Knob::new(name, path.to_str().expect("UTF-8"))
        };
        let (one, other) = (knob("one"), knob("other"));
        let right = journal.changing("a test").expect("no other change");
        let (mut first, mut second) =
            (right.begin(&one).expect("no change yet"), right.begin(&other).expect("no change yet"));
        first.set("second").expect("a file accepts any value");
        second.set("second").expect("a file accepts any value");
        assert!(matches!(right.begin(&one), Err(KnobError::BeingChanged { .. })));
        assert!(matches!(journal.contents(), Ok(Contents::Entries(entries)) if entries.len() == 2));
        drop(right);
        // The changes alone keep other processes out.
        assert!(matches!(journal.changing("another"), Err(JournalError::Busy { .. })));
        first.restore().expect("a file accepts any value");
        assert!(matches!(journal.contents(), Ok(Contents::Entries(entries)) if entries[0].path == other.path));
        assert_eq!(
            (one.value().expect("a line").as_str(), other.value().expect("a line").as_str()),
            ("first", "second")
        );
        drop(second);
        assert_eq!(other.value().expect("a line"), "first");
        let again = journal.changing("another").expect("both changes have ended");
        // A change that set nothing leaves nothing in the journal, even if it is kept.
        again.begin(&one).expect("the change has ended").keep().expect("nothing to write");
        assert!(matches!(journal.contents(), Ok(Contents::Nothing)));
        drop(again.begin(&one).expect("the change has ended"));
        drop(again.begin(&one).expect("a change that was begun but not made has ended too"));
    }
}
