//! The integration tests of the command `hpt`, in one program. They run the built binary.

#![allow(clippy::disallowed_methods, reason = "tests wait, and write files of their own")]

#[macro_use]
mod support;

mod attacks;
mod compare;
mod conditions;
mod conventions;
mod cpus;
mod damaged;
mod dist;
mod doctor_try;
mod edges;
mod experiments;
mod explain;
mod fuzz;
mod golden;
mod headlines;
mod in_kernel;
mod interrupted;
mod limits;
mod live;
mod load;
mod machines;
mod missed_deadlines;
mod pages;
mod pinning;
mod quota;
mod readings;
mod realtime;
mod report;
mod run;
mod schemas;
mod shell;
mod stalls;
mod terminals;
mod trouble;
mod verdicts;
