//! `hpt read`: prints readings of time sources. Does not measure how long a read takes; `hpt bench` does.

use std::time::Duration;

use clap::Args;
use hpt_core::{
    Instant, Opened, Pacer, SourceInfo, TimeSource,
    source::{ReadPath, StatedBy},
};
use hpt_document::read::{ReadDocument, Reading};

use crate::{
    arguments::{Codes, after_help, at_least_one, duration_in, without_metrics},
    context::Context,
    document_head::{head_of, machine_line},
    exit::Failure,
    output::{
        Align, Answer, Block, Cell, Column, Document, Table, exact_time, one_or_many, progress::Progress, remarks,
        saturating_nanos, unbroken,
    },
    signals::Signals,
};

const EXAMPLES: &str = "  \
  hpt read realtime                        print the time of day
  hpt read realtime-coarse -n 5 -i 200us   a coarse clock: the same time again
  hpt read tsc monotonic -n 3              two sources in turn, without a pause
  hpt read monotonic -n 9 --format csv     write a file for a spreadsheet";

/// The largest number of rounds. hpt keeps all readings in memory until the end.
const MOST_ROUNDS: u32 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Print readings of time sources
///
/// Reads the sources in turn, N times. A clock is printed in seconds, without the digits that are finer than its
/// resolution, and a counter in ticks. CSV and JSON also contain the ticks of clocks, with all digits. hpt prints at
/// the end, so that printing delays no reading.
#[derive(Debug, Args)]
#[command(after_long_help = after_help(Codes::measuring(None), EXAMPLES), args(without_metrics()))]
pub(crate) struct ReadArguments {
    /// Sources to read (hpt probe lists them)
    #[arg(value_name = "SOURCE", required = true)]
    name: Vec<String>,
    /// Number of readings per source
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = rounds)]
    count: u32,
    /// Time between two readings of a source [default: none]
    ///
    /// Each reading starts a multiple of TIME after the first one. A time that has passed is left out.
    #[arg(short, long, value_name = "TIME", value_parser = interval)]
    interval: Option<Duration>,
}

fn rounds(text: &str) -> Result<u32, String> {
    let rounds = at_least_one::<u64>(text)?;
    let rounds = u32::try_from(rounds).ok().filter(|&rounds| rounds <= MOST_ROUNDS);
    rounds.ok_or_else(|| "must be at most 1e6".to_owned())
}

/// Parses the time between two readings.
fn interval(text: &str) -> Result<Duration, String> {
    let limits = (Duration::from_micros(1), Duration::from_secs(3_600));
    duration_in(text, limits, ("between 1us and 1h", "200us or 1s"))
}

pub(crate) fn run(arguments: &ReadArguments, context: &Context) -> Result<Document, Failure> {
    context.signals.listen()?;
    let opened = context.open_all(&arguments.name)?;
    let sources: Vec<&dyn TimeSource> = opened.iter().map(Opened::as_dyn).collect();
    let rounds = read(arguments, context, &sources)?;
    let infos: Vec<SourceInfo> = sources.iter().map(|source| source.info().clone()).collect();
    let results: Vec<Reading> = (1..).zip(&rounds).flat_map(|(number, ticks)| row(number, &infos, ticks)).collect();
    let data = ReadDocument {
        head: head_of("read", &context.host),
        interval_ns: arguments.interval.map(saturating_nanos),
        interrupted: context.interrupted(),
        results,
        notes: context.notes(),
    };
    let answer = if data.results.is_empty() { Answer::Unknown } else { Answer::Yes };
    let blocks = page(&data);
    Ok(Document { answer, ..Document::new(data, blocks) })
}

