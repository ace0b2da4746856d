//! The time during which a measuring thread did not run although it was ready, as a document field and as a note.
//! `measure::NotRunWatch` measures it.

use hpt_document::not_run::NotRun;

use crate::output::short_time;

/// The share of the time above which the time that a thread did not run changes the figures of a measurement.
pub(super) const NOTICEABLE: f64 = 0.02;

/// Returns whether the thread did not run for a share of the time that changes the figures.
pub(crate) fn is_noticeable(not_run: &NotRun) -> bool {
    not_run.share.is_some_and(|share| share >= NOTICEABLE)
}

/// Returns a note if the thread did not run for a noticeable share of the time. `effect` says what that does to the
/// figures, as the second half of a sentence.
pub(crate) fn note(not_run: &NotRun, effect: &str) -> Option<String> {
    let share = not_run.share.filter(|_| is_noticeable(not_run))?;
    let cause = cause(not_run, share, 1, &[]);
    Some(format!(
        "the measuring thread did not run for {:.0} % of the time, because {cause}; {effect}; repeat the measurement on an idle \
         machine",
        share * 100.0
    ))
}

/// Returns a note if one of the threads did not run for a noticeable share of the time, in a measurement whose results
/// include that time, for example a latency. `threads` contains the CPU and the times of each thread. `effect` says
/// which results include it, as the second half of a sentence.
pub(crate) fn note_on_included<'a>(
    threads: impl IntoIterator<Item = (Option<usize>, &'a NotRun)>,
    effect: &str,
) -> Option<String> {
    let threads: Vec<_> = threads.into_iter().collect();
    let noticeable = threads.iter().filter(|(_, not_run)| is_noticeable(not_run));
    let noticeable: Vec<_> = noticeable.filter_map(|&(cpu, not_run)| Some((cpu, not_run, not_run.share?))).collect();
    let &(cpu, not_run, share) = noticeable.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let place = cpu.map_or_else(String::new, |cpu| format!(" on CPU {cpu}"));
    let whose = match noticeable.len() {
        1 => format!("the measuring thread{place} was"),
        count => format!("{count} measuring threads, above all the thread{place}, were"),
    };
    let cause = cause(not_run, share, threads.len(), &["it took the kernel long to run it"]);
    Some(format!("{whose} ready but did not run for {:.0} % of the time, because {cause}; {effect}", share * 100.0))
}

/// Returns why one of several measuring threads did not run for this share of the time; `also` contains causes that
/// nothing counts. Stolen time, or time for which
/// a quota was used up, is the cause if it covers at least half of that time. Otherwise, all causes are named that
/// the kernel's counts do not rule out.
#[expect(clippy::cast_precision_loss, reason = "a number of threads")]
fn cause(not_run: &NotRun, share: f64, threads: usize, also: &[&str]) -> String {
    let half_s = share * not_run.wall_s / 2.0;
    let stolen_s = not_run.stolen_s.unwrap_or_default();
    // Steal time is counted in steps of 10 ms.
    if stolen_s >= half_s {
        return "the hypervisor ran other guests on its CPU".to_owned();
    }
    let throttled = not_run.throttled.zip(not_run.throttled_s).filter(|&(times, _)| times > 0);
    let used_up = throttled.map(|(times, seconds)| {
        let often = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        (seconds, format!("its CPU quota was used up ({often}, {})", short_time(seconds * 1e9)))
    });
    // The quota's count is a sum over the threads of the group.
    if let Some((_, words)) = used_up.as_ref().filter(|(seconds, _)| seconds / threads.max(1) as f64 >= half_s) {
        return words.clone();
    }
    let quota = match (used_up, not_run.throttled) {
        (Some((_, words)), _) => Some(words),
        (None, Some(_)) => None,
        (None, None) => Some("a quota was exhausted".to_owned()),
    };
    let guests = (stolen_s > 0.0).then(|| "the hypervisor ran other guests".to_owned());
    let also = also.iter().map(|&cause| cause.to_owned());
    let others = std::iter::once("other threads used its CPU".to_owned());
    one_of(&others.chain(quota).chain(guests).chain(also).collect::<Vec<_>>())
}

/// Returns alternatives as text, for example `a, b, or c`.
fn one_of(causes: &[String]) -> String {
    match causes {
        [one, other] => format!("{one}, or {other}"),
        [before @ .., last] if !before.is_empty() => format!("{}, or {last}", before.join(", ")),
        one => one.concat(),
    }
}

/// Returns the greatest share of these threads as the end of a sentence about their settings, or an empty text if no
/// share is known.
pub(crate) fn words<'a>(threads: impl IntoIterator<Item = (Option<usize>, &'a NotRun)>) -> String {
    let shares: Vec<_> = threads.into_iter().filter_map(|(cpu, not_run)| Some((cpu, not_run.share?))).collect();
    let Some(&(cpu, share)) = shares.iter().max_by(|one, other| one.1.total_cmp(&other.1)) else {
        return String::new();
    };
    let percent = format!("{:.2} %", share * 100.0);
    match cpu.filter(|_| shares.len() > 1) {
        Some(cpu) => format!("; ready but not running for at most {percent} of the time (CPU {cpu})"),
        None => format!("; ready but not running for {percent} of the time"),
    }
}

