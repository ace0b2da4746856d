//! `hpt watch`: follows sources beside a reference, and says when one misbehaves.

use std::{
    fs::File,
    io, thread,
    time::{Duration, SystemTime},
};

use clap::Args;
use hpt_core::{
    Host, Instant, Opened, SourceId, SourceInfo, TimeSource, calibrate, clock,
    diagnose::{
        Expected, Fault, Interval, Limits, Round, SourceEvent, Surroundings, Suspends, Watch, core_fault,
        suspended_between,
    },
    host::{CpuList, NewLogLines},
    knobs::Knob,
    measure::{Burst, Bursts, CoreOffset, core_offset},
    realtime::{PinWatch, Pinned, allowed_cpus},
    source::{self, ReadPath, Scope, are_one_reading, counter_of_clock_source},
};
use serde::Serialize;

use crate::{
    away::{self, Away},
    cli::{CpuChoice, after_help, apart, cpu_choice, interval, parts_per_million, window},
    clock_sources::common_counter,
    context::Context,
    exit::Failure,
    machine::Head,
    picture_option::PictureOption,
    realtime::pinned_to,
    render::{
        Align, Answer, Block, Cell, Column, Document, Table, Tone, print_one_of_several, remarks, rounded, short_time,
    },
};

const EXAMPLES: &str = "  \
  hpt watch --duration 10m                     ten minutes, a line a second
  hpt watch --source tsc --reference boottime  one source, beside another clock
  hpt watch --format json | jq .sources        a document a line, for programs";

/// Sources are read so often: a jump shows as far as it is larger than what their rates may explain in that time.
const ROUND: Duration = Duration::from_millis(10);
/// Timestamps that are handed over between two CPUs, in so much time at most.
const HANDOVERS: u32 = 400;
const LONGEST_HANDOVER: Duration = Duration::from_millis(20);
/// Pairs of CPUs that are looked at in one interval.
const PAIRS_IN_AN_INTERVAL: usize = 4;
/// How long a source is calibrated that nobody states a rate of.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(100);
/// What was measured without a bound says nothing of the rate.
const ANY_PPM: f64 = 1e6;
/// Coarser ones are watched on request only.
const COARSEST_NS: f64 = 1_000.0;
/// The course of a source has so many points at most, however long the watch is.
const LONGEST_COURSE: usize = 500;
/// A daemon that was started is found after so many intervals.
const INTERVALS_TO_LOOK_FOR_DAEMONS: u64 = 60;

/// Follow sources beside a reference, and say when one misbehaves
///
/// Every 10 ms each source is read between two readings of the reference. What is said of it lies outside of the brackets' widths: how far it is ahead, how far its
/// rate is off, whether it jumped, went back or stood still, and whether the counters of two CPUs are apart. Suspend and moves of a virtual machine are told, and
/// so is what a time daemon makes the kernel do.
#[derive(Debug, Args)]
#[command(after_help = after_help(EXAMPLES).replace("1  a negative answer: not usable, or not all could be calibrated", "1  a negative answer: a source misbehaved"))]
pub(crate) struct Arguments {
    /// Watch this source; may be given several times, or with commas [default: hpt's choice, all steady ones, and the kernel's clocks]
    #[arg(long, value_name = "SOURCE", value_delimiter = ',')]
    source: Vec<String>,
    /// Watch beside this source
    #[arg(long, value_name = "SOURCE", default_value = "monotonic-raw")]
    reference: String,
    /// Watch for so long, suspend included [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION", value_parser = window)]
    duration: Option<Duration>,
    /// Say what was seen so often
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Accept rates that are so many parts per million off, or change by so many [default: 50, and what the one who states the rate may be wrong]
    #[arg(long, value_name = "PPM", value_parser = parts_per_million)]
    limit_ppm: Option<f64>,
    /// Accept jumps of so much
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = apart)]
    limit_step: Duration,
    /// Accept so much between the counters of two CPUs
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = apart)]
    limit_cores: Duration,
    /// Do not compare the counters of CPUs, which takes two of them for some milliseconds in each interval
    #[arg(long)]
    no_cores: bool,
    /// Run on this CPU; `any` does not pin [default: the highest allowed]
    #[arg(long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    pub(crate) picture: PictureOption,
}

/// One source in one interval, for programs.
#[derive(Clone, Debug, Serialize)]
struct Row {
    interval: u64,
    at_s: f64,
    source: SourceId,
    bursts: u64,
    bracket_ns: Option<u64>,
    offset_ns: Option<f64>,
    offset_bound_ns: Option<f64>,
    frequency_error_ppm: Option<f64>,
    frequency_bound_ppm: Option<f64>,
    steps: u64,
    backwards: u64,
    set: u64,
    faults: Vec<&'static str>,
    said: Vec<String>,
}

/// The counters of two CPUs, for programs.
#[derive(Clone, Debug, Serialize)]
struct Cores {
    source: SourceId,
    first_cpu: usize,
    second_cpu: usize,
    least_ns: f64,
    most_ns: f64,
    handovers: u64,
    fault: Option<String>,
}

/// Something that happened to the machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Event {
    kind: &'static str,
    at_s: f64,
    suspended_ns: Option<u64>,
    said: String,
}

/// A time in which a CPU was offline.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Offline {
    cpu: usize,
    from_s: f64,
    /// `None` until the end.
    to_s: Option<f64>,
}

/// What a time daemon made the kernel do.
#[derive(Clone, Debug, Serialize)]
struct Synchronisation {
    readable: bool,
    synchronised: Option<bool>,
    status: Option<u32>,
    frequency_ppm: Option<f64>,
    tick_ppm: Option<f64>,
    maximum_error_ns: Option<u64>,
    estimated_error_ns: Option<u64>,
    daemons: Option<Vec<&'static str>>,
}

#[derive(Debug, Serialize)]
struct IntervalData {
    schema: u32,
    kind: &'static str,
    hpt: &'static str,
    interval: u64,
    at_s: f64,
    reference: SourceId,
    clock_source: Option<String>,
    rounds_elsewhere: u64,
    sources: Vec<Row>,
    cores: Vec<Cores>,
    events: Vec<Event>,
    shared_faults: Vec<String>,
    synchronisation: Synchronisation,
}

/// One source over all intervals, for programs.
#[derive(Clone, Debug, Serialize)]
struct SummaryRow {
    source: SourceId,
    expected_hz: f64,
    expected_by: &'static str,
    bursts: u64,
    bracket_ns: Option<u64>,
    offset_ns: Option<f64>,
    offset_bound_ns: Option<f64>,
    lowest_ppm: Option<f64>,
    lowest_bound_ppm: Option<f64>,
    highest_ppm: Option<f64>,
    highest_bound_ppm: Option<f64>,
    steps: u64,
    backwards: u64,
    set: u64,
    faults: u64,
    first_fault: Option<String>,
    /// When, how far it was ahead and within what, of intervals that are equally far apart: in seconds and nanoseconds.
    course: Vec<(f64, f64, f64)>,
    /// So many intervals are one further in it.
    #[serde(skip)]
    course_every: u64,
}

#[derive(Debug, Serialize)]
struct AcceptedLimits {
    rate_ppm: f64,
    statements_may_be_wrong: bool,
    step_ns: u64,
    core_offset_ns: u64,
}

#[derive(Debug, Serialize)]
struct SummaryData {
    #[serde(flatten)]
    head: Head,
    cpu: Option<usize>,
    reference: SourceId,
    limits: AcceptedLimits,
    watched_s: f64,
    intervals: u64,
    rounds: u64,
    away: Vec<Away>,
    misbehaved: bool,
    sources: Vec<SummaryRow>,
    cores: Vec<Cores>,
    events: Vec<Event>,
    offline: Vec<Offline>,
    shared_faults: Vec<String>,
    synchronisation: Synchronisation,
    interrupted: bool,
    notes: Vec<String>,
}

