//! `hpt sleep --curve`: measures the overshoot against the CPU time, with many settings in turn, and recommends settings.

use std::time::Duration;

use hpt_core::{
    Sleeper, clock,
    sleep::{Report, Target},
};
use hpt_document::{
    not_run::NotRun,
    sleep_curve::{SleepCurveDocument, SleepCurveRow, SleepRecommendation},
};
use hpt_instrument::measure::{NotRunWatch, SleepMethod, SleepOvershoot, sleep_overshoot};
use hpt_realtime::Behavior;

use super::{curve_page::page, target};
use crate::{
    context::Context,
    document_head::head_of,
    exit::{Failure, causes},
    output::{Answer, Document, exact_time, progress::Progress, rounded, rounded_cpu_share, saturating_nanos, tail},
    sampling::{
        conditions::{ConditionOptions, ConditionsThread},
        cpu_absences::Parts,
        not_run,
        realtime_options::ThreadOptions,
        realtime_settings::EffectiveSettings,
        run::{SO_FAR, answer_request},
    },
};

/// The margins of the method `fixed`.
const FIXED_MARGINS_US: [u64; 4] = [20, 50, 125, 200];
/// The targets of the method `hpt` for p99.
const P99_TARGETS_US: [u64; 4] = [1, 5, 10, 20];
/// The targets of the method `hpt` for the CPU time, as multiples of the CPU time of the method `nanosleep`.
const CPU_TARGETS: [f64; 6] = [1.25, 1.5, 2.0, 3.0, 5.0, 8.0];
/// The largest target for the CPU time. The method `busy` is the setting above it.
const LARGEST_CPU_TARGET: f64 = 0.9;
/// One sleep to learn from precedes this many measured sleeps, but at least [`LEAST_LEARNING`].
const MEASURED_PER_LEARNING: u64 = 5;
const LEAST_LEARNING: u64 = 2;
/// The limits of p99 for which a setting is recommended.
const LIMITS_NS: [u64; 4] = [1_000, 5_000, 20_000, 100_000];

/// A way to sleep with one setting.
enum CurveMethod {
    Std,
    Nanosleep,
    Fixed(Duration),
    Busy,
    Hpt(Box<Sleeper>),
}

impl CurveMethod {
    fn hpt(target: Target) -> Self {
        Self::Hpt(Box::new(Sleeper::new().with_target(target)))
    }

    fn method(&mut self) -> SleepMethod<'_> {
        match self {
            Self::Std => SleepMethod::std(),
            Self::Nanosleep => SleepMethod::nanosleep(),
            Self::Fixed(margin) => SleepMethod::fixed(*margin),
            Self::Busy => SleepMethod::busy(),
            Self::Hpt(sleeper) => SleepMethod::hpt(sleeper),
        }
    }

    fn setting(&self) -> Option<String> {
        match self {
            Self::Fixed(margin) => Some(exact_time(*margin)),
            Self::Hpt(sleeper) => Some(target::text(sleeper.report().target.target)),
            Self::Std | Self::Nanosleep | Self::Busy => None,
        }
    }

    fn report(&self) -> Option<Report> {
        if let Self::Hpt(sleeper) = self { Some(sleeper.report()) } else { None }
    }
}

pub(super) struct CurveRequest<'a> {
    pub(super) lengths: &'a [Duration],
    /// The number of sleeps per length and setting.
    pub(super) count: u32,
    /// Returns whether a method is measured.
    pub(super) wants: &'a dyn Fn(&str) -> bool,
    pub(super) conduct: Behavior,
    pub(super) thread: &'a ThreadOptions,
    pub(super) conditions: ConditionOptions,
}

