//! Time sources: what one is, which there are, how to open one by name.
//! Converts nothing to time and measures no quality beyond the self-test.

mod acpi_pm;
mod arm_counter;
mod arm_cycles;
mod as_if_steady;
mod backend;
mod bcm_systimer;
mod bracket;
mod cycle_rate;
mod event_page;
mod hpet;
mod info;
mod kinship;
mod native;
mod numbered;
mod on_its_cpu;
mod one_kind;
mod perf_cycles;
mod perf_time;
mod pit;
mod posix;
mod ptp;
mod rights;
mod rtc;
mod select;
mod self_test;
mod tsc;
mod two_words;
mod widen;

#[cfg_attr(target_arch = "x86_64", allow(unused_imports, reason = "for ARM's own clock"))]
pub(crate) use self::arm_counter::has_self_synchronised_reads;
pub(crate) use self::{bracket::Reference, info::wraps_soon, native::permitted_native};

use std::{fmt::Debug, sync::Arc};

pub use self::{
    acpi_pm::AcpiPm,
    arm_counter::ArmCounter,
    arm_cycles::{ArmCycles, explain_refused_cycles},
    backend::{Backend, KernelVerdict, MissingRight, Opened, ProbeReport, Unavailable},
    bcm_systimer::{BcmSystimer, BcmSystimerLow},
    bracket::Pair,
    cycle_rate::busy_rate,
    hpet::{Hpet, HpetLow},
    info::{Nominal, ReadPath, Scope, SourceId, SourceInfo, StatedBy},
    kinship::{are_one_reading, counter_of_clock_source},
    perf_cycles::PerfCycles,
    perf_time::PerfTime,
    posix::{PosixClock, PosixId, ThreadCpuClock},
    ptp::{PtpClock, PtpOffset, PtpOffsetMethod},
    rtc::RealTimeClock,
    select::{Candidate, Fitness, Selection, select},
    self_test::{SelfTest, SelfTestFailure, self_test},
    tsc::{Tsc, permit_counter},
    widen::{WidenError, Widened},
};
use crate::host::Host;

/// Every kind of source, in the order in which they are listed. A new one stands here and in the modules above.
pub(crate) const BACKENDS: &[&dyn Backend] = &[
    &tsc::TscBackend,
    &arm_counter::ArmCounterBackend,
    &bcm_systimer::BcmSystimerBackend,
    &hpet::HpetBackend,
    &acpi_pm::AcpiPmBackend,
    &pit::PitBackend,
    &arm_cycles::ArmCyclesBackend,
    &perf_cycles::PerfCyclesBackend,
    &perf_time::PerfTimeBackend,
    &posix::PosixBackend,
    &rtc::RtcBackend,
    &ptp::PtpBackend,
];

/// Something that counts at a steady or unsteady rate and can be read.
///
/// Implement it for a counter of your own: everything in this crate that takes a source takes yours.
///
/// # Contract
///
/// An implementation MUST return readings below 2^[`width`](crate::Width), MUST NOT fail, block or allocate in a
/// read, and MUST make [`ticks_start`](Self::ticks_start) and [`ticks_end`](Self::ticks_end) ordered as they say where the
/// machine can reorder the plain read.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, TimeSource, source};
///
/// let opened = source::open(&Host::live(), "monotonic")?;
/// let clock = opened.as_dyn();
/// let (first, second) = (clock.ticks(), clock.ticks());
/// assert!(first <= second);
/// # Ok::<(), hpt_core::Unavailable>(())
/// ```
pub trait TimeSource: Debug {
    /// The reading, in ticks, at the lowest cost.
    ///
    /// # Ordering
    ///
    /// None: the processor may take it earlier or later than it stands in the program.
    fn ticks(&self) -> u64;

    /// The reading before a piece of work.
    ///
    /// # Ordering
    ///
    /// Not before anything that stands earlier in the program has completed.
    fn ticks_start(&self) -> u64 {
        self.ticks()
    }

    /// The reading after a piece of work.
    ///
    /// # Ordering
    ///
    /// Not before the work has completed, and before anything that stands later begins.
    fn ticks_end(&self) -> u64 {
        self.ticks()
    }

    /// What this source is.
    fn info(&self) -> &SourceInfo;

    /// Reads `reads` times back to back and returns the last reading: what a benchmark calls, so that through `dyn` too it
    /// times the read and not the dispatch. Zero reads return 0.
    fn ticks_repeated(&self, reads: u32) -> u64 {
        let mut last = 0;
        for _ in 0..reads {
            last = std::hint::black_box(self.ticks());
        }
        last
    }
}

macro_rules! forward_time_source {
    ($($pointer:ty),+) => {$(
        impl<S: TimeSource + ?Sized> TimeSource for $pointer {
            #[inline(always)]
            fn ticks(&self) -> u64 {
                (**self).ticks()
            }
            #[inline(always)]
            fn ticks_start(&self) -> u64 {
                (**self).ticks_start()
            }
            #[inline(always)]
            fn ticks_end(&self) -> u64 {
                (**self).ticks_end()
            }
            #[inline(always)]
            fn info(&self) -> &SourceInfo {
                (**self).info()
            }
            #[inline(always)]
            fn ticks_repeated(&self, reads: u32) -> u64 {
                (**self).ticks_repeated(reads)
            }
        }
    )+};
}

