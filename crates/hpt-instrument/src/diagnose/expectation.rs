//! The expected behavior of a source, derived from its kind and the origin of its nominal frequency, and the limits of
//! accepted deviations.

use std::time::Duration;

use hpt_core::{
    calibrate::Granules,
    source::{RateKind, SourceInfo, StatedBy},
};
use hpt_sys::units::{Frequency, Width};

/// A daemon may change the rate of the kernel's clock by up to 500 ppm through a frequency adjustment, and by up to
/// another 500 ppm through slewing (ADJ_FREQUENCY, adjtime). Linux, kernel/time/ntp.c, MAXFREQ and MAX_TICKADJ.
const BENT_PPM: f64 = 1_000.0;
/// The time after which a source that still returns the same reading is considered stopped. The time is longer for a
/// source that advances with the kernel's tick, because a tick may be late.
const PATIENCE_NS: u64 = 1_000_000;
const PATIENCE_WITH_TICKS_NS: u64 = 1_000_000_000;
/// The minimum number of granules in that time.
const PATIENCE_GRANULES: u64 = 8;

/// The limits of accepted deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The largest accepted difference between the rate of a source and its nominal rate, or its rate at the start, in
    /// parts per million.
    pub rate_ppm: f64,
    /// Whether the tolerance of the nominal rate is added to `rate_ppm`.
    pub statements_may_be_wrong: bool,
    /// The largest accepted step.
    pub step: Duration,
    /// The largest accepted offset between the counters of two cores.
    pub core_offset: Duration,
}

impl Default for Limits {
    /// Returns limits of 50 ppm beyond the tolerance of the nominal rate, 10 µs for steps, and 1 µs for the offset
    /// between cores.
    fn default() -> Self {
        Self {
            rate_ppm: 50.0,
            statements_may_be_wrong: true,
            step: Duration::from_micros(10),
            core_offset: Duration::from_micros(1),
        }
    }
}

/// The changes that a source or its reference may undergo. Later variants include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nature {
    /// No change: its rate is constant.
    Steady,
    /// A daemon slews it.
    Bent,
    /// A daemon slews it, and any privileged process may set it.
    Set,
}

/// The expected behavior of a source that is compared with a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expectation {
    /// The changes that the source or the reference may undergo. A comparison cannot show which of the two caused a
    /// change.
    pub(super) nature: Nature,
    /// Whether the source itself may be set, and may therefore go backward.
    pub(super) may_be_set: bool,
    pub(super) width: Width,
    pub(super) frequency: Frequency,
    pub(super) granules: Granules,
    /// The combined tolerance of both nominal rates.
    pub(super) tolerance_ppm: f64,
    /// The largest change in rate through slewing by a daemon, in parts per million.
    pub(super) bent_ppm: f64,
    /// The value of `bent_ppm` while the kernel's tick has its default length.
    usually_bent_ppm: f64,
    pub(super) patience_ns: u64,
    /// The uncertainty of a measured rate, in parts per million; zero for a nominal rate.
    measured_within_ppm: f64,
}

impl Expectation {
    /// Returns the expected behavior of `source` compared with `reference`, according to their nominal rates; `None` if
    /// `source` has no nominal rate.
    #[must_use]
    pub fn new(source: &SourceInfo, reference: &SourceInfo, granules: Granules) -> Option<Self> {
        let nominal = source.nominal?;
        let (own, others) = (nature(source), nature(reference));
        let bent_ppm = if own.max(others) == Nature::Steady { 0.0 } else { BENT_PPM };
        let granule_ns = ns_of(granules.source_ticks, nominal.frequency).saturating_add(granules.reference_ns);
        let patience_ns = if source.is_moved_by_the_tick() { PATIENCE_WITH_TICKS_NS } else { PATIENCE_NS };
        Some(Self {
            nature: own.max(others),
            may_be_set: own == Nature::Set,
            width: source.width,
            frequency: nominal.frequency,
            granules,
            tolerance_ppm: tolerance_ppm(source, reference),
            bent_ppm,
            usually_bent_ppm: bent_ppm,
            patience_ns: patience_ns.max(granule_ns.saturating_mul(PATIENCE_GRANULES)),
            measured_within_ppm: 0.0,
        })
    }

