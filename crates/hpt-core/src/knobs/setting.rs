//! A setting together with the value that it is to have. This module changes nothing.

use super::Knob;

/// A system-wide setting, and a new value for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub(crate) knob: Knob,
    pub(crate) value: String,
}

impl Setting {
    /// Creates a setting with its new value.
    #[must_use]
    pub fn new(knob: Knob, value: impl Into<String>) -> Self {
        Self { knob, value: value.into() }
    }

    /// Returns the setting.
    #[must_use]
    pub fn knob(&self) -> &Knob {
        &self.knob
    }

    /// Returns the new value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}
