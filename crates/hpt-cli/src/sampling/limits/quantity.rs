//! The quantities that can have a limit, and the parser of a limit.

use std::time::Duration;

use hpt_document::quantiles::{self, LatencyList, QuantileList, SingleReadList, SleepList};
use serde::{Deserialize, Serialize};

use crate::{
    arguments::{duration_in, is_bare_number, whole_count},
    output::saturating_nanos,
};

/// The number of samples that must lie beyond a quantile.
const BEYOND: u64 = 10;
/// The number of units in a whole: a quantile has at most six decimals of a percent.
const WHOLE: u64 = 100_000_000;
/// The number of decimals of a percent.
const DECIMALS: usize = 6;

/// A quantile from p50 to p99.999999, exactly as it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Quantile(u64);

impl Quantile {
    /// Returns the quantiles of wake-ups, in ascending order.
    pub(crate) fn usual() -> impl DoubleEndedIterator<Item = Self> {
        LatencyList::LIST.iter().map(Self::of)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share from 0 to 1"
    )]
    fn of(quantile: &quantiles::Quantile) -> Self {
        Self((quantile.share * WHOLE as f64).round() as u64)
    }

    /// Parses the number in `p99.9`.
    fn parse(percent: &str) -> Option<Self> {
        let (whole, decimals) = percent.split_once('.').unwrap_or((percent, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || whole.len() > 2 || decimals.len() > DECIMALS {
            return None;
        }
        let units: u64 = format!("{whole}{decimals:0<DECIMALS$}").parse().ok()?;
        (WHOLE / 2..WHOLE).contains(&units).then_some(Self(units))
    }

    /// Returns the quantile as a share of the samples.
    #[expect(clippy::cast_precision_loss, reason = "both numbers are exact")]
    pub(crate) fn part(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// Returns the number of samples that the quantile takes: ten must lie beyond it. The median takes one.
    pub(crate) const fn least_samples(self) -> u64 {
        if self.0 == WHOLE / 2 { 1 } else { (BEYOND * WHOLE).div_ceil(WHOLE - self.0) }
    }

    fn name(self) -> String {
        let digits = format!("{:08}", self.0);
        let (whole, decimals) = digits.split_at(2);
        format!("p{whole}.{decimals}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// A quantity that can have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Quantity {
    Quantile(Quantile),
    Mean,
    Max,
    /// The time per back-to-back read.
    Read,
    /// The number of missed deadlines.
    Missed,
    /// The number of stalls.
    Stalls,
}

impl Quantity {
    const NAMED: [Self; 5] = [Self::Mean, Self::Max, Self::Read, Self::Missed, Self::Stalls];

    pub(crate) fn name(self) -> String {
        match self {
            Self::Quantile(quantile) => quantile.name(),
            Self::Mean => "mean".to_owned(),
            Self::Max => "max".to_owned(),
            Self::Read => "read".to_owned(),
            Self::Missed => "missed".to_owned(),
            Self::Stalls => "stalls".to_owned(),
        }
    }

    /// Parses the name of a quantity.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let named = Self::NAMED.into_iter().find(|quantity| quantity.name() == name);
        named.or_else(|| name.strip_prefix('p').and_then(Quantile::parse).map(Self::Quantile))
    }

    pub(crate) const fn is_count(self) -> bool {
        matches!(self, Self::Missed | Self::Stalls)
    }
}

/// The quantities that a command has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    /// The quantiles that the command has; `None` if it has every one.
    quantiles: Option<&'static [quantiles::Quantile]>,
    others: &'static [Quantity],
}

impl Accepted {
    pub(crate) const LATENCY: Self =
        Self { quantiles: None, others: &[Quantity::Mean, Quantity::Max, Quantity::Missed] };
    pub(crate) const STALL: Self = Self { quantiles: None, others: &[Quantity::Mean, Quantity::Max, Quantity::Stalls] };
    pub(crate) const PAIRS: Self = Self { quantiles: None, others: &[Quantity::Mean, Quantity::Max] };
    pub(crate) const SLEEP: Self = Self { quantiles: Some(SleepList::LIST), others: &[Quantity::Mean, Quantity::Max] };
    pub(crate) const BENCH: Self =
        Self { quantiles: Some(SingleReadList::LIST), others: &[Quantity::Read, Quantity::Mean, Quantity::Max] };

    fn has(self, quantity: Quantity) -> bool {
        match quantity {
            Quantity::Quantile(quantile) => {
                self.quantiles.is_none_or(|list| list.iter().any(|one| Quantile::of(one) == quantile))
            }
            other => self.others.contains(&other),
        }
    }

    fn refusal(self, name: &str) -> String {
        format!("{name:?} is not a quantity of this command, which has {}", self.words())
    }

    /// Lists the quantities for a message.
    fn words(self) -> String {
        let quantiles = self.quantiles.map(|list| list.iter().map(|one| one.name.to_owned()).collect());
        let mut names: Vec<String> = quantiles.unwrap_or_else(|| vec!["p50 to p99.999999".to_owned()]);
        names.extend(self.others.iter().map(|quantity| quantity.name()));
        let last = names.pop().unwrap_or_default();
        format!("{} or {last}", names.join(", "))
    }
}

/// The largest value that a quantity may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Most {
    Nanos(u64),
    Count(u64),
}

/// A limit: `p99.9=50us` or `missed=0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) text: String,
    pub(crate) quantity: Quantity,
    pub(crate) most: Most,
}

