//! `hpt latency gpio`: measures the latency of GPIO edges.

mod document;
mod edge_figures;
mod line;
mod list;
mod requested;
mod terminal;

use serde::{Deserialize, Serialize};
use std::{
    io,
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
    gpio_latency::GpioLatencyDocument,
    gpio_line::GpioLine,
    latency::{ClockReads, LatencyThread},
    not_run::NotRun,
};
use hpt_instrument::{
    gpio::{GpioError, LineName},
    measure::{EdgeCounts, EdgeLatency, EdgeOutcome, EdgeReport, EdgeTimes, Loopback, NotRunWatch, ReadOverhead},
};
use hpt_realtime::{Behavior, PinWatch};

use self::{
    document::rows,
    edge_figures::{EdgeFigure, EdgeFigures, EdgeSample},
    line::{line_of, line_words},
    list::{LIST, list},
    requested::{Listen, Requested, is_same},
    terminal::{page, what_was_wrong},
};
use crate::{
    arguments::{Codes, after_help, duration_in},
    context::{Context, continue_if},
    exit::{Failure, causes},
    measurements::{CommonOptions, CpuOption},
    output::{Answer, Document, chart_option::ChartOption, latency_files::ThreadLatencies, metrics, saturating_nanos},
    sampling::{
        conditions::{ConditionOptions, ConditionsThread},
        cpu_absences,
        cpu_options::NOTHING_LEFT,
        explain::{Awaited, ExplainOptions, Feed, MeasuredThread},
        gpio_pulse::Drive,
        limits::{
            option::{GPIO_HELP, LimitOptions},
            quantity::Accepted,
            verdict::{self, LimitedRow, verdicts},
        },
        live_lines::{LiveLines, Snapshot},
        not_run,
        raw_samples::{Backlog, Raw},
        realtime_options::ThreadOptions,
        realtime_settings::EffectiveSettings,
        result_files::ResultOptions,
        run::{Attention, Run, SO_FAR},
        run_length::RunLength,
        run_state::RunState,
        warm_up::WarmUpOption,
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
    #[arg(long, value_enum, value_name = "HOW", default_value = "kernel", hide_short_help = true)]
    drive: Drive,
    /// How to wait for an edge
    ///
    /// poll: block in poll(2). spin: busy-wait with repeated reads. level: busy-wait with reads of GPLEV of a Raspberry
    /// Pi 1 to 4, without interrupts and the kernel; the input line may then be the output line, whose level is read
    /// back.
    #[arg(long, value_enum, value_name = "HOW", default_value = "poll", hide_short_help = true)]
    listen: Listen,
    /// Count an edge as lost after this time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = timeout, hide_short_help = true)]
    timeout: Duration,
    #[command(flatten)]
    run_length: RunLength,
    #[command(flatten)]
    warm_up: WarmUpOption,
    /// Which latency to chart, write to files and check with limits
    #[arg(long, value_enum, value_name = "FIGURE", default_value = "end-to-end", hide_short_help = true)]
    figure: EdgeFigure,
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
struct EdgeThreadOutcome {
    settings: EffectiveSettings,
    cpu: Option<usize>,
    counts: EdgeCounts,
    absences: Vec<CpuAbsence>,
    not_run: NotRun,
    error: Option<io::Error>,
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
            spins: self.listen.behavior() == Behavior::Spins,
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
    if arguments.listen == Listen::Level && arguments.figure != EdgeFigure::EndToEnd {
        return Err(Failure::Usage(NO_TIMESTAMPS));
    }
    arguments.thread.check_cpu()?;
    // No signal may end hpt before both lines are restored.
    context.signals.listen_until_the_end()?;
    context.signals.listen_for_requests()?;
    let conduct = arguments.listen.behavior();
    if conduct == Behavior::Spins && arguments.thread.leaves_nothing(context) {
        return Err(Failure::Usage(NOTHING_LEFT));
    }
    let chip = arguments.chip.as_deref();
    let out = out.clone().or_on(chip).find()?;
    let input = input.clone().or_on(chip).find()?;
    let (out_place, in_place) = (line_of(&out.chip, &out.line), line_of(&input.chip, &input.line));
    if arguments.listen != Listen::Level && is_same(&out, &input) {
        return Err(GpioError::SameLine { line: line_words(&out_place) }.into());
    }
    arguments.keeping.check()?;
    let raw = arguments.keeping.raw()?;
    let clock = PosixClock::open(&context.host, PosixId::Monotonic)
        .map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
    let source = clock.info().id.to_string();
    let lines = Requested::new((&out, &input), (arguments.drive, arguments.listen), &context.host)?;
    let mut wire = lines.wire(clock);
    let reads = wire.clock_read_overhead();

    let above = (arguments.keeping.limit_ns(), Awaited::Edge);
    let explaining = arguments.explain.begin(&[arguments.thread.cpu(context)], arguments.limits.limits(), above);
    let conditions = ConditionsThread::begin(context, &[arguments.thread.cpu(context)]);
    let three = Mutex::new(EdgeFigures::new());
    let measured = arguments.thread.cpu(context);
    let mut run = Run::new(KIND, context, (&arguments.keeping, raw), 1);
    run.live = LiveLines::of(&[measured], || {
        let three = three.lock().unwrap_or_else(PoisonError::into_inner);
        vec![Snapshot {
            cpu: measured,
            latencies: three.of(arguments.figure).clone(),
            last_ns: three.last_ns(arguments.figure),
        }]
    });
    let drawn = |cpu: Option<usize>| {
        let latencies = three.lock().unwrap_or_else(PoisonError::into_inner).of(arguments.figure).clone();
        [ThreadLatencies { cpu, latencies }]
    };
    let (cpu, effective) = (Mutex::new(None), Mutex::new(None));
    let start = Instant::now().saturating_add(arguments.warm_up.length());
    run.shared.begin(start);
    let first_level = !lines.first_level();
    let work = || {
        let held = arguments.thread.hold(context, conduct, BY)?;
        *cpu.lock().unwrap_or_else(PoisonError::into_inner) = held.cpu();
        let settings = held.settings();
        *effective.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings.clone());
        let mut presence = held.cpu().map(|cpu| PinWatch::new(cpu, &context.host));
        let what = (&three, run.raw(), (presence.as_mut(), explaining.feed(held.cpu())));
        // The thread blocks between edges, even if it busy-waits for the edge itself.
        let mut watch = NotRunWatch::of_blocking_thread(&context.host, held.cpu());
        let EdgeReport { counts, error, .. } = measure(&mut wire, first_level, arguments, start, &run.shared, what);
        let not_run = not_run::field_of(&watch.read());
        let absences = presence.as_ref().map_or_else(Vec::new, cpu_absences::all_of);
        Ok(EdgeThreadOutcome { settings, cpu: held.cpu(), counts, absences, not_run, error, warnings: held.end() })
    };
    let asked = GpioRequest { arguments, context, lines: (&out_place, &in_place), source: &source, reads };
    let write = || {
        let results = rows(&three.lock().unwrap_or_else(PoisonError::into_inner));
        run.files.keep_metrics(&run.head, metrics::gpio::gauges((&out_place, &in_place), &results, None, None))?;
        run.files.write(&drawn(*cpu.lock().unwrap_or_else(PoisonError::into_inner)))
    };
    let so_far = || {
        let settings = effective.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let three = three.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let outcome = EdgeThreadOutcome {
            settings,
            cpu: *cpu.lock().unwrap_or_else(PoisonError::into_inner),
            counts: EdgeCounts::default(),
            absences: Vec::new(),
            not_run: NotRun::default(),
            error: None,
            warnings: vec![SO_FAR.to_owned(), "lost and unexpected edges are counted at the end".to_owned()],
        };
        let data = asked.data(&run, &three, (&outcome, start.elapsed()));
        let blocks = page(&data, three.of(arguments.figure));
        Some(Document::new(data, blocks))
    };
    let outcome = run.measure((arguments.run_length, "edges", Attention::Constant), [work], write, so_far);
    let elapsed = start.elapsed();
    let conditions = conditions.end();
    let not_restored = lines.release();
    let mut outcome = outcome?.pop().expect("the only thread has an outcome");
    let of_run = MeasuredThread { cpus: &[measured], thread: &outcome.settings.thread, behavior: conduct };
    let explanation = explaining.end(context, of_run);
    let mut warnings = std::mem::take(&mut outcome.warnings);
    warnings.extend(outcome.error.take().map(|error| format!("the lines can no longer be used: {error}")));
    warnings.extend(not_restored.iter().map(|error| causes(error)));
    warnings.extend(run.finish(&drawn(outcome.cpu)));

    let three = three.lock().unwrap_or_else(PoisonError::into_inner).clone();
    // Lost edges are reported in a warning and in a note. Other irregular edges are reported only in a note.
    let wrong = asked.wrong(&outcome);
    warnings.extend((outcome.counts.lost > 0).then(|| wrong.first().cloned()).flatten());
    outcome.warnings.clone_from(&warnings);
    let mut data = asked.data(&run, &three, (&outcome, elapsed));
    let answer = match (data.results.is_empty(), data.lost > 0 || data.end.stopped_at_ns.is_some()) {
        (true, _) => Answer::Unknown,
        (false, true) => Answer::No,
        (false, false) if warnings.is_empty() => Answer::Yes,
        (false, false) => Answer::Unknown,
    };
    let answer = answer.and(verdict::answer(&data.limits));
    data.conditions = conditions;
    data.explanation = explanation;
    let remarks = (&mut data.notes, &mut *data.limits);
    let answer = arguments.conditions.judge(&data.conditions, remarks, answer);
    let blocks = page(&data, three.of(arguments.figure));
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// The request: the parts of the document that are known before the run.
struct GpioRequest<'a> {
    arguments: &'a GpioArguments,
    context: &'a Context,
    /// The output line and the input line.
    lines: (&'a GpioLine, &'a GpioLine),
    source: &'a str,
    reads: ReadOverhead,
}

impl GpioRequest<'_> {
    /// Returns notes on irregular edges.
    fn wrong(&self, outcome: &EdgeThreadOutcome) -> Vec<String> {
        let is_delayed = self.arguments.listen == Listen::Spin && outcome.settings.is_before_interrupts();
        what_was_wrong(&outcome.counts, self.lines, self.arguments.timeout, is_delayed)
    }

    /// Returns the document, at the end of the run or before.
    fn data(
        &self,
        run: &Run<'_, EdgeSample>,
        three: &EdgeFigures,
        (outcome, elapsed): (&EdgeThreadOutcome, Duration),
    ) -> GpioLatencyDocument {
        let Self { arguments, context, lines: (out, input), source, reads, .. } = *self;
        let EdgeThreadOutcome { settings, cpu, counts, absences, not_run, warnings, .. } = outcome;
        let mut notes = [context.notes(), settings.notes(), warnings.clone()].concat();
        notes.extend(self.wrong(outcome).into_iter().filter(|wrong| !warnings.contains(wrong)));
        notes.extend(cpu_absences::notes(
            absences,
            ["edge received there is not counted", "edges received there are not counted"],
        ));
        notes.extend(not_run::note_on_included([(*cpu, not_run)], "the latencies above include this time"));
        notes.extend(run.shared.unmarked());
        notes.extend(arguments.warm_up.note(run.shared.discarded()));
        let limited = LimitedRow::of_latencies(arguments.figure.head().to_owned(), three.of(arguments.figure));
        GpioLatencyDocument {
            head: run.head.clone(),
            output_line: out.clone(),
            input_line: input.clone(),
            drive: arguments.drive.word(),
            listen: arguments.listen.word(),
            interval_ns: saturating_nanos(arguments.run_length.interval),
            timeout_ns: saturating_nanos(arguments.timeout),
            cpu: *cpu,
            measuring: LatencyThread { thread: settings.thread.clone(), source: source.to_owned() },
            reads: ClockReads { clock_read_ns: reads.overhead_ns, clock_granularity_ns: reads.granularity_ns },
            time: run.time(elapsed, arguments.warm_up),
            lost: counts.lost,
            unexpected: counts.unexpected,
            dropped: counts.dropped,
            out_of_window: counts.out_of_window,
            figure: arguments.figure.word(),
            not_run: not_run.clone(),
            end: run.end(absences.clone()),
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            limits: verdicts(arguments.limits.limits(), &[limited]),
            results: rows(three),
            notes,
        }
    }
}

