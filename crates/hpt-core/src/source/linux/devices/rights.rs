//! Determines which permission is missing if the kernel returns only EPERM. Requests no permission.

use hpt_sys::host::{DeviceDenial, Host};

use crate::source::MissingRight;

/// Returns the reason why this process has no access to devices, as far as it is visible.
pub(super) fn behind_eperm(host: &Host) -> Option<MissingRight> {
    host.device_denial().map(|denial| match denial {
        DeviceDenial::Capability => MissingRight::Capability,
        DeviceDenial::Lockdown => MissingRight::Lockdown,
    })
}
