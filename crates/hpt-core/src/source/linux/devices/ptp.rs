//! PTP hardware clocks of network cards and hypervisors, and their offset from the system clock. The calls to the
//! driver are in `hpt_sys::ptp`.

use std::io;

use hpt_sys::{
    clock::Clock,
    host::Host,
    ptp::{Between, Ptp, PtpTime},
    units::Frequency,
};

use super::{
    as_if_steady::tested_as_steady,
    numbered::{Numbered, device},
};
use crate::source::{
    Backend, Opened, ProbeReport, RateKind, ReadPath, SourceError, SourceId, SourceInfo, StatedBy, TimeSource,
};

const CLOCKS: Numbered = Numbered {
    kind: "ptp",
    description: "PTP hardware clock of a network card or a hypervisor",
    unknown: "only daemons use this clock for timekeeping, not the kernel",
    missing: "there is no card with such a clock, its driver is not loaded (ptp_kvm in a guest), or the container does not have the device",
};

/// A PTP hardware clock, in nanoseconds since its own epoch. This is the TAI epoch if a daemon disciplines the clock,
/// otherwise an arbitrary epoch.
///
/// A daemon can step and slew the clock, so its rate is not constant. A read is a system call that queries the device
/// over a bus.
///
/// # Ordering
///
/// A read is a system call, which is inherently ordered.
///
/// # References
///
/// Linux, Documentation/driver-api/ptp.rst; include/uapi/linux/ptp_clock.h.
#[derive(Debug)]
pub struct PtpClock {
    clock: Clock,
    info: SourceInfo,
    device: Ptp,
}

/// The method used to determine the offset of a PTP clock from the system clock. The variants are ordered from the best
/// to the worst method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PtpOffsetMethod {
    /// `PTP_SYS_OFFSET_PRECISE`: hardware, or a hypervisor, captured both clocks at the same time.
    Precise,
    /// `PTP_SYS_OFFSET_EXTENDED`: the driver read the system clock immediately before and after the device's register.
    Extended,
    /// `PTP_SYS_OFFSET`: the kernel read the system clock before and after it called the driver.
    Plain,
}

impl PtpOffsetMethod {
    /// Returns the kernel's name for this method.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::source::PtpOffsetMethod;
    ///
    /// assert_eq!(PtpOffsetMethod::Precise.name(), "PTP_SYS_OFFSET_PRECISE");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Precise => "PTP_SYS_OFFSET_PRECISE",
            Self::Extended => "PTP_SYS_OFFSET_EXTENDED",
            Self::Plain => "PTP_SYS_OFFSET",
        }
    }
}

/// The offset of a PTP clock from `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtpOffset {
    /// The PTP clock minus `CLOCK_REALTIME`, in nanoseconds.
    pub offset_ns: i64,
    /// The worst-case error of the offset, in nanoseconds, derived from readings of the system clock before and after
    /// the reading of the device. `None` if both clocks were captured at the same time and no such readings are
    /// available.
    pub bound_ns: Option<u64>,
    /// The method used to determine the offset.
    pub method: PtpOffsetMethod,
    /// The number of readings.
    pub readings: usize,
}

impl PtpClock {
    /// Opens the clock with this number for reading, and compares its rate with `CLOCK_MONOTONIC_RAW`.
    ///
    /// # Errors
    ///
    /// Returns [`SourceError`] if there is no such clock, if the permission is missing, if the clock does not advance
    /// or has an implausible rate, or if `host` is a system snapshot.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PtpClock};
    ///
    /// match PtpClock::open(&Host::live(), 0) {
    ///     Ok(clock) => println!("{:?} from CLOCK_REALTIME", clock.offset()),
    ///     Err(reason) => println!("no PTP clock: {reason}"),
    /// }
    /// ```
    pub fn open(host: &Host, number: u32) -> Result<Self, SourceError> {
        tested_as_steady(open(host, &CLOCKS.id(number))?)
    }

    /// Returns the current offset of the clock from `CLOCK_REALTIME`, determined with the best method that its driver
    /// supports.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, or [`io::ErrorKind::InvalidData`] if the readings are out of order.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, PtpClock};
    ///
    /// if let Ok(clock) = PtpClock::open(&Host::live(), 0) {
    ///     match clock.offset() {
    ///         Ok(offset) => println!("{} ns from CLOCK_REALTIME, by {}", offset.offset_ns, offset.method.name()),
    ///         Err(error) => println!("no offset: {error}"),
    ///     }
    /// }
    /// ```
    pub fn offset(&self) -> io::Result<PtpOffset> {
        let precise = self.device.at_one_moment().ok();
        conclude(precise, self.device.beside_system())
    }
}

impl TimeSource for PtpClock {
    #[inline(always)]
    fn ticks(&self) -> u64 {
        self.clock.nanos()
    }

    fn info(&self) -> &SourceInfo {
        &self.info
    }
}

