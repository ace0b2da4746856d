//! The quantiles of a distribution as a list of shares and values. In JSON, each value has a key of its own, such as
//! `p99_ns`. The lists in this module determine the columns of tables, of CSV and of metrics.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap,
};

/// A quantile that a kind of rows has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// The key in JSON, for example `p999_ns`.
    pub key: &'static str,
    /// The name in tables, for example `p99.9`.
    pub name: &'static str,
    /// The share of the samples, from 0 to 1, that are at most as large as the quantile.
    pub share: f64,
}

/// A time in nanoseconds: `u64` or `f64`.
pub trait Nanoseconds: Copy + fmt::Debug + PartialEq + Serialize + for<'de> Deserialize<'de> {
    /// Returns the time as a floating-point number.
    fn as_f64(self) -> f64;
}

impl Nanoseconds for f64 {
    fn as_f64(self) -> f64 {
        self
    }
}

impl Nanoseconds for u64 {
    #[expect(clippy::cast_precision_loss, reason = "durations have at most 17 digits")]
    fn as_f64(self) -> f64 {
        self as f64
    }
}

/// The quantiles that a kind of rows has.
pub trait QuantileList: Clone + fmt::Debug + PartialEq + 'static {
    /// The type of a quantile, in nanoseconds.
    type Value: Nanoseconds;

    /// The quantiles, in ascending order.
    const LIST: &'static [Quantile];

    /// The keys of the quantiles, in the same order.
    const KEYS: &'static [&'static str];

    /// The description of the median in the schema.
    const MEDIAN: &'static str;

    /// The description of the other quantiles in the schema, with `{}` for the number of the percentile.
    const TAIL: &'static str;

    /// Whether the median is never null.
    const HAS_MEDIAN: bool;
}

/// Defines lists of quantiles.
macro_rules! lists {
    ($(
        $(#[$meta:meta])*
        $name:ident of $value:ty, median $has_median:literal: $median:literal, tail: $tail:literal,
        $($key:literal $column:literal $share:literal,)+;
    )*) => {
        $($(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name;

        impl QuantileList for $name {
            type Value = $value;
            const LIST: &'static [Quantile] = &[$(Quantile { key: $key, name: $column, share: $share },)+];
            const KEYS: &'static [&'static str] = &[$($key,)+];
            const MEDIAN: &'static str = $median;
            const TAIL: &'static str = $tail;
            const HAS_MEDIAN: bool = $has_median;
        })*
    };
}

lists! {
    /// The quantiles of wake-ups and of GPIO edges.
    LatencyList of u64,
    median true: "The median latency, in nanoseconds. All quantiles are rounded to three significant digits.",
    tail: "The {} percentile of the latency, in nanoseconds; null if fewer than ten samples are above it.",
    "p50_ns" "p50" 0.5,
    "p99_ns" "p99" 0.99,
    "p999_ns" "p99.9" 0.999,
    "p9999_ns" "p99.99" 0.9999,
    "p99999_ns" "p99.999" 0.99999,;

    /// The quantiles of the lengths of stalls.
    StallList of u64,
    median false: "The median duration of a stall, in nanoseconds; null if there were no stalls. All quantiles are rounded to three significant digits.",
    tail: "The {} percentile of the stall durations, in nanoseconds; null if fewer than ten stalls were longer.",
    "p50_ns" "p50" 0.5,
    "p99_ns" "p99" 0.99,
    "p999_ns" "p99.9" 0.999,;

    /// The quantiles of the overshoot of sleeps.
    SleepList of f64,
    median false: "The median overshoot, in nanoseconds.",
    tail: "The {} percentile of the overshoot, in nanoseconds; null if fewer than ten samples are above it.",
    "p50_ns" "p50" 0.5,
    "p99_ns" "p99" 0.99,
    "p999_ns" "p99.9" 0.999,;

    /// The quantiles of reads that were timed one at a time.
    SingleReadList of f64,
    median false: "The median time of a single read, in nanoseconds, including the read overhead of the stopwatch.",
    tail: "The {} percentile of the time of a single read, in nanoseconds, including the read overhead of the stopwatch; null if fewer than ten samples are above it.",
    "single_p50_ns" "p50" 0.5,
    "single_p99_ns" "p99" 0.99,
    "single_p999_ns" "p99.9" 0.999,;

    /// The quantiles of the intervals between back-to-back reads.
    PairList of f64,
    median false: "The median interval, in nanoseconds; null if the duration of a tick is unknown.",
    tail: "The {} percentile of the interval, in nanoseconds; null if the duration of a tick is unknown, or if fewer than ten samples are above it.",
    "p50_ns" "p50" 0.5,
    "p99_ns" "p99" 0.99,;

    /// The quantiles of the intervals between recorded edges.
    EdgeList of f64,
    median true: "The median interval, in nanoseconds.",
    tail: "The {} percentile of the interval, in nanoseconds; null if fewer than ten intervals are above it.",
    "p50_ns" "p50" 0.5,
    "p99_ns" "p99" 0.99,;
}

/// The quantiles of one distribution. A quantile with too few samples has no value.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles<L: QuantileList>(Vec<Option<L::Value>>);

impl<L: QuantileList> Default for Quantiles<L> {
    fn default() -> Self {
        Self::of(|_| None)
    }
}

impl<L: QuantileList> Quantiles<L> {
    /// Creates the list. `value` returns the value of a quantile.
    #[must_use]
    pub fn of(value: impl FnMut(&'static Quantile) -> Option<L::Value>) -> Self {
        Self(L::LIST.iter().map(value).collect())
    }

    /// Returns the quantiles and their values, in ascending order.
    #[must_use]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&'static Quantile, Option<L::Value>)> {
        L::LIST.iter().zip(self.0.iter().copied())
    }

    /// Returns the quantiles and their values as floating-point numbers, in ascending order.
    #[must_use]
    pub fn nanos(&self) -> impl DoubleEndedIterator<Item = (&'static Quantile, Option<f64>)> {
        self.iter().map(|(quantile, value)| (quantile, value.map(Nanoseconds::as_f64)))
    }

    /// Returns the value of the quantile with this share; `None` if it has no value, or if the list does not have it.
    #[must_use]
    pub fn get(&self, share: f64) -> Option<L::Value> {
        self.iter().find(|(quantile, _)| (quantile.share - share).abs() < 1e-9)?.1
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> Option<L::Value> {
        self.get(0.5)
    }

    /// Returns the 99th percentile.
    #[must_use]
    pub fn p99(&self) -> Option<L::Value> {
        self.get(0.99)
    }
}

impl<L: QuantileList> Serialize for Quantiles<L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(L::LIST.len()))?;
        for (quantile, value) in self.iter() {
            map.serialize_entry(quantile.key, &value)?;
        }
        map.end()
    }
}

