//! The observed granularity of a source, and the time for which hpt observes a source.

use std::time::Duration;

use hpt_core::{Frequency, TimeSource, measure, measure::Granularity};

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

#[cfg(test)]
mod tests {
    use hpt_core::{
        Frequency, TimeSource,
        source::{SourceId, SourceInfo},
        testing::ManualSource,
    };

    use super::granularity;

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
        let wall = ManualSource::new("wall").stepping_by(1_000);
        let mut info = SourceInfo::new(SourceId::new("late"));
        info.claimed_resolution_ns = Some(4_000_000);
        let seen = granularity(&Late { wall: &wall, info }, Frequency::GIGAHERTZ, &wall).expect("it steps");
        assert_eq!(seen.smallest_ticks, 30_000_000);
    }

    #[test]
    fn a_stopped_clock_has_no_observed_granularity() {
        let wall = ManualSource::new("wall").stepping_by(1_000);
        let stands = ManualSource::new("stands");
        assert_eq!(granularity(&stands, Frequency::GIGAHERTZ, &wall), None);
    }
}
