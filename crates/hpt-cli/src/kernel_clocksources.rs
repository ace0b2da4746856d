//! Measures the read overhead of the kernel's clocks under each clocksource. The module switches the clocksource only
//! if the user confirms, and restores the original clocksource afterwards.

use std::{path::Path, time::Duration};

use hpt_core::{Frequency, Opened, SourceId, TimeSource, source};
use hpt_document::clocksource_cost::{ClockCost, RefusedClocksource};
use hpt_instrument::{
    diagnose::{are_one_reading, is_made_of_the_clock_source},
    measure::{Instruments, NotRunWatch, read_cost},
};
use hpt_realtime::knobs::{Change, Journal, Knob, KnobError, outline_clock_sources};

use crate::{
    consent::consent,
    context::Context,
    exit::{Failure, causes},
    output::rounded,
    read_cost::{repeated_reads, single_reads},
    source_granularity::known_granularity,
    source_rate::Rate,
};

/// The calibration time of the counter that times single reads.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(20);

/// Returns a note if the reference uses the counter of one of the compared sources. The comparison then cannot show
/// frequency errors of that source.
pub(crate) fn common_counter<'a>(
    mut sources: impl Iterator<Item = &'a SourceId>,
    reference: &dyn TimeSource,
    counter: Option<&str>,
) -> Option<String> {
    let (counter, id) = (counter?, &reference.info().id);
    let is_among_them = sources.any(|source| are_one_reading(source.as_str(), counter));
    (is_among_them && is_made_of_the_clock_source(reference.info())).then(|| {
        format!(
            "{id} uses {counter} itself: this comparison shows disagreement between program and kernel, differences between CPUs, and the effect of time daemons, but no \
             frequency errors or steps that both share; to detect shared errors, choose a --reference with its own counter"
        )
    })
}

/// The current clocksource of the machine, and all available clocksources.
pub(crate) struct Sources {
    pub(crate) current: String,
    pub(crate) available: Vec<String>,
}

pub(crate) fn sources(context: &Context) -> Result<Sources, Failure> {
    let sources = context.host.clock_sources();
    match (sources.current, sources.available) {
        (Some(current), Some(available)) => Ok(Sources { current, available }),
        (_, _) => Err(Failure::NoClockSources),
    }
}

pub(crate) fn offered(context: &Context, sources: &Sources, name: &str) -> Result<(), Failure> {
    if sources.available.iter().any(|available| available == name) {
        return Ok(());
    }
    let outline = outline_clock_sources(&context.host);
    let why = outline.absent.iter().find(|absent| absent.name == name).map(|absent| match absent.said.first() {
        Some(said) => format!("; the kernel dropped it: {}", said.text),
        None => format!("; {}; see `hpt clocksource`", absent.had),
    });
    Err(Failure::NotOffered {
        name: name.to_owned(),
        available: sources.available.join(", "),
        why: why.unwrap_or_default(),
    })
}

/// A comparison that is permitted and that the user has confirmed.
pub(crate) struct Comparison {
    pub(crate) before: Sources,
    /// The clocksources to compare. The current clocksource is first. It is measured even if no other clocksource can
    /// be set.
    pub(crate) names: Vec<String>,
    pub(crate) journal: Journal,
}

/// The result of a comparison.
pub(crate) struct ClocksourceCosts {
    pub(crate) results: Vec<ClockCost>,
    pub(crate) refused: Vec<RefusedClocksource>,
    /// The source that timed single reads.
    pub(crate) stopwatch: String,
    /// The clocksource in use afterwards, if known.
    pub(crate) after: Option<String>,
    /// Warnings about a clocksource that was not restored.
    pub(crate) warnings: Vec<String>,
}

impl Comparison {
    /// Prepares a comparison of the `wanted` clocksources, or of all available clocksources if none is named. Asks for
    /// confirmation if the clocksource must be changed.
    pub(crate) fn asked(
        context: &Context,
        wanted: &[String],
        yes: bool,
        journal: Option<&Path>,
    ) -> Result<Self, Failure> {
        let before = sources(context)?;
        for name in wanted {
            offered(context, &before, name)?;
        }
        let is_wanted = |name: &&String| wanted.is_empty() || wanted.contains(name);
        let mut names: Vec<String> = before.available.iter().filter(is_wanted).cloned().collect();
        names.sort_by_key(|name| *name != before.current);
        let journal = context.journal(journal)?;
        let comparison = Self { before, names, journal };
        if comparison.changes_something() {
            Knob::clock_source().may_be_set()?;
            let current = &comparison.before.current;
            let others: Vec<_> = comparison.names.iter().filter(|name| *name != current).cloned().collect();
            let in_turn = if others.len() > 1 { " in turn" } else { "" };
            let warning = format!(
                "this switches the system-wide clocksource to {}{in_turn}, and then restores {current}; in the meantime, every clock read in every program has the read overhead of \
                 the clocksource that is active at the time, and the kernel reports the clock as unsynchronized until a time daemon updates it again.",
                others.join(", ")
            );
            if !consent(&warning, yes)? {
                return Err(Failure::NotMeant);
            }
        }
        Ok(comparison)
    }

    fn changes_something(&self) -> bool {
        self.names.iter().any(|name| *name != self.before.current)
    }

