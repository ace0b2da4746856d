//! Implements a custom time source, which counts the frames of a film, and uses it like a built-in source.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use hpt_core::{
    FixedRateClock, Frequency, SourceId, SourceInfo, TimeSource,
    source::{Nominal, Scope, StatedBy},
};

/// A time source that counts the frames of a film, at 25 frames per second.
#[derive(Debug)]
struct FilmFrames {
    shown: AtomicU64,
    info: SourceInfo,
}

impl FilmFrames {
    fn new() -> Self {
        let mut info = SourceInfo::new(SourceId::new("film-frames"));
        info.nominal = Frequency::from_hertz(25).map(|frequency| Nominal { frequency, stated_by: StatedBy::Program });
        info.scope = Scope::System;
        info.steady = true;
        Self { shown: AtomicU64::new(0), info }
    }

    fn show(&self, frames: u64) {
        self.shown.fetch_add(frames, Ordering::Relaxed);
    }
}

impl TimeSource for FilmFrames {
    fn ticks(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let film = FilmFrames::new();
    let frequency = film.info().nominal.map(|nominal| nominal.frequency).ok_or("a film has a rate")?;
    let clock = FixedRateClock::new(&film, frequency)?;
    let opening = clock.now();
    film.show(25 * 60 * 90);
    println!("the film ends after {:?}", clock.now() - opening);
    Ok(())
}
