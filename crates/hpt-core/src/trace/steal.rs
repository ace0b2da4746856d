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

    /// Returns the steal time during the run, in seconds; `None` if the kernel does not report it.
    #[expect(clippy::cast_precision_loss, reason = "a run lasts less than 2^53 hundredths of a second")]
    pub(super) fn seconds(&self) -> Option<f64> {
        let sum = |values: &Option<Vec<u64>>| values.as_ref().map(|values| values.iter().sum::<u64>());
        Some(sum(&self.last)?.saturating_sub(sum(&self.first)?) as f64 / 100.0)
    }
}

fn read(cpus: &[usize]) -> Option<Vec<u64>> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    cpus.iter().map(|&cpu| stolen_hundredths(&text, Some(cpu))).collect()
}
