//! Measures the offset of each clock from the kernel's CLOCK_MONOTONIC, from its first reading and
//! over a long time.
//! Every reading is bracketed by two of the kernel's clock. There is no warm-up, and a bracket
//! contains only the reading.

use std::{
    error::Error,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use hpt_benches::{
    bare::{clock_monotonic, nanos},
    brackets::{Account, Bracket, Offsets},
    programs::{EXIT_CODES, Interrupt, Keep, Outcome, duration, exit_code, table},
    rounds::order,
    slewing::{Bent, KernelClock, Plan},
    tails::Tails,
};
use hpt_core::clock;
use hpt_realtime::Pinned;
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  soak                            twenty minutes, not pinned
  soak --time 2min --jumps        while the kernel's clock is slewed in both directions
  soak --time 1min --pinned --slew 100";

/// The interval at which hpt's bound is read.
const ASK_FOR_BOUND: Duration = Duration::from_secs(10);
/// The slew of `--jumps`, and the time between changes of its sign.
const JUMPS: Plan = Plan::Jumps { ppm: 500.0, seconds: 10 };

/// Compare clocks with CLOCK_MONOTONIC for a long time, and report their offsets.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Run time
    #[arg(long, value_name = "DURATION", default_value = "20min", value_parser = duration)]
    time: Duration,
    /// Pin to one CPU, the highest allowed [default: not pinned]
    #[arg(long)]
    pinned: bool,
    /// Slew the kernel's clock by this many parts per million, and restore it at the end; needs
    /// CAP_SYS_TIME [default: no change]
    #[arg(long, value_name = "PPM", allow_hyphen_values = true, conflicts_with = "jumps")]
    slew: Option<f64>,
    /// Slew the kernel's clock by +500 and -500 ppm, in turns of ten seconds
    #[arg(long)]
    jumps: bool,
    #[command(flatten)]
    keep: Keep,
}

#[derive(Debug, Serialize)]
struct Found {
    seconds: f64,
    interrupted: bool,
    /// The reason why the figures are invalid, if another process changed the kernel's clock.
    discarded: Option<String>,
    plan: Plan,
    kernel_before: KernelClock,
    kernel_after: KernelClock,
    clocks: Vec<Offsets>,
    hpt: Stated,
}

/// The state of hpt's clock, as hpt reports it.
#[derive(Clone, Debug, Default, Serialize)]
struct Stated {
    source: String,
    /// The largest bound that it stated; read every ten seconds.
    bound_ns: u64,
    anchorings: u64,
    rate_changes: u64,
    jumps: u64,
    refused_brackets: u64,
}

impl Stated {
    fn look(&mut self) {
        let status = clock::status();
        let bound_ns = u64::try_from(status.bound.as_nanos()).unwrap_or(u64::MAX);
        *self = Self {
            source: status.source.to_string(),
            bound_ns: self.bound_ns.max(bound_ns),
            anchorings: status.anchorings,
            rate_changes: status.rate_changes,
            jumps: status.jumps,
            refused_brackets: status.refused_brackets,
        };
    }
}

/// The pause between two rounds of readings.
#[derive(Clone, Copy, Debug)]
enum Pause {
    None,
    Spin(Duration),
    Sleep(Duration),
}

/// A cycle of an eighth of a second: the name of a pause, the pause, and the number of rounds after
/// it.
const CYCLE: [(&str, Pause, u32); 4] = [
    ("none", Pause::None, 200),
    ("10 µs", Pause::Spin(Duration::from_micros(10)), 50),
    ("1 ms", Pause::Sleep(Duration::from_millis(1)), 20),
    ("50 ms", Pause::Sleep(Duration::from_millis(50)), 2),
];

/// A clock under observation.
struct Watched {
    name: &'static str,
    is_ours: bool,
    bracket: Box<dyn Fn() -> Bracket>,
    account: Account,
}

