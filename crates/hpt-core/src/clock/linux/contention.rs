//! Simulates many threads that only read the time, each on a simulated core of its own. Counts the attempts that a
//! segment takes, and tests how the threads abandon a counter that the kernel drops during the run. One thread runs at
//! a time, in an order derived from a seed, so the results do not depend on the machine. Simulated cores have no
//! caches, and no other core runs while a core accesses the shared words between two readings. Cache
//! contention between real cores is therefore not simulated.

use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{
    clock_words::ClockWords,
    following::{Doubt, Following, Instruments},
    published::{NATIVE, Ownership, Published},
};

/// The simulated time, and the order in which the cores run.
struct Turns {
    true_ns: f64,
    /// The cores that have not yet run in this round. The next core is last.
    round: Vec<usize>,
    running: Vec<usize>,
    seed: u64,
}

struct ContendedWorld {
    cores: usize,
    turns: Mutex<Turns>,
    next: Vec<Condvar>,
    is_dropped: AtomicBool,
    is_left: AtomicBool,
    /// The number of marker reads: one for each attempt to begin a segment, and one for each attempt to activate it.
    markers: AtomicU64,
    handed_ns: AtomicU64,
    words: ClockWords,
}

impl ContendedWorld {
    fn new(cores: usize) -> Self {
        let turns = Turns { true_ns: 7e12, round: (0..cores).collect(), running: (0..cores).collect(), seed: 12_345 };
        Self {
            cores,
            turns: Mutex::new(turns),
            next: (0..cores).map(|_| Condvar::new()).collect(),
            is_dropped: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            markers: AtomicU64::new(0),
            handed_ns: AtomicU64::new(0),
            words: ClockWords::default(),
        }
    }

    fn published(&self) -> Published<'_> {
        Published::new(&self.words)
    }

    /// Lets all cores run again.
    fn begin_again(&self) {
        let mut turns = self.turns.lock().expect("a lock that is not poisoned");
        turns.round = (0..self.cores).collect();
        turns.running = (0..self.cores).collect();
    }
}

/// One core. After the kernel has dropped the counter, the counters of odd-numbered cores are ahead of the others.
#[derive(Clone, Copy)]
struct Core<'a> {
    world: &'a ContendedWorld,
    number: usize,
}

impl Core<'_> {
    /// Advances the simulated time by this core's share of `ns`, and waits for the core's next turn. Returns the
    /// simulated time at that turn.
    fn step(self, ns: f64) -> f64 {
        let mut turns = self.world.turns.lock().expect("a lock that is not poisoned");
        #[expect(clippy::cast_precision_loss, reason = "64 at most")]
        let part_ns = ns / self.world.cores as f64;
        turns.true_ns += part_ns;
        self.pass_on(&mut turns);
        while turns.round.last() != Some(&self.number) {
            turns = self.world.next[self.number].wait(turns).expect("a lock that is not poisoned");
        }
        turns.true_ns
    }

    /// Ends this core's turn. A new round visits all running cores in another order.
    fn pass_on(self, turns: &mut Turns) {
        turns.round.retain(|&core| core != self.number);
        if turns.round.is_empty() {
            turns.round = turns.running.clone();
            for index in (1..turns.round.len()).rev() {
                turns.seed = turns.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let other = usize::try_from(turns.seed >> 40).expect("24 bits") % (index + 1);
                turns.round.swap(index, other);
            }
        }
        if let Some(&next) = turns.round.last() {
            self.world.next[next].notify_one();
        }
    }

    /// Waits for the first turn.
    fn begin(self) {
        let mut turns = self.world.turns.lock().expect("a lock that is not poisoned");
        while turns.round.last() != Some(&self.number) {
            turns = self.world.next[self.number].wait(turns).expect("a lock that is not poisoned");
        }
    }

    fn end(self) {
        let mut turns = self.world.turns.lock().expect("a lock that is not poisoned");
        turns.running.retain(|&core| core != self.number);
        self.pass_on(&mut turns);
    }

    /// Skips to `ns` before the end of the active segment. Until then, the segment serves all cores.
    fn skip_to_its_end(self, ns: f64) {
        let mut turns = self.world.turns.lock().expect("a lock that is not poisoned");
        #[expect(clippy::cast_precision_loss, reason = "two hours, in nanoseconds")]
        let end_ns = self.world.published().in_force().line.end_ns() as f64 - ns;
        turns.true_ns = turns.true_ns.max(end_ns);
    }

    fn following(&self) -> Following<'_, Self> {
        let published = self.world.published();
        Following { instruments: *self, number: NATIVE, published, name: 1, others_are_dead: false }
    }

    /// Reads the time as the program does: first the counter and the segment, then the slow path, then the kernel's
    /// clock. Also returns whether the segment served the reading.
    fn now_ns(self) -> (u64, bool) {
        let published = self.world.published();
        let ticks = self.ticks();
        if let Some(ns) = published.native_segment().and_then(|segment| segment.at(ticks)) {
            return (ns, true);
        }
        let kernel_ns = || self.clock_ns().max(published.in_force().line.end_ns());
        (self.following().now_ns().unwrap_or_else(kernel_ns), false)
    }
}

