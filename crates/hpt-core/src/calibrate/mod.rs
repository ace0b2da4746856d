//! Determines the frequency of a source and the limits of that frequency. Does not save results to disk.

mod fit;
mod pair;
mod stated;

use std::{ops::ControlFlow, time::Duration};

pub use self::{
    fit::{Fit, FitError, Granules, fit},
    stated::stated,
};
use crate::{
    scale::Scale,
    source::{Nominal, Pair, Reference, Scope, SourceId, TimeSource},
};
use hpt_sys::{
    process,
    units::{Frequency, FrequencyRange, saturating_nanos},
};

/// The number of consecutive pairs after which a reference that has not advanced is considered stopped. A clock
/// that advances with the kernel's tick can produce hundreds of thousands of such pairs.
const REFERENCE_STANDS_STILL: u32 = 5_000_000;
/// The minimum number of rounds of readings in a window.
const FEWEST_ROUNDS: u64 = 64;
/// The number of rounds that start after the window has ended. If the thread was preempted until the window ended,
/// these rounds provide the readings to compare with the first rounds.
const CLOSING_ROUNDS: u64 = 8;

/// The method by which a frequency was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Method {
    /// Taken from a definition, the hardware or the kernel, without a measurement.
    Stated,
    /// Measured against a reference, with bracketed readings.
    Bracketed,
}

impl Method {
    /// Returns the name used in tables and in JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::calibrate::Method;
    ///
    /// assert_eq!(Method::Bracketed.name(), "bracketed");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Bracketed => "bracketed",
        }
    }
}

/// The frequency of a source and the way in which it was determined.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Calibration {
    /// The source.
    pub source: SourceId,
    /// The method by which the frequency was determined.
    pub method: Method,
    /// The reference against which the source was measured; `None` if it was not measured.
    pub reference: Option<SourceId>,
    /// The frequency, stored in µHz.
    pub frequency: Frequency,
    /// The range of frequencies that are consistent with the readings. Its ends are a worst-case bound, not a standard
    /// uncertainty. The bound holds if both counters run at a constant rate and no reading lags by more than the
    /// granule that back-to-back reads reveal.
    ///
    /// If the source advances with the kernel's tick, a late tick increases the lag of its readings. The bound then
    /// includes the largest step that was observed. It holds if the CPU that updates the clock is not paused during the
    /// update, for example by a hypervisor, and if the period of the tick is the stated resolution.
    ///
    /// `None` if the frequency was not measured and does not follow from a definition. Also `None` if the reference
    /// advances with the kernel's tick, because nothing limits its lag, or if the readings of a source that advances
    /// with the tick contradict each other.
    pub limits: Option<FrequencyRange>,
    /// The nominal frequency and its origin; `None` if the source has no nominal frequency.
    pub nominal: Option<Nominal>,
    /// The time from the first to the last reading that was used, in nanoseconds of the reference.
    pub window_ns: u64,
    /// The number of bracketed pairs on which the frequency is based.
    pub pairs: usize,
    /// The width of the narrowest bracket, in nanoseconds.
    pub narrowest_ns: Option<u64>,
    /// The CPU on which the source was measured; `None` if it is unknown, or if the thread was on another CPU at the
    /// end.
    pub cpu: Option<usize>,
}

impl Calibration {
    /// Returns the worst-case error of [`frequency`](Self::frequency) relative to the reference, in parts per million;
    /// `None` if there are no limits. The error of the reference itself is not included: `monotonic` follows the time
    /// servers of the machine, and `monotonic-raw` the same crystal as most counters, at the rate that the kernel measured
    /// at boot. The bound holds as long as the source and the reference run at a constant rate.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, calibrate, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("nanoseconds"));
    /// let exact = calibrate::stated(&info.clone().with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition));
    /// let roughly = calibrate::stated(&info.with_nominal(Frequency::GIGAHERTZ, StatedBy::BogoMips));
    /// assert_eq!(exact.and_then(|calibration| calibration.bound_ppm()), Some(0.0));
    /// assert_eq!(roughly.and_then(|calibration| calibration.bound_ppm()), None);
    /// ```
    #[must_use]
    pub fn bound_ppm(&self) -> Option<f64> {
        self.limits.map(|limits| Fit { frequency: self.frequency, limits }.bound_ppm())
    }

