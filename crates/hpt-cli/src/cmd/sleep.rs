//! `hpt sleep`: measures the overshoot and the CPU time of sleeps with several methods.

use std::time::Duration;

use clap::{Args, builder::PossibleValuesParser};
use hpt_core::{
    Sleeper, Spread, clock,
    measure::{SleepMethod, SleepOvershoot, sleep_overshoot},
    realtime::Behavior,
};
use hpt_document::sleep::{SleepDocument, SleepRow};

use crate::{
    arguments::{Codes, after_help, at_least_one, sleep_length, without_metrics},
    context::Context,
    document_head::{head_of, machine_line},
    exit::Failure,
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, chart_option::ChartOption, exact_time, one_or_many,
        progress::Progress, remarks, rounded, saturating_nanos, short_time, tail,
    },
    sampling::{
        cpu_absences::{self, Parts},
        realtime_options::ThreadOptions,
        realtime_settings::words,
    },
};

const EXAMPLES: &str = "  \
  hpt sleep                                  four durations, five methods
  hpt sleep --length 1ms --count 10000       one duration, 10,000 times
  sudo hpt sleep -P f:50 --dma-latency 0     as a real-time thread, with idle
                                             states disabled
  sudo hpt sleep --strategy busy -P f:50 --no-throttling --mlockall
                                             as a real-time thread that never
                                             blocks, without throttling";

