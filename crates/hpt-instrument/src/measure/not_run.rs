//! The time during which a measuring thread could have run, but did not: other threads used its CPU, its cgroup had no
//! quota left, or the hypervisor ran another guest. This module measures only the time. It does not determine which
//! samples were affected.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use hpt_document::{
    not_run::NotRun,
    round::{rounded, rounded_share},
};
use hpt_sys::host::{Host, stolen_hundredths, waited_ns};

use super::{
    cpu_counters::{HUNDREDTH_NS, STATISTICS, WAITS},
    cpu_time::cpu_time_ns,
    open_file::read,
    throttling::Throttling,
};

/// Measures the time that the calling thread does not run although it is ready.
#[derive(Debug)]
pub struct NotRunWatch {
    spins: bool,
    cpu: Option<usize>,
    waits: Option<File>,
    statistics: Option<File>,
    throttling: Throttling,
    buffer: Vec<u8>,
    begun: Instant,
    used_before_ns: u64,
    before: Counted,
}

/// The kernel's counts of time, each since an unspecified start.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    waited: Option<Duration>,
    stolen: Option<Duration>,
}

impl NotRunWatch {
    /// Starts to measure for the calling thread, which never blocks, so that it needs its CPU all the time. `cpu` is
    /// the CPU that it is pinned to.
    #[must_use]
    pub fn of_spinning_thread(host: &Host, cpu: Option<usize>) -> Self {
        Self::new(host, cpu, true)
    }

    /// Starts to measure for the calling thread, which blocks from time to time. `cpu` is the CPU that it is pinned to.
    #[must_use]
    pub fn of_blocking_thread(host: &Host, cpu: Option<usize>) -> Self {
        Self::new(host, cpu, false)
    }

    fn new(host: &Host, cpu: Option<usize>, spins: bool) -> Self {
        let mut buffer = vec![0; 4 << 10];
        let mut watch = Self {
            spins,
            cpu,
            waits: host.open_to_read(WAITS).ok(),
            statistics: cpu.and_then(|_| host.open_to_read(STATISTICS).ok()),
            throttling: Throttling::open(host, &mut buffer),
            buffer,
            begun: Instant::now(),
            used_before_ns: 0,
            before: Counted::default(),
        };
        watch.restart();
        watch
    }

    /// Starts again, so that the next result does not include the time until now.
    pub fn restart(&mut self) {
        self.before = self.counted();
        self.throttling.since(&mut self.buffer);
        self.used_before_ns = cpu_time_ns();
        self.begun = Instant::now();
    }

    /// Returns the times since the start. The share is unknown if the kernel does not report the waiting time, or if no
    /// time has elapsed. Call it on the same thread as the constructor.
    pub fn read(&mut self) -> NotRun {
        // Reading the files takes time that does not count.
        let wall = self.begun.elapsed();
        self.read_over(wall)
    }

    /// Returns the times since the start, as parts of `wall`: the time after a sleep that does not count.
    pub fn read_over(&mut self, wall: Duration) -> NotRun {
        let used = Duration::from_nanos(cpu_time_ns().saturating_sub(self.used_before_ns));
        let now = self.counted();
        let since = |now: Option<Duration>, before: Option<Duration>| Some(now?.saturating_sub(before?));
        let waited = since(now.waited, self.before.waited);
        let stolen = since(now.stolen, self.before.stolen);
        let throttled = self.throttling.since(&mut self.buffer);
        let seconds = |time: Duration| rounded(time.as_secs_f64());
        NotRun {
            share: share(not_run(wall, self.spins.then_some(used), waited, stolen), wall).map(rounded_share),
            wall_s: seconds(wall),
            stolen_s: stolen.map(seconds),
            throttled: throttled.map(|throttled| throttled.times),
            throttled_s: throttled.map(|throttled| seconds(throttled.time)),
        }
    }

    fn counted(&mut self) -> Counted {
        let (cpu, buffer) = (self.cpu, &mut self.buffer);
        let waited = self.waits.as_mut().and_then(|file| read(file, buffer)).and_then(waited_ns);
        let stolen = self.statistics.as_mut().and_then(|file| read(file, buffer));
        let stolen = stolen.and_then(|text| stolen_hundredths(text, cpu));
        Counted {
            waited: waited.map(Duration::from_nanos),
            stolen: stolen.map(|hundredths| Duration::from_nanos(hundredths.saturating_mul(HUNDREDTH_NS))),
        }
    }
}

/// Returns the time for which a thread did not run although it was ready. `used` is the CPU time of a thread that spins;
/// such a thread did not run during the rest of the elapsed time. For a thread that blocks, that rest also contains the
/// time during which it waited for an event, so the kernel's own count is used.
fn not_run(
    wall: Duration,
    used: Option<Duration>,
    waited: Option<Duration>,
    stolen: Option<Duration>,
) -> Option<Duration> {
    let unused = used.map(|used| wall.saturating_sub(used).max(stolen.unwrap_or_default()));
    let counted = waited.map(|waited| waited + stolen.unwrap_or_default());
    unused.or(counted).map(|time| time.min(wall))
}

/// Returns this part of the elapsed time, from 0 to 1.
fn share(part: Option<Duration>, wall: Duration) -> Option<f64> {
    part.filter(|_| !wall.is_zero()).map(|part| (part.as_secs_f64() / wall.as_secs_f64()).min(1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NotRunWatch, not_run, share};
    use hpt_sys::host::Host;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_spinning_thread_did_not_run_for_the_rest_of_the_time() {
        let of = |used, waited, stolen| not_run(ms(100), used, waited, stolen);
        assert_eq!(of(Some(ms(36)), Some(ms(60)), None), Some(ms(64)));
        // A kernel that does not subtract steal time from the time of a thread reports it only for the CPU.
        assert_eq!(of(Some(ms(100)), Some(ms(0)), Some(ms(30))), Some(ms(30)));
    }

    #[test]
    fn a_blocking_thread_did_not_run_while_it_was_ready() {
        let of = |waited, stolen| not_run(ms(100), None, waited, stolen);
        assert_eq!(of(Some(ms(20)), Some(ms(30))), Some(ms(50)));
        assert_eq!(of(Some(ms(20)), None), Some(ms(20)));
        assert_eq!(of(Some(ms(90)), Some(ms(30))), Some(ms(100)), "never more than the elapsed time");
        assert_eq!(of(None, Some(ms(30))), None);
    }

    #[test]
    fn a_share_is_between_0_and_1_and_unknown_without_time() {
        let of = |not_run| share(not_run, ms(100));
        assert_eq!((of(Some(ms(50))), of(Some(ms(200))), of(None)), (Some(0.5), Some(1.0), None));
        assert_eq!(share(Some(Duration::ZERO), Duration::ZERO), None);
    }

    #[test]
    fn a_blocked_thread_needs_no_cpu() {
        let mut watch = NotRunWatch::of_spinning_thread(&Host::live(), None);
        std::thread::sleep(ms(50));
        let slept = watch.read();
        let not_run_s = slept.share.map(|share| share * slept.wall_s);
        assert!(not_run_s >= Some(0.04), "to a thread that should spin, sleep is lost time: {slept:?}");
        let begun = watch.begun;
        watch.restart();
        assert!(watch.begun > begun, "the time until the restart is not counted");
    }
}
