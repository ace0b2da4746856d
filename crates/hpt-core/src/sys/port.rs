//! A register of 32 bits that is reached by an I/O port.
//! Knows no device: where its port is and what it means is for `source`.

pub(crate) use super::arch::OpenPort;

/// What a port shows; so that a test can script it.
pub(crate) trait InputPort {
    /// The register at the port.
    fn read_u32(&self) -> u32;
}
