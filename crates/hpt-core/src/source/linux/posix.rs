//! The clocks in every Linux kernel: the `clock_gettime` family and gettimeofday, each as a separate source. The calls
//! themselves are in `hpt_sys::clock`.

use std::marker::PhantomData;

use hpt_sys::{
    clock::{Clock, ClockId, Route, TimeOfDay},
    host::{CounterPermission, Host},
    units::Frequency,
};

use crate::source::{
    Backend, KernelVerdict, Nominal, Opened, ProbeReport, Quantity, RateKind, ReadPath, Scope, SourceError, SourceId,
    SourceInfo, StatedBy, TimeSource,
};

/// A kernel clock that is shared by the whole system or by the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PosixId {
    /// `CLOCK_REALTIME`: wall clock, which can be stepped and slewed.
    Realtime,
    /// `CLOCK_MONOTONIC`: time since boot excluding suspend, which can be slewed but is never stepped.
    Monotonic,
    /// `CLOCK_MONOTONIC_RAW`: time since boot excluding suspend, which is neither stepped nor slewed.
    MonotonicRaw,
    /// `CLOCK_BOOTTIME`: `CLOCK_MONOTONIC` plus the time spent in suspend.
    Boottime,
    /// `CLOCK_TAI`: wall clock without leap seconds.
    Tai,
    /// `CLOCK_REALTIME_COARSE`: wall clock at the last kernel tick.
    RealtimeCoarse,
    /// `CLOCK_MONOTONIC_COARSE`: `CLOCK_MONOTONIC` at the last kernel tick.
    MonotonicCoarse,
    /// `CLOCK_PROCESS_CPUTIME_ID`: CPU time of the process.
    ProcessCpu,
    /// gettimeofday: wall clock in microseconds.
    Gettimeofday,
}

/// All clocks, in the order of the list. `None` represents the thread's CPU time, which has its own type.
const ORDER: [Option<PosixId>; 10] = [
    Some(PosixId::Realtime),
    Some(PosixId::Monotonic),
    Some(PosixId::MonotonicRaw),
    Some(PosixId::Boottime),
    Some(PosixId::Tai),
    Some(PosixId::RealtimeCoarse),
    Some(PosixId::MonotonicCoarse),
    Some(PosixId::ProcessCpu),
    None,
    Some(PosixId::Gettimeofday),
];

const THREAD_CPU: SourceId = SourceId::new("thread-cpu");
const THREAD_CPU_DESCRIPTION: &str = "CPU time of the reading thread, CLOCK_THREAD_CPUTIME_ID";

impl PosixId {
    /// The clock with which the rates of counters are compared.
    pub(crate) const REFERENCE: Self = Self::MonotonicRaw;

    /// Returns the clock that counts the wraps of a narrow counter. A slow counter takes seconds to wrap.
    pub(in crate::source) const fn counting_wraps(counts_in_suspend: bool, is_slow: bool) -> Self {
        match (counts_in_suspend, is_slow) {
            (true, _) => Self::Boottime,
            (false, true) => Self::MonotonicCoarse,
            (false, false) => Self::Monotonic,
        }
    }

    /// Returns all clocks of this type.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::PosixId;
    ///
    /// assert!(PosixId::all().any(|id| id == PosixId::MonotonicRaw));
    /// ```
    pub fn all() -> impl Iterator<Item = Self> {
        ORDER.into_iter().flatten()
    }