impl Limit {
    /// Returns a limit that every value of the quantity holds.
    pub(crate) fn boundless(quantity: Quantity, accepted: Accepted) -> Result<Self, String> {
        let (text, most) =
            (quantity.name(), if quantity.is_count() { Most::Count(u64::MAX) } else { Most::Nanos(u64::MAX) });
        if accepted.has(quantity) { Ok(Self { text, quantity, most }) } else { Err(accepted.refusal(&text)) }
    }

    pub(crate) fn parse(text: &str, accepted: Accepted) -> Result<Self, String> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(format!("expected QUANTITY=LIMIT, for example max=200us; QUANTITY is {}", accepted.words()));
        };
        let quantity = Quantity::parse(name).filter(|&quantity| accepted.has(quantity));
        let quantity = quantity.ok_or_else(|| accepted.refusal(name))?;
        let most = if quantity.is_count() {
            Most::Count(whole_count(value).ok_or_else(|| format!("{name} takes a whole number, for example {name}=0"))?)
        } else {
            Most::Nanos(saturating_nanos(time(name, value)?))
        };
        Ok(Self { text: text.to_owned(), quantity, most })
    }
}

fn time(name: &str, value: &str) -> Result<Duration, String> {
    let range = (Duration::from_nanos(1), Duration::from_secs(3_600));
    let parsed = duration_in(value, range, ("between 1ns and 1h", "50us or 2ms"));
    let is_time = is_bare_number(value) || humantime::parse_duration(value).is_ok();
    parsed.map_err(|error| {
        if is_time { error } else { format!("{name} takes a time with a unit, for example {name}=50us or {name}=2ms") }
    })
}

#[cfg(test)]
mod tests {
    use super::{Accepted, Limit, Most, Quantile, Quantity};

    fn quantile(percent: &str) -> Option<Quantile> {
        Quantile::parse(percent)
    }

    #[test]
    fn a_limit_is_a_quantity_and_a_time_or_a_count() {
        let of = |text: &str| Limit::parse(text, Accepted::LATENCY).expect(text);
        assert_eq!(of("max=200us").most, Most::Nanos(200_000));
        assert_eq!((of("mean=1ms").quantity, of("missed=0").most), (Quantity::Mean, Most::Count(0)));
        let limit = of("p99.9=50us");
        assert_eq!((limit.text.as_str(), limit.most), ("p99.9=50us", Most::Nanos(50_000)));
        assert_eq!(limit.quantity.name(), "p99.9");
        assert_eq!(Limit::parse("read=30ns", Accepted::BENCH).map(|limit| limit.quantity), Ok(Quantity::Read));
        assert_eq!(Limit::parse("stalls=1e3", Accepted::STALL).map(|limit| limit.most), Ok(Most::Count(1_000)));
    }

    #[test]
    fn a_wrong_limit_is_refused_with_what_is_accepted() {
        let error = |text: &str, accepted| Limit::parse(text, accepted).expect_err(text);
        let latency = |text: &str| error(text, Accepted::LATENCY);
        assert_eq!(latency("p50=banana"), "p50 takes a time with a unit, for example p50=50us or p50=2ms");
        assert_eq!(latency("p50="), "p50 takes a time with a unit, for example p50=50us or p50=2ms");
        assert_eq!(latency("max=200"), "time unit missing: write 200us, 200ms or 200s");
        assert_eq!(latency("max=0s"), "must be between 1ns and 1h");
        assert_eq!(latency("missed=1us"), "missed takes a whole number, for example missed=0");
        let listed = "p50 to p99.999999, mean, max or missed";
        assert_eq!(latency("50us"), format!("expected QUANTITY=LIMIT, for example max=200us; QUANTITY is {listed}"));
        for name in ["p49", "p100", "p", "p99.", "p99.9999999", "p-1", "px", "worst", "stalls", "read", "", "p099"] {
            let text = format!("{name}=1us");
            assert_eq!(latency(&text), format!("{name:?} is not a quantity of this command, which has {listed}"));
        }
        assert!(error("p99.99=1s", Accepted::SLEEP).ends_with("which has p50, p99, p99.9, mean or max"));
    }

    #[test]
    fn a_quantile_states_how_many_samples_it_takes() {
        for (percent, samples, name) in [
            ("50", 1, "p50"),
            ("75", 40, "p75"),
            ("90.0", 100, "p90"),
            ("99", 1_000, "p99"),
            ("99.9", 10_000, "p99.9"),
            ("99.99", 100_000, "p99.99"),
            ("99.999999", 1_000_000_000, "p99.999999"),
        ] {
            let quantile = quantile(percent).expect(percent);
            assert_eq!((quantile.least_samples(), quantile.name().as_str()), (samples, name));
            assert_eq!(crate::output::has_tail(samples, quantile.part()), percent != "50", "{percent}");
            // `has_tail` tolerates rounding errors, which matter for very large numbers.
            let is_exact = percent != "50" && samples < 1_000_000_000;
            assert!(!is_exact || !crate::output::has_tail(samples - 1, quantile.part()), "{percent}");
        }
    }
}