    /// Returns the frequency error relative to the nominal frequency, in parts per million; `None` if the source has no
    /// nominal frequency.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_core::{Host, PosixClock, PosixId, calibrate, source};
    ///
    /// let host = Host::live();
    /// let counter = source::choose(&host)?.source;
    /// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
    /// let calibration = calibrate::calibrate(&counter, &reference, Duration::from_millis(10))?;
    /// if let Some(error) = calibration.error_ppm() {
    ///     println!("{error:+.1} ppm from the frequency that the machine states");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn error_ppm(&self) -> Option<f64> {
        self.nominal.map(|nominal| self.frequency.error_ppm(nominal.frequency))
    }

    /// Returns the scale that converts ticks to nanoseconds.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Frequency, SourceId, SourceInfo, calibrate, source::StatedBy};
    ///
    /// let info = SourceInfo::new(SourceId::new("fpga")).with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
    /// let calibration = calibrate::stated(&info).expect("a frequency is stated");
    /// assert_eq!(calibration.scale().nanos(7), 7_000);
    /// ```
    #[must_use]
    pub fn scale(&self) -> Scale {
        Scale::of(self.frequency)
    }
}

impl std::fmt::Display for Calibration {
    /// Formats the source, its frequency and its error bound, and the reference if it was measured.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.source, self.frequency)?;
        match self.bound_ppm() {
            Some(bound) => write!(f, ", at most {bound:.3} ppm off")?,
            None => f.write_str(", without a bound")?,
        }
        match &self.reference {
            Some(reference) => write!(f, ", measured against {reference}"),
            None => f.write_str(", as stated"),
        }
    }
}

/// The reason a source cannot be calibrated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CalibrateError {
    /// The source counts CPU time or core cycles, not elapsed time.
    NotATimeCounter(Scope),
    /// The reference counts CPU time or core cycles, not elapsed time.
    ReferenceNotATimeCounter {
        /// The reference.
        id: SourceId,
        /// Its scope.
        scope: Scope,
    },
    /// The reference does not advance.
    ReferenceStandsStill(SourceId),
    /// The reference has no nominal frequency, so its ticks cannot be converted to time.
    ReferenceWithoutRate(SourceId),
    /// A reading was lower than the previous one.
    SteppedBack,
    /// The readings do not yield a frequency.
    Fit(FitError),
}

impl std::fmt::Display for CalibrateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotATimeCounter(scope) => write!(
                f,
                "it is a per-{} counter that does not count elapsed time, so it has no rate relative to a clock",
                scope.name()
            ),
            Self::ReferenceNotATimeCounter { id, scope } => write!(
                f,
                "the reference {id} is a per-{} counter that does not count elapsed time; choose one of the kernel's clocks",
                scope.name()
            ),
            Self::ReferenceStandsStill(id) => write!(f, "the reference {id} does not advance"),
            Self::ReferenceWithoutRate(id) => {
                write!(f, "the reference {id} has no stated frequency; choose one of the kernel's clocks")
            }
            Self::SteppedBack => f.write_str("it stepped back during the window"),
            Self::Fit(cause) => std::fmt::Display::fmt(cause, f),
        }
    }
}

impl std::error::Error for CalibrateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Fit(cause) => std::error::Error::source(cause),
            _ => None,
        }
    }
}

impl From<FitError> for CalibrateError {
    fn from(cause: FitError) -> Self {
        Self::Fit(cause)
    }
}

/// Calibrates one source against `reference` over the duration `window`.
///
/// # Errors
///
/// Returns [`CalibrateError`] if the window is too short for the source's granularity, if the source was stepped or
/// does not count elapsed time, or if the reference is unsuitable.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use hpt_core::{Host, PosixClock, PosixId, calibrate, source};
///
/// let host = Host::live();
/// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
/// let source = source::choose(&host)?.source;
/// let calibration = calibrate::calibrate(&source, &reference, Duration::from_millis(10))?;
/// println!("{} ± {:?} ppm", calibration.frequency, calibration.bound_ppm());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn calibrate<S, R>(source: &S, reference: &R, window: Duration) -> Result<Calibration, CalibrateError>
where
    S: TimeSource + ?Sized,
    R: TimeSource + ?Sized,
{
    let mut results = calibrate_together(&[&source], &reference, window, || ControlFlow::Continue(()));
    results.pop().expect("there is one result per source")
}

