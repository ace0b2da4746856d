//! The options of a load.

use clap::Args;
use hpt_document::load::LoadKind;
use hpt_realtime::allowed_cpus;
use serde::{Deserialize, Serialize};

use super::super::{
    cpu_options::{Cpus, cpus},
    realtime_options::check_cpus,
};
use crate::{arguments::word, exit::Failure};

const LOAD: &str = "Load";

/// The load during a measurement.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
pub(crate) struct LoadOptions {
    /// Measure idle, then under load: cpu, memory, fork, disk, timers
    ///
    /// hpt measures twice in the same way, and prints both results in one table. It uses stress-ng if it is installed,
    /// and built-in loads otherwise. Memory and disk space are limited to a quarter of what is free. The load ends with
    /// hpt. Files of --write and --raw contain the loaded phase.
    #[arg(long, value_name = "KIND,...", value_parser = word::<LoadKind>(), value_delimiter = ',', help_heading = LOAD, hide_short_help = true, hide_possible_values = true)]
    load: Vec<LoadKind>,
    /// CPUs of the load: 0,2-5 or all [default: CPUs that are not measured]
    ///
    /// If every CPU is measured, the default is all CPUs.
    #[arg(long, value_name = "CPU,...", value_parser = cpus, requires = "load", help_heading = LOAD, hide_short_help = true)]
    load_cpus: Option<Cpus>,
}

impl LoadOptions {
    pub(crate) fn is_requested(&self) -> bool {
        !self.load.is_empty()
    }

    /// Returns the kinds of load, each once; empty without `--load`.
    pub(super) fn kinds(&self) -> Vec<LoadKind> {
        let mut kinds = Vec::new();
        for &kind in &self.load {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// Returns the CPUs of the load if threads measure on these CPUs. `None` stands for a thread that is not pinned.
    pub(super) fn cpus(&self, measured: &[Option<usize>]) -> Result<Vec<usize>, Failure> {
        let allowed = allowed_cpus();
        match &self.load_cpus {
            Some(Cpus::Any) => Err(Failure::Usage("--load-cpus requires CPU numbers, or all")),
            Some(Cpus::All) => Ok(allowed),
            Some(Cpus::These(cpus)) => {
                check_cpus(&cpus.iter().copied().map(Some).collect::<Vec<_>>())?;
                Ok(cpus.clone())
            }
            None => Ok(unmeasured(measured, allowed)),
        }
    }
}

/// Returns the CPUs that are not measured, or all CPUs if there are none.
fn unmeasured(measured: &[Option<usize>], allowed: Vec<usize>) -> Vec<usize> {
    let free: Vec<usize> = allowed.iter().copied().filter(|&cpu| !measured.contains(&Some(cpu))).collect();
    if free.is_empty() || measured.contains(&None) { allowed } else { free }
}

#[cfg(test)]
mod tests {
    use super::unmeasured;

    #[test]
    fn the_load_runs_on_cpus_that_are_not_measured_if_there_are_any() {
        assert_eq!(unmeasured(&[Some(1), Some(2)], vec![0, 1, 2, 3]), [0, 3]);
        assert_eq!(unmeasured(&[Some(0), Some(1)], vec![0, 1]), [0, 1]);
        assert_eq!(unmeasured(&[None], vec![0, 1]), [0, 1]);
    }
}