impl SummaryData {
    /// Whether at least the rate of one source was seen.
    fn was_compared(&self) -> bool {
        self.sources.iter().any(|source| source.lowest_ppm.is_some())
    }
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    context.listen()?;
    // Before this thread is pinned: then it may run on one only.
    let cpus = allowed_cpus();
    let pinned = context.pin(arguments.cpu)?;
    let reference = context.open(&arguments.reference)?;
    fit_for_reference(reference.as_dyn())?;
    let limits = Limits {
        rate_ppm: arguments.limit_ppm.unwrap_or(Limits::default().rate_ppm),
        statements_may_be_wrong: arguments.limit_ppm.is_none(),
        step: arguments.limit_step,
        core_offset: arguments.limit_cores,
    };
    let (sources, mut notes) = sources(arguments, context, reference.as_dyn())?;
    let mut machine = Marks::of(context)?;
    let mut bursts = Bursts::against(reference.as_dyn());
    let around = Surroundings::of(&context.host);
    let (mut kept, mut expected) = (Vec::new(), Vec::new());
    for opened in sources {
        match expected_of(opened.as_dyn(), reference.as_dyn(), &bursts, &around) {
            Some(expectation) => {
                if !expectation.is_stated() {
                    let id = &opened.as_dyn().info().id;
                    notes.push(format!(
                        "nobody states the rate of {id}: it is held against what it was in the beginning"
                    ));
                }
                expected.push(expectation);
                kept.push(opened);
            }
            None => notes
                .push(format!("{} has no rate beside the reference, and is not watched", opened.as_dyn().info().id)),
        }
    }
    if kept.is_empty() {
        return Err(Failure::Usage("none of these sources can be watched beside this reference; choose others"));
    }
    let cores = kept.iter().find(|opened| has_a_counter_on_each_core(opened)).filter(|_| !arguments.no_cores);
    let mut turns = Turns::among(cpus, context.host.online_cpus().as_ref());
    let mut presence = pinned.as_ref().map(|pinned| PinWatch::of(pinned.cpu(), &context.host));
    let expectations = |counter| expected.iter().map(|expected| expected.beside(counter)).collect::<Vec<_>>();
    let mut so_far = SoFar::beginning(&expected, Watch::over(&expectations(machine.counter(context)), limits));
    let mut counted_by = vec![(0.0, machine.counter(context))];
    let is_one_round = arguments.duration.is_some_and(|duration| duration < ROUND);

    // What was done until now takes its time on a busy machine, which is not time that was watched.
    machine.begin(context);
    so_far.watch.expect(&expectations(machine.counter(context)));
    loop {
        let synchronisation = so_far.synchronisation(context);
        let ends_s = machine.now_s() + arguments.interval.as_secs_f64();
        let over_s = arguments.duration.map(|duration| machine.begun_s + duration.as_secs_f64());
        let mut events = Vec::new();
        let (mut rounds, mut elsewhere) = (0_u64, 0_u64);
        loop {
            let taken: Vec<Burst> = kept.iter().map(|opened| bursts.take(opened.as_dyn())).collect();
            let happened = machine.happened(context);
            so_far.watch.set_tick_off_by(machine.tick_off_by_ppm());
            so_far.watch.take(Round { bursts: &taken, interrupted: !happened.is_empty() });
            if !happened.is_empty() {
                let counter = machine.counter(context);
                so_far.watch.expect(&expectations(counter));
                if counted_by.last().is_none_or(|&(_, before)| before != counter) {
                    counted_by.push((machine.at_s(), counter));
                }
            }
            events.extend(happened);
            // A round in which a CPU goes or comes is as good as any other: sources are of the whole machine.
            events.extend(machine.cpus_that_went_or_came(context));
            // Once a round, between the readings of two rounds: a system call, which is in no bracket.
            if presence.as_mut().is_some_and(|presence| !presence.stayed(machine.at())) {
                elsewhere += 1;
            }
            rounds += 1;
            let now_s = machine.now_s();
            let is_over = now_s >= ends_s || over_s.is_some_and(|over_s| now_s >= over_s);
            // One round alone is held against nothing: that is for who asked for less time than lies between two.
            if is_one_round || (is_over && rounds > 1) || context.interrupted() {
                break;
            }
            thread::sleep(ROUND);
        }
        let offsets = match cores {
            Some(opened) if !context.interrupted() => {
                let mut found = Vec::new();
                for pair in turns.next(machine.cpus.running.as_ref()) {
                    match hand_over(opened, pair) {
                        Ok(offset) => found.extend(offset),
                        Err(refused) => {
                            let at_s = machine.at_s();
                            events.extend(machine.cpus_that_went_or_came(context));
                            // That one of them is offline is told with its time.
                            if [pair.0, pair.1].into_iter().all(|cpu| machine.cpus.is_running(cpu)) {
                                so_far.note_refusal(pair, &refused, at_s);
                            }
                        }
                    }
                }
                found
            }
            Some(_) | None => Vec::new(),
        };
        so_far.follow(presence.as_ref(), &machine.cpus);
        let interval = (offsets, events, elsewhere);
        let data = so_far.end_interval(&machine, reference.as_dyn(), interval, synchronisation, &limits, context);
        let is_read = context.is_of_a_part() || print_interval(&data, context)?;
        if context.keeps_metrics() {
            let so_far = so_far.summary(
                &machine,
                reference.as_dyn(),
                pinned.as_ref().map(Pinned::cpu),
                &limits,
                Vec::new(),
                context,
            );
            // The last one tells of it where it cannot be kept.
            let _ = context.keep_metrics(&serde_json::to_value(&so_far).expect("numbers, names and lists"));
        }
        let now_s = machine.now_s();
        if !is_read || is_one_round || context.interrupted() || over_s.is_some_and(|over_s| now_s >= over_s) {
            break;
        }
    }
    notes.extend(so_far.notes_of_cpus(cores.is_some()));
    notes.extend(common_counters(&kept, reference.as_dyn(), &counted_by, machine.at_s()));
    notes.extend(machine.blind_spot().filter(|_| so_far.has_seen_a_step()));
    notes.extend(context.notes());
    let data = so_far.summary(&machine, reference.as_dyn(), pinned.as_ref().map(Pinned::cpu), &limits, notes, context);
    let answer = match (data.misbehaved, data.was_compared()) {
        (true, _) => Answer::No,
        (false, false) => Answer::Unknown,
        (false, true) => Answer::Yes,
    };
    let blocks = summary_page(&data);
    // CSV has the rows of the intervals, and no other ones.
    Ok(Document { answer, one_of_several: true, ..Document::new(&data, "", blocks) })
}

// --- what is watched ---

fn fit_for_reference(reference: &dyn TimeSource) -> Result<(), Failure> {
    let info = reference.info();
    match (info.scope, info.nominal) {
        (Scope::System, Some(_)) => Ok(()),
        (Scope::System, None) => {
            Err(Failure::Usage("the reference has no stated rate; choose one of the kernel's clocks"))
        }
        (Scope::Core | Scope::Process | Scope::Thread, _) => {
            Err(Failure::Usage("the reference counts no time of the whole machine; choose one of the kernel's clocks"))
        }
    }
}

/// The sources asked for; without any, hpt's choice, all fine ones that are steady, and wall time.
fn sources(
    arguments: &Arguments,
    context: &Context,
    reference: &dyn TimeSource,
) -> Result<(Vec<Opened>, Vec<String>), Failure> {
    let mut notes = Vec::new();
    let beside = &reference.info().id;
    if !arguments.source.is_empty() {
        if let Some(same) = arguments.source.iter().find(|name| are_one_reading(name, beside.as_str())) {
            return Err(Failure::BesideItself { watched: same.clone(), reference: beside.to_string() });
        }
        let opened = context.open_all(&arguments.source)?;
        let (time, other): (Vec<_>, Vec<_>) =
            opened.into_iter().partition(|opened| opened.as_dyn().info().scope == Scope::System);
        notes.extend(other.iter().map(|opened| {
            let info = opened.as_dyn().info();
            format!("{} counts per {}, not time, and is not watched", info.id, info.scope.name())
        }));
        return Ok((time, notes));
    }
    let worth_it = |info: &SourceInfo| {
        let fine = info.resolution_ns().is_none_or(|resolution_ns| resolution_ns <= COARSEST_NS);
        let wall_time = info.id.as_str() == "realtime";
        info.scope == Scope::System && !info.revocable && fine && (info.steady || wall_time)
    };
    let names = source::outline(&context.host)
        .into_iter()
        .filter(|report| !are_one_reading(report.id.as_str(), beside.as_str()))
        .filter(|report| report.availability.as_ref().is_ok_and(worth_it));
    Ok((names.filter_map(|report| source::open(&context.host, report.id.as_str()).ok()).collect(), notes))
}

