//! The kinds of load as options.

use clap::ValueEnum;
use hpt_document::load::LoadKind;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum LoadGenerator {
    /// Computations that never pause
    Cpu,
    /// Writes to memory
    Memory,
    /// Processes that start and end
    Fork,
    /// Writes to a disk
    Disk,
    /// Timers that expire
    Timers,
}

impl LoadGenerator {
    pub(super) const fn field(self) -> LoadKind {
        match self {
            Self::Cpu => LoadKind::Cpu,
            Self::Memory => LoadKind::Memory,
            Self::Fork => LoadKind::Fork,
            Self::Disk => LoadKind::Disk,
            Self::Timers => LoadKind::Timers,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        self.field().name()
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::LoadGenerator;

    #[test]
    fn options_and_documents_use_the_same_words() {
        for &kind in LoadGenerator::value_variants() {
            let value = kind.to_possible_value().expect("no kind is hidden");
            assert_eq!((value.get_name(), LoadGenerator::named(kind.name())), (kind.name(), Some(kind)));
        }
        assert_eq!(LoadGenerator::named("none"), None);
    }
}
