//! The document of `hpt latency gpio`: edge latency on GPIO lines.

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    explain::Explanation,
    gpio_line::{GpioDrive, GpioLine, by_the_kernel},
    head::Head,
    latency::{ClockReads, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    limit::LimitRow,
    not_run::NotRun,
    words::word_enum,
};

/// The latency from an edge on one GPIO line to its detection by a program that monitors another line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency gpio: edge latency on GPIO lines"))]
pub struct GpioLatencyDocument {
    /// The keys at the start of the document: `schema`, `kind`, `hpt` and `machine`.
    #[serde(flatten)]
    pub head: Head,
    /// The output line, which hpt drives.
    pub output_line: GpioLine,
    /// The input line, on which hpt detects edges.
    pub input_line: GpioLine,
    /// The way in which the output line was driven. Documents without this key drove it through the kernel.
    #[serde(default = "by_the_kernel")]
    pub drive: GpioDrive,
    /// Whether the program waited for edges in the kernel or polled the line.
    pub listen: GpioListening,
    /// Time from one edge to the next, in nanoseconds.
    pub interval_ns: u64,
    /// The timeout, in nanoseconds. An edge with a higher latency counts as lost.
    pub timeout_ns: u64,
    /// The CPU that the thread was pinned to; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// The read overhead and the granularity of the clock.
    #[serde(flatten)]
    pub reads: ClockReads,
    /// The start and the duration of the run.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// Number of edges that did not arrive within the timeout.
    pub lost: u64,
    /// Number of edges that hpt did not generate, or that arrived after the timeout.
    pub unexpected: u64,
    /// Number of edges that the kernel dropped because its buffer was full, determined from gaps in the sequence
    /// numbers.
    pub dropped: u64,
    /// Number of edges whose kernel timestamp is not between the clock readings taken before and after the edge. These
    /// edges count only toward the end-to-end latency.
    pub out_of_window: u64,
    /// The segment whose latency is written to files and compared with --stop-above.
    pub figure: GpioFigure,
    /// The time during which the thread was ready to run, but did not run. The latencies include this time.
    /// The time of the warm-up counts, too.
    pub not_run: NotRun,
    /// The end of the run.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// The conditions during the measurement.
    #[serde(default)]
    pub conditions: Conditions,
    /// The causes of late samples, from the kernel's trace.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The limits of `--limit`, each with its verdict, in the order in which they were given.
    #[serde(default)]
    pub limits: Vec<LimitRow>,
    /// One row for each segment that has samples.
    pub results: Vec<GpioLatencyRow>,
    /// Further remarks on the result.
    pub notes: Vec<String>,
}

/// The latency distribution of one segment over all edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLatencyRow {
    /// The segment: from driving the output line to the kernel's timestamp (output-to-IRQ), from that timestamp until
    /// the program has read the edge (IRQ-to-user), or both (end-to-end).
    pub figure: GpioFigure,
    /// The latency distribution of the segment.
    #[serde(flatten)]
    pub figures: LatencyFigures,
}

word_enum! {
    /// The method by which a program detects edges.
    pub enum GpioListening {
        /// The program waits in the kernel.
        Poll = "poll",
        /// The program polls the line.
        Spin = "spin",
        /// The program reads the level of the pin from a register of the SoC. Edges have no timestamps of the kernel.
        Level = "level",
    }
}

word_enum! {
    /// A segment of an edge's path.
    pub enum GpioFigure {
        /// Output-to-IRQ: from driving the output line to the kernel's timestamp.
        OutputToIrq = "output-to-irq",
        /// IRQ-to-user: from the kernel's timestamp until the program has read the edge.
        IrqToUser = "irq-to-user",
        /// End-to-end: both segments.
        EndToEnd = "end-to-end",
    }
}
