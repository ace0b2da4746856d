//! Tests a clock that can be stepped or slewed as if its rate were constant. No daemon slews a clock by a twentieth of
//! its rate, and no daemon steps it during three consecutive tests.

use hpt_sys::{host::Host, units::FrequencyRange};

use crate::source::{PosixClock, PosixId, RateKind, SourceError, SourceInfo, TimeSource, self_test};

/// The number of failed tests after which a source is refused. A single test may fail because a daemon steps the clock.
const ATTEMPTS: u32 = 3;
/// The maximum number of tests. On a busy host, most tests may be inconclusive.
const MOST_TESTS: u32 = 24;

/// Returns `source` after testing its rate and its direction as if its rate were constant.
pub(super) fn tested_as_steady<S: TimeSource>(source: S) -> Result<S, SourceError> {
    let reference = PosixClock::open(&Host::live(), PosixId::REFERENCE)?;
    let (mut failures, mut failure) = (0, None);
    for _ in 0..MOST_TESTS {
        match self_test(&AsIfSteady::new(&source), &reference) {
            Ok(test) if is_decisive(test.rate) => return Ok(source),
            // The thread was preempted at the start or at the end of the test, so the result is inconclusive.
            Ok(_) => {}
            Err(seen) => (failures, failure) = (failures + 1, Some(seen)),
        }
        if failures == ATTEMPTS {
            break;
        }
    }
    failure.map_or(Ok(source), |seen| Err(SourceError::SelfTest(seen)))
}

/// Returns whether the limits of the rate are close enough to detect a clock with a wrong rate.
fn is_decisive(rate: FrequencyRange) -> bool {
    rate.highest.hertz_f64() <= rate.lowest.hertz_f64() * 1.25
}

/// A wrapper that presents a clock as constant-rate, so that the self-test requires it to run forward at its nominal
/// rate.
#[derive(Debug)]
struct AsIfSteady<'a, S> {
    source: &'a S,
    info: SourceInfo,
}

impl<'a, S: TimeSource> AsIfSteady<'a, S> {
    fn new(source: &'a S) -> Self {
        let mut info = source.info().clone();
        info.rate = RateKind::Constant;
        Self { source, info }
    }
}

impl<S: TimeSource> TimeSource for AsIfSteady<'_, S> {
    fn ticks(&self) -> u64 {
        self.source.ticks()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests {
    use super::{AsIfSteady, is_decisive};
    use crate::{
        source::{RateKind, SelfTestError, TimeSource, self_test},
        testing::ManualSource,
    };
    use hpt_sys::units::{Frequency, FrequencyRange};

    #[test]
    fn a_test_with_a_torn_bracket_is_inconclusive() {
        let hertz = |hertz| Frequency::from_hertz(hertz).expect("not zero");
        let range = |lowest, highest| FrequencyRange { lowest: hertz(lowest), highest: hertz(highest) };
        assert!(is_decisive(range(950_000_000, 1_050_000_000)));
        assert!(!is_decisive(range(900_000_000, 2_600_000_000)));
    }

    #[test]
    fn a_stopped_or_racing_clock_is_refused_even_if_it_may_be_slewed() {
        let tested = |step| {
            let reference = ManualSource::new("reference").with_step(100);
            let mut info = ManualSource::new("card").info().clone();
            info.rate = RateKind::Variable;
            let card = ManualSource::with_info(info).with_step(step);
            self_test(&AsIfSteady::new(&card), &reference)
        };
        assert!(matches!(tested(0), Err(SelfTestError::StandsStill { .. })));
        assert!(matches!(tested(u64::MAX), Err(SelfTestError::RunsBackwards { .. })));
        let raced = tested(100);
        assert!(matches!(raced, Err(SelfTestError::WrongRate { .. })), "{raced:?}");
    }

    #[test]
    fn a_wrapped_clock_under_test_keeps_its_properties() {
        let card = ManualSource::new("card").with_step(3);
        let tested = AsIfSteady::new(&card);
        assert_eq!((tested.ticks(), tested.ticks(), tested.info().id.as_str()), (0, 3, "card"));
    }
}
