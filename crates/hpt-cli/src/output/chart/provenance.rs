//! Lines that describe how the figures of a document were measured.

use hpt_document::{
    Document,
    bench::BenchDocument,
    doctor::DoctorDocument,
    experiment::ExperimentDocument,
    gpio_latency::GpioLatencyDocument,
    head::{Head, Machine},
    pairs::PairsDocument,
    probe::ProbeDocument,
    sleep::SleepDocument,
    sleep_curve::SleepCurveDocument,
    stall::StallDocument,
    thread::Thread,
    wake_latency::WakeLatencyDocument,
    watch::WatchSummaryDocument,
};
use hpt_sys::host::Cpu;

/// The conditions under which the figures of a document were measured.
#[derive(Clone, Debug)]
pub(crate) struct Origin<'a> {
    head: &'a Head,
    /// The CPU of the thread, if the document does not contain the other settings of the thread.
    cpu: Option<usize>,
    thread: Option<&'a Thread>,
    /// The CPUs of the measuring threads.
    cpus_of_rows: Vec<usize>,
    interrupted: bool,
}

impl<'a> Origin<'a> {
    /// Returns the origin of a document of any kind that has a chart.
    pub(crate) fn of_any(document: &'a Document) -> Option<Self> {
        Some(match document {
            Document::Bench(document) => document.into(),
            Document::Doctor(document) => document.into(),
            Document::Experiment(document) => document.into(),
            Document::GpioLatency(document) => document.into(),
            Document::Pairs(document) => document.into(),
            Document::Probe(document) => document.into(),
            Document::Sleep(document) => document.into(),
            Document::Stall(document) => document.into(),
            Document::WakeLatency(document) => document.into(),
            Document::WatchSummary(document) => document.into(),
            _ => return None,
        })
    }

    fn of(head: &'a Head, cpu: Option<usize>, interrupted: bool) -> Self {
        Self { head, cpu, thread: None, cpus_of_rows: Vec::new(), interrupted }
    }
}

impl<'a> From<&'a BenchDocument> for Origin<'a> {
    fn from(document: &'a BenchDocument) -> Self {
        Self::of(&document.head, document.cpu, document.interrupted)
    }
}

impl<'a> From<&'a PairsDocument> for Origin<'a> {
    fn from(document: &'a PairsDocument) -> Self {
        Self::of(&document.head, document.cpu, document.interrupted)
    }
}

impl<'a> From<&'a WatchSummaryDocument> for Origin<'a> {
    fn from(document: &'a WatchSummaryDocument) -> Self {
        Self::of(&document.head, document.cpu, document.interrupted)
    }
}

impl<'a> From<&'a DoctorDocument> for Origin<'a> {
    fn from(document: &'a DoctorDocument) -> Self {
        Self::of(&document.head, document.cpu, document.interrupted)
    }
}

impl<'a> From<&'a ProbeDocument> for Origin<'a> {
    fn from(document: &'a ProbeDocument) -> Self {
        Self::of(&document.head, None, false)
    }
}

impl<'a> From<&'a SleepDocument> for Origin<'a> {
    fn from(document: &'a SleepDocument) -> Self {
        let thread = Some(&document.thread);
        Self { thread, ..Self::of(&document.head, document.cpu, document.interrupted) }
    }
}

impl<'a> From<&'a SleepCurveDocument> for Origin<'a> {
    fn from(document: &'a SleepCurveDocument) -> Self {
        let thread = Some(&document.thread);
        Self { thread, ..Self::of(&document.head, document.cpu, document.interrupted) }
    }
}

impl<'a> From<&'a ExperimentDocument> for Origin<'a> {
    fn from(document: &'a ExperimentDocument) -> Self {
        let thread = document.thread.as_ref();
        Self { thread, ..Self::of(&document.head, document.cpu, document.interrupted) }
    }
}