/// Measure the overshoot and the CPU time of sleeps
///
/// Sleeps with each method in turn: std (the standard library), nanosleep (clock_nanosleep with a
/// timer slack of 1 ns), fixed (nanosleep until 125 µs before the deadline, then spinning), busy
/// (spinning all the time), and hpt (blocking until a learned reserve before the deadline, then
/// spinning).
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct Arguments {
    /// Sleep durations, separated by commas
    #[arg(short, long, value_name = "TIME", value_delimiter = ',', value_parser = sleep_length, default_value = "100us,250us,1ms,10ms")]
    length: Vec<Duration>,
    /// Sleeps per duration and method
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200, value_parser = at_least_one::<u32>)]
    count: u32,
    /// std, nanosleep, fixed, busy, hpt [default: all]
    ///
    /// Separate several methods with commas.
    #[arg(long, value_name = "METHOD", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(SleepMethod::NAMES))]
    strategy: Vec<String>,
    /// Fraction of on-time wake-ups (hpt method only)
    ///
    /// A target from 0 to 1. A larger fraction uses more CPU time.
    #[arg(long, value_name = "FRACTION", value_parser = part)]
    quantile: Option<f64>,
    /// Maximum time spent spinning (hpt method only)
    ///
    /// A fraction of the sleep time, from 0 to 1.
    #[arg(long, value_name = "FRACTION", value_parser = part, conflicts_with = "quantile")]
    cpu_budget: Option<f64>,
    #[command(flatten)]
    thread: ThreadOptions,
    #[command(flatten)]
    pub(crate) chart: ChartOption,
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse::<f64>().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "expected a fraction from 0 to 1".to_owned())
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Result<Document, Failure> {
    arguments.thread.listen(context)?;
    let wanted = |name: &str| arguments.strategy.is_empty() || arguments.strategy.iter().any(|one| one == name);
    let methods = SleepMethod::NAMES.into_iter().filter(|name| wanted(name)).count() as u64;
    // Throttling affects only a thread that never blocks. If spinning alternates with other methods, the thread blocks
    // often enough.
    let conduct = if arguments.strategy.iter().any(|name| name != "busy") || arguments.strategy.is_empty() {
        Behavior::Blocks
    } else {
        Behavior::Spins
    };
    let held = arguments.thread.hold(context, conduct, "hpt sleep")?;
    clock::prime();

    let sleeps = u64::from(arguments.count) * methods;
    let expected = arguments.length.iter().sum::<Duration>();
    let expected = expected.saturating_mul(u32::try_from(sleeps).unwrap_or(u32::MAX));
    let progress = Progress::new(sleeps * arguments.length.len() as u64, expected);
    let mut rows = Vec::new();
    let mut parts = Parts::of(held.cpu(), context);
    for (before, &duration) in (0..).zip(&arguments.length) {
        progress.name(&exact_time(duration));
        let mut sleeper = Sleeper::new();
        if let Some(part) = arguments.quantile {
            sleeper = sleeper.with_quantile(part);
        }
        if let Some(part) = arguments.cpu_budget {
            sleeper = sleeper.with_cpu_budget(part);
        }
        let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
        methods.retain(|method| wanted(method.name()));
        let overshoots = sleep_overshoot(duration, arguments.count.into(), &mut methods, |done| {
            progress.at(sleeps * before + done);
            context.check()
        });
        drop(methods);
        parts.end(exact_time(duration));
        let reserve = sleeper.report().reserve;
        rows.extend(
            overshoots
                .iter()
                .filter(|overshoot| overshoot.overshoot.is_some())
                .map(|overshoot| row(duration, overshoot, reserve)),
        );
        if context.interrupted() {
            break;
        }
    }
    drop(progress);
    let (cpu, thread) = (held.cpu(), held.settings());
    let warnings = held.end();
    let device = context.note_of_a_device("programs select it with hpt_core::use_source");
    let data = SleepDocument {
        head: head_of("sleep", &context.host),
        cpu,
        source: clock::source().id.to_string(),
        interrupted: context.interrupted(),
        cpu_absences: parts.absences(),
        results: rows,
        notes: [context.notes(), thread.notes(), parts.notes(), warnings.clone(), Vec::from_iter(device)].concat(),
        thread: thread.thread,
    };
    let answer = if warnings.is_empty() { Answer::Yes } else { Answer::Unknown };
    let blocks = page(&data);
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

fn row(duration: Duration, overshoot: &SleepOvershoot, reserve: Duration) -> SleepRow {
    let late = |figure: fn(&Spread) -> f64| overshoot.overshoot.as_ref().map(figure).map(rounded);
    let samples = overshoot.overshoot.map_or(0, |late| late.samples);
    SleepRow {
        duration_ns: saturating_nanos(duration),
        method: overshoot.method.to_owned(),
        samples,
        early: overshoot.early,
        mean_ns: late(|late| late.mean_ns),
        trimmed_mean_ns: overshoot.trimmed_mean_ns.map(rounded),
        p50_ns: late(|late| late.p50_ns),
        p99_ns: late(|late| late.p99_ns).and_then(|ns| tail(samples, 0.99, ns)),
        p999_ns: late(|late| late.p999_ns).and_then(|ns| tail(samples, 0.999, ns)),
        max_ns: late(|late| late.max_ns),
        cpu_share: overshoot.cpu_share.map(rounded),
        reserve_ns: (overshoot.method == "hpt").then(|| saturating_nanos(reserve)),
    }
}

fn page(data: &SleepDocument) -> Vec<Block> {
    let columns = [
        Column("sleep", Align::Left),
        Column("method", Align::Left),
        Column("mean", Align::Right),
        Column("trim 1 %", Align::Right),
        Column("p50", Align::Right),
        Column("p99", Align::Right),
        Column("p99.9", Align::Right),
        Column("max", Align::Right),
        Column("early", Align::Right),
        Column("CPU %", Align::Right),
    ];
    let mut before = None;
    let rows = data.results.iter().map(|row| {
        let time = |ns: Option<f64>| Cell::or_dash(ns.map(short_time));
        let first = before.replace(row.duration_ns) != Some(row.duration_ns);
        let length = if first { exact_time(Duration::from_nanos(row.duration_ns)) } else { String::new() };
        vec![
            Cell::plain(length),
            Cell::plain(row.method.as_str()),
            time(row.mean_ns),
            time(row.trimmed_mean_ns),
            time(row.p50_ns),
            time(row.p99_ns),
            time(row.p999_ns),
            time(row.max_ns),
            Cell::plain(row.early.to_string()),
            Cell::or_dash(row.cpu_share.map(|share| format!("{:.2}", share * 100.0))),
        ]
    });
    let table = Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() });
    let samples = data.results.iter().map(|row| row.samples).min().unwrap_or(0);
    let thread = words(&data.thread, data.cpu) + &cpu_absences::except(&data.cpu_absences);
    let summary = format!(
        "Each row shows the overshoot of {samples} {}, timed with {}; the methods took turns. trim 1 %: mean without the largest 1 % of the samples. CPU %: CPU time of this \
         thread as a percentage of elapsed time. {thread}. {}",
        one_or_many(samples, "sleep", "sleeps"),
        data.source,
        machine_line(&data.head.machine)
    );
    let mut blocks = vec![table, Block::Text(summary)];
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use std::{ops::ControlFlow, time::Duration};

    use hpt_core::{
        Sleeper,
        measure::{SleepMethod, sleep_overshoot},
    };
    use hpt_document::sleep::{SleepDocument, SleepRow};

    use super::{page, part, row};
    use crate::{golden, output::Document, sampling::realtime_settings::tests::example};

    #[test]
    fn a_run_is_printed_exactly() {
        let row = |duration_ns, method: &str, factor: f64| SleepRow {
            duration_ns,
            method: method.to_owned(),
            samples: 200,
            early: 0,
            mean_ns: Some(70_000.0 * factor),
            trimmed_mean_ns: Some(65_000.0 * factor),
            p50_ns: Some(60_000.0 * factor),
            p99_ns: Some(90_000.0 * factor),
            p999_ns: Some(900_000.0 * factor),
            max_ns: Some(5_000_000.0 * factor),
            cpu_share: Some(0.0175),
            reserve_ns: (method == "hpt").then_some(21_000),
        };
        let data = SleepDocument {
            head: golden::head("sleep"),
            cpu: Some(1),
            thread: example().thread,
            source: "tsc".to_owned(),
            interrupted: true,
            cpu_absences: Vec::new(),
            results: vec![
                row(100_000, "std", 1.0),
                row(100_000, "hpt", 0.001),
                row(10_000_000, "std", 1.5),
                SleepRow { mean_ns: None, cpu_share: None, ..row(10_000_000, "hpt", 0.002) },
            ],
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
                sleep_overshoot(Duration::from_nanos(1), samples, &mut methods, |_| ControlFlow::Continue(()));
            let row = row(Duration::from_nanos(1), &overshoots[0], Duration::ZERO);
            assert_eq!(row.samples, samples);
            (row.p50_ns.is_some(), row.p99_ns.is_some(), row.p999_ns.is_some(), row.max_ns.is_some())
        };
        assert_eq!(tails(200), (true, false, false, true));
        assert_eq!(tails(1_000), (true, true, false, true));
        assert_eq!(tails(10_000), (true, true, true, true));
    }

    #[test]
    fn documents_list_every_method() {
        assert_eq!(hpt_document::words::SLEEP_METHODS, hpt_core::measure::SleepMethod::NAMES);
    }

    #[test]
    fn quantiles_are_parsed_or_refused() {
        assert_eq!((part("0.5"), part("1")), (Ok(0.5), Ok(1.0)));
        assert!(part("1.5").is_err() && part("-1").is_err() && part("NaN").is_err());
    }
}
