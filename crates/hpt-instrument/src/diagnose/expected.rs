//! The expected behavior of a source compared with a reference, which depends on the kind of the source and on the
//! counter that the kernel currently uses. Only [`Surroundings::new`] reads facts from a host; all other functions take
//! them as parameters.

use hpt_core::{
    calibrate::Granules,
    source::{Nominal, RateKind, ReadPath, SourceId, SourceInfo, StatedBy},
};
use hpt_sys::{host::Host, units::FrequencyEstimate};

use super::{Expectation, are_one_reading, is_made_of_the_clock_source};

/// The tolerance for the kernel's rounding of its clock's multiplier, in parts per million.
const ROUNDED_PPM: f64 = 1.0;

/// Facts about a machine that affect the rates of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Surroundings {
    /// The TSC rate that the kernel uses, and its uncertainty.
    pub kernels_tsc: Option<FrequencyEstimate>,
    /// Whether a hypervisor runs the machine and emulates its devices.
    pub is_virtual: bool,
}

impl Surroundings {
    /// Returns the facts that `host` reports.
    #[must_use]
    pub fn new(host: &Host) -> Self {
        Self { kernels_tsc: host.kernels_tsc_frequency(), is_virtual: host.hypervisor().is_some() }
    }
}

/// The expected behavior of a source compared with a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The source.
    pub id: SourceId,
    alone: Expectation,
    /// The expectation while the reference is a kernel clock that is based on this source.
    when_counted: Option<Expectation>,
    stated_by: StatedBy,
    is_stated: bool,
    /// Whether the rate of the source is constant, and does not follow the clock of a host.
    is_steady: bool,
    /// Whether the kernel derives the source from its clocksource.
    is_made_of_the_clock_source: bool,
    /// The reference, and whether the kernel derives it from its clocksource.
    reference: (SourceId, bool),
}

impl Expected {
    /// Returns the expectation according to the nominal rates of the source and the reference; `None` if the source has
    /// no nominal rate.
    #[must_use]
    pub fn from_statements(
        mut info: SourceInfo,
        reference: &SourceInfo,
        granules: Granules,
        around: &Surroundings,
    ) -> Option<Self> {
        let kernels = around.kernels_tsc.filter(|_| info.id.as_str() == "tsc");
        if let Some(FrequencyEstimate { frequency, .. }) = kernels {
            info.nominal = Some(Nominal { frequency, stated_by: StatedBy::Kernel });
        }
        let alone = Expectation::new(&info, reference, granules)?;
        let is_a_device = |info: &SourceInfo| matches!(info.read_path, ReadPath::Mmio | ReadPath::Port);
        let is_emulated = (is_a_device(&info) || is_a_device(reference)) && around.is_virtual;
        let alone = if is_emulated { alone.of_an_emulated_source() } else { alone };
        let stated_by = info.nominal?.stated_by;
        let within_ppm = match stated_by {
            StatedBy::Kernel => kernels.map(|estimate| estimate.uncertainty_ppm),
            // The kernel uses the same nominal rate.
            StatedBy::Cntfrq | StatedBy::DeviceTree => Some(ROUNDED_PPM),
            _ => None,
        };
        let within_ppm = within_ppm.filter(|_| is_made_of_the_clock_source(reference));
        let when_counted = within_ppm.map(|within_ppm| alone.counted_by_the_reference(within_ppm));
        Some(Self {
            is_steady: info.rate == RateKind::Constant && !is_emulated,
            is_made_of_the_clock_source: is_made_of_the_clock_source(&info),
            reference: (reference.id.clone(), is_made_of_the_clock_source(reference)),
            id: info.id,
            alone,
            when_counted,
            stated_by,
            is_stated: true,
        })
    }

    /// Returns the expectation for a source whose rate is not stated, but was measured with this uncertainty.
    #[must_use]
    pub fn from_measurement(
        mut info: SourceInfo,
        measured: FrequencyEstimate,
        reference: &SourceInfo,
        granules: Granules,
        around: &Surroundings,
    ) -> Option<Self> {
        info.nominal = Some(Nominal { frequency: measured.frequency, stated_by: StatedBy::Program });
        let expected = Self::from_statements(info, reference, granules, around)?;
        Some(Self { alone: expected.alone.measured_within(measured.uncertainty_ppm), is_stated: false, ..expected })
    }

    /// Returns the rate with which the source is compared, and the origin of that rate. If the rate is not
    /// [stated](Self::is_stated), it was measured, and its origin is the program.
    #[must_use]
    pub const fn nominal(&self) -> Nominal {
        Nominal { frequency: self.alone.frequency, stated_by: self.stated_by }
    }

    /// Returns whether the rate of the source is stated. If not, its rate at the start is used instead.
    #[must_use]
    pub const fn is_stated(&self) -> bool {
        self.is_stated
    }

    /// Returns the counter that the source reads while the kernel's clock is based on `counter`. `None` if its rate is not
    /// constant, if its counter is not known, or if the reference uses the same counter.
    #[must_use]
    pub fn witness(&self, counter: Option<&'static str>) -> Option<SourceId> {
        let own = if self.is_made_of_the_clock_source { SourceId::new(counter?) } else { self.id.clone() };
        let of_reference = if self.reference.1 { counter? } else { self.reference.0.as_str() };
        (self.is_steady && !are_one_reading(of_reference, own.as_str())).then_some(own)
    }

    /// Returns the expectation while the kernel's clock is based on `counter`.
    #[must_use]
    pub fn beside(&self, counter: Option<&str>) -> Expectation {
        let is_counted = counter.is_some_and(|counter| are_one_reading(counter, self.id.as_str()));
        self.when_counted.filter(|_| is_counted).unwrap_or(self.alone)
    }
}

