//! The limit on the exit latency of idle states, which the kernel applies as long as a file is open (PM QoS). This
//! module changes no setting that outlives the process.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    time::Duration,
};

use hpt_sys::host::Host;

use super::RealtimeError;

/// Linux, Documentation/power/pm_qos_interface.rst.
const FILE: &str = "/dev/cpu_dma_latency";

/// A guard that limits the exit latency of the idle states of all CPUs as long as the guard exists. The limit increases
/// power consumption.
#[derive(Debug)]
#[must_use = "the latency limit is removed when the guard is dropped"]
pub struct AwakeCpus {
    _promise: File,
}

impl AwakeCpus {
    /// Requests an exit latency of zero.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Latency`] if the file cannot be opened or written.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::AwakeCpus;
    ///
    /// match AwakeCpus::new() {
    ///     Ok(_awake) => println!("no CPU enters an idle state until the guard is dropped"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn new() -> Result<Self, RealtimeError> {
        Self::with_latency(Duration::ZERO)
    }

    /// Requests an exit latency of at most `latency`, rounded down to whole microseconds. The maximum is just under
    /// 2000 s.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Latency`] if the file cannot be opened or written.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use hpt_realtime::AwakeCpus;
    ///
    /// match AwakeCpus::with_latency(Duration::from_micros(20)) {
    ///     Ok(_awake) => println!("CPUs enter only idle states that they leave within 20 µs"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn with_latency(latency: Duration) -> Result<Self, RealtimeError> {
        // The kernel's default value means no limit. Source: Linux, include/linux/pm_qos.h,
        // PM_QOS_CPU_LATENCY_DEFAULT_VALUE.
        let microseconds = i32::try_from(latency.as_micros()).unwrap_or(i32::MAX).min(2_000_000_000 - 1);
        let refused =
            |cause| RealtimeError::Latency { microseconds: u32::from_ne_bytes(microseconds.to_ne_bytes()), cause };
        let mut promise = OpenOptions::new().write(true).open(FILE).map_err(refused)?;
        promise.write_all(&microseconds.to_ne_bytes()).map_err(refused)?;
        Ok(Self { _promise: promise })
    }
}

/// Returns the limit that results from all active requests; `None` if it cannot be read.
#[allow(clippy::disallowed_methods, reason = "a file of the kernel")]
pub(super) fn promised(host: &Host) -> Option<Duration> {
    let mut value = [0; 4];
    // This is a device, not one of a host's regular files. Opening the device for reading requests no limit.
    let path = host.locate(FILE).filter(|_| host.is_live())?;
    let mut file = File::open(path).ok()?;
    file.read_exact(&mut value).ok()?;
    u64::try_from(i32::from_ne_bytes(value)).ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AwakeCpus, promised};
    use hpt_sys::host::Host;

    #[test]
    fn a_wake_up_latency_limit_applies_while_it_is_held() {
        let host = Host::live();
        let (short, long) = (Duration::from_micros(20), Duration::from_micros(4_000_000));
        let (Some(_), Ok(longer)) = (promised(&host), AwakeCpus::with_latency(long)) else {
            return skipped!("/dev/cpu_dma_latency requires root");
        };
        if cfg!(target_endian = "big") && !hpt_sys::testing::own_program().0.is_empty() {
            return skipped!("the emulator passes the number on in the byte order of the program, not of the host");
        }
        // Other processes may set and release limits at any time: the shortest applies.
        assert!(promised(&host).is_some_and(|promised| promised <= long));
        let shorter = AwakeCpus::with_latency(short).expect("permission for /dev/cpu_dma_latency");
        assert!(promised(&host).is_some_and(|promised| promised <= short));
        let none = AwakeCpus::new().expect("permission for /dev/cpu_dma_latency");
        assert_eq!(promised(&host), Some(Duration::ZERO));
        drop((longer, shorter, none));
    }
}
