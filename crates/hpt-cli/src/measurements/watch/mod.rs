//! `hpt watch`: compares sources with a reference, and reports faults.

mod live;
mod machine_events;
mod sources;
mod terminal;
mod totals;

use std::time::Duration;

use clap::Args;
use hpt_core::{Opened, SourceId, TimeSource};
use hpt_document::{not_run::NotRun, watch::MachineEvent};
use hpt_instrument::{
    diagnose::{Expected, Limits, Round, Surroundings, Watch},
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
    totals::{SeenInInterval, Totals, Watched},
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

    fn limits(&self) -> Limits {
        Limits {
            rate_ppm: self.threshold_ppm.unwrap_or(Limits::default().rate_ppm),
            statements_may_be_wrong: self.threshold_ppm.is_none(),
            step: self.threshold_step,
            core_offset: self.threshold_cpus,
        }
    }
}

pub(crate) fn run(arguments: &WatchArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    // Determine the allowed CPUs before pinning the thread, because pinning leaves only one allowed CPU.
    let cpus = allowed_cpus();
    let pinned = context.pin(arguments.cpu)?;
    let cpu = pinned.as_ref().map(Pinned::cpu);
    let reference = context.open(&arguments.reference)?;
    fit_for_reference(reference.as_dyn())?;
    let (sources, mut notes) = sources(&arguments.source, context, reference.as_dyn())?;
    let machine = MachineWatch::of(context)?;
    let bursts = BurstReader::new(reference.as_dyn());
    let around = Surroundings::new(&context.host);
    let (kept, expected) = with_expectations(sources, reference.as_dyn(), (&bursts, &around), &mut notes);
    if kept.is_empty() {
        return Err(Failure::Usage("none of these sources can be compared with this reference; choose other sources"));
    }
    let counter = machine.counter(context);
    let expectations: Vec<_> = expected.iter().map(|expected| expected.beside(counter)).collect();
    let watched = Watched { reference: arguments.reference.clone(), limits: arguments.limits(), cpu };
    let mut course = WatchCourse {
        arguments,
        context,
        reference: reference.as_dyn(),
        cores: kept.iter().find(|opened| has_a_counter_on_each_core(opened)).filter(|_| !arguments.no_compare_cpus),
        turns: Turns::among(cpus, context.host.online_cpus().as_ref()),
        presence: cpu.map(|cpu| PinWatch::new(cpu, &context.host)),
        so_far: Totals::beginning(&expected, Watch::new(&expectations, watched.limits), watched),
        counted_by: vec![(0.0, counter)],
        // On its own, a watch prints its intervals instead.
        progress: arguments.duration.filter(|_| context.is_of_a_part()).map(|duration| Progress::new(1, duration)),
        screen: Screen::open(context, arguments.duration),
        kept: &kept,
        expected: &expected,
        machine,
        bursts,
    };
    // On a busy machine, the setup takes time that is not part of the run.
    course.machine.begin(context);
    course.expect_beside_counter();
    let mut ran = NotRunWatch::of_blocking_thread(&context.host, cpu);
    while course.interval()? {}
    Ok(course.end(ran.read(), notes))
}

/// The course of a watch.
struct WatchCourse<'a> {
    arguments: &'a WatchArguments,
    context: &'a Context,
    reference: &'a dyn TimeSource,
    kept: &'a [Opened],
    expected: &'a [Expected],
    /// The source whose counters on different CPUs are compared.
    cores: Option<&'a Opened>,
    turns: Turns,
    machine: MachineWatch,
    bursts: BurstReader<'a>,
    presence: Option<PinWatch<'a>>,
    so_far: Totals,
    /// The counters of the kernel's clock, with the times from which it was used.
    counted_by: Vec<(f64, Option<&'static str>)>,
    progress: Option<Progress>,
    screen: Option<Screen>,
}

