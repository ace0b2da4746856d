//! GPIO edge latency, which has two parts: the time from driving a line until the kernel detects the edge on a
//! connected line, and the time from then until a program has read the edge. This module does not request lines; the
//! caller does.

use std::{fmt, io, ops::ControlFlow, time::Duration};

use hpt_core::{
    clock::Instant,
    source::{PosixClock, TimeSource},
};
use hpt_sys::units::saturating_nanos;

use super::wakes::{Interrupter, ReadOverhead, Wakes, read_overhead};
use crate::gpio::{Edge, Input, Output, PinLevel};

/// The default time after which an edge counts as lost.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest single wait. A longer wait is split into several waits, so that it can be interrupted.
const PIECE: Duration = Duration::from_millis(100);
/// The largest number of edges that the kernel buffers for a line. Any edges beyond this number arrived while the
/// buffer was being read.
const MOST_PENDING: usize = 1_024;

/// The method by which a thread waits for an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EdgeWaiting {
    /// Blocking in the kernel with poll(2), and then reading.
    #[default]
    Blocking,
    /// Reading repeatedly, without blocking.
    Polling,
}

/// The number of readings of a level between two readings of the clock, which takes longer than a reading of a level.
const LEVELS: u32 = 64;

/// Two connected lines, and the clock that is used at both ends.
pub trait Wire {
    /// Returns whether edges have the kernel's timestamps. If not, only end-to-end latencies are measured.
    fn has_timestamps(&self) -> bool {
        true
    }

    /// Returns the current time of the clock that timestamps edges, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Drives the output.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    fn set(&mut self, level: bool) -> io::Result<()>;

    /// Returns the next edge at the input if one is already available.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    fn pending(&mut self) -> io::Result<Option<Edge>>;

    /// Waits for the next edge at the input until `at_most` has passed since `since_ns`, which is the current time or
    /// slightly earlier. Can return earlier without an edge.
    ///
    /// # Errors
    ///
    /// Returns the kernel's error.
    fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>>;
}

/// Two connected lines on this machine, after they have been requested from the kernel.
#[derive(Debug)]
pub struct Loopback<'a> {
    output: &'a Output,
    input: Listener<'a>,
    clock: PosixClock,
}

/// The end of a wire at which edges arrive.
#[derive(Debug)]
enum Listener<'a> {
    /// A line whose edges the kernel reports.
    Kernel(&'a Input, EdgeWaiting),
    /// A pin whose level is read.
    Level(LevelEdges<&'a PinLevel>),
}

/// A level that can be read without waiting.
trait Level {
    fn is_high(&self) -> bool;
}

impl Level for &PinLevel {
    #[inline]
    fn is_high(&self) -> bool {
        PinLevel::is_high(self)
    }
}

/// Makes edges from the levels of a pin. Two edges between two readings are not seen.
#[derive(Debug)]
struct LevelEdges<L> {
    level: L,
    /// The latest level.
    last: bool,
    /// The number of edges so far.
    number: u32,
}

impl<L: Level> LevelEdges<L> {
    fn new(level: L) -> Self {
        Self { last: level.is_high(), level, number: 0 }
    }

    /// Returns an edge, without a timestamp, if the level differs from the latest one.
    #[inline]
    fn edge(&mut self) -> Option<Edge> {
        let now = self.level.is_high();
        if now == self.last {
            return None;
        }
        self.last = now;
        self.number = self.number.wrapping_add(1);
        Some(Edge::new(0, now, self.number))
    }

    /// Reads the level until it changes or `is_over` returns true.
    #[inline]
    fn wait(&mut self, is_over: impl Fn() -> bool) -> Option<Edge> {
        loop {
            for _ in 0..LEVELS {
                let edge = self.edge();
                if edge.is_some() {
                    return edge;
                }
                std::hint::spin_loop();
            }
            if is_over() {
                return None;
            }
        }
    }
}

impl<'a> Loopback<'a> {
    /// Creates a wire from two requested lines. `clock` must be the kernel's `CLOCK_MONOTONIC`, which timestamps edges;
    /// any other clock has an offset from these timestamps.
    #[must_use]
    pub fn new(output: &'a Output, input: &'a Input, clock: PosixClock, listening: EdgeWaiting) -> Self {
        Self { output, input: Listener::Kernel(input, listening), clock }
    }

    /// Creates a wire whose input is a pin of which the level is read repeatedly, without blocking and without the
    /// kernel. The pin may be that of `output` itself: its level is then read back.
    #[must_use]
    pub fn of_level(output: &'a Output, input: &'a PinLevel, clock: PosixClock) -> Self {
        Self { output, input: Listener::Level(LevelEdges::new(input)), clock }
    }

    /// Measures the read overhead of the clock.
    #[must_use]
    pub fn clock_read_overhead(&self) -> ReadOverhead {
        read_overhead(|| self.now_ns(), |earlier, later| later.saturating_sub(earlier))
    }
}

impl Wire for Loopback<'_> {
    fn has_timestamps(&self) -> bool {
        matches!(self.input, Listener::Kernel(..))
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.ticks()
    }

    #[inline]
    fn set(&mut self, level: bool) -> io::Result<()> {
        self.output.set(level)
    }

    fn pending(&mut self) -> io::Result<Option<Edge>> {
        match &mut self.input {
            Listener::Kernel(input, _) => input.edge(),
            Listener::Level(level) => Ok(level.edge()),
        }
    }

    #[inline]
    fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>> {
        let clock = &self.clock;
        let is_over = || clock.ticks().saturating_sub(since_ns) >= saturating_nanos(at_most);
        match &mut self.input {
            Listener::Kernel(input, EdgeWaiting::Blocking) => {
                // The system call accepts a timeout only in whole milliseconds. The extra millisecond avoids repeated
                // calls during the last millisecond.
                input.wait(at_most + Duration::from_millis(1))?;
                input.edge()
            }
            Listener::Kernel(input, EdgeWaiting::Polling) => loop {
                let edge = input.edge()?;
                if edge.is_some() || is_over() {
                    return Ok(edge);
                }
                std::hint::spin_loop();
            },
            Listener::Level(level) => Ok(level.wait(is_over)),
        }
    }
}

