//! `hpt clocksource set`: changes the system-wide clocksource, and measures a clock before and after the change.

use clap::Args;
use hpt_document::clocksource_cost::{ClocksourceCostDocument, RefusedClocksource};
use hpt_instrument::measure::NotRunWatch;
use hpt_realtime::{
    Pinned,
    knobs::{Change, Journal, Knob, KnobError, KnownClockSource},
};

use super::costs::{GUESSED_READ, MeasuringArguments, disturbances, run_page, with_ratios};
use crate::{
    arguments::{Codes, after_help},
    consent::consent,
    context::Context,
    document_head::head_of,
    exit::{Failure, causes},
    kernel_clocksources::{ClockReadTiming, ClockReads, Sources, begin, did_not_stay, offered, sources},
    output::{Answer, Document, progress::Progress},
    sampling::cpu_absences::Parts,
};

pub(super) const SET_EXAMPLES: &str = "  \
  sudo hpt clocksource set hpet       switch after confirmation
  sudo hpt clocksource set tsc --yes  switch without confirmation (scripts)
  sudo hpt restore                    restore the previous clocksource";

/// Change the clocksource, and measure a clock before and after
///
/// Changes the system-wide clocksource until the next boot or `hpt restore`. Needs root, and asks for confirmation. The
/// kernel may refuse the change, so hpt checks afterwards which clocksource is active.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("the kernel did not accept the clocksource")), SET_EXAMPLES))]
pub(super) struct SetArguments {
    /// Kernel name of the clocksource
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    run: MeasuringArguments,
}

pub(super) fn warning(from: &str, to: &str) -> String {
    let known = KnownClockSource::named(to);
    let known = known
        .map(|known| format!("\nRead overhead of {to}: {}. Risk: {}.", known.cost, known.risk))
        .unwrap_or_default();
    format!(
        "this changes the system-wide clocksource from {from} to {to}; every clock read in every program then has the read overhead of {to}.{known}\n\
         CLOCK_MONOTONIC_RAW then runs at the rate of {to}, and the kernel reports the clock as unsynchronized until a time daemon updates it again.\n\
         The change lasts until the next boot or `hpt restore`."
    )
}

pub(super) fn set_one(arguments: &SetArguments, context: &Context) -> Result<Document, Failure> {
    let (name, run) = (&arguments.name, &arguments.run);
    let sources = sources(context)?;
    offered(context, &sources, name)?;
    let journal = context.journal(run.journal.as_deref())?;
    let knob = Knob::clock_source();
    let is_so = sources.current == *name;
    let change = begun(arguments, &sources, &journal, context)?;
    let pinned = context.pin(run.cpu)?;
    let cpu = pinned.as_ref().map(Pinned::cpu);
    let mut parts = Parts::of(cpu, context);
    let timing = ClockReadTiming::of(ClockReads { context, cpu, clocks: &["monotonic"], calls: run.count })?;
    let mut watch = NotRunWatch::of_spinning_thread(&context.host, cpu);
    let expected = GUESSED_READ.saturating_mul(u32::try_from(run.count).unwrap_or(u32::MAX));
    let progress = Progress::new(2 * run.count, expected);
    let mut results = Vec::new();
    timing.measure(&sources.current, &|done| progress.at(done), &mut results)?;
    let (mut refused, mut notes) = (None, context.notes());
    if let Some(change) = change.filter(|_| !is_so && !context.interrupted()) {
        match switch(change, name)? {
            Switched::Kept => {
                let before = results.len();
                timing.measure(name, &|done| progress.at(done), &mut results)?;
                let is = knob.value()?;
                if is != *name {
                    results.truncate(before);
                    refused = Some(did_not_stay(&is));
                }
            }
            Switched::Overridden { reason, note } => {
                refused = Some(reason);
                notes.extend(note);
            }
        }
    }
    let not_run = watch.read();
    drop(progress);
    parts.end("all of them");
    notes.extend(disturbances(&not_run, &results));
    notes.extend(parts.notes());
    notes.extend(is_so.then(|| format!("the clocksource is already {name}; nothing was changed")));
    let data = ClocksourceCostDocument {
        head: head_of("clocksource-set", &context.host),
        cpu,
        stopwatch: timing.stopwatch_name(),
        before: sources.current,
        after: knob.value().ok(),
        requested: vec![name.clone()],
        refused: refused.map(|reason| RefusedClocksource { clocksource: name.clone(), reason }).into_iter().collect(),
        journal: journal.path().to_string_lossy().into_owned(),
        interrupted: context.interrupted(),
        cpu_absences: parts.absences(),
        not_run,
        results: with_ratios(results),
        notes,
    };
    let answer =
        data.after.as_ref().map_or(Answer::Unknown, |after| if after == name { Answer::Yes } else { Answer::No });
    let blocks = run_page(&data);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

/// Begins the change after confirmation. Returns `None` if no change is needed or possible. Begin before measuring,
/// because the current value may not be the setting of the machine: another process may have set it temporarily, or a
/// killed process may have left it behind.
fn begun(
    arguments: &SetArguments,
    sources: &Sources,
    journal: &Journal,
    context: &Context,
) -> Result<Option<Change>, Failure> {
    let knob = Knob::clock_source();
    let may = knob.may_be_set();
    let is_possible = may.is_ok();
    if sources.current != arguments.name {
        may?;
        if !consent(&warning(&sources.current, &arguments.name), arguments.run.yes)? {
            return Err(Failure::NotMeant);
        }
    }
    context.signals.listen_until_the_end()?;
    is_possible.then(|| begin(&knob, journal, "hpt clocksource set", sources)).transpose()
}

/// The result of a change that the kernel accepted or overrode.
enum Switched {
    Kept,
    Overridden { reason: String, note: Option<String> },
}

fn switch(mut change: Change, name: &str) -> Result<Switched, Failure> {
    match change.set(name) {
        Ok(()) => {
            change.keep()?;
            Ok(Switched::Kept)
        }
        Err(error @ KnobError::Overridden { .. }) => {
            Ok(Switched::Overridden { reason: causes(&error), note: given_up(change.restore())? })
        }
        Err(error) => Err(error.into()),
    }
}

/// Converts the result of restoring the clocksource after the kernel overrode a request. If another process has changed
/// the clocksource in the meantime, hpt keeps that change, and returns a note instead of an error.
pub(super) fn given_up(restored: Result<(), KnobError>) -> Result<Option<String>, KnobError> {
    match restored {
        Ok(()) => Ok(None),
        Err(theirs @ KnobError::ChangedSince { .. }) => Ok(Some(causes(&theirs))),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use hpt_realtime::knobs::KnobError;

    use super::given_up;

    #[test]
    fn a_change_by_another_process_after_an_override_is_reported_and_not_an_error() {
        let path = || PathBuf::from("current_clocksource");
        let theirs = given_up(Err(KnobError::ChangedSince { path: path(), is: "acpi_pm".to_owned() }));
        let note = theirs.expect("it is not an error").expect("there is a note");
        assert!(note.contains("acpi_pm") && note.contains("that value is kept"), "{note}");
        assert!(matches!(given_up(Ok(())), Ok(None)));
        let refused =
            KnobError::Refused { path: path(), value: "tsc".to_owned(), cause: io::Error::from_raw_os_error(22) };
        assert!(matches!(given_up(Err(refused)), Err(KnobError::Refused { .. })));
    }
}
