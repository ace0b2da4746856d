//! The properties of a source, as plain values.

use std::{borrow::Cow, fmt, time::Duration};

use hpt_sys::units::{Frequency, Width};

use crate::scale::Scale;

/// The name of a source, for example `tsc`, `monotonic-raw` or `ptp0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct SourceId(Cow<'static, str>);

impl SourceId {
    /// Creates a name known at compile time.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{PosixId, SourceId};
    ///
    /// const MONOTONIC: SourceId = SourceId::new("monotonic");
    ///
    /// assert_eq!(PosixId::Monotonic.source_id(), MONOTONIC);
    /// ```
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Returns the name as text.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::SourceId;
    ///
    /// assert_eq!(SourceId::from(format!("ptp{}", 0)).as_str(), "ptp0");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SourceId {
    fn from(name: String) -> Self {
        Self(Cow::Owned(name))
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The way in which a read reaches the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadPath {
    /// An instruction that reads a processor register.
    Register,
    /// A load from a device's registers.
    Mmio,
    /// An instruction that reads an I/O port.
    Port,
    /// The vDSO: kernel code that is mapped into the process.
    Vdso,
    /// A system call.
    SystemCall,
    /// The kernel, through the vDSO or a system call. Only a live machine shows which of the two applies.
    Kernel,
    /// Memory; only sources for tests are read this way.
    Memory,
}

impl ReadPath {
    /// Returns the name used in tables and in JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::ReadPath;
    ///
    /// assert_eq!(ReadPath::SystemCall.name(), "syscall");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Register => "register",
            Self::Mmio => "mmio",
            Self::Port => "port",
            Self::Vdso => "vdso",
            Self::SystemCall => "syscall",
            Self::Kernel => "kernel",
            Self::Memory => "memory",
        }
    }
}

/// The scope of a source's count. [`Quantity`] states what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One count for the whole machine.
    System,
    /// One count per core.
    Core,
    /// One count per process. A read returns the count of the reading process.
    Process,
    /// One count per thread. A read returns the count of the reading thread.
    Thread,
}

impl Scope {
    /// Returns the name used in tables and in JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::Scope;
    ///
    /// assert_eq!(Scope::Thread.name(), "thread");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Core => "core",
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}

/// The quantity that a source counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Quantity {
    /// Elapsed time.
    Time,
    /// The time for which the threads in the source's [`Scope`] ran on a CPU.
    CpuTime,
    /// The clock cycles of a core. Their frequency changes with the core's frequency, so cycles cannot be converted to
    /// time with a fixed factor.
    Cycles,
}

/// How the rate of a source can change, and whether its readings can be stepped.
///
/// | kind | [`is_steady`](Self::is_steady) | [`is_slewed`](Self::is_slewed) |
/// | --- | --- | --- |
/// | [`Constant`](Self::Constant) | yes | no |
/// | [`Slewed`](Self::Slewed) | yes | yes |
/// | [`Stepped`](Self::Stepped) | no | no |
/// | [`SlewedAndStepped`](Self::SlewedAndStepped) | no | yes |
/// | [`Variable`](Self::Variable) | no | no |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateKind {
    /// The rate is constant, and the source is neither slewed nor stepped: a hardware counter, `CLOCK_MONOTONIC_RAW`.
    Constant,
    /// Time daemons slew the source (by at most 500 ppm through a frequency adjustment), but the source is never
    /// stepped: `CLOCK_MONOTONIC`, `CLOCK_BOOTTIME`.
    Slewed,
    /// The source is never slewed, but programs or the kernel can set it: a real-time clock (RTC).
    Stepped,
    /// Time daemons slew the source, and programs can set it: `CLOCK_REALTIME`, `CLOCK_TAI`, PTP hardware clocks.
    SlewedAndStepped,
    /// The rate relative to elapsed time varies, for example with the core's frequency, or it is not known to be
    /// constant: cycle counters, CPU time, and a TSC without its constant-rate flags.
    Variable,
}

