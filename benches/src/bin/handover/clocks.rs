//! The clocks whose readings can be handed over.
//! `hpt_benches::handover` hands them over.

use std::{
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use hpt_benches::{
    bare::{Counter, clock_monotonic, nanos},
    handover::{Player, Seen, play},
};
use hpt_core::Host;
use serde::Serialize;

/// A clock whose readings are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Clock {
    /// Instant::now
    Hpt,
    /// Instant::now_unordered, which promises no order
    HptUnordered,
    /// The standard library's Instant
    Std,
    /// clock_gettime(CLOCK_MONOTONIC) of the C library
    Libc,
    /// quanta's Instant
    Quanta,
    /// The bare instruction without order, in ticks
    Bare,
}

/// The common start of clocks that measure time since a start, for both threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    std: Instant,
    quanta: quanta::Instant,
    counter: Result<Counter, &'static str>,
}

impl Beginning {
    pub(crate) fn now() -> Self {
        Self { std: Instant::now(), quanta: quanta::Instant::now(), counter: Counter::detect(&Host::live()) }
    }
}

/// Plays with one of the clocks. The loop is compiled separately for each.
pub(crate) fn play_by(
    clock: Clock,
    beginning: Beginning,
    player: Player,
    word: &AtomicU64,
    handovers: u64,
    keep_going: impl FnMut() -> bool,
) -> Result<Seen, &'static str> {
    let Beginning { std, quanta, counter } = beginning;
    Ok(match clock {
        Clock::Hpt => play(player, word, handovers, || hpt_core::Instant::now().as_nanos().cast_unsigned(), keep_going),
        Clock::HptUnordered => {
            play(player, word, handovers, || hpt_core::Instant::now_unordered().as_nanos().cast_unsigned(), keep_going)
        }
        Clock::Std => play(player, word, handovers, || whole_ns(std.elapsed()), keep_going),
        Clock::Libc => play(player, word, handovers, || nanos(clock_monotonic()).cast_unsigned(), keep_going),
        Clock::Quanta => play(player, word, handovers, || whole_ns(quanta.elapsed()), keep_going),
        Clock::Bare => {
            let counter = counter?;
            play(player, word, handovers, || counter.read(), keep_going)
        }
    })
}

#[expect(clippy::cast_possible_truncation, reason = "fits for 584 years")]
pub(crate) fn whole_ns(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}
