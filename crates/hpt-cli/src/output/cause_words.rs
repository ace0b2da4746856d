//! The causes of late samples as text, for tables and charts.

use hpt_document::explain::{CauseKind, Doubt, ExplainedCause, ExplainedPart, Explanation};

/// The start of the names of the processes of the built-in loads.
pub(crate) const LOAD: &str = "hpt-load-";

/// Returns the kind of load that a thread generates, from the name of the thread.
pub(crate) fn load_of(name: &str) -> Option<&str> {
    name.strip_prefix(LOAD)
}

/// The words for causes and parts of one run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CauseWords<'a> {
    /// The threads of hpt itself.
    own_threads: &'a [u32],
}

impl<'a> CauseWords<'a> {
    pub(crate) fn of(explanation: &'a Explanation) -> Self {
        Self { own_threads: explanation.explain.as_ref().map_or(&[], |recording| &recording.own_threads) }
    }

    /// Returns a cause in a few words.
    pub(crate) fn of_cause(self, cause: &ExplainedCause) -> String {
        let thread = self.thread(cause.pid, cause.priority, cause.boosted, cause.policy.as_deref());
        let thread = NamedThread { inherits_from: cause.inherits_from.as_deref(), ..thread };
        let what = words(cause.kind, cause.name.as_deref(), thread, cause.irq, cause.idle_state);
        let what = in_function(what, cause.function.as_deref());
        cause.doubt.map_or(what, |doubt| format!("unexplained: {}", doubt_words(doubt)))
    }

    /// Returns a part of a latency in a few words.
    pub(crate) fn of_part(self, part: &ExplainedPart) -> String {
        let times = if part.count > 1 { format!(" {}×", part.count) } else { String::new() };
        let thread = self.thread(part.pid, part.priority, part.boosted, part.policy.as_deref());
        let thread = NamedThread { inherits_from: part.inherits_from.as_deref(), ..thread };
        let after = part.after.as_deref().map_or_else(String::new, |after| format!(" after {after}"));
        let what = words(part.kind, part.name.as_deref(), thread, part.irq, part.idle_state);
        in_function(what, part.function.as_deref()) + &after + &times
    }

    /// Returns a part in so few words that they fit into one line of a chart on a phone.
    pub(crate) fn in_one_line(self, part: &ExplainedPart) -> String {
        match (part.kind, part.name.as_deref()) {
            (CauseKind::InterruptsOffOrHost, Some(name)) => format!("interrupts off or host ({name} ran)"),
            (CauseKind::InterruptsOffOrHost, None) => "interrupts off or host".to_owned(),
            (CauseKind::InterruptsOff, Some(name)) => format!("interrupts off ({name} ran)"),
            (CauseKind::NotPreemptible, Some(name)) => format!("not preemptible ({name} ran)"),
            _ => self.of_part(&ExplainedPart { priority: None, policy: None, after: None, count: 1, ..part.clone() }),
        }
    }

    fn thread(
        self,
        pid: Option<u32>,
        priority: Option<u8>,
        is_boosted: bool,
        policy: Option<&str>,
    ) -> NamedThread<'static> {
        let is_deadline = policy == Some("deadline");
        NamedThread {
            pid,
            priority,
            is_boosted,
            inherits_from: None,
            is_deadline,
            is_own: pid.is_some_and(|pid| self.own_threads.contains(&pid)),
        }
    }
}

/// The facts about a thread that the words state in addition to its name.
#[derive(Clone, Copy, Debug)]
struct NamedThread<'a> {
    pid: Option<u32>,
    priority: Option<u8>,
    is_boosted: bool,
    inherits_from: Option<&'a str>,
    is_deadline: bool,
    is_own: bool,
}

