//! The commands of the guides in docs/howto give the result that the guides promise, on a machine that is set up as
//! they say, with and without a delegated cpuset.

use hpt_document::{
    bench::BenchDocument,
    calibrate::{CalibrateDocument, CalibrationRow},
    clocksource::ClocksourceDocument,
    clocksource_cost::ClocksourceCostDocument,
    doctor::{DoctorDocument, DoctorVerdict},
    doctor_try::DoctorTryDocument,
    gpio_line::GpioListDocument,
    probe::ProbeDocument,
    restore::RestoreDocument,
    stall::StallDocument,
    thread::Thread,
    wake_latency::WakeLatencyDocument,
};

use crate::judge::{
    case::{Case, Printed},
    guides::{Command, GROUPS, Plan, commands},
    plant::{Plant, Planted, Plants},
    text::{has_line, last_line},
};

/// The rules that the guides say pass for an isolated CPU, or for the whole machine.
const PASS: [&str; 7] =
    ["isolated-cpus", "tick", "rcu-callbacks", "interrupts", "new-interrupts", "parameters-ignored", "preemption"];
/// Sources that this machine lacks.
const ABSENT: [&str; 3] = ["bcm-systimer", "arm-counter", "ptp0"];
/// Devices whose emulated clock the host may slew or step against the guest's.
const DEVICES: [&str; 4] = ["hpet", "hpet-low", "acpi-pm", "rtc0"];

pub(super) fn judge(case: &Case<'_>) {
    let (mut run, mut left) = (0, 0);
    for command in commands() {
        if matches!(command.plan, Plan::NotRun(_)) {
            left += 1;
            continue;
        }
        for group in GROUPS {
            let step = format!("{}.{}", case.board.first_build(), command.step(group));
            run += 1;
            judge_command(case, &step, &command);
        }
    }
    case.shown(format!("{run} commands of the guides run, {left} listed as not run"));
}

/// Judges the exit code of a command, and its document.
fn judge_command(case: &Case<'_>, step: &str, command: &Command) {
    let Command { guide, line, printed, .. } = command;
    let place = || format!("{step} (docs/howto/{guide}.md:{line}: {printed})");
    if !case.ended(step) {
        return;
    }
    let asked = HowtoCommand::of(command);
    let codes = asked.codes();
    if !codes.iter().any(|code| has_line(case.err(step), &format!("status {code}"))) {
        case.wrong(format!("{}: {}, expected {codes:?}", place(), last_line(case.err(step))));
    } else if asked.lacks_something() {
        judge_reason(case, step, &asked);
    } else {
        judge_result(case, step, &asked);
    }
}

/// A command, and how to find what it requests.
struct HowtoCommand<'a> {
    words: Vec<&'a str>,
    printed: &'a str,
}

impl<'a> HowtoCommand<'a> {
    fn of(command: &'a Command) -> Self {
        Self { words: command.words(), printed: &command.printed }
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn value(&self, options: &[&str]) -> Option<&'a str> {
        let place = self.words.iter().position(|word| options.contains(word))?;
        self.words.get(place + 1).copied()
    }

    /// The subcommand: the words before the first option.
    fn subcommand(&self) -> Vec<&'a str> {
        self.words.iter().take_while(|word| !word.starts_with('-')).copied().collect()
    }

    fn cpu(&self) -> Option<usize> {
        self.value(&["-c", "--cpu"])?.parse().ok()
    }

    /// The priority under SCHED_FIFO, if the command requests one.
    fn priority(&self) -> Option<u32> {
        let value = self.value(&["-P", "--priority", "--fifo"])?;
        value.strip_prefix("f:").unwrap_or(value).parse().ok()
    }

    /// Whether this machine lacks a device that the command needs.
    fn lacks_something(&self) -> bool {
        self.has_gpio_line() || !self.is_probe() && self.absent().is_some()
    }

    fn has_gpio_line(&self) -> bool {
        self.words.iter().any(|word| word.starts_with("GPIO"))
    }

    fn is_probe(&self) -> bool {
        self.words.first() == Some(&"probe")
    }

    /// The source in the command that this machine lacks.
    fn absent(&self) -> Option<&'a str> {
        self.words.iter().find(|word| ABSENT.contains(word)).copied()
    }

    /// The exit codes that answer the command here.
    fn codes(&self) -> &'static [u8] {
        if self.lacks_something() {
            &[2, 3]
        } else if self.absent().is_some() || self.has("--list") && self.has("gpio") {
            // No: the source is not available, or no line is listed.
            &[1]
        } else if self.has("--try") {
            // 2: the trial would take too long. 3: no round could be compared.
            &[0, 2, 3]
        } else if self.has("--stop-above") || ["watch", "calibrate"].map(Some).contains(&self.words.first().copied()) {
            // 1: a sample above the limit, or a fault of an emulated device's clock.
            &[0, 1]
        } else {
            &[0]
        }
    }
}

