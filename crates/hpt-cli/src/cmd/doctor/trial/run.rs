//! The course of `hpt doctor --try`: checks, confirmation, the experiment, and what stays in effect.

use std::time::{Duration, Instant};

use hpt_core::Host;
use hpt_document::doctor_try::{DoctorTryDocument, TriedFix, TriedSetting, TryVerdict};
use hpt_instrument::diagnose::{Examined, Goal, RunTimeChange, RunTimeFix, Verdict};
use hpt_realtime::knobs::{Changing, Journal, JournalError, KnobError};

use super::{
    child::value_of,
    kept_files,
    measured::TrialMeasurement,
    options::TrialOptions,
    plan::{Ended, Outcome, experiment},
    system::{Kept, Left, Rounds, System, changed_lists},
    terminal::{State, page},
    timing::{First, Pace, TrialTiming, least, plan},
};
use crate::{
    consent::consent,
    context::Context,
    document_head::head_of,
    exit::{Failure, causes, restore_command},
    output::{Answer, Document, message, one_or_many, rounded},
    statistics::few::{median, spread},
};

/// The program that the journal names.
const BY: &str = "hpt doctor --try";
/// The duration of the first measurement, from which the plan follows.
const FIRST: Duration = Duration::from_secs(1);

/// The fixes to try, and the use of the machine.
pub(crate) struct Wanted<'a> {
    pub(crate) goal: Goal,
    pub(crate) cpu: usize,
    /// Whether the user named the CPU.
    pub(crate) is_cpu_named: bool,
    pub(crate) fixes: &'a [RunTimeFix],
    pub(crate) examined: &'a [Examined],
}

impl State {
    fn of(left: &Left, options: &TrialOptions) -> Self {
        let (restore, is_anything_left) = (left.command.clone(), !left.texts.is_empty());
        Self { restore, is_anything_left, is_to_keep: options.keep, is_unknown: false }
    }
}

pub(crate) fn run(options: &TrialOptions, wanted: &Wanted<'_>, context: &Context) -> Result<Document, Failure> {
    let measured = TrialMeasurement::of(options, wanted)?;
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::NeedsRoot("hpt doctor --try changes settings of the system"));
    }
    let (possible, impossible) = possible(wanted.fixes, measured.blocks);
    let mut data = empty(options, wanted, context, measured.request.line());
    data.results = impossible.iter().map(|(fix, why)| not_possible(fix, why)).collect();
    let journal = context.journal(options.journal.as_deref());
    // Without a fix to try, it is only a note.
    match journal.as_ref().map_or(Ok(()), refuse_what_was_left) {
        Err(refused) if possible.is_empty() => data.notes.push(causes(&refused)),
        other => other?,
    }
    if possible.is_empty() {
        let answer = without_fixes(&mut data, wanted);
        let blocks = page(&data, &State { is_unknown: answer == Answer::Unknown, ..State::default() });
        return Ok(Document { answer, ..Document::new(data, blocks) });
    }
    long_enough(options, measured.is_chosen, possible.len())?;
    let journal = journal?;
    if !consent(&warning(options, &possible, measured.request.line()), options.yes)? {
        return Err(Failure::NotMeant);
    }
    context.signals.listen_until_the_end()?;
    let changing = journal.changing(BY)?;
    if let Some(folder) = &options.output {
        kept_files::prepare(folder, options.force)?;
    }
    let left = Left::new(restore_command(journal.folder()));
    // The time that the user needs to confirm does not count.
    let trial = ConfirmedTrial { options, context, begun: Instant::now(), data, left };
    trial.make(measured, &possible, changing)
}

/// A trial that the user has confirmed.
struct ConfirmedTrial<'a> {
    options: &'a TrialOptions,
    context: &'a Context,
    begun: Instant,
    data: DoctorTryDocument,
    left: Left,
}

