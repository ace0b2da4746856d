//! The offset between the counters of two cores, derived from timestamps that are passed from one core to the other and
//! back. This module does not judge the offset; `diagnose` does.

use std::{
    io,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use hpt_core::source::TimeSource;
use hpt_sys::{
    process::CpuSet,
    units::{Frequency, Width},
};

/// The number of polls before a thread yields its CPU, in case the other thread is waiting for that CPU.
const POLLS: u32 = 2_000;
/// The number of yields after which the other thread is considered to have ended.
const MOST_YIELDS: u32 = 500;

/// One exchange of timestamps: a reading on the first CPU, a reading on the second CPU, and another reading on the
/// first CPU. Each reading is taken after the previous reading has been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The first reading, on the first CPU.
    pub sent: u64,
    /// The reading on the second CPU.
    pub remote: u64,
    /// The last reading, on the first CPU.
    pub returned: u64,
}

/// The two CPUs whose counters are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuPair {
    /// The CPU that sends the first timestamp.
    pub first: usize,
    /// The CPU that answers.
    pub second: usize,
}

/// The limits of the lead of the second CPU's counter over the first CPU's counter, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OffsetLimits {
    /// The lower limit, in ticks.
    pub least_ticks: i64,
    /// The upper limit, in ticks.
    pub most_ticks: i64,
}

/// The lead of the second CPU's counter over the first CPU's counter, as bounded by the timestamps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreOffset {
    /// The first CPU and the second CPU.
    pub cpus: CpuPair,
    /// The lower limit of the lead, in nanoseconds.
    pub least_ns: f64,
    /// The upper limit of the lead, in nanoseconds.
    pub most_ns: f64,
    /// The number of exchanges of timestamps.
    pub handovers: u64,
}

/// Returns the limits that `handovers` imply for the lead of the second CPU's counter, in ticks. They follow from the
/// order of the readings, because the second reading was taken between the other two. The limits hold as long as both
/// counters run at the same rate. Returns `None` if `handovers` is empty, or if no value satisfies all limits.
#[must_use]
pub fn offset_limits(handovers: &[Handover], width: Width) -> Option<OffsetLimits> {
    let least_ticks =
        handovers.iter().map(|handover| width.signed_difference(handover.returned, handover.remote)).max()?;
    let most_ticks = handovers.iter().map(|handover| width.signed_difference(handover.sent, handover.remote)).min()?;
    (least_ticks <= most_ticks).then_some(OffsetLimits { least_ticks, most_ticks })
}

/// Passes timestamps from `source` between two CPUs, either `rounds` times or until `check` returns
/// [`ControlFlow::Break`]. During that time, a thread runs on each CPU. Returns `None` if the timestamps implied no
/// limits, for example because one of the CPUs was always busy with other threads or went offline. If a CPU goes
/// offline, the kernel moves its thread to another CPU, and all timestamps are discarded.
///
/// # Errors
///
/// Returns the kernel's error if a thread is not allowed to run on its CPU or cannot be started.
pub fn core_offset(
    source: &(dyn TimeSource + Sync),
    frequency: Frequency,
    cpus: CpuPair,
    rounds: u32,
    check: &(dyn Fn() -> ControlFlow<()> + Sync),
) -> io::Result<Option<CoreOffset>> {
    over_channel(&Channel::new(MOST_YIELDS), source, frequency, cpus, (rounds, check))
}

/// Does what [`core_offset`] documents, over this channel.
#[expect(clippy::cast_precision_loss, reason = "offsets are far below 2^53 ticks")]
fn over_channel(
    channel: &Channel,
    source: &(dyn TimeSource + Sync),
    frequency: Frequency,
    cpus: CpuPair,
    (rounds, check): (u32, &(dyn Fn() -> ControlFlow<()> + Sync)),
) -> io::Result<Option<CoreOffset>> {
    let handovers = thread::scope(|scope| {
        // The asking thread is started second. If it cannot be started, the answering thread is ended.
        let answering = thread::Builder::new().spawn_scoped(scope, || {
            let answered = CpuSet::only(cpus.second).apply().map(|()| {
                channel.answer(source);
                is_pinned_to(cpus.second)
            });
            channel.over.store(true, Ordering::Release);
            answered
        })?;
        let asking = thread::Builder::new().spawn_scoped(scope, || {
            let asked = CpuSet::only(cpus.first).apply().map(|()| {
                let handovers = channel.ask(source, rounds, check);
                if is_pinned_to(cpus.first) { handovers } else { Vec::new() }
            });
            channel.over.store(true, Ordering::Release);
            asked
        });
        let asking = asking.inspect_err(|_| channel.over.store(true, Ordering::Release))?;
        let asked = asking.join().expect("the asking thread does not panic");
        let stayed = answering.join().expect("the answering thread does not panic")?;
        asked.map(|handovers| if stayed { handovers } else { Vec::new() })
    })?;
    let tick_ns = frequency.tick_ns_f64();
    Ok(offset_limits(&handovers, source.info().width).map(|limits| CoreOffset {
        cpus,
        least_ns: limits.least_ticks as f64 * tick_ns,
        // A counter keeps its value until the next tick, so the upper limit is one tick higher.
        most_ns: (limits.most_ticks as f64 + 1.0) * tick_ns,
        handovers: handovers.len() as u64,
    }))
}

