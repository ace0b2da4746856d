//! The saved parts of experiments, from which `--resume` continues a run. They remain valid until the next boot.

use std::{
    cell::{Cell as Shared, RefCell},
    path::Path,
    time::Duration,
};

use hpt_realtime::state::{Binding, Locked, StateError, Store};
use serde::{Deserialize, Serialize};

use crate::{
    context::Context,
    exit::{Failure, causes},
    experiments::{Experiment, Measured, Part},
};

/// The name of the lock in the state directory, and the prefix of the file names of saved parts.
pub(super) const STATE: &str = "experiment";

/// A part that was finished or interrupted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedPart {
    pub(super) count: u64,
    pub(super) made: u64,
    /// The conditions of the measurement. A part can be continued only under the same conditions.
    pub(super) conditions: Vec<String>,
    pub(super) figures: Vec<Measured>,
}

impl SavedPart {
    /// Returns whether this part is the same measurement as `kept`, with fewer samples.
    pub(super) fn is_less_than(&self, kept: &Self) -> bool {
        self.count == kept.count && self.conditions == kept.conditions && self.made < kept.made
    }
}

/// A part to be measured.
pub(super) struct Planned<'a> {
    pub(super) part: &'static Part,
    pub(super) count: u64,
    pub(super) conditions: &'a [String],
    pub(super) before: Option<SavedPart>,
}

impl Planned<'_> {
    /// Returns the number of remaining samples.
    pub(super) fn left(&self) -> u64 {
        self.count - self.before.as_ref().map_or(0, |before| before.made)
    }

    pub(super) fn expected(&self) -> Duration {
        expected(self.part, self.left())
    }
}

pub(super) fn expected(part: &Part, count: u64) -> Duration {
    Duration::from_secs_f64(part.each.as_secs_f64() * count as f64)
}

/// The saved parts and the directory that contains them. Each part has its own file, so that two processes that measure
/// different parts do not overwrite each other's results.
pub(super) struct SavedParts {
    pub(super) store: Option<(Store, Binding)>,
    pub(super) resume: bool,
    /// The lock on the state directory, or `None` if another process held it or the directory cannot be used.
    pub(super) _alone: Option<Locked>,
    pub(super) notes: RefCell<Vec<String>>,
    /// The number of notes that have already been printed.
    pub(super) told: Shared<usize>,
}

impl SavedParts {
    /// Opens the state directory. A failure results in a note, but does not prevent the measurement.
    pub(super) fn open(resume: bool, store: Option<&Path>, context: &Context) -> Self {
        let mut kept = Self { store: None, resume, _alone: None, notes: RefCell::default(), told: Shared::new(0) };
        if context.is_of_a_part() {
            return kept;
        }
        let opened = context.store(store).and_then(|store| Ok((store, context.binding()?)));
        let opened = opened.and_then(|(store, binding)| Ok((store.lock(STATE)?, store, binding)));
        match opened {
            Ok((alone, store, binding)) => {
                if alone.is_none() {
                    kept.note("another hpt experiment was running when this one started; each may have increased the latency that the other measured".to_owned());
                }
                (kept._alone, kept.store) = (alone, Some((store, binding)));
            }
            Err(Failure::State(error)) => kept.note(format!("finished parts are not saved: {}", causes(&error))),
            Err(Failure::NoBootId) => kept.note(
                "finished parts are not saved: cannot read /proc/sys/kernel/random/boot_id, which identifies this boot; mount /proc".to_owned(),
            ),
            Err(failure) => kept.note(format!("finished parts are not saved: {}", causes(&failure))),
        }
        kept
    }

    pub(super) fn note(&self, note: String) {
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Prints the notes that have not been printed yet.
    pub(super) fn tell(&self, how: impl Fn(&str)) {
        let notes = self.notes.borrow();
        notes[self.told.replace(notes.len())..].iter().for_each(|note| how(note));
    }

    /// Returns the saved result of the same measurement in an earlier run.
    pub(super) fn find(&self, experiment: &Experiment, planned: &Planned<'_>) -> Option<SavedPart> {
        let Planned { part, count, conditions, .. } = *planned;
        let (store, binding) = self.store.as_ref().filter(|_| self.resume)?;
        let name = format!("{}, {}", experiment.name, part.name);
        let payload = match store.load(&file_of(experiment, part, count), binding) {
            Ok(payload) => payload,
            Err(StateError::Missing { .. }) => return None,
            Err(error) => {
                self.note(format!("{name} is measured again: {}", causes(&error)));
                return None;
            }
        };
        let Ok(found) = serde_json::from_slice::<SavedPart>(&payload) else {
            self.note(format!("{name} is measured again: another version of hpt wrote the saved result"));
            return None;
        };
        if found.conditions != conditions {
            let only_in = |one: &[String], other: &[String]| {
                let only: Vec<_> = one.iter().filter(|condition| !other.contains(condition)).cloned().collect();
                only.join("; ")
            };
            let (then, now) = (only_in(&found.conditions, conditions), only_in(conditions, &found.conditions));
            self.note(format!("{name} is measured again: the conditions differ (then {then}; now {now})"));
            return None;
        }
        let is_it = found.count == count && found.made > 0 && found.made <= count;
        (is_it && (found.made == count || part.continues)).then_some(found)
    }

    pub(super) fn keep(&self, experiment: &Experiment, planned: &Planned<'_>, made: u64, figures: Vec<Measured>) {
        let Some((store, binding)) = &self.store else { return };
        let purpose = file_of(experiment, planned.part, planned.count);
        let name = format!("{}, {}", experiment.name, planned.part.name);
        let finished = SavedPart { count: planned.count, made, conditions: planned.conditions.to_vec(), figures };
        match store.load(&purpose, binding) {
            // Keep a file that cannot be read, because it may be valid.
            Err(error @ StateError::Unreadable { .. }) => {
                return self.note(format!("{name} is not saved: {}", causes(&error)));
            }
            Ok(payload) if serde_json::from_slice(&payload).is_ok_and(|kept| finished.is_less_than(&kept)) => {
                return self.note(format!(
                    "{name} is not saved: an earlier run has more samples; use --resume to continue that run"
                ));
            }
            _ => {}
        }
        let payload = serde_json::to_vec(&finished).expect("numbers and names have a JSON form");
        if let Err(error) = store.save(&purpose, binding, &payload) {
            self.note(format!("finished parts are not saved: {}", causes(&error)));
        }
    }
}

/// Returns the name of the file for a part. Each requested number of samples has its own file.
pub(super) fn file_of(experiment: &Experiment, part: &Part, count: u64) -> String {
    let name = part.name.replace('µ', "u").replace(' ', "-");
    format!("{STATE}-{}-{name}-{count}", experiment.name)
}
