//! `hpt latency pairs`: the interval between back-to-back reads, after pauses.

use serde::{Deserialize, Serialize};
use std::{ops::ControlFlow, path::PathBuf, time::Duration};

use clap::{Args, ValueHint};
use hpt_core::{
    Frequency, Instant, Opened, Sleeper, SourceId, Spread, TimeSource, sleep::Strategy, source, stats::Histogram,
};
use hpt_document::{
    conditions::Conditions,
    not_run::NotRun,
    pairs::{PairsDocument, PairsRow},
    quantiles::{PairList, Quantiles},
    warm_up::DiscardedSamples,
};
use hpt_instrument::measure::{NotRunWatch, PairReads, PairStep, back_to_back_reads};
use hpt_realtime::Pinned;

use super::raw_pairs::{RawPair, RawPairs};
use crate::{
    arguments::{Codes, CpuChoice, after_help, at_least_one, cpu_choice, duration_in, without_metrics},
    context::{Context, continue_if},
    cycle_counters::counts_cycles,
    document_head::{head_of, machine_line},
    exit::{Failure, causes},
    kernel_reads::in_kernel,
    measurements::common_options::{CommonOptions, CpuOption},
    output::{
        Align, Block, Cell, Column, Document, OUTPUT, Table, chart_option::ChartOption, exact_time, one_or_many,
        progress::Progress, quantiles, remarks, rounded, saturating_nanos, short_time,
    },
    sampling::{
        conditions::{self, ConditionOptions},
        cpu_absences::{self, Parts},
        finished::Finished,
        histogram,
        limits::{
            self,
            option::{LimitOptions, PAIRS_HELP, of_pairs},
            quantity::{Accepted, Quantity},
            verdict::{LimitedRow, MAX_LEGEND, above, verdicts},
        },
        not_run,
        observers::{Observation, Observers},
        raw_samples::Raw,
        realtime_settings::pinned_to,
        run::{SO_FAR, answer_request},
        warm_up::{COUNT_HELP, SAMPLES, WarmUpOption},
    },
    signals::Signals,
    source_rate::frequency_of,
    statistics::known_quantile,
};

const EXAMPLES: &str = "  \
  hpt latency pairs                       without pauses, and after 100 ms
  hpt latency pairs --interval 0s,1s,1s/5s
                                          without pauses; after 1 s; after 1 s
                                          and 5 s in turn (7 minutes)
  sudo hpt latency pairs --in-kernel      beside reads in the kernel (ARM)
  hpt latency pairs --source monotonic,tsc --count 1000 --format csv";

/// The kind of the `hpt latency pairs` document.
pub(super) const KIND: &str = "latency-pairs";
/// The number of consecutive pairs between checks for Ctrl-C.
const LOOK_EVERY: u64 = 1_000;
/// The assumed duration of a pair of reads. Only the progress bar uses it.
const GUESSED_PAIR: Duration = Duration::from_nanos(200);

