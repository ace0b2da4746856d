//! Late wake-ups are divided among their causes, which a program or a module injects. Nothing is left
//! in tracefs.

use hpt_document::{
    explain::{CauseKind, ExplainedPart, ExplainedSample, Explanation},
    wake_latency::WakeLatencyDocument,
};

use crate::judge::{
    case::{Case, Judged, code_of},
    plant::{Plant, Planted, Plants},
};

/// The smallest number of caused samples that proves something.
const FEWEST: usize = 20;
/// The largest part that may be unexplained, in nanoseconds, if it is more than a tenth.
const UNEXPLAINED_NS: u64 = 5_000;

/// A cause that the guest injects.
struct Injector {
    step: &'static str,
    /// Returns whether a part names this cause, whose process or interrupt has this number.
    names: fn(&ExplainedPart, Option<u32>) -> bool,
}

const INJECTORS: [Injector; 3] = [
    Injector {
        step: "hog",
        names: |part, pid| part.kind == CauseKind::Thread && part.name.as_deref() == Some("hog") && part.pid == pid,
    },
    Injector {
        step: "irqs_off",
        names: |part, _| {
            let is_thread = part.name.as_deref().is_some_and(|name| name.starts_with("irqs_off/"));
            are_interrupts_off(part.kind) && is_thread
        },
    },
    Injector {
        step: "irq_flood",
        names: |part, irq| {
            part.kind == CauseKind::HardInterrupt && part.name.as_deref() == Some("irq_flood") && part.irq == irq
        },
    },
];

/// Returns whether a part names interrupts that were off. An emulated x86-64 machine states that it is virtual, and
/// counts no steal time, so that hpt cannot exclude its host there.
fn are_interrupts_off(kind: CauseKind) -> bool {
    matches!(kind, CauseKind::InterruptsOff | CauseKind::InterruptsOffOrHost)
}

/// The injections that the guest printed.
#[derive(Debug, Default)]
pub(super) struct Injected {
    /// The process ID of the program, or the number of the interrupt.
    number: Option<u32>,
    /// The beginnings and the ends, on CLOCK_MONOTONIC.
    times: Vec<(u64, u64)>,
}

impl Injected {
    pub(super) fn read(said: &str) -> Self {
        let mut injected = Self::default();
        for line in said.lines().filter_map(|line| line.strip_prefix("injected ")) {
            match line.split_once(' ') {
                Some(("pid" | "irq", number)) => injected.number = number.parse().ok(),
                Some((begin, end)) => {
                    if let (Ok(begin), Ok(end)) = (begin.parse(), end.parse()) {
                        injected.times.push((begin, end));
                    }
                }
                None => {}
            }
        }
        injected
    }

    pub(super) fn has_times(&self) -> bool {
        !self.times.is_empty()
    }

    /// Returns how long injections lasted during the latency of a sample, in nanoseconds.
    pub(super) fn during(&self, sample: &ExplainedSample) -> u64 {
        let (from, to) = (sample.deadline_ns, sample.deadline_ns + sample.latency_ns);
        self.times.iter().map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).sum()
    }

    /// Returns the samples of which injections took more than half, and those without injections.
    fn divide<'a>(&self, samples: &'a [ExplainedSample]) -> (Vec<&'a ExplainedSample>, Vec<&'a ExplainedSample>) {
        let caused = samples.iter().filter(|sample| self.during(sample) * 2 > sample.latency_ns).collect();
        let others = samples.iter().filter(|sample| self.during(sample) == 0).collect();
        (caused, others)
    }
}

