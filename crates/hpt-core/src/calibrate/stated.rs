//! Calibrates sources without a measurement, from their nominal frequency.

use hpt_sys::units::FrequencyRange;

use super::{Calibration, Method};
use crate::source::{SourceInfo, StatedBy};

/// Returns the calibration of a source based on its nominal frequency; `None` if the source has no nominal frequency.
///
/// A rate that follows from a definition, such as the rate of a clock that counts nanoseconds, has a bound of zero. A
/// rate that the hardware or the kernel reports has no bound.
///
/// # Examples
///
/// ```
/// use hpt_core::{Frequency, SourceId, SourceInfo, calibrate::stated, source::StatedBy};
///
/// let info = SourceInfo::new(SourceId::new("fpga"));
/// assert_eq!(stated(&info), None);
/// let info = info.with_nominal(Frequency::MEGAHERTZ, StatedBy::Program);
/// let calibration = stated(&info).expect("a frequency is stated");
/// assert_eq!((calibration.frequency, calibration.bound_ppm()), (Frequency::MEGAHERTZ, None));
/// ```
#[must_use]
pub fn stated(info: &SourceInfo) -> Option<Calibration> {
    let nominal = info.nominal?;
    let exact = nominal.stated_by == StatedBy::Definition;
    Some(Calibration {
        source: info.id.clone(),
        method: Method::Stated,
        reference: None,
        frequency: nominal.frequency,
        limits: exact.then_some(FrequencyRange { lowest: nominal.frequency, highest: nominal.frequency }),
        nominal: Some(nominal),
        window_ns: 0,
        pairs: 0,
        narrowest_ns: None,
        cpu: None,
    })
}

#[cfg(test)]
mod tests {
    use super::stated;
    use crate::source::{Nominal, SourceId, SourceInfo, StatedBy};
    use hpt_sys::units::Frequency;

    #[test]
    fn a_defined_rate_has_a_bound_and_a_stated_rate_has_none() {
        let mut info = SourceInfo::new(SourceId::new("any"));
        assert_eq!(stated(&info), None);
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition });
        assert_eq!(stated(&info).and_then(|calibration| calibration.bound_ppm()), Some(0.0));
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::BogoMips });
        assert_eq!(stated(&info).and_then(|calibration| calibration.bound_ppm()), None);
    }
}
