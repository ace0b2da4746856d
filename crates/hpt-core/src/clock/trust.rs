//! Whether the processor's own counter may tell the time without anybody asking for it: what the processor says of it, and the kernel.
//! Installs nothing. Allocates nothing, because it may be asked in a signal handler.

use std::{fs::File, io::Read};

use crate::{
    source::permitted_native,
    sys::{arch::CounterRefused, native::Native},
};

/// What is to be thought of the processor's own counter.
#[derive(Debug)]
pub(super) enum Trust {
    Yes(Native),
    /// The kernel has not made up its mind, or it could not be tried whether the counter may be read.
    NotYet,
    No,
}

/// The TSC: steady by the processor's word, and offered by the kernel as a clock source.
#[cfg(target_arch = "x86_64")]
pub(super) fn in_native() -> Trust {
    /// Leaf 0x80000007, EDX bit 8: the TSC runs at a constant rate in all states. AMD APM vol. 3, E.4.6; Intel SDM vol. 3B, 18.17.1.
    const INVARIANT: u32 = 1 << 8;
    let leaf = |leaf| crate::sys::arch::cpuid(leaf, 0);
    let invariant = leaf(0x8000_0000).is_some_and(|[highest, ..]| highest >= 0x8000_0007)
        && leaf(0x8000_0007).is_some_and(|[_, _, _, edx]| edx & INVARIANT != 0);
    if !invariant {
        Trust::No
    } else if kernel_offers("tsc") {
        permitted()
    } else if kernel_offers("tsc-early") {
        // Its name while the kernel measures its rate, for the first seconds. Linux, arch/x86/kernel/tsc.c.
        Trust::NotYet
    } else {
        Trust::No
    }
}

/// The ARM generic timer: offered by the kernel as a clock source.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn in_native() -> Trust {
    if kernel_offers("arch_sys_counter") { permitted() } else { Trust::No }
}

/// What the kernel offers, if this program may read it.
fn permitted() -> Trust {
    match permitted_native() {
        Ok(native) => Trust::Yes(native),
        Err(CounterRefused::NotReadable) => Trust::No,
        Err(CounterRefused::NotTried) => Trust::NotYet,
    }
}

/// Whether the kernel has a clock source of this name on its list. What it found unstable it drops.
fn kernel_offers(name: &str) -> bool {
    let mut list = [0; 256];
    let read = File::open("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .and_then(|mut file| file.read(&mut list));
    read.is_ok_and(|length| list[..length].split(u8::is_ascii_whitespace).any(|offered| offered == name.as_bytes()))
}
