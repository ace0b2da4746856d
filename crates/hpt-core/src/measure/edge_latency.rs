//! GPIO edge latency, which has two parts: the time from driving a line until the kernel detects the edge on a
//! connected line, and the time from then until a program has read the edge. This module does not request lines; the
//! caller does.

use std::{io, time::Duration};

use super::wakes::{Interrupter, ReadOverhead, Waiting, read_overhead, wakes};
use crate::{
    clock::Instant,
    gpio::{Edge, Input, Output},
    source::{PosixClock, TimeSource},
    units::saturating_nanos,
};

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

/// Two connected lines, and the clock that is used at both ends.
pub trait Wire {
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
    input: &'a Input,
    clock: PosixClock,
    listening: EdgeWaiting,
}

impl<'a> Loopback<'a> {
    /// Creates a wire from two requested lines. `clock` must be the kernel's `CLOCK_MONOTONIC`, which timestamps edges;
    /// any other clock has an offset from these timestamps.
    #[must_use]
    pub fn new(output: &'a Output, input: &'a Input, clock: PosixClock, listening: EdgeWaiting) -> Self {
        Self { output, input, clock, listening }
    }

    /// Measures the read overhead of the clock.
    #[must_use]
    pub fn clock_read_overhead(&self) -> ReadOverhead {
        read_overhead(|| self.now_ns(), |earlier, later| later.saturating_sub(earlier))
    }
}

