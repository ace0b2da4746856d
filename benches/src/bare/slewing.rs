//! Reads and sets the kernel's slewing of its clock.
//! Does not decide the rate: `slewing` does.
#![expect(unsafe_code, reason = "adjtimex, which the C library declares")]

use std::{io, mem};

use serde::Serialize;

/// The state of the kernel's clock, as reported by adjtimex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelClock {
    /// How much faster the clock runs than its source, as 2^-16 ppm.
    pub frequency: i64,
    /// The length of a tick of the clock, in µs.
    pub tick_us: i64,
    /// The remaining offset to slew, in µs or ns depending on `status`.
    pub offset: i64,
    /// Bits of `STA_…`.
    pub status: i32,
}

/// Returns the current state of the kernel's clock. Needs no privileges.
///
/// # Errors
///
/// Fails if a sandbox denies it.
pub fn read() -> io::Result<KernelClock> {
    adjust(&mut empty())
}

/// Sets the frequency, as 2^-16 ppm, and the tick, in µs. Needs `CAP_SYS_TIME`.
///
/// # Errors
///
/// Fails without the capability, or if a value is out of range.
#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on 32-bit machines")]
pub fn set(frequency: i64, tick_us: i64) -> io::Result<KernelClock> {
    let mut request = empty();
    request.modes = libc::ADJ_FREQUENCY | libc::ADJ_TICK;
    let narrow = |value: i64| value.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    (request.freq, request.tick) = (narrow(frequency)?, narrow(tick_us)?);
    adjust(&mut request)
}

fn empty() -> libc::timex {
    // SAFETY: a structure of integers, for which zeros are values. adjtimex(2).
    unsafe { mem::zeroed() }
}

#[allow(clippy::useless_conversion, reason = "the fields have 32 bits on 32-bit machines")]
fn adjust(request: &mut libc::timex) -> io::Result<KernelClock> {
    // SAFETY: a live structure of the C library's own layout, which the call reads and fills.
    // adjtimex(2).
    let state = unsafe { libc::adjtimex(request) };
    if state < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(KernelClock {
        frequency: request.freq.into(),
        tick_us: request.tick.into(),
        offset: request.offset.into(),
        status: request.status,
    })
}
