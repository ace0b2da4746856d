//! The sources of Linux, on targets with 64-bit atomics.

mod arm_counter;
mod arm_cycles;
mod cycle_rate;
#[cfg(feature = "devices")]
mod devices;
#[cfg(not(feature = "devices"))]
#[path = "not_built.rs"]
mod devices;
mod event_page;
mod native;
mod on_its_cpu;
mod one_kind;
mod perf_cycles;
mod pit;
mod posix;
mod refusals;
mod riscv_time;
mod tested;
mod tsc;

#[cfg(feature = "devices")]
pub use self::devices::*;
pub(crate) use self::native::permitted_native;
use self::tested::tested;
pub use self::{
    arm_counter::ArmCounter,
    arm_cycles::{ArmCycles, explain_refused_cycles},
    cycle_rate::busy_rate,
    perf_cycles::PerfCycles,
    posix::{PosixClock, PosixId, ThreadCpuClock},
    riscv_time::RiscvTime,
    tsc::{Tsc, permit_counter},
};
use crate::source::Backend;

/// The backends of all kinds of sources, in the order in which sources are listed. Add a new kind here and to the
/// modules above.
pub(crate) const BACKENDS: &[&dyn Backend] = &[
    &tsc::TscBackend,
    &arm_counter::ArmCounterBackend,
    &riscv_time::RiscvTimeBackend,
    devices::BCM_SYSTIMER,
    devices::SOC_COUNTERS,
    devices::HPET,
    devices::ACPI_PM,
    &pit::PitBackend,
    &arm_cycles::ArmCyclesBackend,
    &perf_cycles::PerfCyclesBackend,
    devices::PERF_TIME,
    &posix::PosixBackend,
    devices::RTC,
    devices::PTP,
];
