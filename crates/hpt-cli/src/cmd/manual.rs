//! `hpt manual`: the manual's pages, one for each subcommand, of what `--help` says.

use std::{fs, io, path::PathBuf};

use clap::{Args, Command};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    arguments::{after_help, without_documents},
    exit::Failure,
    output::{Answer, files::WriteError},
};

const EXAMPLES: &str = "  \
  hpt manual ~/.local/share/man/man1    then `man hpt`, `man hpt-latency-timer`";

/// Write the manual's pages into a folder
///
/// A page for hpt and one for each of its subcommands, of the same words that `--help` has. Debian's package brings them.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES), args(without_documents()))]
pub(crate) struct Arguments {
    /// The folder; made where there is none
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the pages of `hpt`, which is the definition of the whole command line.
pub(crate) fn run(arguments: &Arguments, hpt: Command) -> Result<Answer, Failure> {
    let failed = |cause| Failure::Write(WriteError { path: arguments.folder.clone(), cause });
    fs::create_dir_all(&arguments.folder).map_err(failed)?;
    // No page for `hpt help`: it prints what the pages say.
    let mut command = hpt.disable_help_subcommand(true);
    command.build();
    for (name, page) in pages(&command) {
        let path = arguments.folder.join(format!("{name}.1"));
        fs::write(&path, page).map_err(|cause| Failure::Write(WriteError { path, cause }))?;
    }
    Ok(Answer::Yes)
}

/// The page of a command and those of its subcommands, each with its name.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let own = (name(command), page(command).expect("memory is written to"));
    [own].into_iter().chain(command.get_subcommands().flat_map(pages)).collect()
}

fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let title = name(command);
    let man = Man::new(command.clone())
        .title(title.as_str())
        .source(concat!("hpt ", env!("CARGO_PKG_VERSION")))
        .manual("hpt");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (codes, examples) = after.split_once("Examples:\n").unwrap_or((&after, ""));
    let codes = codes.trim_start_matches("Exit codes:\n").trim_end();
    let sections =
        [("EXIT STATUS", codes.to_owned()), ("EXAMPLES", examples.to_owned()), ("SEE ALSO", see_also(&title))];
    for (heading, text) in sections.iter().filter(|(_, text)| !text.is_empty()) {
        // Lines as they are: they have columns.
        let mut roff = Roff::default();
        roff.control("SH", [*heading]).control("nf", []);
        text.lines().for_each(|line| {
            roff.text([roman(line)]);
        });
        roff.control("fi", []);
        roff.to_writer(&mut page)?;
    }
    Ok(page)
}

/// The page of what it is part of.
fn see_also(title: &str) -> String {
    title.rsplit_once('-').map(|(whole, _)| format!("{whole}(1)")).unwrap_or_default()
}
