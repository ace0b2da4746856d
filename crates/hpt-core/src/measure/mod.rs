//! Measurements, with one file for each quantity. They return data. They do not print, choose a source or pin a thread;
//! the caller does.

mod beat;
mod burst;
mod core_offset;
#[cfg(feature = "gpio")]
mod gpio_edge;
mod granularity;
mod moved;
mod order;
mod pairs;
mod read_cost;
mod sleep_miss;
mod stall;
mod wakes;

#[cfg(feature = "gpio")]
pub use self::gpio_edge::{Crossing, EdgeCounts, Heard, Listening, LoopBack, Wire, gpio_edges};
pub use self::{
    beat::{Beats, beats},
    burst::{Burst, Bursts},
    core_offset::{CoreOffset, Handover, core_offset, offset_limits},
    granularity::{Granularity, granularity},
    moved::{Counter, CounterKind, CpuCounters, Moved},
    pairs::{Pairs, read_pairs},
    read_cost::{Instruments, ReadCost, read_cost},
    sleep_miss::{SleepMethod, SleepMiss, sleep_miss},
    stall::{Looking, Recurrence, Stall, Stalls, Told, Watched, Window, looking, recurrence, watch_for_stalls},
    wakes::{Lateness, Rouser, Waiting, Wake, cost_of_looking, cost_of_looking_at_the_wall, wakes, wakes_by_wall},
};
