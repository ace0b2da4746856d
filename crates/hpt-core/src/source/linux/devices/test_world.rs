//! Simulated time and scripted registers for the tests of device counters. The time advances when it is read.

use std::{
    cell::RefCell,
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

use hpt_sys::mmio::Registers;

use crate::source::{SourceInfo, TimeSource};
use crate::testing::ManualSource;

/// The duration of a read of the simulated clock, in nanoseconds.
const CLOCK_READ_NS: u64 = 50;

/// Returns the ticks of a counter at the simulated time, and advances that time by the duration of a read.
pub(super) fn ticks_after(now_ns: &AtomicU64, read_ns: u64, ticks_per_ms: u64) -> u128 {
    u128::from(now_ns.fetch_add(read_ns, Ordering::Relaxed)) * u128::from(ticks_per_ms) / 1_000_000
}

/// Fake registers that return scripted values, and require the scripted order of reads.
#[derive(Debug)]
pub(super) struct Scripted(RefCell<VecDeque<(usize, u32)>>);

impl Scripted {
    /// Creates registers that are read in this order, each at its offset with its value.
    pub(super) fn new(reads: &[(usize, u32)]) -> Self {
        Self(RefCell::new(reads.iter().copied().collect()))
    }
}

impl Registers for Scripted {
    fn read_u32(&self, offset: usize) -> u32 {
        let (expected, value) = self.0.borrow_mut().pop_front().expect("no further read was expected");
        assert_eq!(offset, expected);
        value
    }
}

/// The simulated clock.
#[derive(Debug)]
pub(super) struct WorldClock<'a> {
    now_ns: &'a AtomicU64,
    info: SourceInfo,
}

impl<'a> WorldClock<'a> {
    pub(super) fn of(now_ns: &'a AtomicU64) -> Self {
        Self { now_ns, info: ManualSource::new("world").info().clone() }
    }
}

impl TimeSource for WorldClock<'_> {
    fn ticks(&self) -> u64 {
        self.now_ns.fetch_add(CLOCK_READ_NS, Ordering::Relaxed)
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}
