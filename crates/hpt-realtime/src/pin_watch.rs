//! A watch that checks whether a pinned thread still runs on its CPU, and that pins the thread again when the CPU comes
//! back online. This module reads no clock; the caller passes the time.

use std::{io, marker::PhantomData, time::Duration};

use hpt_sys::{
    host::Host,
    process::{CpuSet, current_cpu},
};

/// The time between two checks of the affinity. A check needs a system call; while the thread is on another CPU, the
/// check also reads a file. After its CPU has come back online, the thread stays unpinned for at most this long.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The maximum number of absences that are recorded. Further absences are merged into the last absence, to limit memory
/// use if a CPU keeps going offline and coming back for days.
const MOST_ABSENCES: usize = 64;

/// A period in which a pinned thread did not run on its CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Absence {
    /// The start of the absence, on the caller's clock: the time of the first sample on another CPU, or the start of
    /// the first stretch during which the thread left its CPU.
    pub from: Duration,
    /// The time at which the thread was found on its CPU again, or was pinned again; `None` if it is still elsewhere.
    pub to: Option<Duration>,
    /// Whether the CPU was found offline. If not, another process had changed the affinity, or the CPU had come back
    /// online before the check.
    pub offline: bool,
    /// The CPUs that the thread ran on instead, in ascending order.
    pub ran_on: Vec<usize>,
    /// The number of samples taken during the absence.
    pub samples: u64,
}

/// A watch that tracks whether a pinned thread runs on its CPU. Call its methods on that thread.
///
/// When a CPU is taken offline, the kernel moves its threads to other CPUs and discards their affinity. When the CPU
/// comes back online, the kernel does not restore the affinity. This type detects such a move, counts the samples taken
/// on other CPUs, and pins the thread again as soon as its CPU is available. If another process has moved the thread to
/// other CPUs, for example with `taskset`, the thread stays there until that process adds the original CPU to the
/// affinity again.
///
/// # Examples
///
/// ```
/// use hpt_core::{Host, Instant};
/// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
///
/// let host = Host::live();
/// let pinned = Pinned::new(allowed_cpus()[0])?;
/// let (begun, mut watch) = (Instant::now(), PinWatch::new(pinned.cpu(), &host));
/// for _ in 0..10 {
///     // The measurement goes here.
///     if !watch.is_there(begun.elapsed()) {
///         println!("this sample was taken on another CPU");
///     }
/// }
/// assert!(watch.absences().iter().all(|absence| absence.samples > 0));
/// # Ok::<(), hpt_realtime::PinError>(())
/// ```
#[derive(Debug)]
pub struct PinWatch<'a> {
    follower: Follower<Live<'a>>,
    bound_to_its_thread: PhantomData<*const ()>,
}

impl<'a> PinWatch<'a> {
    /// Creates a watch for the calling thread, which is pinned to `cpu`. `host` lists the online CPUs.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
    ///
    /// let host = Host::live();
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// let watch = PinWatch::new(pinned.cpu(), &host);
    /// assert!(watch.absences().is_empty());
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    #[must_use]
    pub const fn new(cpu: usize, host: &'a Host) -> Self {
        Self { follower: Follower::of(cpu, Live { host }), bound_to_its_thread: PhantomData }
    }

    /// Returns whether the latest sample, which ended at the time `at`, was taken on the thread's CPU. If not, counts
    /// the sample as taken on another CPU.
    ///
    /// Call this after the reading that ends a sample, so that the cost of the check is not part of any value. The
    /// check queries the current CPU, which takes a few nanoseconds: the C library reads it from memory that the kernel
    /// keeps up to date (rseq), or through the vDSO. Checking the affinity for every sample would need a system call
    /// each time, so the affinity is checked only ten times per second. That check is needed because a thread that lost
    /// its CPU for a short time may return to it by chance and leave it again later.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Instant};
    /// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
    ///
    /// let host = Host::live();
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// let (begun, mut watch) = (Instant::now(), PinWatch::new(pinned.cpu(), &host));
    /// let start = Instant::now();
    /// // The measured work.
    /// let took = start.elapsed();
    /// if watch.is_there(begun.elapsed()) {
    ///     println!("{took:?} on CPU {}", watch.cpu());
    /// }
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    pub fn is_there(&mut self, at: Duration) -> bool {
        self.follower.is_there(at)
    }

