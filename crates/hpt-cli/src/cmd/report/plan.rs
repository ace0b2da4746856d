//! The measurements of a report, as command lines.

use std::time::Duration;

use crate::arguments::CpuChoice;

/// A measurement that a report can contain.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The arguments of `hpt` for a full run.
    words: &'static [&'static str],
    /// The arguments for a run of about one second.
    short: &'static [&'static str],
    cpu: Cpu,
    /// Whether a report contains the part if no parts are selected.
    pub(super) by_default: bool,
    /// The usual durations of a full run and of a short run, in seconds.
    seconds: (f64, f64),
}

/// The values of `--cpu` that a measurement accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpu {
    None,
    /// Only a CPU number.
    Number,
    /// A CPU number or `any`.
    Any,
    /// A CPU number or `any`; every CPU by default.
    All,
}

/// The parts that examine a machine without measuring it, and can therefore examine a system snapshot.
pub(super) const EXAMINING: [&str; 2] = ["doctor", "probe"];

/// The parts with samples that the kernel's trace can explain.
const EXPLAINED: [&str; 5] = ["timer", "timer-hpt", "poll", "stall", "sleep"];

/// The measurements, in the order in which they run and appear in the report.
pub(crate) static PLANS: [Plan; 11] = [
    Plan {
        name: "doctor",
        kind: "doctor",
        words: &["doctor"],
        short: &["doctor"],
        cpu: Cpu::Number,
        by_default: true,
        seconds: (0.1, 0.1),
    },
    Plan {
        name: "probe",
        kind: "probe",
        words: &["probe"],
        short: &["probe"],
        cpu: Cpu::None,
        by_default: true,
        seconds: (0.5, 0.5),
    },
    Plan {
        name: "bench",
        kind: "bench",
        words: &["bench", "--count", "300000"],
        short: &["bench", "--count", "5000"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (2.0, 0.4),
    },
    Plan {
        name: "timer",
        kind: "latency-timer",
        words: &["latency", "timer", "--duration", "10s"],
        short: &["latency", "timer", "--duration", "500ms"],
        cpu: Cpu::All,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "timer-hpt",
        kind: "latency-timer",
        words: &["latency", "timer", "--by", "hpt", "--duration", "10s"],
        short: &["latency", "timer", "--by", "hpt", "--duration", "500ms"],
        cpu: Cpu::All,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "poll",
        kind: "latency-poll",
        words: &["latency", "poll", "--duration", "10s"],
        short: &["latency", "poll", "--duration", "500ms"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "stall",
        kind: "latency-stall",
        words: &["latency", "stall", "--duration", "10s"],
        short: &["latency", "stall", "--duration", "500ms"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "sleep",
        kind: "sleep",
        words: &["sleep", "--length", "100us,1ms,10ms", "--count", "100"],
        short: &["sleep", "--length", "100us,1ms", "--count", "10"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (4.5, 0.1),
    },
    Plan {
        name: "sleep-curve",
        kind: "sleep-curve",
        words: &["sleep", "--curve"],
        short: &["sleep", "--curve", "--count", "20"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (23.0, 0.5),
    },
    Plan {
        name: "watch",
        kind: "watch-summary",
        words: &["watch", "--duration", "20s", "--interval", "500ms"],
        short: &["watch", "--duration", "1s", "--interval", "200ms"],
        cpu: Cpu::Any,
        by_default: true,
        seconds: (20.0, 1.0),
    },
    Plan {
        name: "experiment",
        kind: "experiment",
        words: &["experiment", "all", "--short"],
        short: &["experiment", "calls", "period", "--short"],
        cpu: Cpu::None,
        by_default: false,
        seconds: (35.0, 1.0),
    },
];

impl Plan {
    /// Returns the usual duration, for the progress bar.
    pub(super) fn expected(&self, short: bool) -> Duration {
        Duration::from_secs_f64(if short { self.seconds.1 } else { self.seconds.0 })
    }

    /// Returns the complete command line.
    pub(crate) fn line(&self, short: bool, cpu: Option<CpuChoice>, explain: bool) -> Vec<String> {
        let words = if short { self.short } else { self.words };
        let mut line: Vec<String> = ["hpt"].iter().chain(words).map(|&word| word.to_owned()).collect();
        let value = match (self.cpu, cpu) {
            (Cpu::Number | Cpu::Any | Cpu::All, Some(CpuChoice::Number(cpu))) => Some(cpu.to_string()),
            (Cpu::Any | Cpu::All, Some(CpuChoice::Any)) => Some("any".to_owned()),
            (Cpu::All, None) => Some("all".to_owned()),
            (Cpu::None, _) | (_, None) | (Cpu::Number, Some(CpuChoice::Any)) => None,
        };
        line.extend(value.into_iter().flat_map(|value| ["--cpu".to_owned(), value]));
        line.extend((explain && EXPLAINED.contains(&self.name)).then(|| "--explain".to_owned()));
        line
    }
}

#[cfg(test)]
mod tests {
    use super::PLANS;
    use crate::arguments::CpuChoice;

    #[test]
    fn wake_ups_are_measured_on_every_cpu_unless_one_is_chosen() {
        let plan = PLANS.iter().find(|plan| plan.name == "timer").expect("there is one");
        let line = |cpu| plan.line(true, cpu, false).join(" ");
        assert!(line(None).ends_with("--duration 500ms --cpu all"), "{}", line(None));
        assert!(line(Some(CpuChoice::Number(3))).ends_with("--cpu 3"));
        assert!(line(Some(CpuChoice::Any)).ends_with("--cpu any"));
    }

    #[test]
    fn only_parts_with_late_samples_are_explained() {
        let explained = PLANS.iter().filter(|plan| plan.line(true, None, true).contains(&"--explain".to_owned()));
        assert_eq!(explained.map(|plan| plan.name).collect::<Vec<_>>(), super::EXPLAINED);
        assert!(PLANS.iter().all(|plan| !plan.line(true, None, false).contains(&"--explain".to_owned())));
    }

    #[test]
    fn documents_list_every_part_and_its_kind() {
        assert_eq!(PLANS.each_ref().map(|plan| (plan.name, plan.kind)), hpt_document::words::REPORT_PARTS);
    }
}