pub(super) fn run(asked: &CurveRequest<'_>, context: &Context) -> Result<Document, Failure> {
    asked.thread.listen(context)?;
    context.signals.listen_for_requests()?;
    let conditions = ConditionsThread::begin(context, &[asked.thread.cpu(context)]);
    let held = asked.thread.hold(context, asked.conduct, "hpt sleep --curve")?;
    clock::prime();
    let measured = u64::from(asked.count);
    let learning = (measured / MEASURED_PER_LEARNING).max(LEAST_LEARNING);
    let settings = ways(asked, Some(0.0)).len() as u64;
    let sleeps = settings * (measured + learning);
    let expected = asked.lengths.iter().sum::<Duration>();
    let expected = expected.saturating_mul(u32::try_from(sleeps).unwrap_or(u32::MAX));
    let progress = Progress::new(sleeps * asked.lengths.len() as u64, expected);
    let known = Known { asked, context, cpu: held.cpu(), settings: held.settings(), learning };
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    let mut parts = Parts::of(held.cpu(), context);
    let mut watch = NotRunWatch::of_blocking_thread(&context.host, held.cpu());
    for (before, &duration) in (0..).zip(asked.lengths) {
        if context.interrupted() {
            break;
        }
        progress.name(&exact_time(duration));
        let mut ways = ways(asked, blocking_share(duration, learning, context));
        let labels: Vec<Option<String>> = ways.iter().map(CurveMethod::setting).collect();
        let mut methods: Vec<SleepMethod<'_>> = ways.iter_mut().map(CurveMethod::method).collect();
        // The sleepers learn. These sleeps do not count.
        sleep_overshoot(repeated(duration, learning), &mut methods, |so_far| {
            progress.at(sleeps * before + so_far.made());
            context.check()
        });
        let learned = sleeps * before + settings * learning;
        let overshoots = if context.interrupted() {
            Vec::new()
        } else {
            sleep_overshoot(repeated(duration, measured), &mut methods, |so_far| {
                progress.at(learned + so_far.made());
                answer_request(context, || {
                    let rows = [rows.clone(), rows_of(duration, &labels, &so_far.results(), |_| None)].concat();
                    let data = known.data(rows, &parts, (NotRun::default(), vec![SO_FAR.to_owned()]));
                    let blocks = page(&data);
                    Some(Document::new(data, blocks))
                });
                context.check()
            })
        };
        drop(methods);
        parts.end(exact_time(duration));
        refused.extend(refusals(&overshoots));
        rows.extend(rows_of(duration, &labels, &overshoots, |place| ways[place].report()));
    }
    let not_run = watch.read();
    let conditions = conditions.end();
    drop(progress);
    refused.dedup();
    let warnings = [refused, held.end()].concat();
    let mut data = known.data(rows, &parts, (not_run, warnings.clone()));
    let answer = if warnings.is_empty() { Answer::Yes } else { Answer::Unknown };
    data.conditions = conditions;
    let answer = asked.conditions.judge(&data.conditions, (&mut data.notes, &mut []), answer);
    let blocks = page(&data);
    Ok(Document { answer, warnings, ..Document::new(data, blocks) })
}

/// Returns a warning if the kernel refused the system call of some methods, so that these were not measured.
pub(super) fn refusals(overshoots: &[SleepOvershoot]) -> Option<String> {
    let refused = || overshoots.iter().filter_map(|overshoot| Some((overshoot.method, overshoot.refused.as_ref()?)));
    let (_, error) = refused().next()?;
    let mut methods: Vec<&str> = refused().map(|(method, _)| method).collect();
    methods.dedup();
    Some(format!(
        "not measured: {}; the kernel refused clock_nanosleep ({}), which a sandbox (seccomp) may forbid",
        methods.join(", "),
        causes(error)
    ))
}

/// Measures the CPU time of a sleep that only blocks, as a share of the elapsed time.
fn blocking_share(duration: Duration, count: u64, context: &Context) -> Option<f64> {
    let sleeps = sleep_overshoot(repeated(duration, count), &mut [SleepMethod::nanosleep()], |_| context.check());
    sleeps.first()?.cpu_share
}

