//! Root can read a PC's other clocks, or gets a reason why not. An unprivileged user cannot.

use hpt_document::{bench::BenchDocument, calibrate::CalibrateDocument, probe::ProbeDocument, probe::ProbeRow};

use crate::judge::{
    board::{AcpiTimer, Board, Hpet},
    case::{Case, Judged, RATE_TOLERANCE, measured, runs_at, source},
    plant::{Plant, Plants},
    text::number_between,
};

/// The frequency of the ACPI timer.
const ACPI_TIMER_HZ: f64 = 3_579_545.0;

pub(super) fn judge(case: &Case<'_>) {
    let board = case.board;
    for build in &board.builds {
        let step = format!("{build}.chipset");
        if let Some(probe) = case.ended_with::<ProbeDocument>(&step) {
            judge_hpet(board, &probe);
            judge_acpi_timer(board, &probe);
            judge_others(&probe);
        }
        if let Some(plain) = case.ended_with::<ProbeDocument>(&format!("{step}-plain")) {
            judge_plain(board, &plain);
        }
        judge_rates(case, &step);
        if let Some(bench) = case.ended_with::<BenchDocument>(&format!("{step}-bench")) {
            bench.holds("each source was measured completely", |it| {
                let wanted = [&["perf-time", "rtc0"][..], &devices(board)].concat();
                wanted.iter().all(|id| it.results.iter().any(|row| row.id == *id))
                    && it.results.iter().all(|row| row.repeated.complete)
            });
        }
    }
    if board.acpi_timer == AcpiTimer::Lockdown {
        case.shown("no port access under lockdown");
    }
    match board.hpet {
        Hpet::None => case.shown("no HPET"),
        Hpet::Unmapped => case.shown("HPET unmapped"),
        Hpet::Hz(_) => {}
    }
}

/// Returns the devices with a known rate.
fn devices(board: &Board) -> Vec<&'static str> {
    let mut devices = Vec::new();
    if matches!(board.hpet, Hpet::Hz(_)) {
        devices.extend(["hpet", "hpet-low"]);
    }
    if matches!(board.acpi_timer, AcpiTimer::Port(_)) {
        devices.push("acpi-pm");
    }
    devices
}

/// Returns whether all sources are listed, and the condition holds for each.
fn each(probe: &ProbeDocument, ids: &[&str], is_so: impl Fn(&ProbeRow) -> bool) -> bool {
    ids.iter().all(|id| source(probe, id).is_some_and(&is_so))
}

fn refused(row: &ProbeRow, kind: &str) -> bool {
    row.reason_kind.as_deref() == Some(kind)
}

fn helps(row: &ProbeRow, text: &str) -> bool {
    row.fix.as_ref().is_some_and(|remedy| remedy.contains(text))
}

fn because(row: &ProbeRow, text: &str) -> bool {
    row.reason.as_ref().is_some_and(|reason| reason.contains(text))
}

fn evident(row: &ProbeRow, text: &str) -> bool {
    row.evidence.iter().any(|line| line.contains(text))
}

fn judge_hpet(board: &Board, probe: &Judged<'_, ProbeDocument>) {
    let both = ["hpet", "hpet-low"];
    match board.hpet {
        Hpet::None => probe.holds("there is no HPET, although there is a device file", |it| {
            each(it, &both, |row| refused(row, "no-device") && because(row, "EBUSY"))
        }),
        Hpet::Unmapped => probe.holds("the HPET is not mapped, and a fix is reported", |it| {
            each(it, &both, |row| refused(row, "not-offered") && helps(row, "hpet_mmap=1"))
        }),
        Hpet::Hz(hz) => {
            let runs = |row: &ProbeRow, bits| {
                row.available && row.width_bits == Some(bits) && row.frequency_hz == Some(hz as f64)
            };
            probe.holds(&format!("hpet at {hz} Hz"), |it| {
                source(it, "hpet").is_some_and(|row| runs(row, 64) && row.read_path.as_deref() == Some("mmio"))
            });
            probe.holds(&format!("hpet-low at {hz} Hz"), |it| source(it, "hpet-low").is_some_and(|row| runs(row, 32)));
        }
    }
}