impl RateKind {
    /// Returns whether the source is never stepped, and its rate is constant apart from slewing. Only such a source can
    /// serve as a clock for intervals.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::RateKind;
    ///
    /// assert!(RateKind::Slewed.is_steady());
    /// assert!(!RateKind::Stepped.is_steady());
    /// ```
    #[must_use]
    pub const fn is_steady(self) -> bool {
        matches!(self, Self::Constant | Self::Slewed)
    }

    /// Returns whether time daemons slew the source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::RateKind;
    ///
    /// assert!(RateKind::Slewed.is_slewed());
    /// assert!(!RateKind::Constant.is_slewed());
    /// ```
    #[must_use]
    pub const fn is_slewed(self) -> bool {
        matches!(self, Self::Slewed | Self::SlewedAndStepped)
    }
}

/// The origin of a nominal frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum StatedBy {
    /// The definition of the source. For example, a clock whose readings are in nanoseconds ticks a billion times per
    /// second.
    Definition,
    /// The processor, in CPUID leaf 0x15 or 0x16.
    Cpuid,
    /// The hypervisor's CPUID leaf.
    Hypervisor,
    /// The kernel's `BogoMIPS` value, which has a granularity of 5 kHz.
    BogoMips,
    /// The kernel, for the counter that the kernel itself uses.
    Kernel,
    /// The device tree's `clock-frequency`.
    DeviceTree,
    /// The ARM register CNTFRQ, as the firmware wrote it.
    Cntfrq,
    /// The device itself, in one of its registers.
    Device,
    /// The program that created the source.
    Program,
}

impl StatedBy {
    /// Returns the name used in tables and in JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::StatedBy;
    ///
    /// assert_eq!(StatedBy::DeviceTree.name(), "device-tree");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::Cpuid => "cpuid",
            Self::Hypervisor => "hypervisor",
            Self::BogoMips => "bogomips",
            Self::Kernel => "kernel",
            Self::DeviceTree => "device-tree",
            Self::Cntfrq => "cntfrq",
            Self::Device => "device",
            Self::Program => "program",
        }
    }
}

/// The nominal frequency of a source, which is stated and not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nominal {
    /// The frequency.
    pub frequency: Frequency,
    /// The origin of the frequency.
    pub stated_by: StatedBy,
}

/// The properties of a source, which determine the purposes for which it is suitable.
///
/// # Examples
///
/// The properties of a counter that is 32 bits wide and runs at a constant 10 MHz:
///
/// ```
/// use hpt_core::{
///     Frequency, SourceId, SourceInfo, Width,
///     source::{RateKind, StatedBy},
/// };
///
/// const RATE: Frequency = Frequency::from_hertz(10_000_000).expect("not zero");
///
/// let info = SourceInfo::new(SourceId::new("fpga"))
///     .with_width(Width::BITS_32)
///     .with_nominal(RATE, StatedBy::Program)
///     .with_rate(RateKind::Constant);
/// assert!(info.rate.is_steady());
/// assert_eq!(info.resolution_ns(), Some(100.0));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// The name of the source.
    pub id: SourceId,
    /// The quantity that the source counts.
    pub quantity: Quantity,
    /// How the rate of the source can change, and whether the source can be stepped.
    pub rate: RateKind,
    /// The width of the counter in bits, which determines when it wraps.
    pub width: Width,
    /// The nominal frequency of the source, if one is stated.
    pub nominal: Option<Nominal>,
    /// The resolution stated by the system (`clock_getres`), in nanoseconds; `None` if the resolution is one tick.
    pub claimed_resolution_ns: Option<u64>,
    /// The way in which a read reaches the source.
    pub read_path: ReadPath,
    /// The scope of the source's count.
    pub scope: Scope,
    /// Whether the source counts while the machine is suspended; `None` if this is not known.
    pub counts_in_suspend: Option<bool>,
    /// Whether access to the source can be revoked from outside this process while the source is open.
    pub revocable: bool,
}

