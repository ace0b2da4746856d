//! `hpt watch`: compares sources with a reference, and reports faults.

mod live;
mod machine_events;
mod sources;
mod terminal;
mod totals;

use std::time::Duration;

use clap::Args;
use hpt_core::{Opened, SourceId};
use hpt_document::watch::MachineEvent;
use hpt_instrument::{
    diagnose::{Limits, Round, Surroundings, Watch},
    measure::{Burst, BurstReader, CoreOffset, NotRunWatch},
};
use hpt_realtime::{PinWatch, Pinned, allowed_cpus};

use self::{
    live::Screen,
    machine_events::MachineWatch,
    sources::{
        Turns, common_counters, fit_for_reference, hand_over, has_a_counter_on_each_core, sources, with_expectations,
    },
    terminal::{print_interval, summary_page},
    totals::Totals,
};
use crate::{
    arguments::{Codes, CpuChoice, after_help, apart, cpu_choice, interval, parts_per_million, window},
    context::Context,
    exit::Failure,
    output::{Answer, Document, chart_option::ChartOption, progress::Progress},
    sampling::not_run,
};

const EXAMPLES: &str = "  \
  hpt watch --duration 10m                     10 minutes, a report per second
  hpt watch --source tsc --reference boottime  one source against another clock
  hpt watch --format json | jq .sources        one JSON document per line";

/// The interval at which sources are read. A step is detected if it is larger than the change that the rates of the
/// sources can cause within this interval.
const ROUND: Duration = Duration::from_millis(10);

/// Watch clocks for drift, steps and offsets between CPUs
///
/// Brackets each reading of a source between two readings of the reference, every 10 ms. Reports
/// only what exceeds the bracket width: offset, frequency error (drift), steps, backward steps,
/// stops, and offsets between the counters of two CPUs. Also reports suspend, live migration of a
/// virtual machine, and clock changes by a time daemon. On a terminal with colors, hpt shows one
/// table and updates it after each interval; otherwise, it prints a line per source and interval.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::watching(Some("a source has a fault")), EXAMPLES))]
pub(crate) struct WatchArguments {
    /// Sources to watch, separated by commas
    ///
    /// By default, hpt watches all constant-rate sources with a resolution of 1 µs or finer, and CLOCK_REALTIME.
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',')]
    source: Vec<String>,
    /// Reference clock
    #[arg(long, value_name = "SOURCE", default_value = "monotonic-raw")]
    reference: String,
    /// Run time, including suspend [default: until Ctrl-C]
    #[arg(short, long, value_name = "DURATION", value_parser = window)]
    duration: Option<Duration>,
    /// Time between reports
    #[arg(short, long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Accepted frequency error, in ppm [default: 50]
    ///
    /// hpt adds the uncertainty of the nominal frequency to this limit. The limit also applies to changes of the
    /// frequency.
    #[arg(long, value_name = "PPM", value_parser = parts_per_million, allow_negative_numbers = true)]
    threshold_ppm: Option<f64>,
    /// Accepted step
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = apart)]
    threshold_step: Duration,
    /// Accepted offset between CPU counters
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = apart)]
    threshold_cpus: Duration,
    /// Do not compare the counters of different CPUs
    ///
    /// The comparison occupies two CPUs for a few milliseconds in each interval.
    #[arg(long)]
    no_compare_cpus: bool,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    pub(super) cpu: Option<CpuChoice>,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

impl WatchArguments {
    /// Returns whether only a signal ends the run.
    pub(crate) const fn is_endless(&self) -> bool {
        self.duration.is_none()
    }
}

