//! The times of all spans at one point in time, as data and as a table.

use std::{collections::BTreeMap, fmt, time::Duration};

use tracing_core::Level;

use crate::recorder::Recorded;
use hpt_core::stats::Durations;

/// The times of all spans at one point in time. `Display` formats them as a table, in which `-` stands for a percentile
/// beyond which fewer than ten durations lie.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// One item for each name and target, the largest sum of total times first.
    pub spans: Vec<SpanSummary>,
}

/// The times of the spans with one name and target.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SpanSummary {
    /// The name of the spans.
    pub name: &'static str,
    /// The target of the spans, usually the path of the module.
    pub target: &'static str,
    /// The level of the spans.
    #[cfg_attr(feature = "serde", serde(serialize_with = "level_name"))]
    pub level: Level,
    /// The times from the creation to the end of each span.
    pub total: Durations,
    /// The times in which each span was entered; `None` if they were not recorded.
    pub busy: Option<Durations>,
}

impl Snapshot {
    /// Adds up what several threads have recorded, and several spans of one name.
    pub(crate) fn of(recorded: Vec<Recorded>) -> Self {
        let mut spans: BTreeMap<_, SpanSummary> = BTreeMap::new();
        for Recorded { metadata, total, busy } in recorded {
            let (name, target, level) = (metadata.name(), metadata.target(), *metadata.level());
            match spans.get_mut(&(name, target, level)) {
                None => {
                    spans.insert((name, target, level), SpanSummary { name, target, level, total, busy });
                }
                Some(span) => {
                    span.total.add(&total);
                    if let (Some(sum), Some(busy)) = (&mut span.busy, &busy) {
                        sum.add(busy);
                    }
                }
            }
        }
        let mut spans: Vec<_> = spans.into_values().collect();
        spans.sort_by_key(|span| std::cmp::Reverse(span.total.sum()));
        Self { spans }
    }

    /// Returns the times of the spans of this name; those with the largest sum, if several targets have such spans.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_tracing::SpanTimes;
    /// use tracing_subscriber::{layer::SubscriberExt, registry};
    ///
    /// let times = SpanTimes::new();
    /// tracing::subscriber::with_default(registry().with(times.layer()), || {
    ///     tracing::info_span!("parse").in_scope(|| std::hint::black_box(0));
    /// });
    /// let snapshot = times.snapshot();
    /// assert!(snapshot.span("parse").is_some_and(|parse| parse.total.max() <= Some(parse.total.sum())));
    /// assert!(snapshot.span("print").is_none());
    /// ```
    #[must_use]
    pub fn span(&self, name: &str) -> Option<&SpanSummary> {
        self.spans.iter().find(|span| span.name == name)
    }
}

#[cfg(feature = "serde")]
fn level_name<S: serde::Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.as_str())
}

/// Formats a duration with three significant digits, for example `1.23 µs`.
fn short(duration: Option<Duration>) -> String {
    let Some(duration) = duration else { return "-".to_owned() };
    #[expect(clippy::cast_precision_loss, reason = "for printing")]
    let mut value = duration.as_nanos() as f64;
    let mut units = ["ns", "µs", "ms", "s"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    // The limit is on the rounded number: 999.6 ns is printed as 1.00 µs.
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        value /= 1e3;
        unit = next;
    }
    match (unit, value) {
        ("ns", _) => format!("{value:.0} ns"),
        (_, value) if value < 9.995 => format!("{value:.2} {unit}"),
        (_, value) if value < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.spans.is_empty() {
            return writeln!(f, "no span has ended");
        }
        let mut rows = vec![["span", "count", "sum", "p50", "p99", "max", "busy p50", "busy p99"].map(str::to_owned)];
        rows.extend(self.spans.iter().map(|span| {
            let (total, busy) = (&span.total, span.busy.as_ref());
            [
                format!("{}: {}", span.target, span.name),
                total.count().to_string(),
                short(Some(total.sum())),
                short(total.quantile(0.5)),
                short(total.supported_quantile(0.99)),
                short(total.max()),
                short(busy.and_then(|busy| busy.quantile(0.5))),
                short(busy.and_then(|busy| busy.supported_quantile(0.99))),
            ]
        }));
        let widths: [usize; 8] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
        for row in rows {
            let [name, figures @ ..] = &row;
            write!(f, "{name:<width$}", width = widths[0])?;
            for (figure, width) in figures.iter().zip(&widths[1..]) {
                write!(f, "  {figure:>width$}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Snapshot, short};

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        let shown = |ns| short(Some(Duration::from_nanos(ns)));
        assert_eq!([shown(0), shown(999), shown(1_234)], ["0 ns", "999 ns", "1.23 µs"]);
        assert_eq!([shown(12_345), shown(999_600), shown(2_500_000_000)], ["12.3 µs", "1.00 ms", "2.50 s"]);
        assert_eq!([shown(4_000_000_000_000), short(None)], ["4000 s", "-"]);
    }

    #[test]
    fn an_empty_snapshot_says_so() {
        assert_eq!(Snapshot::default().to_string(), "no span has ended\n");
    }
}
