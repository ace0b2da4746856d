//! The tests of hpt-core from outside, in one program: captured machines, and the machine at hand.

mod doctor;
mod hosts;
mod instants;
mod laws;
mod live;
mod sleeps;
mod support;
