//! Sources that are read through device files, I/O ports or mapped memory. The feature `devices` includes them.

mod acpi_pm;
mod as_if_steady;
mod bcm_systimer;
mod hpet;
mod numbered;
mod page;
mod perf_time;
mod ptp;
mod rights;
mod rtc;
mod soc_counter;
mod split_counter;
#[cfg(test)]
mod test_world;

pub use self::{
    acpi_pm::AcpiPm,
    bcm_systimer::{BcmSystimer, BcmSystimerLow},
    hpet::{Hpet, HpetLow},
    perf_time::PerfTime,
    ptp::{PtpClock, PtpOffset, PtpOffsetMethod},
    rtc::RealTimeClock,
};
use super::tested;
use crate::source::Backend;

pub(super) const BCM_SYSTIMER: &dyn Backend = &bcm_systimer::BcmSystimerBackend;
pub(super) const SOC_COUNTERS: &dyn Backend = &soc_counter::SocCounterBackend;
pub(super) const HPET: &dyn Backend = &hpet::HpetBackend;
pub(super) const ACPI_PM: &dyn Backend = &acpi_pm::AcpiPmBackend;
pub(super) const PERF_TIME: &dyn Backend = &perf_time::PerfTimeBackend;
pub(super) const RTC: &dyn Backend = &rtc::RtcBackend;
pub(super) const PTP: &dyn Backend = &ptp::PtpBackend;
