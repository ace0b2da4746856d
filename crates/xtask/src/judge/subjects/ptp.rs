//! The clock of a network card is read, and an incorrect one is rejected. The board has two network
//! cards: under emulation, one has a correct clock, the other does not.

use hpt_document::{bench::BenchDocument, calibrate::CalibrateDocument, probe::ProbeDocument};

use crate::judge::{
    case::{Case, Judged, runs_at, source},
    plant::{Plant, Plants},
    text::in_one_line,
};

pub(super) fn judge(case: &Case<'_>) {
    if !["ptp-i2c-algo-bit", "ptp-igb", "ptp-e1000e"].iter().all(|step| case.ended(step)) {
        return;
    }
    // The kernel numbers them in the order in which they appear.
    if case.ended("ptp-names") && in_one_line(case.out("ptp-names")) != "igb;e1000e" {
        case.wrong(format!("ptp: expected igb and e1000e: {}", in_one_line(case.out("ptp-names"))));
    }
    for build in &case.board.builds {
        if let Some(probe) = case.ended_with::<ProbeDocument>(&format!("{build}.ptp")) {
            judge_probe(&probe);
        }
        if let Some(plain) = case.ended_with::<ProbeDocument>(&format!("{build}.ptp-plain")) {
            plain.holds("an unprivileged user cannot read the clocks, and a fix is reported", |it| {
                let refused = |id| {
                    source(it, id).is_some_and(|row| {
                        let helps = row.fix.as_ref().is_some_and(|remedy| remedy.contains("KERNEL==\"ptp"));
                        row.reason_kind.as_deref() == Some("no-permission") && helps
                    })
                };
                ["ptp0", "ptp1"].into_iter().all(refused)
            });
        }
        if let Some(rates) = case.ended_with::<CalibrateDocument>(&format!("{build}.ptp-rates")) {
            rates.holds(
                "the clock runs at 1 GHz",
                |it| matches!(it.calibrations.as_slice(), [row] if runs_at(row, 1e9)),
            );
            let hz = rates.calibrations.first().and_then(|row| row.frequency_hz).unwrap_or_default();
            case.shown(format!("ptp0 {} MHz, an incorrect ptp1 rejected", (hz / 1e4).round() / 100.0));
        }
        if let Some(bench) = case.ended_with::<BenchDocument>(&format!("{build}.ptp-bench")) {
            bench.holds(
                "the clock was measured completely",
                |it| matches!(it.results.as_slice(), [row] if row.repeated.complete),
            );
        }
    }
}

fn judge_probe(probe: &Judged<'_, ProbeDocument>) {
    probe.holds("the igb card has a clock, which may be disciplined", |it| {
        source(it, "ptp0").is_some_and(|row| {
            row.available
                && row.frequency_hz == Some(1e9)
                && row.disciplined == Some(true)
                && row.constant_rate != Some(true)
                && row.read_path.as_deref() == Some("syscall")
                && row.evidence.iter().any(|line| line == "driver: igb")
        })
    });
    probe.holds("the offset from CLOCK_REALTIME is reported, with a bound below 10 ms", |it| {
        let bounds: Vec<u64> = source(it, "ptp0")
            .map(|row| row.evidence.iter().filter_map(|line| bound_ns(line)).collect())
            .unwrap_or_default();
        matches!(bounds.as_slice(), [bound] if *bound < 10_000_000)
    });
    probe.holds("the e1000e card's clock is rejected by the self-test", |it| {
        source(it, "ptp1").is_some_and(|row| !row.available && row.reason_kind.as_deref() == Some("self-test"))
    });
    probe.holds("perf-time uses a counter of fewer than 64 bits at the rate of the ARM counter", |it| {
        let evident = |text: &str| {
            source(it, "perf-time")
                .is_some_and(|row| row.available && row.evidence.iter().any(|line| line.contains(text)))
        };
        evident("according to the kernel: 62.500000 MHz") && evident(", 5") && evident("-bit counter")
    });
    probe.holds("rtc0 is the real-time clock of this machine", |it| {
        source(it, "rtc0")
            .is_some_and(|row| row.available && row.evidence.iter().any(|line| line.contains("rtc-pl031")))
    });
    probe.holds("neither PTP clock is recommended", |it| {
        it.recommendation.source.as_ref().is_some_and(|source| !source.starts_with("ptp"))
    });
}

/// Returns the bound in a line like `offset from CLOCK_REALTIME: +12 ns, bound ± 34 ns, using
/// PTP_SYS_OFFSET_EXTENDED`.
fn bound_ns(line: &str) -> Option<u64> {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit());
    let (_, offset) = line.split_once("offset from CLOCK_REALTIME: ")?;
    let (offset, bound) = offset.split_once(" ns, bound ± ")?;
    let (bound, _) = bound.split_once(" ns, using PTP_SYS_OFFSET_EXTENDED")?;
    let signed = offset.strip_prefix(['-', '+']).is_some_and(is_number);
    bound.parse().ok().filter(|_| signed)
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "PTP",
    fit: |board| board.asked_for("ptp"),
    plants: &[
        Plant {
            what: "the offset was measured with another ioctl",
            change: |it| it.replace(".ptp.out", "PTP_SYS_OFFSET_EXTENDED", "PTP_SYS_OFFSET"),
        },
        Plant { what: "the bound is 20 ms", change: |it| it.set_number(".ptp.out", "± ", " ns", "20000000") },
        Plant {
            what: "the incorrect clock is missing",
            change: |it| it.replace(".ptp.out", "\"self-test\"", "\"no-device\""),
        },
        Plant { what: "an unprivileged user gets the probe of root", change: |it| it.copy(".ptp", ".ptp-plain") },
        Plant {
            what: "the clock runs at 1.05 GHz",
            change: |it| {
                it.document(".ptp-rates", |it: &mut CalibrateDocument| {
                    it.calibrations.iter_mut().for_each(|row| row.frequency_hz = Some(1_050_000_000.0));
                });
            },
        },
        Plant { what: "bench failed", change: |it| it.status(".ptp-bench", 2) },
        Plant { what: "the cards are in the opposite order", change: |it| it.put("ptp-names.out", "e1000e\nigb\n") },
    ],
}];

#[cfg(test)]
mod tests {
    use super::bound_ns;

    #[test]
    fn the_bound_of_an_offset_is_read() {
        let line = "offset from CLOCK_REALTIME: -37 ns, bound ± 41250 ns, using PTP_SYS_OFFSET_EXTENDED";
        assert_eq!(bound_ns(line), Some(41_250));
        assert_eq!(bound_ns(&line.replace("EXTENDED", "PRECISE")), None);
        assert_eq!(bound_ns(&line.replace('-', "")), None);
    }
}
