//! How a document's figures were measured, in one line.

use hpt_core::host::Cpu;
use serde::Deserialize;
use serde_json::Value;

use super::picture::Unreadable;

/// What most documents say of themselves.
#[derive(Debug, Deserialize)]
struct About {
    hpt: String,
    machine: Machine,
    cpu: Option<usize>,
    thread: Option<Thread>,
    #[serde(default)]
    interrupted: bool,
    results: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
struct Machine {
    architecture: String,
    cpu: Option<String>,
    board: Option<String>,
    hypervisor: Option<String>,
    emulated_by: Option<String>,
    kernel_release: String,
    clock_source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    cpus: Vec<usize>,
    policy: Option<String>,
    priority: Option<u32>,
    nice: Option<i32>,
    timer_slack_ns: Option<u64>,
    locked_bytes: Option<u64>,
}

/// What runs the machine in the place of hardware of its own, as far as it tells.
pub(crate) fn runs_it(emulator: Option<&str>, hypervisor: Option<&str>, board: Option<&str>) -> Option<String> {
    match (emulator, hypervisor) {
        (Some(emulator), _) => Some(format!("emulated by {emulator}")),
        (None, Some(hypervisor)) => Some(format!("virtual machine under {}", Cpu::hypervisor_name(hypervisor))),
        // QEMU gives this board to guests of KVM as well.
        (None, None) => {
            let is_either = board.is_some_and(|name| name.contains("linux,dummy-virt"));
            is_either.then(|| "virtual or emulated".to_owned())
        }
    }
}

/// Whether it says by which hpt and on what machine it was measured.
pub(crate) fn says_where(document: &Value) -> Result<(), Unreadable> {
    super::picture::read::<About>(document).map(|_| ())
}

/// The same of several documents, each with what stands before: once, where it is the same of all.
pub(crate) fn about_all(documents: &[(String, &Value)]) -> String {
    let own: Vec<String> = documents.iter().map(|(_, document)| about(document, "")).collect();
    if let Some(one) = own.first()
        && own.iter().all(|other| other == one)
    {
        let firsts = documents.iter().map(|(first, _)| first.as_str());
        let parts = firsts.chain([one.as_str()]).filter(|part| !part.is_empty());
        return parts.collect::<Vec<_>>().join(" · ");
    }
    documents.iter().map(|(first, document)| about(document, first)).collect::<Vec<_>>().join(" — ")
}

/// Settings, machine and version. `first` stands before: source and samples.
pub(crate) fn about(document: &Value, first: &str) -> String {
    let Ok(about) = super::picture::read::<About>(document) else { return first.to_owned() };
    let mut parts = vec![first.to_owned()];
    parts.extend(about.settings());
    let machine = &about.machine;
    let name = machine.cpu.as_deref().or(machine.board.as_deref()).unwrap_or("unnamed CPU");
    parts.push(format!("{name} ({})", machine.architecture));
    parts.extend(runs_it(machine.emulated_by.as_deref(), machine.hypervisor.as_deref(), machine.board.as_deref()));
    parts.push(format!("Linux {}", machine.kernel_release));
    parts.extend(machine.clock_source.as_ref().map(|source| format!("clock source {source}")));
    parts.push(format!("hpt {}", about.hpt));
    if about.interrupted {
        parts.push("ended early".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

impl About {
    fn settings(&self) -> Option<String> {
        let Some(thread) = &self.thread else {
            return self.cpu.map(|cpu| format!("pinned to CPU {cpu}"));
        };
        let mut parts = Vec::new();
        let of_rows = || -> Vec<u64> {
            let rows = self.results.iter().flatten();
            rows.filter_map(|row| row.get("cpu")?.as_u64()).collect()
        };
        match (of_rows().as_slice(), thread.cpus.as_slice()) {
            ([], [cpu]) => parts.push(format!("on CPU {cpu}")),
            ([cpu], _) => parts.push(format!("on CPU {cpu}")),
            ([], _) => {}
            (cpus, _) => parts.push(format!("a thread on each of {} CPUs", cpus.len())),
        }
        let policy = thread.policy.as_deref().unwrap_or("other");
        parts.push(match (thread.priority, thread.nice) {
            (Some(priority), _) => format!("class {policy}, priority {priority}"),
            (None, Some(nice)) => format!("class {policy}, nice {nice}"),
            (None, None) => format!("class {policy}"),
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
    use serde_json::json;

    use super::{about, about_all, says_where};

    #[test]
    fn a_line_names_settings_machine_and_version() {
        let machine = json!({"architecture": "x86-64", "cpu": "AMD EPYC", "board": null, "hypervisor": "TCGTCGTCGTCG", "emulated_by": "QEMU",
            "kernel_release": "6.1.0", "clock_source": "tsc"});
        let thread = json!({"cpus": [1], "policy": "fifo", "priority": 80, "nice": null, "timer_slack_ns": 50_000, "locked_bytes": 0});
        let mut document = json!({"hpt": "0.1.0", "machine": machine, "thread": thread, "interrupted": true});
        assert_eq!(
            about(&document, "timed by tsc"),
            "timed by tsc · on CPU 1, class fifo, priority 80, timer slack 50 µs · AMD EPYC (x86-64) · emulated by QEMU · \
             Linux 6.1.0 · clock source tsc · hpt 0.1.0 · ended early"
        );
        (document["machine"]["hypervisor"], document["machine"]["emulated_by"]) = (json!("KVMKVMKVM"), json!(null));
        assert!(
            about(&document, "").starts_with("on CPU 1")
                && about(&document, "").contains("virtual machine under KVM ·")
        );
        document["machine"]["hypervisor"] = json!(null);
        document["machine"]["board"] = json!("linux,dummy-virt");
        assert!(about(&document, "").contains("· virtual or emulated ·"), "{}", about(&document, ""));
        assert!(says_where(&document).is_ok() && says_where(&json!({"hpt": "0.1.0"})).is_err());
    }

    #[test]
    fn two_machines_have_a_line_each_and_one_machine_has_one() {
        let on = |kernel: &str| {
            let machine = json!({"architecture": "x86-64", "cpu": "AMD EPYC", "board": null, "hypervisor": null,
                "kernel_release": kernel, "clock_source": "tsc"});
            json!({"hpt": "0.1.0", "machine": machine, "cpu": 1})
        };
        let (old, new) = (on("6.1"), on("6.12"));
        let line = |one, other| about_all(&[("A".to_owned(), one), ("B".to_owned(), other)]);
        let rest = |kernel: &str| {
            format!("pinned to CPU 1 · AMD EPYC (x86-64) · Linux {kernel} · clock source tsc · hpt 0.1.0")
        };
        assert_eq!(line(&old, &old), format!("A · B · {}", rest("6.1")));
        assert_eq!(line(&old, &new), format!("A · {} — B · {}", rest("6.1"), rest("6.12")));
    }
}
