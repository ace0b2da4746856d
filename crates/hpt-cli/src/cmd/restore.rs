//! `hpt restore`: restores system-wide settings that hpt changed.

use std::{fs, io::ErrorKind, path::PathBuf};

use clap::Args;
use hpt_core::knobs::{Contents, KnobError, Outcome, Restored};
use hpt_document::restore::{RestoreDocument, RestoreOutcome, RestoredSetting};

use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::head_of,
    exit::{Failure, causes},
    output::{Answer, Block, Cell, Document, Tone},
};

const EXAMPLES: &str = "  \
  hpt restore --list   say what would be put back
  sudo hpt restore     put it back";

/// Restore the settings that hpt changed
///
/// hpt writes a setting of the machine to a journal before it changes it. This command restores what a command was asked to leave changed, and what a killed command left behind. A setting that somebody else has changed since is left alone. The journal is valid for this boot, because the settings do not outlive it.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(Some("a setting was changed by somebody else since, and is left alone")), EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    /// List the journal; change nothing
    #[arg(long)]
    list: bool,
    /// Directory of the journal [default: /run/hpt]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let journal = context.journal(arguments.journal.as_deref())?;
    // /run/hpt is created by the first change; a directory given by the user must exist.
    let is_missing = || matches!(fs::metadata(journal.folder()), Err(error) if error.kind() == ErrorKind::NotFound);
    if arguments.journal.is_some() && is_missing() {
        return Err(Failure::NoJournalFolder(journal.folder().to_owned()));
    }
    let contents = journal.contents()?;
    let mut notes = context.notes();
    notes.extend(journal.written_on_another_processor()?.map(|processor| {
        format!("the journal is of this boot, and was written on processor {processor}, which this is not: the machine was moved since, and its settings with it")
    }));
    notes.extend(journal.elsewhere().iter().map(|folder| {
        format!(
            "settings are changed by the journal in {0} as well: `hpt restore --journal {0}` puts them back",
            folder.display()
        )
    }));
    let settings = match (&contents, arguments.list) {
        (Contents::Entries(entries), true) => {
            let row = |entry: &hpt_core::knobs::Entry| RestoredSetting {
                setting: entry.kind.clone(),
                path: entry.path.clone(),
                changed_by: entry.by.clone(),
                before: entry.before.clone(),
                left_at: entry.set_to.last().cloned(),
                outcome: RestoreOutcome::Listed,
                reason: None,
            };
            entries.iter().map(row).collect()
        }
        (Contents::Nothing | Contents::OfAnotherBoot, true) => Vec::new(),
        (_, false) => journal.restore()?.into_iter().map(row).collect(),
    };
    let data = RestoreDocument {
        head: head_of("restore", &context.host),
        journal: journal.path().to_string_lossy().into_owned(),
        of_another_boot: contents == Contents::OfAnotherBoot,
        settings,
        notes,
    };
    let blocks = page(&data);
    Ok(Document { answer: answer(&data.settings), ..Document::new(data, blocks) })
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
    let (left_at, outcome, reason) = match came {
        Restored::PutBack { from } => (Some(from), RestoreOutcome::PutBack, None),
        Restored::WasBack => (None, RestoreOutcome::WasBack, None),
        Restored::ChangedSince { is } => {
            let reason = format!("it is at {is} now, which hpt did not set: left alone");
            (Some(is), RestoreOutcome::ChangedSince, Some(reason))
        }
        Restored::Failed(error) => (None, RestoreOutcome::Failed, Some(why(&error))),
    };
    RestoredSetting { setting: kind, path, changed_by: by, before, left_at, outcome, reason }
}

fn why(error: &KnobError) -> String {
    causes(error)
}

fn page(data: &RestoreDocument) -> Vec<Block> {
    let mut blocks = Vec::new();
    if data.settings.is_empty() {
        let void = if data.of_another_boot {
            "the journal is of another boot, whose settings are gone"
        } else {
            "no setting is changed by this journal"
        };
        blocks.push(Block::Text(format!("Nothing to restore: {void} ({}).", data.journal)));
    } else {
        let lines = data.settings.iter().map(|row| {
            let left_at = row.left_at.as_deref().unwrap_or("?");
            let (text, tone) = match row.outcome {
                RestoreOutcome::PutBack => (format!("put back to {} from {left_at}", row.before), Tone::Good),
                RestoreOutcome::WasBack => (format!("is at {} already", row.before), Tone::Good),
                RestoreOutcome::Listed => (format!("was {}, set to {left_at}", row.before), Tone::Plain),
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
        blocks.push(Block::Text(format!("By the journal {}.", data.journal)));
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
            before: "tsc".to_owned(),
            left_at: Some("acpi_pm".to_owned()),
            outcome,
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn what_was_restored_is_printed_to_the_letter() {
        let data = RestoreDocument {
            head: golden::head("restore"),
            journal: "/run/hpt/journal".to_owned(),
            of_another_boot: false,
            settings: vec![
                row(RestoreOutcome::PutBack, None),
                row(RestoreOutcome::WasBack, None),
                row(RestoreOutcome::Failed, Some("cannot read it")),
            ],
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data);
        golden::assert("restore", &Document::new(data, blocks));
    }

    #[test]
    fn what_failed_is_not_known_and_what_was_left_alone_is_no() {
        assert_eq!(answer(&[]), Answer::Yes);
        assert_eq!(answer(&[row(RestoreOutcome::PutBack, None), row(RestoreOutcome::WasBack, None)]), Answer::Yes);
        assert_eq!(answer(&[row(RestoreOutcome::PutBack, None), row(RestoreOutcome::ChangedSince, None)]), Answer::No);
        assert_eq!(
            answer(&[row(RestoreOutcome::ChangedSince, None), row(RestoreOutcome::Failed, None)]),
            Answer::Unknown
        );
    }
}
