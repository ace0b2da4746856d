//! The steal time of the traced CPUs during a run. During steal time, the hypervisor runs other guests.

use std::fs;

use hpt_sys::host::stolen_hundredths;

use super::rules::TICK_NS;

/// The steal time of some CPUs.
#[derive(Debug)]
pub(super) struct Steal {
    cpus: Vec<usize>,
    first: Option<Vec<u64>>,
    last: Option<Vec<u64>>,
    /// By how much the steal time of each CPU rose in the last two intervals, in ticks.
    rose: Vec<[u64; 2]>,
    /// The time that may still be attributed to the hypervisor, in nanoseconds: what was counted, and one tick that is not
    /// counted yet.
    left_ns: Vec<u64>,
}

impl Steal {
    pub(super) fn new(cpus: Vec<usize>) -> Self {
        let first = read(&cpus);
        let left_ns = vec![TICK_NS; cpus.len()];
        Self { rose: vec![[0; 2]; cpus.len()], left_ns, cpus, last: first.clone(), first }
    }

    /// Reads the steal time again.
    pub(super) fn update(&mut self) {
        let now = read(&self.cpus);
        for (index, rose) in self.rose.iter_mut().enumerate() {
            let value = |values: &Option<Vec<u64>>| values.as_ref().map_or(0, |values| values[index]);
            *rose = [rose[1], value(&now).saturating_sub(value(&self.last))];
            let left_ns = &mut self.left_ns[index];
            *left_ns = left_ns.saturating_add(rose[1].saturating_mul(TICK_NS));
            if *rose == [0; 2] {
                // What was counted long ago explains no pause.
                *left_ns = (*left_ns).min(TICK_NS);
            }
        }
        self.last = now;
    }

    /// Returns the time that may be attributed to the hypervisor, in nanoseconds: zero if the steal time of the CPU did not
    /// rise in the last two intervals, and never more than it rose in the run, plus one tick.
    pub(super) fn left_ns(&self, cpu: usize) -> u64 {
        let index = self.cpus.iter().position(|&other| other == cpu);
        index.filter(|&index| self.rose[index] != [0; 2]).map_or(0, |index| self.left_ns[index])
    }

    /// Notes that time of a CPU was attributed to the hypervisor.
    pub(super) fn spend(&mut self, cpu: usize, ns: u64) {
        if let Some(index) = self.cpus.iter().position(|&other| other == cpu) {
            self.left_ns[index] = self.left_ns[index].saturating_sub(ns);
        }
    }

    /// Returns whether the steal time of any of the CPUs rose in the last two intervals.
    pub(super) fn rose_anywhere(&self) -> bool {
        self.rose.iter().flatten().any(|&rose| rose > 0)
    }

    /// Returns whether the kernel has counted any steal time since the system started. A kernel that never has may be
    /// unable to count it.
    pub(super) fn was_ever_counted() -> bool {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        is_counted(&text)
    }

    /// Returns the steal time during the run, in seconds; `None` if the kernel does not report it.
    #[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^53 hundredths of a second")]
    pub(super) fn seconds(&self) -> Option<f64> {
        let sum = |values: &Option<Vec<u64>>| values.as_ref().map(|values| values.iter().sum::<u64>());
        Some(sum(&self.last)?.saturating_sub(sum(&self.first)?) as f64 / 100.0)
    }
}

/// Returns whether the text of /proc/stat contains steal time.
fn is_counted(stat: &str) -> bool {
    stolen_hundredths(stat, None).is_some_and(|stolen| stolen > 0)
}

fn read(cpus: &[usize]) -> Option<Vec<u64>> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    cpus.iter().map(|&cpu| stolen_hundredths(&text, Some(cpu))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Steal, TICK_NS, is_counted};

    #[test]
    fn no_more_is_attributed_to_the_host_than_was_counted_and_one_tick() {
        let mut steal =
            Steal { cpus: vec![3], first: None, last: None, rose: vec![[0, 2]], left_ns: vec![3 * TICK_NS] };
        assert_eq!((steal.left_ns(3), steal.left_ns(2)), (3 * TICK_NS, 0));
        steal.spend(3, 3 * TICK_NS - 5);
        assert_eq!(steal.left_ns(3), 5);
        // CPU 3 may be missing here, so nothing rises any more.
        steal.cpus = vec![usize::MAX];
        steal.update();
        assert_eq!(steal.left_ns(usize::MAX), 5);
        steal.update();
        assert_eq!(steal.left_ns(usize::MAX), 0);
    }

    #[test]
    fn steal_time_is_counted_once_it_has_risen() {
        assert!(is_counted("cpu  1 2 3 4 5 6 7 1 0 0\ncpu0 1 2 3 4 5 6 7 1 0 0\n"));
        assert!(!is_counted("cpu  1 2 3 4 5 6 7 0 9 9\ncpu0 1 2 3 4 5 6 7 0 9 9\n"));
        assert!(!is_counted("cpu  1 2 3 4 5 6 7\n") && !is_counted(""));
    }
}
