//! The three latencies of an edge (output-to-IRQ, IRQ-to-user, and end-to-end), and their counts.

use hpt_core::Instant;
use hpt_document::gpio_latency::GpioFigure;
use hpt_instrument::measure::{EdgeTimes, Latencies, Wake};
use hpt_sys::cast::signed;

use crate::sampling::raw_samples::RawSample;

/// Returns what a segment of an edge's path is, for the help.
pub(super) const fn figure_help(figure: GpioFigure) -> &'static str {
    match figure {
        GpioFigure::OutputToIrq => "From driving the line to the kernel's timestamp of the edge",
        GpioFigure::IrqToUser => "From the kernel's timestamp until the program has read the edge",
        GpioFigure::EndToEnd => "From driving the line until the program has read the edge",
    }
}

/// Returns the name of a segment in tables.
pub(super) const fn head(figure: GpioFigure) -> &'static str {
    match figure {
        GpioFigure::OutputToIrq => "output to IRQ",
        GpioFigure::IrqToUser => "IRQ to user",
        GpioFigure::EndToEnd => "end to end",
    }
}

/// Returns the time at which the latency begins, in nanoseconds.
pub(super) const fn start_of(figure: GpioFigure, times: &EdgeTimes) -> Option<u64> {
    match figure {
        GpioFigure::OutputToIrq | GpioFigure::EndToEnd => Some(times.driven_ns),
        GpioFigure::IrqToUser => times.detected_ns,
    }
}

pub(super) fn latency_of(figure: GpioFigure, times: &EdgeTimes) -> Option<u64> {
    match figure {
        GpioFigure::OutputToIrq => times.output_to_irq_ns(),
        GpioFigure::IrqToUser => times.irq_to_user_ns(),
        GpioFigure::EndToEnd => Some(times.end_to_end_ns()),
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
        Self { latencies: GpioFigure::ALL.map(|_| Latencies::new()), last: None }
    }

    pub(super) fn record(&mut self, sample: EdgeSample) {
        self.last = Some(sample.times);
        for (latencies, figure) in self.latencies.iter_mut().zip(GpioFigure::ALL) {
            if let Some(ns) = latency_of(figure, &sample.times) {
                let mut wake = Wake::new(Instant::from_nanos(signed(sample.times.driven_ns)), ns);
                wake.missed = sample.missed;
                latencies.record(wake);
            }
        }
    }

    pub(super) fn of(&self, figure: GpioFigure) -> &Latencies {
        let [output_to_irq, irq_to_user, end_to_end] = &self.latencies;
        match figure {
            GpioFigure::OutputToIrq => output_to_irq,
            GpioFigure::IrqToUser => irq_to_user,
            GpioFigure::EndToEnd => end_to_end,
        }
    }
}

impl EdgeFigures {
    /// Returns this latency of the latest edge, in nanoseconds.
    pub(super) fn last_ns(&self, figure: GpioFigure) -> Option<u64> {
        latency_of(figure, self.last.as_ref()?)
    }
}

impl RawSample for EdgeSample {
    fn text(&self) -> String {
        let figure =
            |figure: GpioFigure| latency_of(figure, &self.times).map_or_else(|| "-".to_owned(), |ns| ns.to_string());
        format!("{} {}", self.times.driven_ns, GpioFigure::ALL.map(figure).join(" "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use hpt_instrument::measure::EdgeTimes;

    use super::{EdgeFigures, EdgeSample, GpioFigure, start_of};
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
        let starts = |sample: &EdgeSample| GpioFigure::ALL.map(|figure| start_of(figure, &sample.times));
        let samples = samples();
        assert_eq!(starts(&samples[0]), [Some(1_000_000), Some(1_001_500), Some(1_000_000)]);
        assert_eq!(starts(&samples[2]), [Some(3_000_000), None, Some(3_000_000)]);
    }

    #[test]
    fn partial_and_total_latencies_are_counted_separately() {
        let mut three = EdgeFigures::new();
        samples().into_iter().for_each(|sample| three.record(sample));
        let counted = GpioFigure::ALL.map(|figure| (three.of(figure).histogram().samples(), three.of(figure).missed()));
        assert_eq!(counted, [(3, 0), (3, 0), (4, 1)]);
    }
}
