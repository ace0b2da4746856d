//! Two processes that share a page, each with its own clock. Their readings agree within both
//! stated bounds. Does not judge the result.

use std::{
    env,
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use hpt_benches::{
    bare::shared::SharedWords,
    handover::{Player, Seen},
    programs::Interrupt,
};
use hpt_core::clock;
use hpt_realtime::Pinned;
use serde::{Deserialize, Serialize};

use crate::{
    args::Args,
    clocks::{Beginning, Clock, play_by, whole_ns},
    threads::NO_PANIC,
};

/// The interval at which the bound is read while two processes play.
const ASK_FOR_BOUND: Duration = Duration::from_millis(500);

/// The smallest and the largest bound that was stated during the run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) smallest_ns: u64,
    pub(crate) largest_ns: u64,
}

/// The observations of one process, and the bounds that it stated.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    seen: Seen,
    bounds: Bounds,
}

/// The indexes of the shared words, which are in separate cache lines.
const WORD: usize = 0;
const OVER: usize = 64;

/// Runs this process as the first player, and a child process as the second.
pub(crate) fn two(args: &Args, cpu: usize, interrupt: &Interrupt) -> Result<(Seen, [Bounds; 2]), Box<dyn Error>> {
    if matches!(args.clock, Clock::Std | Clock::Quanta) {
        return Err("skipped: this clock has a different epoch in every process".into());
    }
    let file = SharedFile::new()?;
    let shared = SharedWords::of(&file.file)?;
    let mut child = second_process(args, &file.path)?;
    let first = process(args, Player::First, cpu, &shared, interrupt, || matches!(child.try_wait(), Ok(None)))?;
    let output = child.wait_with_output()?;
    let second: Answer = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the second process ended with {} and no answer: {error}", output.status))?;
    Ok((first.seen.and(second.seen), [first.bounds, second.bounds]))
}

/// Runs this process as the second player, with the file that the first has created. Returns its
/// result as JSON.
pub(crate) fn second(args: &Args, file: &Path, cpu: usize, interrupt: &Interrupt) -> Result<String, Box<dyn Error>> {
    let shared = SharedWords::of(&File::options().read(true).write(true).open(file)?)?;
    let answer = process(args, Player::Second, cpu, &shared, interrupt, || true)?;
    Ok(serde_json::to_string(&answer)?)
}

fn second_process(args: &Args, file: &Path) -> Result<Child, Box<dyn Error>> {
    let clock = args.clock.to_possible_value().expect("none is skipped");
    let longest = format!("{}ms", args.longest.as_millis());
    let child = Command::new(env::current_exe()?)
        .arg("--second-of")
        .arg(file)
        .args(["--clock", clock.get_name(), "--longest", &longest, "--handovers", &args.handovers.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(child)
}

/// Runs one of the two players, and a thread that periodically reads the bound.
fn process(
    args: &Args,
    player: Player,
    cpu: usize,
    shared: &SharedWords,
    interrupt: &Interrupt,
    mut the_other_is_well: impl FnMut() -> bool,
) -> Result<Answer, Box<dyn Error>> {
    let (start, beginning, over) = (Instant::now(), Beginning::now(), &shared.words()[OVER]);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let bounds = scope.spawn(|| stated_bounds(&ended));
        let played = Pinned::new(cpu).map_err(|error| error.to_string()).and_then(|_pinned| {
            let keep_going = || {
                let go_on = !interrupt.came()
                    && start.elapsed() < args.longest
                    && over.load(Ordering::Relaxed) == 0
                    && the_other_is_well();
                over.fetch_or(u64::from(!go_on), Ordering::Relaxed);
                go_on
            };
            let handovers = args.handovers.div_ceil(2);
            play_by(args.clock, beginning, player, &shared.words()[WORD], handovers, keep_going).map_err(str::to_owned)
        });
        ended.store(true, Ordering::Relaxed);
        bounds.thread().unpark();
        Ok(Answer { seen: played?, bounds: bounds.join().expect(NO_PANIC) })
    })
}

/// Reads the bound of this process until the run has ended.
fn stated_bounds(ended: &AtomicBool) -> Bounds {
    let stated_ns = || whole_ns(clock::status().bound);
    clock::prime();
    let first_ns = stated_ns();
    let mut bounds = Bounds { smallest_ns: first_ns, largest_ns: first_ns };
    while !ended.load(Ordering::Relaxed) {
        thread::park_timeout(ASK_FOR_BOUND);
        let bound_ns = stated_ns();
        bounds.smallest_ns = bounds.smallest_ns.min(bound_ns);
        bounds.largest_ns = bounds.largest_ns.max(bound_ns);
    }
    bounds
}

/// A file, in memory if possible, that is removed on drop.
struct SharedFile {
    path: PathBuf,
    file: File,
}

impl SharedFile {
    fn new() -> Result<Self, Box<dyn Error>> {
        let in_memory = PathBuf::from("/dev/shm");
        let folder = if in_memory.is_dir() { in_memory } else { env::temp_dir() };
        let path = folder.join(format!("hpt-handover-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // There is no remedy for a file that cannot be removed.
        let _ = fs::remove_file(&self.path);
    }
}
