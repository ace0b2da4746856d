//! The layout of the words that all threads of the program share: those from which it computes the time, whose use
//! hpt-core's `clock::linux` decides, and the mark of the process.

#[cfg(loom)]
use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
use std::sync::atomic::AtomicU64;

/// All words; zeros at first. The slots and the line that begins with `state` are read by each reading. The other line
/// is not, so the owner and slow answers do not disturb readers.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ClockWords {
    pub slots: [Slot; 4],
    pub state: AtomicU64,
    pub rare: Rare,
    /// The largest answer that was given without a segment, in nanoseconds.
    pub slowest_ns: AtomicU64,
    /// The name of the thread that makes the next segment, or zero.
    pub owner: AtomicU64,
    pub of_owner: OfOwner,
    /// The ID of the process that is changing the counter, or zero.
    pub changer: AtomicU64,
    /// The mark of the process, or zero. No child has the mark of its parent.
    pub process_mark: AtomicU64,
}

/// A segment and its owner, in a cache line of their own.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    pub base_ticks: AtomicU64,
    pub base_ns: AtomicU64,
    pub slope: AtomicU64,
    /// The length, or zero unless the segment belongs to the processor's own counter.
    pub native_ticks: AtomicU64,
    pub ticks: AtomicU64,
    pub whose: AtomicU64,
}

/// The words that the owner rarely writes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Rare {
    pub restarts: AtomicU64,
    /// The number of consecutive points rejected because of their width, and the time of the next attempt.
    pub refused_in_a_row: AtomicU64,
    pub try_again_ns: AtomicU64,
    /// The number of consecutive wide brackets, and the time of the first of them.
    pub wide_in_a_row: AtomicU64,
    pub wide_since_ns: AtomicU64,
    /// The number of jumps in quick succession, and the time of the first of them.
    pub jumps_in_a_row: AtomicU64,
    pub jumps_since_ns: AtomicU64,
}

/// The words that only the owner uses.
#[derive(Debug, Default)]
#[repr(C)]
pub struct OfOwner {
    pub follower: FollowerWords,
    /// The width of a usual bracket, or zero.
    pub narrowest_ns: AtomicU64,
    pub refused: AtomicU64,
    /// The marker of disruptions at the last point, or zero.
    pub marker: AtomicU64,
    pub disruptions: AtomicU64,
    pub lead_ns: AtomicU64,
    /// The time until which the counter is not checked again.
    pub ask_after_ns: AtomicU64,
}

/// The facts learned about the rate of the counter. Without a last point, or without a slope, it is not known.
#[derive(Debug, Default)]
#[repr(C)]
pub struct FollowerWords {
    pub last: PointWords,
    pub oldest: PointWords,
    pub middle: PointWords,
    pub has_last: AtomicU64,
    pub slope: AtomicU64,
    pub uncertainty_ppb: AtomicU64,
    pub followed: AtomicU64,
    pub rate_changes: AtomicU64,
    pub jumps: AtomicU64,
}

/// A reading of the counter between two of the clock.
#[derive(Debug, Default)]
#[repr(C)]
pub struct PointWords {
    pub ticks: AtomicU64,
    pub ns: AtomicU64,
    pub width_ns: AtomicU64,
}

#[cfg(not(loom))]
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Slot>() == 64);
    assert!(offset_of!(ClockWords, state) % 64 == 0 && offset_of!(ClockWords, slowest_ns) % 64 == 0);
};
