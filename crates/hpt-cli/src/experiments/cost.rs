//! The read overhead of the kernel's clock, with and without a system call, and of hpt's own clock.

use std::time::Duration;

use hpt_core::{Opened, PosixClock, PosixId, clock};
use hpt_instrument::measure::InstantSource;

use super::{
    definition::{Experiment, ExperimentRun, Part, Published},
    figure::Measured,
    instruments::{Bench, Chosen, in_one_line, soc_counter},
};
use crate::exit::Failure;

const fn published(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "µs" }
}

const fn clock_rate(what: &'static str, value: f64) -> Published {
    Published { what, value, unit: "MHz" }
}

/// The bounds that the publication states in its text, the figure that each applies to, and whether it is one of an ARM
/// processor (`None`: of both kinds).
const CLAIMS: [(&str, &str, Option<bool>); 3] = [
    ("system call (upper bound)", "system call", None),
    ("library on a PC (upper bound)", "library", Some(false)),
    ("library on a Cortex-A (about)", "library", Some(true)),
];

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cost",
    brief: "read overhead of the kernel's clock and hpt's",
    title: "read overhead of the kernel's clock, read in the usual way and with a system call, and of hpt's clock",
    published_in: "HighPerTimer (2012 to 2016), Table 1",
    hardware: "eight machines, each named with its figures; 10^8 calls",
    differs: "the publication measured the C++ library HighPerTimer, but hpt measures its own Instant; the means contain interrupts, as published, so hpt adds the medians of batches; the figures of this machine are compared with the figures of every published machine of the same kind, x86 or ARM; on an ARM processor without a generic timer, Instant follows a counter of 64 bits, and the read of a counter itself is one more row",
    main: "i7-2600, system",
    published: &[
        published("i7-2600, system", 0.031),
        published("i7-2600, library", 0.017),
        clock_rate("i7-2600, clock", 1_600.0),
        published("i5-3337U, system", 0.044),
        published("i5-3337U, library", 0.019),
        clock_rate("i5-3337U, clock", 1_800.0),
        published("Opteron 4238, system", 0.061),
        published("Opteron 4238, library", 0.031),
        clock_rate("Opteron 4238, clock", 3_300.0),
        published("Athlon BE-2350, system", 1.117),
        published("Athlon BE-2350, library", 1.063),
        clock_rate("Athlon BE-2350, clock", 1_000.0),
        published("VIA U4025, system", 0.102),
        published("VIA U4025, library", 0.038),
        clock_rate("VIA U4025, clock", 1_067.0),
        published("Cortex-A8, system", 1.262),
        published("Cortex-A8, library", 0.391),
        clock_rate("Cortex-A8, clock", 24.0),
        published("Cortex-A9, system", 2.0),
        published("Cortex-A9, library", 0.508),
        clock_rate("Cortex-A9, clock", 0.032768),
        published("Cortex-A5, system", 2.069),
        published("Cortex-A5, library", 0.636),
        clock_rate("Cortex-A5, clock", 12.0),
        published(CLAIMS[0].0, 2.0),
        published(CLAIMS[1].0, 0.1),
        published(CLAIMS[2].0, 0.2),
    ],
    way: None,
    parts: &[Part {
        name: "cost",
        count: 100_000_000,
        short: 50_000,
        each: Duration::from_nanos(500),
        continues: false,
        measure,
    }],
};

fn measure(run: &ExperimentRun<'_>) -> Result<Vec<Measured>, Failure> {
    let before = clock::source().id;
    let counter = if before.as_str() == "monotonic" { soc_counter(run.context) } else { None };
    // Instant follows a counter that is wide enough, and otherwise reads the kernel's clock as before.
    let is_followed = counter.as_ref().is_some_and(|counter| {
        let opened = run.context.open(counter.opened.as_dyn().info().id.as_str());
        opened.is_ok_and(|opened| clock::use_source(opened).is_ok())
    });
    let found = measure_all(run, counter);
    if is_followed {
        let _ = clock::use_source(run.context.open(before.as_str())?);
    }
    found
}

