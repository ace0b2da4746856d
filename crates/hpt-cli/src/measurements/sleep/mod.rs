//! `hpt sleep`: measures the overshoot and the CPU time of sleeps with several methods.

mod curve;
mod curve_page;
mod target;
mod terminal;

use serde::{Deserialize, Serialize};
use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use hpt_core::{
    Instant, Sleeper, Spread, clock,
    sleep::{Report, Target},
};
use hpt_document::{
    conditions::Conditions,
    explain::Explanation,
    latency::HistogramBin,
    not_run::NotRun,
    quantiles::Quantiles,
    sleep::{SleepDocument, SleepRow},
    warm_up::DiscardedSamples,
};
use hpt_instrument::measure::{NotRunWatch, SleepMethod, SleepOvershoot, sleep_overshoot};
use hpt_realtime::Behavior;

use self::terminal::page;
use crate::{
    arguments::{Codes, after_help, at_least_one, sleep_length, without_metrics},
    context::{Context, continue_if},
    document_head::head_of,
    exit::Failure,
    measurements::common_options::{CommonOptions, CpuOption},
    output::{
        Document, chart_option::ChartOption, exact_time, progress::Progress, rounded, rounded_cpu_share,
        saturating_nanos,
    },
    sampling::{
        bins::bins_of_sorted,
        conditions::ConditionOptions,
        cpu_absences::Parts,
        explain::{self, Awaited, ExplainOptions},
        finished::Finished,
        limits::{
            option::{LimitOptions, SLEEP_HELP, of_sleep},
            quantity::{Accepted, Quantity},
            verdict::{Above, LimitedRow, verdicts},
        },
        load::{LoadOptions, in_phases},
        not_run,
        observers::{Explained, Observation, Observers},
        realtime_options::ThreadOptions,
        realtime_settings::EffectiveSettings,
        run::{SO_FAR, answer_request},
        warm_up::{COUNT_HELP, SAMPLES, WarmUpOption},
    },
    statistics::known_quantile,
};

const EXAMPLES: &str = "  \
  hpt sleep                                  four durations, five methods
  hpt sleep --length 1ms --count 10000       one duration, 10,000 times
  hpt sleep --curve                          overshoot against CPU time, with
                                             the setting to use
  sudo hpt sleep -P f:50 --dma-latency 0     as a real-time thread, with idle
                                             states disabled
  sudo hpt sleep --strategy busy -P f:50 --no-throttling --mlockall
                                             as a real-time thread that never
                                             blocks, without throttling";

/// The number of rounds of a warm-up whose samples are kept at a time.
const WARM_UP_ROUNDS: u64 = 100;