pub(super) fn judge(case: &Case<'_>) {
    let step = format!("{}.explain", case.board.first_build());
    for injector in &INJECTORS {
        judge_injector(case, &format!("{step}-{}", injector.step), injector);
    }
    if let Some(timer) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-nothing")) {
        judge_parts(&timer);
        timer.holds("no injector is named if none is active", |it| {
            let mut parts = it.explanation.explained.iter().flat_map(|sample| &sample.parts);
            !parts.any(|part| INJECTORS.iter().any(|injector| (injector.names)(part, part.pid.or(part.irq))))
        });
    }
    for (without, reason) in [("plain", "an unprivileged user"), ("unmounted", "a machine without a mounted tracefs")] {
        if let Some(timer) = case.ended_with::<WakeLatencyDocument>(&format!("{step}-{without}")) {
            timer.holds(&format!("{reason} gets all samples, the reason why none is explained, and a fix"), |it| {
                it.results.first().is_some_and(|row| row.figures.samples.checked_sub(row.figures.missed) == Some(20))
                    && it
                        .explanation
                        .explain
                        .as_ref()
                        .is_some_and(|explain| !explain.available && explain.reason.is_some() && explain.fix.is_some())
                    && it.explanation.explained.is_empty()
                    && it.explanation.causes.is_empty()
            });
        }
    }
    for signal in ["INT", "TERM", "HUP"] {
        case.said_all(
            &format!("{step}-{signal}"),
            &format!("during: changed;status {};after: as before", code_of(signal)),
        );
    }
    case.said_all(&format!("{step}-KILL"), "during: changed;status 137;after: changed;restored 0;after: as before");
}

fn judge_injector(case: &Case<'_>, step: &str, injector: &Injector) {
    let Some(timer) = case.ended_with::<WakeLatencyDocument>(step) else { return };
    let injected = Injected::read(case.err(step));
    let (caused, others) = injected.divide(&timer.explanation.explained);
    let named = |samples: &[&ExplainedSample]| {
        let largest = samples.iter().filter_map(|sample| sample.parts.first());
        largest.filter(|part| (injector.names)(part, injected.number)).count()
    };
    let of_100 = |count: usize, all: usize| count * 100 >= all * 95;
    timer.holds(&format!("at least {FEWEST} samples were caused by {}", injector.step), |_| caused.len() >= FEWEST);
    timer.holds("the largest part of 95 of 100 caused samples names the cause", |_| {
        of_100(named(&caused), caused.len())
    });
    timer.holds("the largest part of 95 of 100 other samples does not name it", |_| {
        of_100(others.len() - named(&others), others.len())
    });
    timer.holds("at most a tenth or 5 µs of 95 of 100 caused samples is unexplained", |_| {
        of_100(caused.iter().filter(|sample| is_explained(sample)).count(), caused.len())
    });
    timer.holds("the causes of the run contain it", |it| {
        it.explanation.causes.iter().any(|cause| match cause.kind {
            CauseKind::Thread => cause.pid == injected.number,
            CauseKind::HardInterrupt => cause.irq.is_some() && cause.irq == injected.number,
            kind => are_interrupts_off(kind) && injected.number.is_none(),
        })
    });
    judge_parts(&timer);
    case.shown(format!("{}: {} of {} named", injector.step, named(&caused), caused.len()));
}

fn is_explained(sample: &ExplainedSample) -> bool {
    let unexplained = sample.parts.iter().filter(|part| part.kind == CauseKind::Unexplained);
    let unexplained: u64 = unexplained.map(|part| part.duration_ns).sum();
    unexplained <= UNEXPLAINED_NS.max(sample.latency_ns / 10)
}

fn judge_parts(timer: &Judged<'_, WakeLatencyDocument>) {
    timer.holds("the kernel's trace was recorded", |it| {
        it.explanation.explain.as_ref().is_some_and(|explain| explain.available && explain.reason.is_none())
    });
    timer.holds("the parts of each sample add up to its latency, largest first", |it| {
        it.explanation.explained.iter().all(|sample| {
            sample.parts.iter().map(|part| part.duration_ns).sum::<u64>() == sample.latency_ns
                && sample.parts.is_sorted_by(|one, next| one.duration_ns >= next.duration_ns)
        })
    });
    timer.holds("the samples are sorted, the worst first", |it| {
        it.explanation.explained.is_sorted_by(|one, next| one.latency_ns >= next.latency_ns)
    });
}