/// Measures the clocks, and a counter of the SoC if there is one.
fn measure_all(run: &ExperimentRun<'_>, counter: Option<Chosen>) -> Result<Vec<Measured>, Failure> {
    clock::prime();
    let bench = Bench::of(run)?;
    let by_call = PosixClock::open_by_system_call(&run.context.host, PosixId::Monotonic);
    let by_call = by_call.map(|clock| Chosen::of(Opened::Shared(Box::new(clock))));
    let by_call = by_call.map_err(|reason| in_one_line(&Failure::Source { name: "monotonic".to_owned(), reason }));
    let kernel = run.context.open("monotonic").map(Chosen::of)?;
    let own = Chosen {
        opened: Opened::Shared(Box::new(InstantSource::new())),
        how: format!("hpt's Instant, using {}", clock::source().id),
    };
    let mut found = Vec::new();
    let source =
        counter.as_ref().map_or_else(|| clock::source().id, |counter| counter.opened.as_dyn().info().id.clone());
    let counter = counter.map(|counter| ("counter", Ok(counter)));
    let clocks = [("system", Ok(kernel)), ("library", Ok(own)), ("system call", by_call)].into_iter().chain(counter);
    for (place, (what, chosen)) in clocks.enumerate() {
        let what = format!("this machine, {what}");
        match chosen {
            Err(why) => found.push(Measured::unavailable(&what, "µs", why)),
            Ok(chosen) => {
                let timed = bench.cost(run, chosen.opened.as_dyn(), (place, 4));
                found.extend(timed.mean(&what, ("µs", 1e3), &chosen.how));
                found.extend(timed.figures(&format!("{what}: median"), 1, ("µs", 1e3), &chosen.how));
            }
        }
        if !run.goes_on() {
            break;
        }
    }
    let clock = "this machine, clock";
    found.push(match run.open(source.as_str(), clock, "MHz") {
        Err(unavailable) => *unavailable,
        Ok(chosen) => match run.rate(chosen.opened.as_dyn()) {
            Ok(rate) => Measured::figure(clock, rate.hertz_f64() / 1e6, "MHz", 1, format!("rate of {}", chosen.how)),
            Err(why) => Measured::unavailable(clock, "MHz", why),
        },
    });
    let architecture = run.context.host.facts().architecture.name();
    Ok(compared_each(&found, architecture).into_iter().chain(found.iter().cloned()).collect())
}

/// Returns the values for this machine, under the names of the published machines of the same kind.
fn compared_each(found: &[Measured], architecture: &str) -> Vec<Measured> {
    let here_is_arm = architecture != "x86-64";
    let compared = EXPERIMENT.published.iter().filter_map(|published| {
        let claim = CLAIMS.iter().find(|(what, ..)| *what == published.what);
        let is_arm = claim.map_or(Some(published.what.starts_with("Cortex")), |(_, _, is_arm)| *is_arm);
        if is_arm.is_some_and(|is_arm| is_arm != here_is_arm) {
            let why = format!("measured on another kind of machine; this machine is {architecture}");
            return Some(Measured::not_applicable(published.what, published.unit, why));
        }
        let which = match claim {
            Some((_, which, _)) => which,
            None => published.what.rsplit_once(", ")?.1,
        };
        let own = found.iter().find(|figure| figure.what == format!("this machine, {which}"))?;
        Some(Measured { what: published.what.to_owned(), ..own.clone() })
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::{EXPERIMENT, Measured, compared_each};
    use hpt_document::experiment::FigureState;

    #[test]
    fn figures_are_compared_only_with_machines_of_the_same_kind() {
        let own =
            |which: &str, value| Measured::figure(&format!("this machine, {which}"), value, "µs", 7, "by a clock");
        for (architecture, alike) in [("x86-64", "i7-2600"), ("aarch64", "Cortex-A8"), ("armv7", "Cortex-A5")] {
            let found = [own("system", 2.0), own("library", 1.0), own("clock", 19.2), own("system call", 3.0)];
            let compared = compared_each(&found, architecture);
            assert_eq!(compared.len(), EXPERIMENT.published.len());
            let of = |what: String| compared.iter().find(|figure| figure.what == what).expect("it is published");
            assert_eq!(of(format!("{alike}, system")).value, Some(2.0));
            assert_eq!(of(format!("{alike}, library")).value, Some(1.0));
            let other = if architecture == "x86-64" { "Cortex-A9, system" } else { "VIA U4025, system" };
            assert_eq!(of(other.to_owned()).standing, FigureState::NotApplicable);
            assert_eq!(of("system call (upper bound)".to_owned()).value, Some(3.0));
            let of_pc = of("library on a PC (upper bound)".to_owned());
            let of_arm = of("library on a Cortex-A (about)".to_owned());
            let expected = if architecture == "x86-64" { (Some(1.0), None) } else { (None, Some(1.0)) };
            assert_eq!((of_pc.value, of_arm.value), expected);
        }
    }
}