    /// Returns the same expectation for a kernel whose tick is `tick_ppm` longer or shorter than the default
    /// (ADJ_TICK), which also changes the rate of its clocks.
    #[must_use]
    pub fn with_tick_off_by(mut self, tick_ppm: f64) -> Self {
        if self.nature != Nature::Steady {
            self.bent_ppm = self.usually_bent_ppm + tick_ppm.abs();
        }
        self
    }

    /// Returns the same expectation for a source whose nominal rate equals the rate that the reference itself uses, to
    /// within this many parts per million. The counter on which the kernel's clock is based is such a source.
    #[must_use]
    pub fn counted_by_the_reference(mut self, within_ppm: f64) -> Self {
        self.tolerance_ppm = within_ppm;
        self
    }

    /// Returns the same expectation for a source without a nominal rate, whose rate was measured to within this many
    /// parts per million.
    #[must_use]
    pub fn measured_within(mut self, ppm: f64) -> Self {
        self.measured_within_ppm = ppm;
        self
    }

    /// Returns the same expectation for a source that a hypervisor emulates. Such a source follows the clock of the
    /// host, which a daemon on the host may slew.
    #[must_use]
    pub fn of_an_emulated_source(mut self) -> Self {
        self.nature = self.nature.max(Nature::Bent);
        self.bent_ppm += BENT_PPM;
        self.usually_bent_ppm = self.bent_ppm;
        self
    }

    /// Returns the largest accepted difference between the source's rate and its nominal rate, in parts per million.
    pub(super) fn accepted_ppm(&self, limits: &Limits) -> f64 {
        let tolerance = if limits.statements_may_be_wrong { self.tolerance_ppm } else { 0.0 };
        limits.rate_ppm + tolerance + self.bent_ppm + self.measured_within_ppm
    }

    /// Returns the time after which the source may have wrapped unnoticed, in nanoseconds.
    pub(super) fn half_a_wrap_ns(&self) -> u64 {
        ns_of(self.width.mask() / 2, self.frequency)
    }
}

fn nature(info: &SourceInfo) -> Nature {
    match info.rate {
        RateKind::Constant => Nature::Steady,
        RateKind::Slewed => Nature::Bent,
        // A change of a variable rate is not a fault either.
        _ => Nature::Set,
    }
}

