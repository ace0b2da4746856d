//! The guarantees of the standard library's Instant, which this one shares, and its additional
//! ones. Measures nothing.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use hpt_core::{Instant, clock::Now, testing::ManualSource};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

const LAST: Instant = Instant::from_nanoseconds(u64::MAX);
const EPOCH: Instant = Instant::from_nanoseconds(0);

proptest! {
    /// Addition, subtraction and differences are consistent. Results out of range are rejected or
    /// saturate.
    #[test]
    fn sums_and_differences_agree(ns in any::<u64>(), by in any::<u64>()) {
        let (moment, duration) = (Instant::from_nanoseconds(ns), Duration::from_nanos(by));
        match ns.checked_add(by) {
            Some(sum) => {
                let later = moment + duration;
                prop_assert_eq!(later.as_nanoseconds(), sum);
                prop_assert_eq!(moment.checked_add(duration), Some(later));
                prop_assert_eq!(moment.saturating_add(duration), later);
                prop_assert_eq!(later - moment, duration);
                prop_assert_eq!(later - duration, moment);
                prop_assert_eq!(later.duration_since(moment), duration);
                prop_assert_eq!(later.checked_duration_since(moment), Some(duration));
                prop_assert_eq!(later.nanoseconds_since(moment), by);
                let mut moved = moment;
                moved += duration;
                prop_assert_eq!(moved, later);
                moved -= duration;
                prop_assert_eq!(moved, moment);
                prop_assert_eq!(later >= moment, true);
                // A difference in the other direction is zero, never a panic.
                prop_assert_eq!(moment.duration_since(later), Duration::ZERO);
                prop_assert_eq!(moment - later, Duration::ZERO);
                prop_assert_eq!(moment.saturating_duration_since(later), Duration::ZERO);
                prop_assert_eq!(moment.nanoseconds_since(later), 0);
                prop_assert_eq!(moment.checked_duration_since(later), (by == 0).then_some(Duration::ZERO));
            }
            None => {
                prop_assert_eq!(moment.checked_add(duration), None);
                prop_assert_eq!(moment.saturating_add(duration), LAST);
            }
        }
        if by > ns {
            prop_assert_eq!(moment.checked_sub(duration), None);
            prop_assert_eq!(moment.saturating_sub(duration), EPOCH);
        }
    }

    /// A round trip through the format of `CLOCK_MONOTONIC` and through serialization preserves the
    /// instant.
    #[test]
    fn every_representation_of_an_instant_round_trips(ns in any::<u64>()) {
        let moment = Instant::from_nanoseconds(ns);
        let (seconds, nanoseconds) = moment.to_timespec();
        prop_assert!(nanoseconds < 1_000_000_000);
        prop_assert_eq!(Instant::from_timespec(seconds, nanoseconds), Some(moment));
        let written = serde_json::to_string(&moment).expect("an integer");
        prop_assert_eq!(&written, &ns.to_string());
        prop_assert_eq!(serde_json::from_str::<Instant>(&written).expect("the same"), moment);
        prop_assert_eq!(moment.to_string(), format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
        prop_assert!(HashSet::from([moment]).contains(&Instant::from_nanoseconds(ns)));
    }
}

#[test]
fn limits_out_of_range_are_refused() {
    for far in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(600 * 365 * 86_400)] {
        assert_eq!((EPOCH.checked_add(far), LAST.checked_sub(far)), (None, None));
        assert_eq!((EPOCH.saturating_add(far), LAST.saturating_sub(far)), (LAST, EPOCH));
    }
    assert_eq!(LAST - EPOCH, Duration::from_nanos(u64::MAX));
    assert_eq!(Instant::from_timespec(-1, 0), None);
    assert_eq!(Instant::from_timespec(0, 1_000_000_000), None);
    assert_eq!(Instant::from_timespec(i64::MAX, 0), None);
    let (seconds, nanoseconds) = LAST.to_timespec();
    assert_eq!(Instant::from_timespec(seconds, nanoseconds + 1), None);
}

#[test]
#[should_panic(expected = "overflow when adding")]
fn a_sum_beyond_the_last_instant_panics_as_in_the_standard_library() {
    let _ = LAST + Duration::from_nanos(1);
}

#[test]
#[should_panic(expected = "overflow when subtracting")]
fn an_instant_before_the_epoch_panics_as_in_the_standard_library() {
    let _ = EPOCH - Duration::from_nanos(1);
}

#[test]
fn elapsed_time_is_never_negative() {
    let start = Instant::now();
    let (first, second) = (start.elapsed(), start.elapsed());
    assert!(second >= first);
    let ahead = start + Duration::from_secs(3_600);
    assert_eq!((ahead.elapsed(), ahead.elapsed_nanoseconds()), (Duration::ZERO, 0));
    assert_eq!(ahead.elapsed_nanoseconds_unordered(), 0);
}

#[test]
fn an_instant_converts_to_wall_time() {
    let before = SystemTime::now();
    let told = Instant::now().to_system_time();
    let after = SystemTime::now();
    // A daemon may slew or step the wall clock during the test; an error of a second would be a
    // different epoch.
    let slack = Duration::from_secs(1);
    assert!(before - slack <= told && told <= after + slack, "{told:?}");
    let hour = Duration::from_secs(3_600);
    let earlier = (Instant::now().saturating_sub(hour)).to_system_time();
    let later = (Instant::now() + hour).to_system_time();
    let apart = later.duration_since(earlier).expect("later");
    assert!(apart <= 2 * hour + slack && apart >= hour, "{apart:?}");
}

#[test]
fn a_manual_clock_returns_the_time_it_was_set_to() {
    fn age(clock: &impl Now, since: Instant) -> Duration {
        clock.now() - since
    }
    let clock = ManualSource::nanoseconds("by hand");
    let since = clock.now();
    clock.advance(1_500);
    assert_eq!(age(&clock, since), Duration::from_nanos(1_500));
}
