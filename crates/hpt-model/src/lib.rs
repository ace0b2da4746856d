//! The system clock of hpt-core, and the interruption of its sleeper, under a scheduler that tries all thread
//! interleavings. Compiles hpt-core's own source files with loom's atomics instead of the machine's. This crate
//! contains only a simulated world for them: what reading it returns, and the properties that must hold.
#![forbid(unsafe_code)]
#![cfg(target_pointer_width = "64")]

#[expect(unreachable_pub, reason = "hpt-core uses the file from another crate")]
#[path = "../../hpt-sys/src/linux/clock_words.rs"]
mod clock_words;
#[path = "../../hpt-core/src/clock/linux/follower.rs"]
mod follower;
#[expect(dead_code, reason = "the model changes no source")]
#[path = "../../hpt-core/src/clock/linux/following.rs"]
mod following;
#[path = "../../hpt-core/src/clock/linux/published.rs"]
mod published;
#[expect(dead_code, reason = "the model states no bound")]
#[path = "../../hpt-core/src/clock/linux/segment.rs"]
mod segment;
pub mod sleeper;
#[path = "../../hpt-core/src/sleep/word.rs"]
#[expect(dead_code, reason = "the model sets no wall clock")]
mod word;

use std::sync::{Arc, atomic::AtomicBool};

use loom::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use self::{
    clock_words::ClockWords,
    following::{Following, Instruments},
    published::{NATIVE, Published},
    segment::{LONGEST_NS, SHORTEST_NS, Segment},
};

/// The time that reading the counter takes.
const STEP_NS: u64 = 1_000;
/// The time that reading the clock takes the slower of the two threads. The value returned is that at the start of the
/// read. A point that the slow thread takes between two readings is therefore behind by three steps. A result of the
/// fast thread is above the line through that point, and still is when the next reading starts.
const SLOW_CLOCK_NS: u64 = 7 * STEP_NS;
const QUICK_CLOCK_NS: u64 = STEP_NS;
/// The lead of a line over a clock that was sped up and is slowed down again: more than the clock catches up with while
/// the next line is made.
const AHEAD_NS: u64 = 4 * SLOW_CLOCK_NS;

/// The amount by which a counter is set back: into the segment that ended, and further than it catches up with in the
/// model, because its behavior within one segment cannot be observed.
const SET_BACK_NS: u64 = SHORTEST_NS - 5 * STEP_NS;

/// True time, which advances when it is read, and the words of the clock.
struct World {
    now_ns: AtomicU64,
    words: ClockWords,
    handed_ns: AtomicU64,
    runs_ahead: AtomicBool,
    is_set_back: AtomicBool,
}

impl World {
    fn new() -> Self {
        Self {
            now_ns: AtomicU64::new(1_000_000_000),
            words: ClockWords::default(),
            handed_ns: AtomicU64::new(0),
            runs_ahead: AtomicBool::new(false),
            is_set_back: AtomicBool::new(false),
        }
    }

    /// Lets time pass, and returns when that began. Relaxed: reading a counter orders nothing else, but all threads see
    /// the same timeline.
    fn wait(&self, ns: u64) -> u64 {
        self.now_ns.fetch_add(ns, Ordering::Relaxed)
    }

    const fn slow(&self) -> Reader<'_> {
        Reader { world: self, clock_step_ns: SLOW_CLOCK_NS }
    }

    const fn quick(&self) -> Reader<'_> {
        Reader { world: self, clock_step_ns: QUICK_CLOCK_NS }
    }
}

/// A thread's view of the world.
#[derive(Clone, Copy)]
struct Reader<'a> {
    world: &'a World,
    clock_step_ns: u64,
}

impl Reader<'_> {
    /// Reads the time as the program does: the counter, then the segment, and if that does not cover the reading, the
    /// slow path.
    fn now_ns(&self) -> u64 {
        let published = Published::new(&self.world.words);
        let ticks = self.ticks();
        if let Some(ns) = published.native_segment().and_then(|segment| segment.at(ticks)) {
            return ns;
        }
        let following = Following { instruments: *self, number: NATIVE, published, name: 1, others_are_dead: false };
        following.now_ns().expect("no other counter is used")
    }

    /// Reads after a timestamp was received, then passes on what was read.
    fn read_and_hand_over(&self) {
        let handed_ns = self.world.handed_ns.load(Ordering::Acquire);
        let now_ns = self.now_ns();
        assert!(now_ns >= handed_ns, "{handed_ns} was passed on, then {now_ns} was read");
        self.world.handed_ns.fetch_max(now_ns, Ordering::Release);
    }

    /// Follows the clock alone until one reading is left of a segment.
    fn until_the_end_is_near(&self) {
        for _ in 0..8 {
            self.read_and_hand_over();
            self.world.wait(LONGEST_NS / 4);
        }
        self.read_and_hand_over();
        let segment = self.segment();
        let line_ns = segment.at(self.ticks()).expect("a segment that has just started");
        self.world.wait((segment.end_ns() - line_ns).saturating_sub(2 * STEP_NS));
    }

    fn segment(&self) -> Segment {
        Published::new(&self.world.words).in_force().line
    }
}

