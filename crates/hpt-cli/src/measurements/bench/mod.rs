//! `hpt bench`: measures the read overhead of each source.

mod terminal;

use serde::{Deserialize, Serialize};
use std::time::Duration;

use clap::Args;
use hpt_core::{
    ArmCycles, Frequency, Instant, Opened, PerfCycles, PosixClock, PosixId, TimeSource,
    source::{self, ReadPath, Scope},
};
use hpt_document::{
    bench::{BenchDocument, BenchRow},
    conditions::Conditions,
    not_run::NotRun,
    warm_up::DiscardedSamples,
};
use hpt_instrument::measure::{Instruments, NotRunWatch, ReadCost, read_cost};
use hpt_realtime::Pinned;

use self::terminal::{name, page};
use crate::{
    arguments::{Codes, CpuChoice, after_help, calls, cpu_choice, without_metrics},
    context::{Context, continue_if},
    cycle_counters::counts_cycles,
    document_head::head_of,
    exit::Failure,
    measurements::common_options::{CommonOptions, CpuOption},
    output::{Document, chart_option::ChartOption, progress::Progress, rounded},
    read_cost::{notes_of_wide_spreads, repeated_reads, single_reads},
    sampling::{
        conditions::ConditionOptions,
        cpu_absences::Parts,
        finished::Finished,
        limits::{
            option::{BENCH_HELP, LimitOptions, of_bench},
            quantity::{Accepted, Quantity},
            verdict::{LimitedRow, verdicts},
        },
        load::{LoadOptions, in_phases},
        not_run,
        observers::{Observation, Observers},
        run::{SO_FAR, answer_request},
        warm_up::{COUNT_HELP, SAMPLES, WarmUpOption},
    },
    source_granularity::known_granularity,
    stopwatch::{Stopwatch, stopwatch},
};

const EXAMPLES: &str = "  \
  hpt bench                                     read each source a million times
  hpt bench --source tsc,monotonic --count 1e8  read each 100 million times
  hpt bench --format csv > bench.csv            write a file for a spreadsheet";

/// The assumed duration of a read. The progress bar uses it to estimate the duration of the run.
const GUESSED_READ: Duration = Duration::from_nanos(150);

/// The number of back-to-back reads, and of single reads, of a source in a round of the warm-up.
const WARM_UP_READS: u64 = 10_000;

/// Measure the read overhead of each time source
///
/// Reads each source N times back to back, in batches, and reports the median of the batches. Then reads it up to
/// 100,000 times one at a time for the distribution. If the vDSO serves clock_gettime, or the cycle counter can be read
/// from a register, hpt also measures the corresponding system call for comparison. If programs may count cycles, hpt
/// also reports the cycles per read. A source whose read takes 10 µs or more is read for at most 2 s back to back and at
/// most 1 s one at a time.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_long_help = after_help(Codes::measuring(Some("a quantity exceeded its --limit")), EXAMPLES), args(without_metrics()), mut_arg("limit", |limit| limit.long_help(BENCH_HELP).value_parser(of_bench)), mut_arg("warm_up", |warm_up| warm_up.long_help(COUNT_HELP)))]
pub(crate) struct BenchArguments {
    /// Sources to read, separated by commas [default: all]
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',')]
    source: Vec<String>,
    /// Number of back-to-back reads per source
    ///
    /// Examples: 1000000, 1e6.
    #[arg(short = 'n', long, value_name = "N", default_value = "1000000", value_parser = calls)]
    count: u64,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    #[command(flatten)]
    warm_up: WarmUpOption,
    #[command(flatten)]
    conditions: ConditionOptions,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    limits: LimitOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

impl BenchArguments {
    pub(super) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::BENCH)),
            has_length: true,
            cpu: CpuOption::One(&mut self.cpu),
            load: Some(&self.load),
            ..CommonOptions::default()
        }
    }
}

pub(crate) fn run(arguments: &BenchArguments, context: &Context) -> Result<Document, Failure> {
    in_phases(&arguments.load, context, (&[context.cpu(arguments.cpu)], 1), || run_once(arguments, context))
}