/// Measure the interval between back-to-back reads
///
/// Reads a source twice in immediate succession. The difference is the time that a program adds to a measured operation
/// by reading a clock before and after the operation. Reading in a loop shows the minimum. After a pause, caches are
/// cold and the CPU frequency may be lower. hpt reads the sources in turn, each after a pause of its own, and in a
/// different order each time.
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_long_help = after_help(Codes::measuring(Some("a quantity exceeded its --limit")), EXAMPLES), args(without_metrics()), mut_arg("limit", |limit| limit.long_help(PAIRS_HELP).value_parser(of_pairs)), mut_arg("warm_up", |warm_up| warm_up.long_help(COUNT_HELP)))]
pub(crate) struct PairsArguments {
    /// Sources to read, separated by commas [default: kernel clocks and counters]
    #[arg(short, long, value_name = "SOURCE", value_delimiter = ',')]
    source: Vec<String>,
    /// Pauses before pairs, separated by commas
    ///
    /// 1s/5s alternates between pauses of 1 s and 5 s.
    #[arg(short, long, value_name = "TIME", value_delimiter = ',', value_parser = waits, default_value = "0s,10ms")]
    interval: Vec<Waits>,
    /// Number of pairs per source and pause
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = at_least_one::<u32>)]
    count: u32,
    /// CPU; any: not pinned [default: isolated or highest]
    #[arg(short, long, value_name = "CPU", value_parser = cpu_choice, allow_hyphen_values = true)]
    cpu: Option<CpuChoice>,
    /// Also read in the kernel, with the kernel module hpt_cycles
    ///
    /// hpt_cycles reads the kernel's clock (realtime-in-kernel) and the cycle counter (arm-cycles-in-kernel) twice after
    /// each pause; without pauses, 1000 times in a row. Requires root. The default sources are then realtime and
    /// arm-cycles, which read the same counters in the program. No read is ordered.
    #[arg(long)]
    in_kernel: bool,
    #[command(flatten)]
    warm_up: WarmUpOption,
    #[command(flatten)]
    conditions: ConditionOptions,
    #[command(flatten)]
    limits: LimitOptions,
    /// Also write every pair to FILE as CSV
    ///
    /// The columns are the source, the pauses in nanoseconds, the number of the pair, and the interval in ticks and in
    /// nanoseconds.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT, hide_short_help = true)]
    raw: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

impl PairsArguments {
    pub(in crate::measurements) fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            limits: Some((self.limits.limits_mut(), Accepted::PAIRS)),
            has_length: true,
            cpu: CpuOption::One(&mut self.cpu),
            ..CommonOptions::default()
        }
    }
}

/// The pauses before pairs, used in turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Waits(Vec<Duration>);

/// Parses `0s`, `1s` or `1s/5s`.
fn waits(text: &str) -> Result<Waits, String> {
    let limits = (Duration::ZERO, Duration::from_secs(3_600));
    let one = |text: &str| duration_in(text, limits, ("at most 1h", "100ms or 1s/5s"));
    text.split('/').map(one).collect::<Result<_, _>>().map(Waits)
}

impl Waits {
    fn of(nanoseconds: &[u64]) -> Self {
        Self(nanoseconds.iter().copied().map(Duration::from_nanos).collect())
    }

    fn name(&self) -> String {
        if self.0.iter().all(Duration::is_zero) {
            return "no pause".to_owned();
        }
        self.0.iter().copied().map(exact_time).collect::<Vec<_>>().join(", ")
    }