/// Returns the settings to compare. `blocking` is the share of a CPU that a sleep takes which only blocks; `None` if the
/// kernel does not report CPU time, for which there are then no targets.
fn ways(asked: &CurveRequest<'_>, blocking: Option<f64>) -> Vec<CurveMethod> {
    let us = Duration::from_micros;
    let fixed = FIXED_MARGINS_US.map(|margin| CurveMethod::Fixed(us(margin)));
    let p99 = P99_TARGETS_US.map(|late| CurveMethod::hpt(Target::P99(us(late))));
    let share = |factor: f64, blocking: f64| two_digits(factor * blocking).min(LARGEST_CPU_TARGET);
    let of_factor =
        |blocking: f64| CPU_TARGETS.map(|factor| CurveMethod::hpt(Target::CpuShare(share(factor, blocking))));
    let cpu = blocking.into_iter().flat_map(of_factor);
    let mut all = vec![("std", CurveMethod::Std), ("nanosleep", CurveMethod::Nanosleep)];
    all.extend(fixed.map(|way| ("fixed", way)));
    all.push(("busy", CurveMethod::Busy));
    let default = CurveMethod::hpt(Target::Balanced);
    all.extend([default].into_iter().chain(p99).chain(cpu).map(|way| ("hpt", way)));
    all.into_iter().filter(|(method, _)| (asked.wants)(method)).map(|(_, way)| way).collect()
}

/// Rounds a positive number to two significant digits, so that it can be typed.
fn two_digits(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    (value / unit).round() * unit
}

/// The request, and the settings of the thread: the parts of the document that are known before the run.
struct Known<'a> {
    asked: &'a CurveRequest<'a>,
    context: &'a Context,
    cpu: Option<usize>,
    settings: EffectiveSettings,
    learning: u64,
}

impl Known<'_> {
    fn data(
        &self,
        rows: Vec<SleepCurveRow>,
        parts: &Parts<'_>,
        (not_run, remarks): (NotRun, Vec<String>),
    ) -> SleepCurveDocument {
        let Self { asked, context, cpu, settings, learning } = self;
        let disturbed = not_run::note(&not_run, "the overshoot is larger than on an idle machine");
        let few = rows.iter().any(|row| row.p99_ns.is_none());
        let few = few.then(|| "p99 needs at least 1000 sleeps, so no setting is recommended".to_owned());
        let device = context.note_of_a_device(|_| "programs select it with hpt_core::use_source".to_owned());
        let notes = [
            Vec::from_iter(disturbed),
            context.notes(),
            settings.notes(),
            parts.notes(),
            remarks,
            Vec::from_iter(few),
            Vec::from_iter(device),
        ];
        SleepCurveDocument {
            head: head_of("sleep-curve", &context.host),
            cpu: *cpu,
            thread: settings.thread.clone(),
            source: clock::source().id.to_string(),
            learning_sleeps: *learning,
            interrupted: context.interrupted(),
            cpu_absences: parts.absences(),
            not_run,
            conditions: hpt_document::conditions::Conditions::default(),
            recommendations: asked
                .lengths
                .iter()
                .flat_map(|&duration| recommendations(&rows, saturating_nanos(duration)))
                .collect(),
            results: rows,
            notes: notes.concat(),
        }
    }
}

/// Returns the rows of one duration, with the best of them marked. `report` returns the report of the sleeper with this
/// place in `labels`, if there is one.
fn rows_of(
    duration: Duration,
    labels: &[Option<String>],
    overshoots: &[SleepOvershoot],
    report: impl Fn(usize) -> Option<Report>,
) -> Vec<SleepCurveRow> {
    let all = overshoots.iter().zip(labels).enumerate();
    let measured = all.filter(|(_, (overshoot, _))| overshoot.overshoot.is_some());
    let row = |(place, (overshoot, label)): (usize, (&SleepOvershoot, &Option<String>))| {
        row(duration, label.clone(), overshoot, report(place).as_ref())
    };
    let mut rows: Vec<_> = measured.map(row).collect();
    mark_best(&mut rows);
    rows
}

