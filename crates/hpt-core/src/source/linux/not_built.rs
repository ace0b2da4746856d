//! The names of the sources that the feature `devices` would include.

use hpt_sys::host::Host;

use crate::source::{Backend, KernelVerdict, Opened, ProbeReport, SourceError, SourceId};

pub(super) const BCM_SYSTIMER: &dyn Backend = &NotBuilt(&["bcm-systimer", "bcm-systimer-low"]);
pub(super) const SOC_COUNTERS: &dyn Backend = &NotBuilt(&[]);
pub(super) const HPET: &dyn Backend = &NotBuilt(&["hpet", "hpet-low"]);
pub(super) const ACPI_PM: &dyn Backend = &NotBuilt(&["acpi-pm"]);
pub(super) const PERF_TIME: &dyn Backend = &NotBuilt(&["perf-time"]);
pub(super) const RTC: &dyn Backend = &NotBuilt(&["rtc0"]);
pub(super) const PTP: &dyn Backend = &NotBuilt(&["ptp0"]);

const REFUSAL: SourceError = SourceError::NotBuilt { feature: "devices" };

#[derive(Debug)]
struct NotBuilt(&'static [&'static str]);

impl Backend for NotBuilt {
    fn ids(&self) -> Vec<SourceId> {
        self.0.iter().copied().map(SourceId::new).collect()
    }

    fn probe(&self, _host: &Host) -> Vec<ProbeReport> {
        let report = |id| ProbeReport {
            id,
            description: "a source of a device",
            availability: Err(REFUSAL),
            kernel: KernelVerdict::Unknown("this source is not built".to_owned()),
            evidence: Vec::new(),
        };
        self.ids().into_iter().map(report).collect()
    }

    fn open(&self, _host: &Host, _id: &SourceId) -> Result<Opened, SourceError> {
        Err(REFUSAL)
    }
}
