//! Determines why the kernel denies access to a device if it returns only EPERM. Requests no permission.

use super::Host;

/// The only file in /proc or /sys that shows whether the kernel is locked down.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
/// CAP_SYS_RAWIO, as a bit of a capability set. Linux, include/uapi/linux/capability.h.
const CAP_SYS_RAWIO: u64 = 1 << 17;

/// The reason why this process has no access to devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceDenial {
    /// The process lacks the capability CAP_SYS_RAWIO.
    Capability,
    /// The kernel is locked down.
    Lockdown,
}

impl Host {
    /// Returns the reason why this process has no access to devices. Checks the possible causes in the kernel's order:
    /// the capability CAP_SYS_RAWIO, then lockdown. Returns `None` if neither cause is visible.
    ///
    /// # References
    ///
    /// Linux, drivers/char/mem.c, `open_port`; arch/x86/kernel/ioport.c, `ksys_ioperm`.
    pub fn device_denial(&self) -> Option<DeviceDenial> {
        told(self.text("/proc/self/status").as_deref(), self.text(LOCKDOWN).as_deref())
    }
}

fn told(status: Option<&str>, lockdown: Option<&str>) -> Option<DeviceDenial> {
    let effective = status
        .and_then(|status| status.lines().find_map(|line| line.strip_prefix("CapEff:")))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    if effective.is_some_and(|set| set & CAP_SYS_RAWIO == 0) {
        return Some(DeviceDenial::Capability);
    }
    // The active mode is in brackets: "none [integrity] confidentiality".
    lockdown.filter(|modes| !modes.contains("[none]")).map(|_| DeviceDenial::Lockdown)
}

#[cfg(test)]
mod tests {
    use super::{DeviceDenial, told};

    #[test]
    fn the_missing_permission_is_named() {
        let plain = Some("Name:\tx\nCapEff:\t0000000000000000\n");
        let root = Some("Name:\tx\nCapEff:\t000001ffffffffff\n");
        assert_eq!(told(plain, Some("[none] integrity confidentiality")), Some(DeviceDenial::Capability));
        assert_eq!(told(root, Some("none [integrity] confidentiality")), Some(DeviceDenial::Lockdown));
        assert_eq!(told(root, Some("[none] integrity confidentiality")), None);
        assert_eq!(told(None, None), None);
    }
}
