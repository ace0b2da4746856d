//! The overshoot of three ways to sleep, and their CPU time.

use std::{io, time::Duration};

use hpt_core::Sleeper;
use hpt_instrument::measure::{SleepMethod, SleepOvershoot, sleep_overshoot};

use super::{
    definition::{Experiment, ExperimentRun, Part, Published},
    figure::Measured,
};
use crate::{exit::Failure, output::exact_time};

const fn late(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "µs" }
}

const fn cpu(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "%" }
}

/// The methods of hpt, and their names in the publication.
const NAMES: [(&str, &str); 3] = [("std", "system"), ("busy", "busy"), ("hpt", "library")];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "sleeps",
    brief: "overshoot and CPU time of three ways to sleep",
    title: "mean overshoot and CPU time of three ways to sleep, for sleeps of 1 ms and longer, and for shorter sleeps",
    published_in: "HighPerTimer (2012 to 2016), Table 2",
    hardware: "i7-2600, 10,000 steps (the system's sleep on ARM: 100 to 400 µs late)",
    differs: "the publication measured the C++ library HighPerTimer, but hpt measures its own Sleeper; the publication does not state how its lengths are distributed, so hpt distributes them evenly, from 1 ms to 3.3 s (with --short to 20 ms) and from 1 µs to 1 ms: 10,000 steps, each with one sleep of each kind, then take about as long as published, 830 minutes",
    main: "library, 1 ms and longer",
    published: &[
        late("system, 1 ms and longer", 61.985),
        late("system, below 1 ms", 50.879),
        cpu("system, CPU", 0.016),
        late("busy, 1 ms and longer", 0.160),
        late("busy, below 1 ms", 0.070),
        cpu("busy, CPU", 99.681),
        late("library, 1 ms and longer", 0.258),
        late("library, below 1 ms", 0.095),
        cpu("library, CPU", 1.892),
        late(CLAIMS[0].0, 50.0),
        late(CLAIMS[1].0, 100.0),
        late(CLAIMS[2].0, 400.0),
        cpu(CLAIMS[3].0, 1.0),
        cpu(CLAIMS[4].0, 1.89),
    ],
    way: None,
    parts: &[Part {
        name: "sleeps",
        count: STEPS,
        short: 100,
        each: Duration::from_millis(4_960),
        continues: false,
        measure,
    }],
};

/// The bounds that the publication states in its text, the figure that each applies to, and whether it is one of an ARM
/// processor (`None`: of both kinds).
const CLAIMS: [(&str, &str, Option<bool>); 5] = [
    ("system, on a PC (about)", "system, below 1 ms", Some(false)),
    ("system, on ARM (lower bound)", "system, below 1 ms", Some(true)),
    ("system, on ARM (upper bound)", "system, below 1 ms", Some(true)),
    ("library, CPU (lower bound)", "library, CPU", None),
    ("library, CPU (upper bound)", "library, CPU", None),
];

/// The published number of steps.
const STEPS: u64 = 10_000;
/// The longest sleep of 1 ms or more: with all steps, and with fewer.
const LONGEST: [Duration; 2] = [Duration::from_millis(3_300), Duration::from_millis(20)];
const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns `count` durations that are distributed evenly over a range, in an irregular order.
#[expect(clippy::cast_precision_loss, reason = "counts of sleeps are small")]
fn evenly((shortest, longest): (Duration, Duration), count: u64) -> impl Iterator<Item = Duration> {
    // Multiples of the golden ratio, modulo one, leave no gap and no cluster (Knuth, The Art of Computer Programming,
    // volume 3, section 6.4, theorem S).
    (1..=count).map(move |step| shortest + (longest - shortest).mul_f64((step as f64 * 0.618_033_988_749_895).fract()))
}

