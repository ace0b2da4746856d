//! The overshoot and the CPU time of sleeps, measured for several methods in turn. This module changes neither the CPU
//! nor the scheduling policy of the thread; the caller does.

use std::{fmt, io, ops::ControlFlow, thread, time::Duration};

use hpt_core::{
    clock::Instant,
    sleep::{Sleeper, Strategy},
    stats::Spread,
};
use hpt_sys::{
    OsError,
    slack::NoSlack,
    wait::{self, Till},
};

use super::{cpu_time::cpu_time_ns, order::Orders};

/// The time for which the method `fixed` spins before the deadline. The crate `spin_sleep` uses the same time on Linux.
const FIXED_MARGIN: Duration = Duration::from_micros(125);
/// The fraction of the samples, beginning with the largest, that the trimmed mean omits.
const TRIMMED: f64 = 0.01;

/// A method of sleeping, and its name in tables.
pub struct SleepMethod<'a> {
    name: &'static str,
    /// Whether the timer slack is set to its minimum for this method. The change is made outside the timed part.
    without_slack: bool,
    sleep: Box<dyn FnMut(Duration, Instant) -> io::Result<()> + 'a>,
}

impl fmt::Debug for SleepMethod<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SleepMethod").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> SleepMethod<'a> {
    /// The names of the methods that [`all`](Self::all) returns.
    pub const NAMES: [&'static str; 5] = hpt_document::words::SLEEP_METHODS;

    /// Creates a custom method. `sleep` receives the duration and the deadline.
    pub fn new(name: &'static str, mut sleep: impl FnMut(Duration, Instant) + 'a) -> Self {
        Self::fallible(name, move |duration, deadline| {
            sleep(duration, deadline);
            Ok(())
        })
    }

    fn fallible(name: &'static str, sleep: impl FnMut(Duration, Instant) -> io::Result<()> + 'a) -> Self {
        Self { name, without_slack: false, sleep: Box::new(sleep) }
    }

    /// Returns the same method with a timer slack of 1 ns while it sleeps.
    #[must_use]
    fn without_slack(self) -> Self {
        Self { without_slack: true, ..self }
    }

    /// Returns the method `std`: [`std::thread::sleep`].
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "this method is measured")]
    pub fn std() -> Self {
        let mut refused = wait::refusal_of_std_sleep();
        Self::fallible(Self::NAMES[0], move |duration, _| match refused.take() {
            Some(refused) => Err(refused),
            None => {
                thread::sleep(duration);
                Ok(())
            }
        })
    }

    /// Returns the method `nanosleep`: `clock_nanosleep` until the deadline, with a timer slack of 1 ns.
    #[must_use]
    pub fn nanosleep() -> Self {
        Self::fallible(Self::NAMES[1], |_, deadline| kernel_sleep(deadline)).without_slack()
    }

    /// Returns the method `fixed`: `clock_nanosleep` until `margin` before the deadline, with a timer slack of 1 ns,
    /// followed by spinning. A sleep that is not longer than `margin` only spins.
    #[must_use]
    pub fn fixed(margin: Duration) -> Self {
        let mut spin = spinner();
        Self::fallible(Self::NAMES[2], move |duration, deadline| {
            if duration > margin {
                kernel_sleep(deadline - margin)?;
            }
            spin(deadline);
            Ok(())
        })
        .without_slack()
    }

    /// Returns the method `busy`: spinning until the deadline.
    #[must_use]
    pub fn busy() -> Self {
        let mut spin = spinner();
        Self::new(Self::NAMES[3], move |_, deadline| spin(deadline))
    }

    /// Returns the method `hpt`, which sleeps with `sleeper`.
    #[must_use]
    pub fn hpt(sleeper: &'a mut Sleeper) -> Self {
        Self::new(Self::NAMES[4], |_, deadline| {
            let _ = sleeper.sleep_until(deadline);
        })
    }

    /// Returns all methods, in the order of [`NAMES`](Self::NAMES). The margin of `fixed` is 125 µs.
    #[must_use]
    pub fn all(sleeper: &'a mut Sleeper) -> [Self; 5] {
        [Self::std(), Self::nanosleep(), Self::fixed(FIXED_MARGIN), Self::busy(), Self::hpt(sleeper)]
    }

    /// Returns the name of the method.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The overshoot of the sleeps of one method.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SleepOvershoot {
    /// The name of the method.
    pub method: &'static str,
    /// The distribution of the overshoot, in nanoseconds; `None` if there were no sleeps.
    pub overshoot: Option<Spread>,
    /// The overshoot of each sleep, in nanoseconds, in ascending order.
    pub sorted_ns: Vec<u64>,
    /// The mean overshoot without the largest 1 % of the samples, in nanoseconds.
    pub trimmed_mean_ns: Option<f64>,
    /// The number of sleeps that returned before their deadline.
    pub early: u64,
    /// The total duration of the sleeps.
    pub elapsed: Duration,
    /// The CPU time of this thread divided by the elapsed time; `None` if the kernel does not report CPU time.
    pub cpu_share: Option<f64>,
    /// The kernel's error if it refused the method's system call, as in a sandbox. The method was then no longer used.
    pub refused: Option<OsError>,
}

