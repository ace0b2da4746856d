//! Readings that the kernel makes, with the kernel module hpt_cycles: the kernel's clock and the cycle counter.

use std::{ops::ControlFlow, time::Duration};

use hpt_core::{Frequency, SourceId, stats::Histogram};
use hpt_instrument::measure::{KernelCounter, KernelReads, KernelReadsError};

use crate::{context::Context, source_rate::frequency_of};

/// A counter that the kernel reads.
pub(crate) struct InKernel {
    /// The name of the source that reads the same counter in a program, with an ending.
    pub(crate) id: SourceId,
    pub(crate) how: &'static str,
    /// The tick rate; `None` if it could not be measured.
    pub(crate) rate: Option<Frequency>,
    reads: KernelReads,
}

/// Opens the kernel's clock and the cycle counter. The counter is that of the CPU of the calling thread.
pub(crate) fn in_kernel(context: &Context) -> Result<Vec<InKernel>, KernelReadsError> {
    let clock = InKernel {
        id: SourceId::new("realtime-in-kernel"),
        how: "ktime_get_real_ts64 in the kernel (hpt_cycles)",
        rate: Some(Frequency::GIGAHERTZ),
        reads: KernelReads::open(&context.host, KernelCounter::Clock)?,
    };
    let mut reads = KernelReads::open(&context.host, KernelCounter::Cycles)?;
    // Only a reading shows whether the counter is open.
    reads.pair()?;
    let rate = || frequency_of(context.open("arm-cycles").ok()?.as_dyn(), context.open("monotonic-raw").ok()?.as_dyn());
    let cycles = InKernel {
        id: SourceId::new("arm-cycles-in-kernel"),
        how: "cycle counter in the kernel (hpt_cycles); cycles converted at the rate of a busy core",
        rate: rate(),
        reads,
    };
    Ok(vec![clock, cycles])
}

impl InKernel {
    /// Adds the differences of `count` pairs of readings. Before each pair, calls `wait` with the next duration from
    /// `waits`, used in turn, and with the differences so far. Without pauses, the kernel reads 1000 times in a row.
    pub(crate) fn read(
        &mut self,
        (waits, count): (&[Duration], u64),
        differences: &mut Histogram,
        mut wait: impl FnMut(Duration, &Histogram) -> ControlFlow<()>,
    ) -> Result<(), KernelReadsError> {
        let in_a_row = waits.iter().all(Duration::is_zero);
        for &pause in waits.iter().cycle() {
            if differences.samples() >= count || wait(pause, differences).is_break() {
                break;
            }
            if in_a_row {
                differences.add(&self.reads.chain()?);
            } else if let Some(difference) = self.reads.pair()? {
                differences.record(difference);
            }
        }
        Ok(())
    }
}