impl ConfirmedTrial<'_> {
    fn make(
        mut self,
        measured: TrialMeasurement,
        possible: &[&RunTimeFix],
        changing: Changing,
    ) -> Result<Document, Failure> {
        let Self { options, context, begun, .. } = self;
        // The values before any change, for the document.
        let tried: Vec<TriedFix> = possible.iter().map(|fix| row(fix)).collect();
        let mut lists = changed_lists(possible, &changing, &mut self.left);
        // The lists take as long again when they are restored.
        let end = (begun + options.duration).checked_sub(begun.elapsed()).unwrap_or(begun);
        let (timing, measured) = match first(options, measured, possible.len(), end, context) {
            Ok(first) => first,
            Err(stop) => {
                self.data.notes.extend(self.left.restore_lists(&mut lists));
                let ended = match stop {
                    Stop::Ended(ended) => ended,
                    Stop::Failure(failure) => {
                        self.left.texts.iter().for_each(message::warning);
                        return Err(failure);
                    }
                };
                self.data.results.extend(tried.into_iter().map(|row| TriedFix { reason: Some(ended.words()), ..row }));
                return Ok(self.end(Answer::Unknown, Vec::new()));
            }
        };
        self.data.measurement = measured.request.line_with(timing.requested);
        let rounds = Rounds {
            measured,
            requested: timing.requested,
            pace: Pace::new(timing.expected),
            planned: timing.measurements,
        };
        let mut system = System::new(possible.to_vec(), (changing, lists, self.left), rounds, context, end);
        let outcome = experiment(&mut system, possible.len(), timing.bounds);
        let kept = if options.keep { system.keep() } else { Kept::default() };
        self.data.kept_until_reboot = kept.settings > 0;
        self.data.notes.extend(kept.notes);
        self.data.notes.extend(system.undo());
        self.data.notes.append(&mut system.refused);
        self.left = system.left.clone();
        drop(system);
        add(&mut self.data, &outcome, tried);
        let unwritten = write(options, &mut self.data);
        let is_any_tried = self.data.results.iter().any(|row| row.verdict != TryVerdict::NotPossible);
        let is_unknown = !is_any_tried || is_undecided(&self.data.results);
        let answer = if is_unknown { Answer::Unknown } else { Answer::Yes };
        Ok(self.end(answer, unwritten.into_iter().collect()))
    }

    /// Returns the document. A setting that could not be restored, and a file that was not written, are warnings.
    fn end(self, answer: Answer, unwritten: Vec<String>) -> Document {
        let Self { options, context, begun, mut data, left } = self;
        data.interrupted = context.interrupted();
        data.elapsed_s = rounded(begun.elapsed().as_secs_f64());
        let blocks = page(&data, &State::of(&left, options));
        let warnings = [left.texts, unwritten].concat();
        let answer = if warnings.is_empty() { answer } else { Answer::Unknown };
        Document { answer, warnings, ..Document::new(data, blocks) }
    }
}

/// Adds the outcome of the rounds to the document.
fn add(data: &mut DoctorTryDocument, outcome: &Outcome, tried: Vec<TriedFix>) {
    data.rounds = outcome.rounds as u64;
    data.baseline_ns = outcome.baseline_median();
    data.baseline_spread_ns = spread(&outcome.baseline);
    data.result_ns = outcome.result_median();
    let impossible = std::mem::take(&mut data.results);
    data.results = rows(tried, outcome).into_iter().chain(impossible).collect();
    let explains = |ended: &&Ended| match ended {
        Ended::Failed(_) | Ended::Hung(_) => true,
        // Without a fix that helps, the result is unknown.
        Ended::OutOfTime => outcome.kept.is_empty(),
        Ended::Interrupted => false,
    };
    if let Some(ended) = outcome.ended.as_ref().filter(explains) {
        data.notes.push(format!("the experiment ended early: {}", ended.words()));
    }
}

/// Writes the files that make the fixes permanent, if they were requested. Returns a warning if that fails.
fn write(options: &TrialOptions, data: &mut DoctorTryDocument) -> Option<String> {
    let folder = options.output.as_ref()?;
    match kept_files::write(folder, data, options.force) {
        Ok(paths) if paths.is_empty() => {
            let folder = folder.display();
            data.notes.push(format!("nothing was written to {folder}, because no fix is worth keeping"));
            None
        }
        Ok(paths) => {
            data.files = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            None
        }
        Err(error) => Some(causes(&error)),
    }
}

