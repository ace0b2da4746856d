//! Counts events of the processor, and measures time instead if it cannot count them. The files of the events open
//! their counters.

use std::{
    cell::{Cell, OnceCell, RefCell},
    fmt::{self, Debug},
    rc::Rc,
};

use criterion::measurement::{Measurement, ValueFormatter};
use hpt_core::{Host, Opened, SourceError};

use crate::{
    format::{Count, Units},
    laps::{Laps, Overhead},
    time::Time,
};

/// An event that the processor counts. Only this crate implements it.
pub trait Event: Debug + Sized + sealed::Sealed {
    /// The start of an interval.
    type Started: Debug;

    /// The names of the counted quantity.
    #[doc(hidden)]
    const UNITS: &'static Units;

    /// Opens the counter for the calling thread.
    ///
    /// # Errors
    ///
    /// Returns the reason why the event cannot be counted here.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_criterion::{CoreCycles, Event};
    ///
    /// match CoreCycles::open(&Host::live()) {
    ///     Ok(cycles) => println!("counted by {}", cycles.counter()),
    ///     Err(refused) => println!("{refused}; {}", refused.fix.as_deref().unwrap_or("no fix is known")),
    /// }
    /// ```
    fn open(host: &Host) -> Result<Self, CountError>;

    /// Returns the name of the counter.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_criterion::{CoreCycles, Event};
    ///
    /// if let Ok(cycles) = CoreCycles::open(&Host::live()) {
    ///     assert!(["perf-cycles", "arm-cycles"].contains(&cycles.counter()));
    /// }
    /// ```
    fn counter(&self) -> &'static str;

    /// Starts an interval.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_criterion::{CoreCycles, Event};
    ///
    /// if let Ok(cycles) = CoreCycles::open(&Host::live()) {
    ///     let started = cycles.start();
    ///     let sum: u64 = (0..1000).map(std::hint::black_box).sum();
    ///     println!("{sum}: {:?} cycles, with the overhead", cycles.stop(started));
    /// }
    /// ```
    fn start(&self) -> Self::Started;

    /// Ends an interval, and returns its count.
    ///
    /// # Errors
    ///
    /// Returns the reason why the count of this interval is unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_core::Host;
    /// use hpt_criterion::{Event, UserInstructions};
    ///
    /// if let Ok(instructions) = UserInstructions::open(&Host::live()) {
    ///     match instructions.stop(instructions.start()) {
    ///         Ok(count) => println!("an empty interval takes {count} instructions"),
    ///         Err(reason) => println!("unknown: {reason}"),
    ///     }
    /// }
    /// ```
    fn stop(&self, started: Self::Started) -> Result<u64, String>;
}

pub(crate) mod sealed {
    /// Implemented only in this crate.
    pub trait Sealed {}
}

/// The reason why an event cannot be counted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct CountError {
    /// The reason.
    pub reason: String,
    /// The fix, if there is one.
    pub fix: Option<String>,
}

impl From<SourceError> for CountError {
    fn from(reason: SourceError) -> Self {
        Self { fix: reason.remedy(), reason: reason.to_string() }
    }
}

/// Counts an event, or measures time on machines where it cannot be counted.
///
/// The counter is opened at the first interval, or when [`name`](Self::name) is called. If it cannot be opened, the
/// reason and the fix are printed on standard error, and time is measured with the best source of this machine.
/// The printed values then have units of time. [`name`](Self::name) tells the two apart; use it in the name of the
/// benchmark group, because Criterion compares a benchmark with the previous run of the same name. Use
/// [`open`](Self::open) to fail instead.
///
/// The counter's overhead is subtracted from each interval, as [`Time`] does.
///
/// # Panics
///
/// Converting a value panics with the reason if the count of one of its intervals, or of an empty interval that
/// measures the overhead, is unknown, for example because the kernel module that opens the counter was unloaded.
/// Criterion has no way to return an error.
pub struct Counting<E: Event> {
    state: Rc<State<E>>,
}

struct State<E: Event> {
    opened: OnceCell<Choice<E>>,
    /// The reason why the count of the last unknown lap is unknown.
    fault: RefCell<Option<String>>,
    is_silent: Cell<bool>,
}

enum Choice<E: Event> {
    Counter { event: E, own_cost: OnceCell<u64>, formatter: Count },
    Time { refused: CountError, time: Result<Time<Opened>, String> },
}

impl<E: Event> Clone for Counting<E> {
    fn clone(&self) -> Self {
        Self { state: Rc::clone(&self.state) }
    }
}

