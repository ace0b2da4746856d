//! `hpt experiment`: repeats published measurements on this machine, and compares the results with the published
//! values.

mod document;
mod saved_parts;
mod terminal;

use std::{
    cell::{Cell as Shared, RefCell},
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, ValueHint, builder::PossibleValuesParser};
use hpt_document::{
    experiment::{
        ExperimentDocument, ExperimentFigureRow, ExperimentPartRow, ExperimentPartState, ExperimentRow, FigureState,
    },
    not_run::NotRun,
};
use hpt_instrument::measure::NotRunWatch;
use hpt_realtime::Behavior;

use self::{
    document::{compared, data, of},
    saved_parts::{Planned, SavedParts, expected},
    terminal::page,
};
use crate::{
    arguments::{Codes, CpuChoice, SYSTEM_WIDE, after_help, calls, cpu_choice, without_metrics},
    context::Context,
    exit::Failure,
    experiments::{EXPERIMENTS, Experiment, ExperimentRun, Frames, Measured, Part, Preflight, RunOptions, in_one_line},
    kernel_clocksources::Comparison,
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, chart_option::ChartOption, message, progress::Progress,
        rounded,
    },
    sampling::{
        cpu_absences,
        gpio_pulse::{Pulse, PulseOptions},
        not_run,
        realtime_options::{Alone, ThreadOptions, leaves_no_cpu},
        realtime_settings::EffectiveSettings,
    },
};

const EXAMPLES: &str = "  \
  hpt experiment                       list the experiments and their durations
  hpt experiment pairs --short         run one within seconds (fewer samples)
  hpt experiment all --short
  hpt experiment pairs --short --svg pairs.svg
  sudo hpt experiment pairs isolated-core --resume
  sudo hpt experiment isolated-core --no-throttling --no-turbo --cpu 3
  sudo hpt experiment late-loop --pulse GPIO17 --drive registers
  sudo hpt experiment clock-sources --all-clock-sources";

const BY: &str = "hpt experiment";
const PULSE: &str = "Toggle this GPIO line in late-loop and one-loop";
const PULSE_MORE: &str = "late-loop toggles it at each period: a logic analyzer can then record the edges, and `hpt latency edges` evaluates them. one-loop measures the edges of the line, whose level it reads back (Raspberry Pi 1 to 4). LINE is, for example, GPIO17 or gpiochip0:17.";
/// The minimum time between updates of the progress bar.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// Repeat published measurements, and compare the results
///
/// Without NAME, hpt lists the experiments. hpt saves each part when it finishes, and long parts also at intervals.
/// Until the next boot, --resume can continue an interrupted run.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(Some("a part could not be measured")), EXAMPLES), args(without_metrics()), mut_arg("pulse", |pulse| pulse.help(PULSE).long_help(format!("{PULSE}\n\n{PULSE_MORE}")).requires("names")))]
pub(crate) struct ExperimentArguments {
    /// Experiments to run, or all; without NAME, hpt lists them
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(EXPERIMENTS.iter().map(|experiment| experiment.name).chain(["all"])))]
    names: Vec<String>,
    /// Take fewer samples to finish within seconds
    ///
    /// The result states the number of samples.
    #[arg(long, conflicts_with = "count")]
    short: bool,
    /// Number of samples [default: as published]
    ///
    /// Examples: 10000, 1e4.
    #[arg(short = 'n', long, value_name = "N", value_parser = calls)]
    count: Option<u64>,
    /// Continue an earlier run made since the last boot
    ///
    /// Reuses finished parts, and continues interrupted parts, if the settings are the same.
    #[arg(long, requires = "names")]
    resume: bool,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    alone: Alone,
    #[command(flatten)]
    pulse: PulseOptions,
    /// Send a frame in each period of 1 ms of period
    ///
    /// A raw frame (EtherType 0x88A4) on IF, which the network returns, or which hpt returns from a second interface, such
    /// as the other end of a veth pair. Needs CAP_NET_RAW.
    #[arg(long, value_name = "IF[,IF]", requires = "names", hide_short_help = true)]
    frames: Option<Frames>,
    /// Repeat the experiment clock-sources under each clocksource
    ///
    /// Asks for confirmation before it changes the system-wide clocksource.
    #[arg(long, requires = "names", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    all_clock_sources: bool,
    /// Do not ask for confirmation
    #[arg(long, requires = "all_clock_sources", help_heading = SYSTEM_WIDE, hide_short_help = true)]
    yes: bool,
    /// Directory of finished parts [default: $XDG_STATE_HOME/hpt or ~/.local/state/hpt]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    state_dir: Option<PathBuf>,
    /// Directory of the change journal [default: /run/hpt]
    ///
    /// hpt records each setting in the journal before changing it. After a crash, `hpt restore` restores the recorded
    /// settings.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SYSTEM_WIDE, hide_short_help = true)]
    journal: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

