//! The option `--limit`, with a parser for each command.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::quantity::{Accepted, Limit};

/// The limits of a run. A command with other quantities replaces the parser.
#[derive(Debug, Args, Serialize, Deserialize)]
pub(crate) struct LimitOptions {
    /// Fail if a quantity exceeds its limit (exit code 1)
    ///
    /// For example p99.9=50us,max=200us,missed=0. The run goes to its end, and then prints a verdict for each limit.
    /// Quantities: p50 to p99.999999, mean, max, and missed (a count). A limit applies to each CPU. If a quantile has
    /// too few samples, the exit code is 3.
    #[arg(long, value_name = "LIMIT,...", value_delimiter = ',', value_parser = of_latency)]
    limit: Vec<Limit>,
}

impl LimitOptions {
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limit
    }

    /// Returns the limits, to be changed.
    pub(crate) const fn limits_mut(&mut self) -> &mut Vec<Limit> {
        &mut self.limit
    }
}

/// The help of `--limit` for a command whose rows are not CPUs or that has other quantities.
macro_rules! long_help {
    ($quantities:literal, $rows:literal) => {
        concat!(
            "Fail if a quantity exceeds its limit (exit code 1)\n\nFor example max=200us. The run goes to its end, and then prints a verdict for each \
             limit. Quantities: ",
            $quantities,
            ". A limit applies to ",
            $rows,
            ". If a quantile has too few samples, the exit code is 3."
        )
    };
}

pub(crate) const STALL_HELP: &str =
    long_help!("p50 to p99.999999, mean and max of the stalls' lengths, and stalls (a count)", "each CPU");
pub(crate) const PAIRS_HELP: &str = long_help!("p50 to p99.999999, mean and max", "each source after each pause");
pub(crate) const SLEEP_HELP: &str = long_help!("p50, p99, p99.9, mean and max", "each method and length");
pub(crate) const BENCH_HELP: &str = long_help!(
    "read (time per back-to-back read), mean (of back-to-back reads), and p50, p99, p99.9 and max of single reads",
    "each source"
);
pub(crate) const GPIO_HELP: &str =
    long_help!("p50 to p99.999999, mean, max, and missed (a count)", "the latency that --figure names");

fn of_latency(text: &str) -> Result<Limit, String> {
    Limit::parse(text, Accepted::LATENCY)
}

pub(crate) fn of_stall(text: &str) -> Result<Limit, String> {
    Limit::parse(text, Accepted::STALL)
}

pub(crate) fn of_pairs(text: &str) -> Result<Limit, String> {
    Limit::parse(text, Accepted::PAIRS)
}

pub(crate) fn of_sleep(text: &str) -> Result<Limit, String> {
    Limit::parse(text, Accepted::SLEEP)
}

pub(crate) fn of_bench(text: &str) -> Result<Limit, String> {
    Limit::parse(text, Accepted::BENCH)
}
