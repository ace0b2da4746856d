//! `hpt latency gpio`: edge latency on GPIO lines.

use serde::{Deserialize, Serialize};

use crate::{
    gpio_line::GpioLine,
    head::Head,
    latency::{ClockReads, LatencyFigures, LatencyRunEnd, LatencyRunTime, LatencyThread},
    words::word_enum,
};

/// How long an edge takes from one GPIO line to a program that watches another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "hpt latency gpio: edge latency on GPIO lines"))]
pub struct GpioLatencyDocument {
    /// The first keys of every document.
    #[serde(flatten)]
    pub head: Head,
    /// The line that was driven.
    pub out: GpioLine,
    /// The line that was watched.
    pub r#in: GpioLine,
    /// Whether the program waited for edges in the kernel, or read again and again.
    pub listen: GpioListening,
    /// Time from one edge to the next.
    pub interval_ns: u64,
    /// An edge that took longer counts as lost.
    pub timeout_ns: u64,
    /// The CPU it ran on; null if it was not pinned.
    pub cpu: Option<usize>,
    /// The measuring thread.
    #[serde(flatten)]
    pub measuring: LatencyThread,
    /// What reading the clock adds.
    #[serde(flatten)]
    pub reads: ClockReads,
    /// When the run started, and how long it took.
    #[serde(flatten)]
    pub time: LatencyRunTime,
    /// Edges that did not arrive in time.
    pub lost: u64,
    /// Edges that were not made, or arrived after they were given up.
    pub strange: u64,
    /// Edges that the kernel had no room to keep, judged by gaps in their numbers.
    pub dropped: u64,
    /// Edges with a timestamp outside of the readings around them; they count in the whole only.
    pub elsewhen: u64,
    /// The figure that is written to files and compared with --stop-above.
    pub figure: GpioFigure,
    /// How the run ended.
    #[serde(flatten)]
    pub end: LatencyRunEnd,
    /// One row for each figure that has samples.
    pub results: Vec<GpioLatencyRow>,
    /// What else to know about the result.
    pub notes: Vec<String>,
}

/// One figure of all edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GpioLatencyRow {
    /// The part of the way: from driving the line to the kernel's timestamp (output-to-IRQ), from
    /// there until the program has read it (IRQ-to-user), or both.
    pub figure: GpioFigure,
    /// How long edges took.
    #[serde(flatten)]
    pub figures: LatencyFigures,
}

word_enum! {
    /// How a program listens for edges.
    pub enum GpioListening {
        /// It waits in the kernel.
        Poll = "poll",
        /// It reads again and again.
        Spin = "spin",
    }
}

word_enum! {
    /// A part of an edge's way.
    pub enum GpioFigure {
        /// From driving the line to the kernel's timestamp: output-to-IRQ.
        SetToEdge = "set-to-edge",
        /// From there until the program has read it: IRQ-to-user.
        EdgeToProgram = "edge-to-program",
        /// Both.
        Whole = "whole",
    }
}