/// The watch on the CPU of the thread, and the means by which the thread offers its samples to be explained.
type Observers<'a, 'host> = (Option<&'a mut PinWatch<'host>>, Option<Feed>);

/// Drives one line and waits for edges on the other.
fn measure(
    wire: &mut Loopback<'_>,
    level: bool,
    arguments: &GpioArguments,
    start: Instant,
    shared: &RunState,
    (three, raw, (mut presence, mut feed)): (&Mutex<EdgeFigures>, Option<&Raw<EdgeSample>>, Observers<'_, '_>),
) -> EdgeReport {
    // The warm-up ends at `start`. This thread checks the end time itself, because the supervising thread may not be scheduled in time.
    let end = arguments.run_length.end(start);
    let limit_ns = arguments.keeping.limit_ns();
    let mut backlog = Backlog::new(three, EdgeFigures::record);
    let mut lines = raw.map(|raw| raw.of_thread(presence.as_ref().map(|presence| presence.cpu())));
    let (mut came, mut lost_in_a_row, mut has_come) = (0_u64, 0, false);
    let interval = arguments.run_length.interval;
    let edges = EdgeLatency::new(wire, interval)
        .with_start(Instant::now() + interval.min(Duration::from_millis(1)))
        .with_first_level(level)
        .with_timeout(arguments.timeout)
        .with_interrupter(shared.interrupter(0))
        .with_check(|| shared.check());
    edges.run(|outcome| {
        match outcome {
            EdgeOutcome::Arrived { times, .. } if Instant::from_nanos(times.driven_ns.cast_signed()) < start => {
                (has_come, lost_in_a_row) = (true, 0);
                shared.discard(1);
            }
            EdgeOutcome::Arrived { times, missed } => {
                // This code runs after the edge has arrived, so no sample includes its duration.
                let since = start.elapsed();
                let is_there = presence.as_mut().is_none_or(|presence| presence.is_there(since));
                if is_there && arguments.figure.of(&times).is_some_and(|ns| ns > limit_ns) {
                    shared.stop_at(Instant::from_nanos(times.driven_ns.cast_signed()));
                }
                if let Some(feed) = feed.as_mut().filter(|_| is_there) {
                    offer(feed, arguments.figure, &times);
                }
                let sample = EdgeSample { times, missed };
                // Edges received on another CPU are not counted for this CPU.
                if is_there {
                    backlog.add(sample);
                }
                if let Some(lines) = lines.as_mut().filter(|_| is_there) {
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
    })
}

/// Offers the chosen latency of an edge to be explained.
fn offer(feed: &mut Feed, figure: EdgeFigure, times: &EdgeTimes) {
    if let Some((start_ns, latency_ns)) = figure.start(times).zip(figure.of(times)) {
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