pub(crate) fn run(arguments: &ExperimentArguments, context: &Context) -> Result<Document, Failure> {
    let experiments = arguments.experiments();
    if experiments.is_empty() {
        context.signals.listen()?;
        return Ok(list(arguments, context));
    }
    // Check the options before pinning the thread, because pinning leaves only one allowed CPU.
    let mut ways = arguments.ways(&experiments, context)?;
    let held = ThreadOptions::on(arguments.cpu).hold(context, Behavior::Blocks, BY)?;
    ways.cpu = held.cpu();
    if arguments.changes_the_machine() || arguments.pulse.is_requested() {
        context.signals.listen_until_the_end()
    } else {
        context.signals.listen()
    }?;
    // No signal ends hpt from here on, so that the line is restored.
    ways.pulse = arguments.pulse.open(&context.host)?;
    let thread = held.settings();
    let of_all = conditions(context, &thread, held.cpu());
    let (conditions, warnings) = preflight(&experiments, &ways, &of_all, context)?;

    let kept = SavedParts::open(arguments.resume, arguments.state_dir.as_deref(), context);
    let plans = experiments.iter().zip(&conditions);
    let plans: Vec<(&Experiment, Vec<Planned<'_>>)> =
        plans.map(|(&experiment, conditions)| (experiment, arguments.plan(experiment, conditions, &kept))).collect();
    // Print the notes before the measurement, which may take an hour.
    kept.tell(|note| message::note(note));
    let expected: Duration = plans.iter().flat_map(|(_, parts)| parts).map(Planned::expected).sum();
    let warnings = RefCell::new(warnings);
    let mut watch = NotRunWatch::of_blocking_thread(&context.host, held.cpu());
    let mut course = ExperimentCourse {
        context,
        ways: &ways,
        kept: &kept,
        warnings: &warnings,
        progress: Progress::new(1, expected),
        expected,
        passed: Duration::ZERO,
        presence: cpu_absences::Parts::of(held.cpu(), context),
        watch: NotRunWatch::of_blocking_thread(&context.host, held.cpu()),
        reached: Vec::new(),
    };
    let (made, rows): (Vec<_>, Vec<_>) = plans.iter().map(|(experiment, plan)| course.make(experiment, plan)).unzip();
    let not_run = watch.read();
    let ExperimentCourse { progress, presence, reached, .. } = course;
    drop(progress);
    let presence = presence.notes();
    let mut warnings = warnings.into_inner();
    warnings.extend(ways.pulse.take().map(Pulse::end).unwrap_or_default());
    warnings.extend(held.end());
    let disturbed = not_run::note(&not_run, "totals, means and maxima are too high");
    let notes = [Vec::from_iter(disturbed), context.notes(), kept.notes.take(), presence, warnings.clone()].concat();
    let data = data(context, (ways.cpu, Some(thread.thread), not_run), made, rows.concat(), notes);
    let answer = answer(&data, &warnings);
    let blocks = page(&data, &reached);
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns the conditions of each experiment, and warnings. Fails before anything is measured if an experiment is not
/// possible.
fn preflight(
    experiments: &[&'static Experiment],
    ways: &RunOptions,
    of_all: &[String],
    context: &Context,
) -> Result<(Vec<Vec<String>>, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let conditions = experiments.iter().map(|experiment| {
        let preflight = experiment.way.map_or_else(|| Ok(Preflight::default()), |way| way(context, ways))?;
        preflight.notes.iter().for_each(message::note);
        warnings.extend(preflight.warnings);
        Ok([of_all, &preflight.conditions].concat())
    });
    Ok((conditions.collect::<Result<_, Failure>>()?, warnings))
}

/// The course of a run of several experiments.
struct ExperimentCourse<'a> {
    context: &'a Context,
    ways: &'a RunOptions,
    kept: &'a SavedParts,
    warnings: &'a RefCell<Vec<String>>,
    progress: Progress,
    /// The expected duration of all parts.
    expected: Duration,
    /// The expected duration of the parts that are done.
    passed: Duration,
    presence: cpu_absences::Parts<'a>,
    watch: NotRunWatch,
    /// The number of samples taken in each part.
    reached: Vec<u64>,
}

/// The result of a part of an experiment.
struct PartOutcome {
    state: ExperimentPartState,
    figures: Vec<Measured>,
    failed: Option<String>,
}

impl ExperimentCourse<'_> {
    /// Makes an experiment. The results of other parts are kept even if one fails.
    fn make(
        &mut self,
        experiment: &'static Experiment,
        plan: &[Planned<'_>],
    ) -> (ExperimentRow, Vec<ExperimentFigureRow>) {
        self.progress.name(experiment.name);
        let (mut parts, mut figures, mut failed) = (Vec::new(), Vec::new(), None);
        for planned in plan {
            let found = self.part(experiment, planned);
            self.passed += planned.expected();
            self.reached.push(found.figures.iter().map(|figure| figure.samples).max().unwrap_or(0));
            let row = row_of(planned.part, planned.count);
            parts.push(ExperimentPartRow { resumed: planned.count - planned.left(), state: found.state, ..row });
            figures.extend(found.figures);
            failed = found.failed.or(failed);
        }
        (of(experiment, parts), compared(experiment, figures, failed.as_deref()))
    }

    /// Measures a part, as far as an earlier run has not.
    fn part(&mut self, experiment: &'static Experiment, planned: &Planned<'_>) -> PartOutcome {
        let before = planned.before.as_ref().map_or(&[][..], |before| &before.figures);
        let of_before = |state| PartOutcome { state, figures: before.to_vec(), failed: None };
        if planned.left() == 0 {
            return of_before(ExperimentPartState::Resumed);
        }
        if self.context.interrupted() {
            return of_before(ExperimentPartState::NotStarted);
        }
        let shown = Shared::new(Instant::now());
        let report = |done: f64| {
            if shown.get().elapsed() >= DRAW_EVERY {
                shown.set(Instant::now());
                let passed = self.passed + planned.expected().mul_f64(done.clamp(0.0, 1.0));
                self.progress.at_fraction(passed.as_secs_f64() / self.expected.as_secs_f64().max(1e-9));
            }
        };
        let keep = |made, figures| {
            self.kept.keep(experiment, planned, made, figures);
            self.kept.tell(|note| message::note(note));
        };
        let run = ExperimentRun {
            context: self.context,
            ways: self.ways,
            count: planned.left(),
            before,
            progress: &report,
            keep: &|done, figures| keep(planned.count - planned.left() + done, figures),
            warnings: self.warnings,
        };
        self.watch.restart();
        let outcome = (planned.part.measure)(&run);
        let share = self.watch.read().share;
        self.presence.end(format!("{} {}", experiment.name, planned.part.name));
        match outcome {
            Err(failure) => {
                PartOutcome { failed: Some(in_one_line(&failure)), ..of_before(ExperimentPartState::Failed) }
            }
            Ok(found) => {
                let figures: Vec<_> = found.into_iter().map(|figure| figure.or_not_run_for(share)).collect();
                let state = if self.context.interrupted() {
                    ExperimentPartState::Interrupted
                } else {
                    keep(planned.count, figures.clone());
                    ExperimentPartState::Measured
                };
                PartOutcome { state, figures, failed: None }
            }
        }
    }
}

/// Returns the row of a part that has not begun.
fn row_of(part: &Part, count: u64) -> ExperimentPartRow {
    ExperimentPartRow {
        name: part.name.to_owned(),
        full_count: part.count,
        count,
        resumed: 0,
        expected_s: rounded(expected(part, count).as_secs_f64()),
        state: ExperimentPartState::NotStarted,
    }
}

/// Returns `Answer::Unknown` if nothing was measured or if there are warnings. Otherwise, returns `Answer::No` if a
/// published value could not be measured on this machine.
fn answer(data: &ExperimentDocument, warnings: &[String]) -> Answer {
    let measured = data.results.iter().any(|row| row.state == FigureState::Measured);
    let unavailable = data.results.iter().any(|row| row.state == FigureState::Unavailable);
    match (measured && warnings.is_empty(), unavailable) {
        (false, _) => Answer::Unknown,
        (true, true) => Answer::No,
        (true, false) => Answer::Yes,
    }
}

/// Returns the conditions that distinguish measurements of the same part.
fn conditions(context: &Context, thread: &EffectiveSettings, cpu: Option<usize>) -> Vec<String> {
    let source = context.host.clock_sources().current.unwrap_or_default();
    vec![
        format!("hpt {}", env!("CARGO_PKG_VERSION")),
        format!("clocksource {source}"),
        thread.words(cpu),
        format!("capabilities {}", capabilities(context)),
    ]
}

/// Returns the capabilities of the process, which determine the scheduling policies that it can use.
fn capabilities(context: &Context) -> String {
    let status = context.host.read("/proc/self/status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status).into_owned();
    status.lines().find_map(|line| line.strip_prefix("CapEff:")).map_or_else(String::new, |set| set.trim().to_owned())
}

impl ExperimentArguments {
    fn experiments(&self) -> Vec<&'static Experiment> {
        let all = self.names.iter().any(|name| name == "all");
        let wanted = |experiment: &&&Experiment| all || self.names.iter().any(|name| name == experiment.name);
        EXPERIMENTS.iter().filter(wanted).copied().collect()
    }

    fn changes_the_machine(&self) -> bool {
        self.alone != Alone::default() || self.all_clock_sources
    }

    /// Checks the options for system-wide settings, and asks for confirmation if necessary. This happens before the
    /// measurement, which may take an hour.
    fn ways(&self, experiments: &[&Experiment], context: &Context) -> Result<RunOptions, Failure> {
        let makes = |name: &str| experiments.iter().any(|experiment| experiment.name == name);
        if self.alone != Alone::default() && !makes("isolated-core") {
            return Err(Failure::Usage(
                "--no-throttling, --no-turbo and --governor apply only to the experiment isolated-core",
            ));
        }
        if self.pulse.is_requested() && !makes("late-loop") && !makes("one-loop") {
            return Err(Failure::Usage("--pulse applies only to the experiments late-loop and one-loop"));
        }
        if self.frames.is_some() && !makes("period") {
            return Err(Failure::Usage("--frames applies only to the experiment period"));
        }
        if self.all_clock_sources && !makes("clock-sources") {
            return Err(Failure::Usage("--all-clock-sources applies only to the experiment clock-sources"));
        }
        if self.alone.no_throttling && leaves_no_cpu(&[context.cpu(self.cpu)]) {
            return Err(Failure::Usage(
                "on the only CPU and without throttling, a real-time thread that never blocks would stop the machine; omit --no-throttling",
            ));
        }
        let journal = self.journal.as_deref();
        let meant = |()| Comparison::asked(context, &[], self.yes, journal);
        Ok(RunOptions {
            cpu: None,
            alone: self.alone.clone(),
            pulse: None,
            frames: self.frames.clone(),
            clock_sources: self.all_clock_sources.then_some(()).map(meant).transpose()?,
            journal: self.journal.clone(),
        })
    }

    fn count(&self, part: &Part) -> u64 {
        if self.short { part.short } else { self.count.unwrap_or(part.count) }
    }

    fn plan<'a>(
        &self,
        experiment: &'static Experiment,
        conditions: &'a [String],
        kept: &SavedParts,
    ) -> Vec<Planned<'a>> {
        let planned = |part| {
            let mut planned = Planned { part, count: self.count(part), conditions, before: None };
            planned.before = kept.find(experiment, &planned);
            planned
        };
        experiment.parts.iter().map(planned).collect()
    }
}

