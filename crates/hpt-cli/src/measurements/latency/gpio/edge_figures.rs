//! The three latencies of an edge (output-to-IRQ, IRQ-to-user, and end-to-end), and their counts.

use clap::ValueEnum;
use hpt_core::Instant;
use hpt_document::gpio_latency::GpioFigure;
use hpt_instrument::measure::{EdgeTimes, Latencies, Wake};
use serde::{Deserialize, Serialize};

use crate::sampling::raw_samples::RawSample;

/// A segment of an edge's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum EdgeFigure {
    /// From driving the line to the kernel's timestamp of the edge
    OutputToIrq,
    /// From the kernel's timestamp until the program has read the edge
    IrqToUser,
    /// From driving the line until the program has read the edge
    EndToEnd,
}

impl EdgeFigure {
    pub(super) const ALL: [Self; 3] = [Self::OutputToIrq, Self::IrqToUser, Self::EndToEnd];

    /// Returns the name of the segment in tables.
    pub(super) const fn head(self) -> &'static str {
        match self {
            Self::OutputToIrq => "output to IRQ",
            Self::IrqToUser => "IRQ to user",
            Self::EndToEnd => "end to end",
        }
    }

    /// Returns the name of the segment in documents.
    pub(super) const fn word(self) -> GpioFigure {
        match self {
            Self::OutputToIrq => GpioFigure::OutputToIrq,
            Self::IrqToUser => GpioFigure::IrqToUser,
            Self::EndToEnd => GpioFigure::EndToEnd,
        }
    }

    /// Returns the segment that has this name in documents.
    pub(super) const fn of_word(word: GpioFigure) -> Self {
        match word {
            GpioFigure::OutputToIrq => Self::OutputToIrq,
            GpioFigure::IrqToUser => Self::IrqToUser,
            GpioFigure::EndToEnd => Self::EndToEnd,
        }
    }

    /// Returns the time at which the latency begins, in nanoseconds.
    pub(super) const fn start(self, times: &EdgeTimes) -> Option<u64> {
        match self {
            Self::OutputToIrq | Self::EndToEnd => Some(times.driven_ns),
            Self::IrqToUser => times.detected_ns,
        }
    }

    pub(super) fn of(self, times: &EdgeTimes) -> Option<u64> {
        match self {
            Self::OutputToIrq => times.output_to_irq_ns(),
            Self::IrqToUser => times.irq_to_user_ns(),
            Self::EndToEnd => Some(times.end_to_end_ns()),
        }
    }
}

/// The three latencies of all edges, and the times of the latest edge.
#[derive(Clone, Debug)]
pub(super) struct EdgeFigures {
    latencies: [Latencies; 3],
    last: Option<EdgeTimes>,
}

/// An edge, and the number of deadlines that were skipped before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EdgeSample {
    pub(super) times: EdgeTimes,
    pub(super) missed: u64,
}

impl EdgeFigures {
    pub(super) fn new() -> Self {
        Self { latencies: EdgeFigure::ALL.map(|_| Latencies::new()), last: None }
    }

    pub(super) fn record(&mut self, sample: EdgeSample) {
        self.last = Some(sample.times);
        for (latencies, figure) in self.latencies.iter_mut().zip(EdgeFigure::ALL) {
            if let Some(ns) = figure.of(&sample.times) {
                let mut wake = Wake::new(Instant::from_nanos(sample.times.driven_ns.cast_signed()), ns);
                wake.missed = sample.missed;
                latencies.record(wake);
            }
        }
    }

    pub(super) fn of(&self, figure: EdgeFigure) -> &Latencies {
        let [output_to_irq, irq_to_user, end_to_end] = &self.latencies;
        match figure {
            EdgeFigure::OutputToIrq => output_to_irq,
            EdgeFigure::IrqToUser => irq_to_user,
            EdgeFigure::EndToEnd => end_to_end,
        }
    }
}

impl EdgeFigures {
    /// Returns this latency of the latest edge, in nanoseconds.
    pub(super) fn last_ns(&self, figure: EdgeFigure) -> Option<u64> {
        figure.of(self.last.as_ref()?)
    }
}

impl RawSample for EdgeSample {
    fn text(&self) -> String {
        let figure = |figure: EdgeFigure| figure.of(&self.times).map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        format!("{} {}", self.times.driven_ns, EdgeFigure::ALL.map(figure).join(" "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_instrument::measure::EdgeTimes;

    use super::{EdgeFigure, EdgeFigures, EdgeSample};
    use crate::sampling::raw_samples::RawSample;

    fn sample(driven_ns: u64, detected_ns: Option<u64>, read_ns: u64) -> EdgeSample {
        EdgeSample { times: EdgeTimes::new(driven_ns, detected_ns, read_ns), missed: u64::from(driven_ns == 3_000_000) }
    }

    pub(crate) fn samples() -> [EdgeSample; 4] {
        [
            sample(1_000_000, Some(1_001_500), 1_009_000),
            sample(2_000_000, Some(2_002_500), 2_010_400),
            sample(3_000_000, None, 3_012_000),
            sample(4_000_000, Some(4_001_000), 6_500_000),
        ]
    }

    #[test]
    fn every_edge_is_written_with_three_figures() {
        let text = samples().map(|sample| sample.text());
        assert_eq!(
            text,
            ["1000000 1500 7500 9000", "2000000 2500 7900 10400", "3000000 - - 12000", "4000000 1000 2499000 2500000"]
        );
    }

    #[test]
    fn each_latency_begins_where_the_one_before_it_ends() {
        let starts = |sample: &EdgeSample| EdgeFigure::ALL.map(|figure| figure.start(&sample.times));
        let samples = samples();
        assert_eq!(starts(&samples[0]), [Some(1_000_000), Some(1_001_500), Some(1_000_000)]);
        assert_eq!(starts(&samples[2]), [Some(3_000_000), None, Some(3_000_000)]);
    }

    #[test]
    fn partial_and_total_latencies_are_counted_separately() {
        let mut three = EdgeFigures::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let counted = EdgeFigure::ALL.map(|figure| (three.of(figure).histogram().samples(), three.of(figure).missed()));
        assert_eq!(counted, [(3, 0), (3, 0), (4, 1)]);
    }
}