    /// Returns whether the thread has run on its CPU without interruption since it was pinned or since the last call.
    /// If not, counts one sample as taken on another CPU.
    ///
    /// The kernel does not restore an affinity that it has revoked, so one check at the end of a stretch covers the
    /// whole stretch. The check needs a system call.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Instant};
    /// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
    ///
    /// let host = Host::live();
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// let (begun, mut watch) = (Instant::now(), PinWatch::new(pinned.cpu(), &host));
    /// for _ in 0..1_000 {
    ///     // The measured work.
    /// }
    /// if !watch.stayed(begun.elapsed()) {
    ///     println!("the thread was on another CPU in the meantime");
    /// }
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    pub fn stayed(&mut self, at: Duration) -> bool {
        self.follower.stayed(at)
    }

    /// Returns the CPU that the thread was pinned to.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
    ///
    /// let host = Host::live();
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// assert_eq!(PinWatch::new(pinned.cpu(), &host).cpu(), pinned.cpu());
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    #[must_use]
    pub const fn cpu(&self) -> usize {
        self.follower.cpu
    }

    /// Returns the periods in which the thread was not on its CPU, in chronological order. There are at most 64.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::{Host, Instant};
    /// use hpt_realtime::{PinWatch, Pinned, allowed_cpus};
    ///
    /// let host = Host::live();
    /// let pinned = Pinned::new(allowed_cpus()[0])?;
    /// let (begun, mut watch) = (Instant::now(), PinWatch::new(pinned.cpu(), &host));
    /// watch.stayed(begun.elapsed());
    /// for absence in watch.absences() {
    ///     println!("from {:?} to {:?} on the CPUs {:?}", absence.from, absence.to, absence.ran_on);
    /// }
    /// # Ok::<(), hpt_realtime::PinError>(())
    /// ```
    #[must_use]
    pub fn absences(&self) -> &[Absence] {
        &self.follower.absences
    }
}

/// The kernel operations that a watch uses.
trait Kernel {
    /// Returns the CPU that the thread runs on now.
    fn current_cpu(&self) -> Option<usize>;
    /// Returns the online CPUs that the thread may run on.
    fn allowed(&self) -> io::Result<Vec<usize>>;
    fn is_offline(&self, cpu: usize) -> bool;
    /// Pins the thread, and returns whether that succeeded.
    fn pin(&self, cpu: usize) -> bool;
}

#[derive(Debug)]
struct Live<'a> {
    host: &'a Host,
}

impl Kernel for Live<'_> {
    fn current_cpu(&self) -> Option<usize> {
        current_cpu()
    }

    fn allowed(&self) -> io::Result<Vec<usize>> {
        CpuSet::of_this_thread().map(|set| set.cpus().collect())
    }

    fn is_offline(&self, cpu: usize) -> bool {
        self.host.online_cpus().is_some_and(|online| !online.contains(cpu))
    }

    fn pin(&self, cpu: usize) -> bool {
        CpuSet::only(cpu).apply().is_ok()
    }
}

#[derive(Debug)]
struct Follower<K> {
    cpu: usize,
    kernel: K,
    next_look: Duration,
    /// The end of the last stretch.
    stayed_until: Duration,
    absences: Vec<Absence>,
}

impl<K: Kernel> Follower<K> {
    const fn of(cpu: usize, kernel: K) -> Self {
        Self { cpu, kernel, next_look: Duration::ZERO, stayed_until: Duration::ZERO, absences: Vec::new() }
    }

    fn is_there(&mut self, at: Duration) -> bool {
        // If the kernel does not report the current CPU, the check relies on the affinity alone.
        let on = self.kernel.current_cpu();
        let is_there = on.is_none_or(|cpu| cpu == self.cpu);
        if at < self.next_look {
            match self.open() {
                None if is_there => return true,
                Some(absence) if !is_there => {
                    absence.count(on);
                    return false;
                }
                _ => {}
            }
        }
        let allowed = self.allowed();
        self.look((at, at), on, &allowed, is_there)
    }

    fn stayed(&mut self, at: Duration) -> bool {
        let on = self.kernel.current_cpu();
        let is_there = on.is_none_or(|cpu| cpu == self.cpu);
        let allowed = self.allowed();
        let since = std::mem::replace(&mut self.stayed_until, at);
        self.look((since, at), on, &allowed, is_there && allowed == [self.cpu])
    }

