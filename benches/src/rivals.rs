//! The competitors: other ways to read time, and the bare instruction.
//! Uses their default configuration or, if there is a choice, the fastest one.

use hpt_core::Host;

use crate::{
    bare::{Counter, clock_monotonic, nanos},
    contender::{Contender, Gives, Group, Pair},
};

/// Returns the bare instruction, unordered and ordered.
///
/// # Errors
///
/// Returns the reason if it cannot be executed here.
pub fn bare(host: &Host) -> Result<Vec<Contender<'static>>, &'static str> {
    let counter = Counter::detect(host)?;
    Ok(vec![
        Contender::new(Counter::PLAIN, Group::Bare, Gives::Ticks, move || counter.read()),
        Contender::new(Counter::ORDERED, Group::Bare, Gives::Ticks, move || counter.read_ordered()),
    ])
}

/// Returns all competitors. quanta calibrates itself at its first call, for up to 200 ms; minstant
/// and fastant do so before `main`.
///
/// quanta's raw readings and the readings of minstant and fastant are ticks. The latter two are
/// converted only when they are subtracted or, as here, shown as Unix time. minstant and fastant
/// read the kernel's clock if they do not trust the TSC.
#[must_use]
pub fn rivals() -> Vec<Contender<'static>> {
    let (for_raw, for_now) = (quanta::Clock::new(), quanta::Clock::new());
    // The first reading initializes the global clock of quanta::Instant, which must not be timed.
    let _ = quanta::Instant::now();
    let (minstant_anchor, fastant_anchor) = (minstant::Anchor::new(), fastant::Anchor::new());
    vec![
        rival("quanta Clock::raw", Gives::Ticks, move || for_raw.raw()),
        rival("quanta Clock::now", Gives::Nanoseconds, move || for_now.now()),
        rival("quanta Instant::now", Gives::Nanoseconds, quanta::Instant::now),
        rival("minstant Instant::now", Gives::Ticks, minstant::Instant::now),
        rival("minstant as_unix_nanos", Gives::Nanoseconds, move || {
            minstant::Instant::now().as_unix_nanos(&minstant_anchor)
        }),
        rival("fastant Instant::now", Gives::Ticks, fastant::Instant::now),
        rival("fastant as_unix_nanos", Gives::Nanoseconds, move || {
            fastant::Instant::now().as_unix_nanos(&fastant_anchor)
        }),
        rival(STD_INSTANT, Gives::SecondsAndNanoseconds, std::time::Instant::now),
        rival("libc CLOCK_MONOTONIC", Gives::SecondsAndNanoseconds, clock_monotonic),
    ]
}

/// Returns the competitors as used to time a program's work, each with its own `now` and `elapsed`.
#[must_use]
pub fn pairs() -> Vec<Pair<'static>> {
    let quanta = quanta::Clock::new();
    let (raw, delta) = (quanta.clone(), quanta);
    let _ = quanta::Instant::now();
    let (ns, duration) = (Gives::Nanoseconds, Gives::SecondsAndNanoseconds);
    vec![
        Pair::new(
            "quanta Clock::raw, delta_as_nanos",
            Group::Rival,
            ns,
            move || raw.raw(),
            move |start| delta.delta_as_nanos(start, delta.raw()),
        ),
        Pair::new("quanta Instant", Group::Rival, duration, quanta::Instant::now, |start| start.elapsed()),
        Pair::new("minstant Instant", Group::Rival, duration, minstant::Instant::now, |start| start.elapsed()),
        Pair::new("fastant Instant", Group::Rival, duration, fastant::Instant::now, |start| start.elapsed()),
        Pair::new("std Instant", Group::Rival, duration, std::time::Instant::now, |start| start.elapsed()),
        Pair::new("libc CLOCK_MONOTONIC, nanoseconds", Group::Rival, ns, clock_monotonic, |start| {
            nanos(clock_monotonic()) - nanos(start)
        }),
    ]
}

/// The name of the standard library's clock, which is the second baseline.
pub const STD_INSTANT: &str = "std Instant::now";

/// Returns a competitor whose time advances only with the kernel's ticks: faster, but not
/// comparable with the others.
#[must_use]
pub fn coarse() -> Contender<'static> {
    rival("coarsetime Instant::now", Gives::Ticks, coarsetime::Instant::now)
}

fn rival<T: 'static>(name: &'static str, gives: Gives, read: impl Fn() -> T + 'static) -> Contender<'static> {
    Contender::new(name, Group::Rival, gives, read)
}
