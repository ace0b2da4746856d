//! The kernel's active clock parameters, read with adjtimex(2). Does not interpret the parameters; `clock` does.

use std::io;

/// The result of adjtimex, in the kernel's units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timex {
    pub status: u32,
    pub frequency_scaled: i64,
    pub tick_us: i64,
    pub usual_tick_us: i64,
    pub maximum_error_us: i64,
    pub estimated_error_us: i64,
}

/// Temporary changes to the rate of the kernel's clocks: an offset that is being slewed, and a tick length that differs
/// from the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slew {
    /// The remaining offset.
    pub offset_ns: i64,
    pub time_constant: i64,
    pub tick_us: i64,
    pub usual_tick_us: i64,
}

/// Returns the adjustments that the kernel is currently making. Changes nothing.
#[allow(clippy::useless_conversion, reason = "c_long is 32 bits wide on some targets")]
pub fn read_slew() -> io::Result<Slew> {
    /// The status bit that indicates that the offset is in nanoseconds. Linux, include/uapi/linux/timex.h.
    const STA_NANO: libc::c_int = 0x2000;
    let timex = ask()?;
    Ok(slew_of(timex.offset.into(), timex.status & STA_NANO != 0, timex.constant.into(), timex.tick.into()))
}

fn slew_of(offset: i64, is_nano: bool, time_constant: i64, tick_us: i64) -> Slew {
    let offset_ns = if is_nano { offset } else { offset.saturating_mul(1_000) };
    Slew { offset_ns, time_constant, tick_us, usual_tick_us: usual_tick_us() }
}

/// Returns the kernel's clock parameters. Changes nothing.
#[allow(clippy::useless_conversion, reason = "c_long is 32 bits wide on some targets")]
pub fn read() -> io::Result<Timex> {
    let timex = ask()?;
    Ok(Timex {
        status: u32::from_ne_bytes(timex.status.to_ne_bytes()),
        frequency_scaled: timex.freq.into(),
        tick_us: timex.tick.into(),
        usual_tick_us: usual_tick_us(),
        maximum_error_us: timex.maxerror.into(),
        estimated_error_us: timex.esterror.into(),
    })
}

fn ask() -> io::Result<libc::timex> {
    // SAFETY: timex consists of integers, for which zero is a valid value.
    let mut timex = unsafe { std::mem::zeroed::<libc::timex>() };
    timex.modes = 0;
    // SAFETY: `timex` is live, and the call fills it. Without a mode, nothing is set. adjtimex(2).
    if unsafe { libc::adjtimex(&raw mut timex) } == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(timex)
}

#[allow(clippy::useless_conversion, reason = "c_long is 32 bits wide on some targets")]
fn usual_tick_us() -> i64 {
    // SAFETY: the call takes a number that is supported on all systems. sysconf(3).
    let ticks_a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000 / i64::from(ticks_a_second).max(1)
}

#[cfg(test)]
mod tests {
    use super::{read_slew, slew_of};

    #[test]
    fn an_offset_is_in_nanoseconds_in_any_unit_of_the_kernel() {
        assert_eq!(slew_of(-7, true, 1, 10_000).offset_ns, -7);
        assert_eq!(slew_of(-7, false, 1, 10_000).offset_ns, -7_000);
    }

    #[test]
    fn this_kernel_slews_by_less_than_its_limits() {
        match read_slew() {
            Ok(slew) => assert!(slew.offset_ns.abs() <= 1_000_000_000 && slew.time_constant <= 10, "{slew:?}"),
            Err(refused) => skipped!("{refused}"),
        }
    }
}
