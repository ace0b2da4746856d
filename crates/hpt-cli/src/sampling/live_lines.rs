//! The line that a terminal shows for each CPU during a run: number of samples, latest latency, quantiles, maximum, and
//! the course of the maximum.

use std::time::{Duration, Instant};

use hpt_instrument::measure::Latencies;
use hpt_realtime::allowed_cpus;

use super::{conditions::unmeasured_cpu, cpu_options::name_of, latency_figures::tail};
use crate::output::short_time;

/// The time between two updates.
const UPDATE: Duration = Duration::from_secs(1);
/// The number of past seconds that the course shows.
const COURSE: usize = 30;
/// The letters of the course, from the lowest to the highest maximum.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A copy of what one thread has measured so far.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) cpu: Option<usize>,
    pub(crate) latencies: Latencies,
    /// The latency of the latest sample, in nanoseconds.
    pub(crate) last_ns: Option<u64>,
}

/// The source of the lines of a run. They are computed and drawn on a CPU that is not measured.
pub(crate) struct LiveLines<'a> {
    /// The CPU on which the lines are drawn.
    pub(super) cpu: usize,
    snapshots: Box<dyn Fn() -> Vec<Snapshot> + Send + Sync + 'a>,
}

impl<'a> LiveLines<'a> {
    /// Creates lines for threads that measure on these CPUs. `None` if every CPU may be measured: drawing would disturb
    /// the measurement. `snapshots` copies the results so far.
    pub(crate) fn of(
        measured: &[Option<usize>],
        snapshots: impl Fn() -> Vec<Snapshot> + Send + Sync + 'a,
    ) -> Option<Self> {
        let cpu = unmeasured_cpu(measured, &allowed_cpus())?;
        Some(Self { cpu, snapshots: Box::new(snapshots) })
    }

    /// Starts to follow the run.
    pub(super) fn course(&self) -> Course<'_> {
        Course { lines: self, updated: Instant::now(), threads: Vec::new() }
    }
}

/// The state of the lines during a run.
pub(super) struct Course<'a> {
    lines: &'a LiveLines<'a>,
    updated: Instant,
    threads: Vec<ThreadCourse>,
}

/// The previous results of one thread, and the maximum of each past second.
struct ThreadCourse {
    before: Latencies,
    maxima_us: Vec<u64>,
}

impl Course<'_> {
    /// Returns new lines if a second has passed. Each line has at most `width` columns, and there are at most `height`
    /// lines.
    pub(super) fn update(&mut self, (width, height): (usize, usize)) -> Option<Vec<String>> {
        if self.updated.elapsed() < UPDATE {
            return None;
        }
        self.updated = Instant::now();
        let snapshots = (self.lines.snapshots)();
        self.threads.resize_with(snapshots.len(), || ThreadCourse { before: Latencies::new(), maxima_us: Vec::new() });
        for (thread, snapshot) in self.threads.iter_mut().zip(&snapshots) {
            thread.add(&snapshot.latencies);
        }
        let mut both: Vec<_> = snapshots.iter().zip(&self.threads).collect();
        let hidden = both.len().saturating_sub(height.max(1));
        if hidden > 0 {
            // The CPUs with the highest maxima, in the order of their numbers.
            both.sort_by_key(|(snapshot, _)| std::cmp::Reverse(worst_ns(snapshot)));
            both.truncate(height.max(2) - 1);
            both.sort_by_key(|(snapshot, _)| snapshot.cpu);
        }
        let more = snapshots.len() - both.len();
        let lines = both.into_iter().map(|(snapshot, thread)| line(snapshot, &thread.maxima_us, width));
        let more = (more > 0).then(|| format!("{more} more CPUs with lower maxima").chars().take(width).collect());
        Some(lines.chain(more).collect())
    }
}

impl ThreadCourse {
    fn add(&mut self, now: &Latencies) {
        self.maxima_us.extend(maximum_since_us(&self.before, now));
        let too_many = self.maxima_us.len().saturating_sub(COURSE);
        self.maxima_us.drain(..too_many);
        self.before.clone_from(now);
    }
}

fn worst_ns(snapshot: &Snapshot) -> u64 {
    snapshot.latencies.worst().map_or(0, |wake| wake.latency_ns)
}

/// Returns the maximum of the samples that `now` contains and `before` does not, in whole microseconds; at most 10 ms.
/// `None` if there is no such sample.
fn maximum_since_us(before: &Latencies, now: &Latencies) -> Option<u64> {
    let counts = now.microseconds();
    if now.overflows() > before.overflows() {
        return Some(counts.len() as u64);
    }
    let new = counts.iter().zip(before.microseconds()).rposition(|(now, before)| now > before);
    new.map(|us| us as u64)
}

