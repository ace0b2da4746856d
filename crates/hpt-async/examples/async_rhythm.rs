//! Runs a task once per millisecond in a tokio runtime, with each `Finish`, and prints its overshoot and CPU time.
#![forbid(unsafe_code)]

use std::{io, time::Duration};

use hpt_async::{AsyncSleeper, Finish, Interval};
use hpt_core::Instant;
use rustix::time::{ClockId, clock_gettime};

const PERIOD: Duration = Duration::from_millis(1);
const TICKS: usize = 500;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    println!("{TICKS} periods of {PERIOD:?}");
    println!("finish    p50 [µs]  p99 [µs]  CPU time [%]  skipped");
    for finish in [Finish::Kernel, Finish::Yield, Finish::Spin] {
        let mut interval = Interval::new(AsyncSleeper::tokio()?.with_finish(finish), PERIOD);
        let (begin, cpu_before) = (Instant::now(), cpu_time());
        let mut late = Vec::with_capacity(TICKS);
        for _ in 0..TICKS {
            late.push(interval.tick().await.late);
        }
        let cpu_share = (cpu_time() - cpu_before).as_secs_f64() / begin.elapsed().as_secs_f64();
        late.sort_unstable();
        let quantile_us = |percent: usize| late[TICKS * percent / 100].as_secs_f64() * 1e6;
        println!(
            "{:8} {:9.2} {:9.2} {:13.2} {:8}",
            format!("{finish:?}"),
            quantile_us(50),
            quantile_us(99),
            cpu_share * 100.0,
            interval.counts().skipped
        );
    }
    Ok(())
}

/// Returns the CPU time of this process, which has one thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a billion"))
}
