//! The counterpart of `port_x86.rs` on machines without I/O ports: a port that cannot be open. Never panics and never
//! returns an invented number.

use std::io;

use crate::port::InputPort;

/// A port type that has no values, so nothing can be read through it.
#[derive(Clone, Copy, Debug)]
pub enum OpenPort {}

impl OpenPort {
    /// Returns an error, because this machine has no ports that programs can read with an instruction.
    pub fn open(_port: u16) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl InputPort for OpenPort {
    fn read_u32(&self) -> u32 {
        match *self {}
    }
}