impl<E: Event> Default for Counting<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Event> Debug for Counting<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opened: Option<&dyn Debug> = self.state.opened.get().map(|choice| match choice {
            Choice::Counter { event, .. } => event as &dyn Debug,
            Choice::Time { refused, .. } => refused,
        });
        f.debug_struct("Counting").field("quantity", &E::UNITS.one).field("opened", &opened).finish()
    }
}

/// The start of an interval of [`Counting`].
#[derive(Clone, Copy, Debug)]
pub enum Started<C> {
    /// The counter was read.
    Counter(C),
    /// The source of the fallback was read.
    Time(u64),
}

impl<E: Event> Counting<E> {
    /// Counts the event where that is possible, and otherwise measures time.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::Criterion;
    /// use hpt_criterion::Instructions;
    ///
    /// let instructions = Instructions::new();
    /// let criterion = Criterion::default().with_measurement(instructions.clone());
    /// # drop(criterion);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::with(OnceCell::new())
    }

    /// Counts the event, and never falls back to time.
    ///
    /// # Errors
    ///
    /// Returns the reason and the fix if the event cannot be counted on this machine.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Cycles;
    ///
    /// match Cycles::open() {
    ///     Ok(cycles) => println!("{}", cycles.name()),
    ///     Err(refused) => println!("{refused}; {}", refused.fix.as_deref().unwrap_or("no fix is known")),
    /// }
    /// ```
    pub fn open() -> Result<Self, CountError> {
        E::open(&Host::live()).map(|event| Self::with(OnceCell::from(Choice::counter(event))))
    }

    /// Prints nothing. Call this before the first measurement.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Cycles;
    ///
    /// let cycles = Cycles::new().without_output();
    /// // Not on standard error, but still available.
    /// if let Some(reason) = cycles.fallback() {
    ///     println!("time instead of cycles: {reason}");
    /// }
    /// ```
    #[must_use]
    pub fn without_output(self) -> Self {
        self.state.is_silent.set(true);
        self
    }

    fn with(opened: OnceCell<Choice<E>>) -> Self {
        Self { state: Rc::new(State { opened, fault: RefCell::default(), is_silent: Cell::new(false) }) }
    }

    /// Returns why time is measured instead; `None` if the event is counted. Opens the counter if necessary.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Cycles;
    ///
    /// let cycles = Cycles::new();
    /// match cycles.fallback() {
    ///     None => println!("cycles are counted"),
    ///     Some(refused) => println!("time is measured: {refused}"),
    /// }
    /// assert_eq!(cycles.fallback().is_some(), !cycles.name().starts_with("cycles by"));
    /// ```
    #[must_use]
    pub fn fallback(&self) -> Option<&CountError> {
        match self.opened() {
            Choice::Counter { .. } => None,
            Choice::Time { refused, .. } => Some(refused),
        }
    }

    /// Returns the quantity and the counter, for example `cycles by perf-cycles` or `time by tsc`, for the name of a
    /// benchmark group. Opens the counter if necessary.
    ///
    /// # Examples
    ///
    /// ```
    /// use criterion::Criterion;
    /// use hpt_criterion::Cycles;
    ///
    /// let cycles = Cycles::new();
    /// let mut criterion = Criterion::default().with_measurement(cycles.clone());
    /// // Results in cycles and results in nanoseconds have different names.
    /// let group = criterion.benchmark_group(cycles.name());
    /// # group.finish();
    /// ```
    #[must_use]
    pub fn name(&self) -> String {
        match self.opened() {
            Choice::Counter { event, .. } => format!("{} by {}", E::UNITS.one, event.counter()),
            Choice::Time { time: Ok(time), .. } => time.name(),
            Choice::Time { time: Err(_), .. } => "nothing".to_owned(),
        }
    }

    /// Returns the overhead of one interval in counted events; `None` if time is measured, see [`Time::report`].
    /// Measures it if necessary.
    ///
    /// # Panics
    ///
    /// Panics with the reason if the count of an empty interval is unknown.
    ///
    /// # Examples
    ///
    /// ```
    /// use hpt_criterion::Cycles;
    ///
    /// let cycles = Cycles::new();
    /// match cycles.overhead() {
    ///     Some(count) => println!("{count} cycles are subtracted from each interval"),
    ///     None => println!("{}", cycles.name()),
    /// }
    /// ```
    #[must_use]
    pub fn overhead(&self) -> Option<u64> {
        match self.opened() {
            Choice::Counter { event, own_cost, .. } => Some(self.own_cost(event, own_cost)),
            Choice::Time { .. } => None,
        }
    }

    #[inline]
    fn opened(&self) -> &Choice<E> {
        self.state.opened.get_or_init(|| self.choose())
    }

    #[cold]
    fn choose(&self) -> Choice<E> {
        match E::open(&Host::live()) {
            Ok(event) => Choice::counter(event),
            Err(refused) => {
                let time = Time::best().map_err(|reason| reason.to_string());
                let time = if self.state.is_silent.get() { time.map(Time::without_output) } else { time };
                self.say(&format!("{} are not counted: {refused}", E::UNITS.one));
                if let Some(fix) = &refused.fix {
                    self.say(&format!("fix: {fix}"));
                }
                if let Ok(time) = &time {
                    self.say(&format!("measuring {} instead", time.name()));
                }
                Choice::Time { refused, time }
            }
        }
    }

    fn own_cost(&self, event: &E, own_cost: &OnceCell<u64>) -> u64 {
        *own_cost.get_or_init(|| {
            let mut empty_laps = Laps::default();
            let overhead = Overhead::measure(|| {
                let lap = self.end(self.start());
                empty_laps = empty_laps.and(lap);
                lap.ticks()
            });
            self.check(empty_laps);
            self.say(&format!(
                "{} by {}; overhead {} per interval, subtracted",
                E::UNITS.one,
                event.counter(),
                overhead.own_cost
            ));
            overhead.own_cost
        })
    }

    /// Panics with the reason if the count of a lap is unknown.
    fn check(&self, laps: Laps) {
        if laps.is_unknown() {
            Self::panic(self.state.fault.borrow().as_deref().unwrap_or_default());
        }
    }

    #[cold]
    fn panic(reason: &str) -> ! {
        panic!("hpt-criterion: {} are unknown: {reason}", E::UNITS.one)
    }

    fn say(&self, line: &str) {
        if !self.state.is_silent.get() {
            eprintln!("hpt-criterion: {line}");
        }
    }
}

