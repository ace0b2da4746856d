//! The rows of the `hpt latency gpio` document.

use hpt_document::gpio_latency::GpioLatencyRow;

use super::edge_figures::{EdgeFigures, Figure};
use crate::sampling::latency_figures::figures;

/// Returns a row for each of the three latencies that has samples.
pub(super) fn rows(three: &EdgeFigures) -> Vec<GpioLatencyRow> {
    let row = |figure: Figure| Some(GpioLatencyRow { figure: figure.word(), figures: figures(three.of(figure))? });
    Figure::ALL.into_iter().filter_map(row).collect()
}
