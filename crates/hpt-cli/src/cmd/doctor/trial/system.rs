//! The machine of an experiment: applies and undoes fixes with the journal, and measures in another process.

use std::time::{Duration, Instant};

use hpt_instrument::diagnose::{RunTimeChange, RunTimeFix};
use hpt_realtime::{
    AwakeCpus,
    knobs::{Change, Changing, KnobError, Setting},
};

use super::{
    child::value_of,
    measured::TrialMeasurement,
    plan::{Ended, Machine},
    timing::Pace,
};
use crate::{context::Context, exit::causes, measurements::Request, output::progress::WholeProgress};

/// A fix that is in effect.
#[derive(Debug)]
enum Active {
    Changes(Vec<Change>),
    Limit(#[expect(dead_code, reason = "dropping it ends the limit")] AwakeCpus),
}

/// The number of times that a round with too few samples is repeated.
const REPEATS: u32 = 4;

/// A measurement that takes longer than this many times the expected time, and [`STARTING`] in addition, hangs.
const TOLERANCE: u32 = 3;
const STARTING: Duration = Duration::from_secs(5);

pub(super) struct Rounds {
    pub(super) measured: TrialMeasurement,
    /// The requested duration; `None` if the line of the measurement determines it.
    pub(super) requested: Option<Duration>,
    pub(super) pace: Pace,
    /// The number of measurements for which there is time.
    pub(super) planned: usize,
}

/// For each fix, the list of irqbalance, if the fix changes it.
pub(super) type Lists = Vec<Option<Result<Change, String>>>;

/// The settings that could not be restored, or not be kept.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// The command that restores them later.
    pub(super) command: String,
    pub(super) texts: Vec<String>,
}

impl Left {
    pub(super) const fn new(command: String) -> Self {
        Self { command, texts: Vec::new() }
    }

    /// Restores a setting. Returns the reason if it does not have its original value afterwards.
    fn restore(&mut self, change: Change) -> Result<(), KnobError> {
        self.noted(change.restore())
    }

    fn noted(&mut self, restored: Result<(), KnobError>) -> Result<(), KnobError> {
        match &restored {
            Ok(()) | Err(KnobError::ChangedSince { .. }) => {}
            Err(error) => {
                self.texts.push(format!("a setting may still be changed: {}; run `{}`", causes(error), self.command));
            }
        }
        restored
    }

    /// Notes a setting that could not be kept. It was restored, if that was possible.
    fn not_kept(&mut self, error: &KnobError) {
        self.texts.push(format!(
            "a setting was not kept: {}; if it is still changed, run `{}`",
            causes(error),
            self.command
        ));
    }

    /// Restores lists of irqbalance. Returns a text for each that does not have its original value afterwards.
    pub(super) fn restore_lists(&mut self, lists: &mut Lists) -> Vec<String> {
        let lists = lists.iter_mut().filter_map(Option::take).filter_map(Result::ok);
        lists.filter_map(|list| self.restore(list).err().map(|error| causes(&error))).collect()
    }
}

/// The settings that are kept after an experiment.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The number of kept settings, without lists of irqbalance.
    pub(super) settings: usize,
    /// A text for each fix that cannot be kept by its nature.
    pub(super) notes: Vec<String>,
}

/// Changes the lists of irqbalance. This can take 20 s for each, and as long again when they are restored.
pub(super) fn changed_lists(fixes: &[&RunTimeFix], changing: &Changing, left: &mut Left) -> Lists {
    let mut list = |fix: &&RunTimeFix| {
        let RunTimeChange::Settings(settings) = &fix.change else { return None };
        let setting = settings.iter().find(|setting| is_list(setting))?;
        Some(change(changing, setting, left).map_err(|error| causes(&error)))
    };
    fixes.iter().map(&mut list).collect()
}

/// The live machine.
pub(super) struct System<'a> {
    fixes: Vec<&'a RunTimeFix>,
    active: Vec<Option<Active>>,
    /// For each fix, the list of irqbalance. It is changed once for the whole experiment, because irqbalance needs up to
    /// 20 s for a change, and has no effect on interrupts that are not moved.
    lists: Lists,
    changing: Changing,
    rounds: Rounds,
    context: &'a Context,
    end: Instant,
    /// The settings that the kernel refused, with the reason.
    pub(super) refused: Vec<String>,
    pub(super) left: Left,
    progress: WholeProgress,
    measurements: usize,
    /// The end of the last measurement, if there is one.
    last: Option<Instant>,
}