    /// Returns the name of the source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::PosixId;
    ///
    /// assert_eq!(PosixId::MonotonicRaw.source_id().as_str(), "monotonic-raw");
    /// ```
    #[must_use]
    pub const fn source_id(self) -> SourceId {
        SourceId::new(match self {
            Self::Realtime => "realtime",
            Self::Monotonic => "monotonic",
            Self::MonotonicRaw => "monotonic-raw",
            Self::Boottime => "boottime",
            Self::Tai => "tai",
            Self::RealtimeCoarse => "realtime-coarse",
            Self::MonotonicCoarse => "monotonic-coarse",
            Self::ProcessCpu => "process-cpu",
            Self::Gettimeofday => "gettimeofday",
        })
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Realtime => "wall clock that can be stepped and slewed, CLOCK_REALTIME",
            Self::Monotonic => "time since boot, slewed but never stepped, CLOCK_MONOTONIC",
            Self::MonotonicRaw => "time since boot, neither slewed nor stepped, CLOCK_MONOTONIC_RAW",
            Self::Boottime => "time since boot including suspend, CLOCK_BOOTTIME",
            Self::Tai => "wall clock without leap seconds, CLOCK_TAI",
            Self::RealtimeCoarse => "wall clock at the last kernel tick, CLOCK_REALTIME_COARSE",
            Self::MonotonicCoarse => "time since boot at the last kernel tick, CLOCK_MONOTONIC_COARSE",
            Self::ProcessCpu => "CPU time of the process, CLOCK_PROCESS_CPUTIME_ID",
            Self::Gettimeofday => "wall clock in microseconds, gettimeofday",
        }
    }

    /// Returns the kernel's clock ID; `None` for gettimeofday, which has no ID.
    const fn clock_id(self) -> Option<ClockId> {
        match self {
            Self::Realtime => Some(ClockId::Realtime),
            Self::Monotonic => Some(ClockId::Monotonic),
            Self::MonotonicRaw => Some(ClockId::MonotonicRaw),
            Self::Boottime => Some(ClockId::Boottime),
            Self::Tai => Some(ClockId::Tai),
            Self::RealtimeCoarse => Some(ClockId::RealtimeCoarse),
            Self::MonotonicCoarse => Some(ClockId::MonotonicCoarse),
            Self::ProcessCpu => Some(ClockId::ProcessCpu),
            Self::Gettimeofday => None,
        }
    }

    /// Returns the properties that are known without opening the clock. See `clock_gettime(2)` and gettimeofday(2).
    fn properties(self, host: &Host) -> SourceInfo {
        let mut info = SourceInfo::new(self.source_id());
        info.nominal = Some(match self {
            Self::Gettimeofday => Nominal { frequency: Frequency::MEGAHERTZ, stated_by: StatedBy::Definition },
            _ => NANOSECONDS,
        });
        info.claimed_resolution_ns = self.clock_id().and_then(|clock| claimed_resolution_ns(host, clock));
        info.read_path = ReadPath::Kernel;
        (info.quantity, info.scope) = match self {
            Self::ProcessCpu => (Quantity::CpuTime, Scope::Process),
            _ => (Quantity::Time, Scope::System),
        };
        info.rate = match self {
            Self::MonotonicRaw => RateKind::Constant,
            Self::Monotonic | Self::Boottime | Self::MonotonicCoarse => RateKind::Slewed,
            Self::Realtime | Self::Tai | Self::RealtimeCoarse | Self::Gettimeofday => RateKind::SlewedAndStepped,
            Self::ProcessCpu => RateKind::Variable,
        };
        info.counts_in_suspend = Some(matches!(
            self,
            Self::Realtime | Self::Boottime | Self::Tai | Self::RealtimeCoarse | Self::Gettimeofday
        ));
        info
    }
}

const NANOSECONDS: Nominal = Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition };

fn claimed_resolution_ns(host: &Host, clock: ClockId) -> Option<u64> {
    host.facts().clock_resolutions_ns.get(clock.kernel_name()).copied()
}

/// A kernel clock, read through the C library (which uses the vDSO, if there is one) or with a system call.
///
/// # Ordering
///
/// The kernel's code orders the reads: the vDSO executes a fence before it reads the counter, and a system call
/// serializes.
///
/// # References
///
/// `clock_gettime(2)`, gettimeofday(2), vdso(7).
#[derive(Clone, Debug)]
pub struct PosixClock {
    reader: PosixReader,
    info: SourceInfo,
}

#[derive(Clone, Copy, Debug)]
enum PosixReader {
    Clock(Clock),
    TimeOfDay(TimeOfDay),
}

impl PosixReader {
    fn open(id: PosixId, route: Route) -> Result<Self, SourceError> {
        let refused = |call| move |error| SourceError::refused(call, error);
        match id.clock_id() {
            Some(clock) => Clock::open(clock, route).map(Self::Clock).map_err(refused("clock_gettime")),
            None => TimeOfDay::open(route).map(Self::TimeOfDay).map_err(refused("gettimeofday")),
        }
    }

    #[inline(always)]
    fn ticks(self) -> u64 {
        match self {
            Self::Clock(clock) => clock.nanos(),
            Self::TimeOfDay(clock) => clock.microseconds(),
        }
    }
}