/// Calibrates several sources in the same window by reading them in turn. The window ends early if `check` returns
/// [`ControlFlow::Break`]; the limits are then based on the readings taken so far.
///
/// The results are in the order of `sources`. `check` is called between readings, never within a bracket.
///
/// # Examples
///
/// ```
/// use std::{ops::ControlFlow, time::Duration};
/// use hpt_core::{Host, PosixClock, PosixId, TimeSource, calibrate, source};
///
/// let host = Host::live();
/// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
/// let (counter, wall) = (source::choose(&host)?.source, source::open(&host, "realtime")?);
/// let sources: [&dyn TimeSource; 2] = [&counter, &wall];
/// let check = || ControlFlow::Continue(());
/// for result in calibrate::calibrate_together(&sources, &reference, Duration::from_millis(10), check) {
///     match result {
///         Ok(calibration) => println!("{calibration}"),
///         Err(reason) => println!("not calibrated: {reason}"),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn calibrate_together(
    sources: &[&dyn TimeSource],
    reference: &dyn TimeSource,
    window: Duration,
    mut check: impl FnMut() -> ControlFlow<()>,
) -> Vec<Result<Calibration, CalibrateError>> {
    let all_fail = |reason: CalibrateError| sources.iter().map(|_| Err(reason.clone())).collect();
    let id = || reference.info().id.clone();
    let Some(reference_scale) = reference.info().nominal_scale() else {
        return all_fail(CalibrateError::ReferenceWithoutRate(id()));
    };
    if let scope @ (Scope::Process | Scope::Thread | Scope::Core) = reference.info().scope {
        return all_fail(CalibrateError::ReferenceNotATimeCounter { id: id(), scope });
    }
    let window_ns = saturating_nanos(window);
    let mut collectors: Vec<_> = sources
        .iter()
        .map(|source| {
            pair::Collector::new(source.info().width, source.info().nominal.map(|nominal| nominal.frequency), window_ns)
        })
        .collect();
    let reference_ns = reference_granule_ns(reference, reference_scale);
    let granules: Vec<_> =
        sources.iter().map(|source| Granules { source_ticks: granule_ticks(*source), reference_ns }).collect();
    let mut line = Reference::new(reference);
    let start_ns = line.now_ns();
    let cpu = process::current_cpu();
    let (mut now_ns, mut closing) = (start_ns, 0);
    for round in 1_u64.. {
        closing += u64::from(now_ns.wrapping_sub(start_ns) >= window_ns);
        for (source, collector) in sources.iter().zip(&mut collectors) {
            let pair = line.pair(*source);
            collector.offer(pair);
            now_ns = pair.after_ns;
        }
        // If the thread is preempted, the window may be over after one round. Reading then continues until there are
        // enough rounds to compare.
        let over = closing >= CLOSING_ROUNDS && round >= FEWEST_ROUNDS;
        if line.stood_still_for(REFERENCE_STANDS_STILL) {
            return all_fail(CalibrateError::ReferenceStandsStill(id()));
        }
        if sources.is_empty() || over || check().is_break() {
            break;
        }
    }
    let cpu = cpu.filter(|&cpu| process::current_cpu() == Some(cpu));
    sources
        .iter()
        .zip(collectors)
        .zip(granules)
        .map(|((source, collector), granules)| conclude(*source, reference, &collector, granules, cpu))
        .collect()
}

