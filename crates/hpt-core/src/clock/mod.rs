//! Clocks: a source, a scale and an anchor.
//! Calibrates nothing: the scale comes from `calibrate`.

mod fixed;

pub use self::fixed::{Clock, ClockError, Reading};
