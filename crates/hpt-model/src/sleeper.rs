//! A sleeper that is interrupted: the word of hpt-core, with a kernel made of a mutex. A thread that is never woken
//! stays in it forever, which the scheduler detects.

use std::{cell::Cell, sync::Arc};

use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use super::word::Word;

/// The word, and the kernel's list of threads that wait for it.
#[derive(Default)]
struct SleeperWorld {
    word: Word,
    waiting: Mutex<()>,
    woken: Condvar,
    /// Data that interrupters leave for the sleeper. Relaxed: only the word orders it.
    left: AtomicU32,
}

impl SleeperWorld {
    fn interrupt(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.word.set(|_| {
            let _list = self.waiting.lock().expect("no thread panics");
            self.woken.notify_all();
        });
    }

    /// Waits like futex(2): checks the word once the thread is on the list, so that no wake-up is lost in between.
    fn wait_in_the_kernel(&self, word: &AtomicU32) {
        let list = self.waiting.lock().expect("no thread panics");
        if word.load(Ordering::Relaxed) == 0 {
            drop(self.woken.wait(list).expect("no thread panics"));
        }
    }

    /// Blocks until an interruption.
    fn sleep_for_ever(&self) {
        self.word.until_set_or(|| false, |word| self.wait_in_the_kernel(word));
        assert!(self.word.take(), "only an interruption ends it");
    }

    /// Spins briefly until the deadline. Returns whether it was interrupted.
    fn sleep_for_a_moment(&self) -> bool {
        let mut looks = 0;
        let is_due = || {
            looks += 1;
            looks > 2
        };
        self.word.until_set_or(is_due, |_| thread::yield_now());
        self.word.take()
    }
}

/// Checks an interruption while two sleeps begin and end: it ends one of them, or is left for the next, and everything
/// done before it is visible.
pub fn one_interruption_ends_one_sleep() {
    loom::model(|| {
        let world = Arc::new(SleeperWorld::default());
        let other = Arc::clone(&world);
        let waker = thread::spawn(move || other.interrupt());
        let mut interrupted = 0;
        for _ in 0..2 {
            if world.sleep_for_a_moment() {
                interrupted += 1;
                assert_eq!(world.left.load(Ordering::Relaxed), 1, "data written before the interruption");
            }
        }
        waker.join().expect("a waker that does not panic");
        assert_eq!(interrupted + u32::from(world.word.take()), 1);
    });
}

/// Checks a sleep that only interruptions end, with two interrupters: it ends, and so does the next one if the second
/// interruption came later.
pub fn no_interruption_is_lost() {
    loom::model(|| {
        let world = Arc::new(SleeperWorld::default());
        let others = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.interrupt())
        });
        world.sleep_for_ever();
        for other in others {
            other.join().expect("a waker that does not panic");
        }
        if world.word.is_set() {
            world.sleep_for_ever();
        }
    });
}

/// Checks consecutive sleeps, each with its own interruption, which arrives before the sleep, at its start, or while it
/// is blocked: each interruption ends one sleep.
pub fn each_interruption_has_its_sleep() {
    loom::model(|| {
        let world = Arc::new(SleeperWorld::default());
        for _ in 0..2 {
            let other = Arc::clone(&world);
            let waker = thread::spawn(move || other.interrupt());
            world.sleep_for_ever();
            waker.join().expect("a waker that does not panic");
            assert!(!world.word.is_set(), "one was left over");
        }
    });
}

/// Checks a sleep of two stages with an interruption at any moment: before it, in the first block, in the second one, or
/// in between. The kernel's timer ends the first block unless the interruption does. Only the interruption ends the
/// second one.
pub fn an_interruption_in_any_stage_ends_the_sleep() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let world = Arc::new(SleeperWorld::default());
        let has_expired = Arc::new(AtomicU32::new(0));
        let (other, timer, clock) = (Arc::clone(&world), Arc::clone(&world), Arc::clone(&has_expired));
        let waker = thread::spawn(move || other.interrupt());
        let timer = thread::spawn(move || {
            let _list = timer.waiting.lock().expect("no thread panics");
            clock.store(1, Ordering::Relaxed);
            timer.woken.notify_all();
        });
        let is_over = || has_expired.load(Ordering::Relaxed) == 1;
        world.word.until_set_or(is_over, |word| {
            let list = world.waiting.lock().expect("no thread panics");
            // If the timer expired before the thread was on the list, the wait ends at once.
            if word.load(Ordering::Relaxed) == 0 && !is_over() {
                drop(world.woken.wait(list).expect("no thread panics"));
            }
        });
        world.sleep_for_ever();
        assert_eq!(world.left.load(Ordering::Relaxed), 1, "data written before the interruption");
        waker.join().expect("a waker that does not panic");
        timer.join().expect("a timer that does not panic");
        assert!(!world.word.is_set(), "one was left over");
    });
}

/// Checks a sleep whose only waker is dropped once it has interrupted: until the interruption has ended the sleep, the
/// sleeper never believes that nothing can interrupt it.
pub fn a_dropped_waker_is_not_forgotten() {
    loom::model(|| {
        let world = Arc::new(SleeperWorld::default());
        world.word.add_waker();
        let other = Arc::clone(&world);
        let interrupter = thread::spawn(move || {
            other.interrupt();
            other.word.remove_waker();
        });
        let believed = Cell::new(false);
        world.word.until_set_or(
            || believed.get(),
            |word| match world.word.is_out_of_reach() {
                true => believed.set(true),
                false => world.wait_in_the_kernel(word),
            },
        );
        assert!(!believed.get() && world.word.take(), "the interruption was pending or still to come");
        interrupter.join().expect("a waker that does not panic");
        assert!(world.word.is_out_of_reach());
    });
}
