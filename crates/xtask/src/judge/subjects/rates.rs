//! `hpt calibrate` finds limits between which the rate of each counter lies.

use hpt_document::calibrate::{CalibrateDocument, CalibrationRow};

use crate::judge::{
    case::{Case, measured, runs_at},
    plant::{Plant, Plants},
    text::number_between,
};

pub(super) fn judge(case: &Case<'_>) {
    for build in &case.board.builds {
        let Some(rates) = case.ended_with::<CalibrateDocument>(&format!("{build}.rates")) else { continue };
        if let Some(plain) = case.ended_with::<CalibrateDocument>(&format!("{build}.rates-plain")) {
            plain.holds("an unprivileged user can calibrate", |it| {
                !it.calibrations.is_empty() && it.calibrations.iter().all(|row| row.calibrated)
            });
        }
        rates.holds("all were calibrated, and each rate lies between its limits", |it| {
            !it.calibrations.is_empty() && it.calibrations.iter().all(measured)
        });
        if case.board.system_timer.is_some() {
            rates.holds("the System Timer runs at 1 MHz", |it| {
                let rows: Vec<_> =
                    it.calibrations.iter().filter(|row| row.source.starts_with("bcm-systimer")).collect();
                rows.len() == 2 && rows.iter().all(|row| runs_at(row, 1e6))
            });
        }
        if let Some(hz) = case.board.arm_counter {
            rates.holds(&format!("arm-counter runs at {hz} Hz"), |it| {
                the_only(it, "arm-counter").is_some_and(|row| runs_at(row, hz as f64))
            });
        }
        if case.board.tsc.is_some() {
            // The reference uses the TSC, at the rate in the kernel's log. The kernel rounds its
            // multiplier. BogoMIPS comes from the first calibration, which a busy host may distort.
            let mhz = logged_mhz(case.out("kernel"));
            let said = mhz.map_or("unknown".to_owned(), |mhz| mhz.to_string());
            rates.holds(&format!("the TSC has the rate in the kernel's log, {said} MHz"), |it| {
                mhz.zip(the_only(it, "tsc")).is_some_and(|(mhz, row)| measured(row) && runs_as_logged(row, mhz))
            });
        }
        case.shown(in_words(&rates));
    }
}

/// Returns the row of a source that has exactly one.
fn the_only<'a>(document: &'a CalibrateDocument, source: &str) -> Option<&'a CalibrationRow> {
    let mut rows = document.calibrations.iter().filter(|row| row.source == source);
    rows.next().filter(|_| rows.next().is_none())
}

/// Returns the last frequency of the TSC in the kernel's log.
fn logged_mhz(log: &str) -> Option<f64> {
    let found = |line| {
        let refined = number_between(line, "tsc: Refined TSC clocksource calibration: ", " MHz");
        refined.or_else(|| number_between(line, "tsc: Detected ", " MHz"))
    };
    log.lines().rev().find_map(found)
}

fn runs_as_logged(row: &CalibrationRow, mhz: f64) -> bool {
    row.frequency_hz.zip(row.bound_ppm).is_some_and(|(hz, bound)| {
        let error_ppm = (hz / (mhz * 1e6) - 1.0).abs() * 1e6;
        error_ppm <= bound + 1e9 / hz + 1.0
    })
}

fn in_words(document: &CalibrateDocument) -> String {
    let shown = document
        .calibrations
        .iter()
        .filter(|row| ["bcm-systimer", "arm-counter", "tsc"].contains(&row.source.as_str()));
    let words =
        shown.filter_map(|row| Some(format!("{} {} MHz", row.source, (row.frequency_hz? / 1e4).round() / 100.0)));
    words.collect::<Vec<_>>().join(", ")
}

fn set_rates(document: &mut CalibrateDocument, hz: f64) {
    document.calibrations.iter_mut().for_each(|row| row.frequency_hz = Some(hz));
}

pub(super) const PLANTS: &[Plants] = &[
    Plants {
        about: "rates",
        fit: |board| board.asked_for("rates") && board.system_timer.is_some() && board.arm_counter.is_some(),
        plants: &[
            Plant { what: "calibrate panicked", change: |it| it.append(".rates.err", "thread main panicked at") },
            Plant {
                what: "every rate is 1.05 MHz",
                change: |it| it.document(".rates", |it| set_rates(it, 1_050_000.0)),
            },
            Plant {
                what: "the limits are too far apart",
                change: |it| {
                    it.document(".rates", |it: &mut CalibrateDocument| {
                        for row in &mut it.calibrations {
                            (row.lowest_hz, row.bound_ppm) = (Some(1.0), Some(999_999.0));
                        }
                    });
                },
            },
            Plant {
                what: "an unprivileged user calibrated nothing",
                change: |it| it.document(".rates-plain", |it: &mut CalibrateDocument| it.calibrations.clear()),
            },
        ],
    },
    Plants {
        about: "rate of a TSC",
        fit: |board| board.asked_for("rates") && board.tsc.is_some(),
        plants: &[
            Plant {
                what: "every rate is 1.2 GHz",
                change: |it| it.document(".rates", |it| set_rates(it, 1_234_567_890.5)),
            },
            Plant { what: "the kernel's log has no rate", change: |it| it.leave_out("kernel.out", "tsc: ") },
        ],
    },
];
