//! The capabilities, resource limits and memory size of this thread, as read from /proc/thread-self.

use hpt_sys::host::Host;

/// The bit number of the capability to lock memory. Source: Linux, include/uapi/linux/capability.h.
pub const CAP_IPC_LOCK: u32 = 14;
/// The bit number of the capability to set real-time policies.
pub const CAP_SYS_NICE: u32 = 23;

/// Values from /proc/thread-self/status and /proc/thread-self/limits; missing values are `None`. See proc_pid_status(5)
/// and proc_pid_limits(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The effective capabilities, one bit each.
    pub capabilities: Option<u64>,
    /// The size of mapped memory, in bytes.
    pub size: Option<u64>,
    /// The size of the locked part of that memory, in bytes.
    pub locked: Option<u64>,
    /// The amount of memory that the process may lock, in bytes; `u64::MAX` means no limit.
    pub may_lock: Option<u64>,
    /// The highest real-time priority that the process may set without a capability.
    pub realtime_priority: Option<u64>,
    /// The time for which a real-time thread may run without blocking, in microseconds; `u64::MAX` means no limit.
    pub realtime_timeout_us: Option<u64>,
}

impl Limits {
    /// Reads the values of the calling thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::Limits;
    ///
    /// match Limits::of_this_thread(&Host::live()).may_lock {
    ///     Some(u64::MAX) => println!("this process may lock all of its memory"),
    ///     Some(bytes) => println!("this process may lock {bytes} bytes"),
    ///     None => println!("the limit is unknown"),
    /// }
    /// ```
    #[must_use]
    pub fn of_this_thread(host: &Host) -> Self {
        let file = |name: &str| host.text(&format!("/proc/thread-self/{name}")).unwrap_or_default();
        Self::parse(&file("status"), &file("limits"))
    }

    fn parse(status: &str, limits: &str) -> Self {
        let field = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let bytes = |name: &str| field(name)?.strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024);
        let limit =
            |name: &str| match limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()? {
                "unlimited" => Some(u64::MAX),
                number => number.parse().ok(),
            };
        Self {
            capabilities: field("CapEff").and_then(|digits| u64::from_str_radix(digits, 16).ok()),
            size: bytes("VmSize"),
            locked: bytes("VmLck"),
            may_lock: limit("Max locked memory"),
            realtime_priority: limit("Max realtime priority"),
            realtime_timeout_us: limit("Max realtime timeout"),
        }
    }

    /// Returns whether the thread has a capability; `None` if its capabilities are unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::{CAP_IPC_LOCK, CAP_SYS_NICE, Limits};
    ///
    /// let limits = Limits { capabilities: Some(1 << CAP_SYS_NICE), ..Limits::default() };
    /// assert_eq!((limits.has(CAP_SYS_NICE), limits.has(CAP_IPC_LOCK)), (Some(true), Some(false)));
    /// assert_eq!(Limits::default().has(CAP_SYS_NICE), None);
    /// ```
    #[must_use]
    pub fn has(&self, capability: u32) -> Option<bool> {
        Some(self.capabilities? >> capability & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{CAP_IPC_LOCK, CAP_SYS_NICE, Limits};
    use hpt_sys::host::Host;

    #[test]
    fn capabilities_sizes_and_limits_are_parsed() {
        let status = "Name:\thpt\nVmSize:\t    3060 kB\nVmLck:\t       0 kB\nCapEff:\t0000000000800000\n";
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608     unlimited   bytes\n\
                      Max realtime priority     unlimited            0\nMax realtime timeout      200000               unlimited            us\n";
        let read = Limits::parse(status, limits);
        assert_eq!((read.size, read.locked), (Some(3060 * 1024), Some(0)));
        assert_eq!((read.may_lock, read.realtime_priority), (Some(8_388_608), Some(u64::MAX)));
        assert_eq!(read.realtime_timeout_us, Some(200_000));
        assert_eq!((read.has(CAP_SYS_NICE), read.has(CAP_IPC_LOCK)), (Some(true), Some(false)));
        assert_eq!(Limits::parse("", ""), Limits::default());
        assert_eq!(Limits::default().has(CAP_SYS_NICE), None);
    }

    #[test]
    fn the_size_of_this_process_is_readable() {
        let here = Limits::of_this_thread(&Host::live());
        assert!(here.size.is_some_and(|size| size > 0), "{here:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(status in any::<String>(), limits in any::<String>()) {
            let _ = Limits::parse(&status, &limits);
        }
    }
}
