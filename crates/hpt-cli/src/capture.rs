//! The files that hpt reads on this machine, copied to a directory: for a report, for a test, to be
//! explained elsewhere.
//! Looks at no captured machine: `Context::captured` opens one.

use std::{fs, io::Write, path::Path};

use serde::Serialize;

use crate::{
    context::{Context, FACTS},
    exit::Failure,
    output::{Block, Cell, Document},
};

#[derive(Debug, Serialize)]
struct Data {
    schema: u32,
    kind: &'static str,
    folder: String,
    files: Vec<File>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    captured: bool,
}

/// Writes what hpt reads of this machine below `folder`, which is new or empty: files of another machine would be taken for this one's.
pub(crate) fn capture(folder: &Path, context: &Context) -> Result<Document, Failure> {
    if fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()) {
        return Err(Failure::CaptureIntoUsedFolder(folder.to_owned()));
    }
    let captured = context.host.capture(folder)?;
    let facts = serde_json::to_string_pretty(&context.host.facts_of(&captured)).expect("facts are numbers and names");
    let path = folder.join(FACTS);
    // A link that another user put there meanwhile is not followed.
    let written = fs::File::create_new(&path).and_then(|mut file| file.write_all((facts + "\n").as_bytes()));
    written.map_err(|cause| Failure::Write { path, cause })?;
    let copied = captured.copied.into_iter().map(|path| File { path, captured: true });
    let missing = captured.missing.into_iter().map(|path| File { path, captured: false });
    let data = Data {
        schema: 1,
        kind: "capture",
        folder: folder.to_string_lossy().into_owned(),
        files: copied.chain(missing).collect(),
    };
    let lines = data.files.iter().map(|file| {
        let word = match (file.captured, captured.refused.contains(&file.path)) {
            (true, _) => Cell::plain("captured"),
            (false, true) => Cell::faint("takes more rights"),
            (false, false) => Cell::faint("not on this machine"),
        };
        vec![Cell::plain(file.path.as_str()), word]
    });
    let title = format!("Captured into {}", folder.display());
    let blocks = vec![
        Block::Section(title, lines.collect()),
        Block::Text(
            "No serial number, boot identity, host name, address or user's name is in it, and of other programs nothing but which keep time; of the \
             kernel's log and command line, what bears on time and latency. Look through it before you send it."
                .to_owned(),
        ),
    ];
    Ok(Document::new(&data, "files", blocks))
}