/// The times of one edge, from driving the output of a wire until the program has read the edge at the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeTimes {
    /// The time immediately before the request to drive the line, in nanoseconds on the wire's clock.
    pub driven_ns: u64,
    /// The time at which the kernel's interrupt handler detected the edge. `None` if the edge's timestamp is not
    /// between the other two times, which means that the timestamp comes from another clock, or if the wire has no
    /// timestamps.
    pub detected_ns: Option<u64>,
    /// The time immediately after the edge was read, in nanoseconds on the wire's clock.
    pub read_ns: u64,
}

impl EdgeTimes {
    /// Creates an edge with these times, in nanoseconds.
    #[must_use]
    pub const fn new(driven_ns: u64, detected_ns: Option<u64>, read_ns: u64) -> Self {
        Self { driven_ns, detected_ns, read_ns }
    }

    /// Returns the time from driving the line until the kernel detected the edge, in nanoseconds.
    #[must_use]
    pub fn output_to_irq_ns(&self) -> Option<u64> {
        self.detected_ns.map(|detected_ns| detected_ns.saturating_sub(self.driven_ns))
    }

    /// Returns the time from the kernel's detection of the edge until the program had read the edge, in nanoseconds.
    #[must_use]
    pub fn irq_to_user_ns(&self) -> Option<u64> {
        self.detected_ns.map(|detected_ns| self.read_ns.saturating_sub(detected_ns))
    }

    /// Returns the total time, in nanoseconds.
    #[must_use]
    pub const fn end_to_end_ns(&self) -> u64 {
        self.read_ns.saturating_sub(self.driven_ns)
    }
}

/// The result of driving the line once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EdgeOutcome {
    /// The edge arrived.
    Arrived {
        /// The times of the edge.
        times: EdgeTimes,
        /// The number of deadlines that were skipped before the line was driven.
        missed: u64,
    },
    /// No edge arrived in time.
    Lost,
}

/// The counts of a run, and the error that ended it.
#[derive(Debug)]
#[non_exhaustive]
pub struct EdgeReport {
    /// The numbers of edges by outcome.
    pub counts: EdgeCounts,
    /// The kernel's error if a line could not be driven or read, or if it refused to sleep (clock_nanosleep); `None` if the run ended as requested.
    pub error: Option<io::Error>,
}

