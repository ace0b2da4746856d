//! Real-time clocks, which keep the date and time while the machine is off. Their readings are whole seconds. The calls
//! to the driver are in `hpt_sys::rtc`.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicU64, Ordering},
};

use hpt_sys::{
    cast::{signed, unsigned},
    clock::{Clock, ClockId, Route},
    host::Host,
    rtc::{Rtc, RtcTime},
    units::Frequency,
};

use super::{
    numbered::{Numbered, device},
    tested,
};
use crate::source::{
    Backend, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo, StatedBy, TimeSource,
};

const CLOCKS: Numbered = Numbered {
    kind: "rtc",
    description: "real-time clock, in whole seconds since 1970",
    unknown: "the kernel stores the date in this clock, but does not use it for timekeeping",
    missing: "there is no such clock, its driver is not loaded, or the container does not have the device",
};
const ONE_HERTZ: Frequency = Frequency::from_hertz(1).expect("not zero");
const SECOND_NS: u64 = 1_000_000_000;

/// A real-time clock of the machine. Its reading is the date and time of the clock, in seconds since 1970; some clocks
/// are set to local time. A real-time clock can be set, so its rate is not constant. Its reading changes once per
/// second, so it is not suitable for measurements.
///
/// The clock is read through its device, which allows one user at a time. If the device cannot be opened, the clock is
/// read from the file `since_epoch`, which all users can read. If a read fails, the previous reading is returned.
///
/// # Ordering
///
/// A read is a system call, which is inherently ordered.
///
/// # References
///
/// rtc(4), `RTC_RD_TIME`; Linux, Documentation/ABI/testing/sysfs-class-rtc, `since_epoch`.
#[derive(Debug)]
pub struct RealTimeClock {
    reader: RtcReader,
    last: AtomicU64,
    info: SourceInfo,
}

#[derive(Debug)]
enum RtcReader {
    Device(Rtc),
    Attribute(File),
}

impl RtcReader {
    /// Returns the seconds since 1970, modulo 2^64.
    fn seconds(&self) -> io::Result<u64> {
        let no_date = || io::Error::new(io::ErrorKind::InvalidData, "the clock has no valid date");
        match self {
            Self::Device(device) => seconds(device.time()?).ok_or_else(no_date),
            Self::Attribute(file) => {
                let mut text = [0; 32];
                let length = file.read_at(&mut text, 0)?;
                decimal(&text[..length]).ok_or_else(no_date)
            }
        }
    }
}

impl RealTimeClock {
    /// Opens the clock with this number for reading.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if there is no such clock, if the permission is missing, if the clock has no valid date,
    /// or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, RealTimeClock, TimeSource};
    ///
    /// match RealTimeClock::open(&Host::live(), 0) {
    ///     Ok(clock) => println!("{} s since 1970", clock.ticks()),
    ///     Err(reason) => println!("no real-time clock: {reason}"),
    /// }
    /// ```
    pub fn open(host: &Host, number: u32) -> Result<Self, SourceError> {
        tested(open(host, &CLOCKS.id(number))?)
    }
}

