//! Adds many deadlines from four threads and cancels half of them from another thread, with `Timers` of hpt-async and
//! with tokio's timer wheel. Counts the lost and the early ones, and measures the lateness and the CPU time.

use std::{
    error::Error,
    mem,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use clap::Parser;
use hpt_async::{Call, Finish, Timers};
use hpt_benches::programs::{EXIT_CODES, Interrupt, Keep, Outcome, exit_code, table};
use hpt_core::{Instant, clock};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tokio::{runtime::Runtime, task::JoinHandle};

const EXAMPLES: &str = "\
Examples:
  many_deadlines                   10^5 deadlines within five seconds
  many_deadlines --window-ms 1000  within one second";

const THREADS: usize = 4;
/// The time from the start until the first deadline, in which all are added and half of them are cancelled.
const LEAD: Duration = Duration::from_millis(1_000);
/// The time after the last deadline in which a late one still counts as not lost.
const GRACE: Duration = Duration::from_secs(10);
/// The lateness of a deadline that was not served.
const NEVER: i64 = i64::MIN;

/// Add and cancel many deadlines from four threads.
#[derive(Debug, Parser)]
#[command(max_term_width = 80, after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
struct Args {
    /// Number of deadlines, of which half are cancelled
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u32).range(8..=10_000_000))]
    count: u32,
    /// Time between the first and the last deadline, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value = "5000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    window_ms: u64,
    /// Rounds in which the contenders take turns
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    keep: Keep,
}

/// A contender, and what was measured.
struct Way {
    name: &'static str,
    kind: Kind,
    count: usize,
    cancelled: usize,
    lost: usize,
    early: usize,
    wrongly_served: usize,
    late_ns: Vec<u64>,
    add_ns: u64,
    cancel_ns: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

enum Kind {
    /// Callbacks of our timers.
    Calls(Timers),
    /// Tasks of a tokio runtime that wait for our timers.
    Tasks(Timers, Runtime),
    /// Tasks of a tokio runtime that wait for its timer wheel.
    Wheel(Runtime),
}

enum Added {
    Call(Call),
    Task(JoinHandle<()>),
}

/// The outcome of each deadline.
struct Board {
    late_ns: Vec<AtomicI64>,
    served: Vec<AtomicU32>,
}

#[derive(Debug, Serialize)]
struct Found {
    count: u32,
    window_ms: u64,
    interrupted: bool,
    contenders: Vec<Line>,
}

#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    added: usize,
    cancelled: usize,
    /// Deadlines that were neither served nor cancelled.
    lost: usize,
    early: usize,
    /// Deadlines that were served twice, or although they were cancelled.
    wrongly_served: usize,
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// The CPU time of the adding thread for each deadline.
    add_ns: u64,
    /// The CPU time of the cancelling thread for each cancelled deadline.
    cancel_ns: u64,
    /// The CPU time of the process from the first to the last deadline, over the time that passed.
    cpu_share: f64,
    /// The CPU time of the process from the first to the last deadline, for each served deadline.
    serve_ns: u64,
}

fn main() -> ExitCode {
    exit_code("many_deadlines", run(Args::parse()))
}

fn run(args: Args) -> Result<Outcome, Box<dyn Error>> {
    let interrupt = Interrupt::listen()?;
    clock::prime();
    let mut ways = [
        ("Timers, Kernel: callbacks", Kind::Calls(Timers::new()?)),
        ("Timers, Spin: callbacks", Kind::Calls(Timers::with_finish(Finish::Spin)?)),
        ("Timers, Kernel: tokio tasks", Kind::Tasks(Timers::new()?, runtime()?)),
        ("tokio::time::sleep_until", Kind::Wheel(runtime()?)),
    ]
    .map(|(name, kind)| Way::new(name, kind));
    let window = Duration::from_millis(args.window_ms);
    for round in 0..args.rounds {
        for way in &mut ways {
            if !interrupt.came() {
                way.round(args.count as usize, window, u64::from(round))?;
            }
        }
    }
    let contenders: Vec<Line> = ways.into_iter().filter(|way| !way.late_ns.is_empty()).map(Way::line).collect();
    let is_broken = contenders
        .iter()
        .any(|line| line.name.starts_with("Timers") && line.lost + line.early + line.wrongly_served > 0);
    let found = Found { count: args.count, window_ms: args.window_ms, interrupted: interrupt.came(), contenders };
    args.keep.publish("many_deadlines", None, &found, &found.text())?;
    Ok(if is_broken { Outcome::Broken } else { Outcome::Kept })
}

