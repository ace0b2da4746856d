//! `hpt clocksource`: the active clocksource, the alternatives, and their read overhead.

mod compare;
mod costs;
mod list;
mod set;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use self::{
    compare::{ClocksourceCompareArguments, compare_all},
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
  hpt clocksource                    the clocksource in use, and alternatives
  hpt clocksource --boot-parameters  also list boot parameters that may help
  sudo hpt clocksource compare       measure clock reads under each clocksource
  sudo hpt clocksource set hpet      switch to hpet until `hpt restore`";

/// Show, change or compare the kernel's clocksource
///
/// States whether the active clocksource is the best one, and lists the available clocksources, those that the kernel
/// dropped (with the reason from the kernel log), and the boot parameters that are set and affect clocksources. With
/// -v, also the risks of each clocksource.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::of(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct ClocksourceArguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// Read the system snapshot in FILE (see hpt capture)
    #[arg(long, value_name = "FILE")]
    host: Option<PathBuf>,
    /// Also list the boot parameters that affect clocksources
    #[arg(long)]
    boot_parameters: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    Set(SetArguments),
    Compare(ClocksourceCompareArguments),
}

pub(crate) fn run(arguments: &ClocksourceArguments, context: &Context) -> Result<Document, Failure> {
    match (&arguments.action, &arguments.host) {
        (Some(_), Some(_)) => {
            Err(Failure::Usage("--host reads a system snapshot, in which nothing can be set or measured"))
        }
        (Some(_), None) if arguments.boot_parameters => {
            Err(Failure::Usage("--boot-parameters applies only to the list: hpt clocksource --boot-parameters"))
        }
        (None, file) => {
            let captured = file.as_deref().map(Context::captured).transpose()?;
            Ok(list(captured.as_ref().unwrap_or(&context.host), arguments.boot_parameters, context.notes()))
        }
        (Some(Action::Set(set)), None) => set_one(set, context),
        (Some(Action::Compare(compare)), None) => compare_all(compare, context),
    }
}