fn conclude(
    source: &dyn TimeSource,
    reference: &dyn TimeSource,
    collector: &pair::Collector,
    granules: Granules,
    cpu: Option<usize>,
) -> Result<Calibration, CalibrateError> {
    let info = source.info();
    if matches!(info.scope, Scope::Process | Scope::Thread | Scope::Core) {
        return Err(CalibrateError::NotATimeCounter(info.scope));
    }
    if collector.stepped_back() {
        return Err(CalibrateError::SteppedBack);
    }
    let lags = (info.is_moved_by_the_tick(), reference.info().is_moved_by_the_tick());
    let (pairs, granules) = if info.is_moved_by_the_tick() {
        // A reading lags by less than the step that follows it, plus the part of a tick that the kernel does not add to
        // the clock until the next tick. A reading that no step follows may lag by more.
        let source_ticks = collector.largest_step().saturating_add(info.claimed_resolution_ticks());
        (collector.followed_pairs(), Granules { source_ticks, ..granules })
    } else {
        (collector.pairs(), granules)
    };
    let bounded = fit(&pairs, granules);
    let fitted = bounded.or_else(|_| fit_lagging(&pairs, granules, lags))?;
    Ok(Calibration {
        source: info.id.clone(),
        method: Method::Bracketed,
        reference: Some(reference.info().id.clone()),
        frequency: fitted.frequency,
        // The lag of the reference is not known. If the readings contradict each other, neither is that of the source.
        limits: bounded.ok().filter(|_| !lags.1).map(|fit| fit.limits),
        nominal: info.nominal,
        window_ns: pairs
            .last()
            .zip(pairs.first())
            .map_or(0, |(last, first)| last.after_ns.wrapping_sub(first.before_ns)),
        pairs: pairs.len(),
        narrowest_ns: collector.narrowest_ns(),
        cpu,
    })
}

/// Computes a [`fit`] for a source or a reference that advances with the kernel's tick. If no rate fits the readings, a
/// tick may have been later than assumed. The assumed lag is then doubled, and the fit is repeated.
fn fit_lagging(pairs: &[Pair], granules: Granules, (source, reference): (bool, bool)) -> Result<Fit, FitError> {
    let first = fit(pairs, granules);
    let mut granules = granules;
    let mut fitted = first;
    while fitted == Err(FitError::NotConstant) && (source || reference) {
        let wider = |granule: u64, lags: bool| if lags { granule.max(1).saturating_mul(2) } else { granule };
        granules = Granules {
            source_ticks: wider(granules.source_ticks, source),
            reference_ns: wider(granules.reference_ns, reference),
        };
        fitted = fit(pairs, granules);
    }
    // If late ticks do not explain the contradiction, the clock was set, and the first error is returned.
    fitted.or(first)
}

impl Granules {
    /// Returns the granules of a source and of a reference. If the reference has no nominal frequency, each of its ticks
    /// counts as one nanosecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PosixClock, PosixId, calibrate::Granules, source};
    ///
    /// let host = Host::live();
    /// let reference = PosixClock::open(&host, PosixId::Monotonic)?;
    /// let granules = Granules::of(&source::choose(&host)?.source, &reference);
    /// println!("{} ticks, {} ns", granules.source_ticks, granules.reference_ns);
    /// # Ok::<(), hpt_core::SourceError>(())
    /// ```
    #[must_use]
    pub fn of(source: &dyn TimeSource, reference: &dyn TimeSource) -> Self {
        let scale = reference.info().nominal_scale().unwrap_or(Scale::of(Frequency::GIGAHERTZ));
        Self { source_ticks: granule_ticks(source), reference_ns: reference_granule_ns(reference, scale) }
    }
}

fn reference_granule_ns(reference: &dyn TimeSource, scale: Scale) -> u64 {
    if reference.info().is_moved_by_the_tick() {
        scale.nanos(reference.info().claimed_resolution_ticks()).saturating_mul(LATENESS)
    } else {
        pair::granule_ns(reference, scale)
    }
}

/// Returns the largest lag of a reading, in ticks. This is the granule that back-to-back reads reveal or, for a clock
/// that advances with the kernel's tick, a small multiple of its stated resolution.
fn granule_ticks(source: &dyn TimeSource) -> u64 {
    if source.info().is_moved_by_the_tick() {
        source.info().claimed_resolution_ticks().saturating_mul(LATENESS)
    } else {
        pair::granule_ticks(source)
    }
}

/// The largest lag that is assumed for a clock that advances with the kernel's tick, in tick periods. One period is the
/// length of the tick itself; the rest allows for a late tick.
const LATENESS: u64 = 2;

