//! `hpt latency gpio`: measures the latency of GPIO edges.

mod document;
mod edge_figures;
mod line;
mod list;
mod requested;
mod terminal;

use serde::{Deserialize, Serialize};
use std::{
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use clap::Args;
use hpt_core::{Instant, PosixClock, PosixId, TimeSource};
use hpt_document::{
    conditions::Conditions,
    cpu_absence::CpuAbsence,
    explain::Explanation,
    gpio_latency::{GpioFigure, GpioLatencyDocument, GpioListening},
    gpio_line::{GpioDrive, GpioLine},
    latency::{ClockReads, LatencyThread},
    not_run::NotRun,
};
use hpt_instrument::{
    gpio::{GpioError, LineName},
    measure::{EdgeCounts, EdgeLatency, EdgeOutcome, EdgeReport, EdgeTimes, NotRunWatch, ReadOverhead},
};
use hpt_realtime::{Behavior, PinWatch};
use hpt_sys::cast::signed;

use self::{
    document::rows,
    edge_figures::{EdgeFigures, EdgeSample, figure_help, head, latency_of, start_of},
    line::{line_of, line_words},
    list::{LIST, list},
    requested::{RequestedLines, behavior, is_same},
    terminal::{page, what_was_wrong},
};
use crate::{
    arguments::{Codes, after_help, duration_in, word, word_with_help},
    context::{Context, continue_if},
    exit::{Failure, causes},
    measurements::common_options::{CommonOptions, CpuOption},
    output::{
        Block, Document,
        chart_option::ChartOption,
        latency_files::ThreadLatencies,
        metrics::{self, gauge::Gauge},
        saturating_nanos,
    },
    sampling::{
        conditions::ConditionOptions,
        cpu_absences,
        cpu_options::NOTHING_LEFT,
        explain::{Awaited, ExplainOptions, Feed},
        limits::{
            option::{GPIO_HELP, LimitOptions},
            quantity::Accepted,
            verdict::{LimitedRow, verdicts},
        },
        live_lines::Snapshot,
        not_run,
        observers::{Explained, Observation},
        raw_samples::Backlog,
        realtime_options::ThreadOptions,
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{self, Attention, Probe, Run, RunReport, RunSettings, RunThread},
        run_length::RunLength,
        warm_up::{SAMPLES, WarmUpOption},
    },
};

const EXAMPLES: &str = "  \
  hpt latency gpio --list                      list chips, lines and their users
  hpt latency gpio --output-line GPIO22 --input-line GPIO23
                                               an edge every millisecond, 10 s
  sudo hpt latency gpio --chip gpiochip0 --output-line 22 --input-line 23 \\
    --cpu 3 -P f:80 --duration 18h --write line=counts";

/// The kind of the `hpt latency gpio` document.
const KIND: &str = "latency-gpio";

const BY: &str = "hpt latency gpio";
const RAW: &str = "Also write every edge to FILE: CPU number, time at which the line was driven, and the three latencies, in nanoseconds";
/// The number of consecutive lost edges after which the run ends.
const GIVE_UP_AFTER: u32 = 3;

const NO_LINES: &str = "choose two lines that are wired together with --output-line and --input-line; `hpt latency gpio --list` lists \
                        the lines";

const NO_TIMESTAMPS: &str =
    "with --listen level, edges have no timestamps of the kernel, so there is only the figure end-to-end";

/// Measure the latency of GPIO edges
///
/// Toggles an output line once per interval. A wire carries each edge to the input line, where it raises an interrupt
/// and the kernel timestamps it. The measuring thread waits for the edge and reads its timestamp. hpt restores both
/// lines at the end. It refuses lines that are in use. On a Raspberry Pi 1 to 4, --drive registers and --listen level
/// leave out the kernel on either side.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_long_help = after_help(Codes::measuring(Some("a latency exceeded --stop-above or --limit, or an edge was lost")), EXAMPLES), mut_arg("raw", |raw| raw.help(RAW)), mut_arg("limit", |limit| limit.long_help(GPIO_HELP).hide_short_help(true)))]
pub(crate) struct GpioArguments {
    /// GPIO line to drive, such as GPIO22, 22 or gpiochip0:22
    #[arg(long, value_name = "LINE")]
    output_line: Option<LineName>,
    /// GPIO line to monitor, wired to the output line
    #[arg(long, value_name = "LINE")]
    input_line: Option<LineName>,
    /// GPIO chip of lines given without a chip [default: the only chip]
    ///
    /// A name (gpiochip0), a device (/dev/gpiochip0) or a label.
    #[arg(long, value_name = "CHIP", hide_short_help = true)]
    chip: Option<String>,
    /// List chips, lines and their users; change nothing
    #[arg(long, conflicts_with_all = ["output_line", "input_line"])]
    list: bool,
    /// How to drive the output line
    ///
    /// kernel: with a system call, whose time is part of the latency. registers: with a write to GPSET or GPCLR of a
    /// Raspberry Pi 1 to 4, without one.
    #[arg(long, value_parser = word::<GpioDrive>(), value_name = "HOW", default_value = "kernel", hide_short_help = true)]
    drive: GpioDrive,
    /// How to wait for an edge
    ///
    /// poll: block in poll(2). spin: busy-wait with repeated reads. level: busy-wait with reads of GPLEV of a Raspberry
    /// Pi 1 to 4, without interrupts and the kernel; the input line may then be the output line, whose level is read
    /// back.
    #[arg(long, value_parser = word::<GpioListening>(), value_name = "HOW", default_value = "poll", hide_short_help = true)]
    listen: GpioListening,
    /// Count an edge as lost after this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = timeout, hide_short_help = true)]
    timeout: Duration,
    #[command(flatten)]
    run_length: RunLength,
    #[command(flatten)]
    warm_up: WarmUpOption,
    /// Which latency to chart, write to files and check with limits
    #[arg(long, value_parser = word_with_help(figure_help), value_name = "FIGURE", default_value = "end-to-end", hide_short_help = true)]
    figure: GpioFigure,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    keeping: ResultOptions,
    #[command(flatten)]
    conditions: ConditionOptions,
    #[command(flatten)]
    explain: ExplainOptions,
    #[command(flatten)]
    thread: ThreadOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

fn timeout(text: &str) -> Result<Duration, String> {
    duration_in(text, (Duration::from_micros(100), Duration::from_secs(3_600)), ("between 100us and 1h", "100ms or 1s"))
}

/// The result of the measuring thread.
#[derive(Clone)]
struct EdgeThreadOutcome {
    settings: EffectiveSettings,
    cpu: Option<usize>,
    counts: EdgeCounts,
    absences: Vec<CpuAbsence>,
    not_run: NotRun,
    warnings: Vec<String>,
}

impl GpioArguments {
    pub(in crate::measurements) fn common(&mut self) -> CommonOptions<'_> {
        if self.list {
            return CommonOptions::default();
        }
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::LATENCY)),
            has_length: self.run_length.is_given(),
            duration: Some(&mut self.run_length.duration),
            cpu: CpuOption::One(&mut self.thread.cpu),
            realtime: Some(&self.thread.realtime),
            spins: behavior(self.listen) == Behavior::Spins,
            explain: Some(&mut self.explain),
            ..CommonOptions::default()
        }
    }

    pub(super) const fn kind(&self) -> &'static str {
        if self.list { LIST } else { KIND }
    }
}