/// What may be expected of a source; one whose rate nobody states is measured.
fn expected_of(
    source: &dyn TimeSource,
    reference: &dyn TimeSource,
    bursts: &Bursts<'_>,
    around: &Surroundings,
) -> Option<Expected> {
    let (granules, info) = (bursts.granules(source), source.info());
    Expected::by_statements(info.clone(), reference.info(), granules, around).or_else(|| {
        let measured = calibrate::calibrate(source, reference, CALIBRATION_WINDOW).ok()?;
        let rate = (measured.frequency, measured.bound_ppm().unwrap_or(ANY_PPM));
        Expected::by_measurement(info.clone(), rate, reference.info(), granules, around)
    })
}

/// That the reference counted by what is watched, and from when to when where that changed.
fn common_counters(
    watched: &[Opened],
    reference: &dyn TimeSource,
    counted_by: &[(f64, Option<&str>)],
    end_s: f64,
) -> Vec<String> {
    let ends_s = counted_by.iter().skip(1).map(|(from_s, _)| *from_s).chain([end_s]);
    let spans = counted_by.iter().zip(ends_s);
    let notes = spans.filter_map(|((from_s, counter), to_s)| {
        let note = common_counter(watched.iter().map(|opened| &opened.as_dyn().info().id), reference, *counter)?;
        Some(if counted_by.len() == 1 { note } else { format!("from {from_s} s to {to_s} s, {note}") })
    });
    notes.collect()
}

/// The first CPU with each of the others.
fn pairs(cpus: &[usize]) -> Vec<(usize, usize)> {
    match cpus.split_first() {
        Some((&first, others)) => others.iter().map(|&other| (first, other)).collect(),
        None => Vec::new(),
    }
}

/// Which CPUs are compared, a few pairs in each interval.
struct Turns {
    /// Those that hpt may use.
    allowed: Vec<usize>,
    /// Whether it may use all there are: then one that comes online later is compared as well.
    are_all: bool,
    place: usize,
}

impl Turns {
    fn among(allowed: Vec<usize>, online: Option<&CpuList>) -> Self {
        let are_all = online.is_some_and(|online| online.iter().all(|cpu| allowed.contains(&cpu)));
        Self { allowed, are_all, place: 0 }
    }

    /// The next pairs: the first CPU that runs is compared with the others that run.
    fn next(&mut self, running: Option<&CpuList>) -> Vec<(usize, usize)> {
        let cpus: Vec<usize> = match running {
            Some(running) if self.are_all => running.iter().collect(),
            Some(running) => self.allowed.iter().copied().filter(|&cpu| running.contains(cpu)).collect(),
            None => self.allowed.clone(),
        };
        let pairs = pairs(&cpus);
        let now = pairs.iter().cycle().skip(self.place % pairs.len().max(1));
        let now: Vec<_> = now.take(PAIRS_IN_AN_INTERVAL.min(pairs.len())).copied().collect();
        self.place = self.place.wrapping_add(now.len());
        now
    }
}

fn has_a_counter_on_each_core(opened: &Opened) -> bool {
    let info = opened.as_dyn().info();
    matches!(opened, Opened::Shared(_)) && info.steady && info.read_path == ReadPath::Register
}

fn hand_over(opened: &Opened, cpus: (usize, usize)) -> io::Result<Option<(SourceId, CoreOffset)>> {
    let Opened::Shared(source) = opened else { return Ok(None) };
    let info = source.info();
    let Some(nominal) = &info.nominal else { return Ok(None) };
    let begun = Instant::now();
    let in_time = || begun.elapsed() < LONGEST_HANDOVER;
    let offset = core_offset(source.as_ref(), nominal.frequency, cpus, HANDOVERS, &in_time)?;
    Ok(offset.map(|offset| (info.id.clone(), offset)))
}

/// The CPUs that run, and when others did not.
#[derive(Debug, Default)]
struct Cpus {
    /// `None` where neither sysfs nor /proc tells.
    running: Option<CpuList>,
    offline: Vec<Offline>,
}

impl Cpus {
    fn is_running(&self, cpu: usize) -> bool {
        self.running.as_ref().is_none_or(|running| running.contains(cpu))
    }

    /// Takes what runs now, and says what changed. What is not told has not changed.
    fn follow(&mut self, now: Option<CpuList>, at_s: f64) -> Vec<Event> {
        let (Some(was), Some(now)) = (self.running.as_ref(), now.as_ref()) else {
            self.running = now.or(self.running.take());
            return Vec::new();
        };
        if was == now {
            return Vec::new();
        }
        let event = |kind, said| Event { kind, at_s, suspended_ns: None, said };
        let mut events = Vec::new();
        for cpu in was.iter().filter(|&cpu| !now.contains(cpu)) {
            events.push(event("cpu-offline", format!("CPU {cpu} went offline")));
            self.offline.push(Offline { cpu, from_s: at_s, to_s: None });
        }
        for cpu in now.iter().filter(|&cpu| !was.contains(cpu)) {
            events.push(event("cpu-online", format!("CPU {cpu} came online")));
            let open = self.offline.iter_mut().find(|offline| offline.cpu == cpu && offline.to_s.is_none());
            if let Some(offline) = open {
                offline.to_s = Some(at_s);
            }
        }
        self.running = Some(now.clone());
        events
    }
}

// --- what happens to the machine meanwhile ---

/// Clocks and files that tell of what interrupts every comparison.
struct Marks {
    monotonic: Opened,
    boottime: Opened,
    told_by: ToldBy,
    begun_s: f64,
    last: Look,
    tick_ppm: f64,
    cpus: Cpus,
}

/// What tells of the kernel's clock source.
struct ToldBy {
    log: Option<NewLogLines>,
    /// The file that it is set by. It stays open: of a file that nobody has open the kernel may forget when it was written to.
    setting: Option<File>,
}

/// What they tell at one moment.
#[derive(Clone, Debug)]
struct Look {
    suspends: Suspends,
    disruption: Option<u64>,
    clock_source: Option<String>,
    /// The clock sources that the kernel's log says it turned to since the last look.
    turned_to: Vec<String>,
    log_is_read: bool,
    /// When somebody emptied the file that it is set by, as shells do before they write to it; the kernel itself does not.
    set_at: Option<SystemTime>,
    /// How far wall time may be off, as the kernel reckons.
    maximum_error: Option<Duration>,
}

impl Marks {
    fn of(context: &Context) -> Result<Self, Failure> {
        let (monotonic, boottime) = (context.open("monotonic")?, context.open("boottime")?);
        let setting = File::open(Knob::clock_source().path()).ok();
        let mut told_by = ToldBy { log: context.host.new_log_lines().ok(), setting };
        let last = look(&monotonic, &boottime, &mut told_by, &context.host);
        Ok(Self { monotonic, boottime, told_by, begun_s: 0.0, last, tick_ppm: 0.0, cpus: Cpus::default() })
    }

    /// From here on it is watched.
    fn begin(&mut self, context: &Context) {
        self.last = look(&self.monotonic, &self.boottime, &mut self.told_by, &context.host);
        self.cpus = Cpus { running: context.host.online_cpus(), offline: Vec::new() };
        self.begun_s = self.now_s();
    }