/// Returns the letter for a maximum. The levels are logarithmic: from below 3 µs to 3 ms and more.
fn level(us: u64) -> char {
    const LIMITS_US: [u64; 7] = [3, 10, 30, 100, 300, 1_000, 3_000];
    LEVELS[LIMITS_US.iter().filter(|&&limit| us >= limit).count()]
}

/// Returns the line of a thread. A narrow terminal shows fewer figures.
#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn line(snapshot: &Snapshot, maxima_us: &[u64], width: usize) -> String {
    /// The figures that are omitted first, if the line is too long: the latest latency, the number, the median.
    const OMITTED: [&[usize]; 4] = [&[], &[2], &[1, 2], &[1, 2, 3]];
    let counts = snapshot.latencies.histogram();
    let time = |name: &str, ns: Option<u64>| {
        format!("{name} {}", ns.map_or_else(|| "-".to_owned(), |ns| short_time(ns as f64)))
    };
    let fields = [
        format!("CPU {}", name_of(snapshot.cpu)),
        format!("n {}", counts.samples()),
        time("last", snapshot.last_ns),
        time("p50", counts.quantile(0.5)),
        time("p99", tail(counts, 0.99)),
        time("max", snapshot.latencies.worst().map(|wake| wake.latency_ns)),
    ];
    let without = |omitted: &[usize]| {
        let kept = fields.iter().enumerate().filter(|(index, _)| !omitted.contains(index));
        kept.map(|(_, field)| field.as_str()).collect::<Vec<_>>().join("  ")
    };
    let texts = OMITTED.map(without);
    let length = |text: &String| text.chars().count();
    let text = texts.iter().find(|text| length(text) <= width).unwrap_or(&texts[OMITTED.len() - 1]);
    let room = width.saturating_sub(length(text) + 2);
    let newest = &maxima_us[maxima_us.len().saturating_sub(room)..];
    let course: String = newest.iter().copied().map(level).collect();
    let whole = if course.is_empty() { text.clone() } else { format!("{text}  {course}") };
    whole.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use hpt_core::Instant as Time;
    use hpt_instrument::measure::{Latencies, Wake};

    use super::{Course, LiveLines, Snapshot, UPDATE, level, line, maximum_since_us};

    fn latencies(us: &[u64]) -> Latencies {
        let mut latencies = Latencies::new();
        us.iter().for_each(|us| latencies.record(Wake::new(Time::EPOCH, us * 1_000)));
        latencies
    }

    fn snapshot(cpu: usize, us: &[u64]) -> Snapshot {
        Snapshot { cpu: Some(cpu), latencies: latencies(us), last_ns: us.last().map(|us| us * 1_000) }
    }

    #[test]
    fn the_maximum_of_a_second_is_that_of_its_new_samples() {
        let before = latencies(&[5, 900]);
        assert_eq!(maximum_since_us(&before, &latencies(&[5, 900, 7, 3])), Some(7));
        assert_eq!(maximum_since_us(&before, &before), None);
        assert_eq!(maximum_since_us(&before, &latencies(&[5, 900, 20_000])), Some(10_000));
    }

    #[test]
    fn the_course_has_eight_levels() {
        let levels = [0, 2, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000].map(level);
        assert_eq!(levels, ['▁', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█', '█']);
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_figures() {
        let thread = snapshot(3, &[10, 20, 30, 12]);
        let of = |width| line(&thread, &[30, 2, 4_000], width);
        assert_eq!(of(80), "CPU 3  n 4  last 12 µs  p50 12 µs  p99 -  max 30 µs  ▄▁█");
        assert_eq!(of(55), "CPU 3  n 4  last 12 µs  p50 12 µs  p99 -  max 30 µs  ▁█");
        assert_eq!(of(40), "CPU 3  n 4  p50 12 µs  p99 -  max 30 µs");
        assert_eq!(of(26), "CPU 3  p99 -  max 30 µs  █");
        assert_eq!(of(10).chars().count(), 10);
    }

    #[test]
    fn a_low_terminal_shows_the_cpus_with_the_highest_maxima() {
        let snapshots = || vec![snapshot(0, &[5]), snapshot(1, &[90]), snapshot(2, &[]), snapshot(3, &[70])];
        let lines = LiveLines { cpu: 4, snapshots: Box::new(snapshots) };
        let of = |height| {
            let before = Instant::now();
            let mut course: Course<'_> = lines.course();
            assert!(course.updated >= before, "it begins now");
            // Even if this thread waits for a CPU for a second.
            course.updated += Duration::from_secs(3_600);
            assert_eq!(course.update((80, height)), None, "only a second later");
            course.updated = Instant::now().checked_sub(UPDATE).expect("the machine has run for a second");
            let lines = course.update((80, height)).expect("a second has passed");
            lines.iter().map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(of(4), ["CPU 0", "CPU 1", "CPU 2", "CPU 3"]);
        assert_eq!(of(3), ["CPU 1", "CPU 3", "2 more CPUs with lower maxima"]);
    }
}
