//! The clocks of targets other than Linux, as the standard library reads them. The counterpart of `posix.rs`. The
//! documentation of `std::time` names the clock of each operating system.

use hpt_sys::{
    clock::{Clock, ClockId, Route},
    host::Host,
    units::Frequency,
};

use super::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, Quantity, RateKind, ReadPath, Scope, SourceError, SourceId,
    SourceInfo, StatedBy, TimeSource,
};

/// A clock of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PosixId {
    /// The wall clock, which can be stepped and slewed: [`std::time::SystemTime`].
    Realtime,
    /// The monotonic clock: [`std::time::Instant`]. Its epoch is the first reading in this process.
    Monotonic,
}

impl PosixId {
    /// The clock with which the rates of counters are compared.
    pub(crate) const REFERENCE: Self = Self::Monotonic;

    /// Returns the clock that counts the wraps of a narrow counter.
    #[cfg(target_has_atomic = "64")]
    pub(super) const fn counting_wraps(_counts_in_suspend: bool, _is_slow: bool) -> Self {
        Self::Monotonic
    }

    /// Returns all clocks of this type.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::PosixId;
    ///
    /// assert!(PosixId::all().any(|id| id == PosixId::Monotonic));
    /// ```
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Realtime, Self::Monotonic].into_iter()
    }

    /// Returns the name of the source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::PosixId;
    ///
    /// assert_eq!(PosixId::Monotonic.source_id().as_str(), "monotonic");
    /// ```
    #[must_use]
    pub const fn source_id(self) -> SourceId {
        SourceId::new(match self {
            Self::Realtime => "realtime",
            Self::Monotonic => "monotonic",
        })
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Realtime => "wall clock of the operating system, which can be stepped and slewed",
            Self::Monotonic => "monotonic clock of the operating system",
        }
    }

    const fn clock_id(self) -> ClockId {
        match self {
            Self::Realtime => ClockId::Realtime,
            Self::Monotonic => ClockId::Monotonic,
        }
    }

    fn properties(self) -> SourceInfo {
        let mut info = SourceInfo::new(self.source_id());
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition });
        info.read_path = ReadPath::Kernel;
        (info.quantity, info.scope) = (Quantity::Time, Scope::System);
        info.rate = match self {
            Self::Realtime => RateKind::SlewedAndStepped,
            Self::Monotonic => RateKind::Slewed,
        };
        // The systems differ, and the standard library promises nothing for the monotonic clock.
        info.counts_in_suspend = match self {
            Self::Realtime => Some(true),
            Self::Monotonic => None,
        };
        info
    }
}

/// A clock of the operating system, read through the standard library.
///
/// # Ordering
///
/// The operating system orders the reads. The standard library relies on it for the monotonic clock.
///
/// # References
///
/// [`std::time::Instant`] and [`std::time::SystemTime`], "Underlying System calls".
#[derive(Clone, Debug)]
pub struct PosixClock {
    clock: Clock,
    info: SourceInfo,
}

impl PosixClock {
    /// Opens the clock.
    ///
    /// # Errors
    ///
    /// Never returns an error on this target.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::Monotonic)?;
    /// assert!(clock.ticks() <= clock.ticks());
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    pub fn open(_host: &Host, id: PosixId) -> Result<Self, SourceError> {
        Ok(Self { clock: Clock::unasked(id.clock_id(), Route::Library), info: id.properties() })
    }
}

impl TimeSource for PosixClock {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.clock.nanos()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

#[derive(Debug)]
pub(super) struct PosixBackend;

impl Backend for PosixBackend {
    fn ids(&self) -> Vec<SourceId> {
        PosixId::all().map(PosixId::source_id).collect()
    }

    fn probe(&self, _host: &Host) -> Vec<ProbeReport> {
        let report = |id: PosixId| ProbeReport {
            id: id.source_id(),
            description: id.description(),
            availability: Ok(id.properties()),
            kernel: KernelVerdict::Trusted("this is the operating system's own clock".to_owned()),
            evidence: vec!["on this target, hpt-core reads the clocks of the standard library only".to_owned()],
        };
        PosixId::all().map(report).collect()
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        let clock = if *id == PosixId::Realtime.source_id() { PosixId::Realtime } else { PosixId::Monotonic };
        PosixClock::open(host, clock).map(|clock| Opened::Shared(Box::new(clock)))
    }
}

/// The only sources of other targets.
pub(super) const BACKENDS: &[&dyn Backend] = &[&PosixBackend];
