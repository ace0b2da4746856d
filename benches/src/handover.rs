//! Two players hand readings of a clock to each other, and detect whether time runs backwards
//! between them.
//! Independent of the clock and of threads, which are parameters.

use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

/// Iterations of waiting after which `keep_going` is called.
const PATIENCE: u32 = 1 << 16;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Player {
    /// The player that begins.
    First,
    /// The player that answers.
    Second,
}

/// The observations of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Number of readings that it handed over.
    pub handovers: u64,
    /// Number of those readings that were below the reading that it had received.
    pub backward: u64,
    /// The largest backward difference.
    pub worst_backward: u64,
}

impl Seen {
    /// Records a reading that was taken after `handed` was received.
    pub fn note(&mut self, handed: u64, reading: u64) {
        self.handovers += 1;
        if reading < handed {
            self.backward += 1;
            self.worst_backward = self.worst_backward.max(handed - reading);
        }
    }

    /// Combines the observations of both players.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            handovers: self.handovers + other.handovers,
            backward: self.backward + other.backward,
            worst_backward: self.worst_backward.max(other.worst_backward),
        }
    }
}

/// Plays until this player has handed over `handovers` readings, or until `keep_going` returns
/// false. `word` must be zero at the beginning.
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

/// Packs a reading with its player, so that equal readings of the two players differ. Readings have
/// 63
/// bits: nanoseconds for 292 years.
const fn packed(player: Player, reading: u64) -> u64 {
    reading << 1 | matches!(player, Player::First) as u64
}

/// Returns the reading that `player` received; `None` while the word contains its own reading.
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
    fn a_shared_clock_never_runs_backwards() {
        let (word, clock) = (AtomicU64::new(0), AtomicU64::new(0));
        // Repeats readings, so that equal readings are handed over, too.
        let now = || clock.fetch_add(1, Ordering::SeqCst) / 3;
        let seen = thread::scope(|scope| {
            let second = scope.spawn(|| play(Player::Second, &word, 500, now, || true));
            play(Player::First, &word, 500, now, || true).and(second.join().expect("does not panic"))
        });
        assert_eq!(seen, Seen { handovers: 1000, backward: 0, worst_backward: 0 });
    }

    #[test]
    fn a_clock_that_lags_is_detected() {
        let word = AtomicU64::new(packed(Player::First, 1000));
        let seen = play(Player::Second, &word, 1, || 930, || true);
        assert_eq!(seen, Seen { handovers: 1, backward: 1, worst_backward: 70 });
    }

    #[test]
    fn a_player_without_answers_ends_on_request() {
        // The first player begins, and never gets an answer.
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
        fn a_reading_reaches_only_the_other_player(reading in 0_u64..1 << 63) {
            prop_assert_eq!(received(Player::Second, packed(Player::First, reading)), Some(reading));
            prop_assert_eq!(received(Player::First, packed(Player::Second, reading)), Some(reading));
            prop_assert_eq!(received(Player::First, packed(Player::First, reading)), None);
        }
    }
}
