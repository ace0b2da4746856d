//! `hpt restore`: restores system-wide settings that hpt has changed.

use std::{
    fs,
    io::{self, ErrorKind},
    path::PathBuf,
};

use clap::Args;
use hpt_document::restore::{RestoreDocument, RestoreOutcome, RestoredSetting};
use hpt_instrument::trace::{self, LeftInstance};
use hpt_realtime::knobs::{Contents, KnobError, Outcome, Restored};

use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::head_of,
    exit::{Failure, causes},
    output::{Answer, Block, Cell, Document, Tone},
};

const EXAMPLES: &str = "  \
  hpt restore --list   list the settings that would be restored
  sudo hpt restore     restore them";

/// Restore the settings that hpt changed
///
/// hpt records each system setting in a journal before changing it. This command restores settings
/// that hpt left changed on purpose, such as a new clocksource, and settings that a killed hpt
/// process could not restore. It does not touch a setting that another program has changed in the
/// meantime. It also removes what a killed `hpt latency --explain` left in the kernel's trace. The journal is valid only for the current boot, because the settings do not survive a
/// reboot.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(Some("a setting was not restored, because another program changed it")), EXAMPLES), args(without_metrics()))]
pub(crate) struct RestoreArguments {
    /// List the recorded settings without restoring them
    #[arg(long)]
    list: bool,
    /// Directory of the journal [default: /run/hpt]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

pub(crate) fn run(arguments: &RestoreArguments, context: &Context) -> Result<Document, Failure> {
    let journal = context.journal(arguments.journal.as_deref())?;
    // The first change creates /run/hpt. A directory that the user specifies must already exist.
    let is_missing = || matches!(fs::metadata(journal.folder()), Err(error) if error.kind() == ErrorKind::NotFound);
    if arguments.journal.is_some() && is_missing() {
        return Err(Failure::NoJournalFolder(journal.folder().to_owned()));
    }
    let contents = journal.contents()?;
    let mut notes = context.notes();
    notes.extend(journal.written_on_another_processor()?.map(|processor| {
        format!("the journal belongs to this boot, but was written on another processor ({processor}): the machine has since been migrated, together with its settings")
    }));
    notes.extend(journal.elsewhere().iter().map(|folder| {
        format!(
            "the journal in {0} also lists changed settings; `hpt restore --journal {0}` restores them",
            folder.display()
        )
    }));
    let settings = match (&contents, arguments.list) {
        (Contents::Entries(entries), true) => {
            let row = |entry: &hpt_realtime::knobs::Entry| RestoredSetting {
                setting: entry.kind.clone(),
                path: entry.path.clone(),
                changed_by: entry.by.clone(),
                original_value: entry.before.clone(),
                changed_value: entry.set_to.last().cloned(),
                outcome: RestoreOutcome::Listed,
                reason: None,
            };
            entries.iter().map(row).collect()
        }
        (Contents::Nothing | Contents::OfAnotherBoot, true) => Vec::new(),
        (_, false) => journal.restore()?.into_iter().map(row).collect::<Vec<_>>(),
    };
    let settings = [settings, trace_instances(arguments.list)].concat();
    let data = RestoreDocument {
        head: head_of("restore", &context.host),
        journal: journal.path().to_string_lossy().into_owned(),
        from_other_boot: contents == Contents::OfAnotherBoot,
        settings,
        notes,
    };
    let blocks = page(&data);
    Ok(Document { answer: answer(&data.settings), ..Document::new(data, blocks) })
}

/// Removes the trace instances that killed runs with `--explain` left behind, or lists them. A process that cannot read
/// the kernel's trace cannot have left any.
fn trace_instances(only_list: bool) -> Vec<RestoredSetting> {
    let row = |instance: &LeftInstance, error: Option<&io::Error>| {
        let (outcome, reason) = match error {
            _ if only_list => (RestoreOutcome::Listed, None),
            None => (RestoreOutcome::Restored, None),
            Some(error) => (RestoreOutcome::Failed, Some(format!("cannot remove it: {error}"))),
        };
        RestoredSetting {
            setting: "trace-instance".to_owned(),
            path: format!("instances/{} in tracefs", instance.name),
            changed_by: format!("hpt (process {})", instance.process),
            original_value: "absent".to_owned(),
            changed_value: Some("present".to_owned()),
            outcome,
            reason,
        }
    };
    if only_list {
        return trace::left_instances().unwrap_or_default().iter().map(|instance| row(instance, None)).collect();
    }
    let removed = trace::remove_left_instances().unwrap_or_default();
    removed.iter().map(|removal| row(&removal.instance, removal.error.as_ref())).collect()
}

fn answer(rows: &[RestoredSetting]) -> Answer {
    let any = |outcome| rows.iter().any(|row| row.outcome == outcome);
    if any(RestoreOutcome::Failed) {
        Answer::Unknown
    } else if any(RestoreOutcome::ChangedSince) {
        Answer::No
    } else {
        Answer::Yes
    }
}

fn row(outcome: Outcome) -> RestoredSetting {
    let Outcome { kind, path, by, before, came, .. } = outcome;
    let (changed_value, outcome, reason) = match came {
        Restored::PutBack { from } => (Some(from), RestoreOutcome::Restored, None),
        Restored::WasBack => (None, RestoreOutcome::AlreadyRestored, None),
        Restored::ChangedSince { is } => {
            let reason = format!("not restored: the value is now {is}, which hpt did not set");
            (Some(is), RestoreOutcome::ChangedSince, Some(reason))
        }
        Restored::Failed(error) => (None, RestoreOutcome::Failed, Some(why(&error))),
    };
    RestoredSetting { setting: kind, path, changed_by: by, original_value: before, changed_value, outcome, reason }
}

fn why(error: &KnobError) -> String {
    causes(error)
}

fn page(data: &RestoreDocument) -> Vec<Block> {
    let mut blocks = Vec::new();
    if data.settings.is_empty() {
        let void = if data.from_other_boot {
            "the journal belongs to an earlier boot, whose settings no longer apply"
        } else {
            "the journal lists no changed settings"
        };
        blocks.push(Block::Text(format!("Nothing to restore: {void} ({}).", data.journal)));
    } else {
        let lines = data.settings.iter().map(|row| {
            let changed_value = row.changed_value.as_deref().unwrap_or("?");
            let (text, tone) = match row.outcome {
                RestoreOutcome::Restored => {
                    (format!("restored to {} (was {changed_value})", row.original_value), Tone::Good)
                }
                RestoreOutcome::AlreadyRestored => (format!("already {}", row.original_value), Tone::Good),
                RestoreOutcome::Listed => {
                    (format!("was {}, changed to {changed_value}", row.original_value), Tone::Plain)
                }
                RestoreOutcome::ChangedSince | RestoreOutcome::Failed => {
                    (row.reason.clone().unwrap_or_default(), Tone::Bad)
                }
            };
            let by = Cell::faint(format!("changed by {}", row.changed_by));
            vec![Cell::plain(row.setting.as_str()), Cell(text, tone), by]
        });
        let title = if data.settings.iter().any(|row| row.outcome == RestoreOutcome::Listed) {
            "Changed settings"
        } else {
            "Restored"
        };
        blocks.push(Block::Section(title.to_owned(), lines.collect()));
        blocks.push(Block::Text(format!("Journal: {}.", data.journal)));
    }
    blocks.extend(data.notes.iter().map(|note| Block::Text(format!("Note: {note}"))));
    blocks
}

#[cfg(test)]
mod tests {
    use hpt_document::restore::{RestoreDocument, RestoreOutcome, RestoredSetting};