fn judge_acpi_timer(board: &Board, probe: &Judged<'_, ProbeDocument>) {
    match &board.acpi_timer {
        AcpiTimer::Unstated => {}
        AcpiTimer::Port(port) => probe.holds(&format!("acpi-pm at port {port}, 24 bits, 3.579545 MHz"), |it| {
            source(it, "acpi-pm").is_some_and(|row| {
                row.available
                    && row.width_bits == Some(24)
                    && row.frequency_hz == Some(ACPI_TIMER_HZ)
                    && row.read_path.as_deref() == Some("port")
                    && evident(row, &format!("port {port}"))
            })
        }),
        AcpiTimer::Lockdown => probe.holds("root cannot read acpi-pm, because the kernel is locked down", |it| {
            source(it, "acpi-pm")
                .is_some_and(|row| refused(row, "no-permission") && because(row, "lockdown") && row.fix.is_some())
        }),
    }
}

fn judge_others(probe: &Judged<'_, ProbeDocument>) {
    probe.holds("rtc0 is read through its device, in whole seconds, and its rate is not constant", |it| {
        source(it, "rtc0").is_some_and(|row| {
            row.available
                && row.resolution_ns == Some(1e9)
                && row.constant_rate != Some(true)
                && evident(row, "RTC_RD_TIME from /dev/rtc0")
        })
    });
    probe.holds("the kernel's multiplier for perf-time yields the rate of the TSC", |it| {
        let near = |row: &ProbeRow, mhz: f64| {
            let mut rates =
                row.evidence.iter().filter_map(|line| number_between(line, "according to the kernel: ", " MHz"));
            rates.any(|rate| (rate / mhz - 1.0).abs() <= RATE_TOLERANCE)
        };
        let mhz = source(it, "tsc").and_then(|row| row.frequency_hz).map(|hz| hz / 1e6);
        source(it, "perf-time").zip(mhz).is_some_and(|(row, mhz)| {
            row.available
                && row.kernel_verdict == "trusted"
                && row.read_path.as_deref() == Some("register")
                && near(row, mhz)
        })
    });
    probe.holds("the PIT is listed but not read", |it| {
        source(it, "pit").is_some_and(|row| !row.available && refused(row, "needs-write"))
    });
    probe.holds("there is no PTP clock", |it| source(it, "ptp0").is_some_and(|row| refused(row, "no-device")));
    probe.holds("the TSC is recommended", |it| it.recommendation.source.as_deref() == Some("tsc"));
}

fn judge_plain(board: &Board, probe: &Judged<'_, ProbeDocument>) {
    if board.hpet != Hpet::None {
        probe.holds("an unprivileged user cannot read the HPET, and a fix is reported", |it| {
            each(it, &["hpet", "hpet-low"], |row| refused(row, "no-permission") && helps(row, "KERNEL==\"hpet\""))
        });
    }
    probe.holds("an unprivileged user cannot read the ACPI timer, and a fix is reported", |it| {
        source(it, "acpi-pm")
            .is_some_and(|row| refused(row, "no-permission") && because(row, "/proc/ioports") && row.fix.is_some())
    });
    probe.holds("an unprivileged user cannot read perf-time, and a fix is reported", |it| {
        source(it, "perf-time").is_some_and(|row| refused(row, "no-permission") && helps(row, "perf_event_paranoid=2"))
    });
    probe.holds("an unprivileged user reads the real-time clock from since_epoch", |it| {
        source(it, "rtc0").is_some_and(|row| row.available && evident(row, "since_epoch"))
    });
    probe.holds("the PIT is not read", |it| source(it, "pit").is_some_and(|row| refused(row, "needs-write")));
}

