//! Two clocks: a source with a fixed scale, and the system's monotonic time at the read cost of a counter. Does not
//! calibrate a fixed scale; `calibrate` does.

mod bound;
#[cfg(test)]
mod contention;
mod discipline;
mod fixed;
mod follower;
mod following;
#[cfg(feature = "testing")]
pub(crate) mod frozen;
mod instant;
mod published;
mod segment;
mod system;
mod trust;
mod vmclock;

pub(crate) use self::system::kernels_clock;
pub use self::{
    discipline::{Discipline, discipline},
    fixed::{ClockError, FixedRateClock, Reading},
    instant::{AtomicInstant, Clock, Converted, Instant, SystemClock},
    system::{ClockSource, SourceRefused, Status, disruption_marker, prime, source, status, use_source},
};