impl WatchCourse<'_> {
    /// Tells the watch how the sources depend on the counter of the kernel's clock.
    fn expect_beside_counter(&mut self) {
        let counter = self.machine.counter(self.context);
        let expectations: Vec<_> = self.expected.iter().map(|expected| expected.beside(counter)).collect();
        self.so_far.watch.expect(&expectations);
        self.so_far.watch.set_witnesses(self.expected.iter().map(|expected| expected.witness(counter)).collect());
        if self.counted_by.last().is_none_or(|&(_, before)| before != counter) {
            self.counted_by.push((self.machine.at_s(), counter));
        }
    }

    fn is_single_round(&self) -> bool {
        self.arguments.duration.is_some_and(|duration| duration < ROUND)
    }

    /// Returns whether the requested time has passed.
    fn is_over(&self, now_s: f64) -> bool {
        self.arguments.duration.is_some_and(|duration| now_s >= self.machine.begun_s + duration.as_secs_f64())
    }

    /// Watches for one interval and prints it. Returns whether there is another one.
    fn interval(&mut self) -> Result<bool, Failure> {
        let context = self.context;
        let synchronization = self.so_far.synchronization(context);
        let mut rounds = self.rounds();
        let offsets = match self.cores {
            Some(opened) if !context.interrupted() => self.compare_cpus(opened, &mut rounds.events),
            Some(_) | None => Vec::new(),
        };
        self.so_far.follow(self.presence.as_ref(), &self.machine.cpus);
        let seen =
            SeenInInterval { synchronization, offsets, events: rounds.events, rounds_on_other_cpus: rounds.elsewhere };
        let data = self.so_far.end_interval(&self.machine, seen, context);
        let is_read = match &mut self.screen {
            Some(screen) => {
                screen.end_interval(data, &self.so_far);
                true
            }
            None => context.is_of_a_part() || print_interval(&data, &self.so_far.watched.limits, context)?,
        };
        if context.keeps_metrics() {
            let so_far = self.so_far.summary(&self.machine, Vec::new(), context);
            // If this write fails, the final write reports the error.
            let _ = context.keep_metrics(&so_far.into());
        }
        Ok(is_read && !self.is_single_round() && !context.interrupted() && !self.is_over(self.machine.now_s()))
    }

    /// Reads the sources in rounds until the interval ends.
    fn rounds(&mut self) -> IntervalRounds {
        let context = self.context;
        let ends_s = self.machine.now_s() + self.arguments.interval.as_secs_f64();
        let mut done = IntervalRounds::default();
        loop {
            let taken: Vec<Burst> = self.kept.iter().map(|opened| self.bursts.read(opened.as_dyn())).collect();
            let happened = self.machine.happened(context);
            self.so_far.watch.set_tick_off_by(self.machine.tick_off_by_ppm());
            self.so_far.watch.take(Round { bursts: &taken, interrupted: !happened.is_empty() });
            if !happened.is_empty() {
                self.expect_beside_counter();
            }
            done.events.extend(happened);
            // A round in which a CPU goes offline or comes online is valid, because sources are system-wide.
            done.events.extend(self.machine.cpus_that_went_or_came(context));
            // Check the CPU once per round, between the readings of two rounds, so that the system call is not inside a
            // bracket.
            if self.presence.as_mut().is_some_and(|presence| !presence.stayed(self.machine.at())) {
                done.elsewhere += 1;
            }
            done.rounds += 1;
            let now_s = self.machine.now_s();
            let is_over = now_s >= ends_s || self.is_over(now_s);
            // A single round leaves nothing to compare. The run ends after a single round only if it is shorter than
            // the interval between two rounds.
            if self.is_single_round() || (is_over && done.rounds > 1) || context.interrupted() {
                return done;
            }
            if let (Some(progress), Some(duration)) = (&self.progress, self.arguments.duration) {
                progress.at_fraction((now_s - self.machine.begun_s) / duration.as_secs_f64());
            }
            if let Some(screen) = &mut self.screen {
                screen.update(&self.so_far, now_s - self.machine.begun_s);
            }
            crate::pause::pause(ROUND);
        }
    }

    /// Compares the counters of the next pairs of CPUs. Adds the CPUs that went offline or came online during the
    /// comparison to the events.
    fn compare_cpus(&mut self, opened: &Opened, events: &mut Vec<MachineEvent>) -> Vec<(SourceId, CoreOffset)> {
        let mut found = Vec::new();
        for pair in self.turns.next(self.machine.cpus.running.as_ref()) {
            match hand_over(opened, pair) {
                Ok(offset) => found.extend(offset),
                Err(refused) => {
                    let at_s = self.machine.at_s();
                    events.extend(self.machine.cpus_that_went_or_came(self.context));
                    // If a CPU went offline, an event with the time already reports that.
                    if [pair.0, pair.1].into_iter().all(|cpu| self.machine.cpus.is_running(cpu)) {
                        self.so_far.note_refusal(pair, &refused, at_s);
                    }
                }
            }
        }
        found
    }

    /// Ends the watch with a summary.
    fn end(mut self, not_run: NotRun, mut notes: Vec<String>) -> Document {
        drop(self.screen.take());
        let effect = "the brackets, and so the error bounds, may be wider than on an idle machine";
        notes.extend(not_run::note(&not_run, effect));
        self.so_far.not_run = Some(not_run);
        notes.extend(self.so_far.notes_of_cpus(self.cores.is_some()));
        notes.extend(common_counters(self.kept, self.reference, &self.counted_by, self.machine.at_s()));
        notes.extend(self.machine.blind_spot().filter(|_| self.so_far.has_seen_a_step()));
        notes.extend(self.context.notes());
        let data = self.so_far.summary(&self.machine, notes, self.context);
        let answer = match (data.faulty, terminal::was_compared(&data)) {
            (true, _) => Answer::No,
            (false, false) => Answer::Unknown,
            (false, true) => Answer::Yes,
        };
        let blocks = summary_page(&data);
        // CSV contains only the rows of the intervals.
        Document { answer, one_of_several: true, ..Document::new(data, blocks) }
    }
}

/// The rounds of an interval.
#[derive(Default)]
struct IntervalRounds {
    rounds: u64,
    /// The number of rounds in which the thread was not on its CPU.
    elsewhere: u64,
    events: Vec<MachineEvent>,
}
