//! Load during a measurement: its options, the processes that generate it, and the comparison of an idle phase with a
//! loaded phase.

mod options;
mod phases;
mod running;
mod space;
mod worker;

pub(crate) use self::{
    options::LoadOptions,
    phases::in_phases,
    worker::{command_of_own_program, run_if_asked},
};