#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    hpt_core::clock::prime();
    let mut sleeper = Sleeper::new();
    let mut methods: Vec<_> = SleepMethod::all(&mut sleeper).into();
    methods.retain(|method| NAMES.iter().any(|(name, _)| *name == method.name()));
    let longest = LONGEST[usize::from(run.count < STEPS)];
    let ranges = [("1 ms and longer", (MILLISECOND, longest)), ("below 1 ms", (Duration::from_micros(1), MILLISECOND))];
    let (mut found, mut all) = (Vec::new(), Vec::new());
    for (place, (which, range)) in ranges.into_iter().enumerate() {
        let overshoots = sleep_overshoot(evenly(range, run.count), &mut methods, |so_far| {
            let done = so_far.made() as f64 / (run.count * NAMES.len() as u64) as f64;
            (run.progress)((place as f64 + done) / 2.0);
            run.context.check()
        });
        if let Some(refused) = overshoots.iter().find_map(|overshoot| overshoot.refused.clone()) {
            return Err(Failure::SleepRefused(io::Error::other(refused)));
        }
        let lengths = format!("{} to {}", exact_time(range.0), exact_time(range.1));
        for (overshoot, name) in overshoots.iter().filter_map(|overshoot| Some((overshoot, name_of(overshoot)?))) {
            let Some(spread) = &overshoot.overshoot else { continue };
            let how = format!("{}, {lengths}", how_of(overshoot));
            found.push(Measured::mean_of(&format!("{name}, {which}"), spread, 1e-3, "µs", how));
        }
        all.extend(overshoots);
    }
    found.extend(NAMES.iter().filter_map(|(method, name)| {
        let of_it: Vec<_> = all.iter().filter(|overshoot| overshoot.method == *method).collect();
        cpu_share(&of_it).map(|share| {
            let sleeps = of_it.iter().map(|overshoot| overshoot.sorted_ns.len() as u64).sum();
            let how = of_it.first().map(|overshoot| format!("{}, all lengths", how_of(overshoot))).unwrap_or_default();
            Measured::figure(&format!("{name}, CPU"), share * 100.0, "%", sleeps, how)
        })
    }));
    let claimed = claimed(&found, run.context.host.facts().architecture.name());
    found.extend(claimed);
    Ok(found)
}

/// Returns the values for this machine, under the names of the bounds that the publication states.
fn claimed(found: &[Measured], architecture: &str) -> Vec<Measured> {
    let here_is_arm = architecture != "x86-64";
    let claimed = CLAIMS.iter().filter_map(|(what, which, is_arm)| {
        let own = found.iter().find(|figure| figure.what == *which)?;
        if is_arm.is_some_and(|is_arm| is_arm != here_is_arm) {
            let why = format!("stated for another kind of machine; this machine is {architecture}");
            return Some(Measured::not_applicable(what, &own.unit, why));
        }
        let what = (*what).to_owned();
        Some(Measured { what, distribution: Vec::new(), how: format!("{which}: {}", own.how), ..own.clone() })
    });
    claimed.collect()
}

fn name_of(overshoot: &SleepOvershoot) -> Option<&'static str> {
    NAMES.iter().find(|(method, _)| *method == overshoot.method).map(|(_, name)| *name)
}

fn how_of(overshoot: &SleepOvershoot) -> String {
    format!("method {} of hpt sleep, timed with {}", overshoot.method, hpt_core::clock::source().id)
}

/// Returns the CPU time of all sleeps divided by their duration; `None` if it is unknown for some of them.
fn cpu_share(sleeps: &[&SleepOvershoot]) -> Option<f64> {
    let elapsed_s: f64 = sleeps.iter().map(|one| one.elapsed.as_secs_f64()).sum();
    let cpu_s = sleeps.iter().map(|one| Some(one.cpu_share? * one.elapsed.as_secs_f64())).sum::<Option<f64>>()?;
    (elapsed_s > 0.0).then(|| cpu_s / elapsed_s)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST, MILLISECOND, Measured, STEPS, claimed, evenly};

    #[test]
    fn a_bound_applies_to_its_kind_of_machine() {
        let own = [
            Measured::figure("system, below 1 ms", 60.0, "µs", 7, "a method"),
            Measured::figure("library, CPU", 1.5, "%", 7, "a method"),
        ];
        let values = |architecture| claimed(&own, architecture).iter().map(|one| one.value).collect::<Vec<_>>();
        assert_eq!(values("x86-64"), [Some(60.0), None, None, Some(1.5), Some(1.5)]);
        assert_eq!(values("armv7"), [None, Some(60.0), Some(60.0), Some(1.5), Some(1.5)]);
    }

    #[test]
    fn the_lengths_cover_their_range_evenly_and_the_steps_take_as_long_as_published() {
        let lengths: Vec<_> = evenly((MILLISECOND, LONGEST[0]), STEPS).collect();
        assert!(lengths.iter().all(|length| (MILLISECOND..=LONGEST[0]).contains(length)));
        let below_half = lengths.iter().filter(|length| **length < LONGEST[0] / 2).count();
        assert!((4_990..=5_010).contains(&below_half), "{below_half}");
        let minutes = lengths.iter().sum::<Duration>().as_secs_f64() / 60.0 * 3.0;
        assert!((820.0..=840.0).contains(&minutes), "{minutes}");
    }
}