/// Returns the time until the counter wraps, if that is less than ten years. Such a counter must be widened to serve as
/// a clock.
pub(crate) fn wraps_soon(width: Width, frequency: Frequency) -> Option<Duration> {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    let micros = u128::from(width.mask()) * 1_000_000_000_000 / u128::from(frequency.microhertz());
    u64::try_from(micros).ok().map(Duration::from_micros).filter(|&wrap| wrap < TEN_YEARS)
}

/// A frequency that no core exceeds, today or in the near future.
pub(crate) const FASTEST_CORE: Frequency = Frequency::from_hertz(10_000_000_000).expect("not zero");

impl SourceInfo {
    /// Returns the longest time in which the counter is certain to wrap at most once, so that a difference between two
    /// readings is valid. Assumes the nominal frequency or, without one, the frequency of the fastest core. Returns
    /// `None` if a wrap takes years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Frequency, SourceId, SourceInfo, Width, source::StatedBy};
    ///
    /// let wide = SourceInfo::new(SourceId::new("fpga")).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// assert_eq!(wide.longest_difference(), None);
    /// let narrow = wide.with_width(Width::BITS_32);
    /// assert_eq!(narrow.longest_difference(), Some(Duration::from_micros(u32::MAX.into())));
    /// ```
    #[must_use]
    pub fn longest_difference(&self) -> Option<Duration> {
        wraps_soon(self.width, self.nominal.map_or(FASTEST_CORE, |nominal| nominal.frequency))
    }

    /// Creates the properties of a source for which only the name is known. Such a source counts time for the whole
    /// system in 64 bits, its rate is [variable](RateKind::Variable), and it has no nominal frequency. It is read from
    /// memory, and access to it cannot be revoked.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, Width, source::{RateKind, Scope}};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga"));
    /// assert_eq!((info.width, info.rate, info.scope), (Width::BITS_64, RateKind::Variable, Scope::System));
    /// assert_eq!(info.nominal, None);
    /// ```
    #[must_use]
    pub const fn new(id: SourceId) -> Self {
        Self {
            id,
            quantity: Quantity::Time,
            rate: RateKind::Variable,
            width: Width::BITS_64,
            nominal: None,
            claimed_resolution_ns: None,
            read_path: ReadPath::Memory,
            scope: Scope::System,
            counts_in_suspend: None,
            revocable: false,
        }
    }

    /// Returns the same properties with this quantity.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, source::Quantity};
    ///
    /// let info = SourceInfo::new(SourceId::new("core")).with_quantity(Quantity::Cycles);
    /// assert_eq!(info.quantity, Quantity::Cycles);
    /// ```
    #[must_use]
    pub const fn with_quantity(mut self, quantity: Quantity) -> Self {
        self.quantity = quantity;
        self
    }

    /// Returns the same properties with this kind of rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, source::RateKind};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_rate(RateKind::Constant);
    /// assert!(info.rate.is_steady());
    /// ```
    #[must_use]
    pub const fn with_rate(mut self, rate: RateKind) -> Self {
        self.rate = rate;
        self
    }

