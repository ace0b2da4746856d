//! Pins the calling thread to its current CPU, because facts about one CPU do not apply to another. The choice of a CPU
//! is made in `realtime`.

use std::{cell::Cell, io, marker::PhantomData};

use hpt_sys::process::{CpuSet, current_cpu};

thread_local! {
    static HELD: Cell<Option<Held>> = const { Cell::new(None) };
}

/// The number of guards of this thread, the CPU that they pin it to, and the thread's affinity before the first guard;
/// `None` if that affinity was already this CPU alone, so that nothing was set.
#[derive(Clone, Copy, Debug)]
struct Held {
    guards: usize,
    cpu: usize,
    before: Option<CpuSet>,
}

/// A guard that pins the calling thread to its current CPU for as long as the guard exists. When the last guard of a thread is dropped,
/// the previous affinity is restored, unless another program has changed the affinity in the meantime.
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
    /// Returns the kernel's error if a system call fails, [`io::ErrorKind::Unsupported`] if the kernel does not report
    /// the current CPU, or [`io::ErrorKind::ResourceBusy`] if the thread was moved to another CPU despite an existing
    /// guard.
    pub(super) fn here() -> io::Result<Self> {
        let here = current_cpu().ok_or(io::ErrorKind::Unsupported)?;
        let held = match HELD.get() {
            Some(held) if held.cpu != here => return Err(io::ErrorKind::ResourceBusy.into()),
            Some(held) => Held { guards: held.guards + 1, ..held },
            None => {
                let found = CpuSet::of_this_thread()?;
                let before = (!is_only(&found, here)).then_some(found);
                if before.is_some() {
                    CpuSet::only(here).apply()?;
                }
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
        let Some(before) = held.before else { return };
        // Any other affinity was set by another program, for example by taskset, and stays in effect.
        if !CpuSet::of_this_thread().is_ok_and(|now| is_only(&now, held.cpu)) {
            return;
        }
        // An error cannot be handled here. The kernel still allows the previous affinity, unless a CPU has gone
        // offline.
        let _ = before.apply();
    }
}

/// Returns whether `set` contains `cpu` and no other CPU.
fn is_only(set: &CpuSet, cpu: usize) -> bool {
    set.cpus().eq([cpu])
}

#[cfg(test)]
mod tests {
    use super::OnItsCpu;
    use hpt_sys::process::{CpuSet, current_cpu};

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

    #[test]
    fn an_affinity_that_changed_while_the_thread_was_pinned_stays_in_effect() {
        // In a thread that ends with the affinity that it is given here. A change made by the thread itself looks like
        // one made by another program.
        let changed = std::thread::spawn(|| {
            let whole = CpuSet::of_this_thread().expect("every kernel reports the affinity");
            let guard = OnItsCpu::here().expect("this kernel reports the CPU");
            let cpu = guard.cpu();
            let Some(other) = whole.cpus().find(|&other| other != cpu) else {
                return skipped!("this thread may run on one CPU only");
            };
            CpuSet::only(other).apply().expect("this thread may run there");
            drop(guard);
            assert_eq!(allowed(), [other], "restored over the change");
            // This thread is already pinned, so that the guard has nothing to restore.
            let guard = OnItsCpu::here().expect("this kernel reports the CPU");
            whole.apply().expect("as before");
            drop(guard);
            assert_eq!(allowed(), whole.cpus().collect::<Vec<_>>(), "pinned again by a guard that set nothing");
        });
        changed.join().expect("the thread checks its own affinity");
    }

    /// Simulates a change of the thread's cpuset, or its CPU going offline: the kernel moves the thread without
    /// notifying the guard.
    #[test]
    fn a_thread_that_another_process_moves_is_not_held() {
        let before = CpuSet::of_this_thread().expect("every kernel reports the affinity");
        let guard = OnItsCpu::here().expect("this kernel reports the CPU");
        let Some(other) = before.cpus().find(|&cpu| cpu != guard.cpu()) else {
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
        drop(guard);
        // The guard leaves the change in effect, and the next test may run in this thread.
        before.apply().expect("as before");
    }
}