fn judge_rates(case: &Case<'_>, step: &str) {
    if let Some(rates) = case.ended_with::<CalibrateDocument>(&format!("{step}-rates")) {
        rates.holds("perf-time has the rate of the clock that uses the same counter", |it| {
            matches!(it.calibrations.as_slice(), [row] if row.source == "perf-time"
                && measured(row)
                && row.error_ppm.zip(row.bound_ppm).is_some_and(|(error, bound)| error.abs() <= bound + 1.0))
        });
    }
    let devices = devices(case.board);
    let rates = || case.ended_with::<CalibrateDocument>(&format!("{step}-devices"));
    let both = match (case.board.hpet, &case.board.acpi_timer) {
        (Hpet::Hz(hz), AcpiTimer::Port(_)) => rates().map(|rates| (hz, rates)),
        _ => None,
    };
    if let Some((hz, rates)) = both {
        rates.holds("the HPET and the ACPI timer have the correct rates relative to each other", |it| {
            let runs = |id: &str, hz| {
                let rows: Vec<_> = it.calibrations.iter().filter(|row| row.source == id).collect();
                matches!(rows.as_slice(), [row] if runs_at(row, hz))
            };
            runs("hpet-low", hz as f64) && runs("acpi-pm", ACPI_TIMER_HZ)
        });
    }
    let watch_step = format!("{step}-watch");
    if !devices.is_empty() && case.ended(&watch_step) {
        if let Some(watch) = case.watched(&watch_step) {
            watch.holds(
                &format!("{} have the correct rates relative to the kernel's clock", devices.join(",")),
                |it| {
                    let near = |ppm: Option<f64>| ppm.is_some_and(|ppm| ppm.abs() / 1e6 <= RATE_TOLERANCE);
                    it.sources.len() == devices.len()
                        && it.sources.iter().all(|row| devices.contains(&row.source.as_str()))
                        && it.sources.iter().all(|row| near(row.lowest_ppm) && near(row.highest_ppm))
                },
            );
        }
        case.shown(format!("rates of {}", devices.join(", ")));
    }
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "chipset",
    fit: |board| {
        board.asked_for("chipset") && matches!((board.hpet, &board.acpi_timer), (Hpet::Hz(_), AcpiTimer::Port(_)))
    },
    plants: &[
        Plant { what: "another rate of the HPET is expected", change: |it| it.board.hpet = Hpet::Hz(14_318_180) },
        Plant { what: "no HPET is expected", change: |it| it.board.hpet = Hpet::None },
        Plant { what: "an unmapped HPET is expected", change: |it| it.board.hpet = Hpet::Unmapped },
        Plant {
            what: "the ACPI timer is expected at another port",
            change: |it| it.board.acpi_timer = AcpiTimer::Port("0x408".to_owned()),
        },
        Plant { what: "a lockdown is expected", change: |it| it.board.acpi_timer = AcpiTimer::Lockdown },
        Plant {
            what: "the ACPI timer runs at 3.5795455 MHz",
            change: |it| it.replace(".chipset.out", "\"frequency_hz\": 3579545.0", "\"frequency_hz\": 3579545.5"),
        },
        Plant { what: "there is no PIT", change: |it| it.replace(".chipset.out", "\"needs-write\"", "\"no-device\"") },
        Plant {
            what: "the kernel's multiplier yields 1 GHz",
            change: |it| {
                it.document(".chipset", |it: &mut ProbeDocument| {
                    for line in it.sources.iter_mut().flat_map(|row| &mut row.evidence) {
                        if let Some((head, tail)) = line.split_once("according to the kernel: ") {
                            *line = format!(
                                "{head}according to the kernel: 1000{}",
                                tail.trim_start_matches(|digit: char| digit.is_ascii_digit())
                            );
                        }
                    }
                });
            },
        },
        Plant {
            what: "an unprivileged user gets the probe of root",
            change: |it| it.copy(".chipset", ".chipset-plain"),
        },
        Plant {
            what: "an unprivileged user does not read since_epoch",
            change: |it| it.replace(".chipset-plain.out", "since_epoch", "nothing"),
        },
        Plant {
            what: "an unprivileged user gets another fix for perf-time",
            change: |it| it.replace(".chipset-plain.out", "paranoid=2", "paranoid=9"),
        },
        Plant {
            what: "the rate of perf-time is wrong by 5 %",
            change: |it| {
                it.document(".chipset-rates", |it: &mut CalibrateDocument| {
                    it.calibrations[0].error_ppm = Some(50_000.5);
                });
            },
        },
        Plant {
            what: "the ACPI timer was not calibrated",
            change: |it| {
                it.document(".chipset-devices", |it: &mut CalibrateDocument| {
                    it.calibrations.retain(|row| row.source != "acpi-pm");
                });
            },
        },
        Plant {
            what: "the rate of a device is wrong by 5 % in a watch",
            change: |it| it.summary(".chipset-watch", |it| it.sources[0].highest_ppm = Some(50_000.5)),
        },
        Plant {
            what: "another real-time clock was read",
            change: |it| it.replace(".chipset-bench.out", "\"rtc0\"", "\"rtc1\""),
        },
        Plant { what: "bench failed", change: |it| it.status(".chipset-bench", 1) },
    ],
}];
