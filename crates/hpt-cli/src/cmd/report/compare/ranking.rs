//! The ranking of sides by their worst wake-up latency.

use hpt_document::{
    compare::{ComparedFigureRow, RankedSide},
    doctor::DoctorDocument,
    probe::ProbeDocument,
};

use super::{super::data_file::Report, rows::outliers, sides::Side};
use crate::output::chart::Unreadable;

/// Returns the sides, the best one first. `results` contains the values of all sides.
pub(super) fn ranking(sides: &[Side], results: &[ComparedFigureRow]) -> Result<Vec<RankedSide>, Unreadable> {
    let found: Result<Vec<_>, _> = sides.iter().map(|side| one(side, results)).collect();
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

/// Sides without a wake-up latency come last, in the order of their problems.
fn key(ranked: &RankedSide) -> (u64, u64) {
    match ranked.wake_max_ns {
        Some(ns) => (ns.min(u64::MAX - 1), 0),
        None => (u64::MAX, ranked.problems.unwrap_or(u64::MAX)),
    }
}

fn one(side: &Side, results: &[ComparedFigureRow]) -> Result<RankedSide, Unreadable> {
    let first: &Report = side.first();
    let doctor = first.document::<DoctorDocument>("doctor")?;
    let probe = first.document::<ProbeDocument>("probe")?;
    let read_cost = probe.and_then(|probe| {
        let source = probe.recommendation.source?;
        probe.sources.iter().find(|row| row.id == source)?.read_cost_ns
    });
    let rows = || results.iter().filter(|row| row.part == "timer" && row.side == side.name);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in whole nanoseconds")]
    let highest = |values: &mut dyn Iterator<Item = Option<f64>>| {
        values.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max).map(|ns| ns.round() as u64)
    };
    let quantile = |name: &str| highest(&mut rows().filter(|row| row.quantity.ends_with(name)).map(|row| row.value));
    Ok(RankedSide {
        place: 0,
        side: side.name.clone(),
        wake_max_ns: highest(&mut rows().map(|row| row.max)),
        wake_p99_ns: quantile(", p99"),
        wake_p50_ns: quantile(", p50"),
        read_cost_ns: read_cost,
        problems: doctor.map(|doctor| doctor.high.saturating_add(doctor.low)),
        outlier: false,
    })
}
