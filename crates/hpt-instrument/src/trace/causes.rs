//! The causes of all late samples of a run, added up in bounded memory.

use super::{
    part::{Addresses, CauseKind, Doubt, Explained},
    symbols::Symbols,
};

/// The number of stacks of a cause that are kept, because those of a program contain no function of the kernel.
const STACKS: usize = 4;

/// The maximum number of causes.
const CAUSES: usize = 256;

/// A cause, with its share of the lateness of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CauseTotal {
    /// The kind.
    pub kind: CauseKind,
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
    /// The functions of the kernel in its largest part that has some, innermost first.
    pub stack: Vec<String>,
    /// The idle state.
    pub idle_state: Option<u32>,
    /// The number of samples to which the cause contributed.
    pub samples: u64,
    /// The sum of its parts, in nanoseconds.
    pub total_ns: u64,
    /// Its largest contribution to one sample, in nanoseconds.
    pub worst_ns: u64,
    /// Its functions, until they are named. Each stack belongs to a part that was the largest one so far.
    pub(super) addresses: Addresses,
}

impl CauseTotal {
    /// Creates a cause of this kind that contributed to no sample.
    #[must_use]
    pub fn new(kind: CauseKind) -> Self {
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
            stack: Vec::new(),
            idle_state: None,
            samples: 0,
            total_ns: 0,
            worst_ns: 0,
            addresses: Addresses::default(),
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
                let (of_cause, of_part) = (cause.addresses.function, part.addresses.function);
                (cause.kind, &cause.name, of_cause, cause.is_own, cause.irq, cause.idle_state, cause.doubt)
                    == (part.kind, &part.name, of_part, part.is_own, part.irq, part.idle_state, part.doubt)
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
                        addresses: Addresses { function: part.addresses.function, stacks: Vec::new() },
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
            if part.duration_ns > cause.worst_ns || cause.addresses.stacks.is_empty() {
                cause.addresses.stacks.splice(0..0, part.addresses.stacks.iter().cloned());
                cause.addresses.stacks.truncate(STACKS);
            }
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

    /// Names the functions in the causes and in these parts. Reads the kernel's list only if it is needed.
    pub(super) fn name_functions(&mut self, explained: &mut [Explained]) {
        let parts = || explained.iter().flat_map(|explained| &explained.parts).map(|part| &part.addresses);
        let mut all = parts().chain(self.0.iter().map(|cause| &cause.addresses));
        let is_needed = all.any(|addresses| *addresses != Addresses::default());
        let Some(symbols) = is_needed.then(Symbols::read).flatten() else { return };
        for cause in &mut self.0 {
            (cause.function, cause.stack) = named(&symbols, cause.kind, &cause.addresses);
        }
        for part in explained.iter_mut().flat_map(|explained| &mut explained.parts) {
            (part.function, part.stack) = named(&symbols, part.kind, &part.addresses);
        }
    }

    /// Returns the causes, largest first.
    pub(super) fn sorted(mut self) -> Vec<CauseTotal> {
        self.0.sort_by_key(|cause| std::cmp::Reverse(cause.total_ns));
        self.0
    }
}

/// Returns the names of a function, and of those in the first stack that contains some.
fn named(symbols: &Symbols, kind: CauseKind, addresses: &Addresses) -> (Option<String>, Vec<String>) {
    let names = |stack: &Vec<u64>| match kind {
        CauseKind::Blocked | CauseKind::PageFault => symbols.waits(stack),
        _ => symbols.interrupted(stack),
    };
    let stack = addresses.stacks.iter().map(names).find(|names| !names.is_empty());
    (addresses.function.and_then(|address| symbols.name(address)), stack.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{CauseTotal, Causes, named};
    use crate::trace::{
        part::{Addresses, CauseKind, Explained, LateSample, Part},
        symbols::{LIST, Symbols},
    };

    fn sample(is_own: bool, pid: i32, duration_ns: u64) -> Explained {
        let part = Part {
            kind: CauseKind::Thread,
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
            stack: Vec::new(),
            idle_state: None,
            count: 1,
            at_ns: 0,
            duration_ns,
            longest_ns: 0,
            addresses: Addresses::default(),
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
            ..CauseTotal::new(CauseKind::Thread)
        };
        assert_eq!(causes.sorted(), [total(false, 9, (1, 30_000, 30_000)), total(true, 8, (2, 3_000, 2_000))]);
    }

    #[test]
    fn a_cause_has_the_functions_of_its_largest_part_that_has_some() {
        let symbols = Symbols::parse(LIST).expect("addresses");
        let mut causes = Causes::default();
        // An interrupted program has only the functions of the interrupt.
        for (duration_ns, stack) in [
            (1_000, vec![0x5010, 0x1024, 0x2040]),
            (30_000, vec![0x5010, 0x1024, 0x3004]),
            (40_000, vec![0x5010, 0x1024]),
        ] {
            let mut sample = sample(false, 9, duration_ns);
            sample.parts[0].addresses.stacks = vec![stack];
            causes.add(&sample);
        }
        let cause = &causes.sorted()[0];
        let (function, stack) = named(&symbols, cause.kind, &cause.addresses);
        assert_eq!((function, stack.as_slice()), (None, &["do_work [driver]".to_owned()][..]));
        let called = Addresses { function: Some(0x2000), stacks: Vec::new() };
        assert_eq!(named(&symbols, CauseKind::HardInterrupt, &called), (Some("vfs_read".to_owned()), Vec::new()));
    }
}
