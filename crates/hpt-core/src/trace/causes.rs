//! The causes of all late samples of a run, added up in bounded memory. Divides nothing.

use super::part::{Doubt, Explained, PartKind};

/// The maximum number of causes.
const CAUSES: usize = 256;

/// A cause, with its share of the lateness of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CauseTotal {
    /// The kind.
    pub kind: PartKind,
    /// The name of the thread, of the interrupt handler or of the softirq.
    pub name: Option<String>,
    /// The number of the thread in the worst sample.
    pub pid: Option<i32>,
    /// Whether the thread belongs to the process that records.
    pub is_own: bool,
    /// Whether the thread belongs to the kernel; `None` if that is not known.
    pub is_kernel: Option<bool>,
    /// Whether the thread had a higher priority in the worst sample than /proc stated later.
    pub is_boosted: bool,
    /// The thread whose priority the thread inherited in the worst sample, with its number.
    pub inherits_from: Option<String>,
    /// Why no rule explains this time.
    pub doubt: Option<Doubt>,
    /// The number of the interrupt.
    pub irq: Option<i32>,
    /// The scheduling policy of the thread in the worst sample; `None` if it is not known.
    pub policy: Option<&'static str>,
    /// The real-time priority of the thread in the worst sample.
    pub priority: Option<u8>,
    /// The function of the kernel that the handler called.
    pub function: Option<String>,
    /// The idle state.
    pub idle_state: Option<u32>,
    /// The number of samples to which the cause contributed.
    pub samples: u64,
    /// The sum of its parts, in nanoseconds.
    pub total_ns: u64,
    /// Its largest contribution to one sample, in nanoseconds.
    pub worst_ns: u64,
}

impl CauseTotal {
    /// Creates a cause of this kind that contributed to no sample.
    #[must_use]
    pub const fn new(kind: PartKind) -> Self {
        Self {
            kind,
            name: None,
            pid: None,
            is_own: false,
            is_kernel: None,
            is_boosted: false,
            inherits_from: None,
            doubt: None,
            irq: None,
            policy: None,
            priority: None,
            function: None,
            idle_state: None,
            samples: 0,
            total_ns: 0,
            worst_ns: 0,
        }
    }
}

/// The causes so far.
#[derive(Debug, Default)]
pub(super) struct Causes(Vec<CauseTotal>);

impl Causes {
    pub(super) fn add(&mut self, explained: &Explained) {
        let mut of_sample: Vec<(usize, u64)> = Vec::new();
        for part in &explained.parts {
            let is_same = |cause: &CauseTotal| {
                (cause.kind, &cause.name, &cause.function, cause.is_own, cause.irq, cause.idle_state, cause.doubt)
                    == (part.kind, &part.name, &part.function, part.is_own, part.irq, part.idle_state, part.doubt)
            };
            let index = self.0.iter().position(is_same).or_else(|| {
                let is_room = self.0.len() < CAUSES;
                is_room.then(|| {
                    self.0.push(CauseTotal {
                        name: part.name.clone(),
                        pid: part.pid,
                        is_own: part.is_own,
                        is_kernel: part.is_kernel,
                        is_boosted: part.is_boosted,
                        inherits_from: part.inherits_from.clone(),
                        doubt: part.doubt,
                        irq: part.irq,
                        policy: part.policy,
                        priority: part.priority,
                        function: part.function.clone(),
                        idle_state: part.idle_state,
                        ..CauseTotal::new(part.kind)
                    });
                    self.0.len() - 1
                })
            });
            let Some(index) = index else { continue };
            match of_sample.iter_mut().find(|(other, _)| *other == index) {
                Some((_, duration_ns)) => *duration_ns += part.duration_ns,
                None => of_sample.push((index, part.duration_ns)),
            }
            let cause = &mut self.0[index];
            if part.duration_ns > cause.worst_ns {
                (cause.pid, cause.policy, cause.priority) = (part.pid, part.policy, part.priority);
                (cause.is_kernel, cause.is_boosted) = (part.is_kernel, part.is_boosted);
                cause.inherits_from.clone_from(&part.inherits_from);
            }
        }
        for (index, duration_ns) in of_sample {
            let cause = &mut self.0[index];
            cause.samples += 1;
            cause.total_ns = cause.total_ns.saturating_add(duration_ns);
            cause.worst_ns = cause.worst_ns.max(duration_ns);
        }
    }

    /// Returns the causes, largest first.
    pub(super) fn sorted(mut self) -> Vec<CauseTotal> {
        self.0.sort_by_key(|cause| std::cmp::Reverse(cause.total_ns));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CauseTotal, Causes};
    use crate::trace::part::{Explained, LateSample, Part, PartKind};

    fn sample(is_own: bool, pid: i32, duration_ns: u64) -> Explained {
        let part = Part {
            kind: PartKind::Thread,
            name: Some("hpt".to_owned()),
            pid: Some(pid),
            policy: Some("other"),
            priority: None,
            is_own,
            is_kernel: Some(false),
            is_boosted: false,
            inherits_from: None,
            doubt: None,
            after: None,
            irq: None,
            function: None,
            idle_state: None,
            count: 1,
            at_ns: 0,
            duration_ns,
            longest_ns: 0,
        };
        Explained {
            sample: LateSample::new((7, None), 0, duration_ns),
            cpu: None,
            is_complete: true,
            parts: vec![part],
            timeline: Vec::new(),
        }
    }

    #[test]
    fn threads_of_this_process_and_of_others_are_separate_causes_despite_the_same_name() {
        let mut causes = Causes::default();
        for (is_own, pid, duration_ns) in [(true, 8, 1_000), (false, 9, 30_000), (true, 8, 2_000)] {
            causes.add(&sample(is_own, pid, duration_ns));
        }
        let total = |is_own, pid, (samples, total_ns, worst_ns)| CauseTotal {
            name: Some("hpt".to_owned()),
            pid: Some(pid),
            is_own,
            is_kernel: Some(false),
            policy: Some("other"),
            samples,
            total_ns,
            worst_ns,
            ..CauseTotal::new(PartKind::Thread)
        };
        assert_eq!(causes.sorted(), [total(false, 9, (1, 30_000, 30_000)), total(true, 8, (2, 3_000, 2_000))]);
    }
}
