//! Measurements, one quantity per file. They return data.
//! Print nothing, choose nothing and pin nothing: the caller does.

mod granularity;
mod read_cost;

pub use self::{
    granularity::{Granularity, granularity},
    read_cost::{Instruments, ReadCost, read_cost},
};