    /// Returns the online CPUs that the thread may run on; only its own CPU if the kernel does not list the CPUs.
    fn allowed(&self) -> Vec<usize> {
        self.kernel.allowed().unwrap_or_else(|_| vec![self.cpu])
    }

    /// Pins the thread again if possible, and records a sample. `there` is true if the sample was taken on the thread's
    /// CPU. Otherwise, the absence began at `since`.
    fn look(&mut self, (since, at): (Duration, Duration), on: Option<usize>, allowed: &[usize], there: bool) -> bool {
        self.next_look = at.saturating_add(LOOK_EVERY);
        let may_be_there = allowed.contains(&self.cpu);
        let offline = !there && !may_be_there && self.kernel.is_offline(self.cpu);
        // If another process has restricted the thread to other CPUs, the thread is not pinned again, because the
        // restriction is intentional.
        let is_pinned = may_be_there && (allowed.len() == 1 || self.kernel.pin(self.cpu));
        if !there {
            let absence = self.open_or_begin(since);
            absence.count(on);
            absence.offline |= offline;
        }
        if there || is_pinned {
            if let Some(absence) = self.open() {
                absence.to = Some(at);
            }
        }
        there
    }

    fn open(&mut self) -> Option<&mut Absence> {
        self.absences.last_mut().filter(|absence| absence.to.is_none())
    }

    fn open_or_begin(&mut self, from: Duration) -> &mut Absence {
        let is_full = self.absences.len() >= MOST_ABSENCES;
        if self.open().is_none() && !is_full {
            self.absences.push(Absence { from, to: None, offline: false, ran_on: Vec::new(), samples: 0 });
        }
        let absence = self.absences.last_mut().expect("an absence was recorded");
        absence.to = None;
        absence
    }
}

impl Absence {
    fn count(&mut self, on: Option<usize>) {
        self.samples += 1;
        let Some(cpu) = on else { return };
        if let Err(place) = self.ran_on.binary_search(&cpu) {
            self.ran_on.insert(place, cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        io,
        time::Duration,
    };

    use super::{Absence, Follower, Kernel, MOST_ABSENCES, PinWatch};
    use crate::{Pinned, allowed_cpus};
    use hpt_sys::host::Host;

    /// Four CPUs, some of them online, and a thread as the kernel treats it.
    struct Machine {
        online: RefCell<Vec<usize>>,
        affinity: RefCell<Vec<usize>>,
        on: Cell<usize>,
        looks: Cell<u32>,
        pins: Cell<u32>,
    }

    impl Machine {
        fn pinned_to(cpu: usize) -> Self {
            Self {
                online: RefCell::new(vec![0, 1, 2, 3]),
                affinity: RefCell::new(vec![cpu]),
                on: Cell::new(cpu),
                looks: Cell::new(0),
                pins: Cell::new(0),
            }
        }

        /// Takes a CPU offline. The kernel lets a thread whose only CPU is gone run anywhere, even after the CPU has
        /// come back.
        fn take_offline(&self, cpu: usize) {
            self.online.borrow_mut().retain(|&other| other != cpu);
            if *self.affinity.borrow() == [cpu] {
                *self.affinity.borrow_mut() = vec![0, 1, 2, 3];
            }
            if self.on.get() == cpu {
                self.on.set(self.online.borrow()[0]);
            }
        }

        fn bring_online(&self, cpu: usize) {
            self.online.borrow_mut().push(cpu);
            self.online.borrow_mut().sort_unstable();
        }

        fn set_affinity(&self, cpus: &[usize]) {
            *self.affinity.borrow_mut() = cpus.to_vec();
            if !cpus.contains(&self.on.get()) {
                self.on.set(cpus[0]);
            }
        }
    }

    impl Kernel for &Machine {
        fn current_cpu(&self) -> Option<usize> {
            Some(self.on.get())
        }

        fn allowed(&self) -> io::Result<Vec<usize>> {
            self.looks.set(self.looks.get() + 1);
            let online = self.online.borrow();
            Ok(self.affinity.borrow().iter().copied().filter(|cpu| online.contains(cpu)).collect())
        }

        fn is_offline(&self, cpu: usize) -> bool {
            !self.online.borrow().contains(&cpu)
        }

        fn pin(&self, cpu: usize) -> bool {
            self.pins.set(self.pins.get() + 1);
            let is_online = self.online.borrow().contains(&cpu);
            if is_online {
                self.set_affinity(&[cpu]);
            }
            is_online
        }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_thread_on_its_cpu_is_present_and_rarely_checked() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        assert!((0..1_000).all(|at| follower.is_there(ms(at))));
        assert_eq!((follower.absences.len(), machine.looks.get(), machine.pins.get()), (0, 10, 0));
    }

    #[test]
    fn samples_of_a_cpu_that_is_offline_are_counted_and_the_pin_returns_with_it() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        let mut there = |from: u64, to: u64| (from..to).filter(|&at| follower.is_there(ms(at))).count();
        assert_eq!(there(0, 1_000), 1_000);
        machine.take_offline(3);
        assert_eq!(there(1_000, 2_500), 0);
        machine.on.set(1);
        assert_eq!(there(2_500, 3_000), 0);
        machine.bring_online(3);
        let away = 1_000 - there(3_000, 4_000);
        assert!((1..=100).contains(&away), "{away}");
        assert_eq!(machine.pins.get(), 1);
        let expected = Absence {
            from: ms(1_000),
            to: Some(ms(2_999 + away as u64)),
            offline: true,
            ran_on: vec![0, 1],
            samples: 2_000 + away as u64,
        };
        assert_eq!(follower.absences, [expected]);
    }

    #[test]
    fn a_thread_that_another_process_moved_stays_there_until_it_is_allowed_back() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        assert!(follower.is_there(ms(0)));
        machine.set_affinity(&[1]);
        assert!((1..500).all(|at| !follower.is_there(ms(at))));
        assert_eq!(machine.pins.get(), 0);
        machine.set_affinity(&[3]);
        assert!((500..600).all(|at| follower.is_there(ms(at))));
        let expected = Absence { from: ms(1), to: Some(ms(500)), offline: false, ran_on: vec![1], samples: 499 };
        assert_eq!(follower.absences, [expected]);
    }

