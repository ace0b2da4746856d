//! What of a machine is in the way of low latency and good time: rules, each from facts to a verdict.
//! Pure, apart from `MachineFacts::of`, which reads files of a host: a captured machine is judged like a live one.
//!
//! ```
//! use hpt_core::{Host, diagnose::{MachineFacts, Verdict, examine}};
//!
//! let facts = MachineFacts::of(&Host::live());
//! for examined in examine(&facts, None) {
//!     if let Verdict::Found(finding) = &examined.verdict {
//!         println!("{}: {}", examined.rule.id, finding.seen);
//!     }
//! }
//! ```

mod access;
mod board;
mod facts;
mod interrupts;
mod isolation;
mod limits;
mod memory;
mod parameters;
mod power;
mod proof;
mod realtime;
mod themes;
mod time;
mod virtual_machine;

pub use self::{
    facts::MachineFacts,
    proof::{Hole, Holes, prove},
    themes::{THEMES, examine},
};
use crate::host::{CpuList, Told};

/// How much it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No latency: something to know of, or a right that is missing.
    ToKnow,
    /// Less than a millisecond: a wake-up later by some or some hundred microseconds.
    Minor,
    /// A millisecond or more, or wrong time.
    Major,
}

impl Severity {
    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ToKnow => "to-know",
            Self::Minor => "minor",
            Self::Major => "major",
        }
    }
}

/// What helps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// In words.
    pub text: String,
    /// The commands that do it, as they would be typed; none where it takes more than a command.
    pub commands: Vec<String>,
}

/// Something that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What was seen.
    pub seen: String,
    /// How much it costs.
    pub severity: Severity,
    /// Whether it was seen; else it follows from what is usual, and what would show it may not be read.
    pub certain: bool,
    /// What helps, the best first.
    pub remedies: Vec<Remedy>,
}

impl Finding {
    fn new(severity: Severity, seen: impl Into<String>) -> Self {
        Self { seen: seen.into(), severity, certain: true, remedies: Vec::new() }
    }

    fn uncertain(mut self) -> Self {
        self.certain = false;
        self
    }

    fn helped(mut self, text: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Self {
        self.remedies.push(Remedy { text: text.into(), commands: commands.into_iter().collect() });
        self
    }

    fn found(self) -> Verdict {
        Verdict::Found(self)
    }
}

/// What a rule says of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Something is in the way, or to be known.
    Found(Finding),
    /// It was looked at, and is as it should be: what was seen.
    Fine(String),
    /// There is nothing of the kind here: why.
    NotHere(String),
    /// It cannot be told.
    Untold {
        /// What was asked, and why there is no answer.
        why: String,
        /// Whether root would be told.
        root_is_told: bool,
        /// Whether something would be in the way on unusual machines only: not to know it is no reason to know nothing.
        is_unlikely: bool,
    },
}

impl Verdict {
    fn fine(seen: impl Into<String>) -> Self {
        Self::Fine(seen.into())
    }

    fn not_here(why: impl Into<String>) -> Self {
        Self::NotHere(why.into())
    }

    /// A file that every user may read was not there, or did not say what it should.
    fn untold(why: impl Into<String>) -> Self {
        Self::Untold { why: why.into(), root_is_told: false, is_unlikely: false }
    }

    /// The same of what usual machines do not have.
    fn untold_and_unlikely(why: impl Into<String>) -> Self {
        Self::Untold { why: why.into(), root_is_told: false, is_unlikely: true }
    }

    /// Why a fact is missing whose file is `path`.
    fn without<T>(told: &Told<T>, path: &str) -> Self {
        match told {
            Told::NotAllowed => {
                Self::Untold { why: format!("{path} may not be read"), root_is_told: true, is_unlikely: false }
            }
            Told::Absent => Self::untold(format!("there is no {path}")),
            Told::Is(_) | Told::Garbled => Self::untold(format!("{path} says nothing that is understood")),
        }
    }
}

/// One thing that is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, for scripts and references; never changed.
    pub id: &'static str,
    /// What is looked at.
    pub about: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// Whom it bites.
    pub bites: &'static str,
    /// Where to read on: the kernel's documentation, manual pages.
    pub references: &'static [&'static str],
    judge: fn(&MachineFacts, &Subject) -> Verdict,
}

/// A part of the rules.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Theme {
    /// Its heading.
    pub title: &'static str,
    /// What it has.
    pub rules: &'static [Rule],
}

/// A rule and what it says of a machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examined {
    /// Which rule.
    pub rule: &'static Rule,
    /// The heading it belongs to.
    pub theme: &'static str,
    /// What it says.
    pub verdict: Verdict,
}

/// The CPUs that a rule is asked about.
#[derive(Clone, Debug)]
struct Subject {
    /// The one that was named.
    named: Option<usize>,
    /// The one that was named, or those that are isolated: somebody wants to have them for himself.
    in_question: CpuList,
    /// The one that was named, or all that run.
    all: CpuList,
}

impl Subject {
    fn of(facts: &MachineFacts, cpu: Option<usize>) -> Self {
        let online = facts.cores.online.is().cloned().unwrap_or_default();
        let isolated = facts.cores.isolated.is().map(|isolated| isolated.and(&online)).unwrap_or_default();
        match cpu {
            Some(cpu) => Self { named: Some(cpu), in_question: CpuList::only(cpu), all: CpuList::only(cpu) },
            None => Self { named: None, in_question: isolated, all: online },
        }
    }

    /// Where what is moved away from those in question goes: to CPUs that nobody keeps free, else to any other. None where no other runs, or none is known.
    fn elsewhere(&self, facts: &MachineFacts) -> CpuList {
        let others = facts.cores.online.is().map(|online| online.without(&self.in_question)).unwrap_or_default();
        let kept_free = [&facts.cores.isolated, &facts.cores.nohz_full];
        let common = kept_free.into_iter().filter_map(Told::is).fold(others.clone(), |left, free| left.without(free));
        if common.is_empty() { others } else { common }
    }

    /// Whether it is known that no other CPU runs than those in question.
    fn are_all(&self, facts: &MachineFacts) -> bool {
        facts.cores.online.is().is_some_and(|online| online.without(&self.in_question).is_empty())
    }

    /// The CPUs in words.
    fn in_words(cpus: &CpuList) -> String {
        format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
    }
}

/// What rules say that need a CPU, where none is in question.
const NO_CPU: &str = "no CPU is isolated, and none was named";
/// What they say where nothing can be moved anywhere.
const NO_OTHER: &str = "no other CPU runs that it could be left to";
