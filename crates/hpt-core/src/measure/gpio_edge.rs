//! How long after a line was driven the kernel sees the edge on another that is wired to it, and how long after that a program knows.
//! Requests no line and draws nothing: the caller does.

use std::{io, time::Duration};

use super::wakes::{Rouser, Waiting, cost_of, wakes};
use crate::{
    clock::Instant,
    gpio::{Edge, Input, Output},
    source::{PosixClock, TimeSource},
    units::saturating_nanos,
};

/// A longer wait is made in pieces, so that somebody can end it.
const PIECE: Duration = Duration::from_millis(100);
/// The kernel keeps no more of a line: 1024 of the largest buffer there is. What comes beyond came meanwhile.
const MOST_PENDING: usize = 1_024;

/// How a thread waits for an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listening {
    /// In the kernel, by poll(2), and then it reads.
    #[default]
    Waiting,
    /// By reading again and again.
    Spinning,
}

/// Two lines that are wired together, and the clock that both ends are stamped by.
pub trait Wire {
    /// The moment, by the clock that edges are stamped by, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Drives the one end.
    ///
    /// # Errors
    ///
    /// What the kernel answers.
    fn set(&mut self, level: bool) -> io::Result<()>;

    /// The next edge at the other end that is there already.
    ///
    /// # Errors
    ///
    /// What the kernel answers.
    fn pending(&mut self) -> io::Result<Option<Edge>>;

    /// The next edge at the other end, waited for from this moment on, which is or has just been, and so long; it may return without one earlier.
    ///
    /// # Errors
    ///
    /// What the kernel answers.
    fn edge(&mut self, since_ns: u64, at_most: Duration) -> io::Result<Option<Edge>>;
}

/// The lines of a machine.
#[derive(Debug)]
pub struct LoopBack<'a> {
    output: &'a Output,
    input: &'a Input,
    clock: PosixClock,
    listening: Listening,
}

impl<'a> LoopBack<'a> {
    /// Of two lines that are requested. `clock` is to be the kernel's `CLOCK_MONOTONIC`, which it stamps edges by: any other is off from it.
    #[must_use]
    pub fn new(output: &'a Output, input: &'a Input, clock: PosixClock, listening: Listening) -> Self {
        Self { output, input, clock, listening }
    }

    /// What a look at the clock takes, in nanoseconds: the median of what two readings in a row differ by; and the smallest step seen. It is in every figure.
    #[must_use]
    pub fn cost_of_looking(&self) -> (u64, Option<u64>) {
        cost_of(|| self.now_ns(), |earlier, later| later.saturating_sub(earlier))
    }
}

impl Wire for LoopBack<'_> {
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
            Listening::Waiting => {
                // The kernel's call takes whole milliseconds: not to look again and again in the last of them.
                self.input.wait(at_most + Duration::from_millis(1))?;
                self.input.edge()
            }
            Listening::Spinning => loop {
                let edge = self.input.edge()?;
                if edge.is_some() || self.now_ns().saturating_sub(since_ns) >= saturating_nanos(at_most) {
                    return Ok(edge);
                }
                std::hint::spin_loop();
            },
        }
    }
}

/// An edge from the one end of a wire to the program at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crossing {
    /// Right before the kernel was asked to drive the line, in nanoseconds of the wire's clock.
    pub set_ns: u64,
    /// When the kernel's interrupt handler saw the edge; `None` where its stamp lies outside of the two others, and so comes from another clock.
    pub edge_ns: Option<u64>,
    /// Right after the edge was read.
    pub known_ns: u64,
}

impl Crossing {
    /// One with these moments, in nanoseconds.
    #[must_use]
    pub const fn new(set_ns: u64, edge_ns: Option<u64>, known_ns: u64) -> Self {
        Self { set_ns, edge_ns, known_ns }
    }

    /// From driving the line until the kernel saw the edge, in nanoseconds.
    #[must_use]
    pub fn set_to_edge_ns(&self) -> Option<u64> {
        self.edge_ns.map(|edge_ns| edge_ns.saturating_sub(self.set_ns))
    }

    /// From there until the program knew, in nanoseconds.
    #[must_use]
    pub fn edge_to_program_ns(&self) -> Option<u64> {
        self.edge_ns.map(|edge_ns| self.known_ns.saturating_sub(edge_ns))
    }

    /// The whole, in nanoseconds.
    #[must_use]
    pub const fn whole_ns(&self) -> u64 {
        self.known_ns.saturating_sub(self.set_ns)
    }
}

/// What came of driving the line once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Heard {
    /// The edge came; and how many deadlines had passed before it was this one's turn, and were left out.
    Edge(Crossing, u64),
    /// None came in time.
    Nothing,
}

