//! The layer, with time that the test sets.

use std::{thread, time::Duration};

use hpt_core::testing::FrozenClock;
use hpt_tracing::{Snapshot, SpanTimes};
use tracing::{Dispatch, Level, dispatcher, info_span, span};
use tracing_subscriber::{Layer, filter::LevelFilter, layer::SubscriberExt, registry};

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Runs `work` with a subscriber that records into `times`, at a time that only `work` changes.
fn recorded(times: &SpanTimes, work: impl FnOnce(&FrozenClock)) -> Snapshot {
    let clock = FrozenClock::new();
    let _entered = clock.enter();
    tracing::subscriber::with_default(registry().with(times.layer()), || work(&clock));
    times.snapshot()
}

#[test]
fn total_time_includes_the_wait_and_busy_time_does_not() {
    let snapshot = recorded(&SpanTimes::new(), |clock| {
        let task = info_span!("task");
        clock.advance(MS(10));
        task.in_scope(|| clock.advance(MS(3)));
        clock.advance(MS(20));
        task.in_scope(|| clock.advance(MS(4)));
        clock.advance(MS(1));
    });
    let task = snapshot.span("task").unwrap();
    assert_eq!((task.total.count(), task.total.sum()), (1, MS(38)));
    assert_eq!(task.busy.as_ref().unwrap().sum(), MS(7));
    assert_eq!((task.target, task.level), ("it::spans", Level::INFO));
}

#[test]
fn a_span_that_is_entered_twice_is_busy_once() {
    let snapshot = recorded(&SpanTimes::new(), |clock| {
        let task = info_span!("task");
        task.in_scope(|| {
            clock.advance(MS(1));
            task.in_scope(|| clock.advance(MS(2)));
            clock.advance(MS(4));
        });
    });
    assert_eq!(snapshot.span("task").unwrap().busy.as_ref().unwrap().sum(), MS(7));
}

#[test]
fn spans_within_spans_are_recorded_apart() {
    let snapshot = recorded(&SpanTimes::new(), |clock| {
        info_span!("outer").in_scope(|| {
            clock.advance(MS(5));
            for ms in [1, 2, 3] {
                info_span!("inner").in_scope(|| clock.advance(MS(ms)));
            }
        });
    });
    let names: Vec<_> = snapshot.spans.iter().map(|span| (span.name, span.total.sum())).collect();
    assert_eq!(names, [("outer", MS(11)), ("inner", MS(6))], "the largest sum first");
    let inner = &snapshot.span("inner").unwrap().total;
    assert_eq!((inner.count(), inner.min(), inner.max(), inner.mean()), (3, Some(MS(1)), Some(MS(3)), Some(MS(2))));
}

#[test]
fn two_spans_of_one_name_are_one_summary() {
    let snapshot = recorded(&SpanTimes::new(), |clock| {
        info_span!("task").in_scope(|| clock.advance(MS(1)));
        info_span!("task").in_scope(|| clock.advance(MS(2)));
        span!(target: "elsewhere", Level::INFO, "task").in_scope(|| clock.advance(MS(4)));
    });
    let sums: Vec<_> = snapshot.spans.iter().map(|span| (span.target, span.total.count(), span.total.sum())).collect();
    assert_eq!(sums, [("elsewhere", 1, MS(4)), ("it::spans", 2, MS(3))]);
}

#[test]
fn a_span_that_has_not_ended_is_not_included() {
    let times = SpanTimes::new();
    let snapshot = recorded(&times, |_clock| {
        let task = info_span!("task");
        assert!(times.snapshot().spans.is_empty());
        drop(task);
        assert_eq!(times.snapshot().spans.len(), 1);
    });
    assert_eq!(snapshot.spans.len(), 1);
}

#[test]
fn busy_times_can_be_left_out() {
    let times = SpanTimes::new().without_busy_times().with_significant_digits(3);
    let snapshot = recorded(&times, |clock| info_span!("task").in_scope(|| clock.advance(MS(1))));
    let task = snapshot.span("task").unwrap();
    assert_eq!((task.total.sum(), task.busy.as_ref()), (MS(1), None));
}

#[test]
fn taking_a_snapshot_begins_again() {
    let times = SpanTimes::new();
    let first = recorded(&times, |clock| info_span!("task").in_scope(|| clock.advance(MS(1))));
    assert_eq!(times.take(), first);
    assert!(times.snapshot().spans.is_empty());
}

#[test]
fn spans_of_all_threads_are_added_up() {
    const THREADS: usize = 8;
    const SPANS: usize = 1_000;
    let times = SpanTimes::new();
    let dispatch = Dispatch::new(registry().with(times.layer()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                dispatcher::with_default(&dispatch, || {
                    for _ in 0..SPANS {
                        info_span!("task").in_scope(|| ());
                    }
                });
            });
        }
        // Reading at the same time loses nothing.
        for _ in 0..10 {
            let _ = times.snapshot().to_string();
        }
    });
    let snapshot = times.snapshot();
    let task = snapshot.span("task").unwrap();
    assert_eq!(task.total.count(), (THREADS * SPANS) as u64);
    assert_eq!(task.busy.as_ref().unwrap().count(), (THREADS * SPANS) as u64);
    assert!(task.busy.as_ref().unwrap().sum() <= task.total.sum());
}

#[test]
fn a_span_can_end_on_another_thread() {
    let times = SpanTimes::new();
    let dispatch = Dispatch::new(registry().with(times.layer()));
    let task = dispatcher::with_default(&dispatch, || info_span!("task"));
    thread::spawn(move || task.in_scope(|| ())).join().unwrap();
    let snapshot = times.snapshot();
    let task = snapshot.span("task").unwrap();
    assert_eq!(task.total.count(), 1);
    assert!(task.busy.as_ref().unwrap().sum() <= task.total.sum());
}

#[test]
fn a_filter_selects_the_spans() {
    let times = SpanTimes::new();
    let subscriber = registry().with(times.layer().with_filter(LevelFilter::INFO));
    tracing::subscriber::with_default(subscriber, || {
        span!(Level::INFO, "recorded").in_scope(|| ());
        span!(Level::DEBUG, "left out").in_scope(|| ());
    });
    let snapshot = times.snapshot();
    assert!(snapshot.span("recorded").is_some() && snapshot.span("left out").is_none(), "{snapshot}");
}

#[test]
fn of_two_layers_the_first_records() {
    let (first, second) = (SpanTimes::new(), SpanTimes::new());
    let subscriber = registry().with(first.layer()).with(second.layer());
    tracing::subscriber::with_default(subscriber, || info_span!("task").in_scope(|| ()));
    assert_eq!((first.snapshot().spans.len(), second.snapshot().spans.len()), (1, 0));
}

#[test]
fn two_layers_of_the_same_times_record_a_span_once() {
    let times = SpanTimes::new();
    let subscriber = registry().with(times.layer()).with(times.layer());
    tracing::subscriber::with_default(subscriber, || info_span!("task").in_scope(|| ()));
    assert_eq!(times.snapshot().span("task").unwrap().total.count(), 1);
}

#[test]
fn a_panic_within_a_span_is_recorded_as_its_end() {
    let times = SpanTimes::new();
    let dispatch = Dispatch::new(registry().with(times.layer()));
    let panicked = thread::spawn(move || {
        dispatcher::with_default(&dispatch, || info_span!("task").in_scope(|| std::panic::resume_unwind(Box::new(()))));
    });
    assert!(panicked.join().is_err());
    assert_eq!(times.snapshot().span("task").unwrap().total.count(), 1);
}
