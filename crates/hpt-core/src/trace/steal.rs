//! The steal time of the traced CPUs during a run. During steal time, the hypervisor runs other guests. Interprets
//! nothing.

use std::fs;

use crate::host::stolen_hundredths;

/// The steal time of some CPUs.
#[derive(Debug)]
pub(super) struct Steal {
    cpus: Vec<usize>,
    first: Option<Vec<u64>>,
    last: Option<Vec<u64>>,
    /// Whether the steal time of each CPU rose in the last two intervals.
    rose: Vec<[bool; 2]>,
}

impl Steal {
    pub(super) fn new(cpus: Vec<usize>) -> Self {
        let first = read(&cpus);
        Self { rose: vec![[false; 2]; cpus.len()], cpus, last: first.clone(), first }
    }

    /// Reads the steal time again.
    pub(super) fn update(&mut self) {
        let now = read(&self.cpus);
        for (index, rose) in self.rose.iter_mut().enumerate() {
            let value = |values: &Option<Vec<u64>>| values.as_ref().map(|values| values[index]);
            *rose = [rose[1], value(&now) > value(&self.last)];
        }
        self.last = now;
    }

    /// Returns whether the steal time of a CPU rose in the last two intervals.
    pub(super) fn rose(&self, cpu: usize) -> bool {
        self.cpus.iter().position(|&other| other == cpu).is_some_and(|index| self.rose[index].contains(&true))
    }

    /// Returns whether the steal time of any of the CPUs rose in the last two intervals.
    pub(super) fn rose_anywhere(&self) -> bool {
        self.rose.iter().flatten().any(|&rose| rose)
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
    use super::is_counted;

    #[test]
    fn steal_time_is_counted_once_it_has_risen() {
        assert!(is_counted("cpu  1 2 3 4 5 6 7 1 0 0\ncpu0 1 2 3 4 5 6 7 1 0 0\n"));
        assert!(!is_counted("cpu  1 2 3 4 5 6 7 0 9 9\ncpu0 1 2 3 4 5 6 7 0 9 9\n"));
        assert!(!is_counted("cpu  1 2 3 4 5 6 7\n") && !is_counted(""));
    }
}