/// The numbers of edges by outcome, including edges that were not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeCounts {
    /// Edges that arrived.
    pub arrived: u64,
    /// Edges that did not arrive.
    pub lost: u64,
    /// Edges that were not measured: the line bounced, another device drove it, or the edge arrived after its timeout.
    pub unexpected: u64,
    /// Edges that did not fit into the kernel's buffer.
    pub dropped: u64,
    /// Edges with a timestamp outside the measured interval, because the timestamp comes from another clock.
    pub out_of_window: u64,
}

/// The state that persists from one edge to the next.
#[derive(Debug)]
struct Receiver {
    counts: EdgeCounts,
    number: Option<u32>,
    /// Whether a timestamp was between the two times around it, which shows that edges are timestamped with the wire's
    /// clock.
    is_one_clock: bool,
}

impl Receiver {
    const fn new() -> Self {
        Self {
            counts: EdgeCounts { arrived: 0, lost: 0, unexpected: 0, dropped: 0, out_of_window: 0 },
            number: None,
            is_one_clock: false,
        }
    }

    fn note_number(&mut self, edge: Edge) {
        if let Some(last) = self.number.replace(edge.number) {
            self.counts.dropped += u64::from(edge.number.wrapping_sub(last).wrapping_sub(1));
        }
    }

    /// Drives the wire to `level` and waits for the edge. Returns `Ok(None)` if `check` ended the run.
    fn one(
        &mut self,
        wire: &mut dyn Wire,
        level: bool,
        timeout_ns: u64,
        check: &dyn Fn() -> ControlFlow<()>,
    ) -> io::Result<Option<Option<EdgeTimes>>> {
        // The loop is limited, because a line that bounces faster than it is read always has another pending edge.
        for _ in 0..MOST_PENDING {
            let Some(edge) = wire.pending()? else { break };
            self.note_number(edge);
            self.counts.unexpected += 1;
            if check().is_break() {
                return Ok(None);
            }
        }
        let driven_ns = wire.now_ns();
        wire.set(level)?;
        let until_ns = driven_ns.saturating_add(timeout_ns);
        let mut since_ns = driven_ns;
        loop {
            let edge = wire.edge(since_ns, Duration::from_nanos(until_ns.saturating_sub(since_ns)).min(PIECE))?;
            let read_ns = wire.now_ns();
            if let Some(edge) = edge {
                self.note_number(edge);
                let has_timestamps = wire.has_timestamps();
                let is_between = has_timestamps && (driven_ns..=read_ns).contains(&edge.at_ns);
                // An edge that timed out may still arrive while the program waits for the next one.
                if edge.rising != level || (self.is_one_clock && !is_between) {
                    self.counts.unexpected += 1;
                } else {
                    self.counts.arrived += 1;
                    self.is_one_clock |= is_between;
                    self.counts.out_of_window += u64::from(has_timestamps && !is_between);
                    let detected_ns = is_between.then_some(edge.at_ns);
                    return Ok(Some(Some(EdgeTimes { driven_ns, detected_ns, read_ns })));
                }
            }
            if read_ns >= until_ns {
                self.counts.lost += 1;
                return Ok(Some(None));
            }
            if check().is_break() {
                return Ok(None);
            }
            since_ns = read_ns;
        }
    }
}

/// A measurement of GPIO edge latency: drives a wire to the opposite level once per period, and waits for each edge.
///
/// The first edge is one period after the start, unless [`with_start`](Self::with_start) sets its time. It is a rising
/// edge, unless [`with_first_level`](Self::with_first_level) sets a different level. An edge counts as lost after one
/// second, unless [`with_timeout`](Self::with_timeout) sets another time.
///
/// # Examples
///
/// ```no_run
/// use std::{ops::ControlFlow, time::Duration};
/// use hpt_instrument::measure::{EdgeLatency, EdgeOutcome, Loopback};
///
/// # fn example(mut wire: Loopback<'_>) {
/// let report = EdgeLatency::new(&mut wire, Duration::from_millis(1)).run(|outcome| match outcome {
///     EdgeOutcome::Arrived { times, .. } => ControlFlow::Continue(println!("{} ns", times.end_to_end_ns())),
///     _ => ControlFlow::Break(()),
/// });
/// println!("{:?} {:?}", report.counts, report.error);
/// # }
/// ```
#[must_use = "it does nothing until it runs"]
pub struct EdgeLatency<'a, W, F = fn() -> ControlFlow<()>> {
    wire: &'a mut W,
    period: Duration,
    start: Option<Instant>,
    first_level: bool,
    timeout: Duration,
    interrupter: Option<&'a Interrupter>,
    check: F,
}