/// What was counted beside the edges that were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeCounts {
    /// Edges that came.
    pub came: u64,
    /// Times that the line was driven and no edge came.
    pub lost: u64,
    /// Edges that nobody made: the line rings, or somebody else drives it, or they came after they were given up.
    pub strange: u64,
    /// Edges that the kernel had no room to keep.
    pub dropped: u64,
    /// Edges whose stamp lies outside of the moments around them: it comes from another clock.
    pub elsewhen: u64,
}

/// What has to be known of one edge for the next.
#[derive(Debug)]
struct Ear {
    counts: EdgeCounts,
    number: Option<u32>,
    /// A stamp lay between the moments around it: the clocks are the same.
    is_one_clock: bool,
}

impl Ear {
    const fn new() -> Self {
        Self {
            counts: EdgeCounts { came: 0, lost: 0, strange: 0, dropped: 0, elsewhen: 0 },
            number: None,
            is_one_clock: false,
        }
    }

    fn note_number(&mut self, edge: Edge) {
        if let Some(last) = self.number.replace(edge.number) {
            self.counts.dropped += u64::from(edge.number.wrapping_sub(last).wrapping_sub(1));
        }
    }

    /// Drives the wire to `level` and waits for the edge. `Ok(None)` when `go_on` said no.
    fn one(
        &mut self,
        wire: &mut impl Wire,
        level: bool,
        timeout_ns: u64,
        go_on: impl Fn() -> bool,
    ) -> io::Result<Option<Option<Crossing>>> {
        // A line that rings faster than it is read never runs dry.
        for _ in 0..MOST_PENDING {
            let Some(edge) = wire.pending()? else { break };
            self.note_number(edge);
            self.counts.strange += 1;
            if !go_on() {
                return Ok(None);
            }
        }
        let set_ns = wire.now_ns();
        wire.set(level)?;
        let until_ns = set_ns.saturating_add(timeout_ns);
        let mut since_ns = set_ns;
        loop {
            let edge = wire.edge(since_ns, Duration::from_nanos(until_ns.saturating_sub(since_ns)).min(PIECE))?;
            let known_ns = wire.now_ns();
            if let Some(edge) = edge {
                self.note_number(edge);
                let is_between = (set_ns..=known_ns).contains(&edge.at_ns);
                // One that was given up may come after all, in the meantime of another.
                if edge.rising != level || (self.is_one_clock && !is_between) {
                    self.counts.strange += 1;
                } else {
                    self.counts.came += 1;
                    self.is_one_clock |= is_between;
                    self.counts.elsewhen += u64::from(!is_between);
                    let edge_ns = is_between.then_some(edge.at_ns);
                    return Ok(Some(Some(Crossing { set_ns, edge_ns, known_ns })));
                }
            }
            if known_ns >= until_ns {
                self.counts.lost += 1;
                return Ok(Some(None));
            }
            if !go_on() {
                return Ok(None);
            }
            since_ns = known_ns;
        }
    }
}

