//! Core cycles, counted by a perf event of the thread, or read from the cycle counter of an ARM core.

use hpt_core::{ArmCycles, CycleStopwatch, Host, PerfCycles, stopwatch::CyclesStarted};

use crate::{
    counting::{CountError, Event, sealed::Sealed},
    format::Units,
};

/// Core cycles. On aarch64, with the kernel module `hpt_cycles`, they are read from the core's own counter; otherwise
/// a perf event of the thread counts them in user mode. The event follows the thread from CPU to CPU.
#[derive(Debug)]
pub struct CoreCycles(CycleCounter);

#[derive(Debug)]
enum CycleCounter {
    Perf(CycleStopwatch<PerfCycles>),
    Arm(CycleStopwatch<ArmCycles>),
}

impl Sealed for CoreCycles {}

impl Event for CoreCycles {
    type Started = CyclesStarted;

    const UNITS: &'static Units = &Units {
        one: "cycles",
        larger: ["Kcycles", "Mcycles", "Gcycles"],
        per: ["cycles/bit", "cycles/byte", "cycles/element"],
    };

    fn open(host: &Host) -> Result<Self, CountError> {
        // The perf event cannot be opened while the module has opened the counter to programs, and the counter cannot
        // be read without the module. The reason of the event is the more useful one: no module is necessary for it.
        match PerfCycles::open(host) {
            Ok(event) => Ok(Self(CycleCounter::Perf(CycleStopwatch::new(event)))),
            Err(refused) => match ArmCycles::open(host) {
                Ok(counter) => Ok(Self(CycleCounter::Arm(CycleStopwatch::new(counter)))),
                Err(_) => Err(refused.into()),
            },
        }
    }

    fn counter(&self) -> &'static str {
        match self.0 {
            CycleCounter::Perf(_) => "perf-cycles",
            CycleCounter::Arm(_) => "arm-cycles",
        }
    }

    #[inline]
    fn start(&self) -> CyclesStarted {
        match &self.0 {
            CycleCounter::Perf(stopwatch) => stopwatch.start(),
            CycleCounter::Arm(stopwatch) => stopwatch.start(),
        }
    }

    #[inline]
    fn stop(&self, started: CyclesStarted) -> Result<u64, String> {
        let lap = match &self.0 {
            CycleCounter::Perf(stopwatch) => stopwatch.stop(started),
            CycleCounter::Arm(stopwatch) => stopwatch.stop(started),
        };
        match lap.map(|lap| lap.cycles()) {
            // Even an empty lap executes instructions, which take cycles.
            Ok(0) => Err("the counter stands still: it was lost or revoked".to_owned()),
            cycles => cycles.map_err(|refused| refused.to_string()),
        }
    }
}
