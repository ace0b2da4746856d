//! How the kernel's clock is to be bent while others are held against it, and whether somebody else bends it.
//! Leaves it as it was: at the end, by Ctrl-C, and when the program panics.

use std::{io, time::Duration};

use serde::Serialize;

use crate::bare::slewing;
pub use crate::bare::slewing::KernelClock;

/// The unit of a frequency in the kernel: 2^-16 ppm. adjtimex(2).
const PER_PPM: f64 = 65_536.0;
/// The kernel takes no more, in either direction: 500 ppm. adjtimex(2), `MAXFREQ` of kernel/time/ntp.c.
const LARGEST: i64 = 500 << 16;

impl KernelClock {
    /// Why this is not what it was or what was planned; `None` where it is.
    #[must_use]
    pub fn differs_from(self, planned: Self) -> Option<String> {
        if self.frequency != planned.frequency {
            return Some(format!(
                "the kernel's frequency is {}, not {} · 2^-16 ppm",
                self.frequency, planned.frequency
            ));
        }
        if self.tick_us != planned.tick_us {
            return Some(format!("the kernel's tick is {}, not {} µs", self.tick_us, planned.tick_us));
        }
        (self.offset != 0).then(|| format!("the kernel is slewing an offset of {}", self.offset))
    }

    /// This, bent by `ppm` as far as the kernel takes it.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and what is too much is cut off")]
    pub fn bent_by(self, ppm: f64) -> Self {
        let more = (ppm * PER_PPM).round() as i64;
        Self { frequency: self.frequency.saturating_add(more).clamp(-LARGEST, LARGEST), ..self }
    }
}

/// How the kernel's clock is to be bent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// Not at all.
    Leave,
    /// By so many ppm all the time.
    Slew(f64),
    /// By so many ppm and as many the other way, in turns of a number of seconds.
    Jumps {
        /// How many.
        ppm: f64,
        /// How long a turn lasts.
        seconds: u64,
    },
}

impl Plan {
    /// By how many ppm after such a time.
    #[must_use]
    pub fn ppm_after(self, elapsed: Duration) -> f64 {
        match self {
            Self::Leave => 0.0,
            Self::Slew(ppm) => ppm,
            Self::Jumps { ppm, seconds } if (elapsed.as_secs() / seconds.max(1)).is_multiple_of(2) => ppm,
            Self::Jumps { ppm, .. } => -ppm,
        }
    }
}

/// The kernel's clock while a plan is followed; afterwards it is as before.
#[derive(Debug)]
pub struct Bent {
    plan: Plan,
    before: KernelClock,
    planned: KernelClock,
}

impl Bent {
    /// Begins to follow `plan`.
    ///
    /// # Errors
    ///
    /// When the kernel does not let its clock be bent, or be looked at.
    pub fn begin(plan: Plan) -> io::Result<Self> {
        let before = slewing::read()?;
        let mut bent = Self { plan, before, planned: before };
        bent.follow(Duration::ZERO)?;
        Ok(bent)
    }

    /// What is planned after `elapsed` comes into force. What somebody else did to the clock meanwhile, if anything.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn follow(&mut self, elapsed: Duration) -> io::Result<Option<String>> {
        let unplanned = slewing::read()?.differs_from(self.planned);
        let planned = self.before.bent_by(self.plan.ppm_after(elapsed));
        if self.plan != Plan::Leave && planned != self.planned {
            slewing::set(planned.frequency, planned.tick_us)?;
            self.planned = planned;
        }
        Ok(unplanned)
    }

    /// What the kernel did before.
    #[must_use]
    pub const fn before(&self) -> KernelClock {
        self.before
    }

    /// Puts back what was there, and says what is there now.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub fn end(mut self) -> io::Result<KernelClock> {
        self.put_back()?;
        slewing::read()
    }

    fn put_back(&mut self) -> io::Result<()> {
        if self.planned != self.before {
            slewing::set(self.before.frequency, self.before.tick_us)?;
            self.planned = self.before;
        }
        Ok(())
    }
}

impl Drop for Bent {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            eprintln!("the kernel's clock could not be put back to {:?}: {error}", self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bent, KernelClock, LARGEST, Plan};

    const AT_REST: KernelClock = KernelClock { frequency: 0, tick_us: 10_000, offset: 0, status: 64 };

    #[test]
    fn it_is_bent_no_further_than_the_kernel_takes() {
        assert_eq!(AT_REST.bent_by(12.5).frequency, 819_200);
        assert_eq!(AT_REST.bent_by(12.5).bent_by(500.0).frequency, LARGEST);
        assert_eq!(AT_REST.bent_by(-1e300), KernelClock { frequency: -LARGEST, ..AT_REST });
    }

    #[test]
    fn jumps_take_turns() {
        let plan = Plan::Jumps { ppm: 500.0, seconds: 10 };
        let ppm = [0, 9, 10, 19, 20].map(|seconds| plan.ppm_after(Duration::from_secs(seconds)));
        assert_eq!(ppm, [500.0, 500.0, -500.0, -500.0, 500.0]);
    }

    #[test]
    fn what_somebody_else_does_is_noticed() {
        assert_eq!(AT_REST.differs_from(AT_REST), None);
        // Only whether it is synchronised.
        assert_eq!(KernelClock { status: 0, ..AT_REST }.differs_from(AT_REST), None);
        let others = [
            KernelClock { frequency: 1, ..AT_REST },
            KernelClock { tick_us: 9_999, ..AT_REST },
            KernelClock { offset: -3, ..AT_REST },
        ];
        assert!(others.iter().all(|other| other.differs_from(AT_REST).is_some()));
    }

    #[test]
    fn who_only_looks_changes_nothing() {
        // A sandbox may refuse even that.
        if let Ok(bent) = Bent::begin(Plan::Leave) {
            let before = bent.before();
            let after = bent.end().expect("read before");
            assert_eq!((before.frequency, before.tick_us), (after.frequency, after.tick_us));
        }
    }
}
