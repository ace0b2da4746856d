//! A register of 32 bits that is accessed through an I/O port. Independent of the device: `source` knows where its port
//! is and what it means.

pub(crate) use super::arch::OpenPort;

/// The content of a port, as a trait so that a test can script it.
pub(crate) trait InputPort {
    /// Returns the register at the port.
    fn read_u32(&self) -> u32;
}
