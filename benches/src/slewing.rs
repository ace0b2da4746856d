//! Slews the kernel's clock while others are compared with it, and detects whether another process
//! slews it.
//! Restores it at the end, after Ctrl-C, and when the program panics.

use std::{io, time::Duration};

use serde::Serialize;

use crate::bare::slewing;
pub use crate::bare::slewing::KernelClock;

/// The unit of a frequency in the kernel: 2^-16 ppm. adjtimex(2).
const PER_PPM: f64 = 65_536.0;
/// The kernel's limit in either direction: 500 ppm. adjtimex(2), `MAXFREQ` in kernel/time/ntp.c.
const LARGEST: i64 = 500 << 16;

impl KernelClock {
    /// Returns how this state differs from `planned`; `None` if it does not.
    #[must_use]
    pub fn differs_from(self, planned: Self) -> Option<String> {
        if self.frequency != planned.frequency {
            return Some(format!(
                "the kernel's frequency is {}, expected {} · 2^-16 ppm",
                self.frequency, planned.frequency
            ));
        }
        if self.tick_us != planned.tick_us {
            return Some(format!("the kernel's tick is {}, expected {} µs", self.tick_us, planned.tick_us));
        }
        (self.offset != 0).then(|| format!("the kernel is slewing an offset of {}", self.offset))
    }

    /// Returns this state, slewed by `ppm` within the kernel's limit.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "`as` saturates; the result is clamped")]
    pub fn bent_by(self, ppm: f64) -> Self {
        let more = (ppm * PER_PPM).round() as i64;
        Self { frequency: self.frequency.saturating_add(more).clamp(-LARGEST, LARGEST), ..self }
    }
}

/// A plan for slewing the kernel's clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// No change.
    Leave,
    /// A constant slew, in ppm.
    Slew(f64),
    /// A slew that alternates in sign.
    Jumps {
        /// The slew, in ppm.
        ppm: f64,
        /// The time between changes of sign, in seconds.
        seconds: u64,
    },
}

impl Plan {
    /// Returns the slew in ppm after `elapsed`.
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

/// The kernel's clock while a plan is active. Restored on drop.
#[derive(Debug)]
pub struct Bent {
    plan: Plan,
    before: KernelClock,
    planned: KernelClock,
}

impl Bent {
    /// Starts `plan`.
    ///
    /// # Errors
    ///
    /// Fails if the kernel does not allow its clock to be slewed or read.
    pub fn begin(plan: Plan) -> io::Result<Self> {
        let before = slewing::read()?;
        let mut bent = Self { plan, before, planned: before };
        bent.follow(Duration::ZERO)?;
        Ok(bent)
    }

    /// Applies the plan for `elapsed`. Returns a change that another process has made to the clock,
    /// if any.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the request.
    pub fn follow(&mut self, elapsed: Duration) -> io::Result<Option<String>> {
        let unplanned = slewing::read()?.differs_from(self.planned);
        let planned = self.before.bent_by(self.plan.ppm_after(elapsed));
        if self.plan != Plan::Leave && planned != self.planned {
            slewing::set(planned.frequency, planned.tick_us)?;
            self.planned = planned;
        }
        Ok(unplanned)
    }

    /// Returns the state before the plan.
    #[must_use]
    pub const fn before(&self) -> KernelClock {
        self.before
    }

    /// Restores the previous state, and returns the state after that.
    ///
    /// # Errors
    ///
    /// Fails if the kernel rejects the request.
    pub fn end(mut self) -> io::Result<KernelClock> {
        self.restore()?;
        slewing::read()
    }

    fn restore(&mut self) -> io::Result<()> {
        if self.planned != self.before {
            slewing::set(self.before.frequency, self.before.tick_us)?;
            self.planned = self.before;
        }
        Ok(())
    }
}

impl Drop for Bent {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            eprintln!("cannot restore the kernel's clock to {:?}: {error}", self.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bent, KernelClock, LARGEST, Plan};

    const AT_REST: KernelClock = KernelClock { frequency: 0, tick_us: 10_000, offset: 0, status: 64 };

    #[test]
    fn the_slew_is_clamped_to_the_kernels_limit() {
        assert_eq!(AT_REST.bent_by(12.5).frequency, 819_200);
        assert_eq!(AT_REST.bent_by(12.5).bent_by(500.0).frequency, LARGEST);
        assert_eq!(AT_REST.bent_by(-1e300), KernelClock { frequency: -LARGEST, ..AT_REST });
    }

    #[test]
    fn jumps_alternate_in_sign() {
        let plan = Plan::Jumps { ppm: 500.0, seconds: 10 };
        let ppm = [0, 9, 10, 19, 20].map(|seconds| plan.ppm_after(Duration::from_secs(seconds)));
        assert_eq!(ppm, [500.0, 500.0, -500.0, -500.0, 500.0]);
    }

    #[test]
    fn a_change_by_another_process_is_detected() {
        assert_eq!(AT_REST.differs_from(AT_REST), None);
        // Only the synchronization status differs.
        assert_eq!(KernelClock { status: 0, ..AT_REST }.differs_from(AT_REST), None);
        let others = [
            KernelClock { frequency: 1, ..AT_REST },
            KernelClock { tick_us: 9_999, ..AT_REST },
            KernelClock { offset: -3, ..AT_REST },
        ];
        assert!(others.iter().all(|other| other.differs_from(AT_REST).is_some()));
    }

    #[test]
    fn an_empty_plan_changes_nothing() {
        // A sandbox may deny even reading.
        if let Ok(bent) = Bent::begin(Plan::Leave) {
            let before = bent.before();
            let after = bent.end().expect("read before");
            assert_eq!((before.frequency, before.tick_us), (after.frequency, after.tick_us));
        }
    }
}
