//! `hpt doctor` finds the problems of the board, and finds the same in its capture.

use hpt_document::doctor::{
    DoctorDocument, DoctorRule, DoctorVerdict,
    Severity::{self, High, Info, Low},
};

use crate::judge::{
    case::{Case, Judged},
    plant::{Plant, Plants},
    text::{has_line, last_line},
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let step = format!("{build}.doctor");
        let steps = ["", "-plain", "-cpu", "-captured", "-bare"].map(|suffix| format!("{step}{suffix}"));
        for step in &steps {
            if case.ended(step) && !has_line(case.err(step), "status 1") {
                let said = last_line(case.err(step));
                case.wrong(format!("{step}: {said}, expected 1, because each board has problems"));
            }
        }
        let general = format!("{step}-general");
        if case.ended(&general) && !has_line(case.err(&general), "status 0") {
            case.wrong(format!("{general}: {}, expected 0 without --fail-on", last_line(case.err(&general))));
        }
        if let Some(general) = case.document::<DoctorDocument>(&general) {
            general.holds("without a goal, default settings are notes and wrong time is a problem", |it| {
                let notes = ["throttling", "preemption", "isolated-cpus"];
                found(it, "wall-time", High) && notes.into_iter().all(|rule| found(it, rule, Info))
            });
        }
        let diagnoses = steps.map(|step| case.document::<DoctorDocument>(&step));
        for diagnosis in diagnoses.iter().flatten() {
            diagnosis.holds("every rule has an observation, and every finding has a fix", |it| {
                let answers = |rule: &DoctorRule| {
                    !rule.observed.is_empty() && (rule.verdict != DoctorVerdict::Problem || !rule.fixes.is_empty())
                };
                it.rules.len() > 30 && it.rules.iter().all(answers)
            });
        }
        let [root, plain, cpu, captured, bare] = &diagnoses;
        for diagnosis in [root, plain].into_iter().flatten() {
            judge_machine(case, diagnosis);
        }
        if let Some(root) = root {
            root.holds("root has permission for real-time scheduling, and can check everything", |it| {
                is(it, "right-to-realtime", DoctorVerdict::Pass) && it.needs_root.is_empty()
            });
        }
        if let Some(plain) = plain {
            plain.holds("an ordinary user has not, and the checks that need root are listed", |it| {
                found(it, "right-to-realtime", High) && it.needs_root.len() == 1
            });
        }
        if let Some(cpu) = cpu {
            judge_cpu(case, cpu);
        }
        if let Some(captured) = captured {
            captured.holds("it is examined from files", |it| !it.head.machine.live);
        }
        if let Some(bare) = bare {
            bare.holds("without /proc and /sys, verdicts are unknown", |it| {
                it.rules.iter().filter(|rule| rule.verdict == DoctorVerdict::Unknown).count() > 5
            });
        }
        match (root, captured) {
            (Some(root), Some(captured)) if verdicts(root) == verdicts(captured) => case.shown("diagnosed"),
            _ => case.wrong(format!("{step}-captured: the verdicts differ from those of {step}")),
        }
    }
}

/// The findings that root and an ordinary user must get.
fn judge_machine(case: &Case<'_>, diagnosis: &Judged<'_, DoctorDocument>) {
    let clock_source = case.board.clock_source.as_str();
    diagnosis.holds("throttling is on, and this kernel throttles", |it| found(it, "throttling", High));
    diagnosis.holds("it is not a real-time kernel", |it| is(it, "preemption", DoctorVerdict::Problem));
    diagnosis.holds("the clock is not synchronized", |it| found(it, "wall-time", Info));
    diagnosis.holds(&format!("the clocksource {clock_source} is the best or the only one"), |it| {
        is(it, "clock-source", DoctorVerdict::Pass) || is(it, "clock-source", DoctorVerdict::NotApplicable)
    });
    if case.board.cores == 1 {
        diagnosis.holds("the only CPU cannot be isolated", |it| found(it, "isolated-cpus", Info));
    } else {
        diagnosis.holds("no CPU is isolated", |it| found(it, "isolated-cpus", High));
    }
    if ["timer", "arm,sp804", "arm_global_timer", "mxc_timer1"].contains(&clock_source) {
        diagnosis.holds("the vDSO does not read the clocksource", |it| found(it, "clock-by-system-call", Low));
    } else {
        diagnosis.holds("the vDSO reads the clocksource", |it| is(it, "clock-by-system-call", DoctorVerdict::Pass));
    }
}

