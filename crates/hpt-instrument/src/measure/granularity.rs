//! The granularity of a source: the smallest non-zero step between two readings. This module does not determine the
//! accuracy of a source.

use std::time::Duration;

use hpt_core::{
    source::{Reference, TimeSource},
    stats::Steps,
};
use hpt_sys::units::{Frequency, saturating_nanos};

/// The number of steps after which the smallest step counts as known.
const ENOUGH_STEPS: u64 = 1_000;
/// The number of reads without progress after which the reference counts as stopped.
const REFERENCE_STANDS_STILL: u32 = 50_000;
/// The number of reads of the source between two reads of the reference.
const READS: usize = 64;

/// The steps of a source.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Granularity {
    /// The smallest non-zero step, in ticks. It is never smaller than the amount by which the counter advances during a
    /// read.
    pub smallest_ticks: u64,
    /// The smallest non-zero step, in nanoseconds.
    pub smallest_ns: f64,
    /// The greatest common divisor of all observed steps, in ticks.
    pub multiple_ticks: u64,
    /// The number of non-zero steps that were observed.
    pub steps: u64,
}

/// Reads `source`, which ticks at `frequency`, until a thousand steps have been observed or `longest` has passed on
/// `reference`. Returns `None` if no step was observed.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "for printing")]
pub fn granularity(
    source: &dyn TimeSource,
    frequency: Frequency,
    reference: &dyn TimeSource,
    longest: Duration,
) -> Option<Granularity> {
    let width = source.info().width;
    let longest_ns = saturating_nanos(longest);
    let mut reference = Reference::new(reference);
    let start_ns = reference.now_ns();
    let mut steps = Steps::default();
    let mut previous = source.ticks();
    while steps.count() < ENOUGH_STEPS && reference.pair(source).after_ns.wrapping_sub(start_ns) < longest_ns {
        if reference.stood_still_for(REFERENCE_STANDS_STILL) {
            break;
        }
        // All readings are taken before they are evaluated, because on 32-bit processors the evaluation takes longer
        // than a read.
        let read: [u64; READS] = std::array::from_fn(|_| source.ticks());
        for ticks in read {
            // Backward steps are detected by the self-test. Here, a backward step looks like a huge forward step, so it
            // is never the smallest.
            steps.record(width.difference(previous, ticks));
            previous = ticks;
        }
    }
    let smallest_ticks = steps.smallest_ticks()?;
    Some(Granularity {
        smallest_ticks,
        smallest_ns: smallest_ticks as f64 * frequency.tick_ns_f64(),
        multiple_ticks: steps.multiple_ticks()?,
        steps: steps.count(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::granularity;
    use hpt_core::testing::ManualSource;
    use hpt_sys::units::Frequency;

    #[test]
    fn a_clock_with_microsecond_steps_has_that_granularity() {
        let reference = ManualSource::new("reference").with_step(1);
        let source = ManualSource::new("source").with_step(1_000);
        let seen = granularity(&source, Frequency::GIGAHERTZ, &reference, Duration::from_secs(1))
            .expect("a source that advances");
        assert_eq!((seen.smallest_ticks, seen.multiple_ticks), (1_000, 1_000));
    }

    #[test]
    fn a_stopped_clock_has_no_granularity() {
        let reference = ManualSource::new("reference").with_step(1_000);
        let source = ManualSource::new("source");
        assert_eq!(granularity(&source, Frequency::GIGAHERTZ, &reference, Duration::from_millis(1)), None);
    }
}
