//! Measures time with a source of hpt-core. Calibrates the source when the first value is converted to nanoseconds.

use std::{cell::OnceCell, fmt, rc::Rc, time::Duration};

use criterion::measurement::{Measurement, ValueFormatter};
use hpt_core::{
    Frequency, Host, Opened, PosixClock, PosixId, SourceError, SourceId, SourceInfo, TimeSource, Width,
    calibrate::calibrate,
    source::{self, Nominal, Quantity, StatedBy},
};

use crate::{
    format::Nanoseconds,
    laps::{Laps, Overhead},
};

/// The time for which a source is compared with the kernel's clock, if its rate does not follow from its definition.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(20);

/// Measures time with a source of hpt-core.
///
/// The clock is read with [`ticks_start`](TimeSource::ticks_start) and [`ticks_end`](TimeSource::ticks_end), so the
/// processor cannot move the work out of the measured interval.
///
/// The overhead of the two reads is subtracted from every interval. An interval can therefore be negative by about the
/// granularity of the source. A sample whose result would be exactly zero counts as a thousandth of a tick instead,
/// because Criterion discards benchmarks with a sample of zero.
///
/// Creating this value calibrates nothing. The overhead, the granularity and, if necessary, the frequency are measured
/// when Criterion needs the first result in nanoseconds, which takes about 20 ms. They are then printed once on
/// standard error; [`report`](Self::report) returns them. `cargo bench -- --list` measures nothing.
///
/// Clones share the calibration. Use a clone to return values from `Bencher::iter_custom`.
///
/// # Panics
///
/// Converting a value panics with the reason if the source states no frequency and its frequency cannot be measured.
/// State it with [`with_frequency`](Self::with_frequency). Criterion has no way to return an error.
///
/// # Examples
///
/// ```
/// use criterion::{Criterion, measurement::Measurement};
/// use hpt_core::{Host, PosixClock, PosixId};
/// use hpt_criterion::Time;
///
/// let time = Time::new(PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?)?;
/// let mut criterion = Criterion::default().with_measurement(time.clone());
/// let lap = time.end(time.start());
/// println!("an empty interval takes {} ns; {}", time.to_f64(&lap), time.report());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Time<S> {
    source: Rc<S>,
    stated: Option<Frequency>,
    includes_overhead: bool,
    is_silent: bool,
    calibrated: Rc<OnceCell<Calibrated>>,
}

impl<S> Clone for Time<S> {
    fn clone(&self) -> Self {
        Self { source: Rc::clone(&self.source), calibrated: Rc::clone(&self.calibrated), ..*self }
    }
}

/// The reason why a source cannot measure the time of a benchmark.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The source cannot be opened. The text also has the fix, if there is one.
    #[error("{_0}{}", _0.remedy().map_or_else(String::new, |fix| format!(": {fix}")))]
    Unavailable(#[from] SourceError),
    /// The counter wraps within ten years, so a long benchmark could be shown as a short one.
    #[error("{source_id} has {width} bits and wraps every {wraps_after:?}: widen it with hpt_core::Widened")]
    TooNarrow {
        /// The source.
        source_id: SourceId,
        /// Its width.
        width: Width,
        /// The time until it wraps.
        wraps_after: Duration,
    },
    /// The source counts core cycles, whose rate is not constant.
    #[error("{source_id} counts core cycles, which are not time: use hpt_criterion::Cycles")]
    NotTime {
        /// The source.
        source_id: SourceId,
    },
}

/// How the frequency of a source was determined.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Rate {
    /// It follows from the definition of the source.
    Defined(Frequency),
    /// The program stated it with [`Time::with_frequency`].
    Stated(Frequency),
    /// It was measured against `CLOCK_MONOTONIC_RAW`.
    Calibrated {
        /// The measured frequency.
        frequency: Frequency,
        /// The worst-case error in parts per million, if it is known.
        bound_ppm: Option<f64>,
    },
    /// It could not be measured, so the nominal frequency is used.
    Nominal {
        /// The nominal frequency.
        nominal: Nominal,
        /// The reason why the frequency could not be measured.
        reason: String,
    },
    /// It could not be measured, and the source states no nominal frequency.
    Unknown {
        /// The reason why the frequency could not be measured.
        reason: String,
    },
}

