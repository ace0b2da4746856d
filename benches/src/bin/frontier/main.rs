//! Measures the frontier of a sleep: the overshoot against the CPU time, for many settings of hpt, for the crates
//! spin_sleep and tokio-timerfd, and for the kernel's sleep alone. The settings take turns in one run.
//! With `--contended`, compares how many periods a pacer and a loop of clock_nanosleep begin beside busy threads. With
//! `--load`, shows how a sleeper follows a load that starts and stops.

mod busy;
mod comparison;
mod contended;
mod kernel;
mod line;
mod load;
mod picture;

use std::{error::Error, fs, hint, io, num::NonZeroU64, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use embedded_hal::delay::DelayNs;
use hpt_benches::programs::{EXIT_CODES, Interrupt, Keep, Outcome, exit_code, table};
use hpt_core::{Instant, Sleeper, clock, sleep::Target};
use hpt_realtime::{Pinned, ShortSlice};
use rustix::{
    thread::set_current_timer_slack,
    time::{ClockId, clock_gettime},
};
use serde::{Deserialize, Serialize};
use spin_sleep::{SpinSleeper, SpinStrategy};

use self::{
    busy::beside,
    comparison::{Compared, compared},
    contended::{Periods, contended},
    kernel::nanosleep_until,
    line::Line,
    load::{Step, load},
};

const EXAMPLES: &str = "\
Examples:
  frontier 1000               sleeps of 1 ms with all settings
  frontier 60 --busy 4        waits of 60 µs beside four busy threads
  frontier 100 --contended    periods of 100 µs beside four busy threads
  frontier 1000 --load 3      sleeps of 1 ms while loads start and stop
  frontier 1000 --from a.json b.json c.json --svg medians.svg";

/// Measure the overshoot of sleeps against their CPU time, for many settings.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Length of each sleep, or of a period, in microseconds
    #[arg(value_name = "MICROSECONDS", value_parser = clap::value_parser!(u64).range(5..=10_000_000))]
    length: u64,
    /// Rounds, of which the first tenth is discarded [default: 60]; with --contended, runs [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    rounds: Option<u32>,
    /// Sleeps of each setting in a round
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Run this many threads on the same CPU that never block
    #[arg(long, value_name = "N", default_value = "0", conflicts_with_all = ["contended", "load", "from"])]
    busy: usize,
    /// Give the measured thread, but not the busy ones, a time slice of this many microseconds
    #[arg(long, value_name = "MICROSECONDS", requires = "busy")]
    slice: Option<u64>,
    /// Count the periods that a pacer and a loop of clock_nanosleep begin beside four busy threads
    #[arg(long)]
    contended: bool,
    /// Follow one sleeper in five phases of this many seconds, with different loads
    #[arg(long, value_name = "SECONDS", conflicts_with = "contended", value_parser = clap::value_parser!(u32).range(1..))]
    load: Option<u32>,
    /// Show the medians of earlier runs, from their JSON files, instead of measuring
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["contended", "load"])]
    from: Vec<PathBuf>,
    /// Also draw the settings or the phases to this file
    #[arg(long, value_name = "FILE", conflicts_with = "contended")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    keep: Keep,
}

