//! Measures how late the ticks of an interval in a tokio runtime are, and their CPU time: with hpt-async, with tokio's
//! own interval, with that of tokio-timerfd, and with a blocking loop of clock_nanosleep. They take turns in one run.

use std::{
    error::Error,
    future::poll_fn,
    num::NonZeroU64,
    pin::Pin,
    process::ExitCode,
    time::{Duration, Instant as StdInstant},
};

use clap::Parser;
use futures_core::Stream;
use hpt_async::{AsyncSleeper, Finish, Interval, Timers};
use hpt_benches::programs::{EXIT_CODES, Interrupt, Keep, Outcome, exit_code, table};
use hpt_core::{Instant, clock};
use rustix::{
    thread::{ClockId as SleepClock, clock_nanosleep_absolute, set_current_timer_slack},
    time::{ClockId, Timespec, clock_gettime},
};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

const EXAMPLES: &str = "\
Examples:
  async_interval                      a minute of ticks, one per millisecond
  async_interval --period-us 250      four ticks per millisecond";

/// Measure how late the ticks of an interval in tokio are, and their CPU time.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Period, in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value = "1000", value_parser = clap::value_parser!(u64).range(50..=10_000_000))]
    period_us: u64,
    /// Measurement time of all intervals together, in seconds
    #[arg(long, value_name = "N", default_value = "60", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Ticks of each turn
    #[arg(long, value_name = "N", default_value = "500", value_parser = clap::value_parser!(u32).range(2..))]
    ticks: u32,
    #[command(flatten)]
    keep: Keep,
}

