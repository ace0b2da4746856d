//! Calibrations that need no measurement, because somebody states the rate.
//! Believes the statement: how good it is, only a measurement tells.

use super::{Calibration, Method};
use crate::source::{SourceInfo, StatedBy};

/// The calibration of a source by what is stated of it; `None` when nothing is.
///
/// A rate that follows from what the source is (a clock that reads in nanoseconds) has a bound of zero; one that hardware or kernel
/// states has none.
#[must_use]
pub fn stated(info: &SourceInfo) -> Option<Calibration> {
    let nominal = info.nominal?;
    let exact = nominal.stated_by == StatedBy::Definition;
    Some(Calibration {
        source: info.id.clone(),
        method: Method::Stated,
        reference: None,
        frequency: nominal.frequency,
        limits: exact.then_some((nominal.frequency, nominal.frequency)),
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
    use crate::{
        source::{Nominal, SourceId, SourceInfo, StatedBy},
        units::Frequency,
    };

    #[test]
    fn a_definition_has_a_bound_and_a_statement_has_none() {
        let mut info = SourceInfo::new(SourceId::new("any"));
        assert_eq!(stated(&info), None);
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::Definition });
        assert_eq!(stated(&info).and_then(|calibration| calibration.bound_ppm()), Some(0.0));
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by: StatedBy::BogoMips });
        assert_eq!(stated(&info).and_then(|calibration| calibration.bound_ppm()), None);
    }
}
