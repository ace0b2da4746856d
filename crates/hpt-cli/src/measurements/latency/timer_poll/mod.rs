//! `hpt latency timer` and `hpt latency poll`: measure how late a thread detects its deadlines.

mod arguments;
mod document;
mod probe;
mod results;
mod terminal;
mod time_of_day;

use hpt_core::{SourceId, clock};
use hpt_document::wake_latency::WakeLatencyDocument;
use hpt_instrument::measure::{Waiting, Wake, clock_read_overhead, wall_clock_read_overhead};
use jiff::Zoned;

pub(crate) use self::arguments::{PollArguments, TimerArguments};
use self::{
    arguments::{Common, WakerKind},
    probe::{WakeProbe, conduct},
    results::Counts,
};
use crate::{
    context::Context,
    exit::Failure,
    output::Document,
    sampling::{
        explain::Awaited,
        finished::Finished,
        gpio_pulse::Pulse,
        load::in_phases,
        observers::{Explained, Observation},
        run::{self, Attention, RunSettings},
    },
};

/// The kind of the `hpt latency timer` document.
pub(super) const TIMER: &str = "latency-timer";
/// The kind of the `hpt latency poll` document.
pub(super) const POLL: &str = "latency-poll";

pub(crate) fn timer(arguments: &TimerArguments, context: &Context) -> Result<Document, Failure> {
    let waiting = match arguments.by {
        WakerKind::Kernel => Waiting::Blocking,
        WakerKind::Hpt => Waiting::Precise,
    };
    run(waiting, &arguments.common, context)
}

pub(crate) fn poll(arguments: &PollArguments, context: &Context) -> Result<Document, Failure> {
    run(Waiting::Polling, &arguments.common, context)
}

/// The default clock of a thread that sleeps with the kernel's timer. A counter would be slower: its conversion to time
/// is valid for at most a millisecond, so every sample would include the computation of a new conversion.
const KERNELS_OWN: &str = "monotonic";

/// A guard that selects the source of hpt's clock. Dropping the guard restores the previous source.
struct TimedBy<'a> {
    before: SourceId,
    context: &'a Context,
}

impl<'a> TimedBy<'a> {
    fn source(name: &str, context: &'a Context) -> Result<Self, Failure> {
        let before = clock::source().id;
        clock::use_source(context.open(name)?).map_err(|refused| Failure::NotTheClock(name.to_owned(), refused))?;
        Ok(Self { before, context })
    }
}

impl Drop for TimedBy<'_> {
    fn drop(&mut self) {
        // If the previous source is no longer accepted, the current source remains active.
        if let Ok(opened) = self.context.open(self.before.as_str()) {
            let _ = clock::use_source(opened);
        }
    }
}

fn run(waiting: Waiting, arguments: &Common, context: &Context) -> Result<Document, Failure> {
    let (cpus, _) = arguments.threads.one_each(context, conduct(waiting, arguments.run_length.interval))?;
    in_phases(&arguments.load, context, (&cpus, 1), || run_once(waiting, arguments, context))
}

fn run_once(waiting: Waiting, arguments: &Common, context: &Context) -> Result<Finished<WakeLatencyDocument>, Failure> {
    // No signal may end hpt before the pulse line is restored and the trace is removed.
    let is_restored = arguments.pulse.is_requested() || arguments.explain.is_requested();
    arguments.threads.realtime.listen_for_all(is_restored, context)?;
    let behavior = conduct(waiting, arguments.run_length.interval);
    let by = if waiting == Waiting::Polling { "hpt latency poll" } else { "hpt latency timer" };
    let (cpus, refused) = arguments.threads.one_each(context, behavior)?;
    if arguments.pulse.is_requested() && cpus.len() > 1 {
        return Err(Failure::Usage("--pulse requires a single thread: use --cpu with one CPU, or with `any`"));
    }
    arguments.keeping.check()?;
    let timed_by = match &arguments.source {
        Some(name) => Some(TimedBy::source(name, context)?),
        None if waiting == Waiting::Blocking && arguments.at.is_none() => TimedBy::source(KERNELS_OWN, context).ok(),
        None => None,
    };
    let at = match arguments.at.as_ref().map(|at| at.after(&Zoned::now())) {
        Some(None) => return Err(Failure::Past(arguments.at.as_ref().map(ToString::to_string).unwrap_or_default())),
        Some(at) => at,
        None => None,
    };
    let pulse = arguments.pulse.open(&context.host)?;
    let about_pulse = pulse.as_ref().map(Pulse::about);
    // Create the file for raw samples only after all checks that need no thread.
    let raw = arguments.keeping.raw()?;
    let whole = arguments.threads.realtime.hold_around(context, &cpus, behavior, by)?.without_cpus(refused);
    clock::prime();
    let reads = if at.is_some() { wall_clock_read_overhead() } else { clock_read_overhead() };
    let counts = cpus.iter().map(|&cpu| Counts::of(cpu)).collect();
    let probe = WakeProbe { arguments, context, waiting, by, at, reads, counts, about_pulse, pulse };
    let settings = RunSettings { raw, whole: Some(whole), ..settings_of(waiting, arguments, &cpus) };
    let finished = run::run(probe, settings, context);
    drop(timed_by);
    finished
}

/// Returns what distinguishes this run from those of other measurements.
fn settings_of<'a>(waiting: Waiting, arguments: &'a Common, cpus: &'a [Option<usize>]) -> RunSettings<'a, Wake> {
    let explained = Explained {
        options: arguments.explain,
        limits: arguments.limits.limits(),
        stop_above_ns: arguments.keeping.limit_ns(),
        awaited: if waiting == Waiting::Blocking { Awaited::Timer } else { Awaited::Clock },
        behavior: conduct(waiting, arguments.run_length.interval),
    };
    RunSettings {
        kind: if waiting == Waiting::Polling { POLL } else { TIMER },
        observation: Observation { cpus, conditions: arguments.conditions, explained: Some(explained) },
        run_length: arguments.run_length,
        warm_up: arguments.warm_up,
        attention: Attention::Constant,
        sleepers: cpus.len(),
        keeping: &arguments.keeping,
        raw: None,
        whole: None,
    }
}