#[cfg(test)]
mod tests {
    use hpt_document::not_run::NotRun;

    use super::{is_noticeable, note, note_on_included, words};

    /// Returns the times of a thread that should have run for a second, in milliseconds.
    fn of(not_run: Option<u32>, stolen: Option<u32>) -> NotRun {
        let seconds = |ms: u32| f64::from(ms) / 1e3;
        NotRun { share: not_run.map(seconds), wall_s: 1.0, stolen_s: stolen.map(seconds), ..NotRun::default() }
    }

    #[test]
    fn a_thread_that_did_not_run_is_reported_with_the_cause() {
        let text = |not_run, stolen| note(&of(not_run, stolen), "values are too high");
        assert_eq!(
            text(Some(640), Some(0)).as_deref(),
            Some(
                "the measuring thread did not run for 64 % of the time, because other threads used its CPU, or a \
                 quota was exhausted; values are too high; repeat the measurement on an idle machine"
            )
        );
        assert!(text(Some(640), Some(600)).is_some_and(|text| text.contains("the hypervisor ran other guests on")));
        assert!(
            text(Some(640), Some(10))
                .is_some_and(|text| text.contains("used its CPU, a quota was exhausted, or the hyper"))
        );
        assert_eq!((text(Some(10), None), text(None, None)), (None, None));
        assert!(is_noticeable(&of(Some(20), None)) && !is_noticeable(&of(Some(19), None)));
    }

    #[test]
    fn a_quota_is_the_cause_only_if_its_count_says_so() {
        let cause = |throttled: Option<(u64, f64)>, stolen_s, threads: usize| {
            let mut not_run = NotRun { share: Some(0.96), wall_s: 4.0, stolen_s: Some(stolen_s), ..NotRun::default() };
            (not_run.throttled, not_run.throttled_s) = (throttled.map(|count| count.0), throttled.map(|count| count.1));
            super::cause(&not_run, 0.96, threads, &[])
        };
        assert_eq!(cause(Some((42, 2.7)), 0.01, 1), "its CPU quota was used up (42 times, 2.7 s)");
        assert_eq!(cause(Some((1, 2.0)), 0.0, 1), "its CPU quota was used up (once, 2 s)");
        // The time of a group is that of all its threads.
        assert_eq!(
            cause(Some((42, 2.7)), 0.0, 2),
            "other threads used its CPU, or its CPU quota was used up (42 times, 2.7 s)"
        );
        assert_eq!(
            cause(Some((3, 0.2)), 0.01, 1),
            "other threads used its CPU, its CPU quota was used up (3 times, 200 ms), or the hypervisor ran other guests"
        );
        assert_eq!(cause(Some((0, 0.0)), 0.0, 1), "other threads used its CPU");
        assert_eq!(cause(None, 0.0, 1), "other threads used its CPU, or a quota was exhausted");
        assert_eq!(cause(Some((42, 2.7)), 3.9, 1), "the hypervisor ran other guests on its CPU");
    }

    #[test]
    fn time_that_the_results_include_is_reported_without_advice_to_repeat() {
        let of = |not_run, stolen| of(Some(not_run), Some(stolen));
        let (little, some, stolen) = (of(19, 0), of(40, 0), of(300, 300));
        let effect = "the latencies above include this time";
        assert_eq!(note_on_included([(Some(0), &little)], effect), None);
        assert_eq!(
            note_on_included([(Some(0), &little), (Some(1), &some)], effect).as_deref(),
            Some(
                "the measuring thread on CPU 1 was ready but did not run for 4 % of the time, because other threads \
                 used its CPU, a quota was exhausted, or it took the kernel long to run it; the latencies above \
                 include this time"
            )
        );
        assert_eq!(
            note_on_included([(Some(0), &some), (Some(1), &stolen)], effect).as_deref(),
            Some(
                "2 measuring threads, above all the thread on CPU 1, were ready but did not run for 30 % of the \
                 time, because the hypervisor ran other guests on its CPU; the latencies above include this time"
            )
        );
        assert_eq!(words([(Some(1), &some)]), "; ready but not running for 4.00 % of the time");
        assert_eq!(
            words([(Some(0), &some), (Some(1), &stolen)]),
            "; ready but not running for at most 30.00 % of the time (CPU 1)"
        );
        assert_eq!(words([(None, &NotRun::default())]), "");
        assert!(note_on_included([(None, &some)], effect).is_some_and(|text| text.contains("measuring thread was")));
    }
}
