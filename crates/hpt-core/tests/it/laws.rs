//! The guarantees of the standard library's Instant, which this one shares, and its additional ones.

use std::{
    collections::HashSet,
    sync::atomic::Ordering,
    time::{Duration, SystemTime},
};

use hpt_core::{
    Instant, Sleeper,
    clock::{AtomicInstant, Clock},
    testing::ManualSource,
};
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

proptest! {
    /// Addition, subtraction and differences are consistent. Results out of range are rejected or
    /// saturate.
    #[test]
    fn sums_and_differences_agree(ns in any::<i64>(), by in any::<u64>()) {
        let (moment, duration) = (Instant::from_nanos(ns), Duration::from_nanos(by));
        match ns.checked_add_unsigned(by) {
            Some(sum) => {
                let later = moment + duration;
                prop_assert_eq!(later.as_nanos(), sum);
                prop_assert_eq!(moment.checked_add(duration), Some(later));
                prop_assert_eq!(moment.saturating_add(duration), later);
                prop_assert_eq!(later - moment, duration);
                prop_assert_eq!(later - duration, moment);
                prop_assert_eq!(later.duration_since(moment), duration);
                prop_assert_eq!(later.checked_duration_since(moment), Some(duration));
                prop_assert_eq!(later.nanos_since(moment), by);
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
                prop_assert_eq!(moment.nanos_since(later), 0);
                // A signed difference is negative in that direction, and saturates.
                let signed = i64::try_from(by).unwrap_or(i64::MAX);
                prop_assert_eq!(later.signed_nanos_since(moment), signed);
                let back = 0_i64.checked_sub_unsigned(by).unwrap_or(i64::MIN);
                prop_assert_eq!(moment.signed_nanos_since(later), back);
                prop_assert_eq!(moment.checked_duration_since(later), (by == 0).then_some(Duration::ZERO));
            }
            None => {
                prop_assert_eq!(moment.checked_add(duration), None);
                prop_assert_eq!(moment.saturating_add(duration), Instant::MAX);
            }
        }
        let earlier = ns.checked_sub_unsigned(by).map(Instant::from_nanos);
        prop_assert_eq!(moment.checked_sub(duration), earlier);
        prop_assert_eq!(moment.saturating_sub(duration), earlier.unwrap_or(Instant::MIN));
    }

    /// A round trip through the format of `CLOCK_MONOTONIC` and through serialization preserves the
    /// instant.
    #[test]
    fn every_representation_of_an_instant_round_trips(ns in any::<i64>()) {
        let moment = Instant::from_nanos(ns);
        let (seconds, nanoseconds) = moment.to_timespec();
        prop_assert!(nanoseconds < 1_000_000_000);
        prop_assert_eq!(Instant::from_timespec(seconds, nanoseconds), Some(moment));
        let written = serde_json::to_string(&moment).expect("an integer");
        prop_assert_eq!(&written, &ns.to_string());
        prop_assert_eq!(serde_json::from_str::<Instant>(&written).expect("the same"), moment);
        let (sign, size) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
        prop_assert_eq!(moment.to_string(), format!("{sign}{}.{:09}", size / 1_000_000_000, size % 1_000_000_000));
        let atomic = AtomicInstant::from(moment);
        prop_assert_eq!((atomic.load(Ordering::Relaxed), atomic.into_inner()), (moment, moment));
        prop_assert!(HashSet::from([moment]).contains(&Instant::from_nanos(ns)));
    }
}

#[test]
fn limits_out_of_range_are_refused() {
    let (first, last, epoch) = (Instant::MIN, Instant::MAX, Instant::EPOCH);
    for far in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(300 * 365 * 86_400)] {
        assert_eq!((epoch.checked_add(far), epoch.checked_sub(far)), (None, None));
        assert_eq!((epoch.saturating_add(far), epoch.saturating_sub(far)), (last, first));
    }
    assert_eq!(last - first, Duration::from_nanos(u64::MAX));
    assert_eq!(first + Duration::from_nanos(u64::MAX), last);
    assert_eq!(Instant::from_timespec(0, 1_000_000_000), None);
    assert_eq!((Instant::from_timespec(i64::MAX, 0), Instant::from_timespec(i64::MIN, 0)), (None, None));
    assert_eq!(Instant::from_timespec(-1, 999_999_999), Some(epoch - Duration::from_nanos(1)));
    for end in [first, last] {
        let (seconds, nanoseconds) = end.to_timespec();
        assert_eq!(Instant::from_timespec(seconds, nanoseconds), Some(end));
    }
    let (seconds, nanoseconds) = last.to_timespec();
    assert_eq!(Instant::from_timespec(seconds, nanoseconds + 1), None);
    let (seconds, nanoseconds) = first.to_timespec();
    assert_eq!(Instant::from_timespec(seconds, nanoseconds - 1), None);
}

