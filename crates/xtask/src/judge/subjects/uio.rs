//! An unprivileged user reads the System Timer through a UIO device.

use hpt_document::{calibrate::CalibrateDocument, probe::ProbeDocument};

use crate::judge::{
    case::{Case, runs_at, source},
    plant::{Plant, Plants},
};

pub(super) fn judge(case: &Case<'_>) {
    if !case.ended("uio-modules") || !case.ended("uio-device") {
        return;
    }
    if case.ended("uio") {
        let mut lines = case.out("uio").lines();
        let (name, address) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let wanted = case.board.system_timer.as_deref().and_then(hexadecimal);
        if name != "hpt-systimer" || hexadecimal(address).is_none() || hexadecimal(address) != wanted {
            case.wrong(format!("uio: unexpected device {name} at {address}"));
        }
    }
    for build in &case.board.builds {
        if let Some(probe) = case.ended_with::<ProbeDocument>(&format!("{build}.uio")) {
            probe.holds("an unprivileged user maps the System Timer from /dev/uio0", |it| {
                source(it, "bcm-systimer").is_some_and(|row| {
                    row.available && row.evidence.iter().any(|line| line == "mapped read-only from /dev/uio0")
                })
            });
        }
        if let Some(rates) = case.ended_with::<CalibrateDocument>(&format!("{build}.uio-rates")) {
            rates.holds("the System Timer runs at 1 MHz when read through UIO", |it| {
                it.calibrations.len() == 1 && runs_at(&it.calibrations[0], 1e6)
            });
        }
    }
    case.shown("System Timer through UIO");
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

pub(super) const PLANTS: &[Plants] = &[Plants {
    about: "UIO",
    fit: |board| board.asked_for("uio"),
    plants: &[
        Plant {
            what: "the mapping is that of another device",
            change: |it| it.replace("uio.out", "hpt-systimer", "other"),
        },
        Plant { what: "the mapping is at another address", change: |it| it.replace("uio.out", "0x", "0x1") },
        Plant {
            what: "the timer was mapped from another file",
            change: |it| it.replace(".uio.out", "/dev/uio0", "/dev/mem"),
        },
        Plant {
            what: "the timer runs at 1.05 MHz",
            change: |it| {
                it.document(".uio-rates", |it: &mut CalibrateDocument| {
                    it.calibrations[0].frequency_hz = Some(1_050_000.0);
                });
            },
        },
    ],
}];