/// One of the intervals, and what was measured.
struct Way {
    name: &'static str,
    kind: Kind,
    late_ns: Vec<u64>,
    early: u64,
    missed: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

enum Kind {
    Nanosleep,
    Tokio,
    TokioTimerfd,
    Ours(Interval),
}

/// The lateness of a tick, in nanoseconds, negative if it was early; and the number of periods missed before it.
type Tick = (i64, u64);

#[derive(Debug, Serialize)]
struct Found {
    period_us: u64,
    interrupted: bool,
    intervals: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    ticks: usize,
    early: u64,
    missed: u64,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// The CPU time of the process over the time that passed.
    cpu_share: f64,
}

fn main() -> ExitCode {
    exit_code("async_interval", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    set_current_timer_slack(NonZeroU64::new(1))?;
    clock::prime();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The thread of the timers is started first: it may use every CPU.
    let timers = Timers::new()?;
    let pinned = hpt_benches::pin()?;
    let intervals = runtime.block_on(measured(&args, &timers, &interrupt))?;
    let is_early = intervals.iter().any(|line| line.name.starts_with("hpt") && line.early > 0);
    let found = Found { period_us: args.period_us, interrupted: interrupt.came(), intervals };
    args.keep.publish("async_interval", Some(pinned.cpu()), &found, &found.text())?;
    Ok(if is_early { Outcome::Broken } else { Outcome::Kept })
}

async fn measured(args: &Args, timers: &Timers, interrupt: &Interrupt) -> Result<Vec<Line>, Box<dyn Error>> {
    let period = Duration::from_micros(args.period_us);
    let ours = |sleeper: AsyncSleeper, finish| Kind::Ours(Interval::new(sleeper.with_finish(finish), period));
    let mut ways = [
        ("clock_nanosleep, blocking", Kind::Nanosleep),
        ("tokio::time::interval", Kind::Tokio),
        ("tokio-timerfd Interval", Kind::TokioTimerfd),
        ("hpt-async, Kernel", ours(AsyncSleeper::tokio()?, Finish::Kernel)),
        ("hpt-async, Yield", ours(AsyncSleeper::tokio()?, Finish::Yield)),
        ("hpt-async, Spin", ours(AsyncSleeper::tokio()?, Finish::Spin)),
        ("hpt-async, Spin, Timers", ours(AsyncSleeper::timers(timers), Finish::Spin)),
    ]
    .map(|(name, kind)| Way { name, kind, late_ns: Vec::new(), early: 0, missed: 0, cpu_ns: 0, wall_ns: 0 });
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(args.seconds) && !interrupt.came() {
        for way in &mut ways {
            way.turn(period, args.ticks).await?;
        }
    }
    Ok(ways.into_iter().filter(|way| !way.late_ns.is_empty()).map(Way::line).collect())
}

impl Way {
    /// Measures the ticks of one turn. The first one only starts the interval.
    async fn turn(&mut self, period: Duration, ticks: u32) -> Result<(), Box<dyn Error>> {
        let mut found: Vec<Tick> = Vec::with_capacity(ticks as usize);
        let (mut begun, mut cpu_before_ns) = (Instant::now(), cpu_ns());
        // The CPU time and the elapsed time begin with the first tick.
        let mut put = |tick: Option<Tick>| match tick {
            Some(tick) => found.push(tick),
            None => (begun, cpu_before_ns) = (Instant::now(), cpu_ns()),
        };
        match &mut self.kind {
            Kind::Nanosleep => {
                let mut next = Instant::now() + period;
                for number in 0..ticks {
                    nanosleep_until(next);
                    let late_ns = signed_ns(Instant::now(), next);
                    let missed = late_ns.unsigned_abs() / saturating_nanos(period);
                    put((number > 0).then_some((late_ns, missed)));
                    next += Duration::from_nanos((missed + 1) * saturating_nanos(period));
                }
            }
            Kind::Tokio => {
                let mut interval = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
                interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
                for number in 0..ticks {
                    let deadline = interval.tick().await.into_std();
                    let late_ns = signed_std_ns(StdInstant::now(), deadline);
                    put((number > 0).then_some((late_ns, late_ns.max(0).unsigned_abs() / saturating_nanos(period))));
                }
            }
            Kind::TokioTimerfd => {
                let first = StdInstant::now() + period;
                let mut interval = tokio_timerfd::Interval::new(first, period)?;
                let mut periods = 0;
                for number in 0..ticks {
                    poll_fn(|context| Pin::new(&mut interval).poll_next(context)).await.ok_or("it ended")??;
                    let since_first_ns = signed_std_ns(StdInstant::now(), first);
                    // It does not report how many periods a tick stands for: at least as many as have passed since.
                    let passed = since_first_ns.max(0).unsigned_abs() / saturating_nanos(period);
                    let late_ns = since_first_ns - (passed * saturating_nanos(period)).cast_signed();
                    put((number > 0).then_some((late_ns, passed.saturating_sub(periods))));
                    periods = passed + 1;
                }
            }
            Kind::Ours(interval) => {
                for number in 0..ticks {
                    let tick = interval.tick().await;
                    put((number > 0).then_some((signed_ns(Instant::now(), tick.deadline), tick.skipped)));
                }
            }
        }
        self.cpu_ns += cpu_ns() - cpu_before_ns;
        self.wall_ns += begun.elapsed_nanos();
        for (late_ns, missed) in found {
            self.early += u64::from(late_ns < 0);
            self.late_ns.push(late_ns.max(0).unsigned_abs());
            self.missed += missed;
        }
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    fn line(mut self) -> Line {
        self.late_ns.sort_unstable();
        let late_ns = &self.late_ns;
        let quantile = |percent: usize| late_ns[(late_ns.len() * percent / 100).min(late_ns.len() - 1)];
        Line {
            name: self.name,
            ticks: late_ns.len(),
            early: self.early,
            missed: self.missed,
            p50_ns: quantile(50),
            p90_ns: quantile(90),
            p99_ns: quantile(99),
            max_ns: quantile(100),
            cpu_share: self.cpu_ns as f64 / self.wall_ns as f64,
        }
    }
}

fn signed_ns(now: Instant, deadline: Instant) -> i64 {
    now.as_nanos().saturating_sub(deadline.as_nanos())
}

fn signed_std_ns(now: StdInstant, deadline: StdInstant) -> i64 {
    let late = now.checked_duration_since(deadline).map(|late| saturating_nanos(late).cast_signed());
    late.unwrap_or_else(|| -saturating_nanos(deadline - now).cast_signed())
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn nanosleep_until(deadline: Instant) {
    let (tv_sec, nanoseconds) = deadline.to_timespec();
    let moment = Timespec { tv_sec, tv_nsec: nanoseconds.into() };
    while clock_nanosleep_absolute(SleepClock::Monotonic, &moment).is_err() {}
}

/// Returns the CPU time of this process.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Found {
    fn text(&self) -> String {
        let us = |ns: u64| format!("{}.{:02}", ns / 1_000, ns % 1_000 / 10);
        let rows = self.intervals.iter().map(|line| {
            let [p50, p90, p99, max] = [line.p50_ns, line.p90_ns, line.p99_ns, line.max_ns].map(us);
            let percent = format!("{:.2}", line.cpu_share * 100.0);
            let counts = [line.ticks.to_string(), line.early.to_string(), line.missed.to_string()];
            let [ticks, early, missed] = counts;
            [line.name.to_owned(), ticks, early, missed, p50, p90, p99, max, percent]
        });
        format!(
            "{}\n\nThe time from the start of a period of {} µs until the task ran, in microseconds. missed: periods without a tick. CPU: CPU \
             time of the process divided by the elapsed time.\n",
            table(["interval", "ticks", "early", "missed", "p50", "p90", "p99", "max", "CPU %"], rows),
            self.period_us
        )
    }
}
