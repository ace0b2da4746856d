//! A narrow counter extended to 64 bits. A system clock determines how often the counter wrapped. This works only for
//! constant-rate counters, because the clock cannot follow a counter that stops or changes its rate.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    time::Duration,
};

use hpt_sys::{
    cast::signed,
    host::Host,
    units::{Frequency, Spaced, Width},
};

use super::{PosixClock, PosixId, SourceError, SourceId, SourceInfo, StatedBy, TimeSource};
use crate::scale::Scale;

/// The largest assumed drift between the counter and the system clock: one part in `ONE_IN`. The kernel slews its clock
/// by at most 500 ppm, and a crystal with a frequency error of another 500 ppm is defective.
const ONE_IN: u64 = 1_000;
/// The largest assumed lateness of a clock that advances with the kernel's tick: ten times the lateness observed on a
/// loaded machine.
const TICK_LATENESS: Duration = Duration::from_millis(250);
/// The shortest half wrap for which a clock that advances with the kernel's tick leaves a sufficient margin.
const COARSE_FROM: Duration = Duration::from_secs(10);

/// A narrow constant-rate counter extended to 64 bits, for example the low word of a Raspberry Pi's System Timer or a
/// 24-bit ACPI timer.
///
/// A reading consists of one reading of the counter between two readings of a system clock. The clock determines the
/// number of wraps; an error of almost half a wrap does not affect that number. The counter provides
/// the lower bits, so the result is as fine as a reading of the counter. If too much time passes between the two
/// readings of the clock, the counter is read again.
///
/// # Error
///
/// There is no error as long as the counter is read at least once per [`horizon`](Self::horizon), which is longer than
/// a hundred wraps, or shorter if the clock advances with the kernel's tick. This holds even if the counter and the clock drift apart by one part in a thousand. After a longer
/// interval, the number of wraps is an estimate from the clock. Even then, readings never go backwards.
/// [`guesses`](Self::guesses) returns the number of such estimates.
///
/// # Ordering
///
/// Reads are ordered like reads of the counter.
///
/// # Examples
///
/// ```
/// use hpt_core::{FixedRateClock, Host, TimeSource, Widened, source};
///
/// let host = Host::live();
/// if let Ok(low) = source::open(&host, "bcm-systimer-low") {
///     let wide = Widened::new(low, &host)?;
///     let rate = wide.info().nominal.expect("the System Timer states its rate").frequency;
///     let clock = FixedRateClock::new(wide, rate)?;
///     println!("{:?}", clock.now());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Widened<S, R = PosixClock> {
    source: S,
    reference: R,
    info: SourceInfo,
    narrow: Width,
    ticks_per_ns: TicksPerNs,
    ns_per_reference_tick: Scale,
    /// The time after the anchor within which wraps can be counted, in nanoseconds.
    horizon_ns: u64,
    /// The longest accepted duration of a reading, in nanoseconds. A longer reading is repeated.
    patience_ns: u64,
    anchors: Anchors,
    guesses: AtomicU64,
}

/// The reason why a counter cannot be widened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WidenError {
    /// The counter's rate changes, so the elapsed time does not determine the number of wraps.
    NotSteady(SourceId),
    /// The counter has no nominal frequency, or its nominal frequency is below 1 Hz.
    NoRate(SourceId),
    /// The counter wraps too quickly: the clock that would count its wraps may lag by half a wrap or more, or takes too
    /// long to read.
    TooNarrow {
        /// The counter.
        source_id: SourceId,
        /// The time until the counter wraps.
        wraps_after: Duration,
    },
    /// The system clock that would count the wraps cannot be read.
    NoClock(SourceError),
}

impl std::fmt::Display for WidenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSteady(id) => {
                write!(f, "{id} is not constant-rate: the elapsed time does not determine how often it wrapped")
            }
            Self::NoRate(id) => {
                write!(f, "{id} has no stated frequency of at least 1 Hz, which is required to count its wraps")
            }
            Self::TooNarrow { source_id, wraps_after } => write!(
                f,
                "{source_id} wraps every {}: no system clock can reliably count its wraps",
                Spaced(*wraps_after)
            ),
            Self::NoClock(..) => write!(f, "the system clock for counting wraps cannot be read"),
        }
    }
}

impl std::error::Error for WidenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoClock(cause) => Some(cause),
            _ => None,
        }
    }
}