/// Reads all sources in each round, until a signal ends the run. Nothing but the reads happens within a round.
fn read(arguments: &ReadArguments, context: &Context, sources: &[&dyn TimeSource]) -> Result<Vec<Vec<u64>>, Failure> {
    let mut rounds = vec![vec![0; sources.len()]; arguments.count as usize];
    let waits = arguments.interval.unwrap_or_default().saturating_mul(arguments.count - 1);
    let progress = Progress::new(arguments.count.into(), waits);
    let pacer = arguments.interval.map(Pacer::new);
    let _listening = pacer.as_ref().map(|pacer| Signals::interrupts(pacer.waker())).transpose()?;
    // The grid of the intervals begins with the first reading.
    let first = Instant::now();
    let starting = |pacer: Pacer| pacer.with_start(first + arguments.interval.unwrap_or_default());
    let mut pacer = pacer.map(starting);
    let mut done = 0;
    for round in &mut rounds {
        if let Some(pacer) = pacer.as_mut().filter(|_| done > 0) {
            progress.at(done as u64);
            let _ = pacer.wait();
        }
        if context.interrupted() {
            break;
        }
        for (ticks, source) in round.iter_mut().zip(sources) {
            *ticks = source.ticks();
        }
        done += 1;
    }
    rounds.truncate(done);
    Ok(rounds)
}

/// Returns the rows of a round.
fn row(number: u32, infos: &[SourceInfo], ticks: &[u64]) -> Vec<Reading> {
    let reading = |(info, &ticks): (&SourceInfo, &u64)| Reading {
        number,
        id: info.id.to_string(),
        time_s: time(info, ticks),
        ticks,
    };
    infos.iter().zip(ticks).map(reading).collect()
}

/// Returns a reading in seconds, without the digits that are finer than the resolution. Returns `None` for a counter:
/// the rate of its ticks is a property of the hardware, or its ticks are read from a device.
fn time(info: &SourceInfo, ticks: u64) -> Option<String> {
    let is_device = matches!(info.read_path, ReadPath::Mmio | ReadPath::Port);
    let rate = info.nominal.filter(|nominal| nominal.stated_by == StatedBy::Definition && !is_device)?;
    let hertz = rate.frequency.hertz();
    let resolution_ns = info.claimed_resolution_ns.unwrap_or(1).max(NANOS_PER_SECOND / hertz);
    let (seconds, rest) = (ticks / hertz, u128::from(ticks % hertz) * u128::from(NANOS_PER_SECOND) / u128::from(hertz));
    let digits = format!("{rest:09}");
    Some(match decimals(resolution_ns) {
        0 => seconds.to_string(),
        decimals => format!("{seconds}.{}", &digits[..decimals]),
    })
}

/// Returns the number of decimals of a second that a clock with this resolution can show: the last one is the first that
/// is not coarser than the resolution.
fn decimals(resolution_ns: u64) -> usize {
    let is_finer =
        |decimals: &usize| NANOS_PER_SECOND / 10_u64.pow(u32::try_from(*decimals).unwrap_or(9)) <= resolution_ns;
    (0..9).find(is_finer).unwrap_or(9)
}

fn page(data: &ReadDocument) -> Vec<Block> {
    let columns = [Column("#", Align::Right), Column("source", Align::Left), Column("reading", Align::Right)];
    let rows = data.results.iter().map(|row| {
        let reading = row.time_s.as_ref().map_or_else(|| format!("{} ticks", row.ticks), |time| format!("{time} s"));
        vec![Cell::faint(row.number.to_string()), Cell::plain(&row.id), Cell::plain(unbroken(&reading))]
    });
    let rounds = data.results.last().map_or(0, |row| row.number);
    let apart = data.interval_ns.map_or_else(
        || "no pause".to_owned(),
        |interval_ns| format!("every {}", exact_time(Duration::from_nanos(interval_ns))),
    );
    let legend = format!(
        "{rounds} {} per source, {apart}. Seconds have no digits that are finer than the resolution of the clock. {}",
        one_or_many(rounds, "reading", "readings"),
        machine_line(&data.head.machine)
    );
    let mut blocks =
        vec![Block::Table(Table { columns: columns.to_vec(), rows: rows.collect() }), Block::detail(legend)];
    blocks.extend(remarks(data.interrupted, &data.notes));
    blocks
}