pub(crate) fn run(arguments: &GpioArguments, context: &Context) -> Result<Document, Failure> {
    if arguments.list {
        return Ok(list(context, arguments.chip.as_deref()));
    }
    let (Some(out), Some(input)) = (&arguments.output_line, &arguments.input_line) else {
        return Err(Failure::Usage(NO_LINES));
    };
    if arguments.listen == GpioListening::Level && arguments.figure != GpioFigure::EndToEnd {
        return Err(Failure::Usage(NO_TIMESTAMPS));
    }
    arguments.thread.check_cpu()?;
    // No signal may end hpt before both lines are restored.
    arguments.thread.realtime.listen_for_all(true, context)?;
    let behavior = behavior(arguments.listen);
    if behavior == Behavior::Spins && arguments.thread.leaves_nothing(context) {
        return Err(Failure::Usage(NOTHING_LEFT));
    }
    let chip = arguments.chip.as_deref();
    let out = out.clone().or_on(chip).find()?;
    let input = input.clone().or_on(chip).find()?;
    let places = (line_of(&out.chip, &out.line), line_of(&input.chip, &input.line));
    if arguments.listen != GpioListening::Level && is_same(&out, &input) {
        return Err(GpioError::SameLine { line: line_words(&places.0) }.into());
    }
    arguments.keeping.check()?;
    let raw = arguments.keeping.raw()?;
    let clock = PosixClock::open(&context.host, PosixId::Monotonic)
        .map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
    let source = clock.info().id.to_string();
    let lines = RequestedLines::new((&out, &input), (arguments.drive, arguments.listen), &context.host)?;
    let reads = lines.wire(clock).clock_read_overhead();
    let cpus = [arguments.thread.cpu(context)];
    let explained = Explained {
        options: arguments.explain,
        limits: arguments.limits.limits(),
        stop_above_ns: arguments.keeping.limit_ns(),
        awaited: Awaited::Edge,
        behavior,
    };
    let settings = RunSettings {
        kind: KIND,
        observation: Observation { cpus: &cpus, conditions: arguments.conditions, explained: Some(explained) },
        run_length: arguments.run_length,
        warm_up: arguments.warm_up,
        attention: Attention::Constant,
        sleepers: 1,
        keeping: &arguments.keeping,
        raw,
        whole: None,
    };
    let probe = EdgeProbe {
        arguments,
        context,
        places: (&places.0, &places.1),
        cpu: cpus[0],
        source: &source,
        reads,
        figures: Mutex::new(EdgeFigures::new()),
        outcome: Mutex::new(None),
        lines: Some(lines),
    };
    run::run(probe, settings, context).map(Document::from)
}

