//! Options that choose the CPUs of a run, with a thread on each.
//! Starts none.

use clap::Args;
use hpt_core::realtime::{Conduct, allowed_cpus};

use super::realtime_options::RealtimeOptions;
use crate::exit::Failure;

pub(crate) const NOTHING_LEFT: &str = "real-time threads that never wait, on every CPU and without throttling, would stop the machine; leave out a CPU (--cpu), or --no-throttling (with \
                            --accept-throttling the kernel keeps a part of each second for others)";

/// The CPUs of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cpus {
    Any,
    All,
    These(Vec<usize>),
}

fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "any" => return Ok(Cpus::Any),
        "all" => return Ok(Cpus::All),
        _ => {}
    }
    let numbers: Result<Vec<_>, _> = text.split(',').map(str::parse).collect();
    let mut numbers = numbers.map_err(|_| "expected CPU numbers separated by commas, all, or any".to_owned())?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Cpus::These(numbers))
}

/// Which threads a run has.
#[derive(Debug, Args)]
pub(crate) struct CpuOptions {
    /// CPUs, one thread each; or all, any [default: highest]
    ///
    /// any: one thread that is not pinned. Default: the highest CPU that hpt may use.
    #[arg(short, long, value_name = "CPU,...", value_parser = cpus, allow_hyphen_values = true)]
    cpu: Option<Cpus>,
    #[command(flatten)]
    pub(crate) realtime: RealtimeOptions,
}

impl CpuOptions {
    /// A thread for each of these; `None` is one that is not pinned.
    ///
    /// Refused where threads that never wait would leave nothing of the machine.
    pub(crate) fn one_each(&self, conduct: Conduct) -> Result<Vec<Option<usize>>, Failure> {
        let cpus: Vec<Option<usize>> = match &self.cpu {
            Some(Cpus::Any) => vec![None],
            Some(Cpus::All) => allowed_cpus().into_iter().map(Some).collect(),
            Some(Cpus::These(cpus)) => cpus.iter().copied().map(Some).collect(),
            // The kernel does not let a thread by SCHED_DEADLINE be pinned.
            None if self.realtime.is_by_deadline() => vec![None],
            None => vec![allowed_cpus().last().copied()],
        };
        if conduct == Conduct::Spins && self.realtime.leaves_nothing() && cpus.len() >= allowed_cpus().len() {
            return Err(Failure::Usage(NOTHING_LEFT));
        }
        Ok(cpus)
    }
}

/// A thread's CPU, as lines and tables call it.
pub(crate) fn name_of(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Cpus, cpus};

    #[test]
    fn cpus_are_read_or_refused() {
        assert_eq!(
            (cpus("all"), cpus("any"), cpus("2,0,2")),
            (Ok(Cpus::All), Ok(Cpus::Any), Ok(Cpus::These(vec![0, 2])))
        );
        assert!(["", "a", "-1", "1,", "0-3"].iter().all(|wrong| cpus(wrong).is_err()));
    }
}
