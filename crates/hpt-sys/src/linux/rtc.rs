//! RTC_RD_TIME: the date and time of a real-time clock. Does not convert the date; `source::rtc` does.

use std::{
    fs::File,
    io,
    mem::MaybeUninit,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

/// `struct rtc_time`. Linux, include/uapi/linux/rtc.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtcTime {
    pub second: libc::c_int,
    pub minute: libc::c_int,
    pub hour: libc::c_int,
    /// The day of the month, starting at 1.
    pub day: libc::c_int,
    /// The month, starting at 0 for January.
    pub month: libc::c_int,
    /// The number of years since 1900.
    pub year: libc::c_int,
    pub unused: [libc::c_int; 3],
}

/// The ioctl request number, which includes the size of the structure. Linux, include/uapi/linux/rtc.h.
const RTC_RD_TIME: libc::Ioctl = libc::_IOR::<RtcTime>(b'p' as u32, 9);
const _: () = assert!(size_of::<RtcTime>() == 0x24, "the layout must match the kernel's");

/// An open real-time clock. The clock allows one user at a time: the kernel refuses a second user with EBUSY.
#[derive(Debug)]
pub struct Rtc {
    file: File,
}

impl Rtc {
    /// Opens the clock for reading.
    ///
    /// # Errors
    ///
    /// Returns the error from opening the clock.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_CLOEXEC).open(path)?;
        Ok(Self { file })
    }

    /// Returns the date and time that the clock shows.
    ///
    /// # Errors
    ///
    /// Returns the error from the driver, for example if the clock has lost its time.
    pub fn time(&self) -> io::Result<RtcTime> {
        let mut time = MaybeUninit::<RtcTime>::zeroed();
        // SAFETY: RTC_RD_TIME fills a structure of the size in its request number, which is the size of `time`. For a
        // file of another kind, the call fails with ENOTTY. rtc(4).
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), RTC_RD_TIME, time.as_mut_ptr()) };
        if answer < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `time` consists of integers and was zeroed, so it is initialized whatever the kernel filled in.
        // MaybeUninit::assume_init.
        Ok(unsafe { time.assume_init() })
    }
}

#[cfg(test)]
mod tests {
    use super::Rtc;

    #[test]
    fn a_file_that_is_not_a_clock_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let no_clock = Rtc::open(file.path()).expect("a file can be opened");
        assert!(no_clock.time().is_err());
        assert!(Rtc::open(std::path::Path::new("/nonexistent")).is_err());
    }
}
