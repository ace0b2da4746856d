//! The subcommands, one file each.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod probe;
pub(crate) mod sleep;