impl Rate {
    fn frequency(&self) -> Option<Frequency> {
        match self {
            Self::Defined(frequency) | Self::Stated(frequency) | Self::Calibrated { frequency, .. } => Some(*frequency),
            Self::Nominal { nominal, .. } => Some(nominal.frequency),
            Self::Unknown { .. } => None,
        }
    }

    fn of(source: &dyn TimeSource) -> Self {
        let nominal = match source.info().nominal {
            Some(nominal) if nominal.stated_by == StatedBy::Definition => return Self::Defined(nominal.frequency),
            nominal => nominal,
        };
        let measured =
            PosixClock::open(&Host::live(), PosixId::MonotonicRaw).map_err(|reason| reason.to_string()).and_then(
                |reference| calibrate(source, &reference, CALIBRATION_WINDOW).map_err(|reason| reason.to_string()),
            );
        match (measured, nominal) {
            (Ok(measured), _) => Self::Calibrated { frequency: measured.frequency, bound_ppm: measured.bound_ppm() },
            (Err(reason), Some(nominal)) => Self::Nominal { nominal, reason },
            (Err(reason), None) => Self::Unknown { reason },
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(frequency) = self.frequency() else {
            let Self::Unknown { reason } = self else { return Ok(()) };
            return write!(f, "at an unknown frequency: {reason}");
        };
        write!(f, "at {:.6} MHz", frequency.hertz_f64() / 1e6)?;
        match self {
            Self::Calibrated { bound_ppm: Some(bound), .. } => write!(f, " (measured, at most {bound:.1} ppm off)"),
            Self::Calibrated { bound_ppm: None, .. } => f.write_str(" (measured)"),
            Self::Nominal { nominal, reason } => {
                write!(f, " (stated by: {}; not measured: {reason})", nominal.stated_by.name())
            }
            Self::Defined(_) | Self::Stated(_) | Self::Unknown { .. } => Ok(()),
        }
    }
}

/// The quality of a measurement of time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TimeReport {
    /// The source.
    pub source: SourceId,
    /// Its frequency.
    pub rate: Rate,
    /// The read overhead of one interval, in nanoseconds: the median of a thousand empty intervals.
    pub overhead_ns: f64,
    /// Whether reported values include the overhead.
    pub includes_overhead: bool,
    /// The shortest non-zero empty interval, in nanoseconds. For a counter with short ticks, this is the time of a
    /// read, not the length of a tick.
    pub granularity_ns: f64,
}

impl fmt::Display for TimeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "time by {} {}; overhead {:.1} ns per interval, {}; granularity {:.1} ns",
            self.source,
            self.rate,
            self.overhead_ns,
            if self.includes_overhead { "included" } else { "subtracted" },
            self.granularity_ns
        )
    }
}

#[derive(Debug)]
struct Calibrated {
    report: TimeReport,
    own_cost: u64,
    tick_ns: Option<f64>,
}

impl<S: TimeSource> Time<S> {
    /// Measures time with `source`, which may also be a reference.
    ///
    /// # Errors
    ///
    /// Returns [`TimeError`] if the source counts cycles, or wraps within ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, SourceId, SourceInfo, Width, source, testing::ManualSource};
    /// use hpt_criterion::{Time, TimeError};
    ///
    /// let time = Time::new(source::open(&Host::live(), "monotonic")?)?;
    /// assert_eq!(time.name(), "time by monotonic");
    /// let narrow = SourceInfo::new(SourceId::new("narrow")).with_width(Width::BITS_32);
    /// assert!(matches!(Time::new(ManualSource::with_info(narrow)), Err(TimeError::TooNarrow { .. })));
    /// # Ok::<(), TimeError>(())
    /// ```
    pub fn new(source: S) -> Result<Self, TimeError> {
        check(source.info())?;
        Ok(Self {
            source: Rc::new(source),
            stated: None,
            includes_overhead: false,
            is_silent: false,
            calibrated: Rc::default(),
        })
    }

