//! A 32-bit register that is accessed through an I/O port. Independent of the device: `source` specifies the port and
//! interprets its values.

pub use super::arch::OpenPort;

/// A port that can be read. This is a trait so that a test can script the content.
pub trait InputPort {
    /// Returns the register at the port.
    fn read_u32(&self) -> u32;
}
