//! Counter disruptions that a hypervisor reports. After a move to another host, a virtual machine suddenly reads a
//! different counter. This module opens the vmclock page and reads its marker; `following` reacts to a new marker.

use std::{
    io,
    path::Path,
    sync::atomic::{Ordering, fence},
};

use hpt_sys::mmio::{Registers, Window};

/// The offsets of the fields in the page. Linux, include/uapi/linux/vmclock-abi.h: little-endian, `struct vmclock_abi`.
const MAGIC: usize = 0;
const VERSION: usize = 8;
const SEQ_COUNT: usize = 12;
const DISRUPTION_MARKER: usize = 16;
/// The size up to the end of the marker.
const LENGTH: usize = 24;
/// "VCLK".
const IS_VMCLOCK: u32 = 0x4b4c_4356;
const KNOWN_VERSION: u32 = 1;
/// The number of attempts to read the marker. The hypervisor changes the marker with a few stores while the machine is
/// paused, so a page that never settles is not a vmclock.
const PATIENCE: u32 = 100;

/// The page of a vmclock device.
#[derive(Debug)]
pub(super) struct Vmclock<P = Window> {
    page: P,
}

impl Vmclock {
    /// Opens the machine's page, if there is one and this program may map it. Since version 6.13, Linux provides the
    /// page to root: drivers/ptp/ptp_vmclock.c.
    ///
    /// # Errors
    ///
    /// Returns the error from opening or mapping the page, or [`io::ErrorKind::InvalidData`] if the page is not a
    /// vmclock.
    pub(super) fn open() -> io::Result<Self> {
        let page = Window::map(Path::new("/dev/vmclock0"), 0, 0, LENGTH)?;
        Self::over(page).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl<P: Registers> Vmclock<P> {
    fn over(page: P) -> Option<Self> {
        let version = page.read_u32(VERSION) & 0xffff;
        (page.read_u32(MAGIC) == IS_VMCLOCK && version == KNOWN_VERSION).then_some(Self { page })
    }

    /// Returns a value that changes after every disruption of the counter; `None` while the marker is being changed.
    pub(super) fn disruption_marker(&self) -> Option<u64> {
        for _ in 0..PATIENCE {
            let before = self.page.read_u32(SEQ_COUNT);
            fence(Ordering::Acquire);
            let low = self.page.read_u32(DISRUPTION_MARKER);
            let high = self.page.read_u32(DISRUPTION_MARKER + 4);
            fence(Ordering::Acquire);
            if before % 2 == 0 && self.page.read_u32(SEQ_COUNT) == before {
                return Some(u64::from(high) << 32 | u64::from(low));
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{LENGTH, Vmclock};
    use hpt_sys::mmio::Registers;

    /// A vmclock page from QEMU before and after a migration: tests/data/vmclock/README.md.
    const BEFORE: &[u8] = include_bytes!("../../../tests/data/vmclock/qemu-10-before.bin");
    const AFTER: &[u8] = include_bytes!("../../../tests/data/vmclock/qemu-10-after.bin");

    /// A page whose content changes after a given number of reads.
    struct Page<'a> {
        first: &'a [u8],
        then: &'a [u8],
        reads_left: Cell<u32>,
    }

    impl<'a> Page<'a> {
        fn of(bytes: &'a [u8]) -> Self {
            Self::changing(bytes, bytes, 0)
        }

        fn changing(first: &'a [u8], then: &'a [u8], after_reads: u32) -> Self {
            Self { first, then, reads_left: Cell::new(after_reads) }
        }
    }

    impl Registers for Page<'_> {
        fn read_u32(&self, offset: usize) -> u32 {
            let bytes = if self.reads_left.get() == 0 { self.then } else { self.first };
            self.reads_left.set(self.reads_left.get().saturating_sub(1));
            u32::from_le_bytes(bytes[offset..offset + 4].try_into().expect("four bytes"))
        }
    }

    #[test]
    fn a_migration_changes_the_marker() {
        let marker = |bytes| Vmclock::over(Page::of(bytes)).expect("a vmclock").disruption_marker();
        assert_eq!((marker(BEFORE), marker(AFTER)), (Some(1), Some(2)));
    }

    #[test]
    fn a_marker_is_never_read_torn_during_a_change() {
        // Two reads check for a vmclock, and at most ten more read the marker.
        for after_reads in 2..12 {
            let vmclock = Vmclock::over(Page::changing(BEFORE, AFTER, after_reads)).expect("a vmclock");
            let marker = vmclock.disruption_marker();
            let expected = if after_reads <= 5 { 2 } else { 1 };
            assert_eq!(marker, Some(expected), "changed after {after_reads} reads");
        }
    }

    #[test]
    fn a_change_that_never_ends_is_not_waited_for() {
        let mut odd = BEFORE[..LENGTH].to_vec();
        odd[12] = 3;
        assert_eq!(Vmclock::over(Page::of(&odd)).expect("a vmclock").disruption_marker(), None);
    }

    #[test]
    fn a_page_that_is_not_a_vmclock_is_rejected() {
        for (at, byte) in [(0, 0), (8, 2), (9, 1)] {
            let mut other = BEFORE[..LENGTH].to_vec();
            other[at] = byte;
            assert!(Vmclock::over(Page::of(&other)).is_none());
        }
    }
}
