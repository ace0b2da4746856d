//! The state of the system's clock, as plain values.

use std::time::Duration;

use crate::source::{self, Scope, SourceError, SourceId};

/// The number of sources, other than the processor's counter, that a process may use one after another.
pub(super) const MOST_SOURCES: usize = 16;

/// The current quality of the system's clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The source in use: `tsc`, `arm-counter`, another source set with [`use_source`](super::use_source), or
    /// `monotonic` for the clock of the operating system itself.
    pub source: SourceId,
    /// The reason why this source is in use.
    pub reason: &'static str,
    /// The width of the last bracket, a read of the counter between two reads of the kernel's clock; `None` before the
    /// first bracket.
    pub last_bracket: Option<Duration>,
    /// The bound on the difference between a reading taken now and `CLOCK_MONOTONIC`. It is the sum of half the
    /// bracket, a tick, the uncertainty of the rate, the lead of the active segment, and the effect of a sudden change
    /// in the kernel's rate over the longest segment. The change is assumed to be 1000 ppm, from one limit of
    /// `ADJ_FREQUENCY` to the other (Linux, kernel/time/ntp.c: 500 ppm). While the kernel slews an offset
    /// (`ADJ_OFFSET`, used by systemd-timesyncd) or has a changed tick length (`ADJ_TICK`, used by chrony for large
    /// corrections), its rate changes by more. The effect of this additional change is computed from the values that
    /// adjtimex(2) reports, and added to the bound. If adjtimex no longer reports a change, its effect is added as soon
    /// as a reading is found to be outside the bound. If the kernel's clock itself is read, the bound is zero, or the
    /// lead of the last segment over that clock. In the first millisecond after the first reading, the rate of the
    /// counter is not yet known: instants then read the kernel's clock, even if `source` names a counter. Call
    /// [`prime`](super::prime) to skip this phase. On targets other than Linux, the bound is zero, because every
    /// reading is a reading of the operating system's clock.
    pub bound: Duration,
    /// The deviation of the counter's rate from its nominal frequency, in parts per million; `None` if the rate or the
    /// nominal frequency is not known.
    pub frequency_error_ppm: Option<f64>,
    /// The number of comparisons of the counter with the kernel's clock.
    pub anchorings: u64,
    /// The number of times that the rate of the kernel's clock changed.
    pub rate_changes: u64,
    /// The number of times that the counter or the clock stepped (suspend, migration, a counter that was reset), after
    /// which everything had to be learned again.
    pub jumps: u64,
    /// The number of disruptions of the counter that the hypervisor reported, for example moves to another host. After
    /// a disruption, everything is learned again. `None` if the hypervisor does not report disruptions or if this user
    /// may not read the reports. Since version 6.13, Linux provides them to root in /dev/vmclock0. Requires the feature
    /// `devices`.
    pub disruptions: Option<u64>,
    /// The number of brackets too wide to be used.
    pub refused_brackets: u64,
    /// The number of times that `CLOCK_MONOTONIC` itself went back by more than 100 ms, and instants went back with it.
    /// This happens after setns(2) into another time namespace, or if CRIU restores the process after a reboot.
    pub restarts: u64,
}

impl std::fmt::Display for Status {
    /// Formats the source and the bound.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, within {:?} of the operating system's clock", self.source, self.bound)
    }
}

/// The reason why [`use_source`](super::use_source) rejected a source. The previous source stays in use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UseSourceError {
    /// The source cannot be opened.
    Unavailable(SourceError),
    /// The source can be read only by the thread that opened it.
    ThreadBound(SourceId),
    /// The source can be stepped, or its rate changes.
    NotSteady(SourceId),
    /// The source counts CPU time or events, or each core has a counter of its own.
    NotSystemWide {
        /// The source.
        source_id: SourceId,
        /// The scope of the source.
        scope: Scope,
    },
    /// Read access to the source can be revoked.
    Revocable(SourceId),
    /// The source ticks at less than 1 MHz, or wraps within ten years.
    TooCoarse(SourceId),
    /// The nominal frequency of a source with fewer than 56 bits is not known, so the time until it wraps is not known
    /// either.
    NoRate(SourceId),
    /// The source failed the self-test.
    SelfTest {
        /// The source.
        source_id: SourceId,
        /// The failure that the self-test found.
        failure: source::SelfTestError,
    },
    /// This target has no source but the clock of the operating system.
    OnlyClock,
    /// Another thread is changing the source, or was stopped while it made a segment, and did not finish within a
    /// second.
    Busy,
    /// This process has used too many different sources.
    TooMany,
}

impl std::fmt::Display for UseSourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unavailable(cause) => std::fmt::Display::fmt(cause, f),
            Self::ThreadBound(id) => write!(f, "only the thread that opened {id} can read it"),
            Self::NotSteady(id) => write!(f, "{id} is not constant-rate, or can be stepped"),
            Self::NotSystemWide { source_id, scope } => {
                write!(f, "{source_id} counts per {}, not for the whole system", scope.name())
            }
            Self::Revocable(id) => write!(f, "access to {id} can be revoked while it is in use"),
            Self::TooCoarse(id) => write!(f, "{id} is too coarse or too narrow; widen a narrow counter"),
            Self::NoRate(id) => write!(f, "the nominal frequency of {id} is unknown"),
            Self::SelfTest { source_id, failure } => write!(f, "{source_id} failed the self-test: {failure}"),
            Self::OnlyClock => f.write_str("on this target, the clock of the operating system is the only source"),
            Self::Busy => f.write_str("another thread is changing the source"),
            Self::TooMany => write!(f, "a process can use at most {MOST_SOURCES} sources one after another"),
        }
    }
}

impl std::error::Error for UseSourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unavailable(cause) => std::error::Error::source(cause),
            _ => None,
        }
    }
}

impl From<SourceError> for UseSourceError {
    fn from(cause: SourceError) -> Self {
        Self::Unavailable(cause)
    }
}

/// The source of the system's clock, and the reason why it is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSource {
    /// The source in use: `tsc`, `arm-counter`, another source set with [`use_source`](super::use_source), or
    /// `monotonic` for the clock of the operating system itself.
    pub id: SourceId,
    /// The reason why this source is in use.
    pub reason: &'static str,
}
