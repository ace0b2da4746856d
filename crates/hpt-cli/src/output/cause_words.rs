//! The causes of late samples as text, for tables and charts. Prints nothing.

use hpt_document::explain::{CauseKind, ExplainedCause, ExplainedPart};

/// The start of the names of the processes of the built-in loads.
pub(crate) const LOAD: &str = "hpt-load-";

/// Returns the kind of load that a thread generates, from the name of the thread.
pub(crate) fn load_of(name: &str) -> Option<&str> {
    name.strip_prefix(LOAD)
}

/// Returns a cause in a few words.
pub(crate) fn words_of_cause(cause: &ExplainedCause) -> String {
    words(cause.kind, cause.name.as_deref(), (cause.pid, cause.priority), cause.irq, cause.idle_state)
}

/// Returns a part of a latency in a few words.
pub(crate) fn words_of_part(part: &ExplainedPart) -> String {
    let times = if part.count > 1 { format!(" {}×", part.count) } else { String::new() };
    words(part.kind, part.name.as_deref(), (part.pid, part.priority), part.irq, part.idle_state) + &times
}

fn words(
    kind: CauseKind,
    name: Option<&str>,
    (pid, priority): (Option<u32>, Option<u8>),
    irq: Option<u32>,
    idle_state: Option<u32>,
) -> String {
    let named = name.unwrap_or("unknown");
    match kind {
        CauseKind::InterruptsOff => match name {
            Some(name) => format!("interrupts off while {name} ran"),
            None => "interrupts off".to_owned(),
        },
        CauseKind::InterruptsOffOrHost => match name {
            Some(name) => format!("interrupts off while {name} ran, or the host took the CPU"),
            None => "interrupts off, or the host took the CPU".to_owned(),
        },
        CauseKind::TimerDelivery => "timer interrupt late".to_owned(),
        CauseKind::HardInterrupt => match irq {
            Some(irq) => format!("irq {irq} ({named})"),
            None => format!("interrupt {named}"),
        },
        CauseKind::SoftInterrupt => format!("softirq {named}"),
        CauseKind::Thread => {
            let priority = priority.map_or_else(String::new, |priority| format!(", real-time priority {priority}"));
            let pid = pid.map_or_else(String::new, |pid| format!(" (pid {pid}{priority})"));
            load_of(named).map_or_else(|| format!("thread {named}{pid}"), |load| format!("load {load} (hpt)"))
        }
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
    use hpt_document::explain::CauseKind;

    use super::words;

    #[test]
    fn a_thread_of_a_load_is_named_as_such() {
        let thread = |name| words(CauseKind::Thread, Some(name), (Some(7), None), None, None);
        assert_eq!(thread("hpt-load-cpu"), "load cpu (hpt)");
        assert_eq!(thread("hpt-loader"), "thread hpt-loader (pid 7)");
    }

    #[test]
    fn a_pause_that_the_trace_cannot_attribute_names_both_causes() {
        let pause = |name| words(CauseKind::InterruptsOffOrHost, name, (Some(7), None), None, None);
        assert_eq!(pause(Some("cat")), "interrupts off while cat ran, or the host took the CPU");
        assert_eq!(pause(None), "interrupts off, or the host took the CPU");
    }
}