    /// Measures the clocks under each clocksource, and restores the original clocksource. `progress` receives the name of
    /// the current clocksource, and the number of reads so far.
    pub(crate) fn make(
        &self,
        by: &str,
        reads: ClockReads<'_>,
        progress: &dyn Fn(&str, u64),
    ) -> Result<ClocksourceCosts, Failure> {
        let knob = Knob::clock_source();
        // Begin the change before measuring, so that no other hpt process can change the clocksource from here on.
        let mut change =
            if self.changes_something() { Some(begin(&knob, &self.journal, by, &self.before)?) } else { None };
        let timing = ClockReadTiming::of(reads)?;
        let (mut results, mut refused) = (Vec::new(), Vec::new());
        for name in &self.names {
            if reads.context.interrupted() {
                break;
            }
            let came_first = knob.value().is_ok_and(|is| is == *name);
            if let Some(change) = change.as_mut().filter(|_| !came_first) {
                match change.set(name) {
                    Ok(()) => {}
                    Err(error @ (KnobError::Overridden { .. } | KnobError::Refused { .. })) => {
                        refused.push(RefusedClocksource { clocksource: name.clone(), reason: causes(&error) });
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let measured_before = results.len();
            timing.measure(name, &|done| progress(name, done), &mut results)?;
            // The kernel or another program may have changed the clocksource. If so, the results belong to an unknown
            // clocksource.
            let is = knob.value()?;
            if is != *name {
                results.truncate(measured_before);
                refused.push(RefusedClocksource { clocksource: name.clone(), reason: did_not_stay(&is) });
            }
        }
        // Report the results even if the clocksource cannot be restored.
        let mut warnings = Vec::new();
        if let Err(error) = change.map_or(Ok(()), Change::restore) {
            let told = format!("cannot restore the clocksource {}: {}", self.before.current, causes(&error));
            let is_left_alone = matches!(error, KnobError::ChangedSince { .. });
            warnings.push(if is_left_alone { told } else { format!("{told}; try `hpt restore`") });
        }
        let (stopwatch, after) = (timing.stopwatch_name(), knob.value().ok());
        Ok(ClocksourceCosts { results, refused, stopwatch, after, warnings })
    }
}

/// Returns the reason why the measurement does not apply to the requested clocksource.
pub(crate) fn did_not_stay(is: &str) -> String {
    format!("it was replaced by {is} during the measurement")
}

/// Begins the change, unless the clocksource has changed since the user confirmed.
pub(crate) fn begin(knob: &Knob, journal: &Journal, by: &str, sources: &Sources) -> Result<Change, Failure> {
    let change = knob.begin(journal, by)?;
    if change.before() == sources.current {
        Ok(change)
    } else {
        Err(Failure::ChangedMeanwhile(change.before().to_owned()))
    }
}

/// The reads that are measured under each clocksource.
#[derive(Clone, Copy)]
pub(crate) struct ClockReads<'a> {
    pub(crate) context: &'a Context,
    /// The CPU that the thread is pinned to.
    pub(crate) cpu: Option<usize>,
    pub(crate) clocks: &'a [&'static str],
    /// The number of reads of each clock.
    pub(crate) calls: u64,
}

/// The clock that times single reads: a counter that does not depend on the kernel's clocksource, if one exists.
pub(crate) struct ClockReadTiming<'a> {
    reads: ClockReads<'a>,
    counter: Option<(Opened, Frequency)>,
}

impl<'a> ClockReadTiming<'a> {
    pub(crate) fn of(reads: ClockReads<'a>) -> Result<Self, Failure> {
        let context = reads.context;
        let reference = context.open("monotonic-raw")?;
        let counter = ["tsc", "arm-counter"].into_iter().find_map(|name| {
            let opened = source::open(&context.host, name).ok()?;
            let measured = Rate::measured(opened.as_dyn(), reference.as_dyn(), CALIBRATION_WINDOW).ok()?;
            Some((opened, measured.frequency))
        });
        Ok(Self { reads, counter })
    }

    pub(crate) fn stopwatch_name(&self) -> String {
        self.counter
            .as_ref()
            .map_or_else(|| "monotonic-raw".to_owned(), |(counter, _)| counter.as_dyn().info().id.to_string())
    }

    /// Measures the clocks under the current clocksource `name`.
    pub(crate) fn measure(
        &self,
        name: &str,
        progress: &dyn Fn(u64),
        results: &mut Vec<ClockCost>,
    ) -> Result<(), Failure> {
        let ClockReads { context, cpu, clocks, calls } = self.reads;
        let wall = context.open("monotonic-raw")?;
        let (stopwatch, stopwatch_frequency) = match &self.counter {
            Some((counter, frequency)) => (counter.as_dyn(), *frequency),
            None => (wall.as_dyn(), Frequency::GIGAHERTZ),
        };
        let instruments = Instruments { wall: wall.as_dyn(), stopwatch, stopwatch_frequency, cycles: None };
        let mut watch = NotRunWatch::of_spinning_thread(&context.host, cpu);
        for &clock in clocks {
            if context.interrupted() {
                break;
            }
            // Open the clocks again, because vDSO support depends on the clocksource.
            let opened = context.open(clock)?;
            let before = results.len() as u64 * calls;
            watch.restart();
            let cost = read_cost(opened.as_dyn(), instruments, calls, &mut |done| {
                progress(before.saturating_add(done));
                context.check()
            });
            let not_run = watch.read();
            let info = opened.as_dyn().info();
            let steps = known_granularity(opened.as_dyn(), Frequency::GIGAHERTZ, wall.as_dyn());
            results.push(ClockCost {
                clocksource: name.to_owned(),
                clock: clock.to_owned(),
                read_path: info.read_path.name().to_owned(),
                repeated: repeated_reads(&cost, &not_run),
                ratio_to_first: None,
                single: single_reads(&cost),
                resolution_ns: info.claimed_resolution_ns,
                granularity_ns: steps.map(|steps| rounded(steps.smallest_ns)),
            });
        }
        Ok(())
    }
}
