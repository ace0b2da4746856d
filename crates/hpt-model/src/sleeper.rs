//! A sleeper that is interrupted: the word of hpt-core with a kernel made of a mutex, in which a thread that nobody wakes stays for ever, which the scheduler
//! notices.

use std::sync::Arc;

use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use super::word::Word;

/// The word, and the kernel's list of who waits for it.
#[derive(Default)]
struct World {
    word: Word,
    waiting: Mutex<()>,
    woken: Condvar,
    /// What interrupters leave for the sleeper. Relaxed: only the word orders it.
    left: AtomicU32,
}

impl World {
    fn interrupt(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
        self.word.set(|_| {
            let _list = self.waiting.lock().expect("nobody panics");
            self.woken.notify_all();
        });
    }

    /// As futex(2): looks at the word once it is on the list, so that no wake-up falls between the two.
    fn wait_in_the_kernel(&self, word: &AtomicU32) {
        let list = self.waiting.lock().expect("nobody panics");
        if word.load(Ordering::Relaxed) == 0 {
            drop(self.woken.wait(list).expect("nobody panics"));
        }
    }

    /// Until an interruption, parked.
    fn sleep_for_ever(&self) {
        self.word.until_set_or(|| false, |word| self.wait_in_the_kernel(word));
        assert!(self.word.take(), "nothing else ends it");
    }

    /// Spins a little, until the deadline comes. Whether it was interrupted.
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

/// An interruption while two sleeps begin and end: it ends one of them, or is left for the next, and what was done before it is seen.
pub fn one_interruption_ends_one_sleep() {
    loom::model(|| {
        let world = Arc::new(World::default());
        let other = Arc::clone(&world);
        let interrupter = thread::spawn(move || other.interrupt());
        let mut interrupted = 0;
        for _ in 0..2 {
            if world.sleep_for_a_moment() {
                interrupted += 1;
                assert_eq!(world.left.load(Ordering::Relaxed), 1, "what came before the interruption");
            }
        }
        interrupter.join().expect("it only interrupts");
        assert_eq!(interrupted + u32::from(world.word.take()), 1);
    });
}

/// A sleep that nothing else ends, and two who interrupt it: it ends, and so does the next one if the other came after that.
pub fn no_interruption_is_lost() {
    loom::model(|| {
        let world = Arc::new(World::default());
        let others = [(); 2].map(|()| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.interrupt())
        });
        world.sleep_for_ever();
        for other in others {
            other.join().expect("it only interrupts");
        }
        if world.word.is_set() {
            world.sleep_for_ever();
        }
    });
}

/// One sleep after the other, each with an interruption of its own that comes when it is about to begin, is parked, or not yet begun: each ends by one.
pub fn each_interruption_has_its_sleep() {
    loom::model(|| {
        let world = Arc::new(World::default());
        for _ in 0..2 {
            let other = Arc::clone(&world);
            let interrupter = thread::spawn(move || other.interrupt());
            world.sleep_for_ever();
            interrupter.join().expect("it only interrupts");
            assert!(!world.word.is_set(), "one was left over");
        }
    });
}