    #[test]
    fn a_pin_that_was_lost_unnoticed_is_restored_and_no_sample_is_attributed_to_another_cpu() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        assert!(follower.is_there(ms(0)));
        // The CPU goes offline and comes back between two samples, and the thread happens to run on it.
        machine.set_affinity(&[0, 1, 2, 3]);
        assert!((1..300).all(|at| follower.is_there(ms(at))));
        assert_eq!((machine.pins.get(), follower.absences.len()), (1, 0));
        assert_eq!(*machine.affinity.borrow(), [3]);
    }

    #[test]
    fn an_unpinned_interval_is_not_attributed_to_the_cpu_even_if_it_ends_there() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        assert!(follower.stayed(ms(20)));
        machine.set_affinity(&[0, 1, 2, 3]);
        assert!(!follower.stayed(ms(40)) && follower.stayed(ms(60)));
        let expected = Absence { from: ms(20), to: Some(ms(40)), offline: false, ran_on: vec![3], samples: 1 };
        assert_eq!(follower.absences, [expected]);
    }

    #[test]
    fn frequent_absences_of_a_cpu_use_bounded_memory() {
        let machine = Machine::pinned_to(3);
        let mut follower = Follower::of(3, &machine);
        for round in 0..1_000_u64 {
            machine.take_offline(3);
            assert!(!follower.stayed(ms(2 * round)));
            machine.bring_online(3);
            follower.stayed(ms(2 * round + 1));
        }
        assert_eq!(follower.absences.len(), MOST_ABSENCES);
        assert_eq!(follower.absences.iter().map(|absence| absence.samples).sum::<u64>(), 2_000);
    }

    #[test]
    fn a_pinned_thread_stays_on_its_cpu() {
        let host = Host::live();
        let Some(&cpu) = allowed_cpus().last() else {
            return skipped!("the kernel does not list the online CPUs");
        };
        let _pinned = Pinned::new(cpu).expect("allowed");
        let mut watch = PinWatch::new(cpu, &host);
        assert!((0..200).all(|at| watch.is_there(ms(at))) && watch.stayed(ms(200)), "{:?}", watch.absences());
    }
}
