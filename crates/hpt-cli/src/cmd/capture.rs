//! `hpt capture`: saves what hpt reads of this machine to one file, for reports, for tests, and to be explained
//! elsewhere. Opens no captured machine; `Context::captured` does.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args;
use hpt_core::host::{Capture, Entry, ReadRefused};
use hpt_document::capture::{CaptureDocument, CapturedFile};

use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::{head_of, machine_line},
    exit::Failure,
    output::{self, Answer, Block, Cell, Document, Format, files::Unfinished, message},
};

const EXAMPLES: &str = "  \
  hpt capture my-machine.capture          then look through it, and send it
  sudo hpt capture my-machine.capture     with what only root may read
  hpt capture - | less                    look at it first
  hpt doctor --host my-machine.capture    on any other machine";

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

const NOTE: &str = "No serial number, boot identity, host name, address or user's name is in it, and of other programs nothing but which keep time; of the \
                    kernel's log and command line, what bears on time and latency. Look through it before you send it.";

/// Save what hpt reads of this machine to a file
///
/// The file is text that you can read. Other hpt commands read it with --host, on any machine. It holds no serial number, boot identity, host name, address or user name, and of other programs only those that keep time. Look through it before you send it.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    /// File to write; - prints it
    ///
    /// A new file can be read by you alone.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace FILE if it exists and is not empty
    #[arg(long)]
    force: bool,
}

impl Arguments {
    /// Returns whether the capture itself is printed instead of a document about it.
    pub(crate) fn is_printed(&self) -> bool {
        self.file.as_os_str() == STANDARD_OUTPUT
    }
}

/// Prints the capture.
pub(crate) fn print(context: &Context) -> Result<Answer, Failure> {
    if context.format != Format::Human {
        return Err(Failure::Usage("- prints the capture as it is: leave out --format, or name a file"));
    }
    let (capture, _) = taken(context);
    output::print_as_it_is(capture.to_string().as_bytes()).map_err(Failure::Print)?;
    message::note(NOTE);
    Ok(Answer::Yes)
}

/// Writes the capture to a file, and returns its content.
pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    let path = &arguments.file;
    let failed = |cause| Failure::NothingWritten { path: path.clone(), cause };
    let replaces = may_replace(path, arguments.force)?;
    // Before the machine is examined.
    let mut file = Unfinished::beside(path).map_err(failed)?;
    let (capture, files) = taken(context);
    file.fill_for_the_owner(capture.to_string().as_bytes()).and_then(|()| file.put(replaces)).map_err(failed)?;
    let lines = files.iter().map(|file| {
        let word = match capture.get(file.path.trim_start_matches('/')) {
            Some(Entry::File(_)) => Cell::plain("captured"),
            Some(Entry::Unreadable(ReadRefused::PermissionDenied)) => Cell::faint("takes more rights"),
            Some(Entry::Unreadable(_)) => Cell::faint("cannot be read"),
            _ => Cell::faint("not on this machine"),
        };
        vec![Cell::plain(file.path.as_str()), word]
    });
    let blocks = vec![
        Block::Section(format!("Captured into {}", path.display()), lines.collect()),
        Block::Text(NOTE.to_owned()),
    ];
    let data =
        CaptureDocument { schema: 1, kind: "capture".to_owned(), file: path.to_string_lossy().into_owned(), files };
    Ok(Document::new(data, blocks))
}

/// Returns the capture of this machine, and every file that hpt looks for.
fn taken(context: &Context) -> (Capture, Vec<CapturedFile>) {
    let captured = context.host.capture();
    let mut capture = captured.capture;
    let facts = context.host.facts_to_capture();
    capture.set_facts(serde_json::to_string_pretty(&facts).expect("facts are numbers and names") + "\n");
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let (date, _) = now.split_at("2000-01-01".len());
    let head = head_of("capture", &context.host);
    capture.set_about(format!("Captured {date} by hpt {}: {}.\n", head.hpt, machine_line(&head.machine)));
    let copied = captured.copied.into_iter().map(|path| CapturedFile { path, captured: true });
    let missing = captured.missing.into_iter().map(|path| CapturedFile { path, captured: false });
    (capture, copied.chain(missing).collect())
}

/// Returns whether the capture may replace a file. An empty one counts as none: `mktemp` creates one.
fn may_replace(path: &Path, force: bool) -> Result<bool, Failure> {
    let failed = |cause| Err(Failure::NothingWritten { path: path.to_owned(), cause });
    match fs::symlink_metadata(path) {
        Ok(what) if what.is_dir() => failed(io::ErrorKind::IsADirectory.into()),
        // A device would be replaced, and a link may lead to one.
        Ok(what) if !what.is_file() && !what.is_symlink() => {
            failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; - prints the capture"))
        }
        Ok(what) if force || what.is_file() && what.len() == 0 => Ok(true),
        Ok(_) => Err(Failure::CapturedAlready(path.to_owned())),
        Err(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => failed(io::ErrorKind::IsADirectory.into()),
        Err(_) => Ok(false),
    }
}
