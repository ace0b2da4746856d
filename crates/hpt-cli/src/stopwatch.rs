//! The stopwatch that times single reads. This module reads a clock only to determine the frequency of
//! the stopwatch.

use std::time::Duration;

use hpt_core::{
    Calibration, Opened, TimeSource,
    source::{self, Chosen},
    stopwatch::StopwatchError,
};

use crate::{context::Context, exit::Failure, source_rate::Rate};

/// The time for which a source with unknown frequency is calibrated before it times single reads.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(10);
/// The largest bound at which a saved calibration is still used.
const LOOSEST_KEPT_PPM: f64 = 10.0;

/// The source that times single reads, and its frequency.
pub(crate) struct Stopwatch {
    pub(crate) source: Opened,
    pub(crate) rate: Rate,
}

/// Opens the source that hpt chooses. Its frequency comes from its definition, from a saved calibration that is
/// accurate enough, or from a new measurement.
pub(crate) fn stopwatch(context: &Context, reference: &dyn TimeSource) -> Result<Stopwatch, Failure> {
    let Chosen { source, .. } =
        source::choose(&context.host).map_err(|reason| Failure::Source { name: "monotonic".to_owned(), reason })?;
    if let Some(rate) = Rate::by_definition(source.as_dyn()) {
        return Ok(Stopwatch { source, rate });
    }
    let good = |calibration: &&Calibration| {
        calibration.source == source.as_dyn().info().id
            && calibration.reference.as_ref() == Some(&reference.info().id)
            && calibration.bound_ppm().is_some_and(|bound_ppm| bound_ppm <= LOOSEST_KEPT_PPM)
    };
    let kept = context.store(None).and_then(|store| context.saved(&store)).unwrap_or_default();
    let rate = match kept.iter().find(good) {
        Some(calibration) => Rate::kept(calibration),
        None => {
            Rate::measured(source.as_dyn(), reference, CALIBRATION_WINDOW).map_err(StopwatchError::NotCalibrated)?
        }
    };
    Ok(Stopwatch { source, rate })
}
