//! How long a source is watched for the steps in which it moves, for whatever tells its granularity.

use std::time::Duration;

use hpt_core::{Frequency, TimeSource, measure, measure::Granularity};

/// So many claimed resolutions, within these limits: coarse clocks step by milliseconds.
const RESOLUTIONS: u64 = 3;
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(40);

/// What `source` steps by, which ticks at `frequency`; `None` when it never stepped.
pub(crate) fn granularity(
    source: &dyn TimeSource,
    frequency: Frequency,
    reference: &dyn TimeSource,
) -> Option<Granularity> {
    let claimed_ns = source.info().claimed_resolution_ns.unwrap_or(0);
    let longest = Duration::from_nanos(claimed_ns.saturating_mul(RESOLUTIONS)).clamp(SHORTEST, LONGEST);
    measure::granularity(source, frequency, reference, longest)
}
