//! What a time daemon has told the kernel, and how the kernel bends its clocks by it: adjtimex(2), only read.
//! Changes nothing.

use std::{io, time::Duration};

use crate::sys::adjtime::{self, Timex};

/// How the kernel bends its clocks, and what it believes of them.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Discipline {
    /// Whether the kernel takes its wall time for synchronised: a daemon says so, and has said something lately.
    pub synchronised: bool,
    /// The status word, STA_PLL and the like. Linux, include/uapi/linux/timex.h.
    pub status: u32,
    /// The frequency in force, in parts per million.
    pub frequency_ppm: f64,
    /// How far the tick in force is from the usual one, in parts per million: chrony corrects large offsets by it.
    pub tick_ppm: f64,
    /// How far wall time may be off, as the daemon and the kernel reckon.
    pub maximum_error: Duration,
    /// How far wall time is off, as the daemon estimates.
    pub estimated_error: Duration,
}

/// What the kernel says now.
///
/// # Errors
///
/// What the kernel, or a sandbox, answers.
pub fn discipline() -> io::Result<Discipline> {
    adjtime::read().map(Discipline::of)
}

impl Discipline {
    #[expect(clippy::cast_precision_loss, reason = "the kernel keeps these far below 2^53")]
    pub(crate) fn of(read: Timex) -> Self {
        // Linux, include/uapi/linux/timex.h.
        const STA_UNSYNC: u32 = 0x40;
        // The kernel's frequency has 16 bits behind the point. adjtimex(2).
        const FRACTION: f64 = 65_536.0;
        let microseconds = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        Self {
            synchronised: read.status & STA_UNSYNC == 0,
            status: read.status,
            frequency_ppm: read.frequency_scaled as f64 / FRACTION,
            tick_ppm: (read.tick_us as f64 - read.usual_tick_us as f64) / (read.usual_tick_us.max(1) as f64) * 1e6,
            maximum_error: microseconds(read.maximum_error_us),
            estimated_error: microseconds(read.estimated_error_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Discipline, discipline};
    use crate::sys::adjtime::Timex;

    #[test]
    fn the_kernels_units_are_understood() {
        let read = Timex {
            status: 0x2001,
            frequency_scaled: -65_536 * 12 - 32_768,
            tick_us: 10_001,
            usual_tick_us: 10_000,
            maximum_error_us: 1_500,
            estimated_error_us: -1,
        };
        let is = Discipline::of(read);
        assert!(
            is.synchronised && (is.frequency_ppm + 12.5).abs() < 1e-9 && (is.tick_ppm - 100.0).abs() < 1e-9,
            "{is:?}"
        );
        assert_eq!((is.maximum_error.as_micros(), is.estimated_error.as_micros()), (1_500, 0));
        assert!(!Discipline::of(Timex { status: 0x41, ..read }).synchronised);
    }

    #[test]
    fn this_kernel_says_what_it_does() {
        match discipline() {
            Ok(is) => assert!(is.frequency_ppm.abs() <= 500.0 && is.tick_ppm.abs() <= 100_000.0, "{is:?}"),
            Err(refused) => skipped!("{refused}"),
        }
    }
}
