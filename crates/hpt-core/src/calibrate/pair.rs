//! Takes bracketed readings over a window and keeps the narrowest of each part of it.
//! Draws no line through them: `fit` does.

use crate::{
    scale::Scale,
    source::{Pair, TimeSource},
    stats::Steps,
    units::Width,
};

/// Parts of the window, each of which contributes its narrowest bracket. More would tighten the bound little: it rests on the ends.
const PARTS: u64 = 64;
/// Back-to-back reads that show a source's granularity.
const READS_FOR_STEPS: usize = 256;

/// The narrowest pairs of one source, gathered while a window passes.
#[derive(Debug)]
pub(super) struct Collector {
    width: Width,
    window_ns: u64,
    start_ns: Option<u64>,
    last_raw: u64,
    widened: u64,
    narrowest: Vec<Option<Pair>>,
    stepped_back: bool,
}

impl Collector {
    pub(super) fn new(width: Width, window_ns: u64) -> Self {
        let narrowest = (0..PARTS).map(|_| None).collect();
        Self { width, window_ns, start_ns: None, last_raw: 0, widened: 0, narrowest, stepped_back: false }
    }

    /// Takes note of a pair. Narrow counters are followed across wraps, so pairs must come more often than half a wrap.
    pub(super) fn offer(&mut self, pair: Pair) {
        let start_ns = match self.start_ns {
            Some(start_ns) => start_ns,
            None => {
                self.last_raw = pair.ticks;
                *self.start_ns.insert(pair.before_ns)
            }
        };
        let step = self.width.signed_difference(self.last_raw, pair.ticks);
        self.stepped_back |= step < 0;
        self.last_raw = pair.ticks;
        self.widened = self.widened.wrapping_add_signed(step);
        let elapsed = pair.before_ns.wrapping_sub(start_ns);
        let part = u128::from(elapsed) * u128::from(PARTS) / u128::from(self.window_ns.max(1));
        let part = usize::try_from(part).unwrap_or(usize::MAX).min(self.narrowest.len() - 1);
        let slot = &mut self.narrowest[part];
        if slot.is_none_or(|kept| pair.width_ns() < kept.width_ns()) {
            *slot = Some(Pair { ticks: self.widened, ..pair });
        }
    }

    /// The kept pairs in order of time.
    pub(super) fn pairs(&self) -> Vec<Pair> {
        self.narrowest.iter().flatten().copied().collect()
    }

    /// Whether any reading was smaller than the one before.
    pub(super) const fn stepped_back(&self) -> bool {
        self.stepped_back
    }
}

/// The smallest step that back-to-back reads show, in ticks: no reading lags further behind than this.
pub(super) fn smallest_step<S: TimeSource + ?Sized>(source: &S) -> u64 {
    let width = source.info().width;
    let mut steps = Steps::default();
    let mut previous = source.ticks_end();
    for _ in 0..READS_FOR_STEPS {
        let ticks = source.ticks_end();
        steps.record(width.difference(previous, ticks));
        previous = ticks;
    }
    steps.smallest_ticks().unwrap_or(1)
}

/// The reference's smallest step, in nanoseconds rounded up.
pub(super) fn smallest_step_ns<R: TimeSource + ?Sized>(reference: &R, scale: Scale) -> u64 {
    scale.nanoseconds(smallest_step(reference)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::{Collector, PARTS};
    use crate::{source::Pair, units::Width};

    #[test]
    fn each_part_of_the_window_keeps_its_narrowest_bracket() {
        let mut collector = Collector::new(Width::BITS_64, PARTS * 100);
        for (before_ns, width) in [(0, 9), (10, 5), (20, 7), (150, 8)] {
            collector.offer(Pair { before_ns, ticks: before_ns, after_ns: before_ns + width });
        }
        let kept: Vec<_> = collector.pairs().iter().map(|pair| (pair.before_ns, pair.width_ns())).collect();
        assert_eq!(kept, [(10, 5), (150, 8)]);
    }

    #[test]
    fn a_narrow_counter_is_followed_across_its_wrap() {
        let mut collector = Collector::new(Width::BITS_32, 1_000);
        for (before_ns, ticks) in [(0, 0xffff_fff0), (500, 0x10), (999, 0x30)] {
            collector.offer(Pair { before_ns, ticks, after_ns: before_ns });
        }
        let ticks: Vec<_> = collector.pairs().iter().map(|pair| pair.ticks).collect();
        assert_eq!((ticks, collector.stepped_back()), (vec![0, 0x20, 0x40], false));
    }

    #[test]
    fn a_step_back_is_noticed() {
        let mut collector = Collector::new(Width::BITS_64, 1_000);
        for ticks in [100, 90] {
            collector.offer(Pair { before_ns: 0, ticks, after_ns: 1 });
        }
        assert!(collector.stepped_back());
    }
}
