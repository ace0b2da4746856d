//! The option `--explain`: the causes of late samples, from the kernel's trace. Its parts are in separate files.

mod document;
mod fix;
mod options;
pub(crate) mod terminal;

pub(crate) use self::fix::MeasuredThread;
pub(crate) use self::options::{Awaited, ExplainOptions, Explaining, Feed, SLEEP_HELP, STALL_HELP};