/// Changes the explanation that the step printed.
fn explanation(it: &mut Planted, step: &str, change: impl FnOnce(&mut Explanation)) {
    it.document(step, |it: &mut WakeLatencyDocument| change(&mut it.explanation));
}

fn parts(it: &mut Planted, step: &str, change: impl FnMut(&mut ExplainedPart)) {
    explanation(it, step, |it| it.explained.iter_mut().flat_map(|sample| &mut sample.parts).for_each(change));
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "explain",
    fit: |board| board.asked_for("explain"),
    plants: &[
        Plant {
            what: "the hog has another process ID",
            change: |it| parts(it, ".explain-hog", |part| part.pid = part.pid.map(|pid| pid + 1)),
        },
        Plant {
            what: "another thread is named for the hog",
            change: |it| parts(it, ".explain-hog", |part| part.name = Some("ksoftirqd/1".to_owned())),
        },
        Plant {
            what: "interrupts that were off count as a late timer",
            change: |it| {
                parts(it, ".explain-irqs_off", |part| {
                    if are_interrupts_off(part.kind) {
                        part.kind = CauseKind::TimerDelivery;
                    }
                });
            },
        },
        Plant {
            what: "the interrupt has another number",
            change: |it| parts(it, ".explain-irq_flood", |part| part.irq = part.irq.map(|irq| irq + 1)),
        },
        Plant {
            what: "the interrupt is nested in that of the timer",
            change: |it| parts(it, ".explain-irq_flood", |part| part.name = Some("local_timer".to_owned())),
        },
        Plant {
            what: "the hog was active at another time",
            change: |it| {
                it.lines(".explain-hog.err", |_, line| {
                    let times = line.strip_prefix("injected ").and_then(|rest| rest.split_once(' '));
                    let times = times.filter(|(begin, _)| begin.bytes().all(|digit| digit.is_ascii_digit()));
                    Some(times.map_or_else(|| line.to_owned(), |(begin, end)| format!("injected 9{begin} 9{end}")))
                });
            },
        },
        Plant { what: "the hog was never active", change: |it| it.put(".explain-hog.err", "injected pid 1\n") },
        Plant {
            what: "a fifth of each sample is unexplained",
            change: |it| {
                explanation(it, ".explain-irqs_off", |it| {
                    for sample in &mut it.explained {
                        let (fifth, mut rest) = (sample.latency_ns / 5, sample.latency_ns / 5);
                        let mut unexplained = sample.parts[0].clone();
                        for part in &mut sample.parts {
                            let taken = part.duration_ns.min(rest);
                            part.duration_ns -= taken;
                            rest -= taken;
                        }
                        (unexplained.kind, unexplained.duration_ns) = (CauseKind::Unexplained, fifth);
                        sample.parts.push(unexplained);
                        sample.parts.sort_by_key(|part| std::cmp::Reverse(part.duration_ns));
                    }
                });
            },
        },
        Plant {
            what: "the parts of a sample do not add up to its latency",
            change: |it| explanation(it, ".explain-hog", |it| it.explained[0].parts[0].duration_ns -= 1),
        },
        Plant {
            what: "the worst sample comes last",
            change: |it| explanation(it, ".explain-hog", |it| it.explained.rotate_left(1)),
        },
        Plant {
            what: "the causes of the run do not contain the hog",
            change: |it| explanation(it, ".explain-hog", |it| it.causes.retain(|it| it.kind != CauseKind::Thread)),
        },
        Plant {
            what: "a hog is named that did not run",
            change: |it| {
                parts(it, ".explain-nothing", |part| {
                    (part.kind, part.name, part.pid) = (CauseKind::Thread, Some("hog".to_owned()), Some(1));
                });
            },
        },
        Plant { what: "the trace was not recorded", change: |it| it.copy(".explain-plain", ".explain-nothing") },
        Plant {
            what: "no fix is reported for an unprivileged user",
            change: |it| {
                explanation(it, ".explain-plain", |it| it.explain.iter_mut().for_each(|it| it.fix = None));
            },
        },
        Plant {
            what: "no reason is reported without tracefs",
            change: |it| {
                explanation(it, ".explain-unmounted", |it| it.explain.iter_mut().for_each(|it| it.reason = None));
            },
        },
        Plant {
            what: "an instance is left after SIGTERM",
            change: |it| it.set_lines(".explain-TERM.out", "after: ", "after: changed"),
        },
        Plant {
            what: "the run with SIGINT used no instance",
            change: |it| it.leave_out(".explain-INT.out", "during: "),
        },
        Plant {
            what: "an instance was not removed after SIGKILL",
            change: |it| it.set_lines(".explain-KILL.out", "restored ", "restored 1"),
        },
    ],
}];