impl<'a> From<&'a WakeLatencyDocument> for Origin<'a> {
    fn from(document: &'a WakeLatencyDocument) -> Self {
        Self {
            thread: Some(&document.measuring.thread),
            cpus_of_rows: document.results.iter().filter_map(|row| row.cpu).collect(),
            ..Self::of(&document.head, None, document.end.interrupted)
        }
    }
}

impl<'a> From<&'a StallDocument> for Origin<'a> {
    fn from(document: &'a StallDocument) -> Self {
        Self {
            thread: Some(&document.measuring.thread),
            cpus_of_rows: document.results.iter().filter_map(|row| row.cpu).collect(),
            ..Self::of(&document.head, None, document.end.interrupted)
        }
    }
}

impl<'a> From<&'a GpioLatencyDocument> for Origin<'a> {
    fn from(document: &'a GpioLatencyDocument) -> Self {
        let thread = Some(&document.measuring.thread);
        Self { thread, ..Self::of(&document.head, document.cpu, document.end.interrupted) }
    }
}

/// Describes the emulator or hypervisor that the system runs under. Returns `None` if none was detected.
pub(crate) fn runs_it(emulator: Option<&str>, hypervisor: Option<&str>, board: Option<&str>) -> Option<String> {
    match (emulator, hypervisor) {
        (Some(emulator), _) => Some(format!("emulated by {emulator}")),
        (None, Some(hypervisor)) => Some(format!("virtual machine under {}", Cpu::hypervisor_name(hypervisor))),
        // QEMU uses this board for KVM guests as well.
        (None, None) => {
            let is_either = board.is_some_and(|name| name.contains("linux,dummy-virt"));
            is_either.then(|| "virtual or emulated".to_owned())
        }
    }
}

