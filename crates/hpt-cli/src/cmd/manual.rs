//! `hpt manual`: writes the manual pages, one for each command, with the content of `--help`.

use std::{io, path::PathBuf};

use clap::{Arg, Args, Command};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    arguments::{Codes, after_help, without_documents},
    exit::Failure,
    output::{
        Answer,
        files::{self, WriteError},
    },
};

/// The width of a synopsis, without the indentation that man adds.
const SYNOPSIS_WIDTH: usize = 72;

const ENVIRONMENT: &str = "\
NO_COLOR         disables colors, unless --color enables them (no-color.org)
CLICOLOR_FORCE   enables colors even if the output is a pipe or a file
XDG_STATE_HOME   names the directory in which hpt/ contains saved results";

const EXAMPLES: &str = "  \
  hpt manual ~/.local/share/man/man1  then run `man hpt-latency-timer`";

/// Write the manual pages to a directory
///
/// Writes one page for hpt and one for each subcommand, with the content of --help. The Debian package installs these
/// pages.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_documents()))]
pub(crate) struct ManualArguments {
    /// Output directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes the manual pages. `hpt` is the definition of the whole command line.
pub(crate) fn run(arguments: &ManualArguments, hpt: Command) -> Result<Answer, Failure> {
    let failed = |cause| Failure::Write(WriteError { path: arguments.folder.clone(), cause });
    files::create_folders(&arguments.folder).map_err(failed)?;
    // `hpt help` has no page, because it prints the content of the pages.
    let mut command = hpt.disable_help_subcommand(true);
    command.build();
    for (name, page) in pages(&command) {
        let path = arguments.folder.join(format!("{name}.1"));
        files::replace(&path, &page).map_err(|cause| Failure::Write(WriteError { path, cause }))?;
    }
    Ok(Answer::Yes)
}

/// Returns the pages of a command and its subcommands, each with its name.
fn pages(command: &Command) -> Vec<(String, Vec<u8>)> {
    let own = (name(command), page(command).expect("writing to memory does not fail"));
    [own].into_iter().chain(command.get_subcommands().flat_map(pages)).collect()
}

fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let title = name(command);
    // clap_mangen prints the long text only. An option without one is described by its short text.
    let described = command.clone().mut_args(|argument| match (argument.get_long_help(), argument.get_help()) {
        (None, Some(short)) => {
            let short = short.clone();
            argument.long_help(short)
        }
        _ => argument,
    });
    let man =
        Man::new(described).title(title.as_str()).source(concat!("hpt ", env!("CARGO_PKG_VERSION"))).manual("hpt");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    section("SYNOPSIS", &synopsis(command), &mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or_else(|| command.get_after_help());
    let after = after.map(ToString::to_string).unwrap_or_default();
    let (codes, examples) = after.split_once("Examples:\n").unwrap_or((&after, ""));
    let codes = codes.trim_start_matches("Exit codes:\n").trim_end();
    section("EXIT STATUS", codes, &mut page)?;
    section("FILES", &files_of(command), &mut page)?;
    section("ENVIRONMENT", ENVIRONMENT, &mut page)?;
    section("EXAMPLES", examples, &mut page)?;
    section("SEE ALSO", &see_also(&title), &mut page)?;
    Ok(page)
}

/// Formats a section of preformatted lines with columns. Adds nothing if the text is empty.
fn section(heading: &str, text: &str, page: &mut Vec<u8>) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut roff = Roff::default();
    roff.control("SH", [heading]).control("nf", []);
    text.lines().for_each(|line| {
        roff.text([roman(line)]);
    });
    roff.control("fi", []);
    roff.to_writer(page)
}

