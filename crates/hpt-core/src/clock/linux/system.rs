//! The system's clock: `CLOCK_MONOTONIC`, computed from a counter between readings of the kernel's own clock. Starts no
//! thread, does nothing before the first call, and never waits.
//!
//! The time is extrapolated from the counter along a segment of at most one millisecond. A reader that arrives after
//! the end of the segment brackets the counter between two reads of the kernel's clock, and makes the next segment. A
//! reader that arrives at the same time, or while anything is in doubt, reads the kernel's clock.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hpt_sys::{
    adjtime,
    clock::{Clock, ClockId, Route},
    host::{CounterPermission, Host},
    native::{self, Native},
};

use super::{
    bound::{self, Known},
    following::{Doubt, Following, Instruments, begin_anew, restart, restarts, went_back},
    published::{NATIVE, NO_OWNER, Ownership, Published},
    segment::{LONGEST_NS, SHORTEST_NS},
    trust::{self, Trust, Unsettled},
    vmclock::Vmclock,
};
use crate::clock::report::{ClockSource, MOST_SOURCES, Status, UseSourceError};
use crate::source::{self, Opened, SURELY_WIDE_BITS, Scope, SourceError, SourceId, SourceInfo, TimeSource};

/// The clock that provides readings: undecided, the kernel's clock, the processor's own counter (`NATIVE`), or a source
/// in `SOURCES` for all higher values.
static MODE: AtomicUsize = AtomicUsize::new(UNDECIDED);
const UNDECIDED: usize = NO_OWNER;
const KERNEL: usize = 1;
const FIRST_SOURCE: usize = NATIVE + 1;

/// The reason for the current `MODE`, as a `Why`. The reason is only displayed, so it may briefly lag behind `MODE`.
static WHY: AtomicUsize = AtomicUsize::new(Why::Measuring as usize);

/// The reason why the source in use provides the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Measuring,
    NotAsked,
    NotTried,
    Offered,
    NotOffered,
    Dropped,
    Wanted,
}

impl Why {
    const ALL: [Self; 7] =
        [Self::Measuring, Self::NotAsked, Self::NotTried, Self::Offered, Self::NotOffered, Self::Dropped, Self::Wanted];

    const fn of(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Measuring => Self::Measuring,
            Unsettled::NotAsked => Self::NotAsked,
            Unsettled::NotTried => Self::NotTried,
        }
    }

    fn now() -> Self {
        Self::ALL.into_iter().find(|&why| why as usize == WHY.load(Ordering::Relaxed)).unwrap_or(Self::Measuring)
    }

    fn note(self) {
        WHY.store(self as usize, Ordering::Relaxed);
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Measuring => {
                "the kernel is still calibrating the processor's counter, as in the first seconds after boot"
            }
            Self::NotAsked => {
                "the kernel's list of clocksources could not be read (no descriptor or memory was free, or /sys is not mounted); a later call tries again"
            }
            Self::NotTried => {
                "no child process could be started to try the processor's counter; a later call tries again"
            }
            Self::Offered => "the processor's own counter is constant-rate, and the kernel offers it as a clocksource",
            Self::NotOffered => {
                "this processor has no counter that runs at a constant rate, that this program may read, and that the kernel offers as a clocksource"
            }
            Self::Dropped => {
                "the kernel found the processor's counter unstable and no longer offers it as a clocksource"
            }
            Self::Wanted => "the program selected it",
        }
    }
}

static SOURCES: [OnceLock<Box<dyn TimeSource + Send + Sync>>; MOST_SOURCES] = [const { OnceLock::new() }; MOST_SOURCES];

/// The hypervisor's disruption marker, if there is one. Opened once, by the first thread that decides on or changes the
/// source. A thread that finds this cell empty continues without a marker.
static VMCLOCK: OnceLock<Vmclock> = OnceLock::new();
static VMCLOCK_IS_ASKED_FOR: AtomicBool = AtomicBool::new(false);

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
const NATIVE_ID: SourceId = SourceId::new("tsc");
#[cfg(target_arch = "riscv64")]
const NATIVE_ID: SourceId = SourceId::new("riscv-time");
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "riscv64")))]
const NATIVE_ID: SourceId = SourceId::new("arm-counter");
const KERNEL_ID: SourceId = SourceId::new("monotonic");

