//! Changing settings: who may, and each change until it is put back.
//! Knows no setting by name.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Entry, Journal, JournalError, Knob, KnobError, is_a_line, journal::Locks};

/// The right to change settings, which one process of the machine has at a time, whatever its journal: several of them at once, in any order. It is had as long
/// as this or one of the changes lives.
#[derive(Clone, Debug)]
pub struct Changing {
    journal: Journal,
    by: String,
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    locks: Locks,
    /// The files of the settings that are being changed. Who reads and writes the journal holds it.
    being_changed: Mutex<BTreeSet<String>>,
}

impl Knob {
    /// Begins to change it: nothing is changed yet. `by` says who does, for whoever finds the journal.
    ///
    /// # Errors
    ///
    /// [`KnobError`] when it cannot be read, when another process is changing settings, and when one was killed while it had this one changed.
    pub fn begin(&self, journal: &Journal, by: &str) -> Result<Change, KnobError> {
        journal.changing(by)?.begin(self)
    }
}

impl Journal {
    /// Takes the right to change settings; nothing is changed yet. `by` says who does, for whoever finds the journal.
    ///
    /// # Errors
    ///
    /// [`JournalError::Busy`] when another process has it, and whatever else keeps the journal from being used.
    pub fn changing(&self, by: &str) -> Result<Changing, JournalError> {
        let held = Held { locks: self.lock()?, being_changed: Mutex::default() };
        Ok(Changing { journal: self.clone(), by: by.to_owned(), held: Arc::new(held) })
    }
}

impl Changing {
    /// Begins to change a setting: nothing is changed yet.
    ///
    /// # Errors
    ///
    /// [`KnobError`] when it cannot be read, when it is being changed already, and when a process was killed while it had this one changed.
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

    fn being_changed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.held.being_changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_journal(&self, act: impl FnOnce(&Journal) -> Result<(), JournalError>) -> Result<(), JournalError> {
        let _one_at_a_time = self.being_changed();
        act(&self.journal)
    }
}

/// A setting that is being changed: put back when this is dropped, also by a panic, unless it is [kept](Self::keep). What a process that is killed leaves
/// behind is in the journal.
#[derive(Debug)]
#[must_use = "the setting is put back when this is dropped"]
pub struct Change {
    knob: Knob,
    entry: Entry,
    is_over: bool,
    right: Changing,
}

impl Change {
    /// What it was set to before.
    #[must_use]
    pub fn before(&self) -> &str {
        &self.entry.before
    }

    /// Writes the change down, makes it, and looks whether the kernel took it.
    ///
    /// # Errors
    ///
    /// [`KnobError`]; whatever came of it, the end of this puts back what was before.
    pub fn set(&mut self, value: &str) -> Result<(), KnobError> {
        if !is_a_line(value) {
            return Err(KnobError::NotALine { value: value.to_owned() });
        }
        if !self.entry.set_to.iter().any(|set_to| set_to == value) {
            self.entry.set_to.push(value.to_owned());
            self.right.in_journal(|journal| journal.write_down(&self.entry))?;
        }
        let set = self.knob.set(value);
        if let Err(KnobError::Overridden { is, .. }) = &set
            && is_a_line(is)
            && *is != self.entry.before
            && !self.entry.set_to.contains(is)
        {
            // What the kernel made of the wish came from here as well.
            self.entry.set_to.push(is.clone());
            self.right.in_journal(|journal| journal.write_down(&self.entry))?;
        }
        set
    }

    /// Leaves it as it is now. The journal keeps what was before, for [`Journal::restore`].
    ///
    /// # Errors
    ///
    /// [`KnobError`] when the journal cannot be written: then the setting is put back.
    pub fn keep(mut self) -> Result<(), KnobError> {
        self.entry.lasting = true;
        self.right.in_journal(|journal| journal.write_down(&self.entry))?;
        self.is_over = true;
        Ok(())
    }

    /// Puts back what was before, and looks whether the kernel took it.
    ///
    /// # Errors
    ///
    /// [`KnobError::ChangedSince`] where somebody else has set it meanwhile: it is left alone, and the journal forgets it. Whatever else it is, what was before
    /// is in the journal then.
    pub fn restore(mut self) -> Result<(), KnobError> {
        self.put_back()
    }

    /// As a process does that is killed: nothing is put back.
    #[cfg(test)]
    pub(super) fn leave(mut self) {
        self.is_over = true;
    }

    fn put_back(&mut self) -> Result<(), KnobError> {
        self.is_over = true;
        if !self.entry.set_to.is_empty() {
            let is = self.knob.value()?;
            let is_from_here = is == self.entry.before || self.entry.set_to.contains(&is);
            if is_from_here {
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
            // Nobody can be told here, but the journal says what was before.
            let _ = self.put_back();
        }
        self.right.being_changed().remove(&self.entry.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Journal, JournalError, Knob, KnobError};
    use crate::{host::BootId, knobs::Contents, state::Binding};

    #[test]
    fn several_settings_are_changed_at_once_and_put_back_in_any_order() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let boot = BootId::parse("0f9c1f39-3b44-4a4f-8a43-0c3a7f4c2a10").expect("a boot identity");
        let journal = Journal::bound_to(folder.path().join("state"), Binding { boot, processor: "any".to_owned() });
        let knob = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, "first\n").expect("ours");
            Knob::new(name, path.to_str().expect("UTF-8"))
        };
        let (one, other) = (knob("one"), knob("other"));
        let right = journal.changing("a test").expect("nobody else");
        let (mut first, mut second) = (right.begin(&one).expect("not yet"), right.begin(&other).expect("not yet"));
        first.set("second").expect("a file takes anything");
        second.set("second").expect("a file takes anything");
        assert!(matches!(right.begin(&one), Err(KnobError::BeingChanged { .. })));
        assert!(matches!(journal.contents(), Ok(Contents::Entries(entries)) if entries.len() == 2));
        drop(right);
        // The changes alone keep others out.
        assert!(matches!(journal.changing("another"), Err(JournalError::Busy { .. })));
        first.restore().expect("a file takes anything");
        assert!(matches!(journal.contents(), Ok(Contents::Entries(entries)) if entries[0].path == other.path));
        assert_eq!(
            (one.value().expect("a line").as_str(), other.value().expect("a line").as_str()),
            ("first", "second")
        );
        drop(second);
        assert_eq!(other.value().expect("a line"), "first");
        let again = journal.changing("another").expect("both are over");
        drop(again.begin(&one).expect("it is over"));
        drop(again.begin(&one).expect("a change that was begun and not made is over as well"));
    }
}
