//! The tests of hpt-core from outside, in one program: captured machines, and the machine at hand.

#[macro_use]
mod support;

mod captures;
mod doctor;
mod edges;
mod hosts;
mod instants;
mod laws;
mod live;
mod sleeps;