    use super::{answer, page};
    use crate::{
        golden,
        output::{Answer, Document},
    };

    fn row(outcome: RestoreOutcome, reason: Option<&str>) -> RestoredSetting {
        RestoredSetting {
            setting: "clock-source".to_owned(),
            path: "/sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
            changed_by: "hpt clocksource compare".to_owned(),
            original_value: "tsc".to_owned(),
            changed_value: Some("acpi_pm".to_owned()),
            outcome,
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn a_restore_is_printed_exactly() {
        let data = RestoreDocument {
            head: golden::head("restore"),
            journal: "/run/hpt/journal".to_owned(),
            from_other_boot: false,
            settings: vec![
                row(RestoreOutcome::Restored, None),
                row(RestoreOutcome::AlreadyRestored, None),
                row(RestoreOutcome::Failed, Some("cannot read it")),
            ],
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data);
        golden::assert("restore", &Document::new(data, blocks));
    }

    #[test]
    fn a_failed_restore_is_unknown_and_a_setting_left_alone_is_a_negative_answer() {
        assert_eq!(answer(&[]), Answer::Yes);
        assert_eq!(
            answer(&[row(RestoreOutcome::Restored, None), row(RestoreOutcome::AlreadyRestored, None)]),
            Answer::Yes
        );
        assert_eq!(answer(&[row(RestoreOutcome::Restored, None), row(RestoreOutcome::ChangedSince, None)]), Answer::No);
        assert_eq!(
            answer(&[row(RestoreOutcome::ChangedSince, None), row(RestoreOutcome::Failed, None)]),
            Answer::Unknown
        );
    }
}