/// Judges that the message names what is missing.
fn judge_reason(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>) {
    let named = asked.absent().unwrap_or("GPIO");
    if !case.err(step).contains(named) || !case.err(step).contains("hpt: error: ") {
        case.wrong(format!("{step}: no reason that names {named}: {}", case.err(step)));
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each command")]
fn judge_result(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>) {
    match asked.subcommand()[..] {
        ["latency", "timer" | "poll", ..] => {
            if let Some(result) = case.document::<WakeLatencyDocument>(step) {
                result.holds(&settings(asked), |it| ran_as(asked, &it.measuring.thread, case.board.cores - 1));
                result.holds("it has samples", |it| it.results.iter().all(|row| row.figures.samples > 0));
            }
        }
        ["latency", "stall", ..] => {
            if let Some(result) = case.document::<StallDocument>(step) {
                result.holds(&settings(asked), |it| ran_as(asked, &it.measuring.thread, case.board.cores - 1));
                result.holds("it has a result", |it| it.results.iter().all(|row| row.elapsed_ns > 0));
            }
        }
        ["latency", "gpio", ..] => {
            is::<GpioListDocument>(case, step, "no chip, because the board has none", |it| it.lines.is_empty());
        }
        // A busy host is too slow for a trial of this length, which hpt must say.
        ["doctor", ..] if asked.has("--try") && has_line(case.err(step), "status 2") => {
            says(case, step, "is too short for 1 fix");
        }
        ["doctor", ..] if asked.has("--try") => {
            is::<DoctorTryDocument>(case, step, "it tried the fix on the CPU, and did not keep it", |it| {
                Some(it.cpu) == asked.cpu() && !it.results.is_empty() && it.results.iter().all(|tried| !tried.keep)
            });
        }
        ["doctor", ref rules @ ..] => judge_doctor(case, step, asked, rules),
        ["probe", ..] => judge_probe(case, step, asked),
        ["bench", ..] => is::<BenchDocument>(case, step, "it measured sources", |it| !it.results.is_empty()),
        ["calibrate", ..] => is::<CalibrateDocument>(case, step, "every source but devices is calibrated", |it| {
            let is_so = |row: &CalibrationRow| {
                row.calibrated || DEVICES.contains(&row.source.as_str()) && row.failure.is_some()
            };
            it.calibrations.iter().filter(|row| row.calibrated).count() > 5 && it.calibrations.iter().all(is_so)
        }),
        ["clocksource", "compare", ..] => {
            is::<ClocksourceCostDocument>(case, step, "several clocksources, and the first is active again", |it| {
                it.requested.len() > 1 && it.refused.is_empty() && it.after.as_ref() == Some(&it.before)
            });
        }
        ["clocksource", "set", name, ..] => {
            is::<ClocksourceCostDocument>(case, step, "the clocksource is set", |it| it.after.as_deref() == Some(name));
        }
        ["clocksource", ..] => {
            is::<ClocksourceDocument>(case, step, "the current clocksource is the expected one", |it| {
                it.sources.iter().any(|row| row.current && row.name == case.board.clock_source)
            });
        }
        ["watch", ..] => {
            if let Some(summary) = case.watched(step) {
                summary.holds("it watched sources for an interval", |it| it.intervals >= 1 && !it.sources.is_empty());
            }
        }
        ["restore", ..] => {
            is::<RestoreDocument>(case, step, "every run restored its settings", |it| it.settings.is_empty());
        }
        ["run", ..] => judge_run(case, step, asked),
        ["report", ..] => says(case, step, ".html"),
        ["compare", ..] => says(case, step, "These two runs"),
        ["capture", file, ..] => says(case, step, file),
        // Not hpt, or `hpt` alone.
        [] => judge_text(case, step, asked),
        _ => case.wrong(format!("{step}: nothing judges the result of {}", asked.printed)),
    }
}

/// Judges one condition of the document that a command prints.
fn is<D: Printed>(case: &Case<'_>, step: &str, what: &str, is_so: impl FnOnce(&D) -> bool) {
    if let Some(document) = case.document::<D>(step) {
        document.holds(what, is_so);
    }
}

fn settings(asked: &HowtoCommand<'_>) -> String {
    format!("it ran with the settings of: {}", asked.printed)
}

/// Whether a thread had every setting that the command requests. Without --cpu, it ran on the isolated CPU.
fn ran_as(asked: &HowtoCommand<'_>, thread: &Thread, isolated: usize) -> bool {
    let runtime_us = thread.bandwidth.as_ref().map(|bandwidth| bandwidth.runtime_us);
    thread.cpus == [asked.cpu().unwrap_or(isolated)]
        && thread.refused.is_empty()
        && thread.priority == asked.priority()
        && thread.policy.as_deref() == Some(if asked.priority().is_some() { "fifo" } else { "other" })
        && (!asked.has("--mlockall") || thread.locked_bytes.is_some_and(|bytes| bytes > 0))
        && (!asked.has("--dma-latency") || thread.wake_latency_us == Some(0))
        && (!asked.has("--governor") || thread.governors == ["performance"])
        && (runtime_us == Some(-1)) == asked.has("--no-throttling")
}

/// Judges the verdicts. The guides name the rules that must pass; with named rules, it is all of them.
fn judge_doctor(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>, named: &[&str]) {
    // A line with jq prints some rules only.
    if asked.printed.contains("| jq") {
        let rules = case.out(step).matches("\"rule\":").count();
        if rules != 3 {
            case.wrong(format!("{step}: {rules} rules, expected 3"));
        }
        return;
    }
    let Some(diagnosis) = case.document::<DoctorDocument>(step) else { return };
    let verdict = |name: &str| diagnosis.rules.iter().find(|rule| rule.rule == name).map(|rule| rule.verdict);
    let expected: &[&str] = if !named.is_empty() {
        named
    } else if asked.cpu().is_some() {
        &PASS
    } else {
        &[]
    };
    for rule in expected {
        if verdict(rule) != Some(DoctorVerdict::Pass) {
            case.wrong(format!("{step}: {}: {rule} is {:?}, expected a pass", asked.printed, verdict(rule)));
        }
    }
    diagnosis.holds("it is for the named CPU, with every named rule", |it| {
        it.cpu == asked.cpu() && if named.is_empty() { it.rules.len() > 30 } else { it.rules.len() == named.len() }
    });
}

fn judge_probe(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>) {
    let Some(probe) = case.document::<ProbeDocument>(step) else { return };
    match asked.absent() {
        Some(absent) => probe.holds("the source is not available, for a reason", |it| {
            it.sources.iter().any(|row| row.id == absent && !row.available && row.reason.is_some())
        }),
        None => probe.holds("it has sources, and recommends one", |it| {
            it.sources.len() > 10 && it.recommendation.source.is_some()
        }),
    }
}

/// Judges what a program saw that `hpt run` started: its CPUs, and its priority and policy.
fn judge_run(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>) {
    let mut lines = case.out(step).lines();
    let (cpus, policy) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let priority = asked.priority().unwrap_or_default();
    if asked.cpu().is_some_and(|cpu| cpus != cpu.to_string()) || policy != format!("{priority} 1") {
        case.wrong(format!("{step}: the program ran on CPUs {cpus} with {policy}: {}", asked.printed));
    }
}

fn says(case: &Case<'_>, step: &str, text: &str) {
    if !case.out(step).contains(text) && !case.err(step).contains(text) {
        case.wrong(format!("{step}: it does not mention {text}"));
    }
}

fn judge_text(case: &Case<'_>, step: &str, asked: &HowtoCommand<'_>) {
    let expected = match asked.printed.split(' ').next() {
        Some("uname") => "PREEMPT_RT",
        Some("cat") => "3\n3",
        Some("awk") => " % under 3 µs",
        // They print nothing.
        Some("tar" | "sudo") => return,
        _ => "hpt",
    };
    says(case, step, expected);
}

/// Returns the step of the first command with these words, in the control group with a cpuset. It begins with a dot.
fn step_of(beginning: &str) -> String {
    let found =
        commands().into_iter().find(|one| matches!(one.plan, Plan::Run(_)) && one.printed.starts_with(beginning));
    format!(".{}", found.expect("a guide has the command").step("delegated"))
}

const TIMER: &str = "sudo hpt latency timer --cpu 3 -P f:80 --mlockall --dma-latency 0 --governor performance";

/// Changes the settings of the thread in the result of a command of the guides.
fn thread(it: &mut Planted, change: impl FnOnce(&mut Thread)) {
    it.document(&step_of(TIMER), |it: &mut WakeLatencyDocument| change(&mut it.measuring.thread));
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "guides",
    fit: |board| board.asked_for("howto"),
    plants: &[
        Plant { what: "a command did not end", change: |it| it.never_ended(&step_of("hpt watch")) },
        Plant {
            what: "a command panicked",
            change: |it| it.append(&format!("{}.err", step_of("hpt probe --all")), "panicked at x.rs:1"),
        },
        Plant {
            what: "a named CPU is refused",
            change: |it| it.set_lines(&format!("{}.err", step_of("hpt latency timer --cpu 3")), "status ", "status 2"),
        },
        Plant { what: "the thread ran on another CPU", change: |it| thread(it, |thread| thread.cpus = vec![2]) },
        Plant { what: "the thread had another priority", change: |it| thread(it, |thread| thread.priority = Some(79)) },
        Plant {
            what: "the thread had no real-time policy",
            change: |it| thread(it, |thread| thread.policy = Some("other".to_owned())),
        },
        Plant { what: "no memory was locked", change: |it| thread(it, |thread| thread.locked_bytes = Some(0)) },
        Plant {
            what: "deep idle states were allowed",
            change: |it| thread(it, |thread| thread.wake_latency_us = Some(2_000_000_000)),
        },
        Plant {
            what: "the governor was another one",
            change: |it| thread(it, |thread| thread.governors = vec!["powersave".to_owned()]),
        },
        Plant {
            what: "throttling was off without a request",
            change: |it| thread(it, |thread| thread.bandwidth.iter_mut().for_each(|it| it.runtime_us = -1)),
        },
        Plant {
            what: "throttling was on",
            change: |it| {
                let step = step_of("sudo hpt latency stall --cpu 3 -P f:80 --no-throttling");
                it.document(&step, |it: &mut StallDocument| {
                    it.measuring.thread.bandwidth.iter_mut().for_each(|it| it.runtime_us = 950_000);
                });
            },
        },
        Plant {
            what: "without --cpu, it ran on CPU 2",
            change: |it| {
                it.document(&step_of("hpt latency poll --duration 10m"), |it: &mut WakeLatencyDocument| {
                    it.measuring.thread.cpus = vec![2];
                });
            },
        },
        Plant {
            what: "the isolated CPU is a problem",
            change: |it| {
                it.document(&step_of("hpt doctor --cpu 3"), |it: &mut DoctorDocument| {
                    let rules = it.rules.iter_mut().filter(|rule| rule.rule == "isolated-cpus");
                    rules.for_each(|rule| rule.verdict = DoctorVerdict::Problem);
                });
            },
        },
        Plant {
            what: "a named rule is missing",
            change: |it| {
                it.document(&step_of("hpt doctor right-to-realtime"), |it: &mut DoctorDocument| _ = it.rules.pop());
            },
        },
        Plant {
            what: "jq found one rule less",
            change: |it| {
                let step = step_of("hpt doctor --format json | jq");
                it.replace(&format!("{step}.out"), "\"rule\": \"temperature\"", "");
            },
        },
        Plant {
            what: "the clocksource was not set",
            change: |it| {
                let step = step_of("sudo hpt clocksource set");
                it.document(&step, |it: &mut ClocksourceCostDocument| it.after = Some("hpet".to_owned()));
            },
        },
        Plant {
            what: "a source that is no device is not calibrated",
            change: |it| {
                it.document(&step_of("sudo ./hpt calibrate"), |it: &mut CalibrateDocument| {
                    let rows = it.calibrations.iter_mut().filter(|row| row.source == "tsc");
                    rows.for_each(|row| row.calibrated = false);
                });
            },
        },
        Plant {
            what: "the first clocksource is not active again",
            change: |it| {
                let step = step_of("sudo hpt clocksource compare");
                it.document(&step, |it: &mut ClocksourceCostDocument| it.after = None);
            },
        },
        Plant {
            what: "a program ran on another CPU",
            change: |it| it.put(&format!("{}.out", step_of("sudo hpt run --cpu 3 -P")), "2\n80 1\n"),
        },
        Plant {
            what: "a program had no real-time policy",
            change: |it| it.put(&format!("{}.out", step_of("sudo hpt run -P f:10")), "2-3\n0 0\n"),
        },
        Plant {
            what: "no reason mentions GPIO",
            change: |it| it.replace(&format!("{}.err", step_of("./hpt latency gpio --output-line")), "GPIO", "it"),
        },
        Plant {
            what: "a source is there that the machine lacks",
            change: |it| {
                it.document(&step_of("hpt probe ptp0"), |it: &mut ProbeDocument| {
                    it.sources.iter_mut().for_each(|row| row.available = true);
                });
            },
        },
        Plant { what: "the counts of awk are missing", change: |it| it.put(&format!("{}.out", step_of("awk ")), "") },
        Plant {
            what: "the kernel is not a real-time kernel",
            change: |it| it.put(&format!("{}.out", step_of("uname -v")), "#1 SMP\n"),
        },
        Plant {
            what: "a setting was left changed",
            change: |it| it.copy(&step_of("hpt doctor"), &step_of("sudo hpt restore")),
        },
        Plant { what: "three processors are expected", change: |it| it.board.cores = 3 },
    ],
}];
