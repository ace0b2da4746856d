//! The rows of the `hpt latency gpio` document.

use hpt_document::gpio_latency::GpioLatencyRow;

use super::edge_figures::{EdgeFigure, EdgeFigures};
use crate::sampling::latency_figures::figures;

/// Returns a row for each of the three latencies that has samples.
pub(super) fn rows(three: &EdgeFigures) -> Vec<GpioLatencyRow> {
    let row = |figure: EdgeFigure| Some(GpioLatencyRow { figure: figure.word(), figures: figures(three.of(figure))? });
    EdgeFigure::ALL.into_iter().filter_map(row).collect()
}