fn run_once(arguments: &BenchArguments, context: &Context) -> Result<Finished<BenchDocument>, Failure> {
    context.signals.listen()?;
    context.signals.listen_for_requests()?;
    let measured = [context.cpu(arguments.cpu)];
    let observation = Observation { cpus: &measured, conditions: arguments.conditions, explained: None };
    let observers = Observers::begin(context, &observation);
    // Pin first, because a source that counts the cycles of one core pins its thread to the current CPU.
    let pinned = context.pin(arguments.cpu)?;
    let subjects = subjects(arguments, context)?;
    let subject_of_cycles = subjects.iter().map(Opened::as_dyn).find(|&subject| counts_cycles(subject));
    let own_cycles = if subject_of_cycles.is_some() { None } else { cycles(context) };
    let cycles = own_cycles.as_ref().map(Opened::as_dyn).or(subject_of_cycles);
    let wall = context.open("monotonic-raw")?;
    let stopwatch = stopwatch(context, wall.as_dyn())?;
    let timer = (stopwatch.source.as_dyn(), stopwatch.rate.frequency);
    let instruments = Instruments { wall: wall.as_dyn(), stopwatch: timer.0, stopwatch_frequency: timer.1, cycles };
    let steps = arguments.count.saturating_mul(subjects.len() as u64);
    let guess = GUESSED_READ.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
    let progress = Progress::new(steps, guess);
    let warm_up = warm_up(arguments, (context, &progress), (&subjects, instruments));
    let (mut rows, mut cut_short) = (Vec::new(), Vec::new());
    let cpu = pinned.as_ref().map(Pinned::cpu);
    let asked = BenchRequest { arguments, context, cpu, stopwatch: &stopwatch, cycles, warm_up };
    let mut parts = Parts::of(cpu, context);
    let mut watch_of_source = NotRunWatch::of_spinning_thread(&context.host, cpu);
    let mut watch = NotRunWatch::of_spinning_thread(&context.host, cpu);
    for (before, subject) in (0..).zip(&subjects) {
        if context.interrupted() {
            break;
        }
        let source = subject.as_dyn();
        progress.name(source.info().id.as_str());
        watch_of_source.restart();
        let cost = read_cost(source, instruments, arguments.count, &mut |done| {
            progress.at(arguments.count.saturating_mul(before).saturating_add(done));
            answer_request(context, || {
                let remark = format!("the reads of {} are not complete, so it has no row yet", source.info().id);
                let remarks = vec![SO_FAR.to_owned(), remark];
                let data = asked.data(rows.clone(), &cut_short, (&parts, NotRun::default(), remarks));
                let blocks = page(&data, cycles.map(|cycles| cycles.info().scope));
                (!rows.is_empty()).then(|| Document::new(data, blocks))
            });
            context.check()
        });
        let not_run = watch_of_source.read();
        if cost.cut_short {
            cut_short.push(source.info().id.to_string());
        }
        rows.push(row(source, wall.as_dyn(), timer, (&cost, &not_run)));
        parts.end(source.info().id.as_str());
    }
    let not_run = watch.read();
    let observed = observers.end(None);
    drop(progress);
    let data = asked.data(rows, &cut_short, (&parts, not_run, Vec::new()));
    Ok(Finished::new(data, Vec::new(), observed, |data| page(data, cycles.map(|cycles| cycles.info().scope))))
}

/// Reads the sources in turn until the warm-up is over.
fn warm_up(
    arguments: &BenchArguments,
    (context, progress): (&Context, &Progress),
    (subjects, instruments): (&[Opened], Instruments<'_>),
) -> DiscardedSamples {
    let mut turn = subjects.iter().cycle();
    arguments.warm_up.spend((context, progress), |end| {
        let Some(subject) = turn.next() else { return 0 };
        let mut goes_on = |_| continue_if(Instant::now() < end && !context.interrupted());
        read_cost(subject.as_dyn(), instruments, arguments.count.min(WARM_UP_READS), &mut goes_on).calls
    })
}

/// The request, and the instruments: the parts of the document that are known before the run.
struct BenchRequest<'a> {
    arguments: &'a BenchArguments,
    context: &'a Context,
    cpu: Option<usize>,
    stopwatch: &'a Stopwatch,
    cycles: Option<&'a dyn TimeSource>,
    warm_up: DiscardedSamples,
}

