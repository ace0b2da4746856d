//! Diagnosis: faults of sources (proved by readings), findings about machines (derived from facts), and likely causes
//! of stalls. This module reads neither sources nor clocks, and reports only faults that the widths of the brackets
//! cannot explain.

mod core;
mod expectation;
mod expected;
mod kinship;
mod machine;
mod marks;
mod source;
mod stall;
mod watch;

pub use self::{
    core::core_fault,
    expectation::{Expectation, Limits},
    expected::{Expected, Surroundings},
    kinship::{are_one_reading, counter_of_clock_source, is_made_of_the_clock_source},
    machine::{
        Evidence, Examined, Finding, Fix, Gap, Gaps, Goal, MachineFacts, Relevance, Rule, RunTimeChange, RunTimeFix,
        Severity, THEMES, Theme, Verdict, boot_parameter, examine, prove, run_time_fixes,
    },
    marks::{Suspends, suspended_between},
    source::{Fault, FrequencyErrorLimits, Interval, SourceEvent, SourceOffset},
    stall::{Cause, Habit, Habits, WindowCounts, stall_causes},
    watch::{EndedInterval, Round, Watch, WatchSummary},
};
