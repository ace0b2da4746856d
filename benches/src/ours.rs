//! This project's ways to read time, opened once and borrowed by the contenders.
//! Compares nothing.

use std::{hint::black_box, time::Duration};

use hpt_core::{
    FixedRateClock, Frequency, Host, Instant, Opened, PosixClock, PosixId, SourceError, TimeSource,
    calibrate::{self, CalibrateError},
    clock::ClockError,
    source,
};

use crate::contender::{Contender, Gives, Group, Pair};

/// The duration of the calibration, which can be short: the cost of a read does not depend on the
/// value of the scale.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(10);

/// The processor's own counter, and the names of its contenders in tables.
#[cfg(target_arch = "x86_64")]
mod native {
    pub(super) use hpt_core::Tsc as Native;

    pub(super) const TICKS: &str = "hpt Tsc::ticks";
    pub(super) const NOW: &str = "hpt FixedRateClock<Tsc>::now";
    pub(super) const NOW_START: &str = "hpt FixedRateClock<Tsc>::now_start";
}
#[cfg(not(target_arch = "x86_64"))]
mod native {
    pub(super) use hpt_core::ArmCounter as Native;

    pub(super) const TICKS: &str = "hpt ArmCounter::ticks";
    pub(super) const NOW: &str = "hpt FixedRateClock<ArmCounter>::now";
    pub(super) const NOW_START: &str = "hpt FixedRateClock<ArmCounter>::now_start";
}
use native::Native;

/// The processor's counter, in all forms in which a program can hold it.
#[derive(Debug)]
pub struct Ours {
    counter: Native,
    frequency: Frequency,
    clock: FixedRateClock<Native>,
    boxed: Box<dyn TimeSource>,
    opened: Opened,
}

/// The reason why this project's clocks are not measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OursError {
    /// The counter, or the clock it is calibrated against, cannot be read.
    #[error(transparent)]
    Unavailable(#[from] SourceError),
    /// Its rate could not be calibrated.
    #[error(transparent)]
    NotCalibrated(#[from] CalibrateError),
    /// It wraps too soon.
    #[error(transparent)]
    NoClock(#[from] ClockError),
}

impl Ours {
    /// Opens the processor's counter, and calibrates it for 10 ms.
    ///
    /// # Errors
    ///
    /// [`OursError`] if the machine has no counter or does not permit reading it.
    pub fn open(host: &Host) -> Result<Self, OursError> {
        let counter = Native::open(host)?;
        let reference = PosixClock::open(host, PosixId::MonotonicRaw)?;
        let frequency = calibrate::calibrate(&counter, &reference, CALIBRATION_WINDOW)?.frequency;
        let clock = FixedRateClock::new(counter.clone(), frequency)?;
        // Through black_box, so that the compiler does not know the source behind the pointer.
        let boxed = black_box(Box::new(counter.clone()) as Box<dyn TimeSource>);
        let opened = black_box(source::open(host, counter.info().id.as_str())?);
        Ok(Self { counter, frequency, clock, boxed, opened })
    }

    /// Returns the length of a tick of the counter, in nanoseconds.
    #[must_use]
    pub fn tick_ns(&self) -> f64 {
        1e9 / self.frequency.hertz_f64()
    }

    /// Returns the clock, and the source with its own type and through `dyn`.
    #[must_use]
    pub fn contenders(&self) -> Vec<Contender<'_>> {
        let Self { counter, clock, .. } = self;
        vec![
            ours(native::TICKS, Gives::Ticks, || counter.ticks()),
            self.through_dyn(),
            ours(native::NOW, Gives::Nanoseconds, || clock.now()),
            ours(native::NOW_START, Gives::Nanoseconds, || clock.now_start()),
            ours("hpt Instant::now_unordered", Gives::Nanoseconds, Instant::now_unordered),
            ours("hpt Instant::now", Gives::Nanoseconds, Instant::now),
        ]
    }

    /// Returns every way in which a program can hold a source.
    #[must_use]
    pub fn by_every_way(&self) -> Vec<Contender<'_>> {
        let Self { counter, clock, boxed, opened, .. } = self;
        vec![
            ours(native::TICKS, Gives::Ticks, || counter.ticks()),
            ours("hpt S: TimeSource", Gives::Ticks, || ticks_of(counter)),
            ours("hpt &S: TimeSource", Gives::Ticks, move || ticks_of(&counter)),
            self.through_dyn(),
            ours("hpt Box<dyn TimeSource>", Gives::Ticks, || ticks_of(boxed)),
            ours("hpt Opened::as_dyn", Gives::Ticks, || opened.as_dyn().ticks()),
            ours(native::NOW, Gives::Nanoseconds, || clock.now()),
        ]
    }

    fn through_dyn(&self) -> Contender<'_> {
        let source: &dyn TimeSource = black_box(self.boxed.as_ref());
        ours("hpt &dyn TimeSource", Gives::Ticks, || source.ticks())
    }
}

/// Returns `Instant` as used to time a program's work: as a number and as a [`Duration`], unordered
/// and ordered.
#[must_use]
pub fn pairs() -> Vec<Pair<'static>> {
    let (ns, duration) = (Gives::Nanoseconds, Gives::SecondsAndNanoseconds);
    let unordered = Instant::now_unordered;
    vec![
        Pair::new("hpt now_unordered, nanoseconds", Group::Hpt, ns, unordered, |start| start.elapsed_nanos_unordered()),
        Pair::new("hpt now_unordered, Duration", Group::Hpt, duration, unordered, |start| {
            Instant::now_unordered().duration_since(start)
        }),
        Pair::new("hpt now, nanoseconds", Group::Hpt, ns, Instant::now, |start| start.elapsed_nanos()),
        Pair::new("hpt now, Duration", Group::Hpt, duration, Instant::now, |start| start.elapsed()),
    ]
}

fn ours<'a, T: 'a>(name: &'static str, gives: Gives, read: impl Fn() -> T + 'a) -> Contender<'a> {
    Contender::new(name, Group::Hpt, gives, read)
}

fn ticks_of<S: TimeSource>(source: &S) -> u64 {
    source.ticks()
}