fn row(
    duration: Duration,
    setting: Option<String>,
    overshoot: &SleepOvershoot,
    report: Option<&Report>,
) -> SleepCurveRow {
    let sorted_ns = &overshoot.sorted_ns;
    let samples = sorted_ns.len() as u64;
    let p99 = tail(samples, 0.99, ()).and_then(|()| quantile_with_bounds(sorted_ns, 0.99));
    SleepCurveRow {
        duration_ns: saturating_nanos(duration),
        method: overshoot.method.to_owned(),
        setting,
        samples,
        early: overshoot.early,
        p50_ns: overshoot.overshoot.map(|late| rounded(late.p50_ns)),
        p90_ns: tail(samples, 0.9, ()).and_then(|()| quantile_with_bounds(sorted_ns, 0.9)).map(|[_, p90, _]| p90),
        p99_ns: p99.map(|[_, p99, _]| p99),
        p99_low_ns: p99.map(|[low, _, _]| low),
        p99_high_ns: p99.map(|[_, _, high]| high),
        trimmed_mean_ns: overshoot.trimmed_mean_ns.map(rounded),
        max_ns: overshoot.overshoot.map(|late| rounded(late.max_ns)),
        cpu_share: overshoot.cpu_share.map(rounded_cpu_share),
        is_best: None,
        margin_ns: report.map(|report| saturating_nanos(report.margin)),
        target: report.map(target::field),
    }
}

/// Returns a quantile of sorted samples between its bounds at 95 % confidence. The number of samples below a quantile
/// has a binomial distribution if the samples are independent, which here is approximated by the normal distribution.
/// The bounds are the samples at the ends of its central 95 %.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index of a list"
)]
fn quantile_with_bounds(sorted_ns: &[u64], part: f64) -> Option<[f64; 3]> {
    const DEVIATIONS: f64 = 1.96;
    let last = sorted_ns.len().checked_sub(1)?;
    let below = sorted_ns.len() as f64 * part;
    let width = DEVIATIONS * (below * (1.0 - part)).sqrt();
    // The tolerance prevents a rounding error from selecting the next sample.
    let ranks = [(below - width).floor(), (below - 1e-6).ceil(), (below + width).ceil() + 1.0];
    Some(ranks.map(|rank| sorted_ns[(rank.max(1.0) as usize - 1).min(last)] as f64))
}

/// Marks the rows that no other row of the same duration beats.
fn mark_best(rows: &mut [SleepCurveRow]) {
    let known: Vec<Option<(f64, f64)>> = rows.iter().map(|row| row.p99_ns.zip(row.cpu_share)).collect();
    for (row, own) in rows.iter_mut().zip(&known) {
        row.is_best = own.map(|(p99, cpu)| {
            let mut others = known.iter().flatten();
            !others.any(|other| other.0 <= p99 && other.1 <= cpu && *other != (p99, cpu))
        });
    }
}

/// Returns the cheapest setting for each limit of p99; none if p99 is unknown.
fn recommendations(rows: &[SleepCurveRow], duration_ns: u64) -> Vec<SleepRecommendation> {
    let rows: Vec<&SleepCurveRow> = rows.iter().filter(|row| row.duration_ns == duration_ns).collect();
    if rows.iter().all(|row| row.p99_ns.is_none()) {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "limits are below 2^53")]
    let cheapest = |limit_ns: u64| {
        let within = |row: &&&SleepCurveRow| row.p99_high_ns.is_some_and(|high| high < limit_ns as f64);
        let with_cpu = rows.iter().filter(within).filter_map(|row| Some((row.cpu_share?, *row)));
        with_cpu.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, row)| row)
    };
    LIMITS_NS
        .map(|limit_ns| {
            let row = cheapest(limit_ns);
            SleepRecommendation {
                duration_ns,
                limit_ns,
                method: row.map(|row| row.method.clone()),
                setting: row.and_then(|row| row.setting.clone()),
                p99_ns: row.and_then(|row| row.p99_ns),
                p99_high_ns: row.and_then(|row| row.p99_high_ns),
                cpu_share: row.and_then(|row| row.cpu_share),
            }
        })
        .into()
}

