//! Rules that find the causes of high latency and wrong time on a machine. Each rule turns facts into a verdict. The
//! rules are pure functions: only `MachineFacts::new` reads a host's files, so a captured machine is examined in the
//! same way as a live machine.
//!
//! ```
//! use hpt_core::Host;
//! use hpt_instrument::diagnose::{Goal, MachineFacts, Verdict, examine};
//!
//! let facts = MachineFacts::new(&Host::live());
//! for examined in examine(&facts, None, Goal::General) {
//!     if let Verdict::Problem(finding) = &examined.verdict {
//!         println!("{}: {}", examined.rule.title, finding.observed);
//!     }
//! }
//! ```

mod access;
mod board;
mod evidence;
mod facts;
mod goal;
mod interrupts;
mod isolation;
mod limits;
mod memory;
mod parameters;
mod power;
mod proof;
mod realtime;
mod run_time;
mod themes;
mod time;
mod values;
mod virtual_machine;

pub use self::{
    evidence::Evidence,
    facts::MachineFacts,
    goal::{Goal, Relevance, Severity},
    proof::{Gap, Gaps, prove},
    run_time::{RunTimeChange, RunTimeFix, boot_parameter, run_time_fixes},
    themes::{THEMES, examine},
};
use hpt_sys::host::{CpuList, Known};

/// A way to fix a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fix {
    /// The fix, in the imperative.
    pub text: String,
    /// The commands to run, exactly as typed; may be empty. Words in capitals are placeholders.
    pub commands: Vec<String>,
    /// Whether the commands are the whole fix. If not, the text describes further steps, or the commands only print
    /// information.
    pub commands_suffice: bool,
}

/// A problem or a note.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The observation.
    pub observed: String,
    /// The severity of the problem for the goal of the examination.
    pub severity: Severity,
    /// Whether the problem was observed. If not, it is inferred from common defaults, because the evidence cannot be
    /// read.
    pub certain: bool,
    /// Ways to fix the problem, the best way first.
    pub fixes: Vec<Fix>,
    /// The severity for the goal to which the finding matters most.
    highest: Severity,
}

impl Finding {
    fn new(severity: Severity, observed: impl Into<String>) -> Self {
        Self { observed: observed.into(), severity, certain: true, fixes: Vec::new(), highest: severity }
    }

    fn uncertain(mut self) -> Self {
        self.certain = false;
        self
    }

    /// Adds a fix that consists of `commands`. Without commands, the text alone describes the fix.
    fn fix(mut self, text: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Self {
        let commands: Vec<String> = commands.into_iter().collect();
        let commands_suffice = !commands.is_empty();
        self.fixes.push(Fix { text: text.into(), commands, commands_suffice });
        self
    }

    /// Adds a fix that needs more than its commands: the text describes further steps, or the commands only print
    /// information.
    fn steps(mut self, text: impl Into<String>, commands: impl IntoIterator<Item = String>) -> Self {
        self.fixes.push(Fix { text: text.into(), commands: commands.into_iter().collect(), commands_suffice: false });
        self
    }

    fn problem(self) -> Verdict {
        Verdict::Problem(self)
    }
}

/// The verdict of a rule on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is a problem or a note.
    Problem(Finding),
    /// No problem was found. Contains the observation.
    Pass(String),
    /// The rule does not apply to this machine. Contains the reason.
    NotApplicable(String),
    /// The verdict cannot be determined.
    Unknown {
        /// The reason, with the evidence that hpt examined.
        why: String,
        /// Whether root could determine the verdict.
        needs_root: bool,
        /// Whether only unusual machines have the problem. If so, this verdict does not make the overall verdict
        /// unknown.
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

    /// Creates the verdict for a world-readable file that is missing or has unexpected content.
    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), needs_root: false, is_unlikely: false }
    }

    /// Creates the verdict for a missing file that common machines do not have.
    fn unknown_and_unlikely(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into(), needs_root: false, is_unlikely: true }
    }

    /// Creates the verdict for a fact that the file `path` does not provide.
    fn without<T>(fact: &Known<T>, path: &str) -> Self {
        match fact {
            Known::NotAllowed => {
                Self::Unknown { why: format!("{path} is not readable"), needs_root: true, is_unlikely: false }
            }
            Known::Absent => Self::unknown(format!("{path} does not exist")),
            Known::Is(_) | Known::Garbled => Self::unknown(format!("{path} has unexpected content")),
        }
    }
}

