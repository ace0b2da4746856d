//! The properties of a source, as plain values. Reads no source.

use std::{borrow::Cow, fmt, time::Duration};

use crate::{
    scale::Scale,
    units::{Frequency, Width},
};

/// The name of a source, for example `tsc`, `monotonic-raw` or `ptp0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct SourceId(Cow<'static, str>);

impl SourceId {
    /// Creates a name known at compile time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Returns the name as text.
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

/// The scope of a source's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One count for the whole machine.
    System,
    /// One count per core.
    Core,
    /// CPU time of the process.
    Process,
    /// CPU time, or events, of the reading thread.
    Thread,
}

impl Scope {
    /// Returns the name used in tables and in JSON.
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
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// The name of the source.
    pub id: SourceId,
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
    /// Whether the source has a constant rate and is never stepped.
    pub steady: bool,
    /// Whether time daemons slew the source (by at most 500 ppm on Linux).
    pub steered: bool,
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
    #[must_use]
    pub fn longest_difference(&self) -> Option<Duration> {
        wraps_soon(self.width, self.nominal.map_or(FASTEST_CORE, |nominal| nominal.frequency))
    }

    /// Creates the properties of a source of which only the name is known: 64 bits, no nominal frequency, neither
    /// constant-rate nor slewed.
    #[must_use]
    pub const fn new(id: SourceId) -> Self {
        Self {
            id,
            width: Width::BITS_64,
            nominal: None,
            claimed_resolution_ns: None,
            read_path: ReadPath::Memory,
            scope: Scope::System,
            steady: false,
            steered: false,
            counts_in_suspend: None,
            revocable: false,
        }
    }

    /// Returns the resolution in nanoseconds: the value stated by the system, otherwise one nominal tick.
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
    pub(crate) fn is_moved_by_the_tick(&self) -> bool {
        self.claimed_resolution_ticks() > 1
    }

    /// Returns the time until the counter wraps at the nominal frequency, if that is less than ten years; `None`
    /// without a nominal frequency.
    pub(crate) fn wraps_soon(&self) -> Option<Duration> {
        self.nominal.and_then(|nominal| wraps_soon(self.width, nominal.frequency))
    }

    /// Returns the scale for the nominal frequency; `None` without a nominal frequency.
    #[must_use]
    pub fn nominal_scale(&self) -> Option<Scale> {
        self.nominal.map(|nominal| Scale::of(nominal.frequency))
    }
}