impl<'a> System<'a> {
    /// No round begins that would end after `end`.
    pub(super) fn new(
        fixes: Vec<&'a RunTimeFix>,
        (changing, lists, left): (Changing, Lists, Left),
        rounds: Rounds,
        context: &'a Context,
        end: Instant,
    ) -> Self {
        let active = fixes.iter().map(|_| None).collect();
        let progress = WholeProgress::new(&vec![("round", rounds.pace.each()); rounds.planned]);
        let refused = Vec::new();
        let (measurements, last) = (0, None);
        Self { fixes, active, lists, changing, rounds, context, end, refused, left, progress, measurements, last }
    }

    /// Keeps the settings of the fixes that are in effect.
    pub(super) fn keep(&mut self) -> Kept {
        let mut kept = Kept::default();
        let mut keep = |change: Change| change.keep().map_err(|error| self.left.not_kept(&error)).is_ok();
        for ((fix, active), list) in self.fixes.iter().zip(&mut self.active).zip(&mut self.lists) {
            let active = active.take();
            if active.is_some() {
                if let Some(Ok(list)) = list.take() {
                    keep(list);
                }
            }
            match active {
                None => {}
                Some(Active::Limit(_)) => kept.notes.push(format!(
                    "{}: it lasts only as long as a process requests it; hpt run --dma-latency 0, or the unit of --output, does",
                    fix.text
                )),
                Some(Active::Changes(changes)) => {
                    kept.settings += changes.into_iter().map(&mut keep).filter(|&is_kept| is_kept).count();
                }
            }
        }
        kept
    }

    /// Undoes everything. Returns a text for each setting that does not have its original value afterwards.
    pub(super) fn undo(&mut self) -> Vec<String> {
        let active: Vec<usize> = (0..self.active.len()).filter(|&fix| self.active[fix].is_some()).collect();
        let mut failed: Vec<String> = active.into_iter().filter_map(|fix| self.turn_off(fix).err()).collect();
        failed.extend(self.left.restore_lists(&mut self.lists));
        failed
    }

    fn apply(&mut self, settings: &[Setting]) -> Result<Vec<Change>, String> {
        let mut changes = Vec::new();
        let mut refused = Vec::new();
        for setting in settings.iter().filter(|setting| !is_list(setting)) {
            match change(&self.changing, setting, &mut self.left) {
                Ok(change) => changes.push(change),
                // One of several interrupts may be fixed to its CPU, and one of several idle states may not exist.
                Err(error) if !is_decisive(&error) => refused.push(causes(&error)),
                Err(error) => {
                    refused.insert(0, causes(&error));
                    while let Some(change) = changes.pop() {
                        refused.extend(self.left.restore(change).err().map(|error| causes(&error)));
                    }
                    break;
                }
            }
        }
        if changes.is_empty() {
            return Err(refused.into_iter().next().unwrap_or_else(|| "it changes no setting".to_owned()));
        }
        for why in refused {
            if !self.refused.contains(&why) {
                self.refused.push(why);
            }
        }
        Ok(changes)
    }
}

/// Changes a setting, unless it has the value already.
fn change(changing: &Changing, setting: &Setting, left: &mut Left) -> Result<Change, KnobError> {
    let mut change = changing.begin(setting.knob())?;
    if change.before() == setting.value() {
        return Ok(change);
    }
    match change.set(setting.value()) {
        Ok(()) => Ok(change),
        Err(refused) => {
            // The kernel may have accepted a part of the value. The first reason is the one that matters.
            let _ = left.restore(change);
            Err(refused)
        }
    }
}

/// Returns whether a setting is the list of interrupts that irqbalance does not move.
fn is_list(setting: &Setting) -> bool {
    setting.knob().kind() == "irqbalance-banned"
}

/// Returns whether the other settings of the fix cannot be changed either.
const fn is_decisive(error: &KnobError) -> bool {
    matches!(error, KnobError::Journal(_) | KnobError::BeingChanged { .. })
}