/// Returns the offset according to the readings. Each reading of the device was taken at an unknown time between two
/// readings of the system clock, so it yields an interval for the offset. Only the narrowest interval is used, because
/// the two clocks drift apart between the readings. A simultaneous capture takes precedence, unless the narrowest
/// interval contradicts it.
fn conclude(precise: Option<(PtpTime, PtpTime)>, readings: io::Result<(Vec<Between>, bool)>) -> io::Result<PtpOffset> {
    let precise = precise
        .and_then(|(device, system)| device.nanos()?.checked_sub(system.nanos()?))
        .map(|offset_ns| PtpOffset { offset_ns, bound_ns: None, method: PtpOffsetMethod::Precise, readings: 1 });
    let (readings, is_extended) = match (readings, precise) {
        (Ok(readings), _) => readings,
        (Err(_), Some(precise)) => return Ok(precise),
        (Err(error), None) => return Err(error),
    };
    let method = if is_extended { PtpOffsetMethod::Extended } else { PtpOffsetMethod::Plain };
    let narrowest = readings.iter().filter_map(interval).min_by_key(|(lowest, highest)| highest - lowest);
    let Some((lowest, highest)) = narrowest else {
        return precise.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the readings are out of order"));
    };
    let bracketed = |offset_ns: i64| Some(highest.abs_diff(offset_ns).max(lowest.abs_diff(offset_ns)));
    Ok(match precise.filter(|precise| (lowest..=highest).contains(&precise.offset_ns)) {
        Some(precise) => PtpOffset { bound_ns: bracketed(precise.offset_ns), ..precise },
        None => {
            let offset_ns = lowest + (highest - lowest) / 2;
            PtpOffset { offset_ns, bound_ns: bracketed(offset_ns), method, readings: readings.len() }
        }
    })
}

/// Returns the smallest and the largest offset that a reading allows. Returns `None` if the system clock was set back
/// between its two readings, or if a value is invalid.
fn interval(reading: &Between) -> Option<(i64, i64)> {
    let (before, device, after) = (reading.before.nanos()?, reading.device.nanos()?, reading.after.nanos()?);
    let (lowest, highest) = (device.checked_sub(after)?, device.checked_sub(before)?);
    highest.checked_sub(lowest).filter(|&width| width >= 0).map(|_| (lowest, highest))
}

fn info(id: SourceId) -> SourceInfo {
    SourceInfo::new(id)
        .with_rate(RateKind::SlewedAndStepped)
        .with_nominal(Frequency::GIGAHERTZ, StatedBy::Definition)
        .with_read_path(ReadPath::SystemCall)
}

fn open(host: &Host, id: &SourceId) -> Result<PtpClock, SourceError> {
    if !host.is_live() {
        return Err(SourceError::Captured);
    }
    let device = Ptp::open(&device(id)).map_err(|error| CLOCKS.refusal(id, error))?;
    let clock = device.clock().map_err(|error| SourceError::refused(id.to_string(), error))?;
    Ok(PtpClock { clock, info: info(id.clone()), device })
}

/// Returns a line that identifies the clock by its driver or, if it has no driver, by its name. A name that is the
/// address of a network card is not used.
fn named(host: &Host, id: &SourceId) -> Option<String> {
    let of_device = host.text(&CLOCKS.attribute(id, "device/uevent"));
    let driver = of_device.as_deref().and_then(|lines| lines.lines().find_map(|line| line.strip_prefix("DRIVER=")));
    driver.map(|driver| format!("driver: {driver}")).or_else(|| {
        let name = host.text(&CLOCKS.attribute(id, "clock_name"))?;
        let is_an_address = name.len() == 12 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!is_an_address).then(|| format!("clock name: {name:?}"))
    })
}

fn evidence(host: &Host, id: &SourceId, opened: Option<&PtpClock>) -> Vec<String> {
    let mut lines: Vec<String> = named(host, id).into_iter().collect();
    lines.extend(opened.map(|clock| match clock.offset() {
        Err(error) => format!("offset from CLOCK_REALTIME: unknown ({error})"),
        Ok(PtpOffset { offset_ns, bound_ns, method, readings }) => {
            let bound = bound_ns.map_or("no bound".to_owned(), |bound_ns| format!("bound ± {bound_ns} ns"));
            let noun = if readings == 1 { "reading" } else { "readings" };
            format!(
                "offset from CLOCK_REALTIME: {offset_ns:+} ns, {bound}, using {} ({readings} {noun})",
                method.name()
            )
        }
    }));
    lines
}

#[derive(Debug)]
pub(super) struct PtpBackend;

