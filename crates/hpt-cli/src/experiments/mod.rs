//! Published measurements and how each is made here: one file for each, and its line in [`RECIPES`].
//! Prints nothing. What measures is hpt-core's, the same that other subcommands use.

mod calls;
mod clock_sources;
mod cost;
mod isolated_core;
mod late_loop;
mod pairs;
mod period;
mod sleeps;
mod steps;

use std::{cell::RefCell, collections::BTreeMap, path::PathBuf, time::Duration};

use hpt_core::{
    Frequency, Opened, Spread, TimeSource,
    measure::{Instruments, ReadCost, beats, read_cost},
    stats::Histogram,
};
use serde::{Deserialize, Serialize};

use crate::{
    context::Context,
    cycle_counters::counts_cycles,
    exit::Failure,
    kernel_clocksources::Comparison,
    output::rounded,
    sampling::realtime::Alone,
    source_rate,
    stopwatch::{Stopwatch, stopwatch},
};

/// Every recipe, in the order in which they are listed. A new one stands here and in the modules above.
pub(crate) const RECIPES: &[&Recipe] = &[
    &calls::RECIPE,
    &steps::RECIPE,
    &late_loop::RECIPE,
    &pairs::RECIPE,
    &period::RECIPE,
    &isolated_core::RECIPE,
    &cost::RECIPE,
    &sleeps::RECIPE,
    &clock_sources::RECIPE,
];

/// A published measurement.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    /// What it measures.
    pub(crate) title: &'static str,
    /// Where it was published, and on which hardware.
    pub(crate) published_in: &'static str,
    pub(crate) hardware: &'static str,
    /// What is another way here than it was there, whatever the machine.
    pub(crate) differs: &'static str,
    pub(crate) published: &'static [Published],
    /// What makes its samples others where it is another, beside the machine and the thread: which sources, which class. Whatever would be refused is refused here.
    pub(crate) way: Option<Way>,
    /// Made and kept one after the other.
    pub(crate) parts: &'static [Part],
}

/// Tells by what it would be measured, before anything is.
pub(crate) type Way = fn(&Context, &Ways) -> Result<Outlook, Failure>;

/// By what something would be measured now.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    pub(crate) conditions: Vec<String>,
    /// What is to be known before an hour has passed.
    pub(crate) notes: Vec<String>,
    /// What is to be said on standard error after the result.
    pub(crate) warnings: Vec<String>,
}

/// A published figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// What is measured in one go.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// How many times as published, and in short.
    pub(crate) count: u64,
    pub(crate) short: u64,
    /// How long one of them takes, about.
    pub(crate) each: Duration,
    /// Whether it goes on where it was ended: it keeps what it has once a minute.
    pub(crate) continues: bool,
    pub(crate) measure: fn(&Run<'_>) -> Result<Vec<Measured>, Failure>,
}

/// What was asked for of the machine, beside the measurement.
#[derive(Default)]
pub(crate) struct Ways {
    /// The CPU that the thread stays on.
    pub(crate) cpu: Option<usize>,
    /// For the thread that has a core of its own.
    pub(crate) alone: Alone,
    /// Under each clock source, where that is meant.
    pub(crate) clock_sources: Option<Comparison>,
    /// Where settings of the machine are written down before they are changed.
    pub(crate) journal: Option<PathBuf>,
}

/// What a part is given.
pub(crate) struct Run<'a> {
    pub(crate) context: &'a Context,
    pub(crate) ways: &'a Ways,
    /// How many to make, after those of `before`.
    pub(crate) count: u64,
    /// What an earlier run made of it, where it was ended.
    pub(crate) before: &'a [Measured],
    /// Told from 0 to 1 how far the part is.
    pub(crate) progress: &'a dyn Fn(f64),
    /// Told how many of `count` are made, and all figures so far.
    pub(crate) keep: &'a dyn Fn(u64, Vec<Measured>),
    /// What is to be said on standard error after the result.
    pub(crate) warnings: &'a RefCell<Vec<String>>,
}

/// Whether a figure is there, and why not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    #[default]
    Measured,
    /// This machine does not show it, or not to this user.
    Missing,
    /// It is of other machines than this one.
    Elsewhere,
    /// Nobody got so far.
    NotMade,
}

