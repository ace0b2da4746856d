//! Implements a custom time source, which counts the frames of a film, and uses it like a built-in source.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use hpt_core::{
    FixedRateClock, Frequency, SourceId, SourceInfo, TimeSource,
    source::{Quantity, RateKind, StatedBy},
};

const FRAME_RATE: Frequency = Frequency::from_hertz(25).expect("not zero");

/// A time source that counts the frames of a film, at 25 frames per second.
#[derive(Debug)]
struct FilmFrames {
    shown: AtomicU64,
    info: SourceInfo,
}

impl FilmFrames {
    fn new() -> Self {
        let info = SourceInfo::new(SourceId::new("film-frames"))
            .with_quantity(Quantity::Time)
            .with_rate(RateKind::Constant)
            .with_nominal(FRAME_RATE, StatedBy::Program);
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
    let clock = FixedRateClock::new(&film, FRAME_RATE)?;
    let opening = clock.now();
    film.show(25 * 60 * 90);
    println!("the film ends after {:?}", clock.now() - opening);
    Ok(())
}