    /// Returns the same properties with this width.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, Width};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_width(Width::BITS_32);
    /// assert_eq!(info.width.mask(), 0xffff_ffff);
    /// ```
    #[must_use]
    pub const fn with_width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }

    /// Returns the same properties with this nominal frequency. A program that implements its own source passes
    /// [`StatedBy::Program`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// assert_eq!(info.resolution_ns(), Some(1_000.0));
    /// ```
    #[must_use]
    pub const fn with_nominal(mut self, frequency: Frequency, stated_by: StatedBy) -> Self {
        self.nominal = Some(Nominal { frequency, stated_by });
        self
    }

    /// Returns the same properties with this stated resolution, in nanoseconds. Only a source whose resolution is
    /// coarser than one tick needs it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, source::StatedBy};
    ///
    /// // Counts nanoseconds, but advances every 4 ms.
    /// let info = SourceInfo::new(SourceId::new("coarse"))
    ///     .with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition)
    ///     .with_claimed_resolution_ns(4_000_000);
    /// assert_eq!(info.resolution_ns(), Some(4e6));
    /// ```
    #[must_use]
    pub const fn with_claimed_resolution_ns(mut self, resolution_ns: u64) -> Self {
        self.claimed_resolution_ns = Some(resolution_ns);
        self
    }

    /// Returns the same properties with this read path.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, source::ReadPath};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_read_path(ReadPath::Mmio);
    /// assert_eq!(info.read_path.name(), "mmio");
    /// ```
    #[must_use]
    pub const fn with_read_path(mut self, read_path: ReadPath) -> Self {
        self.read_path = read_path;
        self
    }

    /// Returns the same properties with this scope.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo, source::Scope};
    ///
    /// let info = SourceInfo::new(SourceId::new("core-timer")).with_scope(Scope::Core);
    /// assert_eq!(info.scope, Scope::Core);
    /// ```
    #[must_use]
    pub const fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Returns the same properties, and states whether the source counts while the machine is suspended.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo};
    ///
    /// let info = SourceInfo::new(SourceId::new("always-on"));
    /// assert_eq!(info.counts_in_suspend, None);
    /// assert_eq!(info.with_counts_in_suspend(true).counts_in_suspend, Some(true));
    /// ```
    #[must_use]
    pub const fn with_counts_in_suspend(mut self, counts_in_suspend: bool) -> Self {
        self.counts_in_suspend = Some(counts_in_suspend);
        self
    }

    /// Returns the same properties, and states whether access to the source can be revoked while it is open.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{SourceId, SourceInfo};
    ///
    /// let info = SourceInfo::new(SourceId::new("hot-plugged")).with_revocable(true);
    /// assert!(info.revocable);
    /// ```
    #[must_use]
    pub const fn with_revocable(mut self, revocable: bool) -> Self {
        self.revocable = revocable;
        self
    }

    /// Returns the resolution in nanoseconds: the value stated by the system, otherwise one nominal tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga"));
    /// assert_eq!(info.resolution_ns(), None);
    /// assert_eq!(info.with_nominal(Frequency::GIGAHERTZ, StatedBy::Program).resolution_ns(), Some(1.0));
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for statistics and printing")]
    pub fn resolution_ns(&self) -> Option<f64> {
        self.claimed_resolution_ns
            .map(|claimed| claimed as f64)
            .or_else(|| self.nominal.map(|nominal| nominal.frequency.tick_ns_f64()))
    }

    /// Returns the stated resolution in ticks of the nominal frequency, rounded down; 0 if none is stated.
    pub(crate) fn claimed_resolution_ticks(&self) -> u64 {
        let claimed = self.claimed_resolution_ns.zip(self.nominal).map_or(0, |(claimed_ns, nominal)| {
            u128::from(claimed_ns) * u128::from(nominal.frequency.hertz()) / 1_000_000_000
        });
        u64::try_from(claimed).unwrap_or(u64::MAX)
    }

    /// Returns whether the stated resolution is more than one tick of the nominal frequency. Such a source advances
    /// with the kernel's timer tick: if that tick is late, the source lags by the same amount.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("ns")).with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition);
    /// assert!(!info.is_moved_by_the_tick());
    /// assert!(info.with_claimed_resolution_ns(4_000_000).is_moved_by_the_tick());
    /// ```
    #[must_use]
    pub fn is_moved_by_the_tick(&self) -> bool {
        self.claimed_resolution_ticks() > 1
    }

    /// Returns the time until the counter wraps at the nominal frequency, if that is less than ten years; `None`
    /// without a nominal frequency.
    pub(crate) fn wraps_soon(&self) -> Option<Duration> {
        self.nominal.and_then(|nominal| wraps_soon(self.width, nominal.frequency))
    }

    /// Returns the scale for the nominal frequency; `None` without a nominal frequency.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// assert_eq!(info.nominal_scale().map(|scale| scale.nanos(7)), Some(7_000));
    /// ```
    #[must_use]
    pub fn nominal_scale(&self) -> Option<Scale> {
        self.nominal.map(|nominal| Scale::of(nominal.frequency))
    }
}