#[cfg(test)]
mod tests {
    use hpt_core::{
        Frequency, SourceId, SourceInfo,
        source::{ReadPath, StatedBy},
    };
    use hpt_document::read::ReadDocument;

    use super::{decimals, interval, page, rounds, row, time};
    use crate::{golden, output::Document};

    fn clock(name: &'static str, hertz: u64, path: ReadPath) -> SourceInfo {
        let rate = Frequency::from_hertz(hertz).expect("not zero");
        SourceInfo::new(SourceId::new(name)).with_nominal(rate, StatedBy::Definition).with_read_path(path)
    }

    #[test]
    fn a_reading_has_the_digits_of_its_resolution() {
        let nanos = clock("realtime", 1_000_000_000, ReadPath::Vdso);
        let of = |resolution_ns| time(&nanos.clone().with_claimed_resolution_ns(resolution_ns), 7_012_345_678);
        assert_eq!(of(1).as_deref(), Some("7.012345678"));
        assert_eq!((of(4_000_000).as_deref(), of(10_000_000).as_deref()), (Some("7.012"), Some("7.01")));
        assert_eq!((of(2_000_000_000).as_deref(), time(&nanos, 5).as_deref()), (Some("7"), Some("0.000000005")));
        let micros = clock("gettimeofday", 1_000_000, ReadPath::Vdso);
        assert_eq!(time(&micros, 1_000_042).as_deref(), Some("1.000042"));
        assert_eq!(time(&clock("rtc0", 1, ReadPath::SystemCall), 42).as_deref(), Some("42"));
        assert_eq!(time(&nanos, u64::MAX).as_deref(), Some("18446744073.709551615"));
    }

    #[test]
    fn a_counter_has_ticks_and_no_time() {
        for path in [ReadPath::Mmio, ReadPath::Port] {
            assert_eq!(time(&clock("acpi-pm", 3_579_545, path), 1), None);
        }
        let stated = SourceInfo::new(SourceId::new("tsc")).with_read_path(ReadPath::Register);
        assert_eq!(time(&stated.clone().with_nominal(Frequency::GIGAHERTZ, StatedBy::Cpuid), 1), None);
        assert_eq!(time(&stated, 1), None);
    }

    #[test]
    fn the_number_of_decimals_follows_from_the_resolution() {
        let of = [1, 9, 10, 999, 1_000, 3_333_333, 4_000_000, 10_000_000, 999_999_999, 1_000_000_000, u64::MAX];
        assert_eq!(of.map(decimals), [9, 9, 8, 7, 6, 3, 3, 2, 1, 0, 0]);
    }

    #[test]
    fn counts_and_intervals_have_limits() {
        assert_eq!((rounds("1"), rounds("1e6")), (Ok(1), Ok(1_000_000)));
        for wrong in ["0", "1000001", "1e12", "1e99", "-1", "x"] {
            assert!(rounds(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0s", "200", "2h", "999ns", "-1s", ""] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn readings_are_printed_exactly() {
        let infos = [
            clock("realtime", 1_000_000_000, ReadPath::Vdso),
            clock("realtime-coarse", 1_000_000_000, ReadPath::Vdso).with_claimed_resolution_ns(4_000_000),
            SourceInfo::new(SourceId::new("tsc")).with_read_path(ReadPath::Register),
        ];
        let at = 1_795_867_989_123_456_789;
        let ticks = |number: u64| [at + number * 200_000, at - 3_456_789, 5_000 + number];
        let data = ReadDocument {
            head: golden::head("read"),
            interval_ns: Some(200_000),
            interrupted: true,
            results: (1..=2).flat_map(|number| row(number, &infos, &ticks(number.into()))).collect(),
            notes: vec!["a note".to_owned()],
        };
        let blocks = page(&data);
        golden::assert("read", &Document::new(data, blocks));
    }
}