impl NamedThread<'_> {
    /// Returns its number and its precedence in parentheses.
    fn details(self) -> String {
        let Some(pid) = self.pid else { return String::new() };
        if let Some(waits) = self.inherits_from {
            let precedence = match self.priority {
                Some(priority) => format!("real-time priority {priority}"),
                None => "SCHED_DEADLINE".to_owned(),
            };
            return format!(" (pid {pid}, {precedence} inherited from {waits})");
        }
        let precedence = match (self.priority, self.is_boosted) {
            (_, false) if self.is_deadline => ", SCHED_DEADLINE".to_owned(),
            // Inherited from a thread that waits for a lock, or changed since.
            (Some(priority), true) => format!(", real-time priority {priority} at that time, not its own now"),
            (Some(priority), false) => format!(", real-time priority {priority}"),
            (None, true) => ", SCHED_DEADLINE at that time, not its own now".to_owned(),
            (None, false) => String::new(),
        };
        format!(" (pid {pid}{precedence})")
    }
}

fn in_function(what: String, function: Option<&str>) -> String {
    match function {
        Some(function) => format!("{what} in {function}"),
        None => what,
    }
}

/// Returns why no rule explains a part.
const fn doubt_words(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Lost => "events were lost",
        Doubt::NoWakeUp => "no wake-up was recorded",
        Doubt::OtherCpu => "another CPU woke or ran the thread",
        Doubt::Served => "the timer came late, though interrupts were served",
        Doubt::Idle => "the CPU was idle for too long, or had just become idle",
        Doubt::Slack => "the timer slack of the thread allows some delay",
        Doubt::Silent => "the thread ran without an event",
        Doubt::LessImportant => "a less important thread ran",
    }
}