#[cfg(test)]
mod tests {
    use std::{
        ops::ControlFlow,
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use proptest::{collection::vec, prelude::ProptestConfig, prop_assert, proptest};

    use super::{CalibrateError, FitError, Granules, Pair, calibrate, calibrate_together, fit, fit_lagging};
    use crate::{
        source::{Scope, SourceId, SourceInfo, TimeSource},
        testing::ManualSource,
    };

    #[test]
    fn a_tick_many_periods_late_still_yields_a_rate() {
        const MS: u64 = 1_000_000;
        // A 4 ms tick; the ticks that are due from 100 ms on arrive at 117 ms.
        let shown =
            |now_ns: u64| if (100 * MS..117 * MS).contains(&now_ns) { 96 * MS } else { now_ns / (4 * MS) * (4 * MS) };
        let pairs: Vec<Pair> = (0..300)
            .map(|round| Pair { before_ns: round * MS, ticks: shown(round * MS + 50), after_ns: round * MS + 100 })
            .collect();
        let granules = Granules { source_ticks: 8 * MS, reference_ns: 1 };
        assert_eq!(fit(&pairs, granules), Err(FitError::NotConstant));
        let fitted = fit_lagging(&pairs, granules, (true, false)).expect("a rate");
        assert!((fitted.frequency.hertz_f64() / 1e9 - 1.0).abs() < 0.1, "{}", fitted.frequency);
        assert_eq!(fit_lagging(&pairs, granules, (false, false)), Err(FitError::NotConstant));
    }

    #[test]
    fn a_source_that_advances_with_its_reference_is_calibrated() {
        // Each read advances its clock by 100 ns. A round reads the reference twice and the source once, so the source
        // has half the rate.
        let reference = ManualSource::new("reference").with_step(100);
        let source = ManualSource::new("source").with_step(100);
        let calibration = calibrate(&source, &reference, Duration::from_millis(10)).expect("a constant-rate source");
        let limits = calibration.limits.expect("measured");
        assert!(limits.lowest.hertz() <= 500_000_000 && limits.highest.hertz() >= 500_000_000, "{calibration:?}");
        assert!(calibration.error_ppm().is_some_and(|error_ppm| (error_ppm + 500_000.0).abs() < 1_000.0));
    }

    #[test]
    fn cpu_time_is_not_calibrated() {
        let mut info = SourceInfo::new(SourceId::new("cpu time"));
        info.scope = Scope::Thread;
        let reference = ManualSource::new("reference").with_step(100);
        let source = ManualSource::with_info(info).with_step(10);
        assert_eq!(
            calibrate(&source, &reference, Duration::from_micros(10)),
            Err(CalibrateError::NotATimeCounter(Scope::Thread))
        );
    }

    #[test]
    fn a_reference_that_is_not_a_clock_or_has_stopped_is_refused() {
        let mut info = ManualSource::new("cpu time").info().clone();
        info.scope = Scope::Process;
        let cpu_time = ManualSource::with_info(info).with_step(10);
        let source = ManualSource::new("source").with_step(1);
        let refused = calibrate(&source, &cpu_time, Duration::from_micros(10));
        assert!(matches!(refused, Err(CalibrateError::ReferenceNotATimeCounter { .. })), "{refused:?}");
        let refused = calibrate(&source, &ManualSource::new("still"), Duration::from_micros(10));
        assert!(matches!(refused, Err(CalibrateError::ReferenceStandsStill(_))), "{refused:?}");
    }

    #[test]
    fn a_reference_that_advances_with_the_tick_yields_a_rate_but_no_bound() {
        let mut info = ManualSource::new("coarse").info().clone();
        info.claimed_resolution_ns = Some(1_000);
        let source = ManualSource::new("source").with_step(100);
        let coarse = ManualSource::with_info(info).with_step(100);
        let calibration = calibrate(&source, &coarse, Duration::from_millis(10)).expect("both advance");
        assert_eq!(calibration.bound_ppm(), None);
    }

    /// A clock that advances at ticks, which may be late, and then by whole periods only.
    #[derive(Debug)]
    struct Ticking<'a> {
        clock: &'a ManualSource,
        /// The times of the ticks, in nanoseconds, in ascending order.
        at_ns: Vec<u64>,
        info: SourceInfo,
    }

    const TICK_NS: u64 = 1_000_000;