/// The sleeps of a measurement that is still running.
#[derive(Clone, Copy, Debug)]
pub struct SleepsSoFar<'a> {
    made: u64,
    last: (Instant, u64),
    tallies: &'a [Tally],
}

impl SleepsSoFar<'_> {
    /// Returns the number of sleeps made so far, with all methods together.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.made
    }

    /// Returns the deadline of the last sleep, and its overshoot in nanoseconds.
    #[must_use]
    pub const fn last(&self) -> (Instant, u64) {
        self.last
    }

    /// Returns the results so far. This takes time in proportion to the number of sleeps.
    #[must_use]
    pub fn results(&self) -> Vec<SleepOvershoot> {
        self.tallies.iter().cloned().map(Tally::result).collect()
    }
}

/// Sleeps for each of `durations` with each method. The order of the methods changes in every round, because a
/// spinning method leaves the machine in a different state from a blocking method. Calls `check` after each sleep,
/// with the sleeps made so far. If it returns [`ControlFlow::Break`], returns the results so far.
pub fn sleep_overshoot(
    durations: impl IntoIterator<Item = Duration>,
    methods: &mut [SleepMethod<'_>],
    mut check: impl FnMut(SleepsSoFar<'_>) -> ControlFlow<()>,
) -> Vec<SleepOvershoot> {
    overshoot_of(&mut durations.into_iter(), methods, &mut check)
}

/// Not generic, so that the program that measures does not compile it, perhaps without optimization.
fn overshoot_of(
    durations: &mut dyn Iterator<Item = Duration>,
    methods: &mut [SleepMethod<'_>],
    check: &mut dyn FnMut(SleepsSoFar<'_>) -> ControlFlow<()>,
) -> Vec<SleepOvershoot> {
    let mut tallies: Vec<Tally> = methods.iter().map(|method| Tally::new(method.name)).collect();
    let mut made = 0;
    let mut orders = Orders::of(methods.len());
    'rounds: for duration in durations {
        for &place in orders.shuffled() {
            let (method, tally) = (&mut methods[place], &mut tallies[place]);
            if tally.refused.is_some() {
                continue;
            }
            let _slack = method.without_slack.then(NoSlack::hold);
            // The readings of CPU time are nested within the readings of elapsed time, so that CPU time never exceeds
            // elapsed time.
            let outer_start = Instant::now();
            let cpu_before = cpu_time_ns();
            let deadline = Instant::now() + duration;
            if let Err(refused) = (method.sleep)(duration, deadline) {
                tally.refused = Some(refused.into());
                continue;
            }
            let end = Instant::now();
            let cpu_ns = cpu_time_ns().saturating_sub(cpu_before);
            tally.add(deadline, end, cpu_ns, Instant::now().nanos_since(outer_start));
            made += 1;
            if check(SleepsSoFar { made, last: (deadline, end.nanos_since(deadline)), tallies: &tallies }).is_break() {
                break 'rounds;
            }
        }
    }
    tallies.into_iter().map(Tally::result).collect()
}

/// Returns a function that spins until a deadline.
fn spinner() -> impl FnMut(Instant) {
    let mut spinner = Sleeper::new().with_strategy(Strategy::SpinOnly);
    move |deadline| {
        let _ = spinner.sleep_until(deadline);
    }
}

fn kernel_sleep(deadline: Instant) -> io::Result<()> {
    wait::sleep_until(Till::Monotonic, Duration::from_nanos(deadline.nanos_since(Instant::EPOCH)))
}

/// The data collected for one method.
#[derive(Clone, Debug)]
struct Tally {
    method: &'static str,
    overshoot_ns: Vec<u64>,
    early: u64,
    cpu_ns: u64,
    wall_ns: u64,
    refused: Option<OsError>,
}

impl Tally {
    const fn new(method: &'static str) -> Self {
        Self { method, overshoot_ns: Vec::new(), early: 0, cpu_ns: 0, wall_ns: 0, refused: None }
    }

    fn add(&mut self, deadline: Instant, end: Instant, cpu_ns: u64, wall_ns: u64) {
        self.early += u64::from(end < deadline);
        self.overshoot_ns.push(end.nanos_since(deadline));
        self.cpu_ns += cpu_ns;
        self.wall_ns += wall_ns;
    }

    #[expect(clippy::cast_precision_loss, reason = "for statistics")]
    fn result(mut self) -> SleepOvershoot {
        self.overshoot_ns.sort_unstable();
        SleepOvershoot {
            method: self.method,
            overshoot: spread(&self.overshoot_ns),
            trimmed_mean_ns: mean_without(&self.overshoot_ns, TRIMMED),
            early: self.early,
            sorted_ns: self.overshoot_ns,
            refused: self.refused,
            elapsed: Duration::from_nanos(self.wall_ns),
            // If a sandbox forbids the CPU-time clock, its readings are zero.
            cpu_share: (self.cpu_ns > 0 && self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for statistics")]
fn spread(sorted_ns: &[u64]) -> Option<Spread> {
    let quantile = |permille: usize| sorted_ns[(sorted_ns.len() * permille).div_ceil(1_000).max(1) - 1] as f64;
    let (&min, &max) = sorted_ns.first().zip(sorted_ns.last())?;
    Some(Spread {
        samples: sorted_ns.len() as u64,
        min_ns: min as f64,
        p50_ns: quantile(500),
        p99_ns: quantile(990),
        p999_ns: quantile(999),
        max_ns: max as f64,
        mean_ns: mean_without(sorted_ns, 0.0)?,
    })
}

/// Returns the mean of all samples except the largest fraction `part`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "for statistics"
)]
fn mean_without(sorted_ns: &[u64], part: f64) -> Option<f64> {
    let kept = sorted_ns.len() - (sorted_ns.len() as f64 * part) as usize;
    let sum: f64 = sorted_ns[..kept].iter().map(|&ns| ns as f64).sum();
    (kept > 0).then(|| sum / kept as f64)
}

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow::{Break, Continue},
        time::Duration,
    };

    use super::{SleepMethod, mean_without, sleep_overshoot, spread};
    use hpt_core::sleep::Sleeper;

    #[test]
    fn statistics_are_those_of_the_samples() {
        let samples: Vec<u64> = (1..=1_000).collect();
        let all = spread(&samples).expect("samples");
        assert_eq!((all.min_ns, all.p50_ns, all.p99_ns, all.p999_ns, all.max_ns), (1.0, 500.0, 990.0, 999.0, 1_000.0));
        assert_eq!((all.mean_ns, mean_without(&samples, 0.01)), (500.5, Some(495.5)));
        assert_eq!((spread(&[]), mean_without(&[], 0.01)), (None, None));
        assert_eq!(spread(&[7]).map(|one| (one.p50_ns, one.p999_ns)), Some((7.0, 7.0)));
    }

    #[test]
    fn every_method_makes_the_requested_number_of_sleeps_and_none_is_early() {
        let mut sleeper = Sleeper::new();
        let mut own = 0;
        let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
        let sleeps = sleep_overshoot([Duration::from_micros(200); 5], &mut methods, |_| Continue(()));
        drop(methods);
        // One hour: no machine is so busy that an hour passes before the thread sleeps.
        let unslept =
            sleep_overshoot([Duration::from_secs(3_600); 5], &mut [SleepMethod::new("own", |_, _| own += 1)], |_| {
                Continue(())
            });
        for (sleep, name) in sleeps.iter().zip(SleepMethod::NAMES) {
            assert_eq!((sleep.method, sleep.overshoot.map(|overshoot| overshoot.samples)), (name, Some(5)));
            // The kernel's own sleeps end on the kernel's clock, which Instant may be behind by its bound.
            assert!(sleep.early == 0 || ["std", "nanosleep"].contains(&name), "{sleep:?}");
        }
        assert_eq!((own, unslept[0].early), (5, 5), "a method that does not sleep is early");
        assert_eq!(sleeper.report().in_time, 5);
    }

    #[test]
    fn an_interrupted_run_keeps_its_samples() {
        let mut sleeper = Sleeper::new();
        let mut methods = SleepMethod::all(&mut sleeper);
        let mut half_way = Vec::new();
        let sleeps = sleep_overshoot([Duration::from_micros(50); 1_000], &mut methods, |so_far| {
            let (deadline, overshoot_ns) = so_far.last();
            let result = so_far.results();
            assert!(deadline <= hpt_core::clock::Instant::now());
            assert!(result.iter().any(|sleep| sleep.sorted_ns.contains(&overshoot_ns)), "{result:?}");
            if so_far.made() == 5 {
                half_way = so_far.results();
            }
            if so_far.made() < 6 { Continue(()) } else { Break(()) }
        });
        // After five sleeps, each of the five methods has slept once.
        let of_each = half_way.iter().map(|sleep| (sleep.method, sleep.overshoot.map_or(0, |one| one.samples)));
        assert_eq!(of_each.collect::<Vec<_>>(), SleepMethod::NAMES.map(|name| (name, 1)));
        let mut samples: Vec<_> =
            sleeps.iter().map(|sleep| sleep.overshoot.map_or(0, |overshoot| overshoot.samples)).collect();
        samples.sort_unstable();
        assert_eq!(samples, [1, 1, 1, 1, 2]);
        assert!(sleeps.iter().all(|sleep| sleep.cpu_share.is_none_or(|share| share <= 1.0)), "{sleeps:?}");
    }
}
