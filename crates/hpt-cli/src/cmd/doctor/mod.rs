//! `hpt doctor`: examines the machine, or tries fixes.

mod trial;

use clap::Args;
use hpt_instrument::diagnose::{Goal, MachineFacts, examine, run_time_fixes};

use self::trial::{TrialOptions, Wanted};
use crate::{
    arguments::{Codes, CpuChoice, after_help, verbose_with},
    context::Context,
    exit::Failure,
    measurements::doctor::{self, ExaminationArguments},
    output::Document,
    sampling::realtime_options::check_cpus,
};

const EXAMPLES: &str = "  \
  hpt doctor                         check this machine
  hpt doctor -v                      also print notes, reasons and all fixes
  hpt doctor wall-time governor      print the details of two rules
  hpt doctor --for benchmarks        check it for benchmarks
  hpt doctor --cpu 3                 check it for a thread dedicated to CPU 3
  sudo hpt doctor --cpu 3 --measure  also measure for six seconds
  sudo hpt doctor --cpu 3 --try      try fixes, and measure which of them help
  hpt doctor --fail-on high          for scripts: see the exit codes
  hpt doctor --host my.capture       check a system snapshot";

/// Find what causes latency and clock errors, and how to fix it
///
/// Checks the clocksource, time synchronization, real-time permissions and throttling, isolated CPUs and what still
/// runs there, frequency scaling and idle states, memory, the hypervisor, the power supply of a board, and permissions
/// for counters and devices. Without --try, hpt doctor changes nothing and does not need root. The result fits on one screen: a
/// verdict, and each problem with its first fix. -v prints all details. --for selects what counts as a problem: without
/// it, default settings of Linux are only notes. With --measure, hpt also measures for six seconds to confirm problems
/// while they occur. With --try, hpt applies the fixes in turn, measures which of them help, and undoes them.
#[derive(Debug, Args)]
#[command(
    after_long_help = after_help(Codes::measuring(Some("a problem was found (--fail-on), or --try was declined")), EXAMPLES),
    args([verbose_with("notes, reasons, all fixes, and the rules without a problem")])
)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    examination: ExaminationArguments,
    #[command(flatten)]
    trial: TrialOptions,
}

impl DoctorArguments {
    /// Returns whether fixes are tried.
    pub(crate) const fn tries(&self) -> bool {
        self.trial.tries
    }
}

pub(crate) fn run(arguments: &DoctorArguments, context: &Context) -> Result<Document, Failure> {
    if arguments.tries() { try_fixes(arguments, context) } else { doctor::run(&arguments.examination, context) }
}

/// Tries the fixes of the problems.
fn try_fixes(arguments: &DoctorArguments, context: &Context) -> Result<Document, Failure> {
    let ExaminationArguments { rules, goal, cpu, .. } = &arguments.examination;
    let facts = MachineFacts::new(&context.host);
    let named = cpu.or_else(|| arguments.trial.cpu());
    // Without a CPU on the command line, this is also the CPU of hpt latency.
    let cpu = context.cpu(named.map(CpuChoice::Number)).unwrap_or(0);
    check_cpus(&[Some(cpu)])?;
    let goal = goal.unwrap_or(Goal::Realtime);
    let mut examined = examine(&facts, Some(cpu), goal);
    if !rules.is_empty() {
        examined.retain(|examined| rules.iter().any(|rule| rule == examined.rule.id));
    }
    let fixes = run_time_fixes(&context.host, &facts, &examined, cpu);
    let is_cpu_named = arguments.examination.cpu.is_some();
    let wanted = Wanted { goal, cpu, is_cpu_named, fixes: &fixes, examined: &examined };
    trial::run(&arguments.trial, &wanted, context)
}