impl Instruments for Reader<'_> {
    fn ticks(self) -> u64 {
        // 2 GHz, and another epoch.
        let back_ns = if self.world.is_set_back.load(std::sync::atomic::Ordering::Relaxed) { SET_BACK_NS } else { 0 };
        (self.world.wait(STEP_NS) - back_ns) * 2 + 12_345
    }

    fn clock_ns(self) -> u64 {
        let began_ns = self.world.wait(self.clock_step_ns);
        if self.world.runs_ahead.load(std::sync::atomic::Ordering::Relaxed) { began_ns + AHEAD_NS } else { began_ns }
    }

    fn disruption_marker(self) -> Option<u64> {
        Some(0)
    }

    fn are_in_use(self) -> bool {
        true
    }
}

fn in_every_order(preemptions: usize, world: impl Fn() -> World + Sync + Send + 'static, work: fn(Reader<'_>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(move || {
        let world = Arc::new(world());
        let other = Arc::clone(&world);
        let thread = thread::spawn(move || work(other.quick()));
        work(world.slow());
        thread.join().expect("a thread whose time did not go back");
    });
}

/// Checks two threads at the end of a segment: fast, slow and fast readings in every order.
pub fn where_a_segment_ends() {
    in_every_order(
        3,
        || {
            let world = World::new();
            world.slow().until_the_end_is_near();
            world
        },
        |reader| {
            for _ in 0..3 {
                reader.read_and_hand_over();
            }
        },
    );
}

/// Checks two threads at the end of a segment that was ahead of the clock.
pub fn where_a_segment_ends_that_was_ahead() {
    in_every_order(
        2,
        || {
            let world = World::new();
            world.runs_ahead.store(true, std::sync::atomic::Ordering::Relaxed);
            world.slow().until_the_end_is_near();
            world.runs_ahead.store(false, std::sync::atomic::Ordering::Relaxed);
            world
        },
        |reader| {
            reader.read_and_hand_over();
            reader.read_and_hand_over();
        },
    );
}

/// Checks a reader while two segments are activated one after the other: it sees one of the three completely.
pub fn one_segment_at_a_time() {
    loom::model(|| {
        let world = Arc::new(World::new());
        let other = Arc::clone(&world);
        let line = |n| Segment { base_ticks: n, base_ns: n, slope: n, ticks: n };
        let writer = thread::spawn(move || {
            let published = Published::new(&other.words);
            for n in 1..=2 {
                assert!(published.put_in_force(NATIVE, |_| Some(line(n))));
            }
        });
        if let Some(seen) = Published::new(&world.words).native_segment() {
            assert!((0..=2).any(|n| seen == line(n)), "{seen:?}");
        }
        writer.join().expect("a writer that does not panic");
    });
}

/// Checks two threads while the rate is learned: slow readings, then the first segment.
pub fn while_the_rate_is_learned() {
    in_every_order(
        3,
        || {
            let world = World::new();
            world.slow().read_and_hand_over();
            world.wait(SHORTEST_NS);
            world
        },
        |reader| {
            for _ in 0..3 {
                reader.read_and_hand_over();
            }
        },
    );
}

/// Checks two threads after a pause of many segments.
pub fn after_a_long_pause() {
    in_every_order(
        2,
        || {
            let world = World::new();
            world.slow().until_the_end_is_near();
            world.wait(10 * LONGEST_NS);
            world
        },
        |reader| {
            for _ in 0..3 {
                reader.read_and_hand_over();
            }
        },
    );
}

/// Checks two threads after the end of a segment, with a counter that is set back into it.
pub fn when_the_counter_is_set_back() {
    in_every_order(
        2,
        || {
            let world = World::new();
            world.slow().until_the_end_is_near();
            world.wait(2 * SLOW_CLOCK_NS);
            world
        },
        |reader| {
            reader.read_and_hand_over();
            reader.world.is_set_back.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.read_and_hand_over();
        },
    );
}
