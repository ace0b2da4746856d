//! Judges the output of the kernel module `hpt_cycles` and its readers about the cycle counter of
//! each CPU.

use super::{case::Case, text::in_one_line};

/// The CPU that goes offline, and on which perf counts, as in `scripts/lib/shows.bash`.
pub(super) const CPU: usize = 1;

/// The cycle counter of each CPU of a board.
#[derive(Debug)]
pub(super) struct Counter<'a> {
    case: &'a Case<'a>,
    /// All CPUs, as the kernel lists them.
    pub(super) all: String,
    /// All CPUs except [`CPU`]. A board has two or four CPUs.
    pub(super) others: String,
}

impl<'a> Counter<'a> {
    pub(super) fn new(case: &'a Case<'a>) -> Self {
        let last = case.board.cores.saturating_sub(1);
        let others = if last < 2 { "0".to_owned() } else { format!("0,2-{last}") };
        Self { case, all: format!("0-{last}"), others }
    }

    /// Judges the result of reading the counter on each CPU: `there` on [`CPU`], `word` on all
    /// others.
    pub(super) fn is_read(&self, step: &str, word: &str, there: Option<&str>) {
        if !self.case.ended(step) {
            return;
        }
        let there = there.filter(|there| *there != word);
        let wanted = (0..self.case.board.cores).map(|cpu| {
            let word = if cpu == CPU { there.unwrap_or(word) } else { word };
            format!("CPU {cpu}: {word}")
        });
        let out = self.case.out(step);
        let said = out.lines().map(|line| line.split(',').next().unwrap_or_default());
        if !wanted.eq(said) {
            let there = there.map_or(String::new(), |there| format!(", and {there} on CPU {CPU}"));
            self.case.wrong(format!("{step}: expected {word}{there}: {}", in_one_line(out)));
        }
    }

    /// Judges the state that the module reports, with its lines joined by semicolons.
    pub(super) fn state_is(&self, step: &str, wanted: &str) {
        if !self.case.ended(step) {
            return;
        }
        let lines: Vec<_> = self.case.out(step).lines().filter(|line| !line.starts_with("perf: ")).collect();
        let said = lines.join(";");
        if said != wanted {
            self.case.wrong(format!("{step}: hpt_cycles reports {said}, expected {wanted}"));
        }
    }

    /// Judges whether the module wrote a text to the kernel's log.
    pub(super) fn module_said(&self, text: &str) {
        if self.case.ended("cycles-said") && !self.case.out("cycles-said").contains(&format!("hpt_cycles: {text}")) {
            self.case.wrong(format!("hpt_cycles did not log: {text}"));
        }
    }
}