/// Describes the conditions of several documents, each with its prefix. If the conditions are the same for all
/// documents, their description appears only once.
pub(crate) fn about_all(origins: &[(String, Origin<'_>)]) -> String {
    let own: Vec<String> = origins.iter().map(|(_, origin)| about(origin, "")).collect();
    if let Some(one) = own.first().filter(|one| own.iter().all(|other| other == *one)) {
        let firsts = origins.iter().map(|(first, _)| first.as_str());
        let parts = firsts.chain([one.as_str()]).filter(|part| !part.is_empty());
        return parts.collect::<Vec<_>>().join(" · ");
    }
    origins.iter().map(|(first, origin)| about(origin, first)).collect::<Vec<_>>().join(" — ")
}

/// Describes the settings, the system and the version of hpt. `first` is the prefix, which states the source and the
/// number of samples.
pub(crate) fn about(origin: &Origin<'_>, first: &str) -> String {
    let mut parts = vec![first.to_owned()];
    parts.extend(origin.settings());
    parts.push(on_machine(&origin.head.machine, &origin.head.hpt));
    if origin.interrupted {
        parts.push("ended early".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(SEPARATOR)
}

/// The text between the parts of a description.
pub(crate) const SEPARATOR: &str = " · ";

/// Describes the system and the version of hpt, as each description contains them.
pub(crate) fn on_machine(machine: &Machine, version: &str) -> String {
    let name = machine.cpu.as_deref().or(machine.board.as_deref()).unwrap_or("unnamed CPU");
    let mut parts = vec![format!("{name} ({})", machine.architecture)];
    parts.extend(runs_it(machine.emulated_by.as_deref(), machine.hypervisor.as_deref(), machine.board.as_deref()));
    parts.push(format!("Linux {}", machine.kernel_release));
    parts.extend(machine.clocksource.as_ref().map(|source| format!("clocksource {source}")));
    parts.push(format!("hpt {version}"));
    parts.join(SEPARATOR)
}

impl Origin<'_> {
    fn settings(&self) -> Option<String> {
        let Some(thread) = self.thread else {
            return self.cpu.map(|cpu| format!("pinned to CPU {cpu}"));
        };
        let mut parts = Vec::new();
        match (self.cpus_of_rows.as_slice(), thread.cpus.as_slice()) {
            ([], [cpu]) => parts.push(format!("on CPU {cpu}")),
            ([cpu], _) => parts.push(format!("on CPU {cpu}")),
            ([], _) => {}
            (cpus, _) => parts.push(format!("one thread on each of {} CPUs", cpus.len())),
        }
        let policy = thread.policy.as_deref().unwrap_or("other");
        parts.push(match (thread.priority, thread.nice) {
            (Some(priority), _) => format!("policy {policy}, priority {priority}"),
            (None, Some(nice)) => format!("policy {policy}, nice {nice}"),
            (None, None) => format!("policy {policy}"),
        });
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        parts.extend(thread.timer_slack_ns.map(|ns| format!("timer slack {}", super::axis::time(ns as f64))));
        if thread.locked_bytes.is_some_and(|bytes| bytes > 0) {
            parts.push("memory locked".to_owned());
        }
        Some(parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::{Document, head::Head, thread::Thread};

    use super::{Origin, about, about_all};
    use crate::golden;

    fn head() -> Head {
        let mut head = golden::head("bench");
        head.hpt = "0.1.0".to_owned();
        let machine = &mut head.machine;
        (machine.architecture, machine.cpu) = ("x86-64".to_owned(), Some("AMD EPYC".to_owned()));
        (machine.board, machine.hypervisor, machine.emulated_by) = (None, None, None);
        (machine.kernel_release, machine.clocksource) = ("6.1.0".to_owned(), Some("tsc".to_owned()));
        head
    }

    fn thread() -> Thread {
        let Document::Sleep(document) = golden::empty("sleep") else { panic!("expected sleep") };
        Thread {
            cpus: vec![1],
            policy: Some("fifo".to_owned()),
            priority: Some(80),
            timer_slack_ns: Some(50_000),
            locked_bytes: Some(0),
            ..document.thread
        }
    }

    #[test]
    fn a_line_names_settings_machine_and_version() {
        let (mut head, thread) = (head(), thread());
        let line =
            |head: &Head, first: &str| about(&Origin { thread: Some(&thread), ..Origin::of(head, None, true) }, first);
        (head.machine.hypervisor, head.machine.emulated_by) =
            (Some("TCGTCGTCGTCG".to_owned()), Some("QEMU".to_owned()));
        assert_eq!(
            line(&head, "timed with tsc"),
            "timed with tsc · on CPU 1, policy fifo, priority 80, timer slack 50 µs · AMD EPYC (x86-64) · emulated by QEMU · \
             Linux 6.1.0 · clocksource tsc · hpt 0.1.0 · ended early"
        );
        (head.machine.hypervisor, head.machine.emulated_by) = (Some("KVMKVMKVM".to_owned()), None);
        let by_kvm = line(&head, "");
        assert!(by_kvm.starts_with("on CPU 1") && by_kvm.contains("virtual machine under KVM ·"), "{by_kvm}");
        (head.machine.hypervisor, head.machine.board) = (None, Some("linux,dummy-virt".to_owned()));
        assert!(line(&head, "").contains("· virtual or emulated ·"), "{}", line(&head, ""));
    }

    #[test]
    fn each_machine_has_one_line() {
        let on = |kernel: &str| {
            let mut head = head();
            kernel.clone_into(&mut head.machine.kernel_release);
            head
        };
        let (old, new) = (on("6.1"), on("6.12"));
        let line = |one, other| {
            let origin = |head| Origin::of(head, Some(1), false);
            about_all(&[("A".to_owned(), origin(one)), ("B".to_owned(), origin(other))])
        };
        let rest = |kernel: &str| {
            format!("pinned to CPU 1 · AMD EPYC (x86-64) · Linux {kernel} · clocksource tsc · hpt 0.1.0")
        };
        assert_eq!(line(&old, &old), format!("A · B · {}", rest("6.1")));
        assert_eq!(line(&old, &new), format!("A · {} — B · {}", rest("6.1"), rest("6.12")));
    }
}
