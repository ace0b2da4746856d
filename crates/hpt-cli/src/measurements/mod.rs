//! Measurements: each turns a request into a document. The command line states the request, or another process, or a
//! subcommand that makes several measurements. Nothing here depends on a subcommand.

pub(crate) mod bench;
mod child;
mod common_options;
pub(crate) mod doctor;
pub(crate) mod experiment;
pub(crate) mod latency;
mod measurement;
pub(crate) mod probe;
mod request;
pub(crate) mod sleep;
pub(crate) mod watch;

pub(crate) use self::{
    child::{answer, command, is_asked, send},
    measurement::Measurement,
    request::Request,
};