#[cfg(test)]
mod tests {
    use super::{Expected, Surroundings};
    use hpt_core::{
        calibrate::Granules,
        source::{Nominal, RateKind, ReadPath, SourceId, SourceInfo, StatedBy},
    };
    use hpt_sys::units::{Frequency, FrequencyEstimate};

    const GRANULES: Granules = Granules { source_ticks: 1, reference_ns: 1 };

    fn source(id: &'static str, hertz: u64, stated_by: StatedBy) -> SourceInfo {
        let frequency = Frequency::from_hertz(hertz).expect("not zero");
        SourceInfo::new(SourceId::new(id)).with_rate(RateKind::Constant).with_nominal(frequency, stated_by)
    }

    fn reference(id: &'static str, read_path: ReadPath) -> SourceInfo {
        let mut info = source(id, 1_000_000_000, StatedBy::Definition);
        info.read_path = read_path;
        info
    }

    fn around(kernels_hz: Option<u64>, is_virtual: bool) -> Surroundings {
        let kernels_tsc = kernels_hz.map(|hertz| FrequencyEstimate {
            frequency: Frequency::from_hertz(hertz).expect("not zero"),
            uncertainty_ppm: 2.0,
        });
        Surroundings { kernels_tsc, is_virtual }
    }

    fn tsc(reference: &SourceInfo, around: &Surroundings) -> Expected {
        let tsc = source("tsc", 2_000_000_000, StatedBy::Cpuid);
        Expected::from_statements(tsc, reference, GRANULES, around).expect("its rate is stated")
    }

    #[test]
    fn a_witness_is_a_steady_counter_that_the_reference_does_not_use() {
        let witness = |id, rate, reference_id, (is_virtual, counter)| {
            let mut info = source(id, 1_000_000, StatedBy::Definition).with_rate(rate);
            if id == "hpet" {
                info.read_path = ReadPath::Mmio;
            }
            let reference = reference(reference_id, ReadPath::Register);
            let expected = Expected::from_statements(info, &reference, GRANULES, &around(None, is_virtual));
            expected.expect("stated").witness(counter).map(|id| id.to_string())
        };
        let tsc = Some("tsc");
        assert_eq!(witness("hpet", RateKind::Constant, "monotonic-raw", (false, tsc)).as_deref(), Some("hpet"));
        for (why, found) in [
            ("emulated by the host", witness("hpet", RateKind::Constant, "monotonic-raw", (true, tsc))),
            ("the counter of the reference", witness("tsc", RateKind::Constant, "monotonic-raw", (false, tsc))),
            ("an unknown counter", witness("hpet", RateKind::Constant, "monotonic-raw", (false, None))),
            ("a clock of the same counter", witness("monotonic-raw", RateKind::Constant, "tsc", (false, tsc))),
            ("slewed", witness("monotonic", RateKind::Slewed, "hpet", (false, tsc))),
            ("the same reading", witness("hpet-low", RateKind::Constant, "hpet", (false, tsc))),
        ] {
            assert_eq!(found, None, "{why}");
        }
        assert_eq!(witness("monotonic-raw", RateKind::Constant, "hpet", (false, tsc)).as_deref(), Some("tsc"));
    }

    #[test]
    fn the_tsc_is_compared_with_the_rate_that_the_kernel_uses() {
        let monotonic = reference("monotonic-raw", ReadPath::Vdso);
        let known = tsc(&monotonic, &around(Some(2_000_100_000), false));
        let wide = known.beside(None);
        assert_eq!(known.beside(Some("arm-counter")), wide, "the clock of another counter says nothing about this one");
        assert_ne!(known.beside(Some("tsc")), wide);
        assert_eq!(wide.frequency.hertz(), 2_000_100_000);
        let unknown = tsc(&monotonic, &around(None, false));
        assert_eq!(unknown.beside(Some("tsc")), unknown.beside(None));
        // Compared with a clock that does not count with it, only its nominal rate is known.
        let device = tsc(&reference("hpet", ReadPath::Mmio), &around(Some(2_000_100_000), false));
        assert_eq!(device.beside(Some("tsc")), device.beside(None));
    }

    #[test]
    fn an_emulated_reference_may_be_slewed_by_a_daemon_of_the_host() {
        let beside = |read_path, is_virtual| tsc(&reference("hpet", read_path), &around(None, is_virtual)).beside(None);
        assert_eq!(beside(ReadPath::Mmio, true), beside(ReadPath::Vdso, true).of_an_emulated_source());
        assert_eq!(beside(ReadPath::Mmio, false), beside(ReadPath::Vdso, false));
    }

    #[test]
    fn a_measured_rate_is_not_stated_and_has_its_uncertainty() {
        let monotonic = reference("monotonic-raw", ReadPath::Vdso);
        let mut info = source("tsc", 1, StatedBy::Cpuid);
        info.nominal = None;
        let unknown = Surroundings::default();
        assert_eq!(Expected::from_statements(info.clone(), &monotonic, GRANULES, &unknown), None);
        let frequency = Frequency::from_hertz(2_000_000_000).expect("not zero");
        let measured = FrequencyEstimate { frequency, uncertainty_ppm: 7.0 };
        let expected =
            Expected::from_measurement(info, measured, &monotonic, GRANULES, &unknown).expect("it has a rate");
        assert!(!expected.is_stated() && tsc(&monotonic, &unknown).is_stated());
        assert_eq!(expected.nominal(), Nominal { frequency, stated_by: StatedBy::Program });
        let exact = source("tsc", 2_000_000_000, StatedBy::Program);
        let exact = Expected::from_statements(exact, &monotonic, GRANULES, &unknown).expect("it has a rate");
        assert_eq!(expected.beside(None), exact.beside(None).measured_within(7.0));
    }
}
