//! Decides when the stacks of large causes in the kernel are recorded: until each cause has some.

use super::part::{CauseKind, Explained, Part};

/// The maximum number of causes whose stacks are recorded, and the number of samples in which one is sought.
const CAUSES: usize = 16;
const TRIES: u32 = 20;
/// The number of stacks of a cause that are sufficient: some are those of a program.
const STACKS: u32 = 4;
/// The shortest time between two requests for stacks, in nanoseconds: the kernel waits for all CPUs at each change.
const INTERVAL_NS: u64 = 1_000_000_000;

/// A large cause in the kernel.
#[derive(Clone, Debug)]
struct WantedCause {
    kind: CauseKind,
    name: Option<String>,
    /// The number of further samples in which a stack is sought. One that has a stack counts several times.
    tries: u32,
}

/// A change of what is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Stacks are recorded from now on, up to the limit of the kernel's trigger.
    Begin,
    End,
}

/// The causes whose stacks are wanted.
#[derive(Debug, Default)]
pub(super) struct WantedStacks {
    causes: Vec<WantedCause>,
    /// The time since which stacks are recorded, in nanoseconds.
    since: Option<u64>,
}

impl WantedStacks {
    /// Returns how the recording is to be changed after this sample. `is_large` selects the parts that matter.
    pub(super) fn after(
        &mut self,
        explained: &Explained,
        is_large: impl Fn(&Part) -> bool,
        now: u64,
    ) -> Option<Change> {
        // A sample from before the request cannot have a stack.
        let is_recorded = self.since.is_some_and(|since| explained.sample.deadline_ns >= since);
        let mut is_missing = false;
        for part in explained.parts.iter().filter(|part| is_large(part)) {
            let is_same = |cause: &WantedCause| (cause.kind, &cause.name) == (part.kind, &part.name);
            if let Some(cause) = self.causes.iter_mut().find(|cause| is_same(cause)) {
                let cost = if part.addresses.stacks.is_empty() { 1 } else { TRIES / STACKS };
                cause.tries = cause.tries.saturating_sub(if is_recorded { cost } else { 0 });
                is_missing |= cause.tries > 0;
            } else if self.causes.len() < CAUSES {
                self.causes.push(WantedCause { kind: part.kind, name: part.name.clone(), tries: TRIES });
                is_missing = true;
            }
        }
        if is_missing && self.since.is_none_or(|since| now.saturating_sub(since) >= INTERVAL_NS) {
            self.since = Some(now);
            return Some(Change::Begin);
        }
        let is_complete = self.causes.iter().all(|cause| cause.tries == 0);
        (is_complete && self.since.take().is_some()).then_some(Change::End)
    }
}

#[cfg(test)]
mod tests {
    use super::{CAUSES, Change, INTERVAL_NS, STACKS, TRIES, WantedStacks};
    use crate::trace::{
        attribute::part,
        part::{CauseKind, Explained, LateSample, Part},
    };

    /// Returns a sample with one part of this thread, with a stack or without one.
    fn sample(deadline_ns: u64, name: &str, has_stack: bool) -> Explained {
        let mut part = Part { name: Some(name.to_owned()), ..part(CauseKind::NotPreemptible, 0) };
        part.addresses.stacks.extend(has_stack.then(|| vec![1]));
        let sample = LateSample::new((7, None), deadline_ns, 1_000);
        Explained { sample, cpu: None, is_complete: true, parts: vec![part], timeline: Vec::new() }
    }

    #[test]
    fn stacks_are_recorded_until_a_cause_has_enough() {
        let mut wanted = WantedStacks::default();
        let mut after = |deadline_ns, has_stack| wanted.after(&sample(deadline_ns, "a", has_stack), |_| true, 1_000);
        assert_eq!(after(900, false), Some(Change::Begin));
        // Samples from before the request, of which many are explained at once, do not count.
        assert!((0..10 * TRIES).all(|_| after(999, false).is_none()));
        assert!((1..STACKS).all(|_| after(1_001, true).is_none()));
        assert_eq!(after(1_001, true), Some(Change::End));
        // The cause is not sought again.
        assert_eq!((after(1_002, false), after(1_003, true)), (None, None));
    }

    #[test]
    fn stacks_that_do_not_occur_are_given_up() {
        let mut wanted = WantedStacks::default();
        let mut after = |now| wanted.after(&sample(now, "a", false), |_| true, now);
        assert_eq!(after(5), Some(Change::Begin));
        assert_eq!(after(6), None);
        // The kernel has caused as many as it was asked for.
        assert_eq!(after(5 + INTERVAL_NS), Some(Change::Begin));
        let changes: Vec<_> = (0..u64::from(TRIES)).filter_map(|more| after(6 + INTERVAL_NS + more)).collect();
        assert_eq!(changes, [Change::End]);
    }

    #[test]
    fn a_further_cause_begins_again_and_their_number_is_limited() {
        let mut wanted = WantedStacks::default();
        for index in 0..CAUSES as u64 {
            let name = index.to_string();
            assert_eq!(wanted.after(&sample(index, &name, false), |_| true, index), Some(Change::Begin), "{index}");
            let ends = (0..STACKS).filter_map(|_| wanted.after(&sample(index, &name, true), |_| true, index)).count();
            assert_eq!(ends, 1, "{index}");
        }
        assert_eq!(wanted.after(&sample(100, "more", false), |_| true, 100), None);
        assert_eq!(WantedStacks::default().after(&sample(1, "small", false), |_| false, 1), None);
    }
}
