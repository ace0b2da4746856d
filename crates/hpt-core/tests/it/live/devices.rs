//! Sources of device files, I/O ports and mapped memory on this machine.

use std::{thread, time::Duration};

use hpt_core::{
    AcpiPm, BcmSystimer, BcmSystimerLow, Host, Hpet, HpetLow, PerfTime, PosixClock, PosixId, PtpClock, RealTimeClock,
    TimeSource, Widened,
};

use super::half_a_wrap_ns;
use crate::support::unsafe_calls::{ChildEnd, in_a_child};

#[test]
fn both_forms_of_the_system_timer_are_one_counter() {
    let host = Host::live();
    let (wide, low) = match (BcmSystimer::open(&host), BcmSystimerLow::open(&host)) {
        (Ok(wide), Ok(low)) => (wide, low),
        (Err(reason), _) | (_, Err(reason)) => return skipped!("no System Timer: {reason}"),
    };
    for _ in 0..1_000 {
        let (before, between, after) = (wide.ticks_end(), low.ticks_end(), wide.ticks_end());
        let since = low.info().width.difference(before & 0xffff_ffff, between);
        assert!(since <= after - before, "{before} {between} {after}");
    }
}

#[test]
fn both_forms_of_the_hpet_are_one_counter_and_share_one_map() {
    let host = Host::live();
    let (wide, low) = match (Hpet::open(&host), HpetLow::open(&host)) {
        (Ok(wide), Ok(low)) => (wide, low),
        (Err(reason), _) | (_, Err(reason)) => return skipped!("no HPET: {reason}"),
    };
    for _ in 0..1_000 {
        let (before, between, after) = (wide.ticks_end(), low.ticks_end(), wide.ticks_end());
        let since = low.info().width.difference(before & 0xffff_ffff, between);
        assert!(since <= wide.info().width.difference(before, after), "{before} {between} {after}");
    }
    // The last one releases the map, and it can be opened again.
    drop((wide, low));
    assert!(Hpet::open(&host).is_ok());
}

#[test]
fn the_acpi_timer_stays_open_while_one_handle_exists_and_can_be_widened_to_a_clock() {
    let host = Host::live();
    let (first, second) = match (AcpiPm::open(&host), AcpiPm::open(&host)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(reason), _) | (_, Err(reason)) => return skipped!("no ACPI timer: {reason}"),
    };
    drop(second);
    let kernel = PosixClock::open(&host, PosixId::MonotonicRaw).expect("every kernel has it");
    let (width, half_ns) = (first.info().width, half_a_wrap_ns(first.info()));
    let (begun_ns, before, after, ended_ns) =
        (kernel.ticks_end(), first.ticks_end(), first.ticks_end(), kernel.ticks_end());
    assert!(ended_ns - begun_ns >= half_ns || width.signed_difference(before, after) >= 0, "{before} {after}");
    // A forked child can read it as well.
    let end = in_a_child(|| {
        let now = first.ticks_end();
        u8::from(kernel.ticks_end() - begun_ns < half_ns && width.signed_difference(after, now) < 0)
    });
    assert_eq!(end, ChildEnd::Exited(0));
    let wide = Widened::new(first, &host).expect("it is steady");
    let (outer_start, start, inner_start) = (kernel.ticks_end(), wide.ticks_end(), kernel.ticks_end());
    thread::sleep(Duration::from_millis(20));
    let (inner_end, end, outer_end) = (kernel.ticks_end(), wide.ticks_end(), kernel.ticks_end());
    // A tick takes 280 ns, and each end may be off by a tick of either clock. Emulators may deviate
    // by 2 %.
    let shown_ns = (end - start) * 1_000_000_000 / 3_579_545;
    assert!(shown_ns + shown_ns / 50 + 600 >= inner_end - inner_start, "{shown_ns}");
    assert!(shown_ns - shown_ns / 50 <= outer_end - outer_start + 600, "{shown_ns}");
}

