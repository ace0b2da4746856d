//! adjtimex(2) without a wish: what the kernel has in force.
//! Interprets nothing: `clock` does.

use std::io;

/// What adjtimex tells, in the kernel's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Timex {
    pub(crate) status: u32,
    pub(crate) frequency_scaled: i64,
    pub(crate) tick_us: i64,
    pub(crate) usual_tick_us: i64,
    pub(crate) maximum_error_us: i64,
    pub(crate) estimated_error_us: i64,
}

/// Asks the kernel, and changes nothing.
#[allow(clippy::useless_conversion, reason = "the C library's long has 32 bits on some machines")]
pub(crate) fn read() -> io::Result<Timex> {
    // SAFETY: timex consists of integers, for which zero is a value.
    let mut timex = unsafe { std::mem::zeroed::<libc::timex>() };
    timex.modes = 0;
    // SAFETY: `timex` is live and is filled by the call; without a mode nothing is set. adjtimex(2).
    if unsafe { libc::adjtimex(&raw mut timex) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes a number; this one is answered everywhere. sysconf(3).
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(Timex {
        status: timex.status.cast_unsigned(),
        frequency_scaled: timex.freq.into(),
        tick_us: timex.tick.into(),
        usual_tick_us: 1_000_000 / i64::from(ticks_a_second).max(1),
        maximum_error_us: timex.maxerror.into(),
        estimated_error_us: timex.esterror.into(),
    })
}
