//! Pins the calling thread to its current CPU, because facts about one CPU do not hold for another. Chooses no CPU;
//! `realtime` does.

use std::{cell::Cell, io, marker::PhantomData};

use crate::sys::process::{CpuSet, current_cpu};

thread_local! {
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// The number of guards of this thread, the CPU that they pin it to, and the thread's affinity before the first guard.
#[derive(Clone, Copy, Debug)]
struct Held {
    guards: usize,
    cpu: usize,
    before: CpuSet,
}

/// A guard that pins the calling thread to its current CPU while it exists. When the last guard of a thread is dropped,
/// the previous affinity is restored.
#[derive(Debug)]
pub(super) struct OnItsCpu {
    cpu: usize,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl OnItsCpu {
    /// Pins the thread to its current CPU.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error, [`io::ErrorKind::Unsupported`] if the kernel does not report the current CPU, and
    /// [`io::ErrorKind::ResourceBusy`] if the thread was moved despite an existing guard.
    pub(super) fn here() -> io::Result<Self> {
        let here = current_cpu().ok_or(io::ErrorKind::Unsupported)?;
        let held = match HELD.get() {
            Some(held) if held.cpu != here => return Err(io::ErrorKind::ResourceBusy.into()),
            Some(held) => Held { guards: held.guards + 1, ..held },
            None => {
                let before = CpuSet::of_this_thread()?;
                CpuSet::only(here).apply()?;
                Held { guards: 1, cpu: here, before }
            }
        };
        HELD.set(Some(held));
        Ok(Self { cpu: held.cpu, bound_to_its_thread: PhantomData })
    }

    /// Returns the CPU that the thread is pinned to.
    pub(super) const fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for OnItsCpu {
    fn drop(&mut self) {
        // In a thread that is ending, the previous affinity no longer matters.
        let Ok(Some(held)) = HELD.try_with(Cell::get) else { return };
        if held.guards > 1 {
            HELD.set(Some(Held { guards: held.guards - 1, ..held }));
            return;
        }
        HELD.set(None);
        // An error cannot be handled here. The previous affinity is still allowed, unless a CPU went offline.
        let _ = held.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::OnItsCpu;
    use crate::sys::process::{CpuSet, current_cpu};

    fn allowed() -> Vec<usize> {
        CpuSet::of_this_thread().expect("every kernel reports the affinity").cpus().collect()
    }

    #[test]
    fn a_thread_stays_pinned_until_its_last_guard_is_dropped() {
        let before = allowed();
        let first = OnItsCpu::here().expect("this kernel reports the CPU");
        let second = OnItsCpu::here().expect("the same CPU");
        assert_eq!((allowed(), first.cpu()), (vec![second.cpu()], second.cpu()));
        drop(first);
        assert_eq!(allowed(), [second.cpu()]);
        drop(second);
        assert_eq!(allowed(), before);
    }

    /// Simulates a change of the thread's cpuset, or its CPU going offline: the kernel moves the thread without
    /// notifying the guard.
    #[test]
    fn a_thread_that_another_process_moves_is_not_held() {
        let before = allowed();
        let guard = OnItsCpu::here().expect("this kernel reports the CPU");
        let Some(other) = before.into_iter().find(|&cpu| cpu != guard.cpu()) else {
            return skipped!("this thread may run on one CPU only");
        };
        let thread = std::fs::read_link("/proc/thread-self").expect("procfs is mounted");
        let thread = thread.file_name().expect("a number").to_str().expect("a number").to_owned();
        let moved = std::process::Command::new("taskset").args(["-p", "-c", &other.to_string(), &thread]).output();
        if !moved.is_ok_and(|output| output.status.success()) {
            return skipped!("taskset is not installed, or is not permitted to move a thread");
        }
        assert_eq!(current_cpu(), Some(other));
        let again = OnItsCpu::here().map(|guard| guard.cpu()).map_err(|error| error.kind());
        assert_eq!(again, Err(std::io::ErrorKind::ResourceBusy), "facts about one CPU do not hold for the next");
    }
}