fn words(
    kind: CauseKind,
    name: Option<&str>,
    thread: NamedThread<'_>,
    irq: Option<u32>,
    idle_state: Option<u32>,
) -> String {
    let named = name.unwrap_or("unknown");
    let own = if thread.is_own { "hpt's own thread " } else { "" };
    match kind {
        CauseKind::InterruptsOff => match name {
            Some(name) => format!("interrupts off while {own}{name} ran, or firmware held the CPU"),
            None => "interrupts off, or firmware held the CPU".to_owned(),
        },
        CauseKind::InterruptsOffOrHost => match name {
            Some(name) => format!("interrupts off while {own}{name} ran, or the host took the CPU"),
            None => "interrupts off, or the host took the CPU".to_owned(),
        },
        CauseKind::TimerDelivery => "timer interrupt late".to_owned(),
        CauseKind::TimerSlack => "timer slack of the thread".to_owned(),
        CauseKind::HardInterrupt => match irq {
            Some(irq) => format!("irq {irq} ({named})"),
            None => format!("interrupt {named}"),
        },
        CauseKind::SoftInterrupt => format!("softirq {named}"),
        CauseKind::Thread => match load_of(named) {
            Some(load) => format!("load {load} (hpt)"),
            None if thread.is_own => format!("{own}{named}{}", thread.details()),
            None => format!("thread {named}{}", thread.details()),
        },
        CauseKind::NotPreemptible => format!("kernel not preemptible while {own}{named}{} ran", thread.details()),
        CauseKind::Stopped => match name {
            Some(name) => format!("stopped by a signal, until {own}{name}{} continued it", thread.details()),
            None => "stopped by a signal".to_owned(),
        },
        CauseKind::Traced => "stopped by a tracer".to_owned(),
        CauseKind::PageFault => name.map_or_else(|| "page fault".to_owned(), |name| format!("page fault in {name}")),
        CauseKind::Blocked => match name {
            Some(name) => format!("blocked in the kernel, until {own}{name}{} woke it", thread.details()),
            None => "blocked in the kernel, and no event tells by what".to_owned(),
        },
        CauseKind::CpuQuota => format!("CPU quota of control group {named} used up"),
        CauseKind::Budget => "SCHED_DEADLINE runtime used up".to_owned(),
        CauseKind::Paused => name.unwrap_or("real-time throttling or the fair server").to_owned(),
        CauseKind::IdleExit => {
            idle_state.map_or_else(|| "leaving idle".to_owned(), |state| format!("leaving idle state {state}"))
        }
        CauseKind::Host => "host (steal time)".to_owned(),
        CauseKind::Scheduling => "switching to the thread".to_owned(),
        CauseKind::Return => "return to the thread".to_owned(),
        CauseKind::OwnWork => "own work of the thread".to_owned(),
        CauseKind::Unexplained => "unexplained".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::explain::{CauseKind, ExplainedPart};

    use super::{CauseWords, words};

    fn of_thread(kind: CauseKind, name: Option<&str>, own_threads: &[u32]) -> String {
        words(kind, name, CauseWords { own_threads }.thread(Some(7), None, false, None), None, None)
    }

    #[test]
    fn a_thread_of_hpt_is_named_as_such() {
        let of = |kind, own_threads| of_thread(kind, Some("conditions"), own_threads);
        assert_eq!(of(CauseKind::Thread, &[6, 7]), "hpt's own thread conditions (pid 7)");
        assert_eq!(of(CauseKind::Thread, &[6, 8]), "thread conditions (pid 7)");
        let off = "interrupts off while hpt's own thread conditions ran";
        assert_eq!(of(CauseKind::InterruptsOff, &[7]), format!("{off}, or firmware held the CPU"));
        assert_eq!(of(CauseKind::InterruptsOffOrHost, &[7]), format!("{off}, or the host took the CPU"));
    }

    #[test]
    fn words_for_one_line_have_no_priority_and_no_clause() {
        let mut part = ExplainedPart {
            kind: CauseKind::Thread,
            name: Some("hog".to_owned()),
            pid: Some(7),
            kernel: Some(false),
            boosted: false,
            inherits_from: None,
            doubt: None,
            after: None,
            longest_ns: None,
            policy: None,
            priority: Some(90),
            irq: None,
            function: None,
            stack: Vec::new(),
            idle_state: None,
            count: 3,
            at_ns: 0,
            duration_ns: 1,
        };
        let words = CauseWords::default();
        assert_eq!(words.of_part(&part), "thread hog (pid 7, real-time priority 90) 3×");
        let boosted = ExplainedPart { boosted: true, policy: Some("other".to_owned()), ..part.clone() };
        assert_eq!(
            words.of_part(&boosted),
            "thread hog (pid 7, real-time priority 90 at that time, not its own now) 3×"
        );
        let inherits_from = Some("waiter (pid 8)".to_owned());
        assert_eq!(
            words.of_part(&ExplainedPart { inherits_from, ..boosted }),
            "thread hog (pid 7, real-time priority 90 inherited from waiter (pid 8)) 3×"
        );
        let timer = ExplainedPart {
            kind: CauseKind::HardInterrupt,
            name: Some("local_timer".to_owned()),
            function: Some("perf_swevent_hrtimer".to_owned()),
            stack: Vec::new(),
            ..part.clone()
        };
        assert_eq!(words.of_part(&timer), "interrupt local_timer in perf_swevent_hrtimer 3×");
        let deadline = ExplainedPart { priority: None, policy: Some("deadline".to_owned()), ..part.clone() };
        assert_eq!(words.of_part(&deadline), "thread hog (pid 7, SCHED_DEADLINE) 3×");
        assert_eq!(words.in_one_line(&part), "thread hog (pid 7)");
        part.kind = CauseKind::InterruptsOffOrHost;
        assert_eq!(words.in_one_line(&part), "interrupts off or host (hog ran)");
    }

    #[test]
    fn a_thread_of_a_load_is_named_as_such() {
        let thread = |name| of_thread(CauseKind::Thread, Some(name), &[]);
        assert_eq!(thread("hpt-load-cpu"), "load cpu (hpt)");
        assert_eq!(thread("hpt-loader"), "thread hpt-loader (pid 7)");
    }

    #[test]
    fn a_pause_that_the_trace_cannot_attribute_names_both_causes() {
        let pause = |name| of_thread(CauseKind::InterruptsOffOrHost, name, &[]);
        assert_eq!(pause(Some("cat")), "interrupts off while cat ran, or the host took the CPU");
        assert_eq!(pause(None), "interrupts off, or the host took the CPU");
    }
}
