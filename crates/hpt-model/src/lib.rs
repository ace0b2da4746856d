//! The system clock of hpt-core, and the interruptions of its sleeper, under a scheduler that tries every order: its own source files, with loom's atomics in
//! place of the machine's. Has no code of theirs itself, only a world for it: what a reading of the world returns, and what must hold of the answers.
#![cfg(target_pointer_width = "64")]

#[path = "../../hpt-core/src/clock/follower.rs"]
mod follower;
#[expect(dead_code, reason = "the model changes no source")]
#[path = "../../hpt-core/src/clock/following.rs"]
mod following;
#[path = "../../hpt-core/src/clock/published.rs"]
mod published;
#[expect(dead_code, reason = "the model states no bound")]
#[path = "../../hpt-core/src/clock/segment.rs"]
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
    following::{Following, Instruments},
    published::{NATIVE, Published},
    segment::{LONGEST_NS, SHORTEST_NS, Segment},
};

/// Reading the counter takes so long.
const STEP_NS: u64 = 1_000;
/// Reading the clock takes one thread longer than the other. What it shows is true at the beginning: a point that the slow one takes between two readings is
/// behind by three steps, so that an answer of the quick one is above the line that is made of it, and still is when the next reading begins.
const SLOW_CLOCK_NS: u64 = 7 * STEP_NS;
const QUICK_CLOCK_NS: u64 = STEP_NS;
/// A clock that was sped up and is slowed down again leaves a line ahead of it, and further than it catches up with while the next one is made.
const AHEAD_NS: u64 = 4 * SLOW_CLOCK_NS;

/// A counter that is set back goes back by so much: into the segment that ended, and further than it catches up with in the model, because what it does
/// inside of one segment nobody can see.
const SET_BACK_NS: u64 = SHORTEST_NS - 5 * STEP_NS;

/// True time, which moves when it is looked at, and the words of the clock.
struct World {
    now_ns: AtomicU64,
    words: [AtomicU64; 64],
    handed_ns: AtomicU64,
    runs_ahead: AtomicBool,
    is_set_back: AtomicBool,
}

impl World {
    fn new() -> Self {
        Self {
            now_ns: AtomicU64::new(1_000_000_000),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            handed_ns: AtomicU64::new(0),
            runs_ahead: AtomicBool::new(false),
            is_set_back: AtomicBool::new(false),
        }
    }

    /// Lets time pass and says when that began. Relaxed: reading a counter orders nothing else, but all see one line of time.
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
    /// As the program's own: the counter, then the segment; and if that has no answer, the long way.
    fn now_ns(&self) -> u64 {
        let published = Published::new(&self.world.words);
        let ticks = self.ticks();
        if let Some(segment) = published.native_segment()
            && let Some(ns) = segment.at(ticks)
        {
            return ns;
        }
        let following = Following { instruments: *self, number: NATIVE, published, name: 1, others_are_dead: false };
        following.now_ns().expect("no other instruments are used")
    }

    /// Reads, after what was handed over, and hands over what was read.
    fn read_and_hand_over(&self) {
        let handed_ns = self.world.handed_ns.load(Ordering::Acquire);
        let now_ns = self.now_ns();
        assert!(now_ns >= handed_ns, "{handed_ns} was handed over, then {now_ns} was read");
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
        let line_ns = segment.at(self.ticks()).expect("a segment was just begun");
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
        thread.join().expect("nothing went back");
    });
}

/// Two threads where a segment ends: fast, slow and fast answers in every order.
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

/// Two threads where a segment ends that was ahead of the clock.
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

/// A reader while two segments come into force one after the other: it sees one of the three, whole.
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
        writer.join().expect("the writer is alone");
    });
}

/// Two threads while the rate is learned: slow answers, then the first segment.
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

/// Two threads after a pause of many segments.
pub fn when_nobody_asked_for_long() {
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

/// Two threads after the end of a segment, and a counter that is set back into it.
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
