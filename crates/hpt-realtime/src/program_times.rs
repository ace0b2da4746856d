//! The times that a program took: elapsed time, CPU time, and the time for which its threads were ready to run but did
//! not run.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use hpt_sys::host::ran_and_waited_ns;

/// The times that a program took. [`Program::wait_timed`](super::Program::wait_timed) returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramTimes {
    /// The elapsed time, from before the program was started until its end was noticed.
    pub real: Duration,
    /// The CPU time in user mode of the program and of those of its descendants that it waited for. The resolution is
    /// a microsecond (getrusage(2)); a kernel without precise accounting divides the CPU time by its timer ticks.
    pub user: Duration,
    /// The CPU time in the kernel, as for `user`.
    pub system: Duration,
    /// The time for which the program's own threads were ready to run but did not run; `None` if the kernel does not
    /// report it.
    pub not_run: Option<ReadyTime>,
}

/// The time for which threads were ready to run but did not run. The kernel keeps no figure of a thread that has ended
/// before the program, so a thread counts until it was last read, at most a tenth of a second before its end. Other
/// processes that the program started do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadyTime {
    /// The time for which the threads were ready but did not run, added up over the threads.
    pub waited: Duration,
    /// The CPU time of the same threads until they were last read. The rest of the CPU time in [`ProgramTimes`] belongs
    /// to threads and processes that do not count in `waited`.
    pub covered: Duration,
}

/// The latest figures of each thread of a program.
#[derive(Debug, Default)]
pub(super) struct ThreadWaits {
    /// By thread ID: the time that the thread ran, and the time that it waited for a CPU, in nanoseconds.
    threads: BTreeMap<u32, (u64, u64)>,
    /// The sums of threads whose ID belongs to another thread now.
    earlier: (u64, u64),
}

impl ThreadWaits {
    /// Reads the figures of the threads that exist.
    ///
    /// # References
    ///
    /// Linux, Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat; proc_pid_task(5).
    pub(super) fn read(&mut self, process: libc::pid_t) {
        let tasks = Path::new("/proc").join(process.to_string()).join("task");
        for entry in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let thread = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let figures = fs::read_to_string(entry.path().join("schedstat")).ok();
            let figures = figures.as_deref().and_then(ran_and_waited_ns);
            if let Some((thread, figures)) = thread.zip(figures) {
                self.note(thread, figures);
            }
        }
    }

    fn note(&mut self, thread: u32, figures: (u64, u64)) {
        if let Some(before) = self.threads.insert(thread, figures).filter(|before| before.0 > figures.0) {
            // The figures of a thread never decrease, so this is another thread with the same ID.
            self.earlier = (self.earlier.0 + before.0, self.earlier.1 + before.1);
        }
    }

    /// Returns the sums over all threads; `None` if the kernel reported none.
    pub(super) fn sum(&self) -> Option<ReadyTime> {
        let sum = |of: fn(&(u64, u64)) -> u64| self.threads.values().map(of).sum::<u64>() + of(&self.earlier);
        let (covered, waited) = (sum(|figures| figures.0), sum(|figures| figures.1));
        (!self.threads.is_empty())
            .then(|| ReadyTime { waited: Duration::from_nanos(waited), covered: Duration::from_nanos(covered) })
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::{ReadyTime, ThreadWaits};

    fn summed(notes: &[(u32, (u64, u64))]) -> Option<ReadyTime> {
        let mut waits = ThreadWaits::default();
        notes.iter().for_each(|&(thread, figures)| waits.note(thread, figures));
        waits.sum()
    }

    #[test]
    fn the_latest_figures_of_every_thread_add_up() {
        let of = |covered, waited| {
            Some(ReadyTime { waited: Duration::from_nanos(waited), covered: Duration::from_nanos(covered) })
        };
        assert_eq!(summed(&[(1, (10, 1)), (2, (5, 2)), (1, (30, 4))]), of(35, 6));
        assert_eq!(summed(&[(1, (10, 7)), (1, (2, 1)), (1, (3, 1))]), of(13, 8), "another thread with the same ID");
        assert_eq!(summed(&[]), None);
    }

    #[test]
    fn the_threads_of_a_live_process_are_read() {
        let process = libc::pid_t::try_from(std::process::id()).expect("process numbers fit");
        let mut waits = ThreadWaits::default();
        thread::scope(|scope| {
            let reader = scope.spawn(|| waits.read(process));
            reader.join().expect("it reads");
        });
        let Some(sum) = waits.sum() else {
            return skipped!("this kernel does not report how long a thread waits for a CPU");
        };
        assert!(sum.covered > Duration::ZERO && waits.threads.len() > 1, "{waits:?}");
        let mut absent = ThreadWaits::default();
        absent.read(-1);
        assert_eq!(absent.sum(), None);
    }
}
