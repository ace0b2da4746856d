//! The sources of Linux, on targets with 64-bit atomics.

mod acpi_pm;
mod arm_counter;
mod arm_cycles;
mod as_if_steady;
mod bcm_systimer;
mod cycle_rate;
mod event_page;
mod hpet;
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
mod refusals;
mod rights;
mod riscv_time;
mod rtc;
mod split_counter;
#[cfg(test)]
mod test_world;
mod tested;
mod tsc;

pub(crate) use self::native::permitted_native;
use self::tested::tested;
pub use self::{
    acpi_pm::AcpiPm,
    arm_counter::ArmCounter,
    arm_cycles::{ArmCycles, explain_refused_cycles},
    bcm_systimer::{BcmSystimer, BcmSystimerLow},
    cycle_rate::busy_rate,
    hpet::{Hpet, HpetLow},
    kinship::{are_one_reading, counter_of_clock_source},
    perf_cycles::PerfCycles,
    perf_time::PerfTime,
    posix::{PosixClock, PosixId, ThreadCpuClock},
    ptp::{PtpClock, PtpOffset, PtpOffsetMethod},
    riscv_time::RiscvTime,
    rtc::RealTimeClock,
    tsc::{Tsc, permit_counter},
};
use crate::source::Backend;

/// The backends of all kinds of sources, in the order in which sources are listed. Add a new kind here and to the
/// modules above.
pub(crate) const BACKENDS: &[&dyn Backend] = &[
    &tsc::TscBackend,
    &arm_counter::ArmCounterBackend,
    &riscv_time::RiscvTimeBackend,
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