/// A figure of this machine. `what` is that of a published one where there is such.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) standing: Standing,
    /// `None` where it was not measured: `how` says why.
    pub(crate) value: Option<f64>,
    pub(crate) samples: u64,
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    pub(crate) max: Option<f64>,
    /// Lengths in the unit, to three digits at least, and how many samples have each.
    pub(crate) distribution: Vec<(f64, u64)>,
    /// By which source, or why not, and what it would take.
    pub(crate) how: String,
}

/// A figure for programs, of a few digits also where it is small.
fn to_digits(value: f64) -> f64 {
    let size = value.abs();
    if size >= 1.0 || size <= f64::MIN_POSITIVE {
        return rounded(value);
    }
    let step = 10_f64.powf(size.log10().floor() - 3.0);
    // Back from text, where no rest of a division is left.
    let digits = format!("{:.*}", decimals(step), (value / step).round() * step);
    digits.parse().unwrap_or(value)
}

/// How many decimals a step of less than one has.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a step, a few at most")]
pub(crate) fn decimals(step: f64) -> usize {
    (-step.log10()).round().clamp(0.0, 15.0) as usize
}

impl Measured {
    /// One figure of so many samples.
    pub(crate) fn figure(what: &str, value: f64, unit: &str, samples: u64, how: impl Into<String>) -> Self {
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            standing: Standing::Measured,
            value: Some(to_digits(value)),
            samples,
            p50: None,
            p99: None,
            max: None,
            distribution: Vec::new(),
            how: how.into(),
        }
    }

    /// The mean of a distribution, and its quantiles; `scale` makes the unit of nanoseconds.
    pub(crate) fn mean_of(what: &str, spread: &Spread, scale: f64, unit: &str, how: impl Into<String>) -> Self {
        let figure = |ns: f64| Some(to_digits(ns * scale));
        Self {
            p50: figure(spread.p50_ns),
            p99: figure(spread.p99_ns),
            max: figure(spread.max_ns),
            ..Self::figure(what, spread.mean_ns * scale, unit, spread.samples, how)
        }
    }

    /// What this machine does not show, and what it would take.
    pub(crate) fn missing(what: &str, unit: &str, why: impl Into<String>) -> Self {
        Self { standing: Standing::Missing, value: None, ..Self::figure(what, 0.0, unit, 0, why) }
    }

    /// What only other machines can show.
    pub(crate) fn elsewhere(what: &str, unit: &str, why: impl Into<String>) -> Self {
        Self { standing: Standing::Elsewhere, ..Self::missing(what, unit, why) }
    }
}

/// A distribution that grows, also by what an earlier run counted.
#[derive(Default)]
struct Tally {
    /// Lengths in picoseconds, to five digits, and how many samples have each.
    counts: BTreeMap<u64, u64>,
    /// The longest, in nanoseconds, as it was.
    longest_ns: f64,
}

/// To five digits: no source is kept to more, and each one's own steps stay what they are.
fn to_five_digits(mut length: u64) -> u64 {
    let mut step = 1;
    while length / step >= 100_000 {
        step *= 10;
    }
    length = (length / step + u64::from(length % step * 2 >= step)) * step;
    length
}

