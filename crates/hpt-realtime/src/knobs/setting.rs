//! A setting together with the value that it is to have.

use hpt_sys::{host::Host, settings::SystemSetting};

use super::Knob;

/// A system-wide setting, and a new value for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub(crate) knob: Knob,
    pub(crate) value: String,
}

impl Setting {
    /// Creates a setting with its new value.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::{Knob, Setting};
    ///
    /// let settings = [
    ///     Setting::new(Knob::clock_source(), "tsc"),
    ///     Setting::new(Knob::new("swappiness", "/proc/sys/vm/swappiness"), "10"),
    /// ];
    /// for setting in &settings {
    ///     println!("{}={}", setting.knob().kind(), setting.value());
    /// }
    /// ```
    #[must_use]
    pub fn new(knob: Knob, value: impl Into<String>) -> Self {
        Self { knob, value: value.into() }
    }

    /// Creates a setting of a machine, in its file for these numbers. The settings of a system snapshot are never changed.
    #[must_use]
    pub fn of(host: &Host, known: &SystemSetting, numbers: &[usize], value: impl Into<String>) -> Self {
        let place = host.locate(&known.path_of(numbers)).unwrap_or_default();
        // CPUs that share a frequency have links to one directory.
        let place = place.canonicalize().unwrap_or(place);
        Self::new(Knob::new(known.name_of(numbers), place.to_string_lossy()), value)
    }

    /// Returns the setting.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::{Knob, Setting};
    ///
    /// let setting = Setting::new(Knob::clock_source(), "tsc");
    /// assert_eq!(setting.knob(), &Knob::clock_source());
    /// ```
    #[must_use]
    pub fn knob(&self) -> &Knob {
        &self.knob
    }

    /// Returns the new value.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::knobs::{Knob, Setting};
    ///
    /// let setting = Setting::new(Knob::clock_source(), "tsc");
    /// assert_eq!(setting.value(), "tsc");
    /// ```
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}