    impl TimeSource for Ticking<'_> {
        fn ticks(&self) -> u64 {
            let now_ns = self.clock.ticks();
            let last = self.at_ns[..self.at_ns.partition_point(|&at_ns| at_ns <= now_ns)].last();
            last.map_or(0, |at_ns| at_ns / TICK_NS * TICK_NS)
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_bound_of_a_clock_that_advances_with_late_ticks_holds(
            late_ns in vec(0_u64..3 * TICK_NS, 110),
            stop_ms in 40_u64..100,
        ) {
            let clock = ManualSource::new("reference").with_step(2_000);
            let mut info = clock.info().clone();
            info.claimed_resolution_ns = Some(TICK_NS);
            let mut at_ns: Vec<u64> = (1..).zip(&late_ns).map(|(tick, late_ns)| tick * TICK_NS + late_ns).collect();
            // A kernel that is idle delivers no tick for a time, here until after the window.
            at_ns.retain(|&at_ns| at_ns < stop_ms * TICK_NS);
            at_ns.sort_unstable();
            let ticking = Ticking { clock: &clock, at_ns, info };
            if let Ok(calibration) = calibrate(&ticking, &clock, Duration::from_millis(100)) {
                let limits = calibration.limits.expect("no reading contradicts the bound");
                prop_assert!(
                    limits.lowest.hertz() <= 1_000_000_000 && limits.highest.hertz() >= 1_000_000_000, "{calibration:?}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_advances_with_the_tick_has_a_bound_of_a_few_ticks() {
        let clock = ManualSource::new("reference").with_step(2_000);
        let mut info = clock.info().clone();
        info.claimed_resolution_ns = Some(TICK_NS);
        let ticking = Ticking { clock: &clock, at_ns: (1..=1_100).map(|tick| tick * TICK_NS).collect(), info };
        let calibration = calibrate(&ticking, &clock, Duration::from_secs(1)).expect("a thousand ticks");
        // Two ticks of a millisecond in a second, at most.
        assert!(calibration.bound_ppm().is_some_and(|ppm| (1_000.0..3_000.0).contains(&ppm)), "{calibration:?}");
    }

    #[test]
    fn a_reference_without_a_rate_is_refused() {
        let reference = ManualSource::with_info(SourceInfo::new(SourceId::new("unknown"))).with_step(1);
        let source = ManualSource::new("source").with_step(1);
        assert!(matches!(
            calibrate(&source, &reference, Duration::from_micros(1)),
            Err(CalibrateError::ReferenceWithoutRate(_))
        ));
    }

    /// A source that simulates a thread that loses its CPU at the hundred-thousandth reading, for the rest of the
    /// window.
    #[derive(Debug)]
    struct Torn<'a> {
        clock: &'a ManualSource,
        readings: AtomicU32,
        info: SourceInfo,
    }

    impl TimeSource for Torn<'_> {
        fn ticks(&self) -> u64 {
            if self.readings.fetch_add(1, Ordering::Relaxed) == 100_000 {
                self.clock.advance(100_000_000);
            }
            self.clock.ticks()
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    #[test]
    fn a_window_that_ends_during_a_preemption_is_still_closed() {
        let clock = ManualSource::new("reference").with_step(100);
        let torn = Torn { clock: &clock, readings: AtomicU32::new(0), info: clock.info().clone() };
        let calibration = calibrate(&torn, &clock, Duration::from_millis(100)).expect("it is the same clock");
        assert!(calibration.window_ns >= 100_000_000, "{calibration:?}");
        assert!(calibration.bound_ppm().is_some_and(|bound_ppm| bound_ppm < 10.0), "{calibration:?}");
    }

    #[test]
    fn a_stopped_window_ends_at_once_with_the_pairs_so_far() {
        let reference = ManualSource::new("reference").with_step(100);
        let source = ManualSource::new("source").with_step(100);
        let mut rounds = 0;
        let sources: [&dyn TimeSource; 1] = [&source];
        let results = calibrate_together(&sources, &reference, Duration::from_secs(1000), || {
            rounds += 1;
            if rounds < 10_000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        assert_eq!(rounds, 10_000);
        let limits = results[0].as_ref().expect("ten thousand rounds").limits.expect("measured limits");
        assert!(limits.lowest.hertz() <= 500_000_000 && limits.highest.hertz() >= 500_000_000, "{limits:?}");
    }
}