impl Tally {
    /// Adds lengths of `unit_ns` nanoseconds each.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "lengths of time, neither negative nor of years"
    )]
    fn add(&mut self, classes: impl Iterator<Item = (f64, u64)>, unit_ns: f64) {
        for (length, samples) in classes {
            let length_ns = length * unit_ns;
            *self.counts.entry(to_five_digits((length_ns * 1e3).round() as u64)).or_default() += samples;
            self.longest_ns = self.longest_ns.max(length_ns);
        }
    }

    /// Adds what was counted of a source's ticks, each so long.
    #[expect(clippy::cast_precision_loss, reason = "lengths of time, below 2^53 ticks")]
    fn add_ticks(&mut self, ticks: &Histogram, tick_ns: f64) {
        // A class is told by its upper end, and the last one may end beyond the longest of all.
        let longest = ticks.spread(1.0).map_or(0.0, |spread| spread.max_ns);
        self.add(ticks.classes().map(|(length, samples)| ((length as f64).min(longest), samples)), tick_ns);
    }

    /// Adds what an earlier run counted of the same figure.
    fn go_on(&mut self, before: &[Measured], what: &str, unit_ns: f64) {
        if let Some(before) = before.iter().find(|figure| figure.what == what) {
            self.add(before.distribution.iter().copied(), unit_ns);
            self.longest_ns = self.longest_ns.max(before.max.unwrap_or(0.0) * unit_ns);
        }
    }

    /// What this part of all samples does not exceed, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "counts and lengths of time, below 2^53")]
    fn quantile_ns(&self, part: f64) -> f64 {
        let wanted = (self.counts.values().sum::<u64>() as f64 * part).ceil().max(1.0);
        let mut seen = 0;
        let found = self.counts.iter().find(|&(_, samples)| {
            seen += samples;
            seen as f64 >= wanted
        });
        found.map_or(0.0, |(&length, _)| length as f64 / 1e3).min(self.longest_ns)
    }

    /// The smallest of all, in nanoseconds.
    fn smallest_ns(&self) -> Option<f64> {
        self.counts.first_key_value().map(|_| to_digits(self.quantile_ns(0.0)))
    }

    /// Its mean, its quantiles and all of it; `None` without samples.
    #[expect(clippy::cast_precision_loss, reason = "counts and lengths of time, below 2^53")]
    fn figure(&self, what: &str, unit_ns: f64, unit: &str, how: impl Into<String>) -> Option<Measured> {
        let samples: u64 = self.counts.values().sum();
        let sum_ns: f64 = self.counts.iter().map(|(&length, &samples)| length as f64 / 1e3 * samples as f64).sum();
        let spread = Spread {
            samples,
            min_ns: self.quantile_ns(0.0),
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            p999_ns: self.quantile_ns(0.999),
            max_ns: self.longest_ns,
            mean_ns: sum_ns / samples.max(1) as f64,
        };
        let length = |&length: &u64| to_digits((length as f64 / 1e3).min(self.longest_ns) / unit_ns);
        let distribution = self.counts.iter().map(|(one, &samples)| (length(one), samples)).collect();
        (samples > 0).then(|| Measured { distribution, ..Measured::mean_of(what, &spread, 1.0 / unit_ns, unit, how) })
    }
}

/// What times many reads, and single ones: as `hpt bench` does.
struct Bench {
    wall: Opened,
    stopwatch: Stopwatch,
}

impl Bench {
    fn of(run: &Run<'_>) -> Result<Self, Failure> {
        let wall = run.context.open("monotonic-raw")?;
        let stopwatch = stopwatch(run.context, wall.as_dyn())?;
        Ok(Self { wall, stopwatch })
    }

    /// Reads it as often as asked; `(place, of)`: the how-manieth of how many sources of the part.
    #[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
    fn cost(&self, run: &Run<'_>, source: &dyn TimeSource, (place, of): (usize, usize)) -> ReadCost {
        let instruments = Instruments {
            wall: self.wall.as_dyn(),
            stopwatch: self.stopwatch.source.as_dyn(),
            stopwatch_frequency: self.stopwatch.frequency,
            cycles: None,
        };
        read_cost(source, instruments, run.count, |done| {
            (run.progress)((place as f64 + done as f64 / run.count as f64) / of as f64);
            run.goes_on()
        })
    }

    /// What so many reads take, and how single ones are spread.
    fn figures(
        &self,
        what: &str,
        cost: &ReadCost,
        reads: f64,
        (unit, unit_ns): (&str, f64),
        how: &str,
    ) -> Vec<Measured> {
        let fewer = if cost.cut_short {
            "; fewer reads, because one takes 10 µs or more, or does with what times it"
        } else {
            ""
        };
        let many = cost
            .per_call_ns()
            .map(|ns| Measured::figure(what, ns * reads / unit_ns, unit, cost.calls, format!("{how}{fewer}")));
        let own = cost.empty.map_or(0.0, |empty| empty.p50_ns);
        let by = self.stopwatch.source.as_dyn().info().id.to_string();
        let single = cost.singles.map(|spread| {
            let how = format!("{how}; timed by {by}, whose own {own:.0} ns (p50) are in it");
            Measured::mean_of(&format!("{what}: a single read"), &spread, 1.0, "ns", how)
        });
        many.into_iter().chain(single).collect()
    }
}

/// A source, and what to say of it.
struct Chosen {
    opened: Opened,
    how: String,
}