#[cfg(test)]
mod tests {
    use super::{CauseKind, ExplainedPart, ExplainedSample, INJECTORS, Injected, is_explained};

    fn sample(deadline_ns: u64, parts: &[(CauseKind, &str, u64)]) -> ExplainedSample {
        let part = |(kind, name, duration_ns): &(CauseKind, &str, u64)| ExplainedPart {
            kind: *kind,
            name: Some((*name).to_owned()),
            pid: Some(7),
            kernel: None,
            boosted: false,
            inherits_from: None,
            doubt: None,
            after: None,
            longest_ns: None,
            policy: None,
            priority: None,
            irq: None,
            function: None,
            stack: Vec::new(),
            idle_state: None,
            count: 1,
            at_ns: 0,
            duration_ns: *duration_ns,
        };
        let parts: Vec<_> = parts.iter().map(part).collect();
        let latency_ns = parts.iter().map(|part| part.duration_ns).sum();
        ExplainedSample {
            cpu: Some(1),
            thread: 8,
            deadline_ns,
            latency_ns,
            complete: true,
            parts,
            timeline: Vec::new(),
        }
    }

    #[test]
    fn a_sample_is_caused_by_injections_that_took_more_than_half_of_it() {
        let injected = Injected::read("note\ninjected pid 7\ninjected 100 200\ninjected 300 400\n");
        assert_eq!(injected.number, Some(7));
        let samples = [
            sample(150, &[(CauseKind::Thread, "hog", 60)]),
            sample(90, &[(CauseKind::Thread, "hog", 300)]),
            sample(200, &[(CauseKind::Thread, "hog", 99)]),
        ];
        assert_eq!(samples.iter().map(|it| injected.during(it)).collect::<Vec<_>>(), [50, 190, 0]);
        let (caused, others) = injected.divide(&samples);
        assert_eq!((caused.len(), others.len()), (2, 1));
    }

    #[test]
    fn a_cause_is_named_by_its_kind_name_and_number() {
        let hog = sample(0, &[(CauseKind::Thread, "hog", 60)]).parts;
        assert!((INJECTORS[0].names)(&hog[0], Some(7)));
        assert!(!(INJECTORS[0].names)(&hog[0], Some(8)) && !(INJECTORS[1].names)(&hog[0], None));
        for (kind, is_named) in [
            (CauseKind::InterruptsOff, true),
            (CauseKind::InterruptsOffOrHost, true),
            (CauseKind::TimerDelivery, false),
            (CauseKind::Thread, false),
        ] {
            let off = sample(0, &[(kind, "irqs_off/1", 60)]).parts;
            assert_eq!((INJECTORS[1].names)(&off[0], None), is_named, "{kind:?}");
        }
    }

    #[test]
    fn a_tenth_or_5_us_may_be_unexplained() {
        let with = |hog: u64, rest: u64| {
            is_explained(&sample(0, &[(CauseKind::Thread, "hog", hog), (CauseKind::Unexplained, "", rest)]))
        };
        assert!(with(1_000, 5_000) && with(900_000, 100_000));
        assert!(!with(1_000, 5_001) && !with(899_000, 101_000));
    }
}