    /// Uses this frequency instead of measuring it, for example from a saved calibration.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::measurement::Measurement;
    /// use hpt_core::{Frequency, testing::ManualSource};
    /// use hpt_criterion::Time;
    ///
    /// let source = ManualSource::new("by hand");
    /// let time = Time::new(&source)?.with_frequency(Frequency::MEGAHERTZ);
    /// let start = time.start();
    /// source.advance(5);
    /// assert_eq!(time.to_f64(&time.end(start)), 5_000.0);
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn with_frequency(self, frequency: Frequency) -> Self {
        Self { stated: Some(frequency), calibrated: Rc::default(), ..self }
    }

    /// Does not subtract the read overhead.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::measurement::Measurement;
    /// use hpt_core::{Frequency, testing::ManualSource};
    /// use hpt_criterion::Time;
    ///
    /// // Each read takes 7 ticks.
    /// let source = ManualSource::new("by hand").with_step(7);
    /// let net = Time::new(&source)?.with_frequency(Frequency::GIGAHERTZ);
    /// let gross = net.clone().with_overhead_included();
    /// let start = net.start();
    /// source.advance(50);
    /// let lap = net.end(start);
    /// assert_eq!((net.to_f64(&lap), gross.to_f64(&lap)), (50.0, 57.0));
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn with_overhead_included(self) -> Self {
        Self { includes_overhead: true, calibrated: Rc::default(), ..self }
    }

    /// Does not print the report.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Time;
    ///
    /// let time = Time::open("monotonic")?.without_output();
    /// // Not on standard error, but still available.
    /// println!("{}", time.report());
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn without_output(self) -> Self {
        Self { is_silent: true, calibrated: Rc::default(), ..self }
    }