/// Returns whether no fix was found to help, and a fix has no verdict. The time at which the run ended does not matter.
fn is_undecided(results: &[TriedFix]) -> bool {
    let has = |verdict| results.iter().any(|row| row.verdict == verdict);
    has(TryVerdict::Unknown) && !has(TryVerdict::Helpful)
}

/// Returns whether a fix has an effect only on a real-time thread that never blocks.
fn affects_only_spinning(fix: &RunTimeFix) -> bool {
    ["throttling", "fair-server"].contains(&fix.rule)
}

/// Returns whether the fixes have to be measured with a thread that never blocks.
pub(super) fn shows_spinning(fixes: &[RunTimeFix]) -> bool {
    !fixes.is_empty() && fixes.iter().all(affects_only_spinning)
}

/// Without throttling, nothing else runs on the CPU of a real-time thread that never blocks.
pub(super) fn has_a_free_cpu() -> bool {
    hpt_realtime::allowed_cpus().len() > 1
}

/// Refuses a time limit that does not suffice for the shortest rounds, before anything is measured.
fn long_enough(options: &TrialOptions, is_chosen: bool, fixes: usize) -> Result<(), Failure> {
    let needs = FIRST + least(fixes);
    if !is_chosen || options.duration >= needs {
        return Ok(());
    }
    Err(too_short(options, needs, fixes))
}

fn too_short(options: &TrialOptions, needs: Duration, fixes: usize) -> Failure {
    let needs = Duration::from_secs(needs.as_secs() + 10);
    Failure::NotTried(format!(
        "--duration {} is too short for {fixes} {}; use --duration {} or more, or name fewer rules",
        humantime::format_duration(options.duration),
        one_or_many(fixes as u64, "fix", "fixes"),
        humantime::format_duration(needs).to_string().replace(' ', ""),
    ))
}

/// Refuses to begin if a process is changing settings, or if one was killed before it restored them. Otherwise, the
/// problem that such a setting was changed to avoid would count as solved, and would stay so.
fn refuse_what_was_left(journal: &Journal) -> Result<(), JournalError> {
    match journal.changing(BY) {
        Ok(changing) => changing.check_nothing_left(),
        Err(busy @ JournalError::Busy { .. }) => Err(busy),
        // A journal that cannot be used is reported later, if there is a fix to try.
        Err(_) => Ok(()),
    }
}

/// Why nothing was tried.
enum Stop {
    Failure(Failure),
    Ended(Ended),
}

/// Makes the first measurement, which no round counts, and returns the plan that follows from it.
fn first(
    options: &TrialOptions,
    mut measured: TrialMeasurement,
    fixes: usize,
    end: Instant,
    context: &Context,
) -> Result<(TrialTiming, TrialMeasurement), Stop> {
    let is_chosen = measured.is_chosen;
    let start = Instant::now();
    let request = measured.lasting(is_chosen.then_some(FIRST));
    let value = value_of(request, end, &|| context.interrupted()).map_err(|ended| match ended {
        Ended::Hung(time) => Stop::Ended(Ended::Failed(format!(
            "the first measurement did not end within {:.1} s, the whole of --duration, and was ended; use a longer --duration",
            time.as_secs_f64()
        ))),
        other => Stop::Ended(other),
    })?;
    let first = First {
        requested: is_chosen.then_some(FIRST),
        elapsed: start.elapsed(),
        samples: value.samples,
        least_samples: options.figure.least_samples(),
        phases: if measured.has_load { 2 } else { 1 },
    };
    if !is_chosen && value.ns.is_none() {
        let text = format!(
            "--with: the measurement has too few samples for {} ({}, but {} are needed); measure for longer",
            options.figure.name(),
            value.samples,
            options.figure.least_samples()
        );
        return Err(Stop::Failure(Failure::NotTried(text)));
    }
    let left = end.saturating_duration_since(Instant::now());
    let timing = plan(first, fixes, left).map_err(|needs| Stop::Failure(too_short(options, needs, fixes)))?;
    Ok((timing, measured))
}