impl<E: Event> Choice<E> {
    fn counter(event: E) -> Self {
        Self::Counter { event, own_cost: OnceCell::new(), formatter: Count(E::UNITS) }
    }
}

impl<E: Event> Measurement for Counting<E> {
    type Intermediate = Started<E::Started>;
    type Value = Laps;

    #[inline]
    fn start(&self) -> Started<E::Started> {
        match self.opened() {
            Choice::Counter { event, .. } => Started::Counter(event.start()),
            Choice::Time { time: Ok(time), .. } => Started::Time(time.start()),
            Choice::Time { time: Err(_), .. } => Started::Time(0),
        }
    }

    #[inline]
    fn end(&self, started: Started<E::Started>) -> Laps {
        match (self.opened(), started) {
            (Choice::Counter { event, .. }, Started::Counter(started)) => match event.stop(started) {
                Ok(count) => Laps::one(i64::try_from(count).unwrap_or(i64::MAX)),
                Err(fault) => {
                    self.state.fault.replace(Some(fault));
                    Laps::unknown()
                }
            },
            (Choice::Time { time: Ok(time), .. }, Started::Time(start)) => time.end(start),
            // Only if a program passes the start of another measurement.
            _ => Laps::default(),
        }
    }

    #[inline]
    fn add(&self, one: &Laps, other: &Laps) -> Laps {
        one.and(*other)
    }

    fn zero(&self) -> Laps {
        Laps::default()
    }