impl PosixClock {
    /// Opens the clock through the vDSO, if the vDSO supports it. Uses a system call instead if prctl forbids this
    /// thread to read the counter that the vDSO uses.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if a sandbox refuses the call, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource};
    ///
    /// let clock = PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?;
    /// assert!(clock.ticks() <= clock.ticks());
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    pub fn open(host: &Host, id: PosixId) -> Result<Self, SourceError> {
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let mut info = id.properties(host);
        let by_call = PosixReader::open(id, Route::SystemCall)?;
        // With PR_TSC_SIGSEGV in effect, reading the clock through the vDSO raises SIGSEGV. The system call does not
        // read the counter in user mode.
        if CounterPermission::of_this_thread() == CounterPermission::Forbidden {
            info.read_path = ReadPath::SystemCall;
            return Ok(Self { reader: by_call, info });
        }
        let by_library = PosixReader::open(id, Route::Library)?;
        info.read_path = served_by(|| by_library.ticks(), || by_call.ticks());
        Ok(Self { reader: by_library, info })
    }

    /// Opens the clock with a system call, bypassing the vDSO.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] in the same cases as [`open`](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, TimeSource, source::ReadPath};
    ///
    /// let clock = PosixClock::open_by_system_call(&Host::live(), PosixId::Monotonic)?;
    /// assert_eq!(clock.info().read_path, ReadPath::SystemCall);
    /// assert!(clock.ticks() <= clock.ticks());
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    pub fn open_by_system_call(host: &Host, id: PosixId) -> Result<Self, SourceError> {
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        let reader = PosixReader::open(id, Route::SystemCall)?;
        let mut info = id.properties(host);
        info.read_path = ReadPath::SystemCall;
        Ok(Self { reader, info })
    }
}

