//! Whether sources behave: from readings to faults that the readings prove. What of a machine is in the way: from facts to findings. And what a stall was likely
//! caused by.
//! Pure: reads no source and no clock, and accuses nobody whom the widths of the brackets can excuse.

mod core;
mod expectation;
mod expected;
mod machine;
mod marks;
mod source;
mod stall;
mod watch;

pub use self::{
    core::core_fault,
    expectation::{Expectation, Limits},
    expected::{Expected, Surroundings},
    machine::{
        Examined, Finding, Hole, Holes, MachineFacts, Remedy, Rule, Severity, THEMES, Theme, Verdict, examine, prove,
    },
    marks::{Suspends, suspended_between},
    source::{Fault, Interval, SourceEvent},
    stall::{Cause, Habit, Habits, stall_causes},
    watch::{Round, Watch, WatchSummary},
};