/// Separates the fixes that may be applied from those that may not, with the reason. `blocks` is whether the measured
/// thread blocks.
fn possible(fixes: &[RunTimeFix], blocks: bool) -> (Vec<&RunTimeFix>, Vec<(&RunTimeFix, String)>) {
    let (mut possible, mut impossible) = (Vec::new(), Vec::new());
    for fix in fixes {
        match refused(fix).or_else(|| unseen(fix).filter(|_| blocks)) {
            None => possible.push(fix),
            Some(why) => impossible.push((fix, why)),
        }
    }
    (possible, impossible)
}

/// Returns why a fix cannot be applied.
fn refused(fix: &RunTimeFix) -> Option<String> {
    match &fix.change {
        RunTimeChange::NotPossible(why) => Some(why.clone()),
        RunTimeChange::LatencyLimit => {
            let file = std::fs::OpenOptions::new().write(true).open("/dev/cpu_dma_latency");
            file.err().map(|error| causes(&error))
        }
        RunTimeChange::Settings(settings) => {
            let refused: Vec<KnobError> =
                settings.iter().filter_map(|setting| setting.knob().may_be_set().err()).collect();
            refused.first().filter(|_| refused.len() == settings.len()).map(|error| causes(error))
        }
        _ => Some("this version of hpt cannot apply it".to_owned()),
    }
}

/// Returns why a thread that blocks cannot show the effect of a fix. It is never throttled.
fn unseen(fix: &RunTimeFix) -> Option<String> {
    let how = if has_a_free_cpu() {
        format!("try it with hpt doctor {} --try, which measures a thread that never blocks", fix.rule)
    } else {
        "a thread that never blocks would need another CPU for the rest of the system".to_owned()
    };
    affects_only_spinning(fix).then(|| format!("the measured thread blocks, so it cannot show the effect; {how}"))
}

/// Returns what the user has to confirm.
fn warning(options: &TrialOptions, fixes: &[&RunTimeFix], line: &str) -> String {
    let texts: Vec<&str> = fixes.iter().map(|fix| fix.text.as_str()).collect();
    let then = if options.keep { "keeps what helped until reboot" } else { "restores everything" };
    format!(
        "this changes system-wide settings in turn ({}), measures the effect with `{}` for up to {}, and then {then}.",
        texts.join(", "),
        line,
        humantime::format_duration(options.duration)
    )
}

/// Returns the document without results.
fn empty(options: &TrialOptions, wanted: &Wanted<'_>, context: &Context, line: &str) -> DoctorTryDocument {
    let host: &Host = &context.host;
    DoctorTryDocument {
        head: head_of("doctor-try", host),
        goal: wanted.goal,
        cpu: wanted.cpu,
        measurement: line.to_owned(),
        figure: options.figure.name(),
        duration_s: rounded(options.duration.as_secs_f64()),
        elapsed_s: 0.0,
        rounds: 0,
        interrupted: false,
        baseline_ns: None,
        baseline_spread_ns: None,
        result_ns: None,
        kept_until_reboot: false,
        results: Vec::new(),
        files: Vec::new(),
        notes: context.notes(),
    }
}

/// Explains a result without fixes that can be tried. Returns unknown if a fix may have been possible elsewhere, or if a
/// rule has no verdict.
fn without_fixes(data: &mut DoctorTryDocument, wanted: &Wanted<'_>) -> Answer {
    let unknown = wanted.examined.iter().filter_map(|one| match &one.verdict {
        Verdict::Unknown { why, is_unlikely: false, .. } => Some(format!("{}: {why}", one.rule.id)),
        _ => None,
    });
    let unknown: Vec<String> = unknown.collect();
    if data.results.is_empty() && unknown.is_empty() {
        data.notes.push("no problem was found that has a fix at run time; hpt doctor shows all checks".to_owned());
        return Answer::Yes;
    }
    if !data.results.is_empty() {
        data.notes.push(
            "none of the fixes can be applied here, for example because this is a container; run hpt on the host"
                .to_owned(),
        );
    }
    data.notes.extend(unknown);
    Answer::Unknown
}