impl TimeSource for RealTimeClock {
    fn ticks(&self) -> u64 {
        // Relaxed ordering is sufficient, because no other data depends on this value.
        match self.reader.seconds() {
            Ok(seconds) => {
                self.last.store(seconds, Ordering::Relaxed);
                seconds
            }
            Err(_) => self.last.load(Ordering::Relaxed),
        }
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

fn info(id: SourceId) -> SourceInfo {
    SourceInfo::new(id)
        .with_rate(RateKind::Stepped)
        .with_nominal(ONE_HERTZ, StatedBy::Definition)
        .with_claimed_resolution_ns(SECOND_NS)
        .with_read_path(ReadPath::SystemCall)
        .with_counts_in_suspend(true)
}

#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
fn open(host: &Host, id: &SourceId) -> Result<RealTimeClock, SourceError> {
    if !host.is_live() {
        return Err(SourceError::Captured);
    }
    let by_device = Rtc::open(&device(id)).map(RtcReader::Device);
    let reader = match by_device {
        Ok(reader) => Ok(reader),
        Err(refused) => File::open(CLOCKS.attribute(id, "since_epoch")).map(RtcReader::Attribute).map_err(|_| refused),
    };
    let reader = reader.map_err(|error| refusal(id, error))?;
    let first = reader.seconds().map_err(|error| SourceError::refused(id.to_string(), error))?;
    Ok(RealTimeClock { reader, last: AtomicU64::new(first), info: info(id.clone()) })
}

/// Translates the kernel's error from opening the device into its cause and fix. The caller has already found that the
/// file is not available either.
fn refusal(id: &SourceId, error: io::Error) -> SourceError {
    if error.raw_os_error() == Some(libc::EBUSY) {
        let path = device(id).display().to_string();
        return SourceError::Taken { path, evidence: "only one program at a time can open this clock".to_owned() };
    }
    CLOCKS.refusal(id, error)
}

/// Converts a date and time of day to seconds since 1970, modulo 2^64; `None` for dates that do not exist.
fn seconds(time: RtcTime) -> Option<u64> {
    let RtcTime { second, minute, hour, day, month, year, .. } = time;
    // A clock may show a leap second as second 60. No chip represents years before 1900 or covers more than a few
    // centuries.
    let of_a_day = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !of_a_day || !(0..12).contains(&month) || !(0..10_000).contains(&year) {
        return None;
    }
    let year = i64::from(year) + 1_900;
    if !(1..=days_in_month(year, month)?).contains(&day) {
        return None;
    }
    // In this calculation, years start in March, so that a leap day is the last day of a year. From 1 March of the year
    // 0 to 1 January 1970, there are 719 468 days.
    let (years, months) = if month < 2 { (year - 1, i64::from(month) + 10) } else { (year, i64::from(month) - 2) };
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days = years * 365 + leap_days + (153 * months + 2) / 5 + i64::from(day) - 1 - 719_468;
    let seconds = days * 86_400 + i64::from(hour) * 3_600 + i64::from(minute) * 60 + i64::from(second);
    Some(unsigned(seconds))
}

fn days_in_month(year: i64, month: i32) -> Option<i32> {
    const DAYS: [i32; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = DAYS.get(usize::try_from(month).ok()?)?;
    Some(days + i32::from(is_leap && month == 1))
}

/// Parses a decimal integer, which may be followed by a newline. Returns a negative integer modulo 2^64.
fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.trim_end().parse::<i64>().ok().map(unsigned)
}

fn evidence(host: &Host, id: &SourceId, opened: Option<&RealTimeClock>) -> Vec<String> {
    let mut lines: Vec<String> =
        host.text(&CLOCKS.attribute(id, "name")).map(|name| format!("driver and device: {name}")).into_iter().collect();
    if host.text(&CLOCKS.attribute(id, "hctosys")).as_deref() == Some("1") {
        lines.push("the kernel set the system date from this clock at boot".to_owned());
    }
    let Some(clock) = opened else { return lines };
    lines.push(match clock.reader {
        RtcReader::Device(_) => format!("read with RTC_RD_TIME from {}", device(id).display()),
        RtcReader::Attribute(_) => {
            format!(
                "read from {}, because {} cannot be opened",
                CLOCKS.attribute(id, "since_epoch"),
                device(id).display()
            )
        }
    });
    // This clock is read with a system call, because the vDSO may read a counter that this thread must not read.
    if let Ok(system) = Clock::open(ClockId::Realtime, Route::SystemCall) {
        let ahead_s = signed(clock.ticks().wrapping_sub(system.nanos() / SECOND_NS));
        lines.push(format!("the clock shows {} s since 1970, {ahead_s:+} s relative to CLOCK_REALTIME", clock.ticks()));
    }
    lines
}

#[derive(Debug)]
pub(super) struct RtcBackend;

impl Backend for RtcBackend {
    fn ids(&self) -> Vec<SourceId> {
        vec![CLOCKS.id(0)]
    }

    fn ids_on(&self, host: &Host) -> Vec<SourceId> {
        CLOCKS.all(host)
    }

    fn probe(&self, host: &Host) -> Vec<ProbeReport> {
        let report = |id: SourceId| {
            let opened = open(host, &id);
            let evidence = evidence(host, &id, opened.as_ref().ok());
            CLOCKS.report(id, evidence, opened.map(|clock| clock.info))
        };
        self.ids_on(host).into_iter().map(report).collect()
    }

    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        CLOCKS
            .outline(host, info, |id| device(id).exists() || host.text(&CLOCKS.attribute(id, "since_epoch")).is_some())
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        tested(open(host, id)?).map(|clock| Opened::Shared(Box::new(clock)))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::{RtcTime, SourceError, SourceId, days_in_month, decimal, refusal, seconds};

    fn date(year: i32, month: i32, day: i32) -> RtcTime {
        RtcTime { year: year - 1_900, month: month - 1, day, ..RtcTime::default() }
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        assert_eq!(seconds(date(1970, 1, 1)), Some(0));
        assert_eq!(seconds(date(2000, 2, 29)), Some(951_782_400));
        assert_eq!(seconds(date(2038, 1, 19)), Some(2_147_472_000));
        assert_eq!(seconds(date(2100, 3, 1)), Some(4_107_542_400));
        let eve = RtcTime { hour: 23, minute: 59, second: 59, ..date(1969, 12, 31) };
        assert_eq!(seconds(eve), Some(u64::MAX));
    }

    #[test]
    fn an_impossible_date_is_rejected() {
        for wrong in [
            date(2023, 2, 29),
            date(2100, 2, 29),
            date(2024, 4, 31),
            date(2024, 13, 1),
            date(2024, 0, 1),
            date(2024, 1, 0),
            date(1899, 1, 1),
        ] {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
        for wrong in [
            RtcTime { hour: 24, ..date(2024, 1, 1) },
            RtcTime { minute: 60, ..date(2024, 1, 1) },
            RtcTime { second: 61, ..date(2024, 1, 1) },
        ] {
            assert_eq!(seconds(wrong), None, "{wrong:?}");
        }
    }

    proptest! {
        /// Verifies the conversion for every day, counted one by one.
        #[test]
        fn consecutive_days_are_one_day_apart(first_year in 1_900_i32..2_400) {
            let mut expected = seconds(date(first_year, 1, 1)).expect("a date");
            for month in 1..=12 {
                let days = days_in_month(first_year.into(), month - 1).expect("a month");
                for day in 1..=days {
                    prop_assert_eq!(seconds(date(first_year, month, day)), Some(expected));
                    expected = expected.wrapping_add(86_400);
                }
            }
            prop_assert_eq!(seconds(date(first_year + 1, 1, 1)), Some(expected));
        }

        #[test]
        fn any_numbers_are_converted_to_a_date_or_none(numbers in any::<[i32; 6]>()) {
            let [second, minute, hour, day, month, year] = numbers;
            let _ = seconds(RtcTime { second, minute, hour, day, month, year, ..RtcTime::default() });
        }

        #[test]
        fn any_text_is_parsed_as_a_number_or_none(text in any::<Vec<u8>>()) {
            let _ = decimal(&text);
        }
    }

    #[test]
    fn the_world_readable_file_is_parsed_in_the_kernels_format() {
        assert_eq!((decimal(b"1700000000\n"), decimal(b"-1\n")), (Some(1_700_000_000), Some(u64::MAX)));
        assert_eq!((decimal(b""), decimal(b"soon"), decimal(b"1 2")), (None, None, None));
    }

    #[test]
    fn every_refusal_is_explained_with_a_fix() {
        let answer = |errno| refusal(&SourceId::new("rtc1"), io::Error::from_raw_os_error(errno));
        assert!(matches!(answer(libc::ENOENT), SourceError::NoDevice { .. }));
        assert!(answer(libc::EACCES).remedy().is_some_and(|remedy| remedy.contains("KERNEL==\"rtc1\"")));
        assert!(answer(libc::EBUSY).remedy().is_some_and(|remedy| remedy.contains("/dev/rtc1")));
        assert!(matches!(answer(libc::EIO), SourceError::Refused { .. }));
    }
}
