//! Runs that take samples for seconds or days: their threads, their options, and the files that they write. This
//! module measures nothing itself, and is independent of subcommands.

pub(crate) mod bins;
pub(crate) mod conditions;
pub(crate) mod cpu_absences;
pub(crate) mod cpu_options;
pub(crate) mod explain;
pub(crate) mod finished;
pub(crate) mod gpio_pulse;
pub(crate) mod heat_map;
pub(crate) mod histogram;
pub(crate) mod late_deadlines;
pub(crate) mod latency_figures;
pub(crate) mod limits;
pub(crate) mod live_lines;
pub(crate) mod load;
pub(crate) mod not_run;
pub(crate) mod observers;
pub(crate) mod raw_samples;
pub(crate) mod realtime_options;
pub(crate) mod realtime_settings;
pub(crate) mod result_files;
pub(crate) mod run;
pub(crate) mod run_length;
pub(crate) mod run_state;
pub(crate) mod thread_group;
pub(crate) mod time_series;
mod trace_marker;
pub(crate) mod warm_up;
