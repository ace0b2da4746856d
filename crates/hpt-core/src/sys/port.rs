//! A register of 32 bits that is accessed through an I/O port. Independent of the device: `source` specifies the port
//! and interprets its values.

pub(crate) use super::arch::OpenPort;

/// The content of a port, as a trait so that a test can script it.
pub(crate) trait InputPort {
    /// Returns the register at the port.
    fn read_u32(&self) -> u32;
}
