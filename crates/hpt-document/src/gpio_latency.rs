//! `hpt latency gpio`: edge latency on GPIO lines.

use serde::{Deserialize, Serialize};

use crate::{
    gpio_line::GpioLine,
    head::Head,
    latency::{ClockReads, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    words::word_enum,
};

/// Latency from an edge on one GPIO line until a program that monitors another line detects it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency gpio: edge latency on GPIO lines"))]
pub struct GpioLatencyDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The output line.
    pub output_line: GpioLine,
    /// The input line.
    pub input_line: GpioLine,
    /// Whether the program waited for edges in the kernel or polled the line.
    pub listen: GpioListening,
    /// Time from one edge to the next.
    pub interval_ns: u64,
    /// The timeout: an edge with a higher latency counts as lost.
    pub timeout_ns: u64,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The overhead of reading the clock.
    #[serde(flatten)]
    pub reads: ClockReads,
    /// When the run started, and how long it took.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// Number of edges that did not arrive within the timeout.
    pub lost: u64,
    /// Number of edges that hpt did not generate, or that arrived after the timeout.
    pub unexpected: u64,
    /// Number of edges that did not fit into the kernel's buffer, determined from gaps in their sequence
    /// numbers.
    pub dropped: u64,
    /// Number of edges whose kernel timestamp is outside the readings around it. They count only in
    /// the end-to-end latency.
    pub out_of_window: u64,
    /// The latency that is written to files and compared with --stop-above.
    pub figure: GpioFigure,
    /// How the run ended.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// One row for each latency that has samples.
    pub results: Vec<GpioLatencyRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The distribution of one latency over all edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLatencyRow {
    /// The segment: from driving the line to the kernel's timestamp (output-to-IRQ), from that timestamp until the
    /// program has read the edge (IRQ-to-user), or both (end-to-end).
    pub figure: GpioFigure,
    /// The distribution of its latency.
    #[serde(flatten)]
    pub figures: LatencyFigures,
}

word_enum! {
    /// How a program detects edges.
    pub enum GpioListening {
        /// The program waits in the kernel.
        Poll = "poll",
        /// The program polls the line.
        Spin = "spin",
    }
}

word_enum! {
    /// A segment of an edge's path.
    pub enum GpioFigure {
        /// From driving the line to the kernel's timestamp: output-to-IRQ.
        OutputToIrq = "output-to-irq",
        /// From the timestamp until the program has read the edge: IRQ-to-user.
        IrqToUser = "irq-to-user",
        /// Both segments: end-to-end.
        EndToEnd = "end-to-end",
    }
}