/// Measure the overshoot and the CPU time of sleeps
///
/// Sleeps with each method in turn: std (the standard library), nanosleep (clock_nanosleep with a
/// timer slack of 1 ns), fixed (nanosleep until 125 µs before the deadline, then spinning), busy
/// (spinning all the time), and hpt (blocking until a learned margin before the deadline, once or twice,
/// then spinning).
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_long_help = after_help(Codes::measuring(Some("a quantity exceeded its --limit")), EXAMPLES), args(without_metrics()), mut_arg("limit", |limit| limit.long_help(SLEEP_HELP).value_parser(of_sleep)), mut_arg("warm_up", |warm_up| warm_up.long_help(COUNT_HELP)), mut_arg("explain", |explain| explain.long_help(explain::SLEEP_HELP)))]
pub(crate) struct SleepArguments {
    /// Sleep durations, separated by commas
    ///
    /// With --curve, the default is 1ms.
    #[arg(short, long, value_name = "TIME", value_delimiter = ',', value_parser = sleep_length, default_value = "100us,250us,1ms,10ms", default_value_if("curve", "true", "1ms"))]
    length: Vec<Duration>,
    /// Sleeps per duration and method
    ///
    /// With --curve, the sleeps per duration and setting; the default is 1000. Otherwise, the default is 1000 for durations
    /// up to 1 ms, which p99 needs, and 200 for longer ones.
    #[arg(short = 'n', long, value_name = "N", value_parser = at_least_one::<u32>)]
    count: Option<u32>,
    /// Compare many settings; recommend the cheapest for each p99
    ///
    /// Measures the overshoot against the CPU time: std, nanosleep, fixed with margins from 20 to 200 µs, busy, and hpt
    /// with its default and other targets. The settings take turns, and first run a few sleeps that do not count, to adapt.
    /// For each limit of p99, from 1 to 100 µs, recommends the setting that takes the least CPU time. Its p99 is below the
    /// limit at 95 % confidence, if late sleeps are independent. They often come in bursts, so repeat the run.
    #[arg(long, conflicts_with_all = ["target", "limit", "load", "load_cpus", "warm_up", "explain"])]
    curve: bool,
    /// std, nanosleep, fixed, busy, hpt [default: all]
    ///
    /// Separate several methods with commas.
    #[arg(long, value_name = "METHOD", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(SleepMethod::NAMES))]
    strategy: Vec<String>,
    /// Aim of the hpt method: p99=1us, cpu=2% or both
    ///
    /// p99=TIME or p99.9=TIME: the overshoot that this share of the sleeps must not exceed, with as little CPU time as
    /// possible. cpu=SHARE: the share of one CPU that the sleeps may take, including the time of blocking. Both, as in
    /// p99=1us,cpu=2%: the first within the second. By default, sleeps take up to 3 µs plus 0.25 % of their length in
    /// addition to the CPU time of blocking once, and 99 of 100 in time are enough.
    #[arg(long, value_name = "TARGET,...", value_parser = target::parse)]
    target: Option<Target>,
    #[command(flatten)]
    warm_up: WarmUpOption,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    thread: ThreadOptions,
    #[command(flatten)]
    conditions: ConditionOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    explain: ExplainOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

/// The sleeps of a duration with which p99 is known.
const MANY: u32 = 1_000;
/// The sleeps of a duration so long that many would take minutes.
const FEW: u32 = 200;

impl SleepArguments {
    /// Returns the number of sleeps of this duration with each method.
    fn count(&self, length: Duration) -> u32 {
        let by_default = if length <= Duration::from_millis(1) { MANY } else { FEW };
        self.count.unwrap_or(by_default)
    }

    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        let spins = self.conduct() == Behavior::Spins;
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::SLEEP)),
            has_length: true,
            spins,
            cpu: CpuOption::One(&mut self.thread.cpu),
            realtime: Some(&self.thread.realtime),
            load: Some(&self.load),
            explain: (!self.curve).then_some(&mut self.explain),
            ..CommonOptions::default()
        }
    }
}

pub(crate) fn run(arguments: &SleepArguments, context: &Context) -> Result<Document, Failure> {
    if arguments.curve {
        let wants = |method: &str| arguments.wants(method);
        let asked = curve::CurveRequest {
            lengths: &arguments.length,
            count: arguments.count.unwrap_or(MANY),
            wants: &wants,
            conduct: arguments.conduct(),
            thread: &arguments.thread,
            conditions: arguments.conditions,
        };
        return curve::run(&asked, context);
    }
    in_phases(&arguments.load, context, (&[arguments.thread.cpu(context)], 2), || run_once(arguments, context))
}

