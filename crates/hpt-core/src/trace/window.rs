//! The recent events of one CPU, in bounded memory. Does not interpret the events.

use std::collections::VecDeque;

use super::{
    events::{Decoder, Event, What},
    ring,
};

/// The number of events that are searched for a thread.
const BACK: usize = 100_000;

/// The recent events of one CPU.
#[derive(Debug)]
pub(super) struct Window {
    events: VecDeque<Event>,
    /// The maximum number of events.
    most: usize,
    /// The number of lost events that the kernel counted.
    pub(super) lost: u64,
}

impl Window {
    pub(super) fn new(most: usize) -> Self {
        Self { events: VecDeque::new(), most: most.max(2), lost: 0 }
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
            self.push(Event { time: time.max(last), running: -1, what: What::Lost });
        }
        for event in added {
            let last = self.events.back().map_or(0, |event| event.time);
            self.push(Event { time: event.time.max(last), ..event });
        }
        if parsed.is_some_and(|page| !page.is_whole) {
            let last = self.events.back().map_or(time, |event| event.time);
            self.push(Event { time: last, running: -1, what: What::Lost });
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

    /// Returns the events up to `end`, from the last one of `thread` before `begin`.
    pub(super) fn around(&self, thread: i32, begin: u64, end: u64) -> impl Iterator<Item = &Event> + Clone {
        let (at, to) = (
            self.events.partition_point(|event| event.time < begin),
            self.events.partition_point(|event| event.time <= end),
        );
        let is_of_thread = |event: &Event| is_of(event, thread);
        let from = (at.saturating_sub(BACK)..at).rev().find(|&index| is_of_thread(&self.events[index]));
        let from = from.unwrap_or_else(|| at.saturating_sub(BACK));
        self.events.range(from..to.max(from))
    }

    /// Returns the time of the last event of `thread` not after `end`.
    pub(super) fn last_of(&self, thread: i32, end: u64) -> Option<u64> {
        let to = self.events.partition_point(|event| event.time <= end);
        self.events.range(..to).rev().take(BACK).find(|event| is_of(event, thread)).map(|event| event.time)
    }
}

/// Returns whether an event occurs while `thread` runs, or switches to it.
fn is_of(event: &Event, thread: i32) -> bool {
    event.running == thread || matches!(event.what, What::Switch { next, .. } if next == thread)
}
