//! The time during which a measuring thread could have run, but did not: other threads used its CPU, its cgroup had no
//! quota left, or the hypervisor ran another guest. This module measures only the time. It does not determine which
//! samples were affected.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use hpt_sys::host::{Host, Throttled, stolen_hundredths, waited_ns};

use super::{
    cpu_counters::{HUNDREDTH_NS, STATISTICS, WAITS},
    cpu_time::cpu_time_ns,
    open_file::read,
    throttling::Throttling,
};

/// The time that a thread needed its CPU, but did not get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotRun {
    /// The elapsed time.
    pub wall: Duration,
    /// The part of `wall` during which the thread was ready to run, but did not run, including `stolen`; `None` if the
    /// kernel does not report it. For a thread that never blocks, it also contains the time of interrupts if the kernel
    /// accounts for interrupts separately.
    pub not_run: Option<Duration>,
    /// The time during which the hypervisor did not run the thread's CPU although the CPU had work, with a granularity
    /// of 10 ms; `None` if the thread is not pinned, or if the kernel does not report it.
    pub stolen: Option<Duration>,
    /// How often the CPU quota of the thread's control group was used up, and for how long it paused the threads of the
    /// group; `None` if the kernel does not report it, or if a group above may have a quota.
    pub throttled: Option<Throttled>,
}

impl NotRun {
    /// Creates a value with these times.
    #[must_use]
    pub const fn new(wall: Duration, not_run: Option<Duration>, stolen: Option<Duration>) -> Self {
        Self { wall, not_run, stolen, throttled: None }
    }

    /// Adds how often the quota was used up.
    #[must_use]
    pub const fn with_throttled(self, throttled: Throttled) -> Self {
        Self { throttled: Some(throttled), ..self }
    }

    /// Returns the part of the elapsed time during which the thread did not run although it was ready, from 0 to 1;
    /// `None` if it is not known or if no time has elapsed.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let wall = self.wall.as_secs_f64();
        self.not_run.filter(|_| wall > 0.0).map(|not_run| (not_run.as_secs_f64() / wall).min(1.0))
    }
}

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

    /// Returns the times since the start. Call it on the same thread as the constructor.
    pub fn read(&mut self) -> NotRun {
        // Reading the files takes time that does not count.
        let wall = self.begun.elapsed();
        let used = Duration::from_nanos(cpu_time_ns().saturating_sub(self.used_before_ns));
        let now = self.counted();
        let since = |now: Option<Duration>, before: Option<Duration>| Some(now?.saturating_sub(before?));
        let waited = since(now.waited, self.before.waited);
        let stolen = since(now.stolen, self.before.stolen);
        let throttled = self.throttling.since(&mut self.buffer);
        NotRun { throttled, ..not_run(wall, self.spins.then_some(used), waited, stolen) }
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

/// Combines the times of a measurement. `used` is the CPU time of a thread that spins; such a thread did not run during
/// the rest of the elapsed time. For a thread that blocks, that rest also contains the time during which it waited for
/// an event, so the kernel's own count is used.
fn not_run(wall: Duration, used: Option<Duration>, waited: Option<Duration>, stolen: Option<Duration>) -> NotRun {
    let unused = used.map(|used| wall.saturating_sub(used).max(stolen.unwrap_or_default()));
    let counted = waited.map(|waited| waited + stolen.unwrap_or_default());
    NotRun::new(wall, unused.or(counted).map(|time| time.min(wall)), stolen)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NotRun, NotRunWatch, not_run};
    use hpt_sys::host::Host;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_spinning_thread_did_not_run_for_the_rest_of_the_time() {
        let of = |used, waited, stolen| not_run(ms(100), used, waited, stolen).not_run;
        assert_eq!(of(Some(ms(36)), Some(ms(60)), None), Some(ms(64)));
        // A kernel that does not subtract steal time from the time of a thread reports it only for the CPU.
        assert_eq!(of(Some(ms(100)), Some(ms(0)), Some(ms(30))), Some(ms(30)));
    }

    #[test]
    fn a_blocking_thread_did_not_run_while_it_was_ready() {
        let of = |waited, stolen| not_run(ms(100), None, waited, stolen).not_run;
        assert_eq!(of(Some(ms(20)), Some(ms(30))), Some(ms(50)));
        assert_eq!(of(Some(ms(20)), None), Some(ms(20)));
        assert_eq!(of(Some(ms(90)), Some(ms(30))), Some(ms(100)), "never more than the elapsed time");
        assert_eq!(of(None, Some(ms(30))), None);
    }

    #[test]
    fn a_share_is_between_0_and_1_and_unknown_without_time() {
        let share = |not_run| NotRun::new(ms(100), not_run, None).share();
        assert_eq!((share(Some(ms(50))), share(Some(ms(200))), share(None)), (Some(0.5), Some(1.0), None));
        assert_eq!(NotRun::new(Duration::ZERO, Some(Duration::ZERO), None).share(), None);
    }

    #[test]
    fn a_blocked_thread_needs_no_cpu() {
        let mut watch = NotRunWatch::of_spinning_thread(&Host::live(), None);
        std::thread::sleep(ms(50));
        let slept = watch.read();
        assert!(slept.not_run >= Some(ms(40)), "to a thread that should spin, sleep is lost time: {slept:?}");
        let begun = watch.begun;
        watch.restart();
        assert!(watch.begun > begun, "the time until the restart is not counted");
    }
}
