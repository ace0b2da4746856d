//! Frequency of a source whose readings are converted to nanoseconds.
//! Keeps nothing.

use std::time::Duration;

use hpt_core::{Frequency, TimeSource, calibrate, source};

use crate::cycle_counters::counts_cycles;

/// A source of unknown rate is calibrated for so long.
const CALIBRATION_WINDOW: Duration = Duration::from_millis(50);

/// How fast it ticks: as stated by definition, else measured.
pub(crate) fn rate(source: &dyn TimeSource, reference: &dyn TimeSource) -> Option<Frequency> {
    if counts_cycles(source) {
        return source::busy_rate(source);
    }
    let stated = source.info().nominal.filter(|nominal| nominal.stated_by == source::StatedBy::Definition);
    let measured = || calibrate::calibrate(source, reference, CALIBRATION_WINDOW).ok();
    stated.map(|nominal| nominal.frequency).or_else(|| measured().map(|calibration| calibration.frequency))
}