/// On a machine that has just started, a timeout can reach back to before boot.
#[test]
fn an_instant_can_be_before_boot() {
    let hour = Duration::from_secs(3_600);
    let before = Instant::EPOCH - hour;
    assert!(before < Instant::EPOCH && Instant::now() - before > hour);
    assert_eq!((before.as_nanos(), before.to_string()), (-3_600_000_000_000, "-3600.000000000".to_owned()));
    assert_eq!(Instant::EPOCH - before, hour);
    // The kernel accepts no deadline before its epoch.
    assert!(Sleeper::new().sleep_until(before).is_in_time());
}

#[test]
fn the_later_and_the_earlier_instant_win() {
    let [first, second] = [Instant::EPOCH, Instant::EPOCH + Duration::from_nanos(1)];
    let atomic = AtomicInstant::new(first);
    assert_eq!(atomic.fetch_max(second, Ordering::AcqRel), first);
    assert_eq!(atomic.fetch_max(first, Ordering::AcqRel), second);
    assert_eq!(atomic.fetch_min(first, Ordering::AcqRel), second);
    assert_eq!(atomic.swap(second, Ordering::AcqRel), first);
    assert_eq!(atomic.compare_exchange(first, first, Ordering::AcqRel, Ordering::Acquire), Err(second));
    assert_eq!(atomic.compare_exchange(second, first, Ordering::AcqRel, Ordering::Acquire), Ok(second));
    atomic.store(second, Ordering::Release);
    assert_eq!(atomic.load(Ordering::Acquire), second);
}

/// The interval between the readings around a conversion contains the converted instant.
#[test]
fn instants_convert_to_and_from_the_standard_library() {
    for _ in 0..100 {
        let (before, std, after) = (Instant::now(), std::time::Instant::now(), Instant::now());
        let ours = Instant::from_std(std).expect("within 292 years");
        assert!(ours.instant + ours.uncertainty >= before && ours.instant - ours.uncertainty <= after, "{ours:?}");
        let (before, ours, after) = (std::time::Instant::now(), Instant::now(), std::time::Instant::now());
        let std = ours.to_std().expect("within 292 years");
        assert!(std.instant + std.uncertainty >= before && std.instant - std.uncertainty <= after, "{std:?}");
    }
    let hour = Duration::from_secs(3_600);
    let ahead = Instant::from_std(std::time::Instant::now() + hour).expect("within 292 years").instant;
    assert!(ahead.elapsed().is_zero() && ahead - hour <= Instant::now());
}

#[test]
#[should_panic(expected = "overflow when adding")]
fn a_sum_beyond_the_last_instant_panics_as_in_the_standard_library() {
    let _ = Instant::MAX + Duration::from_nanos(1);
}

#[test]
#[should_panic(expected = "overflow when subtracting")]
fn a_difference_before_the_first_instant_panics_as_in_the_standard_library() {
    let _ = Instant::MIN - Duration::from_nanos(1);
}

#[test]
fn elapsed_time_is_never_negative() {
    let start = Instant::now();
    let (first, second) = (start.elapsed(), start.elapsed());
    assert!(second >= first);
    let ahead = start + Duration::from_secs(3_600);
    assert_eq!((ahead.elapsed(), ahead.elapsed_nanos()), (Duration::ZERO, 0));
    assert_eq!(ahead.elapsed_nanos_unordered(), 0);
}

#[test]
fn an_instant_converts_to_wall_time() {
    // A daemon may slew or step the wall clock during the test; an error of a second would be a
    // different epoch. A conversion reads two clocks, and its error is at most the time between
    // these readings.
    let slack = |start: Instant| Duration::from_secs(1) + start.elapsed();
    let (start, before) = (Instant::now(), SystemTime::now());
    let told = Instant::now().to_system_time();
    let after = SystemTime::now();
    let slack_of_one = slack(start);
    assert!(before - slack_of_one <= told && told <= after + slack_of_one, "{told:?}");
    let hour = Duration::from_secs(3_600);
    let now = Instant::now();
    let (earlier, later) = ((now - hour).to_system_time(), (now + hour).to_system_time());
    let apart = later.duration_since(earlier).expect("later");
    assert!(apart.abs_diff(2 * hour) <= slack(now), "{apart:?}");
}

#[test]
fn a_manual_clock_returns_the_time_it_was_set_to() {
    fn age(clock: &impl Clock, since: Instant) -> Duration {
        clock.now() - since
    }
    let clock = ManualSource::new("by hand");
    let since = clock.now();
    clock.advance(1_500);
    assert_eq!(age(&clock, since), Duration::from_nanos(1_500));
}
