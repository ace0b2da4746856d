//! What hpt reads of a machine, so that others can explain it elsewhere.
//! Explains nothing.

mod take;

pub use self::take::{CaptureError, Captured};