    /// CLOCK_BOOTTIME in seconds: suspend counts.
    fn now_s(&self) -> f64 {
        Duration::from_nanos(self.boottime.as_dyn().ticks_end()).as_secs_f64()
    }

    fn at_s(&self) -> f64 {
        rounded(self.now_s() - self.begun_s)
    }

    fn at(&self) -> Duration {
        Duration::try_from_secs_f64(self.now_s() - self.begun_s).unwrap_or_default()
    }

    /// Which CPUs went offline or came online since the last look.
    fn cpus_that_went_or_came(&mut self, context: &Context) -> Vec<Event> {
        let now = context.host.online_cpus();
        let at_s = self.at_s();
        self.cpus.follow(now, at_s)
    }

    /// The source that the kernel counts by now, where that is one of hpt's.
    fn counter(&self, context: &Context) -> Option<&'static str> {
        self.last.clock_source.as_deref().and_then(|name| counter_of_clock_source(&context.host, name))
    }

    /// How far the kernel's tick is off the usual one now, or was at the last look.
    fn tick_off_by_ppm(&mut self) -> f64 {
        let now_ppm = clock::discipline().map_or(0.0, |is| is.tick_ppm.abs());
        now_ppm.max(std::mem::replace(&mut self.tick_ppm, now_ppm))
    }

    /// What happened since the last look.
    fn happened(&mut self, context: &Context) -> Vec<Event> {
        let mut now = look(&self.monotonic, &self.boottime, &mut self.told_by, &context.host);
        let events = between(&self.last, &mut now, self.at_s());
        self.last = now;
        events
    }

    /// What would not be seen.
    fn blind_spot(&self) -> Option<String> {
        self.told_by.log.is_none().then(|| {
            "the kernel's log may not be read by this user, so a clock source of the kernel's that came and went within 10 ms may count as a step; run as root to \
             rule that out"
                .to_owned()
        })
    }
}

fn look(monotonic: &Opened, boottime: &Opened, told_by: &mut ToldBy, host: &Host) -> Look {
    let suspends = Suspends {
        before_ns: monotonic.as_dyn().ticks_end(),
        boottime_ns: boottime.as_dyn().ticks_end(),
        after_ns: monotonic.as_dyn().ticks_end(),
    };
    let disruption = clock::disruption_marker();
    // Before the log, so that this one is not newer: the kernel writes to its log first.
    let clock_source = host.clock_sources().current;
    let log_is_read = told_by.log.is_some();
    let set_at = told_by.setting.as_ref().and_then(|file| file.metadata().ok()?.modified().ok());
    let lines = told_by.log.as_mut().map(NewLogLines::take).unwrap_or_default();
    let turned_to = lines.iter().filter_map(|line| line.turned_to_clock_source().map(str::to_owned)).collect();
    let maximum_error = clock::discipline().ok().map(|is| is.maximum_error);
    Look { suspends, disruption, clock_source, turned_to, log_is_read, set_at, maximum_error }
}

/// What the kernel reckons when it was told nothing, or its clock was set or counts by something else since. Linux, kernel/time/ntp.c, `ntp_clear`.
const NOTHING_KNOWN: Duration = Duration::from_secs(16);

/// What happened between two looks. What the later one does not tell is taken from the earlier one.
fn between(earlier: &Look, later: &mut Look, at_s: f64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut tell = |kind, suspended_ns, said| events.push(Event { kind, at_s, suspended_ns, said });
    if let Some(suspended_ns) = suspended_between(earlier.suspends, later.suspends) {
        let said = format!("the machine was suspended for {:.3} s", Duration::from_nanos(suspended_ns).as_secs_f64());
        tell("suspend", Some(suspended_ns), said);
    }
    if later.disruption.is_some() && earlier.disruption.is_some() && later.disruption != earlier.disruption {
        tell(
            "migration",
            None,
            "the machine was moved to another host, or stopped and started again (vmclock)".to_owned(),
        );
    }
    later.disruption = later.disruption.or(earlier.disruption);
    let turned_to = std::mem::take(&mut later.turned_to);
    if let Some(last) = turned_to.last() {
        later.clock_source = Some(last.clone());
    }
    later.clock_source = later.clock_source.take().or_else(|| earlier.clock_source.clone());
    let was_set = later.set_at.zip(earlier.set_at).is_some_and(|(is, was)| is != was);
    let name = |source: &Option<String>| source.clone().unwrap_or_else(|| "none".to_owned());
    if later.clock_source != earlier.clock_source {
        let (was, is) = (name(&earlier.clock_source), name(&later.clock_source));
        tell("clock-source", None, format!("the kernel's clock source was {was}, and is {is}"));
    } else if !turned_to.is_empty() {
        let turns = turned_to.join(", then to ");
        let said =
            format!("the kernel's clock source was {}, and turned to {turns} (its log)", name(&earlier.clock_source));
        tell("clock-source", None, said);
    } else if was_set && !later.log_is_read {
        let said = format!(
            "the kernel's clock source was {0}, was set, and is {0}: another one may have come and gone",
            name(&earlier.clock_source)
        );
        tell("clock-source", None, said);
    }
    let all_is_forgotten =
        |is: Duration, was: Duration| is >= NOTHING_KNOWN && was < NOTHING_KNOWN.saturating_sub(Duration::from_secs(1));
    // The log would tell which of the two it was, and setting wall time is no reason to begin anew.
    let forgot = later.maximum_error.zip(earlier.maximum_error).is_some_and(|(is, was)| all_is_forgotten(is, was));
    if forgot && !later.log_is_read && events.is_empty() {
        let said = "the kernel does not count as synchronised any more: its wall time was set, or its clock source came and went";
        events.push(Event { kind: "desynchronised", at_s, suspended_ns: None, said: said.to_owned() });
    }
    events
}

// --- what was seen ---

struct SoFar {
    watch: Watch,
    rows: Vec<SummaryRow>,
    worst_cores: Vec<Cores>,
    events: Vec<Event>,
    away: Vec<Away>,
    offline: Vec<Offline>,
    refusals: Vec<Refusal>,
    shared_faults: Vec<String>,
    daemons: Option<Vec<&'static str>>,
    intervals: u64,
    synchronisation: Option<Synchronisation>,
}

/// Two CPUs that could not be compared, although both run.
#[derive(Debug)]
struct Refusal {
    cpus: (usize, usize),
    reason: String,
    first_s: f64,
    last_s: f64,
    times: u64,
}

impl SoFar {
    fn beginning(expected: &[Expected], watch: Watch) -> Self {
        let row = |expected: &Expected| {
            let by = if expected.is_stated() { expected.nominal().stated_by.name() } else { "measurement" };
            SummaryRow::beginning(expected.id.clone(), expected.nominal().frequency.hertz_f64(), by)
        };
        Self {
            watch,
            rows: expected.iter().map(row).collect(),
            worst_cores: Vec::new(),
            events: Vec::new(),
            away: Vec::new(),
            offline: Vec::new(),
            refusals: Vec::new(),
            shared_faults: Vec::new(),
            daemons: None,
            intervals: 0,
            synchronisation: None,
        }
    }

    fn has_seen_a_step(&self) -> bool {
        !self.shared_faults.is_empty() || self.rows.iter().any(|row| row.steps > 0)
    }

    /// Takes where the thread and the other CPUs were until now.
    fn follow(&mut self, presence: Option<&PinWatch<'_>>, cpus: &Cpus) {
        self.away = presence.map_or_else(Vec::new, Away::all_of);
        self.offline.clone_from(&cpus.offline);
    }

    fn note_refusal(&mut self, cpus: (usize, usize), refused: &io::Error, at_s: f64) {
        let reason = refused.to_string();
        match self.refusals.iter_mut().find(|known| known.cpus == cpus && known.reason == reason) {
            Some(known) => {
                known.last_s = at_s;
                known.times += 1;
            }
            None => self.refusals.push(Refusal { cpus, reason, first_s: at_s, last_s: at_s, times: 1 }),
        }
    }

