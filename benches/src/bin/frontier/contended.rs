//! The share of its periods that a pacer begins beside busy threads, and a loop of clock_nanosleep in the same run.

use std::time::Duration;

use hpt_benches::programs::Interrupt;
use hpt_core::{Instant, Pacer};
use serde::Serialize;

use crate::{busy::beside, kernel::nanosleep_until};

/// The share of its periods that each kind of loop began in one run.
#[derive(Debug, Serialize)]
pub(crate) struct Periods {
    pub(crate) nanosleep: f64,
    pub(crate) pacer: f64,
}

/// Counts, in short turns, the periods that begin beside four busy threads.
pub(crate) fn contended(period: Duration, rounds: u32, interrupt: &Interrupt) -> Vec<Periods> {
    const TURN: Duration = Duration::from_millis(500);
    const TURNS: u32 = 10;
    let mut pacer = Pacer::new(period);
    beside(4, 0, || {
        let mut runs = Vec::new();
        for _ in 0..rounds {
            let (mut nanosleep, mut paced) = (0.0, 0.0);
            for _ in 0..TURNS {
                nanosleep += share_begun(period, TURN, &mut |next| {
                    // As the pacer: a period that has passed completely is skipped.
                    let now = Instant::now();
                    let missed = now.nanos_since(*next) / saturating_nanos(period);
                    *next += Duration::from_nanos(missed * saturating_nanos(period));
                    if *next > now {
                        nanosleep_until(*next);
                    }
                    *next += period;
                });
                paced += share_begun(period, TURN, &mut |_| {
                    let _ = pacer.wait();
                });
            }
            if interrupt.came() {
                break;
            }
            runs.push(Periods { nanosleep: nanosleep / f64::from(TURNS), pacer: paced / f64::from(TURNS) });
        }
        runs
    })
}

/// Returns the share of the periods of `turn` that `wait` begins.
fn share_begun(period: Duration, turn: Duration, wait: &mut dyn FnMut(&mut Instant)) -> f64 {
    let start = Instant::now();
    let (mut next, mut begun) = (start + period, 0_u32);
    while start.elapsed() < turn {
        wait(&mut next);
        begun += 1;
    }
    f64::from(begun) * period.as_secs_f64() / start.elapsed().as_secs_f64()
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
