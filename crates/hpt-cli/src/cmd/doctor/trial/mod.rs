//! `hpt doctor --try`: applies each fix that can be undone at run time, measures its effect, and undoes it.

mod child;
mod kept_files;
mod measured;
mod options;
mod plan;
mod run;
mod statistics;
mod system;
mod terminal;
mod timing;

pub(crate) use self::{
    options::TrialOptions,
    run::{Wanted, run},
};