impl TimeSource for PosixClock {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.reader.ticks()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// The CPU time of the reading thread. The source is bound to the thread that opened it, because another thread would
/// read its own CPU time.
///
/// # References
///
/// `clock_gettime(2)`, `CLOCK_THREAD_CPUTIME_ID`.
#[derive(Clone, Debug)]
pub struct ThreadCpuClock {
    clock: Clock,
    info: SourceInfo,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl ThreadCpuClock {
    /// Opens the clock for the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if a sandbox refuses the call, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hint::black_box;
    /// use hpt_core::{Host, TimeSource, source::ThreadCpuClock};
    ///
    /// let clock = ThreadCpuClock::open(&Host::live())?;
    /// let start = clock.ticks();
    /// let sum: u64 = (0..1000).map(black_box).sum();
    /// println!("{sum} took {} ns of CPU time", clock.ticks() - start);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    pub fn open(host: &Host) -> Result<Self, SourceError> {
        if !host.is_live() {
            return Err(SourceError::Captured);
        }
        // The vDSO does not support this clock: both routes end in the same system call.
        let clock = Clock::open(ClockId::ThreadCpu, Route::SystemCall)
            .map_err(|error| SourceError::refused("clock_gettime", error))?;
        Ok(Self { clock, info: thread_cpu_properties(host), bound_to_its_thread: PhantomData })
    }
}

fn thread_cpu_properties(host: &Host) -> SourceInfo {
    let mut info = SourceInfo::new(THREAD_CPU);
    info.quantity = Quantity::CpuTime;
    info.rate = RateKind::Variable;
    info.claimed_resolution_ns = claimed_resolution_ns(host, ClockId::ThreadCpu);
    info.nominal = Some(NANOSECONDS);
    info.read_path = ReadPath::SystemCall;
    info.scope = Scope::Thread;
    info.counts_in_suspend = Some(false);
    info
}

impl TimeSource for ThreadCpuClock {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.clock.nanos()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// The number of reads per timing.
const READS: u32 = 16;
/// The minimum times are final after this number of consecutive rounds in which neither minimum fell by more than an
/// eighth.
const SETTLED_AFTER: u32 = 5;
/// The minimum measurement time before a read is considered a system call, in nanoseconds. An emulator that is still
/// translating code slows down both kinds of read.
const LEAST_WATCHED_NS: u64 = 2_000_000;
const MOST_ROUNDS: u32 = 1_000;

/// Determines whether the C library reads the clock without entering the kernel. Compares the cost of a library call
/// with the cost of the system call, because no list of the clocksources that a vDSO supports is complete for all
/// kernels.
fn served_by(library: impl Fn() -> u64, system_call: impl Fn() -> u64) -> ReadPath {
    let Ok(stopwatch) = Clock::open(ClockId::Monotonic, Route::SystemCall) else {
        return ReadPath::SystemCall;
    };
    let time = |read: &dyn Fn() -> u64| {
        let start = stopwatch.nanos();
        for _ in 0..READS {
            std::hint::black_box(read());
        }
        stopwatch.nanos().wrapping_sub(start)
    };
    settled_path(|| (time(&library), time(&system_call)))
}

/// Returns the path of a library read. Each call of `round` returns the duration of reads through the C library and the
/// duration of reads with the system call.
fn settled_path(mut round: impl FnMut() -> (u64, u64)) -> ReadPath {
    let (mut by_library, mut by_call) = round();
    let (mut alike, mut watched_ns) = (0, 0_u64);
    for _ in 0..MOST_ROUNDS {
        let (library_ns, call_ns) = round();
        watched_ns = watched_ns.saturating_add(library_ns).saturating_add(call_ns);
        let is_alike = library_ns >= by_library - by_library / 8 && call_ns >= by_call - by_call / 8;
        alike = if is_alike { alike + 1 } else { 0 };
        (by_library, by_call) = (by_library.min(library_ns), by_call.min(call_ns));
        let is_long = watched_ns >= LEAST_WATCHED_NS || path_of_costs(by_library, by_call) == ReadPath::Vdso;
        if alike >= SETTLED_AFTER && is_long {
            break;
        }
    }
    path_of_costs(by_library, by_call)
}

/// Returns the path that the costs imply: a read that costs less than two thirds of the system call did not enter the
/// kernel.
fn path_of_costs(library_ns: u64, system_call_ns: u64) -> ReadPath {
    if library_ns < system_call_ns / 3 * 2 { ReadPath::Vdso } else { ReadPath::SystemCall }
}

#[derive(Debug)]
pub(super) struct PosixBackend;

impl Backend for PosixBackend {
    fn ids(&self) -> Vec<SourceId> {
        ORDER.into_iter().map(|id| id.map_or(THREAD_CPU, PosixId::source_id)).collect()
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        ORDER
            .into_iter()
            .map(|id| {
                let availability = match (id, host.is_live()) {
                    (Some(id), true) => PosixClock::open(host, id).map(|clock| clock.info),
                    (None, true) => ThreadCpuClock::open(host).map(|clock| clock.info),
                    (Some(id), false) => Ok(id.properties(host)),
                    (None, false) => Ok(thread_cpu_properties(host)),
                };
                ProbeReport {
                    id: id.map_or(THREAD_CPU, PosixId::source_id),
                    description: id.map_or(THREAD_CPU_DESCRIPTION, PosixId::description),
                    evidence: availability.as_ref().map(|info| evidence(host, info)).unwrap_or_default(),
                    availability,
                    kernel: KernelVerdict::Trusted("this is the kernel's own clock".to_owned()),
                }
            })
            .collect()
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        match ORDER.into_iter().flatten().find(|clock| clock.source_id() == *id) {
            Some(clock) => PosixClock::open(host, clock).map(|clock| Opened::Shared(Box::new(clock))),
            None => ThreadCpuClock::open(host).map(|clock| Opened::ThreadBound(Box::new(clock))),
        }
    }
}

fn evidence(host: &Host, info: &SourceInfo) -> Vec<String> {
    if !host.is_live() {
        return vec!["the clock was not read, because this is a system snapshot".to_owned()];
    }
    let mut lines = vec![match info.read_path {
        ReadPath::Vdso => {
            "a read takes less than two thirds of the time of a system call, so it is served by the vDSO".to_owned()
        }
        _ if CounterPermission::of_this_thread() == CounterPermission::Forbidden => {
            "this source uses a system call, because prctl forbids reading the counter that the vDSO uses".to_owned()
        }
        _ => {
            "a read takes at least two thirds of the time of a system call, so it is not served by the vDSO".to_owned()
        }
    }];
    if let Some(current) = host.clock_sources().current {
        lines.push(format!("the kernel's clocksource is {current}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{ReadPath, path_of_costs, settled_path};

    #[test]
    fn a_vdso_is_found_even_under_an_emulator() {
        // As seen under QEMU: both reads are equally slow for a while, the first read a little slower.
        for cold in [0_u32, 1, 7, 40] {
            let mut rounds = 0;
            let path = settled_path(|| {
                rounds += 1;
                if rounds <= cold { (21_743, 20_381) } else { (880, 11_200) }
            });
            assert_eq!(path, ReadPath::Vdso, "after {cold} rounds");
        }
        assert_eq!(settled_path(|| (11_000, 11_200)), ReadPath::SystemCall);
        assert_eq!(settled_path(|| (0, 0)), ReadPath::SystemCall);
    }

    #[test]
    fn a_read_that_costs_as_much_as_a_system_call_is_one() {
        assert_eq!(path_of_costs(400, 5_000), ReadPath::Vdso);
        assert_eq!(path_of_costs(4_900, 5_000), ReadPath::SystemCall);
        assert_eq!(path_of_costs(5_100, 5_000), ReadPath::SystemCall);
        assert_eq!(path_of_costs(0, 0), ReadPath::SystemCall);
    }
}
