//! `hpt probe` lists every source, for root and for an unprivileged user, and `hpt capture` saves
//! the files that it reads.

use hpt_document::probe::ProbeDocument;

use crate::judge::{
    board::Board,
    case::{Case, Judged, source},
    plant::{Plant, Plants},
    text::{has_line, last_line},
};

const SYSTEM_TIMERS: [&str; 2] = ["bcm-systimer", "bcm-systimer-low"];

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        case.ended(&format!("{build}.probe-human"));
        let root = case.ended_with::<ProbeDocument>(&format!("{build}.probe"));
        let plain = case.ended_with::<ProbeDocument>(&format!("{build}.probe-plain"));
        for probe in root.iter().chain(&plain) {
            judge_either(case.board, probe);
        }
        match &case.board.system_timer {
            None => {
                for probe in root.iter().chain(&plain) {
                    judge_no_system_timer(case.board, probe);
                }
                case.shown("no System Timer");
            }
            Some(address) => {
                if let Some(probe) = &root {
                    judge_system_timer(probe, address);
                }
                if let Some(probe) = &plain {
                    probe.holds("an unprivileged user cannot read the System Timer, and a fix is reported", |it| {
                        let refused = |id| {
                            source(it, id).is_some_and(|row| {
                                !row.available
                                    && row.reason_kind.as_deref() == Some("no-permission")
                                    && row.fix.is_some()
                            })
                        };
                        SYSTEM_TIMERS.into_iter().all(refused)
                    });
                }
                case.shown(format!("System Timer at {address}"));
            }
        }
        judge_capture(case, build);
    }
}

/// Judges what must hold both for root and for an unprivileged user.
fn judge_either(board: &Board, probe: &Judged<'_, ProbeDocument>) {
    probe.holds("the machine is live", |it| it.head.machine.live);
    probe.holds("the machine is reported as emulated", |it| it.head.machine.emulated_by.as_deref() == Some("QEMU"));
    probe.holds(&format!("clocksource {}", board.clock_source), |it| {
        it.head.machine.clocksource.as_deref() == Some(board.clock_source.as_str())
    });
    probe.holds("a source is recommended", |it| it.recommendation.source.is_some());
    probe.holds("a source that cannot be used has a reason", |it| {
        it.sources.iter().all(|row| row.available || (row.reason_kind.is_some() && row.reason.is_some()))
    });
    match board.arm_counter {
        None => probe.holds("no arm-counter", |it| source(it, "arm-counter").is_some_and(|row| !row.available)),
        Some(hz) => {
            probe.holds(&format!("arm-counter at {hz} Hz"), |it| {
                let row = source(it, "arm-counter");
                row.is_some_and(|row| row.available && row.frequency_hz == Some(hz as f64))
            });
            // A judged reading takes longer than the reading itself, but the granularity does not
            // include the judgment. The comparison holds only if other work on the host prolongs
            // neither of them.
            if board.counts_instructions {
                probe.holds("the granularity of arm-counter is at most a read and a tick", |it| {
                    source(it, "arm-counter").is_some_and(|row| {
                        let longest = row.read_cost_ns.zip(row.resolution_ns).map(|(cost, tick)| cost + tick);
                        row.granularity_ns.zip(longest).is_some_and(|(step, longest)| step <= longest)
                    })
                });
            }
        }
    }
    match &board.tsc {
        None => probe.holds("no TSC", |it| source(it, "tsc").is_some_and(|row| !row.available)),
        Some(verdict) => {
            probe.holds(&format!("the kernel's verdict on the TSC is {verdict}, and it is recommended"), |it| {
                source(it, "tsc").is_some_and(|row| row.available && row.kernel_verdict == *verdict)
                    && it.recommendation.source.as_deref() == Some("tsc")
                    && it.instant.as_ref().is_some_and(|instant| instant.source == "tsc")
            });
        }
    }
}

