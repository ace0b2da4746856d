//! Whether sources behave: from readings to faults that the readings prove.
//! Pure: reads no source and no clock, and accuses nobody whom the widths of the brackets can excuse.

mod core;
mod expectation;
mod marks;
mod source;
mod watch;

pub use self::{
    core::core_fault,
    expectation::{Expectation, Limits},
    marks::{Suspends, suspended_between},
    source::{Fault, Interval, SourceEvent},
    watch::{Round, Watch, WatchSummary},
};
