//! The columns and the cells of quantiles in tables.

use hpt_document::quantiles::{QuantileList, Quantiles};

use super::{Align, Cell, Column, short_time};

/// Returns a column for each quantile of a list.
pub(crate) fn columns<L: QuantileList>() -> impl Iterator<Item = Column> {
    L::LIST.iter().map(|quantile| Column(quantile.name, Align::Right))
}

/// Returns a cell for each quantile.
pub(crate) fn cells<L: QuantileList>(quantiles: &Quantiles<L>) -> impl Iterator<Item = Cell> {
    quantiles.nanos().map(|(_, ns)| Cell::or_dash(ns.map(short_time)))
}