pub(crate) fn run(arguments: &WatchArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    // Determine the allowed CPUs before pinning the thread, because pinning leaves only one allowed CPU.
    let cpus = allowed_cpus();
    let pinned = context.pin(arguments.cpu)?;
    let reference = context.open(&arguments.reference)?;
    fit_for_reference(reference.as_dyn())?;
    let limits = Limits {
        rate_ppm: arguments.threshold_ppm.unwrap_or(Limits::default().rate_ppm),
        statements_may_be_wrong: arguments.threshold_ppm.is_none(),
        step: arguments.threshold_step,
        core_offset: arguments.threshold_cpus,
    };
    let (sources, mut notes) = sources(&arguments.source, context, reference.as_dyn())?;
    let mut machine = MachineWatch::of(context)?;
    let mut bursts = BurstReader::new(reference.as_dyn());
    let around = Surroundings::new(&context.host);
    let (kept, expected) = with_expectations(sources, reference.as_dyn(), (&bursts, &around), &mut notes);
    if kept.is_empty() {
        return Err(Failure::Usage("none of these sources can be compared with this reference; choose other sources"));
    }
    let cores = kept.iter().find(|opened| has_a_counter_on_each_core(opened)).filter(|_| !arguments.no_compare_cpus);
    let mut turns = Turns::among(cpus, context.host.online_cpus().as_ref());
    let mut presence = pinned.as_ref().map(|pinned| PinWatch::new(pinned.cpu(), &context.host));
    let expectations = |counter| expected.iter().map(|expected| expected.beside(counter)).collect::<Vec<_>>();
    let beside = |watch: &mut Watch, counter| {
        watch.expect(&expectations(counter));
        watch.set_witnesses(expected.iter().map(|expected| expected.witness(counter)).collect());
    };
    let mut so_far = Totals::beginning(&expected, Watch::new(&expectations(machine.counter(context)), limits));
    let mut counted_by = vec![(0.0, machine.counter(context))];
    let is_one_round = arguments.duration.is_some_and(|duration| duration < ROUND);

    // On its own, a watch prints its intervals instead.
    let progress = arguments.duration.filter(|_| context.is_of_a_part()).map(|duration| Progress::new(1, duration));
    let mut screen = Screen::open(context, arguments.duration);
    // On a busy machine, the setup takes time that is not part of the run.
    machine.begin(context);
    beside(&mut so_far.watch, machine.counter(context));
    let mut ran = NotRunWatch::of_blocking_thread(&context.host, pinned.as_ref().map(Pinned::cpu));
    loop {
        let synchronization = so_far.synchronization(context);
        let ends_s = machine.now_s() + arguments.interval.as_secs_f64();
        let over_s = arguments.duration.map(|duration| machine.begun_s + duration.as_secs_f64());
        let mut events = Vec::new();
        let (mut rounds, mut elsewhere) = (0_u64, 0_u64);
        loop {
            let taken: Vec<Burst> = kept.iter().map(|opened| bursts.read(opened.as_dyn())).collect();
            let happened = machine.happened(context);
            so_far.watch.set_tick_off_by(machine.tick_off_by_ppm());
            so_far.watch.take(Round { bursts: &taken, interrupted: !happened.is_empty() });
            if !happened.is_empty() {
                let counter = machine.counter(context);
                beside(&mut so_far.watch, counter);
                if counted_by.last().is_none_or(|&(_, before)| before != counter) {
                    counted_by.push((machine.at_s(), counter));
                }
            }
            events.extend(happened);
            // A round in which a CPU goes offline or comes online is valid, because sources are system-wide.
            events.extend(machine.cpus_that_went_or_came(context));
            // Check the CPU once per round, between the readings of two rounds, so that the system call is not inside a
            // bracket.
            if presence.as_mut().is_some_and(|presence| !presence.stayed(machine.at())) {
                elsewhere += 1;
            }
            rounds += 1;
            let now_s = machine.now_s();
            let is_over = now_s >= ends_s || over_s.is_some_and(|over_s| now_s >= over_s);
            // A single round leaves nothing to compare. The run ends after a single round only if it is shorter than
            // the interval between two rounds.
            if is_one_round || (is_over && rounds > 1) || context.interrupted() {
                break;
            }
            if let (Some(progress), Some(duration)) = (&progress, arguments.duration) {
                progress.at_fraction((now_s - machine.begun_s) / duration.as_secs_f64());
            }
            if let Some(screen) = &mut screen {
                screen.update(&so_far, now_s - machine.begun_s);
            }
            crate::pause::pause(ROUND);
        }
        let offsets = match cores {
            Some(opened) if !context.interrupted() => {
                let (found, came_or_went) = compare_cpus(opened, &mut turns, &mut machine, &mut so_far, context);
                events.extend(came_or_went);
                found
            }
            Some(_) | None => Vec::new(),
        };
        so_far.follow(presence.as_ref(), &machine.cpus);
        let interval = (offsets, events, elsewhere);
        let data = so_far.end_interval(&machine, reference.as_dyn(), interval, synchronization, &limits, context);
        let is_read = match &mut screen {
            Some(screen) => {
                screen.end_interval(data, &so_far);
                true
            }
            None => context.is_of_a_part() || print_interval(&data, &limits, context)?,
        };
        if context.keeps_metrics() {
            let so_far = so_far.summary(
                &machine,
                reference.as_dyn(),
                pinned.as_ref().map(Pinned::cpu),
                &limits,
                Vec::new(),
                context,
            );
            // If this write fails, the final write reports the error.
            let _ = context.keep_metrics(&so_far.into());
        }
        let now_s = machine.now_s();
        if !is_read || is_one_round || context.interrupted() || over_s.is_some_and(|over_s| now_s >= over_s) {
            break;
        }
    }
    drop(screen);
    so_far.not_run = Some(not_run::field_of(&ran.read()));
    let effect = "the brackets, and so the error bounds, may be wider than on an idle machine";
    notes.extend(so_far.not_run.iter().filter_map(|not_run| not_run::note(not_run, effect)));
    notes.extend(so_far.notes_of_cpus(cores.is_some()));
    notes.extend(common_counters(&kept, reference.as_dyn(), &counted_by, machine.at_s()));
    notes.extend(machine.blind_spot().filter(|_| so_far.has_seen_a_step()));
    notes.extend(context.notes());
    let data = so_far.summary(&machine, reference.as_dyn(), pinned.as_ref().map(Pinned::cpu), &limits, notes, context);
    let answer = match (data.faulty, terminal::was_compared(&data)) {
        (true, _) => Answer::No,
        (false, false) => Answer::Unknown,
        (false, true) => Answer::Yes,
    };
    let blocks = summary_page(&data);
    // CSV contains only the rows of the intervals.
    Ok(Document { answer, one_of_several: true, ..Document::new(data, blocks) })
}

/// Compares the counters of the next pairs of CPUs. Returns the results, and the CPUs that went offline or came online
/// during the comparison.
fn compare_cpus(
    opened: &Opened,
    turns: &mut Turns,
    machine: &mut MachineWatch,
    so_far: &mut Totals,
    context: &Context,
) -> (Vec<(SourceId, CoreOffset)>, Vec<MachineEvent>) {
    let (mut found, mut events) = (Vec::new(), Vec::new());
    for pair in turns.next(machine.cpus.running.as_ref()) {
        match hand_over(opened, pair) {
            Ok(offset) => found.extend(offset),
            Err(refused) => {
                let at_s = machine.at_s();
                events.extend(machine.cpus_that_went_or_came(context));
                // If a CPU went offline, an event with the time already reports that.
                if [pair.0, pair.1].into_iter().all(|cpu| machine.cpus.is_running(cpu)) {
                    so_far.note_refusal(pair, &refused, at_s);
                }
            }
        }
    }
    (found, events)
}
