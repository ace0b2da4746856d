//! The recent events of one CPU, in bounded memory.

use std::collections::VecDeque;

use super::{
    events::{Decoder, Event, What},
    ring,
};

/// The number of events that are searched for a thread.
const BACK: usize = 100_000;
/// The number of events that are searched for the switch to the thread, from its last event on.
const RUN: usize = 1_000;

/// The maximum number of wake-ups and inherited priorities that are kept.
const EFFECTS: usize = 10_000;

/// The recent events of one CPU.
#[derive(Debug)]
pub(super) struct EventWindow {
    events: VecDeque<Event>,
    /// The recent events that concern other CPUs: wake-ups of the watched threads, and inherited priorities.
    effects: VecDeque<Event>,
    /// The time up to which they were searched.
    seen: u64,
    /// The maximum number of events.
    most: usize,
    /// The number of lost events that the kernel counted.
    pub(super) lost: u64,
    /// The shortest time between two events, in nanoseconds: recording one takes no longer.
    pub(super) shortest_ns: u64,
}

impl EventWindow {
    pub(super) fn new(most: usize) -> Self {
        Self {
            events: VecDeque::new(),
            effects: VecDeque::new(),
            seen: 0,
            most: most.max(2),
            lost: 0,
            shortest_ns: u64::MAX,
        }
    }

    /// Adds the events of a page of the ring buffer. A page that contradicts the format counts as lost events.
    pub(super) fn add_page(&mut self, page: &[u8], decoder: &mut Decoder) {
        let begin = self.events.len();
        let mut added = Vec::new();
        let parsed = ring::parse(page, decoder.layout(), |time, content| added.extend(decoder.decode(time, content)));
        let last = self.events.back().map_or(0, |event| event.time);
        let (time, lost) = parsed.map_or((last, Some(None)), |page| (page.time, page.lost));
        if let Some(count) = lost {
            self.lost = self.lost.saturating_add(count.unwrap_or(1));
            // The gap begins after the last event before it, and ends with the first event of this page.
            let begin = self.events.back().map(|event| event.time);
            for time in begin.into_iter().chain([time.max(last)]) {
                self.push(Event { time, running: -1, flags: 0, what: What::Lost });
            }
        }
        for event in added {
            let last = self.events.back().map_or(0, |event| event.time);
            if event.time > last {
                self.shortest_ns = self.shortest_ns.min(event.time - last);
            }
            let time = event.time.max(last);
            if let What::NmiEnds { handler, length_ns } = event.what {
                let began = time.saturating_sub(length_ns).max(last);
                self.push(Event { time: began, what: What::NmiBegins(handler), ..event });
            }
            self.push(Event { time, ..event });
        }
        if parsed.is_some_and(|page| !page.is_whole) {
            let last = self.events.back().map_or(time, |event| event.time);
            self.push(Event { time: last, running: -1, flags: 0, what: What::Lost });
            self.lost = self.lost.saturating_add(1);
        }
        debug_assert!(self.events.len() <= self.most && begin <= self.most, "the memory is bounded");
    }

    fn push(&mut self, event: Event) {
        while self.events.len() >= self.most {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Keeps the events that concern other CPUs, of those since this was called last: wake-ups of these threads, and
    /// inherited priorities.
    pub(super) fn keep_effects(&mut self, watched: &[i32]) {
        let new = self.events.iter().rev().take_while(|event| event.time > self.seen);
        let is_effect = |event: &&Event| match event.what {
            What::Woken { thread, .. } => watched.contains(&thread),
            What::Inherits { .. } => true,
            _ => false,
        };
        let mut new: Vec<Event> = new.filter(is_effect).copied().collect();
        new.reverse();
        self.effects.extend(new);
        self.seen = self.events.back().map_or(0, |event| event.time);
        let excess = self.effects.len().saturating_sub(EFFECTS);
        self.effects.drain(..excess);
    }

    /// Returns the wake-ups of a thread and the inherited priorities in a period, as events of another CPU.
    pub(super) fn effects(&self, thread: i32, begin: u64, end: u64) -> impl Iterator<Item = Event> {
        let at = self.effects.partition_point(|event| event.time < begin);
        let effects = self.effects.range(at..).take_while(move |event| event.time <= end);
        effects.filter_map(move |event| match event.what {
            What::Inherits { .. } => Some(*event),
            What::Woken { thread: woken, priority } if woken == thread => {
                Some(Event { what: What::WokenElsewhere { thread, priority }, ..*event })
            }
            _ => None,
        })
    }

    /// Returns the events up to `end`, from the last switch to `thread` before `begin`, and the first event after them.
    pub(super) fn around(
        &self,
        thread: i32,
        begin: u64,
        end: u64,
    ) -> (impl Iterator<Item = &Event> + Clone, Option<&Event>) {
        let (at, to) = (
            self.events.partition_point(|event| event.time < begin),
            self.events.partition_point(|event| event.time <= end),
        );
        let first = at.saturating_sub(BACK);
        let last = (first..at).rev().find(|&index| is_of(&self.events[index], thread));
        let is_switch = |&index: &usize| switches_to(&self.events[index], thread);
        // The thread may have run for long before it was switched away from.
        let switch = last.and_then(|last| (last.saturating_sub(RUN).max(first)..=last).rev().find(is_switch));
        let from = switch.or(last).unwrap_or(first);
        (self.events.range(from..to.max(from)), self.events.get(to.max(from)))
    }

    /// Returns the time of the last event of `thread` not after `end`.
    pub(super) fn last_of(&self, thread: i32, end: u64) -> Option<u64> {
        let to = self.events.partition_point(|event| event.time <= end);
        self.events.range(..to).rev().take(BACK).find(|event| is_of(event, thread)).map(|event| event.time)
    }
}

/// Returns whether an event occurs while `thread` runs, or switches to it.
fn is_of(event: &Event, thread: i32) -> bool {
    // The stack of a thread that is switched away from follows the switch.
    !matches!(event.what, What::Stack(_)) && event.running == thread || switches_to(event, thread)
}

fn switches_to(event: &Event, thread: i32) -> bool {
    matches!(event.what, What::Switch { next, .. } if next == thread)
}