impl<W, F> fmt::Debug for EdgeLatency<'_, W, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeLatency")
            .field("period", &self.period)
            .field("start", &self.start)
            .field("first_level", &self.first_level)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<'a, W: Wire> EdgeLatency<'a, W> {
    /// Creates a measurement with one edge per `period` (at least one microsecond) on `wire`.
    pub fn new(wire: &'a mut W, period: Duration) -> Self {
        let check: fn() -> ControlFlow<()> = || ControlFlow::Continue(());
        Self { wire, period, start: None, first_level: true, timeout: TIMEOUT, interrupter: None, check }
    }
}

impl<'a, W: Wire, F: Fn() -> ControlFlow<()>> EdgeLatency<'a, W, F> {
    /// Sets the time of the first edge.
    pub fn with_start(self, first: Instant) -> Self {
        Self { start: Some(first), ..self }
    }

    /// Sets the level to which the wire is driven first.
    pub fn with_first_level(self, first_level: bool) -> Self {
        Self { first_level, ..self }
    }

    /// Sets the time after which an edge counts as lost.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Lets `interrupter` interrupt the thread while it sleeps until the next edge is due.
    pub fn with_interrupter(self, interrupter: &'a Interrupter) -> Self {
        Self { interrupter: Some(interrupter), ..self }
    }

