//! `hpt capture`: saves a system snapshot to one file. The snapshot contains everything that hpt reads on this machine.
//! Snapshots are used for bug reports, tests, and diagnosis on other machines. `Context::captured` opens a snapshot.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use clap::Args;
use hpt_core::{PosixClock, PosixId, TimeSource as _, source::ReadPath};
use hpt_document::{
    SCHEMA,
    capture::{CaptureDocument, CapturedFile},
};
use hpt_sys::host::{Capture, Entry, ReadRefused};

use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    document_head::{head_of, machine_line},
    exit::Failure,
    output::{self, Answer, Block, Cell, Document, Format, files::Unfinished, message},
};

const EXAMPLES: &str = "  \
  hpt capture my-machine.capture          save a snapshot to review and send
  sudo hpt capture my-machine.capture     include files that only root may read
  hpt capture - | less                    review the snapshot without saving it
  hpt doctor --host my-machine.capture    diagnose it on any other machine";

/// The file name that stands for standard output.
const STANDARD_OUTPUT: &str = "-";

const NOTE: &str = "The snapshot contains no serial number, boot ID, host name, address or user name. The only programs that it lists are time \
                    daemons. From the kernel log and the kernel command line, the snapshot contains only the parts that concern time and latency. Review the snapshot before you send it.";

/// Save a snapshot of this system to a file
///
/// The snapshot is a text file that contains everything that hpt reads on this system. Other hpt commands can read the
/// snapshot with --host, on any machine. The snapshot contains no serial number, boot ID, host name, address or user
/// name, and the only programs that it lists are time daemons. Review the snapshot before you send it.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct CaptureArguments {
    /// File to write, or - for standard output
    ///
    /// A new file is readable only by its owner.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace FILE if it exists and is not empty
    #[arg(long)]
    force: bool,
}

impl CaptureArguments {
    /// Returns whether hpt prints the snapshot itself instead of a document about it.
    pub(crate) fn is_printed(&self) -> bool {
        self.file.as_os_str() == STANDARD_OUTPUT
    }
}

/// Prints the snapshot.
pub(crate) fn print(context: &Context) -> Result<Answer, Failure> {
    if context.format != Format::Human {
        return Err(Failure::Usage("- prints the snapshot itself; omit --format, or specify a file"));
    }
    let (capture, _) = taken(context)?;
    output::print_as_it_is(capture.to_string().as_bytes()).map_err(Failure::Print)?;
    message::note(NOTE);
    Ok(Answer::Yes)
}

/// Writes the snapshot to a file, and returns a document that lists the captured files.
pub(crate) fn run(arguments: &CaptureArguments, context: &Context) -> Result<Document, Failure> {
    let path = &arguments.file;
    let failed = |cause| Failure::NothingWritten { path: path.clone(), cause };
    let replaces = may_replace(path, arguments.force)?;
    // Create the file first, so that hpt reads nothing if it cannot write the file.
    let mut file = Unfinished::next_to(path).map_err(failed)?;
    let (capture, files) = taken(context)?;
    file.fill_for_the_owner(capture.to_string().as_bytes()).and_then(|()| file.put(replaces)).map_err(failed)?;
    let lines = files.iter().map(|file| {
        let word = match capture.get(file.path.trim_start_matches('/')) {
            Some(Entry::File(_)) => Cell::plain("captured"),
            Some(Entry::Unreadable(ReadRefused::PermissionDenied)) => Cell::faint("no permission"),
            Some(Entry::Unreadable(_)) => Cell::faint("cannot be read"),
            _ => Cell::faint("does not exist"),
        };
        vec![Cell::plain(file.path.as_str()), word]
    });
    let blocks =
        vec![Block::Section(format!("Captured to {}", path.display()), lines.collect()), Block::Text(NOTE.to_owned())];
    let data = CaptureDocument {
        schema: SCHEMA,
        kind: "capture".to_owned(),
        file: path.to_string_lossy().into_owned(),
        files,
    };
    Ok(Document::new(data, blocks))
}

/// Returns a snapshot of this machine and a list of all files that hpt tries to read. Fails if none can be read, because
/// every verdict on such a snapshot would be unknown.
fn taken(context: &Context) -> Result<(Capture, Vec<CapturedFile>), Failure> {
    let captured = context.host.capture();
    if captured.copied.is_empty() {
        return Err(Failure::NothingCaptured);
    }
    let mut capture = captured.capture;
    let mut facts = context.host.facts_to_capture();
    let clock = PosixClock::open(&context.host, PosixId::Monotonic);
    facts.reads_by_vdso = clock.ok().map(|clock| clock.info().read_path == ReadPath::Vdso);
    capture.set_facts(serde_json::to_string_pretty(&facts).expect("facts are numbers and names") + "\n");
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let (date, _) = now.split_at("2000-01-01".len());
    let head = head_of("capture", &context.host);
    capture.set_about(format!("Captured {date} by hpt {}: {}.\n", head.hpt, machine_line(&head.machine)));
    let copied = captured.copied.into_iter().map(|path| CapturedFile { path, captured: true });
    let missing = captured.missing.into_iter().map(|path| CapturedFile { path, captured: false });
    Ok((capture, copied.chain(missing).collect()))
}

/// Returns whether the snapshot replaces an existing file. An empty file counts as missing, because
/// `mktemp` creates an empty file.
fn may_replace(path: &Path, force: bool) -> Result<bool, Failure> {
    let failed = |cause| Err(Failure::NothingWritten { path: path.to_owned(), cause });
    match fs::symlink_metadata(path) {
        Ok(what) if what.is_dir() => failed(io::ErrorKind::IsADirectory.into()),
        // A device must not be replaced. A symbolic link to a device may be replaced, because the device stays.
        Ok(what) if !what.is_file() && !what.is_symlink() => {
            failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; use - to print the snapshot"))
        }
        Ok(what) if force || what.is_file() && what.len() == 0 => Ok(true),
        Ok(_) => Err(Failure::CapturedAlready(path.to_owned())),
        Err(_) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => failed(io::ErrorKind::IsADirectory.into()),
        Err(_) => Ok(false),
    }
}