/// Drives the wire at `first`, and then at one moment after the other, each `period` after the last (a microsecond at least), to the other level each time, beginning with `level`. What
/// came of it is handed to `each`, until that says no; an edge is waited for `timeout` long. `go_on` is asked in longer waits for an
/// edge, and when the thread is roused.
///
/// # Errors
///
/// What the kernel answers when the line is driven or listened to, and what was counted until then.
pub fn gpio_edges(
    wire: &mut impl Wire,
    level: bool,
    (first, period): (Instant, Duration),
    timeout: Duration,
    rouser: &Rouser,
    go_on: impl Fn() -> bool,
    mut each: impl FnMut(Heard) -> bool,
) -> (EdgeCounts, io::Result<()>) {
    let mut ear = Ear::new();
    let mut level = level;
    let mut answer = Ok(());
    let timeout_ns = saturating_nanos(timeout);
    wakes(first, period, Waiting::Parked, rouser, &go_on, |wake| match ear.one(wire, level, timeout_ns, &go_on) {
        Ok(None) => false,
        Ok(Some(heard)) => {
            level = !level;
            each(heard.map_or(Heard::Nothing, |crossing| Heard::Edge(crossing, wake.missed)))
        }
        Err(error) => {
            answer = Err(error);
            false
        }
    });
    (ear.counts, answer)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::VecDeque, io, time::Duration};

    use super::{Crossing, Ear, EdgeCounts, Heard, MOST_PENDING, PIECE, Rouser, Wire, gpio_edges};
    use crate::{clock::Instant, gpio::Edge, units::saturating_nanos};

    /// A wire that does what a test wrote down. Each look at the clock takes a nanosecond.
    #[derive(Debug, Default)]
    struct Scripted {
        now_ns: Cell<u64>,
        levels: Vec<bool>,
        /// What is there before the line is driven.
        pending: VecDeque<Edge>,
        /// After how long which edges come; a stamp is relative to the driving.
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
        let crossing =
            ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("it came");
        assert_eq!((crossing.set_to_edge_ns(), crossing.edge_to_program_ns()), (Some(2_000), Some(7_001)));
        assert_eq!(crossing.whole_ns(), 9_001);
        assert_eq!(wire.levels, [true]);
        assert_eq!(ear.counts, EdgeCounts { came: 1, ..EdgeCounts::default() });
    }

    #[test]
    fn an_edge_that_does_not_come_is_given_up_and_known_when_it_comes_late() {
        let mut wire = scripted(&[]);
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut wire, true, SECOND_NS, || true).expect("no error"), Some(None));
        assert_eq!(ear.counts.lost, 1);
        assert!(wire.now_ns.get() >= 1_000_000 + SECOND_NS);
        // Before the next one, and in the middle of it.
        wire.pending.push_back(Edge::new(5, true, 1));
        wire.script = VecDeque::from([(1_000, Edge::new(500, true, 2)), (3_000, Edge::new(2_000, false, 3))]);
        let crossing =
            ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").expect("go on").expect("it came");
        assert_eq!(crossing.set_to_edge_ns(), Some(2_000));
        assert_eq!(ear.counts, EdgeCounts { came: 1, lost: 1, strange: 2, ..EdgeCounts::default() });
    }

    #[test]
    fn edges_that_the_kernel_dropped_are_gaps_in_their_numbers() {
        let mut wire = scripted(&[(10, 5, true, u32::MAX)]);
        let mut ear = Ear::new();
        assert!(ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").is_some());
        assert_eq!(ear.counts.dropped, 0, "where they begin is nobody's business");
        wire.script.push_back((10, Edge::new(5, false, 3)));
        assert!(ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").is_some());
        assert_eq!((ear.counts.dropped, ear.counts.came), (3, 2));
    }

    #[test]
    fn a_stamp_of_another_clock_is_left_out_and_a_stale_one_is_not_taken_for_it() {
        let far = u64::MAX - 1_000_000;
        let mut wire = scripted(&[(10, far, true, 1)]);
        let mut ear = Ear::new();
        let crossing =
            ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("it came");
        assert_eq!((crossing.edge_ns, crossing.set_to_edge_ns(), crossing.whole_ns()), (None, None, 11));
        assert_eq!((ear.counts.elsewhen, ear.counts.came), (1, 1));
        // Once stamps have been seen to fit, one that does not is not of this edge.
        wire.script = VecDeque::from([(10, Edge::new(5, false, 2))]);
        assert!(ear.one(&mut wire, false, SECOND_NS, || true).expect("no error").is_some());
        wire.script = VecDeque::from([(10, Edge::new(far, true, 3)), (20, Edge::new(15, true, 4))]);
        let crossing =
            ear.one(&mut wire, true, SECOND_NS, || true).expect("no error").expect("go on").expect("it came");
        assert_eq!(crossing.set_to_edge_ns(), Some(15));
        assert_eq!((ear.counts.elsewhen, ear.counts.strange, ear.counts.came), (1, 1, 3));
    }

    #[test]
    fn a_line_that_rings_does_not_keep_the_wait_from_its_end() {
        let ringing: Vec<_> =
            (0..50).map(|number| (u64::from(number) * 100, u64::from(number) * 100, false, number)).collect();
        let mut wire = scripted(&ringing);
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut wire, true, 3_000, || true).expect("no error"), Some(None));
        assert_eq!((ear.counts.lost, ear.counts.strange), (1, 31));
    }

    #[test]
    fn a_long_wait_is_ended() {
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
            &Rouser::default(),
            || true,
            |one| {
                heard.push(one);
                heard.len() < 6
            },
        );
        assert!(answer.is_ok());
        assert_eq!(wire.levels, [false, true, false, true, false, true]);
        assert_eq!(counts, EdgeCounts { came: 6, ..EdgeCounts::default() });
        assert!(heard.iter().all(|one| matches!(one, Heard::Edge(Crossing { set_ns, edge_ns: Some(edge_ns), .. }, _) if edge_ns - set_ns == 10)));
    }

    #[test]
    fn what_the_kernel_refuses_ends_it_and_is_told() {
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
            &Rouser::default(),
            || true,
            |_| panic!("nothing came"),
        );
        assert_eq!(answer.expect_err("it is gone").raw_os_error(), Some(libc::ENODEV));
        assert_eq!(counts, EdgeCounts::default());
    }

    #[test]
    fn a_line_that_rings_without_end_is_ended() {
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
                Ok(Some(Edge::new(self.0, false, u32::try_from(self.0).expect("not so long"))))
            }
            fn edge(&mut self, _: u64, _: Duration) -> io::Result<Option<Edge>> {
                self.pending()
            }
        }
        let mut ear = Ear::new();
        assert_eq!(ear.one(&mut Ringing(0), true, 10, || true).expect("no error"), Some(None));
        assert_eq!((ear.counts.strange, ear.counts.lost), (MOST_PENDING as u64 + 10, 1));
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
