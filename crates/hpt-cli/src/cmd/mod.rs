//! The subcommands that are no measurement, each in its own file or directory.

pub(crate) mod calibrate;
pub(crate) mod capture;
pub(crate) mod check;
pub(crate) mod clocksource;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod manual;
pub(crate) mod overview;
pub(crate) mod read;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod run;
pub(crate) mod schema;
