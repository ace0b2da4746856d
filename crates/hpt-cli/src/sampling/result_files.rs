//! Options of all runs that take samples: the files for the result, and the limit that ends a run.

use serde::{Deserialize, Serialize};
use std::{
    env,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use clap::{Args, ValueHint};

use super::{
    raw_samples::{Raw, RawSample, distinct},
    run_length::long,
    run_state::RunState,
};
use crate::{
    context::Context,
    exit::{Failure, causes},
    output::{
        Block, OUTPUT,
        latency_files::{LatencyFile, RunDescription, ThreadLatencies, latency_file},
        metrics::gauge::Gauge,
        saturating_nanos,
    },
};
use hpt_document::head::Head;

/// Returns the text for a run that `--stop-above` ended. `what` describes the first sample above the limit, without its
/// time.
pub(crate) fn ended_by(stopped_at_ns: Option<u64>, what: &str) -> Option<Block> {
    stopped_at_ns.map(|ns| Block::Text(format!("Stopped by --stop-above: {what} at {ns} ns (CLOCK_MONOTONIC).")))
}

#[derive(Debug, Args, Serialize, Deserialize)]
pub(crate) struct ResultOptions {
    /// Stop at the first sample above TIME (exit code 1)
    ///
    /// Writes a mark to the kernel's trace, and stops tracing at that point.
    #[arg(long, value_name = "TIME", value_parser = long)]
    stop_above: Option<Duration>,
    /// Also write counts as cyclictest, cyclictest-json, hdr or line
    ///
    /// Writes the files every minute during the run.
    #[arg(long, value_name = "FORMAT=FILE", value_hint = ValueHint::FilePath, value_parser = latency_file, help_heading = OUTPUT, hide_short_help = true)]
    write: Vec<LatencyFile>,
    /// Also write every sample to FILE, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT, hide_short_help = true)]
    raw: Option<PathBuf>,
}

impl ResultOptions {
    /// Rejects files that cannot be written, and paths that name the same file, before the measurement.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.write.iter().try_for_each(LatencyFile::check)?;
        distinct(self.raw.iter().map(PathBuf::as_path).chain(self.write.iter().map(LatencyFile::path)))
    }

    /// Opens the file to which all samples are written, if one was requested.
    pub(crate) fn raw<S: RawSample>(&self) -> Result<Option<Raw<S>>, Failure> {
        self.raw.as_ref().map(|path| Raw::create(path)).transpose()
    }

    /// Returns the files of counts for a run that starts now.
    pub(crate) fn files<'a>(&'a self, context: &'a Context) -> ResultFiles<'a> {
        ResultFiles { counts: &self.write, context, command: command_line(), began: SystemTime::now() }
    }

    /// Returns the shared state of a run in which `sleepers` threads sleep.
    pub(crate) fn shared(&self, sleepers: usize) -> RunState {
        RunState::new(self.stop_above, sleepers)
    }

    /// Returns the limit above which a sample ends the run.
    pub(crate) fn limit_ns(&self) -> u64 {
        self.stop_above.map_or(u64::MAX, saturating_nanos)
    }
}

/// Returns the command line as it appears in files: on one line and in UTF-8.
fn command_line() -> String {
    let arguments: Vec<_> = env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    arguments.join(" ").replace(char::is_control, " ")
}

/// The files of a run's counts.
pub(crate) struct ResultFiles<'a> {
    counts: &'a [LatencyFile],
    context: &'a Context,
    command: String,
    began: SystemTime,
}

impl ResultFiles<'_> {
    /// Returns whether no file is written during the run.
    pub(crate) const fn are_none(&self) -> bool {
        self.counts.is_empty() && !self.context.keeps_metrics()
    }

    /// Returns the start time of the run.
    pub(crate) fn began(&self) -> String {
        humantime::format_rfc3339_seconds(self.began).to_string()
    }

    /// Replaces all files with the current counts.
    pub(crate) fn write(&self, threads: &[ThreadLatencies]) -> Result<(), Failure> {
        let facts = self.context.host.facts();
        let about = RunDescription {
            command: &self.command,
            began: self.began,
            ended: SystemTime::now(),
            kernel_release: &facts.kernel_release,
            kernel_version: &facts.kernel_version,
        };
        Ok(self.counts.iter().try_for_each(|file| file.write(threads, about))?)
    }

    /// Writes the current metrics during the run.
    pub(crate) fn keep_metrics(&self, head: &Head, so_far: Vec<Gauge>) -> Result<(), Failure> {
        self.context.keep_metrics_so_far(head, so_far)
    }

    /// Writes the final counts. Returns a message for each failure; the result is printed nevertheless.
    pub(crate) fn finish<S: RawSample>(&self, raw: Option<Raw<S>>, threads: &[ThreadLatencies]) -> Vec<String> {
        let kept = [raw.map_or(Ok(()), Raw::finish), self.write(threads)];
        kept.iter().filter_map(|kept| kept.as_ref().err()).map(|failure| causes(failure)).collect()
    }
}
