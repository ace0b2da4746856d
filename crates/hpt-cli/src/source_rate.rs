//! The frequency of a source whose readings are converted to nanoseconds.

use std::time::Duration;

use hpt_core::{
    Calibration, Frequency, TimeSource,
    calibrate::{self, CalibrateError},
    source::{self, StatedBy},
};
use hpt_document::bench::FrequencyOrigin;

use crate::cycle_counters::counts_cycles;

/// The calibration time of a source with unknown frequency.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(50);

/// A frequency with its origin and its error bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub(crate) frequency: Frequency,
    /// The origin of the frequency, as documents name it: `definition`, `saved` or `measured`.
    pub(crate) origin: FrequencyOrigin,
    pub(crate) bound_ppm: Option<f64>,
}

impl Rate {
    /// Returns the frequency of a source if it is fixed by definition, as for the kernel's clocks.
    pub(crate) fn by_definition(source: &dyn TimeSource) -> Option<Self> {
        let nominal = source.info().nominal.filter(|nominal| nominal.stated_by == StatedBy::Definition)?;
        Some(Self { frequency: nominal.frequency, origin: FrequencyOrigin::Definition, bound_ppm: Some(0.0) })
    }

    /// Returns the frequency from a saved calibration.
    pub(crate) fn kept(calibration: &Calibration) -> Self {
        Self { origin: FrequencyOrigin::Saved, ..Self::of(calibration) }
    }

    /// Measures the frequency against `reference` for `window`.
    pub(crate) fn measured(
        source: &dyn TimeSource,
        reference: &dyn TimeSource,
        window: Duration,
    ) -> Result<Self, CalibrateError> {
        calibrate::calibrate(source, reference, window).map(|calibration| Self::of(&calibration))
    }

    fn of(calibration: &Calibration) -> Self {
        Self { frequency: calibration.frequency, origin: FrequencyOrigin::Measured, bound_ppm: calibration.bound_ppm() }
    }
}

/// Returns the frequency of a source by definition, or measures the frequency if none is defined. For a cycle counter,
/// returns the frequency of a busy core.
pub(crate) fn frequency_of(source: &dyn TimeSource, reference: &dyn TimeSource) -> Option<Frequency> {
    if counts_cycles(source) {
        return source::busy_rate(source);
    }
    let measured = || Rate::measured(source, reference, CALIBRATION_WINDOW).ok();
    Rate::by_definition(source).or_else(measured).map(|rate| rate.frequency)
}