impl Machine for System<'_> {
    fn turn_on(&mut self, fix: usize) -> Result<(), String> {
        // Without its list, irqbalance may move the interrupts back.
        if let Some(Err(why)) = &self.lists[fix] {
            return Err(why.clone());
        }
        let chosen = self.fixes[fix];
        let active = match &chosen.change {
            RunTimeChange::Settings(settings) => Active::Changes(self.apply(settings)?),
            RunTimeChange::LatencyLimit => Active::Limit(AwakeCpus::new().map_err(|error| causes(&error))?),
            RunTimeChange::NotPossible(why) => return Err(why.clone()),
            _ => return Err("this version of hpt cannot apply it".to_owned()),
        };
        self.active[fix] = Some(active);
        Ok(())
    }

    fn turn_off(&mut self, fix: usize) -> Result<(), String> {
        let Some(Active::Changes(mut changes)) = self.active[fix].take() else { return Ok(()) };
        let mut failed = Vec::new();
        // The last change is undone first.
        while let Some(change) = changes.pop() {
            failed.extend(self.left.restore(change).err().map(|error| causes(&error)));
        }
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    fn measure(&mut self) -> Result<f64, Ended> {
        // There may be more measurements on top of each other than planned.
        self.progress.begin(self.measurements.min(self.rounds.planned - 1));
        self.measurements += 1;
        let mut samples = 0;
        for repeat in 0..=REPEATS {
            // A single hiccup does not make all later rounds longer.
            if repeat > 1 {
                self.rounds.lengthen();
            }
            if self.context.interrupted() {
                return Err(Ended::Interrupted);
            }
            let (begun, expected) = (Instant::now(), self.rounds.pace.each());
            if begun + expected > self.end {
                return Err(Ended::OutOfTime);
            }
            let deadline = (begun + expected * TOLERANCE + STARTING).min(self.end);
            let value = match value_of(self.rounds.request(), deadline, &|| self.context.interrupted()) {
                // It was only longer than expected.
                Err(Ended::Hung(_)) if deadline == self.end => return Err(Ended::OutOfTime),
                other => other?,
            };
            // The changes since the last measurement count as well.
            let now = Instant::now();
            self.rounds.pace.note(now.duration_since(self.last.unwrap_or(begun)));
            self.last = Some(now);
            if let Some(ns) = value.ns {
                return Ok(ns);
            }
            samples = value.samples;
        }
        Err(Ended::Failed(format!("a round had too few samples ({samples}), even when it was repeated")))
    }

    fn room(&self) -> usize {
        self.rounds.pace.fitting(self.end.saturating_duration_since(Instant::now()))
    }
}

impl Rounds {
    fn request(&mut self) -> &Request {
        self.measured.lasting(self.requested)
    }

    /// Doubles the length of this round and of later ones, because a round may lose samples, for example if deadlines
    /// are missed.
    fn lengthen(&mut self) {
        let Some(requested) = self.requested else { return };
        self.requested = Some(requested * 2);
        self.pace.lengthen(2);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use hpt_realtime::knobs::KnobError;

    use super::Left;

    #[test]
    fn a_setting_that_is_not_restored_is_reported_with_the_command_that_restores_it() {
        let mut left = Left::new("hpt restore --journal /somewhere".to_owned());
        let path = std::path::PathBuf::from("/proc/sys/kernel/nmi_watchdog");
        assert!(left.noted(Ok(())).is_ok() && left.texts.is_empty());
        // The value of another program stays, and the journal no longer lists the setting.
        let changed = KnobError::ChangedSince { path: path.clone(), is: "1".to_owned() };
        assert!(left.noted(Err(changed)).is_err() && left.texts.is_empty());
        let refused = KnobError::Refused { path, value: "1".to_owned(), cause: io::ErrorKind::InvalidInput.into() };
        assert!(left.noted(Err(refused)).is_err());
        let [text] = left.texts.as_slice() else { panic!("{left:?}") };
        assert!(text.contains("nmi_watchdog") && text.contains("run `hpt restore --journal /somewhere`"), "{text}");
    }
}