impl Wire for Loopback<'_> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.ticks()
    }

    #[inline]
    fn set(&mut self, level: bool) -> io::Result<()> {
        self.output.set(level)
    }

    fn pending(&mut self) -> io::Result<Option<Edge>> {
        self.input.edge()
    }

    #[inline]
    fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>> {
        match self.listening {
            EdgeWaiting::Blocking => {
                // The system call accepts a timeout only in whole milliseconds. The extra millisecond avoids repeated
                // calls during the last millisecond.
                self.input.wait(at_most + Duration::from_millis(1))?;
                self.input.edge()
            }
            EdgeWaiting::Polling => loop {
                let edge = self.input.edge()?;
                if edge.is_some() || self.now_ns().saturating_sub(since_ns) >= saturating_nanos(at_most) {
                    return Ok(edge);
                }
                std::hint::spin_loop();
            },
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
    /// between the other two times, which means that the timestamp comes from another clock.
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
pub enum Heard {
    /// The edge arrived, after this number of skipped deadlines.
    Edge(EdgeTimes, u64),
    /// No edge arrived in time.
    Nothing,
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
struct Ear {
    counts: EdgeCounts,
    number: Option<u32>,
    /// Whether a timestamp was between the two times around it, which shows that edges are timestamped with the wire's
    /// clock.
    is_one_clock: bool,
}

impl Ear {
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

    /// Drives the wire to `level` and waits for the edge. Returns `Ok(None)` if `go_on` returned false.
    fn one(
        &mut self,
        wire: &mut impl Wire,
        level: bool,
        timeout_ns: u64,
        go_on: impl Fn() -> bool,
    ) -> io::Result<Option<Option<EdgeTimes>>> {
        // The loop is limited, because a line that bounces faster than it is read always has another pending edge.
        for _ in 0..MOST_PENDING {
            let Some(edge) = wire.pending()? else { break };
            self.note_number(edge);
            self.counts.unexpected += 1;
            if !go_on() {
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
                let is_between = (driven_ns..=read_ns).contains(&edge.at_ns);
                // An edge that timed out may still arrive while the program waits for the next one.
                if edge.rising != level || (self.is_one_clock && !is_between) {
                    self.counts.unexpected += 1;
                } else {
                    self.counts.arrived += 1;
                    self.is_one_clock |= is_between;
                    self.counts.out_of_window += u64::from(!is_between);
                    let detected_ns = is_between.then_some(edge.at_ns);
                    return Ok(Some(Some(EdgeTimes { driven_ns, detected_ns, read_ns })));
                }
            }
            if read_ns >= until_ns {
                self.counts.lost += 1;
                return Ok(Some(None));
            }
            if !go_on() {
                return Ok(None);
            }
            since_ns = read_ns;
        }
    }
}

/// Drives the wire to `level` at the time `first`, and then to the opposite of its previous level once per `period` (at
/// least one microsecond). Waits at most `timeout` for each edge, and passes the result to `each`. Calls `go_on` during
/// long waits for an edge, and when the thread is interrupted. Ends when `each` or `go_on` returns false.
///
/// # Errors
///
/// If a line cannot be driven or read, returns the kernel's error together with the counts so far.
pub fn gpio_edges(
    wire: &mut impl Wire,
    level: bool,
    (first, period): (Instant, Duration),
    timeout: Duration,
    interrupter: &Interrupter,
    go_on: impl Fn() -> bool,
    mut each: impl FnMut(Heard) -> bool,
) -> (EdgeCounts, io::Result<()>) {
    let mut ear = Ear::new();
    let mut level = level;
    let mut answer = Ok(());
    let timeout_ns = saturating_nanos(timeout);
    wakes(first, period, Waiting::Blocking, interrupter, &go_on, |wake| {
        match ear.one(wire, level, timeout_ns, &go_on) {
            Ok(None) => false,
            Ok(Some(heard)) => {
                level = !level;
                each(heard.map_or(Heard::Nothing, |times| Heard::Edge(times, wake.missed)))
            }
            Err(error) => {
                answer = Err(error);
                false
            }
        }
    });
    (ear.counts, answer)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::VecDeque, io, time::Duration};

    use super::{Ear, EdgeCounts, EdgeTimes, Heard, Interrupter, MOST_PENDING, PIECE, Wire, gpio_edges};
    use crate::{clock::Instant, gpio::Edge, units::saturating_nanos};

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

    #[test]
    fn an_edge_has_three_figures_that_add_up() {
        let mut wire = scripted(&[(9_000, 2_000, true, 1)]);
        let mut ear = Ear::new();
        let times = ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("an edge");
        assert_eq!((times.output_to_irq_ns(), times.irq_to_user_ns()), (Some(2_000), Some(7_001)));
        assert_eq!(times.end_to_end_ns(), 9_001);
        assert_eq!(wire.levels, [true]);
        assert_eq!(ear.counts, EdgeCounts { arrived: 1, ..EdgeCounts::default() });
    }

    #[test]
    fn a_missing_edge_times_out_and_is_recognized_when_it_arrives_late() {
        let mut wire = scripted(&[]);
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut wire, true, SECOND_NS, || true).expect("no error"), Some(None));
        assert_eq!(ear.counts.lost, 1);
        assert!(wire.now_ns.get() >= 1_000_000 + SECOND_NS);
        // One edge arrives before the next one is requested, and one while the program waits for it.
        wire.pending.push_back(Edge::new(5, true, 1));
        wire.script = VecDeque::from([(1_000, Edge::new(500, true, 2)), (3_000, Edge::new(2_000, false, 3))]);
        let times = ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").expect("go on").expect("an edge");
        assert_eq!(times.output_to_irq_ns(), Some(2_000));
        assert_eq!(ear.counts, EdgeCounts { arrived: 1, lost: 1, unexpected: 2, ..EdgeCounts::default() });
    }

    #[test]
    fn gaps_in_sequence_numbers_are_edges_that_the_kernel_dropped() {
        let mut wire = scripted(&[(10, 5, true, u32::MAX)]);
        let mut ear = Ear::new();
        assert!(ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").is_some());
        assert_eq!(ear.counts.dropped, 0, "edges before the start do not count");
        wire.script.push_back((10, Edge::new(5, false, 3)));
        assert!(ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").is_some());
        assert_eq!((ear.counts.dropped, ear.counts.arrived), (3, 2));
    }

    #[test]
    fn a_timestamp_of_another_clock_is_rejected_and_is_not_confused_with_a_stale_one() {
        let far = u64::MAX - 1_000_000;
        let mut wire = scripted(&[(10, far, true, 1)]);
        let mut ear = Ear::new();
        let times = ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("an edge");
        assert_eq!((times.detected_ns, times.output_to_irq_ns(), times.end_to_end_ns()), (None, None, 11));
        assert_eq!((ear.counts.out_of_window, ear.counts.arrived), (1, 1));
        // Once timestamps have matched, one that does not belongs to another edge.
        wire.script = VecDeque::from([(10, Edge::new(5, false, 2))]);
        assert!(ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").is_some());
        wire.script = VecDeque::from([(10, Edge::new(far, true, 3)), (20, Edge::new(15, true, 4))]);
        let times = ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("an edge");
        assert_eq!(times.output_to_irq_ns(), Some(15));
        assert_eq!((ear.counts.out_of_window, ear.counts.unexpected, ear.counts.arrived), (1, 1, 3));
    }

    #[test]
    fn a_ringing_line_does_not_prolong_the_wait() {
        let ringing: Vec<_> =
            (0..50).map(|number| (u64::from(number) * 100, u64::from(number) * 100, false, number)).collect();
        let mut wire = scripted(&ringing);
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut wire, true, 3_000, || true).expect("no error"), Some(None));
        assert_eq!((ear.counts.lost, ear.counts.unexpected), (1, 31));
    }

    #[test]
    fn a_long_wait_can_be_interrupted() {
        let mut wire = scripted(&[]);
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() < 3
        };
        assert_eq!(Ear::new().one(&mut wire, true, 1_000 * SECOND_NS, go_on).expect("no error"), None);
        assert_eq!(asked.get(), 3);
        assert!(wire.now_ns.get() < 1_000_000 + 4 * saturating_nanos(PIECE));
    }

    #[test]
    fn the_line_is_driven_to_the_other_level_each_time() {
        let edges: Vec<_> = (1..=6).map(|number| (20, 10, number % 2 == 0, number)).collect();
        let mut wire = scripted(&edges);
        let mut heard = Vec::new();
        let when = (Instant::now(), Duration::from_micros(50));
        let (counts, answer) = gpio_edges(
            &mut wire,
            false,
            when,
            Duration::from_secs(1),
            &Interrupter::default(),
            || true,
            |one| {
                heard.push(one);
                heard.len() < 6
            },
        );
        assert!(answer.is_ok());
        assert_eq!(wire.levels, [false, true, false, true, false, true]);
        assert_eq!(counts, EdgeCounts { arrived: 6, ..EdgeCounts::default() });
        assert!(heard.iter().all(|one| matches!(one, Heard::Edge(EdgeTimes { driven_ns, detected_ns: Some(detected_ns), .. }, _) if detected_ns - driven_ns == 10)));
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
        let when = (Instant::now(), Duration::from_micros(50));
        let (counts, answer) = gpio_edges(
            &mut Gone,
            true,
            when,
            Duration::from_secs(1),
            &Interrupter::default(),
            || true,
            |_| panic!("nothing came"),
        );
        assert_eq!(answer.expect_err("the chip was removed").raw_os_error(), Some(libc::ENODEV));
        assert_eq!(counts, EdgeCounts::default());
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
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut Ringing(0), true, 10, || true).expect("no error"), Some(None));
        assert_eq!((ear.counts.unexpected, ear.counts.lost), (MOST_PENDING as u64 + 10, 1));
        for may_ask in [2, MOST_PENDING + 3] {
            let asked = Cell::new(0);
            let go_on = || {
                asked.set(asked.get() + 1);
                asked.get() < may_ask
            };
            assert_eq!(Ear::new().one(&mut Ringing(0), true, SECOND_NS, go_on).expect("no error"), None);
            assert_eq!(asked.get(), may_ask);
        }
    }
}
