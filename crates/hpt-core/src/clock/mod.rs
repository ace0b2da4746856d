//! Two clocks: a source with a fixed scale, and the system's monotonic time at the read cost of a counter. Does not
//! calibrate a fixed scale; `calibrate` does.

#[cfg(target_has_atomic = "64")]
mod atomic;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod bound;
#[cfg(all(target_os = "linux", target_has_atomic = "64", test))]
mod contention;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod discipline;
mod fixed;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod follower;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod following;
#[cfg(feature = "testing")]
pub(crate) mod frozen;
mod instant;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod published;
mod report;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod segment;
#[cfg_attr(not(all(target_os = "linux", target_has_atomic = "64")), path = "elsewhere.rs")]
mod system;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod trust;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
mod vmclock;

#[cfg(target_has_atomic = "64")]
pub use self::atomic::AtomicInstant;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use self::discipline::{Discipline, discipline};
pub(crate) use self::system::kernels_clock;
pub use self::{
    fixed::{ClockError, FixedRateClock, Reading},
    instant::{Clock, Converted, Instant, SystemClock},
    report::{ClockSource, SourceRefused, Status},
    system::{disruption_marker, prime, source, status, use_source},
};