fn run_once(arguments: &SleepArguments, context: &Context) -> Result<Finished<SleepDocument>, Failure> {
    // No signal may end hpt before the trace is removed.
    arguments.thread.realtime.listen_for_all(arguments.explain.is_requested(), context)?;
    let measured = [arguments.thread.cpu(context)];
    let explained = Explained {
        options: arguments.explain,
        limits: arguments.limits.limits(),
        stop_above_ns: u64::MAX,
        awaited: arguments.awaited(),
        behavior: arguments.conduct(),
    };
    let observation = Observation { cpus: &measured, conditions: arguments.conditions, explained: Some(explained) };
    let observers = Observers::begin(context, &observation);
    let held = arguments.thread.hold(context, arguments.conduct(), "hpt sleep")?;
    clock::prime();
    let mut feed = observers.feed(held.cpu());

    let sleeps: Vec<(Duration, u32)> =
        arguments.length.iter().map(|&length| (length, arguments.count(length))).collect();
    let progress = arguments.progress(&sleeps);
    let warm_up = warm_up(arguments, context, &progress);
    let asked = SleepRequest { arguments, context, cpu: held.cpu(), settings: held.settings(), warm_up };
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    let mut parts = Parts::of(held.cpu(), context);
    let mut watch = NotRunWatch::of_blocking_thread(&context.host, held.cpu());
    let mut before = 0;
    for (duration, count) in sleeps {
        if context.interrupted() {
            break;
        }
        progress.name(&exact_time(duration));
        let mut sleeper = arguments.sleeper();
        let mut methods = arguments.methods(&mut sleeper);
        let overshoots = sleep_overshoot(curve::repeated(duration, count.into()), &mut methods, |so_far| {
            if let Some(feed) = &mut feed {
                let (deadline, overshoot_ns) = so_far.last();
                feed.offer(deadline.nanos_since(Instant::EPOCH), overshoot_ns);
            }
            progress.at(before + so_far.made());
            answer_request(context, || {
                let rows = [rows.clone(), rows_of(duration, &so_far.results(), None)].concat();
                let data = asked.data(rows, &parts, (NotRun::default(), vec![SO_FAR.to_owned()]));
                let blocks = page(&data);
                Some(Document::new(data, blocks))
            });
            context.check()
        });
        before += u64::from(count) * methods.len() as u64;
        drop(methods);
        parts.end(exact_time(duration));
        refused.extend(curve::refusals(&overshoots));
        rows.extend(rows_of(duration, &overshoots, Some(&sleeper.report())));
    }
    let not_run = watch.read();
    drop(feed);
    let observed = observers.end(Some(&asked.settings));
    drop(progress);
    refused.dedup();
    let warnings = [refused, held.end()].concat();
    let data = asked.data(rows, &parts, (not_run, warnings.clone()));
    Ok(Finished::new(data, warnings, observed, page))
}

impl SleepArguments {
    fn progress(&self, sleeps: &[(Duration, u32)]) -> Progress {
        let methods = SleepMethod::NAMES.into_iter().filter(|name| self.wants(name)).count();
        let methods = u32::try_from(methods).unwrap_or(u32::MAX);
        let per_method: Duration = sleeps.iter().map(|(length, count)| length.saturating_mul(*count)).sum();
        let steps = sleeps.iter().map(|(_, count)| u64::from(*count) * u64::from(methods)).sum();
        Progress::new(steps, per_method.saturating_mul(methods))
    }

    /// Returns whether the thread blocks. Throttling affects only a thread that never does. If spinning alternates with
    /// other methods, the thread blocks often enough.
    fn conduct(&self) -> Behavior {
        let only_spins = !self.strategy.is_empty() && self.strategy.iter().all(|name| name == "busy");
        if only_spins { Behavior::Spins } else { Behavior::Blocks }
    }

    /// Returns the event that ends a wait. Some methods poll the clock before the deadline.
    fn awaited(&self) -> Awaited {
        let polls = ["fixed", "busy", "hpt"].into_iter().any(|method| self.wants(method));
        if polls { Awaited::Clock } else { Awaited::Timer }
    }

    fn wants(&self, method: &str) -> bool {
        self.strategy.is_empty() || self.strategy.iter().any(|one| one == method)
    }

    fn sleeper(&self) -> Sleeper {
        self.target.map_or_else(Sleeper::new, |target| Sleeper::new().with_target(target))
    }

    fn methods<'a>(&self, sleeper: &'a mut Sleeper) -> Vec<SleepMethod<'a>> {
        SleepMethod::all(sleeper).into_iter().filter(|method| self.wants(method.name())).collect()
    }
}

/// Sleeps for the first of the durations until the warm-up is over. Its Sleeper is discarded, too, so that every
/// duration is measured in the same way.
fn warm_up(arguments: &SleepArguments, context: &Context, progress: &Progress) -> DiscardedSamples {
    let mut sleeper = arguments.sleeper();
    let mut methods = arguments.methods(&mut sleeper);
    let length = arguments.length.first().copied().unwrap_or_default();
    arguments.warm_up.spend((context, progress), |end| {
        let mut made = 0;
        sleep_overshoot(curve::repeated(length, WARM_UP_ROUNDS), &mut methods, |so_far| {
            made = so_far.made();
            continue_if(Instant::now() < end && !context.interrupted())
        });
        made
    })
}

