//! Span times as OpenMetrics histograms.

use std::{fmt, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    metrics::{MetricType, exemplar::Exemplar},
    registry::{Registry, Unit},
};

use crate::{
    layer::SpanTimes,
    snapshot::{Snapshot, SpanSummary},
};
use hpt_core::stats::Durations;

/// The upper limits of the buckets: 1, 2.5 and 5 in each decade from 100 ns to 10 s. They are the same for every
/// program, so that histograms of many machines can be added up.
const LIMITS_NS: [u64; 25] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

type Labels = [(&'static str, &'static str); 2];

/// Returns the limit of each bucket in seconds with the number of durations in it. A bucket also includes durations
/// that exceed its limit by less than the precision of the histogram. The last bucket has no limit.
fn buckets(durations: &Durations) -> Vec<(f64, u64)> {
    let mut below = 0;
    let mut buckets: Vec<(f64, u64)> = LIMITS_NS
        .iter()
        .map(|&limit_ns| {
            let limit = Duration::from_nanos(limit_ns);
            let at_most = durations.count_at_most(limit);
            let bucket = (limit.as_secs_f64(), at_most - below);
            below = at_most;
            bucket
        })
        .collect();
    // prometheus-client prints this limit as +Inf.
    buckets.push((f64::INFINITY, durations.count() - below));
    buckets
}

fn encode_family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    spans: impl Iterator<Item = (&'a SpanSummary, &'a Durations)>,
) -> fmt::Result {
    let mut spans = spans.peekable();
    if spans.peek().is_none() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    let mut rest: Vec<_> = spans.collect();
    // The same order in every export.
    rest.sort_by_key(|(span, _)| (span.target, span.name, span.level));
    // Spans that differ only in their level are one series.
    let mut series: Vec<(Labels, Durations)> = Vec::new();
    for (span, durations) in rest {
        let labels = [("target", span.target), ("span", span.name)];
        match series.last_mut() {
            Some((last, sum)) if *last == labels => sum.add(durations),
            _ => series.push((labels, durations.clone())),
        }
    }
    for (labels, durations) in series {
        family.encode_family(&labels)?.encode_histogram::<Labels>(
            durations.sum().as_secs_f64(),
            durations.count(),
            &buckets(&durations),
            None::<&std::collections::HashMap<usize, Exemplar<Labels, f64>>>,
        )?;
    }
    Ok(())
}

fn encode(snapshot: &Snapshot, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let spans = snapshot.spans.iter();
    encode_family(
        &mut encoder,
        "hpt_span_duration",
        "Time from the creation to the end of a span",
        spans.clone().map(|span| (span, &span.total)),
    )?;
    encode_family(
        &mut encoder,
        "hpt_span_busy",
        "Time in which a span was entered",
        spans.filter_map(|span| span.busy.as_ref().map(|busy| (span, busy))),
    )
}

/// A snapshot that prometheus-client encodes.
#[derive(Debug)]
struct Once(Snapshot);

impl Collector for Once {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(&self.0, encoder)
    }
}

impl Snapshot {
    /// Returns the times in the OpenMetrics text format, which Prometheus reads: the histograms
    /// `hpt_span_duration_seconds` and `hpt_span_busy_seconds`, with the labels `target` and `span`.
    ///
    /// A bucket also includes durations that exceed its limit by less than the precision of the histogram (1 % by
    /// default).
    ///
    /// For other names, register a clone of [`SpanTimes`], which is a collector, in a registry of prometheus-client: one
    /// from `Registry::with_prefix("app")` exports `app_hpt_span_duration_seconds`.
    ///
    /// The counts of a histogram must never decrease, so export [`SpanTimes::snapshot`], not [`SpanTimes::take`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     tracing::info_span!("work").in_scope(|| std::hint::black_box(0));
    /// });
    /// let exported = times.snapshot().to_openmetrics();
    /// assert!(exported.contains("# TYPE hpt_span_duration_seconds histogram"));
    /// ```
    #[must_use]
    pub fn to_openmetrics(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Once(self.clone())));
        let mut exported = String::new();
        text::encode(&mut exported, &registry).expect("a string can be written to");
        exported
    }
}

/// Collects a snapshot whenever the registry is encoded.
impl Collector for SpanTimes {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(&self.snapshot(), encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::{LIMITS_NS, buckets};
    use hpt_core::stats::Durations;

    #[test]
    fn every_duration_is_in_one_bucket() {
        let mut durations = Durations::with_digits(2);
        [50, 100, 101, 3_000_000_000, 90_000_000_000].into_iter().for_each(|ns| durations.record_nanos(ns));
        let buckets = buckets(&durations);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 5);
        assert_eq!((buckets[0].1, buckets[1].1, buckets[23].1), (2, 1, 1));
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, 1)));
    }

    #[test]
    fn the_limits_increase() {
        assert!(LIMITS_NS.is_sorted());
    }
}