/// Formats the synopsis: the options with their values, and the arguments.
fn synopsis(command: &Command) -> String {
    let words = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let indent = " ".repeat(words.len() + 1);
    let mut lines = vec![words];
    let options = command.get_opts().chain(command.get_arguments().filter(|one| !one.is_positional()));
    let mut seen = Vec::new();
    for option in options.filter(|option| !option.is_hide_set()) {
        if seen.contains(&option.get_id()) {
            continue;
        }
        seen.push(option.get_id());
        add(&mut lines, &indent, &option_in_synopsis(option));
    }
    for argument in command.get_positionals() {
        let name = argument.get_value_names().and_then(|names| names.first()).map_or("ARGUMENT", |name| name.as_str());
        let many = if argument.get_num_args().is_some_and(|number| number.max_values() > 1) { "..." } else { "" };
        let text = if argument.is_required_set() { format!("{name}{many}") } else { format!("[{name}]{many}") };
        add(&mut lines, &indent, &text);
    }
    if command.has_subcommands() {
        let text = if command.is_subcommand_required_set() { "COMMAND" } else { "[COMMAND]" };
        add(&mut lines, &indent, text);
    }
    lines.join("\n")
}

/// Formats an option with its short form and its values.
fn option_in_synopsis(option: &Arg) -> String {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    let mut text = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
    if option.get_action().takes_values() {
        for name in option.get_value_names().unwrap_or_default() {
            text.push_str(&format!(" {name}"));
        }
    }
    if option.is_required_set() { text } else { format!("[{text}]") }
}

/// Adds a word to the last line, or to a new line if the last line is full.
fn add(lines: &mut Vec<String>, indent: &str, word: &str) {
    let last = lines.last_mut().expect("there is a first line");
    if last.len() + 1 + word.len() > SYNOPSIS_WIDTH {
        lines.push(format!("{indent}{word}"));
    } else {
        last.push_str(&format!(" {word}"));
    }
}

/// Lists the files that the options of a command use.
fn files_of(command: &Command) -> String {
    let has = |id: &str| command.get_arguments().any(|argument| argument.get_id() == id);
    let is_whole = command.get_name() == "hpt";
    let lines = [
        (is_whole || has("journal"), "/run/hpt                            change journal (--journal)"),
        (is_whole || has("state_dir"), "$XDG_STATE_HOME/hpt                 saved results (--state-dir)"),
        (is_whole || has("state_dir"), "~/.local/state/hpt                  saved results without XDG_STATE_HOME"),
        (is_whole || has("dma_latency"), "/dev/cpu_dma_latency                kept open by --dma-latency"),
    ];
    lines.into_iter().filter(|(is_meant, _)| *is_meant).map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// Lists the page of the parent command, and the pages of related programs from other projects.
fn see_also(title: &str) -> String {
    let whole = title.rsplit_once('-').map(|(whole, _)| format!("{whole}(1)"));
    let others: &[&str] = match title {
        "hpt" => &["hpt-doctor(1)", "hpt-latency(1)", "hpt-report(1)", "cyclictest(8)", "rtla(1)", "hyperfine(1)"],
        "hpt-latency-timer" | "hpt-latency-poll" => &["cyclictest(8)", "rtla-timerlat(1)", "sched(7)", "time(7)"],
        "hpt-latency-stall" => &["rtla-osnoise(1)", "rtla-hwnoise(1)", "sched(7)"],
        "hpt-latency-gpio" => &["gpioset(1)", "gpiomon(1)"],
        "hpt-run" => &["chrt(1)", "taskset(1)", "tuna(8)", "sched(7)"],
        "hpt-watch" | "hpt-calibrate" => &["adjtimex(8)", "chronyc(1)", "clock_gettime(2)"],
        "hpt-bench" | "hpt-probe" | "hpt-latency-pairs" => &["clock_gettime(2)", "vdso(7)", "perf-stat(1)"],
        "hpt-sleep" => &["clock_nanosleep(2)", "prctl(2)"],
        _ => &[],
    };
    whole.iter().map(String::as_str).chain(others.iter().copied()).collect::<Vec<_>>().join(", ")
}
