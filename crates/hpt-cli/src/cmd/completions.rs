//! `hpt completions`: generates shell completion scripts.

use clap::{Args, builder::PossibleValuesParser};

use crate::{
    arguments::{Codes, after_help, without_documents},
    exit::Failure,
    output::{self, Answer},
    shell_completion,
};

const EXAMPLES: &str = "  \
  hpt completions bash > ~/.local/share/bash-completion/completions/hpt
  hpt completions zsh > ~/.zfunc/_hpt  needs `fpath+=~/.zfunc` before compinit
  hpt completions fish > ~/.config/fish/completions/hpt.fish";

/// Generate a shell completion script
///
/// The script completes subcommands, options, and the sources, CPUs, clocksources and GPIO lines of this machine. At
/// each completion, it queries the machine again. The Debian package installs the scripts for all three shells.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_documents()))]
pub(crate) struct CompletionsArguments {
    /// Name of the shell
    #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(shell_completion::SHELLS))]
    shell: String,
}

pub(crate) fn run(arguments: &CompletionsArguments) -> Result<Answer, Failure> {
    let script = shell_completion::script(&arguments.shell).map_err(Failure::Print)?;
    output::print_as_it_is(&script).map_err(Failure::Print)?;
    Ok(Answer::Yes)
}
