//! Root reads the counters of a SoC without a generic timer; for others, the reason and a fix are reported.

use hpt_document::{bench::BenchDocument, calibrate::CalibrateDocument, probe::ProbeDocument};

use crate::judge::{
    board::SocCounter,
    case::{Case, Judged, runs_at, source},
    plant::{Plant, Plants},
};

/// The only counter that `Instant` can follow.
pub(super) const WIDE: &str = "a9-global-timer";

pub(super) fn judge(case: &Case<'_>) {
    let counters = &case.board.soc_counters;
    for build in &case.board.builds {
        let step = |name: &str| format!("{build}.soc{name}");
        if let Some(probe) = case.ended_with::<ProbeDocument>(&step("")) {
            counters.iter().for_each(|counter| judge_root(&probe, counter));
        }
        if let Some(probe) = case.ended_with::<ProbeDocument>(&step("-plain")) {
            counters.iter().for_each(|counter| judge_plain(&probe, counter));
        }
        for (id, why) in &case.board.soc_refused {
            let step = step(&format!("-refused-{id}"));
            let said = case.err(&step);
            if case.ended(&step) && (!said.contains(why.as_str()) || said.contains("status 0")) {
                case.wrong(format!("{step}: expected a refusal because of {why}: {said}"));
            }
            case.shown(format!("{id} is refused"));
        }
        if counters.is_empty() {
            continue;
        }
        if let Some(rates) = case.ended_with::<CalibrateDocument>(&step("-rates")) {
            for SocCounter { id, hz, .. } in counters {
                rates.holds(&format!("{id} runs at {hz} Hz"), |it| {
                    it.calibrations.iter().any(|row| row.source == *id && runs_at(row, *hz as f64))
                });
                case.shown(format!("{id} {hz} Hz"));
            }
        }
        if let Some(bench) = case.ended_with::<BenchDocument>(&step("-bench")) {
            counters.iter().for_each(|counter| judge_bench(case, &bench, &counter.id));
        }
        if case.ended(&step("-watch")) {
            if let Some(watch) = case.watched(&step("-watch")) {
                watch.holds("each counter was watched, and none is faulty", |it| {
                    !it.faulty && counters.iter().all(|counter| it.sources.iter().any(|row| row.source == counter.id))
                });
            }
        }
        case.ended(&step("-cost"));
        case.ended(&step("-live"));
        judge_instants(case, &step("-instants"));
    }
}

fn judge_root(probe: &Judged<'_, ProbeDocument>, counter: &SocCounter) {
    let id = &counter.id;
    probe.holds(&format!("root reads {id} from /dev/mem"), |it| {
        source(it, id).is_some_and(|row| {
            row.available && row.evidence.iter().any(|line| line.ends_with("mapped read-only from /dev/mem"))
        })
    });
    probe.holds(&format!("{id} is the kernel's clocksource: {}", counter.is_the_kernels), |it| {
        let is_current = "this counter is the kernel's current clocksource";
        source(it, id).is_some_and(|row| (row.kernel_evidence == is_current) == counter.is_the_kernels)
    });
}

fn judge_plain(probe: &Judged<'_, ProbeDocument>, SocCounter { id, .. }: &SocCounter) {
    probe.holds(&format!("an unprivileged user cannot read {id}, and a fix is reported"), |it| {
        source(it, id).is_some_and(|row| {
            !row.available && row.reason_kind.as_deref() == Some("no-permission") && row.fix.is_some()
        })
    });
    if [WIDE, "sun4i-timer"].contains(&id.as_str()) {
        probe.holds("it is for root only, because of the other registers in its page", |it| {
            source(it, id).is_some_and(|row| row.reason.as_ref().is_some_and(|why| why.contains("only root may map")))
        });
    }
}

fn judge_bench(case: &Case<'_>, bench: &Judged<'_, BenchDocument>, id: &str) {
    let cost = |id: &str| bench.results.iter().find(|row| row.id == id).and_then(|row| row.repeated.per_read_ns);
    let ratio = cost("monotonic").zip(cost(id)).map(|(kernel_ns, counter_ns)| kernel_ns / counter_ns);
    bench.holds(&format!("{id} was read repeatedly, beside the kernel's clock"), |_| ratio.is_some());
    if let Some(ratio) = ratio {
        case.shown(format!("clock_gettime takes {ratio:.1} times as long as {id}"));
    }
}

/// Judges the last line of the test, which states the source, the readings, the largest error and the stated bound. If
/// time advances with instructions, the kernel's clock is read fast enough to be bracketed on every host.
pub(super) fn judge_instants(case: &Case<'_>, step: &str) {
    if !case.ended(step) {
        return;
    }
    let is_wide = case.board.soc_counters.iter().any(|counter| counter.id == WIDE);
    let source = if is_wide { WIDE } else { "monotonic" };
    match case.out(step).lines().find(|line| line.starts_with(&format!("instants: {source}, "))) {
        Some(line) if is_wide && case.board.counts_instructions && line.ends_with(", 0 segments") => {
            case.wrong(format!("{step}: Instant did not follow {source}: {line}"));
        }
        Some(line) => case.shown(line.to_owned()),
        None => case.wrong(format!("{step}: Instant did not read {source} for a minute")),
    }
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "counters of a SoC",
        fit: |board| board.asked_for("soc") && !board.soc_refused.is_empty() && !board.soc_counters.is_empty(),
        plants: &[
            Plant { what: "an unprivileged user gets the probe of root", change: |it| it.copy(".soc", ".soc-plain") },
            Plant { what: "root gets the probe of an unprivileged user", change: |it| it.copy(".soc-plain", ".soc") },
            Plant {
                what: "another rate is expected",
                change: |it| it.board.soc_counters.iter_mut().for_each(|counter| counter.hz += counter.hz / 20),
            },
            Plant {
                what: "the kernel is expected to use another counter",
                change: |it| {
                    it.board.soc_counters.iter_mut().for_each(|one| one.is_the_kernels = !one.is_the_kernels);
                },
            },
            Plant {
                what: "another reason is expected",
                change: |it| it.board.soc_refused.iter_mut().for_each(|(_, why)| *why = "the moon".to_owned()),
            },
            Plant {
                what: "a counter was not read repeatedly",
                change: |it| it.document(".soc-bench", |it: &mut BenchDocument| it.results.truncate(1)),
            },
            Plant { what: "a counter is faulty", change: |it| it.summary(".soc-watch", |it| it.faulty = true) },
            Plant { what: "the experiment ended by a signal", change: |it| it.status(".soc-cost", 139) },
            Plant { what: "a live test failed", change: |it| it.status(".soc-live", 101) },
            Plant {
                what: "Instant followed another source",
                change: |it| it.replace(".soc-instants.out", "instants: ", "instants: tsc, not "),
            },
        ],
    },
    Plants {
        about: "the global timer, for root only",
        fit: |board| board.asked_for("soc") && board.soc_counters.iter().any(|one| one.id == WIDE),
        plants: &[Plant {
            what: "another reason is reported",
            change: |it| it.replace(".soc-plain.out", "only root may map", "anyone may map"),
        }],
    },
];
