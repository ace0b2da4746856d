//! What set-up and diagnosis read of the machine, and the capture of everything that this crate reads. The feature
//! `tuning` includes it.

mod boot_loader;
mod capture;
mod control_groups;
mod daemons;
mod interrupts;
mod kernel_configuration;
mod kernel_threads;
mod settings;
mod situation;
mod system;
mod take;

pub use self::{
    boot_loader::BootLoader,
    capture::{Capture, CaptureError, CaptureTextError, Entry, PathError, ReadRefused},
    control_groups::{ControlGroups, CpuQuota, Throttled},
    interrupts::Interrupt,
    kernel_configuration::KernelConfiguration,
    kernel_threads::KernelThread,
    settings::{Supply, Zone},
    situation::{DeviceFile, Situation},
    system::{Family, System},
    take::Captured,
};
use super::{CpuList, Host, Known};
