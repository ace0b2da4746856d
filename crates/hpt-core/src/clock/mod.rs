//! Two clocks: a source with a fixed scale, and the system's monotonic time at the read cost of a counter. Does not
//! calibrate a fixed scale; `calibrate` does.

#[cfg(target_has_atomic = "64")]
mod atomic;
// Miri knows the operating system's clock, but no instruction that reads a counter.
#[cfg(any(miri, not(all(target_os = "linux", target_has_atomic = "64"))))]
mod elsewhere;
mod fixed;
#[cfg(feature = "testing")]
pub(crate) mod frozen;
mod instant;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
#[cfg_attr(miri, allow(dead_code, unreachable_pub, reason = "only its tests run"))]
mod linux;
#[cfg(not(feature = "testing"))]
mod not_frozen;
mod report;

#[cfg(target_has_atomic = "64")]
pub use self::atomic::AtomicInstant;
#[cfg(any(miri, not(all(target_os = "linux", target_has_atomic = "64"))))]
use self::elsewhere as system;
#[cfg(feature = "testing")]
pub use self::frozen::FrozenDeadline;
#[cfg(all(target_os = "linux", target_has_atomic = "64"))]
pub use self::linux::discipline::{Discipline, discipline};
#[cfg(all(target_os = "linux", target_has_atomic = "64", not(miri)))]
use self::linux::system;
#[cfg(not(feature = "testing"))]
pub use self::not_frozen::FrozenDeadline;
pub use self::{
    fixed::{ClockError, FixedRateClock, Reading},
    instant::{Clock, Converted, Instant, SystemClock},
    report::{ClockSource, Status, UseSourceError},
};
pub(crate) use system::kernels_clock;
pub use system::{disruption_marker, prime, source, status, use_source};