    /// Returns the source.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::TimeSource;
    /// use hpt_criterion::Time;
    ///
    /// let time = Time::best()?;
    /// println!("{} bits", time.source().info().width);
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns `time by` and the name of the source, for the name of a benchmark group. Criterion compares a benchmark
    /// with the previous run of the same name, so results of different sources need different names.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Time;
    ///
    /// assert_eq!(Time::open("monotonic")?.name(), "time by monotonic");
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        format!("time by {}", self.source.info().id)
    }

    /// Returns the frequency, the overhead and the granularity. Measures them if necessary.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Frequency;
    /// use hpt_criterion::{Rate, Time};
    ///
    /// let time = Time::open("monotonic")?;
    /// let report = time.report();
    /// println!("{:.1} ns are subtracted from each interval", report.overhead_ns);
    /// assert_eq!(report.rate, Rate::Defined(Frequency::GIGAHERTZ));
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> &TimeReport {
        &self.calibrated().report
    }

    fn calibrated(&self) -> &Calibrated {
        self.calibrated.get_or_init(|| {
            let calibrated = self.calibrate();
            if !self.is_silent {
                eprintln!("hpt-criterion: {}", calibrated.report);
            }
            calibrated
        })
    }

    fn calibrate(&self) -> Calibrated {
        let rate = self.stated.map_or_else(|| Rate::of(&*self.source), Rate::Stated);
        let tick_ns = rate.frequency().map(Frequency::tick_ns_f64);
        let overhead = Overhead::measure(|| self.end(self.start()).ticks());
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        let ns = |ticks: u64| ticks as f64 * tick_ns.unwrap_or(0.0);
        let report = TimeReport {
            source: self.source.info().id.clone(),
            rate,
            overhead_ns: ns(overhead.own_cost),
            includes_overhead: self.includes_overhead,
            granularity_ns: ns(overhead.granularity.unwrap_or(1))
                .max(self.source.info().claimed_resolution_ns.map_or(0.0, nanoseconds)),
        };
        Calibrated { report, own_cost: if self.includes_overhead { 0 } else { overhead.own_cost }, tick_ns }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for printing")]
fn nanoseconds(resolution: u64) -> f64 {
    resolution as f64
}

/// Checks that the ticks of a source are time, and that it does not wrap soon.
fn check(info: &SourceInfo) -> Result<(), TimeError> {
    if info.quantity == Quantity::Cycles {
        return Err(TimeError::NotTime { source_id: info.id.clone() });
    }
    if let Some(wraps_after) = info.longest_difference() {
        return Err(TimeError::TooNarrow { source_id: info.id.clone(), width: info.width, wraps_after });
    }
    Ok(())
}

impl Time<Opened> {
    /// Measures time with the best source of this machine, which [`source::choose`] selects. The choice takes a few
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`TimeError::Unavailable`] if no source is suitable.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::Criterion;
    /// use hpt_criterion::Time;
    ///
    /// let time = Time::best()?;
    /// println!("{}", time.name());
    /// let criterion = Criterion::default().with_measurement(time);
    /// # drop(criterion);
    /// # Ok::<(), hpt_criterion::TimeError>(())
    /// ```
    pub fn best() -> Result<Self, TimeError> {
        let host = Host::live();
        match source::choose(&host) {
            Ok(chosen) => Self::new(chosen.source),
            // Every kernel has this clock. Its error explains a sandbox that forbids it.
            Err(_) => Self::new(Opened::Shared(Box::new(PosixClock::open(&host, PosixId::MonotonicRaw)?))),
        }
    }

    /// Measures time with the source of this name, for example `tsc`, `arm-counter` or `monotonic`. `hpt probe` lists
    /// all sources.
    ///
    /// # Errors
    ///
    /// Returns [`TimeError`] if the source is not available, counts cycles, or wraps within ten years.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Time;
    ///
    /// match Time::open("tsc") {
    ///     Ok(time) => println!("{}", time.name()),
    ///     Err(reason) => println!("no TSC: {reason}"),
    /// }
    /// ```
    pub fn open(name: &str) -> Result<Self, TimeError> {
        Self::new(source::open(&Host::live(), name)?)
    }
}

impl<S: TimeSource> Measurement for Time<S> {
    type Intermediate = u64;
    type Value = Laps;

    #[inline]
    fn start(&self) -> u64 {
        self.source.ticks_start()
    }

    #[inline]
    fn end(&self, start: u64) -> Laps {
        let end = self.source.ticks_end();
        Laps::one(self.source.info().width.signed_difference(start, end))
    }

    #[inline]
    fn add(&self, one: &Laps, other: &Laps) -> Laps {
        one.and(*other)
    }

    fn zero(&self) -> Laps {
        Laps::default()
    }