    /// Returns the total duration of all pauses of a run.
    fn total(&self, count: u32) -> Duration {
        let turn: Duration = self.0.iter().sum();
        turn.saturating_mul(count) / u32::try_from(self.0.len().max(1)).unwrap_or(u32::MAX)
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "sources and kernel readers take turns, and share the counts and the sleeper"
)]
pub(crate) fn run(arguments: &PairsArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    context.signals.listen_for_requests()?;
    let cpus = [context.cpu(arguments.cpu)];
    let observation = Observation { cpus: &cpus, conditions: arguments.conditions, explained: None };
    let observers = Observers::begin(context, &observation);
    // Pin first, because a source that counts the cycles of one core pins its thread to the current CPU.
    let pinned = context.pin(arguments.cpu)?;
    let mut kernel = if arguments.in_kernel { in_kernel(context)? } else { Vec::new() };
    let opened = subjects(arguments, context)?;
    let reference = context.open("monotonic-raw")?;
    let sources: Vec<_> = opened.iter().map(Opened::as_dyn).collect();
    let rates: Vec<_> = sources.iter().map(|&source| frequency_of(source, reference.as_dyn())).collect();

    let raw = arguments.raw.as_ref().map(|path| Raw::<RawPair>::create(path)).transpose()?;
    // The kernel does not order its reads, either.
    let order = if arguments.in_kernel { PairReads::Bare } else { PairReads::Ordered };
    let read: Vec<_> = sources.iter().map(|&source| (source, order)).collect();

    let intervals = distinct(&arguments.interval);
    let progress = progress(&intervals, sources.len() + kernel.len(), arguments.count);
    let mut sleeper = Sleeper::new().with_strategy(Strategy::KernelOnly);
    let _listening = Signals::interrupts(sleeper.waker())?;
    let warm_up = warm_up(arguments, (context, &progress), (&read, intervals[0]), &mut sleeper);
    let cpu = pinned.as_ref().map(Pinned::cpu);
    let counts_cycles = !kernel.is_empty() || sources.iter().any(|source| counts_cycles(*source));
    let asked = PairsRequest { arguments, context, cpu, counts_cycles, warm_up };
    let (mut measured, mut done, mut refused) = (Vec::new(), 0_u64, Vec::new());
    // The thread blocks during pauses, so the kernel counts the time for which it was ready.
    let mut watch = NotRunWatch::of_blocking_thread(&context.host, cpu);
    let mut parts = Parts::of(cpu, context);
    let rows_of = |waits: &Waits, differences: &[Histogram]| -> Vec<(PairsRow, Histogram)> {
        let read = sources.iter().zip(&rates).zip(differences);
        let row_of = |((source, rate), differences): ((&&dyn TimeSource, &Option<Frequency>), &Histogram)| {
            Some((row(&source.info().id, *rate, waits, differences)?, differences.clone()))
        };
        read.filter_map(row_of).collect()
    };
    let mut lines = raw.as_ref().map(|raw| raw.of_thread(cpu));
    for waits in intervals {
        progress.name(&waits.name());
        let mut raw_pairs = lines.as_mut().map(|lines| RawPairs::new(lines, &waits.0, &sources, &rates));
        let mut pairs = PairSeries::new(waits, arguments.count.into(), sources.len());
        while pairs.left() > 0 && !context.interrupted() {
            pairs.measure(&read, raw_pairs.as_mut(), |wait| {
                // Consecutive pairs should be disturbed as little as possible.
                if !wait.is_zero() || (done + 1) % LOOK_EVERY == 0 {
                    // The result so far is printed before a pause, and when all sources have the same number of pairs.
                    continue_if(done % sources.len() as u64 > 0 || !context.signals.is_asked())?;
                    progress.at(done + 1);
                    pause(wait, &mut sleeper, context)?;
                }
                done += 1;
                ControlFlow::Continue(())
            });
            asked.answer(&parts, || [measured.clone(), rows_of(waits, &pairs.differences)].concat());
        }
        parts.end(waits.name());
        measured.extend(rows_of(waits, &pairs.differences));
        for reader in &mut kernel {
            let (id, rate) = (reader.id.clone(), reader.rate);
            let mut differences = Histogram::new();
            let count = u64::from(arguments.count);
            let read = reader.read((&waits.0, count), &mut differences, |wait, so_far| {
                asked.answer(&parts, || {
                    let row = row(&id, rate, waits, so_far).map(|row| (row, so_far.clone()));
                    measured.iter().cloned().chain(row).collect()
                });
                done += 1;
                progress.at(done);
                pause(wait, &mut sleeper, context)
            });
            refused.extend(read.err().map(|why| causes(&why)));
            measured.extend(row(&id, rate, waits, &differences).map(|row| (row, differences)));
        }
    }
    let not_run = watch.read();
    let observed = observers.end(None);
    drop(progress);
    drop(lines);
    let unwritten = raw.map_or(Ok(()), Raw::finish).err().map(|failure| causes(&failure));
    let warnings: Vec<_> = refused.into_iter().chain(unwritten).collect();
    let (data, differences) = asked.data(measured, &parts, (not_run, warnings.clone()));
    Ok(Finished::new(data, warnings, observed, |data| page(data, &differences)).into())
}

/// The pairs of reads after the same pauses, measured in one or several pieces.
struct PairSeries<'a> {
    waits: &'a Waits,
    count: u64,
    /// The number of pairs of all sources.
    made: u64,
    /// The distribution of each source.
    differences: Vec<Histogram>,
}

impl<'a> PairSeries<'a> {
    fn new(waits: &'a Waits, count: u64, sources: usize) -> Self {
        Self { waits, count, made: 0, differences: vec![Histogram::new(); sources] }
    }

    /// Returns the number of pairs of each source that are not measured yet.
    fn left(&self) -> u64 {
        self.count - self.made_of_each()
    }

