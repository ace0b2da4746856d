//! What a machine is used for, and how severe the findings of a rule are for that use.

pub use hpt_document::doctor::{Goal, Severity};

/// The highest severity that the findings of a rule can have, for each goal. With `Severity::Info`, they are notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relevance {
    general: Severity,
    timekeeping: Severity,
    realtime: Severity,
    benchmarks: Severity,
}

impl Relevance {
    /// The relevance of a rule whose findings are always notes.
    pub(super) const NOTE: Self = Self::all(Severity::Info);

    /// Creates the relevance of a rule that matters equally for all goals.
    pub(super) const fn all(severity: Severity) -> Self {
        Self { general: severity, timekeeping: severity, realtime: severity, benchmarks: severity }
    }

    /// Returns the same relevance with this severity for timekeeping.
    pub(super) const fn timekeeping(self, severity: Severity) -> Self {
        Self { timekeeping: severity, ..self }
    }

    /// Returns the same relevance with this severity for real-time threads.
    pub(super) const fn realtime(self, severity: Severity) -> Self {
        Self { realtime: severity, ..self }
    }

    /// Returns the same relevance with this severity for benchmarks.
    pub(super) const fn benchmarks(self, severity: Severity) -> Self {
        Self { benchmarks: severity, ..self }
    }

    /// Returns the highest severity of a finding for `goal`.
    #[must_use]
    pub const fn severity(&self, goal: Goal) -> Severity {
        match goal {
            Goal::General => self.general,
            Goal::Timekeeping => self.timekeeping,
            Goal::Realtime => self.realtime,
            Goal::Benchmarks => self.benchmarks,
        }
    }

    /// Returns the goals for which a finding can be a problem of this severity or a higher one.
    pub fn goals(&self, severity: Severity) -> impl Iterator<Item = Goal> {
        Goal::ALL.into_iter().filter(move |&goal| self.severity(goal) >= severity)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Goal, Relevance,
        Severity::{High, Info, Low},
    };

    #[test]
    fn a_relevance_has_a_severity_for_each_goal() {
        let only = Relevance::NOTE.realtime(High).benchmarks(Low);
        assert_eq!(Goal::ALL.map(|goal| only.severity(goal)), [Info, Info, High, Low]);
        assert!(only.goals(Low).eq([Goal::Realtime, Goal::Benchmarks]) && only.goals(High).eq([Goal::Realtime]));
        let others = Relevance::all(Low).timekeeping(Info);
        assert!(others.goals(Low).eq([Goal::General, Goal::Realtime, Goal::Benchmarks]));
    }
}