impl<S: TimeSource> Widened<S> {
    /// Widens `source` with a system clock. If the counter runs during suspend, this is `CLOCK_BOOTTIME`. Otherwise it
    /// is `CLOCK_MONOTONIC_COARSE`, which is the cheapest to read, or `CLOCK_MONOTONIC` for a counter that wraps within
    /// seconds. On targets other than Linux, it is always the monotonic clock of the operating system.
    ///
    /// # Errors
    ///
    /// Returns [`WidenError`] if the counter is not constant-rate, has no suitable nominal frequency or wraps too soon,
    /// or if the system clock cannot be read.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use hpt_core::{
    ///     Frequency, Host, SourceId, SourceInfo, TimeSource, Widened, Width,
    ///     source::{RateKind, StatedBy},
    ///     testing::ManualSource,
    /// };
    ///
    /// let info = SourceInfo::new(SourceId::new("timer"))
    ///     .with_width(Width::BITS_32)
    ///     .with_rate(RateKind::Constant)
    ///     .with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// let wide = Widened::new(ManualSource::with_info(info), &Host::live())?;
    /// assert_eq!((wide.info().id.as_str(), wide.info().width), ("timer-widened", Width::BITS_64));
    /// # }
    /// # Ok::<(), hpt_core::source::WidenError>(())
    /// ```
    pub fn new(source: S, host: &Host) -> Result<Self, WidenError> {
        let half_ns = half_a_wrap_ns(source.info())?;
        let is_slow = half_ns >= nanos(COARSE_FROM);
        let clock = PosixId::counting_wraps(source.info().counts_in_suspend == Some(true), is_slow);
        let reference = PosixClock::open(host, clock).map_err(WidenError::NoClock)?;
        Self::by(source, reference)
    }
}

impl<S: TimeSource, R: TimeSource> Widened<S, R> {
    /// Widens `source` with any clock that does not wrap and counts whenever the source does. If the clock has no
    /// nominal frequency, its ticks count as nanoseconds.
    ///
    /// # Errors
    ///
    /// Returns [`WidenError`] if the counter is not constant-rate, has no suitable nominal frequency or wraps too soon.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// # use hpt_core::{Frequency, SourceId, SourceInfo, source::{RateKind, StatedBy}};
    /// use hpt_core::{TimeSource, Widened, Width, testing::ManualSource};
    ///
    /// # let info = SourceInfo::new(SourceId::new("timer")).with_width(Width::BITS_32)
    /// #     .with_rate(RateKind::Constant).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// // `info` describes a 32-bit counter of microseconds, and `clock` counts nanoseconds.
    /// let (timer, clock) = (ManualSource::with_info(info), ManualSource::new("clock"));
    /// let wide = Widened::by(&timer, &clock)?;
    /// for _ in 0..3 {
    ///     timer.advance(2_000_000_000);
    ///     clock.advance(2_000_000_000_000);
    /// }
    /// assert_eq!((timer.ticks(), wide.ticks()), (6_000_000_000 % (1 << 32), 6_000_000_000));
    /// # }
    /// # Ok::<(), hpt_core::source::WidenError>(())
    /// ```
    pub fn by(source: S, reference: R) -> Result<Self, WidenError> {
        let info = source.info().clone();
        Self::built(source, reference, info)
    }

    /// Widens `source` with any clock, as [`by`](Self::by), but at a rate that calibration found. Intended for counters
    /// without a nominal frequency. `frequency` may be off by one part in a thousand.
    ///
    /// # Errors
    ///
    /// Returns [`WidenError`] if the counter is not constant-rate, or if it wraps too soon at this rate.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// # use hpt_core::{SourceId, SourceInfo, source::RateKind};
    /// use hpt_core::{Frequency, TimeSource, Widened, Width, testing::ManualSource};
    ///
    /// # let info = SourceInfo::new(SourceId::new("timer")).with_width(Width::BITS_32).with_rate(RateKind::Constant);
    /// // `info` describes a 32-bit counter without a nominal frequency, and `clock` counts nanoseconds.
    /// let (timer, clock) = (ManualSource::with_info(info), ManualSource::new("clock"));
    /// let wide = Widened::by_at_rate(&timer, &clock, Frequency::MEGAHERTZ)?;
    /// timer.advance(6_000_000_000);
    /// clock.advance(6_000_000_000_000);
    /// assert_eq!(wide.ticks(), 6_000_000_000);
    /// # }
    /// # Ok::<(), hpt_core::source::WidenError>(())
    /// ```
    pub fn by_at_rate(source: S, reference: R, frequency: Frequency) -> Result<Self, WidenError> {
        let info = source.info().clone().with_nominal(frequency, StatedBy::Program);
        Self::built(source, reference, info)
    }

