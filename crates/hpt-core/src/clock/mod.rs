//! Clocks: a source with a fixed scale, and the system's own time at the speed of a counter.
//! Calibrates nothing for a fixed scale: that comes from `calibrate`.

mod fixed;
mod follower;
mod following;
mod instant;
mod published;
mod segment;
mod system;
mod trust;
mod vmclock;

pub use self::{
    fixed::{Clock, ClockError, Reading},
    instant::{Instant, Now},
    system::{SourceRefused, Status, SystemClock, prime, source, status, use_source},
};