/// A way of sleeping, and what was measured.
struct Setting {
    /// The place in the table.
    place: usize,
    name: String,
    sleep: Box<dyn FnMut(Duration, Instant)>,
    late_ns: Vec<u64>,
    early: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

#[derive(Debug, Serialize)]
struct Found {
    length_us: u64,
    busy: usize,
    slice_us: Option<u64>,
    interrupted: bool,
    settings: Vec<Line>,
    contended: Vec<Periods>,
    load: Vec<Step>,
}

fn main() -> ExitCode {
    exit_code("frontier", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    if !args.from.is_empty() {
        return show_medians(&args);
    }
    let interrupt = Interrupt::listen()?;
    set_current_timer_slack(NonZeroU64::new(1))?;
    clock::prime();
    let mut found = Found {
        length_us: args.length,
        busy: args.busy,
        slice_us: args.slice,
        interrupted: false,
        settings: Vec::new(),
        contended: Vec::new(),
        load: Vec::new(),
    };
    let mut cpu = None;
    if args.contended {
        found.contended = contended(Duration::from_micros(args.length), args.rounds.unwrap_or(5), &interrupt);
    } else {
        let pinned = hpt_benches::pin()?;
        cpu = Some(Pinned::cpu(&pinned));
        let length = Duration::from_micros(args.length);
        match args.load {
            Some(seconds) => found.load = load(length, seconds, &interrupt),
            None => found.settings = beside(args.busy, 0, || frontier(length, &args, &interrupt))?,
        }
    }
    if let Some(file) = &args.svg {
        if args.load.is_some() {
            picture::of_load(&found.load, args.length, file)?;
        } else {
            picture::of_settings(&found.settings, args.length, file)?;
        }
    }
    found.interrupted = interrupt.came();
    let early = found.settings.iter().any(|line| line.name.starts_with("hpt") && line.early > 0);
    args.keep.publish("frontier", cpu, &found, &found.text())?;
    Ok(if early { Outcome::Broken } else { Outcome::Kept })
}

/// The part of a JSON file that [`show_medians`] reads.
#[derive(Deserialize)]
struct Earlier {
    result: EarlierResult,
}

#[derive(Deserialize)]
struct EarlierResult {
    length_us: u64,
    settings: Vec<Line>,
}

/// Prints and draws the medians of earlier runs.
fn show_medians(args: &Args) -> Result<Outcome, Box<dyn Error>> {
    let mut runs = Vec::new();
    for file in &args.from {
        let earlier: Earlier = serde_json::from_str(&fs::read_to_string(file)?)?;
        if earlier.result.length_us != args.length {
            return Err(format!("{} contains sleeps of {} µs", file.display(), earlier.result.length_us).into());
        }
        runs.push(earlier.result.settings);
    }
    let found = Found {
        length_us: args.length,
        busy: args.busy,
        slice_us: args.slice,
        interrupted: false,
        settings: medians(&runs),
        contended: Vec::new(),
        load: Vec::new(),
    };
    if let Some(file) = &args.svg {
        picture::of_settings(&found.settings, args.length, file)?;
    }
    print!("{}", found.text());
    Ok(Outcome::Kept)
}

/// Returns the median of each figure, for the settings that all runs contain.
fn medians(runs: &[Vec<Line>]) -> Vec<Line> {
    let of_name = |name: &str| -> Option<Vec<&Line>> {
        runs.iter().map(|run| run.iter().find(|line| line.name == name)).collect()
    };
    let names = runs.first().into_iter().flatten().map(|line| line.name.as_str());
    let lines = names.filter_map(|name| {
        let lines = of_name(name)?;
        let ns = |figure: fn(&Line) -> u64| median(lines.iter().map(|line| figure(line)).collect());
        let share = |figure: fn(&Line) -> f64| {
            let mut shares: Vec<f64> = lines.iter().map(|line| figure(line)).collect();
            shares.sort_by(f64::total_cmp);
            shares[shares.len() / 2]
        };
        Some(Line {
            name: name.to_owned(),
            samples: lines.iter().map(|line| line.samples).sum(),
            early: lines.iter().map(|line| line.early).sum(),
            doubled: share(|line| line.doubled),
            p50_ns: ns(|line| line.p50_ns),
            p90_ns: ns(|line| line.p90_ns),
            p99_ns: ns(|line| line.p99_ns),
            p999_ns: ns(|line| line.p999_ns),
            trimmed_mean_ns: ns(|line| line.trimmed_mean_ns),
            cpu_share: share(|line| line.cpu_share),
        })
    });
    lines.collect()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn settings(length: Duration) -> io::Result<Vec<Setting>> {
    let mut settings = Vec::new();
    let mut add = |name: String, sleep: Box<dyn FnMut(Duration, Instant)>| {
        settings.push(Setting {
            place: settings.len(),
            name,
            sleep,
            late_ns: Vec::new(),
            early: 0,
            cpu_ns: 0,
            wall_ns: 0,
        });
    };
    add("nanosleep".to_owned(), Box::new(|_, deadline| nanosleep_until(deadline)));
    add(
        "spin".to_owned(),
        Box::new(|_, deadline| {
            while Instant::now() < deadline {
                hint::spin_loop();
            }
        }),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    add(
        "tokio-timerfd".to_owned(),
        Box::new(move |duration, _| {
            // A timer that cannot be created would end at once, and count as early.
            let _ = runtime.block_on(async { tokio_timerfd::sleep(duration).await });
        }),
    );
    for margin_us in [20_u32, 50, 125, 200] {
        let sleeper = SpinSleeper::new(margin_us * 1_000).with_spin_strategy(SpinStrategy::SpinLoopHint);
        add(format!("spin_sleep {margin_us} µs"), Box::new(move |duration, _| sleeper.sleep(duration)));
    }
    let targets = [("default", Target::Balanced)];
    let late = [1, 5, 10, 20].map(|us| (format!("p99 {us} µs"), Target::P99(Duration::from_micros(us))));
    // The CPU time of a sleep depends on its length only through the depth of the idle state. The competitor's settings
    // are times as well.
    let cpu = [0, 20, 25, 30, 35, 40, 45, 50, 65, 80, 100, 125, 150, 200, 250].map(Duration::from_micros);
    let cpu = cpu
        .into_iter()
        .filter(|&cpu| cpu < length)
        .map(|cpu| (format!("cpu {} µs", cpu.as_micros()), Target::CpuShare(cpu.as_secs_f64() / length.as_secs_f64())));
    let targets = targets.map(|(name, target)| (name.to_owned(), target));
    for (name, target) in targets.into_iter().chain(late).chain(cpu) {
        let mut sleeper = Sleeper::new().with_target(target);
        let sleep = move |_, deadline| {
            let _ = sleeper.sleep_until(deadline);
        };
        add(format!("hpt {name}"), Box::new(sleep));
    }
    let (mut delay, length_ns) = (Sleeper::new(), u32::try_from(length.as_nanos()).unwrap_or(u32::MAX));
    add("hpt DelayNs".to_owned(), Box::new(move |_, _| delay.delay_ns(length_ns)));
    Ok(settings)
}

fn frontier(length: Duration, args: &Args, interrupt: &Interrupt) -> Result<Vec<Line>, Box<dyn Error>> {
    let _slice = args.slice.map(|us| ShortSlice::new(Duration::from_micros(us))).transpose()?;
    let mut settings = settings(length)?;
    let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let rounds = args.rounds.unwrap_or(60);
    let discarded = rounds.div_ceil(10);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..rounds {
        // The scheduler makes a thread wait for what it used before: each setting follows each other one.
        settings.sort_by_cached_key(|_| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        });
        for setting in &mut settings {
            if interrupt.came() {
                break;
            }
            let (begun, cpu_before_ns) = (Instant::now(), cpu_ns());
            for _ in 0..args.count {
                let deadline = Instant::now() + length;
                (setting.sleep)(length, deadline);
                let now = Instant::now();
                if round >= discarded {
                    setting.early += u64::from(now < deadline);
                    setting.late_ns.push(now.nanos_since(deadline));
                }
            }
            if round >= discarded {
                setting.cpu_ns += cpu_ns() - cpu_before_ns;
                setting.wall_ns += begun.elapsed_nanos();
            }
        }
    }
    settings.sort_by_key(|setting| setting.place);
    let measured = settings.into_iter().filter(|setting| !setting.late_ns.is_empty());
    Ok(measured.map(|setting| setting.line(length_ns)).collect())
}

impl Setting {
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    fn line(mut self, length_ns: u64) -> Line {
        self.late_ns.sort_unstable();
        let late_ns = &self.late_ns;
        let quantile = |permille: usize| late_ns[(late_ns.len() * permille / 1_000).min(late_ns.len() - 1)];
        let doubled = late_ns.len() - late_ns.partition_point(|&late_ns| late_ns <= length_ns);
        let kept = &late_ns[..(late_ns.len() * 99 / 100).max(1)];
        Line {
            samples: late_ns.len(),
            early: self.early,
            doubled: doubled as f64 / late_ns.len() as f64,
            p50_ns: quantile(500),
            p90_ns: quantile(900),
            p99_ns: quantile(990),
            p999_ns: quantile(999),
            trimmed_mean_ns: kept.iter().sum::<u64>() / kept.len() as u64,
            cpu_share: self.cpu_ns as f64 / self.wall_ns as f64,
            name: self.name,
        }
    }
}

/// Returns the CPU time of this thread.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Found {
    fn text(&self) -> String {
        let us = |ns: u64| format!("{}.{:02}", ns / 1_000, ns % 1_000 / 10);
        if !self.load.is_empty() {
            let rows = self.load.iter().map(|step| {
                let [margin, p50, p90] = [step.margin_ns, step.p50_ns, step.p90_ns].map(us);
                let phase = step.phase.to_owned();
                [
                    format!("{:.1}", step.at_s),
                    step.sleeps.to_string(),
                    margin,
                    p50,
                    p90,
                    step.contended.to_string(),
                    phase,
                ]
            });
            return format!(
                "{}\n\nSleeps of {} µs with a default sleeper. Times in microseconds, but for s: seconds since the start.\n",
                table(["s", "sleeps", "margin", "p50", "p90", "contended", "phase"], rows),
                self.length_us
            );
        }
        if self.settings.is_empty() {
            let percent = |part: f64| format!("{:.1}", part * 100.0);
            let rows = (1..).zip(&self.contended);
            let rows = rows
                .map(|(run, periods): (u32, _)| [run.to_string(), percent(periods.nanosleep), percent(periods.pacer)]);
            return format!(
                "{}\n\nThe share of periods of {} µs that began, in percent, beside four busy threads.\n",
                table(["run", "clock_nanosleep", "Pacer"], rows),
                self.length_us
            );
        }
        let rows = self.settings.iter().map(|line| {
            let [percent, doubled] = [line.cpu_share, line.doubled].map(|share| format!("{:.2}", share * 100.0));
            let [p50, p90, p99] = [line.p50_ns, line.p90_ns, line.p99_ns].map(us);
            [line.name.clone(), p50, p90, p99, us(line.p999_ns), us(line.trimmed_mean_ns), doubled, percent]
        });
        let comparison = compared(&self.settings).into_iter().map(|Compared { fixed, best }| {
            let (name, additional) = best
                .map_or(("none", String::new()), |(name, additional)| (name, format!("{:+.3}", additional * 100.0)));
            [fixed.to_owned(), name.to_owned(), additional]
        });
        format!(
            "{}\n\nThe overshoot of sleeps of {} µs beside {} busy threads, in microseconds. trimmed: mean without the largest \
             hundredth. doubled: sleeps that took more than twice their length. CPU: CPU time of the thread divided by the elapsed time.\n\n{}\n\nFor each fixed margin: the setting of hpt that takes the least CPU time among those whose \
             trimmed mean, p90 and p99 are not higher, and the CPU time that it takes in addition, in percent of a CPU.\n",
            table(["setting", "p50", "p90", "p99", "p99.9", "trimmed", "doubled %", "CPU %"], rows),
            self.length_us,
            self.busy,
            table(["fixed margin", "hpt", "additional"], comparison)
        )
    }
}
