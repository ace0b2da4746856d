//! The ranking of reports by their worst wake-up latency.

use hpt_document::{
    doctor::DoctorDocument, probe::ProbeDocument, report_compare::RankedReport, wake_latency::WakeLatencyDocument,
};

use super::{
    super::{
        data_file::Report,
        summary::{highest_p99, worst},
    },
    rows::outliers,
};
use crate::output::chart::Unreadable;

/// Returns the reports, the best one first. `reports` contains the name of each report.
pub(super) fn ranking(reports: &[(&str, &Report)]) -> Result<Vec<RankedReport>, Unreadable> {
    let found: Result<Vec<_>, _> = reports.iter().map(|(name, report)| one(name, report)).collect();
    let mut ranking = found?;
    #[expect(clippy::cast_precision_loss, reason = "for comparing")]
    let maxima: Vec<_> = ranking.iter().map(|ranked| ranked.wake_max_ns.map(|ns| ns as f64)).collect();
    for (ranked, is_outlier) in ranking.iter_mut().zip(outliers(&maxima)) {
        ranked.outlier = is_outlier;
    }
    ranking.sort_by_key(key);
    let keys: Vec<_> = ranking.iter().map(key).collect();
    for (ranked, own) in ranking.iter_mut().zip(&keys) {
        ranked.place = 1 + keys.iter().filter(|other| *other < own).count();
    }
    Ok(ranking)
}

/// Reports without a wake-up latency come last, in the order of their problems.
fn key(ranked: &RankedReport) -> (u64, u64) {
    match ranked.wake_max_ns {
        Some(ns) => (ns.min(u64::MAX - 1), 0),
        None => (u64::MAX, ranked.problems.unwrap_or(u64::MAX)),
    }
}

fn one(name: &str, report: &Report) -> Result<RankedReport, Unreadable> {
    let timer = report.document::<WakeLatencyDocument>("timer")?;
    let doctor = report.document::<DoctorDocument>("doctor")?;
    let probe = report.document::<ProbeDocument>("probe")?;
    let read_cost = probe.and_then(|probe| {
        let source = probe.recommendation.source?;
        probe.sources.iter().find(|row| row.id == source)?.read_cost_ns
    });
    Ok(RankedReport {
        place: 0,
        report: name.to_owned(),
        wake_max_ns: timer.as_ref().and_then(worst).map(|row| row.figures.max_ns),
        wake_p99_ns: timer.as_ref().and_then(highest_p99),
        wake_p50_ns: timer.iter().flat_map(|timer| &timer.results).map(|row| row.figures.p50_ns).max(),
        read_cost_ns: read_cost,
        problems: doctor.map(|doctor| doctor.high.saturating_add(doctor.low)),
        outlier: false,
    })
}
