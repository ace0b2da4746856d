//! The time during which a measuring thread could have run, but did not: other threads used its CPU, its cgroup had no
//! quota left, or the hypervisor ran another guest. This module measures only the time. It does not determine which
//! samples were affected.

use std::{
    fs::File,
    io::{Read, Seek},
    time::{Duration, Instant},
};

use crate::{
    host::{Host, stolen_hundredths, waited_ns},
    sys::process::thread_cpu_time,
};

const STATISTICS: &str = "/proc/stat";
const WAITS: &str = "/proc/thread-self/schedstat";
const HUNDREDTH: Duration = Duration::from_millis(10);

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
}

impl NotRun {
    /// Creates a value with these times.
    #[must_use]
    pub const fn new(wall: Duration, not_run: Option<Duration>, stolen: Option<Duration>) -> Self {
        Self { wall, not_run, stolen }
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
    begun: Instant,
    before: Times,
}

/// The kernel's counters of time, each since an unspecified start.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    used: Option<Duration>,
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
        let mut watch = Self {
            spins,
            cpu,
            waits: host.open_to_read(WAITS).ok(),
            statistics: cpu.and_then(|_| host.open_to_read(STATISTICS).ok()),
            begun: Instant::now(),
            before: Times::default(),
        };
        watch.restart();
        watch
    }

    /// Starts again, so that the next result does not include the time until now.
    pub fn restart(&mut self) {
        self.before = self.times();
        self.begun = Instant::now();
    }

    /// Returns the times since the start. Call it on the same thread as the constructor.
    pub fn read(&mut self) -> NotRun {
        let wall = self.begun.elapsed();
        let now = self.times();
        let since = |now: Option<Duration>, before: Option<Duration>| Some(now?.saturating_sub(before?));
        let used = since(now.used, self.before.used);
        let waited = since(now.waited, self.before.waited);
        let stolen = since(now.stolen, self.before.stolen);
        not_run(self.spins, wall, used, waited, stolen)
    }

    fn times(&mut self) -> Times {
        let waited = self.waits.as_mut().and_then(content).and_then(|text| waited_ns(&text));
        let cpu = self.cpu;
        let stolen = self.statistics.as_mut().and_then(content).and_then(|text| stolen_hundredths(&text, cpu));
        Times {
            used: thread_cpu_time().ok().map(|(user, system)| user + system),
            waited: waited.map(Duration::from_nanos),
            stolen: stolen.map(|hundredths| HUNDREDTH.saturating_mul(u32::try_from(hundredths).unwrap_or(u32::MAX))),
        }
    }
}

/// Combines the times of a measurement. A thread that spins did not run during the rest of the elapsed time. For a
/// thread that blocks, that rest also contains the time during which it waited for an event, so the kernel's own count
/// is used.
fn not_run(
    spins: bool,
    wall: Duration,
    used: Option<Duration>,
    waited: Option<Duration>,
    stolen: Option<Duration>,
) -> NotRun {
    let unused = used.filter(|_| spins).map(|used| wall.saturating_sub(used).max(stolen.unwrap_or_default()));
    let counted = waited.map(|waited| waited + stolen.unwrap_or_default());
    NotRun { wall, not_run: unused.or(counted).map(|time| time.min(wall)), stolen }
}

fn content(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NotRun, NotRunWatch, not_run};
    use crate::host::Host;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_spinning_thread_did_not_run_for_the_rest_of_the_time() {
        let of = |used, waited, stolen| not_run(true, ms(100), used, waited, stolen).not_run;
        assert_eq!(of(Some(ms(36)), Some(ms(60)), None), Some(ms(64)));
        // A kernel that does not subtract steal time from the time of a thread reports it only for the CPU.
        assert_eq!(of(Some(ms(100)), Some(ms(0)), Some(ms(30))), Some(ms(30)));
        assert_eq!(of(None, Some(ms(20)), Some(ms(30))), Some(ms(50)));
        assert_eq!(of(None, None, None), None);
    }

    #[test]
    fn a_blocking_thread_did_not_run_while_it_was_ready() {
        let of = |waited, stolen| not_run(false, ms(100), Some(ms(1)), waited, stolen).not_run;
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
        watch.restart();
        assert!(watch.read().wall < slept.wall, "the time until the restart is not counted");
    }
}
