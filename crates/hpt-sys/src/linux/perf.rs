//! A perf event of this thread: its file, and the page through which its counter and the kernel's own time can be read
//! without a system call. Does not interpret the page; `source::perf_cycles` and `source::perf_time` do.

use std::{
    fs::File,
    io::{self, Read},
    mem::ManuallyDrop,
    os::fd::{AsRawFd, FromRawFd},
    ptr,
};

use super::{arch::event, mapping::Mapping, own_process::Mark, process};

/// `struct perf_event_attr` in its first version, which every kernel accepts. Linux, include/uapi/linux/perf_event.h.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// PERF_ATTR_SIZE_VER0. Linux, include/uapi/linux/perf_event.h.
const SIZE: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize, "the layout must match the kernel's");

/// PERF_TYPE_HARDWARE and PERF_COUNT_HW_CPU_CYCLES. Linux, include/uapi/linux/perf_event.h.
const HARDWARE: u32 = 0;
const CPU_CYCLES: u64 = 0;
/// PERF_TYPE_SOFTWARE and PERF_COUNT_SW_DUMMY. The latter has existed since Linux 3.12, counts nothing, and needs no
/// counter. Linux, include/uapi/linux/perf_event.h.
const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
/// The bits of the flags. A pinned event always has its counter or is in an error state. The other two bits exclude
/// cycles in the kernel and in the hypervisor. Linux, include/uapi/linux/perf_event.h.
const PINNED: u64 = 1 << 2;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// PERF_FLAG_FD_CLOEXEC. perf_event_open(2).
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// PERF_EVENT_IOC_DISABLE, `_IO('$', 0x1)`. Linux, include/uapi/linux/perf_event.h.
const DISABLE: libc::Ioctl = 0x2401;

/// The properties of the requested event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether cycles in the kernel are excluded. Not every processor supports that.
    pub user_only: bool,
    /// Whether programs may read the counter, on machines where this must be requested.
    pub by_register: bool,
}

/// A perf event of the thread that opened it, on any CPU.
#[derive(Debug)]
pub struct PerfEvent {
    file: File,
    mark: Option<Mark>,
}

impl Drop for PerfEvent {
    /// Stops the event, which releases its counter. Closing the file does not stop the event while a forked child has a
    /// copy of the file. A forked child leaves the event running, because the event still belongs to the parent.
    fn drop(&mut self) {
        if self.mark.is_some_and(Mark::is_of_this_process) {
            // SAFETY: the descriptor is open, and this request takes no argument; its failure changes nothing.
            // perf_event_open(2), "perf_event ioctl calls".
            unsafe { libc::ioctl(self.file.as_raw_fd(), DISABLE, 0) };
        }
    }
}

impl PerfEvent {
    /// Opens an event that counts the calling thread's cycles, starting now.
    ///
    /// # Errors
    ///
    /// Returns the error from `perf_event_open(2)`.
    pub fn open(wanted: Wanted) -> io::Result<Self> {
        Self::with(&Attributes {
            kind: HARDWARE,
            size: SIZE,
            config: CPU_CYCLES,
            flags: PINNED | if wanted.user_only { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR } else { 0 },
            config1: if wanted.by_register { event::USER_ACCESS } else { 0 },
            ..Attributes::default()
        })
    }

    /// Opens an event that counts nothing for the calling thread, to obtain its page. It occupies no counter.
    ///
    /// # Errors
    ///
    /// Returns the error from `perf_event_open(2)`.
    pub fn that_counts_nothing() -> io::Result<Self> {
        Self::with(&Attributes {
            kind: SOFTWARE,
            size: SIZE,
            config: DUMMY,
            flags: EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
            ..Attributes::default()
        })
    }

    fn with(attributes: &Attributes) -> io::Result<Self> {
        let (this_thread, any_cpu, no_group): (libc::pid_t, libc::c_int, libc::c_int) = (0, -1, -1);
        // SAFETY: `attributes` is live, has the kernel's layout, and contains its own size. The kernel only reads it.
        // The other arguments are numbers. perf_event_open(2).
        let answer = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                ptr::from_ref(attributes),
                this_thread,
                any_cpu,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let descriptor = libc::c_int::try_from(answer).ok().filter(|&descriptor| descriptor >= 0);
        let Some(descriptor) = descriptor else { return Err(io::Error::last_os_error()) };
        // SAFETY: the kernel has just created this descriptor, and it is not used elsewhere. FromRawFd::from_raw_fd.
        let file = unsafe { File::from_raw_fd(descriptor) };
        Ok(Self { file, mark: Mark::new() })
    }

    /// Returns the cycles counted so far, with a system call; `None` if the event has lost its counter to other events,
    /// or a sandbox refuses the call.
    #[inline]
    pub fn count(&self) -> Option<u64> {
        let mut count = [0; 8];
        // For an event in the error state, read(2) reports end-of-file. perf_event_open(2), "pinned".
        let bytes = (&self.file).read(&mut count).ok()?;
        (bytes == count.len()).then_some(u64::from_ne_bytes(count))
    }