/// The request, and the settings of the thread: the parts of the document that are known before the run.
struct SleepRequest<'a> {
    arguments: &'a SleepArguments,
    context: &'a Context,
    cpu: Option<usize>,
    settings: EffectiveSettings,
    warm_up: DiscardedSamples,
}

impl SleepRequest<'_> {
    /// Returns the document, at the end of the run or before. `remarks` are warnings, or remarks on the state of the
    /// run.
    fn data(&self, rows: Vec<SleepRow>, parts: &Parts<'_>, (not_run, remarks): (NotRun, Vec<String>)) -> SleepDocument {
        let Self { arguments, context, cpu, settings, warm_up } = self;
        let disturbed = not_run::note(&not_run, "the overshoot is larger than on an idle machine");
        let device = context.note_of_a_device(|_| "programs select it with hpt_core::use_source".to_owned());
        let notes = [
            Vec::from_iter(disturbed),
            context.notes(),
            settings.notes(),
            parts.notes(),
            remarks,
            Vec::from_iter(device),
            Vec::from_iter(arguments.warm_up.note(warm_up.warm_up_samples, SAMPLES)),
        ];
        let limits = verdicts(arguments.limits.limits(), &rows.iter().map(limited_row).collect::<Vec<_>>());
        SleepDocument {
            head: head_of("sleep", &context.host),
            cpu: *cpu,
            thread: settings.thread.clone(),
            source: clock::source().id.to_string(),
            warm_up: *warm_up,
            interrupted: context.interrupted(),
            cpu_absences: parts.absences(),
            not_run,
            conditions: Conditions::default(),
            explanation: Explanation::default(),
            limits,
            results: rows,
            loaded: None,
            notes: notes.concat(),
        }
    }
}

/// Returns the rows of one duration. `report` is `None` while the measurement is running.
fn rows_of(duration: Duration, overshoots: &[SleepOvershoot], report: Option<&Report>) -> Vec<SleepRow> {
    let measured = overshoots.iter().filter(|overshoot| overshoot.overshoot.is_some());
    measured.map(|overshoot| row(duration, overshoot, report)).collect()
}

/// Returns a row to be compared with limits.
fn limited_row(row: &SleepRow) -> LimitedRow<'_> {
    let name = format!("{}, {}", row.method, exact_time(Duration::from_nanos(row.duration_ns)));
    let nanos = |quantity| match quantity {
        Quantity::Quantile(quantile) => row.quantiles.get(quantile.part()),
        Quantity::Mean => row.mean_ns,
        Quantity::Max => row.max_ns,
        Quantity::Read | Quantity::Missed | Quantity::Stalls => None,
    };
    let of_quantiles = LimitedRow::of_times(name, row.samples, "it was not measured", nanos);
    let max_ns = row.max_ns.unwrap_or(0.0);
    let above = move |limit_ns: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a limit is at most an hour")]
        if max_ns <= limit_ns as f64 {
            return Above::Exactly(0);
        }
        // A bin may have samples on both sides of the limit.
        let from = |is_in: fn(&HistogramBin, u64) -> bool| {
            row.histogram_ns.iter().filter(|bin| is_in(bin, limit_ns)).map(|bin| bin.2).sum::<u64>()
        };
        let (least, most) = (from(|bin, limit_ns| bin.0 > limit_ns), from(|bin, limit_ns| bin.1 > limit_ns + 1));
        if least == most { Above::Exactly(least) } else { Above::AtLeast(least.max(1)) }
    };
    LimitedRow { above: Box::new(above), ..of_quantiles }
}

