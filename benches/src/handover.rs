//! Two who hand readings of a clock to each other, and see whether time goes backwards from one to the other.
//! Knows no clock and no thread: both come in.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

/// Turns of waiting after which it is asked whether to go on.
const PATIENCE: u32 = 1 << 16;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Player {
    /// Who begins.
    First,
    /// Who answers.
    Second,
}

/// What a player saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Readings that it handed over.
    pub handovers: u64,
    /// How many of them were below the reading that it had been handed.
    pub backward: u64,
    /// How far the worst of them was.
    pub worst_backward: u64,
}

impl Seen {
    /// Notes a reading that was taken after `handed` had been received.
    pub fn note(&mut self, handed: u64, reading: u64) {
        self.handovers += 1;
        if reading < handed {
            self.backward += 1;
            self.worst_backward = self.worst_backward.max(handed - reading);
        }
    }

    /// What both saw.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            handovers: self.handovers + other.handovers,
            backward: self.backward + other.backward,
            worst_backward: self.worst_backward.max(other.worst_backward),
        }
    }
}

/// Plays until `handovers` readings were handed over by this player, or until `keep_going` says no. `word` is zero in the beginning.
pub fn play(
    player: Player,
    word: &AtomicU64,
    handovers: u64,
    now: impl Fn() -> u64,
    mut keep_going: impl FnMut() -> bool,
) -> Seen {
    let mut seen = Seen::default();
    while seen.handovers < handovers {
        let mut turns = 0_u32;
        let handed = loop {
            match received(player, word.load(Ordering::Acquire)) {
                Some(handed) => break handed,
                None => spin_loop(),
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(PATIENCE) && !keep_going() {
                return seen;
            }
        };
        let reading = now();
        word.store(packed(player, reading), Ordering::Release);
        seen.note(handed, reading);
        if seen.handovers.is_multiple_of(u64::from(PATIENCE)) && !keep_going() {
            return seen;
        }
    }
    seen
}

/// A reading and whose it is, so that equal readings of the two differ. Readings have 63 bits: nanoseconds for 292 years.
const fn packed(player: Player, reading: u64) -> u64 {
    reading << 1 | matches!(player, Player::First) as u64
}

/// The reading that `player` was handed; `None` while it is its own.
const fn received(player: Player, word: u64) -> Option<u64> {
    let from_first = word & 1 == 1;
    if from_first == matches!(player, Player::First) { None } else { Some(word >> 1) }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };

    use proptest::prelude::{prop_assert_eq, proptest};

    use super::{Player, Seen, packed, play, received};

    #[test]
    fn a_clock_that_all_share_never_goes_back() {
        let (word, clock) = (AtomicU64::new(0), AtomicU64::new(0));
        // Repeats itself: equal readings are handed over too.
        let now = || clock.fetch_add(1, Ordering::SeqCst) / 3;
        let seen = thread::scope(|scope| {
            let second = scope.spawn(|| play(Player::Second, &word, 500, now, || true));
            play(Player::First, &word, 500, now, || true).and(second.join().expect("does not panic"))
        });
        assert_eq!(seen, Seen { handovers: 1000, backward: 0, worst_backward: 0 });
    }

    #[test]
    fn a_clock_that_lags_behind_is_found_out() {
        let word = AtomicU64::new(packed(Player::First, 1000));
        let seen = play(Player::Second, &word, 1, || 930, || true);
        assert_eq!(seen, Seen { handovers: 1, backward: 1, worst_backward: 70 });
    }

    #[test]
    fn who_is_left_alone_ends_when_told_to() {
        // The first may begin, and is never answered.
        let mut asked = 0;
        let keep_going = || {
            asked += 1;
            asked < 3
        };
        let seen = play(Player::First, &AtomicU64::new(0), 5, || 1, keep_going);
        assert_eq!((seen.handovers, asked), (1, 3));
    }

    proptest! {
        #[test]
        fn a_reading_reaches_the_other_and_not_its_owner(reading in 0_u64..1 << 63) {
            prop_assert_eq!(received(Player::Second, packed(Player::First, reading)), Some(reading));
            prop_assert_eq!(received(Player::First, packed(Player::Second, reading)), Some(reading));
            prop_assert_eq!(received(Player::First, packed(Player::First, reading)), None);
        }
    }
}
