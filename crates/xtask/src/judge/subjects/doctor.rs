//! `hpt doctor` finds what is in the way, and its capture says the same.

use hpt_document::doctor::{
    DoctorDocument, DoctorRule,
    DoctorSeverity::{self, Major, Minor, ToKnow},
    DoctorVerdict,
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
                case.wrong(format!("{step}: {said}, not 1: something is in the way of each board"));
            }
        }
        let diagnoses = steps.map(|step| case.document::<DoctorDocument>(&step));
        for diagnosis in diagnoses.iter().flatten() {
            diagnosis.holds("every rule answers, and what is found has a remedy", |it| {
                let answers = |rule: &DoctorRule| {
                    !rule.seen.is_empty() && (rule.verdict != DoctorVerdict::Found || !rule.remedies.is_empty())
                };
                it.rules.len() > 30 && it.rules.iter().all(answers)
            });
        }
        let [root, plain, cpu, captured, bare] = &diagnoses;
        for diagnosis in [root, plain].into_iter().flatten() {
            judge_machine(case, diagnosis);
        }
        if let Some(root) = root {
            root.holds("root has the right to a real-time class, and is told all", |it| {
                is(it, "right-to-realtime", DoctorVerdict::Fine) && it.root_would_be_told.is_empty()
            });
        }
        if let Some(plain) = plain {
            plain.holds("a plain user has not, and what root would be told is said", |it| {
                found(it, "right-to-realtime", Major) && it.root_would_be_told.len() == 1
            });
        }
        if let Some(cpu) = cpu {
            judge_cpu(case, cpu);
        }
        if let Some(captured) = captured {
            captured.holds("it is judged from files", |it| !it.head.machine.live);
        }
        if let Some(bare) = bare {
            bare.holds("without /proc and /sys that is said", |it| {
                it.rules.iter().filter(|rule| rule.verdict == DoctorVerdict::Untold).count() > 5
            });
        }
        match (root, captured) {
            (Some(root), Some(captured)) if verdicts(root) == verdicts(captured) => case.shown("diagnosed"),
            _ => case.wrong(format!("{step}-captured: not the verdicts of {step}")),
        }
    }
}

/// What must be found for root and for a plain user.
fn judge_machine(case: &Case<'_>, diagnosis: &Judged<'_, DoctorDocument>) {
    let clock_source = case.board.clock_source.as_str();
    diagnosis.holds("throttling is on, and this kernel is one that it bites", |it| found(it, "throttling", Major));
    diagnosis.holds("it is no kernel for real time", |it| found(it, "preemption", Minor));
    diagnosis.holds("nobody keeps wall time", |it| found(it, "wall-time", Major));
    diagnosis.holds(&format!("clock source {clock_source} is as it should be, or the only one"), |it| {
        is(it, "clock-source", DoctorVerdict::Fine) || is(it, "clock-source", DoctorVerdict::NotHere)
    });
    if case.board.cores == 1 {
        diagnosis.holds("one CPU cannot be kept free, and that is said", |it| found(it, "isolated-cpus", ToKnow));
    } else {
        diagnosis.holds("no CPU is kept free", |it| found(it, "isolated-cpus", Major));
    }
    if ["timer", "arm,sp804"].contains(&clock_source) {
        diagnosis.holds("the vDSO does not read the clock source", |it| found(it, "clock-by-system-call", Minor));
    } else {
        diagnosis.holds("the vDSO reads the clock source", |it| is(it, "clock-by-system-call", DoctorVerdict::Fine));
    }
}

fn judge_cpu(case: &Case<'_>, cpu: &Judged<'_, DoctorDocument>) {
    if case.board.cores == 1 {
        cpu.holds("what comes to the only CPU cannot be sent away", |it| {
            let mut rules = ["kernel-threads", "interrupts", "tick"].into_iter();
            it.cpu == Some(0) && rules.all(|rule| is(it, rule, DoctorVerdict::NotHere))
        });
    } else {
        cpu.holds("it is asked for one CPU", |it| it.cpu == Some(0) && is(it, "kernel-threads", DoctorVerdict::Found));
    }
}

fn rule<'a>(diagnosis: &'a DoctorDocument, name: &str) -> Option<&'a DoctorRule> {
    diagnosis.rules.iter().find(|rule| rule.rule == name)
}

fn is(diagnosis: &DoctorDocument, name: &str, verdict: DoctorVerdict) -> bool {
    rule(diagnosis, name).is_some_and(|rule| rule.verdict == verdict)
}

/// Whether a rule found something for certain that costs that much.
fn found(diagnosis: &DoctorDocument, name: &str, severity: DoctorSeverity) -> bool {
    rule(diagnosis, name).is_some_and(|rule| rule.severity == Some(severity) && rule.certain == Some(true))
}

/// What every rule says, without the figures.
fn verdicts(diagnosis: &DoctorDocument) -> Vec<(&str, DoctorVerdict, Option<DoctorSeverity>, Option<bool>)> {
    diagnosis.rules.iter().map(|rule| (rule.rule.as_str(), rule.verdict, rule.severity, rule.certain)).collect()
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "doctor",
    fit: |board| board.asked_for("doctor") && board.arm_counter.is_some(),
    plants: &[
        Plant { what: "nothing is in the way", change: |it| it.set_lines(".doctor.err", "status 1", "status 0") },
        Plant { what: "a plain user is told what root is", change: |it| it.copy(".doctor", ".doctor-plain") },
        Plant { what: "no CPU was named", change: |it| it.copy(".doctor", ".doctor-cpu") },
        Plant { what: "the capture is of a live machine", change: |it| it.copy(".doctor", ".doctor-captured") },
        Plant { what: "/proc and /sys are there", change: |it| it.copy(".doctor", ".doctor-bare") },
        Plant {
            what: "nothing is certain",
            change: |it| it.replace(".doctor.out", "\"certain\": true", "\"certain\": false"),
        },
        Plant {
            what: "a plain user meets minor problems only",
            change: |it| it.replace(".doctor-plain.out", "\"major\"", "\"minor\""),
        },
        Plant {
            what: "the capture has other verdicts",
            change: |it| it.replace(".doctor-captured.out", "\"not-here\"", "\"fine\""),
        },
        Plant {
            what: "a rule says nothing",
            change: |it| {
                it.document(".doctor", |it: &mut DoctorDocument| {
                    it.rules.iter_mut().for_each(|rule| rule.seen.clear());
                });
            },
        },
        Plant {
            what: "what was found has no remedy",
            change: |it| {
                it.document(".doctor", |it: &mut DoctorDocument| {
                    it.rules.iter_mut().for_each(|rule| rule.remedies.clear());
                });
            },
        },
        Plant { what: "one CPU is expected", change: |it| it.board.cores = 1 },
        Plant { what: "another clock source is expected", change: |it| it.board.clock_source = "timer".to_owned() },
        Plant { what: "the bare one ended by a signal", change: |it| it.status(".doctor-bare", 139) },
    ],
}];
