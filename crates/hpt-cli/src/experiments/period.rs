//! The time by which the period of a cyclic task exceeds its nominal value.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use hpt_core::{Instant, Width, stats::Histogram};
use hpt_instrument::measure::{FramePort, Wakes};
use hpt_realtime::Behavior;

use super::{
    definition::{Experiment, ExperimentRun, Part, Published, published_ratio},
    figure::{Measured, Tally, ratio, to_digits},
    frames::Frames,
    instruments::{Beat, Chosen, beats_of, cycles, cycles_remark, preflight_of},
};
use crate::{
    exit::Failure,
    output::one_or_many,
    sampling::realtime_options::{Alone, RealtimeOptions},
};

const BY: &str = "hpt experiment";
/// The longest time for which the thread that sends frames back waits for one, and therefore lives on at the end.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "ns" }
}

const SHORT: [&str; 2] = ["100 µs, system clock", "100 µs, cycle counter"];
const SHORT_MEAN: [&str; 2] = ["100 µs, mean with system clock", "100 µs, mean with cycle counter"];
const LONG: [&str; 2] = ["1 ms, system clock", "1 ms, cycle counter"];
const WITH_FRAMES: [&str; 2] = ["1 ms with a frame, system clock", "1 ms with a frame, cycle counter"];
const ROUND_TRIP: &str = "1 ms, round trip of a frame";
const RATIOS: [&str; 2] = ["100 µs, ratio", "1 ms, ratio"];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "period",
    brief: "period error of a cyclic task",
    title: "time by which the period of a cyclic task exceeds its nominal value, averaged over 1000 starts",
    published_in: "paper (2020), Table 2 and Figure 6",
    hardware: "BeagleBone Black, AM3358 (Cortex-A8, 1 GHz), Linux 4.9.59-rt; the master of an EtherCAT network",
    differs: "the paper measured in the kernel and in the master of a network, but hpt measures in a task that only sleeps until the start of each period (an absolute clock_nanosleep) and reads both sources there, under SCHED_FIFO 99 if permitted; the deadlines do not drift, so that a late start makes the next interval shorter, and the mean shows only missed starts and the difference of the rates; a cycle counter may stop while the CPU sleeps; the rows of a loop that polls the time are not in the paper; with --frames, the task also sends a frame with the EtherType of EtherCAT in each period of 1 ms and waits for its return, which hpt itself sends back if a second interface is given",
    main: SHORT[0],
    published: &[
        published(SHORT[0], 383.0),
        published(SHORT[1], 39.0),
        Published { what: SHORT_MEAN[0], value: 100.383, unit: "µs" },
        Published { what: SHORT_MEAN[1], value: 100.039, unit: "µs" },
        published(LONG[0], 72.0),
        published(LONG[1], 6.0),
        published_ratio(RATIOS[0], 9.8),
        published_ratio(RATIOS[1], 12.0),
    ],
    way: Some(|context, ways| {
        let mut preflight = preflight_of(context, cycles)?;
        if let Some(frames) = &ways.frames {
            frames.open()?;
            preflight.conditions.push(frames.how());
        }
        Ok(preflight)
    }),
    parts: &[
        Part {
            name: "100 µs",
            count: 1_000,
            short: 200,
            each: Duration::from_micros(200),
            continues: false,
            measure: short,
        },
        Part { name: "1 ms", count: 1_000, short: 50, each: Duration::from_millis(2), continues: false, measure: long },
    ],
};

fn short(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    measure(run, (SHORT, Some(SHORT_MEAN), RATIOS[0]), Duration::from_micros(100))
}

fn long(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let period = Duration::from_millis(1);
    let mut found = measure(run, (LONG, None, RATIOS[1]), period)?;
    if let Some(frames) = run.ways.frames.as_ref().filter(|_| run.goes_on()) {
        found.extend(measure_with_frames(run, frames, period)?);
    }
    Ok(found)
}