    /// Returns nanoseconds.
    ///
    /// # Panics
    ///
    /// Panics with the reason if the source states no frequency and its frequency could not be measured.
    fn to_f64(&self, laps: &Laps) -> f64 {
        let Calibrated { report, own_cost, tick_ns } = self.calibrated();
        let Some(tick_ns) = tick_ns else {
            panic!("hpt-criterion: {report}; state the frequency with Time::with_frequency");
        };
        laps.without(*own_cost) * tick_ns
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &Nanoseconds
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the values are exact")]
mod tests {
    use criterion::measurement::Measurement;
    use hpt_core::{
        Frequency, SourceId, SourceInfo, Width,
        source::{Quantity, StatedBy},
        testing::ManualSource,
    };

    use super::{Rate, Time, TimeError};

    const MEGAHERTZ: Frequency = Frequency::from_hertz(1_000_000).expect("not zero");

    fn microseconds() -> ManualSource {
        let info = SourceInfo::new(SourceId::new("microseconds")).with_nominal(MEGAHERTZ, StatedBy::Definition);
        ManualSource::with_info(info)
    }

    #[test]
    fn the_error_has_the_fix() {
        let Err(refused) = Time::open("tcs") else { panic!("there is no such source") };
        let text = refused.to_string();
        assert!(text.starts_with("unknown source \"tcs\": "), "{text}");
    }

    #[test]
    fn an_interval_is_its_time_without_the_overhead() {
        // Each read takes 3 µs.
        let source = microseconds().with_step(3);
        let time = Time::new(&source).expect("64 bits").without_output();
        let start = time.start();
        source.advance(40);
        let lap = time.end(start);
        assert_eq!((lap.ticks(), time.to_f64(&lap)), (43, 40_000.0));
        assert_eq!(time.clone().with_overhead_included().to_f64(&lap), 43_000.0);
        let report = time.report();
        assert_eq!((report.overhead_ns, report.granularity_ns), (3_000.0, 3_000.0));
        assert_eq!(
            report.to_string(),
            "time by microseconds at 1.000000 MHz; overhead 3000.0 ns per interval, subtracted; granularity 3000.0 ns"
        );
    }

    #[test]
    fn the_laps_of_a_sample_each_have_the_overhead() {
        let source = microseconds().with_step(3);
        let time = Time::new(&source).expect("64 bits").without_output();
        let sample = (0..10).fold(time.zero(), |sample, _| time.add(&sample, &time.end(time.start())));
        assert_eq!((sample.ticks(), sample.laps()), (30, 10));
        assert!(time.to_f64(&sample).abs() < 100.0, "less than a tick");
        assert_ne!(time.to_f64(&sample), 0.0);
    }

    #[test]
    fn nothing_is_read_before_the_first_value() {
        let source = microseconds().with_step(1);
        let time = Time::new(&source).expect("64 bits").without_output();
        let (_, _, _) = (time.formatter(), time.name(), time.zero());
        let lap = time.end(time.start());
        assert_eq!(source_reads(&source), 2, "only the lap has read the source");
        time.to_f64(&lap);
        assert!(source_reads(&source) > 2_000);
    }

    /// Returns the number of reads before this one, of a source that each read advances by one.
    fn source_reads(source: &ManualSource) -> u64 {
        hpt_core::TimeSource::ticks(source)
    }

    #[test]
    fn clones_share_one_calibration() {
        let source = microseconds().with_step(1);
        let time = Time::new(&source).expect("64 bits").without_output();
        let clone = time.clone();
        let _ = time.report();
        let reads = source_reads(&source);
        let _ = clone.report();
        assert_eq!(source_reads(&source), reads + 1);
    }

    #[test]
    fn a_stated_frequency_is_not_measured() {
        let source = ManualSource::new("no rate").with_step(2);
        let time = Time::new(&source).expect("64 bits").with_frequency(MEGAHERTZ).without_output();
        assert_eq!(time.report().rate, Rate::Stated(MEGAHERTZ));
        assert_eq!(time.report().overhead_ns, 2_000.0);
    }

    #[test]
    #[should_panic(expected = "state the frequency with Time::with_frequency")]
    fn a_source_without_a_frequency_is_refused_with_a_fix() {
        let source = ManualSource::with_info(SourceInfo::new(SourceId::new("stopped")));
        let time = Time::new(&source).expect("64 bits").without_output();
        time.to_f64(&time.zero());
    }

    #[test]
    fn cycles_and_narrow_counters_are_refused() {
        let cycles = SourceInfo::new(SourceId::new("cycles")).with_quantity(Quantity::Cycles);
        let refused = Time::new(ManualSource::with_info(cycles)).expect_err("no time");
        assert_eq!(refused.to_string(), "cycles counts core cycles, which are not time: use hpt_criterion::Cycles");
        let narrow = SourceInfo::new(SourceId::new("narrow"))
            .with_width(Width::BITS_32)
            .with_nominal(MEGAHERTZ, StatedBy::Definition);
        let refused = Time::new(ManualSource::with_info(narrow)).expect_err("71 minutes");
        assert!(matches!(refused, TimeError::TooNarrow { .. }), "{refused}");
    }
}
