//! The integration tests of hpt-core, in one program: captured machines, and this machine.

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