#[test]
fn perf_time_never_goes_back_across_sleeps_and_in_a_forked_child() {
    let time = match PerfTime::open(&Host::live()) {
        Ok(time) => time,
        Err(reason) => {
            assert!(!reason.to_string().is_empty());
            return skipped!("no perf-time: {reason}");
        }
    };
    let mut last = time.ticks_end();
    for _ in 0..200 {
        // The thread may be migrated to another CPU, and the kernel updates the page.
        thread::sleep(Duration::from_micros(100));
        let now = time.ticks_end();
        assert!(now > last, "{last} then {now}");
        last = now;
    }
    let end = in_a_child(|| {
        let goes_on = time.ticks_end() >= last && time.ticks() > 0 && time.ticks_start() >= last;
        drop(time);
        u8::from(!goes_on)
    });
    assert_eq!(end, ChildEnd::Exited(0));
}

#[test]
fn a_real_time_clock_is_read_through_its_device_and_through_sysfs() {
    let host = Host::live();
    let (first, second) = match (RealTimeClock::open(&host, 0), RealTimeClock::open(&host, 0)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(reason), _) | (_, Err(reason)) => return skipped!("no real-time clock: {reason}"),
    };
    // Only one process can open the device: at least one of the two reads the kernel's file.
    let (before, between, after) = (first.ticks(), second.ticks(), first.ticks());
    assert!(before <= between && between <= after, "{before} {between} {after}");
}

#[test]
fn a_ptp_clock_reports_its_offset_from_the_system_clock() {
    let clock = match PtpClock::open(&Host::live(), 0) {
        Ok(clock) => clock,
        Err(reason) => return skipped!("no PTP clock: {reason}"),
    };
    let offset = clock.offset().expect("every driver has the plain way");
    assert!(offset.readings > 0 && offset.bound_ns.is_none_or(|bound_ns| bound_ns < 1_000_000_000), "{offset:?}");
    println!("ptp0: {offset:?}");
}

/// On an emulated board that skips idle time (see boards/), minutes pass in seconds.
#[test]
#[ignore = "waits for the low word of the System Timer to wrap: up to 72 minutes"]
fn the_system_timer_carries() {
    const MARGIN_TICKS: u64 = 50_000;
    let host = Host::live();
    let wide = match BcmSystimer::open(&host) {
        Ok(wide) => wide,
        Err(reason) => return skipped!("no System Timer: {reason}"),
    };
    let low = BcmSystimerLow::open(&host).expect("as the other form");
    let widened = Widened::new(BcmSystimerLow::open(&host).expect("as the other form"), &host).expect("it is steady");
    let above = wide.ticks() >> 32 << 32;
    let carry = above + (1 << 32);
    std::thread::sleep(Duration::from_micros((carry - wide.ticks()).saturating_sub(MARGIN_TICKS)));

    let (mut readings, mut last_wide, mut last_low) = (0_u64, wide.ticks_end(), low.ticks_end());
    assert!(last_wide < carry, "woke after the carry");
    while last_wide < carry + MARGIN_TICKS {
        let extended = widened.ticks_end() + above;
        let now_low = low.ticks_end();
        let now_wide = wide.ticks_end();
        assert!((last_wide..=now_wide).contains(&extended), "{last_wide:#x} {extended:#x} {now_wide:#x}");
        let step = low.info().width.difference(last_low, now_low);
        assert!(step < 1 << 31, "the low word went back from {last_low:#x} to {now_low:#x}");
        let since = low.info().width.difference(extended & 0xffff_ffff, now_low);
        assert!(since <= now_wide - extended, "{extended:#x} {now_low:#x} {now_wide:#x}");
        (readings, last_wide, last_low) = (readings + 1, now_wide, now_low);
    }
    assert_eq!(widened.guesses(), 0);
    println!("carried: {readings} readings from below {carry:#x} to {last_wide:#x}, none went back");
}