impl BenchRequest<'_> {
    /// Returns the document, at the end of the run or before. `remarks` are remarks on the state of the run.
    fn data(
        &self,
        mut rows: Vec<BenchRow>,
        cut_short: &[String],
        (parts, not_run, remarks): (&Parts<'_>, NotRun, Vec<String>),
    ) -> BenchDocument {
        let Self { arguments, context, cpu, stopwatch, cycles, warm_up } = *self;
        compare(&mut rows);
        let disturbed = not_run::note(&not_run, "the reads may be slower than on an idle machine");
        let wide = notes_of_wide_spreads(rows.iter().map(|row| (name(row), &row.repeated)), disturbed.is_some());
        let notes: Vec<String> = disturbed
            .into_iter()
            .chain(wide)
            .chain(read_less(cut_short))
            .chain(context.notes())
            .chain(parts.notes())
            .chain(remarks)
            .chain(arguments.warm_up.note(warm_up.warm_up_samples, SAMPLES))
            .collect();
        let limits = verdicts(arguments.limits.limits(), &rows.iter().map(limited_row).collect::<Vec<_>>());
        BenchDocument {
            head: head_of("bench", &context.host),
            cpu,
            stopwatch: stopwatch.source.as_dyn().info().id.to_string(),
            stopwatch_frequency_hz: stopwatch.rate.frequency.hertz_f64(),
            stopwatch_frequency_origin: stopwatch.rate.origin,
            stopwatch_bound_ppm: stopwatch.rate.bound_ppm,
            cycles_source: cycles.map(|cycles| cycles.info().id.to_string()),
            warm_up,
            interrupted: context.interrupted(),
            cpu_absences: parts.absences(),
            not_run,
            conditions: Conditions::default(),
            limits,
            results: rows,
            loaded: None,
            notes,
        }
    }
}

/// Returns the requested sources. By default, returns all available sources. If clock_gettime(CLOCK_MONOTONIC) or the
/// cycle counter needs no system call, the default also contains a source that reads the same clock or counter with a
/// system call.
fn subjects(arguments: &BenchArguments, context: &Context) -> Result<Vec<Opened>, Failure> {
    if !arguments.source.is_empty() {
        return context.open_all(&arguments.source);
    }
    let names = source::names_on(&context.host).into_iter();
    let mut subjects: Vec<Opened> = names.filter_map(|id| source::open(&context.host, id.as_str()).ok()).collect();
    if let Ok(by_call) = PosixClock::open_by_system_call(&context.host, PosixId::Monotonic) {
        subjects.push(Opened::Shared(Box::new(by_call)));
    }
    let by_register = |opened: &Opened| {
        let info = opened.as_dyn().info();
        counts_cycles(opened.as_dyn()) && info.scope == Scope::Thread && info.read_path == ReadPath::Register
    };
    if subjects.iter().any(by_register) {
        if let Ok(by_call) = PerfCycles::open_by_system_call(&context.host) {
            subjects.push(Opened::ThreadBound(Box::new(by_call)));
        }
    }
    Ok(subjects)
}

/// Returns a note on sources that were read fewer times than requested.
fn read_less(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| {
        format!(
            "{} read fewer times than requested, because reads that take 10 µs or more are limited to 2 s back to back and to 1 s one at a time (including the overhead of the stopwatch)",
            match names {
                [one] => format!("{one} was"),
                several => format!("{} were", several.join(", ")),
            }
        )
    })
}

/// Opens the source that counts the cycles of the reads: all cycles of the core if possible, otherwise the cycles that
/// this thread spends in user mode. The source must not be open while a measured source counts cycles, because some
/// cores have only one counter.
fn cycles(context: &Context) -> Option<Opened> {
    let of_core = ArmCycles::open(&context.host).map(|cycles| Opened::ThreadBound(Box::new(cycles)));
    let of_thread = || PerfCycles::open(&context.host).map(|cycles| Opened::ThreadBound(Box::new(cycles)));
    of_core.or_else(|_| of_thread()).ok()
}

fn row(
    source: &dyn TimeSource,
    wall: &dyn TimeSource,
    stopwatch: (&dyn TimeSource, Frequency),
    (cost, not_run): (&ReadCost, &NotRun),
) -> BenchRow {
    let info = source.info();
    let (stopwatch, stopwatch_frequency) = stopwatch;
    // If the source is the stopwatch itself, its measured frequency is known. Other sources use their nominal
    // frequency.
    let frequency = if info.id == stopwatch.info().id {
        Some(stopwatch_frequency)
    } else {
        info.nominal.map(|nominal| nominal.frequency)
    };
    let seen = frequency.and_then(|frequency| known_granularity(source, frequency, wall));
    BenchRow {
        id: info.id.to_string(),
        read_path: info.read_path.name().to_owned(),
        constant_rate: Some(info.rate.is_steady()),
        repeated: repeated_reads(cost, not_run),
        cycles_per_read: cost.cycles_per_call().map(rounded),
        ratio_to_cheapest: None,
        ratio_to_monotonic: None,
        single: single_reads(cost),
        stopwatch_overhead_ns: cost.empty.map(|spread| rounded(spread.p50_ns)),
        resolution_ns: info.resolution_ns().or(frequency.map(Frequency::tick_ns_f64)).map(rounded),
        granularity_ns: seen.map(|seen| rounded(seen.smallest_ns)),
    }
}

