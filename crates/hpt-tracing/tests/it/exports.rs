//! Snapshots as a table, as JSON and as OpenMetrics.

use std::time::Duration;

use hpt_core::testing::FrozenClock;
use hpt_tracing::SpanTimes;
use tracing::info_span;
use tracing_subscriber::{layer::SubscriberExt, registry};

/// One span of 1 ms, one of 3 ms.
fn two_spans() -> SpanTimes {
    let (times, clock) = (SpanTimes::new(), FrozenClock::new());
    let _entered = clock.enter();
    tracing::subscriber::with_default(registry().with(times.layer()), || {
        for ms in [1, 3] {
            info_span!("task").in_scope(|| clock.advance(Duration::from_millis(ms)));
        }
    });
    times
}

#[test]
fn a_table_has_one_line_per_span() {
    assert_eq!(
        two_spans().snapshot().to_string(),
        "span               count      sum      p50  p99      max  busy p50  busy p99\n\
         it::exports: task      2  4.00 ms  1.00 ms    -  3.00 ms   1.00 ms         -\n"
    );
}

#[test]
#[cfg(feature = "serde")]
fn json_has_the_figures_in_nanoseconds() {
    let json = serde_json::to_value(two_spans().snapshot()).unwrap();
    let span = &json["spans"][0];
    assert_eq!(
        (&span["name"], &span["target"], &span["level"]),
        (&"task".into(), &"it::exports".into(), &"INFO".into())
    );
    let total = &span["total"];
    assert_eq!((&total["count"], &total["sum_ns"]), (&2.into(), &4_000_000.into()));
    assert_eq!(
        (&total["min_ns"], &total["mean_ns"], &total["max_ns"]),
        (&1_000_000.into(), &2_000_000.into(), &3_000_000.into())
    );
    // To two digits, like all quantiles.
    let median = total["p50_ns"].as_u64().unwrap();
    assert!((1_000_000..=1_010_000).contains(&median), "{median}");
    for key in ["p90_ns", "p99_ns", "p999_ns"] {
        assert!(total[key].is_null(), "{key}: too few durations");
    }
    assert_eq!(span["busy"]["sum_ns"], 4_000_000);
    let without = serde_json::to_value(SpanTimes::new().snapshot()).unwrap();
    assert_eq!(without, serde_json::json!({ "spans": [] }));
}

#[test]
#[cfg(feature = "openmetrics")]
fn openmetrics_has_histograms_in_seconds() {
    let exported = two_spans().snapshot().to_openmetrics();
    let labels = r#"target="it::exports",span="task""#;
    for line in [
        "# TYPE hpt_span_duration_seconds histogram".to_owned(),
        "# UNIT hpt_span_duration_seconds seconds".to_owned(),
        format!("hpt_span_duration_seconds_sum{{{labels}}} 0.004"),
        format!("hpt_span_duration_seconds_count{{{labels}}} 2"),
        format!("hpt_span_duration_seconds_bucket{{le=\"0.0005\",{labels}}} 0"),
        format!("hpt_span_duration_seconds_bucket{{le=\"0.0025\",{labels}}} 1"),
        format!("hpt_span_duration_seconds_bucket{{le=\"+Inf\",{labels}}} 2"),
        "# TYPE hpt_span_busy_seconds histogram".to_owned(),
        "# EOF".to_owned(),
    ] {
        assert!(exported.lines().any(|found| found == line), "{line} is not in\n{exported}");
    }
}

#[test]
#[cfg(feature = "openmetrics")]
fn a_registry_collects_the_current_times() {
    let times = two_spans();
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(times.clone()));
    let encoded = || {
        let mut encoded = String::new();
        prometheus_client::encoding::text::encode(&mut encoded, &registry).unwrap();
        encoded
    };
    assert_eq!(encoded(), times.snapshot().to_openmetrics());
    let _ = times.take();
    assert_eq!(encoded(), "# EOF\n");
}