impl<'de, L: QuantileList> Deserialize<'de> for Quantiles<L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Quantiles", L::KEYS, Values(PhantomData))
    }
}

/// Reads the values by their keys. Ignores other keys; a missing value is null.
struct Values<L>(PhantomData<L>);

impl<'de, L: QuantileList> Visitor<'de> for Values<L> {
    type Value = Quantiles<L>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("quantiles")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Quantiles::<L>::default();
        while let Some(key) = map.next_key::<String>()? {
            match L::KEYS.iter().position(|known| *known == key) {
                Some(place) if place == 0 && L::HAS_MEDIAN => values.0[place] = Some(map.next_value()?),
                Some(place) => values.0[place] = map.next_value()?,
                None => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        match values.0.first() {
            Some(None) if L::HAS_MEDIAN => Err(serde::de::Error::missing_field(L::KEYS[0])),
            _ => Ok(values),
        }
    }
}

#[cfg(feature = "schema")]
impl<L: QuantileList<Value: schemars::JsonSchema>> schemars::JsonSchema for Quantiles<L> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantiles".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut properties = serde_json::Map::new();
        for quantile in L::LIST {
            let is_median = quantile.name == "p50";
            let mut schema = if is_median && L::HAS_MEDIAN {
                L::Value::json_schema(generator)
            } else {
                Option::<L::Value>::json_schema(generator)
            };
            let percentile = format!("{}th", quantile.name.trim_start_matches('p'));
            let description = if is_median { L::MEDIAN.to_owned() } else { L::TAIL.replacen("{}", &percentile, 1) };
            schema.insert("description".to_owned(), description.into());
            properties.insert(quantile.key.to_owned(), schema.into());
        }
        schemars::json_schema!({ "type": "object", "properties": properties, "required": L::KEYS })
    }
}