    /// Returns notes on CPUs that were offline.
    fn notes_of_cpus(&self, are_compared: bool) -> Vec<String> {
        let away = away::notes(&self.away, "rounds of readings were made there");
        let then = if are_compared { ": it was compared with other CPUs in the rest of the time only" } else { "" };
        // That the thread's own CPU was offline has been said.
        let is_new = |offline: &&Offline| !self.away.iter().any(|away| away.is_of_offline(offline.cpu));
        let offline = self.offline.iter().filter(is_new).map(|offline| {
            format!("CPU {} was offline {}{then}", offline.cpu, away::span(offline.from_s, offline.to_s))
        });
        let refused = self.refusals.iter().map(|refusal| {
            let Refusal { cpus: (first, second), reason, first_s, last_s, times } = refusal;
            let when = if *times == 1 {
                format!("at {first_s} s")
            } else {
                format!("in {times} intervals from {first_s} s to {last_s} s")
            };
            format!("CPU {first} and CPU {second} could not be compared {when}, although both were online: {reason}")
        });
        away.into_iter().chain(offline).chain(refused).collect()
    }

    fn synchronisation(&mut self, context: &Context) -> Synchronisation {
        if self.intervals.is_multiple_of(INTERVALS_TO_LOOK_FOR_DAEMONS) {
            self.daemons = context.host.time_daemons();
        }
        let is = clock::discipline().ok();
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Synchronisation {
            readable: is.is_some(),
            synchronised: is.map(|is| is.synchronised),
            status: is.map(|is| is.status),
            frequency_ppm: is.map(|is| rounded(is.frequency_ppm)),
            tick_ppm: is.map(|is| rounded(is.tick_ppm)),
            maximum_error_ns: is.map(|is| ns(is.maximum_error)),
            estimated_error_ns: is.map(|is| ns(is.estimated_error)),
            daemons: self.daemons.clone(),
        }
    }

    fn end_interval(
        &mut self,
        machine: &Marks,
        reference: &dyn TimeSource,
        (offsets, events, rounds_elsewhere): (Vec<(SourceId, CoreOffset)>, Vec<Event>, u64),
        synchronisation: Synchronisation,
        limits: &Limits,
        context: &Context,
    ) -> IntervalData {
        let (intervals, all) = self.watch.end_interval();
        self.intervals += 1;
        let at_s = machine.at_s();
        let rows: Vec<Row> = self
            .rows
            .iter()
            .zip(&intervals)
            .map(|(sum, interval)| row(self.intervals, at_s, &sum.source, interval))
            .collect();
        for ((sum, row), interval) in self.rows.iter_mut().zip(&rows).zip(&intervals) {
            sum.add(row, interval);
        }
        let cores: Vec<Cores> = offsets.into_iter().map(|(source, offset)| cores(source, &offset, limits)).collect();
        for found in &cores {
            let is_of_both =
                |kept: &&mut Cores| (kept.first_cpu, kept.second_cpu) == (found.first_cpu, found.second_cpu);
            match self.worst_cores.iter_mut().find(is_of_both) {
                Some(kept) if is_worse(found, kept) => kept.clone_from(found),
                Some(_) => {}
                None => self.worst_cores.push(found.clone()),
            }
        }
        let shared_faults: Vec<String> = all.iter().map(Fault::to_string).collect();
        self.shared_faults.extend_from_slice(&shared_faults);
        self.events.extend_from_slice(&events);
        self.synchronisation = Some(synchronisation.clone());
        IntervalData {
            schema: 1,
            kind: "watch",
            hpt: env!("CARGO_PKG_VERSION"),
            interval: self.intervals,
            at_s,
            reference: reference.info().id.clone(),
            clock_source: context.host.clock_sources().current,
            rounds_elsewhere,
            sources: rows,
            cores,
            events,
            shared_faults,
            synchronisation,
        }
    }

    fn summary(
        &mut self,
        machine: &Marks,
        reference: &dyn TimeSource,
        cpu: Option<usize>,
        limits: &Limits,
        notes: Vec<String>,
        context: &Context,
    ) -> SummaryData {
        let synchronisation = self.synchronisation(context);
        let misbehaved = self.rows.iter().any(|row| row.faults > 0)
            || !self.shared_faults.is_empty()
            || self.worst_cores.iter().any(|cores| cores.fault.is_some());
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        SummaryData {
            head: Head::of("watch-summary", &context.host),
            cpu,
            reference: reference.info().id.clone(),
            limits: AcceptedLimits {
                rate_ppm: limits.rate_ppm,
                statements_may_be_wrong: limits.statements_may_be_wrong,
                step_ns: ns(limits.step),
                core_offset_ns: ns(limits.core_offset),
            },
            watched_s: machine.at_s(),
            intervals: self.intervals,
            rounds: self.watch.summary().rounds,
            away: self.away.clone(),
            misbehaved,
            sources: self.rows.clone(),
            cores: self.worst_cores.clone(),
            events: self.events.clone(),
            offline: self.offline.clone(),
            shared_faults: self.shared_faults.clone(),
            synchronisation,
            interrupted: context.interrupted(),
            notes,
        }
    }
}

impl SummaryRow {
    /// Of a source of which nothing was seen yet.
    fn beginning(source: SourceId, expected_hz: f64, expected_by: &'static str) -> Self {
        Self {
            source,
            expected_hz,
            expected_by,
            bursts: 0,
            bracket_ns: None,
            offset_ns: None,
            offset_bound_ns: None,
            lowest_ppm: None,
            lowest_bound_ppm: None,
            highest_ppm: None,
            highest_bound_ppm: None,
            steps: 0,
            backwards: 0,
            set: 0,
            faults: 0,
            first_fault: None,
            course: Vec::new(),
            course_every: 1,
        }
    }

