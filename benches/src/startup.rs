//! The cost of the first reading in many new processes.
//! Pure: computes figures from lines of text, and starts no process.

use serde::Serialize;

use crate::tails::{Samples, Tails};

/// The result of one process for its first reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstReading {
    /// Time from `main` to the reading, in nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread during that time, in nanoseconds.
    pub cpu_ns: u64,
    /// CPU time of the process from its start to the reading, in nanoseconds.
    pub process_cpu_ns: u64,
    /// The distance of the reading from its bracket, in nanoseconds; `None` if the clock has its
    /// own epoch.
    pub off_ns: Option<u64>,
}

impl FirstReading {
    /// Parses the line that the process printed: three numbers, and a fourth or a hyphen. Returns
    /// `None` for any other line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (wall_ns, cpu_ns, process_cpu_ns) = (number()?, number()?, number()?);
        let off_ns = match words.next()? {
            "-" => None,
            number => Some(number.parse().ok()?),
        };
        words.next().is_none().then_some(Self { wall_ns, cpu_ns, process_cpu_ns, off_ns })
    }
}

/// Many first readings of one clock.
#[derive(Debug, Default)]
pub struct FirstReadings {
    wall: Samples,
    cpu: Samples,
    process_wall: Samples,
    process_cpu: Samples,
    off: Samples,
}

/// The figures of one clock.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartUp {
    /// The name of the clock.
    pub name: &'static str,
    /// Time from `main` to the first reading.
    pub wall: Option<Tails>,
    /// CPU time of the thread during that time.
    pub cpu: Option<Tails>,
    /// Time from the start of the process to its end, measured by its parent.
    pub process_wall: Option<Tails>,
    /// CPU time of the process until its first reading.
    pub process_cpu: Option<Tails>,
    /// Number of first readings inside their brackets, for clocks with the epoch of
    /// `CLOCK_MONOTONIC`.
    pub right: Option<u64>,
    /// The distances of those readings from their brackets.
    pub off: Option<Tails>,
}

impl FirstReadings {
    /// Adds a reading, with the time from the start of its process to its end.
    pub fn add(&mut self, reading: FirstReading, process_wall_ns: u64) {
        self.wall.add(reading.wall_ns);
        self.cpu.add(reading.cpu_ns);
        self.process_wall.add(process_wall_ns);
        self.process_cpu.add(reading.process_cpu_ns);
        if let Some(off_ns) = reading.off_ns {
            self.off.add(off_ns);
        }
    }

    /// Computes the figures.
    #[must_use]
    pub fn start_up(&self, name: &'static str) -> StartUp {
        let off = self.off.tails(1.0);
        StartUp {
            name,
            wall: self.wall.tails(1.0),
            cpu: self.cpu.tails(1.0),
            process_wall: self.process_wall.tails(1.0),
            process_cpu: self.process_cpu.tails(1.0),
            right: off.map(|_| self.off.zeros()),
            off,
        }
    }
}

impl StartUp {
    /// Returns whether every first reading was inside its bracket, if the clock has the epoch of
    /// `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.off.is_none_or(|off| self.right == Some(off.samples))
    }
}

#[cfg(test)]
mod tests {
    use super::{FirstReading, FirstReadings};

    #[test]
    fn a_line_is_three_numbers_and_a_fourth_or_a_hyphen() {
        let read = FirstReading::parse("900 800 700000 12\n").expect("whole");
        assert_eq!((read.wall_ns, read.cpu_ns, read.process_cpu_ns, read.off_ns), (900, 800, 700_000, Some(12)));
        assert_eq!(FirstReading::parse("1 2 3 -").map(|read| read.off_ns), Some(None));
        assert!(
            ["", "1 2 3", "1 2 3 4 5", "-1 2 3 -", "a panic"].iter().all(|line| FirstReading::parse(line).is_none())
        );
    }

    #[test]
    fn readings_outside_their_brackets_are_not_right() {
        let mut readings = FirstReadings::default();
        for line in ["1 1 1 0", "1 1 1 0", "3 1 1 250"] {
            readings.add(FirstReading::parse(line).expect("whole"), 1000);
        }
        let start_up = readings.start_up("it");
        assert_eq!((start_up.right, start_up.off.map(|off| off.worst_ns)), (Some(2), Some(250.0)));
        assert_eq!(start_up.wall.map(|wall| (wall.p50_ns, wall.worst_ns)), Some((1.0, 3.0)));
    }

    #[test]
    fn a_clock_with_its_own_epoch_is_neither_right_nor_wrong() {
        let mut readings = FirstReadings::default();
        readings.add(FirstReading::parse("1 1 1 -").expect("whole"), 1000);
        assert_eq!((readings.start_up("it").right, readings.start_up("it").off), (None, None));
    }
}