/// Lists the experiments with the published values.
fn list(arguments: &ExperimentArguments, context: &Context) -> Document {
    let part = |part: &'static Part| row_of(part, arguments.count(part));
    let made =
        EXPERIMENTS.iter().map(|experiment| of(experiment, experiment.parts.iter().map(part).collect())).collect();
    let rows = EXPERIMENTS.iter().flat_map(|experiment| compared(experiment, Vec::new(), None)).collect();
    let data = data(context, (None, None, NotRun::default()), made, rows, context.notes());
    let rows = EXPERIMENTS.iter().map(|experiment| {
        let time = |count: &dyn Fn(&Part) -> u64| {
            let sum: Duration = experiment.parts.iter().map(|part| expected(part, count(part))).sum();
            humantime::format_duration(Duration::from_secs(sum.as_secs().max(1))).to_string()
        };
        vec![
            Cell::strong(experiment.name),
            Cell::plain(time(&|part| arguments.count.unwrap_or(part.count))),
            Cell::plain(time(&|part| part.short)),
            Cell::plain(experiment.brief),
        ]
    });
    let columns = ["name", "duration", "--short", "measurement"];
    let align = |name| Column(name, if ["duration", "--short"].contains(&name) { Align::Right } else { Align::Left });
    let count = EXPERIMENTS.len();
    let how = "Run hpt experiment NAME, or hpt experiment all. After Ctrl-C, hpt prints partial results, and --resume continues the run.";
    let mut blocks = vec![
        Block::Headline(format!("{count} published measurements that hpt repeats on this machine")),
        Block::Table(Table { columns: columns.map(align).to_vec(), rows: rows.collect() }),
        Block::Text(format!("{how} With -v, this list names the publications.")),
    ];
    blocks.extend(EXPERIMENTS.iter().map(|experiment| Block::Detail(Box::new(citation(experiment)))));
    Document::new(data, blocks)
}

/// Describes a published measurement, its publication, and how hpt's measurement differs.
fn citation(experiment: &Experiment) -> Block {
    let line = |name: &str, text: &str| vec![Cell::faint(format!("  {name}")), Cell::plain(text)];
    Block::Section(
        experiment.name.to_owned(),
        vec![
            line("measurement", experiment.title),
            line("publication", experiment.published_in),
            line("hardware", experiment.hardware),
            line("differences", experiment.differs),
        ],
    )
}
