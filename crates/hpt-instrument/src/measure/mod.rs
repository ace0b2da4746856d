//! Measurements, with one file for each quantity. They return data. They do not print, choose a source or pin a thread;
//! the caller does.

mod back_to_back;
mod burst;
mod conditions;
mod core_offset;
mod cpu_counters;
mod cpu_time;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv64"
))]
mod edge_latency;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv64"
))]
mod event_loop;
mod frame;
mod granularity;
mod instant_source;
mod kernel_reads;
mod loop_jitter;
mod not_run;
mod open_file;
mod order;
mod read_cost;
mod sleep_overshoot;
mod stall;
mod throttling;
mod wakes;

pub use self::{
    back_to_back::{BackToBackReads, PairReads, PairStep, back_to_back_reads, chained_reads},
    burst::{Burst, BurstReader},
    conditions::ConditionsWatch,
    core_offset::{CoreOffset, CpuPair, Handover, OffsetLimits, core_offset, offset_limits},
    cpu_counters::{Counter, CounterDelta, CounterDeltas, CounterKind, CpuCounters, UnreadableFile},
    frame::{FrameError, FramePort},
    granularity::{Granularity, granularity},
    instant_source::InstantSource,
    kernel_reads::{KernelCounter, KernelReads, KernelReadsError},
    loop_jitter::{LoopJitter, PollLoop},
    not_run::NotRunWatch,
    read_cost::{Instruments, ReadBatches, ReadCost, read_cost},
    sleep_overshoot::{SleepMethod, SleepOvershoot, SleepsSoFar, sleep_overshoot},
    stall::{
        CallbackTime, KeptStall, PollCost, Recurrence, Stall, StallWatch, StallWatchStats, Stalls, Window, poll_cost,
        recurrence,
    },
    wakes::{
        Interrupter, Latencies, ReadOverhead, Waiting, Wake, Wakes, clock_read_overhead, wall_clock_read_overhead,
    },
};
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "x86",
    target_arch = "aarch64",
    target_arch = "arm",
    target_arch = "riscv64"
))]
pub use self::{
    edge_latency::{EdgeCounts, EdgeLatency, EdgeOutcome, EdgeReport, EdgeTimes, EdgeWaiting, Loopback, Wire},
    event_loop::{EVENT_LOOP_PERIOD, EventRound, LoopEdge, event_loop},
};
