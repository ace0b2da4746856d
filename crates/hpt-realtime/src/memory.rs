//! Functions that keep memory resident, by locking all pages of a process or by touching a stack before it is used.

use std::{
    hint::black_box,
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hpt_sys::{host::Host, memory};

use super::{
    RealtimeError,
    limits::{CAP_IPC_LOCK, Limits},
};

/// The amount of memory that a process with a limit on locked memory must still be able to lock, in bytes. The limit
/// also applies to its next allocations.
const HEADROOM: u64 = 32 << 20;

/// The number of bytes that must remain on a stack for called functions and signal handlers.
const STACK_LEFT: usize = 64 << 10;

/// The guards that keep memory locked in a process.
#[derive(Clone, Copy, Debug)]
struct Holders {
    /// The ID of the process whose guards are counted. A child process inherits the count of its parent, but not its
    /// memory locks.
    process: u32,
    count: usize,
    /// Whether other code had locked memory before the first guard was created. In that case, munlockall would unlock
    /// that memory too.
    others: bool,
}

static HOLDERS: Mutex<Holders> = Mutex::new(Holders { process: 0, count: 0, others: false });

/// Serializes tests that check how much memory is locked, because all of them share one process.
#[cfg(test)]
pub(super) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn holders() -> MutexGuard<'static, Holders> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard that keeps all memory of this process resident, including later mappings, as long as at least one such guard
/// exists. If other code had locked memory before the first guard was created, all memory stays locked after the last
/// guard is dropped, because munlockall can only unlock everything.
#[derive(Debug)]
#[must_use = "the memory is unlocked when the last guard is dropped"]
pub struct LockedMemory {
    process: u32,
}

impl LockedMemory {
    /// Locks all memory of this process.
    ///
    /// # Errors
    ///
    /// Returns [`RealtimeError::Memory`] if the kernel refuses, and [`RealtimeError::MemoryLimit`] if the kernel would
    /// refuse the next allocations.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_realtime::LockedMemory;
    ///
    /// match LockedMemory::new() {
    ///     Ok(_locked) => println!("nothing is paged out until the guard is dropped"),
    ///     Err(refused) => println!("{refused}"),
    /// }
    /// ```
    pub fn new() -> Result<Self, RealtimeError> {
        let mut holders = holders();
        let this_process = process::id();
        if holders.process != this_process {
            *holders = Holders { process: this_process, count: 0, others: false };
        }
        if holders.count == 0 {
            let limits = Limits::of_this_thread(&Host::live());
            room_to_grow(limits)?;
            memory::lock_all().map_err(|cause| RealtimeError::Memory { remedy: remedy(limits), cause })?;
            holders.others = limits.locked.is_none_or(|locked| locked > 0);
        }
        holders.count += 1;
        Ok(Self { process: this_process })
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let mut holders = holders();
        if self.process != process::id() || holders.process != self.process {
            // This guard is a child's copy of its parent's guard, and no memory is locked in the child.
            return;
        }
        holders.count -= 1;
        if holders.count == 0 && !holders.others {
            // munlockall always succeeds here.
            let _ = memory::unlock_all();
        }
    }
}

fn room_to_grow(limits: Limits) -> Result<(), RealtimeError> {
    match limits {
        Limits { may_lock: Some(limit), size: Some(size), .. }
            if limits.has(CAP_IPC_LOCK) != Some(true) && limit < size.saturating_add(HEADROOM) =>
        {
            Err(RealtimeError::MemoryLimit { size, limit })
        }
        Limits { .. } => Ok(()),
    }
}

fn remedy(limits: Limits) -> String {
    if limits.has(CAP_IPC_LOCK) == Some(true) {
        return "this process has CAP_IPC_LOCK, so either there is not enough memory or a sandbox forbids the call"
            .to_owned();
    }
    let limit = match limits.may_lock {
        Some(u64::MAX) | None => String::new(),
        Some(limit) => format!(", currently {} KiB", limit / 1024),
    };
    format!("run as root, with CAP_IPC_LOCK, or with a higher limit (ulimit -l{limit})")
}

/// Touches `bytes` of the calling thread's stack below its current position, so that later use causes no page fault.
///
/// # Errors
///
/// Returns [`RealtimeError::Stack`] if the stack has fewer bytes left.
///
/// # Examples
///
/// ```
/// use hpt_realtime::{RealtimeError, prefault_stack};
///
/// match prefault_stack(64 << 10) {
///     Ok(()) => println!("the next 64 KiB of the stack cause no page fault"),
///     Err(refused) => println!("{refused}"),
/// }
/// assert!(matches!(prefault_stack(usize::MAX), Err(RealtimeError::Stack { .. })));
/// ```
pub fn prefault_stack(bytes: usize) -> Result<(), RealtimeError> {
    let here = 0_u8;
    let here = std::ptr::from_ref(black_box(&here)).addr();
    // A stack of unknown size counts as full.
    let room = memory::end_of_stack().map_or(0, |end| here.saturating_sub(end).saturating_sub(STACK_LEFT));
    if bytes > room {
        return Err(RealtimeError::Stack { wanted: bytes, room });
    }
    touch_down_to(here - bytes);
    Ok(())
}

#[inline(never)]
fn touch_down_to(address: usize) {
    // The step is smaller than any page, so no page is skipped.
    let piece = [0_u8; 1024];
    if std::ptr::from_ref(black_box(&piece)).addr() > address {
        touch_down_to(address);
    }
    // The array is used after the call, so that the compiler does not reuse this stack frame for the call.
    black_box(&piece);
}

#[cfg(test)]
mod tests {
    use super::{
        CAP_IPC_LOCK, HEADROOM, Limits, LockedMemory, ONE_AT_A_TIME, RealtimeError, prefault_stack, remedy,
        room_to_grow,
    };
    use hpt_sys::host::Host;

    fn locked() -> u64 {
        Limits::of_this_thread(&Host::live()).locked.unwrap_or(0)
    }

    #[test]
    fn memory_stays_locked_until_the_last_guard_is_dropped() {
        let _alone = ONE_AT_A_TIME.lock();
        let before = locked();
        let first = match LockedMemory::new() {
            Ok(first) => first,
            Err(refused) => return skipped!("{refused}"),
        };
        let second = LockedMemory::new().expect("permission to lock memory");
        assert!(locked() > before);
        drop(first);
        assert!(locked() > before);
        drop(second);
        assert_eq!(locked(), before);
    }

    #[test]
    fn a_low_limit_for_locked_memory_is_reported_before_an_allocation_fails() {
        let limits =
            Limits { size: Some(5 << 20), may_lock: Some(8 << 20), capabilities: Some(0), ..Limits::default() };
        assert!(matches!(room_to_grow(limits), Err(RealtimeError::MemoryLimit { .. })));
        assert!(room_to_grow(Limits { may_lock: Some((5 << 20) + HEADROOM), ..limits }).is_ok());
        assert!(room_to_grow(Limits { may_lock: Some(u64::MAX), ..limits }).is_ok());
        assert!(room_to_grow(Limits { capabilities: Some(1 << CAP_IPC_LOCK), ..limits }).is_ok());
        assert!(remedy(limits).contains("ulimit -l, currently 8192 KiB"));
    }

    #[test]
    fn a_stack_is_prefaulted_to_its_end_and_not_beyond() {
        let touched = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
            prefault_stack(1 << 20).expect("enough stack");
            prefault_stack(0).expect("no stack requested");
            prefault_stack(8 << 20)
        });
        let refused = touched.expect("a thread can be started").join().expect("a thread that does not panic");
        assert!(matches!(refused, Err(RealtimeError::Stack { wanted, room }) if wanted == 8 << 20 && room < 2 << 20));
    }
}
