//! The subcommands, one file each.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod clocksource;
pub(crate) mod latency;
pub(crate) mod probe;
pub(crate) mod restore;
pub(crate) mod sleep;
pub(crate) mod watch;
