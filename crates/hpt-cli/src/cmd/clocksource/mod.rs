//! `hpt clocksource`: the active clocksource, the alternatives, and their read overhead.

mod compare;
mod costs;
mod list;
mod set;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::{
    compare::{CompareArguments, compare_all},
    list::list,
    set::{SetArguments, set_one},
};
use crate::{
    arguments::{Codes, after_help, without_metrics},
    context::Context,
    exit::Failure,
    output::Document,
};

const EXAMPLES: &str = "  \
  hpt clocksource                    what there is, and why something is missing
  sudo hpt clocksource compare       what clocks cost under each, and back again
  sudo hpt clocksource set hpet      another one, until hpt restore";

/// Show, change or compare the kernel's clocksource
///
/// Lists each clocksource with its cost and its risk, those that the kernel dropped with the reason in its log, and the boot parameters that matter.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Explain the captured machine in FILE (see hpt capture)
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Set(SetArguments),
    Compare(CompareArguments),
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    match (&arguments.action, &arguments.host) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("--host explains a captured machine: nothing of it can be set or measured"))
        }
        (None, file) => {
            let captured = file.as_deref().map(Context::captured).transpose()?;
            Ok(list(captured.as_ref().unwrap_or(&context.host), context.notes()))
        }
        (Some(Action::Set(set)), None) => set_one(set, context),
        (Some(Action::Compare(compare)), None) => compare_all(compare, context),
    }
}
