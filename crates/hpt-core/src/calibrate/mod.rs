//! How fast a source ticks, and between which limits.
//! Keeps nothing on disk: `state` does, for those who want it.

mod fit;
mod pair;
mod stated;

use std::time::Duration;

pub use self::{
    fit::{Fit, FitError, Granules, fit},
    stated::stated,
};
use crate::{
    scale::Scale,
    source::{Pair, Scope, SourceId, TimeSource},
    sys::process,
    units::Frequency,
};

/// Rounds of readings below which a window is not over.
const FEWEST_ROUNDS: u64 = 64;

/// How a frequency was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum Method {
    /// Somebody states it.
    Stated,
    /// Measured against a reference by bracketed readings.
    Bracketed,
}

impl Method {
    /// Its name in tables and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stated => "stated",
            Self::Bracketed => "bracketed",
        }
    }
}

/// How fast a source ticks.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Calibration {
    /// The source.
    pub source: SourceId,
    /// How it was found.
    pub method: Method,
    /// What it was measured against.
    pub reference: Option<SourceId>,
    /// The frequency, in µHz where it is written down.
    pub frequency: Frequency,
    /// The slowest and the fastest rate that the readings allow: a bound, not a standard uncertainty. `None` where nothing was measured
    /// and nothing follows from a definition.
    pub limits: Option<(Frequency, Frequency)>,
    /// What is stated of the source.
    pub nominal: Option<Frequency>,
    /// The time between the first and the last reading used, in nanoseconds of the reference.
    pub window_ns: u64,
    /// How many pairs the frequency rests on.
    pub pairs: usize,
    /// The width of the narrowest bracket, in nanoseconds.
    pub narrowest_ns: Option<u64>,
    /// The CPU it was measured on, where the thread was still on it at the end.
    pub cpu: Option<usize>,
}

impl Calibration {
    /// The true frequency is within this many parts per million of [`frequency`](Self::frequency), as long as neither the source nor the
    /// reference changes its rate.
    #[must_use]
    pub fn bound_ppm(&self) -> Option<f64> {
        self.limits.map(|(slowest, fastest)| Fit { frequency: self.frequency, slowest, fastest }.bound_ppm())
    }

    /// How far the frequency is from what is stated, in parts per million.
    #[must_use]
    pub fn error_ppm(&self) -> Option<f64> {
        self.nominal.map(|nominal| self.frequency.error_ppm(nominal))
    }

    /// The scale from ticks to nanoseconds.
    #[must_use]
    pub fn scale(&self) -> Scale {
        Scale::of(self.frequency)
    }
}

/// Why a source could not be calibrated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// It counts CPU time, or events, not time.
    #[error("it counts per {}, not time: it has no rate against a clock", .0.name())]
    NotATimeCounter(Scope),
    /// The reference has no stated rate, so its ticks cannot be read as time.
    #[error("the reference {0} has no stated frequency; choose one of the kernel's clocks")]
    ReferenceWithoutRate(SourceId),
    /// A reading was smaller than the one before.
    #[error("it stepped back during the window")]
    SteppedBack,
    /// The readings allow no rate.
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// Calibrates one source against `reference` for `window`.
///
/// # Errors
///
/// [`CalibrateError`]: too short a window for the source's granularity, a source that was stepped, one that counts no time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use hpt_core::{Host, PosixClock, PosixId, calibrate, source};
///
/// let host = Host::live();
/// let reference = PosixClock::open(&host, PosixId::MonotonicRaw)?;
/// let (source, _) = source::choose(&host)?;
/// let calibration = calibrate::calibrate(source.as_dyn(), &reference, Duration::from_millis(10))?;
/// println!("{} ± {:?} ppm", calibration.frequency, calibration.bound_ppm());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn calibrate<S, R>(source: &S, reference: &R, window: Duration) -> Result<Calibration, CalibrateError>
where
    S: TimeSource + ?Sized,
    R: TimeSource + ?Sized,
{
    let mut results = calibrate_together(&[&source], &reference, window, || true);
    results.pop().expect("one source was given")
}

