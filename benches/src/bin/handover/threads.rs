//! Two threads of one process, and a third one that changes the source of hpt's clock during the
//! run. Does not judge the result.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use hpt_benches::{
    handover::{Player, Seen},
    programs::Interrupt,
};
use hpt_core::{
    Host,
    clock::{self, UseSourceError},
    source,
};

use crate::{
    args::Args,
    clocks::{Beginning, play_by},
};

/// Runs two threads, and a third one that changes the source. Returns the observations of both, and
/// the number of changes.
pub(crate) fn two(args: &Args, cpus: [usize; 2], interrupt: &Interrupt) -> Result<(Seen, u64), Box<dyn Error>> {
    let (word, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (start, beginning) = (Instant::now(), Beginning::now());
    let player = |player: Player, cpu: usize| {
        if !core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
            return Err(format!("the thread cannot run on CPU {cpu}"));
        }
        let keep_going = || !interrupt.came() && start.elapsed() < args.longest;
        play_by(args.clock, beginning, player, &word, args.handovers.div_ceil(2), keep_going).map_err(str::to_owned)
    };
    let (first, second, changes) = thread::scope(|scope| {
        let changer = args.alternate.map(|every| {
            scope.spawn({
                let over = &over;
                move || change_source(every, over)
            })
        });
        let second = scope.spawn(|| player(Player::Second, cpus[1]));
        let first = scope.spawn(|| player(Player::First, cpus[0]));
        let (first, second) = (first.join().expect(NO_PANIC), second.join().expect(NO_PANIC));
        over.store(true, Ordering::Relaxed);
        (first, second, changer.map_or(Ok(0), |changer| changer.join().expect(NO_PANIC)))
    });
    Ok((first?.and(second?), changes?))
}

pub(crate) const NO_PANIC: &str = "a player does not panic";

/// Changes the clock between the counter and the kernel's clock until the run is over, and leaves
/// it with the counter. Returns the number of changes.
fn change_source(every: Duration, over: &AtomicBool) -> Result<u64, UseSourceError> {
    let host = Host::live();
    let native = clock::source().id;
    let mut changes = 0;
    while !over.load(Ordering::Relaxed) {
        thread::sleep(every);
        let next = if changes % 2 == 0 { "monotonic" } else { native.as_str() };
        clock::use_source(source::open(&host, next)?)?;
        changes += 1;
    }
    clock::use_source(source::open(&host, native.as_str())?)?;
    Ok(changes)
}
