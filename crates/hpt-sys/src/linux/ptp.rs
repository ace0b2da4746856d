//! PTP hardware clocks, read through the clock IDs of their open files, and bracketed between readings of the system's
//! clock. Does not judge the readings; `source::ptp` does.

use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use super::clock::Clock;

/// `struct ptp_clock_time`. Linux, include/uapi/linux/ptp_clock.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtpTime {
    seconds: i64,
    nanoseconds: u32,
    reserved: u32,
}

impl PtpTime {
    /// Returns the nanoseconds since the epoch of the clock; `None` for values that no clock returns.
    pub fn nanos(self) -> Option<i64> {
        self.seconds.checked_mul(1_000_000_000)?.checked_add(self.nanoseconds.into())
    }
}

/// PTP_MAX_SAMPLES. Linux, include/uapi/linux/ptp_clock.h.
const SAMPLES: u32 = 25;
const MOST: usize = SAMPLES as usize;

/// `struct ptp_sys_offset`: alternating times of the system's clock and of the PTP clock, which begin and end with the
/// system's clock.
#[repr(C)]
struct SystemOffset {
    samples: u32,
    reserved: [u32; 3],
    times: [PtpTime; 2 * MOST + 1],
}

/// `struct ptp_sys_offset_extended`: the time of the PTP clock between two readings of the system's clock. Since Linux
/// 6.12, the second field selects which of the system's clocks is read: 0 is CLOCK_REALTIME, as on all kernels.
#[repr(C)]
struct SystemOffsetExtended {
    samples: u32,
    reserved: [u32; 3],
    times: [[PtpTime; 3]; MOST],
}

/// `struct ptp_sys_offset_precise`: the times of both clocks, captured at the same instant.
#[repr(C)]
#[derive(Default)]
struct SystemOffsetPrecise {
    device: PtpTime,
    realtime: PtpTime,
    monotonic_raw: PtpTime,
    reserved: [u32; 4],
}

/// The ioctl request numbers, which include the sizes of the structures. Linux, include/uapi/linux/ptp_clock.h.
const MAGIC: u32 = b'=' as u32;
const PTP_SYS_OFFSET: libc::Ioctl = libc::_IOW::<SystemOffset>(MAGIC, 5);
const PTP_SYS_OFFSET_PRECISE: libc::Ioctl = libc::_IOWR::<SystemOffsetPrecise>(MAGIC, 8);
const PTP_SYS_OFFSET_EXTENDED: libc::Ioctl = libc::_IOWR::<SystemOffsetExtended>(MAGIC, 9);
const _: () = assert!(size_of::<SystemOffset>() == 0x340, "the layout must match the kernel's");
const _: () = assert!(size_of::<SystemOffsetPrecise>() == 0x40, "the layout must match the kernel's");
const _: () = assert!(size_of::<SystemOffsetExtended>() == 0x4c0, "the layout must match the kernel's");

/// A reading of the PTP clock between two readings of the system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between {
    pub before: PtpTime,
    pub device: PtpTime,
    pub after: PtpTime,
}

/// An open PTP clock.
#[derive(Debug)]
pub struct Ptp {
    file: File,
}

impl Ptp {
    /// Opens the clock for reading, which does not permit setting or slewing it.
    ///
    /// # Errors
    ///
    /// Returns the error from opening the clock.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_CLOEXEC).open(path)?;
        Ok(Self { file })
    }

    /// Returns the PTP clock as a kernel clock, which is valid while this file is open.
    ///
    /// # Errors
    ///
    /// Returns the error from the first reading.
    pub fn clock(&self) -> io::Result<Clock> {
        Clock::of_descriptor(self.file.as_raw_fd())
    }

    /// Returns readings of the PTP clock, each between two readings of CLOCK_REALTIME. The driver reads CLOCK_REALTIME
    /// before and after the device's register. If the driver does not support this, the kernel reads CLOCK_REALTIME
    /// before and after it calls the driver. The second result is true if the driver read CLOCK_REALTIME.
    ///
    /// # Errors
    ///
    /// Returns the error from the second method, if neither is available.
    pub fn beside_system(&self) -> io::Result<(Vec<Between>, bool)> {
        let mut extended =
            SystemOffsetExtended { samples: SAMPLES, reserved: [0; 3], times: [[PtpTime::default(); 3]; MOST] };
        let descriptor = self.file.as_raw_fd();
        // SAFETY: the request number includes the size of `extended`. The kernel reads the first words, and fills the
        // requested entries, at most 25. Linux, drivers/ptp/ptp_chardev.c, `ptp_sys_offset_extended`.
        let answer = unsafe { libc::ioctl(descriptor, PTP_SYS_OFFSET_EXTENDED, &raw mut extended) };
        if answer >= 0 {
            let between = extended.times.map(|[before, device, after]| Between { before, device, after });
            return Ok((between.to_vec(), true));
        }
        let mut plain = SystemOffset { samples: SAMPLES, reserved: [0; 3], times: [PtpTime::default(); 2 * MOST + 1] };
        // SAFETY: as above. The kernel fills `2 * samples + 1` entries. Linux,
        // drivers/ptp/ptp_chardev.c, `ptp_sys_offset`.
        let answer = unsafe { libc::ioctl(descriptor, PTP_SYS_OFFSET, &raw mut plain) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        let triples = plain.times.windows(3).step_by(2);
        Ok((triples.map(|triple| Between { before: triple[0], device: triple[1], after: triple[2] }).collect(), false))
    }

    /// Returns the times of the PTP clock and of CLOCK_REALTIME at the same instant, as captured by hardware or a
    /// hypervisor.
    ///
    /// # Errors
    ///
    /// Returns EOPNOTSUPP if the device does not support this.
    pub fn at_one_moment(&self) -> io::Result<(PtpTime, PtpTime)> {
        let mut precise = SystemOffsetPrecise::default();
        // SAFETY: the request number includes the size of `precise`, which the kernel fills. Linux,
        // drivers/ptp/ptp_chardev.c, `ptp_sys_offset_precise`.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), PTP_SYS_OFFSET_PRECISE, &raw mut precise) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok((precise.device, precise.realtime)) }
    }
}

#[cfg(any(test, feature = "testing"))]
impl PtpTime {
    pub fn of_nanoseconds(nanoseconds: i64) -> Self {
        let part = u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).expect("below a second");
        Self { seconds: nanoseconds.div_euclid(1_000_000_000), nanoseconds: part, reserved: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ptp, PtpTime};

    #[test]
    fn a_file_that_is_not_a_clock_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let no_clock = Ptp::open(file.path()).expect("a file can be opened");
        assert!(no_clock.clock().is_err() && no_clock.beside_system().is_err() && no_clock.at_one_moment().is_err());
    }

    #[test]
    fn a_time_is_in_nanoseconds_or_none() {
        for nanoseconds in [0, 1, 1_700_000_000_123_456_789, -1] {
            assert_eq!(PtpTime::of_nanoseconds(nanoseconds).nanos(), Some(nanoseconds));
        }
        let far = PtpTime { seconds: i64::MAX, nanoseconds: 0, reserved: 0 };
        assert_eq!(far.nanos(), None);
    }
}