/// Returns the same duration `count` times.
pub(super) fn repeated(duration: Duration, count: u64) -> impl Iterator<Item = Duration> {
    (0..count).map(move |_| duration)
}

#[cfg(test)]
mod tests {
    use hpt_document::sleep_curve::SleepCurveRow;
    use proptest::{prelude::prop_assert, proptest};

    use super::{mark_best, quantile_with_bounds, recommendations, two_digits};
    use crate::measurements::sleep::curve_page::tests::row;

    fn rows() -> Vec<SleepCurveRow> {
        let mut rows = vec![
            row("nanosleep", None, 50_000.0, 0.02),
            row("fixed", Some("50 µs"), 12_000.0, 0.04),
            row("fixed", Some("125 µs"), 900.0, 0.12),
            row("hpt", Some("p99=5 µs"), 4_200.0, 0.04),
            row("hpt", Some("p99=1 µs"), 950.0, 0.11),
            row("busy", None, 300.0, 1.0),
        ];
        mark_best(&mut rows);
        rows
    }

    #[test]
    fn a_row_is_best_unless_another_one_beats_it() {
        let best: Vec<_> = rows().iter().map(|row| row.is_best).collect();
        assert_eq!(best, [true, false, true, true, true, true].map(Some));
        let mut unknown = vec![SleepCurveRow { p99_ns: None, ..row("std", None, 1.0, 0.1) }];
        mark_best(&mut unknown);
        assert_eq!(unknown[0].is_best, None);
    }

    #[test]
    fn the_cheapest_setting_below_a_limit_is_recommended() {
        let found = recommendations(&rows(), 1_000_000);
        let of = |limit_ns: u64| {
            let one = found.iter().find(|one| one.limit_ns == limit_ns).expect("a row for each limit");
            (one.method.as_deref(), one.setting.as_deref(), one.cpu_share)
        };
        assert_eq!(of(100_000), (Some("nanosleep"), None, Some(0.02)));
        assert_eq!(of(20_000), (Some("fixed"), Some("50 µs"), Some(0.04)));
        // The upper bounds of 4.2 µs and of 950 ns are above 5 µs and 1 µs.
        assert_eq!(of(5_000), (Some("hpt"), Some("p99=1 µs"), Some(0.11)));
        assert_eq!(of(1_000), (Some("busy"), None, Some(1.0)));
        assert_eq!(recommendations(&rows(), 5), Vec::new(), "there are no sleeps of this duration");
        let slow = recommendations(&[row("std", None, 1e6, 0.1)], 1_000_000);
        assert!(slow.iter().all(|one| one.method.is_none() && one.cpu_share.is_none()), "{slow:?}");
    }

    #[test]
    fn the_bounds_of_a_quantile_are_samples_around_it() {
        let sorted: Vec<u64> = (1..=1_000).collect();
        // 990 samples at most are below p99, with a standard deviation of 3.15.
        assert_eq!(quantile_with_bounds(&sorted, 0.99), Some([983.0, 990.0, 998.0]));
        assert_eq!(quantile_with_bounds(&[7], 0.99), Some([7.0; 3]));
        assert_eq!(quantile_with_bounds(&[], 0.99), None);
    }

    #[test]
    fn budgets_can_be_typed() {
        for (value, rounded) in [(0.0, 0.0), (0.025_34, 0.025), (0.000_456, 0.000_46), (0.999, 1.0), (-1.0, 0.0)] {
            assert!((two_digits(value) - rounded).abs() < 1e-12, "{value}");
        }
    }

    proptest! {
        #[test]
        fn bounds_are_in_order(mut samples: Vec<u32>, part in 0.0..=1.0_f64) {
            samples.sort_unstable();
            let sorted: Vec<u64> = samples.iter().map(|&ns| ns.into()).collect();
            if let Some([low, middle, high]) = quantile_with_bounds(&sorted, part) {
                prop_assert!(low <= middle && middle <= high);
            }
        }
    }
}