fn judge_cpu(case: &Case<'_>, cpu: &Judged<'_, DoctorDocument>) {
    if case.board.cores == 1 {
        cpu.holds("work cannot be moved away from the only CPU", |it| {
            let mut rules = ["kernel-threads", "interrupts", "tick"].into_iter();
            it.cpu == Some(0) && rules.all(|rule| is(it, rule, DoctorVerdict::NotApplicable))
        });
    } else {
        cpu.holds("it is examined for one CPU", |it| {
            it.cpu == Some(0) && is(it, "kernel-threads", DoctorVerdict::Problem)
        });
    }
}

fn rule<'a>(diagnosis: &'a DoctorDocument, name: &str) -> Option<&'a DoctorRule> {
    diagnosis.rules.iter().find(|rule| rule.rule == name)
}

fn is(diagnosis: &DoctorDocument, name: &str, verdict: DoctorVerdict) -> bool {
    rule(diagnosis, name).is_some_and(|rule| rule.verdict == verdict)
}

/// Whether a rule has a certain finding of that severity.
fn found(diagnosis: &DoctorDocument, name: &str, severity: Severity) -> bool {
    rule(diagnosis, name).is_some_and(|rule| rule.severity == Some(severity) && rule.certain == Some(true))
}

/// The verdict of every rule, without the numbers.
fn verdicts(diagnosis: &DoctorDocument) -> Vec<(&str, DoctorVerdict, Option<Severity>, Option<bool>)> {
    diagnosis.rules.iter().map(|rule| (rule.rule.as_str(), rule.verdict, rule.severity, rule.certain)).collect()
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "doctor",
    fit: |board| board.asked_for("doctor") && board.arm_counter.is_some(),
    plants: &[
        Plant {
            what: "the exit code depends on the problems without --fail-on",
            change: |it| it.set_lines(".doctor-general.err", "status 0", "status 1"),
        },
        Plant { what: "the goal has no effect", change: |it| it.copy(".doctor", ".doctor-general") },
        Plant { what: "no problem is found", change: |it| it.set_lines(".doctor.err", "status 1", "status 0") },
        Plant { what: "an ordinary user gets the document of root", change: |it| it.copy(".doctor", ".doctor-plain") },
        Plant { what: "no CPU was named", change: |it| it.copy(".doctor", ".doctor-cpu") },
        Plant { what: "the capture is of a live machine", change: |it| it.copy(".doctor", ".doctor-captured") },
        Plant { what: "/proc and /sys are there", change: |it| it.copy(".doctor", ".doctor-bare") },
        Plant {
            what: "nothing is certain",
            change: |it| it.replace(".doctor.out", "\"certain\": true", "\"certain\": false"),
        },
        Plant {
            what: "an ordinary user gets only problems of low severity",
            change: |it| it.replace(".doctor-plain.out", "\"high\"", "\"low\""),
        },
        Plant {
            what: "the capture has other verdicts",
            change: |it| it.replace(".doctor-captured.out", "\"not-applicable\"", "\"pass\""),
        },
        Plant {
            what: "a rule has no observation",
            change: |it| {
                it.document(".doctor", |it: &mut DoctorDocument| {
                    it.rules.iter_mut().for_each(|rule| rule.observed.clear());
                });
            },
        },
        Plant {
            what: "a finding has no fix",
            change: |it| {
                it.document(".doctor", |it: &mut DoctorDocument| {
                    it.rules.iter_mut().for_each(|rule| rule.fixes.clear());
                });
            },
        },
        Plant { what: "one CPU is expected", change: |it| it.board.cores = 1 },
        Plant { what: "another clocksource is expected", change: |it| it.board.clock_source = "timer".to_owned() },
        Plant { what: "the bare one ended by a signal", change: |it| it.status(".doctor-bare", 139) },
    ],
}];