    fn add(&mut self, row: &Row, interval: &Interval) {
        self.bursts += interval.bursts;
        self.bracket_ns = self.bracket_ns.into_iter().chain(interval.bracket_ns).min();
        (self.offset_ns, self.offset_bound_ns) =
            (row.offset_ns.or(self.offset_ns), row.offset_bound_ns.or(self.offset_bound_ns));
        if let Some((off_ppm, bound_ppm)) = row.frequency_error_ppm.zip(row.frequency_bound_ppm) {
            if self.lowest_ppm.is_none_or(|lowest| off_ppm < lowest) {
                (self.lowest_ppm, self.lowest_bound_ppm) = (Some(off_ppm), Some(bound_ppm));
            }
            if self.highest_ppm.is_none_or(|highest| off_ppm > highest) {
                (self.highest_ppm, self.highest_bound_ppm) = (Some(off_ppm), Some(bound_ppm));
            }
        }
        self.steps += interval.steps;
        self.backwards += interval.backwards;
        self.set += interval.set;
        self.faults += interval.faults.len() as u64;
        if self.first_fault.is_none() {
            self.first_fault = interval.faults.first().map(|fault| format!("after {} s: {fault}", row.at_s));
        }
        if (row.interval - 1).is_multiple_of(self.course_every)
            && let Some((offset_ns, bound_ns)) = row.offset_ns.zip(row.offset_bound_ns)
        {
            self.course.push((row.at_s, offset_ns, bound_ns));
        }
        if self.course.len() > LONGEST_COURSE {
            self.course_every *= 2;
            let mut place = 0_usize;
            self.course.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}

fn row(number: u64, at_s: f64, source: &SourceId, interval: &Interval) -> Row {
    let said = interval.faults.iter().map(Fault::to_string).chain(interval.events.iter().map(happening));
    Row {
        interval: number,
        at_s,
        source: source.clone(),
        bursts: interval.bursts,
        bracket_ns: interval.bracket_ns,
        offset_ns: interval.offset_ns.map(|(offset_ns, _)| rounded(offset_ns)),
        offset_bound_ns: interval.offset_ns.map(|(_, bound_ns)| rounded(bound_ns)),
        frequency_error_ppm: interval.rate_ppm.map(|(low, high)| rounded(f64::midpoint(low, high))),
        frequency_bound_ppm: interval.rate_ppm.map(|(low, high)| rounded((high - low) / 2.0)),
        steps: interval.steps,
        backwards: interval.backwards,
        set: interval.set,
        faults: interval.faults.iter().map(Fault::name).collect(),
        said: said.collect(),
    }
}

fn happening(event: &SourceEvent) -> String {
    match event {
        SourceEvent::WasSet { least_ns, most_ns } => {
            format!("was set, by {:.6} to {:.6} s", least_ns / 1e9, most_ns / 1e9)
        }
        SourceEvent::SmallStep { least_ns, most_ns } => {
            format!("stepped by {least_ns:.0} to {most_ns:.0} ns, which is accepted")
        }
        SourceEvent::Lost => "may have wrapped unseen: the comparison began anew".to_owned(),
        other => format!("{other:?}"),
    }
}

fn cores(source: SourceId, offset: &CoreOffset, limits: &Limits) -> Cores {
    Cores {
        source,
        first_cpu: offset.cpus.0,
        second_cpu: offset.cpus.1,
        least_ns: rounded(offset.least_ns),
        most_ns: rounded(offset.most_ns),
        handovers: offset.handovers,
        fault: core_fault(offset, limits).map(|fault| fault.to_string()),
    }
}

/// A fault is worse than none; else the tighter one tells more.
fn is_worse(one: &Cores, other: &Cores) -> bool {
    let width = |cores: &Cores| cores.most_ns - cores.least_ns;
    match (one.fault.is_some(), other.fault.is_some()) {
        (true, false) => true,
        (false, true) => false,
        (_, _) => width(one) < width(other),
    }
}

// --- for people ---

fn print_interval(data: &IntervalData, context: &Context) -> Result<bool, Failure> {
    let blocks = vec![Block::Text(lines(data))];
    let document = Document { one_of_several: true, ..Document::new(data, "sources", blocks) };
    print_one_of_several(&document, context.format, data.interval == 1).map_err(Failure::Print)
}

/// A line for each source, and one for everything that happened.
fn lines(data: &IntervalData) -> String {
    let mut lines = Vec::new();
    if data.interval == 1 {
        lines.push(format!(
            "{:>9} {:17} {:>12} {:>9} {:>10} {:>9} {:>8}",
            "after", "source", "offset", "±", "off ppm", "±", "bracket"
        ));
    }
    let after = format!("{:.1} s", data.at_s);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), signed_time);
    let ppm = |ppm: Option<f64>| ppm.map_or_else(|| "-".to_owned(), |ppm| format!("{ppm:.3}"));
    for row in &data.sources {
        #[expect(clippy::cast_precision_loss, reason = "a bracket is far below 2^53 ns")]
        let bracket = row.bracket_ns.map(|ns| ns as f64);
        lines.push(format!(
            "{after:>9} {:17} {:>12} {:>9} {:>10} {:>9} {:>8}",
            row.source.as_str(),
            time(row.offset_ns),
            time(row.offset_bound_ns),
            ppm(row.frequency_error_ppm),
            ppm(row.frequency_bound_ppm),
            time(bracket)
        ));
        lines.extend(row.said.iter().map(|said| format!("{after:>9} {} {said}", row.source)));
    }
    for cores in &data.cores {
        let between = format!("{} CPU {}-{}", cores.source, cores.first_cpu, cores.second_cpu);
        let (least, most) = (signed_time(cores.least_ns), signed_time(cores.most_ns));
        lines.push(format!("{after:>9} {between:17} {least:>12} to {most}"));
        lines.extend(cores.fault.iter().map(|fault| format!("{after:>9} {} {fault}", cores.source)));
    }
    lines.extend(data.shared_faults.iter().map(|said| format!("{after:>9} {said}")));
    lines.extend(data.events.iter().map(|event| format!("{after:>9} {}", event.said)));
    lines.join("\n")
}

fn signed_time(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", short_time(ns.abs()))
}

fn summary_page(data: &SummaryData) -> Vec<Block> {
    let columns = [
        Column("source", Align::Left),
        Column("offset", Align::Right),
        Column("±", Align::Right),
        Column("ppm from", Align::Right),
        Column("±", Align::Right),
        Column("to", Align::Right),
        Column("±", Align::Right),
        Column("steps", Align::Right),
        Column("back", Align::Right),
        Column("set", Align::Right),
        Column("faults", Align::Right),
    ];
    let ppm = |ppm: f64| format!("{ppm:.3}");
    let rows = data.sources.iter().map(|row| {
        vec![
            Cell::plain(row.source.as_str()),
            Cell::or_dash(row.offset_ns.map(signed_time)),
            Cell::or_dash(row.offset_bound_ns.map(signed_time)),
            Cell::or_dash(row.lowest_ppm.map(ppm)),
            Cell::or_dash(row.lowest_bound_ppm.map(ppm)),
            Cell::or_dash(row.highest_ppm.map(ppm)),
            Cell::or_dash(row.highest_bound_ppm.map(ppm)),
            Cell::plain(row.steps.to_string()),
            Cell::plain(row.backwards.to_string()),
            Cell::plain(row.set.to_string()),
            Cell(row.faults.to_string(), if row.faults > 0 { Tone::Bad } else { Tone::Good }),
        ]
    });
    let mut blocks = vec![
        Block::Section("In all".to_owned(), Vec::new()),
        Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }),
    ];
    let first = data.sources.iter().filter_map(|row| {
        row.first_fault.as_ref().map(|fault| vec![Cell(row.source.to_string(), Tone::Bad), Cell::plain(fault)])
    });
    let of_cores = data.cores.iter().filter_map(|cores| {
        cores.fault.as_ref().map(|fault| vec![Cell(cores.source.to_string(), Tone::Bad), Cell::plain(fault)])
    });
    let shared = data.shared_faults.first().map(|fault| vec![Cell("all".to_owned(), Tone::Bad), Cell::plain(fault)]);
    let faults: Vec<Vec<Cell>> = first.chain(of_cores).chain(shared).collect();
    if !faults.is_empty() {
        blocks.push(Block::Section("Misbehaved, at first".to_owned(), faults));
    }
    if !data.cores.is_empty() {
        let lines = data.cores.iter().map(|cores| {
            let (least, most) = (signed_time(cores.least_ns), signed_time(cores.most_ns));
            let number =
                if cores.handovers == 1 { "1 hand-over".to_owned() } else { format!("{} hand-overs", cores.handovers) };
            let text = format!("{least} to {most} ahead of CPU {}, by {number}", cores.first_cpu);
            vec![Cell::plain(format!("CPU {}", cores.second_cpu)), Cell::plain(text)]
        });
        let title = format!("{} on other CPUs", data.cores[0].source);
        blocks.push(Block::Section(title, lines.collect()));
    }
    if !data.events.is_empty() {
        let lines =
            data.events.iter().map(|event| vec![Cell::faint(format!("{} s", event.at_s)), Cell::plain(&event.said)]);
        blocks.push(Block::Section("What happened to the machine".to_owned(), lines.collect()));
    }
    blocks.push(Block::Text(synchronised(&data.synchronisation)));
    let verdict = match (data.misbehaved, data.was_compared()) {
        (true, _) => "Misbehaviour was seen.",
        (false, true) => "No misbehaviour was seen.",
        (false, false) => "Nothing can be told: there was too little to compare; watch for longer.",
    };
    let also = if data.limits.statements_may_be_wrong { ", and what the one who states it may be wrong" } else { "" };
    #[expect(clippy::cast_precision_loss, reason = "limits are a second at most")]
    let (step, core_offset) = (short_time(data.limits.step_ns as f64), short_time(data.limits.core_offset_ns as f64));
    let cpu = pinned_to(data.cpu) + &away::except(&data.away);
    blocks.push(Block::Text(format!(
        "{verdict} {} intervals, {} rounds of readings in {:.1} s beside {}. Accepted: {} ppm off the stated rate{also}, steps of {step}, {core_offset} between \
         CPUs. offset: gained on the reference by the stated rate, since the last interruption. ppm: the lowest and the highest of an interval, each with its bound. {cpu}. {}",
        data.intervals,
        data.rounds,
        data.watched_s,
        data.reference,
        data.limits.rate_ppm,
        data.head.machine.line()
    )));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