/// Converts ticks to nanoseconds at the nominal rate, rounded down.
pub(super) fn ns_of(ticks: u64, frequency: Frequency) -> u64 {
    let ns = u128::from(ticks) * 1_000_000_000_000_000 / u128::from(frequency.microhertz());
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Returns the combined tolerance of two nominal rates. If both rates are defined, the source and the reference are
/// clocks of the kernel, which are based on the same counter. The rate of such a clock relative to another counter has
/// the tolerance of the kernel's calibration.
fn tolerance_ppm(source: &SourceInfo, reference: &SourceInfo) -> f64 {
    let of = |info: &SourceInfo| info.nominal.map(|nominal| nominal.stated_by);
    match (of(source), of(reference)) {
        (Some(StatedBy::Definition), Some(StatedBy::Definition)) => 0.0,
        (source, reference) => [source, reference].into_iter().flatten().map(wrong_by_ppm).sum(),
    }
}

/// Returns the tolerance of a nominal rate on a machine without faults.
fn wrong_by_ppm(stated_by: StatedBy) -> f64 {
    match stated_by {
        // A quartz crystal.
        StatedBy::Cpuid | StatedBy::DeviceTree | StatedBy::Cntfrq | StatedBy::Device => 100.0,
        // The kernel or the host calibrates the counter at boot. Linux, arch/x86/kernel/tsc.c, quick_pit_calibrate:
        // within 500 ppm.
        StatedBy::Definition | StatedBy::Hypervisor | StatedBy::Kernel => 500.0,
        // The kernel reports this rate before it refines it by at most one percent: tsc_refine_calibration_work.
        StatedBy::Program => 0.0,
        _ => 10_000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Expectation, Limits, Nature};
    use hpt_core::{
        calibrate::Granules,
        source::TimeSource,
        source::{Nominal, RateKind, SourceInfo, StatedBy},
        testing::ManualSource,
    };
    use hpt_sys::units::Frequency;

    const EXACT: Granules = Granules { source_ticks: 1, reference_ns: 1 };

    fn info(stated_by: StatedBy, slewed: bool) -> SourceInfo {
        let mut info = ManualSource::new("any").info().clone();
        info.nominal = Some(Nominal { frequency: Frequency::GIGAHERTZ, stated_by });
        info.rate = if slewed { RateKind::Slewed } else { RateKind::Constant };
        info
    }

    #[test]
    fn the_accepted_difference_follows_from_the_origin_of_the_rate_and_from_slewing() {
        let limits = Limits { rate_ppm: 50.0, ..Limits::default() };
        let accepted = |source, reference| {
            let expected = Expectation::new(&source, &reference, EXACT).expect("stated");
            expected.accepted_ppm(&limits)
        };
        let program = || info(StatedBy::Program, false);
        assert_eq!(accepted(program(), program()), 50.0);
        assert_eq!(accepted(info(StatedBy::Cpuid, false), program()), 150.0);
        let raw = || info(StatedBy::Definition, false);
        assert_eq!(accepted(info(StatedBy::BogoMips, false), raw()), 10_550.0);
        assert_eq!(accepted(info(StatedBy::Definition, true), raw()), 1_050.0);
    }

    #[test]
    fn the_kernels_clock_and_its_counter_must_agree() {
        let expected = Expectation::new(&info(StatedBy::BogoMips, false), &info(StatedBy::Definition, false), EXACT);
        let expected = expected.expect("stated").counted_by_the_reference(3.0);
        assert_eq!(expected.accepted_ppm(&Limits::default()), 53.0);
    }

    #[test]
    fn a_measured_rate_is_accepted_within_its_uncertainty() {
        let expected = Expectation::new(&info(StatedBy::Program, false), &info(StatedBy::Program, false), EXACT);
        let expected = expected.expect("stated").measured_within(120.0);
        assert_eq!(expected.accepted_ppm(&Limits::default()), 170.0);
        let strict = Limits { rate_ppm: 1.0, statements_may_be_wrong: false, ..Limits::default() };
        assert_eq!(expected.accepted_ppm(&strict), 121.0);
    }

    #[test]
    fn a_source_of_unknown_rate_has_no_expectation() {
        let mut unknown = info(StatedBy::Program, false);
        unknown.nominal = None;
        assert_eq!(Expectation::new(&unknown, &info(StatedBy::Definition, false), EXACT), None);
    }

    #[test]
    fn slewing_or_setting_the_reference_is_not_a_fault_of_the_source() {
        let limits = Limits { rate_ppm: 50.0, ..Limits::default() };
        let beside = |reference: SourceInfo| {
            let expected = Expectation::new(&info(StatedBy::Program, false), &reference, EXACT).expect("stated");
            (expected.nature, expected.may_be_set, expected.accepted_ppm(&limits))
        };
        assert_eq!(beside(info(StatedBy::Program, false)), (Nature::Steady, false, 50.0));
        assert_eq!(beside(info(StatedBy::Program, true)), (Nature::Bent, false, 1_050.0));
        let set = info(StatedBy::Program, true).with_rate(RateKind::SlewedAndStepped);
        assert_eq!(beside(set), (Nature::Set, false, 1_050.0));
    }

    #[test]
    fn an_emulated_counter_may_be_slewed_by_its_host() {
        let program = || info(StatedBy::Program, false);
        let expected = Expectation::new(&program(), &program(), EXACT).expect("stated").of_an_emulated_source();
        assert_eq!((expected.nature, expected.may_be_set, expected.bent_ppm), (Nature::Bent, false, 1_000.0));
        assert_eq!(expected.with_tick_off_by(500.0).with_tick_off_by(0.0), expected);
    }

    #[test]
    fn a_changed_tick_changes_the_rate_of_kernel_clocks_but_not_of_counters() {
        let of = |slewed| {
            let expected = Expectation::new(&info(StatedBy::Program, slewed), &info(StatedBy::Program, false), EXACT);
            expected.expect("stated").with_tick_off_by(-2_000.0)
        };
        assert_eq!((of(true).nature, of(true).bent_ppm), (Nature::Bent, 3_000.0));
        assert_eq!((of(false).nature, of(false).bent_ppm), (Nature::Steady, 0.0));
    }
}