/// Measures the periods of a task that sends a frame at the start of each period and waits for its return.
fn measure_with_frames(run: &ExperimentRun<'_>, frames: &Frames, period: Duration) -> Result<Vec<Measured>, Failure> {
    let (port, device) = frames.open()?;
    let mut chosen = vec![run.context.open("monotonic").map(Chosen::of)?];
    chosen.extend(cycles(run.context).ok());
    let is_over = AtomicBool::new(false);
    let mut trips = RoundTrips::new(&port, period);
    let slept = std::thread::scope(|scope| {
        if let Some(device) = &device {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if device.answer(LONGEST_WAIT).is_err() {
                        break;
                    }
                }
            });
        }
        let slept = sleep(run, &chosen, (period, &mut || trips.one()));
        is_over.store(true, Ordering::Relaxed);
        slept
    });
    let (mut starts, how) = slept?;
    let how = format!("{how}; {}; {} lost", frames.how(), trips.lost);
    let mut found = Vec::new();
    for ((chosen, of_source), what) in chosen.iter().zip(&mut starts).zip(WITH_FRAMES) {
        let how = |missed| format!("{}{}; {how}, {missed}", chosen.how, cycles_remark(chosen.opened.as_dyn()));
        match run.rate(chosen.opened.as_dyn()) {
            Ok(rate) => found.extend(of_source.figures((what, None), (rate.tick_ns_f64(), period), how)),
            Err(why) => found.push(Measured::unavailable(what, "ns", why)),
        }
    }
    let trip = trips.times.figure(ROUND_TRIP, 1e3, "µs", how.as_str());
    let error = trips.error.map(|error| format!("{how}: {error}"));
    let none = || Measured::unavailable(ROUND_TRIP, "µs", error.unwrap_or_else(|| format!("{how}: no frame returned")));
    found.push(trip.unwrap_or_else(none));
    Ok(found)
}

/// The times from sending a frame until its return.
struct RoundTrips<'a> {
    port: &'a FramePort,
    period: Duration,
    number: u8,
    times: Tally,
    lost: u64,
    error: Option<std::io::Error>,
}

impl<'a> RoundTrips<'a> {
    fn new(port: &'a FramePort, period: Duration) -> Self {
        Self { port, period, number: 0, times: Tally::default(), lost: 0, error: None }
    }

    /// Sends one frame. A frame that has not returned after a period is lost.
    fn one(&mut self) {
        self.number = self.number.wrapping_add(1);
        match self.trip() {
            Ok(Some(time)) => self.times.add([(time.as_secs_f64() * 1e9, 1)].into_iter(), 1.0),
            Ok(None) => self.lost += 1,
            Err(error) => {
                self.lost += 1;
                self.error = Some(error);
            }
        }
    }

    fn trip(&self) -> std::io::Result<Option<Duration>> {
        let sent = Instant::now();
        self.port.send(self.number)?;
        loop {
            let left = self.period.saturating_sub(sent.elapsed());
            // An earlier frame that counted as lost may still return.
            if self.port.receive(left)? == Some(self.number) {
                return Ok(Some(sent.elapsed()));
            }
            if sent.elapsed() >= self.period {
                return Ok(None);
            }
        }
    }
}

/// Measures the periods of a task that sleeps, and then those of a loop that polls, as rows of its own.
fn measure(
    run: &ExperimentRun<'_>,
    (errors, means, ratio_of): ([&str; 2], Option<[&str; 2]>, &str),
    period: Duration,
) -> Result<Vec<Measured>, Failure> {
    let system = run.context.open("monotonic").map(Chosen::of)?;
    let (mut chosen, mut found) = (vec![system], Vec::new());
    match cycles(run.context) {
        Ok(cycles) => chosen.push(cycles),
        Err(why) => {
            let whats = [(errors[1], "ns")].into_iter().chain(means.map(|means| (means[1], "µs")));
            found.extend(whats.map(|(what, unit)| Measured::unavailable(what, unit, why.as_str())));
        }
    }
    let (mut starts, how) = sleep(run, &chosen, (period, &mut || ()))?;
    for (place, (chosen, of_source)) in chosen.iter().zip(&mut starts).enumerate() {
        let how = |missed| format!("{}{}; {how}, {missed}", chosen.how, cycles_remark(chosen.opened.as_dyn()));
        match run.rate(chosen.opened.as_dyn()) {
            Ok(rate) => found.extend(of_source.figures(
                (errors[place], means.map(|means| means[place])),
                (rate.tick_ns_f64(), period),
                how,
            )),
            Err(why) => found.push(Measured::unavailable(errors[place], "ns", why)),
        }
    }
    found.extend(ratio(ratio_of, &found, errors));
    for (place, (chosen, what)) in chosen.iter().zip(errors).enumerate() {
        if !run.goes_on() {
            break;
        }
        let what = format!("{what}: polled");
        match beats_of(run, chosen, Beat { period, act: &|| () }, (place, 2)) {
            Ok((longer, how)) => found.extend(longer.figure(&what, 1.0, "ns", how)),
            Err(why) => found.push(Measured::unavailable(&what, "ns", why)),
        }
    }
    Ok(found)
}

