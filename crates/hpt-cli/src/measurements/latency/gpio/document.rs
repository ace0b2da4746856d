//! The rows of the `hpt latency gpio` document.

use hpt_document::gpio_latency::{GpioFigure, GpioLatencyRow};

use super::edge_figures::EdgeFigures;
use crate::sampling::latency_figures::figures;

/// Returns a row for each of the three latencies that has samples.
pub(super) fn rows(three: &EdgeFigures) -> Vec<GpioLatencyRow> {
    let row = |figure: GpioFigure| Some(GpioLatencyRow { figure, figures: figures(three.of(figure))? });
    GpioFigure::ALL.into_iter().filter_map(row).collect()
}
