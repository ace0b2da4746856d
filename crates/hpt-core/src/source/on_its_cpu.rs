//! Keeps the calling thread on the CPU it is on: what was found out about one CPU is not true of the next.
//! Chooses no CPU: `realtime` does.

use std::{cell::Cell, io, marker::PhantomData};

use crate::sys::process::{CpuSet, current_cpu};

thread_local! {
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// How many guards of this thread live, where they keep it, and where it was allowed before the first of them.
#[derive(Clone, Copy, Debug)]
struct Held {
    guards: usize,
    cpu: usize,
    before: CpuSet,
}

/// The calling thread stays where it is for as long as this lives; with the last of a thread's guards the CPUs from before are allowed again.
#[derive(Debug)]
pub(super) struct OnItsCpu {
    cpu: usize,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl OnItsCpu {
    /// Keeps the thread on this CPU.
    ///
    /// # Errors
    ///
    /// What the kernel answers; [`io::ErrorKind::Unsupported`] where it does not tell the CPU, and [`io::ErrorKind::ResourceBusy`] where the thread was
    /// moved under a guard that it has already.
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

    /// The CPU.
    pub(super) const fn cpu(&self) -> usize {
        self.cpu
    }
}

impl Drop for OnItsCpu {
    fn drop(&mut self) {
        // In a thread that ends, what it was allowed is of no interest any more.
        let Ok(Some(held)) = HELD.try_with(Cell::get) else { return };
        if held.guards > 1 {
            HELD.set(Some(Held { guards: held.guards - 1, ..held }));
            return;
        }
        HELD.set(None);
        // Nothing can be done about a refusal here: what was allowed before is allowed still, unless a CPU went offline.
        let _ = held.before.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::OnItsCpu;
    use crate::sys::process::{CpuSet, current_cpu};

    fn allowed() -> Vec<usize> {
        CpuSet::of_this_thread().expect("every kernel answers").cpus().collect()
    }

    #[test]
    fn a_thread_stays_until_its_last_guard_is_gone_whichever_that_is() {
        let before = allowed();
        let first = OnItsCpu::here().expect("this kernel tells the CPU");
        let second = OnItsCpu::here().expect("the same CPU");
        assert_eq!((allowed(), first.cpu()), (vec![second.cpu()], second.cpu()));
        drop(first);
        assert_eq!(allowed(), [second.cpu()]);
        drop(second);
        assert_eq!(allowed(), before);
    }

    /// As a change of the thread's cpuset does, or its CPU when it goes offline: the kernel moves the thread, and no guard is told.
    #[test]
    fn a_thread_that_is_moved_from_outside_is_not_held() {
        let before = allowed();
        let guard = OnItsCpu::here().expect("this kernel tells the CPU");
        let Some(other) = before.into_iter().find(|&cpu| cpu != guard.cpu()) else {
            return skipped!("this thread may run on one CPU only");
        };
        let thread = std::fs::read_link("/proc/thread-self").expect("procfs is mounted");
        let thread = thread.file_name().expect("a number").to_str().expect("a number").to_owned();
        let moved = std::process::Command::new("taskset").args(["-p", "-c", &other.to_string(), &thread]).output();
        if !moved.is_ok_and(|output| output.status.success()) {
            return skipped!("taskset is not installed, or may not move a thread");
        }
        assert_eq!(current_cpu(), Some(other));
        let again = OnItsCpu::here().map(|guard| guard.cpu()).map_err(|error| error.kind());
        assert_eq!(
            again,
            Err(std::io::ErrorKind::ResourceBusy),
            "what was found out about one CPU is not true of the next"
        );
    }
}
