//! The observed granularity of a source, and the time for which hpt observes a source.

use std::time::Duration;

use hpt_core::{Frequency, TimeSource};
use hpt_instrument::{measure, measure::Granularity};

/// The observation time, as a multiple of the resolution of the source. The limits allow for coarse clocks, which
/// advance by milliseconds.
const RESOLUTIONS: u64 = 3;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(40);
/// The maximum number of attempts to see a source advance. Several attempts are necessary, because a virtual machine on
/// a busy host receives its ticks late.
const WATCHES: u32 = 10;

/// Returns the granularity of `source`, which ticks at `frequency`, or `None` if it never advanced.
pub(crate) fn granularity(
    source: &dyn TimeSource,
    frequency: Frequency,
    reference: &dyn TimeSource,
) -> Option<Granularity> {
    let claimed_ns = source.info().claimed_resolution_ns.unwrap_or(0);
    let longest = Duration::from_nanos(claimed_ns.saturating_mul(RESOLUTIONS)).clamp(SHORTEST, LONGEST);
    (0..WATCHES).find_map(|_| measure::granularity(source, frequency, reference, longest))
}

/// The number of steps from which on the smallest one is close to the granularity. The smallest of one or two steps of a
/// clock that advances with the kernel's tick can be several ticks, because the thread did not run in between.
const ENOUGH_STEPS: u64 = 10;

/// Returns the granularity if enough steps were observed.
pub(crate) fn known_granularity(
    source: &dyn TimeSource,
    frequency: Frequency,
    reference: &dyn TimeSource,
) -> Option<Granularity> {
    granularity(source, frequency, reference).filter(|seen| seen.steps >= ENOUGH_STEPS)
}

#[cfg(test)]
mod tests {
    use hpt_core::{
        Frequency, TimeSource,
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };

    use super::{ENOUGH_STEPS, granularity, known_granularity};

    /// A clock with a resolution of 4 ms and a granularity of 30 ms.
    #[derive(Debug)]
    struct Late<'a> {
        wall: &'a ManualSource,
        info: SourceInfo,
    }

    impl TimeSource for Late<'_> {
        fn ticks(&self) -> u64 {
            const STEP_NS: u64 = 30_000_000;
            self.wall.ticks() / STEP_NS * STEP_NS
        }

        fn info(&self) -> &SourceInfo {
            &self.info
        }
    }

    #[test]
    fn a_clock_with_late_ticks_is_observed_until_it_steps() {
        let wall = ManualSource::new("wall").with_step(1_000);
        let mut info = SourceInfo::new(SourceId::new("late"));
        info.claimed_resolution_ns = Some(4_000_000);
        let seen = granularity(&Late { wall: &wall, info }, Frequency::GIGAHERTZ, &wall).expect("it steps");
        assert_eq!(seen.smallest_ticks, 30_000_000);
    }

    /// The smallest of a few late steps would be 30 ms for a clock that states 4 ms.
    #[test]
    fn a_few_steps_are_too_few_for_a_granularity() {
        let wall = ManualSource::new("wall").with_step(100);
        let few = ManualSource::new("coarse").with_step(1_000);
        let enough = granularity(&few, Frequency::GIGAHERTZ, &wall).expect("it steps");
        assert!(enough.steps >= ENOUGH_STEPS && known_granularity(&few, Frequency::GIGAHERTZ, &wall).is_some());
        let wall = ManualSource::new("wall").with_step(1_000);
        let mut info = SourceInfo::new(SourceId::new("late"));
        info.claimed_resolution_ns = Some(4_000_000);
        let late = Late { wall: &wall, info };
        assert!(granularity(&late, Frequency::GIGAHERTZ, &wall).is_some_and(|seen| seen.steps < ENOUGH_STEPS));
        assert_eq!(known_granularity(&late, Frequency::GIGAHERTZ, &wall), None);
    }

    #[test]
    fn a_stopped_clock_has_no_observed_granularity() {
        let wall = ManualSource::new("wall").with_step(1_000);
        let stands = ManualSource::new("stands");
        assert_eq!(granularity(&stands, Frequency::GIGAHERTZ, &wall), None);
    }
}