fn judge_no_system_timer(board: &Board, probe: &Judged<'_, ProbeDocument>) {
    probe.holds("no System Timer, because the device tree has none, or because the architecture is x86", |it| {
        let refused = |id| {
            source(it, id).is_some_and(|row| match row.reason_kind.as_deref() {
                Some("no-device") => row.reason.as_ref().is_some_and(|reason| reason.contains("device tree has no")),
                Some("other-architecture") => board.architecture == "amd64",
                _ => false,
            })
        };
        SYSTEM_TIMERS.into_iter().all(refused)
    });
}

fn judge_system_timer(probe: &Judged<'_, ProbeDocument>, address: &str) {
    for (id, bits) in SYSTEM_TIMERS.into_iter().zip([64, 32]) {
        probe.holds(&format!("{id} at {address}"), |it| {
            source(it, id).is_some_and(|row| {
                let place = format!("registers at {address}");
                row.available && row.width_bits == Some(bits) && row.evidence.iter().any(|line| line.ends_with(&place))
            })
        });
    }
}

/// Judges the capture of the board, which `scripts/test-boards` saves as a file with the answers.
fn judge_capture(case: &Case<'_>, build: &str) {
    let step = format!("{build}.capture");
    let ended = case.ended(&step);
    let capture = case.answers.file(&step).filter(|text| ended && !text.is_empty());
    let Some(capture) = capture else {
        case.wrong(format!("{step}: there is no capture"));
        return;
    };
    if !has_line(capture, "facts") {
        case.wrong(format!("{step}: the capture has no facts"));
    }
    if last_line(capture) != "end" {
        case.wrong(format!("{step}: the capture is truncated"));
    }
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "probe",
        fit: |board| board.asked_for("probe") && board.system_timer.is_some() && board.arm_counter.is_some(),
        plants: &[
            Plant {
                what: "the System Timer is expected at another address",
                change: |it| it.board.system_timer = Some("0x10003000".to_owned()),
            },
            Plant {
                what: "another rate of arm-counter is expected",
                change: |it| it.board.arm_counter = Some(1_000_000),
            },
            Plant { what: "the probe did not complete", change: |it| it.never_ended(".probe") },
            Plant {
                what: "an unprivileged user gets the probe of root",
                change: |it| it.copy(".probe", ".probe-plain"),
            },
            Plant {
                what: "an unprivileged user gets another reason",
                change: |it| it.replace(".probe-plain.out", "no-permission", "unknown"),
            },
            Plant {
                what: "an unprivileged user's probe does not report an emulated machine",
                change: |it| it.document(".probe-plain", |it: &mut ProbeDocument| it.head.machine.emulated_by = None),
            },
            Plant { what: "the capture is truncated", change: |it| it.leave_out(".capture", "end") },
            Plant { what: "the capture has no facts", change: |it| it.leave_out(".capture", "facts") },
            Plant { what: "there is no capture", change: |it| it.put(".capture", "") },
        ],
    },
    Plants {
        about: "probe with time that advances with instructions",
        fit: |board| board.asked_for("probe") && board.counts_instructions && board.arm_counter.is_some(),
        plants: &[Plant {
            what: "the granularity is larger than a read and a tick",
            change: |it| {
                it.document(".probe", |it: &mut ProbeDocument| {
                    for row in &mut it.sources {
                        let longest = row.read_cost_ns.zip(row.resolution_ns).map(|(cost, tick)| cost + tick);
                        row.granularity_ns = longest.map(|longest| longest + 1.0);
                    }
                });
            },
        }],
    },
    Plants {
        about: "probe of a PC",
        fit: |board| board.asked_for("probe") && board.tsc.is_some(),
        plants: &[
            Plant { what: "no TSC is expected", change: |it| it.board.tsc = None },
            Plant { what: "an arm-counter is expected", change: |it| it.board.arm_counter = Some(1_000_000) },
        ],
    },
];
