//! A contender: a way to read time, which is read many times back to back or with a fence after
//! every read.
//! Does not time reads: `rounds` and the benches do.

use std::{fmt, hint::black_box, marker::PhantomData};

use serde::{Deserialize, Serialize};

use crate::bare::Fence;

/// The group of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// A bare instruction.
    Bare,
    /// Part of this project.
    Hpt,
    /// A competitor.
    Rival,
}

/// The unit of a reading. Only contenders with the same unit do the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Gives {
    /// Ticks of a counter, which must still be converted.
    Ticks,
    /// Time in nanoseconds, as one number.
    Nanoseconds,
    /// Time in seconds and nanoseconds.
    SecondsAndNanoseconds,
}

impl Gives {
    /// Returns its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Nanoseconds => "ns",
            Self::SecondsAndNanoseconds => "s + ns",
        }
    }
}

/// A way to read time.
pub struct Contender<'a> {
    /// Its name in tables.
    pub name: &'static str,
    /// Its group.
    pub group: Group,
    /// The unit of a reading.
    pub gives: Gives,
    batch: Box<dyn Batch + 'a>,
}

/// A way to measure an interval: a way to read, and a way to compute the elapsed time.
pub struct Pair<'a> {
    /// Its name in tables.
    pub name: String,
    /// Its group.
    pub group: Group,
    /// The unit of the interval.
    pub gives: Gives,
    batch: Box<dyn Fn(u64, Fence) + 'a>,
}

impl<'a> Pair<'a> {
    /// Creates a pair that begins with `now` and ends with `elapsed`. The first reading stays in
    /// registers, as in a program. The interval is passed to [`black_box`], for every pair alike.
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

    /// Runs `pairs` pairs, with the fence after each of their reads.
    pub fn run(&self, pairs: u64, fence: Fence) {
        (self.batch)(pairs, fence);
    }
}

impl fmt::Debug for Pair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("name", &self.name).field("gives", &self.gives).finish_non_exhaustive()
    }
}

/// A contender that is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

impl<'a> Contender<'a> {
    /// Creates a contender that reads with `read`. Its batches are compiled separately. Each
    /// reading is passed to [`black_box`], for every contender alike.
    pub fn new<T: 'a>(name: &'static str, group: Group, gives: Gives, read: impl Fn() -> T + 'a) -> Self {
        Self { name, group, gives, batch: Box::new(Reader { read, gives: PhantomData }) }
    }

    /// Reads `reads` times back to back, as soon as the processor can.
    pub fn read_in_a_row(&self, reads: u64) {
        self.batch.in_a_row(reads);
    }

    /// Reads `reads` times with the fence after each: no read begins before the previous result is
    /// available.
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

/// A loop over one way to read. Called once per batch, so that the call does not affect the
/// figures. Not unrolled manually, because the compiler would unroll short reads but not long ones.
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
    fn a_batch_makes_the_requested_number_of_reads() {
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