/// A measurement of edges.
struct EdgeProbe<'a> {
    arguments: &'a GpioArguments,
    context: &'a Context,
    /// The output line and the input line.
    places: (&'a GpioLine, &'a GpioLine),
    /// The CPU that was requested or chosen.
    cpu: Option<usize>,
    source: &'a str,
    reads: ReadOverhead,
    figures: Mutex<EdgeFigures>,
    /// The outcome so far, after the settings of the thread were applied.
    outcome: Mutex<Option<EdgeThreadOutcome>>,
    /// The lines, until they are released.
    lines: Option<RequestedLines>,
}

impl Probe for EdgeProbe<'_> {
    type Sample = EdgeSample;
    type Outcome = EdgeThreadOutcome;
    type Data = GpioLatencyDocument;

    const LATER: Option<&'static str> = Some("lost and unexpected edges are counted at the end");

    fn sample(&self, thread: RunThread<'_, EdgeSample>) -> Result<EdgeThreadOutcome, Failure> {
        let Self { arguments, context, .. } = *self;
        let held = arguments.thread.hold(context, behavior(arguments.listen), BY)?;
        let mut outcome = EdgeThreadOutcome {
            settings: held.settings(),
            cpu: held.cpu(),
            counts: EdgeCounts::default(),
            absences: Vec::new(),
            not_run: NotRun::default(),
            warnings: Vec::new(),
        };
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome.clone());
        let mut presence = held.cpu().map(|cpu| PinWatch::new(cpu, &context.host));
        // The thread blocks between edges, even if it busy-waits for the edge itself.
        let mut watch = NotRunWatch::of_blocking_thread(&context.host, held.cpu());
        let EdgeReport { counts, error, .. } = self.take_samples(&thread, presence.as_mut())?;
        outcome.not_run = watch.read();
        outcome.absences = presence.as_ref().map_or_else(Vec::new, cpu_absences::all_of);
        outcome.counts = counts;
        outcome.warnings = held.end();
        outcome.warnings.extend(error.map(|error| format!("the lines can no longer be used: {error}")));
        Ok(outcome)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let (figures, figure) = (self.figures(), self.arguments.figure);
        vec![Snapshot { cpu: self.cpu, latencies: figures.of(figure).clone(), last_ns: figures.last_ns(figure) }]
    }

    fn counts(&self) -> Option<Vec<ThreadLatencies>> {
        let cpu = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|outcome| outcome.cpu);
        Some(vec![ThreadLatencies { cpu, latencies: self.figures().of(self.arguments.figure).clone() }])
    }

    fn gauges(&self, _: &[ThreadLatencies]) -> Vec<Gauge> {
        metrics::gpio::gauges(self.places, &rows(&self.figures()), None, None)
    }

    fn outcomes_so_far(&self) -> Option<Vec<EdgeThreadOutcome>> {
        Some(vec![self.outcome.lock().unwrap_or_else(PoisonError::into_inner).clone()?])
    }

    fn settings(outcome: &EdgeThreadOutcome) -> &EffectiveSettings {
        &outcome.settings
    }

    fn restore(&mut self, outcomes: &[EdgeThreadOutcome]) -> Vec<String> {
        let released = self.lines.take().map(RequestedLines::release).unwrap_or_default();
        let outcome = only(outcomes);
        // Lost edges are reported in a warning and in a note. Other irregular edges are reported only in a note.
        let lost = (outcome.counts.lost > 0).then(|| self.wrong(outcome).first().cloned()).flatten();
        outcome.warnings.iter().cloned().chain(released.iter().map(|error| causes(error))).chain(lost).collect()
    }

    fn row(&self, run: &Run<'_, EdgeSample>, outcomes: &[EdgeThreadOutcome], state: RunReport) -> GpioLatencyDocument {
        let Self { arguments, context, places: (out, input), source, ref reads, .. } = *self;
        let (outcome, figures) = (only(outcomes), self.figures());
        let EdgeThreadOutcome { cpu, counts, absences, not_run, .. } = outcome;
        let wrong = self.wrong(outcome).into_iter().filter(|wrong| !state.remarks.contains(wrong)).collect();
        let away = ["edge received there is not counted", "edges received there are not counted"];
        let not_run_note = not_run::note_on_included([(*cpu, not_run)], "the latencies above include this time");
        let notes = [
            context.notes(),
            state.settings.notes(),
            state.remarks,
            wrong,
            cpu_absences::notes(absences, away),
            Vec::from_iter(not_run_note),
            run.notes(SAMPLES),
        ];
        let limited = LimitedRow::of_latencies(head(arguments.figure).to_owned(), figures.of(arguments.figure));
        GpioLatencyDocument {
            head: run.head.clone(),
            output_line: out.clone(),
            input_line: input.clone(),
            drive: arguments.drive,
            listen: arguments.listen,
            interval_ns: saturating_nanos(arguments.run_length.interval),
            timeout_ns: saturating_nanos(arguments.timeout),
            cpu: *cpu,
            measuring: LatencyThread { thread: state.settings.thread, source: source.to_owned() },
            reads: ClockReads { clock_read_ns: reads.overhead_ns, clock_granularity_ns: reads.granularity_ns },
            time: run.time(state.elapsed),
            lost: counts.lost,
            unexpected: counts.unexpected,
            dropped: counts.dropped,
            out_of_window: counts.out_of_window,
            figure: arguments.figure,
            not_run: not_run.clone(),
            end: run.end(absences.clone()),
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            limits: verdicts(arguments.limits.limits(), &[limited]),
            results: rows(&figures),
            notes: notes.concat(),
        }
    }

    fn page(&self, data: &GpioLatencyDocument, _: &[EdgeThreadOutcome]) -> Vec<Block> {
        page(data, self.figures().of(self.arguments.figure))
    }
}