/// Returns the current `CLOCK_MONOTONIC` time in nanoseconds. The read is ordered, and the result is never below an
/// earlier result on any thread.
#[inline(always)]
pub(in crate::clock) fn now_ns() -> u64 {
    'slow: {
        let Some((ticks, words)) = native::read_start() else { break 'slow };
        let Some(segment) = Published::new(words).native_segment() else { break 'slow };
        let Some(ns) = segment.at_split(ticks.whole, ticks.low) else { break 'slow };
        return ns;
    }
    slow_now_ns()
}

/// Returns the current time like `now_ns`, but the processor may read the counter earlier than in program order.
#[inline(always)]
pub(in crate::clock) fn now_unordered_ns() -> u64 {
    'slow: {
        let Some((ticks, words)) = native::read() else { break 'slow };
        let Some(segment) = Published::new(words).native_segment() else { break 'slow };
        let Some(ns) = segment.at_split(ticks.whole, ticks.low) else { break 'slow };
        return ns;
    }
    slow_now_ns()
}

#[cold]
#[inline(never)]
fn slow_now_ns() -> u64 {
    loop {
        let answer = match following() {
            Some(following) => following.now_ns(),
            None => kernel_now_ns(),
        };
        if let Some(ns) = answer {
            return ns;
        }
    }
}

/// Reads the kernel's clock if no counter is in use. The result is never below an earlier reading of a counter. Returns
/// `None` if a counter has come into use, because readings must be recorded from then on.
fn kernel_now_ns() -> Option<u64> {
    let published = Published::new(native::words().0);
    let in_force = published.in_force();
    let clock_ns = monotonic().nanos();
    let end_ns = in_force.line.end_ns();
    if in_force.whose == NO_OWNER && went_back(end_ns, clock_ns) {
        let wiped_on_fork = native::words().1;
        if let Some(ownership) = published.own(owners_name(wiped_on_fork), !wiped_on_fork) {
            restart(published, &ownership);
            return None;
        }
    }
    let ns = clock_ns.max(end_ns);
    // A counter's segment may still be open, with its end in the future.
    let undisturbed = in_force.whose == NO_OWNER
        && published.is_still(in_force.state)
        && matches!(MODE.load(Ordering::Acquire), KERNEL | UNDECIDED);
    undisturbed.then_some(ns)
}

fn monotonic() -> Clock {
    kernels_clock(ClockId::Monotonic)
}

/// Returns a kernel clock. It is read with a system call if the vDSO would read a counter that this thread must
/// not read.
pub(crate) fn kernels_clock(clock: ClockId) -> Clock {
    static ROUTE: AtomicUsize = AtomicUsize::new(0);
    let route = match ROUTE.load(Ordering::Relaxed) {
        1 => Route::Library,
        2 => Route::SystemCall,
        _ => {
            let forbidden = CounterPermission::of_this_thread() == CounterPermission::Forbidden;
            ROUTE.store(1 + usize::from(forbidden), Ordering::Relaxed);
            if forbidden { Route::SystemCall } else { Route::Library }
        }
    };
    Clock::unasked(clock, route)
}

/// A counter and its number, together with the kernel's clock.
#[derive(Clone, Copy, Debug)]
struct InUse {
    number: usize,
    counter: Counter,
}

#[derive(Clone, Copy, Debug)]
enum Counter {
    Native(Native),
    Source(&'static (dyn TimeSource + Send + Sync)),
}

impl Instruments for InUse {
    #[inline]
    fn ticks(self) -> u64 {
        match self.counter {
            Counter::Native(native) => native.read_start(),
            Counter::Source(source) => source.ticks_start(),
        }
    }

    fn clock_ns(self) -> u64 {
        monotonic().nanos()
    }

    fn disruption_marker(self) -> Option<u64> {
        // Without the vmclock page, no disruption is ever reported.
        VMCLOCK.get().map_or(Some(0), Vmclock::disruption_marker)
    }

    fn are_in_use(self) -> bool {
        MODE.load(Ordering::Acquire) == self.number
    }

    /// Returns whether the counter may stay in use, according to the kernel's list of clocksources. A sandbox may
    /// forbid opening this list, so it is not opened if the clock is slow to read for another reason, for example
    /// because a core runs at a tenth of its speed.
    fn is_trusted(self, doubt: Doubt) -> bool {
        !self.was_offered() || (doubt == Doubt::SlowClock && self.vdso_serves()) || trust::is_offered() != Some(false)
    }

    fn leave(self, _: &Ownership<'_>) {
        // Only the owner changes the source, so no other thread changes it at the same time.
        if MODE.compare_exchange(self.number, KERNEL, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            native::remove();
            Why::Dropped.note();
        }
    }
}

impl InUse {
    /// Returns whether this counter is in use because the kernel offered it, not because the program requested it.
    fn was_offered(self) -> bool {
        self.number == NATIVE && Why::now() == Why::Offered
    }

    /// Returns whether the kernel's clock is read without a system call, which is the case while the kernel uses this
    /// counter. A read then costs less than two thirds of a system call.
    fn vdso_serves(self) -> bool {
        let cost = |route| {
            let clock = Clock::unasked(ClockId::Monotonic, route);
            let once = || {
                let before = self.ticks();
                clock.nanos();
                self.ticks().wrapping_sub(before)
            };
            (0..8).map(|_| once()).min().unwrap_or(u64::MAX)
        };
        cost(Route::Library).saturating_mul(3) < cost(Route::SystemCall).saturating_mul(2)
    }
}

/// If the counter is in use because the kernel offered it, checks whether the kernel still offers it. Abandons a
/// counter that the kernel has dropped.
fn reconsider() {
    let offered = following().filter(|following| following.instruments.was_offered());
    let Some(following) = offered.filter(|_| trust::is_offered() == Some(false)) else { return };
    if let Some(ownership) = following.become_owner() {
        if following.instruments.are_in_use() {
            following.leave(&ownership);
        }
    }
}

/// Returns the counter in use; `None` if the kernel's clock is read.
fn in_use() -> Option<InUse> {
    let mut number = MODE.load(Ordering::Acquire);
    if number == UNDECIDED {
        number = decide(Patience::Waits);
    }
    let counter = match number {
        KERNEL | UNDECIDED => return None,
        NATIVE => Counter::Native(native::installed()?.0),
        number => Counter::Source(SOURCES[number - FIRST_SOURCE].get()?.as_ref()),
    };
    Some(InUse { number, counter })
}

fn following() -> Option<Following<'static, InUse>> {
    let instruments = in_use()?;
    let (words, wiped_on_fork) = native::words();
    let number = instruments.number;
    Some(Following {
        instruments,
        number,
        published: Published::new(words),
        name: owners_name(wiped_on_fork),
        others_are_dead: !wiped_on_fork,
    })
}

/// Returns the name that an owner in this process uses. It is the process ID, unless a fork clears the words. In that
/// case, no fork leaves an owner behind, and the name is always 1.
fn owners_name(wiped_on_fork: bool) -> u64 {
    if wiped_on_fork { 1 } else { std::process::id().into() }
}

/// Opens the hypervisor's disruption marker, once per process, before a counter comes into use.
fn ask_for_vmclock() {
    if VMCLOCK_IS_ASKED_FOR.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Ok(vmclock) = Vmclock::open() {
        let _ = VMCLOCK.set(vmclock);
    }
}

/// Whether the kernel is queried at once, or only after the pause that follows the last query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Waits,
    AsksAtOnce,
}

/// Chooses the first source: the processor's own counter if its rate is constant and the kernel offers it as a
/// clocksource, otherwise the kernel's clock. While the kernel has not decided or cannot be queried, no source is
/// chosen, and the kernel's clock is read. Readings query the kernel again after a tenth of a second. If the kernel
/// cannot be queried, the pause doubles each time, and readings query it again at most ten times. A query could kill a
/// program that has entered a sandbox in the meantime. Allocates nothing and takes a few microseconds, so the first
/// call can be in a signal handler. On 32-bit ARM, the call also starts a child process that tries the
/// instruction.
#[cold]
fn decide(patience: Patience) -> usize {
    /// The time at which the kernel may be queried again.
    static ASK_AGAIN_NS: AtomicU64 = AtomicU64::new(0);
    /// The number of times that the kernel could not be queried.
    static FAILURES: AtomicU32 = AtomicU32::new(0);
    const PAUSE_NS: u64 = 100_000_000;
    const MOST_FAILURES: u32 = 10;
    let now_ns = monotonic().nanos();
    if patience == Patience::Waits && now_ns < ASK_AGAIN_NS.load(Ordering::Relaxed) {
        return UNDECIDED;
    }
    ask_for_vmclock();
    let (mode, why) = match trust::in_native() {
        Trust::Yes(native) => {
            native::install(native, native::words().0);
            (NATIVE, Why::Offered)
        }
        Trust::No => (KERNEL, Why::NotOffered),
        Trust::NotYet(unsettled) => {
            let pause_ns = if unsettled == Unsettled::Measuring {
                PAUSE_NS
            } else {
                let failures = FAILURES.fetch_add(1, Ordering::Relaxed);
                if failures < MOST_FAILURES { PAUSE_NS << failures } else { u64::MAX }
            };
            ASK_AGAIN_NS.store(now_ns.saturating_add(pause_ns), Ordering::Relaxed);
            Why::of(unsettled).note();
            return MODE.load(Ordering::Acquire);
        }
    };
    // Another thread may have chosen or requested a source in the meantime. That choice stands, and the counter stays
    // installed. Removing the counter could undo an installation by another thread, and an installed counter serves no
    // readings without a segment of its own.
    match MODE.compare_exchange(UNDECIDED, mode, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            why.note();
            mode
        }
        Err(decided) => decided,
    }
}

/// Returns the hypervisor's current disruption marker. Its value changes after a disruption of the
/// counter, for example when the virtual machine is moved to another host. Returns `None` if the hypervisor provides no
/// marker or if this user may not read it. Since version 6.13, Linux provides the marker to root in /dev/vmclock0.
/// Requires the feature `devices`.
///
/// # Examples
///
/// ```
/// use hpt_core::clock;
///
/// let before = clock::disruption_marker();
/// // Work that uses the counter directly.
/// if clock::disruption_marker() != before {
///     println!("the virtual machine was moved: calibrate again");
/// }
/// ```
#[must_use]
pub fn disruption_marker() -> Option<u64> {
    // The first reading opens the page.
    now_ns();
    VMCLOCK.get().and_then(Vmclock::disruption_marker)
}

/// Returns the source in use and the reason why it is in use. Chooses a source if none has been chosen yet. Queries the
/// kernel again if an earlier query failed, and checks whether the kernel still offers the counter.
///
/// # Examples
///
/// ```
/// use hpt_core::clock;
///
/// let source = clock::source();
/// println!("{}: {}", source.id, source.reason);
/// ```
pub fn source() -> ClockSource {
    if MODE.load(Ordering::Acquire) == UNDECIDED {
        decide(Patience::AsksAtOnce);
    } else {
        reconsider();
    }
    let id = match MODE.load(Ordering::Acquire) {
        NATIVE => NATIVE_ID,
        index if index >= FIRST_SOURCE => {
            SOURCES[index - FIRST_SOURCE].get().map_or(KERNEL_ID, |source| source.info().id.clone())
        }
        _ => KERNEL_ID,
    };
    ClockSource { id, reason: Why::now().text() }
}

/// Returns the current quality of the system's clock. Calls adjtimex(2), which a sandbox may forbid;
/// [`Instant::now`](crate::Instant::now) never calls it. Calls [`prime`] first, so that the bound is that of the source.
///
/// # Examples
///
/// ```
/// use hpt_core::clock;
///
/// let status = clock::status();
/// println!("{}, within {:?} of the kernel's clock", status.source, status.bound);
/// ```
pub fn status() -> Status {
    prime();
    let ClockSource { id: source, reason } = source();
    let end_ns = Published::new(native::words().0).in_force().line.end_ns();
    let before_ns = monotonic().nanos();
    let answer_ns = now_ns();
    let after_ns = monotonic().nanos();
    // Get the rate after the reading, because the first readings of a counter determine its rate.
    let following = following();
    let follower = following.map(Following::remembered).unwrap_or_default();
    let bracket_ns = follower.last().map(|point| point.width_ns);
    let bound_ns = Known {
        rate_and_width_ns: follower.rate().zip(bracket_ns),
        lead_ns: following.map_or(0, Following::lead_ns),
        ahead_ns: end_ns.saturating_sub(before_ns),
        outside_ns: before_ns.saturating_sub(answer_ns).max(answer_ns.saturating_sub(after_ns)),
        // If adjtimex fails, for example in a sandbox, only observed changes count.
        slew_ppb: adjtime::read_slew().map_or(0, bound::slew_ppb),
    }
    .bound_ns();
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    let measured_hertz = follower.rate().map(|rate| 1e9 * (1_u64 << 32) as f64 / rate.slope as f64);
    // Opening a device again can take milliseconds.
    let stated = match following.map(|following| following.instruments.counter) {
        Some(Counter::Source(source)) => source.info().nominal,
        _ => source::open(&Host::live(), source.as_str()).ok().and_then(|opened| opened.as_dyn().info().nominal),
    };
    Status {
        frequency_error_ppm: measured_hertz
            .zip(stated)
            .map(|(measured, stated)| (measured / stated.frequency.hertz_f64() - 1.0) * 1e6),
        source,
        reason,
        last_bracket: bracket_ns.map(Duration::from_nanos),
        bound: Duration::from_nanos(bound_ns),
        anchorings: follower.followed,
        rate_changes: follower.rate_changes,
        jumps: follower.jumps,
        disruptions: VMCLOCK.get().map(|_| following.map_or(0, Following::disruptions)),
        refused_brackets: following.map_or(0, Following::refused),
        restarts: restarts(Published::new(native::words().0)),
    }
}

/// Chooses a source and takes the first points, so that the first [`Instant::now`](crate::Instant::now) is as fast as
/// later ones. Takes a fraction of a millisecond.
///
/// # Examples
///
/// ```
/// use hpt_core::{Instant, clock};
///
/// // At the start of the program, or before it enters a sandbox.
/// clock::prime();
/// assert!(Instant::now() > Instant::EPOCH);
/// ```
pub fn prime() {
    if MODE.load(Ordering::Acquire) == UNDECIDED {
        decide(Patience::AsksAtOnce);
    }
    let start = monotonic().nanos();
    // The number of rounds is limited too, because a clock that a sandbox blocks stays at zero.
    for _ in 0..1_000_000 {
        now_ns();
        let learned = following().is_none_or(|following| following.remembered().rate().is_some());
        if learned || monotonic().nanos().wrapping_sub(start) > 20 * SHORTEST_NS {
            return;
        }
        std::hint::spin_loop();
    }
}

/// Makes `opened` the time source of all threads, without a backward step. The [`SourceId`] `monotonic` selects the
/// kernel's clock itself. Takes a few milliseconds; must not be called in signal handlers.
///
/// A source that has the name of one of this crate's own sources is reopened under that name. A custom source stays
/// in memory until the process ends; if its counter stops, time stops.
///
/// # Errors
///
/// Returns [`UseSourceError`], for example if the source is not constant-rate or not system-wide, if it ticks too slowly
/// or wraps too soon, if access to it can be revoked, or if it fails its self-test. A counter with fewer than 56 bits
/// wraps too soon: while the program does not read the clock, nothing would count its wraps.
///
/// # Examples
///
/// ```standalone_crate
/// use hpt_core::{Host, clock, source};
///
/// // Reads the kernel's clock instead of the counter.
/// clock::use_source(source::open(&Host::live(), "monotonic")?)?;
/// assert_eq!(clock::source().id.as_str(), "monotonic");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn use_source(opened: Opened) -> Result<(), UseSourceError> {
    let id = opened.as_dyn().info().id.clone();
    // If the name belongs to one of hpt's own sources, open that source.
    let is_ours = source::names_on(&Host::live()).contains(&id);
    let opened = if is_ours { source::open(&Host::live(), id.as_str())? } else { opened };
    let source = match opened {
        Opened::Shared(source) => source,
        Opened::ThreadBound(source) => {
            return Err(match source.info().scope {
                // Report the more important reason: each core has its own counter.
                scope @ Scope::Core => UseSourceError::NotSystemWide { source_id: id, scope },
                _ => UseSourceError::ThreadBound(id),
            });
        }
    };
    let changing = Changing::begin()?;
    let mode = if id == KERNEL_ID {
        KERNEL
    } else {
        suits(source.info())?;
        tested(source.as_ref())?;
        if id == NATIVE_ID { NATIVE } else { registered(source, is_ours)? }
    };
    let native = if mode == NATIVE { Some(source::permitted_native().map_err(SourceError::of_counter)?) } else { None };
    change_to(mode, native, &changing)
}

/// The coarsest accepted resolution: one microsecond, with a margin for rounding.
const COARSEST_NS: f64 = 1_000.5;

fn suits(info: &SourceInfo) -> Result<(), UseSourceError> {
    let id = || info.id.clone();
    if info.scope != Scope::System {
        Err(UseSourceError::NotSystemWide { source_id: id(), scope: info.scope })
    } else if !info.rate.is_steady() {
        Err(UseSourceError::NotSteady(id()))
    } else if info.revocable {
        Err(UseSourceError::Revocable(id()))
    } else if info.nominal.is_none() && info.width.bits() < SURELY_WIDE_BITS {
        Err(UseSourceError::NoRate(id()))
    } else if info.wraps_soon().is_some()
        || info.resolution_ns().is_some_and(|resolution_ns| resolution_ns > COARSEST_NS)
    {
        Err(UseSourceError::TooCoarse(id()))
    } else {
        Ok(())
    }
}

fn tested(source: &dyn TimeSource) -> Result<(), UseSourceError> {
    let reference = source::PosixClock::open(&Host::live(), source::PosixId::Monotonic)?;
    let failed = |failure| UseSourceError::SelfTest { source_id: source.info().id.clone(), failure };
    let seen = source::self_test(source, &reference).map_err(failed)?;
    // A source can advance in steps larger than its tick. A large step does not count if a read takes so long that no
    // smaller step can be observed.
    let rate = source.info().nominal.map_or(seen.rate.highest, |nominal| nominal.frequency);
    let tick_ns = rate.tick_ns_f64();
    #[expect(clippy::cast_precision_loss, reason = "compared with a microsecond")]
    let step_ns = seen.steps.smallest_ticks().unwrap_or(0) as f64 * tick_ns;
    if tick_ns > COARSEST_NS || (step_ns > COARSEST_NS && step_ns > 2.0 * seen.read_cost_ns) {
        return Err(UseSourceError::TooCoarse(source.info().id.clone()));
    }
    Ok(())
}

/// Returns the slot of a source in `SOURCES`. One of this crate's own sources keeps any slot that it already has;
/// any other source gets a new slot.
fn registered(source: Box<dyn TimeSource + Send + Sync>, is_ours: bool) -> Result<usize, UseSourceError> {
    for (index, place) in SOURCES.iter().enumerate() {
        match place.get() {
            Some(taken) if is_ours && taken.info().id == source.info().id => return Ok(FIRST_SOURCE + index),
            Some(_) => {}
            // Only one thread changes the source at a time.
            None => return place.set(source).map(|()| FIRST_SOURCE + index).map_err(|_| UseSourceError::TooMany),
        }
    }
    Err(UseSourceError::TooMany)
}

/// The right to change the source, for one thread of the process. No reader waits for it.
struct Changing;

impl Changing {
    fn begin() -> Result<Self, UseSourceError> {
        let me = u64::from(std::process::id());
        let word = Self::word();
        patiently(|| {
            // If a fork does not clear the word, a different process ID belongs to a thread that the fork left behind.
            let changing = word.load(Ordering::Relaxed);
            let taken = || word.compare_exchange(changing, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
            (changing != me && taken()).then(|| Self)
        })
    }

    fn word() -> &'static AtomicU64 {
        Published::new(native::words().0).changer()
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        Self::word().store(0, Ordering::Release);
    }
}

/// Retries for one second.
fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Result<T, UseSourceError> {
    let start = std::time::Instant::now();
    loop {
        if let Some(got) = attempt() {
            return Ok(got);
        }
        if start.elapsed() > Duration::from_secs(1) {
            return Err(UseSourceError::Busy);
        }
        std::thread::yield_now();
    }
}

/// Lets the active segment expire, discards everything learned about the old counter, and continues with the new one.
fn change_to(mode: usize, native: Option<Native>, _: &Changing) -> Result<(), UseSourceError> {
    ask_for_vmclock();
    let (words, wiped_on_fork) = native::words();
    let published = Published::new(words);
    // No other thread makes a segment while this thread is the owner. Another owner finishes within microseconds,
    // unless its thread was stopped.
    let ownership = patiently(|| published.own(owners_name(wiped_on_fork), !wiped_on_fork))?;
    // From here on, the kernel's clock provides all readings, but never below the end of the segment. The loop waits
    // for that end, which is at most a millisecond away. The old counter is not read, because it may be the reason for
    // the change.
    let end_ns = published.in_force().line.end_ns();
    let start_ns = monotonic().nanos();
    let mut now_ns = start_ns;
    while now_ns < end_ns && now_ns.wrapping_sub(start_ns) < 2 * LONGEST_NS {
        std::hint::spin_loop();
        now_ns = monotonic().nanos();
    }
    begin_anew(published, &ownership);
    // The processor's counter is installed before the mode is set to it, and stays installed until the mode has
    // changed.
    match native {
        Some(native) => {
            native::install(native, native::words().0);
            MODE.store(mode, Ordering::Release);
        }
        None => {
            MODE.store(mode, Ordering::Release);
            native::remove();
        }
    }
    Why::Wanted.note();
    Ok(())
}