    /// Maps the event's page, read-only.
    ///
    /// # Errors
    ///
    /// Returns the error from mmap, or [`io::ErrorKind::Unsupported`] if a forked child could not be distinguished from
    /// this process.
    pub fn map(&self) -> io::Result<Page> {
        let mark = Mark::new().ok_or(io::ErrorKind::Unsupported)?;
        let length = usize::try_from(process::page_size()).map_err(|_| io::ErrorKind::Unsupported)?;
        let map = Mapping::of(&self.file, 0, length)?;
        Ok(Page { map: ManuallyDrop::new(map), mark })
    }
}

/// The first page of an event, which the kernel changes whenever the event is moved, and the counters that the page
/// refers to. This is a trait so that a test can script both.
pub trait EventPage {
    /// Returns the 16-bit field that is `offset` bytes after the start of the page.
    fn read_u16(&self, offset: usize) -> u16;
    /// Returns the 32-bit field that is `offset` bytes after the start of the page.
    fn read_u32(&self, offset: usize) -> u32;
    /// Returns the 64-bit field that is `offset` bytes after the start of the page.
    fn read_u64(&self, offset: usize) -> u64;
    /// Returns the value of the counter with the number `index` in the page; `None` if this crate does not read that
    /// counter. `index` must not be zero.
    fn counter(&self, index: u32) -> Option<u64>;
}

/// An event's page in this process's memory.
#[derive(Debug)]
pub struct Page {
    map: ManuallyDrop<Mapping>,
    mark: Mark,
}

impl Drop for Page {
    fn drop(&mut self) {
        // In a forked child these addresses are free, or used for something else.
        if self.is_of_this_process() {
            // SAFETY: the map is dropped only here, and is not used afterwards. ManuallyDrop::drop.
            unsafe { ManuallyDrop::drop(&mut self.map) };
        }
    }
}

/// The number of bytes at the start of the page that contain all fields that are read. A page is never smaller. A
/// kernel that does not support a field leaves it zero.
const FIELDS: usize = 96;

impl Page {
    /// Returns whether the page may be read: a forked child has neither this page nor an event for the counter, because
    /// a child does not inherit the mmap of a perf event.
    #[inline(always)]
    pub fn is_of_this_process(&self) -> bool {
        self.mark.is_of_this_process()
    }

    /// Waits until all preceding instructions have completed. Following instructions begin only after that.
    #[inline(always)]
    pub fn wait(&self) {
        event::wait();
    }

    /// Returns the address of a field.
    #[inline(always)]
    fn field<T>(&self, offset: usize) -> *const T {
        assert!(
            self.is_of_this_process() && offset % size_of::<T>() == 0 && offset + size_of::<T>() <= FIELDS,
            "the page has no such field in this process"
        );
        let first = self.map.as_ptr();
        // SAFETY: a whole page is mapped, and the assertion keeps the field within its first bytes. pointer::add.
        unsafe { first.add(offset) }.cast()
    }
}

impl EventPage for Page {
    #[inline(always)]
    fn read_u16(&self, offset: usize) -> u16 {
        let field = self.field::<u16>(offset);
        // SAFETY: `field` is aligned, and lies in a page that is readable and stays mapped in this process for as long
        // as `self.map` lives. No reference to the field is ever created. The read is volatile because the kernel
        // changes the field. ptr::read_volatile.
        unsafe { field.read_volatile() }
    }

    #[inline(always)]
    fn read_u32(&self, offset: usize) -> u32 {
        let field = self.field::<u32>(offset);
        // SAFETY: as in `read_u16`.
        unsafe { field.read_volatile() }
    }

    #[inline(always)]
    fn read_u64(&self, offset: usize) -> u64 {
        let field = self.field::<u64>(offset);
        // SAFETY: as in `read_u16`. On a 32-bit machine, the two halves may belong to different states, which the
        // page's own count of changes reveals.
        unsafe { field.read_volatile() }
    }

    #[inline(always)]
    fn counter(&self, index: u32) -> Option<u64> {
        event::counter(index)
    }
}

#[cfg(test)]
mod tests {
    use super::{EventPage, PerfEvent, Wanted};
    use crate::trial;

    #[test]
    fn an_event_counts_or_is_refused_with_an_error() {
        match PerfEvent::open(Wanted { user_only: true, by_register: true }) {
            Ok(event) => assert!(event.count() <= event.count()),
            Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
        }
    }

    #[test]
    fn a_page_recognizes_its_process() {
        let page = match PerfEvent::open(Wanted { user_only: true, by_register: true }).and_then(|event| event.map()) {
            Ok(page) => page,
            Err(error) => return skipped!("no page of a perf event: {error}"),
        };
        page.read_u32(8);
        let child_leaves_it = trial::attempt_in_child(|| {
            if page.is_of_this_process() {
                std::process::abort();
            }
        });
        assert_eq!(child_leaves_it, trial::Attempt::Lived);
    }
}