fn main() -> ExitCode {
    exit_code("soak", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    let pinned = if args.pinned { Some(hpt_benches::pin()?) } else { None };
    let plan = if args.jumps { JUMPS } else { args.slew.map_or(Plan::Leave, Plan::Slew) };
    let mut watched = watched();
    let mut bent = Bent::begin(plan).map_err(|error| format!("skipped: adjtimex: {error}"))?;
    let (start, mut stated, mut asked, mut discarded) = (Instant::now(), Stated::default(), Duration::ZERO, None);
    let goes_on = || !interrupt.came() && start.elapsed() < args.time;
    let mut round = 0;
    while goes_on() {
        for (name, pause, rounds) in CYCLE {
            for _ in (0..rounds).take_while(|_| !interrupt.came()) {
                pause.wait();
                for at in order(round, watched.len()) {
                    let Watched { bracket, account, .. } = &mut watched[at];
                    account.take(bracket(), name);
                }
                round += 1;
            }
        }
        discarded = discarded.or(bent.follow(start.elapsed())?);
        if start.elapsed() - asked > ASK_FOR_BOUND {
            stated.look();
            asked = start.elapsed();
        }
    }
    stated.look();
    let kernel_before = bent.before();
    let found = Found {
        seconds: start.elapsed().as_secs_f64(),
        interrupted: interrupt.came(),
        discarded,
        plan,
        kernel_before,
        kernel_after: bent.end()?,
        clocks: watched.iter_mut().map(|watched| watched.account.offsets(watched.name)).collect(),
        hpt: stated,
    };
    let cpu = pinned.as_ref().map(Pinned::cpu);
    args.keep.publish("soak", cpu, &found, &found.text(cpu))?;
    let broken = watched.iter().zip(&found.clocks).any(|(watched, clock)| {
        watched.is_ours && clock.worst.is_some_and(|worst| worst.outside_ns > found.hpt.bound_ns)
    });
    Ok(match (&found.discarded, broken) {
        (Some(_), _) => Outcome::Unknown,
        (None, true) => Outcome::Broken,
        (None, false) => Outcome::Kept,
    })
}

impl Pause {
    /// Waits with the C library's clock or the kernel's timer, so that no observed clock is read.
    fn wait(self) {
        match self {
            Self::None => {}
            Self::Spin(time) => {
                let start = Instant::now();
                while start.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
            Self::Sleep(time) => thread::sleep(time),
        }
    }
}

/// Returns all clocks. Starts those with their own epoch, which also calibrates quanta. Does not
/// touch hpt.
fn watched() -> Vec<Watched> {
    let std = Instant::now();
    let quanta = quanta::Instant::now();
    let minstant = minstant::Instant::now();
    let fastant = fastant::Instant::now();
    let hpt = |now: hpt_core::Instant| now.as_nanos();
    vec![
        watch("hpt Instant::now", true, false, hpt_core::Instant::now, hpt),
        watch("hpt Instant::now_unordered", true, false, hpt_core::Instant::now_unordered, hpt),
        watch("libc CLOCK_MONOTONIC", false, false, clock_monotonic, nanos),
        watch("std Instant::now", false, true, Instant::now, move |now| whole_ns(now - std)),
        watch("quanta Instant::now", false, true, quanta::Instant::now, move |now| whole_ns(now - quanta)),
        watch("minstant Instant::now", false, true, minstant::Instant::now, move |now| whole_ns(now - minstant)),
        watch("fastant Instant::now", false, true, fastant::Instant::now, move |now| whole_ns(now - fastant)),
    ]
}

/// Returns a clock under observation. Conversions that every user of the clock must make happen
/// after the bracket.
fn watch<T: 'static>(
    name: &'static str,
    is_ours: bool,
    has_own_epoch: bool,
    read: impl Fn() -> T + 'static,
    to_ns: impl Fn(T) -> i64 + 'static,
) -> Watched {
    let bracket = move || {
        let before = clock_monotonic();
        let reading = read();
        let after = clock_monotonic();
        Bracket { before_ns: nanos(before), reading_ns: to_ns(reading), after_ns: nanos(after) }
    };
    Watched { name, is_ours, bracket: Box::new(bracket), account: Account::new(has_own_epoch) }
}

#[expect(clippy::cast_possible_truncation, reason = "fits for 292 years")]
fn whole_ns(duration: Duration) -> i64 {
    duration.as_nanos() as i64
}

impl Found {
    fn text(&self, pinned_cpu: Option<usize>) -> String {
        let rows = self.clocks.iter().map(|clock| {
            let [p50, p99, p999, _, worst] = Tails::cells(clock.outside, 0);
            [
                clock.name.to_owned(),
                clock.readings.to_string(),
                format!("{p50} / {p99} / {p999} / {worst}"),
                format!("{} / {}", clock.disturbed, clock.disturbed_worst_ns),
                format!("{} to {}", clock.most_behind_ns, clock.most_ahead_ns),
                clock.at_end_ns.map_or("–".to_owned(), |ns| ns.to_string()),
                clock.drift_ppm.map_or("–".to_owned(), |ppm| format!("{ppm:.4}")),
                clock.usual_width_ns.to_string(),
            ]
        });
        let header = ["offset, ns", "readings", "outside", "disturbed", "from middle", "at end", "drift, ppm", "width"];
        let Stated { source, bound_ns, anchorings, rate_changes, jumps, refused_brackets } = &self.hpt;
        let pinned = pinned_cpu.map_or("not pinned".to_owned(), |cpu| format!("pinned to CPU {cpu}"));
        let discarded = self.discarded.as_ref().map(|why| format!("DISCARDED: {why}.\n\n")).unwrap_or_default();
        format!(
            "{discarded}{}\n\n{:.0} s, {pinned}; the kernel's clock: {:?}, before {:?}, after {:?}. Outside: p50 / p99 / p99.9 / worst distance of \
             a reading from the bracket of CLOCK_MONOTONIC around it. Disturbed: number of brackets wider than twice the usual width, which no \
             other figure includes, and the worst distance from one of them. From middle: the largest offsets behind and ahead, in brackets up to \
             one and a half times the usual width. Clocks with their own epoch are set to the reference in their first such bracket. hpt used \
             {source}, stated a bound of at most {bound_ns} ns, and had {anchorings} anchorings, {rate_changes} rate changes, {jumps} steps and \
             {refused_brackets} rejected brackets.\n",
            table(header, rows),
            self.seconds,
            self.plan,
            self.kernel_before,
            self.kernel_after,
        )
    }
}
