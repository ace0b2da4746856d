//! The time during which a measuring thread did not run although it was ready, as a document field and as a note.
//! `measure::NotRunWatch` measures it.

use hpt_core::measure;
use hpt_document::not_run::NotRun;

use crate::output::rounded;

/// The share of the time above which the time that a thread did not run changes the figures of a measurement.
const NOTICEABLE: f64 = 0.02;

/// Returns the times as a document field.
pub(crate) fn field_of(times: &measure::NotRun) -> NotRun {
    NotRun {
        share: times.share().map(|share| (share * 1e4).round() / 1e4),
        wall_s: rounded(times.wall.as_secs_f64()),
        stolen_s: times.stolen.map(|stolen| rounded(stolen.as_secs_f64())),
    }
}

/// Returns whether the thread did not run for so long that the figures are not those of an idle machine.
pub(crate) fn is_noticeable(not_run: &NotRun) -> bool {
    not_run.share.is_some_and(|share| share >= NOTICEABLE)
}

/// Returns a note if the thread did not run for a noticeable share of the time. `effect` says what that does to the
/// figures, as the second half of a sentence.
pub(crate) fn note(not_run: &NotRun, effect: &str) -> Option<String> {
    let share = not_run.share.filter(|_| is_noticeable(not_run))?;
    let stolen = not_run.stolen_s.unwrap_or_default();
    // Steal time is counted in steps of 10 ms.
    let cause = if stolen >= share * not_run.wall_s / 2.0 {
        "because the hypervisor ran other guests on its CPU"
    } else if stolen > 0.0 {
        "because other threads used its CPU, or the hypervisor ran other guests"
    } else {
        "because other threads used its CPU or a quota was exhausted"
    };
    Some(format!(
        "the measuring thread did not run for {:.0} % of the time, {cause}; {effect}; repeat the measurement on an idle \
         machine",
        share * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::measure;

    use super::{field_of, is_noticeable, note};

    #[test]
    fn a_thread_that_did_not_run_is_reported_with_the_cause() {
        let of = |not_run, stolen| {
            let ms = |ms: Option<u64>| ms.map(Duration::from_millis);
            field_of(&measure::NotRun::new(Duration::from_secs(1), ms(not_run), ms(stolen)))
        };
        let text = |not_run, stolen| note(&of(not_run, stolen), "values are too high");
        assert_eq!(
            text(Some(640), Some(0)).as_deref(),
            Some(
                "the measuring thread did not run for 64 % of the time, because other threads used its CPU or a quota \
                 was exhausted; values are too high; repeat the measurement on an idle machine"
            )
        );
        assert!(text(Some(640), Some(600)).is_some_and(|text| text.contains("the hypervisor ran other guests on")));
        assert!(
            text(Some(640), Some(10)).is_some_and(|text| text.contains("other threads used its CPU, or the hyper"))
        );
        assert_eq!((text(Some(10), None), text(None, None)), (None, None));
        assert!(is_noticeable(&of(Some(20), None)) && !is_noticeable(&of(Some(19), None)));
    }
}