fn row(fix: &RunTimeFix) -> TriedFix {
    let settings = match &fix.change {
        RunTimeChange::Settings(settings) => settings.as_slice(),
        _ => &[],
    };
    let setting = |setting: &hpt_realtime::knobs::Setting| TriedSetting {
        path: setting.knob().path().to_string_lossy().into_owned(),
        original_value: setting.knob().value().ok(),
        value: setting.value().to_owned(),
    };
    TriedFix {
        fix: fix.name.to_owned(),
        rule: fix.rule.to_owned(),
        text: fix.text.clone(),
        settings: settings.iter().map(setting).collect(),
        verdict: TryVerdict::Unknown,
        keep: false,
        off_ns: None,
        on_ns: None,
        p_value: None,
        off_rounds_ns: Vec::new(),
        on_rounds_ns: Vec::new(),
        on_top_of: Vec::new(),
        reason: None,
    }
}

fn not_possible(fix: &RunTimeFix, why: &str) -> TriedFix {
    TriedFix { verdict: TryVerdict::NotPossible, reason: Some(why.to_owned()), ..row(fix) }
}

/// Returns the rows with their results: first the fixes that are worth keeping, and then the others in their order.
fn rows(mut tried: Vec<TriedFix>, outcome: &Outcome) -> Vec<TriedFix> {
    let names: Vec<String> = tried.iter().map(|row| row.fix.clone()).collect();
    for (row, trial) in tried.iter_mut().zip(&outcome.trials) {
        row.verdict = trial.compared.verdict;
        row.keep = trial.is_kept;
        row.off_ns = median(&trial.off).map(rounded);
        row.on_ns = median(&trial.on).map(rounded);
        row.p_value = trial.compared.p_value;
        row.off_rounds_ns = trial.off.iter().copied().map(rounded).collect();
        row.on_rounds_ns = trial.on.iter().copied().map(rounded).collect();
        row.on_top_of = trial.on_top_of.iter().map(|&fix| names[fix].clone()).collect();
        row.reason.clone_from(&trial.reason);
    }
    let place = |name: &str| {
        let fix = names.iter().position(|other| other == name).unwrap_or(0);
        outcome.kept.iter().position(|&kept| kept == fix).unwrap_or(usize::MAX)
    };
    tried.sort_by_key(|row| place(&row.fix));
    tried
}

#[cfg(test)]
mod tests {
    use hpt_document::doctor_try::{TriedFix, TryVerdict};

    use super::{
        super::options::{TrialOptions, tests::options},
        Duration, is_undecided, long_enough,
    };

    #[test]
    fn a_result_is_unknown_only_if_a_verdict_is() {
        use TryVerdict::{Helpful, NotPossible, Unknown, WithinSpread, Worse};
        let of = |verdicts: &[TryVerdict]| {
            let rows = super::super::terminal::tests::example().results.into_iter().zip(verdicts);
            is_undecided(&rows.map(|(row, &verdict)| TriedFix { verdict, ..row }).collect::<Vec<_>>())
        };
        assert!(!of(&[WithinSpread, Worse, NotPossible]) && !of(&[Helpful, Unknown]) && !of(&[Helpful]));
        assert!(of(&[WithinSpread, Unknown]) && of(&[Unknown]));
    }

    #[test]
    fn a_time_limit_below_that_of_the_shortest_rounds_is_refused() {
        let refused = |seconds: u64, is_chosen: bool| {
            let options = TrialOptions { duration: Duration::from_secs(seconds), ..options(None) };
            long_enough(&options, is_chosen, 8).is_err()
        };
        assert!(refused(0, true) && refused(8, true) && !refused(10, true));
        // The line may be shorter than a second.
        assert!(!refused(1, false));
    }
}
