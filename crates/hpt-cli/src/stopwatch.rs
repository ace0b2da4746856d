//! The stopwatch that times single reads.
//! Reads nothing but to find its own rate.

use std::time::Duration;

use hpt_core::{
    Calibration, Frequency, Opened, TimeSource, calibrate,
    source::{self, StatedBy},
    stopwatch::StopwatchError,
};

use crate::{context::Context, exit::Failure};

/// How long a source of unknown rate is calibrated before it times single reads.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(10);
/// A kept calibration whose bound is looser than this is not used.
const LOOSEST_KEPT_PPM: f64 = 10.0;

/// What times single reads.
pub(crate) struct Stopwatch {
    pub(crate) source: Opened,
    pub(crate) frequency: Frequency,
    /// Where the frequency is from.
    pub(crate) origin: &'static str,
    pub(crate) bound_ppm: Option<f64>,
}

/// hpt's choice, whose rate is by definition, by a good calibration kept from this boot, or by one made now.
pub(crate) fn stopwatch(context: &Context, reference: &dyn TimeSource) -> Result<Stopwatch, Failure> {
    let (source, _) =
        source::choose(&context.host).map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
    let info = source.as_dyn().info();
    if let Some(nominal) = info.nominal.filter(|nominal| nominal.stated_by == StatedBy::Definition) {
        return Ok(Stopwatch { source, frequency: nominal.frequency, origin: "definition", bound_ppm: Some(0.0) });
    }
    let good = |calibration: &Calibration| {
        calibration.source == info.id
            && calibration.reference.as_ref() == Some(&reference.info().id)
            && calibration.bound_ppm().is_some_and(|bound_ppm| bound_ppm <= LOOSEST_KEPT_PPM)
    };
    let kept = context.store(None).and_then(|store| context.saved(&store)).unwrap_or_default();
    let (calibration, origin) = match kept.into_iter().find(good) {
        Some(calibration) => (calibration, "kept"),
        None => {
            let measured = calibrate::calibrate(source.as_dyn(), reference, CALIBRATION_WINDOW);
            (measured.map_err(StopwatchError::NotCalibrated)?, "measured")
        }
    };
    Ok(Stopwatch { source, frequency: calibration.frequency, origin, bound_ppm: calibration.bound_ppm() })
}
