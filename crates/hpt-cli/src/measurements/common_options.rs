//! The options that several measurements have in common, for a subcommand that sets them.

use std::{path::PathBuf, time::Duration};

use crate::{
    arguments::CpuChoice,
    sampling::{
        cpu_options::Cpus,
        explain::ExplainOptions,
        limits::quantity::{Accepted, Limit},
        load::LoadOptions,
        realtime_options::RealtimeOptions,
    },
};

/// The options that several measurements have in common. An option that a measurement does not have is `None`.
#[derive(Debug, Default)]
pub(crate) struct CommonOptions<'a> {
    /// The limits, and the quantities that can have one.
    pub(crate) limits: Option<(&'a mut Vec<Limit>, Accepted)>,
    /// The duration, if it can be chosen; `None` within it if the default applies.
    pub(crate) duration: Option<&'a mut Option<Duration>>,
    /// Whether the request states how long the measurement takes.
    pub(crate) has_length: bool,
    pub(crate) cpu: CpuOption<'a>,
    pub(crate) realtime: Option<&'a RealtimeOptions>,
    /// Whether the measuring thread never blocks.
    pub(crate) spins: bool,
    pub(crate) load: Option<&'a LoadOptions>,
    pub(crate) explain: Option<&'a mut ExplainOptions>,
    /// The system snapshot to examine.
    pub(crate) host: Option<&'a mut Option<PathBuf>>,
}

/// The option `--cpu`, which accepts more or fewer values.
#[derive(Debug, Default)]
pub(crate) enum CpuOption<'a> {
    #[default]
    Missing,
    /// A number.
    Number(&'a mut Option<usize>),
    /// A number, or `any`.
    One(&'a mut Option<CpuChoice>),
    /// Numbers, `all` or `any`.
    Several(&'a mut Option<Cpus>),
}
