//! The subcommands, each in its own file or directory.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod clocksource;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod latency;
pub(crate) mod manual;
pub(crate) mod overview;
pub(crate) mod probe;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sleep;
pub(crate) mod watch;