forward_time_source!(&S, Box<S>, Arc<S>);

/// Asks every backend about every source it knows, on this host. Nothing is measured.
///
/// On a captured host the answers come from its files and facts alone.
#[must_use]
pub fn probe(host: &Host) -> Vec<ProbeReport> {
    BACKENDS.iter().flat_map(|backend| backend.probe(host)).collect()
}

/// The same for whoever looks for a clock: of what counts cycles and no time it says what that is, and does not look whether it is to be had.
#[must_use]
pub fn outline(host: &Host) -> Vec<ProbeReport> {
    BACKENDS.iter().flat_map(|backend| backend.outline(host)).collect()
}

/// Opens the source called `name`.
///
/// # Errors
///
/// [`Unavailable::Unknown`] with the nearest names, or the reason why this machine cannot offer the source.
pub fn open(host: &Host, name: &str) -> Result<Opened, Unavailable> {
    let id = SourceId::from(name.to_owned());
    match BACKENDS.iter().find(|backend| backend.ids_on(host).contains(&id)) {
        Some(backend) => backend.open(host, &id),
        None => Err(Unavailable::Unknown { nearest: nearest_names(host, name), name: name.to_owned() }),
    }
}

/// The names of all sources on this host, in the order in which they are listed: those of [`names`], and more where it has several devices of a kind.
#[must_use]
pub fn names_on(host: &Host) -> Vec<SourceId> {
    BACKENDS.iter().flat_map(|backend| backend.ids_on(host)).collect()
}

/// The names of the sources that are listed on every machine, in that order.
#[must_use]
pub fn names() -> Vec<SourceId> {
    BACKENDS.iter().flat_map(|backend| backend.ids()).collect()
}

/// Opens the source that [`select`] chooses on this host, and says why.
///
/// Sources that cannot win for what they are (stepped clocks, CPU-time clocks, coarse clocks) are not tested, so this takes a few
/// milliseconds. Where nothing else is fit, `CLOCK_MONOTONIC` is.
///
/// # Errors
///
/// When not even `CLOCK_MONOTONIC` can be opened, or the host is a captured one.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, TimeSource, source};
///
/// let (source, selection) = source::choose(&Host::live())?;
/// println!("{}: {}", source.as_dyn().info().id, selection.reason());
/// # Ok::<(), hpt_core::Unavailable>(())
/// ```
pub fn choose(host: &Host) -> Result<(Opened, Selection), Unavailable> {
    let reference = PosixClock::open(host, PosixId::Monotonic)?;
    let candidates: Vec<Candidate> =
        outline(host).into_iter().map(|report| Candidate::examine(host, report, &reference)).collect();
    let selection = select(candidates);
    let name = selection.chosen().map_or("monotonic", SourceId::as_str);
    Ok((open(host, name)?, selection))
}

/// `source`, after a self-test against a clock of the kernel: for sources whose registers might be those of something else. A wrong page shows by
/// its rate, one that does not count by standing still.
fn tested<S: TimeSource>(source: S) -> Result<S, Unavailable> {
    let reference = PosixClock::open(&Host::live(), PosixId::MonotonicRaw)?;
    self_test(&source, &reference).map_err(Unavailable::SelfTest)?;
    Ok(source)
}

/// Up to three names that differ from `name` by the fewest letters.
fn nearest_names(host: &Host, name: &str) -> Vec<SourceId> {
    let mut scored: Vec<_> = names_on(host).into_iter().map(|id| (edit_distance(name, id.as_str()), id)).collect();
    scored.sort_by_key(|(distance, _)| *distance);
    scored
        .into_iter()
        .take_while(|(distance, id)| *distance <= id.as_str().len() / 2 + 1)
        .take(3)
        .map(|(_, id)| id)
        .collect()
}

/// Letters to insert, delete or replace to get from `a` to `b`. Fifteen lines here save the library a dependency.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[row.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, names, nearest_names};
    use crate::host::{Facts, Host};

    #[test]
    fn names_are_unique() {
        let mut names = names();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let host = Host::captured(Default::default(), Facts::live());
        let nearest_names = |name| nearest_names(&host, name);
        assert_eq!(nearest_names("tcs").first().map(super::info::SourceId::as_str), Some("tsc"));
        assert_eq!(nearest_names("monotonic_raw").first().map(super::info::SourceId::as_str), Some("monotonic-raw"));
        assert_eq!(nearest_names("zzzzzzzzzzzzzzzzzzzzzz"), []);
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(
            (edit_distance("kitten", "sitting"), edit_distance("", "abc"), edit_distance("abc", "abc")),
            (3, 3, 0)
        );
    }
}