impl Chosen {
    /// Stands for what it is, and for nothing else.
    fn of(opened: Opened) -> Self {
        let info = opened.as_dyn().info();
        let how = format!("{} ({})", info.id, info.read_path.name());
        Self { opened, how }
    }
}

/// The first of these that can be read here. One that stands in the place of the first says so, and why; where none can be read, that is the answer.
fn best(context: &Context, names: &[&str], first_is: &str) -> Result<Chosen, String> {
    let mut refused = Vec::new();
    for name in names {
        match context.open(name) {
            Ok(opened) => {
                let mut chosen = Chosen::of(opened);
                if let Some(why) = refused.first() {
                    chosen.how.push_str(&format!(", in the place of {first_is}: {why}"));
                }
                return Ok(chosen);
            }
            Err(failure) => refused.push(in_one_line(&failure)),
        }
    }
    Err(format!("there is no counter that programs may read here: {}", refused.join("; ")))
}

/// The register that is read without the kernel: the cheapest counter of time that this machine has, by name where it is a Raspberry Pi's.
fn register(context: &Context) -> Result<Chosen, String> {
    best(context, &["bcm-systimer", "arm-counter", "tsc"], "the System Timer")
}

/// The counter of cycles, else what comes nearest to it.
fn cycles(context: &Context) -> Result<Chosen, String> {
    best(context, &["arm-cycles", "tsc", "arm-counter", "bcm-systimer"], "the cycle counter")
}

/// By what the system's clock and what is measured beside it are read.
fn outlook_of(context: &Context, beside: fn(&Context) -> Result<Chosen, String>) -> Result<Outlook, Failure> {
    let system = context.open("monotonic").map(Chosen::of)?;
    let beside = beside(context).map_or_else(|why| why, |chosen| chosen.how);
    Ok(Outlook { conditions: vec![system.how, beside], ..Outlook::default() })
}

impl Run<'_> {
    fn goes_on(&self) -> bool {
        !self.context.interrupted()
    }

    /// A source of the machine, or what is in its place: a line that says why it is not there.
    fn open(&self, name: &str, what: &str, unit: &str) -> Result<Chosen, Box<Measured>> {
        let missing = |failure: Failure| Measured::missing(what, unit, in_one_line(&failure));
        self.context.open(name).map(Chosen::of).map_err(|failure| Box::new(missing(failure)))
    }

    /// How fast it ticks, or why nobody knows.
    fn rate(&self, source: &dyn TimeSource) -> Result<Frequency, String> {
        let reference = self.context.open("monotonic-raw").map_err(|failure| in_one_line(&failure))?;
        source_rate::rate(source, reference.as_dyn())
            .ok_or_else(|| format!("how fast {} ticks could not be measured", source.info().id))
    }
}

/// What happened, why and what helps, in one line.
pub(crate) fn in_one_line(failure: &Failure) -> String {
    failure.text().replace("\nhpt: ", "; ")
}

/// Beats of a loop, `hpt` drawing its progress bar between stretches of them and never in one. `(place, of)`: the how-manieth of how many loops of the part.
#[expect(clippy::cast_precision_loss, reason = "for a progress bar")]
fn beats_of(
    run: &Run<'_>,
    chosen: &Chosen,
    period: Duration,
    (place, of): (usize, usize),
) -> Result<(Tally, String), String> {
    const STRETCH: Duration = Duration::from_millis(500);
    let source = chosen.opened.as_dyn();
    let rate = run.rate(source)?;
    let stretch = u64::try_from(STRETCH.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX).max(1);
    let (mut longer, mut done) = (Tally::default(), 0);
    while done < run.count && run.goes_on() {
        let beats = beats(source, rate, period, stretch.min(run.count - done), |_| run.goes_on());
        longer.add_ticks(&beats.longer, rate.tick_ns_f64());
        done += stretch.min(run.count - done);
        (run.progress)((place as f64 + done as f64 / run.count as f64) / of as f64);
    }
    Ok((longer, format!("{}{}", chosen.how, cycles_remark(source))))
}

