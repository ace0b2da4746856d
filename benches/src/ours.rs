//! This project's ways to read time, opened once and lent to the contenders.
//! Compares nothing.

use std::{hint::black_box, time::Duration};

use hpt_core::{
    Clock, Host, Opened, PosixClock, PosixId, TimeSource, Tsc, Unavailable,
    calibrate::{self, CalibrateError},
    clock::ClockError,
    source,
};

use crate::contender::{Contender, Gives, Group};

/// For how long the counter is calibrated: the scale's value has no part in what a read costs.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(10);

/// The TSC in all the ways in which it can be reached.
#[derive(Debug)]
pub struct Ours {
    tsc: Tsc,
    clock: Clock<Tsc>,
    boxed: Box<dyn TimeSource>,
    opened: Opened,
}

/// Why this project's clocks take no part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OursError {
    /// The counter, or the clock it is calibrated against, cannot be read.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Its rate could not be found.
    #[error(transparent)]
    NotCalibrated(#[from] CalibrateError),
    /// It wraps too soon.
    #[error(transparent)]
    NoClock(#[from] ClockError),
}

impl Ours {
    /// Opens the TSC, and calibrates it for 10 ms.
    ///
    /// # Errors
    ///
    /// [`OursError`] where the machine has no TSC or does not let it be read.
    pub fn open(host: &Host) -> Result<Self, OursError> {
        let tsc = Tsc::open(host)?;
        let reference = PosixClock::open(host, PosixId::MonotonicRaw)?;
        let frequency = calibrate::calibrate(&tsc, &reference, CALIBRATION_WINDOW)?.frequency;
        let clock = Clock::new(tsc.clone(), frequency)?;
        // Through black_box, so that the compiler cannot know which source stands behind the pointer.
        let boxed = black_box(Box::new(tsc.clone()) as Box<dyn TimeSource>);
        let opened = black_box(source::open(host, tsc.info().id.as_str())?);
        Ok(Self { tsc, clock, boxed, opened })
    }

    /// The clock, and the source by its own type and through `dyn`.
    #[must_use]
    pub fn contenders(&self) -> Vec<Contender<'_>> {
        let Self { tsc, clock, .. } = self;
        vec![
            ours("hpt Tsc::ticks", Gives::Ticks, || tsc.ticks()),
            self.through_dyn(),
            ours("hpt Clock<Tsc>::now", Gives::Nanoseconds, || clock.now()),
            ours("hpt Clock<Tsc>::now_start", Gives::Nanoseconds, || clock.now_start()),
        ]
    }

    /// Every way in which a program may hold a source.
    #[must_use]
    pub fn by_every_way(&self) -> Vec<Contender<'_>> {
        let Self { tsc, clock, boxed, opened } = self;
        vec![
            ours("hpt Tsc::ticks", Gives::Ticks, || tsc.ticks()),
            ours("hpt S: TimeSource", Gives::Ticks, || ticks_of(tsc)),
            ours("hpt &S: TimeSource", Gives::Ticks, move || ticks_of(&tsc)),
            self.through_dyn(),
            ours("hpt Box<dyn TimeSource>", Gives::Ticks, || ticks_of(boxed)),
            ours("hpt Opened::as_dyn", Gives::Ticks, || opened.as_dyn().ticks()),
            ours("hpt Clock<Tsc>::now", Gives::Nanoseconds, || clock.now()),
        ]
    }

    fn through_dyn(&self) -> Contender<'_> {
        let source: &dyn TimeSource = black_box(self.boxed.as_ref());
        ours("hpt &dyn TimeSource", Gives::Ticks, || source.ticks())
    }
}

fn ours<'a, T: 'a>(name: &'static str, gives: Gives, read: impl Fn() -> T + 'a) -> Contender<'a> {
    Contender::new(name, Group::Hpt, gives, read)
}

fn ticks_of<S: TimeSource>(source: &S) -> u64 {
    source.ticks()
}