/// Returns whether this thread is still pinned to `cpu`. The kernel does not restore an affinity that it has revoked,
/// so one check at the end is enough.
fn is_pinned_to(cpu: usize) -> bool {
    CpuSet::of_this_thread().is_ok_and(|set| set.cpus().eq([cpu]))
}

/// The state that the two threads share.
#[derive(Debug)]
struct Channel {
    /// The number of yields after which a thread considers the other one to have ended.
    most_yields: u32,
    /// The number of the latest request, starting at 1.
    asked: AtomicU64,
    /// The number of the latest request that was answered.
    answered: AtomicU64,
    seen: AtomicU64,
    over: AtomicBool,
}

impl Channel {
    const fn new(most_yields: u32) -> Self {
        Self {
            most_yields,
            asked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }

    fn ask(&self, source: &dyn TimeSource, rounds: u32, check: &dyn Fn() -> ControlFlow<()>) -> Vec<Handover> {
        let mut handovers = Vec::new();
        for number in 1..=u64::from(rounds) {
            // This reading is ordered after all preceding and before all following instructions.
            let left = source.ticks_end();
            self.asked.store(number, Ordering::Release);
            if !self.wait(|| self.answered.load(Ordering::Acquire) == number) {
                break;
            }
            let back = source.ticks_end();
            handovers.push(Handover { sent: left, remote: self.seen.load(Ordering::Relaxed), returned: back });
            if check().is_break() {
                break;
            }
        }
        handovers
    }

    fn answer(&self, source: &dyn TimeSource) {
        let mut answered = 0;
        while self.wait(|| self.asked.load(Ordering::Acquire) > answered) {
            let seen = source.ticks_end();
            answered = self.asked.load(Ordering::Relaxed);
            self.seen.store(seen, Ordering::Relaxed);
            self.answered.store(answered, Ordering::Release);
        }
    }

    /// Spins until `is_there` returns true; returns false if the other thread has ended.
    fn wait(&self, is_there: impl Fn() -> bool) -> bool {
        for _ in 0..self.most_yields {
            for _ in 0..POLLS {
                if is_there() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.over.load(Ordering::Acquire) {
                return is_there();
            }
            thread::yield_now();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow::Continue;

    use proptest::{
        collection::vec,
        prelude::{prop_assert, proptest},
    };

    use super::{Channel, CpuPair, Handover, offset_limits, over_channel};
    use hpt_core::{source::TimeSource, testing::ManualSource};
    use hpt_realtime::allowed_cpus;
    use hpt_sys::units::{Frequency, Width};

    #[test]
    fn without_handovers_there_are_no_limits() {
        assert_eq!(offset_limits(&[], Width::BITS_64), None);
    }

    #[test]
    fn contradictory_handovers_yield_no_limits() {
        let apart =
            [Handover { sent: 0, remote: 100, returned: 20 }, Handover { sent: 1_000, remote: 1_010, returned: 1_020 }];
        assert_eq!(offset_limits(&apart, Width::BITS_64), None);
    }

    #[test]
    fn a_counter_shared_by_all_cores_has_no_core_offset() {
        let cpus = allowed_cpus();
        let (Some(&first), Some(&second)) = (cpus.first(), cpus.last()) else {
            return skipped!("the kernel does not list the online CPUs");
        };
        // Each read advances it by one: the order of the readings is its time.
        let source = ManualSource::new("shared").with_step(1);
        // On a busy machine, a thread may wait for its CPU for longer than the other one yields.
        let patient = Channel::new(u32::MAX);
        let cpus = CpuPair { first, second };
        let found = over_channel(&patient, &source, Frequency::GIGAHERTZ, cpus, (50, &|| Continue(())));
        let found = found.expect("allowed CPUs").expect("both threads ran");
        assert!(found.least_ns <= 0.0 && found.most_ns >= 0.0 && found.handovers > 0, "{found:?}");
        assert!(source.ticks() >= 3 * found.handovers);
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_between_the_limits(offset in -100_000_i64..100_000, gaps in vec((1_u64..5_000, 1_u64..5_000, 1_u64..1_000), 1..30), start in 200_000_u64..u64::from(u32::MAX)) {
            let mut now = start;
            let handovers: Vec<Handover> = gaps.into_iter().map(|(there, back, pause)| {
                let left = now;
                let seen = (now + there).wrapping_add_signed(offset) & Width::BITS_32.mask();
                now += there + back;
                let handover = Handover { sent: left & Width::BITS_32.mask(), remote: seen, returned: now & Width::BITS_32.mask() };
                now += pause;
                handover
            }).collect();
            let limits = offset_limits(&handovers, Width::BITS_32).expect("they agree");
            prop_assert!(limits.least_ticks <= offset && offset <= limits.most_ticks, "{limits:?} {offset}");
            let first = offset_limits(&handovers[..1], Width::BITS_32).expect("one handover");
            prop_assert!(first.least_ticks <= limits.least_ticks && limits.most_ticks <= first.most_ticks);
        }
    }
}
