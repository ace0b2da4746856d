//! The clock discipline that a time daemon has configured in the kernel, read with adjtimex(2).

use std::{io, time::Duration};

use hpt_sys::adjtime::{self, Timex};

/// The state of the kernel's clock discipline: the corrections to its clocks, and its estimate of their error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Discipline {
    /// Whether the kernel considers its wall clock synchronized. A daemon must have reported this recently.
    pub synchronized: bool,
    /// The status word (STA_PLL and others). Linux, include/uapi/linux/timex.h.
    pub status: u32,
    /// The active frequency correction, in parts per million.
    pub frequency_ppm: f64,
    /// The difference between the active tick length and the default tick length, in parts per million. chrony corrects
    /// large offsets by changing the tick length.
    pub tick_ppm: f64,
    /// The maximum error of the wall clock, as computed by the daemon and the kernel.
    pub maximum_error: Duration,
    /// The estimated error of the wall clock, as reported by the daemon.
    pub estimated_error: Duration,
}

/// Returns the current state of the kernel's clock discipline.
///
/// # Errors
///
/// Returns the error from adjtimex(2), for example if a sandbox forbids the call.
///
/// # Examples
///
/// ```
/// use hpt_core::clock;
///
/// match clock::discipline() {
///     Ok(state) if state.synchronized => println!("within {:?} of UTC", state.maximum_error),
///     Ok(_) => println!("no daemon synchronizes the wall clock"),
///     Err(refused) => println!("adjtimex: {refused}"),
/// }
/// ```
pub fn discipline() -> io::Result<Discipline> {
    adjtime::read().map(Discipline::of)
}

/// The largest rate correction that is not far off, in parts per million. The kernel limits the frequency correction to
/// half of it, because no working crystal is off by more. Linux, include/linux/timex.h: `MAXFREQ`.
const FAR_OFF_PPM: f64 = 1_000.0;

impl Discipline {
    /// Returns by how much the kernel's clocks run faster than the counter of the clocksource, in parts per million.
    /// The result does not contain the slewing of an offset.
    ///
    /// # Examples
    ///
    /// ```
    /// if let Ok(state) = hpt_core::clock::discipline() {
    ///     assert_eq!(state.correction_ppm(), state.tick_ppm + state.frequency_ppm);
    /// }
    /// ```
    #[must_use]
    pub fn correction_ppm(&self) -> f64 {
        self.tick_ppm + self.frequency_ppm
    }

    /// Describes a rate correction beyond what any working crystal needs; `None` if the correction is smaller.
    ///
    /// # Examples
    ///
    /// ```
    /// if let Some(warning) = hpt_core::clock::discipline().ok().and_then(|state| state.far_off()) {
    ///     eprintln!("{warning}");
    /// }
    /// ```
    #[must_use]
    pub fn far_off(&self) -> Option<String> {
        let (ppm, Self { tick_ppm, frequency_ppm, .. }) = (self.correction_ppm(), self);
        let direction = if ppm < 0.0 { "slow" } else { "fast" };
        (ppm.abs() > FAR_OFF_PPM).then(|| {
            format!(
                "CLOCK_REALTIME and CLOCK_MONOTONIC run {:.1} % {direction} against the counter of the clocksource: tick {tick_ppm:+.0} ppm, frequency {frequency_ppm:+.1} ppm",
                ppm.abs() / 1e4
            )
        })
    }

    /// Converts what the kernel reports.
    #[expect(clippy::cast_precision_loss, reason = "the kernel keeps these far below 2^53")]
    #[must_use]
    pub fn of(read: Timex) -> Self {
        // Linux, include/uapi/linux/timex.h.
        const STA_UNSYNC: u32 = 0x40;
        // The kernel's frequency value has 16 fractional bits; see adjtimex(2).
        const FRACTION: f64 = 65_536.0;
        let microseconds = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        Self {
            synchronized: read.status & STA_UNSYNC == 0,
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
    use hpt_sys::adjtime::Timex;

    #[test]
    fn the_kernels_units_are_converted() {
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
            is.synchronized && (is.frequency_ppm + 12.5).abs() < 1e-9 && (is.tick_ppm - 100.0).abs() < 1e-9,
            "{is:?}"
        );
        assert_eq!((is.maximum_error.as_micros(), is.estimated_error.as_micros()), (1_500, 0));
        assert!(!Discipline::of(Timex { status: 0x41, ..read }).synchronized);
    }

    #[test]
    fn a_rate_is_far_off_only_beyond_what_a_crystal_needs() {
        let of = |tick_us, frequency_ppm: i64| {
            let read = Timex {
                status: 0x2001,
                frequency_scaled: frequency_ppm << 16,
                tick_us,
                usual_tick_us: 10_000,
                maximum_error_us: 0,
                estimated_error_us: 0,
            };
            Discipline::of(read).far_off()
        };
        assert!(of(9_256, -42).is_some_and(|said| said.contains("7.4 % slow") && said.contains("tick -74400 ppm")));
        assert!(of(10_833, 0).is_some_and(|said| said.contains("8.3 % fast")));
        assert!(of(10_006, 500).is_some_and(|said| said.contains("0.1 % fast")));
        assert_eq!((of(10_000, 500), of(10_000, -500), of(10_010, -500), of(9_990, 0)), (None, None, None, None));
    }

    #[test]
    fn this_kernel_reports_its_clock_discipline() {
        match discipline() {
            Ok(is) => assert!(is.frequency_ppm.abs() <= 500.0 && is.tick_ppm.abs() <= 100_000.0, "{is:?}"),
            Err(refused) => skipped!("{refused}"),
        }
    }
}
