//! The warm-up of a run: its option, and the samples that it discards.

use serde::{Deserialize, Serialize};
use std::time::Duration;

use clap::Args;
use hpt_core::Instant;
use hpt_document::warm_up::DiscardedSamples;

use super::run_length::long;
use crate::{
    context::Context,
    output::{one_or_many, progress::Progress, saturating_nanos, short_time},
};

/// The help of `--warm-up` for a command without `--duration`.
pub(crate) const COUNT_HELP: &str = "Discard the samples of the first TIME\n\n--count begins after the warm-up.";

/// The name of one sample and of several.
pub(crate) const SAMPLES: (&str, &str) = ("sample", "samples");

/// The option `--warm-up`.
#[derive(Clone, Copy, Debug, Args, Serialize, Deserialize)]
pub(crate) struct WarmUpOption {
    /// Discard the samples of the first TIME
    ///
    /// --duration and --count begin after the warm-up.
    #[arg(long, value_name = "TIME", value_parser = long, hide_short_help = true)]
    warm_up: Option<Duration>,
}

impl WarmUpOption {
    pub(crate) fn length(self) -> Duration {
        self.warm_up.unwrap_or_default()
    }

    /// Returns the warm-up of a thread. It begins at the time of the first sample.
    pub(crate) fn of_thread(self) -> WarmUp {
        WarmUp { length: self.length(), end: None }
    }

    /// Warms up a measurement with one thread. `take` takes samples until the given time at the latest, and returns their
    /// number. Ctrl-C ends the warm-up. A warm-up that is too short for a sample, or in which the thread waits for a CPU,
    /// continues for twice as long.
    pub(crate) fn spend(
        self,
        (context, progress): (&Context, &Progress),
        mut take: impl FnMut(Instant) -> u64,
    ) -> DiscardedSamples {
        if self.warm_up.is_some() {
            progress.name("warm-up");
        }
        let mut length = self.length();
        let mut end = Instant::now().saturating_add(length);
        let mut warm_up_samples = 0;
        while !length.is_zero() && !context.interrupted() {
            warm_up_samples += take(end);
            let now = Instant::now();
            if now < end {
                continue;
            }
            if warm_up_samples > 0 {
                break;
            }
            length = length.saturating_mul(2);
            end = now.saturating_add(length);
        }
        DiscardedSamples { warm_up_ns: saturating_nanos(self.length()), warm_up_samples }
    }

    /// Returns a note on the samples that were discarded, or `None` without a warm-up. `samples` is the name of one and of
    /// several.
    pub(crate) fn note(self, discarded: u64, samples: (&str, &str)) -> Option<String> {
        #[expect(clippy::cast_precision_loss, reason = "for printing")]
        let length = short_time(self.warm_up?.as_nanos() as f64);
        let samples = one_or_many(discarded, samples.0, samples.1);
        Some(format!(
            "{discarded} {samples} of the warm-up ({length}) {} discarded",
            one_or_many(discarded, "was", "were")
        ))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WarmUp {
    length: Duration,
    end: Option<Instant>,
}

impl WarmUp {
    /// Returns whether a sample at this time belongs to the warm-up.
    pub(crate) fn includes(&mut self, when: Instant) -> bool {
        !self.length.is_zero() && when < *self.end.get_or_insert(when.saturating_add(self.length))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hpt_core::Instant;

    use super::{SAMPLES, WarmUpOption};

    fn at(ms: u64) -> Instant {
        Instant::EPOCH + Duration::from_millis(ms)
    }

    #[test]
    fn a_warm_up_begins_with_the_first_sample() {
        let mut warm_up = WarmUpOption { warm_up: Some(Duration::from_millis(20)) }.of_thread();
        assert_eq!([100, 110, 119, 120, 121].map(|ms| warm_up.includes(at(ms))), [true, true, true, false, false]);
        let mut none = WarmUpOption { warm_up: None }.of_thread();
        assert_eq!([100, 110].map(|ms| none.includes(at(ms))), [false, false]);
    }

    #[test]
    fn what_was_discarded_is_noted() {
        let option = WarmUpOption { warm_up: Some(Duration::from_secs(2)) };
        assert_eq!(option.note(2_000, SAMPLES).as_deref(), Some("2000 samples of the warm-up (2 s) were discarded"));
        assert_eq!(option.note(1, SAMPLES).as_deref(), Some("1 sample of the warm-up (2 s) was discarded"));
        assert_eq!(WarmUpOption { warm_up: None }.note(0, SAMPLES), None);
    }
}
