//! How deep processors may sleep: a promise that the kernel keeps as long as a file is open (PM QoS).
//! Touches no setting that outlives the process.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    time::Duration,
};

use super::RealtimeError;
use crate::host::Host;

/// Linux, Documentation/power/pm_qos_interface.rst.
const FILE: &str = "/dev/cpu_dma_latency";

/// No processor of the machine sleeps so deep that waking takes longer than was asked for, for as long as this lives. Costs power.
#[derive(Debug)]
#[must_use = "the promise ends when the guard is dropped"]
pub struct AwakeCpus {
    _promise: File,
}

impl AwakeCpus {
    /// Asks for waking that takes no time.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Latency`] when the file cannot be opened or written.
    pub fn hold() -> Result<Self, RealtimeError> {
        Self::waking_within(Duration::ZERO)
    }

    /// Asks for waking that takes no longer than `latency`, in whole microseconds (rounded down) and at most 2000 s.
    ///
    /// # Errors
    ///
    /// [`RealtimeError::Latency`] when the file cannot be opened or written.
    pub fn waking_within(latency: Duration) -> Result<Self, RealtimeError> {
        // The kernel's own default stands for no promise at all: Linux, include/linux/pm_qos.h, PM_QOS_CPU_LATENCY_DEFAULT_VALUE.
        let microseconds = i32::try_from(latency.as_micros()).unwrap_or(i32::MAX).min(2_000_000_000 - 1);
        let refused = |cause| RealtimeError::Latency { microseconds: microseconds.cast_unsigned(), cause };
        let mut promise = OpenOptions::new().write(true).open(FILE).map_err(refused)?;
        promise.write_all(&microseconds.to_ne_bytes()).map_err(refused)?;
        Ok(Self { _promise: promise })
    }
}

/// The longest time that waking may take now, by all promises; `None` where it cannot be read.
pub(super) fn promised(host: &Host) -> Option<Duration> {
    let mut value = [0; 4];
    // A device: not one of the regular files that a host hands out. To open it for reading promises nothing.
    let path = host.locate(FILE).filter(|_| host.is_live())?;
    let mut file = File::open(path).ok()?;
    file.read_exact(&mut value).ok()?;
    u64::try_from(i32::from_ne_bytes(value)).ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{AwakeCpus, promised};
    use crate::host::Host;

    #[test]
    fn a_promise_is_kept_while_it_is_held() {
        let host = Host::live();
        let (short, long) = (Duration::from_micros(20), Duration::from_micros(4_000_000));
        let (Some(_), Ok(longer)) = (promised(&host), AwakeCpus::waking_within(long)) else {
            return skipped!("/dev/cpu_dma_latency takes root");
        };
        // Others may promise as well, and let go at any time: the shortest counts.
        assert!(promised(&host).is_some_and(|promised| promised <= long));
        let shorter = AwakeCpus::waking_within(short).expect("it is allowed");
        assert!(promised(&host).is_some_and(|promised| promised <= short));
        let none = AwakeCpus::hold().expect("it is allowed");
        assert_eq!(promised(&host), Some(Duration::ZERO));
        drop((longer, shorter, none));
    }
}