/// Calibrates several sources in the same window, reading them in turn, until `keep_going` says no; a window cut short gives what it allows.
///
/// The results stand in the order of `sources`. `keep_going` is asked between readings, never within a bracket.
pub fn calibrate_together(
    sources: &[&dyn TimeSource],
    reference: &dyn TimeSource,
    window: Duration,
    mut keep_going: impl FnMut() -> bool,
) -> Vec<Result<Calibration, CalibrateError>> {
    let Some(reference_scale) = reference.info().nominal_scale() else {
        let reason = CalibrateError::ReferenceWithoutRate(reference.info().id.clone());
        return sources.iter().map(|_| Err(reason.clone())).collect();
    };
    let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
    let mut collectors: Vec<_> = sources
        .iter()
        .map(|source| {
            pair::Collector::new(source.info().width, source.info().nominal.map(|nominal| nominal.frequency), window_ns)
        })
        .collect();
    let reference_granule = pair::granule_ns(reference, reference_scale);
    let granules: Vec<_> = sources
        .iter()
        .map(|source| Granules { source_ticks: granule_ticks(*source), reference_ns: reference_granule })
        .collect();
    let start_ns = reference_scale.nanoseconds(reference.ticks_end());
    let cpu = process::current_cpu();
    for round in 1_u64.. {
        let mut now_ns = start_ns;
        for (source, collector) in sources.iter().zip(&mut collectors) {
            let pair = Pair::take(*source, reference, reference_scale);
            collector.offer(pair);
            now_ns = pair.after_ns;
        }
        // A thread that the CPU was taken from may find the window over after one round: it reads on until there is enough to compare.
        let over = now_ns.wrapping_sub(start_ns) >= window_ns && round >= FEWEST_ROUNDS;
        if sources.is_empty() || over || !keep_going() {
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
    if matches!(info.scope, Scope::Process | Scope::Thread) {
        return Err(CalibrateError::NotATimeCounter(info.scope));
    }
    if collector.stepped_back() {
        return Err(CalibrateError::SteppedBack);
    }
    let pairs = collector.pairs();
    let fitted = fit(&pairs, granules)?;
    Ok(Calibration {
        source: info.id.clone(),
        method: Method::Bracketed,
        reference: Some(reference.info().id.clone()),
        frequency: fitted.frequency,
        limits: Some((fitted.slowest, fitted.fastest)),
        nominal: info.nominal.map(|nominal| nominal.frequency),
        window_ns: pairs
            .last()
            .zip(pairs.first())
            .map_or(0, |(last, first)| last.after_ns.wrapping_sub(first.before_ns)),
        pairs: pairs.len(),
        narrowest_ns: collector.narrowest_ns(),
        cpu,
    })
}

/// How far a reading may lag behind what it counts: the granule that back-to-back reads show, or twice the claimed resolution of a clock that the kernel's
/// tick moves, because a tick may come late.
fn granule_ticks(source: &dyn TimeSource) -> u64 {
    let info = source.info();
    let claimed = info.claimed_resolution_ns.zip(info.nominal).map_or(0, |(claimed_ns, nominal)| {
        let ticks = u128::from(claimed_ns) * u128::from(nominal.frequency.hertz()) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    });
    if claimed > 1 { claimed.saturating_mul(2) } else { pair::granule_ticks(source) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CalibrateError, calibrate, calibrate_together};
    use crate::{
        source::{Scope, SourceId, SourceInfo, TimeSource},
        testing::ManualSource,
    };

    #[test]
    fn a_source_that_moves_with_its_reference_has_its_rate() {
        // Each read moves its clock by 100 ns; a round reads the reference twice and the source once, so the source's rate is half.
        let reference = ManualSource::nanoseconds("reference").stepping_by(100);
        let source = ManualSource::nanoseconds("source").stepping_by(100);
        let calibration = calibrate(&source, &reference, Duration::from_millis(10)).expect("a steady source");
        let (slowest, fastest) = calibration.limits.expect("measured");
        assert!(slowest.hertz() <= 500_000_000 && fastest.hertz() >= 500_000_000, "{calibration:?}");
        assert!(calibration.error_ppm().is_some_and(|error_ppm| (error_ppm + 500_000.0).abs() < 1_000.0));
    }

    #[test]
    fn cpu_time_is_not_calibrated() {
        let mut info = SourceInfo::new(SourceId::new("cpu time"));
        info.scope = Scope::Thread;
        let reference = ManualSource::nanoseconds("reference").stepping_by(100);
        let source = ManualSource::with_info(info).stepping_by(10);
        assert_eq!(
            calibrate(&source, &reference, Duration::from_micros(10)),
            Err(CalibrateError::NotATimeCounter(Scope::Thread))
        );
    }

    #[test]
    fn a_reference_without_a_rate_is_refused() {
        let reference = ManualSource::with_info(SourceInfo::new(SourceId::new("unknown"))).stepping_by(1);
        let source = ManualSource::nanoseconds("source").stepping_by(1);
        assert!(matches!(
            calibrate(&source, &reference, Duration::from_micros(1)),
            Err(CalibrateError::ReferenceWithoutRate(_))
        ));
    }

    #[test]
    fn a_stopped_window_ends_at_once_with_what_it_has() {
        let reference = ManualSource::nanoseconds("reference").stepping_by(100);
        let source = ManualSource::nanoseconds("source").stepping_by(100);
        let mut rounds = 0;
        let sources: [&dyn TimeSource; 1] = [&source];
        let results = calibrate_together(&sources, &reference, Duration::from_secs(1000), || {
            rounds += 1;
            rounds < 10_000
        });
        assert!(rounds == 10_000 && results.len() == 1);
    }
}