/// Returns a row to be compared with limits.
fn limited_row(row: &BenchRow) -> LimitedRow<'_> {
    let single = &row.single;
    let nanos = |quantity| match quantity {
        Quantity::Quantile(quantile) => single.quantiles.get(quantile.part()),
        Quantity::Mean => row.repeated.mean_read_ns,
        Quantity::Max => single.single_max_ns,
        Quantity::Read => row.repeated.per_read_ns,
        Quantity::Missed | Quantity::Stalls => None,
    };
    LimitedRow::of_times(name(row), single.single_samples.unwrap_or(0), "it was not measured", nanos)
}

/// Computes the ratio of each read overhead to the lowest read overhead, and to that of clock_gettime(CLOCK_MONOTONIC)
/// in the C library.
fn compare(rows: &mut [BenchRow]) {
    let cheapest = rows.iter().filter_map(|row| row.repeated.per_read_ns).min_by(f64::total_cmp);
    let monotonic = rows.iter().find(|row| row.id == "monotonic").and_then(|row| row.repeated.per_read_ns);
    let ratio = |cost: Option<f64>, to: Option<f64>| {
        cost.zip(to).filter(|&(_, to)| to > 0.0).map(|(cost, to)| rounded(cost / to))
    };
    for row in rows {
        row.ratio_to_cheapest = ratio(row.repeated.per_read_ns, cheapest);
        row.ratio_to_monotonic = ratio(row.repeated.per_read_ns, monotonic);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::{
        Frequency, Spread,
        source::{Nominal, Scope, StatedBy},
        testing::ManualSource,
    };
    use hpt_instrument::measure::{ReadBatches, ReadCost};

    use hpt_document::{
        bench::{BenchDocument, FrequencyOrigin},
        not_run::NotRun,
        warm_up::DiscardedSamples,
    };

    use super::{compare, page, row};
    use crate::{golden, output::Document, sampling::conditions};

    fn cost(per_call_ns: u64) -> ReadCost {
        let total = Duration::from_nanos(per_call_ns * 1_000_000);
        let figure = |factor: f64| per_call_ns as f64 * factor;
        let spread = Spread {
            samples: 100_000,
            min_ns: figure(0.9),
            p50_ns: figure(1.0),
            p99_ns: figure(1.5),
            p999_ns: figure(3.0),
            max_ns: figure(900.0),
            mean_ns: figure(1.1),
        };
        ReadCost {
            calls: 1_000_000,
            total,
            batches: Some(ReadBatches {
                batches: 100,
                p50_ns: figure(0.98),
                quartiles_ns: Some((figure(0.975), figure(0.99))),
                min_ns: figure(0.95),
            }),
            user: total,
            system: Duration::ZERO,
            cycles: Some(per_call_ns * 3_250_000),
            singles: Some(spread),
            empty: Some(spread),
            complete: true,
            cut_short: false,
        }
    }

    #[test]
    fn a_run_is_printed_exactly() {
        // Three sources with given values. Only the simulated granularity is measured here.
        let wall = ManualSource::new("wall").with_step(1_000);
        let not_run = NotRun { share: Some(0.01), wall_s: 0.5, ..NotRun::default() };
        let mut rows: Vec<_> = [("tsc", 10, 1), ("monotonic", 25, 1), ("monotonic-coarse", 5, 4_000_000)]
            .into_iter()
            .map(|(name, per_call_ns, step)| {
                let source = ManualSource::new(name).with_step(step);
                row(&source, &wall, (&wall, Frequency::GIGAHERTZ), (&cost(per_call_ns), &not_run))
            })
            .collect();
        compare(&mut rows);
        let nominal = Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition };
        let data = BenchDocument {
            head: golden::head("bench"),
            cpu: Some(1),
            stopwatch: "tsc".to_owned(),
            stopwatch_frequency_hz: 2.25e9,
            stopwatch_frequency_origin: FrequencyOrigin::Saved,
            stopwatch_bound_ppm: Some(0.0625),
            cycles_source: Some("perf-cycles".to_owned()),
            warm_up: DiscardedSamples::default(),
            interrupted: true,
            cpu_absences: Vec::new(),
            not_run,
            conditions: conditions::tests::example(),
            limits: Vec::new(),
            results: rows,
            loaded: None,
            notes: vec![format!("a note about {}", nominal.frequency)],
        };
        let blocks = page(&data, Some(Scope::Thread));
        golden::assert("bench", &Document::new(data, blocks));
    }
}
