//! Where the device tree and the tables of the firmware describe devices. The features `devices` and `tuning` include it.

mod acpi;
mod device_tree;
mod soc_counters;
mod system_timer;
mod uio;

pub use self::{
    acpi::{IO_PORTS, Latch, NoPmTimer},
    device_tree::{DeviceNode, Region},
    soc_counters::{Gate, Layout, SOC_COUNTERS, SocCounter, SocCounterNode, Word, Words},
    system_timer::SystemTimer,
    uio::UioWindow,
};
use super::{Architecture, Host, soc};