    fn built(source: S, reference: R, mut info: SourceInfo) -> Result<Self, WidenError> {
        let narrow = info.width;
        let half_ns = half_a_wrap_ns(&info)?;
        let ticks_per_ns = TicksPerNs::of(&info)?;
        let lateness_ns = if reference.info().is_moved_by_the_tick() { nanos(TICK_LATENESS) } else { 0 };
        let Some(room_ns) = half_ns.checked_sub(lateness_ns).filter(|&room_ns| room_ns >= ONE_IN) else {
            let wraps_after = Duration::from_nanos(half_ns.saturating_mul(2));
            return Err(WidenError::TooNarrow { source_id: source.info().id.clone(), wraps_after });
        };
        info.id = SourceId::from(format!("{}-widened", info.id));
        info.width = Width::BITS_64;
        let widened = Self {
            narrow,
            ticks_per_ns,
            ns_per_reference_tick: reference.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ)),
            // Half of the margin is for preemption of the thread, and the other half is for drift between the counter
            // and the clock.
            patience_ns: room_ns / 2,
            horizon_ns: (room_ns / 2).saturating_mul(ONE_IN),
            anchors: Anchors::default(),
            guesses: AtomicU64::new(0),
            source,
            reference,
            info,
        };
        // If reading the reference takes longer than the available margin, readings would be repeated forever.
        if widened.quickest_bracket_ns() > widened.patience_ns {
            let wraps_after = Duration::from_nanos(half_ns.saturating_mul(2));
            return Err(WidenError::TooNarrow { source_id: widened.source.info().id.clone(), wraps_after });
        }
        widened.anchors.replace(Anchor { ticks: widened.source.ticks(), reference_ns: widened.reference_ns() });
        Ok(widened)
    }

    /// Returns how often the number of wraps was estimated because too much time had passed since the last reading.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// # use hpt_core::{Frequency, SourceId, SourceInfo, Width, source::{RateKind, StatedBy}};
    /// use std::time::Duration;
    /// use hpt_core::{TimeSource, Widened, testing::ManualSource};
    ///
    /// # let info = SourceInfo::new(SourceId::new("timer")).with_width(Width::BITS_32)
    /// #     .with_rate(RateKind::Constant).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// // `info` describes a 32-bit counter of microseconds, and `clock` counts nanoseconds.
    /// let (timer, clock) = (ManualSource::with_info(info), ManualSource::new("clock"));
    /// let wide = Widened::by(&timer, &clock)?;
    /// let year = Duration::from_secs(365 * 24 * 3600);
    /// timer.advance(year.as_micros() as u64);
    /// clock.advance(year.as_nanos() as u64);
    /// assert_eq!((wide.ticks(), wide.guesses()), (year.as_micros() as u64, 1));
    /// # }
    /// # Ok::<(), hpt_core::source::WidenError>(())
    /// ```
    #[must_use]
    pub fn guesses(&self) -> u64 {
        self.guesses.load(Ordering::Relaxed)
    }

    /// Returns the time after a reading within which the next reading is certain to count the wraps correctly.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// # use hpt_core::{Frequency, SourceId, SourceInfo, Width, source::{RateKind, StatedBy}};
    /// use std::time::Duration;
    /// use hpt_core::{Widened, testing::ManualSource};
    ///
    /// # let info = SourceInfo::new(SourceId::new("timer")).with_width(Width::BITS_32)
    /// #     .with_rate(RateKind::Constant).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// // `info` describes a 32-bit counter of microseconds, which wraps every 72 minutes.
    /// let wide = Widened::by(ManualSource::with_info(info), ManualSource::new("clock"))?;
    /// assert!(wide.horizon() > Duration::from_secs(72 * 60 * 100));
    /// # }
    /// # Ok::<(), hpt_core::source::WidenError>(())
    /// ```
    #[must_use]
    pub fn horizon(&self) -> Duration {
        Duration::from_nanos(self.horizon_ns / 2)
    }

    fn quickest_bracket_ns(&self) -> u64 {
        let bracket_ns = |_| {
            let before_ns = self.reference_ns();
            let _ = self.source.ticks();
            self.reference_ns().wrapping_sub(before_ns)
        };
        (0..16).map(bracket_ns).min().unwrap_or(u64::MAX)
    }

    #[inline]
    fn reference_ns(&self) -> u64 {
        self.ns_per_reference_tick.nanos(self.reference.ticks())
    }

    #[inline]
    fn read(&self, counter: impl Fn(&S) -> u64) -> u64 {
        let mut before_ns = self.reference_ns();
        loop {
            let narrow_ticks = counter(&self.source);
            let after_ns = self.reference_ns();
            if after_ns.wrapping_sub(before_ns) <= self.patience_ns {
                return self.widen(narrow_ticks, after_ns);
            }
            before_ns = after_ns;
        }
    }

    #[inline]
    fn widen(&self, narrow_ticks: u64, reference_ns: u64) -> u64 {
        let anchor = self.anchors.current();
        let elapsed_ns = signed(reference_ns.wrapping_sub(anchor.reference_ns));
        let elapsed_ticks = self.ticks_per_ns.ticks(elapsed_ns.unsigned_abs());
        // The time is before the anchor if another thread moved the anchor after this thread took its readings.
        let expected = if elapsed_ns < 0 {
            anchor.ticks.wrapping_sub(elapsed_ticks)
        } else {
            anchor.ticks.wrapping_add(elapsed_ticks)
        };
        // Of all readings that end in these bits, choose the one nearest to the expected value.
        let ticks = expected.wrapping_add_signed(self.narrow.signed_difference(expected, narrow_ticks));
        if elapsed_ns.unsigned_abs() > self.horizon_ns / 2 {
            self.go_on_from(Anchor { ticks, reference_ns }, anchor);
        }
        ticks
    }

    #[cold]
    fn go_on_from(&self, next: Anchor, last: Anchor) {
        let guessed = signed(next.reference_ns.wrapping_sub(last.reference_ns)) > signed(self.horizon_ns);
        if self.anchors.replace(next) && guessed {
            self.guesses.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: TimeSource, R: TimeSource> TimeSource for Widened<S, R> {
    #[inline]
    fn ticks(&self) -> u64 {
        self.read(S::ticks)
    }

    #[inline]
    fn ticks_start(&self) -> u64 {
        self.read(S::ticks_start)
    }

    #[inline]
    fn ticks_end(&self) -> u64 {
        self.read(S::ticks_end)
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a few seconds")
}

fn half_a_wrap_ns(info: &SourceInfo) -> Result<u64, WidenError> {
    if !info.rate.is_steady() {
        return Err(WidenError::NotSteady(info.id.clone()));
    }
    let scale = info.nominal_scale().ok_or_else(|| WidenError::NoRate(info.id.clone()))?;
    Ok(scale.nanos(info.width.mask() / 2))
}

/// Converts nanoseconds of the reference to ticks of the counter, with the scale for the inverse rate.
#[derive(Clone, Copy, Debug)]
struct TicksPerNs {
    inverse: Scale,
    /// The scale is that of the rate times two to this power, because the inverse of a low rate has no scale.
    doublings: u32,
}

impl TicksPerNs {
    fn of(info: &SourceInfo) -> Result<Self, WidenError> {
        // The product of microhertz and nanoseconds per tick is 10^15, so the inverse of f is 10^30 / f, which fits into
        // 64 bits if f is at least 55.5 kHz.
        const SQUARE: u128 = 1_000_000_000_000_000_000_000_000_000_000;
        const MOST_DOUBLINGS: u32 = 16;
        let inverse = |microhertz: u64, doublings: u32| {
            let inverse = u64::try_from(SQUARE / (u128::from(microhertz) << doublings)).ok()?;
            Some(Self { inverse: Scale::of(Frequency::from_microhertz(inverse)?), doublings })
        };
        info.nominal
            .and_then(|nominal| (0..=MOST_DOUBLINGS).find_map(|by| inverse(nominal.frequency.microhertz(), by)))
            .ok_or_else(|| WidenError::NoRate(info.id.clone()))
    }

    #[inline]
    const fn ticks(self, ns: u64) -> u64 {
        self.inverse.nanos(ns) >> self.doublings
    }
}

/// A reading of the counter, and the reading of the reference at that time.
#[derive(Clone, Copy, Debug, Default)]
struct Anchor {
    ticks: u64,
    reference_ns: u64,
}

/// The active anchor, which any thread may read or replace without waiting.
///
/// The anchor is stored in one of two slots; the lowest bit of the generation selects the active slot. A replacement
/// fills the other slot and then increments the generation. A reader is therefore disturbed only if two replacements
/// happen during its reading, and it detects this from the generation.
#[derive(Debug, Default)]
struct Anchors {
    generation: AtomicU32,
    slots: [Slot; 2],
    /// The ID of the process that is replacing the anchor; 0 if no process is. In a forked child, an ID that is neither
    /// 0 nor the child's own was stored by a thread that does not exist there.
    being_replaced_by: AtomicU32,
}

#[derive(Debug, Default)]
struct Slot {
    ticks: AtomicU64,
    reference_ns: AtomicU64,
}

impl Anchors {
    #[inline]
    fn current(&self) -> Anchor {
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let slot = &self.slots[(generation & 1) as usize];
            let anchor = Anchor {
                ticks: slot.ticks.load(Ordering::Relaxed),
                reference_ns: slot.reference_ns.load(Ordering::Relaxed),
            };
            // Pairs with the fence in `replace`: a thread that saw a later slot sees the later generation.
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return anchor;
            }
        }
    }

    /// Replaces the active anchor with `next`. Returns whether `next` is now active. It is not active if another thread
    /// is replacing the anchor at the same time, or has set a later anchor.
    fn replace(&self, next: Anchor) -> bool {
        let me = std::process::id();
        let replacing = self.being_replaced_by.load(Ordering::Relaxed);
        if replacing == me
            || self.being_replaced_by.compare_exchange(replacing, me, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return false;
        }
        let generation = self.generation.load(Ordering::Relaxed);
        let last = self.slots[(generation & 1) as usize].reference_ns.load(Ordering::Relaxed);
        let later = generation == 0 || signed(next.reference_ns.wrapping_sub(last)) > 0;
        if later {
            fence(Ordering::Release);
            let slot = &self.slots[(generation.wrapping_add(1) & 1) as usize];
            slot.ticks.store(next.ticks, Ordering::Relaxed);
            slot.reference_ns.store(next.reference_ns, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
        }
        self.being_replaced_by.store(0, Ordering::Release);
        later
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        time::Duration,
    };

    use proptest::prelude::{Just, any, prop_assert_eq, prop_oneof, proptest};

    use super::{WidenError, Widened};
    use crate::source::{Nominal, RateKind, SourceId, SourceInfo, StatedBy, TimeSource};
    use hpt_sys::units::{Frequency, Width, saturating_nanos};

    /// Simulated time in nanoseconds, seen as a counter of any width and rate.
    #[derive(Debug)]
    struct Seen<'a> {
        now_ns: &'a AtomicU64,
        ticks_per_second: u64,
        info: SourceInfo,
    }

    impl TimeSource for Seen<'_> {
        fn ticks(&self) -> u64 {
            let ticks =
                u128::from(self.now_ns.load(Ordering::Relaxed)) * u128::from(self.ticks_per_second) / 1_000_000_000;
            u64::try_from(ticks & u128::from(self.info.width.mask())).expect("masked")
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    fn seen(now_ns: &AtomicU64, width_bits: u8, stated_hertz: u64, really_hertz: u64) -> Seen<'_> {
        let mut info = SourceInfo::new(SourceId::new("seen"));
        info.width = Width::new(width_bits).expect("1 to 64");
        info.rate = RateKind::Constant;
        info.nominal =
            Frequency::from_hertz(stated_hertz).map(|frequency| Nominal { frequency, stated_by: StatedBy::Program });
        Seen { now_ns, ticks_per_second: really_hertz, info }
    }

    fn clock(now_ns: &AtomicU64) -> Seen<'_> {
        seen(now_ns, 64, 1_000_000_000, 1_000_000_000)
    }

    proptest! {
        /// Verifies that the reading is the true one, for any width, any rate with an error of a few hundred ppm, and
        /// any pause within its horizon.
        #[test]
        fn no_wrap_is_missed(
            start_ns in 0..1_u64 << 40,
            bits in 24..=40_u8,
            (hertz, off_ppm) in (prop_oneof![Just(32_768_u64), 100_000..4_000_000_000_u64], 0..900_u64),
            waits in proptest::collection::vec(0.0..1.0_f64, 1..20),
        ) {
            let now_ns = AtomicU64::new(start_ns);
            let really = hertz + hertz * off_ppm / 1_000_000;
            let Ok(widened) = Widened::by(seen(&now_ns, bits, hertz, really), clock(&now_ns)) else { return Ok(()) };
            let truth = seen(&now_ns, 64, hertz, really);
            let above = truth.ticks().wrapping_sub(widened.ticks());
            for wait in waits {
                let longest_ns = saturating_nanos(widened.horizon()).min(1 << 50);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a part of it")]
                now_ns.fetch_add((longest_ns as f64 * wait) as u64, Ordering::Relaxed);
                prop_assert_eq!(truth.ticks().wrapping_sub(widened.ticks()), above);
            }
            prop_assert_eq!(widened.guesses(), 0);
        }

        /// Verifies that readings never go backwards as long as time does not.
        #[test]
        fn readings_never_go_back_even_past_the_horizon(waits in proptest::collection::vec(any::<u32>(), 1..50)) {
            let now_ns = AtomicU64::new(0);
            let widened = Widened::by(seen(&now_ns, 24, 3_579_545, 3_581_000), clock(&now_ns)).expect("a counter that can be widened");
            let mut last = widened.ticks();
            for wait in waits {
                now_ns.fetch_add(u64::from(wait) << 14, Ordering::Relaxed);
                let now = widened.ticks();
                assert!(now >= last, "{last} then {now}");
                last = now;
            }
        }
    }

    #[test]
    fn a_guess_is_counted() {
        let now_ns = AtomicU64::new(0);
        let widened = Widened::by(seen(&now_ns, 24, 3_579_545, 3_579_545), clock(&now_ns))
            .expect("a counter that can be widened");
        widened.ticks();
        now_ns.fetch_add(u64::try_from(widened.horizon().as_nanos()).expect("hours") * 3, Ordering::Relaxed);
        widened.ticks();
        assert_eq!(widened.guesses(), 1);
        now_ns.fetch_add(1_000_000_000, Ordering::Relaxed);
        widened.ticks();
        assert_eq!(widened.guesses(), 1);
    }

    #[test]
    fn a_source_that_cannot_be_widened_is_refused_by_name() {
        let now_ns = AtomicU64::new(0);
        let mut unsteady = seen(&now_ns, 32, 1_000_000_000, 1_000_000_000);
        unsteady.info.rate = RateKind::Variable;
        assert!(matches!(Widened::by(unsteady, clock(&now_ns)), Err(WidenError::NotSteady(_))));
        let mut rateless = seen(&now_ns, 32, 1_000_000_000, 1_000_000_000);
        rateless.info.nominal = None;
        assert!(matches!(Widened::by(rateless, clock(&now_ns)), Err(WidenError::NoRate(_))));
        let mut slow = seen(&now_ns, 32, 1, 1);
        slow.info.nominal =
            Frequency::from_microhertz(500_000).map(|frequency| Nominal { frequency, stated_by: StatedBy::Program });
        assert!(matches!(Widened::by(slow, clock(&now_ns)), Err(WidenError::NoRate(_))));
        let mut late = clock(&now_ns);
        late.info.claimed_resolution_ns = Some(4_000_000);
        let quick = seen(&now_ns, 24, 54_000_000, 54_000_000);
        let expected = Duration::from_millis(310);
        match Widened::by(quick, late) {
            Err(WidenError::TooNarrow { wraps_after, .. }) => assert!(wraps_after.abs_diff(expected).as_millis() < 2),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn time_is_monotonic_across_many_threads() {
        let now_ns = AtomicU64::new(0);
        let widened = Widened::by(seen(&now_ns, 8, 1_000_000_000, 1_000_000_000), clock(&now_ns));
        // 8 bits at 1 GHz: half a wrap is 127 ns, less than the smallest margin.
        assert!(matches!(widened, Err(WidenError::TooNarrow { .. })));
        let widened = Widened::by(seen(&now_ns, 16, 1_000_000_000, 1_000_000_000), clock(&now_ns))
            .expect("a counter that can be widened");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..100_000 {
                        // 400 ms in total: the anchor moves every 8 ms, and a thread that is stopped for a long time
                        // repeats its reading.
                        now_ns.fetch_add(1_000, Ordering::Relaxed);
                        let now = widened.ticks();
                        assert!(now >= last, "{last} then {now}");
                        last = now;
                    }
                });
            }
        });
    }
}