/// Lets a thread sleep until the start of each period, under SCHED_FIFO 99 if permitted, and reads the sources there.
/// Also returns the settings of the thread.
/// The task then calls `act`.
fn sleep(
    run: &ExperimentRun<'_>,
    chosen: &[Chosen],
    (period, act): (Duration, &mut dyn FnMut()),
) -> Result<(Vec<Starts>, String), Failure> {
    let (_, thread) = RealtimeOptions::of_a_core_of_its_own(&Alone::default(), None);
    let held = thread.hold_thread(run.context, run.ways.cpu, Behavior::Blocks, BY)?;
    let how = format!("a task that sleeps, {}", held.settings().words(run.ways.cpu));
    let mut starts: Vec<_> = chosen.iter().map(|_| Starts::default()).collect();
    let wakes = Wakes::new(period).with_count(run.count).with_check(|| run.context.check());
    let slept = wakes.run(|wake| {
        for (starts, chosen) in starts.iter_mut().zip(chosen) {
            let source = chosen.opened.as_dyn();
            starts.add(source.ticks(), source.info().width, wake.missed);
        }
        act();
        run.context.check()
    });
    run.warnings.borrow_mut().extend(held.end());
    slept.map_err(Failure::SleepRefused)?;
    Ok((starts, how))
}

/// The intervals between the starts of a cyclic task, in ticks of one source.
#[derive(Default)]
struct Starts {
    last: Option<u64>,
    intervals: Histogram,
    sum_ticks: u64,
    missed: u64,
}

impl Starts {
    fn add(&mut self, start: u64, width: Width, missed: u64) {
        if let Some(last) = self.last.replace(start) {
            let interval = width.difference(last, start);
            self.intervals.record(interval);
            self.sum_ticks += interval;
        }
        self.missed += missed;
    }

    /// Returns the mean of the intervals minus the period in nanoseconds, and the intervals in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "sums are below 2^53")]
    fn figures(
        &self,
        (error, mean): (&str, Option<&str>),
        (tick_ns, period): (f64, Duration),
        how: impl Fn(String) -> String,
    ) -> Vec<Measured> {
        let intervals = self.intervals.samples();
        if intervals == 0 {
            return Vec::new();
        }
        let mean_ns = self.sum_ticks as f64 * tick_ns / intervals as f64;
        let how = how(format!("{} {} missed", self.missed, one_or_many(self.missed, "start", "starts")));
        let excess = Measured::figure(error, mean_ns - period.as_nanos() as f64, "ns", intervals, how.as_str());
        let mut tally = Tally::default();
        tally.add_ticks(&self.intervals, tick_ns);
        let of_intervals = mean.and_then(|what| tally.figure(what, 1e3, "µs", how.as_str()));
        // The histogram rounds intervals, but their sum is exact.
        let of_intervals = of_intervals.map(|all| Measured { value: Some(to_digits(mean_ns / 1e3)), ..all });
        [Some(excess), of_intervals].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Width;

    use super::Starts;

    #[test]
    fn the_mean_of_the_intervals_is_exact_and_may_be_below_the_period() {
        let mut starts = Starts::default();
        // A late start makes one interval longer and the next one shorter; the counter wraps.
        for start in [u32::MAX - 99_999, 0, 130_000, 199_998] {
            starts.add(start.into(), Width::BITS_32, 0);
        }
        let figures = |period_us| {
            let period = Duration::from_micros(period_us);
            starts.figures(("error", Some("mean")), (1.0, period), |missed| missed)
        };
        let found = figures(100);
        let values: Vec<_> = found.iter().map(|figure| (figure.value, figure.samples)).collect();
        assert_eq!(values, [(Some(-0.6667), 3), (Some(99.999), 3)]);
        assert_eq!((found[1].max, found[0].how.as_str()), (Some(130.0), "0 starts missed"));
        assert!(figures(99)[0].value.is_some_and(|error| error > 0.0));
    }
}
