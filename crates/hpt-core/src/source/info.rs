//! What a source says of itself.
//! Plain values: reads nothing.

use std::{borrow::Cow, fmt, time::Duration};

use crate::{
    scale::Scale,
    units::{Frequency, Width},
};

/// The name of a source: `tsc`, `monotonic-raw`, `ptp0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct SourceId(Cow<'static, str>);

impl SourceId {
    /// A name known when the program is compiled.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// The name as text.
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

/// What a read passes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReadPath {
    /// An instruction that reads a register of the processor.
    Register,
    /// A load from a device's registers.
    Mmio,
    /// An instruction that reads an I/O port.
    Port,
    /// Code of the kernel in the process's own memory.
    Vdso,
    /// A system call.
    SystemCall,
    /// The kernel, by vDSO or system call: which of them only a live machine shows.
    Kernel,
    /// Memory: a source made for tests.
    Memory,
}

impl ReadPath {
    /// Its name in tables and in JSON.
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

/// Whose time a source counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One count for the whole machine.
    System,
    /// One count for each core.
    Core,
    /// CPU time of the process.
    Process,
    /// CPU time, or events, of the reading thread.
    Thread,
}

impl Scope {
    /// Its name in tables and in JSON.
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

/// Who states a nominal frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum StatedBy {
    /// It follows from what the source is: a clock that reads in nanoseconds ticks a billion times a second.
    Definition,
    /// The processor: CPUID leaf 0x15, or 0x16 beside it.
    Cpuid,
    /// The hypervisor's CPUID leaf.
    Hypervisor,
    /// The kernel's `BogoMIPS`, with a granularity of 5 kHz.
    BogoMips,
    /// The kernel, by what it counts time by itself.
    Kernel,
    /// The device tree's `clock-frequency`.
    DeviceTree,
    /// The ARM register CNTFRQ, as the firmware wrote it.
    Cntfrq,
    /// The device itself, in one of its registers.
    Device,
    /// The program that made the source.
    Program,
}

impl StatedBy {
    /// Its name in tables and in JSON.
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

/// A rate that somebody states; not a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nominal {
    /// The rate.
    pub frequency: Frequency,
    /// Who states it.
    pub stated_by: StatedBy,
}

/// What a source is: the properties that decide what it can be used for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// Its name.
    pub id: SourceId,
    /// The bits it has before it wraps.
    pub width: Width,
    /// The rate that somebody states, if anybody does.
    pub nominal: Option<Nominal>,
    /// The resolution claimed by the system (`clock_getres`), in nanoseconds; `None` where a tick is the claim.
    pub claimed_resolution_ns: Option<u64>,
    /// What a read passes through.
    pub read_path: ReadPath,
    /// Whose time it counts.
    pub scope: Scope,
    /// Its rate is constant and nobody steps it.
    pub steady: bool,
    /// A time daemon bends its rate (at most by 500 ppm on Linux) to keep it right.
    pub steered: bool,
    /// It counts while the machine is suspended; `None` when that is not known.
    pub counts_in_suspend: Option<bool>,
    /// Something outside this process can take the right to read it away while it is open.
    pub revocable: bool,
}

/// How long a counter takes to wrap, where that is less than ten years: it is then no clock until it is widened.
pub(crate) fn wraps_soon(width: Width, frequency: Frequency) -> Option<Duration> {
    const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    let micros = u128::from(width.mask()) * 1_000_000_000_000 / u128::from(frequency.microhertz());
    u64::try_from(micros).ok().map(Duration::from_micros).filter(|&wrap| wrap < TEN_YEARS)
}

/// No core ticks faster than this, today or soon.
pub(crate) const FASTEST_CORE: Frequency = Frequency::from_hertz(10_000_000_000).expect("not zero");

impl SourceInfo {
    /// The longest stretch over which it surely wrapped at most once, so that a difference can be believed: by the stated rate, and where nobody states
    /// one, by that of the fastest core. `None` where it takes years.
    #[must_use]
    pub fn longest_difference(&self) -> Option<Duration> {
        wraps_soon(self.width, self.nominal.map_or(FASTEST_CORE, |nominal| nominal.frequency))
    }

    /// A source of which nothing is known but its name: 64 bits, no stated rate, neither steady nor steered.
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

    /// The smallest change that the reading can show, in nanoseconds: what the system claims, else one nominal tick.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for statistics and printing")]
    pub fn resolution_ns(&self) -> Option<f64> {
        self.claimed_resolution_ns
            .map(|claimed| claimed as f64)
            .or_else(|| self.nominal.map(|nominal| nominal.frequency.tick_ns_f64()))
    }

    /// The claimed resolution in ticks of the stated rate, rounded down; 0 where nothing is claimed.
    pub(crate) fn claimed_resolution_ticks(&self) -> u64 {
        let claimed = self.claimed_resolution_ns.zip(self.nominal).map_or(0, |(claimed_ns, nominal)| {
            u128::from(claimed_ns) * u128::from(nominal.frequency.hertz()) / 1_000_000_000
        });
        u64::try_from(claimed).unwrap_or(u64::MAX)
    }

    /// Whether it claims to change only every so many ticks: the kernel's tick moves it, and lets it lag as far as the tick is late.
    pub(crate) fn is_moved_by_the_tick(&self) -> bool {
        self.claimed_resolution_ticks() > 1
    }

    /// How long it takes to wrap at the stated rate; `None` when that is not stated, or longer than anybody will wait.
    pub(crate) fn wraps_soon(&self) -> Option<Duration> {
        self.nominal.and_then(|nominal| wraps_soon(self.width, nominal.frequency))
    }

    /// The scale of the stated rate.
    #[must_use]
    pub fn nominal_scale(&self) -> Option<Scale> {
        self.nominal.map(|nominal| Scale::of(nominal.frequency))
    }
}