    fn made_of_each(&self) -> u64 {
        self.made / self.differences.len() as u64
    }

    /// Measures until all pairs are measured, or until `wait` returns `Break`.
    fn measure(
        &mut self,
        sources: &[Read<'_>],
        mut raw: Option<&mut RawPairs<'_>>,
        mut wait: impl FnMut(Duration) -> ControlFlow<()>,
    ) {
        // Continue with the pause after the last one.
        let mut waits = self.waits.0.clone();
        let turns = waits.len().max(1) as u64;
        waits.rotate_left(usize::try_from(self.made_of_each() % turns).unwrap_or(0));
        let several = self.differences.len() as u64;
        let pairs = back_to_back_reads(sources, &waits, self.left(), &mut |step| {
            match step {
                PairStep::Pause(pause) => {
                    wait(pause)?;
                    self.made += 1;
                }
                PairStep::Read { source, ticks: Some(ticks) } => {
                    if let Some(raw) = &mut raw {
                        raw.add(source, (self.made - 1) / several + 1, ticks);
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        for (all, new) in self.differences.iter_mut().zip(pairs) {
            all.add(&new.differences);
        }
    }
}

/// A source, and how it is read.
type Read<'a> = (&'a dyn TimeSource, PairReads);

/// Reads pairs after the first of the pauses until the warm-up is over.
fn warm_up(
    arguments: &PairsArguments,
    (context, progress): (&Context, &Progress),
    (sources, waits): (&[Read<'_>], &Waits),
    sleeper: &mut Sleeper,
) -> DiscardedSamples {
    arguments.warm_up.spend((context, progress), |end| {
        let pairs = back_to_back_reads(sources, &waits.0, LOOK_EVERY, &mut |step| {
            let PairStep::Pause(wait) = step else { return ControlFlow::Continue(()) };
            let left = end.saturating_duration_since(Instant::now());
            continue_if(!left.is_zero())?;
            // The last pause may be shorter.
            pause(wait.min(left), sleeper, context)
        });
        pairs.iter().map(|pairs| pairs.differences.samples()).sum()
    })
}

/// The request: the parts of the document that are known before the run.
struct PairsRequest<'a> {
    arguments: &'a PairsArguments,
    context: &'a Context,
    cpu: Option<usize>,
    /// Whether a source counts cycles.
    counts_cycles: bool,
    warm_up: DiscardedSamples,
}

impl PairsRequest<'_> {
    /// Prints the result so far if the user requested it.
    fn answer(&self, parts: &Parts<'_>, so_far: impl FnOnce() -> Vec<(PairsRow, Histogram)>) {
        answer_request(self.context, || {
            let (data, differences) = self.data(so_far(), parts, (NotRun::default(), vec![SO_FAR.to_owned()]));
            let blocks = page(&data, &differences);
            (!data.results.is_empty()).then(|| Document::new(data, blocks))
        });
    }

    /// Returns the document and the distribution of each row, at the end of the run or before. `remarks` are remarks on
    /// the state of the run.
    fn data(
        &self,
        measured: Vec<(PairsRow, Histogram)>,
        parts: &Parts<'_>,
        (not_run, remarks): (NotRun, Vec<String>),
    ) -> (PairsDocument, Vec<Histogram>) {
        let Self { arguments, context, cpu, counts_cycles, warm_up } = *self;
        let (rows, differences): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
        let mut notes = context.notes();
        if arguments.in_kernel {
            notes.push(
                "no read is ordered, as in the kernel; a system call follows the pause before a read in the kernel"
                    .to_owned(),
            );
        }
        if counts_cycles {
            notes.push(
                "cycles are converted to nanoseconds at the frequency of a busy core; after a pause, the frequency may be lower".to_owned(),
            );
        }
        notes.extend(parts.notes());
        notes.extend(not_run::note(&not_run, "the longest intervals may include this time"));
        notes.extend(remarks);
        notes.extend(arguments.warm_up.note(warm_up.warm_up_samples, SAMPLES));
        let limited = rows.iter().zip(&differences).map(|(row, ticks)| limited_row(row, ticks));
        let limits = verdicts(arguments.limits.limits(), &limited.collect::<Vec<_>>());
        let data = PairsDocument {
            head: head_of(KIND, &context.host),
            cpu,
            warm_up,
            interrupted: context.interrupted(),
            cpu_absences: parts.absences(),
            not_run,
            conditions: Conditions::default(),
            limits,
            results: rows,
            notes,
        };
        (data, differences)
    }
}

/// Returns the requested sources; by default, the sources that a program could use to time its work.
fn subjects(arguments: &PairsArguments, context: &Context) -> Result<Vec<Opened>, Failure> {
    if !arguments.source.is_empty() {
        return context.open_all(&arguments.source);
    }
    let of_kernel = vec![SourceId::new("realtime"), SourceId::new("arm-cycles")];
    let names = if arguments.in_kernel { of_kernel } else { source::names() }.into_iter();
    let opened = names.filter_map(|id| source::open(&context.host, id.as_str()).ok());
    // A clock with a granularity of milliseconds is too coarse.
    Ok(opened.filter(|opened| opened.as_dyn().info().resolution_ns().is_none_or(|ns| ns < 100_000.0)).collect())
}

/// Returns the pauses, each once, in the order in which they were given first.
fn distinct(intervals: &[Waits]) -> Vec<&Waits> {
    let mut found: Vec<&Waits> = Vec::new();
    for waits in intervals {
        if !found.contains(&waits) {
            found.push(waits);
        }
    }
    found
}

fn progress(intervals: &[&Waits], rows: usize, count: u32) -> Progress {
    let series = intervals.len() * rows;
    let waits: Duration = intervals.iter().map(|waits| waits.total(count)).sum();
    let waits = waits.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX));
    let reads = GUESSED_PAIR.saturating_mul(count).saturating_mul(u32::try_from(series).unwrap_or(u32::MAX));
    Progress::new(u64::from(count) * series as u64, waits + reads)
}

/// Pauses with a single sleep. Returns `Break` if Ctrl-C ended the sleep.
fn pause(wait: Duration, sleeper: &mut Sleeper, context: &Context) -> ControlFlow<()> {
    continue_if(!context.interrupted() && sleeper.sleep(wait).is_in_time() && !context.interrupted())
}

fn row(id: &SourceId, rate: Option<Frequency>, waits: &Waits, differences: &Histogram) -> Option<PairsRow> {
    let ticks = differences.spread(1.0)?;
    let spread = rate.and_then(|rate| differences.spread(rate.tick_ns_f64()));
    let time = |figure: fn(&Spread) -> f64| spread.as_ref().map(figure).map(rounded);
    Some(PairsRow {
        id: id.to_string(),
        pauses_ns: waits.0.iter().copied().map(saturating_nanos).collect(),
        samples: ticks.samples,
        mean_ticks: rounded(ticks.mean_ns),
        ns_per_tick: rate.map(Frequency::tick_ns_f64),
        mean_ns: time(|spread| spread.mean_ns),
        min_ns: time(|spread| spread.min_ns),
        quantiles: Quantiles::of(|quantile| known_quantile(&spread?, quantile.share).map(rounded)),
        max_ns: time(|spread| spread.max_ns),
    })
}

/// Returns a row to be compared with limits. `ticks` is its distribution.
#[expect(clippy::cast_precision_loss, reason = "for comparing")]
fn limited_row<'a>(row: &'a PairsRow, ticks: &'a Histogram) -> LimitedRow<'a> {
    let name = format!("{}, {}", row.id, Waits::of(&row.pauses_ns).name());
    let nanos = move |quantity| match quantity {
        Quantity::Quantile(quantile) => Some(rounded(ticks.quantile(quantile.part())? as f64 * row.ns_per_tick?)),
        Quantity::Mean => row.mean_ns,
        Quantity::Max => row.max_ns,
        Quantity::Read | Quantity::Missed | Quantity::Stalls => None,
    };
    let of_quantiles = LimitedRow::of_times(name, row.samples, "the duration of a tick is unknown", nanos);
    match row.ns_per_tick {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a limit is at most an hour")]
        Some(ns) => {
            LimitedRow { above: Box::new(move |limit| above(ticks, (limit as f64 / ns) as u64)), ..of_quantiles }
        }
        None => of_quantiles,
    }
}

/// Returns the median of a row. A source that often does not advance between two reads is too coarse for a median.
fn median_of(row: &PairsRow) -> Option<f64> {
    row.quantiles.median().filter(|&p50_ns| p50_ns > 0.0)
}

/// Returns the places of the rows with these pauses, the row with the lowest median first. Rows without a median are the
/// last ones.
fn ranked(rows: &[PairsRow], pauses_ns: &[u64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..rows.len()).filter(|&place| rows[place].pauses_ns == pauses_ns).collect();
    let rank = |place: usize| median_of(&rows[place]).unwrap_or(f64::INFINITY);
    places.sort_by(|&one, &other| rank(one).total_cmp(&rank(other)));
    places
}

/// Returns the place of the row that the headline states: of the rows with the shortest pauses, the row with the lowest
/// median.
fn best(rows: &[PairsRow]) -> Option<usize> {
    let pauses = rows.iter().map(|row| &row.pauses_ns);
    let shortest = pauses.min_by_key(|pauses| pauses.iter().copied().fold(0, u64::saturating_add))?;
    ranked(rows, shortest).first().copied().filter(|&place| median_of(&rows[place]).is_some())
}

/// Returns the result of this row in one sentence.
fn headline(row: &PairsRow, sources: usize) -> String {
    let figures = [("p50", row.quantiles.median()), ("p99", row.quantiles.p99()), ("max", row.max_ns)];
    let figures = figures.into_iter().filter_map(|(name, ns)| Some(format!("{name} {}", short_time(ns?))));
    let pause = if row.pauses_ns.iter().all(|&ns| ns == 0) {
        "no pause".to_owned()
    } else {
        format!("after {}", Waits::of(&row.pauses_ns).name())
    };
    let of = if sources > 1 { format!(" (lowest p50 of {sources} sources)") } else { String::new() };
    format!(
        "Interval between back-to-back reads, {}{of}, {pause}, {} {}: {}",
        row.id,
        row.samples,
        one_or_many(row.samples, "pair", "pairs"),
        figures.collect::<Vec<_>>().join(", ")
    )
}

/// Formats the results. `differences` contains the distribution of each row, in ticks.
fn page(data: &PairsDocument, differences: &[Histogram]) -> Vec<Block> {
    let named = |name| Column(name, Align::Right);
    let head = [Column("pause before", Align::Left), Column("source", Align::Left), named("mean"), named("min")];
    let columns = head.into_iter().chain(quantiles::columns::<PairList>()).chain(["max", "ticks"].map(named));
    let mut pauses: Vec<&Vec<u64>> = data.results.iter().map(|row| &row.pauses_ns).collect();
    pauses.dedup();
    let places = pauses.into_iter().flat_map(|pauses_ns| ranked(&data.results, pauses_ns));
    let mut before = None;
    let rows = places.map(|place| &data.results[place]).map(|row| {
        let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
        let first = before.replace(&row.pauses_ns) != Some(&row.pauses_ns);
        let head = [
            Cell::plain(if first { Waits::of(&row.pauses_ns).name() } else { String::new() }),
            Cell::plain(row.id.as_str()),
            time(row.mean_ns),
            time(row.min_ns),
        ];
        let last = [time(row.max_ns), Cell::plain(format!("{:.1}", row.mean_ticks))];
        head.into_iter().chain(quantiles::cells(&row.quantiles)).chain(last).collect()
    });
    let table = Table { columns: columns.collect(), rows: rows.collect() }.without_empty_columns();
    let samples = data.results.iter().map(|row| row.samples).min().unwrap_or(0);
    let cpu =
        pinned_to(data.cpu) + &cpu_absences::except(&data.cpu_absences) + &not_run::words([(data.cpu, &data.not_run)]);
    let summary = format!(
        "Interval between back-to-back reads: at least {samples} {} per row. The histogram shows the row of the headline. {MAX_LEGEND}. ticks: the mean interval in ticks of the source. {cpu}. {}",
        one_or_many(samples, "pair", "pairs"),
        machine_line(&data.head.machine)
    );
    let best = best(&data.results);
    let mut blocks = match best.map(|place| &data.results[place]) {
        Some(row) => {
            let of_same_pauses = data.results.iter().filter(|other| other.pauses_ns == row.pauses_ns);
            vec![Block::Headline(headline(row, of_same_pauses.filter(|other| median_of(other).is_some()).count()))]
        }
        None => vec![Block::Headline("Interval between back-to-back reads: no result in nanoseconds".to_owned())],
    };
    blocks.extend(limits::table::blocks(&data.limits));
    if !data.results.is_empty() {
        blocks.push(Block::Table(table));
    }
    let drawn = best.and_then(|place| Some((data.results[place].ns_per_tick?, differences.get(place)?)));
    blocks.extend(drawn.and_then(|(tick_ns, ticks)| histogram::of_ticks(ticks, tick_ns, ("interval", "pairs"))));
    blocks.push(Block::detail(summary));
    blocks.extend(conditions::details(&data.conditions));
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, time::Duration};

    use hpt_core::{Frequency, SourceId, TimeSource, stats::Histogram, testing::ManualSource};

    use hpt_document::{not_run::NotRun, pairs::PairsDocument, warm_up::DiscardedSamples};

    use super::{PairReads, PairSeries, Raw, RawPairs, Waits, best, distinct, headline, page, ranked, row, waits};
    use crate::{golden, output::Document, sampling::conditions};

    #[test]
    fn a_run_is_printed_exactly() {
        let figures = |name: &'static str, frequency, wait: &str, differences: &[u64]| {
            let mut histogram = Histogram::new();
            differences.iter().for_each(|&difference| histogram.record(difference));
            let row = row(&SourceId::new(name), frequency, &waits(wait).expect("a wait"), &histogram);
            (row.expect("there are some"), histogram)
        };
        let gigahertz = Some(Frequency::GIGAHERTZ);
        let (results, differences): (Vec<_>, Vec<_>) = [
            figures("monotonic", gigahertz, "0s", &[100, 200, 300]),
            figures("arm-cycles", Frequency::from_hertz(2_000_000_000), "0s", &[6, 6, 12]),
            figures("monotonic", gigahertz, "1s/5s", &[1_000, 2_000]),
            figures("arm-cycles", None, "1s/5s", &[40, 44]),
        ]
        .into_iter()
        .unzip();
        let data = PairsDocument {
            head: golden::head("latency-pairs"),
            cpu: Some(1),
            warm_up: DiscardedSamples::default(),
            interrupted: true,
            cpu_absences: Vec::new(),
            not_run: NotRun { share: Some(0.004), wall_s: 12.0, stolen_s: Some(0.0), ..NotRun::default() },
            conditions: conditions::tests::example(),
            limits: Vec::new(),
            results,
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data, &differences);
        golden::assert("latency-pairs", &Document::new(data, blocks));
    }

    #[test]
    fn a_series_in_pieces_has_every_pair_and_every_pause_once() {
        let source = ManualSource::new("source").with_step(3);
        let waits = waits("1s/2s/3s").expect("waits");
        let mut series = PairSeries::new(&waits, 8, 1);
        let (mut waited, mut asked) = (Vec::new(), 0);
        while series.left() > 0 {
            series.measure(&[(&source, PairReads::Ordered)], None, |wait| {
                asked += 1;
                // Each third time, the series is interrupted before the pause.
                if asked % 3 == 0 {
                    return ControlFlow::Break(());
                }
                waited.push(wait.as_secs());
                ControlFlow::Continue(())
            });
        }
        assert_eq!(waited, [1, 2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(series.differences[0].samples(), 8);
    }

    #[test]
    fn every_pair_is_a_line_with_its_source_pauses_and_number() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pairs.csv");
        let (one, other) = (ManualSource::new("one").with_step(3), ManualSource::new("other").with_step(5));
        let (sources, rates): ([&dyn TimeSource; 2], _) = ([&one, &other], [Some(Frequency::MEGAHERTZ), None]);
        let raw = Raw::create(&path).expect("a new file");
        let mut lines = raw.of_thread(None);
        for (text, count) in [("0s", 2), ("1s/5s", 1)] {
            let waits = waits(text).expect("waits");
            let mut pairs = RawPairs::new(&mut lines, &waits.0, &sources, &rates);
            PairSeries::new(&waits, count, 2).measure(
                &sources.map(|source| (source, PairReads::Ordered)),
                Some(&mut pairs),
                |_| ControlFlow::Continue(()),
            );
        }
        drop(lines);
        raw.finish().expect("it is written");
        let text = std::fs::read_to_string(&path).expect("a file");
        let (head, lines) = text.split_once('\n').expect("a line of names");
        let mut lines: Vec<_> = lines.lines().collect();
        lines.sort_unstable();
        assert_eq!(head, "source,pauses_ns,pair,ticks,ns");
        assert_eq!(
            lines,
            [
                "one,0,1,3,3000",
                "one,0,2,3,3000",
                "one,1000000000/5000000000,1,3,3000",
                "other,0,1,5,",
                "other,0,2,5,",
                "other,1000000000/5000000000,1,5,"
            ]
        );
    }

    #[test]
    fn a_repeated_pause_is_measured_once() {
        let intervals: Vec<Waits> = ["0s", "1s/5s", "0s", "1s", "1s/5s"].iter().flat_map(|text| waits(text)).collect();
        let names: Vec<String> = distinct(&intervals).into_iter().map(Waits::name).collect();
        assert_eq!(names, ["no pause", "1 s, 5 s", "1 s"]);
    }

    #[test]
    fn the_headline_states_the_lowest_median_after_the_shortest_pauses() {
        let of = |name: &'static str, wait: &str, difference: u64| {
            let mut histogram = Histogram::new();
            histogram.record(difference);
            let waits = waits(wait).expect("a wait");
            row(&SourceId::new(name), Some(Frequency::GIGAHERTZ), &waits, &histogram).expect("some")
        };
        let rows = [of("tsc", "1s", 5), of("monotonic", "0s", 40), of("tai", "0s", 30), of("gettimeofday", "0s", 0)];
        assert_eq!((best(&rows), ranked(&rows, &[0])), (Some(2), vec![2, 1, 3]));
        assert_eq!(
            headline(&rows[2], 2),
            "Interval between back-to-back reads, tai (lowest p50 of 2 sources), no pause, 1 pair: p50 30 ns, max 30 ns"
        );
        assert_eq!(
            headline(&rows[0], 1),
            "Interval between back-to-back reads, tsc, after 1 s, 1 pair: p50 5 ns, max 5 ns"
        );
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_quantile_with_too_few_samples_beyond_it_is_missing() {
        let p99_ns = |samples: u64| {
            let mut histogram = Histogram::new();
            (0..samples).for_each(|difference| histogram.record(difference));
            let waits = waits("0s").expect("a wait");
            let row = row(&SourceId::new("tsc"), Some(Frequency::GIGAHERTZ), &waits, &histogram).expect("some");
            assert!(row.quantiles.median().is_some() && row.max_ns.is_some(), "{row:?}");
            row.quantiles.p99()
        };
        assert_eq!((p99_ns(100), p99_ns(999), p99_ns(1_000).is_some()), (None, None, true));
    }

    #[test]
    fn waits_are_parsed_or_refused() {
        let seconds =
            |seconds: &[u64]| Ok(Waits(seconds.iter().map(|&seconds| Duration::from_secs(seconds)).collect()));
        assert_eq!((waits("0s"), waits("1s"), waits("1s/5s")), (seconds(&[0]), seconds(&[1]), seconds(&[1, 5])));
        for wrong in ["", "1", "1s/", "2h", "-1s", "soon"] {
            assert!(waits(wrong).is_err(), "{wrong}");
        }
        assert_eq!(waits("1s/5s").map(|waits| waits.total(1_000)), Ok(Duration::from_secs(3_000)));
    }
}