/// What counts cycles tells nanoseconds by the rate of a busy core.
fn cycles_remark(source: &dyn TimeSource) -> &'static str {
    if counts_cycles(source) { "; cycles at the rate of a busy core" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hpt_core::stats::Histogram;

    use super::{Measured, RECIPES, Standing, Tally, to_digits, to_five_digits};

    #[test]
    fn published_figures_are_those_of_the_page() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published.md");
        let page = std::fs::read_to_string(page).expect("the page is in the repository");
        for recipe in RECIPES {
            let section =
                page.split("\n### ").find(|section| section.lines().next() == Some(&format!("`{}`", recipe.name)));
            let section = section.unwrap_or_else(|| panic!("docs/published.md has no section on {}", recipe.name));
            let section = section.split("\n## ").next().unwrap_or(section);
            let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
            let on_the_page: Vec<Vec<&str>> =
                rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect();
            let here: Vec<Vec<String>> = recipe
                .published
                .iter()
                .map(|figure| vec![figure.what.to_owned(), figure.value.to_string(), figure.unit.to_owned()])
                .collect();
            assert_eq!(on_the_page, here, "{}", recipe.name);
            let (first, rest) = recipe.published_in.split_at(1);
            let source = format!("{}{rest}: {}.", first.to_uppercase(), recipe.hardware);
            assert!(section.lines().any(|line| line == source), "{}: {source}", recipe.name);
        }
    }

    #[test]
    fn recipes_have_names_of_their_own_and_say_what_they_are() {
        for (number, recipe) in RECIPES.iter().enumerate() {
            assert!(RECIPES[..number].iter().all(|other| other.name != recipe.name), "{}", recipe.name);
            assert!(
                !recipe.parts.is_empty() && recipe.parts.iter().all(|part| part.short <= part.count && part.short > 0)
            );
            let mut figures: Vec<_> = recipe.published.iter().map(|figure| figure.what).collect();
            figures.dedup();
            assert_eq!(figures.len(), recipe.published.len(), "{}", recipe.name);
        }
    }

    #[test]
    fn what_is_missing_has_no_value() {
        let missing = Measured::missing("a figure", "ns", "it takes a register");
        assert_eq!((missing.value, missing.samples, missing.how.as_str()), (None, 0, "it takes a register"));
        assert_eq!(Measured::elsewhere("a figure", "ns", "").standing, Standing::Elsewhere);
    }

    #[test]
    fn small_figures_keep_their_digits() {
        let given = [0.0, 0.007_426_9, 0.000_012_345_6, 0.806_555, 4.567_89, 123_456.789_4];
        assert_eq!(given.map(to_digits), [0.0, 0.007_427, 0.000_012_35, 0.8066, 4.568, 123_456.789]);
    }

    #[test]
    fn what_an_earlier_run_counted_is_counted_as_if_it_had_not_ended() {
        let ticks = |counted: &[u64]| {
            let mut histogram = Histogram::new();
            counted.iter().for_each(|&one| histogram.record(one));
            histogram
        };
        let figure = |tally: &Tally| tally.figure("a figure", 1.0, "ns", "by a source").expect("it has samples");
        let (mut first, mut whole) = (Tally::default(), Tally::default());
        first.add_ticks(&ticks(&[20, 20, 30]), 0.5);
        let mut second = Tally::default();
        second.go_on(&[figure(&first)], "a figure", 1.0);
        second.go_on(&[figure(&first)], "another figure", 1.0);
        second.add_ticks(&ticks(&[20, 123_457]), 0.5);
        whole.add_ticks(&ticks(&[20, 20, 20, 30, 123_457]), 0.5);
        assert_eq!(figure(&second), figure(&whole));
        let found = figure(&whole);
        assert_eq!((found.samples, found.p50, found.max), (5, Some(10.0), Some(61_728.5)));
        assert_eq!(found.distribution.iter().map(|&(_, samples)| samples).sum::<u64>(), 5);
        let mut waits = Tally::default();
        waits.add([(2.999, 4), (3.0, 1)].into_iter(), 1_000.0);
        let found = waits.figure("late", 1_000.0, "µs", "").expect("five");
        assert_eq!(found.distribution, [(2.999, 4), (3.0, 1)]);
        assert_eq!([99_999, 100_004, 100_005, 1_234_567].map(to_five_digits), [99_999, 100_000, 100_010, 1_234_600]);
        assert_eq!(Tally::default().figure("late", 1.0, "ns", ""), None);
    }
}