    /// Sets a check that can end the run. It is called during long waits for an edge, and when the thread is
    /// interrupted.
    pub fn with_check<G: Fn() -> ControlFlow<()>>(self, check: G) -> EdgeLatency<'a, W, G> {
        let Self { wire, period, start, first_level, timeout, interrupter, check: _ } = self;
        EdgeLatency { wire, period, start, first_level, timeout, interrupter, check }
    }

    /// Blocks until the run ends, and passes the outcome to `on_outcome` each time the line is driven. The run ends
    /// when `on_outcome` or the check returns [`ControlFlow::Break`], or if a line cannot be driven or read.
    pub fn run(self, mut on_outcome: impl FnMut(EdgeOutcome) -> ControlFlow<()>) -> EdgeReport {
        let Self { wire, period, start, first_level, timeout, interrupter, check } = self;
        let mut receiver = Receiver::new();
        let mut level = first_level;
        let mut error = None;
        let timeout_ns = saturating_nanos(timeout);
        let mut wakes = Wakes::new(period).with_check(&check);
        if let Some(start) = start {
            wakes = wakes.with_start(start);
        }
        if let Some(interrupter) = interrupter {
            wakes = wakes.with_interrupter(interrupter);
        }
        let waited = wakes.run(|wake| match receiver.one(wire, level, timeout_ns, &check) {
            Ok(None) => ControlFlow::Break(()),
            Ok(Some(times)) => {
                level = !level;
                let missed = wake.missed;
                on_outcome(times.map_or(EdgeOutcome::Lost, |times| EdgeOutcome::Arrived { times, missed }))
            }
            Err(cause) => {
                error = Some(cause);
                ControlFlow::Break(())
            }
        });
        let error = error.or(waited.err());
        EdgeReport { counts: receiver.counts, error }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        collections::VecDeque,
        io,
        ops::ControlFlow::{Break, Continue},
        time::Duration,
    };

    use super::{
        EdgeCounts, EdgeLatency, EdgeOutcome, EdgeTimes, LEVELS, Level, LevelEdges, MOST_PENDING, PIECE, Receiver, Wire,
    };
    use crate::gpio::Edge;
    use hpt_core::clock::Instant;
    use hpt_sys::units::saturating_nanos;

    /// A scripted wire for tests. Each read of the clock takes a nanosecond.
    #[derive(Debug, Default)]
    struct Scripted {
        now_ns: Cell<u64>,
        levels: Vec<bool>,
        /// Edges that are there before the line is driven.
        pending: VecDeque<Edge>,
        /// The edges and their delays; a timestamp is relative to the time at which the line is driven.
        script: VecDeque<(u64, Edge)>,
        driven_ns: u64,
    }

    impl Wire for Scripted {
        fn now_ns(&self) -> u64 {
            self.now_ns.set(self.now_ns.get() + 1);
            self.now_ns.get()
        }

        fn set(&mut self, level: bool) -> io::Result<()> {
            self.driven_ns = self.now_ns.get();
            self.levels.push(level);
            Ok(())
        }

        fn pending(&mut self) -> io::Result<Option<Edge>> {
            Ok(self.pending.pop_front())
        }

        fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>> {
            let until_ns = since_ns + saturating_nanos(at_most);
            match self.script.front() {
                Some(&(after_ns, edge)) if self.driven_ns + after_ns <= until_ns => {
                    self.script.pop_front();
                    self.now_ns.set(self.driven_ns + after_ns);
                    Ok(Some(Edge { at_ns: self.driven_ns.wrapping_add(edge.at_ns), ..edge }))
                }
                Some(_) | None => {
                    self.now_ns.set(until_ns);
                    Ok(None)
                }
            }
        }
    }

    fn scripted(edges: &[(u64, u64, bool, u32)]) -> Scripted {
        let edge =
            |&(after_ns, at_ns, rising, number): &(u64, u64, bool, u32)| (after_ns, Edge::new(at_ns, rising, number));
        Scripted { script: edges.iter().map(edge).collect(), now_ns: Cell::new(1_000_000), ..Scripted::default() }
    }

    const SECOND_NS: u64 = 1_000_000_000;

    /// Drives the wire to `level`, and returns the times of the edge, which must arrive.
    fn arrived(receiver: &mut Receiver, wire: &mut Scripted, level: bool) -> EdgeTimes {
        let waited = receiver.one(wire, level, SECOND_NS, &|| Continue(()));
        waited.expect("no error").expect("go on").expect("an edge")
    }

    #[test]
    fn an_edge_has_three_figures_that_add_up() {
        let mut wire = scripted(&[(9_000, 2_000, true, 1)]);
        let mut receiver = Receiver::new();
        let times = arrived(&mut receiver, &mut wire, true);
        assert_eq!((times.output_to_irq_ns(), times.irq_to_user_ns()), (Some(2_000), Some(7_001)));
        assert_eq!(times.end_to_end_ns(), 9_001);
        assert_eq!(wire.levels, [true]);
        assert_eq!(receiver.counts, EdgeCounts { arrived: 1, ..EdgeCounts::default() });
    }

    #[test]
    fn a_missing_edge_times_out_and_is_recognized_when_it_arrives_late() {
        let mut wire = scripted(&[]);
        let mut receiver = Receiver::new();
        assert_eq!(receiver.one(&mut wire, true, SECOND_NS, &|| Continue(())).expect("no error"), Some(None));
        assert_eq!(receiver.counts.lost, 1);
        assert!(wire.now_ns.get() >= 1_000_000 + SECOND_NS);
        // One edge arrives before the next one is requested, and one while the program waits for it.
        wire.pending.push_back(Edge::new(5, true, 1));
        wire.script = VecDeque::from([(1_000, Edge::new(500, true, 2)), (3_000, Edge::new(2_000, false, 3))]);
        let times = arrived(&mut receiver, &mut wire, false);
        assert_eq!(times.output_to_irq_ns(), Some(2_000));
        assert_eq!(receiver.counts, EdgeCounts { arrived: 1, lost: 1, unexpected: 2, ..EdgeCounts::default() });
    }

    /// A pin that is high from the reading with this number on.
    struct HighFrom(Cell<u32>, u32);

    impl Level for HighFrom {
        fn is_high(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() > self.1
        }
    }

    /// A wire whose input is a level. The clock advances by a microsecond with each reading.
    struct Levels(LevelEdges<HighFrom>, Cell<u64>);

    impl Wire for Levels {
        fn has_timestamps(&self) -> bool {
            false
        }
        fn now_ns(&self) -> u64 {
            self.1.set(self.1.get() + 1_000);
            self.1.get()
        }
        fn set(&mut self, _: bool) -> io::Result<()> {
            Ok(())
        }
        fn pending(&mut self) -> io::Result<Option<Edge>> {
            Ok(self.0.edge())
        }
        fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>> {
            let Self(level, now_ns) = self;
            let until_ns = since_ns + saturating_nanos(at_most);
            Ok(level.wait(|| {
                now_ns.set(now_ns.get() + 1_000);
                now_ns.get() >= until_ns
            }))
        }
    }

    fn levels(high_from: u32) -> Levels {
        Levels(LevelEdges::new(HighFrom(Cell::new(0), high_from)), Cell::new(0))
    }

    #[test]
    fn a_change_of_a_level_is_an_edge_without_a_timestamp() {
        // The clock is read once for each `LEVELS` readings of the level.
        let mut wire = levels(2 + 3 * LEVELS);
        let mut receiver = Receiver::new();
        let times = receiver.one(&mut wire, true, SECOND_NS, &|| Continue(())).expect("no error").expect("goes on");
        let times = times.expect("the level changes");
        assert_eq!((times.detected_ns, times.end_to_end_ns()), (None, 4_000));
        assert_eq!(receiver.counts, EdgeCounts { arrived: 1, ..EdgeCounts::default() });
        // The level stays, so that the next edge is lost.
        assert_eq!(receiver.one(&mut wire, false, SECOND_NS, &|| Continue(())).expect("no error"), Some(None));
        assert_eq!(receiver.counts.lost, 1);
    }

    #[test]
    fn a_level_that_changes_before_the_line_is_driven_is_unexpected() {
        let mut wire = levels(1);
        let mut receiver = Receiver::new();
        assert_eq!(receiver.one(&mut wire, true, 5_000, &|| Continue(())).expect("no error"), Some(None));
        assert_eq!(receiver.counts, EdgeCounts { lost: 1, unexpected: 1, ..EdgeCounts::default() });
    }

    #[test]
    fn gaps_in_sequence_numbers_are_edges_that_the_kernel_dropped() {
        let mut wire = scripted(&[(10, 5, true, u32::MAX)]);
        let mut receiver = Receiver::new();
        assert!(receiver.one(&mut wire, true, SECOND_NS, &|| Continue(())).expect("no error").is_some());
        assert_eq!(receiver.counts.dropped, 0, "edges before the start do not count");
        wire.script.push_back((10, Edge::new(5, false, 3)));
        assert!(receiver.one(&mut wire, false, SECOND_NS, &|| Continue(())).expect("no error").is_some());
        assert_eq!((receiver.counts.dropped, receiver.counts.arrived), (3, 2));
    }

    #[test]
    fn a_timestamp_of_another_clock_is_rejected_and_is_not_confused_with_a_stale_one() {
        let far = u64::MAX - 1_000_000;
        let mut wire = scripted(&[(10, far, true, 1)]);
        let mut receiver = Receiver::new();
        let times = arrived(&mut receiver, &mut wire, true);
        assert_eq!((times.detected_ns, times.output_to_irq_ns(), times.end_to_end_ns()), (None, None, 11));
        assert_eq!((receiver.counts.out_of_window, receiver.counts.arrived), (1, 1));
        // Once timestamps have matched, one that does not belongs to another edge.
        wire.script = VecDeque::from([(10, Edge::new(5, false, 2))]);
        assert!(receiver.one(&mut wire, false, SECOND_NS, &|| Continue(())).expect("no error").is_some());
        wire.script = VecDeque::from([(10, Edge::new(far, true, 3)), (20, Edge::new(15, true, 4))]);
        let times = arrived(&mut receiver, &mut wire, true);
        assert_eq!(times.output_to_irq_ns(), Some(15));
        assert_eq!((receiver.counts.out_of_window, receiver.counts.unexpected, receiver.counts.arrived), (1, 1, 3));
    }

    #[test]
    fn a_ringing_line_does_not_prolong_the_wait() {
        let ringing: Vec<_> =
            (0..50).map(|number| (u64::from(number) * 100, u64::from(number) * 100, false, number)).collect();
        let mut wire = scripted(&ringing);
        let mut receiver = Receiver::new();
        assert_eq!(receiver.one(&mut wire, true, 3_000, &|| Continue(())).expect("no error"), Some(None));
        assert_eq!((receiver.counts.lost, receiver.counts.unexpected), (1, 31));
    }

    #[test]
    fn a_long_wait_can_be_interrupted() {
        let mut wire = scripted(&[]);
        let asked = Cell::new(0);
        let check = || {
            asked.set(asked.get() + 1);
            if asked.get() < 3 { Continue(()) } else { Break(()) }
        };
        assert_eq!(Receiver::new().one(&mut wire, true, 1_000 * SECOND_NS, &check).expect("no error"), None);
        assert_eq!(asked.get(), 3);
        assert!(wire.now_ns.get() < 1_000_000 + 4 * saturating_nanos(PIECE));
    }

    #[test]
    fn the_line_is_driven_to_the_other_level_each_time() {
        let edges: Vec<_> = (1..=6).map(|number| (20, 10, number % 2 == 0, number)).collect();
        let mut wire = scripted(&edges);
        let mut outcomes = Vec::new();
        let edges = EdgeLatency::new(&mut wire, Duration::from_micros(50)).with_first_level(false);
        let report = edges.run(|outcome| {
            outcomes.push(outcome);
            if outcomes.len() < 6 { Continue(()) } else { Break(()) }
        });
        assert!(report.error.is_none());
        assert_eq!(wire.levels, [false, true, false, true, false, true]);
        assert_eq!(report.counts, EdgeCounts { arrived: 6, ..EdgeCounts::default() });
        let is_as_scripted = |outcome: &EdgeOutcome| {
            let EdgeOutcome::Arrived { times: EdgeTimes { driven_ns, detected_ns, .. }, .. } = *outcome else {
                return false;
            };
            detected_ns == Some(driven_ns + 10)
        };
        assert!(outcomes.iter().all(is_as_scripted), "{outcomes:?}");
    }

    #[test]
    fn an_error_of_the_kernel_ends_the_measurement_and_is_returned() {
        struct Gone;
        impl Wire for Gone {
            fn now_ns(&self) -> u64 {
                0
            }
            fn set(&mut self, _: bool) -> io::Result<()> {
                Err(io::Error::from_raw_os_error(libc::ENODEV))
            }
            fn pending(&mut self) -> io::Result<Option<Edge>> {
                Ok(None)
            }
            fn edge(&mut self, _: u64, _: Duration) -> io::Result<Option<Edge>> {
                Ok(None)
            }
        }
        let mut wire = Gone;
        let edges = EdgeLatency::new(&mut wire, Duration::from_micros(50)).with_start(Instant::now());
        let report = edges.run(|_| panic!("nothing came"));
        assert_eq!(report.error.expect("the chip was removed").raw_os_error(), Some(libc::ENODEV));
        assert_eq!(report.counts, EdgeCounts::default());
    }

    #[test]
    fn a_line_that_never_stops_ringing_does_not_block_the_measurement() {
        struct Ringing(u64);
        impl Wire for Ringing {
            fn now_ns(&self) -> u64 {
                self.0
            }
            fn set(&mut self, _: bool) -> io::Result<()> {
                Ok(())
            }
            fn pending(&mut self) -> io::Result<Option<Edge>> {
                self.0 += 1;
                Ok(Some(Edge::new(self.0, false, u32::try_from(self.0).expect("a small number"))))
            }
            fn edge(&mut self, _: u64, _: Duration) -> io::Result<Option<Edge>> {
                self.pending()
            }
        }
        let mut receiver = Receiver::new();
        assert_eq!(receiver.one(&mut Ringing(0), true, 10, &|| Continue(())).expect("no error"), Some(None));
        assert_eq!((receiver.counts.unexpected, receiver.counts.lost), (MOST_PENDING as u64 + 10, 1));
        for may_ask in [2, MOST_PENDING + 3] {
            let asked = Cell::new(0);
            let check = || {
                asked.set(asked.get() + 1);
                if asked.get() < may_ask { Continue(()) } else { Break(()) }
            };
            assert_eq!(Receiver::new().one(&mut Ringing(0), true, SECOND_NS, &check).expect("no error"), None);
            assert_eq!(asked.get(), may_ask);
        }
    }
}
