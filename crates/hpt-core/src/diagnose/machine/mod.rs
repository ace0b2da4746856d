//! Rules that find what impairs latency and timekeeping on a machine; each turns facts into a verdict. Pure, except for
//! `MachineFacts::of`, which reads files of a host, so a captured machine is examined like a live one.
//!
//! ```
//! use hpt_core::{Host, diagnose::{MachineFacts, Verdict, examine}};
//!
//! let facts = MachineFacts::of(&Host::live());
//! for examined in examine(&facts, None) {
//!     if let Verdict::Problem(finding) = &examined.verdict {
//!         println!("{}: {}", examined.rule.title, finding.observed);
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
    proof::{Gap, Gaps, prove},
    themes::{THEMES, examine},
};
use crate::host::{CpuList, Told};

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// No effect on latency: information, or a missing permission.
    Info,
    /// A delay of less than a millisecond, typically between a few and several hundred microseconds.
    Low,
    /// A delay of a millisecond or more, or wrong time.
    High,
}

impl Severity {
    /// Returns the severity as one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

/// A way to fix a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fix {
    /// The fix, in the imperative.
    pub text: String,
    /// The commands to run, exactly as typed; empty if it takes more than a command.
    pub commands: Vec<String>,
}

/// A problem, or information.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The observation.
    pub observed: String,
    /// How severe it is.
    pub severity: Severity,
    /// Whether it was observed. If not, it is inferred from common defaults, because the evidence is not readable.
    pub certain: bool,
    /// Ways to fix it, the best first.
    pub fixes: Vec<Fix>,
}

impl Finding {
    fn new(severity: Severity, observed: impl Into<String>) -> Self {
        Self { observed: observed.into(), severity, certain: true, fixes: Vec::new() }
    }

    fn uncertain(mut self) -> Self {
        self.certain = false;
        self
    }

    fn fix(mut self, text: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Self {
        self.fixes.push(Fix { text: text.into(), commands: commands.into_iter().collect() });
        self
    }

    fn problem(self) -> Verdict {
        Verdict::Problem(self)
    }
}

/// The verdict of a rule on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a problem, or information.
    Problem(Finding),
    /// No problem was found; holds what was observed.
    Pass(String),
    /// The rule does not apply to this machine; holds the reason.
    NotApplicable(String),
    /// The verdict cannot be determined.
    Unknown {
        /// The reason, with the evidence that was examined.
        why: String,
        /// Whether root could determine it.
        needs_root: bool,
        /// Whether it would be a problem on unusual machines only. In that case the missing result does not make the
        /// overall verdict unknown.
        is_unlikely: bool,
    },
}

impl Verdict {
    fn pass(observed: impl Into<String>) -> Self {
        Self::Pass(observed.into())
    }

    fn not_applicable(why: impl Into<String>) -> Self {
        Self::NotApplicable(why.into())
    }

    /// Creates the verdict for a file that every user may read, but that is missing or has unexpected content.
    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), needs_root: false, is_unlikely: false }
    }

    /// Creates the verdict for a missing file that common machines do not have.
    fn unknown_and_unlikely(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), needs_root: false, is_unlikely: true }
    }

    /// Creates the verdict for a fact that the file `path` does not provide.
    fn without<T>(fact: &Told<T>, path: &str) -> Self {
        match fact {
            Told::NotAllowed => {
                Self::Unknown { why: format!("{path} is not readable"), needs_root: true, is_unlikely: false }
            }
            Told::Absent => Self::unknown(format!("{path} does not exist")),
            Told::Is(_) | Told::Garbled => Self::unknown(format!("{path} has unexpected content")),
        }
    }
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, for scripts and references; it never changes.
    pub id: &'static str,
    /// The problem in a few words, as the heading of a finding.
    pub title: &'static str,
    /// The subject of its check, phrased to follow "Checks".
    pub about: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// The programs or threads that it affects, phrased to follow "Affects:".
    pub affects: &'static str,
    /// Further reading: the kernel's documentation, manual pages.
    pub references: &'static [&'static str],
    judge: fn(&MachineFacts, &Subject) -> Verdict,
}

/// A category of rules.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Theme {
    /// Its heading.
    pub title: &'static str,
    /// Its rules.
    pub rules: &'static [Rule],
}

/// A rule with its verdict on a machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The rule.
    pub rule: &'static Rule,
    /// The heading of its category.
    pub theme: &'static str,
    /// Its verdict.
    pub verdict: Verdict,
}

/// The CPUs that a rule examines.
#[derive(Clone, Debug)]
struct Subject {
    /// The CPU that was named.
    named: Option<usize>,
    /// The CPU that was named, or the isolated CPUs, which are intended for single threads.
    in_question: CpuList,
    /// The CPU that was named, or all online CPUs.
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

    /// Returns the CPUs to which work is moved: those that are not isolated, otherwise any other. `None` if no other
    /// CPU is online or known.
    fn elsewhere(&self, facts: &MachineFacts) -> CpuList {
        let others = facts.cores.online.is().map(|online| online.without(&self.in_question)).unwrap_or_default();
        let isolated = [&facts.cores.isolated, &facts.cores.nohz_full];
        let common = isolated.into_iter().filter_map(Told::is).fold(others.clone(), |left, free| left.without(free));
        if common.is_empty() { others } else { common }
    }

    /// Returns whether it is known that no other CPU is online.
    fn are_all(&self, facts: &MachineFacts) -> bool {
        facts.cores.online.is().is_some_and(|online| online.without(&self.in_question).is_empty())
    }

    /// Returns the CPUs as text.
    fn in_words(cpus: &CpuList) -> String {
        format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
    }
}

/// The reason that rules about a CPU report if there is no CPU to examine.
const NO_CPU: &str = "no CPU is isolated, and none was named";
/// The reason that rules report if work cannot be moved anywhere.
const NO_OTHER: &str = "no other CPU is online that could take over the work";