fn row(duration: Duration, overshoot: &SleepOvershoot, report: Option<&Report>) -> SleepRow {
    let report = report.filter(|_| overshoot.method == "hpt");
    let late = |figure: fn(&Spread) -> f64| overshoot.overshoot.as_ref().map(figure).map(rounded);
    let samples = overshoot.overshoot.map_or(0, |late| late.samples);
    SleepRow {
        duration_ns: saturating_nanos(duration),
        method: overshoot.method.to_owned(),
        samples,
        early: overshoot.early,
        mean_ns: late(|late| late.mean_ns),
        trimmed_mean_ns: overshoot.trimmed_mean_ns.map(rounded),
        quantiles: Quantiles::of(|quantile| known_quantile(&overshoot.overshoot?, quantile.share).map(rounded)),
        max_ns: late(|late| late.max_ns),
        cpu_share: overshoot.cpu_share.map(rounded_cpu_share),
        margin_ns: report.map(|report| saturating_nanos(report.margin)),
        target: report.map(target::field),
        histogram_ns: bins_of_sorted(&overshoot.sorted_ns),
    }
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, time::Duration};

    use hpt_core::Sleeper;
    use hpt_document::{
        not_run::NotRun,
        quantiles::Quantiles,
        sleep::{SleepDocument, SleepRow, TargetField},
        warm_up::DiscardedSamples,
    };
    use hpt_instrument::measure::{SleepMethod, sleep_overshoot};

    use super::{page, row};
    use crate::{
        golden,
        output::Document,
        sampling::{conditions, explain, realtime_settings::tests::example},
    };

    #[test]
    fn a_run_is_printed_exactly() {
        let row = |duration_ns, method: &str, factor: f64| SleepRow {
            duration_ns,
            method: method.to_owned(),
            samples: 200,
            early: 0,
            mean_ns: Some(70_000.0 * factor),
            trimmed_mean_ns: Some(65_000.0 * factor),
            quantiles: Quantiles::of(|quantile| {
                let times = [("p50", 60_000.0), ("p99", 90_000.0), ("p99.9", 900_000.0)];
                times.iter().find(|(name, _)| *name == quantile.name).map(|(_, ns)| ns * factor)
            }),
            max_ns: Some(5_000_000.0 * factor),
            cpu_share: Some(0.0175),
            margin_ns: (method == "hpt").then_some(21_000),
            target: (method == "hpt").then(|| TargetField {
                text: "p99=1 µs".to_owned(),
                met: Some(false),
                needed_cpu_share: Some(0.058),
                out_of_reach_share: 0.002,
            }),
            histogram_ns: Vec::new(),
        };
        let data = SleepDocument {
            head: golden::head("sleep"),
            cpu: Some(1),
            thread: example().thread,
            source: "tsc".to_owned(),
            warm_up: DiscardedSamples { warm_up_ns: 2_000_000_000, warm_up_samples: 7_500 },
            interrupted: true,
            cpu_absences: Vec::new(),
            not_run: NotRun { share: Some(0.01), wall_s: 1.5, stolen_s: Some(0.0), ..NotRun::default() },
            conditions: conditions::tests::example(),
            explanation: explain::terminal::tests::example(),
            limits: Vec::new(),
            results: vec![
                row(100_000, "std", 1.0),
                row(100_000, "hpt", 0.001),
                row(10_000_000, "std", 1.5),
                SleepRow { mean_ns: None, cpu_share: None, ..row(10_000_000, "hpt", 0.002) },
            ],
            loaded: None,
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data);
        golden::assert("sleep", &Document::new(data, blocks));
    }

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_missing() {
        let tails = |samples: u64| {
            let mut sleeper = Sleeper::new();
            let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
            methods.retain(|method| method.name() == "busy");
            let overshoots =
                sleep_overshoot(super::curve::repeated(Duration::from_nanos(1), samples), &mut methods, |_| {
                    ControlFlow::Continue(())
                });
            let row = row(Duration::from_nanos(1), &overshoots[0], None);
            assert_eq!(row.samples, samples);
            let known = [0.5, 0.99, 0.999].map(|share| row.quantiles.get(share).is_some());
            (known, row.max_ns.is_some())
        };
        assert_eq!(tails(200), ([true, false, false], true));
        assert_eq!(tails(1_000), ([true, true, false], true));
        assert_eq!(tails(10_000), ([true; 3], true));
    }
}