/// A rule, which checks a machine for one problem.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The name of the rule, for scripts and references. It never changes.
    pub id: &'static str,
    /// The problem in a few words, used as the heading of a finding.
    pub title: &'static str,
    /// The subject of the check, phrased to follow "Checks".
    pub about: &'static str,
    /// The reason why the problem matters.
    pub why: &'static str,
    /// The programs or threads that the problem affects, phrased to follow "Affects:".
    pub affects: &'static str,
    /// References, such as kernel documentation and manual pages.
    pub references: &'static [&'static str],
    /// The highest severity of a finding, for each goal. A rule whose findings are notes for a goal is not relevant for
    /// that goal.
    pub relevance: Relevance,
    judge: fn(&MachineFacts, &Subject) -> Verdict,
}

/// A category of rules.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Theme {
    /// The heading of the category.
    pub title: &'static str,
    /// The rules in the category.
    pub rules: &'static [Rule],
}

/// A rule with its verdict on a machine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examined {
    /// The rule.
    pub rule: &'static Rule,
    /// The heading of the rule's category.
    pub theme: &'static str,
    /// The verdict of the rule.
    pub verdict: Verdict,
    /// The values that the rule examined.
    pub evidence: Vec<Evidence>,
}

impl Examined {
    /// Returns the goals for which the finding counts as a problem. If the rule has no finding, returns the goals for
    /// which a finding could.
    #[must_use]
    pub fn goals(&self) -> Vec<Goal> {
        let is_always_a_note = matches!(&self.verdict, Verdict::Problem(finding) if finding.highest == Severity::Info);
        if is_always_a_note { Vec::new() } else { self.rule.relevance.goals(Severity::Low).collect() }
    }
}

/// The CPUs that a rule examines.
#[derive(Clone, Debug)]
struct Subject {
    /// The CPU that the caller named.
    named: Option<usize>,
    /// The CPU that the caller named; otherwise the isolated CPUs, each of which is meant for a single thread.
    in_question: CpuList,
    /// The CPU that the caller named; otherwise all online CPUs.
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

    /// Returns the CPUs that can take over work from the CPUs in question: preferably CPUs that are not isolated,
    /// otherwise all other CPUs. The list is empty if no other CPU is known to be online.
    fn elsewhere(&self, facts: &MachineFacts) -> CpuList {
        let others = facts.cores.online.is().map(|online| online.without(&self.in_question)).unwrap_or_default();
        let isolated = [&facts.cores.isolated, &facts.cores.nohz_full];
        let common = isolated.into_iter().filter_map(Known::is).fold(others.clone(), |left, free| left.without(free));
        if common.is_empty() { others } else { common }
    }

    /// Returns whether the CPUs in question are known to be the only online CPUs.
    fn are_all(&self, facts: &MachineFacts) -> bool {
        facts.cores.online.is().is_some_and(|online| online.without(&self.in_question).is_empty())
    }

    /// Describes CPUs as text, for example `CPUs 2-3`.
    fn in_words(cpus: &CpuList) -> String {
        format!("{} {cpus}", if cpus.len() == 1 { "CPU" } else { "CPUs" })
    }
}

/// Returns how often something happened, as text: `once`, or for example `3 times`.
fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// The reason that rules about dedicated CPUs report if there is no CPU to examine.
const NO_CPU: &str = "no CPU is isolated, and none was named";
/// The reason that rules report if no other CPU can take over work.
const NO_OTHER: &str = "no other CPU is online to take over the work";