impl Instruments for Core<'_> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "two hours, in ticks")]
    fn ticks(self) -> u64 {
        let apart_ns =
            if self.world.is_dropped.load(Ordering::Relaxed) && self.number % 2 == 1 { 5_000.0 } else { 0.0 };
        ((self.step(10.0) + apart_ns) * 2.25) as u64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "two hours, in nanoseconds")]
    fn clock_ns(self) -> u64 {
        self.step(if self.world.is_dropped.load(Ordering::Relaxed) { 1_500.0 } else { 20.0 }) as u64
    }

    fn disruption_marker(self) -> Option<u64> {
        self.world.markers.fetch_add(1, Ordering::Relaxed);
        Some(0)
    }

    fn are_in_use(self) -> bool {
        !self.world.is_left.load(Ordering::Relaxed)
    }

    fn is_trusted(self, _: Doubt) -> bool {
        !self.world.is_dropped.load(Ordering::Relaxed)
    }

    fn leave(self, _: &Ownership<'_>) {
        self.world.is_left.store(true, Ordering::Relaxed);
    }

    fn pause(self) {
        self.step(15.0);
    }
}

/// Runs `work` on all cores until it returns true on one of them.
fn on_all_cores(world: &ContendedWorld, work: impl Fn(Core<'_>) -> bool + Sync) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..world.cores {
            let (core, work, is_done) = (Core { world, number }, &work, &is_done);
            scope.spawn(move || {
                core.begin();
                while !is_done.load(Ordering::Relaxed) {
                    if work(core) {
                        is_done.store(true, Ordering::Relaxed);
                    }
                }
                core.end();
            });
        }
    });
}

/// Receives a timestamp, reads the time, and passes the reading on.
fn read_and_hand_over(core: Core<'_>) -> bool {
    let handed_ns = core.world.handed_ns.load(Ordering::Relaxed);
    let (now_ns, by_segment) = core.now_ns();
    if !core.world.is_dropped.load(Ordering::Relaxed) {
        assert!(now_ns >= handed_ns, "{handed_ns} was passed on, then {now_ns} was read");
    }
    core.world.handed_ns.fetch_max(now_ns, Ordering::Relaxed);
    by_segment
}

#[test]
fn a_segment_takes_fewer_than_four_attempts_with_any_number_of_cores() {
    for cores in [2, 4, 8, 16, 32, 64] {
        let world = ContendedWorld::new(cores);
        let until = |segments| {
            on_all_cores(&world, |core| {
                if read_and_hand_over(core) && core.number == 0 {
                    core.skip_to_its_end(300.0);
                }
                world.published().segments() >= segments
            });
            (world.markers.load(Ordering::Relaxed), world.published().segments())
        };
        // The rate is learned first.
        let (markers_before, segments_before) = until(10);
        world.begin_again();
        let (markers, segments) = until(50);
        let segments = segments - segments_before;
        // A segment that is activated at the first attempt takes two marker reads.
        let attempts = markers - markers_before - segments;
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let attempts = attempts as f64 / segments as f64;
        println!("{cores} cores: {attempts:.2} attempts per segment");
        assert!(attempts < 4.0, "{cores} cores: {attempts} attempts per segment");
    }
}

#[test]
fn with_many_cores_a_dropped_counter_is_abandoned_within_a_second() {
    for cores in [2, 4, 8, 16, 32, 64] {
        let world = ContendedWorld::new(cores);
        let dropped_ns = Mutex::new(None);
        on_all_cores(&world, |core| {
            if read_and_hand_over(core) && core.number == 0 {
                core.skip_to_its_end(300.0);
                if world.published().segments() >= 10 {
                    let true_ns = world.turns.lock().expect("a lock that is not poisoned").true_ns;
                    dropped_ns.lock().expect("a lock that is not poisoned").get_or_insert(true_ns);
                    world.is_dropped.store(true, Ordering::Relaxed);
                }
            }
            world.is_left.load(Ordering::Relaxed)
        });
        let true_ns = world.turns.lock().expect("a lock that is not poisoned").true_ns;
        let took_ns =
            true_ns - dropped_ns.lock().expect("a lock that is not poisoned").expect("the counter was dropped");
        println!("{cores} cores: abandoned after {:.2} ms", took_ns / 1e6);
        assert!(took_ns < 1e9, "{cores} cores: abandoned after {took_ns} ns");
    }
}