fn synchronised(is: &Synchronisation) -> String {
    let daemons = match &is.daemons {
        None => "which time daemon runs is not known: /proc shows no processes".to_owned(),
        Some(daemons) if daemons.is_empty() => "no time daemon is seen".to_owned(),
        Some(daemons) => format!("running: {}", daemons.join(", ")),
    };
    match (is.synchronised, is.frequency_ppm, is.tick_ppm) {
        (Some(synchronised), Some(frequency_ppm), Some(tick_ppm)) => {
            let word = if synchronised { "synchronised" } else { "not synchronised" };
            #[expect(clippy::cast_precision_loss, reason = "for printing")]
            let error = is.maximum_error_ns.map_or_else(|| "not told".to_owned(), |ns| short_time(ns as f64));
            format!(
                "The kernel counts as {word}, at most {error} off; its clocks are bent by {frequency_ppm:.3} ppm, its tick by {tick_ppm:.1} ppm; {daemons}."
            )
        }
        (_, _, _) => format!("Whether the kernel is synchronised is not known: adjtimex is refused; {daemons}."),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        time::{Duration, SystemTime},
    };

    use hpt_core::{
        Frequency, Host, SourceId, SourceInfo,
        calibrate::Granules,
        diagnose::{Expected, Fault, Interval, Limits, SourceEvent, Surroundings, Suspends},
        host::{Capture, CpuList, Entry, ReadRefused},
        measure::CoreOffset,
        source::{self, Nominal, StatedBy},
    };

    use super::{
        AcceptedLimits, Cpus, Event, IntervalData, Look, Offline, SummaryData, SummaryRow, Synchronisation, Turns,
        between, cores, is_worse, lines, pairs, row, signed_time, summary_page,
    };
    use crate::{
        away,
        context::Context,
        render::{Block, Document, golden},
    };

    fn interval(offset_ns: f64, rate_ppm: (f64, f64), faults: Vec<Fault>) -> Interval {
        Interval {
            bursts: 97,
            bracket_ns: Some(40),
            offset_ns: Some((offset_ns, 63.5)),
            rate_ppm: Some(rate_ppm),
            steps: faults.len() as u64,
            backwards: 0,
            set: 0,
            faults,
            events: vec![SourceEvent::SmallStep { least_ns: 900.0, most_ns: 1_100.0 }],
        }
    }

    fn synchronisation() -> Synchronisation {
        Synchronisation {
            readable: true,
            synchronised: Some(true),
            status: Some(0x2001),
            frequency_ppm: Some(-12.345),
            tick_ppm: Some(0.0),
            maximum_error_ns: Some(1_500_000),
            estimated_error_ns: Some(20_000),
            daemons: Some(vec!["chronyd"]),
        }
    }

    fn seen() -> (IntervalData, SummaryData) {
        let (tsc, monotonic) = (SourceId::new("tsc"), SourceId::new("monotonic"));
        let stepped = Fault::Stepped { least_ns: -20_100.0, most_ns: -20_300.0 };
        let intervals =
            [interval(-1_481.5, (1.426, 1.552), vec![stepped]), interval(11.0, (-0.075, 0.073), Vec::new())];
        let rows: Vec<_> =
            [&tsc, &monotonic].into_iter().zip(&intervals).map(|(id, interval)| row(1, 1.006, id, interval)).collect();
        let offset = |least_ns, most_ns| CoreOffset { cpus: (0, 1), least_ns, most_ns, handovers: 400 };
        let apart = vec![cores(tsc.clone(), &offset(4_900.0, 5_100.0), &Limits::default())];
        let said = "the machine was suspended for 5.999 s".to_owned();
        let events = vec![Event { kind: "suspend", at_s: 0.5, suspended_ns: Some(5_999_000_000), said }];
        let mut summary: Vec<SummaryRow> =
            rows.iter().map(|row| SummaryRow::beginning(row.source.clone(), 1e9, "definition")).collect();
        for ((sum, row), interval) in summary.iter_mut().zip(&rows).zip(&intervals) {
            sum.add(row, interval);
        }
        let interval = IntervalData {
            schema: 1,
            kind: "watch",
            hpt: "0.0.0",
            interval: 1,
            at_s: 1.006,
            reference: SourceId::new("monotonic-raw"),
            clock_source: Some("tsc".to_owned()),
            rounds_elsewhere: 0,
            sources: rows,
            cores: apart.clone(),
            events: events.clone(),
            shared_faults: Vec::new(),
            synchronisation: synchronisation(),
        };
        let all = SummaryData {
            head: golden::head("watch-summary"),
            cpu: Some(1),
            reference: SourceId::new("monotonic-raw"),
            limits: AcceptedLimits {
                rate_ppm: 50.0,
                statements_may_be_wrong: true,
                step_ns: 5_000,
                core_offset_ns: 1_000,
            },
            watched_s: 1.006,
            intervals: 1,
            rounds: 97,
            away: vec![away::tests::example()],
            misbehaved: true,
            sources: summary,
            cores: apart,
            events,
            offline: vec![Offline { cpu: 3, from_s: 0.25, to_s: None }],
            shared_faults: Vec::new(),
            synchronisation: synchronisation(),
            interrupted: true,
            notes: vec!["a note".to_owned()],
        };
        (interval, all)
    }

    #[test]
    fn an_interval_is_printed_to_the_letter() {
        let (data, _) = seen();
        let document = Document::new(&data, "sources", vec![Block::Text(lines(&data))]);
        golden::assert("watch", &Document { one_of_several: true, ..document });
        assert!(lines(&data).lines().all(|line| line.chars().count() <= 80), "{}", lines(&data));
    }

    #[test]
    fn a_summary_is_printed_to_the_letter() {
        let (_, data) = seen();
        golden::assert(
            "watch-summary",
            &Document { one_of_several: true, ..Document::new(&data, "", summary_page(&data)) },
        );
    }

    #[test]
    fn the_first_cpu_is_compared_with_each_other() {
        assert_eq!(pairs(&[0, 2, 3]), [(0, 2), (0, 3)]);
        assert!(pairs(&[4]).is_empty() && pairs(&[]).is_empty());
    }

    fn list(text: &str) -> CpuList {
        CpuList::parse(text).expect("a list")
    }

    #[test]
    fn the_first_cpu_that_runs_is_compared_with_the_others_that_run() {
        let mut turns = Turns::among(vec![0, 1, 2, 3], Some(&list("0-3")));
        assert_eq!(turns.next(Some(&list("0-3"))), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(turns.next(Some(&list("1-3"))), [(1, 3), (1, 2)], "the turn goes on");
        assert_eq!(turns.next(Some(&list("2"))), []);
        assert_eq!(turns.next(None).len(), 3, "where it is not told, all are tried");
        // One that comes later, where hpt may use all of them; and where it may not.
        assert!(turns.next(Some(&list("0-4"))).contains(&(0, 4)));
        let mut some = Turns::among(vec![1, 3], Some(&list("0-3")));
        assert_eq!((some.next(Some(&list("0-3"))), some.next(Some(&list("0-2")))), (vec![(1, 3)], vec![]));
    }

    #[test]
    fn many_cpus_take_turns() {
        let cpus: Vec<usize> = (0..8).collect();
        let mut turns = Turns::among(cpus, Some(&list("0-7")));
        let mut seen: Vec<_> = (0..2).flat_map(|_| turns.next(Some(&list("0-7")))).map(|(_, second)| second).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn cpus_that_go_and_come_are_told_with_their_times() {
        let mut cpus = Cpus { running: Some(list("0-3")), offline: Vec::new() };
        let kinds = |events: Vec<Event>| events.into_iter().map(|event| (event.kind, event.said)).collect::<Vec<_>>();
        assert!(cpus.follow(Some(list("0-3")), 1.0).is_empty() && cpus.follow(None, 1.5).is_empty());
        let went = ("cpu-offline", "CPU 1 went offline".to_owned());
        assert_eq!(kinds(cpus.follow(Some(list("0,2-3")), 2.0)), [went]);
        assert!(!cpus.is_running(1) && cpus.is_running(0));
        let came = ("cpu-online", "CPU 1 came online".to_owned());
        assert_eq!(kinds(cpus.follow(Some(list("0-3")), 4.5)), [came]);
        cpus.follow(Some(list("1-3")), 5.0);
        let off = |cpu, from_s, to_s| Offline { cpu, from_s, to_s };
        assert_eq!(cpus.offline, [off(1, 2.0, Some(4.5)), off(0, 5.0, None)]);
    }

    #[test]
    fn a_fault_of_two_cores_is_kept_before_the_tightest_limits() {
        let found = |least_ns, most_ns| {
            cores(
                SourceId::new("tsc"),
                &CoreOffset { cpus: (0, 1), least_ns, most_ns, handovers: 1 },
                &Limits::default(),
            )
        };
        let (tight, wide, apart) = (found(-10.0, 10.0), found(-1e6, 1e6), found(2_000.0, 9_000.0));
        assert!(is_worse(&tight, &wide) && is_worse(&apart, &tight) && !is_worse(&tight, &apart));
    }

    /// A look at a machine on which nothing happens, so many seconds after it was started.
    fn look(at_s: u64) -> Look {
        let ns = at_s * 1_000_000_000;
        Look {
            suspends: Suspends { before_ns: ns, boottime_ns: ns + 20, after_ns: ns + 40 },
            disruption: Some(1),
            clock_source: Some("tsc".to_owned()),
            turned_to: Vec::new(),
            log_is_read: true,
            set_at: Some(SystemTime::UNIX_EPOCH),
            maximum_error: Some(Duration::from_millis(30)),
        }
    }

    fn told(earlier: &Look, mut later: Look) -> (Vec<&'static str>, Option<String>) {
        let events = between(earlier, &mut later, 1.0);
        (events.iter().map(|event| event.kind).collect(), later.clock_source)
    }

    #[test]
    fn where_nothing_happens_nothing_is_told() {
        assert!(told(&look(1), look(2)).0.is_empty());
        let nothing =
            |at_s| Look { disruption: None, clock_source: None, maximum_error: None, log_is_read: false, ..look(at_s) };
        assert!(told(&look(1), nothing(2)).0.is_empty() && told(&nothing(1), nothing(2)).0.is_empty());
        assert_eq!(told(&look(1), nothing(2)).1.as_deref(), Some("tsc"), "what is not told has not changed");
    }

    #[test]
    fn a_suspend_and_a_move_of_the_machine_are_told() {
        let mut slept = look(2);
        slept.suspends.boottime_ns += 6_000_000_000;
        assert_eq!(told(&look(1), slept).0, ["suspend"]);
        let moved = Look { disruption: Some(2), ..look(2) };
        assert_eq!(told(&look(1), moved.clone()).0, ["migration"]);
        // A marker that is being changed is none, and is held against the last one that was.
        let mut changing = Look { disruption: None, ..look(2) };
        assert!(between(&look(1), &mut changing, 1.0).is_empty());
        assert_eq!(told(&changing, moved).0, ["migration"]);
    }

    #[test]
    fn another_clock_source_is_told_once_whichever_speaks_of_it_first() {
        let hpet = || Some("hpet".to_owned());
        let by_sysfs = Look { clock_source: hpet(), log_is_read: false, ..look(2) };
        assert_eq!(told(&look(1), by_sysfs), (vec!["clock-source"], hpet()));
        // The file was read before the change, and the log after it.
        let mut by_log = Look { turned_to: vec!["hpet".to_owned()], ..look(2) };
        let events = between(&look(1), &mut by_log, 1.0);
        assert_eq!((events.len(), &by_log.clock_source), (1, &hpet()));
        assert!(told(&by_log, Look { clock_source: hpet(), ..look(3) }).0.is_empty());
    }

    #[test]
    fn a_clock_source_that_came_and_went_between_two_looks_is_told_by_the_log() {
        let turned = Look { turned_to: vec!["hpet".to_owned(), "tsc".to_owned()], ..look(2) };
        assert_eq!(told(&look(1), turned), (vec!["clock-source"], Some("tsc".to_owned())));
    }

    #[test]
    fn where_the_log_is_closed_a_clock_source_that_was_set_to_what_it_was_is_told() {
        let set = |log_is_read| Look {
            set_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(9)),
            log_is_read,
            ..look(2)
        };
        assert_eq!(told(&look(1), set(false)), (vec!["clock-source"], Some("tsc".to_owned())));
        // The log would tell if the kernel had turned to another one.
        assert!(told(&look(1), set(true)).0.is_empty());
        // It is told once, also where the kernel forgot its synchronisation by it.
        let forgot = Look { maximum_error: Some(Duration::from_secs(16)), ..set(false) };
        assert_eq!(told(&look(1), forgot).0, ["clock-source"]);
        let other = Look { clock_source: Some("hpet".to_owned()), ..set(false) };
        assert_eq!(told(&look(1), other).0, ["clock-source"]);
    }

    #[test]
    fn where_the_log_is_closed_a_kernel_that_forgot_its_synchronisation_is_told() {
        let forgot = |log_is_read| Look { maximum_error: Some(Duration::from_secs(16)), log_is_read, ..look(2) };
        assert_eq!(told(&look(1), forgot(false)).0, ["desynchronised"]);
        // The log would have told of another clock source: wall time was set, which is no reason to begin anew.
        assert!(told(&look(1), forgot(true)).0.is_empty());
        // It was so before, and with no daemon the error grows until it is so.
        assert!(told(&forgot(false), forgot(false)).0.is_empty());
        let grown = Look { maximum_error: Some(Duration::from_micros(15_999_500)), ..look(1) };
        assert!(told(&grown, forgot(false)).0.is_empty());
    }

    /// What the TSC of a captured machine is held against beside the kernel's clock.
    fn tsc_on(host: &Host) -> Option<Expected> {
        let mut reports = source::outline(host).into_iter();
        let tsc = reports.find(|report| report.id.as_str() == "tsc").expect("it is listed");
        let mut reference = SourceInfo::new(SourceId::new("monotonic-raw"));
        reference.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition });
        reference.steady = true;
        let granules = Granules { source_ticks: 1, reference_ns: 1 };
        let tsc = tsc.availability.expect("it has one");
        Expected::by_statements(tsc, &reference, granules, &Surroundings::of(host))
    }

    #[test]
    fn the_rate_that_the_kernel_goes_by_is_found_where_it_says_so() {
        let path =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../hpt-core/tests/hosts/{name}.capture"));
        let host = |name: &str| Context::captured(&path(name)).expect("it is there");
        // By BogoMIPS of a kernel that was told the rate, by what another said in its log; and one that tells its log to nobody.
        let mut closed = Capture::open(&path("qemu-q35")).expect("it is there");
        closed.insert("dev/kmsg", Entry::Unreadable(ReadRefused::PermissionDenied)).expect("a sound path");
        let closed = Host::captured(closed, host("qemu-q35").facts().clone());
        for (name, host, is_known) in [
            ("amd-epyc-zen3-kvm", host("amd-epyc-zen3-kvm"), true),
            ("qemu-q35", host("qemu-q35"), true),
            ("closed", closed, false),
        ] {
            let tsc = tsc_on(&host).expect("its rate is stated");
            assert_eq!(tsc.beside(Some("tsc")) != tsc.beside(None), is_known, "{name}");
        }
        assert!(tsc_on(&host("derived-no-tsc-flags")).is_none(), "nobody states it: it is measured");
    }

    #[test]
    fn times_have_a_sign() {
        assert_eq!((signed_time(-1_500.0), signed_time(63.5)), ("-1.5 µs".to_owned(), "63.5 ns".to_owned()));
    }
}
