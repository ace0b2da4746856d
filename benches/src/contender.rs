//! One who takes part in a race: a way to read time, read many times in a row by itself or with a fence behind every read.
//! Times nothing: `rounds` and the benches do.

use std::{fmt, hint::black_box, marker::PhantomData};

use serde::{Deserialize, Serialize};

use crate::bare::Fence;

/// On whose behalf a contender runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Nobody's: an instruction.
    Bare,
    /// This project's.
    Hpt,
    /// Another's.
    Rival,
}

/// What one read gives. Only those who give the same do the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// Steps of a counter, which somebody has yet to convert.
    Ticks,
    /// Time in nanoseconds, as one number.
    Nanoseconds,
    /// Time in seconds and nanoseconds.
    SecondsAndNanoseconds,
}

impl Gives {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Nanoseconds => "ns",
            Self::SecondsAndNanoseconds => "s + ns",
        }
    }
}

/// One who takes part.
pub struct Contender<'a> {
    /// Its name in tables.
    pub name: &'static str,
    /// On whose behalf it runs.
    pub group: Group,
    /// What a read gives.
    pub gives: Gives,
    batch: Box<dyn Batch + 'a>,
}

/// One who takes part in a race of intervals: a way to read, and a way to tell how long ago that was.
pub struct Pair<'a> {
    /// Its name in tables.
    pub name: String,
    /// On whose behalf it runs.
    pub group: Group,
    /// What the interval is given in.
    pub gives: Gives,
    batch: Box<dyn Fn(u64, Fence) + 'a>,
}

impl<'a> Pair<'a> {
    /// A pair that begins by `now` and ends by `elapsed`. The beginning stays in registers, as it does in a program; the interval is
    /// handed to [`black_box`], for all alike.
    pub fn new<S: 'a, E: 'a>(
        name: impl Into<String>,
        group: Group,
        gives: Gives,
        now: impl Fn() -> S + 'a,
        elapsed: impl Fn(S) -> E + 'a,
    ) -> Self {
        let batch = move |pairs, fence: Fence| {
            for _ in 0..pairs {
                let start = now();
                fence.wait();
                black_box(elapsed(start));
                fence.wait();
            }
        };
        Self { name: name.into(), group, gives, batch: Box::new(batch) }
    }

    /// Runs `pairs` pairs, with the fence behind each of their reads.
    pub fn run(&self, pairs: u64, fence: Fence) {
        (self.batch)(pairs, fence);
    }
}

impl fmt::Debug for Pair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("name", &self.name).field("gives", &self.gives).finish_non_exhaustive()
    }
}

/// One who does not take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Who.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl<'a> Contender<'a> {
    /// A contender that reads by `read`. Every batch is compiled for it alone; what a read gives is handed to [`black_box`], for all alike.
    pub fn new<T: 'a>(name: &'static str, group: Group, gives: Gives, read: impl Fn() -> T + 'a) -> Self {
        Self { name, group, gives, batch: Box::new(Reader { read, gives: PhantomData }) }
    }

    /// Reads `reads` times, each as soon as the processor likes.
    pub fn read_in_a_row(&self, reads: u64) {
        self.batch.in_a_row(reads);
    }

    /// Reads `reads` times, with the fence behind each: no read begins before the result of the one before is there.
    pub fn read_fenced(&self, reads: u64, fence: Fence) {
        self.batch.fenced(reads, fence);
    }
}

impl fmt::Debug for Contender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("name", &self.name)
            .field("group", &self.group)
            .field("gives", &self.gives)
            .finish_non_exhaustive()
    }
}

/// A loop over one way to read. Called once a batch, so that the call is not in the figures. Not unrolled: the compiler would unroll the
/// short reads and not the long ones.
trait Batch {
    fn in_a_row(&self, reads: u64);
    fn fenced(&self, reads: u64, fence: Fence);
}

struct Reader<F, T> {
    read: F,
    gives: PhantomData<fn() -> T>,
}

impl<T, F: Fn() -> T> Batch for Reader<F, T> {
    fn in_a_row(&self, reads: u64) {
        for _ in 0..reads {
            black_box((self.read)());
        }
    }

    fn fenced(&self, reads: u64, fence: Fence) {
        for _ in 0..reads {
            black_box((self.read)());
            fence.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Contender, Gives, Group};
    use crate::bare::Fence;

    #[test]
    fn a_batch_reads_as_often_as_it_is_told() {
        let reads = Cell::new(0);
        let contender = Contender::new("by hand", Group::Bare, Gives::Ticks, || reads.replace(reads.get() + 1));
        contender.read_in_a_row(7);
        assert_eq!(reads.get(), 7);
        if let Some(fence) = Fence::detect() {
            contender.read_fenced(5, fence);
            assert_eq!(reads.get(), 12);
        }
    }
}