impl Backend for PtpBackend {
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
            CLOCKS.report(id, evidence, opened.and_then(tested_as_steady).map(|clock| clock.info))
        };
        self.ids_on(host).into_iter().map(report).collect()
    }

    fn outline(&self, host: &Host) -> Vec<ProbeReport> {
        CLOCKS.outline(host, info, |id| device(id).exists())
    }

    fn open(&self, host: &Host, id: &SourceId) -> Result<Opened, SourceError> {
        tested_as_steady(open(host, id)?).map(|clock| Opened::Shared(Box::new(clock)))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io};

    use proptest::{
        collection::vec,
        prelude::{any, prop_assert, proptest},
    };

    use super::{Between, CLOCKS, PtpOffsetMethod, PtpTime, SourceError, SourceId, conclude, named};
    use hpt_sys::host::{Facts, Host};

    fn reading(before: i64, device: i64, after: i64) -> Between {
        let at = PtpTime::of_nanoseconds;
        Between { before: at(before), device: at(device), after: at(after) }
    }

    fn unsupported<T>() -> io::Result<T> {
        Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
    }

    #[test]
    fn the_narrowest_reading_determines_the_offset_and_its_bound() {
        let readings = vec![reading(1_000, 5_500, 2_000), reading(3_000, 7_050, 3_100), reading(4_000, 8_900, 5_000)];
        let offset = conclude(None, Ok((readings.clone(), true))).expect("three readings");
        assert_eq!((offset.offset_ns, offset.bound_ns, offset.readings), (4_000, Some(50), 3));
        assert_eq!(offset.method, PtpOffsetMethod::Extended);
        assert_eq!(
            conclude(None, Ok((readings, false))).map(|offset| offset.method).ok(),
            Some(PtpOffsetMethod::Plain)
        );
    }

    #[test]
    fn a_single_instant_is_preferred_unless_the_readings_contradict_it() {
        let at = PtpTime::of_nanoseconds;
        let readings = || Ok((vec![reading(3_000, 7_050, 3_100)], true));
        let agreed = conclude(Some((at(9_020), at(5_000))), readings()).expect("both");
        assert_eq!((agreed.offset_ns, agreed.bound_ns, agreed.method), (4_020, Some(70), PtpOffsetMethod::Precise));
        let contradicted = conclude(Some((at(9_900), at(5_000))), readings()).expect("both");
        assert_eq!((contradicted.offset_ns, contradicted.method), (4_000, PtpOffsetMethod::Extended));
        let alone = conclude(Some((at(9_020), at(5_000))), unsupported()).expect("one");
        assert_eq!((alone.offset_ns, alone.bound_ns), (4_020, None));
        assert!(conclude(None, unsupported()).is_err());
    }

    #[test]
    fn a_reading_around_a_backward_step_is_ignored() {
        let offset =
            conclude(None, Ok((vec![reading(5_000, 1, 4_000), reading(0, 100, 60)], true))).expect("one of two");
        assert_eq!((offset.offset_ns, offset.bound_ns), (70, Some(30)));
        assert!(conclude(None, Ok((vec![reading(5_000, 1, 4_000)], true))).is_err());
        assert!(conclude(None, Ok((Vec::new(), true))).is_err());
    }

    proptest! {
        /// Verifies that the true offset is within the bound, for any reading of a clock that is `offset` ahead,
        /// between two readings of the other clock.
        #[test]
        fn the_true_offset_is_within_the_bound(
            offset in -1_000_000_000_000_i64..1_000_000_000_000,
            moments in vec((0_i64..1 << 60, 0_i64..10_000, 0_i64..10_000), 1..25),
            extended in any::<bool>(),
        ) {
            let readings = moments.iter().map(|&(now, early, late)| reading(now - early, now + offset, now + late)).collect();
            let found = conclude(None, Ok((readings, extended))).expect("the readings are in order");
            prop_assert!(found.offset_ns.abs_diff(offset) <= found.bound_ns.expect("bracketed"), "{found:?}");
        }

        #[test]
        fn any_readings_yield_an_offset_or_a_reason(times in vec(any::<(i64, i64, i64)>(), 0..25), moment in any::<(i64, i64)>()) {
            let readings = times.into_iter().map(|(before, device, after)| reading(before, device, after)).collect();
            let moment = (PtpTime::of_nanoseconds(moment.0), PtpTime::of_nanoseconds(moment.1));
            let _ = conclude(Some(moment), Ok((readings, true)));
        }
    }

    #[test]
    fn the_address_of_a_network_card_is_not_shown() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let host = Host::below(folder.path(), Facts::live());
        let write = |path: &str, content: &str| {
            let file = folder.path().join("sys/class/ptp/ptp0").join(path);
            fs::create_dir_all(file.parent().expect("a parent directory")).expect("a new directory");
            fs::write(file, content).expect("writable");
        };
        let named = || named(&host, &SourceId::new("ptp0"));
        assert_eq!(named(), None);
        write("clock_name", "525400123456\n");
        assert_eq!(named(), None);
        write("clock_name", "KVM virtual PTP\n");
        assert_eq!(named().as_deref(), Some("clock name: \"KVM virtual PTP\""));
        write("device/uevent", "DRIVER=igb\nPCI_CLASS=20000\n");
        assert_eq!(named().as_deref(), Some("driver: igb"));
    }

    #[test]
    fn every_refusal_is_explained_with_a_fix() {
        let answer = |errno| CLOCKS.refusal(&SourceId::new("ptp3"), io::Error::from_raw_os_error(errno));
        assert!(matches!(answer(libc::ENOENT), SourceError::NoDevice { .. }));
        assert!(answer(libc::EACCES).remedy().is_some_and(|remedy| remedy.contains("KERNEL==\"ptp3\"")));
        assert!(matches!(answer(libc::EIO), SourceError::Refused { .. }));
    }
}