    fn to_f64(&self, laps: &Laps) -> f64 {
        self.check(*laps);
        match self.opened() {
            Choice::Counter { event, own_cost, .. } => laps.without(self.own_cost(event, own_cost)),
            Choice::Time { time: Ok(time), .. } => time.to_f64(laps),
            Choice::Time { refused, time: Err(no_clock) } => Self::panic(&format!("{refused}; no clock: {no_clock}")),
        }
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        match self.opened() {
            Choice::Counter { formatter, .. } => formatter,
            Choice::Time { time: Ok(time), .. } => time.formatter(),
            Choice::Time { time: Err(_), .. } => &crate::format::Nanoseconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use criterion::measurement::Measurement;
    use hpt_core::Host;

    use super::{CountError, Counting, Event, sealed::Sealed};
    use crate::format::Units;

    const APPLES: Units = Units {
        one: "apples",
        larger: ["Kapples", "Mapples", "Gapples"],
        per: ["apples/bit", "apples/byte", "apples/element"],
    };

    thread_local! {
        static APPLES_SO_FAR: Cell<u64> = const { Cell::new(0) };
        static REFUSED: Cell<bool> = const { Cell::new(false) };
        static OPENED: Cell<u32> = const { Cell::new(0) };
        static IS_CUT: Cell<bool> = const { Cell::new(false) };
    }

    fn grow(apples: u64) -> u64 {
        APPLES_SO_FAR.set(APPLES_SO_FAR.get() + apples);
        APPLES_SO_FAR.get()
    }

    /// A counter whose interval costs five apples.
    #[derive(Debug)]
    struct Scripted;

    impl Sealed for Scripted {}

    impl Event for Scripted {
        type Started = u64;
        const UNITS: &'static Units = &APPLES;

        fn open(_host: &Host) -> Result<Self, CountError> {
            OPENED.set(OPENED.get() + 1);
            if REFUSED.get() {
                return Err(CountError { reason: "no tree".to_owned(), fix: Some("plant one".to_owned()) });
            }
            Ok(Self)
        }

        fn counter(&self) -> &'static str {
            "tree"
        }

        fn start(&self) -> u64 {
            grow(2)
        }

        fn stop(&self, started: u64) -> Result<u64, String> {
            grow(5).checked_sub(started).filter(|_| !IS_CUT.get()).ok_or_else(|| "the tree was cut".to_owned())
        }
    }

    #[test]
    fn a_count_is_without_the_overhead() {
        let apples = Counting::<Scripted>::new().without_output();
        let start = apples.start();
        grow(1_000);
        let lap = apples.end(start);
        assert_eq!((lap.ticks(), apples.to_f64(&lap), apples.overhead()), (1_005, 1_000.0, Some(5)));
        assert_eq!((apples.name(), apples.fallback()), ("apples by tree".to_owned(), None));
        assert_eq!(apples.formatter().format_value(7.0), "7.0000 apples");
    }

    #[test]
    fn the_counter_is_opened_at_the_first_interval() {
        let apples = Counting::<Scripted>::new().without_output();
        assert_eq!((apples.zero().laps(), OPENED.get()), (0, 0));
        let _ = apples.end(apples.start());
        let _ = apples.clone().end(apples.start());
        assert_eq!(OPENED.get(), 1);
    }

    #[test]
    fn a_refused_counter_is_replaced_with_time_and_named() {
        REFUSED.set(true);
        let apples = Counting::<Scripted>::new().without_output();
        let lap = apples.end(apples.start());
        assert!(apples.to_f64(&lap).is_finite());
        let refused = apples.fallback().expect("refused");
        assert_eq!((refused.to_string().as_str(), refused.fix.as_deref()), ("no tree", Some("plant one")));
        assert!(apples.name().starts_with("time by "), "{}", apples.name());
        assert!(apples.formatter().format_value(7.0).ends_with(" ns"));
        assert_eq!(Counting::<Scripted>::open().map(|_| ()).expect_err("strict"), *refused);
    }

    #[test]
    fn an_opened_counter_never_becomes_time() {
        let apples = Counting::<Scripted>::open().expect("a tree");
        REFUSED.set(true);
        assert_eq!(apples.without_output().name(), "apples by tree");
    }

    #[test]
    #[should_panic(expected = "apples are unknown: the tree was cut")]
    fn an_unknown_count_is_never_a_value() {
        let apples = Counting::<Scripted>::new().without_output();
        grow(1_000);
        let start = apples.start();
        APPLES_SO_FAR.set(0);
        let lap = apples.end(start);
        let later = apples.end(apples.start());
        apples.to_f64(&apples.add(&lap, &later));
    }

    #[test]
    fn a_discarded_unknown_count_is_forgotten() {
        let apples = Counting::<Scripted>::new().without_output();
        grow(1_000);
        let start = apples.start();
        APPLES_SO_FAR.set(0);
        let _ = apples.end(start);
        let later = apples.end(apples.start());
        assert_eq!((apples.overhead(), later.ticks()), (Some(5), 5));
        assert!(apples.to_f64(&later) < 1.0);
    }

    #[test]
    #[should_panic(expected = "apples are unknown: the tree was cut")]
    fn an_unknown_empty_lap_is_no_overhead() {
        let apples = Counting::<Scripted>::new().without_output();
        IS_CUT.set(true);
        let _ = apples.overhead();
    }
}
