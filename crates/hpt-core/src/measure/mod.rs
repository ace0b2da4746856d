//! Measurements, one quantity per file. They return data.
//! Print nothing, choose nothing and pin nothing: the caller does.

mod burst;
mod core_offset;
mod granularity;
mod order;
mod pairs;
mod read_cost;
mod sleep_miss;
mod wakes;

pub use self::{
    burst::{Burst, Bursts},
    core_offset::{CoreOffset, Handover, core_offset, offset_limits},
    granularity::{Granularity, granularity},
    pairs::{Pairs, read_pairs},
    read_cost::{Instruments, ReadCost, read_cost},
    sleep_miss::{SleepMethod, SleepMiss, sleep_miss},
    wakes::{Lateness, Waiting, Wake, cost_of_looking, wakes},
};
