//! Options that choose the CPUs of a run, which has one thread per CPU.

use clap::Args;
use hpt_document::thread::RefusedSetting;
use hpt_realtime::{Behavior, usable_cpus};
use hpt_sys::host::CpuList;
use serde::{Deserialize, Serialize};

use super::realtime_options::{RealtimeOptions, check_cpus, leaves_no_cpu};
use crate::{
    arguments::CpuChoice,
    context::Context,
    exit::{Failure, causes},
};

pub(crate) const NOTHING_LEFT: &str = "real-time threads that never block, on every CPU and without throttling, would stop the machine; leave one CPU free (--cpu), or omit --no-throttling (with \
                            --accept-throttling, the kernel reserves part of each second for other threads)";

/// The maximum number of CPUs that Linux supports.
const MOST_CPUS: usize = 8192;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cpus {
    Any,
    All,
    These(Vec<usize>),
}

impl Cpus {
    /// Returns the value of `--cpu`.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::All => "all".to_owned(),
            Self::These(cpus) => cpus.iter().copied().collect::<CpuList>().to_string(),
        }
    }
}

impl From<CpuChoice> for Cpus {
    fn from(choice: CpuChoice) -> Self {
        match choice {
            CpuChoice::Any => Self::Any,
            CpuChoice::Number(cpu) => Self::These(vec![cpu]),
        }
    }
}

pub(super) fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "any" => return Ok(Cpus::Any),
        "all" => return Ok(Cpus::All),
        _ => {}
    }
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = range(part)?;
        // Check the size before extending the list, so that a large range does not exhaust the memory.
        if last - first >= MOST_CPUS - numbers.len() {
            return Err(format!("too many CPUs at {part}: Linux supports at most {MOST_CPUS} CPUs"));
        }
        numbers.extend(first..=last);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(Cpus::These(numbers))
}

/// Parses `3` or `2-5`.
fn range(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        text.parse().map_err(|_| "expected CPU numbers and ranges such as 0,2-5, or all, or any".to_owned())
    };
    let Some((first, last)) = text.split_once('-') else { return number(text).map(|cpu| (cpu, cpu)) };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!("the range {text} is reversed: write {last}-{first}"));
    }
    Ok((first, last))
}

/// The CPU of each thread, and the CPUs that were refused.
pub(crate) type CpuOfEach = (Vec<Option<usize>>, Vec<RefusedSetting>);

#[derive(Debug, Args, Serialize, Deserialize)]
pub(crate) struct CpuOptions {
    /// A thread per CPU: 0,2-5, all, any [default: chosen]
    ///
    /// A CPU outside the affinity of hpt, for example an isolated CPU, is allowed. all: every CPU that hpt can use,
    /// including isolated CPUs unless the affinity was restricted (taskset). any: one thread, not pinned. Default: the
    /// highest-numbered CPU. If CPUs are isolated: the highest-numbered isolated CPU on which no real-time thread of
    /// another program may run, otherwise the first CPU that is not isolated. Performance cores come before efficient
    /// ones.
    #[arg(short, long, value_name = "CPU,...", value_parser = cpus, allow_hyphen_values = true)]
    pub(crate) cpu: Option<Cpus>,
    #[command(flatten)]
    pub(crate) realtime: RealtimeOptions,
}

impl CpuOptions {
    /// Returns the CPU of each thread; `None` means not pinned. With `--best-effort`, a thread whose CPU the kernel
    /// refuses is not pinned, and the refusal is returned, too.
    ///
    /// Fails if one of the CPUs cannot be used, or if threads that never block would leave no CPU time for the rest of
    /// the system.
    pub(crate) fn one_each(&self, context: &Context, conduct: Behavior) -> Result<CpuOfEach, Failure> {
        let mut cpus: Vec<Option<usize>> = match &self.cpu {
            Some(Cpus::Any) => vec![None],
            Some(Cpus::All) => usable_cpus(&context.host).into_iter().map(Some).collect(),
            Some(Cpus::These(cpus)) => cpus.iter().copied().map(Some).collect(),
            // The kernel does not allow pinning a SCHED_DEADLINE thread.
            None if self.realtime.is_by_deadline() => vec![None],
            None => vec![context.cpu(None)],
        };
        let mut refused = Vec::new();
        for cpu in &mut cpus {
            if let Err(error) = check_cpus(&[*cpu]) {
                if !self.realtime.is_by_best_effort() {
                    return Err(error);
                }
                refused.push(RefusedSetting { setting: "cpu".to_owned(), reason: causes(&error) });
                *cpu = None;
            }
        }
        if conduct == Behavior::Spins && self.realtime.leaves_nothing() && leaves_no_cpu(&cpus) {
            return Err(Failure::Usage(NOTHING_LEFT));
        }
        Ok((cpus, refused))
    }
}

/// Returns the CPU of a thread for a sentence: `CPU 3` or `any CPU`.
pub(crate) fn place_of(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"))
}

/// Returns the name of a thread's CPU for text and tables.
pub(crate) fn name_of(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string())
}

#[cfg(test)]
mod tests {
    use super::{Cpus, cpus};

    #[test]
    fn cpus_are_parsed_or_refused() {
        assert_eq!(
            (cpus("all"), cpus("any"), cpus("2,0,2")),
            (Ok(Cpus::All), Ok(Cpus::Any), Ok(Cpus::These(vec![0, 2])))
        );
        assert!(["", "a", "-1", "1,", "0-", "0-1-2", "0-a"].iter().all(|wrong| cpus(wrong).is_err()));
    }

    #[test]
    fn ranges_expand_to_lists_of_cpus() {
        assert_eq!(
            (cpus("0-3"), cpus("7,0-1,1-2,5-5")),
            (Ok(Cpus::These(vec![0, 1, 2, 3])), Ok(Cpus::These(vec![0, 1, 2, 5, 7])))
        );
        assert_eq!(cpus("3-1"), Err("the range 3-1 is reversed: write 1-3".to_owned()));
        assert!(matches!(cpus("0-8191"), Ok(Cpus::These(cpus)) if cpus.len() == 8192));
        for huge in ["0-8192", "0-4294967295", "0-8191,0", "0-5000,0-5000"] {
            assert!(cpus(huge).is_err_and(|why| why.contains("at most 8192 CPUs")), "{huge}");
        }
    }
}
