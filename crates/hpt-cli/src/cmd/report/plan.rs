//! The measurements of a report.

use std::time::Duration;

use crate::{arguments::CpuChoice, measurements::Request, sampling::cpu_options::Cpus};

/// A measurement that a report can contain.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The command line of a full run.
    line: &'static str,
    /// The command line of a run of about one second.
    short: &'static str,
    /// Whether every CPU is measured if none is chosen.
    on_all_cpus: bool,
    /// Whether a report contains the part if no parts are selected.
    pub(super) by_default: bool,
    /// The usual durations of a full run and of a short run, in seconds.
    seconds: (f64, f64),
}

/// The parts that examine a machine without measuring it, and can therefore examine a system snapshot.
pub(super) const EXAMINING: [&str; 2] = ["doctor", "probe"];

/// The measurements, in the order in which they run and appear in the report.
pub(crate) static PLANS: [Plan; 11] = [
    Plan {
        name: "doctor",
        kind: "doctor",
        line: "doctor",
        short: "doctor",
        on_all_cpus: false,
        by_default: true,
        seconds: (0.1, 0.1),
    },
    Plan {
        name: "probe",
        kind: "probe",
        line: "probe",
        short: "probe",
        on_all_cpus: false,
        by_default: true,
        seconds: (0.5, 0.5),
    },
    Plan {
        name: "bench",
        kind: "bench",
        line: "bench --count 300000",
        short: "bench --count 5000",
        on_all_cpus: false,
        by_default: true,
        seconds: (2.0, 0.4),
    },
    Plan {
        name: "timer",
        kind: "latency-timer",
        line: "latency timer --duration 10s",
        short: "latency timer --duration 500ms",
        on_all_cpus: true,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "timer-hpt",
        kind: "latency-timer",
        line: "latency timer --by hpt --duration 10s",
        short: "latency timer --by hpt --duration 500ms",
        on_all_cpus: true,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "poll",
        kind: "latency-poll",
        line: "latency poll --duration 10s",
        short: "latency poll --duration 500ms",
        on_all_cpus: false,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "stall",
        kind: "latency-stall",
        line: "latency stall --duration 10s",
        short: "latency stall --duration 500ms",
        on_all_cpus: false,
        by_default: true,
        seconds: (10.0, 0.5),
    },
    Plan {
        name: "sleep",
        kind: "sleep",
        line: "sleep --length 100us,1ms,10ms --count 100",
        short: "sleep --length 100us,1ms --count 10",
        on_all_cpus: false,
        by_default: true,
        seconds: (4.5, 0.1),
    },
    Plan {
        name: "sleep-curve",
        kind: "sleep-curve",
        line: "sleep --curve",
        short: "sleep --curve --count 20",
        on_all_cpus: false,
        by_default: true,
        seconds: (23.0, 0.5),
    },
    Plan {
        name: "watch",
        kind: "watch-summary",
        line: "watch --duration 20s --interval 500ms",
        short: "watch --duration 1s --interval 200ms",
        on_all_cpus: false,
        by_default: true,
        seconds: (20.0, 1.0),
    },
    Plan {
        name: "experiment",
        kind: "experiment",
        line: "experiment all --short",
        short: "experiment calls period --short",
        on_all_cpus: false,
        by_default: false,
        seconds: (35.0, 1.0),
    },
];

impl Plan {
    /// Returns the usual duration, for the progress bar.
    pub(super) fn expected(&self, short: bool) -> Duration {
        Duration::from_secs_f64(if short { self.seconds.1 } else { self.seconds.0 })
    }

    /// Returns the request. A CPU applies to each measurement that accepts it.
    pub(crate) fn request(&self, short: bool, cpu: Option<CpuChoice>) -> Request {
        let line = if short { self.short } else { self.line };
        let mut request = Request::read_line(line).expect("the command lines of a report are valid");
        match cpu {
            Some(cpu) => request.on(cpu.into()),
            None if self.on_all_cpus => request.on(Cpus::All),
            None => {}
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::PLANS;
    use crate::arguments::CpuChoice;

    #[test]
    fn wake_ups_are_measured_on_every_cpu_unless_one_is_chosen() {
        let plan = PLANS.iter().find(|plan| plan.name == "timer").expect("there is one");
        let line = |cpu| plan.request(true, cpu).line().to_owned();
        assert!(line(None).ends_with("--duration 500ms --cpu all"), "{}", line(None));
        assert!(line(Some(CpuChoice::Number(3))).ends_with("--cpu 3"));
        assert!(line(Some(CpuChoice::Any)).ends_with("--cpu any"));
    }

    #[test]
    fn only_parts_with_late_samples_are_explained() {
        let explained = PLANS.iter().filter(|plan| {
            let mut request = plan.request(true, None);
            request.explained();
            request.line().ends_with("--explain")
        });
        let names = explained.map(|plan| plan.name).collect::<Vec<_>>();
        assert_eq!(names, ["timer", "timer-hpt", "poll", "stall", "sleep"]);
    }

    #[test]
    fn documents_list_every_part_and_its_kind() {
        assert_eq!(PLANS.each_ref().map(|plan| (plan.name, plan.kind)), hpt_document::words::REPORT_PARTS);
    }
}