fn only(outcomes: &[EdgeThreadOutcome]) -> &EdgeThreadOutcome {
    outcomes.first().expect("the only thread has an outcome")
}

impl EdgeProbe<'_> {
    /// Returns a copy of the latencies so far.
    fn figures(&self) -> EdgeFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns notes on irregular edges.
    fn wrong(&self, outcome: &EdgeThreadOutcome) -> Vec<String> {
        let is_delayed = self.arguments.listen == GpioListening::Spin && outcome.settings.is_before_interrupts();
        what_was_wrong(&outcome.counts, self.places, self.arguments.timeout, is_delayed)
    }

    /// Drives one line and waits for edges on the other.
    fn take_samples(
        &self,
        thread: &RunThread<'_, EdgeSample>,
        mut presence: Option<&mut PinWatch<'_>>,
    ) -> Result<EdgeReport, Failure> {
        let (arguments, shared) = (self.arguments, thread.shared);
        let lines = self.lines.as_ref().expect("they are released after the last sample");
        let clock = PosixClock::open(&self.context.host, PosixId::Monotonic)
            .map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
        let mut wire = lines.wire(clock);
        // The warm-up ends at `start`. This thread checks the end time itself, because the supervising thread may not be
        // scheduled in time.
        let start = Instant::now().saturating_add(arguments.warm_up.length());
        shared.begin(start);
        let end = arguments.run_length.end(start);
        let limit_ns = arguments.keeping.limit_ns();
        let cpu = presence.as_ref().map(|presence| presence.cpu());
        let mut backlog = Backlog::new(&self.figures, EdgeFigures::record);
        let mut lines_of_raw = thread.raw.map(|raw| raw.of_thread(cpu));
        let mut feed = thread.observers.feed(cpu);
        let (mut came, mut lost_in_a_row, mut has_come) = (0_u64, 0, false);
        let interval = arguments.run_length.interval;
        let edges = EdgeLatency::new(&mut wire, interval)
            .with_start(Instant::now() + interval.min(Duration::from_millis(1)))
            .with_first_level(!lines.first_level())
            .with_timeout(arguments.timeout)
            .with_interrupter(shared.interrupter(0))
            .with_check(|| shared.check());
        Ok(edges.run(|outcome| {
            match outcome {
                EdgeOutcome::Arrived { times, .. } if Instant::from_nanos(signed(times.driven_ns)) < start => {
                    (has_come, lost_in_a_row) = (true, 0);
                    shared.discard(1);
                }
                EdgeOutcome::Arrived { times, missed } => {
                    // This code runs after the edge has arrived, so no sample includes its duration.
                    let since = start.elapsed();
                    let is_there = presence.as_mut().is_none_or(|presence| presence.is_there(since));
                    if is_there && latency_of(arguments.figure, &times).is_some_and(|ns| ns > limit_ns) {
                        shared.stop_at(Instant::from_nanos(signed(times.driven_ns)));
                    }
                    if let Some(feed) = feed.as_mut().filter(|_| is_there) {
                        offer(feed, arguments.figure, &times);
                    }
                    let sample = EdgeSample { times, missed };
                    // Edges received on another CPU are not counted for this CPU.
                    if is_there {
                        backlog.add(sample);
                    }
                    if let Some(lines) = lines_of_raw.as_mut().filter(|_| is_there) {
                        lines.add(sample);
                    }
                    (came, lost_in_a_row, has_come) = (came + 1, 0, true);
                    shared.count_one();
                }
                // If no edge has arrived so far, the lines are probably not connected.
                _ if !has_come => return ControlFlow::Break(()),
                _ => lost_in_a_row += 1,
            }
            let is_enough =
                arguments.run_length.count.is_some_and(|wanted| came >= wanted) || lost_in_a_row >= GIVE_UP_AFTER;
            continue_if(shared.goes_on() && Instant::now() < end && !is_enough)
        }))
    }
}

/// Offers the chosen latency of an edge to be explained.
fn offer(feed: &mut Feed, figure: GpioFigure, times: &EdgeTimes) {
    if let Some((start_ns, latency_ns)) = start_of(figure, times).zip(latency_of(figure, times)) {
        feed.offer(start_ns, latency_ns);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::timeout;

    #[test]
    fn a_timeout_has_limits() {
        assert_eq!(timeout("100ms"), Ok(Duration::from_millis(100)));
        assert!(["0s", "1us", "2h", "1", ""].iter().all(|wrong| timeout(wrong).is_err()));
    }
}