/// Creates a runtime that serves all timers on one thread, as [`Timers`] do.
fn runtime() -> Result<Runtime, std::io::Error> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()
}

impl Board {
    fn new(count: usize) -> Self {
        Self {
            late_ns: (0..count).map(|_| AtomicI64::new(NEVER)).collect(),
            served: (0..count).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn serve(&self, number: usize, deadline: Instant) {
        let late_ns = Instant::now().as_nanos() - deadline.as_nanos();
        self.late_ns[number].store(late_ns, Ordering::Relaxed);
        self.served[number].fetch_add(1, Ordering::Release);
    }
}

impl Kind {
    fn add(&self, number: usize, deadline: Instant, board: &Arc<Board>) -> Added {
        let board = Arc::clone(board);
        match self {
            Self::Calls(timers) => Added::Call(timers.call_at(deadline, move || board.serve(number, deadline))),
            Self::Tasks(timers, runtime) => {
                let sleep = timers.sleep_until(deadline);
                Added::Task(runtime.spawn(async move {
                    sleep.await;
                    board.serve(number, deadline);
                }))
            }
            Self::Wheel(runtime) => Added::Task(runtime.spawn(async move {
                let remaining = deadline.saturating_duration_since(Instant::now());
                tokio::time::sleep_until(tokio::time::Instant::now() + remaining).await;
                board.serve(number, deadline);
            })),
        }
    }

    /// Returns whether the deadline was cancelled before it was served. Called after all deadlines.
    fn was_cancelled(&self, added: Added, was_cancelled: bool) -> bool {
        match (self, added) {
            (Self::Tasks(_, runtime) | Self::Wheel(runtime), Added::Task(task)) => {
                runtime.block_on(task).is_err_and(|error| error.is_cancelled())
            }
            _ => was_cancelled,
        }
    }
}

impl Way {
    const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            kind,
            count: 0,
            cancelled: 0,
            lost: 0,
            early: 0,
            wrongly_served: 0,
            late_ns: Vec::new(),
            add_ns: 0,
            cancel_ns: 0,
            cpu_ns: 0,
            wall_ns: 0,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one program after another")]
    fn round(&mut self, count: usize, window: Duration, seed: u64) -> Result<(), Box<dyn Error>> {
        let board = Arc::new(Board::new(count));
        let first = Instant::now() + LEAD;
        let last = first + window;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
        let mut kept = Vec::new();
        let mut to_cancel: Vec<(usize, Added, bool)> = Vec::new();
        thread::scope(|scope| -> Result<(), Box<dyn Error>> {
            let mut threads = Vec::new();
            for (of, receiver) in receivers.into_iter().enumerate() {
                let sender = senders[(of + 1) % THREADS].clone();
                let (kind, board) = (&self.kind, &board);
                threads.push(scope.spawn(move || {
                    let mut random = seed * THREADS as u64 + of as u64 + 1;
                    let (mut kept, mut to_cancel) = (Vec::new(), Vec::new());
                    let begun_ns = cpu_ns(ClockId::ThreadCPUTime);
                    for number in (of..count).step_by(THREADS) {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        let offset_ns = (u128::from(random) * window.as_nanos()) >> 64;
                        let deadline = first + Duration::from_nanos(u64::try_from(offset_ns).unwrap_or(u64::MAX));
                        let added = kind.add(number, deadline, board);
                        let list = if (number / THREADS).is_multiple_of(2) { &mut to_cancel } else { &mut kept };
                        list.push((number, added));
                    }
                    let add_ns = cpu_ns(ClockId::ThreadCPUTime) - begun_ns;
                    let sent = sender.send(mem::take(&mut to_cancel));
                    drop(sender);
                    let begun_ns = cpu_ns(ClockId::ThreadCPUTime);
                    let mut cancelled = Vec::new();
                    for (number, added) in sent.ok().and_then(|()| receiver.recv().ok()).unwrap_or_default() {
                        let was_cancelled = match &added {
                            Added::Call(call) => call.cancel(),
                            Added::Task(task) => {
                                task.abort();
                                true
                            }
                        };
                        cancelled.push((number, added, was_cancelled));
                    }
                    (kept, cancelled, add_ns, cpu_ns(ClockId::ThreadCPUTime) - begun_ns)
                }));
            }
            for thread in threads {
                let (its_kept, its_cancelled, add_ns, cancel_ns) = thread.join().map_err(|_| "a thread panicked")?;
                kept.extend(its_kept);
                to_cancel.extend(its_cancelled);
                self.add_ns += add_ns;
                self.cancel_ns += cancel_ns;
            }
            Ok(())
        })?;
        if Instant::now() >= first {
            return Err(format!("adding and cancelling {count} deadlines took longer than {LEAD:?}").into());
        }
        thread::sleep(first.saturating_duration_since(Instant::now()));
        let (begun, cpu_before_ns) = (Instant::now(), cpu_ns(ClockId::ProcessCPUTime));
        thread::sleep(last.saturating_duration_since(Instant::now()));
        self.cpu_ns += cpu_ns(ClockId::ProcessCPUTime) - cpu_before_ns;
        self.wall_ns += begun.elapsed_nanos();
        let is_served = |number: usize| board.served[number].load(Ordering::Acquire) > 0;
        while kept.iter().any(|&(number, _)| !is_served(number)) && Instant::now() < last + GRACE {
            thread::sleep(Duration::from_millis(10));
        }

        self.count += count;
        let mut outcomes: Vec<(usize, bool)> = kept.iter().map(|&(number, _)| (number, false)).collect();
        for (number, added, was_cancelled) in to_cancel {
            outcomes.push((number, self.kind.was_cancelled(added, was_cancelled)));
        }
        for (number, was_cancelled) in outcomes {
            let served = board.served[number].load(Ordering::Acquire);
            let late_ns = board.late_ns[number].load(Ordering::Relaxed);
            self.cancelled += usize::from(was_cancelled);
            self.lost += usize::from(!was_cancelled && served == 0);
            self.wrongly_served += usize::from(served > u32::from(!was_cancelled));
            if late_ns != NEVER {
                self.early += usize::from(late_ns < 0);
                self.late_ns.push(late_ns.max(0).unsigned_abs());
            }
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
            added: self.count,
            cancelled: self.cancelled,
            lost: self.lost,
            early: self.early,
            wrongly_served: self.wrongly_served,
            p50_ns: quantile(50),
            p90_ns: quantile(90),
            p99_ns: quantile(99),
            max_ns: quantile(100),
            add_ns: self.add_ns / self.count as u64,
            cancel_ns: self.cancel_ns / (self.cancelled as u64).max(1),
            cpu_share: self.cpu_ns as f64 / self.wall_ns as f64,
            serve_ns: self.cpu_ns / late_ns.len() as u64,
        }
    }
}

/// Returns the CPU time of this thread or process.
fn cpu_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

impl Found {
    fn text(&self) -> String {
        let us = |ns: u64| format!("{}.{:02}", ns / 1_000, ns % 1_000 / 10);
        let counts = self.contenders.iter().map(|line| {
            let counts = [line.added, line.cancelled, line.lost, line.early, line.wrongly_served];
            let [added, cancelled, lost, early, wrongly_served] = counts.map(|count| count.to_string());
            [line.name.to_owned(), added, cancelled, lost, early, wrongly_served]
        });
        let counts = table(["contender", "added", "cancelled", "lost", "early", "wrongly served"], counts);
        let times = self.contenders.iter().map(|line| {
            let times =
                [line.p50_ns, line.p90_ns, line.p99_ns, line.max_ns, line.add_ns, line.cancel_ns, line.serve_ns];
            let [p50, p90, p99, max, add, cancel, serve] = times.map(us);
            let percent = format!("{:.2}", line.cpu_share * 100.0);
            [line.name.to_owned(), p50, p90, p99, max, add, cancel, serve, percent]
        });
        let times = table(["contender", "p50", "p90", "p99", "max", "add", "cancel", "serve", "CPU %"], times);
        format!(
            "{counts}\n\n{times}\n\n{} deadlines within {} ms, added by four threads; half of them were cancelled by another thread. Lateness \
             (p50 to max) and CPU time per deadline (add, cancel, serve) in microseconds. CPU: CPU time of the process from the first to the last \
             deadline, divided by the elapsed time.\n",
            self.count, self.window_ms
        )
    }
}
